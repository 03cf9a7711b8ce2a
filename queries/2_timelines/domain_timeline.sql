-- title: Failed GPUs of each domain over time
-- grain: placement seed x domain x interval; a gap-free cover of the window for every domain
-- reads: domain_steps
-- units: failed_gpus in GPUs; times UTC, [t_start, t_end)
-- source: model.md section 3
-- caveat: domains that never fail are there too, with one row.
with

domain_steps as (
    select * from domain_steps
),

spans as (
    select
        *,
        coalesce(
            lead(t_us) over (partition by placement_seed, domain_id order by t_us), $window_us
        ) as next_us,
    from domain_steps
),

stamped as (
    select
        scenario,
        placement_seed,
        domain_id,
        make_timestamp(epoch_us($window_start::timestamp) + t_us) as t_start,
        make_timestamp(epoch_us($window_start::timestamp) + next_us) as t_end,
        failed_gpus,
    from spans
)

select * from stamped
order by placement_seed, domain_id, t_start
