-- title: How often are k domains dirty at once, and more often than by chance?
-- grain: k, from 1 to the most domains ever dirty at once
-- reads: cluster_timeline, domain_timeline
-- units: shares of the window, mean and extremes over placements; spells per placement; longest_spell_d in days
-- source: model.md section 3; by_chance_frac is the binomial tail for domains that fail independently
-- caveat: chance knows one rate, the pool's mean over the whole window. times_chance far above 1 says that
--   bad times come together (a bad month, slow repairs), not that one fault takes down many domains.
with

cluster_timeline as (
    select * from cluster_timeline where scenario = $scenario
),

domain_timeline as (
    select * from domain_timeline where scenario = $scenario
),

pool as (
    select count(distinct domain_id) as domains from domain_timeline
),

lengths as (
    select *, epoch_us(t_end) - epoch_us(t_start) as length_us from cluster_timeline
),

whole as (
    select
        placement_seed,
        sum(length_us)::bigint as window_us,
        sum(dirty_domains * length_us) / sum(length_us) / any_value(domains) as dirty_frac,
    from lengths
    cross join pool
    group by placement_seed
),

levels as (
    select unnest(range(1, max(dirty_domains) + 1)) as k from cluster_timeline
),

reached as (
    select
        k,
        placement_seed,
        t_start,
        t_end,
        length_us,
        dirty_domains >= k as is_reached,
        row_number() over (partition by k, placement_seed order by t_start)
        - row_number() over (partition by k, placement_seed, dirty_domains >= k order by t_start) as spell,
    from lengths
    cross join levels
),

spells as (
    select k, placement_seed, sum(length_us)::bigint as spell_us
    from reached
    where is_reached
    group by k, placement_seed, spell
),

by_placement as (
    select
        levels.k,
        whole.placement_seed,
        coalesce(sum(spell_us), 0) / any_value(window_us) as share_frac,
        count(spell_us) as spells,
        coalesce(max(spell_us), 0) / 86400e6 as longest_spell_d,
        any_value(dirty_frac) as dirty_frac,
    from levels
    cross join whole
    left join spells on spells.k = levels.k and spells.placement_seed = whole.placement_seed
    group by levels.k, whole.placement_seed
),

measured as (
    select
        k,
        avg(share_frac) as share_frac,
        min(share_frac) as share_low_frac,
        max(share_frac) as share_high_frac,
        avg(spells) as spells,
        max(longest_spell_d) as longest_spell_d,
        avg(dirty_frac) as dirty_frac,
    from by_placement
    group by k
),

-- The chance that exactly j of n domains are dirty, in logarithms: n! overflows at 171.
chances as (
    select
        j,
        exp(
            lgamma(domains + 1) - lgamma(j + 1) - lgamma(domains - j + 1)
            + j * ln(dirty_frac) + (domains - j) * ln(1 - dirty_frac)
        ) as chance_frac,
    from (select unnest(range(1, domains + 1)) as j, domains from pool)
    cross join (select any_value(dirty_frac) as dirty_frac from measured)
    where dirty_frac > 0 and dirty_frac < 1
),

tails as (
    select j as k, sum(chance_frac) over (order by j desc rows unbounded preceding) as by_chance_frac from chances
),

compared as (
    select measured.* exclude (dirty_frac), by_chance_frac, share_frac / nullif(by_chance_frac, 0) as times_chance,
    from measured
    left join tails on tails.k = measured.k
)

select * from compared
order by k
