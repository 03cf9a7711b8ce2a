-- title: How far the answer moves when one value is halved or doubled
-- grain: batch rule x policy x axis, widest first
-- reads: what_if_gains
-- units: fractions of the pool's GPU-hours, mean over placements; low and high name the what-ifs, with their goodput
-- source: model.md section 8: repair time is a sensitivity axis in every report
-- caveat: one value at a time, at the split that is best as logged. An axis has one end where the other means
--   nothing (the severity choice; one sample a replica). Factors of two are a choice: arrival rates agree within
--   a factor of three, repair medians differ twentyfold.
with

axes as (
    select *
    from (
        values
        ('repair time', 'double_repair', 'half_repair'),
        ('restart time', 'double_restart', 'half_restart'),
        ('save interval', 'half_interval', 'double_interval'),
        ('samples a replica', 'half_samples', 'double_samples'),
        ('speed from power', 'half_boost', 'full_boost'),
        ('severity choice', null, 'may_compute')
    ) as named (axis, low_what_if, high_what_if)
),

gains as (
    select * from what_if_gains($scenario)
),

ends as (
    select
        gains.batch,
        gains.policy,
        axis,
        any_value(logged_frac) as logged_frac,
        any_value(what_if) filter (what_if = low_what_if) as low_what_if,
        any_value(what_if_frac) filter (what_if = low_what_if) as low_frac,
        any_value(what_if) filter (what_if = high_what_if) as high_what_if,
        any_value(what_if_frac) filter (what_if = high_what_if) as high_frac,
    from gains
    inner join axes on gains.what_if in (axes.low_what_if, axes.high_what_if)
    group by gains.batch, gains.policy, axis
)

select
    *,
    greatest(abs(coalesce(low_frac - logged_frac, 0)), abs(coalesce(high_frac - logged_frac, 0))) as reach_frac,
from ends
order by batch, policy, reach_frac desc, axis
