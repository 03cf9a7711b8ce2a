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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from pipeline.errors import InputError
from pipeline.ingest.parsing import REJECT_SCHEMA, TEXT_LIMIT, Parsed, decode, events_frame

_BATCH_ROWS = 100_000
_PIECE_BYTES = 16 << 20
_BLOCK_BYTES = 256 << 10  # stays in the processor's cache
_LINE, _COMMA = b"\n,"
_BOM = b"\xef\xbb\xbf"
_MISFIT = "{} fields, the header has {}"
_MISFIT_BARE = "{} fields, a row has {}"

Pick = Callable[[list[str]], Mapping[str, int]]


@dataclass(frozen=True)
class Table:
    """The rows of a CSV: `frame` holds `row`, `shape` and the picked columns, `lines` gives their texts.

    `before` counts the rows of the file that stand before this piece of it.
    """

    frame: pl.DataFrame
    lines: Callable[[], pl.Series]
    before: int = 0

    def with_frame(self, frame: pl.DataFrame) -> Table:
        """Return the table with further columns."""
        return replace(self, frame=frame)

    def parsed(self, events: Mapping[str, pl.Expr], refused: str = "refused") -> Parsed:
        """Return events from expressions over the rows whose `refused` is null; the rest are rejects."""
        is_good = self.frame[refused].is_null()
        kept = self.frame if is_good.all() else self.frame.filter(is_good)
        columns = kept.select("row", **events)
        bad = self.frame.filter(~is_good).select("row", pl.col(refused).alias("reason"))
        if bad.is_empty():
            rejects = pl.DataFrame(schema=REJECT_SCHEMA)
        else:
            lines = self.lines().gather(bad["row"] - 1 - self.before)
            rejects = bad.with_columns(text=lines.str.slice(0, TEXT_LIMIT)).cast(REJECT_SCHEMA)
        return Parsed(events_frame(columns.to_dict()), rejects, self.frame.height)


def read(text: str, file: str, pick: Pick, header: Sequence[str] | None = None) -> Table:
    """Return the rows of a CSV; its first line is the header, unless the file has none and it is given.

    `pick` turns the header into column name -> place; it raises InputError for a header that lacks one.
    """
    return _quoted(text, file, pick, header) if '"' in text else _plain(text, pick, header)


def joined(parts: Iterable[Parsed]) -> Parsed:
    """Return what a source made of the pieces of a file as one."""
    done = list(parts)
    events, rejects = (pl.concat([getattr(part, name) for part in done]) for name in ("events", "rejects"))
    return Parsed(events, rejects, sum(part.rows_read for part in done))


