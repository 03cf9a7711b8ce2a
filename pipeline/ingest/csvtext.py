"""CSV as text: the named columns of a file, each row told whole, short or long.

In: a text and a function that picks columns from the header. Out: `Table`: text columns, with `row` (from 1,
blank lines left out) and `shape`, the reason why a row does not fit.
Easy to get wrong: nothing is sniffed, so `007` and `12/25/2020` stay as they are whatever stands beside them;
a row that is short or long is refused, because a cut-off row would otherwise read as one with empty fields.
A file without a double quote is split by whole columns: at once when every row fits (CSV readers fill short
rows up, but then the commas do not add up), else line by line. Quotes take Python's csv module. A property
test keeps the three ways equal.
Source: RFC 4180; no dialect but the comma.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest.parsing import REJECT_SCHEMA, TEXT_LIMIT, Parsed, events_frame

_BATCH_ROWS = 100_000
_MISFIT = "{} fields, the header has {}"
_MISFIT_BARE = "{} fields, a row has {}"

Pick = Callable[[list[str]], Mapping[str, int]]


@dataclass(frozen=True)
class Table:
    """The rows of a CSV: `frame` holds `row`, `shape` and the picked columns, `lines` gives their texts."""

    frame: pl.DataFrame
    lines: Callable[[], pl.Series]

    def with_frame(self, frame: pl.DataFrame) -> Table:
        """Return the table with further columns."""
        return Table(frame, self.lines)

    def parsed(self, events: Mapping[str, pl.Expr], refused: str = "refused") -> Parsed:
        """Return events from expressions over the rows whose `refused` is null; the rest are rejects."""
        kept = self.frame.filter(pl.col(refused).is_null())
        columns = kept.select("row", **events)
        bad = self.frame.filter(pl.col(refused).is_not_null()).select("row", pl.col(refused).alias("reason"))
        if bad.is_empty():
            rejects = pl.DataFrame(schema=REJECT_SCHEMA)
        else:
            lines = self.lines().gather(bad["row"] - 1)
            rejects = bad.with_columns(text=lines.str.slice(0, TEXT_LIMIT)).cast(REJECT_SCHEMA)
        return Parsed(events_frame(columns.to_dict()), rejects, self.frame.height)


def read(text: str, file: str, pick: Pick, header: Sequence[str] | None = None) -> Table:
    """Return the rows of a CSV; its first line is the header, unless the file has none and it is given.

    `pick` turns the header into column name -> place; it raises InputError for a header that lacks one.
    """
    return _quoted(text, file, pick, header) if '"' in text else _plain(text, pick, header)


def cleaned(name: str) -> pl.Expr:
    """Return a text column without blanks around it; what is empty then is null."""
    stripped = pl.col(name).str.strip_chars()
    return pl.when(stripped != "").then(stripped).alias(name)


def first(*reasons: tuple[pl.Expr, str | pl.Expr]) -> pl.Expr:
    """Return the first reason whose condition holds, or null; the shape of the row comes before all."""
    chain: Any = pl.when(pl.col("shape").is_not_null()).then(pl.col("shape"))
    for condition, reason in reasons:
        chain = chain.when(condition).then(pl.lit(reason) if isinstance(reason, str) else reason)
    return pl.Expr.cast(chain, pl.String)


def _plain(text: str, pick: Pick, given: Sequence[str] | None) -> Table:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.lstrip("\n")
    if given is None:
        head, _, text = text.partition("\n")
        header = head.split(",") if head else []
        text = text.lstrip("\n")
    else:
        header = list(given)
    known = pick(header)
    frame = None if "\n\n" in text else _at_once(text, len(header), known)
    if frame is None:
        lines = _lines(text)
        return Table(_line_by_line(lines, len(header), known, bare=given is not None), lambda: lines)
    return Table(frame, lambda: _lines(text))


def _lines(text: str) -> pl.Series:
    lines = pl.Series("line", text.split("\n"), dtype=pl.String)
    return lines.filter(lines != "")


def _at_once(text: str, width: int, known: Mapping[str, int]) -> pl.DataFrame | None:
    """Return a CSV's columns when every row has as many fields as the header; None otherwise.

    All columns are read, because a reader of some of them does not see a row that is too long.
    """
    if not text or width < 2 or text.isspace():
        return None
    names = [f"column_{place + 1}" for place in range(width)]
    try:
        frame = pl.read_csv(
            text.encode(),
            has_header=False,
            schema=dict.fromkeys(names, pl.String()),
            quote_char=None,
            empty_string_is_null=False,
            extra_columns="raise",
        )
    except pl.exceptions.PolarsError:  # a row that is too long
        return None
    if text.count(",") != frame.height * (width - 1) or _count(text) != frame.height:
        return None
    return _numbered(
        frame.select(
            *(pl.col(names[place]).alias(name) for name, place in known.items()),
            pl.lit(None, pl.String).alias("shape"),
        )
    )


def _count(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n"))


def _line_by_line(lines: pl.Series, width: int, known: Mapping[str, int], *, bare: bool) -> pl.DataFrame:
    fields = pl.col("line").str.count_matches(",", literal=True) + 1
    parts = pl.col("line").str.split_exact(",", width - 1)
    fits = pl.col("shape").is_null()
    told = pl.format(_MISFIT_BARE if bare else _MISFIT, fields, pl.lit(width))
    return _numbered(
        lines.to_frame()
        .with_columns(pl.when(fields != width).then(told).alias("shape"), parts.alias("part"))
        .select(
            *(
                pl.when(fits).then(pl.col("part").struct.field(f"field_{place}")).alias(name)
                for name, place in known.items()
            ),
            "shape",
        )
    )


def _quoted(text: str, file: str, pick: Pick, given: Sequence[str] | None) -> Table:
    """Split a CSV by Python's csv module, which knows quotes, in batches."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows = (row for row in reader if row)
    frames: list[pl.DataFrame] = []
    lines: list[pl.Series] = []
    try:
        header = list(given) if given is not None else next(rows, [])
        known = pick(header)
        misfit = _MISFIT if given is None else _MISFIT_BARE
        while batch := list(itertools.islice(rows, _BATCH_ROWS)):
            frames.append(_batch(known, len(header), batch, misfit))
            lines.append(pl.Series("line", [",".join(row) for row in batch], dtype=pl.String))
    except csv.Error as error:
        raise InputError(
            f"{file} line {reader.line_num}",
            f"not valid CSV ({error})",
            "fields with commas or line breaks in double quotes, quotes closed",
        ) from None
    if not frames:
        frames, lines = [_batch(known, len(header), [], misfit)], [pl.Series("line", [], dtype=pl.String)]
    return Table(_numbered(pl.concat(frames)), lambda: pl.concat(lines))


def _batch(known: Mapping[str, int], width: int, rows: list[list[str]], misfit: str) -> pl.DataFrame:
    fits = [len(row) == width for row in rows]
    columns = {
        name: [row[place] if fit else None for row, fit in zip(rows, fits, strict=True)]
        for name, place in known.items()
    }
    columns["shape"] = [
        None if fit else misfit.format(len(row), width) for row, fit in zip(rows, fits, strict=True)
    ]
    return pl.DataFrame([pl.Series(name, cells, dtype=pl.String) for name, cells in columns.items()])


def _numbered(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
