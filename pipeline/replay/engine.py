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

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.replay.contract import Offer, Shape
from pipeline.replay.ledger import Ledger, Span
from pipeline.replay.packing import Capability, Packer, Setting

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
    shape: Shape,
    capability: Sequence[Capability],
    packer: Packer,
    times: Times,
    reexpand: str,
    *,
    spans: list[Span] | None = None,
) -> Ledger:
    """Replay one policy; append the spans of its timeline to `spans` when it is given."""
    return _Replay(history, shape, capability, packer, times, reexpand, spans).run()


class _Replay:
    """The state of one replay."""

    def __init__(
        self,
        history: History,
        shape: Shape,
        capability: Sequence[Capability],
        packer: Packer,
        times: Times,
        reexpand: str,
        spans: list[Span] | None,
    ) -> None:
        self.history = history
        self.shape = shape
        self.capability = capability
        self.packer = packer
        self.times = times
        self.reexpand = reexpand
        self.most = shape.domain_size // shape.tp
        self.all_gpus = (1 << shape.domain_size) - 1
        job_groups = packer.dp * shape.groups_per_replica
        self.job_groups = job_groups
        self.ledger = Ledger(
            total_gpus=history.domains * shape.domain_size,
            job_gpus=job_groups * shape.tp,
            window=history.window,
            spans=spans,
        )
        # Capacity now: masks of GPUs down by dirty domain, and sums over the pool.
        self.down: dict[int, int] = {}
        self.failed = 0
        # In order: domains that lack full groups (domain, how many); reduced groups as packing sorts
        # them (-degree, domain, full groups beside), and the offers they make.
        self.lacking: list[tuple[int, int]] = []
        self.reduced: list[tuple[int, int, int]] = []
        self.offers: list[Offer] = []
        self.full_groups = history.domains * self.most
        self.static = history.domains * capability[0].static
        # The configuration, the capacity it was chosen from, and the GPUs it uses.
        self.setting: Setting = packer.setting(0, ())
        self.chosen_down: dict[int, int] = {}
        self.full_until: tuple[int, int] = (0, 0)
        self.reduced_in_use: dict[int, int] = {}
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
        if self.setting.x > 0:
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
            self._offer(domain, old, -1)
            self._offer(domain, new, 1)

    def _offer(self, domain: int, can: Capability, sign: int) -> None:
        """Note (1) or forget (-1) that a domain lacks full groups, and the reduced group it offers."""
        if can.full == self.most:
            return
        lacks = (domain, self.most - can.full)
        offer = (-can.reduced, domain, can.full)
        if sign > 0:
            insort(self.lacking, lacks)
            if can.reduced:
                place = bisect_left(self.reduced, offer)
                self.reduced.insert(place, offer)
                self.offers.insert(place, Offer(can.reduced, can.full))
        else:
            del self.lacking[bisect_left(self.lacking, lacks)]
            if can.reduced:
                place = bisect_left(self.reduced, offer)
                del self.reduced[place], self.offers[place]

    def _candidate(self) -> Setting:
        return self.packer.setting(self.full_groups, tuple(self.offers))

    def _better(self) -> bool:
        """Return whether the capacity now would give more throughput than the configuration in force."""
        return self._candidate().x > self.setting.x

    def _choose(self) -> None:
        """Take the configuration that the capacity now yields, and note which GPUs it uses."""
        self.setting = self._candidate()
        self.reduced_in_use = {
            self.reduced[place][1]: -self.reduced[place][0] for place in self.setting.reduced_used
        }
        self.full_until = self._domain_reached(self.setting.full_used)
        self.chosen_down = {}
        self.masks_in_use = {}

    def _domain_reached(self, groups: int) -> tuple[int, int]:
        """Return (domain, n): full groups in use are all before `domain` and the first n of it."""
        gone = 0
        for domain, fewer in self.lacking:
            if domain * self.most - gone >= groups:
                break
            gone += fewer
            if (domain + 1) * self.most - gone >= groups:
                return domain, groups - (domain * self.most - gone + fewer)
        return divmod(groups + gone, self.most)

    def _gpus_in_use(self, domain: int) -> int:
        """Return the mask of GPUs in use: the lowest-numbered that were healthy at the choice."""
        mask = self.masks_in_use.get(domain)
        if mask is None:
            down = self.chosen_down.get(domain, self.down.get(domain, 0))
            reached, partly = self.full_until
            if domain < reached:
                groups = self.capability[down.bit_count()].full
            else:
                groups = partly if domain == reached else 0
            need = groups * self.shape.tp + self.reduced_in_use.get(domain, 0)
            mask = self.masks_in_use[domain] = _lowest(self.all_gpus & ~down, need)
        return mask

    # -- one instant ---------------------------------------------------------------------------

    def _strike(self, instant: Instant) -> None:
        """Apply an instant's changes, then the interruption they cause, judged by the old configuration."""
        hit = instant.app_fault or any(self._gpus_in_use(domain) & mask for domain, mask in instant.hits)
        for domain, mask in instant.up:
            before = self.down[domain]
            self.chosen_down.setdefault(domain, before)
            self._set_down(domain, before & ~mask)
        for domain, mask in instant.down:
            before = self.down.get(domain, 0)
            self.chosen_down.setdefault(domain, before)
            self._set_down(domain, before | mask)
        if hit and self.state != PAUSED:
            self._interrupt()
        self.want_better = self.reexpand != "next_interruption"

    def _interrupt(self) -> None:
        if self.state in (RUNNING, SAVING):
            self.ledger.interruptions += 1
            self.ledger.lose(self.setting, self._unsaved(fault=True))
        self._choose()
        if self.setting.x > 0:
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
                book.work(self.setting, ran, length - ran, rest)
            elif self.state == SAVING:
                book.work(self.setting, 0, length, rest)
            elif self.state == STARTING:
                detect = max(0, min(tick, self.detect_until) - self.now)
                book.wait("detect", detect, rest)
                book.wait("restart", length - detect, rest)
            else:
                book.wait("reconfigure" if self.state == RECONFIGURING else "paused", length, rest)
            if book.spans is not None:
                book.spans.append(
                    Span(self.now, tick, self.state, self.setting, self.failed, self.now - self.since)
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
