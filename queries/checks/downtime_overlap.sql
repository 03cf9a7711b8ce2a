-- title: No GPU is down twice at once
-- grain: one row per touching interval of a GPU range, or per GPU range that overlaps another
-- reads: gpu_downtime
-- units: times UTC; GPU indices within the domain
-- source: model.md section 1: downtime is a union
-- caveat: touching intervals break the rule too, a union would have joined them; ranges of a domain are
--   disjoint, or the same GPU could be down under two of them.
with

gpu_downtime as (
    select * from gpu_downtime
),

neighbours as (
    select
        placement_seed,
        domain_id,
        gpu_first,
        gpu_last,
        t_start,
        lag(t_end) over (partition by placement_seed, domain_id, gpu_first order by t_start) as end_before,
    from gpu_downtime
),

ranges as (
    select distinct placement_seed, domain_id, gpu_first, gpu_last
    from gpu_downtime
),

ranges_in_order as (
    select
        *,
        lag(gpu_last) over (partition by placement_seed, domain_id order by gpu_first, gpu_last) as last_before,
    from ranges
),

broken as (
    select placement_seed, domain_id, gpu_first, gpu_last, t_start from neighbours where t_start <= end_before
    union all by name
    select placement_seed, domain_id, gpu_first, gpu_last from ranges_in_order where gpu_first <= last_before
)

select * from broken
