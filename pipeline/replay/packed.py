"""Packing `packed`: the pool's groups in order of degree, largest first, ties by domain, cut into replicas.

Incomplete replicas are left over. Capacity is followed step by step: what domains lack and the
reduced groups they offer are kept sorted, so a choice costs what is wounded, not what is there.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass

from pipeline.replay.contract import Offer
from pipeline.replay.packing import Capability, Packer, Part, Setting


@dataclass(frozen=True)
class PackedChoice:
    """Full groups in use are all before domain `reached` and the first `partly` of it."""

    setting: Setting
    reached: int
    partly: int
    reduced: dict[int, int]

    def groups(self, domain: int, can: Capability) -> tuple[int, int]:
        """Return full groups and the reduced degree in use of a domain."""
        partly = self.partly if domain == self.reached else 0
        return can.full if domain < self.reached else partly, self.reduced.get(domain, 0)


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
        offers = tuple(self.offers)
        return self.packer.setting((self.full_groups, offers), lambda: self._replicas(offers))

    def _replicas(self, reduced: tuple[Offer, ...]) -> list[Part]:
        """Cut the sequence into replicas; those of full groups only are one part."""
        size, full = self.packer.shape.groups_per_replica, self.full_groups
        whole = full // size
        one = Offer(self.packer.shape.tp)
        parts = [self.packer.part(0, whole, (one,) * size)] if whole else []
        for index in range(whole, (full + len(reduced)) // size):
            first = index * size - full
            offers = (one,) * max(0, -first) + reduced[max(0, first) : first + size]
            parts.append(self.packer.part(index, 1, offers))
        return parts

    def choose(self) -> PackedChoice:
        """Return the configuration with the groups it uses."""
        setting, size, full = self.candidate(), self.packer.shape.groups_per_replica, self.full_groups
        full_used, reduced = 0, {}
        for first, many in setting.used:
            begin, end = first * size, (first + many) * size
            if begin < full:
                full_used = max(full_used, min(end, full))
            for place in range(max(begin, full), end):
                minus, domain, _ = self.reduced[place - full]
                reduced[domain] = -minus
        return PackedChoice(setting, *self._reached(full_used), reduced)

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
