-- title: Outages of one node or GPU that several logs tell of, laid together
-- grain: one row per outage of a log that overlaps one of another log
-- reads: logged_outages
-- units: none
-- source: model.md section 2, rule 7
-- caveat: only what takes GPUs away, with an end that a log tells; a fault of a domain and capacity that was taken
--   back stand alone. Rows meet where they overlap, not where one begins as the other ends. A stretch of rows that
--   meet, without a gap, is one outage: two rows of one log are one where another log says that the node or GPU
--   was not back in between. outage_id is that of the first row.
with

logged_outages as (
    select
        outage_id,
        cluster,
        node,
        gpu,
        log,
        epoch_us(t_start) as from_us,
        greatest(coalesce(epoch_us(coalesce(t_end, as_of)), 9e18::bigint), epoch_us(t_start) + 1) as to_us,
    from logged_outages
    where
        severity = 'down' and node is not null and scope <> 'domain' and component <> 'capacity' and not is_assumed
),

-- What one log alone tells of is the most of it, and needs no more.
told as (
    select * from logged_outages
    qualify min(log) over (partition by cluster, node, gpu) <> max(log) over (partition by cluster, node, gpu)
),

points as (
    select *, from_us as t_us, 1 as opens, 0 as closes from told
    union all
    select *, to_us as t_us, 0 as opens, 1 as closes from told
),

-- Of other logs: rows that had begun before this one's end, and rows that had ended by its start.
counted as (
    select
        outage_id,
        opens,
        sum(opens) over entity - sum(opens) over own as begun,
        sum(closes) over entity - sum(closes) over own as ended,
    from points
    window
        entity as (partition by cluster, node, gpu order by t_us, opens rows unbounded preceding),
        own as (partition by cluster, node, gpu, log order by t_us, opens rows unbounded preceding)
),

meeting as (
    select outage_id
    from counted
    group by outage_id
    having max(begun) filter (opens = 0) > max(ended) filter (opens = 1)
),

reached as (
    select
        *,
        max(to_us) over (
            partition by cluster, node, gpu
            order by from_us, outage_id
            rows between unbounded preceding and 1 preceding
        ) as reached_us,
    from told
    where outage_id in (select outage_id from meeting)
),

islands as (
    select
        *,
        (sum(case when reached_us is null or from_us >= reached_us then 1 else 0 end) over (
            partition by cluster, node, gpu
            order by from_us, outage_id
            rows unbounded preceding
        ))::bigint as island,
    from reached
)

select
    outage_id as part_id,
    first_value(outage_id) over (
        partition by cluster, node, gpu, island order by from_us, outage_id
    ) as outage_id,
from islands
