"""From the capacity of domains to a configuration: packing, then the batch rule.

Capability (model.md section 4): with k failed GPUs a domain of G offers floor((G-k)/TP) full groups
and, when the response can use it, one reduced group. `packed`: all groups in order of degree,
largest first, ties by domain, are cut into replicas. A configuration is what packing and the batch
rule yield; there is no search. It depends only on the sequence of offers, so it is remembered by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

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
class _Kind:
    """A kind of replica: what it does, and the GPUs, full groups and power of its groups."""

    work: Work
    gpus: int
    full_groups: int
    power_gpus: Fraction
    is_full: bool


class _Part(NamedTuple):
    """Replicas alike: `many` of them from replica `first` of the packing on, and the samples each does."""

    first: int
    many: int
    samples: int
    kind: _Kind


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
        self._kinds: dict[tuple[Offer, ...], _Kind] = {}
        self._settings: dict[tuple[int, tuple[Offer, ...]], Setting] = {}

    def setting(self, full: int, reduced: tuple[Offer, ...]) -> Setting:
        """Return the configuration for `full` full groups and these reduced groups, in packed order."""
        key = (full, reduced)
        found = self._settings.get(key)
        if found is None:
            x_raw, parts = self._rule(self._replicas(full, reduced))
            found = self._settings[key] = self._described(x_raw, parts, full)
        return found

    def _replicas(self, full: int, reduced: tuple[Offer, ...]) -> list[_Part]:
        """Cut the packed sequence into replicas; those of full groups only are one part."""
        size = self.shape.groups_per_replica
        whole = full // size
        parts = []
        if whole:
            kind = self._kind((Offer(self.shape.tp),) * size)
            parts.append(_Part(0, whole, kind.work.samples, kind))
        for index in range(whole, (full + len(reduced)) // size):
            first = index * size - full
            kind = self._kind(
                (Offer(self.shape.tp),) * max(0, -first) + reduced[max(0, first) : first + size]
            )
            parts.append(_Part(index, 1, kind.work.samples, kind))
        return parts

    def _kind(self, offers: tuple[Offer, ...]) -> _Kind:
        found = self._kinds.get(offers)
        if found is None:
            work = self.response.work(Replica(offers, self.shape))
            degrees = [offer.degree for offer in offers]
            full = degrees.count(self.shape.tp)
            power = sum((d * p for d, p in zip(degrees, work.powers, strict=True)), Fraction(0))
            found = self._kinds[offers] = _Kind(work, sum(degrees), full, power, full == len(degrees))
        return found

    def _first(self, parts: list[_Part]) -> list[_Part]:
        """Return the first DP replicas."""
        taken, room = [], self.dp
        for part in parts:
            if room <= 0:
                break
            taken.append(part._replace(many=min(part.many, room)))
            room -= part.many
        return taken

    def _elastic(self, parts: list[_Part]) -> tuple[Fraction, list[_Part]]:
        taken = self._first(parts)
        return Fraction(sum(part.samples * part.many for part in taken), self.batch_samples), taken

    def _pause(self, parts: list[_Part]) -> tuple[Fraction, list[_Part]]:
        taken = self._handed_out([(part, part.samples) for part in parts])
        done = sum(part.samples * part.many for part in taken)
        return (Fraction(1), taken) if done == self.batch_samples else (Fraction(0), [])

    def _stretch(self, parts: list[_Part]) -> tuple[Fraction, list[_Part]]:
        """Take the least f >= 1 at which the whole samples done in f * budget add up to the batch."""
        able = [part for part in self._first(parts) if part.kind.work.paces is not None]
        if not able:
            return Fraction(0), []
        time = max(self.shape.budget, self._least_time(able))
        most = [(part, _within(part.kind.work, time, self.shape.virtual_stages)) for part in able]
        return self.shape.budget / time, self._handed_out(most)

    def _least_time(self, parts: list[_Part]) -> Fraction:
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

    def _handed_out(self, most: list[tuple[_Part, int]]) -> list[_Part]:
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
                taken.append(_Part(part.first + count, 1, missing, part.kind))
                missing = 0
        return taken

    def _described(self, x_raw: Fraction, parts: list[_Part], full: int) -> Setting:
        size = self.shape.groups_per_replica
        used = [part for part in parts if part.samples > 0]
        done = sum(part.samples * part.many for part in used)
        # Work of one sample in GPUs, kept as numerator and denominator: integers are much faster.
        per_sample = x_raw * self.dp * size * self.shape.tp / done if done else Fraction(0)
        above, below = per_sample.numerator, per_sample.denominator
        full_used, reduced_used, gpus_used, gain = 0, list[int](), 0, 0
        power, resharding = Fraction(0), False
        for first, many, samples, kind in used:
            full_used += many * kind.full_groups
            gpus_used += many * kind.gpus
            power += many * kind.power_gpus
            gain += many * max(0, samples * above - kind.gpus * below)
            if not kind.is_full:
                resharding = True
                place = first * size - full
                reduced_used += range(max(0, place), place + size)
        x = x_raw / (1 + self.reshard_overhead_frac) if resharding else x_raw
        replicas = sum(part.many for part in used)
        return Setting(
            x_raw, x, replicas, full_used, tuple(reduced_used), Fraction(gain, below), gpus_used, power
        )


def _fill_and_pace(work: Work, virtual_stages: int) -> tuple[Fraction, Fraction]:
    """Return the pipeline's fill time and the slowest stage's pace: tau(n) = fill + n * pace."""
    paces = work.paces or ()
    slowest = max(paces)
    return (sum(paces) - slowest) / virtual_stages, slowest


def _within(work: Work, time: Fraction, virtual_stages: int) -> int:
    """Return the whole samples a replica can do within a time, not capped at its share."""
    fill, slowest = _fill_and_pace(work, virtual_stages)
    return max(0, (time - fill) // slowest)
