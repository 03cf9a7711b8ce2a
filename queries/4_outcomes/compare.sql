-- title: Policies of a scenario side by side
-- grain: one row per policy
-- reads: outcomes, best_splits
-- units: fractions of the pool's GPU-hours; GPU-hours; kWh; mean, lowest and highest over placements
-- source: model.md section 6: a table at the stated spares stands beside each policy at its best split
-- caveat: policies may hold back different spares; best_* is the policy's best split under the same batch rule
--   and is null when the splits were not replayed.
with

outcomes as (
    select * from outcomes where scenario = $scenario
),

best as (
    select * from best_splits($scenario)
),

compared as (
    select
        policy,
        any_value(response) as response,
        any_value(batch) as batch,
        any_value(spare_domains) as spare_domains,
        any_value(dp) as dp,
        avg(goodput_frac) as goodput_frac,
        min(goodput_frac) as goodput_low_frac,
        max(goodput_frac) as goodput_high_frac,
        avg(ettr_frac) as ettr_frac,
        avg(interruptions) as interruptions,
        avg(productive_gpu_h) as productive_gpu_h,
        avg(total_gpu_h) as total_gpu_h,
        avg(energy_kwh) as energy_kwh,
        count(*) as placements,
    from outcomes
    group by policy
)

select
    compared.*,
    best.spare_domains as best_spare_domains,
    best.dp as best_dp,
    best.goodput_frac as best_goodput_frac,
    best.goodput_low_frac as best_goodput_low_frac,
    best.goodput_high_frac as best_goodput_high_frac,
    best.productive_gpu_h as best_productive_gpu_h,
from compared
left join best on best.policy = compared.policy and best.batch = compared.batch
order by compared.goodput_frac desc, compared.policy
