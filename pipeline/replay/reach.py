"""Packing where not every domain reaches every other: `packed`, without the domains that are cut off.

In: a fabric's word on which whole domains find no group, and in which order domains follow each other. Out:
a packing like any other. A domain that is cut off offers nothing; what remains is cut into replicas in that
order, so that no group spans a gap (the domains between two gaps are a multiple of a group's).
`spare_idle` counts healthy domains beyond the job's need, cut off or not.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.replay.packed import Packed, PackedChoice
from pipeline.replay.packing import Capability, Packer, Setting


class CutOff(NamedTuple):
    """The domain at which the order begins, and the whole domains that find no group."""

    begin: int
    domains: frozenset[int]


Rule = Callable[[Sequence[int]], CutOff]


@dataclass(frozen=True)
class ReachChoice:
    """A choice in the order of the fabric; domains that are cut off are in no use."""

    inner: PackedChoice
    cut_off: CutOff
    domains: int

    @property
    def setting(self) -> Setting:
        """The configuration."""
        return self.inner.setting

    def groups(self, domain: int, can: Capability) -> tuple[int, int]:
        """Return full groups and the reduced degree in use of a domain."""
        if domain in self.cut_off.domains:
            return 0, 0
        return self.inner.groups((domain - self.cut_off.begin) % self.domains, can)

    def replicas(self, domain: int, can: Capability) -> list[tuple[int, int]]:
        """Return (replica, degree) of the groups in use of a domain, in packing order."""
        if domain in self.cut_off.domains:
            return []
        return self.inner.replicas((domain - self.cut_off.begin) % self.domains, can)

    def without(self, out: frozenset[int]) -> Setting:
        """Return what the batch rule yields from the replicas in use without some."""
        return self.inner.without(out)


class Reach:
    """The pool's whole domains in the fabric's order; each offers one group of the packer's, or none."""

    def __init__(self, packer: Packer, domains: int, rule: Rule) -> None:
        self.packer = packer
        self.domains = domains
        self.rule = rule
        self.down: list[int] = []
        self.cut_off = rule(self.down)
        self.offering = Capability(1, 0, 0, 0)
        self.empty = Capability(0, 0, 0, 0)
        self._begin()

    def change(self, domain: int, _old: Capability, new: Capability) -> None:
        """Note that a domain offers something else."""
        if new.full:
            del self.down[bisect_left(self.down, domain)]
        else:
            insort(self.down, domain)
        self.cut_off = self.rule(self.down)
        if self.cut_off.begin != self.begins:
            self._begin()
        else:
            self._follow()

    def candidate(self) -> Setting:
        """Return the configuration that the capacity now yields."""
        return self.inner.candidate()

    def choose(self) -> ReachChoice:
        """Return the configuration with the groups it uses."""
        return ReachChoice(self.inner.choose(), self.cut_off, self.domains)

    def _begin(self) -> None:
        """Begin the order anew."""
        self.inner = Packed(self.packer, self.domains)
        self.begins = self.cut_off.begin
        self.lost: set[int] = set()
        self._follow()

    def _follow(self) -> None:
        """Tell the packing which domains offer nothing now."""
        lost = {*self.down, *self.cut_off.domains}
        for domain in sorted(self.lost ^ lost):
            states = (self.empty, self.offering) if domain in self.lost else (self.offering, self.empty)
            self.inner.change((domain - self.begins) % self.domains, *states)
        self.lost = lost
