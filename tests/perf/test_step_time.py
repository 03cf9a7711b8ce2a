"""Step time against what it must be: rooflines, the pipeline's closed form, uneven shards."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.perf import presets
from pipeline.perf.hardware import Gpu, Link
from pipeline.perf.kernels import fused_attention_s, gemm_s, memory_s
from pipeline.perf.step_time import (
    Plan,
    hardware_flop_per_s,
    iteration_time,
    layer_time,
    microbatch_time,
    model_flop_per_s,
    output_time,
    stage_layers,
)

A100 = presets.gpu("a100-80gb")
B200 = presets.gpu("ntp-b200")
GPT3 = presets.model("gpt3-175b")
NTP = presets.model("ntp-480b")
PERFECT = replace(  # nothing but FLOP: no links, no memory, no quantization
    A100,
    processors=1,
    gemm_bf16_frac=1.0,
    attention_frac=1.0,
    hbm_bytes_per_s=1e30,
    nvlink_bytes_per_s=1e30,
    nvlink_latency_s=0.0,
    nic_bytes_per_s=1e30,
    nic_latency_s=0.0,
)
FASTER = (
    "bf16_flop_per_s", "gemm_bf16_frac", "attention_frac", "hbm_bytes_per_s", "hbm_frac",
    "nvlink_bytes_per_s", "nvlink_frac", "nic_bytes_per_s", "nic_frac",
)  # fmt: skip


# -- kernels -------------------------------------------------------------------------------------


def test_gemm_costs_whole_tiles_and_waves() -> None:
    """1 to 108 tiles take one wave on 108 processors, one more takes two; the last column starts a tile."""
    one_s = 2 * 256 * 128 * 4096 * 108 / A100.gemm_flop_per_s("bf16")
    assert gemm_s(A100, "bf16", 256 * 12, 128 * 9, 4096) == pytest.approx(one_s)
    assert gemm_s(A100, "bf16", 256 * 12, 128 * 9 + 1, 4096) > 1.3 * one_s


def test_gemm_is_never_faster_than_memory() -> None:
    """A product with a short inner dimension is bound by reading and writing it."""
    m = n = 8192
    k = 16
    assert gemm_s(A100, "bf16", m, n, k) == memory_s(A100, 2 * (m * k + k * n + m * n))


@given(m=st.integers(1, 5000), n=st.integers(1, 5000), k=st.integers(1, 5000))
def test_gemm_is_never_faster_than_the_peak(m: int, n: int, k: int) -> None:
    """No product beats the data sheet."""
    assert gemm_s(A100, "bf16", m, n, k) >= 2 * m * n * k / A100.bf16_flop_per_s


def test_a_ring_moves_its_share_of_the_bytes() -> None:
    """(n-1)/n of the bytes pass a link, in n-1 messages; alone there is nothing to move."""
    link = Link(100e9, 0.5, 1e-6)
    assert link.ring_s(1, 1e9) == 0
    assert link.ring_s(4, 1e9) == pytest.approx(0.75 * 1e9 / 50e9 + 3e-6)


def test_causal_attention_does_half() -> None:
    """The fused kernel computes the lower half of the matrix."""
    flop = 4 * 2048 * 2048 * 12 * 128 / 2
    assert fused_attention_s(PERFECT, 2048, 2048, 12, 128) == pytest.approx(flop / PERFECT.bf16_flop_per_s)


# -- layers and stages ---------------------------------------------------------------------------


def test_a_perfect_machine_takes_flop_over_peak() -> None:
    """Without memory, links and quantization a layer takes its FLOP at the peak, and the MFU is nearly 1.

    Attention is the exception: causal, and the fused backward pass does five products for two.
    """
    plan = Plan(tp=8, sequence_parallel=True)
    forward, backward = layer_time(GPT3, PERFECT, plan)
    core = 4 * GPT3.seq**2 * GPT3.hidden / 2
    weights = 2 * GPT3.seq * GPT3.layer_weights
    peak = PERFECT.bf16_flop_per_s * 8
    assert forward.total_s == pytest.approx((weights + core) / peak, rel=1e-6)
    assert backward.total_s == pytest.approx((2 * weights + 2.5 * core) / peak, rel=1e-6)


def test_uneven_heads_cost_whole_heads() -> None:
    """128 heads on 30 GPUs make 5 on some: attention takes 1.25 times as long as on 32, not 1.067 times."""
    core_s = [
        fused_attention_s(B200, NTP.seq, NTP.seq, NTP.widest(tp).heads, NTP.head_dim)
        for tp in (32, 30, 28, 26)
    ]
    assert [time_s / core_s[0] for time_s in core_s] == pytest.approx([1, 1.25, 1.25, 1.25])
    assert NTP.widest(25).heads == 6


def test_a_degree_that_divides_is_near_ideal_on_a_perfect_machine() -> None:
    """Halving TP doubles the time; a degree that does not divide costs more than TP/t."""

    def time_s(tp: int) -> float:
        return microbatch_time(NTP, PERFECT, Plan(tp=tp)).total_s

    assert time_s(16) / time_s(32) == pytest.approx(2, rel=1e-3)
    assert time_s(30) / time_s(32) > 32 / 30


def test_collectives_do_not_shrink_with_the_group() -> None:
    """A ring's bytes hardly depend on its size, so c(t) rises less than TP/t where collectives are long."""
    slow = replace(B200, nvlink_bytes_per_s=B200.nvlink_bytes_per_s / 20)
    fast_c, slow_c = (
        microbatch_time(NTP, gpu, Plan(tp=16)).total_s / microbatch_time(NTP, gpu, Plan(tp=32)).total_s
        for gpu in (B200, slow)
    )
    assert 1 < slow_c < fast_c < 2


