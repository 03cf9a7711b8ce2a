-- title: Every domain's timeline covers the window without gap or overlap
-- grain: one row per broken step
-- reads: domain_timeline
-- units: times UTC
-- source: model.md section 3
-- caveat: compares each interval's start with the end before it.
with

domain_timeline as (
    select * from domain_timeline
),

neighbours as (
    select
        *,
        lag(t_end) over domain as end_before,
        lead(t_start) over domain as start_after,
    from domain_timeline
    window domain as (partition by placement_seed, domain_id order by t_start)
)

select * from neighbours
where
    t_end <= t_start
    or t_start <> coalesce(end_before, $window_start::timestamp)
    or (start_after is null and t_end <> $window_end::timestamp)
