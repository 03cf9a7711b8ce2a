"""The what-ifs of the report: the same log with other repair times, without some failures, or drawn again.

In: a connection that holds the tables of stage 2. Out: downtime and onsets of every what-if. Only the queries
behind the outages run again; a redraw takes the place of the events, so redraws come last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import config
from pipeline.lake import sql
from pipeline.schema import TABLES, arrow_schema
from pipeline.synth.contract import REDRAWN

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

HALF_REPAIR, DOUBLE_REPAIR = "half_repair", "double_repair"
MAY_COMPUTE = "may_compute"
WITHOUT = "without_"
HEALTHY_LEMONS = "healthy_lemons"
REDRAW = "redraw_"
# The queries from events to outages.
FROM_EVENTS = (
    "gpu_names",
    "located_events",
    "incidents",
    "told_again",
    "logged_outages",
    "same_outages",
    "causes",
    "outage_members",
    "outages",
)
_COMPONENTS = 12


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


def cases_of(con: duckdb.DuckDBPyConnection, trace: config.Trace) -> list[WhatIf]:
    """Return the report's what-ifs; redraws come last, because they take the place of the events."""
    components = con.execute(
        "select component from outages where severity in ('down', 'app') group by component "
        f"order by sum(duration_s) desc, component limit {_COMPONENTS}"
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


def tables(
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
            steps = [queries["events"], *(q for q in chain if q.name in {*FROM_EVENTS, *wanted})]
        changed = {
            "repair_scale_frac": case.repair_scale_frac,
            "left_out": list(case.left_out),
            "left_out_components": list(case.left_out_components),
            "left_out_nodes": list(case.left_out_nodes),
        }
        sql.build(con, steps, {**parameters, **changed})
        for table, found in parts.items():
            rows = stored(con, table)
            found.append(rows.append_column("what_if", pa.array([case.name] * rows.num_rows, pa.string())))
    return {f"what_if_{name}": pa.concat_tables(found) for name, found in parts.items()}


def stored(con: duckdb.DuckDBPyConnection, name: str) -> pa.Table:
    """Return a table with the columns that are stored, in their order."""
    names = ", ".join(column.name for column in TABLES[name])
    return con.sql(f"select {names} from {name}").to_arrow_table().cast(arrow_schema(name))
