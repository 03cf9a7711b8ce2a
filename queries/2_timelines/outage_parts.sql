-- title: What each outage takes: the node or a GPU, and when
-- grain: outage x node or GPU x interval; no GPU twice at an instant
-- reads: outage_members, outages
-- units: times UTC, [t_start, t_end)
-- source: model.md section 2, rule 7
-- caveat: an outage that several logs tell of takes the whole node for one time and a GPU for another; its row in
--   outages has the whole time. Raw like that: two outages may overlap. A fault of a domain takes more than its part.
with

outages as (
    select outage_id, node, t_start, t_end, gpu from outages where severity = 'down'
),

several as (
    select distinct outage_id from outage_members where role <> 'own'
),

alone as (
    select * from outages where outage_id not in (select outage_id from several)
),

members as (
    select outage_id, node, gpu, t_start, t_end
    from outage_members
    where
        takes
        and t_end > t_start
        and outage_id in (select outage_id from several)
        and outage_id in (select outage_id from outages)
),

-- A GPU's own stretches, and those of its node laid over them; gpu -1: the node for itself.
covers as (
    select outage_id, node, coalesce(gpu, -1) as gpu, t_start, t_end, gpu is null as is_wide from members
    union all
    select wide.outage_id, wide.node, gpus.gpu, wide.t_start, wide.t_end, true as is_wide
    from members as wide
    inner join (select distinct outage_id, gpu from members where gpu is not null) as gpus
        on gpus.outage_id = wide.outage_id
    where wide.gpu is null
),

points as (
    select outage_id, node, gpu, t_start as t, is_wide::int as wide, 1 - is_wide::int as own from covers
    union all
    select outage_id, node, gpu, t_end as t, -is_wide::int as wide, is_wide::int - 1 as own from covers
),

changes as (
    select outage_id, node, gpu, t, sum(wide) as wide, sum(own) as own
    from points
    group by outage_id, node, gpu, t
),

summed as (
    select
        outage_id, node, gpu, t,
        sum(wide) over entity as wide,
        sum(own) over entity as own,
        lead(t) over (partition by outage_id, gpu order by t) as next_t,
    from changes
    window entity as (partition by outage_id, gpu order by t rows unbounded preceding)
),

-- Steps at which nothing changes for the entity are joined again.
held as (
    select
        outage_id, node, gpu, t, next_t,
        lag(next_t) over (partition by outage_id, gpu order by t) is distinct from t as begins,
    from summed
    where case when gpu = -1 then wide > 0 else wide = 0 and own > 0 end
),

numbered as (
    select
        *,
        (sum(begins::int) over (partition by outage_id, gpu order by t rows unbounded preceding))::bigint as stretch,
    from held
),

merged as (
    select
        outage_id,
        any_value(node) as node,
        nullif(gpu, -1) as gpu,
        min(t) as t_start,
        max(next_t) as t_end,
    from numbered
    group by outage_id, gpu, stretch
),

all_parts as (
    select outage_id, node, gpu, t_start, t_end from alone
    union all
    select * from merged
)

select $scenario as scenario, outage_id, node, gpu, t_start, t_end
from all_parts
order by t_start, outage_id, gpu nulls first
