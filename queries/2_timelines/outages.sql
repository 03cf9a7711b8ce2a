-- title: Outages: one per fault of one entity, logs laid together
-- grain: one row per outage (raw, before the union)
-- reads: outage_members, assumed_faults
-- units: duration_s in seconds; times UTC, [t_start, t_end)
-- source: model.md section 2, rules 2 to 4 and 7; assumed app-level faults: rule 6
-- caveat: from the first sign to the last return that any of its logs tells; what it takes in between is in
--   outage_parts. gpu is null when the whole node was out for some of it. Component and reason are those of the
--   first cause that names a GPU or stands in a kernel's log, else of the first row that knows a component.
--   Planned work that counts as no failure has severity info. An open one ends when the log was taken, if that was
--   said, at the window's end at the latest. An assumed app-level fault has no length, no node and no row of a log
--   behind it (events = 0). The scenario's severities may leave all of them out, and turn none into an outage.
with

outage_members as (
    select * from outage_members
),

assumed_faults as (
    select * from assumed_faults
),

several as (
    select outage_id from outage_members where role <> 'own'
),

-- Which row of each outage tells most; then when it was seen, whole node or not, and its end.
ranked as (
    select
        members.*,
        anchor.logged_start as anchor_start,
        row_number() over (
            partition by members.outage_id
            order by
                not members.takes,
                case when members.is_aside then members.component <> 'planned' else false end,
                members.component = 'unknown',
                not members.is_aside and members.component = 'planned',
                not (
                    (members.gpu is not null or not members.has_ends)
                    and members.logged_start <= anchor.logged_start
                ),
                members.logged_start,
                members.part_id
        ) as place,
    from outage_members as members
    inner join outage_members as anchor on anchor.part_id = members.outage_id
    where members.outage_id in (select outage_id from several)
),

joined as (
    select
        outage_id,
        any_value(node) as node,
        case when bool_and(gpu is not null) filter (takes) then any_value(gpu) filter (takes) end as gpu,
        min(t_start) filter (takes) as t_start,
        max(t_end) filter (takes) as t_end,
        arg_max(is_open, (t_end, not is_open)) filter (takes) as is_open,
        false as is_assumed,
        any_value(component) filter (place = 1) as component,
        any_value(severity) filter (place = 1) as severity,
        any_value(reason) filter (place = 1) as reason,
        bool_or(is_aside) as is_aside,
        sum(events) as events,
    from ranked
    group by outage_id
),

all_outages as (
    select
        outage_id, node, gpu, t_start, t_end, is_open, is_assumed, component, severity, reason, is_aside, events,
    from outage_members
    where outage_id not in (select outage_id from several)
    union all by name
    select * from joined
),

in_window as (
    select
        outage_id,
        $scenario as scenario,
        node,
        gpu,
        null::bigint as domain_id,
        t_start,
        t_end,
        component,
        case when is_aside then 'info' else severity end as severity,
        reason,
        is_open as is_censored,
        case
            when is_open then case when t_end < $window_end::timestamp then 'as_of' else 'window' end
            when is_assumed then 'assumed'
            else 'logged'
        end as end_origin,
        events::bigint as events,
    from all_outages
    where
        t_start < $window_end::timestamp
        and (t_end > $window_start::timestamp or t_start >= $window_start::timestamp)
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
