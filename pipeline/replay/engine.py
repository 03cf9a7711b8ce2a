"""The clock: replay one policy over one placement's downtime, and account for every GPU-tick.

In: changes of capacity and hits on GPUs, in integer ticks (microseconds since the window's start).
Out: a `Ledger`. The engine knows no response by name; what a replica contributes comes from the
packer. It steps from change to change; regular saves between two changes are taken in closed form.

Order at one instant, decided once (model.md section 7): all capacity changes; interruptions; saves
that complete; starts and reconfigurations that complete; a paused job that can start; re-expansion;
the interval that is reached. So a fault at the very instant a save would complete voids it: at
running wall time x after a start, with interval I, save S and C = I + S, the completed saves are
(x - 1) // C when a fault strikes and x // C otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.replay.ledger import Ledger, Span, Stop
from pipeline.replay.packing import Capability, Chosen, Packing

RUNNING, SAVING, STARTING, RECONFIGURING, PAUSED = "running", "saving", "starting", "reconfiguring", "paused"
NEVER = 1 << 100


@dataclass(frozen=True)
class Times:
    """What things take, in ticks."""

    detect: int
    restart: int
    reconfigure: int
    interval: int
    save: int


@dataclass
class Instant:
    """All that happens at one instant: GPUs going down and up (bit masks by domain), hits, app faults."""

    tick: int
    down: list[tuple[int, int]] = field(default_factory=list)
    up: list[tuple[int, int]] = field(default_factory=list)
    hits: list[tuple[int, int]] = field(default_factory=list)
    app_fault: bool = False


@dataclass(frozen=True)
class History:
    """One placement's failures: GPUs down at the start (bit masks by domain), then instants in order."""

    domains: int
    window: int
    initial: dict[int, int]
    instants: Sequence[Instant]


def replay(
    history: History,
    capability: Sequence[Capability],
    packing: Packing,
    times: Times,
    reexpand: str,
    *,
    spans: list[Span] | None = None,
    stops: list[Stop] | None = None,
) -> Ledger:
    """Replay one policy; append the spans of its timeline and its stops to the lists that are given."""
    return _Replay(history, capability, packing, times, reexpand, spans, stops).run()


