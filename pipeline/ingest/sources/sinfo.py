"""Slurm's node listing: which nodes are down or drained now, and why (`sinfo`, a snapshot).

In: what `sinfo` prints with its header line: `sinfo -R`, `sinfo -lN`, any `-o` or `-O` format (fields parted
by bars or by blanks), or `sinfo --json`; several listings may stand below each other, each with the time by
`date`, `sinfo -l` or `sinfo -i` above it. Needed: NODELIST or HOSTNAMES, and STATE or REASON. Out: one
`interval` for each fault of a node, from the reason's TIMESTAMP, else from the snapshot, to the first later
listing that shows the node back, if there is one; nodes that can work are no rows, and `row` counts faults,
since a line may name many nodes and listings repeat them.
Easy to get wrong: the header decides. REASON may hold blanks: as the last column it takes the rest of the
line; elsewhere columns are cut where the header's words begin, in bytes as sinfo counts them. With bars,
REASON takes the bars that are left over. `main*` is a partition, `down*` a state.
Source: man page sinfo(1); the states are those of `slurm_states`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.ingest import slurm_json, slurm_states
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed, PublicFile, RefusedError, text_lines
from pipeline.ingest.slurm_snapshots import Snapshots, is_time, told

VERSION = "2"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = '(date -Is; sinfo -N -o "%T|%u|%H|%N|%E") >> sinfo.txt    # e.g. hourly, always to the same file'
FLAGS = ("as_of", "tz", "fold", "year")
TRAPS = (
    "One snapshot knows no end: a node counts as down until it was taken. Use slurm-events for exact ends.",
    "In one file, a fault ends at the first snapshot that shows the node back: up to one interval too late.",
    "In separate files, a fault lasts to the last one that shows it, without a stamp no time: `cat` them.",
    "sinfo -R lists no node that is back, so it tells no ends at all.",
    "The time is that of the reason, which may have been set before or after the node went down.",
    "sinfo -R cuts REASON to 20 columns and tells no state: its nodes count as down, even if they compute.",
    "A node without a time of its reason counts from the snapshot on, and its reason says '(since before)'.",
    "A node that several partitions list is one row.",
)
ENDS = True

ABOVE = "above the header"
FEW = "fewer fields than the header"
MANY = "more fields than the header"
CROOKED = "columns that do not stand under the header"

_WORD = re.compile(r"[A-Z][A-Z0-9_:/()%-]*")
_NODES, _STATE, _WHY, _SINCE = "NODELIST", "STATE", "REASON", "TIMESTAMP"
_NAMES = {"NODELIST": _NODES, "HOSTNAMES": _NODES, "STATE": _STATE, "REASON": _WHY, "TIMESTAMP": _SINCE}
_WIDTH_OF_O = 20
# What `sinfo -R` lists without telling the state.
_LISTED = slurm_states.Verdict("UNAVAILABLE", "down")


@dataclass(frozen=True)
class _Header:
    """Where the fields of a listing stand: names by place, bars or not, and where each word begins."""

    names: tuple[str, ...]
    has_bars: bool
    starts: tuple[int, ...]

    def fields(self, line: str) -> dict[str, str]:
        """Return a row's fields; refuse a row that does not fit."""
        parts = self._by_bars(line) if self.has_bars else self._by_blanks(line)
        found: dict[str, str] = {}
        for name, part in zip(self.names, parts, strict=True):
            found.setdefault(name, part.strip())  # of two columns STATE (%t and %T) either will do
        return found

    def _by_bars(self, line: str) -> list[str]:
        parts = line.split("|")
        more = len(parts) - len(self.names)
        if more == 1 and not parts[-1].strip():
            parts.pop()  # a bar at the end of rows, but not of the header
        elif more > 0 and self.names.count(_WHY) == 1:
            place = self.names.index(_WHY)
            parts[place : place + more + 1] = ["|".join(parts[place : place + more + 1])]
        elif more > 0:
            raise RefusedError(MANY)
        if len(parts) < len(self.names):
            raise RefusedError(FEW)
        return parts

    def _by_blanks(self, line: str) -> list[str]:
        width = len(self.names)
        if _WHY in self.names[:-1]:
            return self._by_columns(line.encode())
        parts = line.split(None, width - 1) if self.names[-1] == _WHY else line.split()
        if len(parts) == width - 1 and self.names[-1] == _WHY:
            parts.append("")
        if len(parts) != width:
            raise RefusedError(FEW if len(parts) < width else MANY)
        return parts

    def _by_columns(self, line: bytes) -> list[str]:
        ends = (*self.starts[1:], None)
        if len(line) <= self.starts[-1]:
            raise RefusedError(FEW)
        # With -O a field may fill its column to the last byte, and nothing parts it from the next.
        is_glued = all(start % _WIDTH_OF_O == 0 for start in self.starts)
        if not is_glued and any(line[start - 1 : start] != b" " for start in self.starts[1:]):
            raise RefusedError(CROOKED)
        try:
            return [line[start:end].decode() for start, end in zip(self.starts, ends, strict=True)]
        except UnicodeDecodeError:
            raise RefusedError(CROOKED) from None


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the nodes that listings say are unavailable, as open intervals, and the rows refused."""
    if slurm_json.begins(data):
        return slurm_json.read(data, file, options)
    found, header, is_begun = Snapshots(file, options), None, False
    for line, is_text in text_lines(data, file).iter_rows():
        if not line.strip():
            continue
        if is_text and is_time(line):
            found.begin(line)
            is_begun = True  # rows below it are of its snapshot, also when no header is printed again
        elif is_text and (next_header := _header(line, file)):
            header = next_header
            if not is_begun:
                found.begin(None)
            is_begun = False
        elif header is None:
            if not line.startswith("#"):
                found.refuse(ABOVE, line)
        elif is_text:
            _row(found, header, line)
        else:
            found.refuse(NOT_UTF8, line)
    if header is None:
        hint = f"leave out -h, or: {EXPORT}"
        raise InputError(file, "no header", "a line with NODELIST and with STATE or REASON", hint)
    return found.parsed()


def looks_like(head: bytes) -> bool:
    """Return whether a file begins with a listing of sinfo, or its JSON."""
    if slurm_json.begins(head):
        return b'"sinfo"' in head
    lines = head.decode(errors="replace").splitlines()[:5]
    return any((names := _names(line)) and _NODES in names and {_STATE, _WHY} & set(names) for line in lines)


def _names(line: str) -> tuple[str, ...]:
    """Return the columns of a header line, empty when the line is none: all its words are in capitals."""
    words = [word.strip() for word in (line.rstrip("| ").split("|") if "|" in line else line.split())]
    if len(words) < 2 or not all(map(_WORD.fullmatch, words)):
        return ()
    return tuple(_NAMES.get(word, word) for word in words)


def _header(line: str, file: str) -> _Header | None:
    names = _names(line)
    if not {_NODES, _WHY, _STATE} & set(names):
        return None
    if _NODES not in names or not {_STATE, _WHY} & set(names):
        hint = f"take it with: {EXPORT}"
        raise InputError(
            file, f"a listing with {' '.join(names)[:200]!r}", "NODELIST, and STATE or REASON", hint
        )
    starts = tuple(hit.start() for hit in re.finditer(r"\S+", line))
    return _Header(names, "|" in line, starts)


def _row(found: Snapshots, header: _Header, line: str) -> None:
    try:
        fields = header.fields(line)
        reason = told(fields.get(_WHY, ""))
        listed = _LISTED if reason else None
        verdict = slurm_states.judge(fields[_STATE]) if _STATE in fields else listed
    except RefusedError as error:
        found.refuse(str(error), line)
        return
    if verdict is not None:
        found.add(fields[_NODES], verdict, reason, fields.get(_SINCE), line)
    elif _STATE in fields:
        found.works(fields[_NODES])
