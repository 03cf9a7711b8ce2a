"""gpud events: `/v1/events` as JSON, of current and older versions, and its Xid log lines.

In: a list of {component, startTime, endTime, events: [{time, name, type, message, extra_info}]}, or log lines
{level, ts, msg, event: {time, device_uuid, xid}}; the server comes from the option node. Out: an `onset` for
each event; an Xid has the severity of the Xid table, the others that of their type (Fatal is down, Critical
and Warning degraded, the rest info).
Easy to get wrong: older versions put a JSON text into extra_info.data, encoded twice; the device in it may be
empty (an Xid of an unknown GPU: scope node), a UUID or a PCI address; Xid 0 is NVML's word for no Xid and is
refused. An age in a message ("47 minutes ago") is of the moment of the export: the time beside it counts.
startTime and endTime are what was asked for, not when anything happened.
Source: gpud's API types and pulls 46, 164, 192 and 1003.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipeline.errors import InputError
from pipeline.ingest import documents
from pipeline.ingest.conditions import DEGRADED, DOWN, INFO, component_of, xid_fault
from pipeline.ingest.documents import Foreign, Rows, table, word
from pipeline.ingest.parsing import Options, Parsed, PublicFile, RefusedError

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = "curl -sk https://NODE:15132/v1/events > NODE.json    # then --node @file"
FLAGS = ("node", "as_of", "xid_table")
TRAPS = (
    "The export names no node: give it, or name the files after their nodes (--node @file).",
    "It tells no end of a fault; repair times are the scenario's. An operator's SetHealthy is kept as info.",
    "An Xid without a device is of an unknown GPU of the node, and takes the whole node.",
    "Row remaps (Xid 63, 64) are not reported as Xids by newer versions.",
)
ENDS = False

EXPECTED = "JSON of gpud's /v1/events"
_SEVERITIES = {"fatal": DOWN, "critical": DEGRADED, "warning": DEGRADED}
_XID = re.compile(r"(?<![a-z])xid\W{0,3}([0-9]{1,5})\b", re.IGNORECASE)
_SXID = re.compile(r"sxid", re.IGNORECASE)
_FATAL = re.compile(r"(?<!non.)fatal", re.IGNORECASE)


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the events of all components, and the rows refused with the reason."""
    rows, found, node = Rows(), False, options.node_of(file)
    for piece in documents.pieces(data, file, EXPECTED):
        if piece.is_broken:
            rows.reject(documents.BROKEN, piece.text)
            continue
        for component, item in _events_in(piece.value):
            if isinstance(item, Foreign):
                rows.reject("not an event of gpud", item.value)
                continue
            found = True
            if item:
                if not node:
                    raise documents.node_needed(file)
                _add(rows, component, item, node, options)
    if not found:
        raise InputError(file, "no event of gpud", EXPECTED, "is it an export of /v1/events?")
    return rows.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as an export of gpud does."""
    head = head.lstrip()
    return (
        head[:1] in {b"[", b"{"}
        and b'"component"' in head
        and (b'"events"' in head or b'"startTime"' in head)
    )


def _events_in(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield component and event; an empty event for a component without any."""
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and "component" in item:
            events = item.get("events")
            yield word(item["component"]), {}
            for event in events if isinstance(events, list) else []:
                yield word(item["component"]), event if isinstance(event, dict) and event else Foreign(event)
        elif isinstance(item, dict) and isinstance(item.get("event"), dict):
            yield "xid", item["event"]
        else:
            yield "", Foreign(item)


def _add(rows: Rows, component: str, event: dict[str, Any], node: str, options: Options) -> None:
    def make() -> dict[str, Any]:
        extra = _extra(event)
        instant = documents.instant_us(event.get("time", extra.get("time")), options)
        name, message = word(event.get("name")), word(event.get("message"))
        gpu, *others = [*_devices(extra, message), None]
        code = None if _SXID.search(component + name) else _xid(component, name, message, extra)
        columns: dict[str, Any] = {
            "t_start": instant,
            "kind": "onset",
            "node": node,
            "gpu_name": gpu,
            "gpu_uuid": others[0] if others else None,
            "scope": "gpu" if gpu else "node",
            "reason": ": ".join(part for part in (name, message) if part) or f"xid {code}",
        }
        if code is not None:
            known, fault = xid_fault(code, message, options)
            columns["scope"] = known.scope if gpu else "node"
            return {
                **columns,
                "code": fault,
                "severity": known.severity,
                "component": known.component,
            }
        severity = _SEVERITIES.get(word(event.get("type")).lower(), INFO)
        if not word(event.get("type")) and _FATAL.search(name):
            severity = DOWN
        part = component_of(component.removeprefix("accelerator-nvidia-"), name, component)
        return {**columns, "code": name or component or "unknown", "severity": severity, "component": part}

    rows.add({"component": component, **event}, make)


def _extra(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event carries beside its text, the JSON text in `data` opened."""
    extra = dict(event) | table(event.get("extra_info"))
    inner = extra.get("data")
    if isinstance(inner, str) and inner.lstrip()[:1] == "{":
        try:
            inner = json.loads(inner)
        except (ValueError, RecursionError):
            raise RefusedError("extra_info.data is not valid JSON") from None
    return extra | table(inner)


def _xid(component: str, name: str, message: str, extra: Mapping[str, Any]) -> int | None:
    """Return the code of an Xid event, None for another event; refuse an Xid without a code."""
    if "xid" not in f"{component} {name}".lower():
        return None
    code = documents.whole(extra.get("xid"))
    if code is None and (hit := _XID.search(message)):
        code = int(hit[1])
    if code is None and not name.lower().endswith("xid"):
        return None  # such as a user's SetHealthy of the component
    if code is None or code <= 0:
        raise RefusedError("Xid 0 is no Xid" if code == 0 else "an Xid without a code")
    return code


def _devices(extra: Mapping[str, Any], message: str) -> list[str]:
    """Return the names of the event's GPU: a PCI address first, and a UUID if both are told."""
    keys = ("device_uuid", "deviceUUID", "gpu_uuid", "pci")
    told = [name for key in keys if (name := documents.gpu_name(word(extra.get(key))))]
    if not told:
        hit = re.search(r"GPU-[0-9a-fA-F-]{36}|PCI:[0-9a-fA-F:]{7,16}", message)
        told = [name for name in [documents.gpu_name(hit[0]) if hit else None] if name]
    addresses = [name for name in told if name[0] in "0123456789abcdef"]
    uuids = [name for name in told if name not in addresses]
    return [*addresses[:1], *uuids[:1]]
