"""To which reduced TP degrees a model can fall, and why not to another.

What stays whole: a KV head with its query heads, an FFN column, a vocabulary row. Heads need not divide
(the step-time model charges the busiest GPU); every GPU needs one of each.

With more GPUs than KV heads, GPUs hold copies of a KV head and split its query heads. That works while
every KV head has equally many GPUs, in both degrees (Megatron-LM asks the same of a uniform degree:
`num_query_groups` and TP must divide one way or the other). GPU g then serves KV head g mod kv_heads, so
that the extra GPUs of all KV heads are the last ones of the group, as they are for the FFN.

Memory decides too: see `pipeline.perf.memory`. Sequence parallelism then cuts the sequence in uneven
parts; whether the training code can do that is not checked here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipeline.errors import InputError
from pipeline.perf.models import ModelShape
from pipeline.perf.sharding import ShardMap, balanced


@dataclass(frozen=True, kw_only=True)
class Degree:
    """A reduced degree of a model: what the busiest GPU holds, and the reasons against it (none: legal)."""

    degree: int
    query_heads: int
    ffn_columns: int
    reasons: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class AttentionCut:
    """How attention is cut: where each shard lies, its query heads, and whether K and V are copies.

    Without copies a shard is a KV head with its query heads. With copies it is a query head, and K and V
    are on every GPU of their KV head, in both layouts.
    """

    shard_map: ShardMap
    queries_per_shard: int
    kv_copied: bool


def degree(shape: ModelShape, full: int, reduced: int) -> Degree:
    """Return what falling from `full` to `reduced` GPUs means for the model."""
    return Degree(
        degree=reduced,
        query_heads=_query_heads(shape, reduced),
        ffn_columns=-(-shape.ffn_hidden // reduced),
        reasons=why_not(shape, full, reduced),
    )


def degrees(shape: ModelShape, full: int) -> tuple[Degree, ...]:
    """Return every degree below `full`, largest first."""
    return tuple(degree(shape, full, reduced) for reduced in range(full - 1, 0, -1))


def why_not(shape: ModelShape, full: int, reduced: int) -> tuple[str, ...]:
    """Return the reasons why a model at TP `full` cannot fall to `reduced` GPUs; none when it can."""
    if not 1 <= reduced < full:
        return (f"a reduced degree lies from 1 to {full - 1}",)
    return _misfits(shape, full, reduced)


def _misfits(shape: ModelShape, full: int, reduced: int) -> tuple[str, ...]:
    """Return what of the model does not fit on `full` and on `reduced` GPUs."""
    reasons = [
        f"{size} {what} leave some of {full} GPUs without one"
        for what, size in (
            ("query heads", shape.heads),
            ("FFN columns", shape.ffn_hidden),
            ("vocabulary rows", shape.vocab),
        )
        if size < full
    ]
    if full > shape.kv_heads:
        reasons += [
            f"{shape.kv_heads} KV heads cannot have equally many copies on {gpus} GPUs"
            for gpus in sorted({full, reduced}, reverse=True)
            if gpus % shape.kv_heads
        ]
    return tuple(reasons)


def cut_attention(shape: ModelShape, full: int, reduced: int) -> AttentionCut:
    """Return how attention is cut; raise InputError with the reasons when the degree is not legal.

    `reduced` may be `full`: nothing moves then.
    """
    reasons = _misfits(shape, full, reduced)
    if reasons:
        raise InputError(f"TP{reduced} of TP{full}", "; ".join(reasons), "a legal reduced degree")
    if full <= shape.kv_heads:
        shard_map = balanced(shape.kv_heads, full, reduced)
        return AttentionCut(shard_map=shard_map, queries_per_shard=shape.queries_per_group, kv_copied=False)
    one = balanced(shape.queries_per_group, full // shape.kv_heads, reduced // shape.kv_heads)
    kv_heads = np.arange(shape.kv_heads)[:, None]
    comp_gpu, sync_gpu = ((gpu * shape.kv_heads + kv_heads).ravel() for gpu in (one.comp_gpu, one.sync_gpu))
    shard_map = ShardMap(full, reduced, comp_gpu, sync_gpu)
    return AttentionCut(shard_map=shard_map, queries_per_shard=1, kv_copied=True)


def copy_senders(full: int, reduced: int, kv_heads: int) -> dict[int, int]:
    """Return, for each extra GPU, the core GPU that hands it the synced gradients of its copy of K and V.

    A core GPU of the same KV head, in turn. Before the sync nothing is sent: the GPUs of a KV head add up
    the gradients of their copies anyway, and extra GPUs need only take part.
    """
    return {extra: (extra - reduced) % reduced for extra in range(reduced, full)} if full > kv_heads else {}


def _query_heads(shape: ModelShape, gpus: int) -> int:
    """Return the query heads of the busiest of `gpus` GPUs."""
    if gpus <= shape.kv_heads:
        return -(-shape.kv_heads // gpus) * shape.queries_per_group
    return -(-shape.heads // gpus)
