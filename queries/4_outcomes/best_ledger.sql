-- title: Where the GPU-hours went, each policy at its best split
-- grain: batch rule x policy x bucket
-- reads: best_splits
-- units: GPU-hours and share of the pool's GPU-hours, mean over placements
-- source: model.md section 7, the ledger
-- caveat: all buckets add up to the total with gain subtracted, so without gain they add up to more than 1.
with

best_splits as (
    select * from best_splits($scenario)
),

buckets as (
    unpivot best_splits
    on columns('^(productive|failed|stranded|paused|rework|detect|restart|reconfigure|checkpoint|overhead|spare_idle|static|gain)_gpu_h$')
    into name bucket value gpu_h
)

select
    batch,
    policy,
    spare_domains,
    goodput_frac,
    replace(bucket, '_gpu_h', '') as bucket,
    gpu_h,
    gpu_h / nullif(total_gpu_h, 0) as share_frac,
from buckets
order by batch, goodput_frac desc, policy, gpu_h desc, bucket
