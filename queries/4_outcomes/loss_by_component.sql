-- title: What each component costs the best policy
-- grain: batch rule x component
-- reads: best_splits, best_ledger, what_ifs, what_if_gains, lost_by_component, stops, outages, scenario_window
-- units: GPU-hours, GPU-hours a day, fraction of the pool's GPU-hours; interruptions a count; mean over placements
-- source: model.md section 7 (ledger)
-- caveat: down_gpu_h is the direct loss (sums of outages, the whole cluster). The loss of the policy that is
--   best under the batch rule is brings_back_gpu_h: what it gains when the component never fails. Of that,
--   failed_gpu_h are GPU-hours of the pool that only this component takes; rework, detect and restart are those
--   of the stops it caused; rest_gpu_h is what remains: stranded GPUs, waiting, longer gaps between saves, less
--   what boosted clocks made up for. It is below 0 where failed GPUs were not missed.
--   All are null for a component that was not left out.
with

best as (
    select batch, policy, spare_domains
    from best_splits($scenario)
    qualify row_number() over (partition by batch order by goodput_frac desc, policy) = 1
),

gains as (
    select
        gains.batch,
        gains.policy,
        substr(what_if, length('without_') + 1) as component,
        gains.* exclude (batch, policy, what_if),
    from what_if_gains($scenario) as gains
    where what_if like 'without\_%' escape '\'
),

failed_without as (
    select batch, policy, substr(what_if, length('without_') + 1) as component, avg(failed_gpu_h) as failed_gpu_h
    from what_ifs
    where scenario = $scenario and what_if like 'without\_%' escape '\'
    group by batch, policy, what_if
),

failed_logged as (
    select batch, policy, gpu_h as failed_gpu_h
    from best_ledger($scenario)
    where bucket = 'failed'
),

stopped as (
    select
        stops.batch,
        stops.policy,
        outages.component,
        sum(share_frac) filter (state in ('running', 'saving')) as interruptions,
        sum(rework_gpu_h) as rework_gpu_h,
        sum(detect_gpu_h) as detect_gpu_h,
        sum(restart_gpu_h) as restart_gpu_h,
    from stops
    inner join best
        on best.batch = stops.batch and best.policy = stops.policy and best.spare_domains = stops.spare_domains
    inner join outages on outages.outage_id = stops.outage_id and outages.scenario = $scenario
    where stops.scenario = $scenario
    group by stops.batch, stops.policy, outages.component
),

lost as (
    select * from lost_by_component($scenario)
),

bounds as (
    select window_d, placements from scenario_window($scenario)
),

components as (
    select component from lost
    union
    select component from gains
),

joined as (
    select
        best.batch,
        best.policy,
        components.component,
        coalesce(lost.outages, 0) as outages,
        coalesce(lost.down_gpu_h, 0) as down_gpu_h,
        coalesce(lost.down_gpu_h, 0) / window_d as down_gpu_h_per_day,
        coalesce(stopped.interruptions, 0) / placements as interruptions,
        gains.gain_gpu_h as brings_back_gpu_h,
        gains.gain_gpu_h_per_day as brings_back_gpu_h_per_day,
        gains.gain_low_gpu_h_per_day as brings_back_low_gpu_h_per_day,
        gains.gain_high_gpu_h_per_day as brings_back_high_gpu_h_per_day,
        gains.gain_frac as brings_back_frac,
        case when gains.batch is not null then failed_logged.failed_gpu_h - failed_without.failed_gpu_h end
            as failed_gpu_h,
        case when gains.batch is not null then coalesce(stopped.rework_gpu_h, 0) / placements end as rework_gpu_h,
        case when gains.batch is not null then coalesce(stopped.detect_gpu_h, 0) / placements end as detect_gpu_h,
        case when gains.batch is not null then coalesce(stopped.restart_gpu_h, 0) / placements end as restart_gpu_h,
    from best
    cross join components
    cross join bounds
    left join lost on lost.component = components.component
    left join gains
        on gains.batch = best.batch and gains.policy = best.policy and gains.component = components.component
    left join failed_without
        on
            failed_without.batch = best.batch
            and failed_without.policy = best.policy
            and failed_without.component = components.component
    left join failed_logged on failed_logged.batch = best.batch and failed_logged.policy = best.policy
    left join stopped
        on stopped.batch = best.batch and stopped.policy = best.policy and stopped.component = components.component
)

select
    *,
    brings_back_gpu_h - failed_gpu_h - rework_gpu_h - detect_gpu_h - restart_gpu_h as rest_gpu_h,
from joined
order by batch, down_gpu_h desc, component
