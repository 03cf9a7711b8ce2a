-- title: Every row read is accepted or rejected
-- grain: one row per file that does not add up
-- reads: files, rejects
-- units: rows
-- source: model.md section 2, rule 1
-- caveat: compares the manifest with itself and with the rejects that are stored.
with

files as (
    select * from files
),

rejects as (
    select source, file, count(*) as stored
    from rejects
    group by source, file
),

compared as (
    select
        files.file,
        rows_read,
        rows_accepted,
        rows_rejected,
        sum(rows_rejected) over (partition by files.source, files.file) as rejected_of_name,
        coalesce(stored, 0) as stored,
    from files
    left join rejects using (source, file)
)

select * from compared
where rows_read <> rows_accepted + rows_rejected or rejected_of_name <> stored
