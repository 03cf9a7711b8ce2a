"""The step-time model against published runs: a bound everywhere, and how far it is from each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from pipeline.perf import presets
from pipeline.perf.calibrate import _step, fit
from pipeline.perf.published import _MEGATRON, TABLE_5, Check, best_plan, checks

GPU = presets.gpu("a100-80gb")
ROWS = checks()
A100 = [row for row in ROWS if "A100" in row.name]
H100 = [row for row in ROWS if "H100" in row.name]


def test_every_row_is_there() -> None:
    """Ten models of weak scaling, six runs of strong scaling, eight of recomputation, Llama 3, figure 2a."""
    assert Counter(row.source for row in ROWS) == {
        "arXiv 2104.04473, table 1": 10,
        "arXiv 2104.04473, table 2": 6,
        "arXiv 2205.05198, table 5": 8,
        "arXiv 2407.21783, table 4": 6,
        "arXiv 2504.06095, figure 2a (second hand)": 3,
    }
    assert all(row.low <= row.high and row.note for row in ROWS)


@pytest.mark.parametrize("row", [*A100, *H100], ids=lambda row: f"{row.name}, {row.unit}")
def test_the_model_is_a_bound(row: Check) -> None:
    """No published run is faster than ours: what the model leaves out only makes steps longer."""
    if row.unit.startswith("s "):
        assert row.low <= row.published
    else:
        assert row.high >= row.published


def test_the_distance_on_one_machine_is_a_like_factor() -> None:
    """On A100 ours is 3 to 24 % faster than 24 published runs from 1.7 billion to a trillion weights."""
    faster = [row.published / row.low if row.unit.startswith("s ") else 1 + row.error_frac for row in A100]
    assert 1.03 < min(faster) < max(faster) < 1.25


def test_a_trillion_weights() -> None:
    """The row that the model is known by: 163 TFLOP/s a GPU published, ours 194 to 203."""
    (row,) = [row for row in ROWS if row.name == "GPT 1008B, 3,072 A100"]
    assert (row.published, round(row.low), round(row.high)) == (163, 194, 203)


def test_larger_domains_help_at_32k_gpus_and_hardly_at_8k() -> None:
    """Figure 2a: 19 points between NVL32 and NVL8 at 32K GPUs lie within ours, and little at 8K."""
    (gap,) = [row for row in ROWS if "less" in row.name]
    assert gap.low < gap.published < gap.high
    at_8k = [best_plan(size, 8_192)[1].computing_frac for size in (32, 8)]
    assert abs(at_8k[0] - at_8k[1]) < 0.01


def test_one_factor_from_one_run_carries_over() -> None:
    """The factor of computing fitted on the 175B run predicts seven runs of 22B to 1T within 9 %.

    All else, from collectives to the bubble, is as modeled; none of the seven was used.
    """
    fitted = None
    errors = []
    for name, pp, virtual_stages, batch, each, full_s, selective_s in sorted(
        TABLE_5, key=lambda run: run[0] != "gpt3-175b"
    ):
        shape = presets.model(name)
        plan = replace(
            _MEGATRON,
            pp=pp,
            microbatches=batch // each,
            microbatch_samples=each,
            virtual_stages=virtual_stages,
        )
        selective = replace(plan, recompute="selective", sequence_parallel=True)
        for one, measured_s in ((plan, full_s), (selective, selective_s)):
            if fitted is None:
                fitted = fit(shape, GPU, one, {8: measured_s}).factors
            else:
                errors.append(fitted.seconds(_step(shape, GPU, one)) / measured_s - 1)
    assert len(errors) == 7
    assert max(map(abs, errors)) < 0.09
