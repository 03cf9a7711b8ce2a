"""Mira (Blue Gene/Q): RAS events, and the periods of maintenance (CSV without a header).

In: RAS rows of 16 fields, padded with blanks (a 17th at the end is allowed), or rows `START,END` of
maintenance; a file is one or the other, as its first row has two fields or more. Out: an `onset` a RAS row;
an `interval` of component planned and domain Mira a period.
Easy to get wrong: the control actions and the message hold commas, so fields count from both ends. FATAL
means that a job ends; that hardware is lost is what an action such as BOARD_IN_ERROR says. A location with
a `J` is a node; a shorter one is a rack, midplane, board or drawer: a domain. Times have no zone.
Source: the RAS schema of the machine's control database; periods as kept with LogAider.
"""

from __future__ import annotations

import re

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import csvtext
from pipeline.ingest.csvtext import Table
from pipeline.ingest.parsing import NO_NODE, NOT_ISO, Options, Parsed, PublicFile, decode, parse_instants

VERSION = "1"
TITLE = "Mira RAS events and maintenance (Argonne Leadership Computing Facility, 2013-2018)"
LICENSE = "public data of the ALCF; periods: LogAider (University of Chicago)"
HOMEPAGE = "https://github.com/disheng222/LogAider"
PUBLIC: dict[str, PublicFile] = {}
EXPORT = ""
FLAGS = ("tz", "fold")
TRAPS = (
    "Read the periods of maintenance too, into the same cluster, or each Monday's stop counts as failures.",
    "Periods begin at 14:00 in summer and 15:00 in winter, 9:00 in Chicago: give --tz UTC.",
    "FATAL ends a job (app); hardware is lost (down) where the control system put it in error.",
    "It tells no end of a fault: repair times are the scenario's.",
)
ENDS = False

MACHINE = "Mira"
_FIELDS = ("recid", "msg_id", "category", "component", "severity", "time", "job", "block", "location")
_RAS = (
    r"^([0-9]+),([0-9A-Fa-f]{8}),"
    + ",".join(["([^,]*)"] * 7)
    + r",[^,]*,[^,]*,[^,]*,(.*?),[A-Za-z] *,[^,]*(?:,[^,]*)?$"
)
_START = re.compile(rb"[0-9]+,[0-9A-Fa-f]{8},[^,]*,[^,]*,(?:FATAL|WARN|INFO)")
_PERIOD = re.compile(rb"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8},[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}\s")
_STAMP = r"^([0-9]{4}-[0-9]{2}-[0-9]{2})-([0-9]{2})\.([0-9]{2})\.([0-9]{2}\.[0-9]{1,6})$"
_NOTHING = "no row of RAS events or of maintenance"
_EXPECTED = "16 fields, or START,END"
_NO_STAMP = "not a time such as 2015-04-20-21.38.10.221308"
_LOST = r"\b[A-Z]+(?:_[A-Z]+)*_IN_ERROR\b"
_NODE = r"^([RQ][0-9A-Z]{2}(?:-[A-Z][0-9]+)*-J[0-9]{2})(?:-|$)"
_DOMAIN = r"^(R[0-9A-Z]{2}(?:-M[01](?:-N[0-9]{2})?)?|Q[0-9A-Z]{2}(?:-I[0-9])?)(?:-|$)"
COMPONENTS = {
    "BQC": "host",
    "DDR": "host",
    "Card": "host",
    "Node_Board": "host",
    "PCI": "host",
    "Service_Card": "host",
    "BQL": "nic",
    "Infiniband": "nic",
    "Ethernet": "nic",
    "Cable": "cable",
    "Optical_Module": "cable",
    "DCA": "power",
    "AC_TO_DC_PWR": "power",
    "Coolant_Monitor": "cooling",
    "Software_Error": "software",
    "Process": "software",
    "Job": "software",
    "ELF_Image": "software",
    "Block": "software",
}


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return RAS rows as onsets, or periods of maintenance as intervals, and the rows refused."""
    text = decode(data, file)
    line = text.lstrip().partition("\n")[0]
    if not any(sign.isdigit() for sign in line) or "," not in line:
        raise InputError(file, _NOTHING, _EXPECTED)
    if options.tz is None:
        raise options.zone_needed(file, line.split(",")[5 if line.count(",") > 5 else 0][:40])
    return _periods(text, file, options) if line.count(",") == 1 else _ras(text, file, options)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins with a RAS row or a period of maintenance."""
    return bool(_START.match(head) or _PERIOD.match(head))


