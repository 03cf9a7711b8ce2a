"""Wanted lines found in big logs: whatever the blocks, as a loop over the lines finds them."""

from __future__ import annotations

import io
from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ingest import textscan
from pipeline.ingest.textscan import Cut, Mark, Scan

MARKS = (Mark(b"Xid", letter=0), Mark(b"NVRM", pairs=((0,), (1,))), Mark(b"amdgpu", pairs=((2,), (1, 3))))
WORDS = [
    b"Xid",
    b"NVRM",
    b"amdgpu",
    b"X",
    b"XX",
    b"NV",
    b"VR",
    b"md",
    b"gp",
    b"dg",
    b"gpu",
    b" ",
    b"\n",
    b"\r\n",
    b"a",
]


class Pieces(io.BytesIO):
    """A stream that hands over pieces of one size."""

    size = 1 << 30

    def read(self, size: int | None = -1, /) -> bytes:
        """Return a piece."""
        return super().read(self.size if size is None or size < 0 else min(size, self.size))


def scanned(data: bytes, size: int = 1 << 30, cut: Cut = textscan.LINES) -> list[tuple[int, bytes]]:
    stream = Pieces(data)
    stream.size = size
    scan = Scan(stream, MARKS, cut)
    return [pair for lines in scan for pair in zip(lines.numbers, lines.texts, strict=True)]


def by_loop(data: bytes) -> list[tuple[int, bytes]]:
    return [
        (number, line.removesuffix(b"\r"))
        for number, line in enumerate(data.split(b"\n"), 1)
        if any(mark.text in line for mark in MARKS)
    ]


@settings(max_examples=300)
@given(st.lists(st.sampled_from(WORDS), max_size=60), st.integers(1, 40), st.integers(4, 64))
def test_any_text_in_any_pieces(words: list[bytes], size: int, window: int) -> None:
    data = b"".join(words)
    if b"\n" not in data and b"\r" in data:
        return
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(textscan, "WINDOW", window)
        patch.setattr(textscan, "OFTEN", 2)
        patch.setattr(textscan, "DENSE", 3)
        assert scanned(data, size) == by_loop(data)


def lines_of(dice: Random, count: int, share: float) -> Iterable[bytes]:
    for number in range(count):
        text = b"x" * dice.randint(0, 80)
        yield text + (b" NVRM: Xid (%d)" % number if dice.random() < share else b" systemd gpu-7 NVME")


@pytest.mark.parametrize("share", [0.0005, 0.02, 1.0])
def test_few_and_many_wanted_lines_of_whole_windows(share: float) -> None:
    """Windows of the real size, few wanted lines in them and many."""
    data = b"\n".join(lines_of(Random(7), 20_000, share))
    assert scanned(data) == scanned(data, 70_001) == by_loop(data)


def test_a_letter_that_is_not_seldom_hides_nothing() -> None:
    data = b"XFS X\n" * 5000 + b"Xid\n" + b"X" * 5000 + b" Xid\n"
    assert scanned(data) == by_loop(data)


def test_a_line_that_is_longer_than_memory_allows_is_cut_and_told_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(textscan, "LONGEST", 100)
    found = scanned(b"a\nXid " + b"y" * 500 + b" Xid\nb Xid\n", 64)
    assert [number for number, _ in found] == [2, 3]


def test_entries_are_cut_where_they_are_parted_and_numbered_by_their_first_lines() -> None:
    cut = Cut(b"\n\n__", 2)
    data = b"__A\nXid\n\n__B\nb\n\n__C\nNVRM\n\nXid\n\n__D\n"
    for size in (1, 2, 3, 5, 100):
        assert scanned(data, size, cut) == [(1, b"__A\nXid\n"), (7, b"__C\nNVRM\n\nXid\n")]
