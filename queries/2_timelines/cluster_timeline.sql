-- title: Failed GPUs and dirty domains of the pool over time
-- grain: placement seed x interval; a gap-free cover of the window
-- reads: domain_steps
-- units: failed_gpus in GPUs, dirty_domains in domains; times UTC, [t_start, t_end)
-- source: model.md section 3
-- caveat: unplaced nodes are outside the pool; node counts of the whole trace come from `outages`.
with

domain_steps as (
    select * from domain_steps
),

changes as (
    select
        scenario,
        placement_seed,
        t_us,
        sum(change)::bigint as change,
        sum(
            case
                when failed_gpus > 0 and failed_gpus - change = 0 then 1
                when failed_gpus = 0 and change < 0 then -1
                else 0
            end
        )::bigint as dirty_change,
    from domain_steps
    group by scenario, placement_seed, t_us
),

summed as (
    select
        scenario,
        placement_seed,
        t_us,
        (sum(change) over seed)::bigint as failed_gpus,
        (sum(dirty_change) over seed)::bigint as dirty_domains,
        coalesce(lead(t_us) over (partition by placement_seed order by t_us), $window_us) as next_us,
    from changes
    window seed as (partition by placement_seed order by t_us rows unbounded preceding)
),

stamped as (
    select
        scenario,
        placement_seed,
        make_timestamp(epoch_us($window_start::timestamp) + t_us) as t_start,
        make_timestamp(epoch_us($window_start::timestamp) + next_us) as t_end,
        failed_gpus,
        dirty_domains,
    from summed
)

select * from stamped
order by placement_seed, t_start
