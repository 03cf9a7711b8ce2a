-- title: GPU-hours down, by the component that failed
-- grain: component
-- reads: outages_in_window, nodes_of_domain_faults
-- units: GPU-hours within the window; share of all GPU-hours down
-- source: model.md section 1: sums of outages, before the union
-- caveat: the direct loss only, and overlapping faults count twice; what a component costs the job is
--   loss_by_component. All nodes of the cluster count, placed or not. A fault of a domain counts all of its
--   nodes and GPUs; what a blast radius adds to a fault is not counted.
with

outages_in_window as (
    select * from outages_in_window($scenario)
),

taken as (
    select component, node from outages_in_window
    union all
    select component, members.node
    from outages_in_window
    inner join nodes_of_domain_faults($scenario) as members on members.outage_id = outages_in_window.outage_id
),

nodes as (
    select component, count(distinct node) as nodes
    from taken
    group by component
),

summed as (
    select component, count(*) as outages, sum(down_gpu_h) as down_gpu_h
    from outages_in_window
    group by component
),

shared as (
    select
        summed.component,
        outages,
        nodes,
        down_gpu_h,
        down_gpu_h / nullif(sum(down_gpu_h) over (), 0) as share_frac,
    from summed
    inner join nodes on nodes.component = summed.component
)

select * from shared
order by down_gpu_h desc, component
