-- title: What each component costs the best policy
-- grain: batch rule x component
-- reads: best_splits, what_if_gains, lost_by_component, scenario_window
-- units: GPU-hours, GPU-hours a day, fraction of the pool's GPU-hours; mean over placements
-- source: model.md section 7 (ledger)
-- caveat: down_gpu_h is the direct loss (sums of outages); brings_back_gpu_h is what the policy that is best
--   under the batch rule gains when the component never fails, rework, restarts and stranded GPUs included.
--   It is null for a component that was not left out.
with

best as (
    select batch, policy
    from best_splits($scenario)
    qualify row_number() over (partition by batch order by goodput_frac desc, policy) = 1
),

gains as (
    select * from what_if_gains($scenario) where what_if like 'without\_%' escape '\'
),

lost as (
    select * from lost_by_component($scenario)
),

bounds as (
    select window_d from scenario_window($scenario)
),

components as (
    select component from lost
    union
    select substr(what_if, length('without_') + 1) as component from gains
)

select
    best.batch,
    best.policy,
    components.component,
    coalesce(lost.outages, 0) as outages,
    coalesce(lost.down_gpu_h, 0) as down_gpu_h,
    coalesce(lost.down_gpu_h, 0) / window_d as down_gpu_h_per_day,
    gains.gain_gpu_h as brings_back_gpu_h,
    gains.gain_gpu_h_per_day as brings_back_gpu_h_per_day,
    gains.gain_low_gpu_h_per_day as brings_back_low_gpu_h_per_day,
    gains.gain_high_gpu_h_per_day as brings_back_high_gpu_h_per_day,
    gains.gain_frac as brings_back_frac,
from best
cross join components
cross join bounds
left join lost on lost.component = components.component
left join gains
    on
        gains.batch = best.batch
        and gains.policy = best.policy
        and gains.what_if = 'without_' || components.component
order by best.batch, down_gpu_h desc, components.component
