-- title: Domains with at least k failed GPUs over time (the tail counts C_k)
-- grain: placement seed x k x interval; a gap-free cover of the window for every k from 1 to the largest seen
-- reads: domain_steps
-- units: k in GPUs, domains_with_at_least_k in domains; times UTC, [t_start, t_end)
-- source: model.md section 3; sections 4 to 6 follow from C_k for packed jobs
-- caveat: each k has intervals of its own; join two values of k on overlap, not on t_start.
with

domain_steps as (
    select * from domain_steps
),

crossings as (
    select
        scenario,
        placement_seed,
        t_us,
        unnest(
            range(least(failed_gpus, failed_gpus - change) + 1, greatest(failed_gpus, failed_gpus - change) + 1)
        ) as k,
        sign(change)::bigint as change,
    from domain_steps
    where change <> 0
),

starts as (
    select distinct scenario, placement_seed, 0 as t_us, k, 0 as change
    from crossings
),

net as (
    select scenario, placement_seed, k, t_us, sum(change)::bigint as change
    from (select * from crossings union all by name select * from starts)
    group by scenario, placement_seed, k, t_us
    having t_us = 0 or sum(change) <> 0
),

summed as (
    select
        *,
        (sum(change) over tail)::bigint as domains_with_at_least_k,
        coalesce(lead(t_us) over (partition by placement_seed, k order by t_us), $window_us) as next_us,
    from net
    window tail as (partition by placement_seed, k order by t_us rows unbounded preceding)
),

stamped as (
    select
        scenario,
        placement_seed,
        make_timestamp(epoch_us($window_start::timestamp) + t_us) as t_start,
        make_timestamp(epoch_us($window_start::timestamp) + next_us) as t_end,
        k,
        domains_with_at_least_k,
    from summed
)

select * from stamped
order by placement_seed, k, t_start
