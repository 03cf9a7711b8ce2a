"""Snapshots of Slurm's nodes -> intervals: what `sinfo` and `scontrol` sources share.

In: what snapshots say of nodes (state, reason, when the reason was set) and when each was taken. Out: one
`interval` for each fault of a node: its state, reason and stamp, whether one snapshot shows it or a hundred.
Easy to get wrong: a snapshot proves a state at its own instant only. A fault starts at its reason's stamp;
without one it is known to have begun before, so it starts at the first snapshot that shows it and says so in
its reason. It ends at the first later snapshot of the file that shows the node at work or in another state
(at that state's stamp, if it lies between): the truth lies between that one and the one before. A node that
no later snapshot lists is not known to be back: its fault stays open, as of the last snapshot that shows it.
Snapshots are folded by their times, not by their places. When one was taken must stand in it or be said
(`as_of`); old Slurm writes stamps without a year (`06/02-14:01:24`): of `year`, else the latest such day that
is not after the snapshot.
Source: man pages sinfo(1), scontrol(1), date(1).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import lru_cache
from itertools import groupby
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
    events_frame,
    parse_instant,
    rejects_frame,
)
from pipeline.units import from_us, to_us

MAX_NODES = 65_536  # of one list; Slurm's own ranges end there
NO_HOSTS = "not a node list as Slurm writes them"
NO_STAMP = "not a time as Slurm writes them"
BAD_TAKEN = "the time the snapshot was taken cannot be read"
SINCE_BEFORE = " (since before)"
ABSENT = frozenset({"", "none", "unknown", "n/a", "(null)", "null"})

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WEEKDAY = rf"(?:{'|'.join(_WEEKDAYS)}),? "
_CLOCK = r"(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})(?: (?P<half>[AP]M))?"
_ZONE = r"(?: (?P<zone>[A-Za-z]{1,5}|[+-][0-9]{2}(?:[0-9]{2})?))?"
# As `sinfo -l` and `date` print it in their languages of English, and `date -R`.
_DATES = (
    re.compile(
        rf"{_WEEKDAY}(?P<month>[A-Z][a-z]{{2}}) +(?P<day>[0-9]{{1,2}}) {_CLOCK}{_ZONE} (?P<year>[0-9]{{4}})"
    ),
    re.compile(
        rf"{_WEEKDAY}(?P<day>[0-9]{{1,2}}) (?P<month>[A-Z][a-z]{{2}}) (?P<year>[0-9]{{4}}) {_CLOCK}{_ZONE}"
    ),
)
_ISO_ALONE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}\S{0,20}")
_YEARLESS = re.compile(r"([0-9]{2})/([0-9]{2})-([0-9]{2}):([0-9]{2}):([0-9]{2})")
_EPOCH = re.compile("[0-9]{9,11}")
_EPOCH_ALONE = re.compile("[0-9]{10}")  # `date +%s`
_LEAP_YEARS_APART = 8
_CACHED = 4096

_Key = tuple[str, int | None, str]


class _Claim(NamedTuple):
    """What one snapshot says of a node that is unavailable; `stamp` is when the reason was set."""

    place: int
    node: str
    stamp: int | None
    severity: str
    component: str
    code: str
    reason: str

    @property
    def key(self) -> _Key:
        """What tells the faults of a node apart."""
        return self.code, self.stamp, self.reason


@dataclass
class _Fault:
    """A row: a fault over all snapshots that show it; the last of them is `as_of`."""

    row: int
    t_start: int
    t_end: int | None
    as_of: int
    node: str
    severity: str
    component: str
    code: str
    reason: str


@dataclass
class _Snapshot:
    """The nodes of one snapshot: those that are unavailable, and those that can work."""

    taken_us: int
    claims: list[_Claim] = field(default_factory=list)
    working: list[str | Sequence[str]] = field(default_factory=list)


@dataclass
class Snapshots:
    """The rows of one file, which may hold several snapshots."""

    file: str
    options: Options
    rejects: list[Reject] = field(default_factory=list)
    _taken: datetime | None = None
    _problem: str = ""
    _snapshots: list[_Snapshot] = field(default_factory=list)
    _places: int = 0

    def begin(self, time: str | int | None) -> None:
        """Begin a snapshot; `time` is the line with its time, or seconds since 1970; None: it tells none."""
        self._problem, self._taken = "", self.options.as_of
        try:
            if time is not None:
                self._taken = from_us(instant_us(str(time), self.options))
        except RefusedError as error:
            if str(error) == NO_ZONE:
                raise self.options.zone_needed(self.file, str(time).strip()) from None
            self._problem = f"{BAD_TAKEN}: {error}"
            return
        if self._taken is not None:
            self._snapshots.append(_Snapshot(to_us(self._taken)))

    def refuse(self, reason: str, text: str) -> None:
        """Count a row that is refused."""
        self.rejects.append(Reject(self._next(), reason, text))

    def works(self, nodes: str | Sequence[str]) -> None:
        """Note nodes that can work, which are no rows but end what earlier snapshots show."""
        if self._taken is not None and not self._problem:
            # Lists stay texts, and equal ones are one: most of a large file is nodes that work.
            self._snapshots[-1].working.append(sys.intern(nodes) if isinstance(nodes, str) else nodes)

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
            names = hosts(nodes) if isinstance(nodes, str) else nodes
            stamp = self._stamp(since)
        except RefusedError as error:
            self.refuse(str(error), text)
            return
        component = verdict.component or slurm_states.component_of(reason)
        told = reason or verdict.code
        self._snapshots[-1].claims += [
            _Claim(self._next(), name, stamp, verdict.severity, component, verdict.code, told)
            for name in names
        ]

    def parsed(self) -> Parsed:
        """Return the faults as intervals, in the order in which the file tells them first."""
        faults = _folded(self._snapshots)
        rejects = self.rejects
        order = sorted([*(fault.row for fault in faults), *(item.row for item in rejects)])
        places = {place: row for row, place in enumerate(order, 1)}
        for fault in faults:
            fault.row = places[fault.row]
        faults.sort(key=lambda fault: fault.row)
        columns: dict[str, list[Any]] = {
            column.name: [getattr(fault, column.name) for fault in faults] for column in fields(_Fault)
        }
        columns["kind"] = ["interval"] * len(faults)
        columns["scope"] = ["node"] * len(faults)
        refused = rejects_frame([item._replace(row=places[item.row]) for item in rejects])
        return Parsed(events_frame(columns), refused, len(faults) + len(rejects))

    def _next(self) -> int:
        self._places += 1
        return self._places

    def _stamp(self, since: str | int | None) -> int | None:
        """Return when a reason was set, in microseconds, or None when that is not told."""
        if self._problem:
            raise RefusedError(self._problem)
        if self._taken is None:
            hint = "--as-of 2025-03-01T00:00Z, or a line by `date -Is` above the snapshot"
            raise InputError(
                self.file, "a snapshot that does not say when it was taken", "that instant", hint
            )
        try:
            return stamp_us(since, replace(self.options, as_of=self._taken))
        except RefusedError as error:
            if str(error) == NO_ZONE:
                raise self.options.zone_needed(self.file, str(since)) from None
            raise


def _folded(snapshots: Sequence[_Snapshot]) -> list[_Fault]:
    """Return the faults that snapshots show, each once."""
    fold = _Fold()
    in_order = sorted(snapshots, key=lambda snapshot: snapshot.taken_us)
    for taken_us, group in groupby(in_order, key=lambda snapshot: snapshot.taken_us):
        fold.take(taken_us, list(group))
    return fold.faults


@dataclass
class _Fold:
    """The faults that are open in the snapshots so far."""

    faults: list[_Fault] = field(default_factory=list)
    _open: dict[str, dict[_Key, _Fault]] = field(default_factory=dict)
    # The last instant at which a node was seen at work, or in a state that has ended.
    _otherwise: dict[str, int] = field(default_factory=dict)

    def take(self, taken_us: int, snapshots: Sequence[_Snapshot]) -> None:
        """Take what was seen at one instant; of a node that is told both ways, that it is down."""
        named: dict[str, dict[_Key, _Claim]] = {}
        for claim in (claim for snapshot in snapshots for claim in snapshot.claims):
            named.setdefault(claim.node, {}).setdefault(claim.key, claim)
        for node, claims in named.items():
            self._down(node, claims, taken_us)
        for nodes in (nodes for snapshot in snapshots for nodes in snapshot.working):
            with suppress(RefusedError):  # a list that cannot be read claims no fault
                for node in hosts(nodes) if isinstance(nodes, str) else nodes:
                    if node not in named:
                        self._up(node, taken_us)

    def _up(self, node: str, taken_us: int) -> None:
        if self._open and (ended := self._open.pop(node, None)):
            _end(ended.values(), taken_us, taken_us)
        self._otherwise[node] = taken_us

    def _down(self, node: str, claims: dict[_Key, _Claim], taken_us: int) -> None:
        before = self._open.get(node, {})
        ended = [fault for key, fault in before.items() if key not in claims]
        otherwise = max([self._otherwise.get(node, 0), *(fault.as_of for fault in ended)])
        fresh = [
            # A stamp from before another state was seen is of the reason, not of this state.
            _begun(claim, claim.stamp if (claim.stamp or 0) > otherwise else None, taken_us)
            for key, claim in claims.items()
            if key not in before
        ]
        self.faults += fresh
        _end(ended, min((fault.t_start for fault in fresh), default=taken_us), taken_us)
        if ended:
            self._otherwise[node] = otherwise
        new = [key for key in claims if key not in before]
        self._open[node] = {key: before[key] for key in claims if key in before} | dict(
            zip(new, fresh, strict=True)
        )
        for fault in self._open[node].values():
            fault.as_of = taken_us


def _begun(claim: _Claim, start_us: int | None, taken_us: int) -> _Fault:
    reason = claim.reason if claim.stamp is not None else claim.reason + SINCE_BEFORE
    return _Fault(
        row=claim.place,
        t_start=taken_us if start_us is None else start_us,
        t_end=None,
        as_of=taken_us,
        node=claim.node,
        severity=claim.severity,
        component=claim.component,
        code=claim.code,
        reason=reason,
    )


def _end(faults: Iterable[_Fault], end_us: int, taken_us: int) -> None:
    for fault in faults:
        fault.t_end, fault.as_of = end_us, taken_us


def hosts(text: str) -> tuple[str, ...]:
    """Return the names of a node list; refuse a bad or an endless one."""
    if text.strip().lower() in ABSENT:
        raise RefusedError(NO_NODE)
    return _expanded(text) if "[" in text else _short(text)


@lru_cache(maxsize=_CACHED)
def _short(text: str) -> tuple[str, ...]:
    return _expanded(text)


def _expanded(text: str) -> tuple[str, ...]:
    try:
        return tuple(hostlist.expand(text, MAX_NODES))
    except hostlist.HostListError:
        raise RefusedError(NO_HOSTS) from None


def told(text: str) -> str:
    """Return a field's text, empty when Slurm writes that there is none."""
    text = text.strip()
    return "" if text.lower() in ABSENT else text


