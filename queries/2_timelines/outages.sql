-- title: Outages: one per fault of one entity, logs laid together
-- grain: one row per outage (raw, before the union)
-- reads: logged_outages, causes, assumed_faults
-- units: duration_s in seconds; times UTC, [t_start, t_end)
-- source: model.md section 2, rules 2 to 4; assumed app-level faults: rule 6
-- caveat: an outage with causes begins with the first of them, and takes its component where its own log knows
--   none. An open one ends when the log was taken, if that was said, at the window's end at the latest.
--   An assumed app-level fault has no length, no node and no row of a log behind it (events = 0). The scenario's
--   severities may leave all of them out, and turn none into an outage.
with

logged_outages as (
    select * from logged_outages where outage_id not in (select cause_id from causes)
),

caused as (
    select
        outage_id,
        min(t_start) as t_start,
        arg_min(component, (t_start, cause_id)) as component,
        sum(events) as events,
    from causes
    group by outage_id
),

assumed_faults as (
    select * from assumed_faults
),

joined as (
    select
        logged_outages.* replace (
            least(logged_outages.t_start, coalesce(caused.t_start, logged_outages.t_start)) as t_start,
            case
                when logged_outages.component = 'unknown' then coalesce(caused.component, 'unknown')
                else logged_outages.component
            end as component,
            logged_outages.events + coalesce(caused.events, 0) as events
        ),
        least(coalesce(as_of, $window_end::timestamp), $window_end::timestamp) as open_until,
    from logged_outages
    left join caused on caused.outage_id = logged_outages.outage_id
),

in_window as (
    select
        outage_id,
        $scenario as scenario,
        node,
        gpu,
        null::bigint as domain_id,
        t_start,
        coalesce(t_end, greatest(t_start, open_until)) as t_end,
        component,
        severity,
        reason,
        t_end is null as is_censored,
        case
            when t_end is null then case when open_until < $window_end::timestamp then 'as_of' else 'window' end
            when is_assumed then 'assumed'
            else 'logged'
        end as end_origin,
        events::bigint as events,
    from joined
    where
        t_start < $window_end::timestamp
        and (
            coalesce(t_end, open_until) > $window_start::timestamp or t_start >= $window_start::timestamp
        )
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
