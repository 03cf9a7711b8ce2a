"""NVSentinel health events: JSON of its log, its protobuf and its MongoDB collection.

In: HealthEvent objects, one after the other, in lists, in {version, events}, in log lines that carry them
under `events`, or in documents of MongoDB (`healthevent`, Extended JSON). Out: an `onset` for an unhealthy
event and a `clear` for a healthy one, with the check's name as code (and the severity, where it is not down),
for each GPU that it names; fatal ones are down, and what only ends a job is an `interval` without a length.
A row is an event and one of its GPUs.
Easy to get wrong: a field that protobuf left out is its zero: without isFatal it is not fatal, without
isHealthy not healthy. A healthy event closes its own check on its own GPUs; without any entity it closes that
check on the whole node, which here is one clear for each GPU on which this file has opened it. One GPU is
named up to three times (index, PCI address, UUID). MongoDB's field names are in lower case.
Source: NVSentinel's protobuf and documents; its pull 1475, issues 1416 and 1748.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest import documents, xids
from pipeline.ingest.conditions import DEGRADED, DOWN, INFO, component_of
from pipeline.ingest.documents import Foreign, Rows, array, table, word
from pipeline.ingest.parsing import Options, Parsed, PublicFile, RefusedError, decode

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """mongoexport --uri=URI --collection=HealthEvents --sort='{"createdAt": 1}' --out=health-events.json
kubectl logs -n nvsentinel -l app.kubernetes.io/name=syslog-health-monitor --tail=-1 > monitor.log"""
FLAGS = ("as_of", "node", "xid_table")
TRAPS = (
    "A fatal event is down; one that is not fatal has the severity of its Xid, else degraded.",
    "A healthy event of a whole node closes the GPUs that the same file has opened: keep a node in one file.",
    "Counts without a time (a table of Xid counts per node) are refused.",
    "A GPU that stalls DCGM is not reported at all.",
)
ENDS = True

EXPECTED = "JSON of NVSentinel's health events"
_TIMES = ("generatedtimestamp", "timestamp")
_COUNTS = re.compile(r"^node,\w*count\s*$", re.MULTILINE)
_SXID = re.compile(r"(?<!log)sxid", re.IGNORECASE)  # SysLogsXIDError is of Xids
_NO_ACTION = {"", "NONE", "0"}


class _Gpu(NamedTuple):
    """A GPU as an event names it."""

    number: int | None
    name: str | None
    uuid: str | None = None  # where the name is another


_NODE = _Gpu(None, None)


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return health events as onsets and clears, and the rows refused with the reason."""
    events = _Events(file, options)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] not in {b"{", b"["}:
        return _counts(decode(data, file), file)
    for piece in documents.pieces(data, file, EXPECTED):
        if piece.is_broken:
            events.rows.reject(documents.BROKEN, piece.text)
        else:
            events.document(piece.value)
    if not events.found:
        raise InputError(file, "no health event", EXPECTED, "is it an export of NVSentinel?")
    return events.rows.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as an export of health events does."""
    lower = head.lower()
    return lower.lstrip()[:1] in {b"{", b"["} and b'"checkname"' in lower


def _counts(text: str, file: str) -> Parsed:
    """Refuse each row of a table that counts events and has no times."""
    header = _COUNTS.search(text)
    if header is None:
        raise InputError(file, "no health event", EXPECTED, "is it an export of NVSentinel?")
    rows = Rows()
    for line in text[header.end() :].splitlines():
        if line.strip():
            rows.reject("a count without a time", line)
    return rows.parsed()


class _Events:
    """The events of a file, and the GPUs on which each check is open."""

    def __init__(self, file: str, options: Options) -> None:
        self.file = file
        self.options = options
        self.rows = Rows()
        self.found = False
        self._open: dict[tuple[str, str], dict[tuple[_Gpu, str], None]] = {}

    def document(self, value: Any) -> None:
        """Take what holds health events; a line of the log without any is no row."""
        for item in _events_in(value):
            if isinstance(item, Foreign):
                self.rows.reject("not a health event", item.value)
            else:
                self.found = True
                self._event(item)

    def _event(self, raw: Mapping[str, Any]) -> None:
        event = {key.replace("_", "").lower(): value for key, value in raw.items()}
        try:
            check = _check(event)
            node = documents.node_of(event.get("nodename"), self.file, self.options)
            instant = documents.protobuf_us(
                next((event[key] for key in _TIMES if key in event), None), self.options
            )
            is_healthy, is_fatal = _flag(event, "ishealthy"), _flag(event, "isfatal")
        except RefusedError as error:
            self.rows.reject(str(error), raw)
            return
        severity, component = _meaning(event, check, is_fatal=is_fatal, options=self.options)
        columns = {
            "t_start": instant,
            "node": node,
            "severity": severity,
            "component": component,
            "reason": _told(event),
        }
        if is_healthy:
            kind, faults = "clear", self._closed(node, check, _gpus(event))
        else:
            # What only ends a job lasts no time: an onset without an end would swallow the next. A fault of
            # another weight is another fault, or a fatal event would be a repeat of the one before.
            kind = "onset" if severity in {DOWN, DEGRADED} else "interval"
            code = check if severity == DOWN else f"{check} {severity}"
            faults = [(gpu, code) for gpu in _gpus(event) or [_NODE]]
            if kind == "onset":
                self._open.setdefault((node, check), {}).update(dict.fromkeys(faults))
        for gpu, code in faults:
            place = {
                "kind": kind,
                "t_end": instant if kind == "interval" else None,
                "code": code,
                "gpu": gpu.number,
                "gpu_name": gpu.name,
                "gpu_uuid": gpu.uuid,
                "scope": "node" if gpu == _NODE else "gpu",
            }
            self.rows.add(raw, lambda place=place: {**columns, **place})  # type: ignore[misc]

    def _closed(self, node: str, check: str, gpus: list[_Gpu]) -> list[tuple[_Gpu, str]]:
        """Return the faults that a healthy event closes: those that are open here, else the fatal one."""
        opened = self._open.setdefault((node, check), {})
        faults: dict[tuple[_Gpu, str], None] = {}
        for gpu in gpus:
            known = [fault for fault in opened if _is_same(fault[0], gpu)]
            faults.update(dict.fromkeys(known or [(gpu, check)]))
        if not gpus:
            faults = dict(opened) or {(_NODE, check): None}
        for fault in faults:
            opened.pop(fault, None)
        return list(faults)


def _is_same(one: _Gpu, other: _Gpu) -> bool:
    """Return whether two names are of one GPU: an event may name its index, its address, or both."""
    if one.number is not None and other.number is not None:
        return one.number == other.number
    return one.name is not None and one.name == other.name


def _events_in(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any] | Foreign]:
    """Yield the health events within a document, and what stands in their place."""
    if isinstance(value, list) and depth < 4:
        for item in value:
            yield from _events_in(item, depth + 1)
    elif not isinstance(value, dict) or depth >= 4:
        yield Foreign(value)
    elif "healthevent" in value or "healthEvent" in value:
        yield from _events_in(value.get("healthevent", value.get("healthEvent")), depth + 1)
    elif any(key.replace("_", "").lower() == "checkname" for key in value):
        yield value
    elif isinstance(value.get("events"), dict | list):
        yield from _events_in(value["events"], depth + 1)
    elif "msg" not in value and "events" not in value:
        yield Foreign(value)


def _check(event: Mapping[str, Any]) -> str:
    if check := word(event.get("checkname")):
        return check
    raise RefusedError("no check name")


def _flag(event: Mapping[str, Any], key: str) -> bool:
    value = event.get(key, False)
    if not isinstance(value, bool):
        raise RefusedError(f"{key} is not true or false")
    return value


def _gpus(event: Mapping[str, Any]) -> list[_Gpu]:
    """Return the GPUs that an event names, each once: names in turn are of one GPU (index, PCI, UUID)."""
    indices: list[int] = []
    pcis: list[str] = []
    uuids: list[str] = []
    for item in map(table, array(event.get("entitiesimpacted"))):
        fields = {key.replace("_", "").lower(): value for key, value in item.items()}
        kind, name = word(fields.get("entitytype")).upper(), word(fields.get("entityvalue"))
        found = documents.gpu_name(name)
        if kind == "GPU" and re.fullmatch(r"[0-9]{1,4}", name):
            indices.append(int(name))
        elif kind in {"GPU", "PCI", "GPU_UUID", "UUID"} and found:
            (pcis if found[0] in "0123456789abcdef" else uuids).append(found)
    names = pcis if len(pcis) >= len(uuids) else uuids
    others = uuids if names is pcis and len(uuids) == len(pcis) else []
    count = max(len(indices), len(names))
    if indices and names and len(indices) != len(names):
        names, others, count = [], [], len(indices)  # which name is whose is not told
    return list(
        dict.fromkeys(
            _Gpu(
                indices[place] if indices else None,
                names[place] if names else None,
                others[place] if others else None,
            )
            for place in range(count)
        )
    )


def _meaning(event: Mapping[str, Any], check: str, *, is_fatal: bool, options: Options) -> tuple[str, str]:
    """Return severity and component: what NVSentinel calls fatal is down; an Xid says which part it is."""
    codes = [code for item in _codes(event) if (code := documents.whole(item)) is not None]
    component = component_of(check, word(event.get("componentclass")))
    severity = INFO if _action(event) in _NO_ACTION else DEGRADED
    if codes and "xid" in check.lower() and not _SXID.search(check):
        found = xids.meaning(codes[0], word(event.get("message")), options)
        severity, component = found.severity, found.component
        if severity == DOWN:
            severity = DEGRADED  # the table calls it down, the agent that watched does not
    return DOWN if is_fatal else severity, component


def _codes(event: Mapping[str, Any]) -> list[Any]:
    codes = event.get("errorcode")
    return codes if isinstance(codes, list) else [codes]


def _action(event: Mapping[str, Any]) -> str:
    action = documents.unwrapped(event.get("recommendedaction", ""))
    return str(action).strip().upper() if isinstance(action, str | int) else ""


def _told(event: Mapping[str, Any]) -> str:
    codes = ", ".join(str(item) for item in _codes(event) if isinstance(item, str | int))
    parts = [f"error {codes}" if codes else "", word(event.get("message")), _action(event)]
    return "; ".join(part for part in parts if part)
