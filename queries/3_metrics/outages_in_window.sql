-- title: Outages that take GPUs away, cut to the window, with the GPUs they take
-- grain: one row per outage of severity down
-- reads: outages, outage_parts, placements, nodes_of_domain_faults, scenario_window
-- units: down_h, down_gpu_h in hours and GPU-hours within the window, duration_h in hours as logged, gpus a count;
--   times UTC, [t_start, t_end)
-- source: model.md section 1 (outage) and section 2, rule 5
-- caveat: raw outages, before the union: two faults of one node at one time count twice. Unplaced nodes are
--   in here, because a log does not know the pool. A node without a placement counts one GPU. A fault of a
--   domain counts all GPUs of the domain. gpus is the most that are out at once: an outage that several logs tell
--   of may take its node for some of its time only, and down_gpu_h counts just that. What a scenario's blast
--   radius adds to a fault is not counted.
with

outages as (
    select * from outages where scenario = $scenario and severity = 'down'
),

bounds as (
    select t_start as window_start, t_end as window_end, first_seed from scenario_window($scenario)
),

domain_faults as (
    select outage_id, sum(gpus)::bigint as gpus
    from nodes_of_domain_faults($scenario)
    group by outage_id
),

node_gpus as (
    select node, sum(gpus)::bigint as gpus
    from placements
    where scenario = $scenario and placement_seed = (select first_seed from bounds)
    group by node
),

taken as (
    select
        outage_id,
        gpu is null as is_wide,
        sum(greatest(
            epoch_us(least(outage_parts.t_end, window_end)) - epoch_us(greatest(outage_parts.t_start, window_start)), 0
        )) / 3600e6 as down_h,
    from outage_parts
    cross join bounds
    where scenario = $scenario
    group by outage_id, is_wide
),

clipped as (
    select
        outages.outage_id,
        outages.node,
        outages.gpu,
        component,
        reason,
        is_censored,
        end_origin,
        t_start >= window_start as begins_in_window,
        greatest(t_start, window_start) as t_start,
        least(t_end, window_end) as t_end,
        duration_s / 3600 as duration_h,
        domain_faults.outage_id is not null as is_of_domain,
        coalesce(
            domain_faults.gpus, case when outages.gpu is null then coalesce(node_gpus.gpus, 1) else 1 end
        ) as gpus,
        case when outages.gpu is null then coalesce(node_gpus.gpus, 1) end as wide_gpus,
    from outages
    cross join bounds
    left join domain_faults on domain_faults.outage_id = outages.outage_id
    left join node_gpus on node_gpus.node = outages.node
),

measured as (
    select
        clipped.*,
        greatest(epoch_us(t_end) - epoch_us(t_start), 0) / 3600e6 as down_h,
        coalesce(wide.down_h * wide_gpus, 0) + coalesce(single.down_h, 0) as parts_gpu_h,
    from clipped
    left join taken as wide on wide.is_wide and wide.outage_id = clipped.outage_id
    left join taken as single on not single.is_wide and single.outage_id = clipped.outage_id
)

select
    * exclude (wide_gpus, parts_gpu_h),
    case when is_of_domain then down_h * gpus else parts_gpu_h end as down_gpu_h,
from measured
