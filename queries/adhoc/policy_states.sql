-- title: What was the job doing, policy by policy?
-- grain: policy x what the job did: full speed, reduced, saving, starting, reconfiguring, paused
-- reads: outcome_timeline
-- units: shares of the window, mean and extremes over placements; throughput_frac of the healthy job while at it;
--   spells per placement; longest_h in hours
-- source: model.md section 7, the states of the job
-- caveat: policies as the scenario lists them, each against its own healthy job: a policy with many spares runs a
--   smaller job at full speed. Work that a rollback took is in here. Each save ends a spell of running.
with

states as (
    select
        policy,
        placement_seed,
        t_start,
        epoch_us(t_end) - epoch_us(t_start) as length_us,
        relative_throughput_frac,
        case
            when state <> 'running' then state
            when relative_throughput_frac >= 1 - 1e-9 then 'full speed'
            else 'reduced'
        end as doing,
    from outcome_timeline
    where scenario = $scenario
),

numbered as (
    select
        *,
        row_number() over (partition by policy, placement_seed order by t_start)
        - row_number() over (partition by policy, placement_seed, doing order by t_start) as spell,
    from states
),

spells as (
    select
        policy,
        placement_seed,
        doing,
        sum(length_us)::bigint as spell_us,
        sum(length_us * relative_throughput_frac) as work_us,
    from numbered
    group by policy, placement_seed, doing, spell
),

windows as (
    select policy, placement_seed, sum(length_us)::bigint as window_us
    from states
    group by policy, placement_seed
),

-- A placement in which a policy never paused counts as none, not as missing.
grid as (
    select windows.policy, placement_seed, window_us, doing
    from windows
    inner join (select distinct policy, doing from states) as kinds on kinds.policy = windows.policy
),

by_placement as (
    select
        grid.policy,
        grid.doing,
        coalesce(sum(spell_us), 0) / any_value(window_us) as share_frac,
        coalesce(sum(work_us), 0) / any_value(window_us) as work_frac,
        count(spell_us) as spells,
        coalesce(max(spell_us), 0) / 3600e6 as longest_h,
    from grid
    left join spells
        on
            spells.policy = grid.policy
            and spells.placement_seed = grid.placement_seed
            and spells.doing = grid.doing
    group by grid.policy, grid.placement_seed, grid.doing
),

summed as (
    select
        policy,
        doing,
        avg(share_frac) as share_frac,
        min(share_frac) as share_low_frac,
        max(share_frac) as share_high_frac,
        avg(work_frac) / nullif(avg(share_frac), 0) as throughput_frac,
        avg(spells) as spells,
        max(longest_h) as longest_h,
    from by_placement
    group by policy, doing
)

select * from summed
order by policy, share_frac desc, doing
