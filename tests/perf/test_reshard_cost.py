"""Bytes, messages and seconds of a reshard, and the longer iteration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.perf import presets
from pipeline.perf.hardware import Link
from pipeline.perf.models import ModelShape
from pipeline.perf.reshard_tables import FIGURE8_TP, figure8, large_job
from pipeline.perf.resharding import embedding_tensor, layer_tensors, reshard_cost, traffic, uncovered_s
from pipeline.perf.sharding import balanced, round_robin

LINK = Link(bytes_per_s=100e9, reached_frac=0.8, latency_s=5e-6)
SHAPE = ModelShape(
    layers=24,
    hidden=512,
    heads=24,
    kv_heads=24,
    head_dim=64,
    ffn_hidden=4800,
    ffn_matrices=3,
    vocab=9600,
    seq=1024,
)
TIMES = {"layers": 4, "backward_s_per_layer": 1e-3, "iteration_s": 0.1, "link": LINK, "grad_bytes": 4}

seconds = st.floats(0, 10, allow_subnormal=False)


# --- one reshard ------------------------------------------------------------------------------------------


def test_traffic_of_a_tensor():
    """12 shards of 10 bytes from 4 to 3 GPUs: the extra GPU sends 3, each core GPU gets 1."""
    moves = traffic(balanced(12, 4, 3).send, 10)
    assert moves.sent_bytes.tolist() == [0, 0, 0, 30] and moves.received_bytes.tolist() == [10, 10, 10, 0]
    assert moves.sent_messages.tolist() == [0, 0, 0, 3] and moves.received_messages.tolist() == [1, 1, 1, 0]
    assert (moves.busiest_bytes, moves.busiest_messages) == (30, 3)
    assert moves.time_s(LINK) == pytest.approx(30 / 80e9 + 3 * 5e-6)


def test_fewer_messages_take_less_time():
    """The paper's case: the same bytes a GPU in half the messages."""
    ours, public = (traffic(mapper(12_000, 32, 30).send, 48_000) for mapper in (balanced, round_robin))
    assert (ours.sent_bytes == public.sent_bytes).all()
    assert public.time_s(LINK) - ours.time_s(LINK) == pytest.approx(15 * LINK.latency_s)


# --- hiding -----------------------------------------------------------------------------------------------


@given(seconds, seconds, st.integers(1, 40))
def test_equal_steps_have_a_closed_form(computation_s, transfer_s, steps):
    """What is left of equal steps is t + (steps - 1) * max(t - c, 0)."""
    expected = transfer_s + (steps - 1) * max(transfer_s - computation_s, 0)
    assert uncovered_s([(computation_s, transfer_s)] * steps) == pytest.approx(expected, rel=1e-9, abs=1e-9)


@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=8))
def test_what_is_left_lies_between_the_last_and_all(steps):
    """The last transfer is always seen, none is seen twice: the worst backlog of any tail of the steps."""
    left = uncovered_s(steps)
    assert left >= steps[-1][1] - 1e-9
    assert left <= sum(transfer for _, transfer in steps) + 1e-9
    tails = [
        sum(transfer for _, transfer in steps[start:]) - sum(work for work, _ in steps[start + 1 :])
        for start in range(len(steps))
    ]
    assert left == pytest.approx(max(tails), abs=1e-9)


# --- a model ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kv_heads", [24, 8])
def test_a_layer_has_all_its_weights(kv_heads):
    """Where all divides, N1 comp or N2 sync shards are the layer; shares of the backward pass add up to 1."""
    shape = replace(SHAPE, kv_heads=kv_heads)
    tensors = layer_tensors(shape, 8, 4, 2)
    assert sum(tensor.comp_bytes for tensor in tensors) * 8 == shape.layer_weights * 2
    assert sum(tensor.sync_bytes for tensor in tensors) * 4 == shape.layer_weights * 2
    assert sum(tensor.there.sent_bytes.sum() for tensor in tensors) * 2 == shape.layer_weights * 2
    assert sum(tensor.backward_share for tensor in tensors) == pytest.approx(1)


def test_copied_kv_heads_come_back_only():
    """Four KV heads on 8 GPUs, then 4: queries and output move; K and V go back to extra GPUs only."""
    shape = replace(SHAPE, kv_heads=4)
    head_bytes = 64 * 512 * 2
    down, up, output, qkv = layer_tensors(shape, 8, 4, 2)
    assert qkv.there.sent_bytes.tolist() == output.there.sent_bytes.tolist() == [0] * 4 + [3 * head_bytes] * 4
    assert down.there.sent_bytes[:4].tolist() == [0] * 4  # core and extra GPUs are the same for all tensors
    assert qkv.back.sent_bytes.tolist() == [(3 + 2) * head_bytes] * 4 + [0] * 4
    assert (qkv.comp_bytes, qkv.sync_bytes) == ((3 + 2) * head_bytes, (6 + 2) * head_bytes)
    assert up.sync_bytes == 2 * down.sync_bytes


