-- title: Which nodes are lemons: more faults than chance allows?
-- grain: node, the twenty with the most faults
-- reads: outages, outages_in_window, scenario_window
-- units: faults begun in the window; nodes_by_chance: nodes expected to have as many; shares of the cluster's
--   faults and GPU-hours down
-- source: the Poisson tail at the mean number of faults per node; model.md section 8 (lemon nodes)
-- caveat: is_lemon means that fewer than 0.05 such nodes are expected in the whole cluster. Chance takes all
--   nodes as alike and faults as independent: one fault logged several times makes a lemon of a good node.
with

faults as (
    select outages.node, outages.component
    from outages
    cross join scenario_window($scenario) as bounds
    where
        scenario = $scenario
        and severity in ('down', 'app')
        and events is distinct from 0
        and outages.node is not null
        and outages.t_start >= bounds.t_start
        and outages.t_start < bounds.t_end
),

by_node as (
    select
        node,
        count(*) as faults,
        mode(component order by component) as commonest_component,
    from faults
    group by node
),

down as (
    select node, sum(down_gpu_h) as down_gpu_h
    from outages_in_window($scenario)
    where not is_of_domain
    group by node
),

means as (
    select (select count(*) from faults) / nullif(nodes, 0) as expected_faults, nodes
    from scenario_window($scenario)
),

-- In logarithms, because n! overflows; the terms left out are far out in the tail.
tails as (
    select
        faults,
        list_sum(list_transform(
            range(faults, greatest(faults, ceil(expected_faults)::bigint) + 200),
            lambda j: exp(j * ln(expected_faults) - expected_faults - lgamma(j + 1))
        )) as by_chance_frac,
    from (select distinct faults from by_node)
    cross join means
),

judged as (
    select
        by_node.node,
        by_node.faults,
        expected_faults,
        by_chance_frac,
        nodes * by_chance_frac as nodes_by_chance,
        nodes * by_chance_frac < 0.05 as is_lemon,
        by_node.faults / sum(by_node.faults) over () as faults_frac,
        coalesce(down_gpu_h, 0) as down_gpu_h,
        coalesce(down_gpu_h, 0) / nullif((select sum(down_gpu_h) from down), 0) as downtime_frac,
        commonest_component,
    from by_node
    cross join means
    inner join tails on tails.faults = by_node.faults
    left join down on down.node = by_node.node
)

select * from judged
order by faults desc, down_gpu_h desc, node
limit 20
