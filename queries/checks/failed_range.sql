-- title: A domain has between none and all of its GPUs down
-- grain: one row per broken interval
-- reads: domain_timeline
-- units: GPUs
-- source: model.md section 3: 0 <= failed <= G
-- caveat: G is the scenario's domain size, not the largest count seen.
with

domain_timeline as (
    select * from domain_timeline
)

select * from domain_timeline
where failed_gpus < 0 or failed_gpus > $domain_size
