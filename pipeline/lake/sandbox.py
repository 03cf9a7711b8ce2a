"""Run a person's SQL on the lake so that it can read the current tables and do nothing else.

In: a lake and one query. Out: an Arrow table. Two walls stand behind each other: guard.py reads the
query's parse tree before it runs; and the connection is in memory, the lake's files are registered as
Arrow datasets, and then DuckDB is locked with no access to files, network, extensions, settings or
Python variables.

Easy to get wrong: a read-only connection to the catalog file is no sandbox (`explain analyze copy` and
`with a as (copy ...)` wrote through it), and DuckDB's memory limit does not count single vectors
(`range(400_000_000)` took 4 GB under a limit of 512 MB), so the process's own limit is lowered too.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError, listed, nearest
from pipeline.lake import catalog, guard, sql
from pipeline.lake.render import FORMATS, render
from pipeline.lake.store import Lake
from pipeline.schema import arrow_schema

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = [
    "FORMATS",
    "Limits",
    "execute",
    "load_adhoc",
    "open_sandbox",
    "render",
    "run",
]

_MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What one query may use; the result may be as large as the memory DuckDB has.

    The memory is what `sql.connect` gives at most, and exactly that where GOODPUT_MEMORY is set.
    """

    time_s: float = 60.0
    memory_mib: int = 2048
    threads: int = min(4, os.cpu_count() or 1)


DEFAULT_LIMITS = Limits()


def open_sandbox(lake: Lake, limits: Limits = DEFAULT_LIMITS) -> duckdb.DuckDBPyConnection:
    """Return a locked in-memory connection with the lake's current tables, `events` and the macros."""
    con = sql.connect()
    most_mib = sql.memory_mib(con)
    memory_mib = most_mib if os.environ.get(sql.MEMORY) else min(limits.memory_mib, most_mib)
    for table, files in catalog.base_tables(lake).items():
        con.register(catalog.table_name(table), _dataset(table, files))
    catalog.define_derived(con)
    for setting in (
        f"set memory_limit = '{memory_mib} MiB'",
        f"set threads = {limits.threads}",
        "set temp_directory = ''",  # nothing spills: a query that does not fit is refused
        "set secret_directory = ''",
        "set home_directory = ''",
        "set allow_persistent_secrets = false",
        "set allow_community_extensions = false",
        "set python_enable_replacements = false",
        "set python_scan_all_frames = false",
        "set allowed_paths = []",
        "set allowed_directories = []",
        "set enable_external_access = false",
        "set lock_configuration = true",
    ):
        con.execute(setting)
    return con


def _dataset(table: str, files: list[Path]) -> Any:
    import pyarrow.dataset as ds

    schema = arrow_schema(table)
    files = [found for file in files for found in (_matching(file) if "*" in file.name else [file])]
    if not files:
        return schema.empty_table()
    for file in files:
        if not file.is_file():
            hint = "`goodput run SCENARIO` builds what is missing"
            raise InputError(table, f"its file {file.name} is gone", "the files the manifest names", hint)
    return ds.dataset([str(file) for file in files], format="parquet", schema=schema)


def _matching(pattern: Path) -> list[Path]:
    return sorted(pattern.parent.glob(pattern.name))


def run(
    lake: Lake,
    query: str,
    parameters: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    timeout_s: float | None = None,
) -> pa.Table:
    """Return the result of one query; `timeout_s` overrides the limits' time. See `execute`."""
    if timeout_s is not None:
        if not 0 < timeout_s <= threading.TIMEOUT_MAX:
            raise InputError("--timeout", f"{timeout_s:g}", "seconds above 0")
        limits = replace(limits, time_s=timeout_s)
    with open_sandbox(lake, limits) as con:
        return execute(con, query, parameters, limits)


