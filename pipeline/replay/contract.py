"""What a response sees and gives back; the pace and power of groups.

A response is a module in `responses/` (its name is the file's stem, with - for _):

    USES_REDUCED: bool              may its replicas hold groups of a reduced TP degree?
    USES_POWER: bool                do its groups draw more than their design power?
    BATCHES: tuple[str, ...]        the batch rules it allows, its default first
    work(replica) -> Work           what one replica contributes

and, where it needs more than that:

    USES_PARTIAL: bool              may its replicas lack groups? Left out: such a replica does nothing
    USES_TEMPLATES: bool            do its replicas run with fewer stages (`Shape.templates`)? Left out: no
    together(replicas) -> Together  what replicas do as one, for a response whose replicas share work

It is judged by what it returns and keeps no state. Numbers are exact fractions, so that "within
the budget" includes equality. One sample is one microbatch. Pace: time of one microbatch of one
stage, in units of a healthy group; the ideal law c(t) = TP/t is flattering where heads or shards
do not divide (model.md section 5), `Shape.slowdown` holds what is known better. Power is in multiples of
TDP.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple, Protocol


class Offer(NamedTuple):
    """One TP group that a domain offers: its degree, and the full groups of that domain beside it."""

    degree: int
    full_beside: int = 0


@dataclass(frozen=True)
class Shape:
    """What the job and its machines look like to one replica."""

    tp: int
    pp: int
    cp: int
    samples_per_replica: int
    virtual_stages: int
    domain_size: int
    boost_cap: Fraction
    rack_headroom_frac: Fraction
    curve: tuple[tuple[Fraction, Fraction], ...]
    slowdown: Mapping[int, Fraction] = field(default_factory=dict, hash=False)
    boosted_domains: int | None = None  # the most domains boosted at once; None: all
    # Fewer stages that a replica may run with -> the pace of each of them, on full groups.
    templates: Mapping[int, Fraction] = field(default_factory=dict, hash=False)

    @property
    def unboosted(self) -> Shape:
        """The same job where no group may draw more than its design power."""
        return replace(self, boost_cap=Fraction(1))

    @property
    def groups_per_replica(self) -> int:
        """TP groups in a replica."""
        return self.pp * self.cp

    @property
    def budget(self) -> Fraction:
        """Time of a healthy replica's iteration, in microbatch times of a healthy group."""
        return self.samples_per_replica + Fraction(self.pp - 1, self.virtual_stages)

    def pace(self, degree: int) -> Fraction:
        """Return c(t), the pace of a group of this degree at normal power: as given, else TP/t."""
        return self.slowdown.get(degree) or Fraction(self.tp, degree)

    def speed(self, power: Fraction) -> Fraction:
        """Return the speed at a power (both relative to TDP): straight between the curve's points."""
        points = self.curve
        for (p0, s0), (p1, s1) in pairwise(points):
            if power <= p1:
                return s0 + (s1 - s0) * (power - p0) / (p1 - p0)
        return points[-1][1]

    def power_for(self, speed: Fraction) -> Fraction | None:
        """Return the least power that reaches a speed of at least 1, or None beyond the curve."""
        if speed <= 1:
            return Fraction(1)
        speeds = [point[1] for point in self.curve]
        after = bisect_left(speeds, speed)
        if after == len(speeds):
            return None
        (p0, s0), (p1, s1) = self.curve[after - 1], self.curve[after]
        return p0 + (p1 - p0) * (speed - s0) / (s1 - s0)

    def boost_limit(self, offer: Offer) -> Fraction:
        """Return the most power a group may draw in its rack, idle and dead GPUs drawing nothing.

        min(boost_cap, (G * (1 + rack_headroom_frac) - full groups beside * TP) / degree), model.md section 5.
        """
        rack = self.domain_size * (1 + self.rack_headroom_frac) - offer.full_beside * self.tp
        return min(self.boost_cap, rack / offer.degree)

    def boosted(self, offer: Offer) -> Fraction:
        """Return the power of a boosted group: the least for the healthy pace, else its limit."""
        if offer.degree >= self.tp:
            return Fraction(1)
        limit = self.boost_limit(offer)
        needed = self.power_for(self.pace(offer.degree))
        return limit if needed is None else min(needed, limit)


