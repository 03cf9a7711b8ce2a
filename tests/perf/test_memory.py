"""Memory against the published formulas and values, and why a degree is not legal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pipeline.perf import presets
from pipeline.perf.memory import activation_bytes, legal, memory, stage_memory, too_large
from pipeline.perf.models import ModelShape
from pipeline.perf.step_time import Plan

GIB = 2**30
A100 = presets.gpu("a100-80gb")
GPT3 = presets.model("gpt3-175b")
UNFUSED = Plan(tp=8, attention="unfused", sequence_parallel=False, zero_stage=0)


def test_activations_are_equations_1_to_4() -> None:
    """Table 2 of arXiv 2205.05198, in sbh: 34 + 5as/h, 10 + 24/t + 5as/ht, 34/t + 5as/ht, 34/t, 2."""
    s, h, a, t = GPT3.seq, GPT3.hidden, GPT3.heads, 8
    for b in (1, 3):
        sbh = s * b * h
        plan = replace(UNFUSED, microbatch_samples=b)
        parallel = replace(plan, sequence_parallel=True)
        assert activation_bytes(GPT3, replace(plan, tp=1)) == sbh * (34 + 5 * a * s / h)
        assert activation_bytes(GPT3, plan) == sbh * (10 + 24 / t + 5 * a * s / (h * t))
        assert activation_bytes(GPT3, parallel) == sbh * (34 / t + 5 * a * s / (h * t))
        assert activation_bytes(GPT3, replace(parallel, recompute="selective")) == sbh * 34 / t
        assert activation_bytes(GPT3, replace(parallel, attention="fused")) == sbh * 34 / t
        assert activation_bytes(GPT3, replace(plan, recompute="full")) == sbh * 2


@pytest.mark.parametrize(
    ("name", "pp", "v", "b", "none_gib", "selective_gib", "weights_gib"),
    [
        ("megatron-22b", 1, 1, 4, 59.25, 9.5625, 45.5625),
        ("gpt3-175b", 8, 3, 1, 66.84375, 12.3515625, 45.5625),
        ("megatron-529.6b", 35, 3, 1, 114.0234375, 23.076171875, 31.640625),
        ("megatron-1008b", 64, 1, 1, 131.25, 26.5625, 32.958984375),
    ],
)
def test_memory_is_that_of_figure_1(
    name: str, pp: int, v: int, b: int, none_gib: float, selective_gib: float, weights_gib: float
) -> None:
    """ArXiv 2205.05198, figure 1: activations of the first stage, and 18 bytes a weight of the layers."""
    shape = presets.model(name)
    layers_only = replace(shape, vocab=8)
    plan = replace(UNFUSED, pp=pp, virtual_stages=v, microbatch_samples=b, microbatches=1_000)
    for recompute, split, wanted in (("none", False, none_gib), ("selective", True, selective_gib)):
        one = replace(plan, recompute=recompute, sequence_parallel=split)
        # The last stage also holds the logits, which the figure leaves out: only 22B has one stage.
        found = stage_memory(layers_only, one, 0)
        logits = one.tokens_per_gpu(shape) * shape.hidden * 4 + one.tokens(shape) * 4 if pp == 1 else 0
        assert (found.activations_bytes - logits) / GIB == pytest.approx(wanted, rel=1e-6)
        weights = found.weights_bytes + found.gradients_bytes + found.states_bytes
        assert weights / GIB == pytest.approx(weights_gib, rel=1e-4)


def test_zero_stages_divide_over_dp() -> None:
    """Stage 1 shards 12 of 18 bytes a weight over DP, stage 2 the fp32 gradients too (arXiv 1910.02054)."""
    whole, states, gradients = (memory(GPT3, Plan(tp=8, pp=8, dp=16, zero_stage=z)) for z in (0, 1, 2))
    assert whole.states_bytes == 16 * states.states_bytes == 6 * whole.weights_bytes
    assert states.gradients_bytes == whole.gradients_bytes == 2 * whole.weights_bytes
    assert gradients.gradients_bytes == whole.gradients_bytes / 16
    assert whole.weights_bytes == gradients.weights_bytes


def test_a_reduced_degree_needs_more() -> None:
    """Fewer GPUs hold the same model: memory grows at least as TP/t where shards divide."""
    totals = [memory(GPT3, Plan(tp=tp, pp=8, dp=16, microbatches=8)).total_bytes for tp in (8, 7, 6, 4)]
    assert totals == sorted(totals)
    assert totals[-1] == pytest.approx(2 * totals[0], rel=1e-3)


@pytest.mark.parametrize(
    ("shape", "plan", "degree", "words"),
    [
        (GPT3, Plan(tp=8, pp=16, dp=16, zero_stage=2), 7, None),  # 96 heads on 7: uneven, and legal
        (GPT3, Plan(tp=8, pp=4, dp=1, microbatches=8), 7, "GB a GPU, a100-80gb has 80 GB"),
        (replace(GPT3, heads=4, kv_heads=4, layers=2), Plan(tp=8), 6, "4 query heads leave some of 8 GPUs"),
        (
            replace(GPT3, kv_heads=4, layers=2),
            Plan(tp=8),
            6,
            "4 KV heads cannot have equally many copies on 6",
        ),
        (replace(GPT3, layers=2), Plan(tp=8), 8, "a reduced degree lies from 1 to 7"),
        (replace(GPT3, layers=2), Plan(tp=8), 0, "a reduced degree lies from 1 to 7"),
    ],
)
def test_a_degree_is_legal_or_says_why_not(
    shape: ModelShape, plan: Plan, degree: int, words: str | None
) -> None:
    """Heads, KV heads and memory decide; what does not divide is no reason."""
    reasons = legal(shape, A100, plan, degree)
    assert (words is None) == (not reasons), reasons
    assert words is None or words in "; ".join(reasons)


def test_the_first_stage_is_fullest_and_the_limit_exact() -> None:
    """It has the most microbatches in flight; a GPU with exactly that much memory holds it."""
    plan = Plan(tp=8, pp=8, dp=16, microbatches=64)
    need = memory(GPT3, plan).total_bytes
    assert need == stage_memory(GPT3, plan, 0).total_bytes
    assert not too_large(GPT3, replace(A100, hbm_bytes=need), plan)
    assert too_large(GPT3, replace(A100, hbm_bytes=need - 1), plan)
