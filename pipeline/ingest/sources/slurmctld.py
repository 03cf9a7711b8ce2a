"""Slurm's controller log: nodes set down, drained and back in service (slurmctld.log, or syslog).

In: lines with any LogTimeFormat that tells the time (iso8601, rfc5424, rfc3339, short, thread_id), or as
syslog and journalctl print them. Out: onsets and clears, one row for each node of each line that says what
became of nodes; `row` counts these, since a line may name many nodes. Other lines are no rows.
Codes: DOWN is set by "setting DOWN", "state set to DOWN" and an unexpected reboot, and ends with "returned to
service"; DRAIN (down, or degraded while a job still runs) ends when the state is set to IDLE or the like,
which ends DOWN too; NOT_RESPONDING is degraded and takes no GPU: only "setting DOWN" changes a state.
Easy to get wrong: "now responding" does not bring a node back that was set DOWN, "returned to service" does,
and neither lifts a drain; a node that rebooted unexpectedly is away from its last response, which the line
gives as seconds since 1970, and stays DOWN until somebody resumes it. An end whose onset stands in an older
log is written for each fault that it may end. A reason stands in a line of its own, before the state.
Source: man page slurm.conf(5) LogTimeFormat; the messages of slurmctld 2.x to 25.05.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.clock import epoch_us, local_us, month_of, years_of
from pipeline.ingest.parsing import (
    NO_ZONE,
    NOT_ISO,
    NOT_UTF8,
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    Reject,
    events_frame,
    parse_instant,
    rejects_frame,
    text_lines,
)
from pipeline.ingest.slurm_snapshots import hosts, told
from pipeline.units import US_PER_S, to_us

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "scontrol show config | grep SlurmctldLogFile   # the file itself is the log\n"
    "journalctl -u slurmctld -o short-iso-precise > slurmctld.log"
)
FLAGS = ("tz", "fold", "year", "as_of")
TRAPS = (
    "LogTimeFormat=rfc5424_ms writes the zone; the default does not: --tz.",
    "A node is set DOWN SlurmdTimeout (by default 300 s) after it fell silent: outages began earlier.",
    "A drain counts as down from the moment it is set, unless the line says DRAINING.",
    "When the last job of a DRAINING node ends is not logged: it stays degraded until it is resumed.",
    "The first IDLE of a node ends what may be open from an older log; what was not is told as unpaired.",
    "Give rotated logs together: an end in one may belong to an onset in another.",
)
ENDS = True

NO_TIME = "no time in front of it"
NO_CLOCK = "LogTimeFormat=clock: a time of the processor's, not of the day"
BAD_TIME = "not a time as slurmctld writes it"
NOT_READ = "a line about a node's state that does not read"
BOOT_FIRST = "boot before the last response"
BOOT_LATE = "boot after the line was written: is --tz right?"

# Only lines with one of these are looked at one by one.
_PHRASES = (
    "not responding|now responding|returned to service|state set to|unexpectedly rebooted|on failed node"
    "|due to failure of node|[Ss]etting node|reason set to:|draining the node"
)
# What a line must hold to be a row when no message below fits it.
_CLAIM = re.compile(
    r"(?i)\bnodes? \S+.*(?:not responding|now responding|returned to service|state set to|rebooted boot)"
)
_BRACKET = re.compile(r"\[([^\]\[]*)\] ?")
_SYSLOG = re.compile(
    r"(?:(?P<iso>[0-9]{4}-[0-9]{2}-[0-9]{2}T\S+)|(?P<short>\S+ +[0-9]{1,2} [0-9]{2}:[0-9]{2}:[0-9]{2}))"
    r" \S+ slurmctld(?:\[[0-9]+\])?: "
)
_YEARLESS = re.compile(
    r"(?P<month>\w+) +(?P<day>[0-9]{1,2}) (?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"
    r"(?:\.(?P<micro>[0-9]{1,6}) +[0-9]+ .*)?"
)
_DAY = r"^\[?(\pL{3,9}|[0-9]{1,2}月) +([0-9]{1,2}) [0-9]{2}:[0-9]{2}:[0-9]{2}"
_STAMPED = r"^\[[^\]]{6,80}\] ?\S|^\S.{10,40} slurmctld(?:\[[0-9]+\])?: "
_PREFIXES = re.compile(r"(?:[A-Za-z_][\w/]*: +)*")
_BOOT_SLACK_US = 300 * US_PER_S  # clocks of nodes and controller differ

_DOWN, _DRAIN, _SILENT = "DOWN", "DRAIN", slurm_states.NOT_RESPONDING.code
_GROUPS = {"DRAIN": _DRAIN, "DRAINING": _DRAIN, "FAIL": _DRAIN, "FAILING": _DRAIN}
_CLOSED = "closed"


class _Row(NamedTuple):
    row: int
    t_start: int
    t_end: int | None
    kind: str
    node: str
    severity: str
    component: str
    code: str
    reason: str


@dataclass
class _Log:
    """What is known while the lines are gone through."""

    options: Options
    rows: list[_Row] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    # (node, code) -> severity of the open fault, or _CLOSED; absent: not told in this file.
    states: dict[tuple[str, str], str] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)

    def write(
        self,
        us: int,
        kind: str,
        node: str,
        code: str,
        severity: str,
        reason: str,
        component: str | None = None,
    ) -> None:
        row = len(self.rows) + len(self.rejects) + 1
        t_end = us if kind == "interval" else None
        part = component or slurm_states.component_of(reason)
        self.rows.append(_Row(row, us, t_end, kind, node, severity, part, code, reason))

    def refuse(self, reason: str, line: str) -> None:
        self.rejects.append(Reject(len(self.rows) + len(self.rejects) + 1, reason, line))

    def onset(self, us: int, node: str, code: str, verdict: slurm_states.Verdict, reason: str) -> None:
        before = self.states.get((node, code), _CLOSED)
        if before not in {_CLOSED, verdict.severity}:
            # A drain whose job has ended weighs more from here on: the lighter fault ends.
            self.write(us, "clear", node, code, before, reason)
        self.states[node, code] = verdict.severity
        self.write(us, "onset", node, code, verdict.severity, reason, verdict.component)

    def clear(self, us: int, node: str, codes: tuple[str, ...], reason: str) -> None:
        """Write the end of the faults that are open or may be; of the first when all are known to be over."""
        ended = [code for code in codes if self.states.get((node, code)) != _CLOSED] or [codes[0]]
        for code in ended:
            severity = self.states.get((node, code), "down")
            self.states[node, code] = _CLOSED
            self.write(us, "clear", node, code, severity if severity != _CLOSED else "down", reason)

    def end(self, us: int, node: str, codes: tuple[str, ...], reason: str) -> None:
        """Write that a node works again, which also ends its silence when that is open."""
        self.reasons.pop(node, None)
        self.ended[node] = us
        is_silent = self.states.get((node, _SILENT), _CLOSED) != _CLOSED
        self.clear(us, node, (*codes, _SILENT) if is_silent else codes, reason)


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return what a controller's log says of nodes as onsets and clears, and the lines that were refused."""
    frame = text_lines(data, file)
    is_chosen = frame["line"].str.contains(_PHRASES)
    if not is_chosen.any() and not frame["line"].str.contains(_STAMPED).any():
        raise InputError(file, "no line of slurmctld", "lines such as [2025-03-01T00:00:00.000] message")
    frame, days = _days(frame)
    log, clock = _Log(options), _Clock(days, options, file)
    for line, is_text, run in frame.filter(is_chosen).select("line", "is_text", "run").iter_rows():
        if not is_text:
            log.refuse(NOT_UTF8, line)
            continue
        stamp, message = _parted(line)
        try:
            _apply(log, message, lambda stamp=stamp, run=run: clock.instant_us(stamp, run))  # type: ignore[misc]
        except RefusedError as error:
            clock.missed = clock.missed or (line if str(error) in {NO_TIME, NO_CLOCK} else "")
            log.refuse(str(error), line)
    if clock.missed and not clock.told:
        hint = "LogTimeFormat=rfc5424_ms in slurm.conf, or the same messages by journalctl -o short-iso"
        raise InputError(file, f"lines without a time of day, such as {clock.missed[:120]!r}", "times", hint)
    columns: dict[str, list[Any]] = {name: [getattr(row, name) for row in log.rows] for name in _Row._fields}
    columns["scope"] = ["node"] * len(log.rows)
    return Parsed(events_frame(columns), rejects_frame(log.rejects), len(log.rows) + len(log.rejects))


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as a controller's log does."""
    text = head.decode(errors="replace")
    return bool(re.search(r"(?m)^\[\S[^\]]{6,60}\] |^\S.{10,40} slurmctld(?:\[\d+\])?: ", text)) and bool(
        re.search(
            "slurmctld|update_node: |validate_node_specs|sched: |_slurm_rpc_|[Nn]odes? \\S+ .*(?:respond)",
            text,
        )
    )


