"""Run the files of `queries/`: one SELECT a file, stem = table name, order worked out from the SQL.

A file begins with a header of `-- key: value` lines (title, grain, reads, units, source, caveat).
Parents are read off DuckDB's own parse of the query, so `reads` in the header is tested, not
trusted. Parameters are written `$name`; each query is given exactly those it names, because
DuckDB refuses unused ones.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
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

MEMORY = "GOODPUT_MEMORY"
SPILL = "spill"  # the folder of a lake
_MEMORY_SHARE = "50%"  # Python, Arrow and the system need the rest
_LEAST_MIB = 32
_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")

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


def connect(spill: Path | None = None) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection: UTC, nothing fetched from outside, a limit to its memory.

    The limit is half of what the machine or its control group has, or what the environment's GOODPUT_MEMORY
    says. What does not fit goes to the folder `spill`, which DuckDB makes and empties, also of what a killed
    process left there; without one the query is refused.
    """
    import duckdb

    con = duckdb.connect()
    for setting in (
        "set TimeZone = 'UTC'",
        "set autoinstall_known_extensions = false",
        "set autoload_known_extensions = false",
        "set enable_progress_bar = false",
        f"set temp_directory = {_text(spill or '')}",  # DuckDB's own is .tmp, wherever the command runs
    ):
        con.execute(setting)
    _limit(con)
    return con


@contextmanager
def within_memory() -> Iterator[None]:
    """Raise InputError, not DuckDB's own error, when work fits neither into memory nor onto the disk."""
    import duckdb

    try:
        yield
    except duckdb.OutOfMemoryException as error:
        hint = f"allow more, e.g. {MEMORY}=75%, and see that the disk of --root has room"
        told = str(error).splitlines()[0]
        raise InputError("memory", f"does not suffice ({told})", "room for the work", hint) from None


def _limit(con: duckdb.DuckDBPyConnection) -> None:
    import duckdb

    wanted = os.environ.get(MEMORY, "") or _MEMORY_SHARE
    try:
        con.execute(f"set memory_limit = {_text(wanted)}")
        is_enough = memory_mib(con) >= _LEAST_MIB
    except (duckdb.Error, ValueError):  # of -1, no limit, DuckDB makes PiB
        is_enough = False
    if not is_enough:
        expected = f"a size such as 4GiB or 25%, {_LEAST_MIB} MiB at least"
        raise InputError(
            MEMORY, f"found {wanted!r}", expected, f"leave {MEMORY} out for half of the machine's"
        )


def _text(value: object) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def memory_mib(con: duckdb.DuckDBPyConnection) -> int:
    """Return what DuckDB may use on a connection, MiB."""
    ((told,),) = con.execute("select current_setting('memory_limit')").fetchall()
    number, unit = told.split()
    return int(float(number) * 1024 ** (_UNITS.index(unit) - _UNITS.index("MiB")))


def build(con: duckdb.DuckDBPyConnection, queries: Iterable[Query], parameters: Mapping[str, Any]) -> None:
    """Create a table for each query, in the given order, each with the parameters it names."""
    with within_memory():
        for query in queries:
            values = {name: parameters[name] for name in query.parameters}
            con.execute(f'create or replace temp table "{query.name}" as {query.body}', values)
