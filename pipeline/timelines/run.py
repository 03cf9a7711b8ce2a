"""Stage 2: events -> timelines, in SQL.

In: the `events` tables of stage 1. Out: the tables `STORED`, for every placement seed, and the downtime and
onsets of the report's what-ifs (other repair times; components, reasons or the worst nodes left out; redraws
of a synthetic trace). The rules in `queries/checks` hold, or the stage fails and the last good tables stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import config, units
from pipeline.config import Scenario
from pipeline.errors import CheckFailedError, InputError, NoDataError, nearest
from pipeline.lake import checks, open_ends, sql, stages
from pipeline.lake.store import Lake, Record
from pipeline.schema import CAPACITY, COMPONENTS, TABLES, arrow_schema
from pipeline.synth.contract import REDRAWN, node_names

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
HALF_REPAIR, DOUBLE_REPAIR = "half_repair", "double_repair"
MAY_COMPUTE = "may_compute"
WITHOUT = "without_"
HEALTHY_LEMONS = "healthy_lemons"
REDRAW = "redraw_"
# The queries from events to outages.
_FROM_EVENTS = ("gpu_names", "located_events", "incidents", "logged_outages", "causes", "outages")
_WHAT_IF_COMPONENTS = 12
_FIRST_NODES = 10
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


class WhatIf(NamedTuple):
    """The same log, but with other repair times, or with components, reasons or nodes that never fail.

    Words in `left_out` are components or reasons; `left_out_components` never match a reason, which may be
    any text of the log, "power" among them. Or another draw of a synthetic trace, numbered from 1.
    """

    name: str
    repair_scale_frac: float = 1.0
    left_out: tuple[str, ...] = ()
    left_out_components: tuple[str, ...] = ()
    left_out_nodes: tuple[str, ...] = ()
    redraw: int = 0


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
    inputs = {
        "events": [
            stages.content(record, *(name for name in ("events", REDRAWN) if name in record.outputs))
            for record in events
        ],
        "day_0": day_0,
        "onset_only": onset_only,
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
        with sql.connect() as con:
            window = window_of(scenario, day_0)
            tables, facts = _tables(con, scenario, files, onset_only, window, queries, log)
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
    onset_only: Sequence[str],
    window: Window,
    queries: dict[str, sql.Query],
    log: stages.Log,
) -> tuple[dict[str, pa.Table], dict[str, Any]]:
    from pipeline.synth import app_faults

    ingested = f"from read_parquet({_listing(files['events'])}) {_only(scenario)}"
    con.execute(f"create temp view ingested_events as {ingested}")
    sql.build(con, [queries["events"]], {})
    _check_words(con, scenario)
    _check_capacity(con, scenario)
    con.register("severity_choices", _severity_choices(scenario))
    con.register("assumed_faults", app_faults.table(scenario, window.start, window.us))
    open_ends.register(con, onset_only, scenario.trace)
    con.register("blast_radius", _blast_radius(scenario.cluster.blast_radius))
    placed, about = _placements(con, scenario, log)
    con.register("placements", placed.to_arrow())
    parameters = {
        "scenario": scenario.name,
        "window_start": window.start.replace(tzinfo=None),
        "window_end": window.end.replace(tzinfo=None),
        "window_us": window.us,
        "domain_size": scenario.cluster.domain_size,
        **open_ends.parameters(scenario.trace, scenario.cluster.gpus_per_node),
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
    _check_names(con, scenario)
    span = _check_window(con, scenario, window)
    broken = checks.broken(con, STORED, parameters)
    if broken:
        raise CheckFailedError(scenario.path.name, "; ".join(broken), "no row that breaks a rule")
    tables = {name: _stored(con, name) for name in STORED}
    tables["unpaired_clears"] = con.sql("from unpaired_clears").to_arrow_table()
    counts = _counts(con)  # before the what-ifs, which build some tables anew
    cases = _what_if_cases(con, scenario.trace)
    if files[REDRAWN]:
        con.execute(f"create temp view {REDRAWN} as from read_parquet({_listing(files[REDRAWN])})")
    redrawn = partial(app_faults.table, scenario, window.start, window.us)
    tables |= _what_ifs(con, queries, chain, parameters, cases, redrawn)
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


def _stored(con: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    names = ", ".join(column.name for column in TABLES[name])
    return con.sql(f"select {names} from {name}").to_arrow_table().cast(arrow_schema(name))


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


def _check_words(con: duckdb.DuckDBPyConnection, scenario: Scenario) -> None:
    """Raise InputError for a word under [trace] that is no component and no reason of the log."""
    trace = scenario.trace
    said = {"severity": tuple(trace.severity), "exclude": trace.exclude, "may_compute": trace.may_compute}
    if not any(said.values()):
        return
    reasons = {reason for (reason,) in con.execute("select distinct reason from events").fetchall() if reason}
    reasons |= {config.ASSUMED_REASON} if trace.app_faults_per_1000_node_d else set()
    for key, words in said.items():
        for word in words:
            if word not in COMPONENTS and word not in reasons:
                known = [*COMPONENTS, *sorted(reasons)]
                raise InputError(
                    f"{scenario.path.name} [trace] {key}",
                    f"{word!r} is no component and no reason in the log",
                    f"one of {', '.join(COMPONENTS)}, or a reason as the log has it",
                    nearest(word, known),
                )


def _check_capacity(con: duckdb.DuckDBPyConnection, scenario: Scenario) -> None:
    """Raise InputError when spot capacity and failures lie in one trace and the scenario does not say so."""
    trace = scenario.trace
    if CAPACITY in trace.severity or CAPACITY in trace.exclude:
        return
    taken, failed = _one(
        con,
        f"""select count(*) filter (component = '{CAPACITY}'), count(*) filter (component <> '{CAPACITY}')
        from events where severity = 'down'""",
    )
    if taken and failed:
        raise InputError(
            f"{scenario.path.name} [trace]",
            f"{taken} rows of capacity taken back (spot) beside {failed} of failures",
            "one kind, or a word on it",
            'exclude = ["capacity"], or [trace.severity] capacity = "down" to count both',
        )


def _severity_choices(scenario: Scenario) -> pa.Table:
    import pyarrow as pa

    chosen = {**scenario.trace.severity, **dict.fromkeys(scenario.trace.exclude, "info")}
    return pa.table(
        {"word": pa.array(chosen, pa.string()), "severity": pa.array(chosen.values(), pa.string())}
    )


def _blast_radius(chosen: Mapping[str, int | str]) -> pa.Table:
    """Return what faults of a component take out at least: a number of GPUs or a scope."""
    import pyarrow as pa

    gpus = [reach if isinstance(reach, int) else None for reach in chosen.values()]
    scopes = [reach if isinstance(reach, str) else None for reach in chosen.values()]
    return pa.table(
        {
            "component": pa.array(chosen, pa.string()),
            "radius_gpus": pa.array(gpus, pa.int64()),
            "scope": pa.array(scopes, pa.string()),
        }
    )


def _placements(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, log: stages.Log
) -> tuple[Any, dict[str, Any]]:
    """Return how nodes lie in domains, and what is worth telling about it."""
    import polars as pl

    from pipeline.timelines import placement

    cluster, where = scenario.cluster, scenario.path.name
    if cluster.placement == "topology":
        return _topology_placement(con, scenario, log)
    if scenario.trace.is_synthetic:
        nodes = node_names(cluster.nodes)
    else:
        nodes = placement.population(_named_nodes(con), cluster, where)
    _check_gpus(con, scenario, ())
    seeds = cluster.placement_seeds
    return pl.concat([placement.place(nodes, cluster, scenario.name, seed) for seed in seeds]), {}


def _topology_placement(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, log: stages.Log
) -> tuple[Any, dict[str, Any]]:
    """Return the placement that the scenario's topology states; synthetic nodes take its places in order."""
    from pipeline.timelines import placement
    from pipeline.topology.layout import few, outside

    fitted, others = config.topology_of(scenario), []
    if scenario.trace.is_synthetic:
        fitted = fitted.renamed(node_names(scenario.cluster.nodes))
    else:
        domains = con.execute("select distinct domain from events where domain is not null").fetchall()
        where = f"{scenario.path.name} [cluster] topology"
        others = outside(_named_nodes(con), fitted.domains, [name for (name,) in domains], where)
    dropped = [row.node for rows in fitted.dropped.values() for row in rows]
    _check_gpus(con, scenario, dropped)
    if others:
        log(f"unplaced: {len(others)} nodes of the log that the topology lacks ({few(others)})")
    if dropped:
        log(f"unplaced: {len(dropped)} nodes of domains of another size ({few(list(fitted.dropped))})")
    facts = {
        "dropped_domains": list(fitted.dropped),
        "nodes_outside_topology": len(others),
        "first_nodes_outside_topology": others[:_FIRST_NODES],
    }
    return placement.lay(fitted, others, scenario.cluster, scenario.name), facts