def test_hidden_collectives_cost_nothing() -> None:
    """With all of them hidden the time is computing alone."""
    shown, hidden = (microbatch_time(NTP, B200, Plan(tp=32, tp_hidden_frac=frac)) for frac in (0.0, 1.0))
    assert hidden.collective_s == 0 < shown.collective_s
    assert hidden.compute_s == shown.compute_s


@pytest.mark.parametrize(
    ("layers", "pp", "wanted"),
    [
        (126, 16, (7, *[8] * 14, 7)),  # Llama 3 405B
        (105, 35, (3,) * 35),
        (100, 8, (12, 13, 13, 13, 13, 12, 12, 12)),
        (5, 2, (3, 2)),
        (7, 1, (7,)),
    ],
)
def test_layers_of_stages(layers: int, pp: int, wanted: tuple[int, ...]) -> None:
    """Every layer is on a stage; first and last are the first to have one less."""
    assert sum(stage_layers(layers, pp)) == layers
    assert stage_layers(layers, pp) == wanted


def test_more_stages_than_layers_are_refused() -> None:
    """A stage without a layer is no stage."""
    with pytest.raises(InputError, match="at most one stage a layer"):
        stage_layers(4, 5)


# -- iterations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("pp", "m", "v"), [(8, 16, 1), (8, 16, 3), (4, 2, 2), (1, 5, 1)])
def test_the_pipeline_is_the_closed_form(pp: int, m: int, v: int) -> None:
    """Stages of c and a last one of c + o take m * (c + o) + (p-1) * c / v: the (p-1)/(vm) bubble."""
    plan = Plan(tp=8, pp=pp, microbatches=m, virtual_stages=v)
    one_s = microbatch_time(GPT3, A100, plan).total_s
    output_s = sum(time.total_s for time in output_time(GPT3, A100, plan))
    found = iteration_time(GPT3, A100, plan)
    pipeline_s = found.total_s - found.gradients_s - found.optimizer_s
    assert pipeline_s == pytest.approx(m * (one_s + output_s) + (pp - 1) / v * one_s)
    assert found.bubble_s == pytest.approx((pp - 1) / v * one_s)


def test_utilization_counts_what_it_says() -> None:
    """MFU leaves out what is computed again, HFU does not; both fall when the step gets longer."""
    plan = Plan(tp=8, pp=8, microbatches=64, recompute="full")
    time_s = iteration_time(GPT3, A100, plan).total_s
    model, hardware = model_flop_per_s(GPT3, plan, time_s), hardware_flop_per_s(GPT3, plan, time_s)
    assert model < hardware < A100.bf16_flop_per_s
    assert hardware / model == pytest.approx(96 / 72, rel=0.02)
    assert model_flop_per_s(GPT3, plan, 2 * time_s) == pytest.approx(model / 2)
    assert plan.gpus == 64
    assert plan.samples == 64


def test_gradient_sync_hides_behind_the_last_backward_pass() -> None:
    """Overlap never makes it longer; what is left is what the backward pass does not cover."""
    plan = Plan(tp=8, pp=8, dp=64, microbatches=8, overlap_gradients=False)
    shown = iteration_time(GPT3, A100, plan)
    hidden = iteration_time(GPT3, A100, replace(plan, overlap_gradients=True))
    assert 0 <= hidden.gradients_s < shown.gradients_s
    assert iteration_time(GPT3, A100, replace(plan, dp=1)).gradients_s == 0


@given(
    faster=st.sampled_from(FASTER),
    factor=st.floats(1.0, 4.0),
    tp=st.sampled_from([4, 7, 8]),
    recompute=st.sampled_from(["none", "selective", "full"]),
    attention=st.sampled_from(["fused", "unfused"]),
)
def test_a_faster_machine_is_never_slower(
    faster: str, factor: float, tp: int, recompute: str, attention: str
) -> None:
    """More of any of its speeds makes no iteration longer, but that computing hides the gradient sync.

    Total time with overlap may shift by what is hidden no longer, so the sync is shown here.
    """
    plan = Plan(
        tp=tp,
        pp=8,
        cp=2,
        dp=4,
        microbatches=8,
        recompute=recompute,
        attention=attention,
        overlap_gradients=False,
    )
    better: Gpu = replace(A100, **{faster: getattr(A100, faster) * factor})
    assert iteration_time(GPT3, better, plan).total_s <= iteration_time(GPT3, A100, plan).total_s * (
        1 + 1e-12
    )


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tp": 0}, "at least 1"),
        ({"dtype": "fp4"}, "one of bf16, fp8"),
        ({"recompute": "some"}, "one of none, selective, full"),
        ({"zero_stage": 3}, "one of 0, 1, 2"),
        ({"tp_hidden_frac": 1.5}, "from 0 to 1"),
    ],
)
def test_a_plan_that_is_none_is_refused(wrong: dict[str, object], words: str) -> None:
    """A plan holds values that the model knows."""
    with pytest.raises(InputError) as raised:
        replace(Plan(tp=8), **wrong)
    assert words in str(raised.value)
