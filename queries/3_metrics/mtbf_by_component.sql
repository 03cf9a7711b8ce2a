-- title: How often each component fails
-- grain: component
-- reads: outages, scenario_window
-- units: mtbf_h in hours between faults of the whole cluster; rate in faults per 1,000 node-days
-- source: model.md section 8 (arrival rates)
-- caveat: counts outages and app-level faults that begin in the window; the population is all nodes of the
--   cluster, not those that failed. MTBF is window / faults and has no meaning for a handful of faults.
with

outages as (
    select * from outages where scenario = $scenario and severity in ('down', 'app')
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
)

select
    component,
    faults,
    faults / window_d as faults_per_day,
    window_d * 24 / faults as mtbf_h,
    1000 * faults / nullif(nodes * window_d, 0) as per_1000_node_d,
from counted
order by faults desc, component