class _Replay:
    """The state of one replay."""

    def __init__(
        self,
        history: History,
        capability: Sequence[Capability],
        packing: Packing,
        times: Times,
        reexpand: str,
        spans: list[Span] | None,
        stops: list[Stop] | None,
    ) -> None:
        self.history = history
        shape = self.shape = packing.packer.shape
        self.capability = capability
        self.packing = packing
        self.times = times
        self.reexpand = reexpand
        self.all_gpus = (1 << shape.domain_size) - 1
        job_groups = packing.packer.dp * shape.groups_per_replica
        self.job_groups = job_groups
        self.ledger = Ledger(
            total_gpus=history.domains * shape.domain_size,
            job_gpus=job_groups * shape.tp,
            window=history.window,
            spans=spans,
            stops=stops,
        )
        # Capacity now: masks of GPUs down by dirty domain, and sums over the pool.
        self.down: dict[int, int] = {}
        self.failed = 0
        self.full_groups = history.domains * packing.packer.most
        self.static = history.domains * capability[0].static
        # The configuration, the capacity it was chosen from, and the GPUs it uses.
        self.chosen: Chosen = packing.choose()
        self.chosen_down: dict[int, int] = {}
        self.masks_in_use: dict[int, int] = {}
        # The job.
        self.state = PAUSED
        self.now = 0
        self.since = 0
        self.detect_until = 0
        self.until = NEVER
        self.want_better = False
        self.unsaved_at_save = 0

    def run(self) -> Ledger:
        """Step from change to change to the end of the window."""
        for domain, mask in self.history.initial.items():
            self._set_down(domain, mask)
        self._choose()
        if self.chosen.setting.x > 0:
            self._resume()
        window = self.history.window
        for instant in (*self.history.instants, Instant(window)):
            while self.until < instant.tick:
                self._advance(self.until)
                self._settle()
            self._advance(instant.tick)
            if instant.tick >= window:
                break
            self._strike(instant)
            self._settle()
        self.ledger.settle()
        return self.ledger

    # -- capacity ------------------------------------------------------------------------------

    def _set_down(self, domain: int, mask: int) -> None:
        before, after = self.down.get(domain, 0).bit_count(), mask.bit_count()
        if mask:
            self.down[domain] = mask
        else:
            self.down.pop(domain, None)
        old, new = self.capability[before], self.capability[after]
        self.failed += after - before
        self.static += new.static - old.static
        if old.full != new.full or old.reduced != new.reduced:
            self.full_groups += new.full - old.full
            self.packing.change(domain, old, new)

    def _better(self) -> bool:
        """Return whether the capacity now would give more throughput than the configuration in force."""
        return self.packing.candidate().x > self.chosen.setting.x

    def _choose(self) -> None:
        """Take the configuration that the capacity now yields."""
        self.chosen = self.packing.choose()
        self.chosen_down = {}
        self.masks_in_use = {}

    def _gpus_in_use(self, domain: int) -> int:
        """Return the mask of GPUs in use: the lowest-numbered that were healthy at the choice."""
        mask = self.masks_in_use.get(domain)
        if mask is None:
            down = self.chosen_down.get(domain, self.down.get(domain, 0))
            full, degree = self.chosen.groups(domain, self.capability[down.bit_count()])
            need = full * self.shape.tp + degree
            mask = self.masks_in_use[domain] = _lowest(self.all_gpus & ~down, need)
        return mask

    # -- one instant ---------------------------------------------------------------------------

    def _strike(self, instant: Instant) -> None:
        """Apply an instant's changes, then the interruption they cause, judged by the old configuration."""
        struck = [
            (domain, found) for domain, mask in instant.hits if (found := self._gpus_in_use(domain) & mask)
        ]
        for domain, mask in instant.up:
            before = self.down[domain]
            self.chosen_down.setdefault(domain, before)
            self._set_down(domain, before & ~mask)
        for domain, mask in instant.down:
            before = self.down.get(domain, 0)
            self.chosen_down.setdefault(domain, before)
            self._set_down(domain, before | mask)
        if (struck or instant.app_fault) and self.state != PAUSED:
            if self.ledger.stops is not None:
                self.ledger.stops.append(Stop(self.now, self.state, struck, instant.app_fault))
            self._interrupt()
        self.want_better = self.reexpand != "next_interruption"

    def _interrupt(self) -> None:
        if self.state in (RUNNING, SAVING):
            self.ledger.interruptions += 1
            self.ledger.lose(self.chosen.setting, self._unsaved(fault=True))
        self._choose()
        if self.chosen.setting.x > 0:
            self._start(self.times.detect)
        else:
            self.state, self.until = PAUSED, NEVER

    def _settle(self) -> None:
        """Complete what is due now, let a paused job start, take up better capacity.

        What takes no time completes at the instant it begins, consequences included.
        """
        while True:
            if self.until == self.now:
                self._complete()
            elif self.state == PAUSED and self._better():
                self._choose()
                self._start(0)
            elif self.state == RUNNING and self.want_better:
                self._reexpand()
            else:
                return

    def _complete(self) -> None:
        """End a start, a reconfiguration, a planned save, or the regular save that was waited for."""
        if self.state == RUNNING:
            self.until, self.want_better = NEVER, True
        else:
            self._resume()

    def _start(self, detect: int) -> None:
        self.state = STARTING
        self.detect_until = self.now + detect
        self.until = self.detect_until + self.times.restart

    def _resume(self) -> None:
        """Run with nothing unsaved; the interval to the next save begins."""
        self.state, self.since, self.until = RUNNING, self.now, NEVER
        self.want_better = self.reexpand != "next_interruption"

    def _reexpand(self) -> None:
        """Begin what a better configuration asks for: a save, a wait for one under way, or the change."""
        self.want_better, self.until = False, NEVER
        if not self._better():
            return
        interval, save = self.times.interval, self.times.save
        immediate = self.reexpand == "immediate"
        inside = (self.now - self.since) % (interval + save)
        if inside == 0 and (immediate or self.now > self.since):
            self._reconfigure()
        elif immediate and inside <= interval:
            self.state, self.unsaved_at_save, self.until = SAVING, inside, self.now + save
        else:
            self.until = self.now + interval + save - inside

    def _reconfigure(self) -> None:
        self.ledger.planned_stops += 1
        self._choose()
        self.state = RECONFIGURING
        self.until = self.now + self.times.reconfigure

    # -- time ----------------------------------------------------------------------------------

    def _ran(self, wall: int) -> int:
        """Return the running time within `wall` ticks since the last reset of the interval."""
        interval = self.times.interval
        cycles, rest = divmod(wall, interval + self.times.save)
        return cycles * interval + min(rest, interval)

    def _unsaved(self, *, fault: bool) -> int:
        if self.state == SAVING:
            return self.unsaved_at_save
        wall = self.now - self.since
        cycle = self.times.interval + self.times.save
        done = max(0, wall - 1) // cycle if fault else wall // cycle
        return self._ran(wall) - done * self.times.interval

    def _advance(self, tick: int) -> None:
        """Book the time from now to `tick`, in which nothing changes but regular saves."""
        length = tick - self.now
        if length:
            spare = max(0, self.full_groups - self.job_groups) * self.shape.tp
            rest = self.ledger.total_gpus - self.failed - self.static - spare
            book = self.ledger
            book.capacity(length, self.failed, self.static, spare)
            if self.state == RUNNING:
                ran = self._ran(tick - self.since) - self._ran(self.now - self.since)
                book.work(self.chosen.setting, ran, length - ran, rest)
            elif self.state == SAVING:
                book.work(self.chosen.setting, 0, length, rest)
            elif self.state == STARTING:
                detect = max(0, min(tick, self.detect_until) - self.now)
                book.start(detect, length - detect, rest)
            else:
                book.wait("reconfigure" if self.state == RECONFIGURING else "paused", length, rest)
            if book.spans is not None:
                book.spans.append(
                    Span(self.now, tick, self.state, self.chosen.setting, self.failed, self.now - self.since)
                )
        self.now = tick


def _lowest(healthy: int, need: int) -> int:
    """Return the lowest `need` bits of a mask."""
    reach = need
    while True:
        mask = healthy & ((1 << reach) - 1)
        short = need - mask.bit_count()
        if short <= 0:
            return mask
        reach += short
