-- title: How often do several nodes fail together?
-- grain: length of the bucket that counts as together: second, minute, hour, day
-- reads: outages, scenario_window
-- units: bursts: buckets in which two or more nodes fail; shares of all faults; bursts_by_chance in buckets
-- source: the Poisson: faults that are independent and equally likely at every moment
-- caveat: buckets start on the clock, so two faults a second apart may fall into two minutes. Logs that are
--   polled put faults on the same second that did not come together: look at times_chance for the hour too.
with

bounds as (
    select t_start as window_start, t_end as window_end, window_us from scenario_window($scenario)
),

faults as (
    select t_start as t, coalesce(node, outage_id) as entity
    from outages
    cross join bounds
    where
        scenario = $scenario
        and severity in ('down', 'app')
        and events is distinct from 0
        and t_start >= window_start
        and t_start < window_end
),

lengths as (
    select together, seconds::bigint as bucket_s
    from (values ('second', 1), ('minute', 60), ('hour', 3600), ('day', 86400)) as lengths(together, seconds)
),

buckets as (
    select
        together,
        bucket_s,
        epoch_us(t) // (bucket_s * 1000000) as bucket,
        count(*) as faults,
        count(distinct entity) as nodes,
        min(t) as t,
    from faults
    cross join lengths
    group by together, bucket_s, bucket
),

counted as (
    select
        together,
        bucket_s,
        count(*) filter (nodes >= 2) as bursts,
        coalesce(sum(faults) filter (nodes >= 2), 0) / sum(faults) as faults_in_bursts_frac,
        max(nodes) as most_nodes,
        arg_max(t, (nodes, -epoch_us(t))) as largest_from,
        sum(faults) / any_value(window_us / (bucket_s * 1e6)) as faults_a_bucket,
        any_value(window_us / (bucket_s * 1e6)) as all_buckets,
    from buckets
    cross join bounds
    group by together, bucket_s
),

-- Two or more in a bucket, term by term: 1 - P(0) - P(1) loses all digits when faults are rare.
chances as (
    select
        *,
        all_buckets * list_sum(list_transform(
            range(2, ceil(faults_a_bucket)::bigint + 200),
            lambda j: exp(j * ln(faults_a_bucket) - faults_a_bucket - lgamma(j + 1))
        )) as bursts_by_chance,
    from counted
)

select
    together,
    bursts,
    bursts_by_chance,
    bursts / nullif(bursts_by_chance, 0) as times_chance,
    faults_in_bursts_frac,
    most_nodes,
    largest_from,
from chances
order by bucket_s
