"""The catalog file: views and macros that open read-only, at any moment, from any client."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from lake.conftest import fill, publish, rows

from pipeline.errors import InputError
from pipeline.lake import catalog
from pipeline.lake.store import Lake
from pipeline.schema import TABLES


def count(con: duckdb.DuckDBPyConnection, table: str) -> int:
    ((number,),) = con.execute(f'select count(*) from "{table}"').fetchall()
    return number


def opened(lake: Lake) -> duckdb.DuckDBPyConnection:
    return duckdb.connect(str(lake.catalog_path), read_only=True)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the macros out, where a test is about files and names: binding them takes most of the time."""
    monkeypatch.setattr(catalog, "macros", dict)


def test_every_table_of_the_schema_opens(lake: Lake) -> None:
    """Tables with and without files are there, with the schema's columns in their order."""
    catalog.write(lake)
    with opened(lake) as con:
        for table, columns in TABLES.items():
            described = con.execute(f'describe "{table}"').fetchall()
            assert [row[0] for row in described] == [column.name for column in columns], table
        assert count(con, "outcomes") == 3 and count(con, "splits") == 0


def test_events_are_each_once(bare: None, lake: Lake) -> None:
    """`events` drops rows that were sent again; `ingested_events` keeps them."""
    catalog.write(lake)
    with opened(lake) as con:
        assert count(con, "ingested_events") == 3 and count(con, "events") == 2


def test_runs_are_all_there(bare: None, lake: Lake) -> None:
    """Runs written after the catalog are seen too, the one that wrote it included."""
    catalog.stage(lake, lambda _: None)
    publish(lake, "replay", "later", {})
    with opened(lake) as con:
        assert {row[0] for row in con.execute("select stage from runs").fetchall()} == {
            "ingest", "timelines", "replay", "catalog",
        }  # fmt: skip
        assert count(con, "runs") == 5


def test_an_empty_lake_has_a_catalog(tmp_path: Path) -> None:
    """Before any run every table is there, empty."""
    lake = Lake(tmp_path)
    catalog.write(lake)
    with opened(lake) as con:
        assert all(count(con, table) == 0 for table in TABLES)


def test_every_column_view_and_macro_has_a_comment(lake: Lake) -> None:
    """The catalog explains itself, with the schema's own words."""
    catalog.write(lake)
    with opened(lake) as con:
        comments = con.execute(
            "select table_name, column_name, comment from duckdb_columns() where not internal"
        ).fetchall()
        found = {(table, column): text for table, column, text in comments if table in TABLES}
        assert found == {(t, c.name): c.meaning for t, columns in TABLES.items() for c in columns}
        views = con.execute("select view_name, comment from duckdb_views() where not internal").fetchall()
        assert all(text for name, text in views if name != catalog.INGESTED)
        macros = con.execute(
            "select function_name, comment from duckdb_functions()"
            " where function_type = 'table_macro' and not internal"
        ).fetchall()
        assert dict(macros) == {name: query.header["title"] for name, query in catalog.macros().items()}


def test_older_clients_can_open_it(lake: Lake) -> None:
    """The file is in the storage format of DuckDB 1.4, whatever version writes it."""
    catalog.write(lake)
    with opened(lake) as con:
        ((tags,),) = con.execute("select tags from duckdb_databases() where not internal").fetchall()
    assert tags["storage_version"].startswith("v1.4")


def test_it_holds_no_data(bare: None, lake: Lake) -> None:
    """The file is small and does not grow with the tables."""
    catalog.write(lake)
    before = lake.catalog_path.stat().st_size
    publish(lake, "replay", "big", {"outcomes": rows("outcomes", 20_000)})
    catalog.write(lake)
    assert lake.catalog_path.stat().st_size <= before + 4096
    with opened(lake) as con:
        assert count(con, "outcomes") == 20_003


@pytest.mark.parametrize(
    "name", ["with space", "it's", 'a "quoted" one', "ünï-çødé", "semi;colon", "star*", "[ab]", "$x", "-- x"]
)
def test_any_folder_name_will_do(bare: None, tmp_path: Path, name: str) -> None:
    """The root may hold quotes, spaces and characters that mean something in a pattern."""
    lake = fill(Lake(tmp_path / name / "lake"))
    catalog.write(lake)
    with opened(lake) as con:
        assert count(con, "outcomes") == 3 and count(con, "runs") == 3
    with catalog.connect(lake) as con:
        assert count(con, "events") == 2


