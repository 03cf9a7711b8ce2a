-- title: The nodes that each fault of a whole domain takes down
-- grain: outage of scope domain and severity down x node, in the first placement
-- reads: outages, events, placements, scenario_window
-- units: gpus is a count: those of the node that lie in the domain
-- source: model.md section 2, rule 5, as 2_timelines/placed_outages.sql applies it
-- caveat: the domain is the one that the log names, if the topology knows it, else the one that the node lies in.
--   A domain that neither tells, or of a node that fills none, has one row with a domain's GPUs and no further node.
with

domain_faults as (
    select outages.outage_id, outages.node, outages.gpu, events.domain
    from outages
    inner join events on events.event_id = outages.outage_id
    where outages.scenario = $scenario and outages.severity = 'down' and events.scope = 'domain'
),

bounds as (
    select first_seed, pool_gpus // nullif(pool_domains, 0) as domain_gpus from scenario_window($scenario)
),

-- A domain of the topology that was dropped has a name and no number.
places as (
    select
        node,
        domain,
        coalesce(domain, domain_id::varchar) as place,
        node_gpu_first,
        gpus,
    from placements
    where scenario = $scenario and placement_seed = (select first_seed from bounds)
),

by_name as (
    select outage_id, domain as place
    from domain_faults
    where domain in (select domain from places)
),

by_node as (
    select domain_faults.outage_id, places.place
    from domain_faults
    inner join places on places.node = domain_faults.node
    where
        domain_faults.outage_id not in (select outage_id from by_name)
        and places.place is not null
        and (domain_faults.gpu is null or domain_faults.gpu between node_gpu_first and node_gpu_first + gpus - 1)
),

reached as (
    select * from by_name
    union
    select * from by_node
),

members as (
    select outage_id, node, sum(gpus)::bigint as gpus
    from reached
    inner join places on places.place = reached.place
    group by outage_id, node
),

with_unknown as (
    select * from members
    union all
    select outage_id, node, domain_gpus as gpus
    from domain_faults
    cross join bounds
    where outage_id not in (select outage_id from members)
)

select * from with_unknown
order by outage_id, node
