-- title: What became of every row of the log
-- grain: one row per item, in reading order
-- reads: files, rejects, events, unpaired_clears, outages, outage_rows, placements, scenario_window
-- units: counts; of_count is the whole an item is part of
-- source: model.md section 2, rule 1: read = accepted + rejected
-- caveat: counts all ingested files of the sources that the scenario's outages come from (the report looks at
--   the scenario's own files only). Outages of severity info or degraded take no GPU away. An unplaced outage
--   would take GPUs, but its node is unplaced, or its domain unknown, in the placement that charts show.
--   Planned work counts as no failure unless the scenario says so ([trace] planned): it is information.
--   Assumed app-level faults are no row of a log: they are told apart and are in no other count. A window that
--   begins before the first row of the log, or ends after its last and after it was taken, is not covered there:
--   no failure is known, which is not none. Hours are rounded; a synthetic trace covers its window.
with

logged_and_assumed as (
    select * from outages where scenario = $scenario
),

outages as (
    select * from logged_and_assumed where events is distinct from 0
),

sources as (
    select distinct source from outage_rows where scenario = $scenario
),

files as (
    select * from files
    where source in (select source from sources) or not exists (select 1 from sources)
),

rejects as (
    select * from rejects
    where source in (select source from sources) or not exists (select 1 from sources)
),

totals as (
    select
        (select count(*) from files) as files,
        (select coalesce(sum(rows_read), 0)::bigint from files) as rows_read,
        (select coalesce(sum(rows_accepted), 0)::bigint from files) as rows_accepted,
        (select count(*) from outages) as outages,
),

machines as (
    select * from scenario_window($scenario)
),

placed as (
    select * from placements
    where scenario = $scenario and domain_id is not null and placement_seed = (select first_seed from machines)
),

down_outages as (
    select outages.node, outages.gpu, events.domain
    from outages
    left join events on events.event_id = outages.outage_id and events.scope = 'domain'
    where outages.severity = 'down'
),

unplaced_outages as (
    select *
    from down_outages
    where
        not exists (
            select 1 from placed
            where
                placed.node = down_outages.node
                and (
                    down_outages.gpu is null
                    or down_outages.gpu between placed.node_gpu_first
                    and placed.node_gpu_first + placed.gpus - 1
                )
        )
        and not exists (select 1 from placed where placed.domain = down_outages.domain)
),

log as (
    select min(t_start) as first_t, greatest(max(coalesce(t_end, t_start)), max(as_of)) as last_t
    from events
    where source in (select source from sources) and source <> 'synth'
    having count(*) > 0
),

uncovered as (
    select
        (epoch_us(machines.t_end) - epoch_us(machines.t_start)) / 3600e6 as window_h,
        (epoch_us(least(first_t, machines.t_end)) - epoch_us(machines.t_start)) / 3600e6 as before_h,
        (epoch_us(machines.t_end) - epoch_us(greatest(last_t, machines.t_start))) / 3600e6 as after_h,
    from log cross join machines
),

items as (
    select 1 as place, 'files' as item, '' as reason, files as count, null::bigint as of_count from totals
    union all
    select 2, 'rows read', '', rows_read, null from totals
    union all
    select 3, 'rows accepted', '', rows_accepted, rows_read from totals
    union all
    select 4, 'rows rejected', '', rows_read - rows_accepted, rows_read from totals
    union all
    select 5, 'rejected because', reason, count(*), any_value(rows_read)
    from rejects cross join totals
    group by reason
    union all
    select 6, 'clears of no open fault', '', count(*), (select rows_accepted from totals)
    from unpaired_clears
    where scenario = $scenario
    union all
    select 7, 'outages', '', outages, null from totals
    union all
    select 8, 'outages by severity', severity, count(*), any_value(totals.outages)
    from outages cross join totals
    group by severity
    union all
    select 9, 'planned work set aside', '', count(*), any_value(totals.outages)
    from outages cross join totals
    inner join events on event_id = outage_id and events.severity in ('down', 'app')
    where outages.severity = 'info' and outages.component = 'planned'
    having count(*) > 0
    union all
    select 10, 'outages without a logged end', '', count(*) filter (is_censored), count(*) from outages
    union all
    select 11, 'outages with an assumed end', '', count(*) filter (end_origin = 'assumed'), count(*) from outages
    union all
    select 12, 'outages of no length', '', count(*) filter (duration_s = 0), count(*) from outages
    union all
    select 13, 'nodes with an outage', '', count(distinct node), (select nodes from machines) from outages
    union all
    select 14, 'unplaced nodes', '', unplaced_nodes, nodes from machines
    union all
    select 15, 'unplaced outages', '', (select count(*) from unplaced_outages), outages from totals
    union all
    select 16, 'assumed app-level faults', '', count(*) filter (events = 0), null from logged_and_assumed
    union all
    select 17, 'hours of the window without a log', side, round(greatest(hours, 0))::bigint, round(window_h)::bigint
    from uncovered, lateral (
        values ('before its first row', before_h), ('after its last row', after_h)
    ) as sides (side, hours)
    where hours is not null
)

select
    item,
    reason,
    count,
    of_count,
    count / nullif(of_count, 0) as share_frac,
from items
order by place, count desc, reason
