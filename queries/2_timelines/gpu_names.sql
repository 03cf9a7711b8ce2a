-- title: Index of each GPU that a log names by PCI address or UUID
-- grain: cluster x node x gpu_name
-- reads: events
-- units: gpu is an index within the node, from 0
-- source: model.md section 3: the GPUs of a node are numbered by their index
-- caveat: a PCI address and a UUID are one GPU where any row gives both; of one GPU the address is its name here.
--   An index that some row gives beside a name is taken; the other GPUs of the node take the free
--   indices in the order of their names (PCI addresses: the order of the bus). Which GPU of a node failed does
--   not change what its domain can do, only that two names are two GPUs. No free index: null, and the stage refuses.
with

events as (
    select * from events where node is not null and (gpu_name is not null or gpu is not null)
),

-- UUID to address; a board that moved to another slot keeps the first of the two.
both_names as (
    select cluster, node, gpu_uuid as gpu_name, arg_min(gpu_name, (t_start, gpu_name)) as address
    from events
    where gpu_uuid is not null and gpu_name is not null
    group by cluster, node, gpu_uuid
),

named as (
    select cluster, node, gpu_name, gpu from events where gpu_name is not null
    union all
    select cluster, node, gpu_uuid as gpu_name, gpu from events where gpu_uuid is not null
),

names as (
    select
        named.cluster,
        named.node,
        named.gpu_name,
        coalesce(any_value(address), named.gpu_name) as address,
        min(gpu) as gpu,
    from named
    left join both_names
        on
            both_names.cluster = named.cluster
            and both_names.node = named.node
            and both_names.gpu_name = named.gpu_name
    group by named.cluster, named.node, named.gpu_name
),

told as (
    select cluster, node, address, min(gpu) as gpu
    from names
    group by cluster, node, address
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
        address,
        row_number() over (partition by told.cluster, told.node order by address) as place,
        list_filter(
            range($gpus_per_node::bigint), lambda i: not list_contains(coalesce(taken.indices, []), i)
        ) as free,
    from told
    left join taken on taken.cluster = told.cluster and taken.node = told.node
    where told.gpu is null
),

numbered as (
    select cluster, node, address, gpu from told where gpu is not null
    union all
    select cluster, node, address, free[place] as gpu from waiting
)

select names.cluster, names.node, names.gpu_name, numbered.gpu
from names
inner join numbered
    on numbered.cluster = names.cluster and numbered.node = names.node and numbered.address = names.address
order by names.cluster, names.node, names.gpu_name
