-- title: Does a repaired node fail again soon?
-- grain: days after the repair: 1, 7, 30, 90
-- reads: outages_in_window, scenario_window
-- units: repairs after which the log goes on for so many days; shares of those repairs
-- source: chance is the exponential at the cluster's rate of outages per node-day up
-- caveat: a repair is the end of all outages of a node; app-level faults are left out. times_chance above 1 has
--   two causes that this does not tell apart: repairs that do not hold, and nodes that are worse than others
--   (lemon_nodes). by_chance_frac takes all nodes as alike.
with

bounds as (
    select t_end as window_end, nodes, window_d from scenario_window($scenario)
),

spans as (
    select
        node,
        t_start,
        t_end,
        is_censored,
        max(t_end) over (
            partition by node order by t_start, t_end rows between unbounded preceding and 1 preceding
        ) as reached,
    from outages_in_window($scenario)
    where node is not null
),

numbered as (
    select
        *,
        (sum(case when reached is null or t_start > reached then 1 else 0 end) over (
            partition by node order by t_start, t_end rows unbounded preceding
        ))::bigint as spell,
    from spans
),

spells as (
    select node, min(t_start) as t_start, max(t_end) as t_end, bool_or(is_censored) as is_open
    from numbered
    group by node, spell
),

next_ones as (
    select *, lead(t_start) over (partition by node order by t_start) as fails_next
    from spells
),

rates as (
    select
        count(*) / nullif(
            any_value(nodes * window_d) - sum(epoch_us(t_end) - epoch_us(t_start)) / 86400e6, 0
        ) as per_node_d,
    from spells
    cross join bounds
),

horizons as (
    select * from (values (1), (7), (30), (90)) as horizons(within_d)
),

watched as (
    select
        within_d,
        coalesce(fails_next <= t_end + to_days(within_d), false) as fails_again,
    from next_ones
    cross join bounds
    inner join horizons on next_ones.t_end + to_days(within_d) <= window_end
    where not is_open and next_ones.t_end < window_end
),

shares as (
    select
        within_d,
        count(*) as repairs,
        avg(fails_again::int) as fails_again_frac,
        1 - exp(-any_value(per_node_d) * within_d) as by_chance_frac,
    from watched
    cross join rates
    group by within_d
)

select *, fails_again_frac / nullif(by_chance_frac, 0) as times_chance
from shares
order by within_d
