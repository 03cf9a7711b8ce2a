"""node-problem-detector: its log (`New status generated`), and its conditions as JSON.

In: the log of the daemon, whatever prefix stands before its lines (kubectl logs --prefix, journald), or JSON
conditions {type, status, transition | lastTransitionTime, reason, message, node | nodeName}, one after the
other or in lists. Out: `onset` rows, `info` for the events of a monitor and `degraded` for conditions of its
own, whose code is the condition's type, or the event's reason. A row is an event, or a condition that is True
and was not shown so before; the log repeats all conditions of a monitor with every line.
Easy to get wrong: a condition that is read off a log has no end: it stays True until the daemon restarts, and
False after that is no recovery. So nothing clears here (ENDS is False) and nothing is down: whether the node
is out of service, Kubernetes says (k8s-nodes). Only HyperPod's conditions, after which it reboots or replaces
the node, are down. An event that tells of a change of a condition is that change, not a second fault.
Source: node-problem-detector's types and shipped rules; its issue 215; logs in public issues.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.ingest import documents
from pipeline.ingest.conditions import DEGRADED, INFO, component_of, meaning
from pipeline.ingest.documents import Rows, table, word
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, text_lines

if TYPE_CHECKING:
    import polars as pl

VERSION = "2"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """kubectl logs -n kube-system POD > NODE.log    # the daemon's pod on NODE; then --node @file
curl -s http://NODE:20256/conditions > NODE.json"""
FLAGS = ("node", "as_of")
TRAPS = (
    "A condition stays True until the daemon restarts: its end is unknown, so no row ends here.",
    "No condition of it takes a node down by itself: take capacity from k8s-nodes.",
    "Custom rules name their own conditions: those that are not in the table are degraded.",
)
ENDS = False

EXPECTED = "the log of node-problem-detector, or its conditions as JSON"
_STATUS = "New status generated: &{"
_SOURCE = re.compile(
    r"New status generated: &\{Source:(\S*) Events:\[(.*)\] Conditions:\[(.*)\]\}\s*\Z", re.DOTALL
)
_TIME = r"(\S+ \S+ [+-][0-9]{4})[^:]*?(?: m=\S+)?"
_EVENT = re.compile(rf"\{{Severity:(\w*) Timestamp:{_TIME} Reason:(\S*) Message:")
_CONDITION = re.compile(rf"\{{Type:(\S+) Status:(\S+) Transition:{_TIME} Reason:(\S*) Message:")
_BEGINNING = re.compile(r"(?:^|\s)[IWEF][0-9]{4} [0-9:.]{8,15}\s+[0-9]+ \S+:[0-9]+\] ")
# Go prints {Reason: ... is now: True ...}: the event that goes with a change of a condition.
_CHANGE = re.compile(r"Node condition (\S+) is now: (\w+)")
_NODE_KEYS = ("node", "nodeName")


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the events and the conditions that are True, and the rows refused with the reason."""
    detector = _Detector(file, options)
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["} and _STATUS.encode() not in data[:65536]:
        for piece in documents.pieces(data, file, EXPECTED):
            if piece.is_broken:
                detector.rows.reject(documents.BROKEN, piece.text)
            else:
                detector.document(piece.value)
    else:
        for text, is_text in _statuses(text_lines(data, file)):
            detector.status(text, is_text=is_text)
    if not detector.found:
        raise InputError(file, "nothing of node-problem-detector", EXPECTED, "is it another program's log?")
    return detector.rows.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as a log of the daemon does."""
    return _STATUS.encode() in head


def _statuses(lines: pl.DataFrame) -> list[tuple[str, bool]]:
    """Return the texts that begin with a status, and whether all of each is text.

    A message may go on over several lines.
    """
    found: list[tuple[str, bool]] = []
    is_open = False
    for line, is_text in lines.iter_rows():
        if _STATUS in line:
            found.append((line[line.index(_STATUS) :], is_text))
            is_open = True
        elif is_open and not _BEGINNING.search(line):
            text, was_text = found[-1]
            found[-1] = (f"{text}\n{line}", was_text and is_text)
        else:
            is_open = False
        is_open = is_open and not found[-1][0].rstrip().endswith("]}")
    return found


