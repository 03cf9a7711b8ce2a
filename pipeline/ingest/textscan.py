"""The few lines of a big text log that a source wants, found without decoding the others.

In: a binary stream and the marks of a wanted line. Out: `Line`: its number from 1, its bytes, and which run
of months it lies in, for logs without years. Memory holds one block, whatever the file's size.
Easy to get wrong: a mark is looked for by two of its letters that are seldom neighbours and then compared
whole; that is what keeps up with the disk. The month of a log without years must be followed over lines that
nobody wants, because the year may turn between two wanted ones: every line of the first `EXACT` bytes is
looked at, then one in each `STEP` bytes, and every line of a stretch whose ends differ.
"""

from __future__ import annotations

import functools
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pipeline.ingest.clock import month_of
from pipeline.ingest.parsing import RefusedError

BLOCK = 248 << 10  # stays in the processor's cache
EXACT = 4 << 20
STEP = 64 << 10
LONGEST = 4 << 20  # a longer line is cut: no log has one, and memory must hold
_NEWLINE = 10
_YEARLESS_AT = (
    rb"(?:<[0-9]{1,3}>)?([A-Z][a-z]{2}|[0-9]{1,2}\xe6\x9c\x88) {1,2}([0-9]{1,2}) [0-9]{2}:[0-9]{2}:[0-9]{2}"
)
_YEARLESS = re.compile(_YEARLESS_AT)
_YEARLESS_LINES = re.compile(rb"^" + _YEARLESS_AT, re.MULTILINE)


class Readable(Protocol):
    """What can be read once, from its beginning."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, none at the end."""


class Mark(NamedTuple):
    """What a wanted line holds, and where in it its seldom pair of letters begins."""

    text: bytes
    pair: int


class Line(NamedTuple):
    """A wanted line: its number from 1, its bytes without the line's end, its run of months if it has one."""

    number: int
    data: bytes
    run: int | None


class Scan:
    """One pass over a stream; `days` holds the first day of each run of months and the last day of all."""

    def __init__(self, stream: Readable, marks: Sequence[Mark]) -> None:
        """Take the stream and what wanted lines hold."""
        self._stream = stream
        self._marks = marks
        self._lines = 0
        self._bytes = 0
        self._runs: list[tuple[int, int]] = []
        self._last: tuple[int, int] | None = None
        self._near = self._other = np.empty(0, np.bool_)
        # As this machine orders the bytes of a number.
        self._pairs = [np.frombuffer(text[pair : pair + 2], np.uint16)[0] for text, pair in marks]
        self.head = b""

    @property
    def days(self) -> list[tuple[int, int]]:
        """(month, day) of the first line of each run, then of the last line that has one."""
        return [*self._runs, self._last] if self._last else []

    def __iter__(self) -> Iterator[Line]:
        """Yield the wanted lines in file order."""
        for block in self._blocks():
            newlines = np.frombuffer(block, np.uint8) == _NEWLINE
            yield from self._wanted(block, newlines)
            self._lines += int(np.count_nonzero(newlines))
            self._bytes += len(block)

    def _blocks(self) -> Iterator[bytes]:
        rest: list[bytes] = []
        held = 0
        while piece := self._stream.read(BLOCK):
            cut = piece.rfind(b"\n") + 1
            held += len(piece)
            if not cut and held < LONGEST:
                rest.append(piece)
                continue
            cut = cut or len(piece)
            block = b"".join([*rest, piece[:cut]])
            self.head = self.head or block[: 64 << 10]
            yield block
            rest, held = [piece[cut:]], len(piece) - cut
        if last := b"".join(rest):
            self.head = self.head or last[: 64 << 10]
            yield last

    def _wanted(self, block: bytes, newlines: np.ndarray) -> Iterator[Line]:
        turns = self._turns(block)  # before any line is told: a caller may ask for `days` at the end only
        number, past, end = self._lines + 1, 0, -1
        for place in self._places(block):
            if place < end:
                continue  # a second mark of the same line
            start = block.rfind(b"\n", 0, place) + 1
            end = block.find(b"\n", place)
            end = len(block) if end < 0 else end
            number += int(np.count_nonzero(newlines[past:start]))
            past = start
            data = block[start:end].removesuffix(b"\r")
            run = turns[bisect_right(turns, (start, len(self._runs))) - 1][1]
            yield Line(number, data, run if _YEARLESS.match(data) else None)

    def _places(self, block: bytes) -> list[int]:
        """Return where marks stand, in order."""
        found = []
        # Two letters are one number: those at even places, then, moved by one, those at odd places.
        for shift in (0, 1):
            size = (len(block) - shift) // 2
            moved = block[shift : shift + 2 * size]
            pairs = np.frombuffer(moved, np.uint16)
            if size > len(self._near):
                self._near, self._other = np.empty(size, np.bool_), np.empty(size, np.bool_)
            # Kept, because fresh memory costs more than the work.
            near, other = self._near[:size], self._other[:size]
            for number, pair in enumerate(self._pairs):
                np.equal(pairs, pair, out=other if number else near)
                if number:
                    np.logical_or(near, other, out=near)
            flags = near.tobytes()
            hit = flags.find(1)
            while hit >= 0:
                place = 2 * hit + shift
                found += [
                    place - mark.pair
                    for mark in self._marks
                    if place >= mark.pair and block.startswith(mark.text, place - mark.pair)
                ]
                hit = flags.find(1, hit + 1)
        return sorted(found)

    def _turns(self, block: bytes) -> list[tuple[int, int]]:
        """Follow the months over a block; return (place, run) of the run before it and of each new one."""
        turns = [(-1, len(self._runs) - 1)]
        is_exact = self._bytes < EXACT
        place, first = 0, None if is_exact else _day(block, 0)
        while place < len(block):
            until = len(block) if is_exact else (block.find(b"\n", place + STEP) + 1 or len(block))
            line = until if until < len(block) else block.rfind(b"\n", 0, len(block) - 1) + 1
            day = None if is_exact else _day(block, line)
            months = {found and found[0] for found in (first, day)}
            if is_exact or months not in ({None}, {self._last and self._last[0]}):
                self._follow(block, place, until, turns)
            elif day:
                self._last = day
            place, first = until, day
        return turns

    def _follow(self, block: bytes, start: int, end: int, turns: list[tuple[int, int]]) -> None:
        """Look at every line of a stretch."""
        for hit in _YEARLESS_LINES.finditer(block, start, end):
            day = _told(hit)
            if day is None:
                continue
            if self._last is None or day[0] != self._last[0]:
                self._runs.append(day)
                turns.append((hit.start(), len(self._runs) - 1))
            self._last = day


def _day(block: bytes, place: int) -> tuple[int, int] | None:
    hit = _YEARLESS.match(block, place)
    return hit and _told(hit)


def _told(hit: re.Match[bytes]) -> tuple[int, int] | None:
    try:
        return _month(hit[1]), int(hit[2])
    except RefusedError:
        return None


@functools.lru_cache(maxsize=64)
def _month(word: bytes) -> int:
    return month_of(word.decode())
