-- title: Open intervals that another file tells again
-- grain: one row per open interval that another row stands for
-- reads: located_events
-- units: none
-- source: model.md section 2: one fault seen twice is one outage
-- caveat: A log that has grown since tells the end, or was taken later and still knows none: of open ones the last
--   taken stands. Two rows of one file stay two, and one row of two versions of a file is at the same place in both.
with

intervals as (
    select
        *,
        epoch_us(as_of) as taken_us,
        t_end is null as is_open,
    from located_events
    where kind = 'interval'
),

-- One row a fault and start, so that many equal rows are not compared each with each.
closed as (
    select
        cluster, source, code, node, gpu, domain, t_start,
        min(file) as first_file,
        max(file) as last_file,
        list("row") as places,
        min(event_id) as outage_id,
    from intervals
    where not is_open
    group by cluster, source, code, node, gpu, domain, t_start
),

-- The row that was taken last, in each file that has such a row.
open_in_file as (
    select
        cluster, source, code, node, gpu, domain, t_start, file,
        arg_max(event_id, (taken_us, -"row")) as outage_id,
        max(taken_us) as taken_us,
    from intervals
    where is_open and taken_us is not null
    group by cluster, source, code, node, gpu, domain, t_start, file
),

last_open as (
    select
        cluster, source, code, node, gpu, domain, t_start,
        arg_max(outage_id, (taken_us, file)) as outage_id,
        arg_max(file, (taken_us, file)) as file,
    from open_in_file
    group by cluster, source, code, node, gpu, domain, t_start
),

by_closed as (
    select early.event_id, closed.outage_id
    from intervals as early
    inner join closed
        on
            closed.t_start = early.t_start
            and closed.cluster = early.cluster
            and closed.source = early.source
            and closed.code = early.code
            and closed.node is not distinct from early.node
            and closed.gpu is not distinct from early.gpu
            and closed.domain is not distinct from early.domain
    where
        early.is_open
        and (
            closed.first_file <> early.file
            or closed.last_file <> early.file
            or list_contains(closed.places, early."row")
        )
),

by_open as (
    select early.event_id, last_open.outage_id
    from intervals as early
    inner join last_open
        on
            last_open.t_start = early.t_start
            and last_open.cluster = early.cluster
            and last_open.source = early.source
            and last_open.code = early.code
            and last_open.node is not distinct from early.node
            and last_open.gpu is not distinct from early.gpu
            and last_open.domain is not distinct from early.domain
    where early.is_open and last_open.file <> early.file
)

select * from by_closed
union all
select * from by_open
where event_id not in (select event_id from by_closed) and outage_id not in (select event_id from by_closed)
