-- title: Outages that take GPUs away, laid onto the domains of each placement
-- grain: outage of a log x placement seed x GPU range of one domain
-- reads: outages, outage_members, events, placements, blast_radius
-- units: t_start_us, t_end_us are microseconds since the window's start, clipped to it
-- source: model.md section 2, rule 5
-- caveat: only severity down takes GPUs; for what-ifs, repair_scale_frac shortens or stretches repairs and
--   left_out names components or reasons, and left_out_nodes nodes, that never fail; a fault of a domain is no
--   node's and stays.
--   An outage clipped at the window's start keeps t_start_us = 0, which sets the initial state. One that ended
--   before the window stays outside, also where repairs are stretched.
--   A blast radius widens a fault and never narrows it: a node that is down is down as a whole whatever its
--   component's radius. n GPUs are the faulty one and those after it, going on at the domain's first GPU; a
--   domain is the one that the GPU, or any part of the node, lies in. A fault of a domain goes by the domain's
--   name if the topology knows it, else by its node, else nowhere.
with

outages as (
    select outage_id, component, reason from outages where severity = 'down'
),

-- Each log's own interval; what fails is what the logs say together.
members as (
    select outage_id, part_id, node, gpu, t_start, t_end, is_open, outages.component, outages.reason
    from outage_members
    inner join outages using (outage_id)
    where takes
),

domain_faults as (
    select event_id as part_id, domain
    from events
    where scope = 'domain'
),

placements as (
    select * from placements where domain_id is not null
),

blast_radius as (
    select * from blast_radius
),

in_window as (
    select
        *,
        epoch_us(t_start) - epoch_us($window_start::timestamp) as from_us,
        epoch_us(t_start) - epoch_us($window_start::timestamp)
        + case
            when is_open then epoch_us(t_end) - epoch_us(t_start)
            else round((epoch_us(t_end) - epoch_us(t_start)) * $repair_scale_frac)::bigint
        end as to_us,
    from members
    where
        not list_contains($left_out::varchar[], component)
        and not list_contains($left_out::varchar[], coalesce(reason, ''))
        and not list_contains($left_out_components::varchar[], component)
        and (
            not list_contains($left_out_nodes::varchar[], coalesce(node, ''))
            or part_id in (select part_id from domain_faults)
        )
),

reaching as (
    select
        in_window.outage_id,
        node,
        case
            when domain_faults.part_id is null and blast_radius.scope = 'node' then null
            else gpu
        end as gpu,
        domain_faults.domain,
        case
            when domain_faults.part_id is not null or blast_radius.scope = 'domain' then $domain_size
            else coalesce(radius_gpus, 1)
        end::bigint as radius_gpus,
        from_us,
        to_us,
    from in_window
    left join domain_faults using (part_id)
    left join blast_radius using (component)
    where to_us > 0 or from_us >= 0
),

domains as (
    select distinct scenario, placement_seed, domain_id, domain
    from placements
    where domain is not null
),

by_name as (
    select
        domains.scenario,
        placement_seed,
        domain_id,
        0::bigint as gpu_first,
        $domain_size::bigint as gpus,
        from_us,
        to_us,
        outage_id,
    from reaching
    inner join domains using (domain)
),

by_node as (
    select
        placements.scenario,
        placement_seed,
        domain_id,
        case
            when radius_gpus >= $domain_size then 0
            when gpu is null then gpu_first
            else gpu_first + gpu - node_gpu_first
        end as gpu_first,
        least(greatest(radius_gpus, case when gpu is null then gpus else 1 end), $domain_size) as gpus,
        from_us,
        to_us,
        outage_id,
    from reaching
    inner join placements using (node)
    where
        (gpu is null or gpu between node_gpu_first and node_gpu_first + gpus - 1)
        and (reaching.domain is null or reaching.domain not in (select domain from domains))
),

reached as (
    select * from by_node
    union all
    select * from by_name
),

placed as (
    select *, least(gpu_first + gpus, $domain_size) - 1 as gpu_last from reached
    union all
    -- what goes on at the domain's first GPU
    select * replace (0 as gpu_first), gpu_first + gpus - $domain_size - 1 as gpu_last
    from reached
    where gpu_first + gpus > $domain_size
)

select
    scenario,
    placement_seed,
    domain_id,
    gpu_first,
    gpu_last,
    least(greatest(from_us, 0), $window_us) as t_start_us,
    least(greatest(to_us, 0), $window_us) as t_end_us,
    outage_id,
from placed
order by placement_seed, domain_id, gpu_first, t_start_us, t_end_us, outage_id
