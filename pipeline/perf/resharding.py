"""What a reshard costs: bytes, messages and seconds on the scale-up network, and the longer iteration.

A healthy replica brings its gradients from the comp into the sync layout before the DP sync, and back
after it (arXiv 2504.06095, section 3; `pipeline.perf.sharding` has the layouts). The reduced replica
moves nothing. Per iteration, on the slowest stage, the time grows by

- what the first reshard leaves uncovered behind the last backward pass: each tensor can start when its
  gradient is whole, so at the least the last tensor's own reshard is seen;
- what the second reshard leaves uncovered behind the last DP sync;
- the DP sync itself, which N2 GPUs now do in place of N1, each for a larger shard.

The sum over the iteration's time is `reshard_overhead_frac` of a policy: X = X_raw / (1 + r).

Units: bytes, seconds.
Easy to get wrong: bytes are those of the gradient that is synced (4 per weight where gradients are
accumulated in FP32, 2 in BF16), not those of the weight. Where several reduced degrees are in use,
all sync in the layout of the smallest: its cost is the one to take.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from math import lcm
from operator import add

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError
from pipeline.perf.degrees import copy_senders, cut_attention
from pipeline.perf.hardware import Link
from pipeline.perf.models import ModelShape
from pipeline.perf.sharding import Ints, ShardMap, balanced

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Traffic:
    """What each GPU of a TP group sends and receives in one reshard (arrays of length N1)."""

    sent_bytes: Floats
    received_bytes: Floats
    sent_messages: Ints
    received_messages: Ints

    @property
    def busiest_bytes(self) -> float:
        """Bytes through the busiest port, in its busier direction."""
        return float(max(self.sent_bytes.max(), self.received_bytes.max()))

    @property
    def busiest_messages(self) -> int:
        """Messages through the busiest port, in its busier direction."""
        return int(max(self.sent_messages.max(), self.received_messages.max()))

    def __add__(self, other: Traffic) -> Traffic:
        """Return both, GPU by GPU."""
        return Traffic(
            self.sent_bytes + other.sent_bytes,
            self.received_bytes + other.received_bytes,
            self.sent_messages + other.sent_messages,
            self.received_messages + other.received_messages,
        )

    def time_s(self, link: Link) -> float:
        """Return the seconds until the last GPU is done.

        `link` is a GPU's port to a switch. Both directions run at once, the messages of one direction one
        after another: latency a message plus bytes over bandwidth (the linear model of Hockney, 1994). An
        upper bound where messages to several GPUs share their latency.
        """
        port_bytes_per_s = link.bytes_per_s * link.reached_frac
        bytes_s = np.maximum(self.sent_bytes, self.received_bytes) / port_bytes_per_s
        messages = np.maximum(self.sent_messages, self.received_messages)
        return float((bytes_s + messages * link.latency_s).max())


def traffic(send: Ints, shard_bytes: float) -> Traffic:
    """Return the traffic of what GPU i (row) sends to GPU j (column), in shards of `shard_bytes`.

    `ShardMap.send` is that of a tensor before the sync, its transpose after it.
    """
    return Traffic(
        sent_bytes=send.sum(axis=1) * float(shard_bytes),
        received_bytes=send.sum(axis=0) * float(shard_bytes),
        sent_messages=(send > 0).sum(axis=1),
        received_messages=(send > 0).sum(axis=0),
    )


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """The gradient of one weight matrix: how it reshards and how much of the backward pass makes it.

    `there` is its traffic before the sync, `back` after it; `backward_share` is a share of its layer's
    backward pass; `comp_bytes` and `sync_bytes` are those of the busiest GPU in either layout.
    """

    name: str
    there: Traffic
    back: Traffic
    backward_share: float
    comp_bytes: float
    sync_bytes: float


def layer_tensors(shape: ModelShape, full: int, reduced: int, grad_bytes: float) -> tuple[Tensor, ...]:
    """Return the tensors of one layer in the order in which a backward pass makes their gradients.

    FFN down, FFN up (and gate), attention output, Q with K and V. Shares follow the operations of a
    token (arXiv 2104.04473, appendix: 2 a weight, and 4 * seq * heads * head_dim for scores and values,
    which belong to Q, K and V). Raise InputError for a degree that is not legal.
    """
    cut = cut_attention(shape, full, reduced)
    columns = balanced(shape.ffn_hidden, full, reduced)
    column_bytes = shape.hidden * grad_bytes
    query_bytes = shape.hidden * shape.head_dim * cut.queries_per_shard * grad_bytes
    kv_bytes = 2 * shape.hidden * shape.head_dim * grad_bytes
    width = shape.heads * shape.head_dim
    up_matrices = shape.ffn_matrices - 1
    down = 2 * shape.hidden * shape.ffn_hidden
    output = 2 * shape.hidden * width
    qkv = output + 4 * shape.hidden * shape.kv_heads * shape.head_dim + 4 * shape.seq * width
    total = down * (1 + up_matrices) + output + qkv
    return (
        _tensor("ffn down", columns, column_bytes, share=down / total),
        _tensor("ffn up", columns, column_bytes * up_matrices, share=down * up_matrices / total),
        _tensor("attention output", cut.shard_map, query_bytes, share=output / total),
        _with_copies(
            _tensor("qkv", cut.shard_map, query_bytes, share=qkv / total), shape, cut.shard_map, kv_bytes
        )
        if cut.kv_copied
        else _tensor("qkv", cut.shard_map, query_bytes + kv_bytes, share=qkv / total),
    )


def embedding_tensor(shape: ModelShape, full: int, reduced: int, grad_bytes: float) -> Tensor:
    """Return the embedding's gradient, cut by vocabulary row: ready last, made by no matrix product."""
    return _tensor("embedding", balanced(shape.vocab, full, reduced), shape.hidden * grad_bytes, share=0.0)


