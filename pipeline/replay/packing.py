"""From the capacity of domains to a configuration: packing, then the batch rule.

Capability (model.md section 4): with k failed GPUs a domain of G offers floor((G-k)/TP) full groups
and, when the response can use it, one reduced group. `packed`: all groups in order of degree,
largest first, ties by domain, are cut into replicas. A configuration is what packing and the batch
rule yield; there is no search. It depends only on the sequence of offers, so it is remembered by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from pipeline.replay.contract import Offer, Replica, Response, Shape, Work


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


@dataclass(frozen=True)
class Setting:
    """A configuration: its throughput, and which groups of the packed sequence are in use.

    `x_raw` and `x` are throughput relative to the healthy job, before and after resharding. The
    groups in use are the first `full_used` full groups and the reduced groups at `reduced_used`.
    `gain_gpus` is work beyond the number of GPUs; `power_gpus` sums degree times power in TDP.
    """

    x_raw: Fraction
    x: Fraction
    replicas: int
    full_used: int
    reduced_used: tuple[int, ...]
    gain_gpus: Fraction
    gpus_used: int
    power_gpus: Fraction


@dataclass(frozen=True)
class _Taken:
    """A replica the job takes: its place in the packing, its samples, and its work."""

    index: int
    samples: int
    work: Work


class Packer:
    """Chooses configurations for one policy: packed groups, one batch rule."""

    def __init__(
        self, shape: Shape, response: Response, batch: str, dp: int, reshard_overhead_frac: Fraction
    ) -> None:
        self.shape = shape
        self.response = response
        self.batch = batch
        self.dp = dp
        self.reshard_overhead_frac = reshard_overhead_frac
        self._works: dict[tuple[Offer, ...], Work] = {}
        self._settings: dict[tuple[int, tuple[Offer, ...]], Setting] = {}

    def setting(self, full: int, reduced: tuple[Offer, ...]) -> Setting:
        """Return the configuration for `full` full groups and these reduced groups, in packed order."""
        key = (full, reduced)
        found = self._settings.get(key)
        if found is None:
            found = self._settings[key] = self._choose(full, reduced)
        return found

    def _work(self, index: int, full: int, reduced: tuple[Offer, ...]) -> Work:
        size = self.shape.groups_per_replica
        first, last = index * size, (index + 1) * size
        wholes = max(0, min(last, full) - first)
        offers = (Offer(self.shape.tp),) * wholes + reduced[max(0, first - full) : max(0, last - full)]
        found = self._works.get(offers)
        if found is None:
            found = self._works[offers] = self.response.work(Replica(offers, self.shape))
        return found

    def _choose(self, full: int, reduced: tuple[Offer, ...]) -> Setting:
        count = (full + len(reduced)) // self.shape.groups_per_replica
        works = [self._work(index, full, reduced) for index in range(count)]
        rule = {"elastic": self._elastic, "pause": self._pause, "stretch": self._stretch}[self.batch]
        x_raw, taken = rule(works)
        return self._described(x_raw, [item for item in taken if item.samples > 0], full, reduced)

    def _elastic(self, works: list[Work]) -> tuple[Fraction, list[_Taken]]:
        taken = [_Taken(i, work.samples, work) for i, work in enumerate(works[: self.dp])]
        return Fraction(sum(item.samples for item in taken), self._batch_samples), taken

    def _pause(self, works: list[Work]) -> tuple[Fraction, list[_Taken]]:
        missing, taken = self._batch_samples, []
        for index, work in enumerate(works):
            samples = min(work.samples, missing)
            taken.append(_Taken(index, samples, work))
            missing -= samples
            if missing == 0:
                return Fraction(1), taken
        return Fraction(0), []

    def _stretch(self, works: list[Work]) -> tuple[Fraction, list[_Taken]]:
        """Find the least f >= 1 at which the whole samples done in f * budget add up to the batch.

        Whole samples change only where f * budget equals some replica's time for n samples, so the
        answer is 1 or one of those times; bisect over f, then take the nearest such time from above.
        """
        able = [(i, work) for i, work in enumerate(works[: self.dp]) if work.paces is not None]
        if not able:
            return Fraction(0), []
        budget = self.shape.budget
        replica = Replica((), self.shape)

        def done(time: Fraction) -> list[int]:
            return [replica.samples_within(work.paces or (), time) for _, work in able]

        time = budget
        if sum(done(time)) < self._batch_samples:
            time = self._least_time([work for _, work in able])
        missing, taken = self._batch_samples, []
        for (index, work), most in zip(able, done(time), strict=True):
            samples = min(most, missing)
            taken.append(_Taken(index, samples, work))
            missing -= samples
        return budget / time, taken

    def _least_time(self, works: list[Work]) -> Fraction:
        """Return the least time by which the replicas together do the batch, whole samples each."""
        fills, slowest = [], []
        for work in works:
            paces = work.paces or ()
            slowest.append(max(paces))
            fills.append((sum(paces) - max(paces)) / self.shape.virtual_stages)
        wanted = self._batch_samples

        def enough(time: Fraction) -> bool:
            return sum(max(0, (time - fill) // slow) for fill, slow in zip(fills, slowest, strict=True)) >= wanted

        low, high = Fraction(0), max(fills) + wanted * max(slowest)
        candidates = sorted(set(zip(fills, slowest, strict=True)))
        best = high
        for fill, slow in candidates:
            few, many = 0, int((high - fill) // slow) + 1
            while few < many:
                middle = (few + many) // 2
                if enough(fill + middle * slow):
                    many = middle
                else:
                    few = middle + 1
            best = min(best, fill + few * slow)
        return max(best, low)

    @property
    def _batch_samples(self) -> int:
        return self.dp * self.shape.samples_per_replica

    def _described(
        self, x_raw: Fraction, used: list[_Taken], full: int, reduced: tuple[Offer, ...]
    ) -> Setting:
        size, tp = self.shape.groups_per_replica, self.shape.tp
        job_gpus = self.dp * size * tp
        full_used, reduced_used, gpus_used = 0, list[int](), 0
        gain, power = Fraction(0), Fraction(0)
        resharding = False
        for item in used:
            places = range(item.index * size, (item.index + 1) * size)
            degrees = [tp if place < full else reduced[place - full].degree for place in places]
            full_used += sum(place < full for place in places)
            reduced_used += [place - full for place in places if place >= full]
            gpus_used += sum(degrees)
            resharding = resharding or min(degrees) < tp
            share = Fraction(item.samples, sum(other.samples for other in used)) if x_raw else Fraction(0)
            gain += max(Fraction(0), x_raw * job_gpus * share - sum(degrees))
            power += sum(d * p for d, p in zip(degrees, item.work.powers, strict=True))
        x = x_raw / (1 + self.reshard_overhead_frac) if resharding else x_raw
        return Setting(x_raw, x, len(used), full_used, tuple(reduced_used), gain, gpus_used, power)
