"""LANL LA-UR-05-7318: ten years of node outages on 23 systems, with start, end and cause (CSV).

In: the CSV as published, found by its column names. `Prob Started` and `Prob Fixed` are local clock times,
`M/D/YYYY H:MM`, without a zone. Out: one `interval` event a row; the node is `sSnN`, from the system and the
zero-based node number; the code is the cause's column and word.
Easy to get wrong: the times need the zone of the site (America/Denver): subtracted as they stand they are an
hour off in 24 rows. Two of those 24 lie in the hour that comes twice, and are refused unless `fold` says
which. `Down Time` is minutes of a clock whose seconds the file no longer has (399 rows differ by one), so
the end is `Prob Fixed`; where they are further apart, as under a wrong zone, a note tells it. `nodenum` mixes
two ways to count, `nodenumz` does not. The columns of installation hold months that a spreadsheet turned into
days (`5-Apr` is April 2005): nothing is read from them.
Source: LA-UR-05-7318 of Los Alamos National Laboratory, as kept with "Evidence-based Software Engineering".
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import csvtext, doubts
from pipeline.ingest.parsing import NOT_ISO, Options, Parsed, PublicFile, decode, parse_instants

VERSION = "1"
TITLE = "LANL LA-UR-05-7318 (Los Alamos National Laboratory, 1996-2005)"
LICENSE = "Universal release; cite Los Alamos National Laboratory"
HOMEPAGE = "https://github.com/Derek-Jones/ESEUR-code-data"
PUBLIC = {
    "LA-UR-05-7318-failure-data-1996-2005.csv.xz": PublicFile(
        url="https://raw.githubusercontent.com/Derek-Jones/ESEUR-code-data/master/reliability/"
        "LA-UR-05-7318-failure-data-1996-2005.csv.xz",
        sha256="ed32fd254a013df79f5f475f4eac85980f7229735e100ac427343ef449a75140",
        bytes=253_144,
    )
}
EXPORT = ""
FLAGS = ("tz", "fold")
TRAPS = (
    "Give --tz America/Denver: without the rules of the site's clock 24 outages are an hour off.",
    "Two rows lie in the hour that came twice; --fold later dates both as their own down times do.",
    "It holds 23 systems of unlike nodes: take one out with `awk -F, 'NR == 1 || $1 == 20'` and read that.",
    "The 126 rows of system 17 name no node and stand as one node, s17.",
    "91 outages overlap another of their node and 27 rows stand twice: sums count time twice, unions do not.",
    "Dedicated system time, upgrades and maintenance are of component planned: no failures by default.",
)
ENDS = True

_EARLIEST = datetime(1995, 1, 1, tzinfo=UTC)  # the first row is of May 1995
_CAUSES = ("Facilities", "Hardware", "Human Error", "Network", "Undetermined", "Software")
_READ = ("System", "nodenumz", "Prob Started", "Prob Fixed", *_CAUSES)
_DOWN = "Down Time"  # minutes
_CLOCK = r"^([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}) ([0-9]{1,2}):([0-9]{2})$"
_NO_CLOCK = "not a time such as 6/21/2005 10:54"
_NO_CAUSE = "no cause given"

# What a word means for the column it stands in: Network and Interconnect occur in two of them.
_WORDS: dict[str, dict[str, tuple[str, ...]]] = {
    "Facilities": {
        "power": ("Power Outage", "Power Spike", "UPS"),
        "cooling": ("Chillers",),
    },
    "Hardware": {
        "planned": ("Maintenance",),
        "power": ("Power Supply", "Power cord", "GFX Power Supply", "Rack Power Distribution Unit"),
        "cooling": ("Fan", "Fan Assembly", "40MM Cooling Fan", "Temp Probe", "Heatsink bracket"),
        "cable": (
            "Interconnect Cable",
            "Ethernet Cable",
            "Ethernet Copper Cable",
            "Ethernet Fiber Cable",
            "Ethernet Fibre Cable",
            "Fibre Cable",
            "IDE Cable",
            "SAN Fiber Cable",
            "Wire Harness",
        ),
        "nic": (
            "Interconnect",
            "Interconnect Interface",
            "Interconnect Misc",
            "Interconnect Soft Error",
            "Interconnect Switch",
            "Router Board",
            "Ethernet Switch",
            "Site Ethernet Switch",
            "Gig E Switch",
            "Gig E Connection",
            "GE Board",
            "PCI GBIT Ethernet Board",
            "PCI Ethernet Board",
            "1 GBit Ethernet Card",
            "100 MBit Ethernet Card",
            "Fddi",
            "Site Network Interface",
        ),
        "storage": (
            "Disk Drive",
            "Disk Cabinet",
            "Drive Cage",
            "Fibre Drive",
            "Fibre HBA",
            "Fibre Channel Port Adapter",
            "Fibre Raid Controller",
            "Fibre Raid LCC card",
            "Fibre Raid Midplane",
            "Fibre Raid Power Supply",
            "IOS Disk Logic",
            "KGPSA",
            "PCI Fibre Channel Adapter",
            "PCI Fibre Channel Adaptor",
            "PCI SCSI Controller",
            "SAN Appliance",
            "SAN Controller",
            "SAN controller",
            "SAN Disk Drive",
            "SAN GBIC",
            "SAN Shelf",
            "SAN Switch",
            "SCSI Adapter Card",
            "SCSI Card",
            "SCSI Controller",
            "SCSI Drive",
        ),
        "gpu": ("Graphics Accel Hdwr", "Graphics Video Card"),
        "host": (
            "CPU",
            "IOS CPU",
            "Memory Dimm",
            "Memory Dimm/CPU",
            "Memory Module",
            "Node Board",
            "System Board",
            "System Controller",
            "Mid-plane",
            "Bach Plane Assembly",
            "PCI Backplane",
            "PCI Back Plane",
            "PCI IO Module",
            "PCI Shoebox",
            "Riser Card",
        ),
    },
    "Network": {"nic": ("Network",)},
    "Software": {
        "planned": (
            "DST",  # dedicated system time, as the laboratory calls what it sets aside for maintenance
            "DST-Scan for errors /scratch",
            "DST-Upgrd/Instl OS Sftw",
            "DST-Upgrd/Install OS sftw",
            "DST-Upgrd/Instl 3rdParty Sftw",
            "Upgrade/Install OS sftw",
            "Upgrade/Install 3rd Party Sftw",
            "Patch Install",
            "Modify kernel parameters",
            "Modify system config files",
        ),
        "storage": (
            "Parallel File System",
            "Cluster File System",
            "Disk IO, firmware and storage",
            "NFS",
            "Scratch Drive",
            "Scratch FS",
            "Vizscratch FS",
        ),
        "nic": ("Network", "Interconnect"),
    },
}
COMPONENTS = {
    f"{column}/{word}": component
    for column, components in _WORDS.items()
    for component, words in components.items()
    for word in words
}
# A word that the table lacks: hardware parts whose kind is not plain, whatever people did, what nobody found.
_OTHERWISE = {"Software/": "software"}


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the rows as intervals, and those refused with the reason."""
    table = csvtext.read(decode(data, file), file, lambda header: _columns(header, file))
    if table.frame.is_empty():
        raise InputError(file, "no rows below the header", "outages", "the file may be cut off")
    if options.tz is None:
        raise options.zone_needed(
            file, table.frame["Prob Started"].first(), "--tz America/Denver, the clock of the site"
        )
    frame = csvtext.cleaned(table.frame, _READ)
    given = [pl.col(name).is_not_null().cast(pl.Int64) for name in _CAUSES]
    starts, ends = (_instants(frame[name], options) for name in ("Prob Started", "Prob Fixed"))
    frame = frame.with_columns(
        t_start=starts["us"],
        start_reason=starts["reason"],
        t_end=ends["us"],
        end_reason=ends["reason"],
        causes=pl.sum_horizontal(given),
        code=pl.coalesce(pl.lit(f"{name}/") + pl.col(name) for name in _CAUSES),
    ).with_columns(_refusal().alias("refused"))
    return replace(table.with_frame(frame).parsed(_events()), notes=tuple(_doubts(frame)))


