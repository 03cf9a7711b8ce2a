-- title: How far the best policy is ahead of the next one
-- grain: batch rule with at least two policies
-- reads: best_splits, splits
-- units: fractions of the pool's GPU-hours: mean, lowest and highest over placements; lead_placements a count
-- source: model.md section 6
-- caveat: paired by placement, each policy at its own best split.
with

ranked as (
    select *, row_number() over (partition by batch order by goodput_frac desc, policy) as place
    from best_splits($scenario)
),

splits as (
    select * from splits where scenario = $scenario
)

select
    best.batch,
    best.policy,
    second.policy as next_policy,
    any_value(second.goodput_frac) as next_goodput_frac,
    avg(mine.goodput_frac - theirs.goodput_frac) as lead_frac,
    min(mine.goodput_frac - theirs.goodput_frac) as lead_low_frac,
    max(mine.goodput_frac - theirs.goodput_frac) as lead_high_frac,
    count(*) filter (mine.goodput_frac > theirs.goodput_frac) as lead_placements,
from ranked as best
inner join ranked as second on second.batch = best.batch and second.place = 2
inner join splits as mine
    on mine.batch = best.batch and mine.policy = best.policy and mine.spare_domains = best.spare_domains
inner join splits as theirs
    on
        theirs.batch = second.batch
        and theirs.policy = second.policy
        and theirs.spare_domains = second.spare_domains
        and theirs.placement_seed = mine.placement_seed
where best.place = 1
group by best.batch, best.policy, second.policy
order by best.batch
