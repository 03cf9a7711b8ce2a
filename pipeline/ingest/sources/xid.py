"""Kernel logs with Xid and SXid of NVIDIA, RAS of AMD: syslog, journald, dmesg, /dev/kmsg.

In: any mix of the forms in `kernellog.py`. Out: one `onset` for each line that claims a fault, with the
severity of the Xid table; a `clear` where the driver says that the GPU recovered: Xid 154 back to 0x0, an AMD
reset that succeeded. `row` is the line's number; other lines are no rows.
Easy to get wrong: Xid 45 and 154, and 43 after another Xid, are the wake of a fault and start none: they are
`info`, under a code of their own so that they open and close nothing. But 154 that asks for an action where
the log tells no fault of that GPU in the five minutes before is all that is left of one, and takes the GPU
down. A clear ends the faults of its GPU since the last one: their rows carry the code of the first, so that
the clear pairs with it. A GPU that fell off the bus may be told in three lines and without a number: code 79.
SXid is told in two lines, severity and data: one row. An Xid quoted by another program is refused.
Source: NVIDIA's open kernel modules and Xid catalogue; gpud, NVSentinel; amdgpu's messages in Linux.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import xids
from pipeline.ingest.clock import years_of
from pipeline.ingest.documents import gpu_name, node_needed
from pipeline.ingest.kernellog import YEARLESS, Told, is_stamped, told, when
from pipeline.ingest.parsing import (
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    Reject,
    events_frame,
    parse_instants,
    rejects_frame,
)
from pipeline.ingest.textscan import Line, Mark, Readable, Scan
from pipeline.ingest.xids import Meaning
from pipeline.units import US_PER_S

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}

EXPORT = """journalctl --dmesg --since 2025-03-01 --output json > gpu-01.json   # nothing is missing in it
cp /var/log/kern.log gpu-01.log                                    # --tz, and --year or --as-of
dmesg --time-format iso > gpu-01.log                               # --node
dmesg > gpu-01.log                                                 # --boot-time and --node"""
FLAGS = ("tz", "year", "boot_time", "as_of", "node", "fold", "xid_table")
TRAPS = (
    "A kernel log tells no end but Xid 154 back to 0x0 and an AMD reset that succeeded.",
    "Xid 13, 31, 43 and their like end a job and leave the GPU in service: severity app.",
    "Xid 45 and 154 are the wake of another fault and start none; 154 without one takes the GPU down.",
    "A code that the Xid table does not hold is unknown, not fatal: info.",
    "Times of dmesg -T drift after a suspend: the future, and a weekday that does not fit, are refused.",
    "Servers are named by their lines; a log that names none needs --node.",
    "Lines that another program than the kernel wrote, tests and quotes, are refused.",
    "journalctl --output export and json-pretty spread an entry over lines: take --output json.",
)
ENDS = False

NO_CODE = "no Xid code"
NO_DEVICE = "no PCI address"
CUT_OFF = "cut off: not what happened to the GPU"
FOLLOWS_US = 300 * US_PER_S
DATA_US = US_PER_S  # between the two lines of an SXid
LOST_LINES = 3  # that tell a GPU lost without an Xid
ACTIONS = {0: "none", 1: "gpu_reset", 2: "node_reboot", 3: "drain_p2p", 4: "drain_and_reset"}

