"""The ledger: every GPU-tick of the pool over the window falls in exactly one bucket.

Times are integer ticks, throughput is an exact fraction, so the buckets are exact and their sum is
compared with pool times window without tolerance, on every run (model.md section 7). `gain` is
subtracted: work beyond the number of GPUs that did it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple

from pipeline.replay.packing import Setting
from pipeline.schema import BUCKETS


class Span(NamedTuple):
    """A stretch of the timeline in which neither capacity nor state changes, regular saves apart.

    `phase` is the wall time since the last reset of the save interval, at `start`.
    """

    start: int
    end: int
    state: str
    setting: Setting
    failed: int
    phase: int


class Fault(NamedTuple):
    """What struck the job at one instant: its GPUs in use (bit masks by domain), the application, or both."""

    onset: int
    struck: Sequence[tuple[int, int]]
    app_fault: bool


@dataclass
class Stop:
    """An instant at which faults stopped the job or struck its start, and what they cost in GPU-ticks.

    `state` is what the job was doing; a fault that was silent began before `tick`. `detect` and `restart` are
    those of the starts up to the next stop, so that a start that is struck again is shared by time, and a
    start after a pause falls to the fault that brought the pause.
    """

    tick: int
    state: str
    faults: Sequence[Fault]
    rework: Fraction = Fraction(0)
    detect: int = 0
    restart: int = 0


class LedgerError(AssertionError):
    """The ledger does not add up: a bug of ours, never the user's."""


@dataclass
class Ledger:
    """Running sums of one replay, and after `settle` its buckets in GPU-ticks."""

    total_gpus: int
    job_gpus: int
    window: int
    spans: list[Span] | None = None
    stops: list[Stop] | None = None
    interruptions: int = 0
    planned_stops: int = 0
    buckets: dict[str, Fraction] = field(default_factory=dict)
    kept_ticks: int = 0

    def __post_init__(self) -> None:
        """Begin with nothing booked."""
        self._failed = self._static = self._spare = 0
        self._waits = dict.fromkeys(("detect", "restart", "reconfigure", "paused", "checkpoint"), 0)
        self._rest_running = 0
        self._ran: dict[Setting, int] = {}
        self._saved: dict[Setting, int] = {}
        self._lost: dict[Setting, int] = {}

    def capacity(self, length: int, failed: int, static: int, spare: int) -> None:
        """Book what follows the capacity alone, whatever the job does."""
        self._failed += failed * length
        self._static += static * length
        self._spare += spare * length

    def work(self, setting: Setting, ran: int, saved: int, rest: int) -> None:
        """Book time at work and time blocked by a save; `rest` is the healthy GPUs not booked otherwise."""
        self._rest_running += rest * ran
        self._waits["checkpoint"] += rest * saved
        self._ran[setting] = self._ran.get(setting, 0) + ran
        self._saved[setting] = self._saved.get(setting, 0) + saved

    def wait(self, bucket: str, length: int, rest: int) -> None:
        """Book time in which the job does not run."""
        self._waits[bucket] += rest * length

    def lose(self, setting: Setting, ticks: int) -> None:
        """Move work that is void to rework."""
        self._lost[setting] = self._lost.get(setting, 0) + ticks
        if self.stops:
            self.stops[-1].rework += setting.x * self.job_gpus * ticks

    def start(self, detect: int, restart: int, rest: int) -> None:
        """Book time of a start, at the cost of the last stop."""
        self.wait("detect", detect, rest)
        self.wait("restart", restart, rest)
        if self.stops:
            self.stops[-1].detect += rest * detect
            self.stops[-1].restart += rest * restart

    def settle(self) -> None:
        """Fill `buckets`; raise LedgerError when they do not add up or one is negative."""
        job = self.job_gpus
        rework = sum((s.x * job * ticks for s, ticks in self._lost.items()), Fraction(0))
        work = sum((s.x * job * ticks for s, ticks in self._ran.items()), Fraction(0))
        overhead = sum(((s.x_raw - s.x) * job * ticks for s, ticks in self._ran.items()), Fraction(0))
        gain = sum((s.gain_gpus * ticks for s, ticks in self._ran.items()), Fraction(0))
        found = {
            "productive": work - rework,
            "rework": rework,
            "overhead": overhead,
            "gain": gain,
            "stranded": self._rest_running - (work + overhead - gain),
            "failed": Fraction(self._failed),
            "static": Fraction(self._static),
            "spare_idle": Fraction(self._spare),
            **{bucket: Fraction(ticks) for bucket, ticks in self._waits.items()},
        }
        self.buckets = {bucket: found[bucket] for bucket in BUCKETS}
        self.kept_ticks = sum(self._ran.values()) - sum(self._lost.values())
        total = sum(self.buckets.values()) - 2 * gain
        if total != self.total_gpus * self.window:
            message = f"buckets add up to {total} GPU-ticks, not {self.total_gpus} * {self.window}"
            raise LedgerError(message)
        negative = [bucket for bucket, ticks in self.buckets.items() if ticks < 0]
        if negative:
            message = f"negative buckets: {', '.join(negative)}"
            raise LedgerError(message)

    @property
    def goodput_frac(self) -> Fraction:
        """Productive over total."""
        return self.buckets["productive"] / (self.total_gpus * self.window)

    @property
    def ettr_frac(self) -> Fraction:
        """Share of the window in which work was done that was kept."""
        return Fraction(self.kept_ticks, self.window)

    def energy(self, draw_frac: Fraction, idle_frac: Fraction, overhead: Fraction) -> Fraction:
        """Return energy in TDP-ticks: GPUs in use draw their power, other healthy ones idle, failed none.

        `overhead` is the power beside the GPUs per GPU of the pool, in TDP (model.md section 5).
        """
        healthy = self.total_gpus * self.window - self._failed
        active, used = Fraction(0), 0
        for booked in (self._ran, self._saved):
            for setting, ticks in booked.items():
                active += setting.power_gpus * ticks
                used += setting.gpus_used * ticks
        return draw_frac * active + idle_frac * (healthy - used) + overhead * self.total_gpus * self.window
