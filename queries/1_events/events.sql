-- title: Events: accepted log rows, each once
-- grain: one row per event
-- reads: ingested_events
-- units: times UTC
-- source: model.md section 2; a file that is sent again, or overlaps an earlier one, adds nothing twice
-- caveat: two equal rows of one file are two events; their ids differ by their count within the file. Of a row
--   that several logs have, the one counts that was taken last.
with

ingested_events as (
    select * from ingested_events
),

-- Few rows are told twice; only they are put in order.
twice as (
    select event_id
    from ingested_events
    group by event_id
    having count(*) > 1
),

known as (
    select
        *,
        row_number() over (partition by event_id order by as_of desc nulls first, file, "row") as occurrence,
    from ingested_events
    where event_id in (select event_id from twice)
)

select * from ingested_events
where event_id not in (select event_id from twice)
union all by name
select * exclude (occurrence) from known
where occurrence = 1
