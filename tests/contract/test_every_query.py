"""Every file of queries/: what its header says is true, and it is written like the others."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from pipeline.lake import catalog, sql
from pipeline.lake.store import Lake
from pipeline.schema import TABLES

# What a query may be given: by the timelines stage, by the checks, or by a person who calls a macro.
WINDOW = {
    "window_start",
    "window_end",
    "window_us",
    "left_out",
    "left_out_components",
    "left_out_nodes",
    "repair_scale_frac",
    "domain_size",
    "gpus_per_node",
    "fold_s",
    "cause_lead_s",
    "planned_aside",
}
PARAMETERS = {
    "1_events": set(),
    "2_timelines": WINDOW | {"scenario"},
    "3_metrics": {"scenario", "domain_size"},
    "4_outcomes": {"scenario"},
    "checks": WINDOW,
    "adhoc": {"scenario", "node"},
}
QUERIES = sorted(sql.load().values(), key=lambda query: (query.folder, query.name))
CALLABLE = [query for query in QUERIES if query.folder in {"3_metrics", "4_outcomes", "adhoc"}]

every_query = pytest.mark.parametrize("query", [pytest.param(q, id=f"{q.folder}/{q.name}") for q in QUERIES])
every_callable = pytest.mark.parametrize(
    "query", [pytest.param(q, id=f"{q.folder}/{q.name}") for q in CALLABLE]
)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return the catalog of a lake in which nothing has run."""
    with catalog.connect(Lake(tmp_path_factory.mktemp("empty"))) as con:
        yield con


def test_every_file_of_the_folder_is_a_query(repo_root: Path) -> None:
    """There is no folder and no file that nobody reads."""
    files = {path for path in (repo_root / "queries").rglob("*") if path.is_file()}
    assert files == {query.path for query in QUERIES} | {repo_root / "queries" / "README.md"}


@every_query
def test_header_is_complete_and_true(query: sql.Query) -> None:
    """The header has each key once with a value, in one order; `reads` is what the SQL reads."""
    keys = re.findall(r"^-- (\w+):", query.text, flags=re.MULTILINE)
    assert tuple(keys[: len(sql.HEADER)]) == sql.HEADER
    assert all(query.header[key] for key in sql.HEADER)
    assert len(keys) == len(set(keys))
    assert set(query.header["reads"].split(", ")) == sql.parents(query.body)


def test_titles_are_unique() -> None:
    """Two queries that answer one question are one query."""
    counts = Counter(query.header["title"].lower() for query in QUERIES)
    assert not [title for title, count in counts.items() if count > 1]


def test_names_differ_from_stored_tables() -> None:
    """A macro or worked query never hides a table; timelines have the names of the tables they make."""
    assert not {query.name for query in CALLABLE} & set(TABLES)


@every_query
def test_parameters_are_known(query: sql.Query) -> None:
    """A query asks for nothing that its stage, or a person, is not told to give."""
    assert set(query.parameters) <= PARAMETERS[query.folder]


@every_query
def test_form_is_that_of_the_house(query: sql.Query) -> None:
    """Lower case, no tabs, no trailing space, one SELECT without semicolon, 12 to 150 lines."""
    assert 12 <= len(query.text.splitlines()) <= 150
    assert query.text.endswith("\n") and not re.search(
        r"\t|[ \t]$|\n\n\n|\n\n\Z", query.text, flags=re.MULTILINE
    )
    words = re.sub(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*", "", query.body)
    assert not re.search(r"\b[A-Z]{2,}\b", words), "keywords are lower case"
    assert ";" not in words and "/*" not in words


@every_query
def test_body_is_ctes_and_a_select_from_the_last(query: sql.Query) -> None:
    """Read from the top, each step has a name; the end only picks from the last one."""
    assert query.body.startswith(("with\n\n", "with recursive\n\n")), "`with` stands on its own line"
    node = _parsed(query)["statements"][0]["node"]
    names = [entry["key"] for entry in node["cte_map"]["map"]]
    assert names[-1] in set(_from(node)), f"the last CTE {names[-1]} is not what the last SELECT reads"


@every_query
def test_every_cte_is_used(query: sql.Query) -> None:
    """A step nobody reads is removed."""
    node = _parsed(query)["statements"][0]["node"]
    text = re.sub(r"--[^\n]*", "", query.body)
    for entry in node["cte_map"]["map"]:
        name = entry["key"]
        uses = re.findall(rf"(?:\b(?:from|join|(?:un)?pivot)|,)\s+{name}\b", text)
        defined_on_itself = name in sql.parents(query.body)
        assert len(uses) > int(defined_on_itself), name


@every_callable
@pytest.mark.parametrize("value", ["nothing", None])
def test_it_runs_where_nothing_has(
    empty: duckdb.DuckDBPyConnection, query: sql.Query, value: str | None
) -> None:
    """On empty tables, and for an unknown scenario, a query returns without an error."""
    given = {name: (64 if value else None) if name == "domain_size" else value for name in query.parameters}
    empty.execute(query.body, given).fetchall()
    if query.folder != "adhoc":
        marks = ", ".join("?" for _ in given)
        direct = empty.execute(f'select * from "{query.name}"({marks})', list(given.values()))
        assert direct.description and len(direct.description) == len(set(direct.description))
        direct.fetchall()


def _parsed(query: sql.Query) -> Any:
    plain = query.with_parameters(dict.fromkeys(query.parameters, "null"))
    with duckdb.connect(config={"threads": 1}) as con:
        ((text,),) = con.execute("select json_serialize_sql(?::varchar)", [plain]).fetchall()
    return json.loads(text)


def _from(node: dict[str, Any]) -> Iterator[str]:
    """Return the tables that a SELECT reads itself, not through its CTEs."""
    stack = [value for key, value in node.items() if key != "cte_map"]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            if item.get("type") == "BASE_TABLE":
                yield item["table_name"]
            stack.extend(item.values())
