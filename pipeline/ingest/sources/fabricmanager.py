"""NVIDIA Fabric Manager's log, and failures of its service in syslog.

In: lines `[Mon DD YYYY HH:MM:SS] [LEVEL] [tid N] text` of the daemon, in the local time of the server, which
the option node names; or syslog lines of nvidia-fabricmanager, which name the server and lack the year.
Out: `onset` rows: a fatal error of an NVSwitch takes the domain down, one that is not fatal is info, under
the codes that the kernel's log has for SXids; a service that does not start takes the node's GPUs with it. A
row is a line of level ERROR or worse, or a failure of the service; errors without a rule are `info`.
Easy to get wrong: messages go on over lines without a prefix, and most lines are news of multicast groups;
the same error reaches the kernel's log as an SXid. A service that fails is no broken GPU: software.
Source: NVIDIA's Fabric Manager guide; gpud's tests; cube-studio issue 29.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest import documents
from pipeline.ingest.clock import local_us, month_of, years_of
from pipeline.ingest.documents import Rows
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, RefusedError, text_lines

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """cp /var/log/fabricmanager.log NODE.log    # then --node @file
journalctl -u nvidia-fabricmanager > service.log"""
FLAGS = ("tz", "node", "year", "as_of", "fold")
TRAPS = (
    "Times are local and have no zone.",
    "A fatal error of an NVSwitch takes its domain until it is reset; the log tells no end.",
    "A service that does not start takes all GPUs of the node away, although none is broken.",
)
ENDS = False

EXPECTED = "the log of nvidia-fabricmanager"
SERVICE = "fabricmanager service"
_LINE = re.compile(
    r"\[(\w{3}) +([0-9]{1,2}) ([0-9]{4}) ([0-9]{2}):([0-9]{2}):([0-9]{2})\] \[(\w+)\] \[tid [0-9]+\] ?(.*)"
)
_BEGINS = re.compile(
    r"\[\w{3} +[0-9]{1,2} [0-9]{4} .{8}\] \[(\w+)\]|\[\w{3} [^\]]{1,40}\] \[(?:ERROR|FATAL|CRITICAL)\]"
)
_HEAD = re.compile(rb"^\[\w{3} .{16}\] \[\w+\] \[tid ", re.MULTILINE)
_SYSLOG = re.compile(r"(\w{3}) +([0-9]{1,2}) ([0-9]{2}):([0-9]{2}):([0-9]{2}) (\S+) ([^:]{1,200}): (.*)")
_DAY = re.compile(r"(\w{3}) +([0-9]{1,2}) [0-9]{2}:[0-9]{2}:[0-9]{2} ")
_FAILED = re.compile(r"\bfail|NV_WARN_NOTHING_TO_DO|version mismatch|does ?n.t match", re.IGNORECASE)
_SWITCH = re.compile(r"NVSwitch (non-)?fatal error ([0-9]{1,6})", re.IGNORECASE)
_LEVELS = ("ERROR", "FATAL", "CRITICAL")


class _Claim(NamedTuple):
    """A line that claims a fault: the parts of its time, the server if it names one, its text."""

    line: str
    month: str
    day: str
    year: str | None
    clock: tuple[str, str, str]
    node: str | None
    text: str


class _Bad(NamedTuple):
    """A line that claims a fault and cannot be read, and why."""

    line: str
    reason: str = "a line that is cut off"


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the errors of a log, and the rows refused with the reason."""
    rows, claims, found = Rows(), list[_Claim | _Bad](), False
    days = list[tuple[int, int]]()  # of all lines without a year, also of other programs
    places = dict[int, int]()  # of claims among them
    for line, is_text in text_lines(data, file).iter_rows():
        is_ours, claim = _claim(line)
        found = found or is_ours
        if day := _day(line):
            days.append(day)
            if isinstance(claim, _Claim):
                places[id(claim)] = len(days) - 1
        if claim is not None:
            claims.append(claim if is_text else _Bad(line, NOT_UTF8))
    if not found:
        raise InputError(file, "nothing of the fabric manager", EXPECTED, "is it another log?")
    _check_given(claims, file, options)
    told = years_of(days, options, file) if places else []
    years = {claim: told[place] for claim, place in places.items()}
    for claim in claims:
        if isinstance(claim, _Bad):
            rows.reject(claim.reason, claim.line)
        else:
            _add(rows, claim, years, file, options)
    return rows.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as a log of the daemon does."""
    first = head.partition(b"\n")[0].lower()
    return b"fabricmanager" in first or _HEAD.search(head) is not None


def _claim(line: str) -> tuple[bool, _Claim | _Bad | None]:
    """Return whether a line is of the fabric manager, and what it claims."""
    if hit := _LINE.fullmatch(line):
        month, day, year, *clock, level, text = hit.groups()
        hour, minute, second = clock
        claim = _Claim(line, month, day, year, (hour, minute, second), None, text)
        return True, claim if level in _LEVELS else None
    if begun := _BEGINS.match(line):
        return True, _Bad(line) if begun[1] in {None, *_LEVELS} else None
    if hit := _SYSLOG.fullmatch(line):
        month, day, hour, minute, second, node, program, text = hit.groups()
        if "fabricmanager" in program or "fabricmanager" in text:
            claim = _Claim(line, month, day, None, (hour, minute, second), node, text)
            return True, claim if _FAILED.search(text) else None
    return False, None


def _check_given(claims: list[_Claim | _Bad], file: str, options: Options) -> None:
    """Raise InputError when the log lacks what was not given."""
    for claim in claims:
        if isinstance(claim, _Claim):
            if options.tz is None:
                raise options.zone_needed(file, claim.line[:22])
            if not claim.node and not options.node_of(file):
                raise documents.node_needed(file)


def _day(line: str) -> tuple[int, int] | None:
    """Return month and day of a line of syslog."""
    hit = _DAY.match(line)
    with suppress(RefusedError):  # a claim with such a month is refused below
        return (month_of(hit[1]), int(hit[2])) if hit else None
    return None


def _add(rows: Rows, claim: _Claim, years: dict[int, int], file: str, options: Options) -> None:
    def make() -> dict[str, Any]:
        month = month_of(claim.month)
        year = int(claim.year) if claim.year else years[id(claim)]
        hour, minute, second = map(int, claim.clock)
        instant = local_us(year, month, int(claim.day), hour, minute, second, 0, options)
        return {
            "t_start": instant,
            "kind": "onset",
            "node": documents.node_of(claim.node, file, options),
            "reason": claim.text,
            **_fault(claim),
        }

    rows.add(claim.line, make)


def _fault(claim: _Claim) -> dict[str, str]:
    """Return what a claim means; an NVSwitch error has the identity of the kernel's SXid."""
    if hit := _SWITCH.search(claim.text):
        code, is_fatal = f"sxid {hit[2]}", not hit[1]
        return {
            "scope": "domain",
            "severity": "down" if is_fatal else "info",
            "component": "nvlink",
            "code": code if is_fatal else f"{code} non-fatal",
        }
    if claim.year is None or "NV_WARN_NOTHING_TO_DO" in claim.text:
        return {"scope": "node", "severity": "down", "component": "software", "code": SERVICE}
    return {"scope": "node", "severity": "info", "component": "nvlink", "code": "error"}
