"""Kubernetes node conditions and cordons: `kubectl get nodes -o json`, snapshots or a watch.

In: JSON of a List of Nodes, of single Nodes one after the other, or of watch events {type, object}; a bare
list of conditions, or Go's print of one (`{Type:... Status:...}`), with the option node. Out: an `onset` for
a condition that is not healthy and a `clear` for one that is, both at lastTransitionTime and with the
condition's type as code; `unschedulable` for a cordon. A row is a claim: a state of a condition that this
file has not shown before. Heartbeats that repeat a state are no rows, nor are conditions that were never bad.
A condition is of the node: the GPUs that a message names stay in the reason, since the clear names none.
Easy to get wrong: only Ready takes a node down, whether False or Unknown; when a node is lost, all of its
conditions turn Unknown, and the others are `info` without a length, also while Ready is True. A List tells no
time: what it shows is known up to its newest transition or heartbeat of a live kubelet (`as_of`, by minutes
early), a watch up to the newest of the file; --as-of says it better, for the last of a file.
lastTransitionTime is when the control plane noticed; the last heartbeat, up to a minute earlier, is when the
kubelet was last known to live, and stands in the reason of an Unknown condition. Zero times mean never.
Source: Kubernetes' Node API v1; kubernetes/kubernetes issues 94020, 73397 and 32522.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import documents
from pipeline.ingest.conditions import CORDON, DEGRADED, INFO, READY, meaning
from pipeline.ingest.documents import Foreign, Rows, array, table, word
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, RefusedError, text_lines

VERSION = "2"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """kubectl get nodes -o json > nodes-$(date -u +%Y%m%dT%H%M).json    # a snapshot, e.g. hourly
kubectl get nodes -o json --watch --output-watch-events > nodes-watch.json"""
FLAGS = ("as_of", "node")
TRAPS = (
    "A snapshot keeps the last transition of a condition only: faults between two snapshots are not in it.",
    "A fault starts when the control plane noticed; its reason has the last heartbeat, some 40 s earlier.",
    "An export holds no time of its own: open faults last to the newest heartbeat in it, or to --as-of.",
    "A cordon is a drain, not a failure: degraded, planned.",
    "A Ready node gives a clear at its last transition, which closes a fault of an earlier snapshot or none.",
)
ENDS = True

EXPECTED = "JSON of Kubernetes nodes: kubectl get nodes -o json"
_TAINT = "node.kubernetes.io/unschedulable"
_UNDATED = "undated"
# The zone's letters behind the offset (IST) have several meanings: the offset counts.
_GO = re.compile(
    r"\{Type:(\S+) Status:(\S+) LastHeartbeatTime:(.*?) LastTransitionTime:(.*?)"
    r" Reason:(\S*) Message:(.*)\}\s*$"
)
_GO_TIME = re.compile(r"([0-9-]{10}) ([0-9:.]{8,18}) ([+-][0-9]{4})(?: [A-Z+0-9-]+)?(?: m=\S+)?")
_WATCHES = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


class _State(NamedTuple):
    """What was said of a condition: its status, since when, and whether that is a fault."""

    status: str
    since: Any
    is_open: bool


class _Snapshot:
    """What nodes say at one time, and when that was at the earliest."""

    def __init__(self) -> None:
        self._beat_us: int | None = None
        self._change_us = 0

    def see(self, conditions: list[Any], options: Options) -> None:
        """Note the times that a node's conditions hold; what cannot be read tells none."""
        for item in map(table, conditions):
            for key in ("lastHeartbeatTime", "lastTransitionTime"):
                # A kubelet that lives reports every five minutes at least; other heartbeats may be of old.
                is_live = item.get("type") == READY and item.get("status") in {"True", "False"}
                if documents.is_never(item.get(key)) or (key == "lastHeartbeatTime" and not is_live):
                    continue
                with suppress(RefusedError):
                    instant = documents.instant_us(item[key], options)
                    if key == "lastHeartbeatTime":
                        self._beat_us = max(self._beat_us or instant, instant)
                    self._change_us = max(self._change_us, instant)

    def taken_us(self) -> int | None:
        """Return the newest instant, at which all of it was so; None when no node lived to tell one."""
        return None if self._beat_us is None else max(self._beat_us, self._change_us)


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the changes of conditions and cordons, and the rows refused with the reason."""
    nodes = _Nodes(file, options)
    if data.lstrip(b"\xef\xbb\xbf \r\n").startswith(b"{Type:"):
        for line, is_text in text_lines(data, file).iter_rows():
            if not is_text:
                nodes.rows.reject(NOT_UTF8, line)
            elif line.strip():
                nodes.printed(line.strip())
        return nodes.parsed()
    for piece in documents.pieces(data, file, EXPECTED):
        if piece.is_broken:
            nodes.rows.reject(documents.BROKEN, piece.text)
        else:
            nodes.document(piece.value)
    if not nodes.found:
        raise InputError(file, "no Kubernetes node", EXPECTED, "is it an export of nodes?")
    return nodes.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as an export of nodes does."""
    head = head.lstrip()
    return head[:1] in {b"{", b"["} and b'"lastHeartbeatTime"' in head and b'"lastTransitionTime"' in head


