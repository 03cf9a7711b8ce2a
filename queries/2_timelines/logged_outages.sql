-- title: Outages as each log tells them, before logs are laid together
-- grain: one row per incident or interval
-- reads: incidents, located_events, severity_choices, assumed_repairs
-- units: times UTC; t_end is null while open; t_open_until: what is known of an open one
-- source: model.md section 2, rules 2 to 4
-- caveat: An open interval that another file tells again with its end (a log that has grown since) is that one
--   outage; two rows of one file stay two, and one row of two versions of a file is at the same place in both.
--   Where a log tells no ends, an incident ends at its clear if it has one, else its component's assumed repair
--   time after its last row; one that takes nothing down has no length. Severities are those of the scenario;
--   one for a component leaves rows of information (there from the start, in the wake of a fault) as they are.
--   gpu is null where a fault takes the whole node, also if its rows name the GPU that it began with.
with

located_events as (
    select * from located_events
),

incidents as (
    select * from incidents
),

severity_choices as (
    select * from severity_choices
),

assumed_repairs as (
    select * from assumed_repairs
),

paired as (
    select
        incident_id as outage_id,
        any_value(cluster) as cluster,
        any_value(has_ends) as has_ends,
        any_value(node) as node,
        any_value(gpu) as gpu,
        max(scope) filter (part = 'onset') as scope,
        any_value(domain) as domain,
        any_value(code) as code,
        min(t_start) filter (part = 'onset') as t_start,
        max(t_start) filter (part <> 'clear') as t_last,
        min(t_start) filter (part = 'clear') as t_end,
        max(component) filter (part = 'onset') as component,
        max(severity) filter (part = 'onset') as severity,
        max(reason) filter (part = 'onset') as reason,
        max(as_of) as as_of,
        count(*) as events,
    from incidents
    group by incident_id
),

-- One row a fault and start, so that many equal rows are not compared each with each.
closed as (
    select
        cluster, source, code, node, gpu, domain, t_start,
        min(file) as first_file,
        max(file) as last_file,
        list("row") as places,
    from located_events
    where kind = 'interval' and t_end is not null
    group by cluster, source, code, node, gpu, domain, t_start
),

told_again as (
    select event_id
    from located_events as early
    inner join closed
        on
            closed.t_start = early.t_start
            and closed.cluster = early.cluster
            and closed.source = early.source
            and closed.code = early.code
            and closed.node is not distinct from early.node
            and closed.gpu is not distinct from early.gpu
            and closed.domain is not distinct from early.domain
    where
        early.kind = 'interval'
        and early.t_end is null
        and (
            closed.first_file <> early.file
            or closed.last_file <> early.file
            or list_contains(closed.places, early."row")
        )
),

intervals as (
    select
        event_id as outage_id, cluster, true as has_ends, node, gpu, scope, domain, code,
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
        logged.* exclude (severity, gpu, scope),
        case when scope <> 'node' then gpu end as gpu,
        coalesce(
            by_reason.severity,
            case when logged.severity <> 'info' then by_component.severity end,
            logged.severity
        ) as severity,
    from logged
    left join severity_choices as by_reason on by_reason.word = logged.reason
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
    * exclude (t_end, t_last, assumed_end),
    coalesce(t_end, assumed_end) as t_end,
    assumed_end is not null and severity not in ('app', 'info') as is_assumed,
from ended
