"""Slurm's node records: which nodes are down or drained now (`scontrol show node`, a snapshot).

In: what `scontrol show node` prints, over several lines a node or one (`-o`), or with `--json`; several may
stand below each other, each with the time by `date` above it, or in JSON `last_update`. Out: one `interval`
for each fault of a node, from the stamp behind its reason, else from the snapshot, to the first later
snapshot that shows the node back, if any; nodes that can work are no rows, nor is a fault that is told again.
Easy to get wrong: Reason, Comment, OS and Extra are free text that may hold blanks, `=` and brackets, so
State is the first one before Reason, and a reason ends at its last `[user@time]` stamp; a record without a
State was cut off.
Source: man page scontrol(1); the states are those of `slurm_states`.
"""

from __future__ import annotations

import re

from pipeline.errors import InputError
from pipeline.ingest import slurm_json, slurm_states
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, RefusedError, text_lines
from pipeline.ingest.slurm_snapshots import Snapshots, is_time, told

VERSION = "2"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = (
    "(date -Is; scontrol show node -o) >> nodes.txt    # e.g. hourly, always to the same file\n"
    "(date -Is; scontrol show nodes --json) >> nodes.json"
)
FLAGS = ("as_of", "tz", "fold", "year")
TRAPS = (
    "One snapshot knows no end: a node counts as down until it was taken. Use slurm-events for exact ends.",
    "In one file, a fault ends at the first snapshot that shows the node back: up to one interval too late.",
    "In separate files, a fault lasts to the last one that shows it, without a stamp no time: `cat` them.",
    "The time is that of the reason, which may have been set before or after the node went down.",
    "A node without a time of its reason counts from the snapshot on, and its reason says '(since before)'.",
    "Old Slurm writes 06/02-14:01:24, month first and without the year: the latest such day, or --year.",
)
ENDS = True

NO_RECORD = "a part of a node's record without its NodeName"
JSON_BELOW = "JSON below text: give it a file of its own"

_NODE = re.compile(r"NodeName=(\S*)")
# Over several lines State begins one, which tells it from a word in free text.
_STATES = (re.compile(r"^\s+State=(\S*)", re.MULTILINE), re.compile(r"\sState=(\S*)"))
# Up to the next line that begins with a key: a reason may have line breaks.
_WHY = re.compile(r"(?:^|\s)Reason=(.*?)(?=\n\s+[A-Z][A-Za-z]*=|\Z)", re.DOTALL)
_STAMP = re.compile(r"\[([^\s@\[\]]*)@([^\s\]]*)\]")
# What may follow Reason in one line, when there is no stamp to end it.
_AFTER = re.compile(r"\s(?:Comment|Extra|InstanceId|InstanceType|ReservationName)=")
_PART = re.compile(r"\s(?:State|Reason|BootTime|Gres|Arch|RealMemory|CfgTRES)=|^(?:State|Reason)=")


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the nodes that records say are unavailable, as open intervals, and the records refused."""
    if slurm_json.begins(data):
        return slurm_json.read(data, file, options)
    found = Snapshots(file, options)
    found.begin(None)
    record: list[str] = []
    has_records, record_is_text = False, True
    for line, is_text in text_lines(data, file).iter_rows():
        begins = bool(_NODE.match(line))
        if record and (begins or not line.strip() or is_time(line)):
            _record(found, record, is_text=record_is_text)
            record, record_is_text = [], True
        if is_time(line):
            found.begin(line)
        elif begins or record:
            has_records = True
            record.append(line)
            record_is_text = record_is_text and is_text
        elif not line.startswith("#") and _PART.search(line):
            found.refuse(NO_RECORD, line)
        elif line.startswith("{"):
            found.refuse(JSON_BELOW, line)
    if record:
        _record(found, record, is_text=record_is_text)
    if not has_records:
        raise InputError(file, "no NodeName=", "the output of scontrol show node", f"take it with: {EXPORT}")
    return found.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins with a node's record, or with the JSON of several."""
    if slurm_json.begins(head):
        return b'"nodes"' in head and b'"state"' in head
    return re.search(rb"(?m)^NodeName=\S+ .*(?:Arch|State|CoresPerSocket)=", head) is not None


def _record(found: Snapshots, lines: list[str], *, is_text: bool) -> None:
    text = "\n".join(lines)
    if not is_text:
        found.refuse(NOT_UTF8, text)
        return
    why = _WHY.search(text)
    before = text[: why.start()] if why else text
    state = next((hit[1] for pattern in _STATES if (hit := pattern.search(before))), "")
    try:
        verdict = slurm_states.judge(state)
    except RefusedError as error:
        found.refuse(str(error), text)
        return
    node = _NODE.match(text)
    name = node[1] if node else ""
    if verdict is None:
        found.works(name)
    else:
        reason, since = _reason(why[1] if why else "")
        found.add(name, verdict, reason, since, text)


def _reason(text: str) -> tuple[str, str | None]:
    """Return a reason and the text of its time."""
    stamps = list(_STAMP.finditer(text))
    if stamps:
        return told(text[: stamps[-1].start()]), stamps[-1][2]
    after = _AFTER.search(text)
    return told((text[: after.start()] if after else text).partition("\n")[0]), None