class _Nodes:
    """The nodes of a file: their rows, and the state in which each condition was last shown."""

    def __init__(self, file: str, options: Options) -> None:
        self.file = file
        self.options = options
        self.rows = Rows()
        self.found = False
        self._shown: dict[tuple[str, str], _State] = {}
        # Of each accepted row the last snapshot that shows it, and of each open fault its row among them.
        self._last_shown: list[_Snapshot] = []
        self._open: dict[tuple[str, str], int] = {}
        self._stream = self._snapshot = _Snapshot()

    def document(self, value: Any) -> None:
        """Take a List, a Node, a watch event, or bare conditions."""
        is_whole = isinstance(value, list) or isinstance(table(value).get("items"), list)
        # A List is a snapshot of its own; what comes one by one is a stream, which tells all that changes.
        self._snapshot = _Snapshot() if is_whole else self._stream
        for item in _nodes_in(value):
            if isinstance(item, Foreign):
                self.rows.reject("not a Kubernetes node", item.value)
            else:
                self.found = True
                self._node(item)

    def parsed(self) -> Parsed:
        """Return the rows; an open fault is known up to the last snapshot that shows it."""
        # When the file was taken, the user may say: that counts for its last snapshot, and for a stream.
        said = {id(self._snapshot), id(self._stream)} if self.options.as_of else set()
        as_of = [None if id(shown) in said else shown.taken_us() for shown in self._last_shown]
        parsed = self.rows.parsed()
        column = pl.Series("as_of", as_of, dtype=pl.Int64).cast(pl.Datetime("us"))
        return replace(parsed, events=parsed.events.with_columns(column))

    def _add(self, told: Any, make: Callable[[], dict[str, Any]], fault: tuple[str, str]) -> bool:
        """Add a row of a fault, as `Rows.add` does."""
        is_added = self.rows.add(told, make)
        if is_added:
            self._open[fault] = len(self._last_shown)
            self._last_shown.append(self._snapshot)
        else:
            self._open.pop(fault, None)
        return is_added

    def _shown_again(self, fault: tuple[str, str]) -> None:
        if fault in self._open:
            self._last_shown[self._open[fault]] = self._snapshot

    def printed(self, line: str) -> None:
        """Take a condition as Go prints it."""
        hit = _GO.match(line)
        if hit is None:
            self.rows.reject("not a condition", line)
            return
        names = ("type", "status", "lastHeartbeatTime", "lastTransitionTime", "reason", "message")
        item = dict(zip(names, hit.groups(), strict=True))
        for name in ("lastHeartbeatTime", "lastTransitionTime"):
            time = _GO_TIME.fullmatch(item[name])
            item[name] = "T".join(time.groups()[:2]) + time[3] if time else item[name]
        self._snapshot.see([item], self.options)
        self._conditions(self._named({}), [item], None)

    def _named(self, metadata: Mapping[str, Any]) -> str:
        name = word(metadata.get("name")) or self.options.node_of(self.file)
        if not name:
            raise documents.node_needed(self.file)
        return name

    def _node(self, item: dict[str, Any]) -> None:
        metadata, status, spec = (table(item.get(key)) for key in ("metadata", "status", "spec"))
        node = self._named(metadata)
        conditions = array(status.get("conditions", item.get("conditions")))
        if item.get("is_deleted"):
            self._add(item, lambda: self._deleted(node, metadata), (node, "deleted"))
            return
        self._snapshot.see(conditions, self.options)
        self._conditions(node, conditions, metadata.get("creationTimestamp"))
        self._cordon(node, spec, conditions)

    def _deleted(self, node: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        instant = documents.instant_us(metadata.get("deletionTimestamp"), self.options)
        return _columns(node, instant, "onset", INFO, "capacity", "deleted", "the node was deleted")

    def _conditions(self, node: str, conditions: list[Any], created: Any) -> None:
        for item in conditions:
            name, status = word(table(item).get("type")), word(table(item).get("status"))
            if not name or not status:
                self.rows.reject("a condition without type or status", item)
                continue
            self._condition(node, name, status, item, created)

    def _condition(self, node: str, name: str, status: str, item: dict[str, Any], created: Any) -> None:
        known = meaning(name)
        since = item.get("lastTransitionTime")
        healthy = status == (known.healthy if known else "False")
        before = self._shown.get((node, name))
        was_open = before is not None and before.is_open
        is_unknown = name != READY and status not in {"True", "False"}
        # Unknown neither opens nor closes: lost contact is told by Ready.
        self._shown[node, name] = _State(status, since, was_open if is_unknown else not healthy)
        if before and (before.status, before.since) == (status, since):
            self._shown_again((node, name))
            return
        if healthy and not was_open and (before or not known or known.severity == INFO or since == created):
            return
        if healthy and not was_open and documents.is_never(since):
            return
        severity, component = (known.severity, known.component) if known else (INFO, "unknown")
        if name == READY and status == "False":
            component = "software"  # the kubelet lives and says what keeps it from being ready
        elif is_unknown:
            severity = INFO
        reason = _told(item, status)
        kind = "interval" if is_unknown else "clear" if healthy else "onset"
        self._add(
            {"node": node, **item},
            lambda: _columns(
                node, documents.instant_us(since, self.options), kind, severity, component, name, reason
            ),
            (node, name),
        )

    def _cordon(self, node: str, spec: Mapping[str, Any], conditions: list[Any]) -> None:
        taints = [table(item) for item in array(spec.get("taints"))]
        taint = next((item for item in taints if item.get("key") == _TAINT), {})
        is_cordoned = spec.get("unschedulable") is True or bool(taint)
        before = self._shown.get((node, CORDON))
        if is_cordoned == (before is not None and before.is_open):
            self._shown_again((node, CORDON))
            return
        self._shown[node, CORDON] = _State(str(is_cordoned), None, is_cordoned)
        told = {"node": node, "unschedulable": is_cordoned, "taints": spec.get("taints")}

        def make() -> dict[str, Any]:
            if is_cordoned:
                if documents.is_never(taint.get("timeAdded")):
                    raise RefusedError("a cordon without a time: its taint has no timeAdded")
                instant, kind = documents.instant_us(taint.get("timeAdded"), self.options), "onset"
            else:
                instant, kind = self._observed(conditions), "clear"
            return _columns(node, instant, kind, DEGRADED, "planned", CORDON, "the node is cordoned")

        if before is not None and before.status == _UNDATED:
            return  # what was never opened is not closed either
        if not self._add(told, make, (node, CORDON)) and is_cordoned:
            self._shown[node, CORDON] = _State(_UNDATED, None, is_open=True)

    def _observed(self, conditions: list[Any]) -> int:
        """Return the newest heartbeat: by then the node was as this object shows it."""
        beats = []
        for item in conditions:
            beat = table(item).get("lastHeartbeatTime")
            if not documents.is_never(beat):
                beats.append(documents.instant_us(beat, self.options))
        if not beats:
            raise RefusedError("the end of a cordon without a time: the node has no heartbeat")
        return max(beats)


def _nodes_in(value: Any) -> Iterator[dict[str, Any] | Foreign]:
    """Yield the nodes of a document, and what stands in their place."""
    if isinstance(value, list):
        if value and all(isinstance(item, dict) and "status" in item and "type" in item for item in value):
            yield {"conditions": value}
        else:
            for item in value:
                yield from _nodes_in(item) if isinstance(item, dict) else [Foreign(item)]
    elif not isinstance(value, dict):
        yield Foreign(value)
    elif value.get("type") in _WATCHES and "object" in value:
        yield from _watched(value)
    elif isinstance(value.get("items"), list):
        for item in value["items"]:
            yield item if isinstance(item, dict) and _is_node(item) else Foreign(item)
    else:
        yield value if _is_node(value) else Foreign(value)


def _watched(value: dict[str, Any]) -> Iterator[dict[str, Any] | Foreign]:
    kind, item = value["type"], value["object"]
    if kind == "BOOKMARK":
        return
    if kind == "ERROR" or not isinstance(item, dict) or not _is_node(item):
        yield Foreign(item)
    else:
        yield {**item, "is_deleted": True} if kind == "DELETED" else item


def _is_node(item: dict[str, Any]) -> bool:
    if item.get("kind", "Node") != "Node":
        return False
    return "conditions" in item or ("metadata" in item and ("status" in item or "spec" in item))


def _told(item: dict[str, Any], status: str) -> str:
    parts = [word(item.get(key)) for key in ("reason", "message")]
    text = ": ".join(part for part in parts if part)
    beat = item.get("lastHeartbeatTime")
    # Only then, because the heartbeat of a condition that is known moves on and would make each row another.
    if status == "Unknown" and not documents.is_never(beat):
        text += f" (last heartbeat {beat})"
    return text


def _columns(
    node: str, instant: int, kind: str, severity: str, component: str, code: str, reason: str
) -> dict[str, Any]:
    return {
        "t_start": instant,
        "t_end": instant if kind == "interval" else None,
        "kind": kind,
        "node": node,
        "severity": severity,
        "scope": "node",
        "component": component,
        "code": code,
        "reason": reason,
    }