class _Detector:
    """The rows of a file, and the conditions as last shown."""

    def __init__(self, file: str, options: Options) -> None:
        self.file = file
        self.options = options
        self.rows = Rows()
        self.found = False
        self._shown: dict[tuple[str, str], tuple[str, Any]] = {}

    def document(self, value: Any) -> None:
        """Take a JSON condition, or a list of them."""
        for item in value if isinstance(value, list) else [value]:
            fields = table(item)
            if not word(fields.get("type")) or not word(fields.get("status")):
                self.rows.reject("not a condition", item)
                continue
            self.found = True
            node = next((word(fields[key]) for key in _NODE_KEYS if word(fields.get(key))), "")
            since = fields.get("transition", fields.get("lastTransitionTime"))
            self._condition(
                node or self._said(),
                fields["type"],
                fields["status"],
                since,
                _told(fields.get("reason"), fields.get("message")),
                item,
            )

    def status(self, text: str, *, is_text: bool = True) -> None:
        """Take a line of the log: its events, and its conditions."""
        self.found = True
        if not is_text:
            self.rows.reject(NOT_UTF8, text)
            return
        node = self._said()
        hit = _SOURCE.match(text)
        if hit is None:
            self.rows.reject("a status that is cut off", text)
            return
        monitor, events, conditions = hit.groups()
        for told in _printed(events, "Severity"):
            hit = _EVENT.match(told)
            if hit is None:
                self.rows.reject("an event that cannot be read", told)
                continue
            message = _message(told, hit)
            if not _CHANGE.match(message):
                self._event(node, monitor, hit[2], hit[3], message)
        for told in _printed(conditions, "Type"):
            hit = _CONDITION.match(told)
            if hit is None:
                self.rows.reject("a condition that cannot be read", told)
                continue
            name, status, time, reason = hit.groups()
            self._condition(node, name, status, _iso(time), _told(reason, _message(told, hit)), told)

    def _said(self) -> str:
        node = self.options.node_of(self.file)
        if not node:
            raise documents.node_needed(self.file)
        return node

    def _event(self, node: str, monitor: str, time: str, reason: str, message: str) -> None:
        self.rows.add(
            f"{time} {reason} {message}",
            lambda: {
                "t_start": documents.instant_us(_iso(time), self.options),
                "kind": "onset",
                "node": node,
                "severity": INFO,
                "scope": "node",
                "component": component_of(reason, monitor),
                "code": reason or "unknown",
                "reason": _told(reason, message),
            },
        )

    def _condition(self, node: str, name: str, status: str, since: Any, reason: str, told: Any) -> None:
        before = self._shown.get((node, name))
        self._shown[node, name] = (status, since)
        known = meaning(name)
        if before == (status, since) or status == (known.healthy if known else "False"):
            return
        # The check itself failed: a moment, since an onset would swallow the next one.
        is_unknown = status == "Unknown"

        def make() -> dict[str, Any]:
            instant = documents.instant_us(since, self.options)
            return {
                "t_start": instant,
                "t_end": instant if is_unknown else None,
                "kind": "interval" if is_unknown else "onset",
                "node": node,
                "severity": INFO if is_unknown else known.severity if known else DEGRADED,
                "scope": "node",
                "component": known.component if known else component_of(name, reason),
                "code": name,
                "reason": reason,
            }

        self.rows.add(told, make)


def _printed(text: str, head: str) -> list[str]:
    """Return the structs of a list that Go printed; each begins with its first field."""
    return [part for part in re.split(rf"(?:^|(?<=\}} ))(?=\{{{head}:)", text.strip()) if part]


def _message(text: str, hit: re.Match[str]) -> str:
    """Return what stands behind `Message:`, without the struct's own bracket."""
    return text[hit.end() :].rstrip().removesuffix("}")


def _iso(time: str) -> str:
    """Return Go's print of a time (date, clock, offset) as RFC 3339."""
    date, clock, offset = time.split(" ")
    return f"{date}T{clock}{offset}"


def _told(reason: Any, message: Any) -> str:
    return ": ".join(part for part in (word(reason), word(message)) if part)