def _named_nodes(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the nodes that the log names, in its order."""
    found = con.execute(
        """select node from events where node is not null
        group by node order by min(t_start), min(file), min("row")"""
    ).fetchall()
    return [name for (name,) in found]


def _check_gpus(con: duckdb.DuckDBPyConnection, scenario: Scenario, beside: Sequence[str]) -> None:
    """Raise InputError when the log names a GPU beyond the node; nodes in `beside` may be of another kind."""
    query = "select max(gpu) from events where node is null or not list_contains(?::varchar[], node)"
    ((largest,),) = con.execute(query, [list(beside)]).fetchall()
    if largest is not None and largest >= scenario.cluster.gpus_per_node:
        raise InputError(
            f"{scenario.path.name} [cluster] gpus_per_node",
            f"{scenario.cluster.gpus_per_node}, but the log names GPU {largest}",
            f"at least {largest + 1} (GPUs are counted from 0)",
        )


def _check_names(con: duckdb.DuckDBPyConnection, scenario: Scenario) -> None:
    """Raise InputError when the logs name more GPUs of a placed node than it has."""
    found = con.execute(
        """select node, count(*) from gpu_names where node in (select node from placements)
        group by cluster, node having count(*) filter (gpu is null) > 0 order by node limit 1"""
    ).fetchall()
    for node, names in found:
        raise InputError(
            f"{scenario.path.name} [cluster] gpus_per_node",
            f"{scenario.cluster.gpus_per_node}, but the logs name {names} GPUs of node {node}",
            "at least as many as a node has names, one name a GPU",
            f"the table events lists them: gpu_name and source where node = '{node}'",
        )


def _what_if_cases(con: duckdb.DuckDBPyConnection, trace: config.Trace) -> list[WhatIf]:
    """Return the report's what-ifs; redraws come last, because they take the place of the events."""
    components = con.execute(
        "select component from outages where severity in ('down', 'app') group by component "
        f"order by sum(duration_s) desc, component limit {_WHAT_IF_COMPONENTS}"
    ).fetchall()
    lemons = con.execute("select node from worst_nodes order by node").fetchall()
    cases = [
        WhatIf(HALF_REPAIR, repair_scale_frac=0.5),
        WhatIf(DOUBLE_REPAIR, repair_scale_frac=2.0),
    ]
    if trace.may_compute:
        cases.append(WhatIf(MAY_COMPUTE, left_out=trace.may_compute))
    cases += [WhatIf(WITHOUT + component, left_out_components=(component,)) for (component,) in components]
    if lemons:
        cases.append(WhatIf(HEALTHY_LEMONS, left_out_nodes=tuple(node for (node,) in lemons)))
    redraws = range(1, trace.redraws + 1) if trace.is_synthetic else ()
    return cases + [WhatIf(f"{REDRAW}{number}", redraw=number) for number in redraws]


def _what_ifs(
    con: duckdb.DuckDBPyConnection,
    queries: Mapping[str, sql.Query],
    chain: Sequence[sql.Query],
    parameters: dict[str, Any],
    cases: Sequence[WhatIf],
    redrawn: Callable[[int], pa.Table],
) -> dict[str, pa.Table]:
    """Return the downtime and onsets of each what-if, told apart by the column `what_if`.

    `redrawn` gives the assumed app-level faults of a redraw.
    """
    import pyarrow as pa

    wanted = ("placed_outages", "gpu_segments", "segment_outages", "downtime_us", "gpu_downtime", "onsets")
    parts: dict[str, list[pa.Table]] = {"gpu_downtime": [], "onsets": []}
    for case in cases:
        steps = [query for query in chain if query.name in wanted]
        if case.redraw:
            con.execute(
                "create or replace temp view ingested_events as "
                f"select * exclude (redraw) from {REDRAWN} where redraw = {case.redraw}"
            )
            con.unregister("assumed_faults")
            con.register("assumed_faults", redrawn(case.redraw))
            steps = [queries["events"], *(q for q in chain if q.name in {*_FROM_EVENTS, *wanted})]
        changed = {
            "repair_scale_frac": case.repair_scale_frac,
            "left_out": list(case.left_out),
            "left_out_components": list(case.left_out_components),
            "left_out_nodes": list(case.left_out_nodes),
        }
        sql.build(con, steps, {**parameters, **changed})
        for table, found in parts.items():
            rows = _stored(con, table)
            found.append(rows.append_column("what_if", pa.array([case.name] * rows.num_rows, pa.string())))
    return {f"what_if_{name}": pa.concat_tables(found) for name, found in parts.items()}


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
