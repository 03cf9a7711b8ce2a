"""Google's goodput library on a step log held in memory: no cloud, no network, no file it may find again.

The library keeps its entries on disk by job name and answers from an old file when a name comes back, so
every call gets a folder of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tests.peers.step_log import Entry


class Reported(NamedTuple):
    """What the library says, in percent of the job's time; `badput` by bucket."""

    goodput: float
    badput: dict[str, float]

    @property
    def total(self) -> float:
        """The sum of all buckets."""
        return self.goodput + sum(self.badput.values())


class InMemory:
    """What the library asks of its cloud logger."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        """Keep an entry."""
        self.written.append(entry)

    def read_cloud_logging_entries(self, *_: Any, **__: Any) -> tuple[list[dict[str, Any]], Any]:
        """Return all entries, in the order they were written, and a place to read on from."""
        return self.written, (datetime.now(UTC), "end")


def report(log: Sequence[Entry], folder: Path) -> Reported:
    """Return the library's answer for a log."""
    from ml_goodput_measurement import goodput

    memory = InMemory()
    recorder = goodput.GoodputRecorder("job", "log", logging_enabled=True, cloud_logger=memory)
    for entry in log:
        getattr(recorder, entry.call)(**entry.arguments)
    calculator = goodput.GoodputCalculator("job", "log", cloud_logger=memory, cache_dir=str(folder))
    share, buckets, _ = calculator.get_job_goodput(include_badput_breakdown=True)
    badput: dict[str, float] = {}
    for bucket, value in buckets.items():
        badput[bucket.name] = sum(value.values()) if isinstance(value, dict) else value
    return Reported(share, badput)
