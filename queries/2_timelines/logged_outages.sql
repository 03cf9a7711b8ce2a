-- title: Outages as each log tells them, before logs are laid together
-- grain: one row per incident or interval
-- reads: incidents, located_events, told_again, severity_choices, assumed_repairs
-- units: times UTC; t_end is null while open; as_of: what is known of an open one
-- source: model.md section 2, rules 2 to 4
-- caveat: Where a log tells no ends, an incident ends at its clear if it has one, else its component's assumed
--   repair time after its last row; one that takes nothing down has no length. A log of onsets and clears goes on in
--   its next file: an open incident is known to last until the last of them was taken. An interval is known until
--   its own file was: a snapshot or list that was taken later and lacks it does not say that it went on.
--   Severities are those of the scenario: for a reason before one for a code, before one for a component, which
--   leaves rows of information (there from the start, in the wake of a fault) as they are. is_planned: planned work
--   of a source in $planned_aside, which no choice of the scenario is about; outages takes it for information. log:
--   sources without ends are one, the empty one.
--   gpu is null where a fault takes the whole node, also if its rows name the GPU that it began with.
with

located_events as (
    select * from located_events
),

incidents as (
    select * from incidents
),

told_again as (
    select event_id from told_again
),

severity_choices as (
    select * from severity_choices
),

assumed_repairs as (
    select * from assumed_repairs
),

-- A log that says when it was taken is known until then, and until its last row.
known as (
    select cluster, source, greatest(max(as_of), max(t_start)) as known_until
    from located_events
    where has_ends
    group by cluster, source
    having max(as_of) is not null
),

folded as (
    select
        incident_id,
        max(t_start) filter (part <> 'clear') as t_last,
        min(t_start) filter (part = 'clear') as t_end,
        count(*) as events,
    from incidents
    group by incident_id
),

-- What an incident is, its first row says.
paired as (
    select
        incident_id as outage_id,
        onset.cluster,
        fault_source as log,
        has_ends,
        node,
        gpu,
        scope,
        domain,
        onset.source,
        code,
        onset.t_start,
        folded.t_last,
        folded.t_end,
        component,
        severity,
        reason,
        known_until as as_of,
        folded.events,
    from folded
    inner join located_events as onset on onset.event_id = folded.incident_id
    left join known on has_ends and known.cluster = onset.cluster and known.source = onset.source
),

intervals as (
    select
        event_id as outage_id, cluster, source as log, true as has_ends, node, gpu, scope, domain, source, code,
        t_start, t_start as t_last, t_end, component, severity, reason, as_of, 1 as events,
    from located_events
    where kind = 'interval' and event_id not in (select event_id from told_again)
),

logged as (
    select * from paired
    union all by name
    select * from intervals
),

chosen as (
    select
        logged.* exclude (severity, gpu),
        case when scope <> 'node' then gpu end as gpu,
        coalesce(
            by_reason.severity,
            by_code.severity,
            case when logged.severity <> 'info' then by_component.severity end,
            logged.severity
        ) as severity,
        logged.component = 'planned'
        and logged.severity in ('down', 'app')
        and by_reason.severity is null
        and by_code.severity is null
        and by_component.severity is null
        and list_contains($planned_aside::varchar[], source) as is_planned,
    from logged
    left join severity_choices as by_reason on by_reason.word = logged.reason
    left join severity_choices as by_code on by_code.word = logged.code and logged.code <> logged.component
    left join severity_choices as by_component on by_component.word = logged.component
),

ended as (
    select
        chosen.*,
        case
            when chosen.t_end is not null or has_ends then null
            when severity in ('app', 'info') then t_start
            else make_timestamp(epoch_us(t_last) + (repair_h * 3600e6)::bigint)
        end as assumed_end,
    from chosen
    left join assumed_repairs on assumed_repairs.component = chosen.component
)

select
    * exclude (t_end, t_last, assumed_end, source, code),
    coalesce(t_end, assumed_end) as t_end,
    assumed_end is not null and severity not in ('app', 'info') as is_assumed,
from ended
