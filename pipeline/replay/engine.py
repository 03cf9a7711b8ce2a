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

from bisect import insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat

from pipeline.replay.ledger import Fault, Ledger, Span, Stop
from pipeline.replay.packing import Capability, Chosen, Packing, Setting, in_use
from pipeline.replay.saves import Saved, Saves

RUNNING, SAVING, STARTING, RECONFIGURING, PAUSED = "running", "saving", "starting", "reconfiguring", "paused"
NEVER = 1 << 100


def at_once(_start: int) -> int:
    """Return the attempts of a start that never fails."""
    return 1


@dataclass(frozen=True)
class Times:
    """What things take, in ticks; what is left out changes nothing.

    `detect_by` is the time until a fault is noticed by its component, `silent` the components whose faults
    the job does not notice itself; `durable` is how long after a save its write reaches durable storage.
    `attempts` says how often the n-th start must be made until it holds. `regroup` and `rejoin` are the
    stalls of a job whose replicas stop alone.
    """

    detect: int
    restart: int
    reconfigure: int
    interval: int
    save: int
    detect_by: Mapping[str, int] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()
    durable: int = 0
    regroup: int = 0
    rejoin: int = 0
    attempts: Callable[[int], int] = at_once


@dataclass
class Instant:
    """All that happens at one instant: GPUs going down and up (bit masks by domain), hits, app faults.

    `components` are those of the hits, in their order, `app_components` those of the app-level faults; left
    empty where no cost asks for them.
    """

    tick: int
    down: list[tuple[int, int]] = field(default_factory=list)
    up: list[tuple[int, int]] = field(default_factory=list)
    hits: list[tuple[int, int]] = field(default_factory=list)
    app_fault: bool = False
    components: list[str] = field(default_factory=list)
    app_components: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class History:
    """One placement's failures: GPUs down at the start (bit masks by domain), then instants in order."""

    domains: int
    window: int
    initial: dict[int, int]
    instants: Sequence[Instant]


@dataclass
class Corruption:
    """What a silent fault has spoiled and nobody knows yet; its GPUs (bit masks by domain) seem healthy."""

    found: int
    fault: Fault
    gpus: dict[int, int]

    def __lt__(self, other: Corruption) -> bool:
        """Sort by when it is found."""
        return self.found < other.found


def replay(
    history: History,
    capability: Sequence[Capability],
    packing: Packing,
    times: Times,
    reexpand: str,
    *,
    by_replica: bool = False,
    spans: list[Span] | None = None,
    stops: list[Stop] | None = None,
) -> Ledger:
    """Replay one policy; append the spans of its timeline and its stops to the lists that are given.

    `by_replica`: a replica whose GPUs fail stops alone, and `reexpand` is not used (model.md section 7).
    """
    return _Replay(history, capability, packing, times, reexpand, by_replica, spans, stops).run()


