-- title: Faults that an outage of another log is made of
-- grain: one row per fault that is part of a wider or longer-known outage
-- reads: logged_outages, same_outages
-- units: none
-- source: model.md section 2, rule 7: the kernel log gives the cause, the scheduler's events the interval
-- caveat: a fault is one whose end no log tells, or one of a single GPU. It belongs to the first outage of its node
--   that had not ended when the fault began and that begins at most $cause_lead_s after it, or before the fault
--   has ended by its own log. A fault without an end may also belong to an outage of its own GPU. One log alone
--   never gives both. Of an open outage nothing is known after its log was taken.
with

logged_outages as (
    select *
    from logged_outages
    where severity = 'down' and node is not null and scope <> 'domain' and component <> 'capacity'
),

same_outages as (
    select * from same_outages
),

laid as (
    select
        coalesce(same_outages.outage_id, logged_outages.outage_id) as outage_id,
        cluster,
        node,
        gpu,
        log,
        is_assumed,
        epoch_us(t_start) as from_us,
        case
            when is_assumed then epoch_us(t_start) + 1
            else greatest(coalesce(epoch_us(coalesce(t_end, as_of)), 9e18::bigint), epoch_us(t_start) + 1)
        end as to_us,
    from logged_outages
    left join same_outages on same_outages.part_id = logged_outages.outage_id
),

told as (
    select
        outage_id,
        any_value(cluster) as cluster,
        any_value(node) as node,
        any_value(gpu) as gpu,
        any_value(is_assumed) as is_assumed,
        min(log) as first_log,
        max(log) as last_log,
        min(from_us) as from_us,
        max(to_us) as to_us,
    from laid
    group by outage_id
),

-- What one log alone tells of a node is the most of it, and needs no more.
several as (
    select
        told.* exclude (first_log, last_log),
        case when first_log = last_log then first_log else '*' end as log,
    from told
    qualify
        min(first_log) over (partition by cluster, node) <> max(last_log) over (partition by cluster, node)
),

faults as (
    select *, greatest(from_us + ($cause_lead_s * 1e6)::bigint + 1, to_us) as until_us
    from several
    where is_assumed or gpu is not null
),

hosts as (
    select * from several where not is_assumed
),

fault_logs as (
    select distinct cluster, node, log from faults
),

-- Wide: what takes the whole node, for every fault of it. Same: what takes one GPU, for faults without an end.
offered as (
    select hosts.* exclude (gpu, log), fault_logs.log, -1 as gpu
    from hosts
    inner join fault_logs
        on
            fault_logs.cluster = hosts.cluster
            and fault_logs.node = hosts.node
            and (hosts.log <> fault_logs.log or hosts.log = '*')
    where hosts.gpu is null
    union all by name
    select hosts.* exclude (log), '' as log
    from hosts
    where gpu is not null and log <> ''
),

wanted as (
    select *, -1 as host_gpu from faults
    union all
    select *, gpu as host_gpu from faults where is_assumed and gpu is not null
),

before as (
    select
        *,
        max(to_us) over (
            partition by cluster, node, gpu, log
            order by from_us, outage_id
            rows between unbounded preceding and 1 preceding
        ) as reached_us,
    from offered
),

-- The first outage that ends after a given instant is one that ends later than all before it.
lasting as (
    select * from before where reached_us is null or to_us > reached_us
),

found as (
    select
        wanted.outage_id as cause_id,
        lasting.outage_id as outage_id,
        lasting.from_us,
    from wanted
    asof inner join lasting
        on
            lasting.cluster = wanted.cluster
            and lasting.node = wanted.node
            and lasting.gpu = wanted.host_gpu
            and lasting.log = wanted.log
            and wanted.from_us < lasting.to_us
    where lasting.from_us < wanted.until_us
)

select cause_id, arg_min(outage_id, (from_us, outage_id)) as outage_id
from found
group by cause_id
