-- title: Clears that close no open fault
-- grain: one row per refused clear
-- reads: events
-- units: times UTC
-- source: model.md section 2, rule 3
-- caveat: judged over all files of a scenario, because an onset may stand in yesterday's file.
with

events as (
    select * from events
),

fault_rows as (
    select
        *,
        lag(kind) over (
            partition by cluster, source, node, gpu, domain, code
            order by t_start, file, "row"
        ) as previous_kind,
    from events
    where kind in ('onset', 'clear')
),

unpaired as (
    select
        $scenario as scenario,
        source,
        file,
        "row",
        node,
        t_start as t,
        code,
    from fault_rows
    where kind = 'clear' and coalesce(previous_kind, 'clear') = 'clear'
)

select * from unpaired
order by file, "row"