class _Replay:
    """The state of one replay."""

    def __init__(
        self,
        history: History,
        capability: Sequence[Capability],
        packing: Packing,
        times: Times,
        reexpand: str,
        by_replica: bool,
        spans: list[Span] | None,
        stops: list[Stop] | None,
    ) -> None:
        self.history = history
        shape = self.shape = packing.packer.shape
        self.capability = capability
        self.packing = packing
        self.times = times
        self.reexpand = reexpand
        self.by_replica = by_replica
        self.is_eager = by_replica or reexpand != "next_interruption"
        self.asks_components = bool(times.detect_by or times.silent)
        self.remembers = bool(times.durable or times.silent or by_replica)  # else the last save is enough
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
        # The configuration, the capacity it was chosen from, its GPUs, and the replicas that stopped alone.
        self.chosen: Chosen = packing.choose()
        self.setting: Setting = self.chosen.setting
        self.chosen_down: dict[int, int] = {}
        self.masks_in_use: dict[int, int] = {}
        self.dealt: dict[int, list[tuple[int, int]]] = {}
        self.out: frozenset[int] = frozenset()
        # The job.
        self.state = PAUSED
        self.now = 0
        self.since = 0
        self.detect_until = 0
        self.until = NEVER
        self.want_better = False
        self.starts = 0
        # What it has done, and how much of the interval to the next save had passed when this run began.
        self.saves = Saves()
        self.offset = 0
        self.is_regrouping = False
        self.joining = NEVER
        self.corruptions: list[Corruption] = []

    def run(self) -> Ledger:
        """Step from change to change to the end of the window."""
        for domain, mask in self.history.initial.items():
            self._set_down(domain, mask)
        self._choose()
        if self.setting.x > 0:
            self._resume()
        for instant in self.history.instants:
            if instant.tick >= self.history.window:
                break
            self._reach(instant.tick)
            self._strike(instant)
            self._settle()
        self._reach(self.history.window)
        self.ledger.settle()
        return self.ledger

    def _reach(self, tick: int) -> None:
        """Go on to an instant, past all that is due before it."""
        while self.corruptions and self.corruptions[0].found < tick:
            found = Instant(self.corruptions[0].found)
            self._pass(found.tick)
            self._strike(found)
            self._settle()
        self._pass(tick)

    def _pass(self, tick: int) -> None:
        while self.until < tick:
            self._advance(self.until)
            self._settle()
        self._advance(tick)

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
        return self.packing.candidate().x > self.setting.x

    def _choose(self) -> None:
        """Take the configuration that the capacity now yields."""
        self.chosen = self.packing.choose()
        self.setting = self.chosen.setting
        self.chosen_down = {}
        self.masks_in_use = {}
        self.dealt, self.out = {}, frozenset()

    def _down_at_choice(self, domain: int) -> int:
        return self.chosen_down.get(domain, self.down.get(domain, 0))

    def _gpus_in_use(self, domain: int) -> int:
        """Return the mask of GPUs in use: the lowest-numbered that were healthy at the choice."""
        mask = self.masks_in_use.get(domain)
        if mask is None:
            if self.out:
                mask = sum(mine for replica, mine in self._dealt(domain) if replica not in self.out)
            else:
                down = self._down_at_choice(domain)
                full, degree = self.chosen.groups(domain, self.capability[down.bit_count()])
                mask = _lowest(self.all_gpus & ~down, full * self.shape.tp + degree)
            self.masks_in_use[domain] = mask
        return mask

    def _dealt(self, domain: int) -> list[tuple[int, int]]:
        """Return (replica, mask) of a domain's groups in use, lowest GPUs to the first in packing order."""
        found = self.dealt.get(domain)
        if found is None:
            down = self._down_at_choice(domain)
            healthy = self.all_gpus & ~down
            found = self.dealt[domain] = []
            for replica, degree in self.chosen.replicas(domain, self.capability[down.bit_count()]):
                mask = _lowest(healthy, degree)
                healthy &= ~mask
                found.append((replica, mask))
        return found

    # -- one instant ---------------------------------------------------------------------------

    def _strike(self, instant: Instant) -> None:
        """Apply an instant's changes, then the interruption they cause, judged by the old configuration."""
        struck = [
            (domain, found) for domain, mask in instant.hits if (found := self._gpus_in_use(domain) & mask)
        ]
        faults: list[Fault] = []
        detect, is_found = self.times.detect, False
        if (struck or instant.app_fault) and self.state != PAUSED:
            faults.append(Fault(self.now, struck, instant.app_fault))
            if self.asks_components:
                components = list(self._components(instant))
                detect = min(self.times.detect_by.get(name, self.times.detect) for name in components)
                if self.times.silent.issuperset(components):
                    self._hide(faults.pop(), detect, instant)
        for domain, mask in instant.up:
            if self.corruptions:
                self._mend(domain, mask)
            before = self.down.get(domain, 0)
            self.chosen_down.setdefault(domain, before)
            self._set_down(domain, before & ~mask)
        for domain, mask in instant.down:
            self._take_down(domain, mask & ~self._hidden(domain) if self.corruptions else mask)
        while self.corruptions and self.corruptions[0].found == self.now:
            corruption, detect, is_found = self.corruptions.pop(0), 0, True
            faults.append(corruption.fault)
            for domain, mask in corruption.gpus.items():
                self._take_down(domain, mask)
        if faults:
            alone = self.by_replica and not is_found and not instant.app_fault
            if self.ledger.stops is not None:
                self.ledger.stops.append(Stop(self.now, self.state, faults))
            if not (alone and self._regroup(struck, detect)):
                self._stop(faults, detect)
        self.want_better = self.is_eager

    def _take_down(self, domain: int, mask: int) -> None:
        before = self.down.get(domain, 0)
        self.chosen_down.setdefault(domain, before)
        self._set_down(domain, before | mask)

    def _mend(self, domain: int, mask: int) -> None:
        """Note that GPUs are repaired: a fault of theirs that is not found yet will not take them down."""
        for corruption in self.corruptions:
            corruption.gpus[domain] = corruption.gpus.get(domain, 0) & ~mask

    def _hidden(self, domain: int) -> int:
        """Return the GPUs whose faults are not found yet."""
        hidden = 0
        for corruption in self.corruptions:
            hidden |= corruption.gpus.get(domain, 0)
        return hidden

    def _components(self, instant: Instant) -> Iterator[str]:
        """Yield the components of the faults that strike the job."""
        for (domain, mask), component in zip(instant.hits, instant.components or repeat(""), strict=False):
            if self._gpus_in_use(domain) & mask:
                yield component
        if instant.app_fault:
            yield from instant.app_components or ("",)

    def _hide(self, fault: Fault, detect: int, instant: Instant) -> None:
        """Note a fault that is found only after its detection time, its GPUs in use until then."""
        struck, gpus = dict[int, int](), dict[int, int]()
        for domain, mask in fault.struck:
            struck[domain] = struck.get(domain, 0) | mask
        for domain, mask in instant.down:
            gpus[domain] = gpus.get(domain, 0) | (struck.get(domain, 0) & mask)
        insort(self.corruptions, Corruption(self.now + detect, fault, gpus))

    def _stop(self, faults: Sequence[Fault], detect: int) -> None:
        """Stop the job for faults that are noticed now."""
        if self.state in (RUNNING, SAVING):
            self.ledger.interruptions += 1
        self._file(fault=True)
        horizon = min(map(self._horizon, faults)) if self.remembers else self.now
        for setting, ticks in self.saves.roll_back(horizon):
            self.ledger.lose(setting, ticks)
        if self.state == PAUSED:  # what it did before was void
            return
        self._choose()
        if self.setting.x > 0:
            self._start(detect)
        else:
            self.state, self.until = PAUSED, NEVER

    def _horizon(self, fault: Fault) -> int:
        """Return the instant before which a save must have completed to count after this fault.

        The host's memory survives a fault of the application, so that its last save needs no durable storage.
        """
        return min(fault.onset, self.now - self.times.durable) if fault.struck else fault.onset

    def _regroup(self, struck: Sequence[tuple[int, int]], detect: int) -> bool:
        """Let the replicas that were not struck go on after a stall; return False where none can.

        Those that were start again meanwhile, and join when they are ready.
        """
        if self.state != RUNNING and not self.is_regrouping:
            return False
        out = self.out.union(
            replica for domain, mask in struck for replica, mine in self._dealt(domain) if mine & mask
        )
        setting = self.chosen.without(out)
        if setting.x == 0:
            return False
        if self.state == RUNNING:
            self.ledger.interruptions += 1
            self.offset = self._file(fault=True)
        self.out = in_use(self.chosen.setting) - in_use(setting)  # also those left without a sample
        self.setting, self.masks_in_use = setting, {}
        self.state, self.is_regrouping = STARTING, True
        self.detect_until, self.until = self.now, self.now + self.times.regroup
        self.joining = self.now + detect + self._restart()
        return True

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
                if self.by_replica:
                    self._join()
                else:
                    self._reexpand()
            else:
                return

    def _complete(self) -> None:
        """End a start, a reconfiguration, a planned save, or what was waited for while running."""
        if self.state == RUNNING:
            self.until, self.want_better = NEVER, True
            return
        if self.state == SAVING:
            self.saves.complete(self.now)
        self._resume()

    def _restart(self) -> int:
        """Return how long the next start takes, failed attempts included."""
        self.starts += 1
        return self.times.restart * self.times.attempts(self.starts - 1)

    def _start(self, detect: int) -> None:
        self.state, self.offset, self.is_regrouping, self.joining = STARTING, 0, False, NEVER
        self.detect_until = self.now + detect
        self.until = self.detect_until + self._restart()

    def _resume(self) -> None:
        """Run; the interval to the next save begins, or goes on after a stall in which nothing was lost."""
        self.state, self.since, self.until = RUNNING, self.now - self.offset, NEVER
        self.is_regrouping = False
        self.want_better = self.is_eager
        if self.saves.saved:
            onsets = [corruption.fault.onset for corruption in self.corruptions]
            self.saves.forget(min([self.now - self.times.durable, *onsets]))

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
            self._file(fault=False)
            self.state, self.until = SAVING, self.now + save
        else:
            self.until = self.now + interval + save - inside

    def _reconfigure(self) -> None:
        self._file(fault=False)
        self._change(self.times.reconfigure)

    def _change(self, length: int) -> None:
        """Begin a planned change to what the capacity now yields."""
        self.ledger.planned_stops += 1
        self._choose()
        self.state, self.until = RECONFIGURING, self.now + length

    def _join(self) -> None:
        """Start what a better configuration has more beside the running job, and let it join when ready."""
        self.want_better, self.until = False, NEVER
        if self.joining > self.now:
            if self.joining == NEVER and self._better():
                self.joining = self.now + self._restart()
            self.until = self.joining
            return
        inside = (self.now - self.since) % (self.times.interval + self.times.save)
        if not self._better():
            self.joining = NEVER
        elif inside > self.times.interval:  # a save is under way
            self.until = self.now + self.times.interval + self.times.save - inside
        else:
            self.offset, self.joining = self._file(fault=False), NEVER
            self._change(self.times.rejoin)

    # -- time ----------------------------------------------------------------------------------

    def _ran(self, wall: int) -> int:
        """Return the running time within `wall` ticks since the last reset of the interval."""
        interval = self.times.interval
        cycles, rest = divmod(wall, interval + self.times.save)
        return cycles * interval + min(rest, interval)

    def _file(self, *, fault: bool) -> int:
        """File the run that ends now, with its saves; return its running time since the last of them."""
        if self.state != RUNNING:
            return 0
        interval, cycle, wall = (
            self.times.interval,
            self.times.interval + self.times.save,
            self.now - self.since,
        )
        done = (max(0, wall - 1) if fault else wall) // cycle
        offset = self.offset
        if done and self.remembers:
            first = self.since + cycle
            self.saves.unsaved.append((self.setting, interval - offset))
            self.saves.complete(first)
            if done > 1:
                self.saves.saved.append(Saved(self.setting, interval, first + cycle, cycle, done - 1))
            offset = 0
        inside = min(wall - done * cycle, interval)
        if inside > offset:
            self.saves.unsaved.append((self.setting, inside - offset))
        self.offset = 0
        return inside

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
                book.start(detect, length - detect, rest)
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
