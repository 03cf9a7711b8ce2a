-- title: Instants at which GPUs that were up go down, and app-level faults
-- grain: instant x outage x GPU range
-- reads: segment_outages, downtime_us, outages, placements
-- units: times UTC; GPU indices within the domain, both ends inclusive
-- source: model.md section 3
-- caveat: a zero-length outage is an onset too; one that falls on GPUs already down (or that come back
--   at this very instant) is not. Onsets at or before the window's start set the initial state instead.
with

downtime_us as (
    select * from downtime_us
),

app_faults as (
    select
        outage_id,
        epoch_us(t_start) - epoch_us($window_start::timestamp) as t_start_us,
    from outages
    where
        severity = 'app'
        and not list_contains($left_out::varchar[], component)
        and not list_contains($left_out::varchar[], coalesce(reason, ''))
        and not list_contains($left_out_components::varchar[], component)
        and not list_contains($left_out_nodes::varchar[], coalesce(node, ''))
),

components as (
    select outage_id, component from outages
),

seeds as (
    select distinct scenario, placement_seed from placements
),

-- Two logs may tell of one outage from the same instant on.
candidates as (
    select distinct scenario, placement_seed, domain_id, gpu_first, gpu_last, t_start_us, outage_id
    from segment_outages
    where t_start_us > 0 and t_start_us < $window_us
),

was_up as (
    select candidate.*
    from candidates as candidate
    asof left join downtime_us as down
        on
            down.placement_seed = candidate.placement_seed
            and down.domain_id = candidate.domain_id
            and down.gpu_first = candidate.gpu_first
            and down.t_start_us < candidate.t_start_us
    where down.t_end_us is null or down.t_end_us < candidate.t_start_us
),

joined as (
    select
        *,
        gpu_first - coalesce(
            lag(gpu_last) over (partition by placement_seed, domain_id, outage_id, t_start_us order by gpu_first), -2
        ) as step,
    from was_up
),

ranges as (
    select
        *,
        (sum(case when step = 1 then 0 else 1 end) over (
            partition by placement_seed, domain_id, outage_id, t_start_us
            order by gpu_first
            rows unbounded preceding
        ))::bigint as range_number,
    from joined
),

gpu_onsets as (
    select
        scenario,
        placement_seed,
        t_start_us,
        domain_id,
        min(gpu_first) as gpu_first,
        max(gpu_last) as gpu_last,
        'down' as severity,
        outage_id,
    from ranges
    group by scenario, placement_seed, t_start_us, domain_id, outage_id, range_number
),

all_onsets as (
    select * from gpu_onsets
    union all by name
    select scenario, placement_seed, t_start_us, 'app' as severity, outage_id
    from app_faults
    cross join seeds
    where t_start_us > 0 and t_start_us < $window_us
),

stamped as (
    select
        scenario,
        placement_seed,
        make_timestamp(epoch_us($window_start::timestamp) + t_start_us) as t,
        domain_id,
        gpu_first,
        gpu_last,
        severity,
        outage_id,
        component,
    from all_onsets
    inner join components using (outage_id)
)

select * from stamped
order by placement_seed, t, domain_id, gpu_first, outage_id
