"""A person's SQL reads the lake's tables and does nothing else: no file, no setting, no change, no hang."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from lake.conftest import fill, publish, rows, tree

from pipeline.errors import InputError
from pipeline.lake import catalog, guard, sandbox
from pipeline.lake.sandbox import Limits
from pipeline.lake.store import Lake
from pipeline.schema import TABLES

SECRET = "a-secret-outside-the-lake"
LIMITS = Limits(time_s=30, memory_mib=256, threads=2)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a lake, a file outside it, and an empty working folder."""
    folder = tmp_path_factory.mktemp("world")
    catalog.write(fill(Lake(folder / "lake")))
    (folder / "secret.txt").write_text(f"{SECRET}\n")
    (folder / "secret.csv").write_text(f"a,b\n{SECRET},1\n")
    (folder / "secret.json").write_text(f'{{"a": "{SECRET}"}}')
    (folder / "dump").mkdir()
    (folder / "dump" / "schema.sql").write_text(f"create table t as select '{SECRET}' as a;")
    (folder / "dump" / "load.sql").write_text("")
    (folder / "here").mkdir()
    return folder


@pytest.fixture(scope="module")
def con(world: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return one open sandbox; that it still works after every attack is part of the tests."""
    with sandbox.open_sandbox(Lake(world / "lake"), LIMITS) as opened:
        yield opened


@pytest.fixture(scope="module")
def bare_con(world: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return another sandbox, whose statements go to DuckDB past the first wall."""
    with sandbox.open_sandbox(Lake(world / "lake"), LIMITS) as opened:
        yield opened


# {w} is the world's folder. Grouped by what they try; every one must be refused with a clear message.
ATTACKS = {
    "write": [
        "copy outcomes to '{w}/out.csv'",
        "copy (select 1) to '{w}/lake/manifest.json'",
        "copy (select 1) to '/dev/stdout'",
        "copy (select 1) to '{w}/parts' (format parquet, partition_by ('1'))",
        "copy outcomes from '{w}/secret.csv'",
        "export database '{w}/exported'",
        "import database '{w}/dump'",
        "explain analyze copy (select 1) to '{w}/out.csv'",
        "explain (analyze) copy (select 1) to '{w}/out.csv'",
        "explain (analyze, format json) copy (select 1) to '{w}/out.csv'",
        "explain copy (select 1) to '{w}/out.csv'",
        "with a as (copy (select 1) to '{w}/out.csv') select 1",
        "with a as materialized (copy (select 1) to '{w}/out.csv' (format parquet)) select * from a",
        "with a as (with b as (copy (select 1) to '{w}/out.csv') select 1) select * from a",
        "select * from (with a as (copy (select 1) to '{w}/out.csv') select 1)",
        "select 1 where exists (with a as (copy (select 1) to '{w}/out.csv') select 1)",
        "explain analyze with a as (copy (select 1) to '{w}/out.csv') select 1",
        "describe with a as (copy (select 1) to '{w}/out.csv') select 1",
        "summarize with a as (copy (select 1) to '{w}/out.csv') select 1",
        "with a as (insert into outcomes select * from outcomes returning *) select * from a",
        "with a as (delete from outcomes returning *) select * from a",
        "with a as (update outcomes set dp = 1 returning *) select * from a",
        "attach '{w}/new.duckdb'",
        "attach '{w}/lake/goodput.duckdb' as g (read_only)",
        "attach ':memory:' as m",
        "copy from database memory to m",
    ],
    "read": [
        "select * from read_csv('{w}/secret.csv')",
        "select * from read_csv_auto('{w}/secret.csv')",
        "select * from read_text('{w}/secret.txt')",
        "select * from read_blob('{w}/secret.txt')",
        "select * from read_json('{w}/secret.json')",
        "select * from read_json_auto('{w}/secret.json')",
        "select * from read_ndjson('{w}/secret.json')",
        "select * from read_ndjson_objects('{w}/secret.json')",
        "select * from read_text('/etc/passwd')",
        "select * from read_parquet('{w}/lake/runs/*.parquet')",
        "select * from parquet_scan('{w}/lake/runs/*.parquet')",
        "select * from parquet_metadata('{w}/lake/runs/*.parquet')",
        "select * from parquet_kv_metadata('{w}/lake/runs/*.parquet')",
        "select * from read_duckdb('{w}/lake/goodput.duckdb')",
        "select * from glob('{w}/*')",
        "select * from sniff_csv('{w}/secret.csv')",
        "select * from '{w}/secret.csv'",
        'select * from "{w}/secret.csv"',
        "from '{w}/lake/runs/*.parquet'",
        "from '/etc/passwd'",
        "describe '{w}/secret.csv'",
        "summarize '{w}/secret.csv'",
        "describe select * from '{w}/secret.csv'",
        "explain select * from '{w}/secret.csv'",
        "select (select a from '{w}/secret.csv')",
        "select * from outcomes where policy in (from '{w}/secret.csv' select a)",
        "with a as (from '{w}/secret.csv') from a",
        "from outcomes, lateral (from read_text('{w}/secret.txt'))",
        "from read_text((select '{w}/secret.txt'))",
        "from 'file:{w}/secret.csv'",
        "from 'file://{w}/secret.csv'",
        "from 'https://example.invalid/a.parquet'",
        "from 's3://bucket/a.parquet'",
        "from read_csv('http://example.invalid/a.csv')",
        "from secret.csv",
        'from main."{w}/secret.csv"',
        "from query('from read_text(''{w}/secret.txt'')')",
        "from query_table('{w}/secret.csv')",
        "from query_table(['outcomes'])",
        "from json_execute_serialized_sql(json_serialize_sql('from read_text(''{w}/secret.txt'')'))",
        "select json_serialize_plan('from read_text(''{w}/secret.txt'')')",
        "from histogram('{w}/secret.csv', a)",
        "from duckdb_secrets()",
        "from which_secret('s3://x', 's3')",
        "from duckdb_settings()",
        "from duckdb_extensions()",
        "from duckdb_databases()",
        "from duckdb_logs",
        "from duckdb_temporary_files()",
        "from pragma_storage_info('outcomes')",
        "from pragma_table_info('outcomes')",
        "from pragma_database_size()",
        "select getenv('HOME')",
    ],
    "python": [
        "from world",
        "from rows_in_a_frame",
        "from rows_in_the_module",
        "select * from python_arrow_scan()",
        "select * from arrow_scan(1, 2, 3)",
        "select * from arrow_scan_dumb(1, 2, 3)",
        "select * from pandas_scan(1)",
        "select * from python_map_function()",
        "select * from seq_scan()",
    ],
    "change": [
        "create table t (a int)",
        "create temp table t as select 1",
        "create or replace view outcomes as select 1",
        "create macro m() as 1",
        "create type t as enum ('a')",
        "create sequence s",
        "create schema s",
        "create secret s (type http, bearer_token 'x')",
        "create persistent secret s (type http, bearer_token 'x')",
        "insert into outcomes select * from outcomes",
        "update outcomes set dp = 1",
        "delete from outcomes",
        "truncate outcomes",
        "merge into outcomes using outcomes as o on false when not matched then insert",
        "drop view outcomes",
        "drop macro table badput",
        "drop table if exists t",
        "alter view outcomes rename to o",
        "comment on view outcomes is 'x'",
        "select nextval('s')",
        "set memory_limit = '100GB'",
        "set enable_external_access = true",
        "set global threads = 64",
        "set variable x = 1",
        "set search_path = 'temp'",
        "reset memory_limit",
        "reset variable x",
        "pragma enable_profiling = 'json'",
        "pragma profile_output = '{w}/profile.json'",
        "pragma version",
        "pragma database_list",
        "call enable_logging(storage = 'file', storage_path = '{w}/logs')",
        "call enable_profiling(format = 'json', save_location = '{w}/profile.json')",
        "from enable_logging(storage = 'file', storage_path = '{w}/logs')",
        "from enable_profiling(format = 'json', save_location = '{w}/profile.json')",
        "from disable_logging()",
        "from truncate_duckdb_logs()",
        "from create_external_resource('a')",
        "from add_grammar_extension('a')",
        "from force_checkpoint()",
        "from checkpoint()",
        "select write_log('x', level := 'info')",
        "call pragma_version()",
        "checkpoint",
        "force checkpoint",
        "vacuum",
        "vacuum outcomes",
        "analyze",
        "use memory",
        "detach memory",
        "install httpfs",
        "install 'x' from '{w}'",
        "load httpfs",
        "load '{w}/x.duckdb_extension'",
        "update extensions",
        "prepare p as select 1",
        "execute p",
        "deallocate p",
        "begin",
        "commit",
        "explain create table t as select 1",
        "explain drop view outcomes",
        "explain analyze insert into outcomes select * from outcomes",
    ],
    "disguise": [
        "",
        "   ",
        ";",
        ";;",
        "-- only a comment",
        "/* only a comment",
        "select 1; select 2",
        "select 1; copy (select 1) to '{w}/out.csv'",
        "select 1;\n-- x\ncopy (select 1) to '{w}/out.csv'",
        "select 1 /* ; */ ; copy (select 1) to '{w}/out.csv' -- ;",
        "select ';' ; copy (select 1) to '{w}/out.csv'",
        "select 1\u00a0;\u00a0copy (select 1) to '{w}/out.csv'",
        "select 1\u2003;\u2003copy (select 1) to '{w}/out.csv'",
        "select 1\x00; copy (select 1) to '{w}/out.csv'",
        "/* select */ copy (select 1) to '{w}/out.csv'",
        "-- select\ncopy (select 1) to '{w}/out.csv'",
        "/* /* */ select 1 */ copy (select 1) to '{w}/out.csv'",
        "CoPy (SeLeCt 1) To '{w}/out.csv'",
        "\ufeffcopy (select 1) to '{w}/out.csv'",
        "\u200bcopy (select 1) to '{w}/out.csv'",
        "explain /* x */ analyze /* y */ copy (select 1) to '{w}/out.csv'",
        "explain -- select\ncopy (select 1) to '{w}/out.csv'",
        "explain select 1; copy (select 1) to '{w}/out.csv'",
        "explain analyze select 1; copy (select 1) to '{w}/out.csv'",
        "explain analyze explain analyze copy (select 1) to '{w}/out.csv'",
        "(copy (select 1) to '{w}/out.csv')",
        "from (copy (select 1) to '{w}/out.csv')",
        "select * from (insert into outcomes select * from outcomes returning *)",
        "describe copy (select 1) to '{w}/out.csv'",
        "select $$; copy (select 1) to '{w}/out.csv'",
        "from read\u005ftext('{w}/secret.txt')",
        "from READ_TEXT('{w}/secret.txt')",
        "from \"read_text\"('{w}/secret.txt')",
        "from main.read_text('{w}/secret.txt')",
        "from system.main.read_text('{w}/secret.txt')",
        "from U&'\\002Fetc\\002Fpasswd'",
        "pivot outcomes on policy using sum(dp)",  # reads only, but as a statement of several parts
        "select \ud800",
    ],
}  # fmt: skip
CASES = [
    pytest.param(text, id=f"{group}-{n}") for group, texts in ATTACKS.items() for n, text in enumerate(texts)
]
rows_in_the_module = pa.table({"a": [SECRET]})


def attack(text: str, world: Path) -> str:
    return text.replace("{w}", str(world))


@pytest.mark.parametrize("text", CASES)
def test_an_attack_is_refused_in_clear_words(
    con: duckdb.DuckDBPyConnection, world: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """What does more than read the tables is an InputError, and no file anywhere has changed."""
    monkeypatch.chdir(world / "here")
    rows_in_a_frame = pa.table({"a": [SECRET]})
    before = tree(world)
    with pytest.raises(InputError) as caught:
        sandbox.execute(con, attack(text, world), limits=LIMITS)
    assert tree(world) == before and rows_in_a_frame.num_rows == 1
    message = str(caught.value)
    assert caught.value.exit_code == 2 and SECRET not in message and "Traceback" not in message
    assert len(message) > 20 and "Permission" not in message  # the first wall's own words
    assert con.execute("select count(*) from outcomes").fetchall() == [(3,)]


@pytest.mark.parametrize("text", CASES)
def test_the_lock_holds_without_the_first_wall(
    bare_con: duckdb.DuckDBPyConnection, world: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """Given to DuckDB as it is, an attack still neither writes a file nor sees one.

    DuckDB runs some of them, and that is harmless: what is created, dropped, attached (`:memory:`), prepared
    or set as a variable lives in this connection's memory, which ends with the query; checkpoint, vacuum and
    analyze have no file to work on; `duckdb_secrets`, logs and external resources are empty.
    """
    monkeypatch.chdir(world / "here")
    rows_in_a_frame = pa.table({"a": [SECRET]})
    before, found, own = tree(world), "", bare_con.cursor()
    own.execute("begin")  # what is harmless is undone for the next case
    try:
        result = own.execute(attack(text, world))
        found = str(result.fetchall()) if result else ""
    except (duckdb.Error, UnicodeEncodeError) as error:
        found = str(error)
    finally:
        own.close()
    assert tree(world) == before and rows_in_a_frame.num_rows == 1
    assert SECRET not in found and "root:" not in found


def test_nothing_can_be_unlocked(bare_con: duckdb.DuckDBPyConnection) -> None:
    """No setting can be changed once the sandbox is open; the search path leads to memory alone."""
    names = [row[0] for row in bare_con.execute("select name from duckdb_settings()").fetchall()]
    assert len(names) > 100
    changed = []
    for name in names:
        for statement in (f"set {name} = '1'", f"set global {name} = 1", f"reset {name}"):
            try:
                bare_con.execute(statement)
                changed.append(statement)
            except duckdb.Error:
                pass
    assert set(changed) <= {"reset schema", "reset search_path"}


def test_settings_and_views_show_no_machine_path(con: duckdb.DuckDBPyConnection, world: Path) -> None:
    """What can be asked of DuckDB about itself names no folder of this machine."""
    asked = (
        "select * from duckdb_settings()",
        "select * from duckdb_views() where not internal",
        "select * from duckdb_tables()",
        "select * from duckdb_columns()",
        "select * from duckdb_databases()",
        "select current_setting('secret_directory'), current_setting('extension_directories')",
        "select * from information_schema.tables",
        "explain select * from events",
        "explain analyze select * from events",
    )
    for query in asked:
        shown = str(con.execute(query).fetchall())
        assert str(world) not in shown and str(Path.home()) not in shown, query


# --- what may be asked ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("select * from outcomes", 3),
        ("from outcomes;", 3),
        ("-- why\nfrom outcomes -- ; drop view outcomes", 3),
        ("FROM Outcomes", 3),
        ("from main.events", 2),
        ("from ingested_events", 3),
        ("from splits", 0),
        ("table outcomes", 3),
        ("values (1), (2)", 2),
        ("with recursive n as (select 1 as i union all select i + 1 from n where i < 5) from n", 5),
        ("with events as (from events limit 1) from events", 1),
        ("from outcomes pivot (sum(dp) for policy in ('ntp', 'rigid'))", 3),
        ("select unnest(range(4))", 4),
        ("from generate_series(1, 5)", 5),
        ("from json_each('[1, 2]')", 2),
        ("from outcomes asof join outcome_timeline using (policy, placement_seed)", 0),
        ("describe outcomes", len(TABLES["outcomes"])),
        ("summarize outcomes", len(TABLES["outcomes"])),
        ("select * from duckdb_columns() where table_name = 'outcomes'", len(TABLES["outcomes"])),
        ("from information_schema.tables where table_name = 'outcomes'", 1),
        ("explain select * from outcomes", 1),
        ("explain analyze select * from outcomes", 1),
        ("explain (analyze) from outcomes", 1),
        ("/* a */ explain /* b */ from outcomes", 1),
        ("explain (select 1)", 1),
        ("select 'copy x to ''y''; drop table z' as text", 1),
        ("select $$; copy$$ as text", 1),
        ("from (values ('/etc/passwd')) as files(name)", 1),
    ],
)
def test_reading_is_allowed(con: duckdb.DuckDBPyConnection, query: str, count: int) -> None:
    """Whatever only reads the tables runs, also when its texts look like attacks."""
    if "pivot" in query:
        count = sandbox.execute(con, query, limits=LIMITS).num_rows
    assert sandbox.execute(con, query, limits=LIMITS).num_rows == count


def test_show_tables_lists_the_lake(con: duckdb.DuckDBPyConnection) -> None:
    """`show tables` is a way in: it names every table of the schema."""
    names = sandbox.execute(con, "show tables").column("name").to_pylist()
    assert set(names) == {*TABLES, catalog.INGESTED}


@pytest.mark.parametrize("name", sorted(catalog.macros()))
def test_every_macro_can_be_called(con: duckdb.DuckDBPyConnection, name: str) -> None:
    """The catalog's macros are there, with the parameters their files name."""
    given = {key: "64" if key == "domain_size" else "small" for key in catalog.macros()[name].parameters}
    sandbox.execute(con, guard.usage(name), given, LIMITS)


def test_run_reads_the_current_tables(lake: Lake) -> None:
    """Each run opens the lake anew and sees what was published last."""
    assert sandbox.run(lake, "select count(*) as n from outcomes").to_pylist() == [{"n": 3}]
    publish(lake, "replay", "small", {"outcomes": rows("outcomes", 1)}, changed=True)
    assert sandbox.run(lake, "select count(*) as n from outcomes").to_pylist() == [{"n": 1}]


def test_an_empty_lake_has_empty_tables(tmp_path: Path) -> None:
    """Before any run every table can be read and is empty."""
    table = sandbox.run(Lake(tmp_path / "none"), "from events")
    assert table.num_rows == 0 and table.schema.names == [column.name for column in TABLES["events"]]
    assert not (tmp_path / "none").exists()


def test_a_missing_file_is_a_clear_error(lake: Lake) -> None:
    """A table whose file was removed is named, with what to do."""
    record = lake.record("replay", "small")
    assert record is not None
    lake.table(record, "outcomes").unlink()
    with pytest.raises(InputError, match=r"outcomes: its file .*gone[\s\S]*goodput run"):
        sandbox.run(lake, "select 1")


def test_a_damaged_file_is_a_clear_error(lake: Lake) -> None:
    """A file that is no Parquet is an error of the query that reads it, not a traceback."""
    record = lake.record("replay", "small")
    assert record is not None
    lake.table(record, "outcomes").write_bytes(b"PAR1 not really PAR1")
    with pytest.raises(InputError, match="query: "):
        sandbox.run(lake, "from outcomes")


def test_columns_of_one_name_get_numbers(con: duckdb.DuckDBPyConnection) -> None:
    """Two columns of one name are both kept, under names of their own."""
    table = sandbox.execute(con, "select 1 as a, 2 as a, 3 as b, 4 as a")
    assert table.schema.names == ["a", "a_2", "b", "a_3"] and len(table.to_pylist()[0]) == 4


# --- limits -----------------------------------------------------------------------------------------------

FOREVER = (
    "select count(*) from range(1_000_000_000_000)",
    "select count(*) from range(90_000) as a, range(90_000) as b, range(90_000) as c where hash(a, b, c) = 1",
    "with recursive n as (select 1 as i union all select i + 1 from n) select max(i) from n",
    "select sleep_ms(60_000)",
    "explain analyze select count(*) from range(1_000_000_000_000)",
)  # fmt: skip


@pytest.mark.parametrize("query", FOREVER)
def test_time_is_limited(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """A query that does not end is stopped; the message says after how long and how to allow more."""
    started = time.monotonic()
    limits = Limits(time_s=0.4, memory_mib=LIMITS.memory_mib)
    with pytest.raises(InputError, match=r"stopped after 0\.4 s[\s\S]*--timeout 0\.8"):
        sandbox.execute(con, query, limits=limits)
    assert time.monotonic() - started < 10
    assert sandbox.execute(con, "select 42 as a").to_pylist() == [{"a": 42}]


HOGS = (
    "select list(range) from range(500_000_000)",
    "select count(distinct hash(range)) from range(500_000_000)",
    "select range from range(500_000_000) order by hash(range)",  # would spill, if there were a place
    "select string_agg(repeat('x', 1_000_000)) from range(100_000)",
    "select len(range(2_000_000_000))",  # one vector: DuckDB's own limit does not count it
    "select len(repeat('abcdefghij', 400_000_000))",
    "from range(1_000_000_000)",  # DuckDB streams this; the result would not fit
    "select repeat('abcdefghij', 100_000) as a from range(1_000_000)",
)  # fmt: skip


@pytest.mark.parametrize("query", HOGS)
def test_memory_is_limited(con: duckdb.DuckDBPyConnection, world: Path, query: str) -> None:
    """A query that needs too much memory, for work or for its result, is refused and spills nowhere."""
    before = tree(world)
    with pytest.raises(InputError, match="needs too much memory") as caught:
        sandbox.execute(con, query, limits=LIMITS)
    assert "256 MiB" in str(caught.value) and tree(world) == before
    assert sandbox.execute(con, "select 42 as a").to_pylist() == [{"a": 42}]


def test_the_process_limit_is_put_back(con: duckdb.DuckDBPyConnection) -> None:
    """After a query, refused or not, the process may use as much memory as before."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_DATA)
    with pytest.raises(InputError):
        sandbox.execute(con, "select len(range(2_000_000_000))", limits=LIMITS)
    sandbox.execute(con, "select 1", limits=LIMITS)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_no_thread_is_left(con: duckdb.DuckDBPyConnection) -> None:
    """The clock of a query ends with it."""
    before = threading.active_count()
    sandbox.execute(con, "select 1")
    assert threading.active_count() == before


INTERRUPTED = """
import os, pathlib, signal, sys, threading, time
from pipeline.lake import sandbox, store
threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
started = time.monotonic()
try:
    sandbox.run(store.Lake(pathlib.Path(sys.argv[1])), sys.argv[2])
except KeyboardInterrupt:
    print("interrupted", time.monotonic() - started < 15)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ["select count(*) from range(1_000_000_000_000)", "select sleep_ms(50_000)"]
)
def test_ctrl_c_ends_a_query(world: Path, repo_root: Path, query: str) -> None:
    """Ctrl-C stops a query at once, while it is planned as well as while it runs."""
    command = [sys.executable, "-c", INTERRUPTED, str(world / "lake"), query]
    result = subprocess.run(command, cwd=repo_root, capture_output=True, text=True, check=False)
    assert result.stdout == "interrupted True\n", result.stderr


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 1e12])
def test_a_timeout_is_a_number_of_seconds(lake: Lake, timeout_s: float) -> None:
    """Nonsense is refused before anything runs."""
    with pytest.raises(InputError, match="--timeout"):
        sandbox.run(lake, "select 1", timeout_s=timeout_s)


