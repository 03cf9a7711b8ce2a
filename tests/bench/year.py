"""A year of the Llama-3 failure rate on NVL32 domains, and both replays of it."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Any

from pipeline import units
from pipeline.config import Policy, Scenario, parse
from pipeline.lake.store import Lake
from pipeline.replay import responses
from pipeline.replay import run as replays
from pipeline.replay.study import Failures, Study
from pipeline.synth import run as synth
from pipeline.timelines import run as timelines
from tests.bench.obvious import Obvious


def scenario(days: int, nodes: int, spares: int) -> Scenario:
    """Return the scenario: TP32 x PP8 on NVL32, Young's rule; `spares` for rigid only."""
    reduced = {"reduced_tp": [30, 28]}
    document: dict[str, Any] = {
        "trace": {"preset": "llama3", "days": days, "start": "steady"},
        "cluster": {"nodes": nodes, "domain_size": 32},
        "job": {"tp": 32, "pp": 8},
        "policy": [
            {"name": "rigid", "response": "rigid", "spare_domains": spares},
            {"name": "dp-drop", "response": "dp-drop", "batch": "elastic"},
            {"name": "ntp", "response": "ntp", "batch": "elastic", **reduced},
            {"name": "ntp-pw", "response": "ntp-pw", "batch": "elastic", **reduced},
        ],
    }
    return parse(document, name="bench", path=Path("bench.toml"))


def failures(mine: Scenario, root: Path) -> Failures:
    """Draw the failures and lay them onto domains, through the real stages."""
    lake = Lake(root)
    events, _ = synth.stage(lake, mine, lambda _: None)
    record, _ = timelines.stage(lake, mine, [events], lambda _: None)
    return replays.load(lake, mine, record)


@dataclass(frozen=True)
class Timed:
    """What a replay gave, and how long it took (seconds)."""

    buckets: dict[str, Fraction]
    interruptions: int
    wall_s: float
    steps: int


def by_engine(mine: Scenario, policy: Policy, trouble: Failures, repeats: int = 3) -> Timed:
    """Replay with the engine, each time without anything remembered; the fastest of some repeats."""
    took = []
    for _ in range(repeats):
        study = Study(mine)
        began = perf_counter()
        ledger, _ = study.replay(policy, trouble, 0)
        took.append(perf_counter() - began)
    steps = len(trouble.histories[0].instants)
    return Timed(ledger.buckets, ledger.interruptions, min(took), steps)


def by_obvious(mine: Scenario, policy: Policy, trouble: Failures) -> Timed:
    """Replay with the obvious loop."""
    study = Study(mine)
    _, times = study.replay(policy, trouble, 0)
    module = responses.load(policy.response)
    capability = study._new_capability(policy.response, policy.reduced_tp)
    loop = Obvious(
        trouble.histories[0], study.shape, capability, module, study.batch_of(policy), study.dp_of(policy),
        units.exact(policy.reshard_overhead_frac), times,
    )  # fmt: skip
    began = perf_counter()
    buckets = loop.run()
    return Timed(buckets, loop.interruptions, perf_counter() - began, loop.steps)
