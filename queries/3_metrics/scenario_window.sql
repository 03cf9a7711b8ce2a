-- title: The window and the machines of a scenario
-- grain: one row
-- reads: cluster_timeline, placements
-- units: times UTC, [t_start, t_end); window_us in microseconds, window_d in days; GPUs, nodes and domains are counts
-- source: model.md section 1; the population is what was placed, never who happens to fail
-- caveat: pool_gpus counts whole domains; a node that fills none is unplaced, and which one it is depends on
--   the placement. first_seed is the placement that charts over time show.
with

cluster_timeline as (
    select * from cluster_timeline where scenario = $scenario
),

placements as (
    select * from placements where scenario = $scenario
),

spans as (
    select
        min(t_start) as t_start,
        max(t_end) as t_end,
        min(placement_seed) as first_seed,
        count(distinct placement_seed) as placements,
    from cluster_timeline
),

first_placement as (
    select * from placements where placement_seed = (select min(placement_seed) from placements)
),

machines as (
    select
        count(distinct node) as nodes,
        count(distinct node) filter (domain_id is null) as unplaced_nodes,
        count(distinct domain_id) as pool_domains,
        coalesce(sum(gpus) filter (domain_id is not null), 0)::bigint as pool_gpus,
    from first_placement
)

select
    t_start,
    t_end,
    epoch_us(t_end) - epoch_us(t_start) as window_us,
    (epoch_us(t_end) - epoch_us(t_start)) / 86400e6 as window_d,
    first_seed,
    placements,
    nodes,
    unplaced_nodes,
    pool_domains,
    pool_gpus,
from spans
cross join machines
