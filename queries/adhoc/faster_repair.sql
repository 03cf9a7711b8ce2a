-- title: What would repairs twice as fast bring each policy?
-- grain: batch rule x policy
-- reads: what_ifs, splits
-- units: goodput as fractions of the pool's GPU-hours; GPU-hours: mean over placements, for the gain also extremes
-- source: model.md section 8: repair time is a sensitivity axis
-- caveat: at the split that is best as logged. gain_per_gpu_h_up above 1: a GPU that is back brings healthy
--   GPUs back to work that waited for it; near 0: the policy did not miss it, or the job takes repaired GPUs up
--   only at its next interruption. is_clear: the gain has one sign in every placement.
with

half_repair as (
    select * from what_ifs where scenario = $scenario and what_if = 'half_repair'
),

splits as (
    select * from splits where scenario = $scenario
),

paired as (
    select
        half_repair.batch,
        half_repair.policy,
        half_repair.spare_domains,
        splits.goodput_frac,
        half_repair.goodput_frac as half_repair_frac,
        splits.failed_gpu_h - half_repair.failed_gpu_h as up_gpu_h,
        half_repair.productive_gpu_h - splits.productive_gpu_h as gain_gpu_h,
    from half_repair
    inner join splits
        on
            splits.batch = half_repair.batch
            and splits.policy = half_repair.policy
            and splits.spare_domains = half_repair.spare_domains
            and splits.placement_seed = half_repair.placement_seed
),

averaged as (
    select
        batch,
        policy,
        any_value(spare_domains) as spare_domains,
        avg(goodput_frac) as goodput_frac,
        avg(half_repair_frac) as half_repair_frac,
        avg(half_repair_frac - goodput_frac) as gain_frac,
        min(half_repair_frac - goodput_frac) as gain_low_frac,
        max(half_repair_frac - goodput_frac) as gain_high_frac,
        avg(up_gpu_h) as up_gpu_h,
        avg(gain_gpu_h) as gain_gpu_h,
        avg(gain_gpu_h) / nullif(avg(up_gpu_h), 0) as gain_per_gpu_h_up,
        min(gain_gpu_h) > 0 or max(gain_gpu_h) < 0 as is_clear,
    from paired
    group by batch, policy
)

select * from averaged
order by batch, gain_gpu_h desc, policy
