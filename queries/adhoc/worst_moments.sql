-- title: What was down at the worst moments?
-- grain: moment; the worst of each day (UTC), of those the five worst
-- reads: cluster_timeline, outages_in_window, scenario_window
-- units: failed_gpus and domains of the pool; failed_frac of the pool's GPUs; lasted_h in hours
-- source: model.md section 3
-- caveat: in the first placement. nodes and components come from the whole log, unplaced nodes too; a node with
--   two faults counts under both components. A moment that spans midnight is told once.
with

bounds as (
    select first_seed, pool_gpus from scenario_window($scenario)
),

steps as (
    select cluster_timeline.*, pool_gpus
    from cluster_timeline
    inner join bounds on bounds.first_seed = cluster_timeline.placement_seed
    where scenario = $scenario and failed_gpus > 0
),

by_day as (
    select
        *,
        unnest(generate_series(date_trunc('day', t_start), t_end - interval 1 microsecond, interval 1 day)) as day,
    from steps
),

of_day as (
    select * from by_day
    qualify row_number() over (partition by day order by failed_gpus desc, dirty_domains desc, t_start) = 1
),

moments as (
    select t_start, any_value(columns(* exclude (t_start, day)))
    from of_day
    group by t_start
    order by failed_gpus desc, dirty_domains desc, t_start
    limit 5
),

open_outages as (
    select moments.t_start, node, component
    from moments
    inner join outages_in_window($scenario) as outages
        on outages.t_start <= moments.t_start and outages.t_end > moments.t_start
),

by_component as (
    select t_start, component, count(*) as outages from open_outages group by t_start, component
),

told as (
    select t_start, string_agg(component || ' ' || outages, ', ' order by outages desc, component) as components
    from by_component
    group by t_start
),

named as (
    select t_start, count(distinct node) as failed_nodes, string_agg(distinct node, ' ' order by node) as nodes
    from open_outages
    group by t_start
),

described as (
    select
        moments.t_start,
        (epoch_us(moments.t_end) - epoch_us(moments.t_start)) / 3600e6 as lasted_h,
        failed_gpus,
        failed_gpus / nullif(pool_gpus, 0) as failed_frac,
        dirty_domains,
        failed_nodes,
        components,
        nodes,
    from moments
    left join told on told.t_start = moments.t_start
    left join named on named.t_start = moments.t_start
)

select * from described
order by failed_gpus desc, dirty_domains desc, t_start
