-- title: Where the GPU-hours of each policy went
-- grain: policy x bucket
-- reads: outcomes
-- units: GPU-hours and share of the pool's GPU-hours; mean, lowest and highest over placements
-- source: model.md section 7, the ledger
-- caveat: the buckets add up to the total with gain subtracted.
with

outcomes as (
    select * from outcomes where scenario = $scenario
),

buckets as (
    unpivot outcomes
    on columns('^(productive|failed|stranded|paused|rework|detect|restart|reconfigure|checkpoint|overhead|spare_idle|static|gain)_gpu_h$')
    into name bucket value gpu_h
),

summed as (
    select
        policy,
        replace(bucket, '_gpu_h', '') as bucket,
        avg(gpu_h) as gpu_h,
        min(gpu_h) as gpu_h_low,
        max(gpu_h) as gpu_h_high,
        avg(gpu_h / total_gpu_h) as share_frac,
    from buckets
    group by policy, bucket
)

select * from summed
order by policy, gpu_h desc
