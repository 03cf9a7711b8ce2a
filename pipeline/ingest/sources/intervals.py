"""A table of your own: node[,gpu],start,end[,component,reason] as CSV or Parquet.

In: a CSV in UTF-8 with a header, or a Parquet file (known by its first bytes). `start` and `end` are ISO 8601
with date and clock; a zone in the text wins, else `tz` is needed. An empty `end` means still open, an empty
`gpu` the whole node; a `component` outside the fixed list counts as unknown and is kept as the code. Further
columns are ignored. Out: one `interval` event a row; `row` counts the rows
below the header, blank lines left out.
Easy to get wrong: nothing is sniffed. Every CSV field is text until it is converted by its column's own rule,
and a row that is short or long is refused, because a cut-off row would otherwise read as a fault that is
still open. A missing zone is one error for the file, not one reject a row.
Rows are split by whole columns, or by Python's csv module when the file holds a double quote: both tell a
short row from an empty field, which a CSV reader that fills rows up does not (a property test keeps the two
equal). Conversion is by whole columns: a million rows take a few seconds.
"""

from __future__ import annotations

import csv
import difflib
import io
import itertools
from typing import Any

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest.parsing import (
    NO_ZONE,
    REJECT_SCHEMA,
    TEXT_LIMIT,
    TOO_FINE,
    Options,
    Parsed,
    PublicFile,
    bounded,
    decode,
    events_frame,
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
_BATCH_ROWS = 100_000
_MISFIT = "{} fields, the header has {}"
_PARQUET = b"PAR1"
_PER_US = {"ns": (1, 1_000), "us": (1, 1), "ms": (1_000, 1)}  # unit -> multiply, divide


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the rows of a table as intervals, and those refused with the reason."""
    is_parquet = data.startswith(_PARQUET)
    frame = _from_parquet(data, file) if is_parquet else _from_csv(decode(data, file), file)
    if frame.is_empty():
        raise InputError(file, "no rows", f"rows of {_LAYOUT}", "choose a file that holds outages")
    frame = frame.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
    starts = _instants(frame["start"], "start", file, options)
    ends = _instants(frame["end"], "end", file, options)
    frame = frame.with_columns(
        starts["us"].alias("t_start"),
        starts["reason"].alias("start_reason"),
        ends["us"].alias("t_end"),
        ends["reason"].alias("end_reason"),
        pl.col("gpu").str.extract("^([0-9]{1,9})$").cast(pl.Int64).alias("gpu_index"),
    ).with_columns(_refusal().alias("refused"))
    return Parsed(_events(frame), _rejects(frame), frame.height)


def _refusal() -> pl.Expr:
    """Return the first reason that applies to a row, or null."""
    return (
        pl.when(pl.col("shape").is_not_null())
        .then(pl.col("shape"))
        .when(pl.col("node").is_null())
        .then(pl.lit("node is empty"))
        .when(pl.col("gpu").is_not_null() & pl.col("gpu_index").is_null())
        .then(pl.lit("gpu is not a whole number"))
        .when(pl.col("start").is_null())
        .then(pl.lit("start is empty"))
        .when(pl.col("start_reason").is_not_null())
        .then(pl.lit("start: ") + pl.col("start_reason"))
        .when(pl.col("end_reason").is_not_null())
        .then(pl.lit("end: ") + pl.col("end_reason"))
        .when(pl.col("t_end") < pl.col("t_start"))
        .then(pl.lit("end before start"))
        .when(pl.col("node").str.contains("[", literal=True))
        .then(pl.lit("node is a list of hosts: write one row a node"))
    )


def _events(frame: pl.DataFrame) -> pl.DataFrame:
    kept = frame.filter(pl.col("refused").is_null())
    # A word of the user's own is no component of ours: it stays, as the code and in front of the reason.
    word, told = pl.col("component"), pl.col("reason")
    is_ours = word.is_null() | word.is_in(COMPONENTS)
    kept = kept.with_columns(
        component=pl.when(is_ours).then(word.fill_null("unknown")).otherwise(pl.lit("unknown")),
        code=word.fill_null("unknown"),
        reason=pl.when(is_ours)
        .then(told)
        .otherwise(pl.concat_str(word, told, separator=": ", ignore_nulls=True)),
    )
    count = kept.height
    return events_frame(
        {
            "t_start": kept["t_start"],
            "t_end": kept["t_end"],
            "kind": ["interval"] * count,
            "node": kept["node"],
            "gpu": kept["gpu_index"],
            "severity": ["down"] * count,
            "scope": kept.select(
                pl.when(pl.col("gpu_index").is_null()).then(pl.lit("node")).otherwise(pl.lit("gpu"))
            ).to_series(),
            "component": kept["component"],
            "code": kept["code"],
            "reason": kept["reason"].fill_null(""),
            "row": kept["row"],
        }
    )


def _rejects(frame: pl.DataFrame) -> pl.DataFrame:
    refused = frame.filter(pl.col("refused").is_not_null())
    return refused.select(
        "row", pl.col("refused").alias("reason"), pl.col("line").str.slice(0, TEXT_LIMIT).alias("text")
    ).cast(REJECT_SCHEMA)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as such a table does: a header with the required columns, or Parquet."""
    if head.startswith(_PARQUET):
        return True
    header = head.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    names = {name.strip().strip('"') for name in header.strip().split(",")}
    return set(REQUIRED) <= names


def _from_csv(text: str, file: str) -> pl.DataFrame:
    """Return a CSV's rows as text: known columns, `line` as it stood, `shape` when the row does not fit."""
    frame = _quoted(text, file) if '"' in text else _plain(text, file)
    return frame.with_columns(_cleaned(name) for name in (*REQUIRED, *OPTIONAL))


def _plain(text: str, file: str) -> pl.DataFrame:
    """Split a CSV without a double quote by whole columns."""
    rows = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    lines = pl.Series("line", rows, dtype=pl.String)
    lines = lines.filter(lines != "")
    header = _header(lines[0].split(",") if len(lines) else [], file)
    width = len(header)
    fields = pl.col("line").str.count_matches(",", literal=True) + 1
    parts = pl.col("line").str.split_exact(",", width - 1)
    known = {name: header.index(name) for name in (*REQUIRED, *OPTIONAL) if name in header}
    fits = pl.col("shape").is_null()
    return (
        lines.slice(1)
        .to_frame()
        .with_columns(
            pl.when(fields != width).then(pl.format(_MISFIT, fields, pl.lit(width))).alias("shape"),
            parts.alias("part"),
        )
        .select(
            *(
                pl.when(fits).then(pl.col("part").struct.field(f"field_{known[name]}")).alias(name)
                if name in known
                else pl.lit(None, pl.String).alias(name)
                for name in (*REQUIRED, *OPTIONAL)
            ),
            "line",
            "shape",
        )
    )


def _quoted(text: str, file: str) -> pl.DataFrame:
    """Split a CSV by Python's csv module, which knows quotes, in batches."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = (row for row in reader if row)
    batches = [_empty()]
    try:
        header = _header(next(rows, []), file)
        while batch := list(itertools.islice(rows, _BATCH_ROWS)):
            batches.append(_batch(header, batch))
    except csv.Error as error:
        raise InputError(
            f"{file} line {reader.line_num}",
            f"not valid CSV ({error})",
            "fields with commas or line breaks in double quotes, quotes closed",
        ) from None
    return pl.concat(batches)


def _batch(header: list[str], rows: list[list[str]]) -> pl.DataFrame:
    width = len(header)
    fits = [len(row) == width for row in rows]
    blank = [""] * width
    fitting = [row if fit else blank for row, fit in zip(rows, fits, strict=True)]
    columns = dict(zip(header, zip(*fitting, strict=True), strict=True))
    absent = [None] * len(rows)
    values: dict[str, Any] = {name: columns.get(name, absent) for name in (*REQUIRED, *OPTIONAL)}
    values["line"] = [",".join(row) for row in rows]
    values["shape"] = [
        None if fit else _MISFIT.format(len(row), width) for row, fit in zip(rows, fits, strict=True)
    ]
    return pl.DataFrame([pl.Series(name, cells, dtype=pl.String) for name, cells in values.items()])


def _empty() -> pl.DataFrame:
    return pl.DataFrame(schema=dict.fromkeys((*REQUIRED, *OPTIONAL, "line", "shape"), pl.String()))


def _cleaned(name: str) -> pl.Expr:
    """Return a text column without blanks around it; what is empty then is null."""
    stripped = pl.col(name).str.strip_chars()
    return pl.when(stripped != "").then(stripped).alias(name)


def _header(names: list[str], file: str) -> list[str]:
    """Return the column names; raise InputError when one is missing, or a known one stands twice."""
    header = [name.strip() for name in names]
    where = f"{file} header"
    missing = [name for name in REQUIRED if name not in header]
    if missing:
        close = {name: difflib.get_close_matches(name, header, n=1, cutoff=0.5) for name in missing}
        renames = [f"{found[0]!r} to {name!r}" for name, found in close.items() if found]
        hint = f"rename {', '.join(renames)}" if renames else ""
        if len(header) == 1 and any(mark in header[0] for mark in ";\t|"):
            hint = "separate the fields by commas"
        found = f"no column {' and no column '.join(missing)} in {','.join(header)[:200]!r}"
        raise InputError(where, found, _LAYOUT, hint)
    twice = sorted({name for name in header if name in (*REQUIRED, *OPTIONAL) and header.count(name) > 1})
    if twice:
        raise InputError(where, f"column {twice[0]} twice", "each column once")
    return header


def _from_parquet(data: bytes, file: str) -> pl.DataFrame:
    try:
        names = _header(list(pl.read_parquet_schema(io.BytesIO(data))), file)
        known = [name for name in (*REQUIRED, *OPTIONAL) if name in names]
        frame = pl.read_parquet(io.BytesIO(data), columns=known)
    except pl.exceptions.PolarsError as error:
        found = f"not a readable Parquet file ({str(error).splitlines()[0][:120]})"
        raise InputError(file, found, f"a Parquet table of {_LAYOUT}", "write or copy it again") from None
    frame = frame.with_columns(line=pl.concat_str(pl.all().cast(pl.String).fill_null(""), separator=","))
    for name in ("node", "gpu", "component", "reason"):
        frame = frame.with_columns(_text_column(frame, name, file).alias(name))
    texts = [name for name in (*REQUIRED, *OPTIONAL) if frame.schema[name] == pl.String]
    return frame.with_columns(*(_cleaned(name) for name in texts), shape=pl.lit(None, pl.String))


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


def _instants(column: pl.Series, name: str, file: str, options: Options) -> pl.DataFrame:
    """Return `us` and `reason` of a column of texts or Parquet timestamps."""
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
    naive = instants.with_row_index("row", offset=1).filter(pl.col("reason") == NO_ZONE)
    if not naive.is_empty():
        row = naive["row"][0]
        raise InputError(
            f"{where} row {row}",
            f"times have no zone ({column[row - 1]})",
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
