"""A small lake: two scenarios' worth of a few rows, published through the same door as real ones."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipeline.lake import stages
from pipeline.lake.store import Lake, Record
from pipeline.schema import FLOAT, INT, TABLES, TEXT, arrow_schema

DAY_0 = datetime(2024, 1, 1)  # noqa: DTZ001 - instants in tables are naive UTC

Publish = Callable[..., tuple[Record, bool]]


def rows(table: str, count: int = 3, **given: Any) -> pa.Table:
    """Return a few rows of a stored table; columns not given hold plausible values."""
    plain = {TEXT: "x", INT: 1, FLOAT: 0.5, "bool": False}
    made = []
    for number in range(count):
        row = {
            column.name: DAY_0 + timedelta(hours=number + (column.name == "t_end"))
            if column.type == "time"
            else plain[column.type]
            for column in TABLES[table]
        }
        made.append(
            {**row, **{name: value(number) if callable(value) else value for name, value in given.items()}}
        )
    return pa.Table.from_pylist(made, schema=arrow_schema(table))


def publish(
    lake: Lake, stage: str, scope: str, tables: dict[str, pa.Table], **inputs: Any
) -> tuple[Record, bool]:
    """Make these tables current, as a stage does."""

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        return stages.write_tables(folder, tables), {}

    return stages.run(lake, stage, scope, inputs=inputs, code="c0de", build=build, log=lambda _: None)


def fill(lake: Lake) -> Lake:
    """Publish a few rows of every kind of table; `splits` and others stay without files."""
    events = rows("events", event_id=lambda n: f"e{n % 2}", node=lambda n: f"n{n}", row=lambda n: n + 1)
    timeline = {"scenario": "small", "placement_seed": 0}
    publish(lake, "ingest", "a", {"events": events, "rejects": rows("rejects", 1)})
    publish(
        lake,
        "timelines",
        "small",
        {
            "outages": rows("outages", scenario="small", component="gpu", severity="down"),
            "cluster_timeline": rows("cluster_timeline", **timeline, dirty_domains=lambda n: n),
            "domain_timeline": rows("domain_timeline", **timeline, domain_id=lambda n: n),
        },
    )
    policies = {"scenario": "small", "policy": lambda n: ("rigid", "ntp", "ntp-pw")[n]}
    publish(lake, "replay", "small", {"outcomes": rows("outcomes", **policies)})
    return lake


def tree(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes, and every folder."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() if path.is_file() else b"(folder)"
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Return a small lake of one's own."""
    return fill(Lake(tmp_path / "lake"))
