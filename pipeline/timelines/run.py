"""Stage 2: events -> timelines, in SQL.

In: the `events` tables of stage 1. Out: the tables `STORED`, for every placement seed, and the downtime and
onsets of the report's what-ifs (other repair times; components, reasons or the worst nodes left out; redraws
of a synthetic trace). The rules in `queries/checks` hold, or the stage fails and the last good tables stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import config, units
from pipeline.config import Scenario
from pipeline.errors import CheckFailedError, InputError, NoDataError
from pipeline.lake import checks, open_ends, sql, stages
from pipeline.lake.store import Lake, Record
from pipeline.synth.contract import REDRAWN
from pipeline.timelines import given, what_ifs

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

STAGE = "timelines"
STORED = (
    "outages",
    "placements",
    "gpu_downtime",
    "onsets",
    "domain_timeline",
    "cluster_timeline",
    "domain_tail",
    "worst_nodes",
    "outage_rows",
    "outage_parts",
)
GIVEN = (
    "events",
    "severity_choices",
    "assumed_faults",
    "assumed_repairs",
    "onset_only_sources",
    "blast_radius",
    "placements",
)
_PACKAGES = ("duckdb", "polars", "pyarrow", "numpy")


@dataclass(frozen=True)
class Window:
    """The window of a scenario: `[start, end)`, UTC."""

    start: datetime
    end: datetime

    @property
    def us(self) -> int:
        """Length in microseconds."""
        return units.to_us(self.end) - units.to_us(self.start)


def window_of(scenario: Scenario, day_0: str | None) -> Window:
    """Return the scenario's window; `day_0` is the instant of day 0 of the trace, if it has one."""
    trace = scenario.trace
    if not trace.is_synthetic:
        return Window(*config.log_window(f"{scenario.path.name} [trace]", trace, day_0))
    assert day_0 is not None, "every synthetic trace has a day 0"
    assert trace.days is not None, "checked when the scenario is read"
    start = datetime.fromisoformat(day_0)
    return Window(start, start + timedelta(microseconds=round(units.exact(trace.days) * units.US_PER_D)))


def stage(lake: Lake, scenario: Scenario, events: Sequence[Record], log: stages.Log) -> tuple[Record, bool]:
    """Build the timelines of a scenario from the records of its events, when anything has changed."""
    queries = sql.load("1_events", "2_timelines", "checks")
    day_0 = next((record.facts["day_0"] for record in events if record.facts.get("day_0")), None)
    onset_only = open_ends.onset_only(events)
    planned_aside = open_ends.planned_aside(events, scenario.trace)
    inputs = {
        "events": [
            stages.content(record, *(name for name in ("events", REDRAWN) if name in record.outputs))
            for record in events
        ],
        "day_0": day_0,
        "onset_only": onset_only,
        "planned_aside": planned_aside,
        "rates": _rates(scenario, events),
        "scenario": scenario.name,
        "values": scenario.fingerprint("trace", "cluster"),
        "queries": stages.sql_version(query.path for query in queries.values()),
    }

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        files = {
            name: [str(lake.table(record, name)) for record in events if name in record.outputs]
            for name in ("events", REDRAWN)
        }
        with sql.connect(lake.path(sql.SPILL)) as con:
            window = window_of(scenario, day_0)
            tables, facts = _tables(con, scenario, files, (onset_only, planned_aside), window, queries, log)
            facts["rates"] = inputs["rates"]
            return stages.write_tables(folder, tables), facts

    return stages.run(
        lake,
        STAGE,
        scenario.name,
        inputs=inputs,
        code=stages.code_version("timelines", packages=_PACKAGES),
        build=build,
        log=log,
        scenario=scenario.name,
        seed=" ".join(map(str, scenario.cluster.placement_seeds)),
    )


def _rates(scenario: Scenario, events: Sequence[Record]) -> list[dict[str, Any]] | None:
    """Return the rates of a synthetic trace, with that of assumed app-level faults; None for a log."""
    from pipeline.synth import app_faults

    rates = next((record.facts["rates"] for record in events if "rates" in record.facts), None)
    assumed = scenario.trace.assumed_per_1000_node_d
    return rates if rates is None or not assumed else [*rates, app_faults.rate(scenario)]


