"""Which GPU of a TP group holds which shard, before and after a reshard (nonuniform TP, arXiv 2504.06095).

A tensor is cut into shards that stay whole: attention by KV group, an FFN by column, a vocabulary by
row. A healthy replica computes in the comp layout, on all `full` GPUs of its group. It syncs gradients
with a replica of `reduced` GPUs in the sync layout, where GPU j of either replica holds the same
shards; the reduced replica also computes in it. GPUs below `reduced` are core GPUs, the rest extra.

Easy to get wrong: shards keep their ids in both layouts, so what must fit together (Q with its output
rows, an FFN column with its row) is placed alike by one map, and a replica that starts, or loads a
checkpoint, in the comp layout must load by shard id and not by plain slices.

Sizes are shards. S = shards, N1 = full, N2 = reduced below. Source of the idea: arXiv 2504.06095,
section 3; the map of the public code (Megatron-LM, branch dev, nonuniform_tp.py) stands beside ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pipeline.errors import InputError

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ShardMap:
    """The GPU of every shard in the comp and in the sync layout (arrays of length S)."""

    full: int
    reduced: int
    comp_gpu: Ints
    sync_gpu: Ints

    @property
    def shards(self) -> int:
        """Shards of the tensor."""
        return len(self.comp_gpu)

    def comp_ids(self, gpu: int) -> Ints:
        """Return the ids of the shards that `gpu` computes with, ascending: their order in its memory."""
        return np.flatnonzero(self.comp_gpu == gpu)

    def sync_ids(self, gpu: int) -> Ints:
        """Return the ids of the shards that `gpu` syncs, ascending: their order in its memory."""
        return np.flatnonzero(self.sync_gpu == gpu)

    def sent_ids(self, sender: int, receiver: int) -> Ints:
        """Return the ids that go from `sender` to `receiver` before the sync, and back after it."""
        return np.flatnonzero((self.comp_gpu == sender) & (self.sync_gpu == receiver))

    @cached_property
    def comp_sizes(self) -> Ints:
        """Shards per GPU in the comp layout (length N1)."""
        return np.bincount(self.comp_gpu, minlength=self.full)

    @cached_property
    def sync_sizes(self) -> Ints:
        """Shards per GPU in the sync layout (length N1; extra GPUs hold none)."""
        return np.bincount(self.sync_gpu, minlength=self.full)

    @cached_property
    def send(self) -> Ints:
        """Shards from GPU i (row) to GPU j (column) before the sync; what stays in place is not counted.

        The transpose is what each GPU receives, and what it sends back after the sync.
        """
        pairs = self.comp_gpu * self.full + self.sync_gpu
        counts = np.bincount(pairs, minlength=self.full**2).reshape(self.full, self.full)
        np.fill_diagonal(counts, 0)
        return counts


def balanced(shards: int, full: int, reduced: int) -> ShardMap:
    """Return our map: both layouts differ by at most one shard between GPUs, and as little as can moves.

    Sync: consecutive ids, the first S mod N2 core GPUs hold one more. Comp: the first S mod N1 GPUs hold
    one more; core GPU j keeps the first ids of its own sync range, so it never sends. The tails of the
    ranges go to the extra GPUs in order, each filled before the next: every message is one run of ids,
    and there are fewer than N1 of them, at most one run per pair. On a switched network a GPU's port is
    the limit, so few large messages are no slower than many small ones and cost less latency.

    Nothing has to divide: where S mod N1 or S mod N2 is not 0, some GPUs hold one shard less. Raise
    InputError unless 1 <= N2 <= N1 <= S.
    """
    comp_sizes, sync_sizes = _cut(shards, full, reduced)
    sync_gpu = np.repeat(np.arange(reduced), sync_sizes)
    place = np.arange(shards) - np.repeat(np.cumsum(sync_sizes) - sync_sizes, sync_sizes)
    comp_gpu = sync_gpu.copy()
    comp_gpu[place >= comp_sizes[sync_gpu]] = np.repeat(np.arange(reduced, full), comp_sizes[reduced:])
    return ShardMap(full, reduced, comp_gpu, sync_gpu)


def contiguous(shards: int, full: int, reduced: int) -> ShardMap:
    """Return the plain map: consecutive ids in both layouts, as loaded without a thought of a reshard.

    Nearly every GPU both sends and receives. Raise InputError as `balanced`.
    """
    comp_sizes, sync_sizes = _cut(shards, full, reduced)
    return ShardMap(
        full, reduced, np.repeat(np.arange(full), comp_sizes), np.repeat(np.arange(reduced), sync_sizes)
    )


def round_robin(shards: int, full: int, reduced: int) -> ShardMap:
    """Return the map of the public code, restated from its rules, for comparison.

    Sync: pieces of ceil(S/N2) ids, the last one shorter. Each extra GPU is given floor(S/N1) ids, one
    from the end of each piece in turn; the turn is carried on from one extra GPU to the next. Unless N1
    and N2 both divide S the layouts are uneven, and the reduced replica's plain slices need not be these
    pieces. Raise InputError as `balanced`, and where the public code has no answer: pieces of ceil(S/N2)
    that are fewer than N2, or a piece that runs out of ids.
    """
    _check(shards, full, reduced)
    piece = -(-shards // reduced)
    sync_sizes = np.diff(np.minimum(np.arange(reduced + 1) * piece, shards))
    each = shards // full
    turn = np.arange((full - reduced) * each)
    taken_from = turn % reduced
    if not sync_sizes.all() or (np.bincount(taken_from, minlength=reduced) > sync_sizes).any():
        raise InputError(
            f"{shards} shards from {full} to {reduced} GPUs",
            f"pieces of {piece} shards leave a GPU without enough of them",
            "a number of shards that both degrees divide",
            "use the balanced map",
        )
    sync_gpu = np.repeat(np.arange(reduced), sync_sizes)
    comp_gpu = sync_gpu.copy()
    comp_gpu[np.cumsum(sync_sizes)[taken_from] - 1 - turn // reduced] = reduced + turn // each
    return ShardMap(full, reduced, comp_gpu, sync_gpu)


MAPS: dict[str, Callable[[int, int, int], ShardMap]] = {
    "balanced": balanced,
    "contiguous": contiguous,
    "round-robin": round_robin,
}


def least_moved(shards: int, full: int, reduced: int) -> int:
    """Return the fewest shards that any two balanced layouts can move: what the extra GPUs must hold.

    An extra GPU holds nothing in the sync layout, so all it computes with moves. It holds floor(S/N1)
    at least; of the S mod N1 GPUs that hold one more, those beyond N2 are extra.
    """
    _check(shards, full, reduced)
    return (full - reduced) * (shards // full) + max(shards % full - reduced, 0)


def _cut(shards: int, full: int, reduced: int) -> tuple[Ints, Ints]:
    """Return the sizes of both layouts: as even as whole shards allow, the larger ones first."""
    _check(shards, full, reduced)
    comp, sync = (shards // gpus + (np.arange(gpus) < shards % gpus) for gpus in (full, reduced))
    return comp, sync


def _check(shards: int, full: int, reduced: int) -> None:
    """Raise InputError unless every GPU of both degrees can hold a shard."""
    if not 1 <= reduced <= full <= shards:
        raise InputError(
            f"{shards} shards from {full} to {reduced} GPUs",
            "a GPU would hold no shard, or the reduced degree is above the full one",
            "1 <= reduced degree <= full degree <= shards",
        )
