-- title: Every policy's states cover the window without gap or overlap
-- grain: one row per broken step
-- reads: outcome_timeline
-- units: times UTC
-- source: model.md section 7: a job is in exactly one state
-- caveat: compares each interval's start with the end before it.
with

outcome_timeline as (
    select * from outcome_timeline
),

neighbours as (
    select
        *,
        lag(t_end) over states as end_before,
        lead(t_start) over states as start_after,
    from outcome_timeline
    window states as (partition by policy, placement_seed order by t_start)
)

select * from neighbours
where
    t_end <= t_start
    or t_start <> coalesce(end_before, $window_start::timestamp)
    or (start_after is null and t_end <> $window_end::timestamp)
