"""Slurm's event table: when nodes were down or drained (`sacctmgr show event -P`, start and end).

In: the output of `sacctmgr show event` with -P (bars between fields) or -p (and one at the end), header line
included; columns in any order, known by their names. Needed: NodeName, TimeStart, TimeEnd, State or StateRaw.
Out: one `interval` a row; `row` counts the rows below the header, blank lines left out. An end that is
Unknown or empty is an open interval. Rows without a node are events of the cluster: they are kept, as info.
Easy to get wrong: Reason is free text in which bars are not escaped, so a row with more fields than the
header is split from both ends and Reason takes what is left over; a line break in it makes rows that do not
fit and are refused. A drain that still computes (DRNG) is degraded and takes no GPU; rows overlap, and their
union is SQL's matter.
Source: man page sacctmgr(1); the states are those of `slurm_states`.
"""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.parsing import (
    NO_ZONE,
    NOT_UTF8,
    REJECT_SCHEMA,
    TEXT_LIMIT,
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    bounded,
    events_frame,
    parse_instants,
    text_lines,
)
from pipeline.ingest.slurm_snapshots import ABSENT
from pipeline.units import US_PER_S

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "sacctmgr -P show event All_Time format=Cluster,NodeName,TimeStart,TimeEnd,State,User,Reason > events.psv"
)
FLAGS = ("tz", "fold")
TRAPS = (
    "Without All_Time or Start= sacctmgr lists the last day only.",
    "Times are local to the machine that ran sacctmgr and have no zone: --tz.",
    "Put Reason last in format=: it may hold bars, and a line break in it costs the row.",
    "A change of state or reason ends one row and begins the next in the same second: one outage, two rows.",
    "DRAIN is a node withheld from jobs and counts as down; DRNG still computes and counts as degraded.",
    "slurmdbd forgets events older than PurgeEventAfter.",
)
ENDS = True

NO_START = "no start"
END_FIRST = "end before start"
FEW = "fewer fields than the header"
MANY = "more fields than the header, and no Reason to hold the bars"
NO_LAST_BAR = "no bar at the end, as the header has"
MANY_NODES = "node is a list of hosts: sacctmgr writes one row a node"
OTHER_CLUSTER = "a row of another cluster than --cluster says"

_NAMES = {
    "node": "node", "nodename": "node", "start": "start", "timestart": "start", "end": "end",
    "timeend": "end", "state": "state", "stateraw": "bits", "reason": "reason", "cluster": "of",
}  # fmt: skip
_COLUMNS = ("node", "start", "end", "state", "bits", "reason", "of")
_LAYOUT = "NodeName|TimeStart|TimeEnd|State|Reason, by sacctmgr -P"
_EPOCH = "^[0-9]{9,11}$"


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the rows of an event table as intervals, and those refused with the reason."""
    lines = text_lines(data, file)
    top, header = _header(lines["line"], file)
    frame = lines.slice(top + 1).filter(pl.col("line").str.strip_chars() != "")
    frame = _split(frame, header).with_row_index("row", offset=1).with_columns(pl.col("row").cast(pl.Int64))
    frame = frame.with_columns(_instants(frame["start"], "start", file, options))
    frame = frame.with_columns(_instants(frame["end"], "end", file, options))
    frame = _judged(frame, "bits" if "state" not in header else "state")
    frame = frame.with_columns(_refusal().alias("refused"))
    frame = _of_one_cluster(frame, file, options)
    refused = frame.filter(pl.col("refused").is_not_null())
    rejects = refused.select("row", pl.col("refused").alias("reason"), pl.col("line").alias("text"))
    rejects = rejects.with_columns(pl.col("text").str.slice(0, TEXT_LIMIT)).cast(REJECT_SCHEMA)
    return Parsed(_events(frame.filter(pl.col("refused").is_null())), rejects, frame.height)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins with the header of an event table."""
    names = {_name(field) for field in head.decode(errors="replace").partition("\n")[0].split("|")}
    return {"node", "start", "end"} <= names


def _name(field: str) -> str:
    return _NAMES.get(field.strip().lower(), "")


