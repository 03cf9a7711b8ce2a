-- title: Union of outages per GPU range, in microseconds of the window
-- grain: placement seed x domain x GPU range x interval
-- reads: segment_outages
-- units: t_start_us, t_end_us are microseconds since the window's start, [t_start, t_end)
-- source: model.md section 1 (downtime) and section 3
-- caveat: abutting outages are one; zero-length outages take no time and are left to the onsets. Of equal
--   outages the one that begins an island comes first: two windows may sort what ties in two ways.
with

covered as (
    select * from segment_outages where t_end_us > t_start_us
),

reached as (
    select
        *,
        max(t_end_us) over (
            partition by placement_seed, domain_id, gpu_first
            order by t_start_us, t_end_us
            rows between unbounded preceding and 1 preceding
        ) as reached_us,
    from covered
),

islands as (
    select
        *,
        (sum(case when reached_us is null or t_start_us > reached_us then 1 else 0 end) over (
            partition by placement_seed, domain_id, gpu_first
            order by t_start_us, t_end_us, reached_us nulls first
            rows unbounded preceding
        ))::bigint as island,
    from reached
),

merged as (
    select
        scenario,
        placement_seed,
        domain_id,
        gpu_first,
        gpu_last,
        min(t_start_us) as t_start_us,
        max(t_end_us) as t_end_us,
    from islands
    group by scenario, placement_seed, domain_id, gpu_first, gpu_last, island
)

select * from merged
order by placement_seed, t_start_us, domain_id, gpu_first