# --- times -------------------------------------------------------------------------------------------------


def _parted(line: str) -> tuple[str, str]:
    """Return a line's time, empty when it has none, and its message without levels and function names."""
    if found := _BRACKET.match(line):
        stamp, rest = found[1].strip(), line[found.end() :]
    elif found := _SYSLOG.match(line):
        stamp, rest = found["iso"] or found["short"], line[found.end() :]
    else:
        stamp, rest = "", line
    prefixes = _PREFIXES.match(rest)
    return stamp, rest[prefixes.end() if prefixes else 0 :].strip()


def _days(frame: pl.DataFrame) -> tuple[pl.DataFrame, list[tuple[int, int, int]]]:
    """Add `run`, the number of a line's day, and return the days of all lines that lack the year, in order.

    A day is its month, its number, and the number of its first line.

    Of all lines and not only of those that are rows, so that no turn of the year is missed.
    """
    parts = pl.col("line").str.extract_groups(_DAY).struct
    frame = frame.with_columns(parts[0].alias("word"), parts[1].cast(pl.Int64).alias("day"))
    months = {word: _month(word) for word in frame["word"].drop_nulls().unique(maintain_order=True)}
    month = pl.col("word").replace_strict(months, default=None, return_dtype=pl.Int64)
    frame = frame.with_columns(month.alias("month"))
    is_day = pl.col("month").is_not_null()
    dated = frame.with_row_index("line_number", offset=1).filter(is_day).select("month", "day", "line_number")
    runs = dated.select(pl.struct("month", "day").rle_id()).to_series()
    frame = frame.with_columns(pl.when(is_day).then(is_day.cum_sum().cast(pl.Int64) - 1).alias("run"))
    places = dict(enumerate(runs.to_list()))
    frame = frame.with_columns(pl.col("run").replace_strict(places, default=None, return_dtype=pl.Int64))
    return frame, dated.filter(runs.is_first_distinct()).rows()


