"""SageMaker HyperPod: lines of the health monitoring agent, and cluster events.

In: lines `STAMP {json}` of the agent's CloudWatch stream; `aws logs filter-log-events` as JSON, whose stream
names the instance; EventBridge events; `aws sagemaker list-cluster-events`. Out: an `onset` when a node
condition turns True (a reboot or a replacement follows: down) or a node unhealthy, a `clear` when it turns
False or healthy again, `info` for one that turns Unknown and for other cluster events. Of the agent's lines
only those that it marks as a HealthEvent are rows.
Easy to get wrong: the key of the details is "details: ", colon and blank within. The clocks of one record
disagree: the stamp in front (with its offset) and `ts` are when the agent wrote the line and count; the
`timestamp` within the details is a day later in AWS's own sample. EventTime (milliseconds) is when a cluster
event happened and counts; the envelope's `time` is when it was sent, and is used only where EventTime is
absent. A node that was replaced comes back under another instance id.
Source: AWS's HyperPod guide: health monitoring agent, cluster events reference, EventBridge events.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pipeline.errors import InputError
from pipeline.ingest import documents, xids
from pipeline.ingest.clock import epoch_us
from pipeline.ingest.conditions import DEGRADED, DOWN, INFO, READY, component_of, meaning
from pipeline.ingest.documents import Rows, table, word
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, RefusedError, text_lines

VERSION = "2"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """aws logs filter-log-events --output json --log-group-name /aws/sagemaker/Clusters/NAME/ID \\
    --log-stream-name-prefix SagemakerHealthMonitoringAgent > agent.json