# Marks of wanted lines; the number is where two letters begin that are seldom neighbours.
_MARKS = (Mark(b"NVRM", 1), Mark(b"Xid", 0), Mark(b"amdgpu", 2))
_ARRAYS = tuple(
    Mark(b'"MESSAGE"' + colon, 7 + len(colon)) for colon in (b":[", b": [", b" : [")
)  # journald's bytes, which hide every mark
_WANTED = re.compile(
    rb'Xid|fallen off the bus|The NVIDIA GPU|PCI ID:|installed in this system|loading NVIDIA|"MESSAGE" ?: ?\['
    rb"|hardware errors? ?(?:\(|detected)|hardware errors detected|GPU reset|STATUS="
)
_BATCH_ROWS = 50_000
_BEGINNINGS = ("NVRM:", "nvidia-nvswitch", "amdgpu ")
_CLAIM = re.compile(
    r"NVRM:\s*(?:Xid\b|The NVIDIA GPU\b|\(PCI ID:|installed in this|fallen off|loading NVIDIA"
    r"|GPU\b.{0,60}?fallen off the bus)"
    r"|nvidia-nvswitch[0-9]+: SXid\b|SXid \("
    r"|amdgpu [0-9a-f:.]{7,16}: "
)
_ADDRESS = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
_DEVICE = re.compile(rf"Xid\s*\({_ADDRESS}\)\s*:\s*")
_NUMBER = re.compile(r"([0-9]{1,5})\b[\s,]*")
_USUAL = re.compile(rf"NVRM: Xid \({_ADDRESS}\): ([1-9][0-9]{{0,4}})\b[\s,]*")
_LOST = re.compile(rf"NVRM:\s*(?:The NVIDIA )?GPU (?:at )?{_ADDRESS}(?=[\s:,.]|$)")
_ACTION = re.compile(r"changed from 0x([0-9a-f]+).*? to 0x([0-9a-f]+)", re.IGNORECASE)
_AMD = re.compile(r"amdgpu ([0-9a-f:.]+): (?:amdgpu: )?(?:\{[0-9]+\})?\s*(.*)", re.IGNORECASE)
_AMD_COUNT = re.compile(r"\b([0-9]+) (?:new )?(un|de)?(?:correctable|ferred) hardware errors? ")
_AMD_STATUS = re.compile(r"aca entry\[[0-9]+\]\.STATUS=0x([0-9a-f]{1,16})\b", re.IGNORECASE)
_UNCORRECTED, _POISON, _VALID = 61, 43, 63  # bits of AMD's status words


class Message(NamedTuple):
    """What a kernel message says: the vendor's family, its code, the device, and its words.

    `address` is as the log has it, `reason` the words from the code on.
    """

    family: str
    code: int | None
    address: str
    reason: str
    switch: str = ""


@dataclass(slots=True)
class Event:
    """A row on its way to the tables."""

    row: int
    t_start: int
    node: str
    gpu_name: str | None
    family: str
    number: int | None
    severity: str
    scope: str
    component: str
    code: str
    reason: str
    kind: str = "onset"
    text: str = ""  # the line, until it is dated
    is_data: bool = False  # the second line of an SXid


@dataclass(slots=True)
class _Device:
    """What is known of a GPU while its lines pass."""

    chain: list[Event] = field(default_factory=list)
    action: int = 0
    last_us: int | None = None
    last_any_us: int | None = None
    cleared_us: int | None = None
    contained_us: int | None = None
    double_bit: list[Event] = field(default_factory=list)


# --- reading -----------------------------------------------------------------------------------------------


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the faults of a kernel log, and the lines refused with the reason."""
    return read_stream(io.BytesIO(data), file, options)


def read_stream(stream: Readable, file: str, options: Options) -> Parsed:
    """As `read`, of a stream that is read once and never held as a whole."""
    table = xids.table(options)  # a table of the user's with a mistake is told before the log is read
    head = stream.read(1)
    scan = Scan(_Joined(head, stream), (*_MARKS, *(_ARRAYS if head == b"{" else ())))
    reader = _Reader(file, options, table)
    for line in scan:
        if b"Xid" in line.data or _WANTED.search(line.data):
            reader.take(line)
    if reader.is_empty and not _is_log(scan.head):
        hint = "choose a log of the kernel; `goodput ingest --detect` tells formats"
        raise InputError(file, "no line of a kernel log", "syslog, journald, dmesg or /dev/kmsg", hint)
    events = _linked(reader.done(scan), reader.boots)
    columns = {name: [getattr(event, name) for event in events] for name in _COLUMNS}
    rejects = sorted(reader.rejects)
    return Parsed(events_frame(columns), rejects_frame(rejects), len(events) + len(rejects))


_COLUMNS = (
    "row",
    "t_start",
    "kind",
    "node",
    "gpu_name",
    "severity",
    "scope",
    "component",
    "code",
    "reason",
)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as a kernel log does."""
    if head.lstrip()[:1] == b"{":
        return b"__REALTIME_TIMESTAMP" in head
    return bool(_KERNEL_LOG.search(head))


