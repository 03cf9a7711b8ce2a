-- title: Which rows of which logs made each outage
-- grain: outage x event
-- reads: outages, incidents, located_events, causes
-- units: t in UTC
-- source: model.md section 2: one fault seen twice is one outage
-- caveat: part: onset, repeat, clear or interval of the outage itself; cause: a row of a fault that was laid to
--   it. Assumed app-level faults have no row.
with

outages as (
    select outage_id from outages where events > 0
),

incidents as (
    select incident_id, event_id, part from incidents
),

causes as (
    select cause_id, outage_id from causes
),

own as (
    select incident_id as outage_id, event_id, part from incidents
    union all
    select event_id as outage_id, event_id, kind as part from located_events where kind = 'interval'
),

of_causes as (
    select causes.outage_id, own.event_id, 'cause' as part
    from own
    inner join causes on causes.cause_id = own.outage_id
),

all_rows as (
    select * from own
    union all
    select * from of_causes
)

select
    $scenario as scenario,
    all_rows.outage_id,
    all_rows.event_id,
    part,
    located_events.source,
    located_events.file,
    located_events."row",
    located_events.t_start as t,
    located_events.node,
    located_events.gpu_name,
    located_events.code,
    located_events.reason,
from all_rows
inner join outages on outages.outage_id = all_rows.outage_id
inner join located_events on located_events.event_id = all_rows.event_id
order by all_rows.outage_id, t, located_events.file, located_events."row"