def _header(lines: pl.Series, file: str) -> tuple[int, list[str]]:
    """Return the header's place and its names; columns that serve nothing here are nameless."""
    # Only above the header: below it a row may begin with any sign.
    tops = lines.str.contains(r"^\s*[^#\s]").arg_true()
    top = int(tops[0]) if len(tops) else 0
    fields = lines[top].split("|") if len(lines) else []
    header = [_name(field) for field in fields]
    if header.count("state") + header.count("bits") == 0 or not {"node", "start", "end"} <= set(header):
        found = f"no such header in {(lines[top] if len(lines) else '')[:200]!r}"
        raise InputError(f"{file} line {top + 1}", found, _LAYOUT, f"take it again: {EXPORT}")
    twice = next((name for name in header if name and header.count(name) > 1), None)
    if twice:
        raise InputError(f"{file} line {top + 1}", f"two columns for {twice}", "each column once")
    if fields[-1].strip() == "":
        header[-1] = "last bar"
    return top, header


def _split(frame: pl.DataFrame, header: list[str]) -> pl.DataFrame:
    """Return the rows' fields by name, and `shape` where they do not fit the header."""
    width, why = len(header), header.index("reason") if "reason" in header else None
    parts, count = pl.col("line").str.split("|"), pl.col("line").str.count_matches("|", literal=True) + 1
    frame = frame.with_columns(parts.alias("part"), (count.cast(pl.Int64) - width).alias("more"))
    shape = pl.when(~pl.col("is_text")).then(pl.lit(NOT_UTF8)).when(pl.col("more") < 0).then(pl.lit(FEW))
    if why is None:
        shape = shape.when(pl.col("more") > 0).then(pl.lit(MANY))
    if header[-1] == "last bar":
        shape = shape.when(~pl.col("line").str.contains(r"\|\s*$")).then(pl.lit(NO_LAST_BAR))
    frame = frame.with_columns(shape.otherwise(pl.lit(None, pl.String)).alias("shape"))

    def field(name: str) -> pl.Expr:
        if name not in header:
            return pl.lit(None, pl.String)
        place = header.index(name)
        if place == why:
            text = pl.col("part").list.slice(place, pl.col("more") + 1).list.join("|")
        else:
            from_right = why is not None and place > why
            text = pl.col("part").list.get(place - width if from_right else place, null_on_oob=True)
        text = text.str.strip_chars()
        return pl.when(pl.col("shape").is_null() & (text != "")).then(text)

    return frame.select("line", "shape", *(field(name).alias(name) for name in _COLUMNS))


def _instants(column: pl.Series, name: str, file: str, options: Options) -> list[pl.Series]:
    """Return `<name>_us` and `<name>_reason`; absent times are null in both."""
    texts = pl.DataFrame({"text": column}).select(
        pl.when(~pl.col("text").str.to_lowercase().is_in(list(ABSENT))).then(pl.col("text"))
    )["text"]
    found = parse_instants(texts, options)
    naive = texts.filter(found["reason"] == NO_ZONE)
    if len(naive):
        raise options.zone_needed(file, naive[0])
    seconds = texts.to_frame("text").select(
        pl.when(pl.col("text").str.contains(_EPOCH)).then(pl.col("text")).cast(pl.Int64) * US_PER_S
    )["text"]
    if seconds.null_count() < len(seconds):  # SLURM_TIME_FORMAT=%s
        is_epoch = seconds.is_not_null()
        found = found.with_columns(
            us=pl.when(is_epoch).then(seconds).otherwise(pl.col("us")),
            reason=pl.when(~is_epoch).then(pl.col("reason")),
        )
        found = bounded(found, options)
    return [found["us"].alias(f"{name}_us"), found["reason"].alias(f"{name}_reason")]


