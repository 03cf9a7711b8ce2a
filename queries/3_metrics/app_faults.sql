-- title: How many outages take GPUs away, and how many faults are app-level, logged or assumed
-- grain: one row
-- reads: outages
-- units: counts
-- source: model.md section 2, rule 6
-- caveat: a log of hardware faults holds no app-level fault; the interruptions of a replay are then a lower bound,
--   unless the scenario assumes a rate of them. outages counts what was logged: an assumed fault is no row of it.
with

outages as (
    select * from outages where scenario = $scenario
)

select
    count(*) filter (events is distinct from 0) as outages,
    count(*) filter (severity = 'app') as app_faults,
    count(*) filter (severity = 'app' and events is distinct from 0) as logged_app_faults,
    count(*) filter (severity = 'app' and events = 0) as assumed_app_faults,
    count(*) filter (severity = 'down') as down,
from outages
