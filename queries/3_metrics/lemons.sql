-- title: Nodes with the most downtime
-- grain: node with at least one outage, worst first
-- reads: outages_in_window, scenario_window
-- units: hours and GPU-hours within the window; cumulative share of all GPU-hours down and of all nodes
-- source: model.md section 8 (lemon nodes)
-- caveat: a node with one long repair is no lemon; read outages beside down_gpu_h.
with

outages_in_window as (
    select * from outages_in_window($scenario) where node is not null
),

nodes as (
    select nodes from scenario_window($scenario)
),

by_component as (
    select node, component, count(*) as outages, sum(down_h) as down_h, sum(down_h * gpus) as down_gpu_h
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

select * from ranked
order by down_gpu_h desc, outages desc, node
