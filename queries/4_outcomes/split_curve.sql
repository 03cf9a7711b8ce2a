-- title: Spare domains against goodput
-- grain: batch rule x policy x spare domains
-- reads: splits, best_splits, scenario_window
-- units: fractions of the pool's GPU-hours: mean, lowest and highest over placements; spare_frac of the pool's domains
-- source: model.md section 6: never assume that goodput is monotone in spares
-- caveat: goodput is over the whole pool, spares included. Only spare counts at which DP changes are there.
with

splits as (
    select * from splits where scenario = $scenario
),

best as (
    select batch, policy, spare_domains from best_splits($scenario)
),

averaged as (
    select
        batch,
        policy,
        spare_domains,
        any_value(dp) as dp,
        avg(goodput_frac) as goodput_frac,
        min(goodput_frac) as goodput_low_frac,
        max(goodput_frac) as goodput_high_frac,
        count(*) as placements,
    from splits
    group by batch, policy, spare_domains
)

select
    averaged.*,
    averaged.spare_domains / nullif((select pool_domains from scenario_window($scenario)), 0) as spare_frac,
    averaged.spare_domains = best.spare_domains as is_best,
from averaged
inner join best on best.batch = averaged.batch and best.policy = averaged.policy
order by averaged.batch, averaged.policy, averaged.spare_domains
