-- title: Every GPU-hour of the pool is in exactly one bucket
-- grain: one row per outcome that does not add up
-- reads: outcomes, splits, what_ifs
-- units: GPU-hours
-- source: model.md section 7
-- caveat: the engine asserts the sum exactly, in integers; here the stored floats may differ by rounding.
with

all_outcomes as (
    select 'outcomes' as origin, * from outcomes
    union all by name
    select 'splits' as origin, * from splits
    union all by name
    select 'what_ifs' as origin, * from what_ifs
),

added as (
    select
        *,
        productive_gpu_h + failed_gpu_h + stranded_gpu_h + paused_gpu_h + rework_gpu_h + detect_gpu_h
        + restart_gpu_h + reconfigure_gpu_h + checkpoint_gpu_h + overhead_gpu_h + spare_idle_gpu_h
        + static_gpu_h - gain_gpu_h as sum_gpu_h,
        least(
            productive_gpu_h, failed_gpu_h, stranded_gpu_h, paused_gpu_h, rework_gpu_h, detect_gpu_h,
            restart_gpu_h, reconfigure_gpu_h, checkpoint_gpu_h, overhead_gpu_h, spare_idle_gpu_h,
            static_gpu_h, gain_gpu_h
        ) as least_gpu_h,
    from all_outcomes
)

select * from added
where abs(sum_gpu_h - total_gpu_h) > 1e-9 * total_gpu_h or least_gpu_h < 0
