"""The rules in `queries/checks`: each query selects the rows that break one; none is good.

A check runs where the tables it reads are: on a stage's fresh tables before they are published, or
on the built data for `goodput check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pipeline.lake import catalog, sql
from pipeline.lake.store import Lake, Record

if TYPE_CHECKING:
    import duckdb


def broken(con: duckdb.DuckDBPyConnection, tables: Iterable[str], parameters: Mapping[str, Any]) -> list[str]:
    """Return one line for each broken rule among the checks whose tables are all there."""
    there, lines = set(tables), []
    for query in sql.load("checks").values():
        if not sql.parents(query.body) <= there:
            continue
        values = {name: parameters[name] for name in query.parameters}
        ((rows,),) = con.execute(f"select count(*) from ({query.body})", values).fetchall()
        if rows:
            lines.append(f"{query.name}: {rows} rows break the rule: {query.header['title']}")
    return lines


def all_records(lake: Lake) -> list[str]:
    """Return one line for each broken rule in the built data, scenario by scenario.

    A run that was stopped leaves a ledger beside newer timelines; one of another window is stale, not wrong.
    """
    records = lake.records()
    lines = []
    for key, record in records.items():
        if record.stage != "timelines":
            continue
        replay = records.get(f"replay/{record.scope}")
        window = [record.facts["window_start"], record.facts["window_end"]]
        mine = [record, *([replay] if replay and replay.facts.get("window") == window else [])]
        mine += [r for r in records.values() if r.stage in ("ingest", "synth")]
        lines += [f"{key.split('/', 1)[1]}: {line}" for line in _of_scenario(lake, mine, record)]
    return lines


def _of_scenario(lake: Lake, records: list[Record], timelines: Record) -> list[str]:
    tables = catalog.base_tables(lake, {f"{r.stage}/{r.scope}": r for r in records})
    facts = timelines.facts
    parameters = {
        "window_start": datetime.fromisoformat(facts["window_start"]).replace(tzinfo=None),
        "window_end": datetime.fromisoformat(facts["window_end"]).replace(tzinfo=None),
        "domain_size": facts["domain_size"],
    }
    with sql.connect(lake.path(sql.SPILL)) as con, sql.within_memory():
        catalog.define(con, tables)
        return broken(con, [name for name, files in tables.items() if files], parameters)