def _judged(frame: pl.DataFrame, states: str) -> pl.DataFrame:
    """Add code, severity and component of each row, or `state_reason`; rows of the cluster have no state."""
    judge = slurm_states.judge if states == "state" else slurm_states.judge_bits
    words = frame[states].drop_nulls().unique(maintain_order=True).to_list()
    found = [_verdict(word, judge) for word in words]
    names = ("code", "severity", "component", "state_reason")
    verdicts = pl.DataFrame(
        {states: words, **{name: [row[place] for row in found] for place, name in enumerate(names)}},
        schema=dict.fromkeys((states, *names), pl.String),
    )
    whys = frame["reason"].drop_nulls().unique(maintain_order=True).to_list()
    named = [slurm_states.component_of(why) for why in whys]
    components = pl.DataFrame(
        {"reason": whys, "named": named}, schema={"reason": pl.String, "named": pl.String}
    )
    frame = frame.join(verdicts, on=states, how="left", maintain_order="left")
    return frame.join(components, on="reason", how="left", maintain_order="left").with_columns(
        pl.coalesce("component", "named").fill_null("unknown").alias("component"),
        pl.when(pl.col(states).is_null())
        .then(pl.lit(slurm_states.NO_STATE))
        .otherwise(pl.col("state_reason"))
        .alias("state_reason"),
    )


def _verdict(
    word: str, judge: Callable[[str], slurm_states.Verdict | None]
) -> tuple[str | None, str | None, str | None, str | None]:
    try:
        verdict = judge(word)
    except RefusedError as error:
        return None, None, None, str(error)
    if verdict is None:  # an event of a node that can work, such as one that was only pinged late
        return "UP", "info", None, None
    return verdict.code, verdict.severity, verdict.component, None


def _of_one_cluster(frame: pl.DataFrame, file: str, options: Options) -> pl.DataFrame:
    """Refuse the rows of other clusters; raise InputError when nothing says which one is meant."""
    is_good = pl.col("refused").is_null()
    names = frame.filter(is_good)["of"].drop_nulls().unique(maintain_order=True).to_list()
    if len(names) < 2:
        return frame
    if options.cluster not in names:
        found = f"rows of several clusters: {', '.join(names[:5])}"
        hint = f"--cluster {names[0]}, once for each"
        raise InputError(file, found, "one cluster, or which of them is meant", hint)
    is_other = pl.col("of").fill_null(options.cluster) != options.cluster
    return frame.with_columns(
        pl.when(is_good & is_other).then(pl.lit(OTHER_CLUSTER)).otherwise(pl.col("refused")).alias("refused")
    )


def _refusal() -> pl.Expr:
    """Return the first reason that applies to a row, or null."""
    is_node = pl.col("node").is_not_null()
    return (
        pl.when(pl.col("shape").is_not_null())
        .then(pl.col("shape"))
        .when(pl.col("node").str.contains("[", literal=True))
        .then(pl.lit(MANY_NODES))
        .when(pl.col("start_reason").is_not_null())
        .then(pl.lit("start: ") + pl.col("start_reason"))
        .when(pl.col("start_us").is_null())
        .then(pl.lit(NO_START))
        .when(pl.col("end_reason").is_not_null())
        .then(pl.lit("end: ") + pl.col("end_reason"))
        .when(pl.col("end_us") < pl.col("start_us"))
        .then(pl.lit(END_FIRST))
        .when(is_node & pl.col("state_reason").is_not_null())
        .then(pl.col("state_reason"))
    )


def _events(kept: pl.DataFrame) -> pl.DataFrame:
    # An event of the whole cluster (its size changed, its controller was away) takes no GPU.
    is_node = pl.col("node").is_not_null()
    kept = kept.with_columns(
        pl.when(is_node).then("code").otherwise(pl.lit("CLUSTER")).alias("code"),
        pl.when(is_node).then("severity").otherwise(pl.lit("info")).alias("severity"),
        pl.when(is_node).then(pl.lit("node")).otherwise(pl.lit("domain")).alias("scope"),
    )
    return events_frame(
        {
            "row": kept["row"],
            "t_start": kept["start_us"],
            "t_end": kept["end_us"],
            "kind": ["interval"] * kept.height,
            "node": kept["node"],
            "severity": kept["severity"],
            "scope": kept["scope"],
            "component": kept["component"],
            "code": kept["code"],
            "reason": kept.select(pl.coalesce("reason", "code")).to_series(),
        }
    )
