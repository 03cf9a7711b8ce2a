"""A lake of a few nodes for the tests of the report, and catalogs over hand-made tables.

`build` runs the real stages on a log of a dozen rows; `catalog_of` puts rows into the catalog's tables and
leaves the others empty, so that a query's answer can be worked out by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pipeline import config
from pipeline.ingest import run as ingest
from pipeline.lake import catalog, sql
from pipeline.lake.store import Lake, Record
from pipeline.replay import run as replay
from pipeline.report import run as report
from pipeline.schema import BUCKETS, TABLES, arrow_schema
from pipeline.timelines import run as timelines

if TYPE_CHECKING:
    import duckdb

DAY_0 = datetime(2025, 3, 1)  # noqa: DTZ001 - tables hold UTC without a zone
LOG = """node,start,end,component
n01,2025-03-01T02:00Z,2025-03-01T20:00Z,gpu
n02,2025-03-01T05:00Z,2025-03-01T05:30Z,nic
n05,2025-03-01T09:00Z,2025-03-02T09:00Z,gpu
n01,2025-03-02T01:00Z,2025-03-02T02:00Z,host
n07,2025-03-02T11:00Z,,power
n03,2025-03-02T15:00Z,2025-03-02T15:00Z,host
n03,2025-03-02T18:00Z,2025-03-02T16:00Z,host
n04,2025-03-03T00:00Z,2025-03-03T12:00Z,gpu
"""
SCENARIO = """# A test.
title = "Eight nodes </script><b>for three days"
[trace]
source = "intervals"
path = "log.csv"               # made up # for tests
window = ["2025-03-01T00:00Z", "2025-03-04T00:00Z"]
[cluster]
nodes = 9                      # one fills no domain
domain_size = 16
placement_seeds = [0, 1]
[job]
tp = 16
[costs]
checkpoint_interval_s = 1800
[[policy]]
name = "dp-drop"
response = "dp-drop"
[[policy]]
name = "ntp"
response = "ntp"
reduced_tp = [8]
spare_domains = 1
[policy.costs]
restart_s = 60                 # quicker
"""


@dataclass(frozen=True)
class Built:
    """A lake with everything a report reads."""

    lake: Lake
    scenario: config.Scenario
    events: list[Record]
    timelines: Record
    replay: Record

    def report(self, copy_to: Path | None = None) -> tuple[Record, bool]:
        """Run the report stage."""
        return report.stage(
            self.lake, self.scenario, self.events, self.timelines, self.replay, quiet, copy_to
        )

    @property
    def page(self) -> Path:
        """The page, built when it is not there."""
        return self.lake.table(self.report()[0], report.PAGE)


def quiet(_: str) -> None:
    """Take a log line and drop it."""


def build(folder: Path, log: str = LOG, scenario: str = SCENARIO) -> Built:
    """Run the stages before the report on a small log."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log.csv").write_text(log)
    (folder / "small.toml").write_text(scenario)
    lake = Lake(folder / "root")
    chosen = config.load(str(folder / "small.toml"))
    events, _ = ingest.stage(lake, chosen, quiet)
    lines, _ = timelines.stage(lake, chosen, events, quiet)
    ledgers, _ = replay.stage(lake, chosen, lines, quiet)
    return Built(lake, chosen, events, lines, ledgers)


def catalog_of(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> duckdb.DuckDBPyConnection:
    """Return a connection with the catalog's macros over these rows; scenario `s`, seed 0 unless said."""
    con = sql.connect()
    tables = {**_told_once(tables), **tables}
    for table in TABLES:
        names = {column.name for column in TABLES[table]}
        filled = [{**_defaults(names), **row} for row in tables.get(table, ())]
        con.register(catalog.table_name(table), pa.Table.from_pylist(filled, schema=arrow_schema(table)))
    catalog.define_derived(con)
    return con


def _told_once(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> dict[str, list[dict[str, Any]]]:
    """Return parts and rows of outages that one row of one log tells of each, as most are."""
    outages = [row for row in tables.get("outages", ()) if row.get("t_end") is not None]
    source = {row["event_id"]: row.get("source", "x") for row in tables.get("events", ())}
    part = ("scenario", "outage_id", "node", "gpu", "t_start", "t_end")
    return {
        "outage_parts": [{name: row[name] for name in part if name in row} for row in outages],
        "outage_rows": [
            {"outage_id": row["outage_id"], "event_id": row["outage_id"], "source": source[row["outage_id"]]}
            for row in outages
            if row["outage_id"] in source
        ],
    }


def _defaults(names: set[str]) -> dict[str, Any]:
    zero = {f"{bucket}_gpu_h": 0.0 for bucket in BUCKETS}
    known = {"scenario": "s", "placement_seed": 0, "replication": 0, "severity": "down", **zero}
    return {name: value for name, value in known.items() if name in names}


def hour(hours: float) -> datetime:
    """Return an instant so many hours after the start."""
    return DAY_0 + timedelta(hours=hours)


def steps(*levels: tuple[float, float, int], seed: int = 0) -> list[dict[str, Any]]:
    """Return rows of `cluster_timeline`: (from hour, to hour, failed GPUs)."""
    return [
        {
            "placement_seed": seed,
            "t_start": hour(start),
            "t_end": hour(end),
            "failed_gpus": failed,
            "dirty_domains": min(failed, 1),
        }
        for start, end, failed in levels
    ]


def pool(nodes: int = 2, gpus: int = 8, seeds: Iterable[int] = (0,)) -> list[dict[str, Any]]:
    """Return rows of `placements`: each node is a domain."""
    return [
        {
            "placement_seed": seed,
            "node": f"n{n}",
            "domain_id": n,
            "node_gpu_first": 0,
            "gpu_first": 0,
            "gpus": gpus,
        }
        for seed in seeds
        for n in range(nodes)
    ]