def cleaned(frame: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """Return a frame whose named texts have no blanks around them; what is empty then is null."""
    # In two steps, because an expression that uses the stripped text twice strips it twice.
    names = list(names)
    stripped = frame.with_columns(pl.col(names).str.strip_chars())
    return stripped.with_columns(pl.when(pl.col(name) != "").then(name).alias(name) for name in names)


def first(*reasons: tuple[pl.Expr, str | pl.Expr]) -> pl.Expr:
    """Return the first reason whose condition holds, or null; the shape of the row comes before all."""
    chain: Any = pl.when(pl.col("shape").is_not_null()).then(pl.col("shape"))
    for condition, reason in reasons:
        chain = chain.when(condition).then(pl.lit(reason) if isinstance(reason, str) else reason)
    return pl.Expr.cast(chain, pl.String)


def pieces(data: bytes, file: str, pick: Pick) -> Iterator[Table]:
    """Yield the rows of a CSV with a header as `read` returns them, a piece of the file at a time.

    What a source makes of a piece is smaller than its text: memory then holds the file and one piece.
    """
    if b'"' in data:
        yield _quoted(decode(data, file), file, pick, None)
        return
    if not data.isascii():
        decode(data, file)  # an error is told with its line
    known: Mapping[str, int] | None = None
    header: list[str] = []
    rows = 0
    for piece in _cut(data):
        text = _unix(piece)
        if known is None:
            header, text = _header(text)
            if not header:
                continue
            known = pick(header)
        table = _whole(text, len(header), known, _MISFIT, rows)
        rows += table.frame.height
        yield table
    if known is None:
        pick([])


def _cut(data: bytes) -> Iterator[bytes]:
    """Yield pieces of whole lines."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    while start < len(data):
        end = data.rfind(b"\n", start, start + _PIECE_BYTES) + 1 or data.find(b"\n", start) + 1 or len(data)
        yield data[start : end if len(data) - start > _PIECE_BYTES else len(data)]
        start = end if len(data) - start > _PIECE_BYTES else len(data)


def _unix(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _header(data: bytes) -> tuple[list[str], bytes]:
    """Return the fields of the first line that is not blank, and what follows it."""
    head, _, rest = data.lstrip(b"\n").partition(b"\n")
    return head.decode().split(",") if head else [], rest


def _plain(text: str, pick: Pick, given: Sequence[str] | None) -> Table:
    data = _unix(text.encode())
    header = list(given) if given is not None else []
    if given is None:
        header, data = _header(data)
    return _whole(data, len(header), pick(header), _MISFIT if given is None else _MISFIT_BARE, 0)


def _whole(data: bytes, width: int, known: Mapping[str, int], misfit: str, rows: int) -> Table:
    """Return the rows of lines without a header, numbered after those that were read before."""
    data = data.lstrip(b"\n")
    frame = _at_once(data, width, known)
    if frame is None:
        frame = _line_by_line(_lines(data), width, known, misfit)
    return Table(_numbered(frame, rows), lambda: _lines(data), rows)


def _lines(data: bytes) -> pl.Series:
    lines = pl.Series("line", data.decode().split("\n"), dtype=pl.String)
    return lines.filter(lines != "")


def _at_once(data: bytes, width: int, known: Mapping[str, int]) -> pl.DataFrame | None:
    """Return a CSV's columns when every row has as many fields as the header; None otherwise.

    All columns are read, because a reader of some of them does not see a row that is too long.
    """
    if not data or width < 2 or data.isspace() or data.startswith(_BOM):  # which the reader would take away
        return None
    names = [f"column_{place + 1}" for place in range(width)]
    try:
        frame = pl.read_csv(
            data,
            has_header=False,
            schema=dict.fromkeys(names, pl.String()),
            quote_char=None,
            empty_string_is_null=False,
            extra_columns="raise",
        )
    except pl.exceptions.PolarsError:  # a row that is too long
        return None
    # Short rows are filled up and blank lines may be rows: then there are too few commas, or line breaks.
    lines = _count(data, _LINE) + (data[-1] != _LINE)
    if lines != frame.height or _count(data, _COMMA) != frame.height * (width - 1):
        return None
    return frame.select(
        *(pl.col(names[place]).alias(name) for name, place in known.items()),
        pl.lit(None, pl.String).alias("shape"),
    )


def _count(data: bytes, byte: int) -> int:
    """Return how often a frequent byte occurs: `bytes.count` is for seldom ones."""
    view = np.frombuffer(data, np.uint8)
    blocks = (view[start : start + _BLOCK_BYTES] for start in range(0, len(view), _BLOCK_BYTES))
    return sum(int(np.count_nonzero(block == byte)) for block in blocks)


def _line_by_line(lines: pl.Series, width: int, known: Mapping[str, int], misfit: str) -> pl.DataFrame:
    fields = pl.col("line").str.count_matches(",", literal=True) + 1
    parts = pl.col("line").str.split_exact(",", width - 1)
    fits = pl.col("shape").is_null()
    told = pl.format(misfit, fields, pl.lit(width))
    return (
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
    return Table(_numbered(pl.concat(frames), 0), lambda: pl.concat(lines))


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


def _numbered(frame: pl.DataFrame, rows: int) -> pl.DataFrame:
    numbers = pl.int_range(rows + 1, rows + 1 + pl.len(), dtype=pl.Int64).alias("row")
    return frame.select(numbers, pl.all())
