"""Snapshots of Slurm's nodes -> open intervals: what `sinfo` and `scontrol` sources share.

In: what a snapshot says of nodes (state, reason, when the reason was set) and when it was taken. Out: one
`interval` with an open end for each node that was unavailable at that instant.
Easy to get wrong: a snapshot proves a state at its own instant only. It starts at the reason's stamp; without
one it is known to have begun before, so it starts at the snapshot and says so in its reason. A node that is
told twice (once for each partition) is one row. When a snapshot was taken must stand in it or be said
(`as_of`); old Slurm writes stamps without a year (`06/02-14:01:24`): of `year`, else the latest such day that
is not after the snapshot.
Source: man pages sinfo(1), scontrol(1); JSON as printed by Slurm 20.11 to 25.05.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple

from pipeline import hostlist
from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.clock import MONTHS, ZONE_WORD, epoch_us, local_us, month_of
from pipeline.ingest.parsing import (
    NO_NODE,
    NO_SUCH,
    NO_ZONE,
    NOT_ISO,
    Options,
    Parsed,
    RefusedError,
    Reject,
    decode,
    events_frame,
    parse_instant,
    rejects_frame,
)
from pipeline.units import from_us, to_us

BLANK = b"\xef\xbb\xbf \t\r\n"  # what may stand before JSON
MAX_NODES = 65_536  # of one list; Slurm's own ranges end there
NOT_UTF8 = "bytes that are not UTF-8"
NO_HOSTS = "not a node list as Slurm writes them"
NO_STAMP = "not a time as Slurm writes them"
BAD_TAKEN = "the time the snapshot was taken cannot be read"
SINCE_BEFORE = " (since before)"
ABSENT = frozenset({"", "none", "unknown", "n/a", "(null)", "null"})

_CTIME = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([A-Z][a-z]{2}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-9]{2})"
    r"(?: ([A-Za-z]{1,5}))? ([0-9]{4})"
)
_ISO_ALONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}\S{0,20}")
_YEARLESS = re.compile(r"([0-9]{2})/([0-9]{2})-([0-9]{2}):([0-9]{2}):([0-9]{2})")
_EPOCH = re.compile("[0-9]{9,11}")
_LEAP_YEARS_APART = 8


class _Row(NamedTuple):
    row: int
    t_start: int
    node: str
    severity: str
    component: str
    code: str
    reason: str


@dataclass
class Snapshots:
    """The rows of one file, which may hold several snapshots."""

    file: str
    options: Options
    taken: datetime | None = None
    problem: str = ""
    rows: list[_Row] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    _told: set[tuple[str, str, int, str]] = field(default_factory=set)

    def begin(self, time_line: str | None) -> None:
        """Begin a snapshot; `time_line` is the line with its time, None when it tells none."""
        self._told.clear()
        self.problem, self.taken = "", self.options.as_of
        if time_line is not None:
            try:
                self.taken = from_us(taken_us(time_line, self.options))
            except RefusedError as error:
                if str(error) == NO_ZONE:
                    raise self.options.zone_needed(self.file, time_line.strip()) from None
                self.problem = BAD_TAKEN

    def refuse(self, reason: str, text: str) -> None:
        """Count a row that is refused."""
        self.rejects.append(Reject(self._next(), reason, text))

    def add(
        self,
        nodes: str | Sequence[str],
        verdict: slurm_states.Verdict,
        reason: str,
        since: str | int | None,
        text: str,
    ) -> None:
        """Count nodes (a list as text, or names) that are unavailable, since a stamp, or refuse them."""
        try:
            names = hosts(nodes) if isinstance(nodes, str) else list(nodes)
            start_us, known = self._start(since)
        except RefusedError as error:
            self.refuse(str(error), text)
            return
        component = verdict.component or slurm_states.component_of(reason)
        told = reason or verdict.code
        for name in names:
            key = (name, verdict.code, start_us, reason)
            if key not in self._told:
                self._told.add(key)
                why = told if known else told + SINCE_BEFORE
                self.rows.append(
                    _Row(self._next(), start_us, name, verdict.severity, component, verdict.code, why)
                )

    def parsed(self) -> Parsed:
        """Return the rows as open intervals."""
        columns: dict[str, list[Any]] = {
            name: [getattr(row, name) for row in self.rows] for name in _Row._fields
        }
        columns["kind"] = ["interval"] * len(self.rows)
        columns["scope"] = ["node"] * len(self.rows)
        return Parsed(events_frame(columns), rejects_frame(self.rejects), len(self.rows) + len(self.rejects))

    def _next(self) -> int:
        return len(self.rows) + len(self.rejects) + 1

    def _start(self, since: str | int | None) -> tuple[int, bool]:
        """Return the start in microseconds, and whether it is known."""
        if self.problem:
            raise RefusedError(self.problem)
        if self.taken is None:
            hint = "--as-of 2025-03-01T00:00Z, or a line by `date -Is` above the snapshot"
            raise InputError(
                self.file, "a snapshot that does not say when it was taken", "that instant", hint
            )
        bounded = replace(self.options, as_of=self.taken)
        try:
            start_us = stamp_us(since, bounded)
        except RefusedError as error:
            if str(error) == NO_ZONE:
                raise self.options.zone_needed(self.file, str(since)) from None
            raise
        return (to_us(self.taken), False) if start_us is None else (start_us, True)


def hosts(text: str) -> list[str]:
    """Return the names of a node list; refuse a bad or an endless one."""
    if text.strip().lower() in ABSENT:
        raise RefusedError(NO_NODE)
    try:
        return hostlist.expand(text, MAX_NODES)
    except hostlist.HostListError:
        raise RefusedError(NO_HOSTS) from None


def told(text: str) -> str:
    """Return a field's text, empty when Slurm writes that there is none."""
    text = text.strip()
    return "" if text.lower() in ABSENT else text


