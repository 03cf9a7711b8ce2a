-- title: Faults of a log without ends that an outage of another log is made of
-- grain: one row per fault that is part of a longer-known outage
-- reads: logged_outages
-- units: t_start in UTC
-- source: model.md section 2: the kernel log gives the cause, the scheduler's events the interval
-- caveat: a fault belongs to the first outage of its node that begins at most $cause_lead_s after it and has not
--   ended before it; of an open one nothing is known after its log was taken. Only a fault and an outage that
--   take GPUs away are laid together.
with

logged_outages as (
    select * from logged_outages where severity = 'down' and node is not null
)

select
    fault.outage_id as cause_id,
    arg_min(outage.outage_id, (outage.t_start, outage.outage_id)) as outage_id,
    any_value(fault.t_start) as t_start,
    any_value(fault.component) as component,
    any_value(fault.events) as events,
from logged_outages as fault
inner join logged_outages as outage
    on
        outage.cluster = fault.cluster
        and outage.node = fault.node
        and outage.has_ends
        and not fault.has_ends
        and fault.is_assumed
        and (outage.gpu is null or outage.gpu = fault.gpu)
        and epoch_us(outage.t_start) <= epoch_us(fault.t_start) + $cause_lead_s * 1e6
        and coalesce(coalesce(outage.t_end, outage.as_of) > fault.t_start, true)
group by fault.outage_id
