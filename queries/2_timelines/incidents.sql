-- title: Onsets and clears, each with the incident it belongs to
-- grain: one row per event of kind onset or clear that an incident is made of
-- reads: located_events
-- units: times UTC
-- source: model.md section 2, rules 3 and 4
-- caveat: pair by fault and in file order; sorting by (time, kind) puts a zero-length fault's clear before its
--   onset. Where ends are told, a repeated onset of an open fault is a repeat whenever it comes; where they are
--   not, one within $fold_s of the row before it is. A clear of no open fault is in unpaired_clears.
with

located_events as (
    select * from located_events where kind in ('onset', 'clear')
),

fault_rows as (
    select
        *,
        lag(kind) over fault as previous_kind,
        lag(t_start) over fault as previous_t,
    from located_events
    window fault as (
        partition by cluster, fault_source, node, gpu, domain, code
        order by t_start, file, "row", event_id
    )
),

opening as (
    select
        *,
        kind = 'onset'
        and (
            coalesce(previous_kind, 'clear') = 'clear'
            or (not has_ends and epoch_us(t_start) - epoch_us(previous_t) > $fold_s * 1e6)
        ) as opens,
    from fault_rows
),

numbered as (
    select
        *,
        (sum(case when opens then 1 else 0 end) over (
            partition by cluster, fault_source, node, gpu, domain, code
            order by t_start, file, "row", event_id
            rows unbounded preceding
        ))::bigint as incident_number,
    from opening
),

named as (
    select
        *,
        max(event_id) filter (opens) over (
            partition by cluster, fault_source, node, gpu, domain, code, incident_number
        ) as incident_id,
        case when opens then 'onset' when kind = 'onset' then 'repeat' else 'clear' end as part,
    from numbered
    where incident_number > 0
)

select * exclude (previous_kind, previous_t, opens, incident_number)
from named
where kind = 'onset' or previous_kind = 'onset'
order by incident_id, t_start, file, "row"
