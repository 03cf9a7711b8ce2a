"""Google cluster traces 2011 and 2019: machines added to, removed from and changed in a cell.

In: `machine_events` of 2011 (CSV without a header: time, machine, event 0 ADD, 1 REMOVE or 2 UPDATE,
platform, cpus, memory), or of 2019 as JSON objects a line or CSV with a header (event 1 ADD, 2 REMOVE, 3
UPDATE). The three are told apart by their first character: a digit, `{` or a letter. Out: a removal is an
`onset`, the ADD that follows it on that machine its `clear`; what is neither (a machine that is there from
the start or comes later, an UPDATE) is severity info.
Easy to get wrong: event numbers of 2019 are those of 2011 plus one. Times are microseconds that begin 600 s
before the trace. Time 0 means before the trace and 2^63-1 after it: a machine that is there from the start
is dated at the trace's start, and a removal at either is refused, since no instant is told.
Source: trace documents of 2011 (v2.1; its 600 s is 2011-05-01 19:00 in New York) and 2019 (v3, whose wall
clock the schema does not tell, so `boot_time` must say when its time 0 was). Google's page of 2019 names
BigQuery alone; the files are as public downloaders of them name them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import csvtext
from pipeline.ingest.csvtext import Table
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, bounded, decode, text_lines
from pipeline.units import to_us

VERSION = "1"
TITLE = "Google cluster data (2011 and 2019)"
LICENSE = "CC-BY-4.0"
HOMEPAGE = "https://github.com/google/cluster-data"
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "gsutil cp gs://clusterdata-2011-2/machine_events/part-00000-of-00001.csv.gz .    # 2011\n"
    "gsutil cp 'gs://clusterdata_2019_a/machine_events-*.json.gz' .    # 2019, cell a"
)
FLAGS = ("boot_time",)
TRAPS = (
    "A removal is any absence: failures, repairs, upgrades of the system; no cause is told.",
    "Machines that come later than the start are no outage before: give the nodes of the window you replay.",
    "Time 0 of 2011 is 2011-05-01T22:50Z; for 2019 give it as --boot-time.",
    "A removal at time 0 or 2^63-1 lies outside the trace and is refused: no instant is told.",
)
ENDS = True

TIME_0_OF_2011 = datetime(2011, 5, 1, 22, 50, tzinfo=UTC)
LEAD = timedelta(seconds=600)
_BEFORE_TRACE, _AFTER_TRACE = 0, 2**63 - 1
_ADD, _REMOVE, _UPDATE = "ADD", "REMOVE", "UPDATE"
_EVENTS_2011 = {"0": _ADD, "1": _REMOVE, "2": _UPDATE}
_EVENTS_2019 = {"1": _ADD, "2": _REMOVE, "3": _UPDATE}
_COLUMNS_2011 = ("time", "machine_id", "type", "platform_id", "cpus", "memory")
_READ = ("time", "machine_id", "type")
_TOLD = ("switch_id", "missing_data_reason")


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return removals and returns of machines, and the rows refused with the reason."""
    time_0: datetime | None = options.boot_time
    head = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    is_json = head == b"{"
    text = "" if is_json else decode(data, file).lstrip()
    if head.isdigit():
        table = csvtext.read(text, file, lambda _: {"time": 0, "machine_id": 1, "type": 2}, _COLUMNS_2011)
        time_0, words = time_0 or TIME_0_OF_2011, _EVENTS_2011
    else:
        table = _of_json(text_lines(data, file)) if is_json else csvtext.read(text, file, _columns(file))
        words = _EVENTS_2019
    if not table.frame.filter(pl.col("time").is_not_null()).height:
        found = "no row of machine_events"
        raise InputError(file, found, "machine_events of the trace of 2011 or 2019", "is it another table?")
    if time_0 is None:
        hint = "--boot-time 2019-05-01T06:50Z, the instant that you take for time 0"
        raise InputError(file, "times since the start of the trace of 2019", "the instant of time 0", hint)
    return _parsed(table, words, time_0, options)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as machine_events does."""
    line = head.partition(b"\n")[0]
    if line.startswith(b"{"):
        return b'"machine_id"' in line and b'"time"' in line and b'"collection_id"' not in line
    if line[:1].isdigit():
        fields = line.split(b",")
        return len(fields) == len(_COLUMNS_2011) and fields[2] in {b"0", b"1", b"2"} and fields[1].isdigit()
    return {b"time", b"machine_id", b"type"} <= set(line.strip().split(b",")) and b"collection_id" not in line


def _columns(file: str) -> Callable[[list[str]], dict[str, int]]:
    def pick(header: list[str]) -> dict[str, int]:
        names = [name.strip() for name in header]
        missing = [name for name in _READ if names.count(name) != 1]
        if missing:
            found = f"not once each: {', '.join(missing)}, in {','.join(names)[:200]!r}"
            raise InputError(f"{file} header", found, "columns time, machine_id and type")
        return {name: names.index(name) for name in (*_READ, *_TOLD) if name in names}

    return pick


def _of_json(lines: pl.DataFrame) -> Table:
    """Return the objects of JSON lines as text columns; BigQuery writes whole numbers as texts."""
    lines = lines.filter(pl.col("line").str.contains(r"\S"))
    rows: list[dict[str, str | None]] = []
    for line, is_text in lines.iter_rows():
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            item = None
        row: dict[str, str | None] = dict.fromkeys((*_READ, *_TOLD, "shape"))
        if not is_text:
            row["shape"] = NOT_UTF8
        elif isinstance(item, dict):
            row |= {name: _as_text(item.get(name)) for name in (*_READ, *_TOLD)}
        else:
            row["shape"] = "not a JSON object"
        rows.append(row)
    schema = dict.fromkeys((*_READ, *_TOLD, "shape"), pl.String())
    frame = pl.DataFrame(rows, schema=schema).with_row_index("row", offset=1)
    return Table(frame.with_columns(pl.col("row").cast(pl.Int64)), lambda: lines["line"])


def _as_text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return str(value).encode(errors="replace").decode()


def _parsed(table: Table, words: dict[str, str], time_0: datetime, options: Options) -> Parsed:
    frame = table.frame
    absent = [pl.lit(None, pl.String).alias(name) for name in _TOLD if name not in frame.columns]
    frame = csvtext.cleaned(frame.with_columns(absent), (*_READ, *_TOLD))
    micros = pl.col("time").str.extract("^([0-9]{1,19})$").cast(pl.Int64, strict=False)
    event = pl.col("type").replace_strict(words, default=None, return_dtype=pl.String)
    frame = frame.with_columns(micros=micros, event=event)
    since = (
        pl.when(pl.col("micros") == _BEFORE_TRACE).then(LEAD // timedelta(microseconds=1)).otherwise("micros")
    )
    # A century at most, which keeps the sum within 64 bits; the sentinel is refused by its own reason.
    near = pl.when(pl.col("micros") < 100 * 366 * 86_400_000_000).then(since + to_us(time_0))
    instants = bounded(frame.select(us=near, reason=pl.lit(None, pl.String)), options)
    frame = frame.with_columns(t_start=instants["us"], far=instants["reason"])
    frame = frame.with_columns(_refusal(options).alias("refused"))
    return table.with_frame(_with_kind(frame)).parsed(_events())


def _refusal(options: Options) -> pl.Expr:
    outside = "time {} lies {} the trace: no instant is told"
    at_0 = (pl.col("micros") == _BEFORE_TRACE) & (pl.col("event") != _ADD)
    return csvtext.first(
        (pl.col("micros").is_null(), "time is not whole microseconds"),
        (~pl.col("machine_id").str.contains("^-?[0-9]{1,19}$").fill_null(value=False), "no machine_id"),
        (pl.col("event").is_null(), "type is no event of this trace"),
        (pl.col("micros") == _AFTER_TRACE, outside.format("2^63-1", "after")),
        (at_0, outside.format("0", "before")),
        (pl.col("t_start").is_null(), pl.col("far").fill_null(options.too_late)),
    )


def _with_kind(frame: pl.DataFrame) -> pl.DataFrame:
    """Add `is_return`: an ADD whose machine was removed last, by time, then file order."""
    moves = (
        frame.filter(pl.col("refused").is_null() & (pl.col("event") != _UPDATE))
        .sort("t_start", "row")
        .select(
            "row",
            is_return=pl.col("event").shift(1).over("machine_id").eq(_REMOVE) & (pl.col("event") == _ADD),
        )
    )
    return frame.join(moves, on="row", how="left", maintain_order="left")


def _events() -> dict[str, pl.Expr]:
    is_return = pl.col("is_return").fill_null(value=False)
    is_move = is_return | (pl.col("event") == _REMOVE)
    switch = pl.lit("switch ") + pl.col("switch_id")
    missing = pl.lit("missing data: ") + pl.col("missing_data_reason")
    return {
        "t_start": pl.col("t_start"),
        "kind": pl.when(is_return).then(pl.lit("clear")).otherwise(pl.lit("onset")),
        "node": pl.col("machine_id"),
        "severity": pl.when(is_move).then(pl.lit("down")).otherwise(pl.lit("info")),
        "scope": pl.lit("node"),
        "component": pl.lit("unknown"),
        "code": pl.when(is_move).then(pl.lit("removed")).otherwise(pl.col("event").str.to_lowercase()),
        "reason": pl.concat_str("event", switch, missing, separator=", ", ignore_nulls=True),
    }
