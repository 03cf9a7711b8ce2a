-- title: Which rows of which logs made each outage
-- grain: outage x event
-- reads: outages, outage_members, incidents, located_events, told_again
-- units: t in UTC
-- source: model.md section 2: one fault seen twice is one outage
-- caveat: part: onset, repeat, clear or interval of the outage's own log, again for an open interval that a later
--   file told again; same: a row of another log that tells of it too; cause: a row of a fault that was laid to it.
--   Every row stands in one outage at most. Assumed app-level faults have no row.
with

outages as (
    select outage_id from outages where events > 0
),

incidents as (
    select incident_id, event_id, part from incidents
),

told_again as (
    select * from told_again
),

outage_members as (
    select outage_id, part_id, role from outage_members
),

own as (
    select incident_id as part_id, event_id, part from incidents
    union all
    select event_id as part_id, event_id, kind as part
    from located_events
    where kind = 'interval' and event_id not in (select event_id from told_again)
    union all
    select outage_id as part_id, event_id, 'again' as part from told_again
),

all_rows as (
    select outage_members.outage_id, own.event_id, case when role = 'own' then part else role end as part
    from own
    inner join outage_members on outage_members.part_id = own.part_id
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
