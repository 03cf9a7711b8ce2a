"""Blue Gene/L and Thunderbird logs with alert tags, one line an entry (text).

In: lines `TAG EPOCH YYYY.MM.DD NODE CLOCK ... MESSAGE`, the clock as Blue Gene/L writes it
(`2005-06-03-15.42.50.675872`) or as syslog does (`Nov 9 12:01:01`). Out: one `onset` a line; the tag `-` is
no alert and severity info, another tag is the code. The instant is the epoch's second, with the microseconds
of the clock where it has them.
Easy to get wrong: the words FATAL and FAILURE of a line are no alert, the tag is. The clock is local time
without a zone and, for Thunderbird, not that of the site: it is used to check the epoch, never to date a
line. A location that names a chip on a card is a node; a shorter one is a rack, midplane or board: a domain.
Source: Oliner and Stearley, "What supercomputers say" (DSN 2007); the format as kept by loghub; the words of
each tag of Blue Gene/L as public parsers of the whole log match them, of Thunderbird as the paper tells them.
"""

from __future__ import annotations

import re
from typing import Any

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest.csvtext import Table, first
from pipeline.ingest.parsing import NO_NODE, NOT_UTF8, Options, Parsed, PublicFile, bounded, text_lines
from pipeline.units import US_PER_S

VERSION = "1"
TITLE = "Blue Gene/L and Thunderbird logs (loghub)"
LICENSE = "research and academic use only; keep the notice of loghub"
HOMEPAGE = "https://github.com/logpai/loghub"
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "curl -LO https://zenodo.org/records/8196385/files/BGL.zip && unzip BGL.zip    # BGL.log\n"
    "curl -LO https://zenodo.org/records/8196385/files/Thunderbird.tar.gz && tar xzf Thunderbird.tar.gz"
)
FLAGS = ()
TRAPS = (
    "Only a tag other than - is an alert: the words FATAL and FAILURE of a line are not.",
    "An alert does not say that the node was lost: those of applications are app, all others down.",
    "It tells no end: repair times are the scenario's.",
    "One fault writes thousands of lines: they are folded per node and tag when timelines are built.",
)
ENDS = False

_LINE = r"^(\S+) ([0-9]{9,10}) [0-9]{4}\.[0-9]{2}\.[0-9]{2} (\S+) (.*)$"
_CLOCK = (
    r"^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}-[0-9]{2}\.([0-9]{2})\.([0-9]{2})\.([0-9]{6})"
    r"|[A-Z][a-z]{2} {1,2}[0-9]{1,2} [0-9]{2}:([0-9]{2}):([0-9]{2})) (\S+) ?(.*)$"
)
_HEAD = re.compile(rb"\S+ [0-9]{9,10} [0-9]{4}\.[0-9]{2}\.[0-9]{2} \S+ ")
_QUARTER_S = 900  # every zone is whole quarters of an hour from UTC
_BATCH_LINES = 200_000
_NOWHERE = ("NULL", "UNKNOWN_LOCATION", "-")
_CHIP = r"-[CI]:J[0-9]{2}"
_PART = r"^R[0-9A-F]{2}(?:$|-)"

