"""Lay nodes onto scale-up domains.

In: the nodes a log names, the cluster's size and a seed, or its topology. Out: one row per node and domain
(`placements`). The population is an input: nodes that never fail are named `unnamed-…` (or as the
topology names them) and take part. Nodes that fill no whole domain, stand in a domain that was dropped, or
are missing from the topology are unplaced (`domain_id` null) and stay outside the pool.
GPUs of a domain are numbered by node, in the order of the topology or else by name, then by GPU index
(model.md section 3).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from pipeline.config import Cluster
from pipeline.errors import InputError
from pipeline.topology.layout import Fitted


def population(named: Sequence[str], cluster: Cluster, where: str) -> list[str]:
    """Return all nodes: those the log names, in its order, then unnamed ones up to `cluster.nodes`."""
    if len(named) > cluster.nodes:
        raise InputError(
            f"{where} [cluster] nodes",
            f"{cluster.nodes}, but the log names {len(named)} nodes",
            f"at least {len(named)}: all nodes of the cluster, failed or not",
        )
    missing = cluster.nodes - len(named)
    width = len(str(missing))
    taken = set(named)
    unnamed = [f"unnamed-{number:0{width}}" for number in range(1, missing + 1)]
    clash = taken.intersection(unnamed)
    if clash:
        raise InputError(
            where, f"the log itself names {min(clash)!r}", "node names not of the form unnamed-N"
        )
    return [*named, *unnamed]


def place(nodes: Sequence[str], cluster: Cluster, scenario: str, seed: int) -> pl.DataFrame:
    """Return the placement of one seed, a row per node and domain.

    `listed` keeps the order of `nodes`; `random` permutes the nodes sorted by name with PCG64(seed),
    so a placement does not depend on the order of a log.
    """
    if cluster.placement == "listed":
        order = list(nodes)
    else:
        by_name = sorted(nodes)
        order = [by_name[i] for i in np.random.Generator(np.random.PCG64(seed)).permutation(len(by_name))]
    size, per_node = cluster.domain_size, cluster.gpus_per_node
    parts = max(1, per_node // size)
    together = max(1, size // per_node)
    slot = np.arange(len(order))
    frame = pl.DataFrame({"node": order, "block": slot // together}).sort("block", "node")
    rank = np.arange(len(order)) % together
    frame = frame.with_columns(rank=pl.Series(rank))
    gpus = min(per_node, size)
    frame = frame.join(pl.DataFrame({"part": range(parts)}), how="cross", maintain_order="left_right")
    domain = pl.col("block") * parts + pl.col("part")
    return frame.select(
        scenario=pl.lit(scenario),
        placement_seed=pl.lit(seed, dtype=pl.Int64),
        node=pl.col("node"),
        domain=pl.lit(None, dtype=pl.String),
        domain_id=pl.when(domain < cluster.pool_domains).then(domain).cast(pl.Int64),
        node_gpu_first=(pl.col("part") * gpus).cast(pl.Int64),
        gpu_first=(pl.col("rank") * gpus).cast(pl.Int64),
        gpus=pl.lit(gpus, dtype=pl.Int64),
    )


def lay(fitted: Fitted, others: Sequence[str], cluster: Cluster, scenario: str) -> pl.DataFrame:
    """Return the placement that a topology states; `others` are nodes of the log that it lacks."""
    own = cluster.gpus_per_node
    rows: list[tuple[str, str | None, int | None, int, int]] = [
        (row.node, name, number, rank * own, own)
        for number, (name, members) in enumerate(fitted.kept.items())
        for rank, row in enumerate(members)
    ]
    rows += [
        (row.node, name, None, 0, own if row.gpus is None else row.gpus)
        for name, members in fitted.dropped.items()
        for row in members
    ]
    rows += [(name, None, None, 0, own) for name in others]
    integers = dict.fromkeys(("domain_id", "gpu_first", "gpus"), pl.Int64)
    types = {"node": pl.String, "domain": pl.String, **integers}
    (seed,) = cluster.placement_seeds
    return pl.DataFrame(rows, schema=types, orient="row").select(
        scenario=pl.lit(scenario),
        placement_seed=pl.lit(seed, dtype=pl.Int64),
        node=pl.col("node"),
        domain=pl.col("domain"),
        domain_id=pl.col("domain_id"),
        node_gpu_first=pl.lit(0, dtype=pl.Int64),
        gpu_first=pl.col("gpu_first"),
        gpus=pl.col("gpus"),
    )
