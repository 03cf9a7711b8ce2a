"""Titan GPU life spans: 37,343 spans of a GPU in a slot and the fault that ended them (CSV).

In: `gc_full.csv`, found by its column names. `insert` and `remove` are local clock times without a zone, the
event is DBE (double-bit error), OTB (off the bus) or empty. Out: an `onset` at `remove` for a span that a
fault ended, an `interval` of severity info for one that no fault ended. The node is the slot, whose one GPU
has index 0 and its serial number as name; the length of a span stands in the reason.
Easy to get wrong: times need the zone of the site (America/New_York): subtracted as they stand they disagree
with `duration` in 16,944 rows. Two rows lie in the hour that comes twice, and are refused unless `fold` says
which. 1,158 faults have no span before them: they count as faults and not as exposure. Serial numbers begin
with a zero and stay text. Times are those of inventory scans, so the gap after a fault is no repair time. A
`duration` that is not the time from `insert` to `remove` is told in a note, which a wrong zone brings about.
Source: the repository of Ostrouchov et al., "GPU lifetimes on Titan supercomputer" (SC20).
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import csvtext, doubts
from pipeline.ingest.parsing import Options, Parsed, PublicFile, decode, parse_instants

VERSION = "1"
TITLE = "Titan GPU lifetimes (Oak Ridge Leadership Computing Facility, 2013-2019)"
LICENSE = "none stated; cite the SC20 paper"
HOMEPAGE = "https://github.com/olcf/TitanGPULife"
PUBLIC = {
    "gc_full.csv": PublicFile(
        url="https://raw.githubusercontent.com/olcf/TitanGPULife/main/data/gc_full.csv",
        sha256="a1f29b9b9b67c1e8ef2370cbaf783e4eeb7ba9ccadc5511ca7056d8feeeefed8",
        bytes=3_024_995,
    )
}
EXPORT = ""
FLAGS = ("tz", "fold")
TRAPS = (
    "Give --tz America/New_York, the site's clock; two rows lie in the hour that came twice: --fold later.",
    "It tells when GPUs fail, not when they are back: repair times are the scenario's.",
    "The rate is not constant (15 double-bit errors in 2014, 1,290 in 2016): never pool the years.",
    "13 spans overlap another of their slot, and 70 GPUs failed more than once.",
    "Give all 18,688 slots as nodes; 512 service nodes of the machine have no GPU and do not occur.",
)
ENDS = False

_READ = ("SN", "location", "insert", "remove", "duration", "event")
_EVENTS = {"DBE": "gpu", "OTB": "gpu"}
_SLOT = r"^c[0-9]{1,2}-[0-9]c[0-9]s[0-9]n[0-9]$"


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the rows as onsets and fault-free spans, and those refused with the reason."""
    table = csvtext.read(decode(data, file), file, lambda header: _columns(header, file))
    if table.frame.is_empty():
        raise InputError(file, "no rows below the header", "life spans", "the file may be cut off")
    if options.tz is None:
        raise options.zone_needed(
            file, table.frame["remove"].first(), "--tz America/New_York, the clock of the site"
        )
    frame = csvtext.cleaned(table.frame, _READ)
    inserted, removed = (parse_instants(frame[name], options) for name in ("insert", "remove"))
    frame = frame.with_columns(
        inserted=inserted["us"],
        insert_reason=inserted["reason"],
        removed=removed["us"],
        remove_reason=removed["reason"],
    ).with_columns(_refusal().alias("refused"))
    kept = frame.filter(pl.col("refused").is_null())
    notes = doubts.lengths(kept["duration"].cast(pl.Int64), kept["inserted"], kept["removed"])
    return replace(table.with_frame(frame).parsed(_events()), notes=tuple(notes))


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as this table does."""
    return head.startswith(b"SN,location,insert,remove")


def _columns(header: list[str], file: str) -> dict[str, int]:
    names = [name.strip() for name in header]
    missing = [name for name in _READ if names.count(name) != 1]
    if missing:
        found = f"not once each: {', '.join(missing)}, in {','.join(names)[:200]!r}"
        raise InputError(f"{file} header", found, "SN,location,insert,remove,duration,out,event")
    return {name: names.index(name) for name in _READ}


def _refusal() -> pl.Expr:
    event, inserted = pl.col("event"), pl.col("insert")
    seconds = "^[0-9]{1,10}$"
    return csvtext.first(
        (pl.col("SN").is_null(), "SN is empty"),
        (~pl.col("location").str.contains(_SLOT).fill_null(value=False), "location is no slot cX-YcCsSnN"),
        (~event.is_in(list(_EVENTS)), "event is not DBE, OTB or empty"),
        (~pl.col("duration").str.contains(seconds), "duration is not whole seconds"),
        (pl.col("remove").is_null(), "remove is empty"),
        (pl.col("remove_reason").is_not_null(), pl.lit("remove: ") + pl.col("remove_reason")),
        (pl.col("insert_reason").is_not_null(), pl.lit("insert: ") + pl.col("insert_reason")),
        (event.is_null() & inserted.is_null(), "neither a span nor an event"),
        (pl.col("removed") < pl.col("inserted"), "removed before inserted"),
    )


def _events() -> dict[str, pl.Expr]:
    event = pl.col("event")
    is_fault = event.is_not_null()
    span = pl.when(pl.col("inserted").is_not_null()).then(
        pl.format("{} s in the slot", pl.col("duration").fill_null("unknown"))
    )
    return {
        "t_start": pl.when(is_fault).then("removed").otherwise("inserted"),
        "t_end": pl.when(~is_fault).then("removed"),
        "kind": pl.when(is_fault).then(pl.lit("onset")).otherwise(pl.lit("interval")),
        "node": pl.col("location"),
        "gpu": pl.lit(0),
        "gpu_name": pl.col("SN"),
        "severity": pl.when(is_fault).then(pl.lit("down")).otherwise(pl.lit("info")),
        "scope": pl.lit("gpu"),
        "component": event.replace_strict(_EVENTS, default="unknown", return_dtype=pl.String),
        "code": event.fill_null("life span"),
        "reason": pl.concat_str(event, span, separator=", after ", ignore_nulls=True),
    }
