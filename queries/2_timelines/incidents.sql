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

faults as (
    select
        cluster, fault_source, node, gpu, domain, code,
        row_number() over () as fault,
    from (select distinct cluster, fault_source, node, gpu, domain, code from located_events)
),

-- All faults in one order, and in it one pass: a storm has a million rows of few faults.
ordered as (
    select
        faults.fault,
        event_id,
        kind,
        has_ends,
        t_start,
    from located_events
    inner join faults
        on
            faults.cluster = located_events.cluster
            and faults.fault_source = located_events.fault_source
            and faults.code = located_events.code
            and faults.node is not distinct from located_events.node
            and faults.gpu is not distinct from located_events.gpu
            and faults.domain is not distinct from located_events.domain
    order by faults.fault, t_start, file, "row", event_id
),

followed as (
    select
        *,
        lag(fault) over () as previous_fault,
        lag(kind) over () as previous_kind,
        lag(t_start) over () as previous_t,
    from ordered
),

opening as (
    select
        * exclude (previous_fault, previous_kind, previous_t),
        fault is distinct from previous_fault as is_first,
        case when fault = previous_fault then previous_kind end as previous_kind,
        kind = 'onset'
        and (
            fault is distinct from previous_fault
            or previous_kind = 'clear'
            or (not has_ends and epoch_us(t_start) - epoch_us(previous_t) > $fold_s * 1e6)
        ) as opens,
    from followed
),

numbered as (
    select
        *,
        (sum((opens or is_first)::int) over (rows unbounded preceding))::bigint as number,
    from opening
),

named as (
    select number, event_id as incident_id from numbered where opens
)

select
    numbered.event_id,
    named.incident_id,
    numbered.t_start,
    case when opens then 'onset' when kind = 'onset' then 'repeat' else 'clear' end as part,
from numbered
inner join named on named.number = numbered.number
where kind = 'onset' or previous_kind = 'onset'
