"""Spot and preemptible machines coming and going: published traces of availability (CSV, JSON, text).

In: one of four forms, which begin differently: `MS,add|remove,NODE` (Bamboo, Oobleck), a JSON array a line
`[MS, "add"|"remove"|..., {"nodes": [...]}]` (Parcae), a JSON object `{"metadata": {"gap_seconds": N}, "data":
[COUNT, ...]}` (SkyPilot), and `DATE, TIME, COUNT` (Bamboo's samples of GCP). Out: a row is one machine that
comes or goes; lines in which the count stays are no rows. A machine that goes is an `onset`, one that comes
in its place the `clear`, both of component capacity, which is no failure.
Easy to get wrong: a machine that returns has a new name, and counts have no names, so the nodes are slots,
`slot-0001` and on: who comes takes the lowest free slot, and of counts the highest slot goes first. A slot
that is first filled after the start was absent until then: one `interval`. Lines that step back in time, or
count differently at one instant, are refused: two samplers were interleaved.
Source: Bamboo (NSDI 2023), Oobleck (SOSP 2023), Parcae (NSDI 2024), SkyPilot's spot traces (NSDI 2024).
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest.parsing import (
    NOT_UTF8,
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    Reject,
    check_plausible,
    decode,
    events_frame,
    parse_instant,
    rejects_frame,
    text_lines,
)
from pipeline.units import to_us

VERSION = "1"
TITLE = "Spot machine traces (Bamboo, Oobleck, Parcae, SkyPilot)"
LICENSE = "MIT (Bamboo, Oobleck, Parcae); none stated (SkyPilot)"
HOMEPAGE = "https://github.com/uclasystem/bamboo"
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "git clone --depth 1 https://github.com/uclasystem/bamboo    # traces/*.csv, traces/gcloud/*.txt\n"
    "git clone --depth 1 -b sosp23-artifact https://github.com/SymbioticLab/Oobleck"
    "    # tools/simulator/traces/*.csv\n"
    "git clone --depth 1 https://github.com/JF-D/Parcae    # aws/traces/*/trace_*.txt\n"
    "git clone --depth 1 https://github.com/skypilot-org/spot-traces"
)
FLAGS = ("boot_time", "tz", "fold")
TRAPS = (
    "It tells of capacity, not of failures: never read it together with a log of faults unsaid.",
    "Nodes are slots, of counts the last in is the first out: nothing follows from which slot is lost.",
    "The pool is as many slots as were ever filled at once: give that number of nodes, slot-0001 and on.",
    "Times since the start need --boot-time, the instant of time 0; any will do for a replay.",
    "Each file is a pool of its own with slots from 0001: give each its own --cluster.",
    "Counts are samples: what came and went between two of them is not there.",
)
ENDS = True

_CHANGE = re.compile(r"\s*([0-9]{1,13})\s*,\s*(add|remove)\s*,\s*([^\s,]+)\s*\Z")
_SAMPLE = re.compile(
    r"\s*([0-9]{4}-[0-9]{2}-[0-9]{2})\s*,\s*([0-9]{2}:[0-9]{2}:[0-9]{2})\s*,\s*([0-9]{1,6})\s*\Z"
)
_MOST = 10_000  # machines; a larger count is no count
_COMES, _GOES = "add", "remove"
_CAPACITY = "capacity"
_FORMS = "MS,add|remove,NODE; [MS, WORD, {nodes}]; {metadata, data}; or DATE, TIME, COUNT"
_IDLE = ("no-op", "migration")


class _Change(NamedTuple):
    us: int
    comes: bool
    name: str  # of the machine; empty for counts
    text: str


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return machines that come and go as events of slots, and the lines refused with the reason."""
    lines = [_Line(*row) for row in text_lines(data, file).iter_rows() if row[0].strip()]
    form = _form(lines[0].text.strip() if lines else "", file)
    slots = _Slots()
    for item in form(data, lines, file, options):
        slots.take(item)
    return slots.parsed(file)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as one of the four forms."""
    line = head.partition(b"\n")[0].decode("utf-8", errors="replace").strip()
    has_gap = line.startswith("{") and '"gap_seconds"' in line
    return bool(
        has_gap or _CHANGE.match(line) or _SAMPLE.match(line) or re.match(r'\[[0-9]+, "(add|no-op)', line)
    )


class _Line(NamedTuple):
    text: str
    is_text: bool


class _Refused(NamedTuple):
    reason: str
    text: str


# What a form yields; the bare number is the instant at which the recording begins.
_Items = Iterator[int | _Change | _Refused]


def _form(first: str, file: str) -> Callable[[bytes, list[_Line], str, Options], _Items]:
    if first.startswith("{"):
        return _counts_of_ticks
    if first.startswith("["):
        return _changes_of_arrays
    if re.match(r"[0-9]+\s*,\s*[a-z]", first):
        return _changes_of_lines
    if re.match(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\s*,", first):
        return _counts_of_samples
    raise InputError(file, f"a first line such as {first[:60]!r}", _FORMS)


def _changes_of_lines(_data: bytes, lines: list[_Line], file: str, options: Options) -> _Items:
    yield to_us(_time_0(file, options))
    for line, is_text in lines:
        if not is_text:
            yield _Refused(NOT_UTF8, line)
            continue
        found = _CHANGE.match(line)
        if found is None:
            yield _Refused("not MS,add|remove,NODE", line)
        else:
            yield from _dated(int(found[1]) * 1000, found[2], [found[3]], line, file, options)


def _changes_of_arrays(_data: bytes, lines: list[_Line], file: str, options: Options) -> _Items:
    yield to_us(_time_0(file, options))
    for line, is_text in lines:
        if not is_text:
            yield _Refused(NOT_UTF8, line)
            continue
        try:
            since, word, about = json.loads(line)
            names = about["nodes"]
        except (ValueError, TypeError, KeyError, RecursionError):
            yield _Refused("not [MS, WORD, {nodes}]", line)
            continue
        is_number = isinstance(since, int) and not isinstance(since, bool) and 0 <= since < 10**13
        if not is_number or not isinstance(names, list) or not all(_is_name(name) for name in names):
            yield _Refused("not [MS, WORD, {nodes}]", line)
        elif word in {_COMES, _GOES}:
            yield from _dated(since * 1000, word, names, line, file, options)
        elif word not in _IDLE or names:
            yield _Refused("neither add nor remove, and yet with nodes or of another word", line)


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and bool(name.strip()) and name.isprintable()


def _dated(since_us: int, word: str, names: list[str], line: str, file: str, options: Options) -> _Items:
    us = to_us(_time_0(file, options)) + since_us
    try:
        check_plausible(us, options)
    except RefusedError as error:
        yield _Refused(str(error), line)
        return
    for name in names:
        yield _Change(us, word == _COMES, name, line)


def _time_0(file: str, options: Options) -> datetime:
    if options.boot_time is None:
        hint = "--boot-time 2024-01-01T00:00Z; any instant will do for a replay"
        raise InputError(file, "times since the start of the recording", "the instant of its time 0", hint)
    return options.boot_time


def _counts_of_ticks(data: bytes, _lines: list[_Line], file: str, options: Options) -> _Items:
    expected = '{"metadata": {"gap_seconds": N}, "data": [COUNT, ...]}'
    try:
        document = json.loads(decode(data, file))
        gap, counts = document["metadata"]["gap_seconds"], document["data"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise InputError(file, "JSON of another form, or cut off", expected) from None
    if isinstance(gap, bool) or not isinstance(gap, int) or not 0 < gap <= 86_400:
        raise InputError(file, "gap_seconds is not whole seconds up to a day", expected)
    if not isinstance(counts, list) or not counts:
        raise InputError(file, "data is not a list of counts", expected)
    start, past = to_us(_time_0(file, options)), 0
    yield start
    for tick, count in enumerate(counts):
        told = f"tick {tick}: {json.dumps(count)[:80]}"
        if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= _MOST:
            yield _Refused("count is not a whole number", told)
            continue
        us = start + tick * gap * 1_000_000
        try:
            check_plausible(us, options)
        except RefusedError as error:
            yield _Refused(str(error), told)
            continue
        yield from _steps(us, past, count, f"{past} to {count} at tick {tick}")
        past = count


def _counts_of_samples(_data: bytes, lines: list[_Line], file: str, options: Options) -> _Items:
    if options.tz is None:
        raise options.zone_needed(file, lines[0].text[:30])
    past, latest = 0, None
    for line, is_text in lines:
        if not is_text:
            yield _Refused(NOT_UTF8, line)
            continue
        found = _SAMPLE.match(line)
        if found is None or int(found[3]) > _MOST:
            yield _Refused("not DATE, TIME, COUNT", line)
            continue
        try:
            us = to_us(parse_instant(f"{found[1]}T{found[2]}", options))
        except RefusedError as error:
            yield _Refused(str(error), line)
            continue
        count = int(found[3])
        if latest is not None and us < latest:
            yield _Refused("earlier than the line before: two samplers", line)
        elif us == latest and count != past:
            yield _Refused("another count at the same instant: two samplers", line)
        else:
            if latest is None:
                yield us
            yield from _steps(us, past, count, f"{past} to {count}")
            past, latest = count, us


def _steps(us: int, past: int, count: int, told: str) -> _Items:
    for _ in range(abs(count - past)):
        yield _Change(us, count > past, "", told)


class _Slots:
    """The slots and who is in them; every change, and every refused line, is one row."""

    def __init__(self) -> None:
        self.rows = 0
        self.start = 0
        self.latest = 0
        self.ever = 0  # slots that were ever filled
        self.free: list[int] = []
        self.filled: list[int] = []  # of counts, negative: the highest slot goes first
        self.place: dict[str, int] = {}
        self.events: list[dict[str, Any]] = []
        self.rejects: list[Reject] = []

    def take(self, item: int | _Change | _Refused) -> None:
        """Take the start of the recording, a change, or a line that is refused."""
        if isinstance(item, int):
            self.start = item
            return
        self.rows += 1
        reason = self._refusal(item) if isinstance(item, _Change) else item.reason
        if reason is not None:
            self.rejects.append(Reject(self.rows, reason, item.text))
        elif isinstance(item, _Change):
            self._move(item)

    def _refusal(self, change: _Change) -> str | None:
        if change.us < self.latest:
            return "earlier than the line before"
        if not change.name:
            return None
        if change.comes and change.name in self.place:
            return "added while it is there"
        if not change.comes and change.name not in self.place:
            return "removed while it is not there"
        return None

    def _move(self, change: _Change) -> None:
        self.latest = change.us
        if change.comes:
            slot, kind, severity, t_start, t_end = self._come(change)
        else:
            slot, kind, severity, t_start, t_end = self._go(change), "onset", "down", change.us, None
        self.events.append(
            {
                "row": self.rows,
                "t_start": t_start,
                "t_end": t_end,
                "kind": kind,
                "node": f"slot-{slot:04}",
                "severity": severity,
                # An identity of its own, or the loss that follows would be a repeat of it.
                "code": _CAPACITY if severity == "down" else "there from the start",
                "reason": f"{_COMES if change.comes else _GOES} {change.name}"
                if change.name
                else change.text,
            }
        )

    def _come(self, change: _Change) -> tuple[int, str, str, int, int | None]:
        if self.free:
            slot, kind, severity, t_start, t_end = heapq.heappop(self.free), "clear", "down", change.us, None
        else:
            self.ever += 1
            slot, is_late = self.ever, change.us > self.start
            kind, severity = ("interval", "down") if is_late else ("onset", "info")
            t_start, t_end = self.start, change.us if is_late else None
        if change.name:
            self.place[change.name] = slot
        else:
            heapq.heappush(self.filled, -slot)
        return slot, kind, severity, t_start, t_end

    def _go(self, change: _Change) -> int:
        slot = self.place.pop(change.name) if change.name else -heapq.heappop(self.filled)
        heapq.heappush(self.free, slot)
        return slot

    def parsed(self, file: str) -> Parsed:
        """Return the rows; raise InputError when there is none that could be read."""
        if not self.events:
            reasons = sorted({reject.reason for reject in self.rejects})
            found = (
                f"no machine that comes or goes ({'; '.join(reasons)})" if reasons else "no machine at all"
            )
            raise InputError(file, found, _FORMS)
        names = ("row", "t_start", "t_end", "kind", "node", "severity", "code", "reason")
        columns = {name: [event[name] for event in self.events] for name in names}
        count = len(self.events)
        columns |= {"scope": ["node"] * count, "component": [_CAPACITY] * count}
        return Parsed(events_frame(columns), rejects_frame(self.rejects), self.rows)
