-- title: Index of each GPU that a log names by PCI address or UUID
-- grain: cluster x node x gpu_name
-- reads: events
-- units: gpu is an index within the node, from 0
-- source: model.md section 3: the GPUs of a node are numbered by their index
-- caveat: an index that some row gives beside the name is taken; the other names of the node take the free
--   indices in the order of their names (PCI addresses: the order of the bus). Which GPU of a node failed does
--   not change what its domain can do, only that two names are two GPUs. No free index: null, and the stage refuses.
with

events as (
    select * from events where node is not null and (gpu_name is not null or gpu is not null)
),

told as (
    select cluster, node, gpu_name, min(gpu) as gpu
    from events
    where gpu_name is not null
    group by cluster, node, gpu_name
),

taken as (
    select cluster, node, list(distinct gpu) as indices
    from events
    where gpu is not null
    group by cluster, node
),

waiting as (
    select
        told.cluster,
        told.node,
        gpu_name,
        row_number() over (partition by told.cluster, told.node order by gpu_name) as place,
        list_filter(
            range($gpus_per_node::bigint), lambda i: not list_contains(coalesce(taken.indices, []), i)
        ) as free,
    from told
    left join taken on taken.cluster = told.cluster and taken.node = told.node
    where told.gpu is null
)

select cluster, node, gpu_name, gpu from told where gpu is not null
union all
select cluster, node, gpu_name, free[place] as gpu from waiting
order by cluster, node, gpu_name
