-- title: How often each component fails
-- grain: component
-- reads: outages, scenario_window
-- units: hours between faults of the whole cluster; faults per day, and per 1,000 node-days
-- source: model.md section 8; interval: 2T / chi-square at 97.5 % (2n + 2 degrees) and 2.5 % (2n), n faults in T hours
-- caveat: mtbf_h is window / faults, from outages and app-level faults that begin in the window: not the mean of
--   the gaps between faults, not a count of log lines or of samples. The population is all nodes of the cluster,
--   not those that failed. mtbf_low_h to mtbf_high_h hold the true value in at least 95 % of windows when faults
--   come independently and at one rate; bursts, lemon nodes and storms make the truth less sure than they say.
with

outages as (
    select * from outages where scenario = $scenario and severity in ('down', 'app') and events is distinct from 0
),

bounds as (
    select t_start as window_start, t_end as window_end, window_d, nodes from scenario_window($scenario)
),

counted as (
    select component, count(*) as faults, any_value(window_d) as window_d, any_value(nodes) as nodes
    from outages
    cross join bounds
    where t_start >= window_start and t_start < window_end
    group by component
),

-- Half the chi-square quantile, in expected faults: of n faults at 2.5 %, and of n + 1 at 97.5 %. Exact to six
-- digits up to ten faults; beyond, Wilson and Hilferty's cube is within 0.14 %. 1.959964 is the normal quantile.
quantiles as (
    select
        *,
        coalesce(
            [
                0.02531781, 0.2422093, 0.6186721, 1.089865, 1.623486,
                2.201894, 2.814363, 3.453832, 4.115373, 4.795389,
            ][faults],
            faults * (1 - 1 / (9 * faults) - 1.959964 / (3 * sqrt(faults))) ** 3
        ) as fewest,
        coalesce(
            [
                5.571643, 7.224688, 8.767273, 10.241589, 11.668332,
                13.059474, 14.422675, 15.763189, 17.084803, 18.390356,
            ][faults],
            (faults + 1) * (1 - 1 / (9 * (faults + 1)) + 1.959964 / (3 * sqrt(faults + 1))) ** 3
        ) as most,
    from counted
)

select
    component,
    faults,
    faults / window_d as faults_per_day,
    window_d * 24 / faults as mtbf_h,
    window_d * 24 / most as mtbf_low_h,
    window_d * 24 / fewest as mtbf_high_h,
    1000 * faults / nullif(nodes * window_d, 0) as per_1000_node_d,
from quantiles
order by faults desc, component
