"""The bench of the source `intervals` runs; it asserts nothing about time."""

from __future__ import annotations

from tests.bench import intervals


def test_the_bench_reads_what_it_writes() -> None:
    """Three ways to take in one log, none of which refuses a row."""
    assert len(intervals.table(500)) == 3
