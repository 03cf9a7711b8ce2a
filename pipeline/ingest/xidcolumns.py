"""The usual lines of a log full of Xids, read by whole columns: what a storm consists of.

In: wanted lines. Out: `Usual`: the rows of those of the usual form, their times as texts, and which lines are
left for the slower way, one by one. The usual form is a time with its zone (or a zone given) or a time
without year, a server, the kernel's tag, an Xid and printable words, as rsyslog writes; or journald's JSON.
Easy to get wrong: both ways must give the same rows, which a test compares. So a line is usual only if
nothing about it is left open: another form, an escaped line end, another alphabet, a code that its words
decide (NVLink5), a missing zone and an unknown month are left to the slower way. A JSON object is usual if
all its values are texts without an escape: a pattern tells that it is whole, and no text looks like a key.
Source: as xidlines.py and kernellog.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import polars as pl

from pipeline.ingest import xids
from pipeline.ingest.clock import MONTHS
from pipeline.ingest.parsing import Options
from pipeline.ingest.xidchains import ROWS
from pipeline.ingest.xidlines import ADDRESS, XID, name_of

_CLOCK = r"[0-9]{2}:[0-9]{2}:[0-9]{2}"
_MONTH = "|".join(name.title() for name in MONTHS)
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_MESSAGE = rf"NVRM: Xid \({ADDRESS}\): ([1-9][0-9]{{0,4}})(?-u:\b)[ ,]*([ -~]*)$"
_REST = rf" ({_HOST}) kernel: (?:\[ *[0-9]+\.[0-9]+\] )?{_MESSAGE}"
_PARTS = ("host", "address", "number", "words")
_ISO_DAY = rf"[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK}(?:[.,][0-9]{{1,9}})?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})"
_ZONED = rf"^({_ISO_DAY}{_ZONE}){_REST}"
_LOCAL = rf"^({_ISO_DAY}{_ZONE}?){_REST}"
_YEARLESS = rf"^({_MONTH}) {{1,2}}([0-9]{{1,2}}) ({_CLOCK}(?:[.,][0-9]{{1,9}})?){_REST}"
_VALUE = r'"[A-Za-z0-9_]+" ?: ?(?:"[ !#-\[\]-~]*"|null)'
_OBJECT = rf"^\{{{_VALUE}(?: ?, ?{_VALUE})* ?\}}$"
_FIELDS = {"host": "_HOSTNAME", "us": "__REALTIME_TIMESTAMP", "teller": "_TRANSPORT", "message": "MESSAGE"}
_KEYS = rf'"(?:{"|".join(_FIELDS.values())})"'
_FINER = r"([.,][0-9]{6})[0-9]+"
_CAPITALS = r"^(?:Z|[A-Z]{2,5})$"  # a server so named may be a zone
_ESCAPED = r"\\x0a|#012"
_LONGEST_HOST = 255


class Usual(NamedTuple):
    """Rows of usual lines without `t_start`, and the places of the other lines.

    `us` holds times that are told in microseconds, `stamp` the texts of the others. One without a year begins
    with `-` and the month; `run` tells its year, and is -1 for the others.
    """

    rows: pl.DataFrame
    left: list[int]


def usual(
    numbers: Sequence[int], texts: Sequence[str], runs: Sequence[int], options: Options, table: xids.Table
) -> Usual:
    """Read the usual lines among these; `rows` has `stamp`, `us`, `run` and `text` beside those of a row."""
    frame = pl.DataFrame(
        {"row": numbers, "run": runs, "text": texts},
        schema={"row": pl.Int64(), "run": pl.Int64(), "text": pl.String()},
    ).with_row_index("place")
    if texts and texts[0].startswith("{"):
        return _usual(_journal(frame), frame.height, table)
    dated = _dated(frame, _ZONED if options.tz is None else _LOCAL)
    found = [dated]
    if options.tz is not None and dated.height < frame.height:
        found.append(_yearless(frame.join(dated.select("place"), on="place", how="anti")))
    return _usual(pl.concat(found).with_columns(us=pl.lit(None, pl.Int64)), frame.height, table)


def _usual(found: pl.DataFrame, lines: int, table: xids.Table) -> Usual:
    rows = _rows(found, table)
    is_left = ~pl.int_range(lines, eager=True).is_in(rows["place"].cast(pl.Int64).implode())
    return Usual(rows.drop("place"), is_left.arg_true().to_list())


def _journal(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the entries of journald that the kernel wrote and that hold an Xid, taken apart."""
    text = pl.col("text")
    found = frame.filter(text.str.contains(_OBJECT)).with_columns(
        text.str.extract(rf'"{key}" ?: ?"([^"]*)"').alias(name) for name, key in _FIELDS.items()
    )
    found = found.filter(  # each field once: of several, the last would count
        text.str.count_matches(_KEYS) == len(_FIELDS),
        pl.col("teller") == "kernel",
        pl.col("host").str.contains(f"^{_HOST}$"),
        pl.col("us").str.contains("^[0-9]{1,18}$"),
    )
    found = _parted(found, pl.col("message"), f"^{_MESSAGE}", _PARTS[1:])
    return found.select(
        "place",
        "row",
        "text",
        pl.lit(-1, pl.Int64).alias("run"),
        pl.lit(None, pl.String).alias("stamp"),
        pl.col("us").cast(pl.Int64),
        *_PARTS,
    )


