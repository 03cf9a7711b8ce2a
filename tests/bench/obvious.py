"""The replay as one would first write it: every save a step, every start a sort of all groups.

In: what `engine.replay` gets. Out: the same buckets, exactly. It serves `elastic` and `pause`, and takes up
repaired capacity at the next start only; that is what the benchmark compares.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from pipeline.replay.contract import Offer, Replica, Response, Shape, Work
from pipeline.replay.engine import History, Instant, Times
from pipeline.replay.packing import Capability
from pipeline.schema import BUCKETS


class Obvious:
    """One replay."""

    def __init__(
        self,
        history: History,
        shape: Shape,
        capability: Sequence[Capability],
        response: Response,
        batch: str,
        dp: int,
        overhead: Fraction,
        times: Times,
    ) -> None:
        self.history, self.shape, self.capability, self.times = history, shape, capability, times
        self.response, self.batch, self.dp, self.overhead = response, batch, dp, overhead
        self.down = [history.initial.get(domain, 0) for domain in range(history.domains)]
        self.works: dict[tuple[Offer, ...], Work] = {}
        self.buckets = dict.fromkeys(BUCKETS, Fraction(0))
        self.steps = 0
        self.interruptions = 0
        self.now = self.until = self.detected = 0
        self.unsaved = Fraction(0)
        self.state = "paused"

    def run(self) -> dict[str, Fraction]:
        """Return the buckets."""
        self.count()
        self.choose()
        if self.x:
            self.work_on()
        window = self.history.window
        for instant in (*self.history.instants, Instant(window)):
            while self.state != "paused" and self.until < instant.tick:
                self.advance(self.until)
                self.complete()
            self.advance(instant.tick)
            if instant.tick >= window:
                break
            self.strike(instant)
            while self.state != "paused" and self.until == self.now:
                self.complete()
        return self.buckets

    def offers(self) -> list[tuple[int, int, int]]:
        """Return (degree, domain, full groups beside) of all groups, largest first, ties by domain."""
        groups = []
        for domain, mask in enumerate(self.down):
            can = self.capability[mask.bit_count()]
            groups += [(-self.shape.tp, domain, 0)] * can.full
            if can.reduced:
                groups.append((-can.reduced, domain, can.full))
        return sorted(groups)

    def choose(self) -> None:
        """Pack all groups, apply the batch rule, and note the GPUs in use."""
        size, shape = self.shape.groups_per_replica, self.shape
        groups = self.offers()
        replicas = [groups[first : first + size] for first in range(0, len(groups) - size + 1, size)]
        wanted = self.dp * shape.samples_per_replica
        taken: list[tuple[list[tuple[int, int, int]], int]] = []
        missing = wanted
        for replica in replicas if self.batch == "pause" else replicas[: self.dp]:
            offers = tuple(Offer(-degree, beside) for degree, _, beside in replica)
            if offers not in self.works:
                self.works[offers] = self.response.work(Replica(offers, shape))
            taken.append((replica, min(missing, self.works[offers].samples)))
            missing -= taken[-1][1]
        done = wanted - missing
        self.x_raw = Fraction(done, wanted)
        if self.batch == "pause" and done < wanted:
            self.x_raw = Fraction(0)
        used = [(replica, n) for replica, n in taken if n and self.x_raw]
        self.x = self.x_raw
        if any(-degree < shape.tp for replica, _ in used for degree, _, _ in replica):
            self.x /= 1 + self.overhead
        need: dict[int, int] = {}
        for replica, _ in used:
            for degree, domain, _ in replica:
                need[domain] = need.get(domain, 0) - degree
        self.in_use = {}
        for domain, count in need.items():
            down, gpu, self.in_use[domain] = self.down[domain], 0, (1 << count) - 1
            if down:  # the lowest healthy GPUs, one by one
                self.in_use[domain] = 0
                while self.in_use[domain].bit_count() < count:
                    self.in_use[domain] |= (1 << gpu) & ~down
                    gpu += 1
        job = self.dp * size * shape.tp
        self.gain = Fraction(0)
        for replica, n in used:
            gpus = -sum(degree for degree, _, _ in replica)
            self.gain += max(Fraction(0), self.x_raw * job * n / done - gpus)

    def count(self) -> None:
        """Count all domains: GPUs that are failed, static, or spare."""
        can = [self.capability[mask.bit_count()] for mask in self.down]
        self.failed = sum(mask.bit_count() for mask in self.down)
        self.static = sum(one.static for one in can)
        need = self.dp * self.shape.groups_per_replica
        self.spare = max(0, sum(one.full for one in can) - need) * self.shape.tp

    def strike(self, instant: Instant) -> None:
        """Apply the changes of an instant; stop the job when a GPU in use is hit."""
        hit = instant.app_fault or any(self.in_use.get(domain, 0) & mask for domain, mask in instant.hits)
        for domain, mask in instant.up:
            self.down[domain] &= ~mask
        for domain, mask in instant.down:
            self.down[domain] |= mask
        self.count()
        if self.state == "paused":
            self.choose()
            if self.x:
                self.start(0)
        elif hit:
            self.interruptions += self.state in {"running", "saving"}
            self.buckets["productive"] -= self.unsaved
            self.buckets["rework"] += self.unsaved
            self.unsaved = Fraction(0)
            self.choose()
            if self.x:
                self.start(self.times.detect)
            else:
                self.state = "paused"

    def start(self, detect: int) -> None:
        """Begin a start."""
        self.state, self.detected = "starting", self.now + detect
        self.until = self.detected + self.times.restart

    def work_on(self) -> None:
        """Run until the next save begins."""
        self.state, self.until = "running", self.now + self.times.interval

    def complete(self) -> None:
        """End a start, a save, or the running time before a save."""
        if self.state == "running":
            self.state, self.until = "saving", self.now + self.times.save
        else:
            self.unsaved = Fraction(0)
            self.work_on()

    def advance(self, tick: int) -> None:
        """Book the time from now to `tick` over all domains."""
        length, book, shape = tick - self.now, self.buckets, self.shape
        self.now = tick
        if not length:
            return
        self.steps += 1
        need = self.dp * shape.groups_per_replica
        book["failed"] += self.failed * length
        book["static"] += self.static * length
        book["spare_idle"] += self.spare * length
        rest = self.history.domains * shape.domain_size - self.failed - self.static - self.spare
        if self.state == "running":
            work = self.x * need * shape.tp
            lost = (self.x_raw - self.x) * need * shape.tp
            book["productive"] += work * length
            self.unsaved += work * length
            book["overhead"] += lost * length
            book["gain"] += self.gain * length
            book["stranded"] += (rest - (work + lost - self.gain)) * length
        elif self.state == "starting":
            detect = max(0, min(tick, self.detected) - (tick - length))
            book["detect"] += rest * detect
            book["restart"] += rest * (length - detect)
        else:
            book["checkpoint" if self.state == "saving" else "paused"] += rest * length
