-- title: GPU-hours down, by the component that failed
-- grain: component
-- reads: outages_in_window
-- units: GPU-hours within the window; share of all GPU-hours down
-- source: model.md section 1: sums of outages, before the union
-- caveat: the direct loss only, and overlapping faults count twice; what a component costs the job is
--   loss_by_component. All nodes of the cluster count, placed or not.
with

outages_in_window as (
    select * from outages_in_window($scenario)
),

summed as (
    select
        component,
        count(*) as outages,
        count(distinct node) as nodes,
        sum(down_h * gpus) as down_gpu_h,
    from outages_in_window
    group by component
)

select
    *,
    down_gpu_h / nullif(sum(down_gpu_h) over (), 0) as share_frac,
from summed
order by down_gpu_h desc, component
