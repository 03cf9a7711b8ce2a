"""A scenario's pace at reduced degrees, c(t), and what the step-time model says about its degrees.

In: a scenario. Out: c(t) = time of one microbatch of one stage at degree t over that at TP (model.md
section 5), exact fractions; nothing for `ideal`, where the replay takes TP/t. A measured table gives
the ratio of its rows as they stand, the model gives it to a millionth.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from pipeline import config, units
from pipeline.config import Model, Scenario
from pipeline.errors import InputError
from pipeline.perf import presets
from pipeline.perf.calibrate import Calibration, Factors, fit
from pipeline.perf.hardware import Gpu
from pipeline.perf.memory import legal, memory, too_large
from pipeline.perf.models import ModelShape
from pipeline.perf.step_time import Iteration, Plan, iteration_time, microbatch_time

DIGITS = 6


@dataclass(frozen=True)
class Setup:
    """A scenario's model, GPU and plan, and the calibration if it has measured steps."""

    shape: ModelShape
    gpu: Gpu
    plan: Plan
    calibration: Calibration | None = None

    @property
    def factors(self) -> Factors:
        """The calibration's factors, else 1."""
        return self.calibration.factors if self.calibration else Factors()

    def microbatch_s(self, degree: int) -> float:
        """Return the time of one microbatch of one stage at a degree."""
        time = microbatch_time(self.shape, self.gpu, replace(self.plan, tp=degree))
        return self.factors.seconds(time)

    def iteration(self) -> Iteration:
        """Return the healthy iteration as modeled, not calibrated."""
        return iteration_time(self.shape, self.gpu, self.plan)

    def misfits(self, degree: int) -> tuple[str, ...]:
        """Return the reasons against a degree; at TP itself only memory counts."""
        if degree == self.plan.tp:
            return too_large(self.shape, self.gpu, self.plan)
        return legal(self.shape, self.gpu, self.plan, degree)


@dataclass(frozen=True, kw_only=True)
class Row:
    """One degree of a scenario; without a model only c(t) is known."""

    degree: int
    microbatch_s: float | None
    pace: float
    ideal: float
    memory_bytes: float | None
    reasons: tuple[str, ...]


def paces(scenario: Scenario) -> dict[int, Fraction]:
    """Return c(t) of every reduced degree that a policy allows; nothing for `ideal`.

    Raise InputError for a degree that was not measured or, with the model, that is not legal.
    """
    degrees = _reduced(scenario)
    if scenario.step_time.kind == "table":
        return _measured(scenario, degrees)
    if scenario.step_time.kind == "model":
        return _modeled(scenario, degrees)
    return {}


def setup(scenario: Scenario) -> Setup | None:
    """Return what the model needs, or None when the scenario has no [model] and no [gpu]."""
    if scenario.model == Model() and scenario.gpu == config.Gpu():
        return None
    where = scenario.path.name
    name = scenario.model.preset
    values = presets.model_values(name) if name else {}
    shape = ModelShape(**_complete(f"{where} [model]", ModelShape, {**values, **_given(scenario.model)}))
    name = scenario.gpu.preset
    values = presets.gpu_values(name) if name else {}
    values |= {**_given(scenario.gpu), "name": name or "the GPU", "domain_size": scenario.cluster.domain_size}
    gpu = Gpu(**_complete(f"{where} [gpu]", Gpu, values))
    plan = _plan(scenario)
    measured = dict(scenario.step_time.measured)
    return Setup(shape, gpu, plan, fit(shape, gpu, plan, measured) if measured else None)


def rows(scenario: Scenario) -> list[Row]:
    """Return TP and every reduced degree of a scenario with what is known of them."""
    found, tp = setup(scenario), scenario.job.tp
    known = paces(scenario) if scenario.step_time.kind == "table" else {}
    rows = []
    for degree in (tp, *_reduced(scenario)):
        seconds = found.microbatch_s(degree) if found else None
        modeled = seconds / found.microbatch_s(tp) if found and seconds else tp / degree
        rows.append(
            Row(
                degree=degree,
                microbatch_s=seconds,
                pace=float(known[degree]) if degree in known else 1.0 if degree == tp else modeled,
                ideal=tp / degree,
                memory_bytes=memory(found.shape, replace(found.plan, tp=degree)).total_bytes
                if found
                else None,
                reasons=found.misfits(degree) if found else (),
            )
        )
    return rows


def _reduced(scenario: Scenario) -> list[int]:
    return sorted({degree for policy in scenario.policies for degree in policy.reduced_tp}, reverse=True)


def _measured(scenario: Scenario, degrees: list[int]) -> dict[int, Fraction]:
    measured = {degree: units.exact(seconds) for degree, seconds in scenario.step_time.measured}
    tp = scenario.job.tp
    missing = [degree for degree in (tp, *degrees) if degree not in measured]
    if missing:
        raise InputError(
            f"{scenario.path.name} [step_time] path",
            f"no row for tp {', '.join(map(str, missing))}",
            f"a row for tp {tp} and for every degree in reduced_tp",
            "measure it, or take it out of reduced_tp",
        )
    return {degree: measured[degree] / measured[tp] for degree in degrees}


def _modeled(scenario: Scenario, degrees: list[int]) -> dict[int, Fraction]:
    found, where, tp = setup(scenario), scenario.path.name, scenario.job.tp
    if found is None:
        raise InputError(f"{where} [step_time] kind", "model without [model] and [gpu]", "both tables")
    for degree in (tp, *degrees):
        reasons = found.misfits(degree)
        if reasons:
            place = "[job] tp" if degree == tp else "[[policy]] reduced_tp"
            hint = f"`goodput perf {where}` shows every degree"
            raise InputError(
                f"{where} {place}", f"{degree}: {'; '.join(reasons)}", "a degree that is legal", hint
            )
    healthy_s = found.microbatch_s(tp)
    return {degree: units.exact(round(found.microbatch_s(degree) / healthy_s, DIGITS)) for degree in degrees}


def _plan(scenario: Scenario) -> Plan:
    job, step_time = scenario.job, scenario.step_time
    return Plan(
        tp=job.tp,
        pp=job.pp,
        cp=job.cp,
        dp=job.dp or scenario.replicas_beside(0),
        microbatches=job.samples_per_replica,
        microbatch_samples=step_time.microbatch_samples,
        virtual_stages=job.virtual_stages,
        dtype=step_time.dtype,
        recompute=step_time.recompute,
        zero_stage=step_time.zero_stage,
        tp_hidden_frac=step_time.tp_hidden_frac,
    )


def _given(table: Model | config.Gpu) -> dict[str, Any]:
    """Return the numbers that a table of the scenario sets."""
    given = dataclasses.asdict(table)
    return {key: value for key, value in given.items() if value is not None and key != "preset"}


def _complete(where: str, kind: type, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values; raise InputError when one is missing."""
    for item in dataclasses.fields(kind):
        if item.default is dataclasses.MISSING and item.name not in values:
            hint = "`goodput perf` lists the presets"
            raise InputError(f"{where} {item.name}", "missing", "a preset, or every number of it", hint)
    return values
