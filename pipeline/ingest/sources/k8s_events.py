"""Kubernetes events: `kubectl get events -A -o json`, of the core API and of events.k8s.io.

In: JSON of a List of Events, of single Events one after the other, or of watch events {type, object}. Out: an
event of a node by its reason: NodeNotReady is an `onset` and NodeReady a `clear` of Ready, NodeNotSchedulable
and NodeSchedulable of `unschedulable`; whatever else happened to nodes and pods is `info`. A row is an
occurrence that has a time: an Event that was counted several times is one onset at its first time, and where
it changes the node's state a second one at its last. An Event that is delivered again (its count grew) takes
the place of the one before.
Easy to get wrong: the controller writes NodeNotReady and the kubelet NodeReady, so only the node's name
matches them; firstTimestamp and lastTimestamp are null in newer objects, whose times are eventTime and
series.lastObservedTime; nothing is known of the time between a first and a last occurrence.
Source: Kubernetes' Event API, core/v1 and events.k8s.io/v1; kubernetes/kubernetes pull 61415.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest import documents
from pipeline.ingest.conditions import APP, CORDON, DEGRADED, DOWN, INFO, READY, component_of, meaning
from pipeline.ingest.documents import Foreign, Rows, table, word
from pipeline.ingest.parsing import NO_NODE, Options, Parsed, PublicFile, RefusedError

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """kubectl get events -A -o json > events-$(date -u +%Y%m%dT%H%M).json    # at least once an hour
kubectl get events -A -o json --watch --output-watch-events > events-watch.json"""
FLAGS = ("as_of",)
TRAPS = (
    "Kubernetes forgets events after an hour by default: one export is nearly empty, a watch is whole.",
    "An event that was counted has a first and a last time; what happened between them is not known.",
    "`kubectl get events` without -o json prints ages, not times, and cannot be read.",
    "A node whose NodeNotReady was forgotten gives a clear of no open fault.",
)
ENDS = True

EXPECTED = "JSON of Kubernetes events: kubectl get events -A -o json"
# The first that is there is when it happened; the later ones bound it.
_FIRST = (
    "eventTime",
    "firstTimestamp",
    "deprecatedFirstTimestamp",
    "series.lastObservedTime",
    "lastTimestamp",
    "deprecatedLastTimestamp",
    "metadata.creationTimestamp",
)
_LAST = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp")
_WATCHES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


class _Rule(NamedTuple):
    """What the reason of a node's event says."""

    kind: str
    severity: str
    component: str
    code: str


RULES = {
    "NodeNotReady": _Rule("onset", DOWN, "unknown", READY),
    "NodeStatusUnknown": _Rule("onset", DOWN, "unknown", READY),
    "NodeReady": _Rule("clear", DOWN, "unknown", READY),
    "NodeNotSchedulable": _Rule("onset", DEGRADED, "planned", CORDON),
    "NodeSchedulable": _Rule("clear", DEGRADED, "planned", CORDON),
    "NodeHasInsufficientMemory": _Rule("onset", DEGRADED, "software", "MemoryPressure"),
    "NodeHasSufficientMemory": _Rule("clear", DEGRADED, "software", "MemoryPressure"),
    "NodeHasDiskPressure": _Rule("onset", DEGRADED, "storage", "DiskPressure"),
    "NodeHasNoDiskPressure": _Rule("clear", DEGRADED, "storage", "DiskPressure"),
    "NodeHasInsufficientPID": _Rule("onset", DEGRADED, "software", "PIDPressure"),
    "NodeHasSufficientPID": _Rule("clear", DEGRADED, "software", "PIDPressure"),
    # The boot id changed: whatever ran on the node has ended; how long it was gone, Ready says.
    "Rebooted": _Rule("interval", APP, "host", "Rebooted"),
    "SystemOOM": _Rule("interval", APP, "software", "SystemOOM"),
}


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the occurrences of events, and the rows refused with the reason."""
    rows, events, found = Rows(), dict[Any, dict[str, Any]](), False
    for piece in documents.pieces(data, file, EXPECTED):
        if piece.is_broken:
            rows.reject(documents.BROKEN, piece.text)
            continue
        for item in _events_in(piece.value):
            if isinstance(item, Foreign):
                rows.reject("not a Kubernetes event", item.value)
            else:
                found = True
                _keep(events, item)
    if not found:
        raise InputError(file, "no Kubernetes event", EXPECTED, "is it an export of events, with -o json?")
    # Exports are sorted by name, not by time.
    bad = {_fault(item) for item in events.values() if _rule(item).kind == "onset"}
    for item in events.values():
        _add(rows, item, options, was_bad=_fault(item) in bad)
    return rows.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as an export of events does."""
    head = head.lstrip()
    return head[:1] in {b"{", b"["} and (b'"involvedObject"' in head or b'"regarding"' in head)


