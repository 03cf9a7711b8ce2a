"""The few lines of a big text log that a source wants, found without decoding the others.

In: a binary stream and the marks of a wanted line. Out: `Lines`: their numbers from 1, their bytes, and which
run of months each lies in, for logs without years. Memory holds one piece, whatever the file's size.
Easy to get wrong: the whole text is looked through three times and no more: for a letter or pairs of letters
that are seldom, for newlines to count, and by whoever hashes it; that is what keeps up with the disk. Pairs
are compared as numbers of two bytes at even places, so a mark has one pair for each parity of its place. The
month of a log without years must be followed over lines that nobody wants, because the year may turn between
two wanted ones: every line of the first `EXACT` bytes is looked at, then one in each `STEP` bytes, and every
line of a stretch whose ends differ. Where an entry spreads over lines, as journald's export does, an entry is
cut where a line is, and has the number of its first line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pipeline.ingest.clock import month_of
from pipeline.ingest.parsing import RefusedError

PIECE = 8 << 20  # read at once
WINDOW = 248 << 10  # looked through at once: stays in the processor's cache
EXACT = 4 << 20
STEP = 64 << 10
LONGEST = 4 << 20  # a longer line is cut: no log has one, and memory must hold
OFTEN = 256  # letters in a window from which on the whole mark is looked for instead
DENSE = 64  # wanted lines in a window from which on all lines are cut together
BATCH_LINES, BATCH_BYTES = 50_000, 16 << 20
_NEWLINE = 10
_HEAD = 64 << 10
_YEARLESS_AT = (
    # First what containers put in front.
    rb'(?:\{"log":"|[0-9T:.,+Z-]{20,35} std(?:out|err) [FP] )?(?:<[0-9]{1,3}>)?'
    rb"([A-Z][a-z]{2}|[0-9]{1,2}\xe6\x9c\x88) {1,2}([0-9]{1,2}) [0-9]{2}:[0-9]{2}:[0-9]{2}"
)
YEARLESS = re.compile(_YEARLESS_AT)
_YEARLESS_LINES = re.compile(rb"^" + _YEARLESS_AT, re.MULTILINE)


class Readable(Protocol):
    """What can be read once, from its beginning."""

    def read(self, size: int = -1, /) -> bytes:
        """Return at most `size` bytes, none at the end."""


class Mark(NamedTuple):
    """What a wanted line holds, and what of it is looked for.

    `letter` is the place of a letter that is seldom; `pairs` the places, for a mark at an even place and for
    one at an odd place, at which two letters begin that are seldom neighbours; where no two are, of several
    pairs that follow each other. Without either the whole mark is looked for, which is slower.
    """

    text: bytes
    letter: int | None = None
    pairs: tuple[tuple[int, ...], ...] = ()


class Cut(NamedTuple):
    """Where entries are parted: at `text`, of which the first `kept` bytes end the entry before."""

    text: bytes
    kept: int


LINES = Cut(b"\n", 1)


class Lines(NamedTuple):
    """Wanted lines in file order: numbers from 1, bytes without the line's end, runs of months (-1: none)."""

    numbers: list[int]
    texts: list[bytes]
    runs: list[int]


class _Stretch(NamedTuple):
    """Whole lines of a piece, from `start` to `end`."""

    piece: bytes
    start: int
    end: int


_Found = tuple[list[tuple[int, int, int]], int]  # number, start, end of lines; how many lines have ended