def _month(word: str) -> int | None:
    try:
        return month_of(word)
    except RefusedError:
        return None


@dataclass
class _Clock:
    """The instants of lines; years are asked for when the first row needs one."""

    days: list[tuple[int, int, int]]
    options: Options
    file: str
    told: bool = False
    missed: str = ""
    years: list[int] | None = None

    def instant_us(self, stamp: str, run: int | None) -> int:
        if not stamp:
            raise RefusedError(NO_TIME)
        if stamp.isdigit():
            raise RefusedError(NO_CLOCK)
        found = _YEARLESS.fullmatch(stamp)
        try:
            us = self._yearless_us(found, run) if found else to_us(parse_instant(stamp, self.options))
        except RefusedError as error:
            if str(error) == NO_ZONE:
                raise self.options.zone_needed(self.file, stamp) from None
            raise RefusedError(BAD_TIME if str(error) == NOT_ISO else str(error)) from None
        self.told = True
        return us

    def _yearless_us(self, found: re.Match[str], run: int | None) -> int:
        if run is None:
            raise RefusedError(BAD_TIME)
        if self.years is None:
            days, lines = [day[:2] for day in self.days], [day[2] for day in self.days]
            self.years = years_of(days, self.options, self.file, lines)
        day, hour, minute, second = (int(found[part]) for part in ("day", "hour", "minute", "second"))
        # thread_id prints microseconds as a whole number: `.42` is 42 microseconds.
        micro = int(found["micro"] or 0)
        month = month_of(found["month"])
        return local_us(self.years[run], month, day, hour, minute, second, micro, self.options)


# --- messages ----------------------------------------------------------------------------------------------


def _apply(log: _Log, message: str, instant_us: Callable[[], int]) -> None:
    """Write the rows of a message, if it is one of those known here; each reads all before it writes."""
    for pattern, give in _REASONS:
        if found := pattern.fullmatch(message):  # no row: a reason changes no state
            log.reasons.update(dict.fromkeys(hosts(found["nodes"]), give(found)))
            return
    for known, write in _MESSAGES:
        if found := known.fullmatch(message):
            write(log, instant_us(), list(hosts(found["nodes"])), found)
            return
    if _CLAIM.search(message):
        raise RefusedError(NOT_READ)


