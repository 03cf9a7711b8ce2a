-- title: Outages: one per fault of one entity, onsets paired with clears
-- grain: one row per outage (raw, before the union)
-- reads: events, severity_choices, assumed_faults
-- units: duration_s in seconds; times UTC, [t_start, t_end)
-- source: model.md section 2, rules 2 to 4; assumed app-level faults: rule 6
-- caveat: pair by fault and in file order; sorting by (time, kind) puts a zero-length fault's clear before
--   its onset. A repeated onset of an open fault opens nothing; a clear of no open fault closes nothing.
--   An open interval that another file tells again with its end (a log that has grown since) is that one outage;
--   two rows of one file stay two, and one row of two versions of a file is at the same place in both.
--   An assumed app-level fault has no length, no node and no row of a log behind it (events = 0). The scenario's
--   severities may leave all of them out, and turn none into an outage.
with

events as (
    select * from events
),

severity_choices as (
    select * from severity_choices
),

assumed_faults as (
    select * from assumed_faults
),

fault_rows as (
    select
        *,
        lag(kind) over fault as previous_kind,
    from events
    where kind in ('onset', 'clear')
    window fault as (
        partition by cluster, source, node, gpu, domain, code
        order by t_start, file, "row"
    )
),

numbered as (
    select
        *,
        kind = 'onset' and coalesce(previous_kind, 'clear') = 'clear' as opens,
        kind = 'clear' and previous_kind = 'onset' as closes,
        (sum(case when kind = 'onset' and coalesce(previous_kind, 'clear') = 'clear' then 1 else 0 end) over (
            partition by cluster, source, node, gpu, domain, code
            order by t_start, file, "row"
            rows unbounded preceding
        ))::bigint as outage_number,
    from fault_rows
),

paired as (
    select
        max(event_id) filter (opens) as outage_id,
        node,
        gpu,
        domain,
        min(t_start) filter (opens) as t_start,
        min(t_start) filter (closes) as t_end,
        max(component) filter (opens) as component,
        max(severity) filter (opens) as severity,
        max(reason) filter (opens) as reason,
        count(*) filter (kind = 'onset' or closes) as events,
    from numbered
    where outage_number > 0
    group by cluster, source, node, gpu, domain, code, outage_number
),

intervals as (
    select
        event_id as outage_id, node, gpu, domain, t_start, t_end, component, severity, reason, 1 as events,
    from events
    where
        kind = 'interval'
        and (
            t_end is not null
            or not exists (
                select 1 from events as later
                where
                    later.kind = 'interval'
                    and later.t_end is not null
                    and later.t_start = events.t_start
                    and later.cluster = events.cluster
                    and later.source = events.source
                    and later.code = events.code
                    and later.node is not distinct from events.node
                    and later.gpu is not distinct from events.gpu
                    and later.domain is not distinct from events.domain
                    and (later.file <> events.file or later."row" = events."row")
            )
        )
),

logged as (
    select * from paired
    union all by name
    select * from intervals
),

in_window as (
    select
        outage_id,
        $scenario as scenario,
        node,
        gpu,
        null::bigint as domain_id,
        t_start,
        coalesce(t_end, greatest(t_start, $window_end::timestamp)) as t_end,
        logged.component,
        coalesce(by_reason.severity, by_component.severity, logged.severity) as severity,
        reason,
        t_end is null as is_censored,
        case when t_end is null then 'window' else 'logged' end as end_origin,
        events::bigint as events,
    from logged
    left join severity_choices as by_reason on by_reason.word = logged.reason
    left join severity_choices as by_component on by_component.word = logged.component
    where
        t_start < $window_end::timestamp
        and (t_end is null or t_end > $window_start::timestamp or t_start >= $window_start::timestamp)
),

with_assumed as (
    select * from in_window
    union all by name
    select
        outage_id, $scenario as scenario, t_start, t_start as t_end, component, 'app' as severity, reason,
        false as is_censored, 'assumed' as end_origin, 0::bigint as events,
    from assumed_faults
)

select
    outage_id,
    scenario,
    node,
    gpu,
    domain_id,
    t_start,
    t_end,
    (epoch_us(t_end) - epoch_us(t_start)) / 1e6 as duration_s,
    component,
    severity,
    reason,
    is_censored,
    end_origin,
    events,
from with_assumed
order by t_start, outage_id