class _WithNewlines:
    """A stream whose lines end with newlines, also where the text has carriage returns alone (old Macs)."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self._replaces: bool | None = None

    def read(self, size: int = -1, /) -> bytes:
        piece = self._stream.read(size)
        if self._replaces is None and piece:
            self._replaces = b"\n" not in piece and b"\r" in piece
        return piece.replace(b"\r", b"\n") if self._replaces else piece


class Scan:
    """One pass over a stream; `days` holds the first and the last day of each run of months."""

    def __init__(self, stream: Readable, marks: Sequence[Mark], cut: Cut = LINES) -> None:
        """Take the stream, what wanted lines hold, and where entries are parted."""
        self._stream = _WithNewlines(stream)
        self._cut = cut
        self._marks = marks
        self._lines = 0
        self._told = 0
        self._bytes = 0
        self._runs: list[tuple[int, int]] = []
        self._ends: list[tuple[int, int]] = []  # the last day of each run but the last
        self._last: tuple[int, int] | None = None
        self._flags = np.empty((4, 0), np.bool_)
        # As this machine orders the bytes of a number.
        self._pairs = [
            (
                [np.frombuffer(mark.text[place : place + 2], np.uint16)[0] for place in places],
                mark.text,
                places[0],
            )
            for mark in marks
            for places in mark.pairs
        ]
        self.head = b""

    @property
    def days(self) -> list[tuple[int, int]]:
        """(month, day) of the first line of each run, then of the last line that has one."""
        if self._last is None:
            return []
        return [day for run in zip(self._runs, [*self._ends, self._last], strict=True) for day in run]

    def __iter__(self) -> Iterator[Lines]:
        """Yield the wanted lines in file order, many at a time."""
        found, size = Lines([], [], []), 0
        for stretch in self._stretches():
            for numbers, texts, runs in self._wanted(stretch):
                found.numbers.extend(numbers)
                found.texts.extend(texts)
                found.runs.extend(runs)
                size += sum(map(len, texts))
            self._bytes += stretch.end - stretch.start
            if len(found.texts) >= BATCH_LINES or size >= BATCH_BYTES:
                yield found
                found, size = Lines([], [], []), 0
        if found.texts:
            yield found

    def _stretches(self) -> Iterator[_Stretch]:
        """Yield windows of whole entries."""
        text, kept = self._cut
        rest: list[bytes] = []
        held = 0
        while piece := self._stream.read(PIECE):
            if rest and len(text) > 1:  # what parts two entries may itself lie in two pieces
                piece, rest, held = b"".join([*rest, piece]), [], 0
            place = piece.find(text)
            first = place + kept if place >= 0 else 0
            held += first or len(piece)
            if not first and held < LONGEST:
                rest.append(piece)
                continue
            # The entry that began in earlier pieces is joined; the others stay where they are.
            first = first or len(piece)
            begun = b"".join([*rest, piece[:first]])
            yield from self._windows(begun, 0, len(begun))
            last = max(first, self._last_cut(piece, first, len(piece)))
            yield from self._windows(piece, first, last)
            rest, held = [piece[last:]], len(piece) - last
        if begun := b"".join(rest):
            yield from self._windows(begun, 0, len(begun))

    def _last_cut(self, piece: bytes, start: int, end: int) -> int:
        place = piece.rfind(self._cut.text, start, end)
        return place + self._cut.kept if place >= 0 else -1

    def _windows(self, piece: bytes, start: int, end: int) -> Iterator[_Stretch]:
        text, kept = self._cut
        while start < end:
            self.head = self.head or piece[start : min(end, start + _HEAD)]
            until = end
            if end - start > WINDOW:
                until = self._last_cut(piece, start, start + WINDOW)
                if until <= start:
                    place = piece.find(text, start + 1, end)
                    until = place + kept if place >= 0 else end
            yield _Stretch(piece, start, until)
            start = until

    # --- wanted lines --------------------------------------------------------------------------------------

    def _wanted(self, stretch: _Stretch) -> Iterator[Lines]:
        piece, start, end = stretch
        turns = self._turns(stretch)
        size = end - start
        if size > self._flags.shape[1]:
            self._flags = np.empty((4, size), np.bool_)  # kept, because fresh memory costs more than the work
        newlines = self._flags[0, :size]
        np.equal(np.frombuffer(piece, np.uint8, size, start), _NEWLINE, out=newlines)
        places = self._places(stretch)
        is_dense = len(places) >= DENSE and self._cut == LINES
        lines, self._lines = (self._together if is_dense else self._one_by_one)(stretch, newlines, places)
        if lines and lines[0][0] == self._told:  # a line so long that it was cut is told once
            del lines[0]
        if lines:
            self._told = lines[-1][0]
            yield _with_runs(lines, turns, piece)

    def _one_by_one(self, stretch: _Stretch, newlines: np.ndarray, places: list[int]) -> _Found:
        """Return number, start and end of each wanted line, and how many lines have ended."""
        piece, begin, limit = stretch
        text, kept = self._cut
        found = []
        number, past, until = self._lines + 1, 0, -1
        for place in places:
            if place < until:
                continue  # a second mark of the same line
            at = piece.rfind(text, begin, place + len(text) - kept)
            start = at + kept if at >= 0 else begin
            at = piece.find(text, max(start, place - kept + 1), limit)
            until = at + kept if at >= 0 else limit
            number += int(np.count_nonzero(newlines[past : start - begin]))
            past = start - begin
            found.append((number, start, until))
        return found, number - 1 + int(np.count_nonzero(newlines[past:]))

    def _together(self, stretch: _Stretch, newlines: np.ndarray, places: list[int]) -> _Found:
        """Return what `_one_by_one` does, where wanted lines are many."""
        piece, begin, limit = stretch
        ends = np.flatnonzero(newlines) + begin + 1
        ended = self._lines + len(ends)
        if piece[limit - 1] != _NEWLINE:
            ends = np.append(ends, limit)
        starts = np.concatenate(([begin], ends[:-1]))
        wanted = np.unique(np.searchsorted(ends, places, side="right"))
        numbers = wanted + self._lines + 1
        return list(zip(numbers.tolist(), starts[wanted].tolist(), ends[wanted].tolist(), strict=True)), ended

    def _places(self, stretch: _Stretch) -> list[int]:
        """Return where marks stand, in order."""
        found = self._by_pairs(stretch) if self._pairs else []
        for mark in self._marks:
            if not mark.pairs:
                found += _by_letter(stretch, mark)
        return sorted(found)

    def _by_pairs(self, stretch: _Stretch) -> list[int]:
        piece, start, end = stretch
        first, size = start // 2, (end + 1) // 2
        size = min(size, len(piece) // 2) - first
        if size <= 0:
            return []
        pairs = np.frombuffer(piece, np.uint16, size, 2 * first)
        near, other, after = (self._flags[row, :size] for row in (1, 2, 3))
        for number, (values, _, _) in enumerate(self._pairs):
            flags = other if number else near
            np.equal(pairs, values[0], out=flags)
            for place, value in enumerate(values[1:], 1):
                np.equal(pairs[place:], value, out=after[:-place])
                np.logical_and(flags[:-place], after[:-place], out=flags[:-place])
            if number:
                np.logical_or(near, other, out=near)
        found = []
        for hit in _set_in(near):
            place = 2 * (first + hit)
            for _, text, offset in self._pairs:
                if piece.startswith(text, place - offset, end) and place - offset >= start:
                    found.append(place - offset)
                    break
        return found

    # --- months --------------------------------------------------------------------------------------------

    def _turns(self, stretch: _Stretch) -> list[tuple[int, int]]:
        """Follow the months over a window; return (place, run) of the run before it and of each new one."""
        piece, place, end = stretch
        turns = [(-1, len(self._runs) - 1)]
        is_exact = self._bytes < EXACT
        first = None if is_exact else _day(piece, place)
        while place < end:
            until = end if is_exact else (piece.find(b"\n", place + STEP, end) + 1 or end)
            line = until if until < end else piece.rfind(b"\n", place, end - 1) + 1 or place
            day = None if is_exact else _day(piece, line)
            months = {found and found[0] for found in (first, day)}
            if is_exact or months not in ({None}, {self._last and self._last[0]}):
                self._follow(piece, place, until, turns)
            elif day:
                self._last = day
            place, first = until, day
        return turns

    def _follow(self, piece: bytes, start: int, end: int, turns: list[tuple[int, int]]) -> None:
        """Look at every line of a stretch."""
        word, past = None, None
        for hit in _YEARLESS_LINES.finditer(piece, start, end):
            if hit[1] == word:
                past = hit  # of the same month: which day it is matters for the last of them only
                continue
            day = _told(hit)
            if day is None:
                continue
            before = (past and _told(past)) or self._last
            word, past = hit[1], hit
            if before is None or day[0] != before[0]:
                self._ends += [before] if before else []
                self._runs.append(day)
                turns.append((hit.start(), len(self._runs) - 1))
            self._last = day
        if past:
            self._last = _told(past)


def _set_in(flags: np.ndarray) -> Iterable[int]:
    """Return the places of the flags that are set, which are few as a rule."""
    count = int(np.count_nonzero(flags))
    if count > OFTEN:
        return np.flatnonzero(flags).tolist()
    told, found, place = flags.tobytes(), [], -1
    for _ in range(count):
        place = told.index(1, place + 1)
        found.append(place)
    return found


def _by_letter(stretch: _Stretch, mark: Mark) -> list[int]:
    """Return where a mark stands, by a letter of it that is seldom; where it is not, by the whole mark."""
    piece, start, end = stretch
    found: list[int] = []
    if mark.letter is not None:
        text, at = mark.text[mark.letter : mark.letter + 1], mark.letter
        for _ in range(OFTEN):
            place = piece.find(text, start, end)
            if place < 0:
                return found
            if piece.startswith(mark.text, place - at, end):
                found.append(place - at)
            start = place + 1
        start = max(stretch.start, start - at)
    place = piece.find(mark.text, start, end)
    while place >= 0:
        found.append(place)
        place = piece.find(mark.text, place + 1, end)
    return found


def _with_runs(found: list[tuple[int, int, int]], turns: list[tuple[int, int]], piece: bytes) -> Lines:
    numbers, starts, ends = (list(column) for column in zip(*found, strict=True))
    texts = [
        piece[start:end].removesuffix(b"\n").removesuffix(b"\r")
        for start, end in zip(starts, ends, strict=True)
    ]
    if len(turns) == 1:
        return Lines(numbers, texts, [turns[0][1]] * len(texts))
    which = np.searchsorted([place for place, _ in turns], starts, side="right") - 1
    runs = [turns[at][1] for at in which.tolist()]
    return Lines(numbers, texts, runs)


def _day(block: bytes, place: int) -> tuple[int, int] | None:
    hit = YEARLESS.match(block, place)
    return hit and _told(hit)


def _told(hit: re.Match[bytes]) -> tuple[int, int] | None:
    try:
        return _month(hit[1]), int(hit[2])
    except RefusedError:
        return None


@functools.lru_cache(maxsize=64)
def _month(word: bytes) -> int:
    return month_of(word.decode())