@pytest.mark.parametrize(
    "query",
    [
        "select " + "(" * 5000 + "1" + ")" * 5000,
        "select " + "1 + " * 20_000 + "1",
        "select * from " + "(select * from " * 3000 + "outcomes" + ")" * 3000,
        "select " + "-" * 5000 + "1",
        "select " + "not " * 5000 + "true",
        "select " + "[" * 3000 + "]" * 3000,
        "select '" + "x" * 200_000 + "'",
        "with " + ", ".join(f"c{n} as (from c{n - 1})" for n in range(1, 2000)) + " from c1999",
    ],
    ids=range(8),
)  # fmt: skip
def test_monstrous_queries_are_refused(con: duckdb.DuckDBPyConnection, query: str) -> None:
    """Depth and length end in a message, not in a crash."""
    with pytest.raises(InputError):
        sandbox.execute(con, query, limits=LIMITS)


# --- messages ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("selct 1", r"syntax error at or near \"selct\"[\s\S]*\^"),
        ("select foo from outcomes", r"\"foo\" not found"),
        ("select goodput from outcomes", r"goodput_frac"),
        ("from outcome", r"no table 'outcome'[\s\S]*did you mean 'outcomes'"),
        ("from zzzzzzzz", r"no table 'zzzzzzzz'[\s\S]*cluster_timeline[\s\S]*--describe"),
        ("from badputt('x')", r"did you mean 'badput'"),
        ("from badput", r"macro[\s\S]*from badput\(\$scenario\)"),
        ("from outcomes('x')", r"is a table[\s\S]*without brackets"),
        ("from badput()", r"badput"),
        ("select 1 // 0", r"[Dd]ivision"),
        ("select 'x'::int", r"Could not convert"),
        ("from '/etc/passwd'", r"no files and no addresses"),
        ("copy outcomes to 'x'", r"COPY cannot be run here[\s\S]*SELECT"),
        ("with a as (copy outcomes to 'x') from a", r"COPY cannot be run here"),
        ("with a as (delete from outcomes returning *) from a", r"DELETE cannot be run here"),
        ("select 1; select 2", r"2 statements"),
        ("", r"empty"),
        ("pivot outcomes on policy using sum(dp)", r"PIVOT without IN"),
    ],
)
def test_a_mistake_is_explained(con: duckdb.DuckDBPyConnection, query: str, expected: str) -> None:
    """The message says what was wrong, where, and what there is instead; it is short."""
    with pytest.raises(InputError, match=expected) as caught:
        sandbox.execute(con, query, limits=LIMITS)
    assert str(caught.value).startswith("query: ") and len(str(caught.value).splitlines()) < 14


