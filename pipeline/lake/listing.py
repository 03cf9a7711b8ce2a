"""Say what there is to ask: every table, macro and worked query, and which scenarios are built.

In: a lake. Out: text for people. Types are those of schema.py, also where DuckDB names them otherwise.

Easy to get wrong: a macro's columns have no meanings of their own. Those of the ledger keep the ledger's, by
name; other names mean different things in different tables (`share_frac`), so their meaning stays with the
macro's units and caveat.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pipeline import config
from pipeline.errors import listed, nearest
from pipeline.lake import catalog, guard, sandbox, sql
from pipeline.lake.store import Lake
from pipeline.schema import BOOL, FLOAT, INT, TABLE_MEANING, TABLES, TEXT, TIME

if TYPE_CHECKING:
    import duckdb

_WIDTH = 110
_OF_SCENARIOS = frozenset({"timelines", "replay"})
_TYPES = {
    "VARCHAR": TEXT,
    "INTEGER": INT,
    "BIGINT": INT,
    "HUGEINT": INT,
    "DOUBLE": FLOAT,
    "TIMESTAMP": TIME,
    "BOOLEAN": BOOL,
}


def unbuilt(lake: Lake, query: str, parameters: Mapping[str, str] | None = None) -> list[str]:
    """Return a line on each scenario that a query asks for and of which nothing is built.

    Such a query is no error: its answer is empty, or counts nothing, which is easily taken for good news.
    """
    built = {record.scope for record in lake.records().values() if record.stage in _OF_SCENARIOS}
    with sql.connect() as con:
        values = {name: str(sandbox.typed(text)) for name, text in (parameters or {}).items()}
        asked = guard.scenarios(con, query, values)
    lines = []
    for name in sorted(asked - built):
        is_shipped = name in config.available()
        todo = f"`goodput run {name}` builds it" if is_shipped else nearest(name, built)
        text = f"nothing is built of scenario {name!r}; scenarios built here: {listed(built)}"
        lines.append(f"{text}; {todo}" if todo else text)
    return lines


def describe(lake: Lake) -> str:
    """Return a text on every table, macro and worked query: meaning, columns with types, parameters, rows."""
    lines = ["Tables (times are UTC)", ""]
    with sandbox.open_sandbox(lake) as con:
        for table, columns in TABLES.items():
            ((rows,),) = con.execute(f'select count(*) from "{table}"').fetchall()
            lines += [f"{table}: {TABLE_MEANING[table]} ({rows:,} rows)"]
            lines += [*_columns([(column.name, column.type, column.meaning) for column in columns]), ""]
        lines += ["Macros", ""]
        for name, query in sorted(catalog.macros().items()):
            lines += [f"{guard.usage(name)}: {query.header['title']}"]
            for key in ("grain", "units", "caveat"):
                lines += textwrap.wrap(f"  {key}: {query.header[key]}", _WIDTH, subsequent_indent="    ")
            lines += [*_columns(_macro_columns(con, query)), ""]
    lines += ["Worked queries", ""]
    for name, query in sql.load("adhoc").items():
        given = "".join(f" --param {parameter}=..." for parameter in query.parameters)
        lines += [f"-f {name}{given}: {query.header['title']}"]
    return "\n".join(lines)


def _columns(columns: Sequence[tuple[str, str, str]]) -> list[str]:
    """Return a line for each column: name, type and, where known, meaning."""
    width = max(len(name) for name, _, _ in columns)
    return [f"  {name:{width}}  {kind:5}  {meaning}".rstrip() for name, kind, meaning in columns]


def _macro_columns(con: duckdb.DuckDBPyConnection, query: sql.Query) -> list[tuple[str, str, str]]:
    nulls = ", ".join(f"null::{'varchar' if name == 'scenario' else 'bigint'}" for name in query.parameters)
    described = con.execute(
        f'select column_name, column_type from (describe from "{query.name}"({nulls}))'
    ).fetchall()
    meanings = {column.name: column.meaning for column in TABLES["outcomes"]}
    return [(name, _TYPES.get(kind, kind.lower()), meanings.get(name, "")) for name, kind in described]
