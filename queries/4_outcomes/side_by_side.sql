-- title: Policies at the spares the scenario lists, beside each at its best split
-- grain: batch rule x policy, best first
-- reads: best_splits, splits, outcomes, scenario_window, what_if_gains
-- units: fractions of the pool's GPU-hours: mean, lowest and highest over placements; GPU-hours a day
-- source: model.md section 6
-- caveat: a policy has its stated spares under every batch rule; is_listed tells the rule that the scenario
--   itself gives it.
with

best_splits as (
    select * from best_splits($scenario)
),

listed as (
    select policy, any_value(batch) as batch, any_value(spare_domains) as spare_domains
    from outcomes
    where scenario = $scenario
    group by policy
),

at_listed as (
    select
        splits.batch,
        splits.policy,
        any_value(splits.spare_domains) as spare_domains,
        any_value(dp) as dp,
        avg(goodput_frac) as goodput_frac,
        min(goodput_frac) as goodput_low_frac,
        max(goodput_frac) as goodput_high_frac,
    from splits
    inner join listed on listed.policy = splits.policy and listed.spare_domains = splits.spare_domains
    where splits.scenario = $scenario
    group by splits.batch, splits.policy
),

half_repair as (
    select * from what_if_gains($scenario) where what_if = 'half_repair'
)

select
    best_splits.batch,
    best_splits.policy,
    best_splits.response,
    listed.batch = best_splits.batch as is_listed,
    at_listed.spare_domains as listed_spare_domains,
    at_listed.dp as listed_dp,
    at_listed.goodput_frac as listed_goodput_frac,
    at_listed.goodput_low_frac as listed_goodput_low_frac,
    at_listed.goodput_high_frac as listed_goodput_high_frac,
    best_splits.spare_domains as best_spare_domains,
    best_splits.dp as best_dp,
    best_splits.goodput_frac as best_goodput_frac,
    best_splits.goodput_low_frac as best_goodput_low_frac,
    best_splits.goodput_high_frac as best_goodput_high_frac,
    best_splits.productive_gpu_h / (select window_d from scenario_window($scenario)) as best_productive_gpu_h_per_day,
    best_splits.interruptions as best_interruptions,
    half_repair.gain_gpu_h_per_day as half_repair_gain_gpu_h_per_day,
from best_splits
left join at_listed on at_listed.batch = best_splits.batch and at_listed.policy = best_splits.policy
left join listed on listed.policy = best_splits.policy
left join half_repair on half_repair.batch = best_splits.batch and half_repair.policy = best_splits.policy
order by best_splits.batch, best_splits.goodput_frac desc, best_splits.policy
