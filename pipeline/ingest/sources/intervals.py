"""A table of your own: node[,gpu],start,end[,component,reason] as CSV or Parquet.

In: a CSV in UTF-8 with a header, or a Parquet file (known by its first bytes). `start` and `end` are ISO 8601
with date and clock; a zone in the text wins, else `tz` is needed. An empty `end` means still open, an empty
`gpu` the whole node; a `component` outside the fixed list counts as unknown and is kept as the code. Further
columns are ignored. Out: one `interval` event a row; `row` counts the rows
below the header, blank lines left out.
Easy to get wrong: nothing is sniffed. Every CSV field is text until it is converted by its column's own rule,
and a row that is short or long is refused, because a cut-off row would otherwise read as a fault that is
still open. A missing zone is one error for the file, not one reject a row.
Splitting (`csvtext`) and conversion are by whole columns.
"""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from typing import Any

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import csvtext
from pipeline.ingest.csvtext import Table
from pipeline.ingest.parsing import (
    NO_ZONE,
    TOO_FINE,
    Options,
    Parsed,
    PublicFile,
    bounded,
    parse_instants,
)
from pipeline.schema import COMPONENTS

VERSION = "2"  # 2: words that are no component of ours are accepted as unknown
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}

EXPORT = ""
FLAGS = ("tz",)
TRAPS = (
    "An empty end is a fault that is still open; a row that is cut off is refused.",
    "A component outside the list counts as unknown and is kept as the code.",
)
ENDS = True

REQUIRED = ("node", "start", "end")
OPTIONAL = ("gpu", "component", "reason")
_LAYOUT = "node[,gpu],start,end[,component,reason]"
_PARQUET = b"PAR1"
_PER_US = {"ns": (1, 1_000), "us": (1, 1), "ms": (1_000, 1)}  # unit -> multiply, divide


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the rows of a table as intervals, and those refused with the reason."""
    tables = iter([_from_parquet(data, file)]) if data.startswith(_PARQUET) else _from_csv(data, file)
    parsed = csvtext.joined(_parsed(table, file, options) for table in tables)
    if not parsed.rows_read:
        raise InputError(file, "no rows", f"rows of {_LAYOUT}", "choose a file that holds outages")
    return parsed


def _parsed(table: Table, file: str, options: Options) -> Parsed:
    starts = _instants(table.frame, "start", file, options)
    ends = _instants(table.frame, "end", file, options)
    frame = table.frame.with_columns(
        starts["us"].alias("t_start"),
        starts["reason"].alias("start_reason"),
        ends["us"].alias("t_end"),
        ends["reason"].alias("end_reason"),
        pl.col("gpu").str.extract("^([0-9]{1,9})$").cast(pl.Int64).alias("gpu_index"),
    ).with_columns(_refusal().alias("refused"))
    return table.with_frame(frame).parsed(_events())


def _refusal() -> pl.Expr:
    """Return the first reason that applies to a row, or null."""
    return csvtext.first(
        (pl.col("node").is_null(), "node is empty"),
        (pl.col("gpu").is_not_null() & pl.col("gpu_index").is_null(), "gpu is not a whole number"),
        (pl.col("start").is_null(), "start is empty"),
        (pl.col("start_reason").is_not_null(), pl.lit("start: ") + pl.col("start_reason")),
        (pl.col("end_reason").is_not_null(), pl.lit("end: ") + pl.col("end_reason")),
        (pl.col("t_end") < pl.col("t_start"), "end before start"),
        (
            pl.col("node").str.contains("[", literal=True),
            "node is a list of hosts: write one row a node",
        ),
    )


def _events() -> dict[str, pl.Expr]:
    # A word of the user's own is no component of ours: it stays, as the code and in front of the reason.
    word, told = pl.col("component"), pl.col("reason")
    is_ours = word.is_null() | word.is_in(COMPONENTS)
    both = pl.concat_str(word, told, separator=": ", ignore_nulls=True)
    return {
        "t_start": pl.col("t_start"),
        "t_end": pl.col("t_end"),
        "kind": pl.lit("interval"),
        "node": pl.col("node"),
        "gpu": pl.col("gpu_index"),
        "severity": pl.lit("down"),
        "scope": pl.when(pl.col("gpu_index").is_null()).then(pl.lit("node")).otherwise(pl.lit("gpu")),
        "component": pl.when(is_ours).then(word.fill_null("unknown")).otherwise(pl.lit("unknown")),
        "code": word.fill_null("unknown"),
        "reason": pl.when(is_ours).then(told.fill_null("")).otherwise(both),
    }


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as such a table does: a header with the required columns, or Parquet."""
    if head.startswith(_PARQUET):
        return True
    header = head.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    names = {name.strip().strip('"') for name in header.strip().split(",")}
    return set(REQUIRED) <= names


