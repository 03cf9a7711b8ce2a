-- title: When GPUs are down: the union of outages per GPU
-- grain: placement seed x domain x GPU range x interval
-- reads: downtime_us
-- units: times UTC, [t_start, t_end); GPU indices within the domain, both ends inclusive
-- source: model.md section 3
-- caveat: capacity follows from this table; sums of `outages` count overlaps twice.
with

downtime_us as (
    select * from downtime_us
),

stamped as (
    select
        scenario,
        placement_seed,
        domain_id,
        gpu_first,
        gpu_last,
        make_timestamp(epoch_us($window_start::timestamp) + t_start_us) as t_start,
        make_timestamp(epoch_us($window_start::timestamp) + t_end_us) as t_end,
    from downtime_us
)

select * from stamped
order by placement_seed, t_start, domain_id, gpu_first
