"""The states of a job over time as a table, saves included.

In: the engine's spans. Out: `outcome_timeline` rows, a gap-free cover of the window. Regular saves
are taken in closed form by the engine; here each becomes an interval of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.replay.engine import RUNNING, SAVING
from pipeline.replay.ledger import Span
from pipeline.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


def table(
    spans: Sequence[Span],
    scenario: str,
    policy: str,
    seed: int,
    origin_us: int,
    interval_us: int,
    save_us: int,
) -> pa.Table:
    """Return the rows of one policy and placement; `origin_us` is the window's start."""
    import numpy as np
    import pyarrow as pa

    starts, ends, owners, saving = [], [], [], []
    cycle = interval_us + save_us
    for owner, span in enumerate(spans):
        cuts = np.array([span.start, span.end], dtype=np.int64)
        if span.state == RUNNING and save_us > 0:
            begun = span.start - span.phase
            last = (span.end - begun) // cycle + 1
            first = span.phase // cycle
            cycles = begun + np.arange(first, last + 1, dtype=np.int64) * cycle
            inner = np.sort(np.concatenate([cycles, cycles + interval_us]))
            inner = inner[(inner > span.start) & (inner < span.end)]
            cuts = np.concatenate([cuts[:1], inner, cuts[1:]])
            saves = (cuts[:-1] - begun) % cycle >= interval_us
        else:
            saves = np.full(1, span.state == SAVING)
        starts.append(cuts[:-1])
        ends.append(cuts[1:])
        saving.append(saves)
        owners.append(np.full(len(cuts) - 1, owner, dtype=np.int64))
    owner_of = np.concatenate(owners)
    is_save = np.concatenate(saving)
    state = np.array([span.state for span in spans], dtype=object)[owner_of]
    state[is_save] = SAVING
    running, at_work = state == RUNNING, (state == RUNNING) | (state == SAVING)
    x = np.array([float(span.setting.x) for span in spans])[owner_of]
    replicas = np.array([span.setting.replicas for span in spans], dtype=np.int64)[owner_of]
    failed = np.array([span.failed for span in spans], dtype=np.int64)[owner_of]
    rows = len(owner_of)
    columns = {
        "scenario": pa.array([scenario], pa.string()).take(pa.array(np.zeros(rows, np.int64))),
        "policy": pa.array([policy], pa.string()).take(pa.array(np.zeros(rows, np.int64))),
        "placement_seed": np.full(rows, seed, dtype=np.int64),
        "t_start": pa.array(np.concatenate(starts) + origin_us).cast(pa.timestamp("us")),
        "t_end": pa.array(np.concatenate(ends) + origin_us).cast(pa.timestamp("us")),
        "state": pa.array(state, pa.string()),
        "relative_throughput_frac": np.where(running, x, 0.0),
        "replicas": np.where(at_work, replicas, 0),
        "failed_gpus": failed,
    }
    return pa.table(columns, schema=arrow_schema("outcome_timeline"))
