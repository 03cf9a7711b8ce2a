"""What queries/README.md lists: tables, macros, worked questions, the buckets of the ledger."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pipeline.lake import catalog, sql
from pipeline.lake.store import Lake
from pipeline.schema import BUCKET_MEANING, BUCKETS, TABLE_MEANING, TABLES
from tests.docs.markdown import anchor, code, link, table, unit

_NUMBERS = {"domain_size": "64"}  # the arguments that are no text
_TYPES = {
    "VARCHAR": "text", "BIGINT": "int", "INTEGER": "int", "HUGEINT": "int", "DOUBLE": "float",
    "TIMESTAMP": "time", "BOOLEAN": "bool",
}  # fmt: skip


def table_list() -> str:
    """Every stored table in one line."""
    return table(("table", "holds"), [(f"[`{name}`](#{name})", text) for name, text in TABLE_MEANING.items()])


def table_blocks() -> str:
    """Every stored table with its columns."""
    parts = []
    for name, columns in TABLES.items():
        rows = [(f"`{one.name}`", one.type, unit(one.name), one.meaning) for one in columns]
        head = ("column", "type", "unit", "meaning")
        parts.append(f"### {name}\n\n{TABLE_MEANING[name][0].upper()}{TABLE_MEANING[name][1:]}.")
        same = next(other for other, found in TABLES.items() if found is columns)
        parts.append(table(head, rows) if same == name else f"The columns of [{same}](#{same}).")
    return "\n\n".join(parts)


def query_facts(query: sql.Query) -> str:
    """Return what a query's header says."""
    words = {"grain": "grain", "units": "units", "source": "source", "caveat": "easy to get wrong"}
    facts = [f"- {said}: {query.header[key]}" for key, said in words.items()]
    return "\n".join([*facts, f"- SQL: {link(query.path)}"])


def macro_list() -> str:
    """Every macro in one line."""
    rows = [(f"[`{q.name}`](#{anchor(signature(q))})", q.header["title"]) for q in by_name(catalog.macros())]
    return table(("macro", "answers"), rows)


def macro_blocks() -> str:
    """Every macro: arguments, what its header says, and the columns it gives."""
    parts = []
    with empty_catalog() as con:
        for query in by_name(catalog.macros()):
            given = ", ".join(examples(query).values())
            found = con.execute(f'describe select * from "{query.name}"({given})').fetchall()
            rows = [(f"`{name}`", _TYPES.get(kind, kind.lower()), unit(name)) for name, kind, *_ in found]
            parts.append(f"### {signature(query)}\n\n{query.header['title']}.\n\n{query_facts(query)}")
            parts.append(table(("column", "type", "unit"), rows))
    return "\n\n".join(parts)


def question_blocks() -> str:
    """Every worked question."""
    parts = []
    with empty_catalog() as con:
        for query in by_name(sql.load("adhoc")):
            given = "".join(f" --param {name}={name.upper()}" for name in query.parameters)
            asked = f"`goodput sql -f {query.name}{given}`"
            found = con.execute(f"describe {query.with_parameters(examples(query))}").fetchall()
            facts = f"{query_facts(query)}\n- columns: {code(name for name, *_ in found)}"
            parts.append(f"### {query.name}\n\n{query.header['title']} {asked}\n\n{facts}")
    return "\n\n".join(parts)


def stage_blocks() -> str:
    """The queries that people do not call: those that make tables, and the checks."""
    rows = [
        (link(query.path, f"{query.folder}/{query.name}"), query.header["title"])
        for query in sql.load("1_events", "2_timelines", "checks").values()
    ]
    return table(("query", "makes or checks"), rows)


def bucket_blocks() -> str:
    """Every bucket of the ledger."""
    return table(("bucket", "meaning"), [(f"`{name}`", BUCKET_MEANING[name]) for name in BUCKETS])


def examples(query: sql.Query) -> dict[str, str]:
    """Return an argument for each of a query's parameters, as SQL."""
    return {name: _NUMBERS.get(name, "'x'") for name in query.parameters}


def by_name(queries: dict[str, sql.Query]) -> list[sql.Query]:
    """Return queries in the order of their names."""
    return [queries[name] for name in sorted(queries)]


def signature(query: sql.Query) -> str:
    """Return a macro's name and arguments."""
    return f"{query.name}({', '.join(query.parameters)})"


@contextmanager
def empty_catalog() -> Iterator[Any]:
    """Yield the catalog of a lake in which nothing has run."""
    with tempfile.TemporaryDirectory() as folder, catalog.connect(Lake(Path(folder))) as con:
        yield con
