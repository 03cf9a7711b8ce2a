-- title: No GPU is down twice at once
-- grain: one row per pair of touching intervals of one GPU range
-- reads: gpu_downtime
-- units: times UTC
-- source: model.md section 1: downtime is a union
-- caveat: touching intervals break the rule too; a union would have joined them.
with

gpu_downtime as (
    select * from gpu_downtime
),

neighbours as (
    select
        *,
        lag(t_end) over (partition by placement_seed, domain_id, gpu_first order by t_start) as end_before,
        lag(gpu_last) over (partition by placement_seed, domain_id, gpu_first order by t_start) as last_before,
    from gpu_downtime
)

select * from neighbours
where t_start <= end_before or gpu_last <> last_before
