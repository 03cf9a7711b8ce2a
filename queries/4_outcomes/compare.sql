-- title: Policies of a scenario side by side
-- grain: one row per policy
-- reads: outcomes
-- units: fractions of the pool's GPU-hours; GPU-hours; mean, lowest and highest over placements
-- source: model.md section 7
-- caveat: policies may hold back different spares; splits compares each at its own best.
with

outcomes as (
    select * from outcomes where scenario = $scenario
),

compared as (
    select
        policy,
        any_value(response) as response,
        any_value(batch) as batch,
        any_value(spare_domains) as spare_domains,
        any_value(dp) as dp,
        avg(goodput_frac) as goodput_frac,
        min(goodput_frac) as goodput_low_frac,
        max(goodput_frac) as goodput_high_frac,
        avg(ettr_frac) as ettr_frac,
        avg(interruptions) as interruptions,
        avg(productive_gpu_h) as productive_gpu_h,
        avg(total_gpu_h) as total_gpu_h,
        avg(energy_kwh) as energy_kwh,
        count(*) as placements,
    from outcomes
    group by policy
)

select * from compared
order by goodput_frac desc, policy
