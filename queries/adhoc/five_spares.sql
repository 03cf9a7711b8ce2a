-- title: What would five spare domains have bought?
-- grain: batch rule x policy
-- reads: splits
-- units: goodput as fractions of the pool's GPU-hours; bought_gpu_h in productive GPU-hours, mean over placements
-- source: model.md section 6: goodput counts the spares it holds back, and is not monotone in them
-- caveat: splits hold only the spare counts at which DP changes. Five spares leave the job of the next listed
--   count (its odd domain idles either way), so the first count from five on is taken, else the largest.
with

splits as (
    select * from splits where scenario = $scenario
),

averaged as (
    select
        batch,
        policy,
        spare_domains,
        any_value(dp) as dp,
        avg(goodput_frac) as goodput_frac,
        avg(productive_gpu_h) as productive_gpu_h,
        avg(paused_gpu_h) as paused_gpu_h,
        avg(spare_idle_gpu_h) as spare_idle_gpu_h,
    from splits
    group by batch, policy, spare_domains
),

without as (
    select * from averaged where spare_domains = 0
),

ranked as (
    select
        *,
        row_number() over (
            partition by batch, policy order by spare_domains >= 5 desc, abs(spare_domains - 5)
        ) as place,
    from averaged
    where spare_domains > 0
),

with_five as (
    select * from ranked where place = 1
),

best as (
    select batch, policy, arg_max(spare_domains, (goodput_frac, -spare_domains)) as best_spare_domains
    from averaged
    group by batch, policy
),

bought as (
    select
        with_five.batch,
        with_five.policy,
        with_five.spare_domains,
        without.dp as dp_without,
        with_five.dp as dp_with,
        without.goodput_frac as goodput_without_frac,
        with_five.goodput_frac as goodput_with_frac,
        with_five.productive_gpu_h - without.productive_gpu_h as bought_gpu_h,
        with_five.paused_gpu_h - without.paused_gpu_h as paused_change_gpu_h,
        with_five.spare_idle_gpu_h - without.spare_idle_gpu_h as spare_idle_change_gpu_h,
        best_spare_domains,
    from with_five
    inner join without on without.batch = with_five.batch and without.policy = with_five.policy
    inner join best on best.batch = with_five.batch and best.policy = with_five.policy
)

select * from bought
order by bought_gpu_h desc, batch, policy
