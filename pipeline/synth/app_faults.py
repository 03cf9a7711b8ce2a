"""Assumed app-level faults: crashes and hangs that stop a job and take no GPU away.

In: a rate per 1,000 node-days, the number of nodes, the window, a seed. Out: instants in whole microseconds
from the window's start, sorted; and the table that queries/2_timelines/outages.sql reads. A log of hardware
faults holds no such faults, so their rate is an assumption of the scenario and every row is marked so.
A Poisson process: gaps of mean 1 are drawn and stretched by the rate. So the n-th fault of a seed is the same
one in a longer window, and comes twice as early at twice the rate: rates are compared on the same luck.
Easy to get wrong: nodes are those of the pool. Such a fault belongs to no node and stops the job as a whole,
so all that matters about the nodes is how many the job was given; unplaced ones run no part of it.
Source: model.md section 2, rule 6.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipeline.config import ASSUMED_COMPONENT, ASSUMED_REASON, Scenario
from pipeline.errors import InputError
from pipeline.synth.distributions import stream
from pipeline.synth.draw import MAX_EVENTS
from pipeline.units import US_PER_D, to_us

if TYPE_CHECKING:
    import pyarrow as pa

_APP_FAULTS = 200  # purpose of the stream, apart from those of draw.py and bootstrap.py: never renumber
_CHUNK = 1_024


def instants_us(per_1000_node_d: float, nodes: int, window_us: int, seed: int) -> Any:
    """Return the instants of the faults in `[0, window_us)`, microseconds from the window's start."""
    import numpy as np

    mean = per_1000_node_d / 1_000 * nodes * window_us / US_PER_D
    if mean > MAX_EVENTS:
        raise InputError(
            "[trace] app_faults_per_1000_node_d",
            f"about {mean:.3g} faults in the window",
            f"at most {MAX_EVENTS}",
            "a lower rate, or a shorter window",
        )
    found = [np.empty(0, dtype=np.int64)]
    if mean > 0:
        gap_us = 1_000 * US_PER_D / (per_1000_node_d * nodes)
        random, reached_us = stream(seed, _APP_FAULTS), 0.0
        while reached_us < window_us:
            arrivals_us = reached_us + np.cumsum(random.standard_exponential(_CHUNK)) * gap_us
            reached_us = float(arrivals_us[-1])
            found.append(np.floor(arrivals_us[arrivals_us < window_us]).astype(np.int64))
    return np.concatenate(found)


def nodes_of_pool(scenario: Scenario) -> int:
    """Return the nodes whose GPUs make up the pool."""
    return scenario.cluster.pool_gpus // scenario.cluster.gpus_per_node


def rate(scenario: Scenario) -> dict[str, Any]:
    """Return the assumed rate as the synthetic traces state theirs: per GPU and day."""
    per_gpu_d = scenario.trace.assumed_per_1000_node_d / 1_000 / scenario.cluster.gpus_per_node
    return {"component": ASSUMED_COMPONENT, "reason": ASSUMED_REASON, "per_gpu_d": per_gpu_d}


def table(scenario: Scenario, start: datetime, window_us: int, redraw: int = 0) -> pa.Table:
    """Return the faults of a scenario's window as `assumed_faults(outage_id, t_start, component, reason)`.

    The n-th redraw is from the seed that draws the n-th redraw of a synthetic trace.
    """
    import pyarrow as pa

    trace = scenario.trace
    seed = trace.redraw_seed(redraw)
    found = instants_us(trace.assumed_per_1000_node_d, nodes_of_pool(scenario), window_us, seed)
    return pa.table(
        {
            "outage_id": pa.array([f"assumed-app-{n:08}" for n in range(1, len(found) + 1)], pa.string()),
            "t_start": pa.array(found + to_us(start), pa.timestamp("us")),
            "component": pa.array([ASSUMED_COMPONENT] * len(found), pa.string()),
            "reason": pa.array([ASSUMED_REASON] * len(found), pa.string()),
        }
    )
