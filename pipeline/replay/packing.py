"""From groups to a configuration: what a domain offers, what replicas do, and the batch rule.

Capability (model.md section 4): with k failed GPUs a domain of G offers floor((G-k)/TP) full groups
and, when the response can use it, one reduced group. How groups become replicas is the packing's
business (packed.py, fixed.py); the batch rule then takes replicas in packing order. There is no
search. A configuration depends only on the replicas' offers, so it is remembered by a key for them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from typing import NamedTuple, Protocol

from pipeline.replay.contract import Alike, Offer, Replica, Response, Shape, Together, Work


@dataclass(frozen=True)
class Capability:
    """What a domain with k failed GPUs offers."""

    full: int
    reduced: int
    leftover: int
    static: int


def capabilities(shape: Shape, reduced_tp: tuple[int, ...]) -> tuple[Capability, ...]:
    """Return the capability for k = 0 .. domain_size failed GPUs; no `reduced_tp`, no reduced groups."""
    size, tp = shape.domain_size, shape.tp
    most = size // tp
    table = []
    for failed in range(size + 1):
        full = (size - failed) // tp
        left = size - failed - full * tp
        degree = max((t for t in reduced_tp if t <= left), default=0) if full < most else 0
        left -= degree
        table.append(Capability(full, degree, left, min(left, size - most * tp)))
    return tuple(table)


@dataclass(frozen=True, eq=False)
class Setting:
    """A configuration: its throughput, and which replicas of the packing are in use.

    `x_raw` and `x` are throughput relative to the healthy job, before and after resharding. `used`
    lists runs of replicas in use as (first, many), in packing order, `idle` the positions of groups that
    they leave idle. `gain_gpus` is work beyond the number of GPUs; `power_gpus` sums degree times power
    in TDP.
    Compared by identity: a packer makes one object per key, and ledgers count by it.
    """

    x_raw: Fraction
    x: Fraction
    replicas: int
    used: tuple[tuple[int, int], ...]
    gain_gpus: Fraction
    gpus_used: int
    power_gpus: Fraction
    idle: frozenset[int] = frozenset()


class Chosen(Protocol):
    """A configuration in force: the setting, and which groups of a domain it uses."""

    @property
    def setting(self) -> Setting:
        """The configuration."""
        ...

    def groups(self, domain: int, can: Capability) -> tuple[int, int]:
        """Return full groups and the reduced degree in use; `can` is the capability it was chosen from."""
        ...

    def replicas(self, domain: int, can: Capability) -> list[tuple[int, int]]:
        """Return (replica, degree) of those groups, in packing order."""
        ...

    def without(self, out: frozenset[int]) -> Setting:
        """Return what the batch rule yields from the replicas in use without some, regrouped as they are."""
        ...


class Packing(Protocol):
    """Follows the capacity of domains and turns it into configurations; one for each replay."""

    packer: Packer

    def change(self, domain: int, old: Capability, new: Capability, /) -> None:
        """Note that a domain offers something else."""
        ...

    def candidate(self) -> Setting:
        """Return the configuration that the capacity now yields."""
        ...

    def choose(self) -> Chosen:
        """Return that configuration with the groups it uses."""
        ...


@dataclass(frozen=True)
class Kind:
    """A kind of replica: what it does, the GPUs and power of its groups, and how many of them are boosted.

    `replica` is None when it lacks groups and its response does nothing then; `idle` are positions of groups
    that it does not use.
    """

    offers: tuple[Offer | None, ...]
    replica: Replica | None
    idle: tuple[int, ...]
    work: Work
    gpus: int
    power_gpus: Fraction
    is_full: bool
    boosted: int


class Part(NamedTuple):
    """Replicas alike: `many` of them from replica `first` of the packing on, and the samples each does.

    Of replicas that share work, `samples` says only how their shares compare.
    """

    first: int
    many: int
    samples: int
    kind: Kind


def in_use(setting: Setting) -> frozenset[int]:
    """Return the replicas in use."""
    return frozenset(replica for first, many in setting.used for replica in range(first, first + many))


class Packer:
    """Chooses configurations for one policy by its batch rule; shared by the replays of that policy."""

    def __init__(
        self, shape: Shape, response: Response, batch: str, dp: int, reshard_overhead_frac: Fraction
    ) -> None:
        self.shape = shape
        self.response = response
        self.dp = dp
        self.reshard_overhead_frac = reshard_overhead_frac
        self.batch_samples = dp * shape.samples_per_replica
        self.most = shape.domain_size // shape.tp
        self.size = shape.groups_per_replica
        self._batch = batch
        self._rule = {"elastic": self._elastic, "pause": self._pause, "stretch": self._stretch}[batch]
        self.uses_partial: bool = getattr(response, "USES_PARTIAL", False)
        self._together: Callable[[Sequence[Alike]], Together] | None = getattr(response, "together", None)
        if self._together is not None:
            self._rule = self._jointly
        self._kinds: dict[tuple[tuple[Offer | None, ...], bool], Kind] = {}
        self._settings: dict[Hashable, Setting] = {}

    def setting(self, key: Hashable, replicas: Callable[[], list[Part]]) -> Setting:
        """Return the configuration remembered by `key`, else the one that these replicas yield."""
        found = self._settings.get(key)
        if found is None:
            found = self._settings[key] = self._described(*self._rule(self._within_facility(replicas())))
        return found

    def without(
        self, key: Hashable, setting: Setting, out: frozenset[int], replicas: Callable[[], list[Part]]
    ) -> Setting:
        """Return the configuration of the replicas in use of one, without some of them."""

        def left() -> list[Part]:
            kept = []
            for part in replicas():
                for first, many in setting.used:
                    begin, end = max(part.first, first), min(part.first + part.many, first + many)
                    for gap in (*sorted(replica for replica in out if begin <= replica < end), end):
                        if gap > begin:
                            kept.append(part._replace(first=begin, many=gap - begin))
                        begin = gap + 1
            return kept

        return self.setting((key, out), left)

    def part(self, first: int, many: int, offers: tuple[Offer | None, ...]) -> Part:
        """Return `many` replicas of these groups; None stands for an empty position."""
        kind = self._kind(offers, may_boost=True)
        return Part(first, many, kind.work.samples, kind)

    def _kind(self, offers: tuple[Offer | None, ...], *, may_boost: bool) -> Kind:
        found = self._kinds.get((offers, may_boost))
        if found is None:
            found = self._kinds[offers, may_boost] = self._new_kind(offers, may_boost=may_boost)
        return found

    def _new_kind(self, offers: tuple[Offer | None, ...], *, may_boost: bool) -> Kind:
        places = tuple(place for place, offer in enumerate(offers) if offer is not None)
        lacks = len(places) < len(offers)
        if lacks and not self.uses_partial:
            return Kind(offers, None, (), Work(0, None, ()), 0, Fraction(0), is_full=False, boosted=0)
        groups = tuple(offer for offer in offers if offer is not None)
        shape = self.shape if may_boost else self.shape.unboosted
        replica = Replica(groups, shape, places if lacks else None)
        work = self.response.work(replica)
        used = [
            (group.degree, power)
            for index, (group, power) in enumerate(zip(groups, work.powers, strict=True))
            if index not in work.idle
        ]
        return Kind(
            offers,
            replica,
            tuple(places[index] for index in sorted(work.idle)),
            work,
            gpus=sum(degree for degree, _ in used),
            power_gpus=sum((degree * power for degree, power in used), Fraction(0)),
            is_full=all(degree == self.shape.tp for degree, _ in used),
            boosted=sum(power > 1 for _, power in used),
        )

    def _within_facility(self, parts: list[Part]) -> list[Part]:
        """Boost replicas in packing order while the facility's cap on boosted domains lasts.

        A replica is boosted whole or not at all, because its slowest stage sets its pace; one that does not
        fit runs at normal power, and a later one that needs fewer domains may still fit. A domain has at most
        one reduced group, so boosted groups are boosted domains.
        """
        left = self.shape.boosted_domains
        if left is None:
            return parts
        found = []
        for part in parts:
            many = min(part.many, left // part.kind.boosted) if part.kind.boosted else part.many
            left -= many * part.kind.boosted
            if many:
                found.append(part._replace(many=many))
            if many < part.many:
                kind = self._kind(part.kind.offers, may_boost=False)
                found.append(Part(part.first + many, part.many - many, kind.work.samples, kind))
        return found

    def _first(self, parts: list[Part]) -> list[Part]:
        """Return the first DP replicas."""
        taken, room = [], self.dp
        for part in parts:
            if room <= 0:
                break
            taken.append(part._replace(many=min(part.many, room)))
            room -= part.many
        return taken

    def _jointly(self, parts: list[Part]) -> tuple[Fraction, list[Part]]:
        """Apply the batch rule to replicas that share work: the job has one pace and each a share of it."""
        able = [(part, part.kind.replica) for part in self._first(parts) if part.kind.replica is not None]
        assert self._together is not None, "the rule of a response with `together`"
        job = self._together([Alike(replica, part.many) for part, replica in able])
        in_budget = min(self.batch_samples, job.workers * int(self.shape.budget))
        if job.workers == 0:
            x_raw = Fraction(0)
        elif self._batch == "elastic":
            x_raw = Fraction(in_budget, self.batch_samples)
        elif self._batch == "pause":
            x_raw = Fraction(in_budget == self.batch_samples)
        else:
            x_raw = min(Fraction(1), self.shape.budget / -(-self.batch_samples // job.workers))
        if x_raw == 0:
            return x_raw, []
        whole = lcm(*(share.denominator for share in job.shares))
        shares = zip(able, job.shares, strict=True)
        return x_raw, [part._replace(samples=int(share * whole)) for (part, _), share in shares]

    def _elastic(self, parts: list[Part]) -> tuple[Fraction, list[Part]]:
        taken = self._first(parts)
        return Fraction(sum(part.samples * part.many for part in taken), self.batch_samples), taken

    def _pause(self, parts: list[Part]) -> tuple[Fraction, list[Part]]:
        taken = self._handed_out([(part, part.samples) for part in parts])
        done = sum(part.samples * part.many for part in taken)
        return (Fraction(1), taken) if done == self.batch_samples else (Fraction(0), [])

    def _stretch(self, parts: list[Part]) -> tuple[Fraction, list[Part]]:
        """Take the least f >= 1 at which the whole samples done in f * budget add up to the batch."""
        able = [part for part in self._first(parts) if part.kind.work.paces is not None]
        if not able:
            return Fraction(0), []
        time = max(self.shape.budget, self._least_time(able))
        most = [(part, _within(part.kind.work, time, self.shape.virtual_stages)) for part in able]
        return self.shape.budget / time, self._handed_out(most)

    def _least_time(self, parts: list[Part]) -> Fraction:
        """Return the least time by which the replicas together do the batch, whole samples each.

        The count of whole samples changes only where the time is some replica's time for n samples,
        so the answer is one of those; for each kind of replica, bisect over n.
        """
        wanted, stages = self.batch_samples, self.shape.virtual_stages

        def enough(time: Fraction) -> bool:
            return sum(part.many * _within(part.kind.work, time, stages) for part in parts) >= wanted

        times = []
        for fill, slowest in {_fill_and_pace(part.kind.work, stages) for part in parts}:
            few, many = 0, wanted
            while few < many:
                middle = (few + many) // 2
                if enough(fill + middle * slowest):
                    many = middle
                else:
                    few = middle + 1
            times.append(fill + few * slowest)
        return min(time for time in times if enough(time))

    def _handed_out(self, most: list[tuple[Part, int]]) -> list[Part]:
        """Give the batch's samples to replicas in order, at most so many each, until none is missing."""
        missing, taken = self.batch_samples, []
        for part, each in most:
            if each == 0 or missing == 0:
                continue
            count = min(part.many, missing // each)
            if count:
                taken.append(part._replace(many=count, samples=each))
                missing -= count * each
            if count < part.many and missing:
                taken.append(Part(part.first + count, 1, missing, part.kind))
                missing = 0
        return taken

    def _described(self, x_raw: Fraction, parts: list[Part]) -> Setting:
        used = [part for part in parts if part.samples > 0]
        done = sum(part.samples * part.many for part in used)
        # Work of one sample in GPUs, kept as numerator and denominator: integers are much faster.
        job_gpus = self.dp * self.shape.groups_per_replica * self.shape.tp
        per_sample = x_raw * job_gpus / done if done else Fraction(0)
        above, below = per_sample.numerator, per_sample.denominator
        gpus_used, gain, power, resharding = 0, 0, Fraction(0), False
        for _, many, samples, kind in used:
            gpus_used += many * kind.gpus
            power += many * kind.power_gpus
            gain += many * max(0, samples * above - kind.gpus * below)
            resharding = resharding or not kind.is_full
        x = x_raw / (1 + self.reshard_overhead_frac) if resharding else x_raw
        runs = tuple((part.first, part.many) for part in used)
        idle = frozenset(
            (part.first + index) * self.size + place
            for part in used
            for place in part.kind.idle
            for index in range(part.many)
        )
        replicas = sum(part.many for part in used)
        return Setting(x_raw, x, replicas, runs, Fraction(gain, below), gpus_used, power, idle)


def _fill_and_pace(work: Work, virtual_stages: int) -> tuple[Fraction, Fraction]:
    """Return the pipeline's fill time and the slowest stage's pace: tau(n) = fill + n * pace."""
    paces = work.paces or ()
    slowest = max(paces)
    return (sum(paces) - slowest) / virtual_stages, slowest


def _within(work: Work, time: Fraction, virtual_stages: int) -> int:
    """Return the whole samples a replica can do within a time, not capped at its share."""
    fill, slowest = _fill_and_pace(work, virtual_stages)
    return max(0, (time - fill) // slowest)
