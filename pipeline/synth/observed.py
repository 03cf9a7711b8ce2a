"""The outages of an ingested trace, as arrays to resample.

In: the records of a source's `events`, the observed window, the number of nodes observed. Out: for each
outage that begins in the window its start and length (microseconds), node (0 .. nodes - 1), GPU (-1: the
whole node) and kind. A fault of a whole domain stays one: drawn again, it takes the domain that its node
lies in; where the log names no node, one of the observed nodes stands for the domain for good. Onsets and
clears are paired by queries/2_timelines/outages.sql itself, on severities as the source says; what the
scenario makes of them is applied later, as for any log. Whether planned work is a failure is settled here.
Easy to get wrong: the population is given, never inferred; nodes that never failed are part of it. An
outage that began before the window or is still open at its end: the first is left out, the second ends
there. A fault of scope node without a node is left out. Source: model.md sections 2 and 8.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from pipeline import config
from pipeline.errors import InputError, NoDataError
from pipeline.lake import open_ends, sql
from pipeline.synth.tables import Kind
from pipeline.units import US_PER_D, to_us

if TYPE_CHECKING:
    from pipeline.lake.store import Lake, Record

Window = tuple[datetime, datetime]

_SCHEMA_GIVEN = (
    "ingested_events",
    "severity_choices",
    "assumed_faults",
    "assumed_repairs",
    "onset_only_sources",
)


@dataclass(frozen=True)
class History:
    """What was seen on `nodes` nodes over `window_us`; arrays have one entry an outage, sorted by start."""

    nodes: int
    window_us: int
    start_us: Any
    length_us: Any
    node: Any
    gpu: Any
    kinds: tuple[Kind, ...]  # one an outage
    named_nodes: int
    left_out: int
    censored: int
    domain_faults: int = 0


def window(where: str, trace: config.Trace, sources: Sequence[Record]) -> Window:
    """Return the observed window of the original trace."""
    day_0 = next((record.facts["day_0"] for record in sources if record.facts.get("day_0")), None)
    return config.log_window(where, trace, day_0)


def days(observed: Window) -> float:
    """Return the length of a window in days."""
    return (to_us(observed[1]) - to_us(observed[0])) / US_PER_D


@cache
def queries() -> tuple[sql.Query, ...]:
    """Return the queries that make `outages` from ingested events, in their order."""
    found = sql.load("1_events", "2_timelines")
    wanted: dict[str, sql.Query] = {}

    def visit(name: str) -> None:
        if name in found and name not in wanted:
            wanted[name] = found[name]
            for parent in sql.parents(found[name].body):
                visit(parent)

    visit("outages")
    return tuple(sql.ordered(wanted, given=_SCHEMA_GIVEN))


def load(
    lake: Lake,
    sources: Sequence[Record],
    observed: Window,
    nodes: int,
    where: str,
    trace: config.Trace | None = None,
    gpus_per_node: int = 8,
) -> History:
    """Read the outages of a source within a window; `trace` says what is assumed of logs without ends."""
    import numpy as np
    import polars as pl

    first, last = (moment.replace(tzinfo=None) for moment in observed)
    files = ", ".join("'" + str(lake.table(item, "events")).replace("'", "''") + "'" for item in sources)
    with sql.connect(lake.path(sql.SPILL)) as con:
        con.execute(f"create temp view ingested_events as from read_parquet([{files}])")
        con.execute("create temp table severity_choices (word varchar, severity varchar)")
        con.execute(
            "create temp table assumed_faults "
            "(outage_id varchar, t_start timestamp, component varchar, reason varchar)"
        )
        trace = trace or config.Trace()
        open_ends.register(con, open_ends.onset_only(sources), trace)
        values = {
            "scenario": "",
            "window_start": first,
            "window_end": last,
            **open_ends.parameters(trace, gpus_per_node, open_ends.planned_aside(sources, trace)),
        }
        sql.build(con, queries(), values)
        outages = con.sql(
            "select outages.*, epoch_us(outages.t_start) as start_us, epoch_us(outages.t_end) as end_us, "
            "scope, domain from outages inner join events on event_id = outage_id "
            "order by outages.t_start, outage_id"
        ).pl()
    everything = outages.height
    of_domain = pl.col("scope") == "domain"
    known = pl.col("node").is_not_null() | (of_domain & pl.col("domain").is_not_null())
    outages = outages.filter(pl.col("t_start") >= first, known)
    if outages.is_empty():
        raise NoDataError(
            f"{where} window", "no outage of a node or a domain begins in it", "a window with some"
        )
    names = sorted(set(outages["node"].drop_nulls()))
    if len(names) > nodes:
        found = f"{nodes}, but outages name {len(names)} nodes"
        raise InputError(f"{where} observed_nodes", found, "all nodes that were observed, failed or not")
    start_us, end_us = outages["start_us"].to_numpy(), outages["end_us"].to_numpy()
    number = {name: index for index, name in enumerate(names)}
    nameless = outages.filter(pl.col("node").is_null())["domain"]
    seat = _seats(sorted(set(nameless)), nodes)
    rows = outages.select("scope", "gpu", "component", "severity", "reason").rows()
    node = [
        seat[domain] if name is None else number[name]
        for name, domain in outages.select("node", "domain").rows()
    ]
    return History(
        nodes=nodes,
        window_us=to_us(observed[1]) - to_us(observed[0]),
        start_us=start_us - to_us(observed[0]),
        length_us=end_us - start_us,
        node=np.array(node, dtype=np.int64),
        gpu=np.array([-1 if gpu is None else gpu for _, gpu, *_ in rows], dtype=np.int64),
        kinds=tuple(
            Kind("domain" if scope == "domain" else "node" if gpu is None else "gpu", *words)
            for scope, gpu, *words in rows
        ),
        named_nodes=len(names),
        left_out=everything - outages.height,
        censored=int(outages["is_censored"].sum() or 0),
        domain_faults=outages.filter(of_domain).height,
    )


def _seats(domains: Sequence[str], nodes: int) -> dict[str, int]:
    """Return a node that stands for each domain that the log names without one, far apart."""
    return {name: index * nodes // len(domains) for index, name in enumerate(domains)}
