-- title: Outages that take GPUs away, laid onto the domains of each placement
-- grain: outage x placement seed x GPU range of one domain
-- reads: outages, placements
-- units: t_start_us, t_end_us are microseconds since the window's start, clipped to it
-- source: model.md section 2, rule 5
-- caveat: only severity down takes GPUs; repair_scale_frac shortens or stretches repairs for what-ifs.
--   An outage clipped at the window's start keeps t_start_us = 0, which sets the initial state.
with

outages as (
    select * from outages where severity = 'down'
),

placements as (
    select * from placements where domain_id is not null
),

in_window as (
    select
        *,
        epoch_us(t_start) - epoch_us($window_start::timestamp) as from_us,
        epoch_us(t_start) - epoch_us($window_start::timestamp)
        + case
            when is_censored then epoch_us(t_end) - epoch_us(t_start)
            else round((epoch_us(t_end) - epoch_us(t_start)) * $repair_scale_frac)::bigint
        end as to_us,
    from outages
    where component is distinct from $without_component
),

placed as (
    select
        placements.scenario,
        placement_seed,
        placements.domain_id,
        case
            when gpu is null then gpu_first
            else gpu_first + gpu - node_gpu_first
        end as gpu_first,
        case
            when gpu is null then gpu_first + gpus - 1
            else gpu_first + gpu - node_gpu_first
        end as gpu_last,
        least(greatest(from_us, 0), $window_us) as t_start_us,
        least(greatest(to_us, 0), $window_us) as t_end_us,
        outage_id,
    from in_window
    inner join placements using (node)
    where
        (gpu is null or gpu between node_gpu_first and node_gpu_first + gpus - 1)
        and (to_us > 0 or from_us >= 0)
)

select * from placed
order by placement_seed, domain_id, gpu_first, t_start_us, t_end_us, outage_id
