"""Cases of `cases.py` as logs: rows of node and GPU faults, laid onto domains, through the SQL timelines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from pipeline.replay import history
from pipeline.replay.engine import History
from pipeline.units import US_PER_S
from tests import reference_simulator as reference
from tests.replay import cases
from tests.timelines import lab


@dataclass(frozen=True)
class Logged:
    """A case whose outages went through the SQL timelines: its log, its nodes and its placement."""

    case: cases.Case
    faults: tuple[lab.Fault, ...]
    placed: pl.DataFrame
    seed: int


def make_logged(choose: cases.Choices, *, harder: bool = False) -> list[Logged]:
    """Return a case per placement seed, the same log laid onto domains by each."""
    cluster, job, power, policy, window = cases.make_job(choose)
    if harder:
        policy = replace(policy, **cases.drawn_rules(choose))
    size = cluster.domain_size
    parts = [2 * size] * (cluster.domains % 2 == 0)  # a domain may be half a node
    per_node = choose.one([n for n in range(1, size + 1) if size % n == 0] + parts)
    together = max(1, size // per_node)
    # The last nodes may fill no domain, and the listed order is not that of names.
    nodes = cluster.domains * size // per_node + choose.between(0, together - 1)
    names = [f"node-{(7 * index + 3) % 101:03}" for index in range(nodes)]
    seeds = choose.one(((0,), (3, 8)))
    way = "random" if len(seeds) > 1 else "listed"
    machines = lab.cluster(nodes, per_node, size, placement=way, placement_seeds=seeds)
    placed = lab.placements(names, machines)
    clock = cases.Clock(choose, policy, window)
    faults = []
    for _ in range(choose.one((9, 6, 12, 3, 1, 0))):
        gpu = choose.one((None, choose.between(0, per_node - 1)))
        start, end = clock.interval()
        severity = choose.one(("down", "down", "down", "down", "app", "degraded", "info"))
        name = choose.one((names[0], names[-1], choose.one(names)))
        what = cases.component(choose, harder)
        faults.append(lab.Fault(name, gpu, start, choose.one((end, end, end, None)), severity, what))
        if echo := clock.echo(start, end):
            what = cases.component(choose, harder)
            faults.append(lab.Fault(name, choose.one((gpu, None)), *echo, component=what))
    apps = [fault for fault in faults if fault.severity == "app"]
    logged = []
    for seed in seeds:
        outages = tuple(
            reference.Outage(*place, fault.component)
            for fault in faults
            for place in lab.places([fault], placed, seed, window)
        )
        starts, components = tuple(app.start_s for app in apps), tuple(app.component for app in apps)
        case = cases.Case(cluster, job, power, policy, outages, starts, window, components)
        logged.append(Logged(case, tuple(faults), placed, seed))
    return logged


def sql_history(logged: Logged, con: Any) -> History:
    """Return the history of a logged case from the SQL tables of a connection."""
    mine = pl.col("placement_seed") == logged.seed
    return history.build(
        lab.stored(con, "gpu_downtime").filter(mine),
        lab.stored(con, "onsets").filter(mine),
        domains=logged.case.cluster.domains,
        window_start_us=lab.to_us(lab.START),
        window_us=logged.case.window * US_PER_S,
    )
