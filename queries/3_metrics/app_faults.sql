-- title: How many outages take GPUs away, and how many are app-level faults
-- grain: one row
-- reads: outages
-- units: counts
-- source: model.md section 2, rule 6
-- caveat: a log of hardware faults holds none; the interruptions of a replay are then a lower bound.
with

outages as (
    select * from outages where scenario = $scenario
)

select
    count(*) as outages,
    count(*) filter (severity = 'app') as app_faults,
    count(*) filter (severity = 'down') as down,
from outages