def _dated(frame: pl.DataFrame, pattern: str) -> pl.DataFrame:
    found = _parted(frame, pl.col("text"), pattern, ("stamp", *_PARTS))
    found = found.filter(~pl.col("host").str.contains(_CAPITALS))
    # Kernels count microseconds: what is finer comes from a clock that was added later.
    return found.with_columns(pl.col("stamp").str.replace(_FINER, "$1"), run=pl.lit(-1, pl.Int64))


def _yearless(frame: pl.DataFrame) -> pl.DataFrame:
    found = _parted(frame, pl.col("text"), _YEARLESS, ("month", "day", "clock", *_PARTS)).filter(
        pl.col("run") >= 0
    )
    numbers = {name.title(): f"-{number:02}-" for name, number in MONTHS.items()}
    clock = pl.col("clock").str.replace(_FINER, "$1").str.replace(",", ".", literal=True)
    stamp = pl.concat_str(
        pl.col("month").replace_strict(numbers, return_dtype=pl.String),
        pl.col("day").str.zfill(2),
        pl.lit("T"),
        clock,
    )
    return found.with_columns(stamp=stamp).select("place", "row", "run", "text", "stamp", *_PARTS)


def _parted(frame: pl.DataFrame, text: pl.Expr, pattern: str, names: Sequence[str]) -> pl.DataFrame:
    """Return the lines of a form, taken apart."""
    parts = text.str.extract_groups(pattern).struct.rename_fields(names)
    found = frame.with_columns(parts.alias("parts")).unnest("parts").filter(pl.col("number").is_not_null())
    is_long = pl.col("host").str.len_bytes() > _LONGEST_HOST
    return found.filter(~is_long & ~pl.col("text").str.contains(_ESCAPED))


def _rows(found: pl.DataFrame, table: xids.Table) -> pl.DataFrame:
    """Return what the lines say: what their codes mean, and the names of their GPUs."""
    named = {text: name_of(text) for text in found["address"].unique()}
    found = found.with_columns(
        pl.col("number").cast(pl.Int64),
        words=pl.col("words").str.strip_chars_end(" "),
        gpu_name=pl.col("address").replace_strict(named, return_dtype=pl.String),
    )
    codes = [code for code in found["number"].unique().to_list() if not table.has_rules(code)]
    meanings = [table.codes.get(code, xids.UNKNOWN) for code in codes]
    means = pl.DataFrame(
        {
            "number": codes,
            "severity": [meaning.severity for meaning in meanings],
            "scope": [meaning.scope for meaning in meanings],
            "component": [meaning.component for meaning in meanings],
            "code": [f"xid {code}" for code in codes],
        },
        schema={name: ROWS[name] for name in ("number", "severity", "scope", "component", "code")},
    )
    found = found.join(means, on="number", how="inner").filter(pl.col("gpu_name").is_not_null())
    head = pl.concat_str(pl.lit("Xid "), pl.col("number").cast(pl.String))
    is_bare = pl.col("words") == ""
    return found.select(
        "place",
        "row",
        "run",
        "stamp",
        "us",
        "text",
        "gpu_name",
        "number",
        "severity",
        "scope",
        "component",
        "code",
        node=pl.col("host"),
        family=pl.lit(XID),
        reason=pl.when(is_bare).then(head).otherwise(pl.concat_str(head, pl.lit(", "), pl.col("words"))),
    )
