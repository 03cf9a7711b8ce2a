-- title: How long repairs take, by component (Kaplan-Meier)
-- grain: component x length of an outage; component 'all' is every outage
-- reads: outages_in_window
-- units: t_h in hours; survival_frac is the share of outages still open after t_h
-- source: Kaplan and Meier 1958; model.md section 8: repair time is a sensitivity axis
-- caveat: an outage that is still open at the window's end is at risk until then and counts as no repair.
--   Left out: outages that began before the window (the long ones are over-represented there) and those
--   whose end was assumed.
with

observed as (
    select component, greatest(duration_h, 0) as t_h, is_censored
    from outages_in_window($scenario)
    where begins_in_window and end_origin <> 'assumed'
),

doubled as (
    select * from observed
    union all
    select 'all' as component, t_h, is_censored from observed
),

counted as (
    select
        component,
        t_h,
        count(*) filter (not is_censored) as repaired,
        count(*) filter (is_censored) as censored,
    from doubled
    group by component, t_h
),

at_risk as (
    select
        *,
        (sum(repaired + censored) over (partition by component order by t_h desc rows unbounded preceding))::bigint
            as at_risk,
    from counted
),

survival as (
    select
        *,
        product(1 - repaired / at_risk) over (partition by component order by t_h rows unbounded preceding)
            as survival_frac,
    from at_risk
)

select component, t_h, at_risk, repaired, censored, survival_frac
from survival
order by component, t_h