def _tensor(name: str, shard_map: ShardMap, shard_bytes: float, *, share: float) -> Tensor:
    """Return a tensor of `shard_bytes` a shard."""
    return Tensor(
        name=name,
        there=traffic(shard_map.send, shard_bytes),
        back=traffic(shard_map.send.T, shard_bytes),
        backward_share=share,
        comp_bytes=int(shard_map.comp_sizes.max()) * shard_bytes,
        sync_bytes=int(shard_map.sync_sizes.max()) * shard_bytes,
    )


def _with_copies(tensor: Tensor, shape: ModelShape, shard_map: ShardMap, copy_bytes: float) -> Tensor:
    """Return a tensor with a copy of K and V beside its shards: every GPU syncs one, or is handed it back."""
    handed = np.zeros_like(shard_map.send)
    for extra, core in copy_senders(shard_map.full, shard_map.reduced, shape.kv_heads).items():
        handed[core, extra] = 1
    return replace(
        tensor,
        back=tensor.back + traffic(handed, copy_bytes),
        comp_bytes=tensor.comp_bytes + copy_bytes,
        sync_bytes=tensor.sync_bytes + copy_bytes,
    )


def uncovered_s(steps: Iterable[tuple[float, float]]) -> float:
    """Return the seconds by which transfers outlast the computation that they hide behind.

    A step (computation, transfer) computes, then hands its transfer to one queue that works beside the
    next computation. Equal steps of c and t leave t + (steps - 1) * max(t - c, 0).
    """
    computed_s, moved_s = 0.0, 0.0
    for computation_s, transfer_s in steps:
        computed_s += computation_s
        moved_s = max(moved_s, computed_s) + transfer_s
    return max(moved_s - computed_s, 0.0)


@dataclass(frozen=True, kw_only=True)
class ReshardCost:
    """The longer iteration of a job with a reduced replica, and where it comes from.

    `reshard_s` is the stage's reshard before the sync without any overlap; `busiest_bytes` what one way moves
    through the busiest port, `total_bytes` what both ways move; `side_buffer_bytes` what a core GPU holds
    beside its own gradients until the way back.
    """

    reshard_s: float
    before_sync_s: float
    after_sync_s: float
    larger_sync_s: float
    iteration_s: float
    busiest_bytes: float
    total_bytes: float
    side_buffer_bytes: float

    @property
    def added_s(self) -> float:
        """Seconds by which an iteration is longer."""
        return self.before_sync_s + self.after_sync_s + self.larger_sync_s

    @property
    def overhead_frac(self) -> float:
        """The iteration's added time over its time without reshard: `reshard_overhead_frac`."""
        return self.added_s / self.iteration_s


