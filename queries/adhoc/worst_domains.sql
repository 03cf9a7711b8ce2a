-- title: Which domains hurt most, and is it one node or many?
-- grain: placement seed x domain, the five worst of each placement
-- reads: gpu_downtime, domain_timeline, onsets, outages_in_window, placements
-- units: down_gpu_h in GPU-hours; shares of the pool's downtime, of the window, of the domain's outages; GPUs
-- source: model.md section 3
-- caveat: with placement = "random" a domain is a draw, not a rack: trust what holds in every placement.
--   worst_node_frac counts outages before their union, so overlapping faults of a node count twice; faults of a
--   whole domain are in down_gpu_h and are no node's.
with

gpu_downtime as (
    select * from gpu_downtime where scenario = $scenario
),

domain_timeline as (
    select * from domain_timeline where scenario = $scenario
),

onsets as (
    select * from onsets where scenario = $scenario and severity = 'down'
),

outages as (
    select * from outages_in_window($scenario) where not is_of_domain
),

placements as (
    select * from placements where scenario = $scenario and domain_id is not null
),

down as (
    select
        placement_seed,
        domain_id,
        sum((gpu_last - gpu_first + 1) * (epoch_us(t_end) - epoch_us(t_start))) / 3600e6 as down_gpu_h,
    from gpu_downtime
    group by placement_seed, domain_id
),

dirty as (
    select
        placement_seed,
        domain_id,
        sum(epoch_us(t_end) - epoch_us(t_start)) filter (failed_gpus > 0)
        / sum(epoch_us(t_end) - epoch_us(t_start)) as dirty_frac,
        max(failed_gpus) as most_failed_gpus,
    from domain_timeline
    group by placement_seed, domain_id
),

started as (
    select placement_seed, domain_id, count(distinct outage_id) as onsets
    from onsets
    group by placement_seed, domain_id
),

by_node as (
    select
        placements.placement_seed,
        placements.domain_id,
        outages.node,
        sum(down_gpu_h * case when outages.gpu is null then placements.gpus / outages.gpus else 1 end) as node_gpu_h,
    from outages
    inner join placements
        on
            placements.node = outages.node
            and (
                outages.gpu is null
                or outages.gpu between placements.node_gpu_first
                and placements.node_gpu_first + placements.gpus - 1
            )
    group by placements.placement_seed, placements.domain_id, outages.node
),

nodes as (
    select
        placement_seed,
        domain_id,
        count(*) as failing_nodes,
        arg_max(node, node_gpu_h) as worst_node,
        max(node_gpu_h) / nullif(sum(node_gpu_h), 0) as worst_node_frac,
    from by_node
    group by placement_seed, domain_id
),

ranked as (
    select
        down.placement_seed,
        row_number() over (partition by down.placement_seed order by down_gpu_h desc, down.domain_id) as place,
        down.domain_id,
        down_gpu_h,
        down_gpu_h / sum(down_gpu_h) over (partition by down.placement_seed) as downtime_frac,
        dirty_frac,
        most_failed_gpus,
        coalesce(onsets, 0) as onsets,
        coalesce(failing_nodes, 0) as failing_nodes,
        worst_node,
        worst_node_frac,
    from down
    inner join dirty on dirty.placement_seed = down.placement_seed and dirty.domain_id = down.domain_id
    left join started on started.placement_seed = down.placement_seed and started.domain_id = down.domain_id
    left join nodes on nodes.placement_seed = down.placement_seed and nodes.domain_id = down.domain_id
)

select * from ranked
where place <= 5
order by placement_seed, place