@dataclass(frozen=True)
class Replica:
    """One replica as packing made it: its groups, stage by stage, `cp` groups a stage.

    `places` are the positions of its groups when some positions are empty, else None.
    """

    groups: tuple[Offer, ...]
    shape: Shape
    places: tuple[int, ...] | None = None

    @property
    def is_full(self) -> bool:
        """Whether every group has the full TP degree."""
        return all(group.degree == self.shape.tp for group in self.groups)

    @property
    def whole_stages(self) -> tuple[int, ...]:
        """The stages that have all their groups, each of the full TP degree."""
        places = range(len(self.groups)) if self.places is None else self.places
        cp, tp = self.shape.cp, self.shape.tp
        full = Counter(
            place // cp for place, group in zip(places, self.groups, strict=True) if group.degree == tp
        )
        return tuple(stage for stage in range(self.shape.pp) if full[stage] == cp)

    def paces(self, powers: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Return the pace of each stage: that of its slowest group, never faster than healthy."""
        cp = self.shape.cp
        one = [
            self.shape.pace(group.degree) / self.shape.speed(power)
            for group, power in zip(self.groups, powers, strict=True)
        ]
        return tuple(max(Fraction(1), *one[first : first + cp]) for first in range(0, len(one), cp))

    def samples_within(self, paces: Sequence[Fraction], budget: Fraction) -> int:
        """Return the most whole samples n with n*max(c) + (sum(c) - max(c))/v within the budget."""
        slowest = max(paces)
        fill = (sum(paces) - slowest) / self.shape.virtual_stages
        return max(0, (budget - fill) // slowest)


@dataclass(frozen=True)
class Work:
    """What a replica contributes: samples in the healthy budget, its stages' paces, its groups' power.

    `paces` is None when the replica does nothing at all, even with more time. `idle` are the groups, by
    their place in `Replica.groups`, that it has no use for; they take part in nothing. Where only the last
    positions of a replica are empty, they are its last groups.
    """

    samples: int
    paces: tuple[Fraction, ...] | None
    powers: tuple[Fraction, ...]
    idle: frozenset[int] = frozenset()


class Alike(NamedTuple):
    """Replicas of the job that are alike."""

    replica: Replica
    many: int


@dataclass(frozen=True)
class Together:
    """What a job's replicas do as one, each stage by all that have it.

    n samples take ceil(n / workers) microbatch times of a healthy group, and no less than a healthy
    iteration. `shares` is the part of the work that one replica of each `Alike` does.
    """

    workers: int
    shares: tuple[Fraction, ...]


class Response(Protocol):
    """The module contract of a response."""

    USES_REDUCED: bool
    USES_POWER: bool
    BATCHES: tuple[str, ...]

    def work(self, replica: Replica) -> Work:
        """Return what one replica contributes."""
        ...


def healthy(replica: Replica) -> Work:
    """Return the work of a replica whose groups are all full."""
    one = Fraction(1)
    shape = replica.shape
    return Work(shape.samples_per_replica, (one,) * shape.pp, (one,) * len(replica.groups))


def nothing(replica: Replica) -> Work:
    """Return the work of a replica that is left out."""
    return Work(0, None, (Fraction(1),) * len(replica.groups))


def reduced(replica: Replica, powers: tuple[Fraction, ...]) -> Work:
    """Return the work of a replica that runs at the degrees it has, at these powers."""
    paces = replica.paces(powers)
    fits = replica.samples_within(paces, replica.shape.budget)
    return Work(min(fits, replica.shape.samples_per_replica), paces, powers)


def fewer_stages(replica: Replica) -> Work:
    """Return the work of a replica that runs with the most stages its full groups and the templates allow."""
    shape, one = replica.shape, Fraction(1)
    full = [index for index, group in enumerate(replica.groups) if group.degree == shape.tp]
    stages = max((stages for stages in shape.templates if stages * shape.cp <= len(full)), default=0)
    idle = frozenset(range(len(replica.groups))) - frozenset(full[: stages * shape.cp])
    powers = (one,) * len(replica.groups)
    if stages == 0:
        return Work(0, None, powers, idle)
    paces = (max(one, shape.templates[stages]),) * stages
    fits = replica.samples_within(paces, shape.budget)
    return Work(min(fits, shape.samples_per_replica), paces, powers, idle)
