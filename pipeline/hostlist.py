"""Host lists as Slurm writes them: `rack[1-2]node[01-18],login1` -> the names, in order.

In: one text. Out: names, a name that is listed twice twice. Commas and white space outside brackets part
entries; several bracket groups are combined, the leftmost slowest; anything may stand before, between and
behind them.
Easy to get wrong: the width of a range's first number is kept (`[09-10]` is 09, 10 and `[8-11]` is 8, 9, 10,
11), and names are counted before any is made, so that a range as large as a mistyped number costs nothing.
It imports nothing of ours, because sources (stage 1) and topologies read host lists alike.
Source: the result of `scontrol show hostnames`; Slurm refuses brackets within brackets, so does this.
"""

from __future__ import annotations

import itertools
import re

LIMIT = 1_000_000

_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_SHOWN = 60  # characters of a long text in a message


class HostListError(ValueError):
    """A text that is no host list: what was found, and what may stand there."""

    def __init__(self, found: str, expected: str) -> None:
        self.found = found
        self.expected = expected
        super().__init__(f"{found} (expected: {expected})")


def expand(text: str, limit: int = LIMIT) -> list[str]:
    """Return the names of a host list; raise HostListError for a bad one or more than `limit` names."""
    names: list[str] = []
    for entry in _entries(text):
        parts, count = _parts(entry), 1
        for part in parts:
            count *= sum(last - first + 1 for first, last, _ in part) if isinstance(part, list) else 1
            if len(names) + count > limit:
                found = f"more than {limit:,} hosts up to {_cut(entry)}"
                raise HostListError(found, f"at most {limit:,} hosts")
        names += map("".join, itertools.product(*map(_texts, parts)))
    return names


def _entries(text: str) -> list[str]:
    """Split at commas and white space outside brackets."""
    entries, start, is_open = [], 0, False
    for place, sign in enumerate(text):
        if sign in "[]":
            if is_open == (sign == "["):
                found = (
                    f"a bracket within brackets in {_cut(text)}"
                    if is_open
                    else f"']' without '[' in {_cut(text)}"
                )
                raise HostListError(found, "brackets in pairs, e.g. rack[1-2]node[01-18]")
            is_open = sign == "["
        elif not is_open and (sign == "," or sign.isspace()):
            entries.append(text[start:place])
            start = place + 1
    if is_open:
        raise HostListError(
            f"'[' without ']' in {_cut(text)}", "brackets in pairs, e.g. rack[1-2]node[01-18]"
        )
    return [entry for entry in (*entries, text[start:]) if entry]


def _parts(entry: str) -> list[str | list[tuple[int, int, int]]]:
    """Return the literal texts and bracket groups of an entry, in order."""
    return [hit[2] if hit[1] is None else _ranges(hit[1], entry) for hit in _PART.finditer(entry)]


def _ranges(group: str, entry: str) -> list[tuple[int, int, int]]:
    """Return (first, last, width) of each range of a bracket group."""
    ranges = []
    for item in group.split(","):
        hit = _RANGE.fullmatch(item)
        if hit is None:
            found = f"{_cut(item)} between the brackets of {_cut(entry)}"
            raise HostListError(found, "numbers and ranges such as 7 or 01-18, at most 18 digits each")
        first, last = int(hit[1]), int(hit[2] or hit[1])
        if last < first:
            raise HostListError(f"the range {item} in {_cut(entry)} runs backwards", f"{last}-{first}")
        ranges.append((first, last, len(hit[1])))
    return ranges


def _texts(part: str | list[tuple[int, int, int]]) -> list[str]:
    if isinstance(part, str):
        return [part]
    return [f"{number:0{width}}" for first, last, width in part for number in range(first, last + 1)]


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