def _from_csv(data: bytes, file: str) -> Iterator[Table]:
    """Yield a CSV's columns as text, a piece at a time: columns that the file lacks are null."""
    for table in csvtext.pieces(data, file, lambda names: _header(names, file)):
        known = [name for name in (*REQUIRED, *OPTIONAL) if name in table.frame.columns]
        absent = (pl.lit(None, pl.String).alias(name) for name in OPTIONAL if name not in known)
        yield table.with_frame(csvtext.cleaned(table.frame, known).with_columns(*absent))


def _header(names: list[str], file: str) -> dict[str, int]:
    """Return where the known columns stand; raise InputError when one is missing or stands twice."""
    header = [name.strip() for name in names]
    where = f"{file} header"
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        free = [name for name in header if name not in (*REQUIRED, *OPTIONAL)]
        close = {name: difflib.get_close_matches(name, free, n=1, cutoff=0.5) for name in missing}
        renames = [f"{found[0]!r} to {name!r}" for name, found in close.items() if found]
        hint = f"rename {', '.join(renames)}" if renames else ""
        if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
            hint = "separate the fields by commas"
        found = f"no column {' and no column '.join(missing)} in {','.join(header)[:200]!r}"
        raise InputError(where, found, _LAYOUT, hint)
    twice = sorted({name for name in header if name in (*REQUIRED, *OPTIONAL) and header.count(name) > 1})
    if twice:
        raise InputError(where, f"column {twice[0]} twice", "each column once")
    return {name: header.index(name) for name in (*REQUIRED, *OPTIONAL) if name in header}


def _from_parquet(data: bytes, file: str) -> Table:
    try:
        names = _header(list(pl.read_parquet_schema(io.BytesIO(data))), file)
        frame = pl.read_parquet(io.BytesIO(data), columns=list(names))
    except pl.exceptions.PolarsError as error:
        found = f"not a readable Parquet file ({str(error).splitlines()[0][:120]})"
        raise InputError(file, found, f"a Parquet table of {_LAYOUT}", "write or copy it again") from None
    told = frame
    for name in ("node", "gpu", "component", "reason"):
        frame = frame.with_columns(_text_column(frame, name, file).alias(name))
    texts = [name for name in (*REQUIRED, *OPTIONAL) if frame.schema[name] == pl.String]
    frame = csvtext.cleaned(frame, texts).with_columns(shape=pl.lit(None, pl.String))
    frame = frame.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
    texts_of = pl.concat_str(pl.all().cast(pl.String).fill_null(""), separator=",")
    return Table(frame, lambda: told.select(texts_of).to_series())


def _text_column(frame: pl.DataFrame, name: str, file: str) -> pl.Series:
    if name not in frame.columns:
        return pl.Series(name, [None] * frame.height, dtype=pl.String)
    kind = frame.schema[name]
    is_text = kind in {pl.String, pl.Categorical, pl.Enum, pl.Null}
    if not is_text and not (name == "gpu" and kind.is_integer()):
        raise InputError(
            f"{file} column {name}", f"type {kind}", "whole numbers" if name == "gpu" else "text"
        )
    return frame[name].cast(pl.String)


def _instants(frame: pl.DataFrame, name: str, file: str, options: Options) -> pl.DataFrame:
    """Return `us` and `reason` of a column of texts or Parquet timestamps."""
    column = frame[name]
    kind = column.dtype
    where = f"{file} column {name}"
    if kind == pl.Null:
        column, kind = column.cast(pl.String), pl.String()
    if kind == pl.String:
        instants = parse_instants(column, options)
    elif isinstance(kind, pl.Datetime):
        instants = _timestamps(column, kind, options)
    else:
        raise InputError(where, f"type {kind}", "timestamps, or ISO 8601 texts")
    naive = (instants["reason"] == NO_ZONE).arg_true()
    if not naive.is_empty():
        row = naive[0]
        raise InputError(
            f"{where} row {frame['row'][row]}",
            f"times have no zone ({column[row]})",
            "an offset or Z in the text, or a zone for the whole file",
            'give tz = "UTC" (or the zone of the log) under [trace], or --tz',
        )
    return instants


def _timestamps(column: pl.Series, kind: pl.Datetime, options: Options) -> pl.DataFrame:
    times, per = _PER_US[kind.time_unit]
    physical = column.to_physical()
    if kind.time_zone is None:
        # Zone rules are those of texts, so the timestamp takes that way: one implementation.
        decimals = {"ns": "%.9f", "us": "%.6f", "ms": "%.3f"}[kind.time_unit]
        return parse_instants(column.dt.strftime(f"%Y-%m-%dT%H:%M:%S{decimals}"), options)
    frame = pl.DataFrame({"us": physical * times // per, "rest": physical % per})
    fine: Any = pl.when(pl.col("rest") != 0).then(pl.lit(TOO_FINE))
    return bounded(frame.select("us", fine.cast(pl.String).alias("reason")), options)
