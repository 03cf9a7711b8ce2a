-- title: Each policy at its own best split of the pool, for each batch rule
-- grain: batch rule x policy, best first
-- reads: splits
-- units: fractions of the pool's GPU-hours; GPU-hours: mean over placements, for goodput also lowest and highest
-- source: model.md section 6: headlines compare each policy at its own best split
-- caveat: best by mean goodput over placements, fewer spares on a tie. The split is chosen with hindsight on
--   the same failures that it is judged by.
with

splits as (
    select * from splits where scenario = $scenario
),

by_split as (
    select
        batch,
        policy,
        any_value(response) as response,
        spare_domains,
        any_value(dp) as dp,
        any_value(idle_domains) as idle_domains,
        count(*) as placements,
        avg(goodput_frac) as goodput_frac,
        min(goodput_frac) as goodput_low_frac,
        max(goodput_frac) as goodput_high_frac,
        avg(ettr_frac) as ettr_frac,
        avg(interruptions) as interruptions,
        avg(total_gpu_h) as total_gpu_h,
        avg(energy_kwh) as energy_kwh,
        avg(columns('^(productive|failed|stranded|paused|rework|detect|restart|reconfigure|checkpoint|overhead|spare_idle|static|gain)_gpu_h$')) as '\0',
    from splits
    group by batch, policy, spare_domains
),

ranked as (
    select
        *,
        -- Rounded, so that two splits that are equal but for the order of a sum are a tie.
        row_number() over (partition by batch, policy order by round(goodput_frac, 12) desc, spare_domains)
            as place,
    from by_split
)

select * exclude (place)
from ranked
where place = 1
order by batch, goodput_frac desc, policy
