"""The step-time model fitted to a user's measured steps, by two factors that mean something.

`compute` and `collective` say how many times as long computing and TP collectives take as modeled: 1.25
for compute is GEMMs at 80 % of the efficiency in the preset; 0 for collectives is a code that hides
them. They are the non-negative least squares of the relative errors over the measured degrees,
iteration = compute * A + collective * B + rest, with A, B and rest from the model. One degree alone
tells them not apart: then `compute` is fitted and `collective` stays 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from pipeline.errors import InputError
from pipeline.perf.hardware import Gpu
from pipeline.perf.models import ModelShape
from pipeline.perf.step_time import Plan, Time, iteration_time, pipeline_time


@dataclass(frozen=True)
class Factors:
    """How many times as long as modeled: computing, and TP collectives."""

    compute: float = 1.0
    collective: float = 1.0

    def seconds(self, time: Time) -> float:
        """Return a modeled time with the factors."""
        return self.compute * time.compute_s + self.collective * time.collective_s + time.network_s


@dataclass(frozen=True)
class Row:
    """One measured degree: seconds of a step as measured, as modeled, and with the factors."""

    degree: int
    measured_s: float
    modeled_s: float
    calibrated_s: float

    @property
    def error_frac(self) -> float:
        """Error that is left, relative to the measured step."""
        return self.calibrated_s / self.measured_s - 1


@dataclass(frozen=True)
class Calibration:
    """The factors and what they leave, a row a degree."""

    factors: Factors
    rows: tuple[Row, ...]


def fit(shape: ModelShape, gpu: Gpu, plan: Plan, measured: Mapping[int, float]) -> Calibration:
    """Return the factors that meet the measured steps best, and the rows.

    `measured` has the seconds of a step at each TP degree, all else as in the plan. Raise InputError when no
    positive factor of computing fits: steps shorter than what the network alone takes, or not longer at a
    smaller degree.
    """
    times = {degree: _step(shape, gpu, replace(plan, tp=degree)) for degree in measured}
    factors = _least_squares([(times[degree], seconds) for degree, seconds in measured.items()])
    rows = (
        Row(degree, seconds, times[degree].total_s, factors.seconds(times[degree]))
        for degree, seconds in measured.items()
    )
    return Calibration(factors, tuple(rows))


def _step(shape: ModelShape, gpu: Gpu, plan: Plan) -> Time:
    """Return a whole iteration by what it is spent on; gradient sync is network, the optimizer computes."""
    work, bubble, _ = pipeline_time(shape, gpu, plan)
    iteration = iteration_time(shape, gpu, plan)
    return work + bubble + Time(iteration.optimizer_s, 0.0, iteration.gradients_s)


def _least_squares(pairs: list[tuple[Time, float]]) -> Factors:
    """Minimize the sum of (compute * a + collective * b - y)^2, all relative to the measured seconds."""
    rows = [
        (time.compute_s / seconds, time.collective_s / seconds, 1 - time.network_s / seconds)
        for time, seconds in pairs
    ]
    aa, ab, bb = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    ay, by = (sum(row[i] * row[2] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab * ab
    if determinant <= 1e-9 * aa * bb:  # one degree, or no collectives: only their sum is known
        return _positive((ay - ab) / aa, 1.0)
    compute, collective = (ay * bb - by * ab) / determinant, (aa * by - ab * ay) / determinant
    return _positive(ay / aa, 0.0) if collective < 0 else _positive(compute, collective)


def _positive(compute: float, collective: float) -> Factors:
    if compute <= 0:
        raise InputError(
            "[step_time] path",
            "steps that this model, GPU and job cannot explain: no time is left for computing",
            "seconds of a whole step, which get longer as tp gets smaller",
            "check [model], [gpu] and [job], or use kind = table",
        )
    return Factors(compute, collective)
