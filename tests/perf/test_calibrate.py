"""Calibration: factors that were planted are found, and what cannot be fitted is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.perf import presets
from pipeline.perf.calibrate import Factors, _step, fit
from pipeline.perf.step_time import Plan, iteration_time

SHAPE, GPU = presets.model("gpt3-175b"), presets.gpu("a100-80gb")
PLAN = Plan(tp=8, pp=8, dp=4, microbatches=16, overlap_pipeline=False)
DEGREES = (8, 7, 6, 4)


def planted(factors: Factors, degrees: tuple[int, ...] = DEGREES) -> dict[int, float]:
    """Return what a machine with these factors would measure."""
    return {degree: factors.seconds(_step(SHAPE, GPU, replace(PLAN, tp=degree))) for degree in degrees}


@given(compute=st.floats(0.5, 3), collective=st.floats(0, 5))
def test_planted_factors_are_found(compute: float, collective: float) -> None:
    """Steps made with two factors give them back, and no error is left."""
    found = fit(SHAPE, GPU, PLAN, planted(Factors(compute, collective)))
    assert found.factors.compute == pytest.approx(compute, rel=1e-6)
    assert found.factors.collective == pytest.approx(collective, rel=1e-5, abs=1e-5)
    assert all(abs(row.error_frac) < 1e-9 for row in found.rows)


def test_a_step_is_the_iteration() -> None:
    """Factors of 1 are the model itself."""
    for degree in DEGREES:
        plan = replace(PLAN, tp=degree)
        assert Factors().seconds(_step(SHAPE, GPU, plan)) == pytest.approx(
            iteration_time(SHAPE, GPU, plan).total_s
        )


def test_one_degree_fits_computing_alone() -> None:
    """One row cannot tell computing from collectives: the latter stay as modeled."""
    measured = planted(Factors(1.4, 1.0), (8,))
    assert fit(SHAPE, GPU, PLAN, measured).factors == Factors(pytest.approx(1.4), 1.0)


def test_a_factor_below_zero_is_zero() -> None:
    """Steps that scale better than computing alone hide all collectives; the rest is fitted without them."""
    measured = planted(Factors(1.2, 0.0))
    measured[4] *= 1.1
    found = fit(SHAPE, GPU, PLAN, measured)
    assert found.factors.collective == 0
    assert any(row.error_frac != 0 for row in found.rows)


def test_the_rows_show_ours_against_measured() -> None:
    """Noise is left as errors, smaller than those of the model as it stands."""
    noise = dict(zip(DEGREES, (1.02, 0.99, 1.0, 1.01), strict=True))
    measured = {degree: time_s * noise[degree] for degree, time_s in planted(Factors(1.3, 2.0)).items()}
    rows = fit(SHAPE, GPU, PLAN, measured).rows
    assert [row.degree for row in rows] == list(DEGREES)
    assert all(abs(row.error_frac) < abs(row.modeled_s / row.measured_s - 1) for row in rows)
    assert max(abs(row.error_frac) for row in rows) < 0.02


@pytest.mark.parametrize("measured", [{8: 1e-6, 4: 1e-6}, {8: 20.0, 4: 2.0}], ids=["short", "falling"])
def test_steps_that_computing_cannot_explain_are_refused(measured: dict[int, float]) -> None:
    """Microseconds where the network takes more, or a smaller group that is faster: no steps of this job."""
    with pytest.raises(InputError, match="no time is left for computing"):
        fit(SHAPE, GPU, PLAN, measured)
