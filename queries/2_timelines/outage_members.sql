-- title: Every log's outages, each with the outage it is part of
-- grain: one row per outage of a log
-- reads: logged_outages, same_outages, causes
-- units: times UTC, [t_start, t_end); an open one ends at what is known of it
-- source: model.md section 2, rules 2 and 7
-- caveat: role: own; same: another log's word for it; cause: a fault laid to it. Each has its own interval: a GPU
--   that was out for longer than its node takes no node with it. But the outage of a node begins with a cause that
--   came at most $cause_lead_s before it, for one fault does not stop a job twice; and a fault without an end ends
--   with the outage it is laid to. takes: false for planned work that a failure has outlasted: the failure takes
--   GPUs from its own start on.
with

same_outages as (
    select * from same_outages
),

causes as (
    select * from causes
),

logged as (
    select
        logged_outages.* exclude (outage_id, cluster, as_of, domain, log),
        logged_outages.outage_id as part_id,
        coalesce(same_outages.outage_id, logged_outages.outage_id) as group_id,
        t_end is null as is_open,
        coalesce(
            t_end, greatest(t_start, least(coalesce(as_of, $window_end::timestamp), $window_end::timestamp))
        ) as until,
    from logged_outages
    left join same_outages on same_outages.part_id = logged_outages.outage_id
),

rooted as (
    select
        logged.*,
        direct.outage_id as host_id,
        coalesce(wide.outage_id, direct.outage_id, group_id) as outage_id,
    from logged
    left join causes as direct on direct.cause_id = group_id
    left join causes as wide on wide.cause_id = direct.outage_id
),

hosts as (
    select
        group_id as host_id,
        max(until) as until,
        arg_max(is_open, (until, not is_open)) as is_open,
    from rooted
    where group_id in (select outage_id from causes)
    group by group_id
),

-- Where the whole node is out, from which cause on.
first_causes as (
    select anchor.part_id, min(fault.t_start) as t_start
    from rooted as fault
    inner join rooted as anchor
        on
            anchor.part_id = fault.outage_id
            and epoch_us(fault.t_start) >= epoch_us(anchor.t_start) - $cause_lead_s * 1e6
    where fault.host_id is not null and anchor.gpu is null
    group by anchor.part_id
),

ended as (
    select
        rooted.* exclude (is_assumed, is_open, until, host_id, t_end, t_start),
        rooted.t_start as logged_start,
        least(rooted.t_start, coalesce(first_causes.t_start, rooted.t_start)) as t_start,
        case
            when rooted.is_assumed and hosts.host_id is not null then greatest(rooted.t_start, hosts.until)
            else rooted.until
        end as t_end,
        case when rooted.is_assumed and hosts.host_id is not null then hosts.is_open else rooted.is_open end as is_open,
        rooted.is_assumed and hosts.host_id is null as is_assumed,
        case
            when rooted.part_id = rooted.outage_id then 'own'
            when rooted.host_id is null then 'same'
            else 'cause'
        end as role,
    from rooted
    left join hosts on hosts.host_id = rooted.host_id
    left join first_causes on first_causes.part_id = rooted.part_id
),

-- Planned work that is an outage's first word is all of it, unless a failure goes on after it.
begun as (
    select
        outage_id,
        arg_min(is_planned, (logged_start, part_id)) as begins_planned,
        epoch_us(max(t_end) filter (is_planned)) + $fold_s * 1e6
        >= epoch_us(coalesce(max(t_end) filter (not is_planned), max(t_end))) as is_all_planned,
    from ended
    where outage_id in (select outage_id from ended where is_planned)
    group by outage_id
)

select
    ended.* exclude (is_planned),
    coalesce(begins_planned and is_all_planned, false) as is_aside,
    not coalesce(is_planned and begins_planned and not is_all_planned, false) as takes,
from ended
left join begun on begun.outage_id = ended.outage_id
