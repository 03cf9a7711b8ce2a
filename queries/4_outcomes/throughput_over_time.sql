-- title: Relative throughput of each policy over time, reduced for a chart
-- grain: policy x bucket of time, 300 buckets a window, in the first placement
-- reads: outcome_timeline, scenario_window
-- units: fraction of the healthy job's throughput: lowest, highest and time-weighted mean; times UTC, [t_start, t_end)
-- source: model.md section 7
-- caveat: work done, before rollbacks are taken off; 0 while the job saves, starts or waits. Policies as the
--   scenario lists them, at their stated spares, each relative to its own healthy job.
with

bounds as (
    select *, greatest(window_us // 300, 1) as bucket_us from scenario_window($scenario)
),

steps as (
    select
        policy,
        epoch_us(outcome_timeline.t_start) - epoch_us(bounds.t_start) as from_us,
        epoch_us(outcome_timeline.t_end) - epoch_us(bounds.t_start) as to_us,
        relative_throughput_frac,
        state,
        bucket_us,
    from outcome_timeline
    cross join bounds
    where scenario = $scenario and placement_seed = first_seed
),

pieces as (
    select *, unnest(range(from_us // bucket_us, (to_us - 1) // bucket_us + 1)) as bucket
    from steps
    where to_us > from_us
),

weighed as (
    select
        policy,
        bucket,
        relative_throughput_frac,
        state,
        least(to_us, (bucket + 1) * bucket_us) - greatest(from_us, bucket * bucket_us) as length_us,
    from pieces
),

reduced as (
    select
        policy,
        bucket,
        min(relative_throughput_frac) as low_frac,
        max(relative_throughput_frac) as high_frac,
        sum(relative_throughput_frac * length_us) / sum(length_us) as mean_frac,
        coalesce(sum(length_us) filter (state = 'paused'), 0) / sum(length_us) as paused_frac,
        sum(length_us)::bigint as length_us,
    from weighed
    group by policy, bucket
),

stamped as (
    select
        policy,
        make_timestamp(epoch_us(bounds.t_start) + bucket * bucket_us) as t_start,
        make_timestamp(epoch_us(bounds.t_start) + bucket * bucket_us + length_us) as t_end,
        low_frac,
        high_frac,
        mean_frac,
        paused_frac,
        first_seed as placement_seed,
    from reduced
    cross join bounds
)

select * from stamped
order by policy, t_start
