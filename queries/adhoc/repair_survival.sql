-- title: How many repairs are still open after an hour, a day, a week?
-- grain: component; 'all' is every outage
-- reads: repair_time
-- units: shares of outages still open after that time; median_h in hours
-- source: the Kaplan-Meier curve of repair_time
-- caveat: null where the log does not reach so far: every outage was repaired or cut off before. An outage that
--   is open at the window's end counts until then. repairs are few for some components: read them first.
with

curve as (
    select * from repair_time($scenario)
),

milestones as (
    select * from (values (1), (4), (12), (24), (72), (168), (720)) as milestones(after_h)
),

reached as (
    select component, sum(repaired)::bigint as repairs, sum(censored)::bigint as still_open, max(t_h) as last_h
    from curve
    group by component
),

-- The curve is flat between its steps, and 0 for good once the last outage is repaired.
read_off as (
    select
        reached.component,
        after_h,
        case
            when after_h <= last_h or min(survival_frac) = 0
                then coalesce(min(survival_frac) filter (t_h <= after_h), 1)
        end as open_frac,
    from reached
    cross join milestones
    inner join curve on curve.component = reached.component
    group by reached.component, after_h, last_h
),

wide as (
    select
        component,
        any_value(open_frac) filter (after_h = 1) as open_after_1_h_frac,
        any_value(open_frac) filter (after_h = 4) as open_after_4_h_frac,
        any_value(open_frac) filter (after_h = 12) as open_after_12_h_frac,
        any_value(open_frac) filter (after_h = 24) as open_after_1_d_frac,
        any_value(open_frac) filter (after_h = 72) as open_after_3_d_frac,
        any_value(open_frac) filter (after_h = 168) as open_after_7_d_frac,
        any_value(open_frac) filter (after_h = 720) as open_after_30_d_frac,
    from read_off
    group by component
),

medians as (
    select component, min(t_h) filter (survival_frac <= 0.5 + 1e-12) as median_h
    from curve
    group by component
),

joined as (
    select wide.component, repairs, still_open, median_h, wide.* exclude (component)
    from wide
    inner join reached on reached.component = wide.component
    inner join medians on medians.component = wide.component
)

select * from joined
order by component <> 'all', repairs desc, component