_KERNEL_LOG = re.compile(
    rb"NVRM: |nvidia-nvswitch[0-9]+: SXid|amdgpu [0-9a-f]{4}:| kernel: |kernel: \[|^\[ *[0-9]+\.[0-9]{6}\] "
    rb"|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\] |^kern *: *[a-z]+ *: "
    rb"|^[0-9]+,[0-9]+,[0-9]+,[^;]{1,20};|: kern: +[a-z]+: \[",
    re.MULTILINE,
)


def _is_log(head: bytes) -> bool:
    """Return whether any line has the form of a log's: a healthy server's log holds no fault."""
    if looks_like(head):
        return True
    lines = head.decode("utf-8", errors="replace").splitlines()
    return any(is_stamped(line) for line in lines[:1000])


class _Joined:
    """A stream with the byte that was read ahead in front."""

    def __init__(self, head: bytes, stream: Readable) -> None:
        self._head = head
        self._stream = stream

    def read(self, size: int = -1, /) -> bytes:
        head, self._head = self._head, b""
        return head + self._stream.read(size)


class _Reader:
    """Lines in file order -> events and rejects.

    Lines without a year wait until all are read, because the last one tells the year; the others are dated
    in batches, which frees their texts.
    """

    def __init__(self, file: str, options: Options, table: xids.Table) -> None:
        self.rejects: list[Reject] = []
        self.boots: list[tuple[int, str]] = []
        self.is_empty = True
        self._events: list[Event] = []
        self._undated: list[tuple[Event, str]] = []
        self._yearless: list[tuple[Event, Told, int]] = []
        self._file = file
        self._options = options
        self._table = table
        self._node = options.node_of(file)
        self._lost: tuple[Line, Told, str] | None = None  # a GPU's name without what became of it

    def take(self, line: Line) -> None:
        """Take a line: an event, a reject, or no row."""
        self.is_empty = False
        text = line.data.decode("utf-8", errors="replace")
        known = told(text, _claim)
        if known is None or (self._lost and self._goes_on(line, known)):
            return
        if known.message.startswith("NVRM: loading"):
            host = known.host or self._node
            if host:
                self.boots.append((line.number, host))
            return
        try:
            message = parse(known.message)
            if message is None or self._awaits(line, known, text, message):
                return
            self._add(line, known, message, text)
        except RefusedError as error:
            self.rejects.append(Reject(line.number, str(error), text))

    def done(self, scan: Scan) -> list[Event]:
        """Return the events, dated, in file order."""
        self._flush()
        if self._yearless:
            if self._options.tz is None:
                raise self._options.zone_needed(self._file, self._yearless[0][0].text[:15])
            years = years_of(scan.days, self._options, self._file)
            for event, known, run in self._yearless:
                self._date(event, known, years[run] if run >= 0 else None)
        self._date_batch()
        return sorted(self._events, key=lambda event: event.row)

    def _flush(self) -> None:
        """Refuse a GPU's name that nothing followed."""
        if self._lost:
            line, _, text = self._lost
            self.rejects.append(Reject(line.number, CUT_OFF, text))
            self._lost = None

    def _awaits(self, line: Line, known: Told, text: str, message: Message) -> bool:
        """Hold back a GPU's name whose lot stands in the next lines."""
        if message.family != "lost":
            return False
        if "installed in this system" not in message.reason:
            self._lost = (line, known, text)
        return True

    def _goes_on(self, line: Line, known: Told) -> bool:
        """Take the second and third line that tell of a lost GPU."""
        assert self._lost
        first, head, text = self._lost
        goes_on = known.message.startswith(("NVRM: (PCI ID", "NVRM: installed", "NVRM: fallen off"))
        if not goes_on or line.number - first.number > LOST_LINES:
            self._flush()
            return False
        if known.host not in {None, head.host}:
            return False
        if "fallen off" in known.message:
            self._lost = None
            try:
                message = parse(f"{head.message.rstrip()} has {known.message.removeprefix('NVRM: ')}")
                if message:
                    self._add(first, head, message, text)
            except RefusedError as error:
                self.rejects.append(Reject(first.number, str(error), text))
        elif re.search(r"installed in this system(?! has\s*$)", known.message):
            self._lost = None  # another message, such as a GPU that the driver does not know
        return True

    def _add(self, line: Line, known: Told, message: Message, text: str) -> None:
        if known.refused:
            raise RefusedError(known.refused)
        name = _name(message.address)
        if name is None:
            raise RefusedError(NO_DEVICE)
        is_switch = message.family == "sxid"
        meaning, code = _meaning(message, self._table)
        event = Event(
            row=line.number,
            t_start=0,
            node=known.host or self._node or "",
            gpu_name=None if is_switch else name,
            family=message.switch + name if is_switch else message.family,
            number=message.code,
            severity=meaning.severity,
            scope=meaning.scope,
            component=meaning.component,
            code=code,
            reason=message.reason,
            text=text,
            is_data=is_switch and " Data " in message.reason,
        )
        if known.form == YEARLESS:
            self._yearless.append((event, known, -1 if line.run is None else line.run))
        else:
            self._date(event, known, None)

    def _date(self, event: Event, known: Told, year: int | None) -> None:
        """Date an event, or put it among those that are dated together."""
        try:
            moment = when(known, year, self._options, self._file)
        except RefusedError as error:
            self.rejects.append(Reject(event.row, str(error), event.text))
            return
        if not event.node:
            raise node_needed(self._file)
        if isinstance(moment, int):
            event.t_start, event.text = moment, ""
            self._events.append(event)
            return
        self._undated.append((event, moment))
        if len(self._undated) >= _BATCH_ROWS:
            self._date_batch()

    def _date_batch(self) -> None:
        texts = pl.Series([moment for _, moment in self._undated], dtype=pl.String)
        instants = parse_instants(texts, self._options)
        for (event, _), at_us, reason in zip(
            self._undated, instants["us"].to_list(), instants["reason"].to_list(), strict=True
        ):
            if reason:
                self.rejects.append(Reject(event.row, reason, event.text))
            else:
                event.t_start, event.text = at_us, ""
                self._events.append(event)
        self._undated = []