def instant_us(item: Mapping[str, Any], options: Options) -> int:
    """Return when an event first happened; refuse one without any time."""
    return documents.instant_us(_first(item, _FIRST), options)


def _events_in(value: Any) -> Iterator[dict[str, Any] | Foreign]:
    """Yield the events of a document, and what stands in their place."""
    if isinstance(value, list):
        for item in value:
            yield item if _is_event(item) else Foreign(item)
    elif not isinstance(value, dict):
        yield Foreign(value)
    elif value.get("type") in _WATCHES and "object" in value:
        if value["type"] == "DELETED":
            return  # forgotten after its hour; what happened stays true
        if value["type"] != "BOOKMARK":
            yield value["object"] if _is_event(value["object"]) else Foreign(value["object"])
    elif isinstance(value.get("items"), list):
        for item in value["items"]:
            yield item if _is_event(item) else Foreign(item)
    else:
        yield value if _is_event(value) else Foreign(value)


def _is_event(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("kind", "Event") != "Event":
        return False
    return isinstance(item.get("involvedObject", item.get("regarding")), dict)


def _keep(events: dict[Any, dict[str, Any]], item: dict[str, Any]) -> None:
    """Keep an event under its identity; one that is delivered again counts once, with its highest count."""
    metadata = table(item.get("metadata"))
    uid = word(metadata.get("uid"))
    name = (word(metadata.get("namespace")), word(metadata.get("name")))
    key: Any = uid or (name if name[1] else len(events))
    before = events.get(key)
    if before is None or _count(item) >= _count(before):
        events[key] = item


def _count(item: Mapping[str, Any]) -> int:
    counts = (item.get("count"), item.get("deprecatedCount"), table(item.get("series")).get("count"))
    return max((documents.whole(count) or 1 for count in counts), default=1)


def _add(rows: Rows, item: dict[str, Any], options: Options, *, was_bad: bool) -> None:
    """Add an event: one row, or two when it changes the node's state and was seen again later."""
    count, last = _count(item), _first(item, _LAST)
    rule, node = _rule(item), _node(item)
    is_state = rule.code in {READY, CORDON}
    if rule.kind == "clear" and not is_state and not was_bad:
        rule = rule._replace(kind="interval", severity=INFO)  # said at every start of a kubelet
    times = f" ({count} times, last {last})" if count > 1 and not is_state else ""
    columns = {
        "kind": rule.kind,
        "node": node,
        "severity": rule.severity,
        "scope": "node",
        "component": rule.component,
        "code": rule.code,
        "reason": _told(item) + times,
    }

    def make() -> dict[str, Any]:
        if rule.severity != INFO and not node:
            raise RefusedError(NO_NODE)
        instant = instant_us(item, options)
        # What ends a job and lasts no time: an onset without an end would swallow the next one.
        return {**columns, "t_start": instant, "t_end": instant if rule.kind == "interval" else None}

    if rows.add(item, make) and is_state and count > 1 and not documents.is_never(last):
        rows.add(item, lambda: {**columns, "t_start": documents.instant_us(last, options)})


def _fault(item: Mapping[str, Any]) -> tuple[str | None, str]:
    return _node(item), _rule(item).code


def _target(item: Mapping[str, Any]) -> dict[str, Any]:
    return table(item.get("involvedObject", item.get("regarding")))


def _rule(item: Mapping[str, Any]) -> _Rule:
    reason = word(item.get("reason"))
    if _target(item).get("kind") != "Node":
        return _Rule("onset", INFO, "unknown", reason or "unknown")
    if found := RULES.get(reason):
        return found
    known = meaning(reason)
    # The events of health agents (a condition's name, or a reason of their own) end with nothing: kept, not
    # counted. Their logs and the node's conditions tell more.
    component = known.component if known else component_of(reason, _reporter(item))
    return _Rule("onset", INFO, component, reason or "unknown")


def _reporter(item: Mapping[str, Any]) -> str:
    source = table(item.get("source", item.get("deprecatedSource")))
    return word(source.get("component")) or word(
        item.get("reportingComponent", item.get("reportingController"))
    )


def _node(item: Mapping[str, Any]) -> str | None:
    """Return the node that an event is of: the object's own name, else the host of the kubelet that wrote."""
    if _target(item).get("kind") == "Node":
        return word(_target(item).get("name")) or None
    source = table(item.get("source", item.get("deprecatedSource")))
    return word(source.get("host")) or None


def _told(item: Mapping[str, Any]) -> str:
    parts = (word(item.get("reason")), word(item.get("message", item.get("note"))))
    return ": ".join(part for part in parts if part)


def _first(item: Mapping[str, Any], paths: tuple[str, ...]) -> Any:
    """Return the first time that is there."""
    for path in paths:
        outer, _, inner = path.rpartition(".")
        value = (table(item.get(outer)) if outer else item).get(inner)
        if not documents.is_never(value):
            return value
    return None
