"""Mira (Blue Gene/Q): RAS events, and the periods of maintenance (CSV without a header).

In: RAS rows of 16 fields, padded with blanks (a 17th at the end is allowed), or rows `START,END` of
maintenance; a file is one or the other, as its first row has two fields or more. Out: an `onset` a RAS row;
an `interval` of component planned and domain Mira a period.
Easy to get wrong: the control actions and the message hold commas, so fields count from both ends. FATAL
means that a job ends; that hardware is lost is what an action such as BOARD_IN_ERROR says. A location with
a `J` is a node; a shorter one is a rack, midplane, board or drawer: a domain. Times have no zone.
Source: the data dictionary RAS_EVENT of the ALCF and the schema of the machine's control database; periods as
kept with LogAider.
"""

from __future__ import annotations

import re

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import csvtext
from pipeline.ingest.csvtext import Table
from pipeline.ingest.parsing import (
    NO_NODE,
    NOT_ISO,
    NOT_UTF8,
    Options,
    Parsed,
    PublicFile,
    decode,
    parse_instants,
    text_lines,
)

VERSION = "1"
TITLE = "Mira RAS events and maintenance (Argonne Leadership Computing Facility, 2013-2018)"
LICENSE = "public data of the ALCF; periods: LogAider (University of Chicago)"
HOMEPAGE = "https://github.com/disheng222/LogAider"
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "git clone --depth 1 https://github.com/disheng222/LogAider    # schema/maintenance_periods.txt\n"
    "# RAS events: a CSV a year from the public data portal of the ALCF, by hand"
)
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
# All categories of the data dictionary; real rows write InfiniBand in both ways.
COMPONENTS = {
    "BQC": "host",
    "DDR": "host",
    "Card": "host",
    "Node_Board": "host",
    "IO_Board": "host",
    "Service_Card": "host",
    "PCI": "host",
    "Clocks": "host",
    "Clock_FPGA": "host",
    "Icon": "host",
    "Palomino": "host",
    "BQL": "nic",
    "BGL": "nic",
    "Message_Unit": "nic",
    "InfiniBand": "nic",
    "Infiniband": "nic",
    "Ethernet": "nic",
    "Cable": "cable",
    "Optical_Module": "cable",
    "DCA": "power",
    "AC_TO_DC_PWR": "power",
    "DC_TO_DC_PWR": "power",
    "Coolant_Monitor": "cooling",
    "Fan": "cooling",
    "Fan_Assembly": "cooling",
    "Temp_Sensor": "cooling",
    "Software_Error": "software",
    "Process": "software",
    "Job": "software",
    "ELF_Image": "software",
    "Block": "software",
}


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return RAS rows as onsets, or periods of maintenance as intervals, and the rows refused."""
    text = pl.col("line")
    lines = text_lines(data, file).filter(text.str.contains(r"\S") & ~text.str.starts_with("RECID,"))
    line = lines["line"][0].lstrip() if len(lines) else ""
    if not any(sign.isdigit() for sign in line) or "," not in line:
        raise InputError(file, _NOTHING, _EXPECTED)
    if options.tz is None:
        raise options.zone_needed(file, line.split(",")[5 if line.count(",") > 5 else 0][:40])
    is_period = line.count(",") == 1
    return _periods(decode(data, file), file, options) if is_period else _ras(lines, file, options)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins with a RAS row or a period of maintenance."""
    return bool(_START.match(head) or _PERIOD.match(head))


def _periods(text: str, file: str, options: Options) -> Parsed:
    table = csvtext.read(text, file, lambda _: {"start": 0, "end": 1}, ("start", "end"))
    frame = csvtext.cleaned(table.frame, ("start", "end"))
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


def _ras(lines: pl.DataFrame, file: str, options: Options) -> Parsed:
    parts = pl.col("line").str.extract_groups(_RAS).struct
    fields = {name: parts.field(str(place)).str.strip_chars() for place, name in enumerate(_FIELDS, 1)}
    frame = lines.select("is_text", **fields, told=parts.field(str(len(_FIELDS) + 1)).str.strip_chars())
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
        (~pl.col("is_text"), NOT_UTF8),
        (pl.col("recid").is_null(), "no RAS row of 16 fields"),
        (~pl.col("severity").is_in(["FATAL", "WARN", "INFO"]), "severity is not FATAL, WARN or INFO"),
        (pl.col("time_reason").is_not_null(), pl.col("time_reason")),
        ((pl.col("severity") == "FATAL") & pl.coalesce("node", "domain").is_null(), NO_NODE),
    )
    frame = frame.with_columns(refused.alias("refused")).with_row_index("row", offset=1)
    return Table(frame.with_columns(pl.col("row").cast(pl.Int64)), lambda: lines["line"]).parsed(
        _ras_events()
    )


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