@functools.lru_cache(maxsize=4096)
def _name(address: str) -> str | None:
    return gpu_name(address)


def _claim(text: str) -> int:
    """Return where a message begins that may claim a fault; -1: nowhere."""
    places = [place for mark in _BEGINNINGS if (place := text.find(mark)) >= 0]
    if places and _CLAIM.match(text, min(places)):
        return min(places)
    hit = _CLAIM.search(text) if places or "SXid" in text else None
    return hit.start() if hit else -1


# --- messages ----------------------------------------------------------------------------------------------


def parse(message: str) -> Message | None:
    """Return what a kernel message claims, None when it claims no fault; refuse one that cannot be read."""
    if message.startswith("amdgpu"):
        return _amd(message)
    if "Xid" in message[:40] and "fallen" not in message[:30]:
        return _nvidia(message)
    if "GPU" not in message[:24]:
        return None
    hit = _LOST.match(message)
    if hit is None:
        raise RefusedError(NO_DEVICE)
    words = message.removeprefix("NVRM:").strip()
    if "fallen off the bus" in message:
        return Message("xid", 79, hit[1], words)
    return Message("lost", None, hit[1], words)


def _nvidia(message: str) -> Message:
    if hit := _USUAL.match(message):
        words = message[hit.end() :].rstrip()
        return Message("xid", int(hit[2]), hit[1], f"Xid {hit[2]}, {words}" if words else f"Xid {hit[2]}")
    device = _DEVICE.search(message)
    if device is None:
        raise RefusedError(NO_DEVICE)
    number = _NUMBER.match(message, device.end())
    if number is None:
        raise RefusedError(NO_CODE)
    words = message[number.end() :].strip()
    code = int(number[1])
    if "SXid" in message[:32]:
        switch = message.partition(":")[0] if message.startswith("nvidia-") else ""
        reason = f"SXid {code}, {words}" if not switch else f"SXid {code}, {switch}, {words}"
        return Message("sxid", code, device[1], reason, switch)
    return Message("xid", code, device[1], f"Xid {code}, {words}" if words else f"Xid {code}")


