"""Packing `fixed`: slot i keeps domain i, replicas are consecutive slots, spares stand in for the worst.

A domain that offers fewer groups than its slot needs leaves the slot's last positions empty, a
reduced group after the full ones; a replica with an empty position does nothing, unless the response
can use it. At a choice,
always beginning again from slot i = domain i, the slots that lack full groups are given, worst
first (fewest GPUs in offered groups, then lowest slot), to spare domains that offer all full
groups, lowest domain first (model.md section 5). The last slot may need fewer groups than a domain
offers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pipeline.replay.contract import Offer
from pipeline.replay.packing import Capability, Packer, Part, Setting, in_use


@dataclass(frozen=True)
class FixedChoice:
    """Which slot each domain serves, apart from those that keep their own."""

    packing: Fixed
    setting: Setting
    serving: dict[int, int | None]
    wounded: tuple[tuple[int, int, int], ...]

    @cached_property
    def _in_use(self) -> frozenset[int]:
        return in_use(self.setting)

    def _places(self, domain: int) -> list[int | None]:
        """Return the replica of each position that a domain serves, None where a group would be idle."""
        slots, idle = self.packing.slots, self.setting.idle
        slot = self.serving.get(domain, domain if domain < slots.count else None)
        return [
            place // slots.size if place // slots.size in self._in_use and place not in idle else None
            for place in (() if slot is None else slots.places_of(slot))
        ]

    def groups(self, domain: int, can: Capability) -> tuple[int, int]:
        """Return full groups and the reduced degree in use of a domain."""
        replicas = self._places(domain)
        full = sum(replica is not None for replica in replicas[: can.full])
        has_reduced = can.full < len(replicas) and replicas[can.full] is not None
        return full, can.reduced if has_reduced else 0

    def replicas(self, domain: int, can: Capability) -> list[tuple[int, int]]:
        """Return (replica, degree) of the groups in use of a domain, in packing order."""
        degrees = [self.packing.packer.shape.tp] * can.full + [can.reduced] * bool(can.reduced)
        found = zip(self._places(domain), degrees, strict=False)
        return [(replica, degree) for replica, degree in found if replica is not None]

    def without(self, out: frozenset[int]) -> Setting:
        """Return what the batch rule yields from the replicas in use without some."""
        packing = self.packing
        return packing.packer.without(self.wounded, self.setting, out, lambda: packing.replicas(self.wounded))


@dataclass(frozen=True)
class Slots:
    """The job's places: `count` slots of at most `most` groups, `groups` in all."""

    groups: int
    most: int
    size: int

    @property
    def count(self) -> int:
        """Slots of the job."""
        return -(-self.groups // self.most)

    def need(self, slot: int) -> int:
        """Return how many groups a slot needs."""
        return min(self.most, self.groups - slot * self.most)

    def places_of(self, slot: int) -> range:
        """Return the slot's positions."""
        first = slot * self.most
        return range(first, first + self.need(slot))


class Fixed:
    """The job's slots and the domains that lack groups."""

    def __init__(self, packer: Packer, domains: int) -> None:
        self.packer = packer
        self.domains = domains
        size = packer.shape.groups_per_replica
        self.slots = Slots(packer.dp * size, packer.most, size)
        self.lacking: dict[int, Capability] = {}

    def change(self, domain: int, _old: Capability, new: Capability) -> None:
        """Note that a domain offers something else."""
        if new.full < self.slots.most:
            self.lacking[domain] = new
        else:
            self.lacking.pop(domain, None)

    def candidate(self) -> Setting:
        """Return the configuration that the capacity now yields."""
        return self._setting(self._wounded()[1])

    def choose(self) -> FixedChoice:
        """Return the configuration with the groups it uses."""
        given, kept = self._wounded()
        serving: dict[int, int | None] = dict.fromkeys(given.values())
        serving.update(given)
        return FixedChoice(self, self._setting(kept), serving, kept)

    def _wounded(self) -> tuple[dict[int, int], tuple[tuple[int, int, int], ...]]:
        """Return spare -> slot it stands in for, and slots that stay wounded (slot, full, reduced)."""
        tp = self.packer.shape.tp
        worst_first = sorted(
            (can.full * tp + can.reduced, slot)
            for slot, can in self.lacking.items()
            if slot < self.slots.count and can.full < self.slots.need(slot)
        )
        given: dict[int, int] = {}
        spares = (spare for spare in range(self.slots.count, self.domains) if spare not in self.lacking)
        for (_, slot), spare in zip(worst_first, spares, strict=False):
            given[spare] = slot
        kept = sorted(slot for _, slot in worst_first[len(given) :])
        return given, tuple((slot, self.lacking[slot].full, self.lacking[slot].reduced) for slot in kept)

    def _setting(self, wounded: tuple[tuple[int, int, int], ...]) -> Setting:
        return self.packer.setting(wounded, lambda: self.replicas(wounded))

    def replicas(self, wounded: tuple[tuple[int, int, int], ...]) -> list[Part]:
        """Return the replicas in order; runs of whole ones are one part."""
        size, dp = self.slots.size, self.packer.dp
        one = Offer(self.packer.shape.tp)
        offers: dict[int, list[Offer | None]] = {}
        for slot, full, reduced in wounded:
            for place, position in enumerate(self.slots.places_of(slot)):
                mine = offers.setdefault(position // size, [one] * size)
                if place >= full:
                    group = Offer(reduced, full) if place == full and reduced else None
                    mine[position % size] = group
        parts, done = [], 0
        for replica in sorted(offers):
            if replica > done:
                parts.append(self.packer.part(done, replica - done, (one,) * size))
            parts.append(self.packer.part(replica, 1, tuple(offers[replica])))
            done = replica + 1
        if done < dp:
            parts.append(self.packer.part(done, dp - done, (one,) * size))
        return parts
