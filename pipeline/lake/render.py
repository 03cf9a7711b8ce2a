"""Print an Arrow table for people and programs.

In: a table. Out: bytes for stdout. Naive instants are UTC and carry a Z. A cell is data: control
characters, separators and quotes never reach the terminal or the next column as such.
"""

from __future__ import annotations

import io
import json
import math
import unicodedata
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError, listed, nearest

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 200  # of `table`; the other formats print every row
MAX_CELL = 80
_DIGITS = 6


def render(table: pa.Table, form: str, max_rows: int = MAX_ROWS) -> bytes:
    """Return the table in one of FORMATS; `table` shows at most `max_rows` rows and says so."""
    if form not in FORMATS:
        raise InputError("--format", f"{form!r} is unknown", listed(FORMATS), nearest(form, FORMATS))
    return FORMATS[form](table, max_rows)


def _text(table: pa.Table, max_rows: int) -> bytes:
    if table.schema.names == ["explain_key", "explain_value"]:  # a drawing
        return "".join(table.column(1).to_pylist()).encode()
    names, columns, right = _formatted(table.slice(0, max_rows))
    widths = [max(map(_width, [name, *cells])) for name, cells in zip(names, columns, strict=True)]
    lines = [_aligned(names, widths, right), "  ".join("-" * width for width in widths)]
    lines += [_aligned(row, widths, right) for row in zip(*columns, strict=True)]
    total = table.num_rows
    footer = f"{total:,} row{'' if total == 1 else 's'}"
    if total > max_rows:
        footer = f"the first {max_rows:,} of {total:,} rows; --format csv prints all"
    return "\n".join([*lines, f"({footer})", ""]).encode()


def _markdown(table: pa.Table, _: int) -> bytes:
    names, columns, right = _formatted(table)

    def line(cells: Sequence[str]) -> str:
        safe = (cell.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;") for cell in cells)
        return f"| {' | '.join(safe)} |"

    rule = ["---:" if number else "---" for number in right]
    return "\n".join([line(names), line(rule), *map(line, zip(*columns, strict=True)), ""]).encode()


def _csv(table: pa.Table, _: int) -> bytes:
    """RFC 4180: CRLF, quotes doubled; null is nothing, an empty text is two quotes."""

    def cell(value: Any) -> str:
        if value is None:
            return ""
        text = _plain(value)
        quote = not text or text != text.strip() or any(mark in text for mark in ',"\r\n')
        return '"' + text.replace('"', '""') + '"' if quote else text

    rows = [table.schema.names, *zip(*map(_values, table.columns), strict=True)]
    return "".join(f"{','.join(map(cell, row))}\r\n" for row in rows).encode()


def _json(table: pa.Table, _: int) -> bytes:
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    values = [[_jsonable(value) for value in _values(column)] for column in table.columns]
    rows = [dict(zip(table.schema.names, row, strict=True)) for row in zip(*values, strict=True)]
    return (
        json.dumps({"columns": columns, "rows": rows}, ensure_ascii=False, allow_nan=False).encode() + b"\n"
    )


def _parquet(table: pa.Table, _: int) -> bytes:
    import pyarrow as pa

    for index, field in enumerate(table.schema):
        try:
            _written(table.select([index]).slice(0, 1))
        except pa.ArrowNotImplementedError:  # Parquet has no intervals and no structs without fields
            texts = [None if value is None else _plain(value) for value in _values(table.column(index))]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return _written(table)


def _written(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(table, stream, compression="zstd")
    return stream.getvalue()


FORMATS: dict[str, Callable[[Any, int], bytes]] = {
    "table": _text,
    "csv": _csv,
    "json": _json,
    "parquet": _parquet,
    "markdown": _markdown,
}


# --- values ----------------------------------------------------------------------------------------------


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Return the column's Python values; instants Python cannot hold come as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        column = pc.cast(column, pa.timestamp("us", column.type.tz), safe=False)
    elif pa.types.is_time(column.type) and column.type.unit == "ns":
        column = pc.cast(column, pa.time64("us"), safe=False)
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError):
        return [_one(scalar) for scalar in column]


def _one(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.value) if hasattr(scalar, "value") else f"({scalar.type} beyond Python's range)"


def _jsonable(value: Any) -> Any:
    """Return a value JSON can hold: NaN and infinities become null, instants ISO 8601."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dict):
        return {str(key): _jsonable(item) for key, item in value.items()}
    if getattr(value, "nanoseconds", None) is not None:  # pyarrow's MonthDayNano, a tuple
        months, days, nanoseconds = value
        return f"P{months}M{days}DT{nanoseconds / 1e9:g}S"
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return _moment(value)


def _moment(value: Any) -> str:
    if isinstance(value, datetime):
        naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return naive.isoformat() + "Z"
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():g}S"
    return value.hex() if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> str:
    """Return a value as text that reads back: floats in full, lists and structs as JSON."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal | int | str):
        return str(value)
    safe = _jsonable(value)
    return safe if isinstance(safe, str) else json.dumps(safe, ensure_ascii=False)


# --- text for people -------------------------------------------------------------------------------------


def _formatted(table: pa.Table) -> tuple[list[str], list[list[str]], list[bool]]:
    """Return names, cells by column, and which columns hold numbers (aligned right)."""
    import pyarrow as pa

    names = [_visible(name) for name in table.schema.names]
    columns, right = [], []
    for column in table.columns:
        values = _values(column)
        kind = column.type
        is_real = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        right.append(is_real or pa.types.is_integer(kind))
        columns.append(_reals(values) if is_real else [_cell(value) for value in values])
    return names, columns, right


def _cell(value: Any) -> str:
    return "" if value is None else _visible(_plain(value))


def _reals(values: list[Any]) -> list[str]:
    """Return one column's numbers with the same number of decimals, about six digits of the largest."""
    numbers = [float(value) for value in values if value is not None and math.isfinite(value)]
    sizes = [math.floor(math.log10(abs(number))) for number in numbers if number]
    if all(number == int(number) for number in numbers):
        decimals = 0
    else:
        decimals = min(_DIGITS, max(0, _DIGITS - 1 - max(sizes), min(2 - min(sizes), 3)))
        # No more than the longest needs: a column of 0.5 and 0.25 has two decimals.
        needed = [f"{number:.{decimals}f}".partition(".")[2].rstrip("0") for number in numbers]
        decimals = max(map(len, needed))

    def text(value: Any) -> str:
        if value is None:
            return ""
        number = float(value)
        if not math.isfinite(number) or abs(number) >= 1e15:
            return f"{number:g}"
        shown = f"{number:.{decimals}f}"
        return f"{number:.2e}" if number and float(shown) == 0 else shown

    return [text(value) for value in values]


def _visible(text: str) -> str:
    """Return one line that a terminal cannot take for a command, cut at MAX_CELL characters."""
    cut = text if len(text) <= MAX_CELL else text[: MAX_CELL - 1] + "…"
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in cut)


def _width(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(unicodedata.combining(char) > 0 for char in text)


def _aligned(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for cell, width, is_number in zip(cells, widths, right, strict=True):
        space = " " * (width - _width(cell))
        padded.append(space + cell if is_number else cell + space)
    return "  ".join(padded).rstrip()