def _set_down(log: _Log, us: int, nodes: list[str], _: re.Match[str]) -> None:
    for node in nodes:
        log.onset(us, node, _DOWN, _IS_DOWN, "Not responding")


def _silent(log: _Log, us: int, nodes: list[str], _: re.Match[str]) -> None:
    for node in nodes:
        log.onset(us, node, _SILENT, slurm_states.NOT_RESPONDING, "Not responding")


def _back(log: _Log, us: int, nodes: list[str], _: re.Match[str]) -> None:
    for node in nodes:
        log.clear(us, node, (_SILENT,), "now responding")


def _in_service(log: _Log, us: int, nodes: list[str], _: re.Match[str]) -> None:
    for node in nodes:
        log.end(us, node, (_DOWN,), "returned to service")


def _state(log: _Log, us: int, nodes: list[str], found: re.Match[str]) -> None:
    word = found["state"]
    verdict = slurm_states.judge(word)
    for node in nodes:
        if verdict is None:
            log.end(us, node, (_DOWN, _DRAIN), f"state set to {word}")
        elif verdict.severity == "info":
            log.write(us, "interval", node, verdict.code, "info", f"state set to {word}", verdict.component)
        else:
            code = _SILENT if verdict.code == _SILENT else _GROUPS.get(verdict.code, _DOWN)
            log.onset(us, node, code, verdict, log.reasons.get(node) or word)


def _rebooted(log: _Log, us: int, nodes: list[str], found: re.Match[str]) -> None:
    last_us, boot_us = (epoch_us(found[part], "s", log.options) for part in ("last", "boot"))
    if boot_us < last_us:
        raise RefusedError(BOOT_FIRST)
    if boot_us > us + _BOOT_SLACK_US:
        raise RefusedError(BOOT_LATE)
    for node in nodes:
        # The last response is in whole seconds: never before the end of the fault before.
        start_us = max(last_us, log.ended.get(node, last_us))
        log.onset(start_us, node, _DOWN, _IS_DOWN, "Node unexpectedly rebooted")


def _job_ended(log: _Log, us: int, nodes: list[str], found: re.Match[str]) -> None:
    """Write the end of a job whose node failed: a moment, as info, since the node's fault is told too."""
    for node in nodes:
        log.write(us, "interval", node, "JOB_KILLED", "info", found[0], "unknown")


def _setting(log: _Log, us: int, nodes: list[str], found: re.Match[str]) -> None:
    state, why = found["state"], (found["why"] or "").strip()
    slurm_states.judge(state)
    for node in nodes:
        if state == _DOWN:
            log.onset(us, node, _DOWN, _IS_DOWN, why or state)
            continue
        # INVAL: Slurm drains the node in the next line, unless something keeps it from work already.
        log.write(us, "interval", node, state, "info", why or found[0])
        log.reasons[node] = why or log.reasons.get(node, "")


_IS_DOWN = slurm_states.Verdict(_DOWN, "down")
_REASONS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (
        re.compile(r"node (?P<nodes>\S+) reason set to: ?(?P<why>.*)"),
        lambda found: told(found["why"]),
    ),
    (
        re.compile(r"(?P<why>Prolog or job env setup failure) on node (?P<nodes>\S+), draining the node"),
        lambda found: found["why"],
    ),
)
_REBOOT = (
    r"Node (?P<nodes>\S+) unexpectedly rebooted boot_time=(?P<boot>[0-9]{1,12})"
    r" last response=(?P<last>[0-9]{1,12})"
)
_MESSAGES = tuple(
    (re.compile(pattern), write)
    for pattern, write in (
        (r"Nodes? (?P<nodes>\S+) not responding, setting DOWN\.?", _set_down),
        (r"Nodes? (?P<nodes>\S+) not responding\.?", _silent),
        (r"[Nn]ode (?P<nodes>\S+) now responding\.?", _back),
        (r"(?:front end )?node (?P<nodes>\S+) returned to service\.?", _in_service),
        (r"node (?P<nodes>\S+) state set to (?P<state>\S+)", _state),
        (_REBOOT, _rebooted),
        (r"Killing \S.* on failed node (?P<nodes>\S+)", _job_ended),
        (r"[Rr]equeu(?:e|ing) \S.* due to failure of node (?P<nodes>\S+)", _job_ended),
        (r"[Ss]etting node (?P<nodes>\S+) state to (?P<state>\w+)(?: with reason:(?P<why>.*))?", _setting),
    )
)
