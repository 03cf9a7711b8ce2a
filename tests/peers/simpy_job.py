"""The same job as a SimPy model: one process a failure, one for the job, saves and starts event by event.

In: the pool, the job, what things take (whole ticks), outages and app-level faults. Out: GPU-ticks by what
they went to. It shares no code and no method with the engine: that one steps from change to change and takes
saves in closed form, here every save, detection and restart is an event of its own.
What it knows of model.md: domains of one TP group, packed, `rigid` and `dp-drop` (elastic), capacity that is
taken up at the next start. GPUs of a domain are alike: any failed GPU makes it useless.
Easy to get wrong: at one instant faults come before what completes, and all faults of an instant are one
stop. SimPy takes events of an instant in the order in which they were scheduled, so every fault is scheduled
before the clock starts, and the faults of an instant are one process.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import simpy


class Outage(NamedTuple):
    """A GPU of a domain that is down over `[start, end)` ticks."""

    domain: int
    gpu: int
    start: int
    end: int


@dataclass(frozen=True)
class Plan:
    """The pool and the job; times in ticks."""

    domains: int
    domain_gpus: int
    domains_per_replica: int
    replicas: int
    shrinks: bool  # dp-drop with an elastic batch; else rigid
    detect: int
    restart: int
    interval: int
    save: int
    window: int


def run(plan: Plan, outages: Iterable[Outage], app_faults: Iterable[int] = ()) -> dict[str, Fraction]:
    """Return GPU-ticks by bucket, and the number of stops as `interruptions`."""
    env = simpy.Environment()
    model = _Model(env, plan)
    strikes: dict[int, _Strike] = defaultdict(_Strike)
    for outage in outages:
        if outage.end <= 0 or outage.start >= plan.window or outage.start == outage.end:
            continue
        if outage.start <= 0:
            model.down[outage.domain][outage.gpu] += 1
        else:
            strikes[outage.start].down.append(outage)
        if outage.end < plan.window:
            strikes[outage.end].up.append(outage)
    for tick in app_faults:
        if 0 < tick < plan.window:
            strikes[tick].app = True
    for tick, what in strikes.items():
        env.process(model.strike(tick, what))
    model.job = env.process(model.live())
    env.run(until=plan.window)
    model.book()
    return model.result()


class _Strike:
    """What happens to the pool at one instant."""

    def __init__(self) -> None:
        self.down: list[Outage] = []
        self.up: list[Outage] = []
        self.app = False


class _Model:
    """The pool and the job in it."""

    def __init__(self, env: simpy.Environment, plan: Plan) -> None:
        self.env, self.plan = env, plan
        self.down: dict[int, Counter[int]] = defaultdict(Counter)  # domain -> GPU -> outages
        self.spent: Counter[str] = Counter()
        self.unsaved = Fraction(0)
        self.share = Fraction(0)  # of the healthy throughput
        self.used: frozenset[int] = frozenset()
        self.state = "paused"
        self.booked = 0
        self.interruptions = 0
        self.job: simpy.Process | None = None
        self.wake: simpy.Event = env.event()

    # -- the pool ------------------------------------------------------------------------------

    def strike(self, tick: int, what: _Strike) -> Generator[simpy.Event, Any, None]:
        """Change the capacity at an instant, then stop the job if it is hit."""
        yield self.env.timeout(tick)
        self.book()
        before = {outage: self._failed(outage) for outage in what.down}
        for outage in what.up:
            self.down[outage.domain][outage.gpu] -= 1
        for outage in what.down:
            self.down[outage.domain][outage.gpu] += 1
        hit = any(outage.domain in self.used and not failed for outage, failed in before.items())
        if self.state == "paused":
            if self._choice()[0] > 0 and not self.wake.triggered:
                self.wake.succeed()
        elif hit or what.app:
            assert self.job is not None
            self.job.interrupt()

    def _failed(self, outage: Outage) -> bool:
        return self.down[outage.domain][outage.gpu] > 0

    def _clean(self) -> list[int]:
        return [d for d in range(self.plan.domains) if not any(self.down[d].values())]

    def _failed_gpus(self) -> int:
        return sum(many > 0 for gpus in self.down.values() for many in gpus.values())

    def _choice(self) -> tuple[Fraction, frozenset[int]]:
        """Return the throughput that the clean domains allow, and those that would be used."""
        plan, clean = self.plan, self._clean()
        replicas = min(plan.replicas, len(clean) // plan.domains_per_replica)
        if not plan.shrinks and replicas < plan.replicas:
            replicas = 0
        return Fraction(replicas, plan.replicas), frozenset(clean[: replicas * plan.domains_per_replica])

    # -- the job -------------------------------------------------------------------------------

    def live(self) -> Generator[simpy.Event, Any, None]:
        """Run, save, be stopped, detect, restart, wait: until the window ends."""
        self.share, self.used = self._choice()
        is_up = self.share > 0
        while True:
            if is_up:
                try:
                    yield from self._work()
                except simpy.Interrupt:
                    self._lose()
                self.share, self.used = self._choice()
                is_up = False
            detect = self.plan.detect
            if self.share == 0:
                yield from self._pause()
                detect = 0  # nothing is wrong, capacity has come
            is_up = yield from self._start(detect)

    def _work(self) -> Generator[simpy.Event, Any, None]:
        """Run and save for ever; a fault ends it with what is unsaved still in hand."""
        while True:
            self._become("running")
            yield self.env.timeout(self.plan.interval)
            self._become("saving")
            yield self.env.timeout(self.plan.save)
            self.book()
            self.spent["productive"] += self.unsaved
            self.unsaved = Fraction(0)

    def _lose(self) -> None:
        self.interruptions += 1
        self.spent["rework"] += self.unsaved
        self.unsaved = Fraction(0)

    def _start(self, detect: int) -> Generator[simpy.Event, Any, bool]:
        """Detect and restart, again from the beginning when struck; return whether the job runs."""
        while True:
            try:
                self._become("detect")
                yield self.env.timeout(detect)
                self._become("restart")
                yield self.env.timeout(self.plan.restart)
            except simpy.Interrupt:
                self.share, self.used = self._choice()
                if self.share == 0:
                    return False
                detect = self.plan.detect
            else:
                return True

    def _pause(self) -> Generator[simpy.Event, Any, None]:
        """Wait for capacity, and take what there is when it comes."""
        self._become("paused")
        self.wake = self.env.event()
        if self._choice()[0] == 0:
            yield self.wake
        self.share, self.used = self._choice()

    # -- the account ---------------------------------------------------------------------------

    def _become(self, state: str) -> None:
        self.book()
        self.state = state

    def book(self) -> None:
        """Book the time since the last booking to the state that held."""
        length = self.env.now - self.booked
        self.booked = self.env.now
        if not length:
            return
        plan = self.plan
        job_gpus = plan.replicas * plan.domains_per_replica * plan.domain_gpus
        failed = self._failed_gpus()
        whole = len(self._clean()) * plan.domain_gpus
        spare = max(0, whole - job_gpus)
        rest = plan.domains * plan.domain_gpus - failed - spare
        self.spent["failed"] += failed * length
        self.spent["spare_idle"] += spare * length
        if self.state == "running":
            work = self.share * job_gpus * length
            self.unsaved += work
            self.spent["stranded"] += rest * length - work
        else:
            name = {"saving": "checkpoint"}.get(self.state, self.state)
            self.spent[name] += rest * length

    def result(self) -> dict[str, Fraction]:
        """Return the account; what is unsaved but alive counts as productive."""
        found = {name: Fraction(ticks) for name, ticks in self.spent.items()}
        found["productive"] = found.get("productive", Fraction(0)) + self.unsaved
        found["interruptions"] = Fraction(self.interruptions)
        return found
