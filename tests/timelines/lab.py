"""The SQL timelines of a few hand-made or drawn events, in memory, and a brute-force second opinion.

In: `Fault`s in whole seconds from the window's start, and a placement. Out: the tables of stage 2 in one
DuckDB connection; and, second by second and GPU by GPU from the plain list of faults, what they must say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
import pyarrow as pa

from pipeline.config import Cluster, Trace
from pipeline.lake import open_ends, sql
from pipeline.schema import arrow_schema
from pipeline.timelines import given, placement, run, what_ifs
from pipeline.units import US_PER_S, to_us

if TYPE_CHECKING:
    import duckdb

START = datetime(2024, 2, 28, 23, 59, 30, tzinfo=UTC)  # the leap day begins within most windows
NO_ASSUMED = "outage_id varchar, t_start timestamp, component varchar, reason varchar"


class Fault(NamedTuple):
    """A row of a log: `gpu` None is the whole node, `end_s` None is still open."""

    node: str
    gpu: int | None
    start_s: int
    end_s: int | None
    severity: str = "down"
    component: str = "gpu"
    reason: str = "test"


class Place(NamedTuple):
    """GPUs `first..last` of a domain over seconds `[start, end)`."""

    domain: int
    first: int
    last: int
    start: int
    end: int


@cache
def chain() -> tuple[sql.Query, ...]:
    """Return the queries of stage 2, parents first."""
    return tuple(sql.ordered(sql.load("2_timelines"), given=run.GIVEN))


def cluster(nodes: int, gpus_per_node: int, domain_size: int, **more: Any) -> Cluster:
    """Return a cluster, nodes in the listed order unless told otherwise."""
    values = {"placement": "listed", **more}
    return Cluster(nodes=nodes, gpus_per_node=gpus_per_node, domain_size=domain_size, **values)


def placements(names: Sequence[str], machines: Cluster) -> pl.DataFrame:
    """Return the placements of all seeds."""
    return pl.concat([placement.place(names, machines, "lab", seed) for seed in machines.placement_seeds])


def events(faults: Sequence[Fault]) -> pa.Table:
    """Return the faults as events of kind interval, in file order."""
    origin = to_us(START)
    rows = [
        {
            "event_id": f"e{row:05}",
            "cluster": "lab",
            "source": "lab",
            "t_start": origin + fault.start_s * US_PER_S,
            "t_end": None if fault.end_s is None else origin + fault.end_s * US_PER_S,
            "kind": "interval",
            "node": fault.node,
            "gpu": fault.gpu,
            "domain": None,
            "severity": fault.severity,
            "scope": "node" if fault.gpu is None else "gpu",
            "component": fault.component,
            "code": fault.reason,
            "reason": fault.reason,
            "file": "lab.csv",
            "row": row,
        }
        for row, fault in enumerate(faults, 1)
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema("events"))


def parameters(window_s: int, domain_size: int, **more: Any) -> dict[str, Any]:
    """Return the parameters of the queries."""
    start = START.replace(tzinfo=None)
    return {
        "scenario": "lab",
        "window_start": start,
        "window_end": start + timedelta(seconds=window_s),
        "window_us": window_s * US_PER_S,
        "domain_size": domain_size,
        "gpus_per_node": 8,
        "fold_s": 300,
        "cause_lead_s": 900,
        "planned_aside": [],
        "repair_scale_frac": 1.0,
        "left_out": [],
        "left_out_components": [],
        "left_out_nodes": [],
        **more,
    }


def build(
    con: duckdb.DuckDBPyConnection,
    rows: pa.Table,
    placed: pl.DataFrame,
    values: dict[str, Any],
    choices: dict[str, str] | None = None,
    radius: dict[str, int | str] | None = None,
    onset_only: Sequence[str] = (),
    repairs: dict[str, Any] | None = None,
) -> None:
    """Create all tables of stage 2 in the connection."""
    con.register("ingested_events", rows)
    sql.build(con, [sql.load("1_events")["events"]], {})
    chosen = choices or {}
    table = {"word": pa.array(chosen, pa.string()), "severity": pa.array(chosen.values(), pa.string())}
    con.register("severity_choices", pa.table(table))
    con.execute(f"create or replace temp table assumed_faults ({NO_ASSUMED})")
    con.register("placements", placed.to_arrow())
    open_ends.register(con, onset_only, Trace(**(repairs or {})))
    con.register("blast_radius", given.blast_radius(radius or {}))
    sql.build(con, chain(), values)


@contextmanager
def built(
    faults: Sequence[Fault], placed: pl.DataFrame, window_s: int, domain_size: int, **more: Any
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection that holds the tables of these faults."""
    with sql.connect() as con:
        build(con, events(faults), placed, parameters(window_s, domain_size, **more))
        yield con


def stored(con: duckdb.DuckDBPyConnection, name: str) -> pl.DataFrame:
    """Return a table as the stage would store it, in the stored order."""
    frame = pl.from_arrow(what_ifs.stored(con, name))
    assert isinstance(frame, pl.DataFrame)
    return frame


def seconds(frame: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Replace instants by whole seconds from the window's start."""
    origin = to_us(START)
    for name in columns:
        ticks = frame[name].dt.timestamp("us") - origin
        assert (ticks % US_PER_S == 0).all()
        frame = frame.with_columns((ticks // US_PER_S).alias(name))
    return frame


# -- brute force --------------------------------------------------------------------------------


def places(faults: Iterable[Fault], placed: pl.DataFrame, seed: int, window_s: int) -> list[Place]:
    """Return where the faults that take GPUs away fall in one placement, open ends at the window's end."""
    rows = placed.filter(pl.col("placement_seed") == seed).rows(named=True)
    found = []
    for fault in faults:
        if fault.severity != "down":
            continue
        end = max(fault.start_s, window_s) if fault.end_s is None else fault.end_s
        for row in rows:
            if row["node"] != fault.node or row["domain_id"] is None:
                continue
            first = row["gpu_first"]
            if fault.gpu is None:
                found.append(Place(row["domain_id"], first, first + row["gpus"] - 1, fault.start_s, end))
            elif row["node_gpu_first"] <= fault.gpu < row["node_gpu_first"] + row["gpus"]:
                gpu = first + fault.gpu - row["node_gpu_first"]
                found.append(Place(row["domain_id"], gpu, gpu, fault.start_s, end))
    return found


def down_by_second(where: Iterable[Place], window_s: int) -> list[set[tuple[int, int]]]:
    """Return the (domain, GPU) down in each second of the window."""
    down: list[set[tuple[int, int]]] = [set() for _ in range(window_s)]
    for place in where:
        gpus = {(place.domain, gpu) for gpu in range(place.first, place.last + 1)}
        for second in range(max(0, place.start), min(window_s, place.end)):
            down[second] |= gpus
    return down


def onset_gpus(where: Sequence[Place], window_s: int) -> set[tuple[int, int, int]]:
    """Return (second, domain, GPU) of GPUs that were up in the second before and are hit at this one."""
    before = down_by_second([p._replace(start=p.start + 1, end=p.end + 1) for p in where], window_s)
    return {
        (place.start, place.domain, gpu)
        for place in where
        for gpu in range(place.first, place.last + 1)
        if 0 < place.start < window_s and (place.domain, gpu) not in before[place.start]
    }
