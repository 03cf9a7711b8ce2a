-- title: Failed GPUs and dirty domains over time, reduced for a chart
-- grain: unit x bucket of time, 400 buckets a window, in the first placement
-- reads: cluster_timeline, scenario_window
-- units: gpus or domains: lowest, highest and time-weighted mean in the bucket; times UTC, [t_start, t_end)
-- source: model.md section 3
-- caveat: mean x length is the area of the step series exactly; one placement is shown, not their mean.
with

bounds as (
    select *, greatest(window_us // 400, 1) as bucket_us from scenario_window($scenario)
),

steps as (
    select
        epoch_us(cluster_timeline.t_start) - epoch_us(bounds.t_start) as from_us,
        epoch_us(cluster_timeline.t_end) - epoch_us(bounds.t_start) as to_us,
        failed_gpus,
        dirty_domains,
        bucket_us,
    from cluster_timeline
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
        bucket,
        failed_gpus,
        dirty_domains,
        least(to_us, (bucket + 1) * bucket_us) - greatest(from_us, bucket * bucket_us) as length_us,
    from pieces
),

reduced as (
    select
        'gpus' as unit, bucket, min(failed_gpus) as low, max(failed_gpus) as high,
        sum(failed_gpus * length_us) / sum(length_us) as mean, sum(length_us)::bigint as length_us,
    from weighed
    group by bucket
    union all
    select
        'domains' as unit, bucket, min(dirty_domains) as low, max(dirty_domains) as high,
        sum(dirty_domains * length_us) / sum(length_us) as mean, sum(length_us)::bigint as length_us,
    from weighed
    group by bucket
),

stamped as (
    select
        unit,
        make_timestamp(epoch_us(bounds.t_start) + bucket * bucket_us) as t_start,
        make_timestamp(epoch_us(bounds.t_start) + bucket * bucket_us + length_us) as t_end,
        low,
        high,
        mean,
        first_seed as placement_seed,
    from reduced
    cross join bounds
)

select * from stamped
order by unit desc, t_start
