-- title: What each policy would gain if something were different
-- grain: batch rule x policy x what-if
-- reads: what_ifs, splits, scenario_window
-- units: gains in fractions of the pool's GPU-hours, GPU-hours, GPU-hours a day; mean over placements, for the
--   fraction also lowest and highest
-- source: model.md section 8; the column what_if of the table what_ifs says what each name means
-- caveat: at the split that is best as logged; a new best split could gain more. Gains of components do not
--   add up: GPUs that two faults hold down come back only when both are gone.
with

what_ifs as (
    select * from what_ifs where scenario = $scenario
),

splits as (
    select * from splits where scenario = $scenario
),

paired as (
    select
        what_ifs.batch,
        what_ifs.policy,
        what_ifs.what_if,
        what_ifs.spare_domains,
        logged.goodput_frac as logged_frac,
        what_ifs.goodput_frac as what_if_frac,
        what_ifs.productive_gpu_h - logged.productive_gpu_h as gain_gpu_h,
    from what_ifs
    inner join splits as logged
        on
            logged.batch = what_ifs.batch
            and logged.policy = what_ifs.policy
            and logged.spare_domains = what_ifs.spare_domains
            and logged.placement_seed = what_ifs.placement_seed
)

select
    batch,
    policy,
    what_if,
    any_value(spare_domains) as spare_domains,
    avg(logged_frac) as logged_frac,
    avg(what_if_frac) as what_if_frac,
    avg(what_if_frac - logged_frac) as gain_frac,
    min(what_if_frac - logged_frac) as gain_low_frac,
    max(what_if_frac - logged_frac) as gain_high_frac,
    avg(gain_gpu_h) as gain_gpu_h,
    avg(gain_gpu_h) / any_value(window_d) as gain_gpu_h_per_day,
    min(gain_gpu_h) / any_value(window_d) as gain_low_gpu_h_per_day,
    max(gain_gpu_h) / any_value(window_d) as gain_high_gpu_h_per_day,
from paired
cross join (select window_d from scenario_window($scenario))
group by batch, policy, what_if
order by batch, policy, gain_frac desc, what_if
