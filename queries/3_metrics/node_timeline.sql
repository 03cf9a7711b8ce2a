-- title: Nodes with at least one failed GPU over time
-- grain: interval; a gap-free cover of the window
-- reads: outages_in_window, nodes_of_domain_faults, scenario_window
-- units: failed_nodes in nodes; times UTC, [t_start, t_end)
-- source: model.md section 3; the union of outages per node
-- caveat: counts the whole cluster, unplaced nodes too. Only a fault of a domain needs a placement: it takes down
--   all nodes of the domain, in the first placement.
with

taken as (
    select node, t_start, t_end from outages_in_window($scenario)
    union all
    select members.node, t_start, t_end
    from outages_in_window($scenario) as outages
    inner join nodes_of_domain_faults($scenario) as members on members.outage_id = outages.outage_id
),

spans as (
    select * from taken where node is not null and t_end > t_start
),

bounds as (
    select * from scenario_window($scenario)
),

reached as (
    select
        *,
        max(t_end) over (
            partition by node order by t_start, t_end rows between unbounded preceding and 1 preceding
        ) as reached,
    from spans
),

islands as (
    select
        *,
        (sum(case when reached is null or t_start > reached then 1 else 0 end) over (
            partition by node order by t_start, t_end, reached nulls first rows unbounded preceding
        ))::bigint as island,
    from reached
),

merged as (
    select node, min(t_start) as t_start, max(t_end) as t_end
    from islands
    group by node, island
),

changes as (
    select t_start as t, 1 as change from merged
    union all
    select t_end as t, -1 as change from merged
    union all
    select t_start as t, 0 as change from bounds where t_start is not null
),

net as (
    select t, sum(change)::bigint as change
    from changes
    group by t
),

summed as (
    select
        t as t_start,
        coalesce(lead(t) over (order by t), (select t_end from bounds)) as t_end,
        (sum(change) over (order by t rows unbounded preceding))::bigint as failed_nodes,
    from net
)

select t_start, t_end, failed_nodes
from summed
where t_end > t_start
order by t_start
