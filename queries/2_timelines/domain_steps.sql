-- title: Instants at which the number of failed GPUs of a domain changes
-- grain: placement seed x domain x instant
-- reads: downtime_us, placements
-- units: t_us is microseconds since the window's start
-- source: derived; a running sum over the net changes of each instant
-- caveat: all changes of one instant are added first, so a repair and a failure at the same instant
--   make no step. Every domain of the pool has a step at 0, failed or not.
with

downtime_us as (
    select * from downtime_us
),

domains as (
    select distinct scenario, placement_seed, domain_id from placements where domain_id is not null
),

changes as (
    select
        scenario, placement_seed, domain_id, t_start_us as t_us, gpu_last - gpu_first + 1 as change,
    from downtime_us
    union all
    select
        scenario, placement_seed, domain_id, t_end_us as t_us, gpu_first - gpu_last - 1 as change,
    from downtime_us
    union all
    select scenario, placement_seed, domain_id, 0 as t_us, 0 as change
    from domains
),

net as (
    select scenario, placement_seed, domain_id, t_us, sum(change)::bigint as change
    from changes
    group by scenario, placement_seed, domain_id, t_us
    having t_us = 0 or sum(change) <> 0
),

-- Each closed interval nets zero, so one running sum over all domains in order is right in each of
-- them, and a window without partition over an ordered subquery streams.
summed as (
    select
        *,
        (sum(change) over (rows unbounded preceding))::bigint as failed_gpus,
    from (select * from net order by placement_seed, domain_id, t_us)
)

select scenario, placement_seed, domain_id, t_us, change, failed_gpus
from summed
where t_us < $window_us
order by placement_seed, domain_id, t_us
