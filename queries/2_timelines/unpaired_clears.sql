-- title: Clears that close no open fault
-- grain: one row per refused clear
-- reads: located_events, incidents
-- units: times UTC
-- source: model.md section 2, rule 3
-- caveat: judged over all files of a scenario, because an onset may stand in yesterday's file.
with

located_events as (
    select * from located_events where kind = 'clear'
),

incidents as (
    select event_id from incidents where part = 'clear'
)

select
    $scenario as scenario,
    source,
    file,
    "row",
    node,
    t_start as t,
    code,
from located_events
where event_id not in (select event_id from incidents)
order by file, "row"