aws sagemaker list-cluster-events --cluster-name NAME --output json > cluster-events.json"""
FLAGS = ("node", "as_of", "xid_table")
TRAPS = (
    "Nodes are instance ids; Kubernetes calls the same node hyperpod-ID.",
    "A node that is replaced comes back under a new id, so its fault has no end here: name nodes by slot.",
    "Of three clocks in a line, the stamp in front counts; the one within the details may be a day off.",
    "EventTime counts for cluster events, not the time of the envelope.",
    "A line of the agent names no instance: export with filter-log-events, or give the node.",
)
ENDS = True

EXPECTED = "lines of HyperPod's health monitoring agent, or cluster events as JSON"
_MARK, _DETAILS = "HealthMonitoringAgentDetectionEvent", "details: "
_HEALTH, _EVENT, _STATE = (
    f"SageMaker HyperPod Cluster {kind}" for kind in ("Node Health Event", "Event", "State Change")
)
_LINE = re.compile(r"(\S+)\s+(\{.*\})\s*")
_CHANGE = re.compile(r"Node condition (\S{1,200}) is now: (\w+)")
_XID = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]+)\): ([0-9]{1,5})")


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return health events and cluster events, and the rows refused with the reason."""
    reader = _Reader(file, options)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        for piece in documents.pieces(data, file, EXPECTED):
            if piece.is_broken:
                reader.rows.reject(documents.BROKEN, piece.text)
            else:
                reader.document(piece.value)
    else:
        for line, is_text in text_lines(data, file).iter_rows():
            if _MARK in line and not line.startswith("#"):
                reader.line(line, "", None, is_text=is_text)
    if not reader.found:
        raise InputError(file, "nothing of HyperPod", EXPECTED, "is it another log?")
    return reader.rows.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as a log of HyperPod does."""
    return _MARK.encode() in head or b"SageMaker HyperPod" in head


class _Reader:
    """The rows of a file."""

    def __init__(self, file: str, options: Options) -> None:
        self.file = file
        self.options = options
        self.rows = Rows()
        self.found = False

    def document(self, value: Any) -> None:
        """Take a document: an envelope of CloudWatch, EventBridge or the API, or a line without stamp."""
        fields = table(value)
        if isinstance(value, list):
            for item in value:
                self.document(item)
        elif fields.get("detail-type") in {_HEALTH, _EVENT, _STATE}:
            self.found = True
            self._envelope(fields)
        elif isinstance(fields.get("events"), list) and all(
            "message" in table(item) for item in fields["events"]
        ):
            self.found = True
            self._stream(fields["events"])
        elif isinstance(fields.get("Events"), list):
            self.found = True
            for item in fields["Events"]:
                self._cluster_event(table(item), None, "s")
        elif _MARK in fields:
            self._agent(fields, None, "", fields)
        elif "msg" not in fields:  # what else the agent writes claims nothing
            self.rows.reject("nothing of HyperPod", value)

    def _stream(self, events: list[Any]) -> None:
        for item in events:
            message, stream = word(table(item).get("message")), word(table(item).get("logStreamName"))
            if _MARK in message:
                instance = stream.rpartition("/")[2] if "/" in stream else ""
                self.line(message, instance, table(item).get("timestamp"))

    def line(self, line: str, node: str, received: Any, *, is_text: bool = True) -> None:
        """Take a line of the agent; `received` is CloudWatch's own time, in milliseconds."""
        self.found = True
        if not is_text:
            self.rows.reject(NOT_UTF8, line)
            return
        hit = _LINE.fullmatch(line.strip())
        stamp, text = hit.groups() if hit else (None, line.strip())
        try:
            fields = json.loads(text, parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            self.rows.reject("a line that is cut off", line)
            return
        if stamp is None and received is not None and not fields.get("ts"):
            self._agent(fields, documents.whole(received), node, line)
        else:
            self._agent(fields, stamp, node, line)

    def _agent(self, fields: Mapping[str, Any], stamp: str | int | None, node: str, told: Any) -> None:
        self.found = True
        if fields.get(_MARK) != "HealthEvent":
            return
        node = node or self.options.node_of(self.file) or ""
        if not node:
            raise documents.node_needed(self.file)
        details = table(fields.get(_DETAILS, fields.get("details")))

        def make() -> dict[str, Any]:
            if isinstance(stamp, int):
                instant = epoch_us(str(stamp), "ms", self.options)
            else:
                instant = documents.instant_us(stamp or fields.get("ts"), self.options)
            message, reason = word(details.get("message")), word(details.get("reason"))
            if not message and not reason:
                raise RefusedError("a health event without details")
            fault = self._fault(message, reason)
            return {
                "t_start": instant,
                "t_end": instant if fault["kind"] == "interval" else None,
                "node": node,
                "scope": "node",
                "reason": message or reason,
                **fault,
            }

        self.rows.add(told, make)

    def _fault(self, message: str, reason: str) -> dict[str, Any]:
        change, fault = _CHANGE.search(message), _XID.search(message)
        name = change[1] if change else reason or "unknown"
        known = meaning(name)
        severity = known.severity if known else DEGRADED
        component = known.component if known else component_of(name, reason, message)
        if fault:
            component = xids.meaning(int(fault[2]), message, self.options).component
        kind = "onset"
        if change and change[2] == (known.healthy if known else "False"):
            kind = "clear"
        elif change and change[2] not in {"True", "False"} and name != READY:
            kind, severity = "interval", INFO  # the check failed: that neither opens a fault nor closes one
        return {
            "kind": kind,
            "severity": severity,
            "component": component,
            "code": name,
        }

    def _envelope(self, fields: Mapping[str, Any]) -> None:
        detail = table(fields.get("detail"))
        if fields["detail-type"] == _HEALTH:
            self.rows.add(fields, lambda: self._health(detail, fields.get("time")))
        else:
            self._cluster_event(table(detail.get("EventDetails")) or detail, fields.get("time"), "ms")

    def _health(self, detail: Mapping[str, Any], time: Any) -> dict[str, Any]:
        summary = table(detail.get("HealthSummary"))
        health = word(summary.get("HealthStatus"))
        if health not in {"Healthy", "Unhealthy"}:
            raise RefusedError("HealthStatus is neither Healthy nor Unhealthy")
        texts = [word(summary.get(key)) for key in ("HealthStatusReason", "RepairAction", "Recommendation")]
        return {
            "t_start": documents.instant_us(time, self.options),
            "kind": "clear" if health == "Healthy" else "onset",
            "node": documents.node_of(detail.get("InstanceId"), self.file, self.options),
            "severity": DOWN,
            "scope": "node",
            "component": component_of(texts[0]),
            "code": "HealthStatus",
            "reason": "; ".join([health, *filter(None, texts)]),
        }

    def _cluster_event(self, event: Mapping[str, Any], time: Any, unit: str) -> None:
        def make() -> dict[str, Any]:
            happened = documents.unwrapped(event.get("EventTime"))
            if happened is None:
                instant = documents.instant_us(time, self.options)
            elif isinstance(happened, str):
                instant = documents.instant_us(happened, self.options)
            elif isinstance(happened, int | Decimal) and not isinstance(happened, bool):
                instant = epoch_us(str(happened), unit, self.options)
            else:
                raise RefusedError(documents.NO_TIME)
            told = word(event.get("Description")) or word(event.get("ClusterStatus")) or "cluster event"
            return {
                "t_start": instant,
                "kind": "onset",
                "node": word(event.get("InstanceId")) or None,
                "severity": INFO,  # what the service did, not a fault of a node that was there
                "scope": "node",
                "component": "capacity",
                "code": "/".join(
                    part for key in ("ResourceType", "EventLevel") if (part := word(event.get(key)))
                )
                or "cluster event",
                "reason": told,
            }

        self.rows.add(dict(event), make)