def reshard_cost(
    shape: ModelShape,
    full: int,
    reduced: int,
    *,
    layers: int,
    backward_s_per_layer: float,
    iteration_s: float,
    link: Link,
    grad_bytes: float,
    embedding: bool = True,
    overlap: bool = True,
    dp_sync_s: float = 0.0,
    dp_sync_window_s: float = 0.0,
    last_sync_s: float = 0.0,
) -> ReshardCost:
    """Return what the reshard of a healthy stage adds to an iteration.

    `layers` are those of the stage; the first stage also holds the embedding (`embedding`), and as the
    last to end its backward pass it is the one that counts. `backward_s_per_layer` is the computation of
    a microbatch's backward pass that a transfer may hide behind: without TP collectives that are waited
    for, which use the same network. `iteration_s` is the iteration without reshard. With `overlap` off,
    both reshards stand alone.

    `dp_sync_s` is the healthy stage's whole DP sync and `dp_sync_window_s` the time it can hide behind;
    `last_sync_s` is the DP sync of the last bucket, behind which the way back of all but the last
    tensor may hide (0: nothing does, the upper bound).
    """
    if (
        layers < 1
        or not iteration_s > 0
        or min(backward_s_per_layer, dp_sync_s, dp_sync_window_s, last_sync_s) < 0
    ):
        raise InputError("reshard", "a layer count below 1 or a negative time", "layers >= 1, times >= 0")
    layer = layer_tensors(shape, full, reduced, grad_bytes)
    tensors = [*layer * layers, *([embedding_tensor(shape, full, reduced, grad_bytes)] if embedding else [])]
    there_s = [tensor.there.time_s(link) for tensor in tensors]
    back_s = [tensor.back.time_s(link) for tensor in tensors]
    computed_s = [tensor.backward_share * backward_s_per_layer for tensor in tensors]
    there, back = (
        reduce(add, ways) for ways in zip(*((one.there, one.back) for one in tensors), strict=True)
    )
    growth = sum(tensor.sync_bytes for tensor in tensors) / sum(tensor.comp_bytes for tensor in tensors)
    return ReshardCost(
        reshard_s=sum(there_s),
        before_sync_s=uncovered_s(zip(computed_s, there_s, strict=True)) if overlap else sum(there_s),
        after_sync_s=max(sum(back_s) - last_sync_s, back_s[-1]) if overlap else sum(back_s),
        larger_sync_s=_beyond(dp_sync_s * growth, dp_sync_window_s) - _beyond(dp_sync_s, dp_sync_window_s),
        iteration_s=iteration_s,
        busiest_bytes=max(there.busiest_bytes, back.busiest_bytes),
        total_bytes=float(there.sent_bytes.sum() + back.sent_bytes.sum()),
        side_buffer_bytes=float(there.received_bytes.max()),
    )


def _beyond(time_s: float, window_s: float) -> float:
    """Return the part of a time that its window does not cover."""
    return max(time_s - window_s, 0.0)


@dataclass(frozen=True, kw_only=True)
class GradBuffer:
    """One flat buffer of gradients, in elements: (start, end of its own, end of the side part) a tensor."""

    places: tuple[tuple[int, int, int], ...]
    used: int
    size: int


# Megatron-LM, core/distributed (distributed optimizer): a tensor starts at a multiple of 64 elements, a
# buffer ends at one of the number of DP ranks and of 128.
TENSOR_ALIGN_ELEMENTS, BUFFER_ALIGN_ELEMENTS = 64, 128


def grad_buffer(tensors: Iterable[tuple[int, int]], dp_ranks: int) -> GradBuffer:
    """Return the buffer of a core GPU: behind each tensor's own gradient the part that it syncs for others.

    `tensors` are pairs of elements (own, side). Own and side together are a tensor's sync shard in
    ascending ids where the tensor is cut along its first axis; along another one the rows must be
    interleaved before the sync, or unlike elements are added up.
    """
    places, end = [], 0
    for own, side in tensors:
        start = _aligned(end, TENSOR_ALIGN_ELEMENTS)
        end = start + own + side
        places.append((start, start + own, end))
    return GradBuffer(
        places=tuple(places), used=end, size=_aligned(end, lcm(dp_ranks, BUFFER_ALIGN_ELEMENTS))
    )


def _aligned(elements: int, multiple: int) -> int:
    """Return the least multiple that holds the elements."""
    return -(-elements // multiple) * multiple