# --- parameters -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1), ("-17", -17), ("0", 0), ("1.5", 1.5), ("-0.5e3", -500.0), ("1e3", 1000.0),
        ("hbd64", "hbd64"), ("", ""),
        ("007", "007"), ("1_000", "1_000"), ("nan", "nan"), ("inf", "inf"), (" 1", " 1"),
        ("'17'", "17"),
        ("'", "'"), ("''", ""), ("1.", "1."), ("+1", "+1"), ("0x10", "0x10"), ("٣", "٣"),
        ("123456789012345678", 123456789012345678), ("it's; drop", "it's; drop"),
    ],
)  # fmt: skip
def test_values_are_typed(con: duckdb.DuckDBPyConnection, text: str, value: object) -> None:
    """Numbers as people write them are numbers; everything else, and what is in quotes, is text."""
    given = sandbox.execute(con, "select $x as x", {"x": text}).to_pylist()[0]["x"]
    assert given == value and type(given) is type(value)


def test_a_parameter_is_a_value_and_never_sql(con: duckdb.DuckDBPyConnection) -> None:
    """A text that would close a quote finds nothing and breaks nothing."""
    query = "select count(*) as n from outcomes where policy = $policy"
    assert sandbox.execute(con, query, {"policy": "ntp"}).to_pylist() == [{"n": 1}]
    assert sandbox.execute(con, query, {"policy": "' or true --"}).to_pylist() == [{"n": 0}]
    with pytest.raises(InputError):
        sandbox.execute(con, "from $table", {"table": "outcomes"})