def _amd(message: str) -> Message | None:
    hit = _AMD.match(message)
    if hit is None:
        return None
    address, words = hit.groups()
    family = ""
    if counted := _AMD_COUNT.search(words):
        known = "ras uncorrectable" if counted[2] == "un" else "ras corrected"
        family = known if counted[1].strip("0") else ""
    elif "uncorrectable hardware error" in words:
        family = "ras uncorrectable"
    elif status := _AMD_STATUS.search(words):
        family = _status(int(status[1], 16))
    elif "GPU reset begin" in words:
        family = "gpu reset"
    elif re.search(r"GPU reset(?:\([0-9]+\))? succeeded|GPU reset end with ret = 0\b", words):
        family = "gpu reset succeeded"
    elif re.search(r"GPU reset(?:\([0-9]+\))? failed|GPU reset end with ret = -", words):
        family = "gpu reset"
    return Message(family, None, address, words) if family else None


def _status(word: int) -> str:
    """Return what an entry of AMD's Accelerator Check Architecture says of its GPU."""
    if not word >> _VALID & 1:
        return ""
    if word >> _UNCORRECTED & 1:
        return "ras uncorrectable"
    return "ras poison" if word >> _POISON & 1 else "ras corrected"


def recovery(reason: str) -> tuple[int, int] | None:
    """Return the actions that an Xid 154 changes from and to; the numbers hold, the words vary by driver."""
    hit = _ACTION.search(reason)
    return (int(hit[1][-8:], 16), int(hit[2][-8:], 16)) if hit else None


def _meaning(message: Message, table: xids.Table) -> tuple[Meaning, str]:
    """Return what a message means by itself, and the identity of its fault."""
    code = message.code or 0
    if message.family == "xid":
        meaning = table.meaning(code, message.reason)
        # Faults of one code that weigh differently are different faults: none opens or closes the other.
        weighs_less = table.has_rules(code) and meaning.severity != "down"
        return meaning, f"xid {code} {meaning.severity}" if weighs_less else f"xid {code}"
    if message.family == "sxid":
        is_fatal = re.search(r"(?<![A-Za-z-])fatal\b", message.reason, re.IGNORECASE)
        if is_fatal:
            return Meaning("down", "domain", "nvlink"), f"sxid {code}"
        return Meaning("info", "domain", "nvlink"), f"sxid {code} non-fatal"
    if message.family in {"ras poison", "ras corrected"}:
        return Meaning("info", "gpu", "hbm"), message.family
    return Meaning("down", "gpu", "gpu"), message.family.removesuffix(" succeeded")


# --- what belongs together ---------------------------------------------------------------------------------


def _linked(events: list[Event], boots: list[tuple[int, str]]) -> list[Event]:
    """Tell faults from their wake, and give a clear the code of what it ends; drop a clear told twice."""
    devices: dict[tuple[str, str | None], _Device] = {}
    faults: dict[tuple[str, str, int | None], int] = {}  # SXid by node, switch and code
    waiting = iter(sorted(boots))
    boot = next(waiting, None)
    kept = []
    for event in events:
        while boot and boot[0] < event.row:
            for node, name in list(devices):
                if node == boot[1]:
                    devices[node, name] = _Device()
            boot = next(waiting, None)
        if event.scope == "domain":
            key = (event.node, event.family, event.number)
            if not event.is_data:
                faults[key] = event.t_start
            if not event.is_data or abs(event.t_start - faults.get(key, -DATA_US)) > DATA_US:
                kept.append(event)
            continue
        device = devices.setdefault((event.node, event.gpu_name), _Device())
        if event.family == "xid":
            _xid(event, device)
            kept.append(event)
        elif _amd_kept(event, device):
            kept.append(event)
    return kept


