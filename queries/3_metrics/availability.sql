-- title: How often a domain of a given size is clean
-- grain: one row
-- reads: gpu_downtime, cluster_timeline, scenario_window
-- units: fractions of time; mean, lowest and highest over placements
-- source: model.md section 6: the closed form (1 - f)^G takes GPUs as independent
-- caveat: for a size other than the scenario's own, the pool's GPUs are cut into blocks of that size in the
--   order they lie; a remainder is left out. Nodes fail as a whole, so clean_frac lies above the closed form.
with

gpu_downtime as (
    select * from gpu_downtime where scenario = $scenario
),

bounds as (
    select
        *,
        pool_gpus // nullif(pool_domains, 0) as own_size,
        pool_gpus // $domain_size as blocks,
    from scenario_window($scenario)
),

on_pool as (
    select
        placement_seed,
        domain_id * own_size + gpu_first as gpu_first,
        domain_id * own_size + gpu_last as gpu_last,
        gpu_downtime.t_start,
        gpu_downtime.t_end,
        blocks,
    from gpu_downtime
    cross join bounds
),

seeds as (
    select distinct placement_seed from cluster_timeline where scenario = $scenario
),

in_blocks as (
    select *, unnest(range(gpu_first // $domain_size, gpu_last // $domain_size + 1)) as block
    from on_pool
),

reached as (
    select
        *,
        max(t_end) over (
            partition by placement_seed, block
            order by t_start, t_end
            rows between unbounded preceding and 1 preceding
        ) as reached,
    from in_blocks
    where block < blocks
),

-- Time that an interval adds to what earlier intervals of its block already cover.
dirty as (
    select
        placement_seed,
        sum(greatest(epoch_us(t_end) - greatest(epoch_us(t_start), coalesce(epoch_us(reached), 0)), 0)) as dirty_us,
    from reached
    group by placement_seed
),

down as (
    select
        placement_seed,
        sum((gpu_last - gpu_first + 1) * (epoch_us(t_end) - epoch_us(t_start))) as down_us,
    from on_pool
    group by placement_seed
),

by_seed as (
    select
        1 - coalesce(down_us, 0) / nullif(pool_gpus * window_us, 0) as gpu_frac,
        1 - coalesce(dirty_us, 0) / nullif(blocks * window_us, 0) as clean_frac,
        blocks,
    from seeds
    cross join bounds
    left join dirty on dirty.placement_seed = seeds.placement_seed
    left join down on down.placement_seed = seeds.placement_seed
)

select
    $domain_size as domain_size,
    any_value(blocks) as domains,
    avg(gpu_frac) as gpu_frac,
    avg(clean_frac) as clean_frac,
    min(clean_frac) as clean_low_frac,
    max(clean_frac) as clean_high_frac,
    avg(gpu_frac) ** $domain_size as closed_form_frac,
from by_seed