@pytest.mark.parametrize(
    ("query", "given", "expected"),
    [
        ("select $a", {}, r"no value for \$a[\s\S]*--param a=VALUE"),
        ("select $b, $a", {}, r"no value for \$a, \$b"),
        (
            "select $scenario",
            {"scenari": "x", "scenario": "x"},
            r"--param scenari[\s\S]*did you mean 'scenario'",
        ),
        ("select 1", {"a": "1"}, r"no \$a[\s\S]*none"),
        ("select '$a' -- $a", {"a": "1"}, r"no \$a"),
        ("select ?", {}, r"without a name"),
        ("select $1", {"1": "x"}, r"without a name"),
    ],
)
def test_parameters_and_values_must_match(
    con: duckdb.DuckDBPyConnection, query: str, given: dict[str, str], expected: str
) -> None:
    """A missing, unknown or nameless parameter is an error that names it."""
    with pytest.raises(InputError, match=expected):
        sandbox.execute(con, query, given)


def test_parameters_work_in_explain_and_macros(con: duckdb.DuckDBPyConnection) -> None:
    """A parameter may stand wherever a value may."""
    assert (
        sandbox.execute(con, "explain select * from outcomes where policy = $p", {"p": "ntp"}).num_rows == 1
    )
    assert sandbox.execute(con, "from badput($scenario)", {"scenario": "small"}).num_rows > 0


# --- worked queries and the listing -----------------------------------------------------------------------


def test_a_worked_query_is_found_by_name_and_by_file(tmp_path: Path) -> None:
    """`-f` takes a file or the name of a worked query; a file of that name comes first."""
    assert "five spare domains" in sandbox.load_adhoc("five_spares")
    assert sandbox.load_adhoc("five_spares.sql") == sandbox.load_adhoc("five_spares")
    own = tmp_path / "own.sql"
    own.write_text("select 1")
    assert sandbox.load_adhoc(str(own)) == "select 1"


def test_a_query_file_that_cannot_be_read_is_a_clear_error(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text are errors with a hint."""
    with pytest.raises(InputError, match=r"did you mean 'five_spares'"):
        sandbox.load_adhoc("five_spare")
    with pytest.raises(InputError, match="cannot be read"):
        sandbox.load_adhoc(str(tmp_path))
    (tmp_path / "bytes.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        sandbox.load_adhoc(str(tmp_path / "bytes.sql"))
