"""The catalog: views and macros over the current Parquet files, for people and for the report.

`goodput.duckdb` holds no data. It is built beside the published file and swapped by rename, so
readers never meet a lock or half a catalog; it is written in a storage version that DuckDB 1.x
opens. Queries with parameters (3_metrics, 4_outcomes) become table macros: `from badput('hbd64')`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.lake import sql, stages
from pipeline.lake.store import CATALOG, Lake, Record, replacing
from pipeline.schema import BOOL, FLOAT, INT, TABLE_MEANING, TABLES, TEXT, TIME

if TYPE_CHECKING:
    import duckdb

STAGE = "catalog"
STORAGE_VERSION = "v1.4.0"
INGESTED = "ingested_events"
# Where each base table comes from: the stages whose records hold it.
_STAGES = {"events": ("ingest", "synth"), "rejects": ("ingest", "synth"), "files": ("ingest", "synth")}
_TABLE_STAGES = ("ingest", "synth", "timelines", "replay")
_SQL_TYPES = {TEXT: "varchar", INT: "bigint", FLOAT: "double", TIME: "timestamp", BOOL: "boolean"}


def base_tables(lake: Lake, records: Mapping[str, Record] | None = None) -> dict[str, list[Path]]:
    """Return the current Parquet files of every table; a table without files has an empty list."""
    found: dict[str, list[Path]] = {}
    current = sorted((lake.records() if records is None else records).items())
    for table in TABLES:
        stages_of = _STAGES.get(table, ("timelines", "replay"))
        found[table] = [
            lake.table(record, table)
            for _, record in current
            if record.stage in stages_of and table in record.outputs
        ]
    # Runs are listed by a pattern: every run of a stage adds a file, also the one that writes the catalog.
    runs = lake.path("runs")
    found["runs"] = [runs / "*.parquet"] if any(runs.glob("*.parquet")) else []
    return found


def empty_select(table: str) -> str:
    """Return a SELECT with a table's columns and no row."""
    columns = ", ".join(f'null::{_SQL_TYPES[c.type]} as "{c.name}"' for c in TABLES[table])
    return f"select {columns} where false"


def table_name(table: str) -> str:
    """Return the name a base table is registered under: events are first deduplicated by a query."""
    return INGESTED if table == "events" else table


def macros() -> dict[str, sql.Query]:
    """Return the queries that become table macros, those they read first."""
    queries = sql.load("3_metrics", "4_outcomes")
    return {query.name: query for query in sql.ordered(queries, given=TABLES)}


def macro_parameters(query: sql.Query) -> str:
    """Return the macro's parameters: `$scenario` in the file is `for_scenario` in the macro."""
    return ", ".join(f"for_{name}" for name in query.parameters)


def define_derived(con: duckdb.DuckDBPyConnection) -> None:
    """Create the deduplicated `events` and all macros over base tables that exist already."""
    events = sql.load("1_events")["events"]
    con.execute(f"create or replace view events as {events.body}")
    for query in macros().values():
        body = query.with_parameters({name: f"for_{name}" for name in query.parameters})
        con.execute(f'create or replace macro "{query.name}"({macro_parameters(query)}) as table {body}')


def define(con: duckdb.DuckDBPyConnection, tables: Mapping[str, list[Path]]) -> None:
    """Create views over the files of every table, then what is derived from them."""
    for table, files in tables.items():
        listing = ", ".join("'" + _pattern(file.resolve()).replace("'", "''") + "'" for file in files)
        body = f"from read_parquet([{listing}])" if files else empty_select(table)
        con.execute(f'create or replace view "{table_name(table)}" as {body}')
    define_derived(con)


def _pattern(file: Path) -> str:
    """Return a file's name for DuckDB; where the last part is a pattern, the folders above are not."""
    if "*" not in file.name:
        return str(file)
    return re.sub(r"[*?\[]", r"[\g<0>]", str(file.parent)) + "/" + file.name


def comment(con: duckdb.DuckDBPyConnection) -> None:
    """Write the meaning of every view, column and macro into the catalog."""

    def quoted(text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    for table, columns in TABLES.items():
        con.execute(f'comment on view "{table}" is {quoted(TABLE_MEANING[table])}')
        for column in columns:
            con.execute(f'comment on column "{table}"."{column.name}" is {quoted(column.meaning)}')
    for query in macros().values():
        con.execute(f'comment on macro table "{query.name}" is {quoted(query.header["title"])}')


def connect(lake: Lake) -> duckdb.DuckDBPyConnection:
    """Return an in-memory connection with the catalog's views and macros, as the report uses."""
    con = sql.connect(lake.path(sql.SPILL))
    define(con, base_tables(lake))
    return con


def stage(lake: Lake, log: stages.Log, scenario: str = "") -> tuple[Record, bool]:
    """Publish the catalog when a table, a query or a column's meaning has changed."""
    queries = sql.load("1_events", "3_metrics", "4_outcomes")
    records = {key: record for key, record in lake.records().items() if record.stage in _TABLE_STAGES}
    inputs = {
        "tables": {key: {n: o.path for n, o in record.outputs.items()} for key, record in records.items()},
        "root": str(lake.root.resolve()),
        "queries": stages.sql_version(query.path for query in queries.values()),
    }

    def build(_: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        write(lake)
        return {CATALOG: lake.catalog_path}, {}

    code = stages.code_version("lake/catalog.py", packages=("duckdb",))
    return stages.run(lake, STAGE, "all", inputs=inputs, code=code, build=build, log=log, scenario=scenario)


def write(lake: Lake) -> None:
    """Build the catalog beside the published one and swap it in."""
    if "?" in str(lake.root.resolve()):
        hint = "choose another folder with --root"
        raise InputError(str(lake.root), "has a '?' in its name, which DuckDB takes for options", hint=hint)
    import duckdb

    try:
        with replacing(lake.catalog_path) as temporary:
            temporary.unlink()
            _write(lake, temporary)
    except (duckdb.IOException, duckdb.TransactionException, duckdb.FatalException) as error:
        # A disk that is full or fails; a query that does not bind is another error.
        text = str(error).splitlines()[0]
        hint = "free some space, or choose another folder with --root"
        raise InputError(str(lake.catalog_path), f"cannot be written ({text})", hint=hint) from error


def _write(lake: Lake, file: Path) -> None:
    with sql.connect() as con:
        name = str(file).replace("'", "''")
        con.execute(f"attach '{name}' as catalog (storage_version '{STORAGE_VERSION}')")
        con.execute("use catalog")
        define(con, base_tables(lake))
        comment(con)
        con.execute("use memory")
        con.execute("detach catalog")
