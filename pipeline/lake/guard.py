"""Read a query before it runs: refuse what does not only read the lake's tables, in clear words.

In: the text and the sandbox's connection, which parses it. Out: the statement to run and the names of
its parameters. The second wall is the locked connection (sandbox.py); this one exists for its messages
and for what the lock lets through: statements hidden in a CTE (`with a as (copy ...)`), SQL given as a
text (`query(...)`), and functions that take memory addresses (`arrow_scan(...)`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError, listed, nearest
from pipeline.lake import catalog
from pipeline.schema import TABLES

if TYPE_CHECKING:
    import duckdb

ALLOWED = "one SELECT (also FROM, WITH, VALUES), DESCRIBE, SHOW, SUMMARIZE or EXPLAIN"
MAX_QUERY_CHARS = 100_000  # a longer query costs the parser seconds and hundreds of megabytes
_NO_FILES = "only tables and macros of the lake can be read, no files and no addresses"
_LISTING = "`goodput sql --describe` lists tables, macros and columns"


def check(con: duckdb.DuckDBPyConnection, query: str) -> tuple[str, frozenset[str]]:
    """Return the statement to run and the names of its parameters; raise InputError when it is refused."""
    if len(query) > MAX_QUERY_CHARS:
        raise InputError("query", f"{len(query):,} characters", f"at most {MAX_QUERY_CHARS:,}")
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InputError("query", "not text in UTF-8", "UTF-8") from error
    statements = con.extract_statements(query)
    if len(statements) != 1:
        raise InputError("query", f"{len(statements)} statements" if statements else "empty", ALLOWED)
    prefix, select = "", query
    if _kind(statements[0]) == "EXPLAIN" and (hit := _EXPLAIN.match(query)):
        prefix, select = f"explain {hit['options'] or ''} ", query[hit.end() :]
        statements = con.extract_statements(select)
    if len(statements) != 1 or _kind(statements[0]) != "SELECT":
        kind = _kind(statements[0]) if len(statements) == 1 else f"EXPLAIN of {len(statements)} statements"
        raise InputError("query", f"{kind} cannot be run here", ALLOWED)
    ((parsed,),) = con.execute("select json_serialize_sql(?::varchar)", [select]).fetchall()
    tree = json.loads(parsed)
    if tree.get("error"):
        raise InputError("query", str(tree.get("error_message")), ALLOWED)
    found = _Tree()
    found.visit(tree["statements"])
    found.judge()
    return prefix + select, frozenset(found.parameters)


def scenarios(con: duckdb.DuckDBPyConnection, query: str, values: Mapping[str, str]) -> set[str]:
    """Return the scenarios that a query asks for: as a macro's argument, or by `scenario = ...`.

    `values` are the texts of its parameters. What is not one SELECT asks for none.
    """
    ((parsed,),) = con.execute("select json_serialize_sql(?::varchar)", [query]).fetchall()
    found: set[str] = set()
    for value in _scenario_values(json.loads(parsed)):
        if value.get("type") == "VALUE_PARAMETER":
            found.add(str(values.get(value["identifier"], "")))
        elif value.get("type") == "VALUE_CONSTANT" and (value.get("literal") or {}).get("kind") == "STRING":
            found.add(value["literal"]["text"])
    return found - {""}


def _scenario_values(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, list):
        for item in node:
            yield from _scenario_values(item)
    if not isinstance(node, dict):
        return
    if node.get("type") == "TABLE_FUNCTION":
        macro = catalog.macros().get(node["function"]["function_name"].lower())
        names = macro.parameters if macro else ()
        given = [argument["expression"] for argument in node["function"]["arguments"]]
        yield from (value for name, value in zip(names, given, strict=False) if name == "scenario")
    elif node.get("type") == "COMPARE_EQUAL":
        sides = [node["left"], node["right"]]
        for column, value in (sides, reversed(sides)):
            if (column.get("column_names") or [""])[-1].lower() == "scenario":
                yield value
    for value in node.values():
        yield from _scenario_values(value)


def _kind(statement: duckdb.Statement) -> str:
    try:
        name = str(statement.type.name)
    except ValueError:  # DuckDB knows kinds (UPDATE EXTENSIONS) that its Python enum does not
        return "this kind of statement"
    return "PIVOT without IN (...)" if name == "MULTI" else name


# The part after EXPLAIN is checked as a query of its own, so a wrong match can refuse but not admit.
_EXPLAIN = re.compile(
    r"(?:\s|--[^\n]*\n|/\*.*?\*/)*explain\b\s*(?P<options>analyze\b|\(\s*analyze\s*\))?",
    re.IGNORECASE | re.DOTALL,
)
_READING_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_SCHEMAS = frozenset({"", "main", "temp", "memory", "system"})
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog"})
# They say what there is in this connection: names and types, no file and no setting.
_SYSTEM_TABLES = frozenset({"duckdb_tables", "duckdb_columns", "duckdb_views", "duckdb_functions"})
_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "repeat", "json_each", "json_tree"})
# Scalar functions that write, change state, or run SQL given as text.
_REFUSED = frozenset({"write_log", "nextval", "setval", "json_serialize_plan", "getenv", "index_key"})


class _Tree:
    """What a parse tree names: tables, functions, parameters, and statements that do not read."""

    def __init__(self) -> None:
        self.tables: dict[str, str] = {}
        self.table_functions: set[str] = set()
        self.functions: set[str] = set()
        self.ctes: set[str] = set()
        self.statements: set[str] = set()
        self.parameters: set[str] = set()

    def visit(self, node: Any) -> None:
        """Collect the names below a node."""
        if isinstance(node, list):
            for item in node:
                self.visit(item)
            return
        if not isinstance(node, dict):
            return
        kind = str(node.get("type", ""))
        if kind.endswith("_NODE") and kind not in _READING_NODES:
            self.statements.add(kind.removesuffix("_NODE").removesuffix("_QUERY"))
        if kind == "BASE_TABLE":
            self.tables[node["table_name"].lower()] = str(node.get("schema_name") or "").lower()
        elif kind == "TABLE_FUNCTION":
            self.table_functions.add(node["function"]["function_name"].lower())
        elif kind == "VALUE_PARAMETER":
            self.parameters.add(node["identifier"])
        elif node.get("class") == "FUNCTION":
            self.functions.add(node["function_name"].lower())
        if kind != "VALUE_CONSTANT":  # a constant may be any JSON
            for entry in (node.get("cte_map") or {}).get("map", []):
                self.ctes.add(entry["key"].lower())
            skipped = node["function"] if kind == "TABLE_FUNCTION" else None
            for value in node.values():
                self.visit(value["arguments"] if value is skipped and value is not None else value)

    def judge(self) -> None:
        """Raise InputError for the first thing that is refused."""
        macros = set(catalog.macros())
        if self.statements:
            raise InputError("query", f"{listed(self.statements)} cannot be run here", ALLOWED)
        for name in sorted(self.table_functions - _FUNCTIONS - _SYSTEM_TABLES - macros):
            if name in TABLES:
                raise InputError("query", f"{name!r} is a table", hint=f"write {name} without brackets")
            _refuse(f"table function {name!r}", name, macros)
        known = {*TABLES, catalog.INGESTED, *_SYSTEM_TABLES, *self.ctes}
        for name, schema in sorted(self.tables.items()):
            if schema in _SYSTEM_SCHEMAS or (schema in _SCHEMAS and name in known):
                continue
            if name in macros:
                raise InputError("query", f"{name!r} is a macro", hint=f"write {usage(name)}")
            _refuse(f"table {name!r}", name, macros)
        for name in sorted(self.functions):
            if name in _REFUSED or name.startswith("__"):
                raise InputError(
                    "query", f"function {name!r} cannot be used here", "functions that only compute"
                )


def _refuse(what: str, name: str, macros: set[str]) -> None:
    if name.startswith(("read_", "parquet_", "sniff_")) or name == "glob" or re.search(r"[/.:*\\]", name):
        raise InputError("query", f"{what} cannot be read here: {_NO_FILES}", hint=_LISTING)
    close = nearest(name, [*TABLES, *macros])
    expected = "" if close else f"tables {listed(TABLES)}; macros {listed(macros)}"
    raise InputError("query", f"there is no {what} here", expected, close or _LISTING)


def usage(macro: str) -> str:
    """Return how a macro is called, e.g. `from badput('hbd64')`."""
    return f"from {macro}({', '.join(f'${name}' for name in catalog.macros()[macro].parameters)})"
