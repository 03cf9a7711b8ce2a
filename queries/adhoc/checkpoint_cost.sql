-- title: Does each policy save often enough?
-- grain: policy of the scenario
-- reads: outcomes
-- units: minutes; GPU-hours and fractions of the pool's GPU-hours, mean over placements
-- source: derived: to first order saves cost as 1 / interval and rework as the interval, so their sum is least
--   where they are equal: at interval x sqrt(checkpoint / rework)
-- caveat: at the spares the scenario lists. checkpoint counts all healthy GPUs that a save blocks, rework only
--   those that worked, so a job with few replicas in use looks as if it saved too often.
with

outcomes as (
    select * from outcomes where scenario = $scenario
),

averaged as (
    select
        policy,
        any_value(batch) as batch,
        any_value(spare_domains) as spare_domains,
        avg(checkpoint_interval_s) / 60 as interval_min,
        avg(interruptions) as interruptions,
        avg(checkpoint_gpu_h) as checkpoint_gpu_h,
        avg(rework_gpu_h) as rework_gpu_h,
        avg(detect_gpu_h + restart_gpu_h) as restart_gpu_h,
        avg(total_gpu_h) as total_gpu_h,
    from outcomes
    group by policy
),

weighed as (
    select
        policy,
        batch,
        spare_domains,
        interruptions,
        interval_min,
        interval_min * sqrt(checkpoint_gpu_h / nullif(rework_gpu_h, 0)) as balanced_interval_min,
        checkpoint_gpu_h,
        checkpoint_gpu_h / nullif(total_gpu_h, 0) as checkpoint_frac,
        rework_gpu_h,
        rework_gpu_h / nullif(total_gpu_h, 0) as rework_frac,
        rework_gpu_h / nullif(interruptions, 0) as rework_gpu_h_per_interruption,
        restart_gpu_h as detect_and_restart_gpu_h,
        restart_gpu_h / nullif(total_gpu_h, 0) as detect_and_restart_frac,
    from averaged
)

select * from weighed
order by checkpoint_gpu_h + rework_gpu_h desc, policy