def _is_near(event: Event, moment_us: int | None) -> bool:
    return moment_us is not None and abs(event.t_start - moment_us) <= FOLLOWS_US


def _xid(event: Event, device: _Device) -> None:
    if event.number == 154:
        _state(event, device)
        return
    if event.number == 43 and _is_near(event, device.last_any_us):
        event.severity, event.code = "info", "xid 43 secondary"
    if event.number in {48, 94}:
        _contain(event, device)
    if event.severity in {"down", "degraded"}:
        _join(event, device)
    if event.severity != "info":
        device.last_any_us = event.t_start


def _contain(event: Event, device: _Device) -> None:
    """A double-bit error that Xid 94 says was contained ends the job, not the GPU."""
    if event.number == 94:
        device.contained_us = event.t_start
        if not any(other.number in {64, 95} for other in device.chain):
            for other in device.double_bit:
                if _is_near(event, other.t_start):
                    _demote(other, device)
        device.double_bit = []
    elif _is_near(event, device.contained_us):
        _demote(event, device)
    else:
        device.double_bit.append(event)


def _demote(event: Event, device: _Device) -> None:
    event.severity, event.code = "app", "xid 48 contained"
    device.chain = [other for other in device.chain if other is not event]


def _join(event: Event, device: _Device) -> None:
    """Put a fault into the chain of its GPU, or begin a new one after a pause."""
    if not device.action and not _is_near(event, device.last_us):
        device.chain = []
    device.chain.append(event)
    device.last_us = event.t_start


def _state(event: Event, device: _Device) -> None:
    """Xid 154: what the GPU needs now."""
    change = recovery(event.reason)
    if change is None:
        event.severity, event.code = "info", "xid 154 secondary"
        return
    action = change[1]
    if action == 0:
        _clear(event, device, "xid 154")
        return
    is_wake = bool(device.chain) and (bool(device.action) or _is_near(event, device.last_us))
    device.action = action
    if is_wake:
        event.severity, event.code = "info", "xid 154 secondary"
        return
    event.code = "xid 154"
    event.severity = "degraded" if ACTIONS.get(action) == "drain_p2p" else "down"
    event.scope = "node" if ACTIONS.get(action) == "node_reboot" else "gpu"
    device.chain, device.last_us = [event], event.t_start


def _clear(event: Event, device: _Device, code: str) -> None:
    """End the chain of a GPU: its rows and the clear carry the code of its first."""
    lead = device.chain[0] if device.chain else None
    event.kind, event.code = "clear", lead.code if lead else code
    if lead:
        event.severity, event.scope, event.component = lead.severity, lead.scope, lead.component
        for other in device.chain:
            other.code = lead.code
    device.chain, device.action, device.last_us = [], 0, None
    device.cleared_us = event.t_start


def _amd_kept(event: Event, device: _Device) -> bool:
    """Link a row of an AMD GPU; return False for a success that is told a second time."""
    if event.family == "gpu reset succeeded":
        if not device.chain and _is_near(event, device.cleared_us):
            return False
        _clear(event, device, "gpu reset")
        return True
    if event.severity == "down":
        _join(event, device)
        event.code = device.chain[0].code
    return True


def claims(data: bytes) -> Iterator[Message]:
    """Yield what the messages of a log claim, whether their lines can be dated or not."""
    for text in data.decode("utf-8", errors="replace").splitlines():
        known = told(text, _claim)
        if known is None:
            continue
        try:
            message = parse(known.message)
        except RefusedError:
            continue
        if message and message.family != "lost":
            yield message
