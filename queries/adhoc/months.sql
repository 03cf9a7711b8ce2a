-- title: Which months were bad, and was it more faults or slower repairs?
-- grain: calendar month of the window, UTC
-- reads: outages, cluster_timeline, scenario_window
-- units: days of the window; faults begun; rate in faults per 1,000 node-days; GPU-hours and share of the pool
--   down; down_gpu_h_per_fault in GPU-hours
-- source: model.md sections 3 and 8
-- caveat: faults count the whole cluster, downtime the pool in the first placement. A long repair weighs on the
--   months it lasts in, not on the one it began in, so down_gpu_h_per_fault lags behind.
with

bounds as (
    select * from scenario_window($scenario)
),

month_starts as (
    select unnest(generate_series(date_trunc('month', t_start), t_end, interval 1 month))::timestamp as month_start
    from bounds
),

months as (
    select
        month_start,
        greatest(month_start, t_start) as t_start,
        least(month_start + interval 1 month, t_end) as t_end,
        nodes,
        pool_gpus,
        first_seed,
    from month_starts
    cross join bounds
    where month_start < bounds.t_end
),

faults as (
    select t_start as t, node
    from outages
    where scenario = $scenario and severity in ('down', 'app') and events is distinct from 0
),

begun as (
    select month_start, count(t) as faults, count(distinct node) as failing_nodes
    from months
    left join faults on faults.t >= months.t_start and faults.t < months.t_end
    group by month_start
),

down as (
    select
        month_start,
        sum(
            failed_gpus
            * (epoch_us(least(steps.t_end, months.t_end)) - epoch_us(greatest(steps.t_start, months.t_start)))
        ) / 3600e6 as down_gpu_h,
        max(failed_gpus) as most_failed_gpus,
        max(dirty_domains) as most_dirty_domains,
    from months
    inner join cluster_timeline as steps
        on
            steps.scenario = $scenario
            and steps.placement_seed = months.first_seed
            and steps.t_start < months.t_end
            and steps.t_end > months.t_start
    group by month_start
),

summed as (
    select
        strftime(months.month_start, '%Y-%m') as month,
        (epoch_us(t_end) - epoch_us(t_start)) / 86400e6 as days,
        faults,
        failing_nodes,
        1000 * faults / nullif(nodes * days, 0) as per_1000_node_d,
        down_gpu_h,
        down_gpu_h / nullif(pool_gpus * days * 24, 0) as down_frac,
        down_gpu_h / nullif(faults, 0) as down_gpu_h_per_fault,
        most_failed_gpus,
        most_dirty_domains,
    from months
    inner join begun on begun.month_start = months.month_start
    left join down on down.month_start = months.month_start
)

select * from summed
order by month
