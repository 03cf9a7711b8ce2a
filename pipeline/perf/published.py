"""The step-time model against published runs: rows of published value, ours, and why they differ.

Nothing is fitted: the constants are those of the presets, from data sheets and microbenchmarks. What a
paper does not print is not chosen to please: where it matters, the row gives the lowest and the highest
of what it could have been. The model leaves out what makes real steps longer (step_time.py), so it is
a bound: ours should be as fast as published or faster, and by a like factor on one kind of machine.
`goodput perf SCENARIO` with measured steps fits that factor for a machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import product

from pipeline.perf import presets
from pipeline.perf.hardware import Gpu
from pipeline.perf.memory import too_large
from pipeline.perf.models import ModelShape
from pipeline.perf.step_time import (
    Iteration,
    Plan,
    hardware_flop_per_s,
    iteration_time,
    model_flop_per_s,
)

TERA = 1e12
MEGATRON, RECOMPUTATION, LLAMA3, NTP = (
    "arXiv 2104.04473",
    "arXiv 2205.05198",
    "arXiv 2407.21783",
    "arXiv 2504.06095",
)
FASTER = (
    "ours is a bound: products at the best shape's efficiency, no launch gaps, no clock lost to power, "
    "no congestion"
)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One published number beside ours; `low` and `high` differ where an input is not published."""

    name: str
    unit: str
    published: float
    low: float
    high: float
    source: str
    note: str

    @property
    def error_frac(self) -> float:
        """Distance of the nearer bound from the published value, relative to it; 0 between them."""
        nearest = min(max(self.published, self.low), self.high)
        return nearest / self.published - 1


def checks() -> list[Check]:
    """Return all rows, paper by paper."""
    return [*megatron(), *megatron_zero(), *recomputation(), *llama3(), *ntp_utilization()]


# Weights, TP, PP, GPUs, batch, TFLOP/s per GPU: arXiv 2104.04473, table 1.
TABLE_1 = (
    ("1.7b", 1, 1, 32, 512, 137),
    ("3.6b", 2, 1, 64, 512, 138),
    ("7.5b", 4, 1, 128, 512, 142),
    ("18.4b", 8, 1, 256, 1024, 135),
    ("39.1b", 8, 2, 512, 1536, 138),
    ("76.1b", 8, 4, 1024, 1792, 140),
    ("145.6b", 8, 8, 1536, 2304, 148),
    ("310.1b", 8, 16, 1920, 2160, 155),
    ("529.6b", 8, 35, 2520, 2520, 163),
    ("1008b", 8, 64, 3072, 3072, 163),
)
# Model, PP, GPUs, batch, TFLOP/s per GPU, all at microbatch 1 and TP 8: the PTD-P rows of its table 2.
TABLE_2 = (
    ("gpt3-175b", 12, 384, 1536, 153),
    ("gpt3-175b", 12, 768, 1536, 149),
    ("gpt3-175b", 12, 1536, 1536, 141),
    ("megatron-529.6b", 35, 560, 2240, 171),
    ("megatron-529.6b", 35, 1120, 2240, 167),
    ("megatron-529.6b", 35, 2240, 2240, 159),
)
# Model, PP, virtual stages, batch, microbatch, seconds with full recomputation, and with selective one and
# sequence parallelism; at TP 8 and DP 1: arXiv 2205.05198, tables 3 and 5.
TABLE_5 = (
    ("megatron-22b", 1, 1, 4, 4, 1.42, 1.10),
    ("gpt3-175b", 8, 3, 64, 1, 18.13, 13.75),
    ("megatron-529.6b", 35, 3, 280, 1, 49.05, 37.83),
    ("megatron-1008b", 64, 1, 512, 1, 94.42, 71.49),
)
# GPUs, CP, DP, tokens a sequence, sequences a replica, TFLOP/s per GPU, MFU: arXiv 2407.21783, table 4.
# Its last row prints DP 4, but 16,384 GPUs and 16M tokens make 8.
TABLE_4 = (
    (8_192, 1, 64, 8_192, 32, 430, 0.43),
    (16_384, 1, 128, 8_192, 16, 400, 0.41),
    (16_384, 16, 8, 131_072, 16, 380, 0.38),
)
# GPUs in an NVLink domain, utilization at 32K GPUs: arXiv 2504.06095, figure 2a (second hand).
FIGURE_2A = ((32, 0.87), (8, 0.68))

