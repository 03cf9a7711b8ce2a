"""Run the files of `queries/`: one SELECT a file, stem = table name, order worked out from the SQL.

A file begins with a header of `-- key: value` lines (title, grain, reads, units, source, caveat).
Parents are read off DuckDB's own parse of the query, so `reads` in the header is tested, not
trusted. Parameters are written `$name`; each query is given exactly those it names, because
DuckDB refuses unused ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import resources
from pipeline.errors import InputError, listed

if TYPE_CHECKING:
    import duckdb

FOLDERS = ("1_events", "2_timelines", "3_metrics", "4_outcomes", "checks", "adhoc")
HEADER = ("title", "grain", "reads", "units", "source", "caveat")

_HEADER_LINE = re.compile(r"^--\s*(?:(\w+):)?\s*(.*)$")
_WORDS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/|\$([a-z_][a-z0-9_]*)""", re.DOTALL)


@dataclass(frozen=True)
class Query:
    """One file of `queries/`."""

    name: str
    folder: str
    path: Path
    text: str
    header: dict[str, str]

    @property
    def body(self) -> str:
        """The SELECT without the header's comment lines and the closing semicolon."""
        lines = self.text.splitlines()
        start = next((i for i, line in enumerate(lines) if line.strip() and not line.startswith("--")), 0)
        return "\n".join(lines[start:]).strip().rstrip(";")

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the `$parameters`, in order of first appearance."""
        return tuple(dict.fromkeys(hit[1] for hit in _WORDS.finditer(self.body) if hit[1]))

    def with_parameters(self, replace: Mapping[str, str]) -> str:
        """Return the body with each `$name` replaced by a piece of SQL."""
        return _WORDS.sub(lambda hit: replace[hit[1]] if hit[1] else hit[0], self.body)


def load(*folders: str) -> dict[str, Query]:
    """Return the queries of some folders (all of them when none is named), by name."""
    found: dict[str, Query] = {}
    for folder in folders or FOLDERS:
        for path in sorted((resources.folder("queries") / folder).glob("*.sql")):
            query = read(path)
            if query.name in found:
                raise InputError(str(path), f"a second query named {query.name!r}", "names used once")
            found[query.name] = query
    return found


def read(path: Path) -> Query:
    """Read one file of `queries/`."""
    text = path.read_text(encoding="utf-8")
    return Query(path.stem, path.parent.name, path, text, _header(text))


def _header(text: str) -> dict[str, str]:
    header: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        hit = _HEADER_LINE.match(line)
        if not hit:
            break
        if hit[1]:
            key = hit[1]
            header[key] = hit[2].strip()
        elif key:
            header[key] = f"{header[key]} {hit[2].strip()}".strip()
    return header


@cache
def _parser() -> duckdb.DuckDBPyConnection:
    """Return one connection for all parsing; opening one costs 15 times a query's parse."""
    import duckdb

    return duckdb.connect(config={"threads": 1})


@cache
def parents(sql: str) -> frozenset[str]:
    """Return the tables and table functions a SELECT reads, common table expressions left out."""
    plain = _WORDS.sub(lambda hit: "null" if hit[1] else hit[0], sql)
    with _parser().cursor() as con:
        ((parsed,),) = con.execute("select json_serialize_sql(?::varchar)", [plain]).fetchall()
    tree = json.loads(parsed)
    if tree.get("error"):
        raise InputError("query", f"not one SELECT ({tree.get('error_message')})", "one SELECT a file")
    tables: set[str] = set()
    _visit(tree, frozenset(), tables)
    return frozenset(tables - _BUILT_IN)


_BUILT_IN = frozenset({"range", "generate_series", "unnest"})


def _visit(node: Any, scope: frozenset[str], tables: set[str]) -> None:
    """Collect the tables below a node; a CTE is known after its definition, within it if recursive."""
    if isinstance(node, list):
        for item in node:
            _visit(item, scope, tables)
        return
    if not isinstance(node, dict):
        return
    for entry in (node.get("cte_map") or {}).get("map", []):
        _visit(entry["value"], scope, tables)
        scope |= {entry["key"]}
    if node.get("type") == "RECURSIVE_CTE_NODE":
        scope |= {node["cte_name"]}
    if node.get("type") == "BASE_TABLE" and node["table_name"] not in scope:
        tables.add(node["table_name"])
    elif node.get("type") == "TABLE_FUNCTION":
        tables.add(node["function"]["function_name"])
    for key, value in node.items():
        if key != "cte_map":
            _visit(value, scope, tables)


def ordered(queries: Mapping[str, Query], given: Iterable[str] = ()) -> list[Query]:
    """Return the queries so that each stands behind those it reads.

    `given` names tables that exist already. Raise InputError for an unknown table or a cycle.
    """
    known, done, result = set(given), set[str](), list[Query]()

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in done:
            return
        if name in trail:
            raise InputError(f"queries/{queries[name].folder}", f"a cycle: {' -> '.join((*trail, name))}")
        for parent in sorted(parents(queries[name].body)):
            if parent in queries:
                visit(parent, (*trail, name))
            elif parent not in known:
                place = f"queries/{queries[name].folder}/{name}.sql"
                raise InputError(place, f"reads unknown {parent!r}", listed({*known, *queries}))
        done.add(name)
        result.append(queries[name])

    for name in sorted(queries):
        visit(name, ())
    return result


def connect() -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection: UTC, nothing fetched from outside."""
    import duckdb

    con = duckdb.connect()
    for setting in (
        "set TimeZone = 'UTC'",
        "set autoinstall_known_extensions = false",
        "set autoload_known_extensions = false",
        "set enable_progress_bar = false",
    ):
        con.execute(setting)
    return con


def build(con: duckdb.DuckDBPyConnection, queries: Iterable[Query], parameters: Mapping[str, Any]) -> None:
    """Create a table for each query, in the given order, each with the parameters it names."""
    for query in queries:
        values = {name: parameters[name] for name in query.parameters}
        con.execute(f'create or replace temp table "{query.name}" as {query.body}', values)
