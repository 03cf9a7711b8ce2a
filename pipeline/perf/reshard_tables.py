"""Resharding beside what is published: rows for people and for the page of the paper.

`figure8`: the prototype of arXiv 2504.06095 (section 6.1 and figure 8: two DGX-A100, TP8 beside a reduced
replica, hidden 12288 and 6144, head dimension 128, FFN four times the hidden size, 4K to 16K tokens). Read
in a secondary text, not in the paper's figure: the slowdown of the last backward pass is at most 4 %,
linear in (most bytes a GPU moves) / (seconds of backward computation), less for longer sequences.

`large_job`: the same paper's 480B job, beside the public statement that resharding costs below 1 %.

`compare_maps`: our map beside the plain one and that of the public code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.perf.hardware import Gpu
from pipeline.perf.models import ModelShape
from pipeline.perf.resharding import ReshardCost, reshard_cost, traffic
from pipeline.perf.sharding import MAPS, least_moved

FIGURE8_TP = 8
FIGURE8_HIDDEN = (6144, 12288)
FIGURE8_SEQ = (4096, 8192, 16384)
FIGURE8_REDUCED = (7, 6, 4)  # which degrees the figure shows is not known to us
LARGE_JOB_TP, LARGE_JOB_PP, LARGE_JOB_MICROBATCHES = (
    32,
    8,
    8,
)  # arXiv 2504.06095, section 6.2: 8 domains of 32

# (shards, full, reduced): heads, FFN columns and vocabulary rows of the public tests and of the paper.
MAP_CASES = (
    (24, 8, 6), (128, 4, 2), (8, 4, 2), (1024, 4, 2), (512, 4, 2), (12, 4, 3), (24, 4, 3), (56, 8, 7),
    (4, 4, 2), (96, 32, 24), (12000, 32, 30), (32, 8, 7), (64, 8, 6), (81920, 32, 30), (128, 32, 30),
    (128, 32, 28),
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SlowdownRow:
    """One case of figure 8: a one-layer model at TP8 whose gradients go to the layout of `reduced` GPUs."""

    hidden: int
    seq: int
    reduced: int
    busiest_bytes: float
    backward_s: float
    uncovered_s: float

    @property
    def bytes_per_backward_s(self) -> float:
        """The figure's abscissa: most bytes a GPU moves over the seconds of backward computation."""
        return self.busiest_bytes / self.backward_s

    @property
    def slowdown_frac(self) -> float:
        """The figure's ordinate: by how much the last backward pass is longer."""
        return self.uncovered_s / self.backward_s


@dataclass(frozen=True, kw_only=True)
class MapRow:
    """One map in one case, in shards and messages; `problem` says why there is none."""

    shards: int
    full: int
    reduced: int
    name: str
    moved: int = 0
    least: int = 0
    busiest: int = 0
    messages: int = 0
    busiest_messages: int = 0
    comp_spread: int = 0
    sync_spread: int = 0
    problem: str = ""


def backward_s(shape: ModelShape, gpu: Gpu, tp: int) -> float:
    """Return the computation of one layer's backward pass of one sample in BF16, at the GPU's own rates.

    Twice the forward pass: 2 operations a weight and token, and 4 * seq^2 * heads * head_dim for scores
    and values (arXiv 2104.04473, appendix). TP collectives are not in it: nothing hides behind them.
    """
    rate = gpu.gemm_flop_per_s("bf16")
    attention_rate = gpu.peak_flop_per_s("bf16") * gpu.attention_frac
    weights_s = 2 * shape.layer_weights * shape.seq / rate
    scores_s = 4 * shape.seq**2 * shape.heads * shape.head_dim / attention_rate
    return 2 * (weights_s + scores_s) / tp


def figure8(gpu: Gpu, grad_bytes: float) -> tuple[SlowdownRow, ...]:
    """Return the cases of figure 8 for a GPU and bytes per gradient element: one layer, local batch 1."""
    rows = []
    for hidden in FIGURE8_HIDDEN:
        for seq in FIGURE8_SEQ:
            heads = hidden // 128
            shape = ModelShape(
                layers=1, hidden=hidden, heads=heads, kv_heads=heads, head_dim=128,
                ffn_hidden=4 * hidden, ffn_matrices=2, vocab=FIGURE8_TP, seq=seq,
            )  # fmt: skip
            rows += [_slowdown(shape, gpu, reduced, grad_bytes) for reduced in FIGURE8_REDUCED]
    return tuple(rows)


def _slowdown(shape: ModelShape, gpu: Gpu, reduced: int, grad_bytes: float) -> SlowdownRow:
    """Return one case; the embedding is no part of the prototype's layers."""
    seconds = backward_s(shape, gpu, FIGURE8_TP)
    cost = reshard_cost(
        shape,
        FIGURE8_TP,
        reduced,
        layers=1,
        embedding=False,
        backward_s_per_layer=seconds,
        iteration_s=seconds,
        link=gpu.scale_up,
        grad_bytes=grad_bytes,
    )
    return SlowdownRow(
        hidden=shape.hidden,
        seq=shape.seq,
        reduced=reduced,
        busiest_bytes=cost.busiest_bytes,
        backward_s=seconds,
        uncovered_s=cost.before_sync_s,
    )


def large_job(shape: ModelShape, gpu: Gpu, reduced: int, grad_bytes: float) -> ReshardCost:
    """Return the cost in the paper's large job, with everything against us that we know of.

    The iteration is computation alone (8 microbatches and 7 stages of bubble, no TP collective), the
    way back hides behind nothing, and the first stage has its layers rounded up and the embedding.
    """
    layers = -(-shape.layers // LARGE_JOB_PP)
    seconds = backward_s(shape, gpu, LARGE_JOB_TP)
    slots = LARGE_JOB_MICROBATCHES + LARGE_JOB_PP - 1
    return reshard_cost(
        shape,
        LARGE_JOB_TP,
        reduced,
        layers=layers,
        backward_s_per_layer=seconds,
        iteration_s=slots * layers * 1.5 * seconds,  # a forward pass is half a backward pass
        link=gpu.scale_up,
        grad_bytes=grad_bytes,
    )


def compare_maps(cases: Iterable[tuple[int, int, int]] = MAP_CASES) -> tuple[MapRow, ...]:
    """Return one row per case and map."""
    return tuple(_map_row(name, *case) for case in cases for name in MAPS)


def _map_row(name: str, shards: int, full: int, reduced: int) -> MapRow:
    """Return a map's figures, or its problem where it has no answer."""
    try:
        shard_map = MAPS[name](shards, full, reduced)
    except InputError as error:
        return MapRow(shards=shards, full=full, reduced=reduced, name=name, problem=error.found)
    moves = traffic(shard_map.send, 1)
    core_sync = shard_map.sync_sizes[:reduced]
    return MapRow(
        shards=shards,
        full=full,
        reduced=reduced,
        name=name,
        moved=int(moves.sent_bytes.sum()),
        least=least_moved(shards, full, reduced),
        busiest=int(moves.busiest_bytes),
        messages=int(moves.sent_messages.sum()),
        busiest_messages=moves.busiest_messages,
        comp_spread=int(shard_map.comp_sizes.max() - shard_map.comp_sizes.min()),
        sync_spread=int(core_sync.max() - core_sync.min()),
    )