# How Megatron-LM ran in 2021: unfused attention, everything recomputed, nothing overlapped, nothing sharded.
_MEGATRON = Plan(
    tp=8,
    attention="unfused",
    recompute="full",
    sequence_parallel=False,
    zero_stage=0,
    overlap_gradients=False,
    overlap_pipeline=False,
)


def megatron() -> Iterator[Check]:
    """Yield table 1 of arXiv 2104.04473: weak scaling from 1.7 billion to a trillion weights."""
    gpu = presets.gpu("a100-80gb")
    note = "microbatch (1 to 16, the best that fits) and virtual stages (1, or one a layer) are not printed; "
    for name, tp, pp, gpus, batch, published in TABLE_1:
        shape = presets.model(f"megatron-{name}")
        dp = gpus // (tp * pp)
        found = []
        for virtual_stages in {1, shape.layers // pp if pp > 1 else 1}:
            plans = [
                replace(
                    _MEGATRON,
                    tp=tp,
                    pp=pp,
                    dp=dp,
                    microbatches=batch // dp // each,
                    microbatch_samples=each,
                    virtual_stages=virtual_stages,
                )
                for each in (1, 2, 4, 8, 16)
                if batch // dp % each == 0
            ]
            found.append(max(_tflops(shape, gpu, plan) for plan in plans if not too_large(shape, gpu, plan)))
        yield _check(f"GPT {name.upper()}, {gpus:,} A100", found, published, f"{MEGATRON}, table 1", note)


def megatron_zero() -> Iterator[Check]:
    """Yield the PTD-P rows of table 2 of arXiv 2104.04473: strong scaling at microbatch 1."""
    gpu = presets.gpu("a100-80gb")
    for name, pp, gpus, batch, published in TABLE_2:
        shape = presets.model(name)
        dp = gpus // (8 * pp)
        plan = replace(_MEGATRON, pp=pp, dp=dp, microbatches=batch // dp)
        found = [_tflops(shape, gpu, replace(plan, virtual_stages=v)) for v in {1, shape.layers // pp}]
        note = "virtual stages (1, or one a layer) are not printed; "
        yield _check(f"{name}, {gpus:,} A100", found, published, f"{MEGATRON}, table 2", note)


def recomputation() -> Iterator[Check]:
    """Yield table 5 of arXiv 2205.05198: seconds of an iteration with full and selective recomputation."""
    gpu = presets.gpu("a100-80gb")
    for name, pp, virtual_stages, batch, each, full_s, selective_s in TABLE_5:
        shape = presets.model(name)
        plan = replace(
            _MEGATRON,
            pp=pp,
            microbatches=batch // each,
            microbatch_samples=each,
            virtual_stages=virtual_stages,
        )
        selective = replace(plan, recompute="selective", sequence_parallel=True)
        for what, one, published in (("full", plan, full_s), ("selective", selective, selective_s)):
            ours = iteration_time(shape, gpu, one).total_s
            yield Check(
                name=f"{name}, {one.gpus:,} A100, {what} recomputation",
                unit="s an iteration",
                published=published,
                low=ours,
                high=ours,
                source=f"{RECOMPUTATION}, table 5",
                note=FASTER,
            )


def llama3() -> Iterator[Check]:
    """Yield table 4 of arXiv 2407.21783: Llama 3 405B on H100, TFLOP/s per GPU and MFU."""
    gpu, shape = presets.gpu("h100"), presets.model("llama3-405b")
    for gpus, cp, dp, seq, samples, tflops, mfu in TABLE_4:
        one = replace(shape, seq=seq)
        # One layer a chunk: the paper takes a layer each from the first and the last stage, and that leaves
        # the first chunk the embedding alone; 16 * 8 - 2 = 126. Nothing computed again: section 3.3.2.
        plan = Plan(tp=8, pp=16, cp=cp, dp=dp, microbatches=samples, virtual_stages=8, zero_stage=2)
        flop_per_s = model_flop_per_s(one, plan, iteration_time(one, gpu, plan).total_s)
        # The paper does not say whether it counts the half of attention that a causal mask leaves out.
        attention_flop = 12 * one.layers * one.heads * one.head_dim * one.seq**2 * plan.samples
        half_frac = 1 - attention_flop / 2 / one.model_flop(plan.samples)
        name, source = f"Llama 3 405B, {gpus:,} H100, {seq:,} tokens", f"{LLAMA3}, table 4"
        note = f"low: attention counts half, as the causal kernel computes it; high: in full; {FASTER}"
        found = [flop_per_s * half_frac, flop_per_s]
        yield _check(name, [value / TERA for value in found], tflops, source, note)
        peak = gpu.peak_flop_per_s(plan.dtype)
        low, high = (value / peak for value in found)
        yield Check(name=name, unit="MFU", published=mfu, low=low, high=high, source=source, note=note)


def ntp_utilization() -> Iterator[Check]:
    """Yield figure 2a of arXiv 2504.06095: the 480B model at 32K GPUs in NVLink domains of 32 and of 8.

    `utilization` is not defined in what we could read: ours is the share of time in which GPUs compute, for
    the fastest plan that fits in memory. Not printed either: whether TP collectives are hidden, and whether
    the pipeline has virtual stages; the row gives the lowest and the highest of the four.
    """
    cases = list(product((0.0, 1.0), (False, True)))
    ours = {
        domain_size: [best_plan(domain_size, 32_768, *case)[1].computing_frac for case in cases]
        for domain_size, _ in FIGURE_2A
    }
    (large, published_large), (small, published_small) = FIGURE_2A
    gaps = [more - less for more, less in zip(ours[large], ours[small], strict=True)]
    for what, published, found in (
        (f"NVL{large}", published_large, ours[large]),
        (f"NVL{small}", published_small, ours[small]),
        (f"NVL{large} less NVL{small}", published_large - published_small, gaps),
    ):
        yield Check(
            name=f"480B, 8K tokens, 32,768 B200, {what}",
            unit="utilization",
            published=published,
            low=min(found),
            high=max(found),
            source=f"{NTP}, figure 2a (second hand)",
            note="ours: share of time computing, fastest plan that fits, bf16; low: no virtual stages, TP "
            "collectives not hidden; high: both; the paper's definition, precision and plan are unknown",
        )


@cache
def best_plan(
    domain_size: int, gpus: int, tp_hidden_frac: float = 0.0, interleaved: bool = True
) -> tuple[Plan, Iteration]:
    """Return the fastest plan of figure 2a's job that fits: 8K tokens a sequence, 16M a batch.

    Degrees are powers of two, TP within a domain; samples are microbatches.
    """
    gpu = replace(presets.gpu("ntp-b200"), domain_size=domain_size)
    shape = replace(presets.model("ntp-480b"), seq=8_192)
    samples = 16 * 2**20 // shape.seq
    found = []
    for tp, pp in product(_powers(domain_size), _powers(shape.layers)):
        dp = gpus // (tp * pp)
        if dp == 0 or samples % dp:
            continue
        chunks = _powers(shape.layers // pp) if interleaved and pp > 1 else [1]
        for virtual_stages, recompute in product(chunks, ("none", "full")):
            plan = Plan(
                tp=tp,
                pp=pp,
                dp=dp,
                microbatches=samples // dp,
                virtual_stages=virtual_stages,
                recompute=recompute,
                overlap_pipeline=False,
                tp_hidden_frac=tp_hidden_frac,
            )
            if not too_large(shape, gpu, plan):
                found.append((plan, iteration_time(shape, gpu, plan)))
    return min(found, key=lambda pair: pair[1].total_s)


def _powers(most: int) -> list[int]:
    """Return the powers of two up to `most`."""
    return [2**power for power in range(most.bit_length())]


def _tflops(shape: ModelShape, gpu: Gpu, plan: Plan) -> float:
    return hardware_flop_per_s(shape, plan, iteration_time(shape, gpu, plan).total_s) / TERA


def _check(name: str, found: list[float], published: float, source: str, note: str) -> Check:
    return Check(
        name=name,
        unit="TFLOP/s a GPU",
        published=published,
        low=min(found),
        high=max(found),
        source=source,
        note=note if FASTER in note else note + FASTER,
    )