def test_parts_of_the_cost():
    """Every part from its own numbers; nothing hides when `overlap` is off."""
    tensors = layer_tensors(SHAPE, 8, 6, 4)
    layer_s = sum(tensor.there.time_s(LINK) for tensor in tensors)
    embedding_s = embedding_tensor(SHAPE, 8, 6, 4).there.time_s(LINK)
    bare = reshard_cost(SHAPE, 8, 6, **TIMES, overlap=False)
    assert (
        bare.reshard_s == bare.before_sync_s == bare.after_sync_s == pytest.approx(4 * layer_s + embedding_s)
    )
    assert bare.overhead_frac == pytest.approx(2 * bare.reshard_s / 0.1)
    slow = reshard_cost(SHAPE, 8, 6, **{**TIMES, "backward_s_per_layer": 1.0}, last_sync_s=1.0)
    qkv_s = tensors[-1].there.time_s(LINK)
    assert slow.before_sync_s == pytest.approx(embedding_s + qkv_s)  # no computation between the last two
    assert slow.after_sync_s == pytest.approx(embedding_s)
    layers_alone = reshard_cost(SHAPE, 8, 6, **{**TIMES, "backward_s_per_layer": 1.0}, embedding=False)
    assert layers_alone.before_sync_s == pytest.approx(qkv_s)
    assert layers_alone.total_bytes == pytest.approx(2 * 4 * 4 * SHAPE.layer_weights / 4)  # both ways
    assert layers_alone.busiest_bytes == pytest.approx(4 * 4 * SHAPE.layer_weights / 8)
    assert layers_alone.side_buffer_bytes == pytest.approx(4 * 4 * SHAPE.layer_weights * (1 / 6 - 1 / 8))


def test_a_larger_sync_shard_takes_longer():
    """8 to 6 GPUs: each syncs 8/6 of before; only what its window leaves uncovered counts."""

    def larger_s(sync_s: float, window_s: float) -> float:
        cost = reshard_cost(SHAPE, 8, 6, **TIMES, dp_sync_s=sync_s, dp_sync_window_s=window_s)
        return cost.larger_sync_s

    assert larger_s(0.3, 0.0) == pytest.approx(0.1)
    assert larger_s(0.3, 0.35) == pytest.approx(0.05)
    assert larger_s(0.3, 0.5) == 0


def test_the_full_degree_costs_nothing():
    """Without a reduced replica there is no reshard."""
    cost = reshard_cost(SHAPE, 8, 8, **TIMES, dp_sync_s=1.0)
    assert cost.overhead_frac == 0 and cost.total_bytes == 0


@given(st.sampled_from([7, 6, 4, 3]), st.floats(1e9, 1e12), st.floats(0, 1e-2))
def test_a_faster_network_or_a_longer_backward_pass_never_costs_more(reduced, bytes_per_s, backward_s):
    """The overhead falls with bandwidth and with what it can hide behind, and is never above the bare one."""

    def overhead(speed: float, work_s: float, *, overlap: bool = True) -> float:
        link = Link(speed, 0.8, 1e-6)
        times = {**TIMES, "link": link, "backward_s_per_layer": work_s}
        return reshard_cost(SHAPE, 8, reduced, **times, overlap=overlap).overhead_frac

    cost = overhead(bytes_per_s, backward_s)
    assert overhead(2 * bytes_per_s, backward_s) <= cost * (1 + 1e-9)
    assert overhead(bytes_per_s, 2 * backward_s) <= cost * (1 + 1e-9)
    assert cost <= overhead(bytes_per_s, backward_s, overlap=False) * (1 + 1e-9)


@pytest.mark.parametrize(
    "wrong", [{"layers": 0}, {"iteration_s": 0.0}, {"backward_s_per_layer": -1.0}, {"dp_sync_s": -1.0}]
)
def test_times_that_cannot_be_are_refused(wrong):
    """A stage without layers or a negative time is a user's mistake."""
    with pytest.raises(InputError):
        reshard_cost(SHAPE, 8, 6, **{**TIMES, **wrong})


# --- published --------------------------------------------------------------------------------------------


def test_figure8_is_linear_in_bytes_over_backward_time():
    """The slowdown of the last backward pass is a constant times the abscissa, but for latency."""
    gpu = replace(presets.gpu("a100-80gb"), nvlink_latency_s=0.0)
    slopes = [row.slowdown_frac / row.bytes_per_backward_s for row in figure8(gpu, 2)]
    assert np.ptp(slopes) < 1e-9 * slopes[0]
    assert slopes[0] == pytest.approx(
        0.25 / (gpu.nvlink_bytes_per_s * gpu.nvlink_frac)
    )  # Q, K, V: 3 of 12 parts


def test_figure8_stays_below_4_percent_with_bf16_gradients():
    """At most 4 % (published) with BF16 gradients; FP32 doubles the bytes and passes it at 4K tokens only."""
    half, whole = (figure8(presets.gpu("a100-80gb"), grad_bytes) for grad_bytes in (2, 4))
    assert max(row.slowdown_frac for row in half) < 0.04
    assert {row.seq for row in whole if row.slowdown_frac > 0.04} == {4096}


def test_figure8_falls_with_the_sequence():
    """Longer sequences compute more per byte moved (published); a larger reduction is not worse in ours.

    Down to half of TP8 the busiest port is an extra GPU's, which sends its whole shard at any degree.
    The published figure says that it is worse; what it counts as moved is not known to us.
    """
    rows = {(row.hidden, row.seq, row.reduced): row for row in figure8(presets.gpu("a100-80gb"), 2)}
    for (hidden, seq, reduced), row in rows.items():
        if seq < 16384:
            assert rows[hidden, 2 * seq, reduced].slowdown_frac < row.slowdown_frac
        assert row.busiest_bytes == 12 * hidden**2 * 2 / FIGURE8_TP


@pytest.mark.parametrize("reduced", [30, 28])
@pytest.mark.parametrize("grad_bytes", [2, 4])
def test_the_large_job_stays_below_1_percent(reduced, grad_bytes):
    """Below 1 % (public summary), with the way back in the open and an iteration of computation alone."""
    cost = large_job(presets.model("ntp-480b"), presets.gpu("ntp-b200"), reduced, grad_bytes)
    assert 0.001 < cost.overhead_frac < 0.01
    assert cost.before_sync_s < 0.05 * cost.reshard_s  # hidden but for the last tensors
