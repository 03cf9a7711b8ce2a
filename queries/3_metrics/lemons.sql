-- title: Nodes with the most downtime
-- grain: node with at least one outage, worst first
-- reads: outages_in_window, scenario_window, worst_nodes
-- units: hours and GPU-hours within the window; cumulative share of all GPU-hours down and of all nodes
-- source: model.md section 8 (lemon nodes)
-- caveat: a node with one long repair is no lemon; read outages beside down_gpu_h. is_lemon: one of the worst
--   hundredth, which the what-if healthy_lemons keeps from failing. A fault of a domain is no node's, also where
--   the log names one, and is left out.
with

outages_in_window as (
    select * from outages_in_window($scenario) where node is not null and not is_of_domain
),

nodes as (
    select nodes from scenario_window($scenario)
),

by_component as (
    select node, component, count(*) as outages, sum(down_h) as down_h, sum(down_gpu_h) as down_gpu_h
    from outages_in_window
    group by node, component
),

by_node as (
    select
        node,
        sum(outages)::bigint as outages,
        sum(down_h) as down_h,
        sum(down_gpu_h) as down_gpu_h,
        arg_max(component, down_gpu_h) as worst_component,
    from by_component
    group by node
),

ranked as (
    select
        *,
        sum(down_gpu_h) over worst_first / nullif(sum(down_gpu_h) over (), 0) as cumulative_frac,
        row_number() over worst_first / (select nodes from nodes) as nodes_frac,
    from by_node
    window worst_first as (order by down_gpu_h desc, outages desc, node rows unbounded preceding)
)

select
    *,
    node in (select node from worst_nodes where scenario = $scenario) as is_lemon,
from ranked
order by down_gpu_h desc, outages desc, node