def execute(
    con: duckdb.DuckDBPyConnection,
    query: str,
    parameters: Mapping[str, str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> pa.Table:
    """Return the result of one query on an open sandbox; raise InputError for all a person can get wrong.

    `parameters` are texts as typed (`k=v`): whole numbers and decimals become numbers, the rest stays
    text, and single quotes keep a number as text (`node='17'`).
    """
    import duckdb
    import pyarrow as pa

    limits = replace(limits, memory_mib=sql.memory_mib(con))

    def work() -> pa.Table:
        statement, names = guard.check(con, query)
        return _fetch(con, statement, _values(names, parameters or {}), limits)

    try:
        return _watched(con, limits, work)
    except (duckdb.Error, pa.ArrowException, OSError, MemoryError, RecursionError) as error:
        raise _explained(error, limits) from None


# --- parameters -------------------------------------------------------------------------------------------

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")


def typed(text: str) -> int | float | str:
    """Return a parameter's value: whole number, decimal, else text; single quotes keep a text."""
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _DECIMAL.fullmatch(text) and len(text) < 32 else text


def _values(names: frozenset[str], given: Mapping[str, str]) -> dict[str, int | float | str]:
    if positional := [name for name in names if name.isdigit()]:
        raise InputError(
            "query", f"a parameter without a name (number {positional[0]})", "parameters as $name"
        )
    for name in sorted(given.keys() - names):
        raise InputError(f"--param {name}", f"the query has no ${name}", listed(names), nearest(name, names))
    if missing := sorted(names - given.keys()):
        hint = " ".join(f"--param {name}=VALUE" for name in missing)
        raise InputError(
            "query", f"no value for {', '.join(f'${name}' for name in missing)}", hint=f"add {hint}"
        )
    return {name: typed(text) for name, text in given.items()}


# --- running it ------------------------------------------------------------------------------------------


def _fetch(
    con: duckdb.DuckDBPyConnection,
    statement: str,
    values: Mapping[str, int | float | str],
    limits: Limits,
) -> pa.Table:
    import pyarrow as pa

    batches, size = [], 0
    # An open reader would keep the connection to itself.
    with con.sql(statement, params=dict(values) or None).to_arrow_reader(10_000) as reader:
        schema = reader.schema
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > limits.memory_mib * _MIB:
                raise MemoryError
    names: list[str] = []
    for name in schema.names:
        number, unique = 2, name
        while unique in names:
            number, unique = number + 1, f"{name}_{number}"
        names.append(unique)
    return pa.Table.from_batches(batches, schema=schema).rename_columns(names)


def _watched(con: duckdb.DuckDBPyConnection, limits: Limits, work: Callable[[], pa.Table]) -> pa.Table:
    """Return what `work` returns, if it does so in time and memory.

    It runs beside the main thread, which stays free to look at the clock and to take Ctrl-C.
    """
    with _process_memory(2 * limits.memory_mib * _MIB), ThreadPoolExecutor(max_workers=1) as pool:
        future = pool.submit(work)
        try:
            in_time = bool(wait([future], limits.time_s).done)
        finally:
            while not future.done():
                con.interrupt()  # again and again: an interrupt between two steps of a query is lost
                wait([future], 0.05)
    if not in_time:
        hint = f"read less, or allow more with --timeout {2 * limits.time_s:g}"
        expected = f"a result within {limits.time_s:g} s"
        raise InputError("query", f"stopped after {limits.time_s:g} s", expected, hint)
    return future.result()


_ONE_AT_A_TIME = threading.RLock()  # the process has one limit


@contextlib.contextmanager
def _process_memory(more_bytes: int) -> Iterator[None]:
    """Let the process take this much more memory and not more, where the system can tell (Linux)."""
    import resource

    with _ONE_AT_A_TIME:
        old = resource.getrlimit(resource.RLIMIT_DATA)
        try:
            status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
            wanted = int(status.split("VmData:")[1].split()[0]) * 1024 + more_bytes
            soft = wanted if old[0] == resource.RLIM_INFINITY else min(wanted, old[0])
            resource.setrlimit(resource.RLIMIT_DATA, (soft, old[1]))
        except (OSError, ValueError, IndexError):
            pass
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, old)


def _explained(error: BaseException, limits: Limits) -> InputError:
    """Return the one message for a failed query: too much memory, or DuckDB's own first lines."""
    text = str(error).replace("\r", "")
    if isinstance(error, MemoryError) or "Out of Memory" in text or "bad_alloc" in text:
        hint = "aggregate, filter or `limit` the rows"
        limit = f"at most {limits.memory_mib} MiB for work and for the result"
        return InputError("query", "needs too much memory", limit, hint)
    if isinstance(error, RecursionError):
        return InputError("query", "nested too deeply", "a flatter query")
    lines = [line for line in text.split("\n") if line.strip()][:10]
    return InputError("query", "\n  ".join(line[:200] for line in lines) or type(error).__name__)


# --- worked examples -------------------------------------------------------------------------------------


def load_adhoc(name: str) -> str:
    """Return the SQL of `-f NAME`: of a file, or of a worked query in `queries/adhoc` by its name."""
    path, examples = Path(name), sql.load("adhoc")
    example = examples.get(name.removesuffix(".sql"))
    if example and not path.is_file():
        return example.text
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = f"cannot be read ({error})" if path.exists() else "no such file or worked query"
        expected = f"an SQL file, or one of {listed(examples)}"
        raise InputError(name, reason, expected, nearest(name, examples)) from None
