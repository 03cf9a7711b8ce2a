-- title: The answer: the best policy for each batch rule, and what it loses
-- grain: batch rule
-- reads: best_splits, best_ledger, lead_over_next, loss_by_component, what_if_gains, what_ifs, worst_nodes, scenario_window
-- units: fractions of the pool's GPU-hours; GPU-hours; GPU-hours a day; mean, lowest and highest over placements
-- source: model.md sections 6 and 7
-- caveat: the largest loss may be a choice (spare_idle) or a shape (static) and not a fault; gain is no loss.
--   redraw_ columns: other draws of a synthetic trace, at the same split and placements.
with

ranked as (
    select *, row_number() over (partition by batch order by goodput_frac desc, policy) as place
    from best_splits($scenario)
),

best as (
    select * from ranked where place = 1
),

losses as (
    select batch, policy, bucket, gpu_h, share_frac
    from best_ledger($scenario)
    where bucket not in ('productive', 'gain')
),

largest as (
    select losses.*
    from losses
    inner join best on best.batch = losses.batch and best.policy = losses.policy
    qualify row_number() over (partition by losses.batch order by gpu_h desc, bucket) = 1
),

components as (
    select *
    from loss_by_component($scenario)
    where brings_back_gpu_h is not null
    qualify row_number() over (partition by batch order by brings_back_gpu_h desc, component) <= 2
),

worst as (
    select
        batch,
        first(component order by brings_back_gpu_h desc, component) as component,
        max(brings_back_gpu_h) as brings_back_gpu_h,
        max(brings_back_gpu_h_per_day) as brings_back_gpu_h_per_day,
        max(brings_back_frac) as brings_back_frac,
        case when count(*) > 1 then last(component order by brings_back_gpu_h desc, component) end as second_component,
        case when count(*) > 1 then min(brings_back_gpu_h_per_day) end as second_gpu_h_per_day,
    from components
    group by batch
),

half_repair as (
    select * from what_if_gains($scenario) where what_if = 'half_repair'
),

may_compute as (
    select * from what_if_gains($scenario) where what_if = 'may_compute'
),

healthy_lemons as (
    select * from what_if_gains($scenario) where what_if = 'healthy_lemons'
),

redraws as (
    select
        batch,
        policy,
        count(distinct what_if) as redraws,
        avg(goodput_frac) as redraw_frac,
        min(goodput_frac) as redraw_low_frac,
        max(goodput_frac) as redraw_high_frac,
    from what_ifs
    where scenario = $scenario and what_if like 'redraw\_%' escape '\'
    group by batch, policy
)

select
    best.batch,
    best.policy,
    best.response,
    best.spare_domains,
    best.dp,
    best.idle_domains,
    best.placements,
    best.goodput_frac,
    best.goodput_low_frac,
    best.goodput_high_frac,
    best.interruptions,
    best.productive_gpu_h,
    best.productive_gpu_h / (select window_d from scenario_window($scenario)) as productive_gpu_h_per_day,
    best.total_gpu_h,
    largest.bucket as largest_loss,
    largest.gpu_h as largest_loss_gpu_h,
    largest.share_frac as largest_loss_frac,
    leads.next_policy,
    leads.next_goodput_frac,
    leads.lead_frac,
    leads.lead_low_frac,
    leads.lead_high_frac,
    leads.lead_placements,
    worst.component as worst_component,
    worst.brings_back_gpu_h as worst_component_gain_gpu_h,
    worst.brings_back_gpu_h_per_day as worst_component_gain_gpu_h_per_day,
    worst.brings_back_frac as worst_component_gain_frac,
    worst.second_component,
    case when worst.second_component is not null then greatest(worst.second_gpu_h_per_day, 0) end
        as second_component_gain_gpu_h_per_day,
    half_repair.gain_gpu_h as half_repair_gain_gpu_h,
    half_repair.gain_gpu_h_per_day as half_repair_gain_gpu_h_per_day,
    half_repair.gain_frac as half_repair_gain_frac,
    half_repair.gain_low_frac as half_repair_gain_low_frac,
    half_repair.gain_high_frac as half_repair_gain_high_frac,
    may_compute.what_if_frac as may_compute_goodput_frac,
    may_compute.gain_frac as may_compute_gain_frac,
    (select count(*) from worst_nodes where scenario = $scenario) as lemon_nodes,
    healthy_lemons.gain_gpu_h_per_day as lemons_gain_gpu_h_per_day,
    healthy_lemons.gain_frac as lemons_gain_frac,
    coalesce(redraws.redraws, 0) as redraws,
    redraws.redraw_frac,
    redraws.redraw_low_frac,
    redraws.redraw_high_frac,
from best
left join largest on largest.batch = best.batch
left join lead_over_next($scenario) as leads on leads.batch = best.batch
left join worst on worst.batch = best.batch
left join half_repair on half_repair.batch = best.batch and half_repair.policy = best.policy
left join healthy_lemons on healthy_lemons.batch = best.batch and healthy_lemons.policy = best.policy
left join redraws on redraws.batch = best.batch and redraws.policy = best.policy
left join may_compute on may_compute.batch = best.batch and may_compute.policy = best.policy
order by round(best.goodput_frac, 9) desc, best.batch
