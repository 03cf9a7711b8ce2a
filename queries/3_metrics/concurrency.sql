-- title: How often at least k GPUs, domains or nodes are down at once
-- grain: unit x k, for every k that occurs
-- reads: cluster_timeline, node_timeline, scenario_window
-- units: k in GPUs, dirty domains or nodes; share of the window's time: mean, lowest and highest over placements
-- source: model.md section 3; exceedance of the step series, weighted by time
-- caveat: gpus and domains count the pool; nodes counts the whole cluster and is the same in every placement.
with

cluster_timeline as (
    select * from cluster_timeline where scenario = $scenario
),

window_length as (
    select window_us from scenario_window($scenario)
),

levels as (
    select 'gpus' as unit, placement_seed, failed_gpus as k, epoch_us(t_end) - epoch_us(t_start) as length_us
    from cluster_timeline
    union all
    select 'domains' as unit, placement_seed, dirty_domains as k, epoch_us(t_end) - epoch_us(t_start) as length_us
    from cluster_timeline
    union all
    select 'nodes' as unit, -1 as placement_seed, failed_nodes as k, epoch_us(t_end) - epoch_us(t_start) as length_us
    from node_timeline($scenario)
),

held as (
    select unit, placement_seed, k, sum(length_us)::bigint as length_us
    from levels
    group by unit, placement_seed, k
),

-- Every placement answers for every k that any of them reaches.
grid as (
    select seeds.unit, seeds.placement_seed, ks.k
    from (select distinct unit, placement_seed from held) as seeds
    inner join (select distinct unit, k from held) as ks on ks.unit = seeds.unit
),

exceeded as (
    select
        grid.unit,
        grid.placement_seed,
        grid.k,
        sum(coalesce(held.length_us, 0)) over (
            partition by grid.unit, grid.placement_seed order by grid.k desc rows unbounded preceding
        ) / (select window_us from window_length) as share_frac,
    from grid
    left join held
        on held.unit = grid.unit and held.placement_seed = grid.placement_seed and held.k = grid.k
),

over_placements as (
    select
        unit,
        k,
        avg(share_frac) as share_frac,
        min(share_frac) as share_low_frac,
        max(share_frac) as share_high_frac,
    from exceeded
    group by unit, k
)

select * from over_placements
order by unit, k