def test_a_relative_root_opens_from_another_folder(
    bare: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Views hold absolute paths."""
    monkeypatch.chdir(tmp_path)
    lake = fill(Lake(Path("built")))
    catalog.write(lake)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with duckdb.connect(str(tmp_path / "built" / "goodput.duckdb"), read_only=True) as con:
        assert count(con, "outcomes") == 3


def test_an_open_reader_keeps_its_catalog(bare: None, lake: Lake) -> None:
    """Writing does not wait for readers, and does not disturb them."""
    catalog.write(lake)
    with opened(lake) as con:
        publish(lake, "replay", "small", {"outcomes": rows("outcomes", 1)}, changed=True)
        catalog.write(lake)
        assert count(con, "outcomes") == 3
    with opened(lake) as con:
        assert count(con, "outcomes") == 1
    assert not list(lake.root.glob(".*.tmp*"))


def test_a_question_mark_in_the_root_is_a_clear_error(tmp_path: Path) -> None:
    """DuckDB cannot write below such a folder; the message says which and what to do."""
    with pytest.raises(InputError, match=r"what\?[\s\S]*--root"):
        catalog.write(Lake(tmp_path / "what?"))


READER = """
import os, sys, time, concurrent.futures, duckdb
path, stop = sys.argv[1:]
def read(_):
    opened = 0
    while not os.path.exists(stop):
        with duckdb.connect(path, read_only=True, config={"threads": 1}) as con:
            ((rows,),) = con.execute("select count(*) from outcomes").fetchall()
        assert rows in (3, 5), rows
        opened += 1
        time.sleep(0.2)
    return opened
with concurrent.futures.ThreadPoolExecutor(5) as pool:
    print(sum(pool.map(read, range(5))))
"""


@pytest.mark.slow
def test_readers_never_meet_a_lock_or_half_a_catalog(bare: None, lake: Lake) -> None:
    """Twenty readers in four processes open the catalog while it is rewritten: each sees old or new."""
    catalog.write(lake)
    stop = lake.root / "stop"
    command = [sys.executable, "-c", READER, str(lake.catalog_path), str(stop)]
    readers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    time.sleep(1)
    for turn in range(3):
        publish(lake, "replay", "small", {"outcomes": rows("outcomes", (3, 5)[turn % 2])}, turn=turn % 2)
        catalog.write(lake)
    stop.touch()
    results = [reader.communicate(timeout=60) for reader in readers]
    assert [reader.returncode for reader in readers] == [0] * 4, [error for _, error in results if error][:1]
    assert sum(int(output) for output, _ in results) > 20


def test_the_stage_runs_only_when_tables_or_queries_change(bare: None, lake: Lake) -> None:
    """Publishing the same tables again writes no catalog; a new table does."""
    assert catalog.stage(lake, lambda _: None)[1]
    assert not catalog.stage(lake, lambda _: None)[1]
    publish(lake, "replay", "small", {"outcomes": rows("outcomes", 2)}, changed=True)
    assert catalog.stage(lake, lambda _: None)[1]


def test_a_moved_root_gets_a_new_catalog(bare: None, lake: Lake) -> None:
    """Its paths are absolute, so a lake that was moved is written anew."""
    catalog.stage(lake, lambda _: None)
    moved = Lake(lake.root.rename(lake.root.with_name("moved")))
    assert catalog.stage(moved, lambda _: None)[1]
    with opened(moved) as con:
        assert count(con, "outcomes") == 3


def test_a_failed_write_leaves_the_old_catalog(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that does not bind stops the write; the published file stays and nothing is left over."""
    catalog.write(lake)
    before = lake.catalog_path.read_bytes()

    def broken(con: duckdb.DuckDBPyConnection) -> None:
        con.execute("create view v as select * from nowhere")

    monkeypatch.setattr(catalog, "define_derived", broken)
    with pytest.raises(duckdb.Error):
        catalog.write(lake)
    assert lake.catalog_path.read_bytes() == before and not list(lake.root.glob(".goodput*"))
