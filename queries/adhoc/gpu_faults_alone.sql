-- title: What do GPU faults alone cost each policy?
-- grain: batch rule x policy x component on the GPU board (gpu, hbm, nvlink) that failed
-- reads: lost_by_component, what_if_gains
-- units: GPU-hours within the window; fractions of the pool's GPU-hours (goodput) or of all GPU-hours down
-- source: model.md section 7; without_X of the what-ifs: the same log in which component X never fails
-- caveat: down_gpu_h is the log's, the same for every policy; brings_back_gpu_h is the job's, at the split that
--   is best as logged: rework, restarts and healthy GPUs that wait come on top, idle spares take the edge off.
--   It can be below 0: a fault is also an occasion to take repaired GPUs up.
with

gains as (
    select *, substr(what_if, length('without_') + 1) as component
    from what_if_gains($scenario)
    where what_if in ('without_gpu', 'without_hbm', 'without_nvlink')
),

lost as (
    select * from lost_by_component($scenario)
),

compared as (
    select
        batch,
        policy,
        spare_domains,
        gains.component,
        coalesce(outages, 0) as outages,
        coalesce(nodes, 0) as nodes,
        coalesce(down_gpu_h, 0) as down_gpu_h,
        coalesce(share_frac, 0) as downtime_frac,
        logged_frac as goodput_frac,
        what_if_frac as goodput_without_frac,
        gain_gpu_h as brings_back_gpu_h,
        gain_gpu_h / nullif(down_gpu_h, 0) as brings_back_per_gpu_h_down,
    from gains
    left join lost on lost.component = gains.component
)

select * from compared
order by batch, goodput_frac desc, policy, brings_back_gpu_h desc
