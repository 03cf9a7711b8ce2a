-- title: Outages cut into GPU ranges that always fail together
-- grain: outage x placement seed x GPU segment
-- reads: placed_outages, gpu_segments
-- units: t_start_us, t_end_us are microseconds since the window's start, [t_start, t_end)
-- source: derived; on a segment, the union of outages is a union of plain intervals
-- caveat: outages of no length are here too; they take no time but may interrupt.
with

placed_outages as (
    select * from placed_outages
),

gpu_segments as (
    select * from gpu_segments
),

cut as (
    select
        outage.scenario,
        outage.placement_seed,
        outage.domain_id,
        segment.gpu_first,
        segment.gpu_last,
        t_start_us,
        t_end_us,
        outage_id,
    from placed_outages as outage
    inner join gpu_segments as segment
        on
            segment.placement_seed = outage.placement_seed
            and segment.domain_id = outage.domain_id
            and segment.gpu_first >= outage.gpu_first
            and segment.gpu_last <= outage.gpu_last
)

select * from cut
order by placement_seed, domain_id, gpu_first, t_start_us, t_end_us, outage_id
