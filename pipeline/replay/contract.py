"""What a response sees and gives back; the pace and power of groups.

A response is a module in `responses/` (its name is the file's stem, with - for _):

    USES_REDUCED: bool              may its replicas hold groups of a reduced TP degree?
    USES_POWER: bool                do its groups draw more than their design power?
    BATCHES: tuple[str, ...]        the batch rules it allows, its default first
    work(replica) -> Work           what one replica contributes

It is judged by what it returns and keeps no state. Numbers are exact fractions, so that "within
the budget" includes equality. One sample is one microbatch. Pace: time of one microbatch of one
stage, in units of a healthy group; the ideal law c(t) = TP/t is flattering where heads or shards
do not divide (model.md section 5). Power is in multiples of TDP.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
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

    @property
    def groups_per_replica(self) -> int:
        """TP groups in a replica."""
        return self.pp * self.cp

    @property
    def budget(self) -> Fraction:
        """Time of a healthy replica's iteration, in microbatch times of a healthy group."""
        return self.samples_per_replica + Fraction(self.pp - 1, self.virtual_stages)

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
        needed = self.power_for(Fraction(self.tp, offer.degree))
        return limit if needed is None else min(needed, limit)


@dataclass(frozen=True)
class Replica:
    """One replica as packing made it: its groups, stage by stage, `cp` groups a stage."""

    groups: tuple[Offer, ...]
    shape: Shape

    @property
    def is_full(self) -> bool:
        """Whether every group has the full TP degree."""
        return all(group.degree == self.shape.tp for group in self.groups)

    def paces(self, powers: Sequence[Fraction]) -> tuple[Fraction, ...]:
        """Return the pace of each stage: that of its slowest group, never faster than healthy."""
        tp, cp = self.shape.tp, self.shape.cp
        one = [
            Fraction(tp, group.degree) / self.shape.speed(power)
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

    `paces` is None when the replica does nothing at all, even with more time.
    """

    samples: int
    paces: tuple[Fraction, ...] | None
    powers: tuple[Fraction, ...]


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