# What stands in the lines that have the tag. Blue Gene/L has 41 tags; one that is absent here begins with APP
# and is of an application. Raw files of Thunderbird write N_ or R_ in front, and a number behind; what their
# MTT and SERR are is not known.
COMPONENTS = {
    "KERNDTLB": "host",
    "KERNTLBE": "host",
    "KERNSTOR": "host",  # an interrupt of the processor's memory access, not of a disk
    "KERNMC": "host",
    "KERNFLOAT": "host",
    "KERNBIT": "host",
    "MMCS": "host",  # an internal error of the third cache, as the control system tells it
    "DDR_EXC": "host",
    "DDR_STR": "host",
    "KERNPOW": "power",
    "KERNSERV": "power",  # the signal that power is good has gone
    "MONPOW": "power",
    "KERNMNTF": "storage",
    "KERNMNT": "storage",
    "KERNNOETH": "nic",
    "KERNSOCK": "nic",
    "KERNCON": "nic",
    "KERNREC": "nic",  # the tree network, as KERNEXT
    "KERNEXT": "nic",
    "APPTORUS": "nic",
    "LINKDISC": "cable",
    "LINKIAP": "cable",
    "LINKPAP": "cable",
    "LINKBLL": "cable",
    "KERNMICRO": "software",
    "KERNTERM": "software",
    "KERNRTSP": "software",
    "KERNRTSA": "software",
    "KERNPAN": "software",
    "KERNPROG": "software",
    "MASABNORM": "software",
    "MASNORM": "software",
    "MONILL": "software",
    "MONNULL": "software",
    "CPU": "host",  # lost ticks of the clock
    "ECC": "host",
    "NMI": "host",
    "EXT_FS": "storage",
    "EXT_INODE": "storage",
    "CHK_DSK": "storage",
    "SCSI": "storage",
    "MPT": "storage",
    "LUS_LBUG": "storage",
    "NFS": "storage",
    "VAPI": "nic",
    "PBS_CON": "software",
    "PBS_BFD": "software",
    "PBS_BAIL": "software",
    "PBS_EPI": "software",
    "PBS_SIS": "software",
    "PAN": "software",
    "PAG": "software",
    "GPF": "software",
    "RIP": "software",
    "SEG": "software",
    "AUTH": "software",
    "CALL_TR": "software",
    "MAIL": "software",
    "OOM": "software",
}


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return every line as an event, and those refused with the reason."""
    lines = text_lines(data, file).filter(pl.col("line").str.contains(r"\S"))
    # A batch at a time, because the parts of a line take several times its own memory.
    starts = range(0, max(1, len(lines)), _BATCH_LINES)
    frame = pl.concat([_fields(lines.slice(start, _BATCH_LINES), options) for start in starts])
    if frame["tag"].null_count() == len(frame):
        expected = (
            "lines such as `- 1117838570 2005.06.03 R02-M1-N0-C:J12-U11 2005-06-03-15.42.50.675872 ...`"
        )
        raise InputError(file, "no line of Blue Gene/L or Thunderbird", expected)
    frame = frame.with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
    return Table(frame, lambda: lines["line"]).parsed(_events())


def _fields(lines: pl.DataFrame, options: Options) -> pl.DataFrame:
    """Return what the lines say, and in `refused` why one cannot be accepted."""
    parts = pl.col("line").str.extract_groups(_LINE).struct
    frame = lines.select(
        "is_text",
        tag=parts.field("1"),
        epoch=parts.field("2").cast(pl.Int64),
        place=parts.field("3"),
        rest=parts.field("4"),
    )
    clock = pl.col("rest").str.extract_groups(_CLOCK).struct
    digits: Any = clock.field("3").cast(pl.Int64)
    frame = frame.with_columns(
        minute=pl.coalesce(clock.field("1"), clock.field("4")).cast(pl.Int64),
        second=pl.coalesce(clock.field("2"), clock.field("5")).cast(pl.Int64),
        told=clock.field("7"),
        us=pl.col("epoch") * US_PER_S + digits.fill_null(0),
        place=pl.when(~pl.col("place").is_in(_NOWHERE)).then("place"),
    )
    instants = bounded(frame.select("us", reason=pl.lit(None, pl.String)), options)
    frame = frame.with_columns(t_start=instants["us"], far=instants["reason"], shape=pl.lit(None, pl.String))
    return frame.select("tag", "place", "told", "t_start", _refusal().alias("refused"))


def looks_like(head: bytes) -> bool:
    """Return whether a file begins with such a line."""
    return bool(_HEAD.match(head))


def _refusal() -> pl.Expr:
    differs = (pl.col("epoch") - pl.col("minute") * 60 - pl.col("second")) % _QUARTER_S != 0
    return first(
        (~pl.col("is_text"), NOT_UTF8),
        (pl.col("tag").is_null(), "no line of Blue Gene/L or Thunderbird"),
        (pl.col("minute").is_null(), "no clock time after the node"),
        (differs, "epoch and clock time differ by no zone's offset"),
        (pl.col("far").is_not_null(), pl.col("far")),
        ((pl.col("tag") != "-") & pl.col("place").is_null(), NO_NODE),
    )


def _events() -> dict[str, pl.Expr]:
    tag, place = pl.col("tag"), pl.col("place")
    is_part = place.str.contains(_PART) & ~place.str.contains(_CHIP)
    is_node = place.is_not_null() & ~is_part
    is_alert, is_app = tag != "-", tag.str.starts_with("APP")
    severity = (
        pl.when(~is_alert).then(pl.lit("info")).when(is_app).then(pl.lit("app")).otherwise(pl.lit("down"))
    )
    bare = tag.str.replace("^[NR]_", "").str.replace("(?:_ABRT|_IO)?[0-9]*$", "")
    known = bare.replace_strict(COMPONENTS, default=None, return_dtype=pl.String)
    otherwise = pl.when(is_app).then(pl.lit("software")).otherwise(pl.lit("unknown"))
    return {
        "t_start": pl.col("t_start"),
        "kind": pl.lit("onset"),
        "node": pl.when(is_node).then(place),
        "domain": pl.when(is_part).then(place),
        "severity": severity,
        "scope": pl.when(is_node).then(pl.lit("node")).otherwise(pl.lit("domain")),
        "component": pl.coalesce(known, otherwise),
        "code": pl.when(is_alert).then(tag).otherwise(pl.lit("none")),
        "reason": pl.col("told"),
    }