def _periods(text: str, file: str, options: Options) -> Parsed:
    table = csvtext.read(text, file, lambda _: {"start": 0, "end": 1}, ("start", "end"))
    frame = table.frame.with_columns(csvtext.cleaned(name) for name in ("start", "end"))
    starts, ends = (parse_instants(frame[name], options) for name in ("start", "end"))
    if starts["reason"].eq_missing(NOT_ISO).all():
        raise InputError(file, _NOTHING, _EXPECTED)
    frame = frame.with_columns(
        t_start=starts["us"], start_reason=starts["reason"], t_end=ends["us"], end_reason=ends["reason"]
    )
    refused = csvtext.first(
        (pl.col("start").is_null(), "start is empty"),
        (pl.col("start_reason").is_not_null(), pl.lit("start: ") + pl.col("start_reason")),
        (pl.col("end").is_null(), "end is empty"),
        (pl.col("end_reason").is_not_null(), pl.lit("end: ") + pl.col("end_reason")),
        (pl.col("t_end") < pl.col("t_start"), "end before start"),
    )
    events = {"t_start": pl.col("t_start"), "t_end": pl.col("t_end"), "domain": pl.lit(MACHINE)} | {
        name: pl.lit(word)
        for name, word in {
            "kind": "interval",
            "severity": "down",
            "scope": "domain",
            "component": "planned",
            "code": "maintenance",
            "reason": "maintenance",
        }.items()
    }
    return table.with_frame(frame.with_columns(refused.alias("refused"))).parsed(events)


def _ras(text: str, file: str, options: Options) -> Parsed:
    lines = pl.Series("line", text.replace("\r\n", "\n").split("\n"), dtype=pl.String)
    lines = lines.filter(lines.str.contains(r"\S") & ~lines.str.starts_with("RECID,"))
    parts = pl.col("line").str.extract_groups(_RAS).struct
    fields = {name: parts.field(str(place)).str.strip_chars() for place, name in enumerate(_FIELDS, 1)}
    frame = lines.to_frame().select(**fields, told=parts.field(str(len(_FIELDS) + 1)).str.strip_chars())
    if not frame.filter(pl.col("recid").is_not_null()).height:
        raise InputError(file, "no row of RAS events", "RECID, MSG_ID and 14 fields more", "other columns?")
    stamp = pl.col("time").str.extract_groups(_STAMP).struct
    iso = pl.format("{}T{}:{}:{}", *(stamp.field(str(place)) for place in range(1, 5)))
    texts = frame.select(pl.when(stamp.field("1").is_not_null()).then(iso).otherwise(pl.lit(""))).to_series()
    instants = parse_instants(texts, options)
    frame = frame.with_columns(
        t_start=instants["us"],
        time_reason=instants["reason"].replace(NOT_ISO, _NO_STAMP),
        node=pl.col("location").str.extract(_NODE),
        shape=pl.lit(None, pl.String),
    )
    frame = frame.with_columns(
        domain=pl.when(pl.col("node").is_null()).then(pl.col("location").str.extract(_DOMAIN))
    )
    refused = csvtext.first(
        (pl.col("recid").is_null(), "no RAS row of 16 fields"),
        (~pl.col("severity").is_in(["FATAL", "WARN", "INFO"]), "severity is not FATAL, WARN or INFO"),
        (pl.col("time_reason").is_not_null(), pl.col("time_reason")),
        ((pl.col("severity") == "FATAL") & pl.coalesce("node", "domain").is_null(), NO_NODE),
    )
    frame = frame.with_columns(refused.alias("refused")).with_row_index("row", offset=1)
    return Table(frame.with_columns(pl.col("row").cast(pl.Int64)), lambda: lines).parsed(_ras_events())


def _ras_events() -> dict[str, pl.Expr]:
    is_fatal = pl.col("severity") == "FATAL"
    is_lost = is_fatal & pl.col("told").str.contains(_LOST)
    return {
        "t_start": pl.col("t_start"),
        "kind": pl.lit("onset"),
        "node": pl.col("node"),
        "domain": pl.col("domain"),
        "severity": pl.when(is_lost)
        .then(pl.lit("down"))
        .when(is_fatal)
        .then(pl.lit("app"))
        .otherwise(pl.lit("info")),
        "scope": pl.when(pl.col("node").is_null()).then(pl.lit("domain")).otherwise(pl.lit("node")),
        "component": pl.col("category").replace_strict(COMPONENTS, default="unknown", return_dtype=pl.String),
        "code": pl.col("msg_id"),
        "reason": pl.col("told"),
    }
