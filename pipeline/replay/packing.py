"""From the capacity of domains to a configuration: packing, then the batch rule.

Capability (model.md section 4): with k failed GPUs a domain of G offers floor((G-k)/TP) full groups
and, when the response can use it, one reduced group. `packed`: all groups in order of degree,
largest first, ties by domain, are cut into replicas. A configuration is what packing and the batch
rule yield; there is no search. It depends only on the sequence of offers, so it is remembered by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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


@dataclass(frozen=True, eq=False)
class Setting:
    """A configuration: its throughput, and which groups of the packed sequence are in use.

    Compared by identity: a packer makes one object per sequence of offers, and ledgers count by it.

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
class _Part:
    """Replicas alike: `count` of them from place `index` of the packing, samples each, and their work."""

    index: int
    count: int
    samples: int
    work: Work


class Packer:
    """Chooses configurations for one policy: packed groups, one batch rule."""

    def __init__(
        self, shape: Shape, response: Response, batch: str, dp: int, reshard_overhead_frac: Fraction
    ) -> None:
        self.shape = shape
        self.response = response
        self.dp = dp
        self.reshard_overhead_frac = reshard_overhead_frac
        self.batch_samples = dp * shape.samples_per_replica
        self._rule = {"elastic": self._elastic, "pause": self._pause, "stretch": self._stretch}[batch]
        self._works: dict[tuple[Offer, ...], Work] = {}
        self._settings: dict[tuple[int, tuple[Offer, ...]], Setting] = {}

    def setting(self, full: int, reduced: tuple[Offer, ...]) -> Setting:
        """Return the configuration for `full` full groups and these reduced groups, in packed order."""
        key = (full, reduced)
        found = self._settings.get(key)
        if found is None:
            x_raw, parts = self._rule(self._replicas(full, reduced))
            found = self._settings[key] = self._described(x_raw, parts, full, reduced)
        return found

    def _replicas(self, full: int, reduced: tuple[Offer, ...]) -> list[_Part]:
        """Cut the packed sequence into replicas; those of full groups only are one part."""
        size = self.shape.groups_per_replica
        whole = full // size
        parts = []
        if whole:
            offers = (Offer(self.shape.tp),) * size
            work = self._work(offers)
            parts.append(_Part(0, whole, work.samples, work))
        for index in range(whole, (full + len(reduced)) // size):
            first = index * size - full
            offers = (Offer(self.shape.tp),) * max(0, -first) + reduced[max(0, first) : first + size]
            work = self._work(offers)
            parts.append(_Part(index, 1, work.samples, work))
        return parts

    def _work(self, offers: tuple[Offer, ...]) -> Work:
        found = self._works.get(offers)
        if found is None:
            found = self._works[offers] = self.response.work(Replica(offers, self.shape))
        return found

    def _first(self, parts: list[_Part]) -> list[_Part]:
        """Return the first DP replicas."""
        taken, room = [], self.dp
        for part in parts:
            if room <= 0:
                break
            taken.append(replace(part, count=min(part.count, room)))
            room -= part.count
        return taken

    def _elastic(self, parts: list[_Part]) -> tuple[Fraction, list[_Part]]:
        taken = self._first(parts)
        return Fraction(sum(part.samples * part.count for part in taken), self.batch_samples), taken

    def _pause(self, parts: list[_Part]) -> tuple[Fraction, list[_Part]]:
        taken = self._handed_out([(part, part.samples) for part in parts])
        done = sum(part.samples * part.count for part in taken)
        return (Fraction(1), taken) if done == self.batch_samples else (Fraction(0), [])

    def _stretch(self, parts: list[_Part]) -> tuple[Fraction, list[_Part]]:
        """Take the least f >= 1 at which the whole samples done in f * budget add up to the batch."""
        able = [part for part in self._first(parts) if part.work.paces is not None]
        if not able:
            return Fraction(0), []
        time = max(self.shape.budget, self._least_time(able))
        most = [(part, _within(part.work, time, self.shape.virtual_stages)) for part in able]
        return self.shape.budget / time, self._handed_out(most)

    def _least_time(self, parts: list[_Part]) -> Fraction:
        """Return the least time by which the replicas together do the batch, whole samples each.

        The count of whole samples changes only where the time is some replica's time for n samples,
        so the answer is one of those; for each kind of replica, bisect over n.
        """
        wanted, stages = self.batch_samples, self.shape.virtual_stages

        def enough(time: Fraction) -> bool:
            return sum(part.count * _within(part.work, time, stages) for part in parts) >= wanted

        times = []
        for fill, slowest in {_fill_and_pace(part.work, stages) for part in parts}:
            few, many = 0, wanted
            while few < many:
                middle = (few + many) // 2
                if enough(fill + middle * slowest):
                    many = middle
                else:
                    few = middle + 1
            times.append(fill + few * slowest)
        return min(time for time in times if enough(time))

    def _handed_out(self, most: list[tuple[_Part, int]]) -> list[_Part]:
        """Give the batch's samples to replicas in order, at most so many each, until none is missing."""
        missing, taken = self.batch_samples, []
        for part, each in most:
            if each == 0 or missing == 0:
                continue
            count = min(part.count, missing // each)
            if count:
                taken.append(replace(part, count=count, samples=each))
                missing -= count * each
            if count < part.count and missing:
                taken.append(replace(part, index=part.index + count, count=1, samples=missing))
                missing = 0
        return taken

    def _described(
        self, x_raw: Fraction, parts: list[_Part], full: int, reduced: tuple[Offer, ...]
    ) -> Setting:
        size, tp = self.shape.groups_per_replica, self.shape.tp
        used = [part for part in parts if part.samples > 0]
        done = sum(part.samples * part.count for part in used)
        job_gpus = x_raw * self.dp * size * tp
        full_used, reduced_used, gpus_used = 0, list[int](), 0
        gain, power, resharding = Fraction(0), Fraction(0), False
        for part in used:
            places = range(part.index * size, (part.index + 1) * size)
            degrees = [tp if place < full else reduced[place - full].degree for place in places]
            gpus = sum(degrees)
            full_used += part.count * sum(place < full for place in places)
            reduced_used += [place - full for place in places if place >= full]
            gpus_used += part.count * gpus
            resharding = resharding or min(degrees) < tp
            gain += part.count * max(Fraction(0), job_gpus * part.samples / done - gpus)
            power += part.count * sum(d * p for d, p in zip(degrees, part.work.powers, strict=True))
        x = x_raw / (1 + self.reshard_overhead_frac) if resharding else x_raw
        replicas = sum(part.count for part in used)
        return Setting(x_raw, x, replicas, full_used, tuple(reduced_used), gain, gpus_used, power)


def _fill_and_pace(work: Work, virtual_stages: int) -> tuple[Fraction, Fraction]:
    """Return the pipeline's fill time and the slowest stage's pace: tau(n) = fill + n * pace."""
    paces = work.paces or ()
    slowest = max(paces)
    return (sum(paces) - slowest) / virtual_stages, slowest


def _within(work: Work, time: Fraction, virtual_stages: int) -> int:
    """Return the whole samples a replica can do within a time, not capped at its share."""
    fill, slowest = _fill_and_pace(work, virtual_stages)
    return max(0, (time - fill) // slowest)