def is_time(line: str) -> bool:
    """Return whether a line is nothing but a time, as `sinfo -l` and `date` print it."""
    line = line.strip()
    return bool(_CTIME.fullmatch(line) or _ISO_ALONE.fullmatch(line))


def taken_us(line: str, options: Options) -> int:
    """Return the instant of a line that `is_time`."""
    line = line.strip()
    found = _CTIME.fullmatch(line)
    if not found:
        return to_us(parse_instant(line, options))
    month, day, hour, minute, second, zone, year = found.groups()
    if zone is not None:
        if zone not in {"UTC", "GMT", "Z"}:
            raise RefusedError(ZONE_WORD)
        options = replace(options, tz="UTC")
    clock = (int(year), month_of(month), int(day), int(hour), int(minute), int(second), 0)
    return local_us(*clock, options)


def stamp_us(since: str | int | None, options: Options) -> int | None:
    """Return when a reason was set, or None when that is not told; `as_of` is the instant of the snapshot."""
    if since is None:
        return None
    if isinstance(since, int):
        return epoch_us(str(since), "s", options)
    text = since.strip()
    if text.lower() in ABSENT:
        return None
    if _EPOCH.fullmatch(text):
        return epoch_us(text, "s", options)
    if found := _YEARLESS.fullmatch(text):
        return _yearless_us([int(part) for part in found.groups()], options)
    try:
        return to_us(parse_instant(text, options))
    except RefusedError as error:
        raise RefusedError(NO_STAMP if str(error) == NOT_ISO else str(error)) from None


def _yearless_us(parts: Sequence[int], options: Options) -> int:
    month, day, hour, minute, second = parts
    if options.year is not None:
        return local_us(options.year, month, day, hour, minute, second, 0, options)
    if not 1 <= month <= len(MONTHS):
        raise RefusedError(NO_SUCH)
    # From next year, because the zone of the stamp may be ahead of UTC.
    newest = options.latest().year + 1
    reason = NO_SUCH
    for year in range(newest, newest - _LEAP_YEARS_APART - 2, -1):
        try:
            return local_us(year, month, day, hour, minute, second, 0, options)
        except RefusedError as error:
            reason = str(error)
            if reason not in {NO_SUCH, options.too_late}:
                raise
    raise RefusedError(reason)


def read_json(data: bytes, file: str, options: Options) -> Parsed:
    """Return the unavailable nodes of `scontrol show nodes --json` or `sinfo --json`."""
    expected = "JSON of Slurm: {nodes: [...]} or {sinfo: [...]}"
    hint = "the file may be cut off or of another format: take or copy it again"
    try:
        document = json.loads(decode(data, file))
    except json.JSONDecodeError as error:
        where = f"{file} line {error.lineno} column {error.colno}"
        raise InputError(where, f"not valid JSON ({error.msg})", expected, hint) from None
    except (ValueError, RecursionError) as error:  # endless digits or nesting
        raise InputError(file, f"JSON that cannot be read ({type(error).__name__})", expected, hint) from None
    for key, take in (("nodes", _add_node), ("sinfo", _add_group)):
        if isinstance(document, dict) and isinstance(document.get(key), list):
            found = Snapshots(file, options)
            found.begin(None)
            for item in document[key]:
                text = json.dumps(item)
                try:
                    take(found, item, text)
                except RefusedError as error:
                    found.refuse(str(error), text)
            return found.parsed()
    raise InputError(file, "neither a list of nodes nor of sinfo lines", expected, hint)


def _add_node(found: Snapshots, item: Any, text: str) -> None:
    if not isinstance(item, dict):
        raise RefusedError("not an object")
    verdict = slurm_states.judge_all(_states(item.get("state")) + _flags(item.get("state_flags")))
    if verdict is not None:
        name = _word(item.get("name") or item.get("hostname"))
        found.add([name], verdict, _reason(item.get("reason")), _number(item.get("reason_changed_at")), text)


def _add_group(found: Snapshots, item: Any, text: str) -> None:
    """Count a line of `sinfo --json`, which stands for all nodes with one state."""
    if not isinstance(item, dict) or not isinstance(item.get("node"), dict):
        raise RefusedError("not an object with a node")
    verdict = slurm_states.judge_all(_states(item["node"].get("state")))
    if verdict is None:
        return
    nodes = item.get("nodes")
    names = nodes.get("nodes") if isinstance(nodes, dict) else None
    if not isinstance(names, list) or not names:
        raise RefusedError(NO_NODE)
    why = item.get("reason")
    why = why if isinstance(why, dict) else {"description": why}
    words = [_word(name) for name in names]
    found.add(words, verdict, _reason(why.get("description")), _number(why.get("time")), text)


def _states(value: Any) -> list[str]:
    """Return the words of `state`: one text in Slurm up to 22.05, then a list."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise RefusedError(slurm_states.NO_STATE)
    return words


def _flags(value: Any) -> list[str]:
    return _states(value) if value else []


def _reason(value: Any) -> str:
    return told(_text(value)) if isinstance(value, str) else ""


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RefusedError(NO_NODE)
    return _text(value)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        raise RefusedError(NOT_UTF8) from None
    return value


def _number(value: Any) -> int | None:
    """Return a number, written as such or as {set, infinite, number}; None when it is not set, or 0."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is True and not value.get("infinite") else None
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise RefusedError(NO_STAMP)
    return value
