-- title: What happened to one node?
-- grain: outage or app-level fault of the node, in order of time
-- reads: outages, events
-- units: hours; times UTC, [t_start, t_end); row from 1 in the file
-- source: model.md section 2
-- caveat: as the scenario takes the log: every outage of the window, of any severity, ends as logged or, when
--   still open, at the window's end. up_h counts from the latest end before; it is null for the first outage
--   and 0 when that one begins before the earlier ones have ended.
with

outages as (
    select * from outages where scenario = $scenario and node = $node and events is distinct from 0
),

events as (
    select event_id, file, "row" from events
),

ordered as (
    select
        *,
        max(t_end) over (order by t_start, outage_id rows between unbounded preceding and 1 preceding) as up_since,
    from outages
),

told as (
    select
        t_start,
        t_end,
        duration_s / 3600 as duration_h,
        case when up_since is not null then greatest(epoch_us(t_start) - epoch_us(up_since), 0) / 3600e6 end as up_h,
        gpu,
        severity,
        component,
        reason,
        is_censored as still_open,
        file,
        "row",
        outage_id,
    from ordered
    left join events on events.event_id = ordered.outage_id
)

select * exclude (outage_id) from told
order by t_start, outage_id
