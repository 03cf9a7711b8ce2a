-- title: The worst hundredth of the nodes by downtime, at least one
-- grain: node
-- reads: outages, outage_parts, events, placements
-- units: down_gpu_h in GPU-hours within the window
-- source: model.md section 8 (lemon nodes); one in a hundred is our choice
-- caveat: chosen in hindsight: chance alone makes some nodes the worst ones, also where all are alike. Sums of
--   outages, before the union; a fault of a domain is no node's.
with

domain_faults as (
    select event_id as outage_id
    from events
    where scope = 'domain'
),

outages as (
    select *
    from outages
    where severity = 'down' and node is not null and outage_id not in (select outage_id from domain_faults)
),

first_placement as (
    select * from placements where placement_seed = (select min(placement_seed) from placements)
),

nodes as (
    select node, sum(gpus)::bigint as gpus
    from first_placement
    group by node
),

clipped as (
    select
        outages.outage_id,
        outages.node,
        case when parts.gpu is null then coalesce(gpus, 1) else 1 end as gpus,
        greatest(
            epoch_us(least(parts.t_end, $window_end::timestamp))
            - epoch_us(greatest(parts.t_start, $window_start::timestamp)),
            0
        ) as down_us,
    from outages
    left join outage_parts as parts on parts.outage_id = outages.outage_id
    left join nodes on nodes.node = outages.node
),

summed as (
    select node, coalesce(sum(gpus * down_us), 0) / 3600e6 as down_gpu_h, count(distinct outage_id) as outages
    from clipped
    group by node
)

select $scenario as scenario, node, down_gpu_h, outages
from summed
qualify
    row_number() over (order by down_gpu_h desc, outages desc, node)
    <= greatest(1, (select count(*) from nodes) // 100)
order by down_gpu_h desc, outages desc, node
