"""What a preset of failure rates is made of.

A preset is a tuple of rates: what fails, how often (events per 1,000 node-days of nodes with `node_gpus`
GPUs, bursts and lemons included), what it takes out and how long the repair takes (hours). Rates scale with
GPUs, so a preset quoted for 8-GPU nodes serves 4-GPU nodes with half the rate a node.
A preset may also say that failures are not spread evenly: `lemons` (some nodes fail more) and `bursts`
(several nodes at one instant). Both move failures about and leave the rate of the whole as it is.
Every number says where it is from (`origin`); what a publication lacks is taken from another one and says
so (`borrowed_from`). Easy to get wrong: a lemon's share is of what is expected of it; the nodes that turn
out worst in a short trace carry more than their expected share by chance alone.
Source of the unit: model.md section 8.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from datetime import UTC, datetime

from pipeline.schema import COMPONENTS
from pipeline.synth.distributions import EXPONENTIAL, Exponential, Lognormal, Mix, Repair, Weibull

DAY_0 = datetime(2025, 1, 1, tzinfo=UTC)  # t = 0 of synthetic time; an arbitrary, round instant
REDRAWN = "redrawn_events"  # the table of further draws
_NAME_WIDTH = 5


@dataclass(frozen=True)
class Rate:
    """One kind of failure."""

    component: str
    reason: str
    scope: str
    per_1000_node_d: float
    node_gpus: int
    repair: Repair
    origin: str
    borrowed_from: str = ""
    arrival: Weibull = EXPONENTIAL

    @property
    def per_gpu_d(self) -> float:
        """Events per GPU and day."""
        return self.per_1000_node_d / 1_000 / self.node_gpus


@dataclass(frozen=True)
class Lemons:
    """A share of the nodes, picked by chance, that carries a larger share of the rate."""

    nodes_frac: float
    rate_frac: float
    origin: str

    @property
    def weights(self) -> tuple[float, float]:
        """Rate of a lemon and of any other node, as multiples of the mean."""
        return self.rate_frac / self.nodes_frac, (1 - self.rate_frac) / (1 - self.nodes_frac)


@dataclass(frozen=True)
class Bursts:
    """A share of the failures that strikes several neighbours of a group of nodes at the same instant.

    A burst has one cause and one repair time; its size is 2 or more, geometric beyond 2. Groups are
    `group_nodes` nodes in the order of their names. Bursts pass lemons by: they strike any node alike.
    """

    events_frac: float
    mean_nodes: float
    group_nodes: int
    origin: str


@dataclass(frozen=True)
class Preset:
    """Published rates, constant in time; memoryless and independent unless it says otherwise."""

    title: str
    rates: tuple[Rate, ...]
    assumptions: tuple[str, ...] = ()
    lemons: Lemons | None = None
    bursts: Bursts | None = None

    @property
    def per_gpu_d(self) -> float:
        """Events of all kinds per GPU and day."""
        return math.fsum(rate.per_gpu_d for rate in self.rates)

    @property
    def longest_repair_h(self) -> float:
        """The longest repair, hours."""
        return max(rate.repair.longest_h for rate in self.rates)


def changed(preset: Preset, *, weibull_shape: float | None, correlation: str | None) -> Preset:
    """Return a preset with the arrivals a scenario asks for; None keeps what the preset says."""
    if weibull_shape is not None:
        arrival = Weibull(weibull_shape)
        rates = tuple(dataclasses.replace(rate, arrival=arrival) for rate in preset.rates)
        preset = dataclasses.replace(preset, rates=rates)
    if correlation == "none":
        preset = dataclasses.replace(preset, lemons=None, bursts=None)
    return preset


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
        if found := _problem_of_rate(rate):
            return f"rate {rate.reason!r}: {found}"
    lemons, bursts = preset.lemons, preset.bursts
    if lemons and not (0 < lemons.nodes_frac <= lemons.rate_frac < 1 and lemons.origin):
        return f"lemons: {lemons}"
    if bursts and not (
        0 < bursts.events_frac < 1 and 2 <= bursts.mean_nodes <= bursts.group_nodes / 2 and bursts.origin
    ):
        return f"bursts: {bursts}"
    return ""


def _problem_of_rate(rate: Rate) -> str:
    tests = {
        f"component {rate.component!r}": rate.component in COMPONENTS,
        f"scope {rate.scope!r}": rate.scope in {"gpu", "node"},
        "a rate that is not positive": rate.per_1000_node_d > 0 and rate.node_gpus > 0,
        "a Weibull shape that is not positive": rate.arrival.shape > 0,
        "no origin": bool(rate.origin),
    }
    found = next((text for text, is_good in tests.items() if not is_good), "")
    return found or _problem_of_repair(rate.repair)


def _problem_of_repair(repair: Repair) -> str:
    if isinstance(repair, Mix):
        weights = [weight for weight, _ in repair.parts]
        if min(weights) <= 0 or not math.isclose(sum(weights), 1):
            return f"repair weights {weights}"
        shortest = min(hours for _, hours in repair.parts)
    elif isinstance(repair, Lognormal):
        if not repair.median_h < repair.p95_h < repair.longest_h:
            return f"repair quantiles that do not rise: {repair}"
        shortest = repair.median_h
    else:
        assert isinstance(repair, Exponential)
        shortest = repair.mean_h
    return "" if shortest > 0 else "a repair that takes no time"