def _tables(
    con: duckdb.DuckDBPyConnection,
    scenario: Scenario,
    files: Mapping[str, Sequence[str]],
    of_sources: tuple[Sequence[str], Sequence[str]],
    window: Window,
    queries: dict[str, sql.Query],
    log: stages.Log,
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    from pipeline.synth import app_faults

    onset_only, planned_aside = of_sources
    ingested = f"from read_parquet({_listing(files['events'])}) {_only(scenario)}"
    con.execute(f"create temp view ingested_events as {ingested}")
    sql.build(con, [queries["events"]], {})
    given.check_words(con, scenario)
    given.check_capacity(con, scenario)
    con.register("severity_choices", given.severity_choices(scenario))
    con.register("assumed_faults", app_faults.table(scenario, window.start, window.us))
    open_ends.register(con, onset_only, scenario.trace)
    con.register("blast_radius", given.blast_radius(scenario.cluster.blast_radius))
    placed, about = given.placements(con, scenario, log)
    con.register("placements", placed.to_arrow())
    parameters = {
        "scenario": scenario.name,
        "window_start": window.start.replace(tzinfo=None),
        "window_end": window.end.replace(tzinfo=None),
        "window_us": window.us,
        "domain_size": scenario.cluster.domain_size,
        **open_ends.parameters(scenario.trace, scenario.cluster.gpus_per_node, planned_aside),
        "repair_scale_frac": 1.0,
        "left_out": [],
        "left_out_components": [],
        "left_out_nodes": [],
    }
    chain = sql.ordered(
        {name: query for name, query in queries.items() if query.folder == "2_timelines"},
        given=GIVEN,
    )
    sql.build(con, chain, parameters)
    given.check_names(con, scenario)
    span = _check_window(con, scenario, window)
    broken = checks.broken(con, STORED, parameters)
    if broken:
        raise CheckFailedError(scenario.path.name, "; ".join(broken), "no row that breaks a rule")
    tables = {name: what_ifs.stored(con, name) for name in STORED}
    tables["unpaired_clears"] = con.sql("from unpaired_clears").to_arrow_table()
    counts = _counts(con)  # before the what-ifs, which build some tables anew
    cases = what_ifs.cases_of(con, scenario.trace)
    if files[REDRAWN]:
        con.execute(f"create temp view {REDRAWN} as from read_parquet({_listing(files[REDRAWN])})")
    redrawn = partial(app_faults.table, scenario, window.start, window.us)
    tables |= what_ifs.tables(con, queries, chain, parameters, cases, redrawn)
    facts = {
        "window_start": window.start.isoformat(),
        "window_end": window.end.isoformat(),
        "window_us": window.us,
        "domain_size": scenario.cluster.domain_size,
        **span,
        **about,
        "what_ifs": [[case.name, [*case.left_out], [*case.left_out_components]] for case in cases],
        **counts,
    }
    return tables, facts


def _listing(files: Sequence[str]) -> str:
    return "[" + ", ".join("'" + file.replace("'", "''") + "'" for file in files) + "]"


def _only(scenario: Scenario) -> str:
    """Return the condition that keeps the events of the scenario's cluster, if it names one."""
    name = None if scenario.trace.is_synthetic else scenario.trace.cluster
    return "" if name is None else "where cluster = '" + name.replace("'", "''") + "'"


def _check_window(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, window: Window
) -> dict[str, str | None]:
    """Return the first and last instant of the events; raise when the window meets none of them."""
    first, last, rows = _one(
        con, "select epoch_us(min(t_start)), epoch_us(max(coalesce(t_end, t_start))), count(*) from events"
    )
    if rows == 0 and not scenario.trace.is_synthetic:
        raise NoDataError(
            f"{scenario.path.name} [trace]", "no accepted event", "a log with at least one fault"
        )
    # An outage that is open since before the window meets it, whenever its last row was written.
    ((meeting,),) = con.execute("select count(*) from outages where events > 0").fetchall()
    inside = units.to_us(window.start) <= last and first < units.to_us(window.end) if rows else True
    if not inside and not meeting:
        raise InputError(
            f"{scenario.path.name} [trace] window",
            f"{_day(window.start)} to {_day(window.end)} lies outside the trace",
            f"a window that meets {_day(units.from_us(first))} to {_day(units.from_us(last))} (UTC)",
        )
    return {
        "first_event": units.from_us(first).isoformat() if rows else None,
        "last_event": units.from_us(last).isoformat() if rows else None,
    }


def _day(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _one(con: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    (row,) = con.execute(query).fetchall()
    return row


def _counts(con: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """Return what data quality reports: counts of nodes, events and outages, placed or not."""
    keys = (
        "events",
        "event_nodes",
        "outages",
        "censored",
        "assumed",
        "assumed_app_faults",
        "unpaired_clears",
        "unplaced_nodes",
        "unplaced_outages",
    )
    row = _one(
        con,
        """select
            (select count(*) from events),
            (select count(distinct node) from events),
            (select count(*) from outages where events > 0),
            (select count(*) from outages where is_censored),
            (select count(*) from outages where end_origin = 'assumed' and events > 0),
            (select count(*) from outages where events = 0),
            (select count(*) from unpaired_clears),
            (select count(distinct node) from placements
             where domain_id is null and placement_seed = (select min(placement_seed) from placements)),
            (select count(*) from outages where severity = 'down' and outage_id not in
             (select outage_id from placed_outages
              where placement_seed = (select min(placement_seed) from placements)))""",
    )
    return dict(zip(keys, row, strict=True))