def is_time(line: str) -> bool:
    """Return whether a line is nothing but a time, as `sinfo -l` and `date` print it."""
    line = line.strip()
    if line[:2] != "20" and line[:3] not in _WEEKDAYS and not line.isdigit():
        return False  # nearly all lines
    return bool(_date(line) or _ISO_ALONE.fullmatch(line) or _EPOCH_ALONE.fullmatch(line))


def instant_us(line: str, options: Options) -> int:
    """Return the instant of a line that `is_time`."""
    line = line.strip()
    if _EPOCH_ALONE.fullmatch(line):
        return epoch_us(line, "s", options)
    found = _date(line)
    if not found:
        return to_us(parse_instant(line, options))
    zone = found["zone"] or ""
    if zone.isalpha():
        if zone not in {"UTC", "GMT", "Z"}:
            raise RefusedError(ZONE_WORD)
        zone = "Z"
    hour = int(found["hour"])
    if found["half"]:
        if not 1 <= hour <= 12:
            raise RefusedError(NO_SUCH)
        hour = hour % 12 + 12 * (found["half"] == "PM")
    day = f"{found['year']}-{month_of(found['month']):02}-{int(found['day']):02}"
    return to_us(parse_instant(f"{day}T{hour:02}:{found['minute']}:{found['second']}{zone}", options))


def _date(line: str) -> re.Match[str] | None:
    return next((hit for pattern in _DATES if (hit := pattern.fullmatch(line))), None)


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
