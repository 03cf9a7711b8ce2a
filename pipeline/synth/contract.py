"""What a preset of failure rates is made of.

A preset is a tuple of rates: what fails, how often (events per 1,000 node-days of nodes with `node_gpus`
GPUs), what it takes out and how long the repair takes (hours). Rates scale with GPUs, so a preset quoted for
8-GPU nodes serves 4-GPU nodes with half the rate a node.
Every number says where it is from (`origin`); what a publication lacks is taken from another one and says so
(`borrowed_from`). Source of the unit: model.md section 8.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.schema import COMPONENTS

DAY_0 = datetime(2025, 1, 1, tzinfo=UTC)  # t = 0 of synthetic time; an arbitrary, round instant
_NAME_WIDTH = 5


@dataclass(frozen=True)
class Fixed:
    """A repair that always takes the same time."""

    hours: float

    @property
    def parts(self) -> tuple[tuple[float, float], ...]:
        """(weight, hours) pairs; the weights sum to 1."""
        return ((1.0, self.hours),)


@dataclass(frozen=True)
class Mix:
    """A repair that takes one of several times, by weight."""

    parts: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Rate:
    """One kind of failure."""

    component: str
    reason: str
    scope: str
    per_1000_node_d: float
    node_gpus: int
    repair: Fixed | Mix
    origin: str
    borrowed_from: str = ""

    @property
    def per_gpu_d(self) -> float:
        """Events per GPU and day."""
        return self.per_1000_node_d / 1_000 / self.node_gpus


@dataclass(frozen=True)
class Preset:
    """Published rates; independent of each other and of time (a Poisson process)."""

    title: str
    rates: tuple[Rate, ...]
    assumptions: tuple[str, ...] = ()

    @property
    def per_gpu_d(self) -> float:
        """Events of all kinds per GPU and day."""
        return math.fsum(rate.per_gpu_d for rate in self.rates)

    @property
    def longest_repair_h(self) -> float:
        """The longest repair, hours."""
        return max(hours for rate in self.rates for _, hours in rate.repair.parts)


def per_1000_node_d(count: float, days: float, gpus: int, node_gpus: int) -> float:
    """Return a count observed over `days` on `gpus` GPUs as events per 1,000 node-days."""
    return count * 1_000 * node_gpus / (days * gpus)


def node_names(count: int) -> list[str]:
    """Return the names of the nodes of a synthetic cluster: node-00001, node-00002, ..."""
    width = max(_NAME_WIDTH, len(str(count)))
    return [f"node-{number:0{width}d}" for number in range(1, count + 1)]


def problem(preset: Preset) -> str:
    """Return what is wrong with a preset, or an empty string."""
    if not preset.rates:
        return "no rates"
    for rate in preset.rates:
        told = f"rate {rate.reason!r}"
        weights = [weight for weight, _ in rate.repair.parts]
        if rate.component not in COMPONENTS:
            return f"{told}: component {rate.component!r}"
        if rate.scope not in {"gpu", "node"}:
            return f"{told}: scope {rate.scope!r}"
        if not (rate.per_1000_node_d > 0 and rate.node_gpus > 0):
            return f"{told}: a rate that is not positive"
        if min(weights) <= 0 or not math.isclose(sum(weights), 1):
            return f"{told}: repair weights {weights}"
        if min(hours for _, hours in rate.repair.parts) <= 0:
            return f"{told}: a repair that takes no time"
        if not rate.origin:
            return f"{told}: no origin"
    return ""
