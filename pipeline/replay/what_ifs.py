"""What-ifs that change the job and not the failures: what a stop costs, how often it saves, its shape, power.

In: a scenario, a policy and the interval it saves at. Out: the same with one value changed, or None where
that value means nothing. What changes the failures (repair times, what never fails) is made by the timelines
stage; both kinds end up in the table `what_ifs`, and 4_outcomes/tornado.sql pairs them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from pipeline.config import Policy, Scenario
from pipeline.replay import responses


class Variation(NamedTuple):
    """One changed value: of the scenario as a whole, or of a policy that saves every `interval_s` seconds."""

    meaning: str
    scenario: Callable[[Scenario], Scenario | None] = lambda scenario: scenario
    policy: Callable[[Policy, float], Policy | None] = lambda policy, _: policy


def _restart(factor: float, policy: Policy, _: float) -> Policy | None:
    restart_s = policy.costs.restart_s
    return replace(policy, costs=replace(policy.costs, restart_s=restart_s * factor)) if restart_s else None


def _interval(factor: float, policy: Policy, interval_s: float) -> Policy:
    return replace(policy, costs=replace(policy.costs, checkpoint_interval_s=interval_s * factor))


def _samples(factor: float, scenario: Scenario) -> Scenario | None:
    samples = scenario.job.samples_per_replica
    changed = max(1, int(samples * factor))
    if changed == samples:
        return None
    return replace(scenario, job=replace(scenario.job, samples_per_replica=changed))


def _boost(speed: Callable[[float, float], float], scenario: Scenario) -> Scenario:
    power = scenario.power
    curve = tuple((drawn, speed(drawn, pace)) for drawn, pace in power.curve)
    return replace(scenario, power=replace(power, curve=curve))


def _boosted(policy: Policy, _: float) -> Policy | None:
    return policy if responses.load(policy.response).USES_POWER else None


VARIATIONS = {
    "half_restart": Variation("starts take half the time", policy=partial(_restart, 0.5)),
    "double_restart": Variation("starts take twice the time", policy=partial(_restart, 2)),
    "half_interval": Variation("saves come twice as often", policy=partial(_interval, 0.5)),
    "double_interval": Variation("saves come half as often", policy=partial(_interval, 2)),
    "half_samples": Variation("half the samples a replica", partial(_samples, 0.5)),
    "double_samples": Variation("twice the samples a replica", partial(_samples, 2)),
    "half_boost": Variation(
        "a boost brings half the speed", partial(_boost, lambda _, pace: 1 + (pace - 1) / 2), _boosted
    ),
    "full_boost": Variation(
        "speed grows as much as power", partial(_boost, lambda drawn, _: drawn), _boosted
    ),
}
