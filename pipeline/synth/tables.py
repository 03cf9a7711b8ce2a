"""Drawn failures -> the tables `events`, `rejects` (empty) and `files` (one row), as a log would have them.

In: arrays `start_us`, `end_us` (microseconds from time 0), `node`, `gpu` (-1: the whole node) and `kind`,
and what each kind is. Out: Arrow tables of schema.py, every row of kind interval, times from
contract.DAY_0. Easy to get wrong: the same parameters must give the same bytes, so no clock is read and an
event's id is the hash of the parameters with the row's number: they decide every row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.schema import arrow_schema
from pipeline.synth.contract import DAY_0, node_names
from pipeline.units import to_us

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE = "synth"
VERSION = "2"  # of what is drawn


@dataclass(frozen=True)
class Kind:
    """What the failures of one kind have in common."""

    scope: str
    component: str
    severity: str
    reason: str | None


def tables(
    columns: Mapping[str, Any], kinds: Sequence[Kind], nodes: int, file: str, sha256: str
) -> dict[str, pa.Table]:
    """Return the tables of stage 1 for drawn failures."""
    import numpy as np
    import pyarrow as pa

    count = len(columns["kind"])
    kind = pa.array(columns["kind"], pa.int64())

    def same(text: str) -> pa.Array:
        return pa.array([text], pa.string()).take(pa.array(np.zeros(count, dtype=np.int64)))

    def by_kind(words: Sequence[str | None]) -> pa.Array:
        return pa.array(words, pa.string()).take(kind)

    reasons = by_kind([item.reason for item in kinds])
    values = {
        "event_id": pa.array([f"{sha256[:16]}{row:016x}" for row in range(1, count + 1)], pa.string()),
        "cluster": same("default"),
        "source": same(SOURCE),
        "t_start": pa.array(columns["start_us"] + to_us(DAY_0), pa.timestamp("us")),
        "t_end": pa.array(columns["end_us"] + to_us(DAY_0), pa.timestamp("us")),
        "kind": same("interval"),
        "node": pa.array(node_names(nodes)).take(pa.array(columns["node"], pa.int64())),
        "gpu": pa.array(columns["gpu"], pa.int64(), mask=columns["gpu"] < 0),
        "gpu_name": pa.nulls(count, pa.string()),
        "gpu_uuid": pa.nulls(count, pa.string()),
        "domain": pa.nulls(count, pa.string()),
        "severity": by_kind([item.severity for item in kinds]),
        "scope": by_kind([item.scope for item in kinds]),
        "component": by_kind([item.component for item in kinds]),
        "code": reasons,
        "reason": reasons,
        "file": same(file),
        "row": pa.array(np.arange(1, count + 1), pa.int64()),
        "as_of": pa.nulls(count, pa.timestamp("us")),
    }
    source_file = {
        "file": file,
        "sha256": sha256,
        "source": SOURCE,
        "source_version": VERSION,
        "rows_read": count,
        "rows_accepted": count,
        "rows_rejected": 0,
        "ingested_at": None,  # nothing was read, and a clock would make equal runs differ
    }
    return {
        "events": pa.table(values, schema=arrow_schema("events")),
        "rejects": arrow_schema("rejects").empty_table(),
        "files": pa.Table.from_pylist([source_file], schema=arrow_schema("files")),
    }