def _doubts(frame: pl.DataFrame) -> list[str]:
    """Return a note on down times that are not those from start to end; one minute is the lost seconds'."""
    if _DOWN not in frame.columns:
        return []
    kept = frame.filter(pl.col("refused").is_null())
    minutes = kept[_DOWN].str.strip_chars().cast(pl.Int64, strict=False)
    return doubts.lengths(minutes * 60, kept["t_start"], kept["t_end"], within_s=60)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as this table does."""
    header = head.partition(b"\n")[0]
    return b"nodenumz" in header and b"Prob Started" in header and b"Prob Fixed" in header


def _columns(header: list[str], file: str) -> dict[str, int]:
    names = [name.strip() for name in header]
    missing = [name for name in _READ if names.count(name) != 1]
    if missing:
        found = f"not once each: {', '.join(missing)}, in {','.join(names)[:200]!r}"
        raise InputError(f"{file} header", found, "the columns as LA-UR-05-7318 names them")
    told = [name for name in (_DOWN,) if names.count(name) == 1]
    return {name: names.index(name) for name in (*_READ, *told)}


def _instants(column: pl.Series, options: Options) -> pl.DataFrame:
    """Return `us` and `reason` of clock times as the file writes them."""
    parts = pl.col("t").str.extract_groups(_CLOCK).struct
    month, day, year, hour, minute = (parts.field(str(place)) for place in range(1, 6))
    two = [part.str.zfill(2) for part in (month, day, hour)]
    iso = pl.format("{}-{}-{}T{}:{}", year, two[0], two[1], two[2], minute)
    texts = column.alias("t").to_frame().select(pl.when(year.is_not_null()).then(iso)).to_series()
    instants = parse_instants(texts.fill_null(""), options, _EARLIEST)
    return instants.with_columns(pl.col("reason").replace(NOT_ISO, _NO_CLOCK))


def _refusal() -> pl.Expr:
    number = "^[0-9]{1,9}$"
    return csvtext.first(
        (~pl.col("System").str.contains(number).fill_null(value=False), "System is not a whole number"),
        (~pl.col("nodenumz").str.contains(number), "nodenumz is not a whole number"),
        (pl.col("start_reason").is_not_null(), pl.lit("Prob Started: ") + pl.col("start_reason")),
        (pl.col("end_reason").is_not_null(), pl.lit("Prob Fixed: ") + pl.col("end_reason")),
        (pl.col("t_end") < pl.col("t_start"), "fixed before started"),
        (pl.col("causes") > 1, "more than one cause"),
    )


def _events() -> dict[str, pl.Expr]:
    code = pl.col("code")
    component = pl.coalesce(
        code.replace_strict(COMPONENTS, default=None, return_dtype=pl.String),
        *(
            pl.when(code.str.starts_with(start)).then(pl.lit(component))
            for start, component in _OTHERWISE.items()
        ),
        pl.lit("unknown"),
    )
    return {
        "t_start": pl.col("t_start"),
        "t_end": pl.col("t_end"),
        "kind": pl.lit("interval"),
        # System 17 numbers no nodes: its outages are those of the system.
        "node": pl.format("s{}{}", "System", (pl.lit("n") + pl.col("nodenumz")).fill_null("")),
        "severity": pl.lit("down"),
        "scope": pl.lit("node"),
        "component": component,
        "code": code.fill_null("unknown"),
        "reason": code.fill_null(_NO_CAUSE),
    }
