-- title: GPU-microseconds down agree between gpu_downtime, the domains, the pool and the tail counts
-- grain: one row per placement seed that disagrees
-- reads: gpu_downtime, domain_timeline, cluster_timeline, domain_tail
-- units: GPU-microseconds, exact integers
-- source: model.md section 3: sum(failed_gpus * length) equals the union of GPU downtime
-- caveat: HUGEINT on purpose; a year of a million GPUs in microseconds does not fit in 64 bits.
with

by_gpu as (
    select
        placement_seed,
        sum((gpu_last - gpu_first + 1)::hugeint * (epoch_us(t_end) - epoch_us(t_start))) as gpu_us,
    from gpu_downtime
    group by placement_seed
),

by_domain as (
    select placement_seed, sum(failed_gpus::hugeint * (epoch_us(t_end) - epoch_us(t_start))) as gpu_us,
    from domain_timeline
    group by placement_seed
),

by_pool as (
    select placement_seed, sum(failed_gpus::hugeint * (epoch_us(t_end) - epoch_us(t_start))) as gpu_us,
    from cluster_timeline
    group by placement_seed
),

by_tail as (
    select
        placement_seed,
        sum(domains_with_at_least_k::hugeint * (epoch_us(t_end) - epoch_us(t_start))) as gpu_us,
    from domain_tail
    group by placement_seed
),

compared as (
    select
        placement_seed,
        coalesce(by_gpu.gpu_us, 0) as by_gpu,
        by_domain.gpu_us as by_domain,
        by_pool.gpu_us as by_pool,
        coalesce(by_tail.gpu_us, 0) as by_tail,
    from by_domain
    full join by_pool using (placement_seed)
    left join by_gpu using (placement_seed)
    left join by_tail using (placement_seed)
)

select * from compared
where by_gpu is distinct from by_domain or by_gpu is distinct from by_pool or by_gpu is distinct from by_tail
