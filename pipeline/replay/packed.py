"""Packing `packed`: the pool's groups in order of degree, largest first, ties by domain, cut into replicas.

Incomplete replicas are left over, unless the response can use one. Capacity is followed step by step: what
domains lack and the reduced groups they offer are kept sorted, so a choice costs what is wounded, not what
is there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass
from functools import cached_property

from pipeline.replay.contract import Offer
from pipeline.replay.packing import Capability, Packer, Part, Setting, in_use


@dataclass(eq=False)
class PackedChoice:
    """Full groups in use are all before domain `reached` and the first `partly` of it.

    `reduced` holds (degree, replica) of the reduced groups in use by domain; `lacking`, `full_groups` and
    `offers` are what it was chosen from, as `Packed` keeps them.
    """

    setting: Setting
    packer: Packer
    reached: int
    partly: int
    reduced: dict[int, tuple[int, int]]
    lacking: tuple[tuple[int, int], ...]
    full_groups: int
    offers: tuple[Offer, ...]

    @cached_property
    def _in_use(self) -> frozenset[int]:
        return in_use(self.setting)

    def groups(self, domain: int, can: Capability) -> tuple[int, int]:
        """Return full groups and the reduced degree in use of a domain."""
        partly = self.partly if domain == self.reached else 0
        return can.full if domain < self.reached else partly, self.reduced.get(domain, (0, 0))[0]

    def replicas(self, domain: int, can: Capability) -> list[tuple[int, int]]:
        """Return (replica, degree) of the groups in use of a domain, in packing order."""
        shape = self.packer.shape
        first = domain * self.packer.most - sum(fewer for before, fewer in self.lacking if before < domain)
        places = (place for place in range(first, first + can.full) if place not in self.setting.idle)
        found = [(place // shape.groups_per_replica, shape.tp) for place in places]
        if domain in self.reduced:
            degree, replica = self.reduced[domain]
            found.append((replica, degree))
        return [group for group in found if group[0] in self._in_use]

    def without(self, out: frozenset[int]) -> Setting:
        """Return what the batch rule yields from the replicas in use without some."""
        key = (self.full_groups, self.offers)
        return self.packer.without(key, self.setting, out, lambda: _cut(self.packer, *key))


class Packed:
    """The pool's groups, in packed order."""

    def __init__(self, packer: Packer, domains: int) -> None:
        self.packer = packer
        self.most = packer.most
        self.full_groups = domains * packer.most
        # In order: domains that lack full groups (domain, how many); reduced groups as packing sorts
        # them (-degree, domain, full groups beside), and the offers they make.
        self.lacking: list[tuple[int, int]] = []
        self.reduced: list[tuple[int, int, int]] = []
        self.offers: list[Offer] = []

    def change(self, domain: int, old: Capability, new: Capability) -> None:
        """Note that a domain offers something else."""
        self.full_groups += new.full - old.full
        if old.full < self.most:
            self._forget(domain, old)
        if new.full < self.most:
            self._note(domain, new)

    def _note(self, domain: int, can: Capability) -> None:
        insort(self.lacking, (domain, self.most - can.full))
        if can.reduced:
            place = bisect_left(self.reduced, _order(domain, can))
            self.reduced.insert(place, _order(domain, can))
            self.offers.insert(place, Offer(can.reduced, can.full))

    def _forget(self, domain: int, can: Capability) -> None:
        del self.lacking[bisect_left(self.lacking, (domain, self.most - can.full))]
        if can.reduced:
            place = bisect_left(self.reduced, _order(domain, can))
            del self.reduced[place], self.offers[place]

    def candidate(self) -> Setting:
        """Return the configuration that the capacity now yields."""
        return self._setting(self.full_groups, tuple(self.offers))

    def _setting(self, full: int, offers: tuple[Offer, ...]) -> Setting:
        return self.packer.setting((full, offers), lambda: _cut(self.packer, full, offers))

    def choose(self) -> PackedChoice:
        """Return the configuration with the groups it uses."""
        size, full, offers = self.packer.size, self.full_groups, tuple(self.offers)
        setting, full_used = self._setting(full, offers), 0
        reduced: dict[int, tuple[int, int]] = {}
        for first, many in setting.used:
            begin, end = first * size, min((first + many) * size, full + len(self.reduced))
            while end - 1 in setting.idle:
                end -= 1
            if begin < full:
                full_used = max(full_used, min(end, full))
            for place in range(max(begin, full), end):
                minus, domain, _ = self.reduced[place - full]
                reduced[domain] = -minus, place // size
        reached, partly = self._reached(full_used)
        lacking = tuple(self.lacking)
        return PackedChoice(setting, self.packer, reached, partly, reduced, lacking, full, offers)

    def _reached(self, groups: int) -> tuple[int, int]:
        """Return (domain, n): so many full groups are all before `domain` and the first n of it."""
        gone = 0
        for domain, fewer in self.lacking:
            if domain * self.most - gone >= groups:
                break
            gone += fewer
            if (domain + 1) * self.most - gone >= groups:
                return domain, groups - (domain * self.most - gone + fewer)
        return divmod(groups + gone, self.most)


def _order(domain: int, can: Capability) -> tuple[int, int, int]:
    """Return what packing sorts a domain's reduced group by."""
    return -can.reduced, domain, can.full


def _cut(packer: Packer, full: int, reduced: tuple[Offer, ...]) -> list[Part]:
    """Cut the sequence of groups into replicas; those of full groups only are one part.

    What is left over forms one more, its last positions empty, where the response has a use for it.
    """
    size, one = packer.shape.groups_per_replica, Offer(packer.shape.tp)
    whole = full // size
    parts = [packer.part(0, whole, (one,) * size)] if whole else []
    for index in range(whole, (full + len(reduced)) // size):
        first = index * size - full
        offers = (one,) * max(0, -first) + reduced[max(0, first) : first + size]
        parts.append(packer.part(index, 1, offers))
    index, rest = divmod(full + len(reduced), size)
    if rest and packer.uses_partial:
        few = min(rest, len(reduced))
        offers = (one,) * (rest - few) + reduced[len(reduced) - few :]
        parts.append(packer.part(index, 1, offers + (None,) * (size - rest)))
    return parts
