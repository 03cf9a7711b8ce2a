-- title: Events with the index of each GPU, and whether their source tells when a fault ends
-- grain: one row per event
-- reads: events, gpu_names, onset_only_sources
-- units: as in events
-- source: model.md section 2, rule 3
-- caveat: fault_source is the source where ends are told, because a fault's end is told by the log of its onset;
--   it is empty for sources of onsets only, whose rows of one fault are one fault whichever log they stand in.
with

events as (
    select * from events
),

gpu_names as (
    select * from gpu_names
),

onset_only_sources as (
    select * from onset_only_sources
)

select
    events.* exclude (gpu),
    coalesce(events.gpu, gpu_names.gpu) as gpu,
    events.source not in (select source from onset_only_sources) as has_ends,
    case when events.source in (select source from onset_only_sources) then '' else events.source end as fault_source,
from events
left join gpu_names
    on
        gpu_names.cluster = events.cluster
        and gpu_names.node = events.node
        and gpu_names.gpu_name = events.gpu_name
