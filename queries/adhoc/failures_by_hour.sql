-- title: Do faults come at certain hours or on certain weekdays?
-- grain: hour of the day (24), then day of the week (7)
-- reads: outages, scenario_window
-- units: faults begun in the window; exposed_d in days of the window; z in standard deviations; times UTC
-- source: the binomial: each fault falls into a slot with the share of the window that the slot has
-- caveat: of 31 slots about one in twelve logs shows a |z| of 3 by chance alone, more often when faults come in
--   bursts. Hours are UTC: a night shift elsewhere is another hour. A weekday needs a window of many weeks.
with

bounds as (
    select t_start as window_start, t_end as window_end from scenario_window($scenario)
),

faults as (
    select t_start as t
    from outages
    cross join bounds
    where
        scenario = $scenario
        and severity in ('down', 'app')
        and events is distinct from 0
        and t_start >= window_start
        and t_start < window_end
),

hours as (
    select *, unnest(generate_series(date_trunc('hour', window_start), window_end, interval 1 hour)) as t
    from bounds
),

exposed_hours as (
    select
        t,
        epoch_us(least(t + interval 1 hour, window_end)) - epoch_us(greatest(t, window_start)) as exposed_us,
    from hours
    where t < window_end
),

exposed as (
    select 'hour' as part, hour(t) as place, sum(exposed_us)::bigint as exposed_us
    from exposed_hours
    group by place
    union all
    select 'weekday' as part, isodow(t) as place, sum(exposed_us)::bigint as exposed_us
    from exposed_hours
    group by place
),

counted as (
    select 'hour' as part, hour(t) as place, count(*) as faults from faults group by place
    union all
    select 'weekday' as part, isodow(t) as place, count(*) as faults from faults group by place
),

shares as (
    select
        exposed.part,
        exposed.place,
        exposed_us / 86400e6 as exposed_d,
        coalesce(faults, 0) as faults,
        exposed_us / sum(exposed_us) over (partition by exposed.part) as expected_frac,
        (select count(*) from faults) as all_faults,
    from exposed
    left join counted on counted.part = exposed.part and counted.place = exposed.place
),

judged as (
    select
        part,
        place,
        case when part = 'hour' then format('{:02d}:00', place) else dayname(date '2024-01-01' + (place - 1)::int) end
            as slot,
        exposed_d,
        faults,
        all_faults * expected_frac as expected_faults,
        (faults - all_faults * expected_frac)
        / nullif(sqrt(all_faults * expected_frac * (1 - expected_frac)), 0) as z,
    from shares
)

select * exclude (place), coalesce(abs(z) >= 3, false) as stands_out
from judged
order by part, place
