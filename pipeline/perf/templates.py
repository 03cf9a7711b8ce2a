"""Pipelines of fewer stages: which of them hold the model, and the pace of their stages.

In: a scenario and a policy's `templates_pp`. Out: stages -> time of one microbatch of one such stage over
that of a healthy stage, exact fractions. Without `[step_time] kind = "model"` that is p/p', which flatters
where layers do not divide; with it, the stage with the most layers sets the pace, to a millionth.
A template is legal when every stage has a layer and the fullest one fits into a GPU's memory (memory.py);
without [model] and [gpu] nothing is known of memory, so the policy has to name its templates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from pipeline import units
from pipeline.config import Policy, Scenario
from pipeline.errors import InputError
from pipeline.perf import pace
from pipeline.perf.memory import too_large
from pipeline.perf.step_time import microbatch_time


def by_policy(scenario: Scenario) -> dict[tuple[int, ...], Mapping[int, Fraction]]:
    """Return the templates of every policy, by its `templates_pp`."""
    return {
        stages: {one: _pace(scenario, one) for one in stages or _all_that_hold(scenario)}
        for stages in {policy.templates_pp for policy in scenario.policies}
    }


def check(place: str, scenario: Scenario, policy: Policy) -> None:
    """Raise InputError when a policy that needs templates has none, or names one that does not hold."""
    hint = f"e.g. templates_pp = {list(range(scenario.job.pp - 1, scenario.job.pp // 2, -1)) or [1]}"
    if scenario.job.pp == 1:
        expected = "a job with pp above 1: a pipeline of one stage cannot lose one"
        raise InputError(f"{place} response", f"{policy.response!r} with pp = 1", expected)
    if not policy.templates_pp and pace.setup(scenario) is None:
        expected = f"the stages a replica may run with, below {scenario.job.pp}"
        raise InputError(f"{place} templates_pp", f"missing with response {policy.response}", expected, hint)
    if not policy.templates_pp and not _all_that_hold(scenario):
        raise InputError(
            f"{place} response", f"no pipeline of fewer than {scenario.job.pp} stages holds the model", "one"
        )
    for stages in policy.templates_pp:
        reasons = _misfits(scenario, stages)
        if reasons:
            raise InputError(
                f"{place} templates_pp", f"{stages}: {'; '.join(reasons)}", "stages that hold the model"
            )


def _all_that_hold(scenario: Scenario) -> tuple[int, ...]:
    if pace.setup(scenario) is None:
        return ()
    return tuple(stages for stages in range(scenario.job.pp - 1, 0, -1) if not _misfits(scenario, stages))


def _misfits(scenario: Scenario, stages: int) -> tuple[str, ...]:
    """Return the reasons against a number of stages; none where no model is given."""
    found = pace.setup(scenario)
    if found is None:
        return ()
    if stages > found.shape.layers:
        return (f"{found.shape.layers} layers",)
    return too_large(found.shape, found.gpu, replace(found.plan, pp=stages))


def _pace(scenario: Scenario, stages: int) -> Fraction:
    found, healthy = pace.setup(scenario), scenario.job.pp
    if found is None or scenario.step_time.kind != "model":
        return Fraction(healthy, stages)
    seconds, healthy_s = (
        found.factors.seconds(microbatch_time(found.shape, found.gpu, replace(found.plan, pp=count)))
        for count in (stages, healthy)
    )
    return units.exact(round(seconds / healthy_s, pace.DIGITS))
