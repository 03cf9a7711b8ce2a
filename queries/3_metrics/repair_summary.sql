-- title: Repair times in a few numbers, by component
-- grain: component; 'all' is every outage
-- reads: repair_time, outages_in_window
-- units: hours; shares of the component's outages
-- source: the Kaplan-Meier curve of repair_time
-- caveat: median and p95 are null when so many outages are still open that the curve does not get there;
--   the mean is the area under the curve up to its last point, so it is too low when censored_frac > 0.
with

curve as (
    select * from repair_time($scenario)
),

outages_in_window as (
    select * from outages_in_window($scenario)
),

steps as (
    select
        *,
        coalesce(lag(survival_frac) over by_time, 1) * (t_h - coalesce(lag(t_h) over by_time, 0)) as area_h,
    from curve
    window by_time as (partition by component order by t_h)
),

summed as (
    select
        component,
        min(t_h) filter (survival_frac <= 0.5 + 1e-12) as median_h,
        min(t_h) filter (survival_frac <= 0.05 + 1e-12) as p95_h,
        sum(area_h) as mean_h,
    from steps
    group by component
),

doubled as (
    select component, is_censored, end_origin, begins_in_window from outages_in_window
    union all
    select 'all' as component, is_censored, end_origin, begins_in_window from outages_in_window
),

counted as (
    select
        component,
        count(*) as outages,
        avg(is_censored::int) as censored_frac,
        avg((end_origin = 'assumed')::int) as assumed_frac,
        avg((not begins_in_window)::int) as begun_before_frac,
    from doubled
    group by component
)

select
    counted.component,
    outages,
    median_h,
    p95_h,
    mean_h,
    censored_frac,
    assumed_frac,
    begun_before_frac,
from counted
left join summed on summed.component = counted.component
order by counted.component <> 'all', outages desc, counted.component
