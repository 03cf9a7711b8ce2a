-- title: GPU ranges that always fail together
-- grain: placement seed x domain x range
-- reads: placed_outages
-- units: GPU indices within the domain, both ends inclusive
-- source: derived; the coarsest cut of the GPUs on which every outage covers whole ranges
-- caveat: a node outage and a GPU outage of that node overlap; their union needs the node cut at that GPU.
with

placed_outages as (
    select * from placed_outages
),

cuts as (
    select scenario, placement_seed, domain_id, gpu_first as cut from placed_outages
    union
    select scenario, placement_seed, domain_id, gpu_last + 1 as cut from placed_outages
),

ranges as (
    select
        scenario,
        placement_seed,
        domain_id,
        cut as gpu_first,
        lead(cut) over (partition by placement_seed, domain_id order by cut) - 1 as gpu_last,
    from cuts
)

select * from ranges
where gpu_last is not null
order by placement_seed, domain_id, gpu_first
