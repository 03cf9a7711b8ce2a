"""Failures of a preset -> arrays: when, where, of which kind, until when.

In: a preset, days, nodes, GPUs a node, a seed. Out: arrays `start_us` and `end_us` (microseconds from time
0), `node`, `gpu` (-1: the whole node) and `kind` (index of the rate), sorted by start, node, kind and GPU.
Memoryless kinds are one Poisson process per chunk of nodes, placed on nodes by weight (lemons) and on GPUs
evenly. Weibull kinds are a renewal process per GPU or per node, as the kind's scope says: as good as new at
each failure, with the age counted in calendar time from that failure, the repair included, so that the mean
gap is one over the published rate, which counts calendar days. Bursts are instants of their own.
`clean`: everything is new (age 0) and nothing is down at time 0. `steady`: ages are drawn from their
equilibrium one longest repair before time 0, which is all that can still be down then; what is over by time
0 is left out. Easy to get wrong: a GPU that is down can be hit again, so downtime is the union; an interval
may end after the window. Chunks are drawn whole, each from streams of its own (seed, purpose, chunk): a
node has the same failures whatever is drawn before it and however many nodes follow it.
Source: model.md section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.synth.contract import Preset, Rate
from pipeline.synth.distributions import stream
from pipeline.units import US_PER_D, US_PER_H

if TYPE_CHECKING:
    import numpy as np

MAX_EVENTS = 50_000_000  # some gigabytes; beyond that a typing error is likelier than a wish
MAX_RENEWALS = 1_000_000_000  # things with a life of their own; a minute or so
CHUNK_NODES = 1_024  # at least; whole groups of the preset's bursts
COLUMNS = ("start_us", "end_us", "node", "gpu", "kind")
_LEMONS, _POISSON, _BURSTS, _RENEWAL, _REPAIR = range(5)  # purposes of streams: never renumber

Columns = dict[str, Any]


def draw(preset: Preset, days: float, nodes: int, gpus_per_node: int, *, seed: int, start: str) -> Columns:
    """Return the failures of a cluster as arrays."""
    import numpy as np

    lead_d = preset.longest_repair_h * US_PER_H / US_PER_D if start == "steady" else 0.0
    _check_size(preset, days + lead_d, nodes, gpus_per_node)
    size = chunk_nodes(preset)
    parts = [
        _chunk(preset, chunk, size, gpus_per_node, -lead_d, days, seed) for chunk in range(-(-nodes // size))
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    span_us = round(days * US_PER_D)
    kept = (columns["node"] < nodes) & (columns["start_us"] < span_us)
    if start == "steady":
        kept &= columns["end_us"] > 0
    columns = {name: array[kept] for name, array in columns.items()}
    columns["gpu"][np.array([rate.scope == "node" for rate in preset.rates])[columns["kind"]]] = -1
    order = np.lexsort((columns["gpu"], columns["kind"], columns["node"], columns["start_us"]))
    return {name: array[order] for name, array in columns.items()}


def chunk_nodes(preset: Preset) -> int:
    """Return the nodes of a chunk."""
    group = preset.bursts.group_nodes if preset.bursts else 1
    return -(-CHUNK_NODES // group) * group


def weights(preset: Preset, nodes: int, seed: int, chunk: int) -> Any:
    """Return each node's rate as a multiple of the mean: lemons are picked one by one, by chance."""
    import numpy as np

    if preset.lemons is None:
        return np.ones(nodes)
    is_lemon = stream(seed, _LEMONS, chunk).random(nodes) < preset.lemons.nodes_frac
    return np.where(is_lemon, *preset.lemons.weights)


def _check_size(preset: Preset, days: float, nodes: int, gpus_per_node: int) -> None:
    mean = preset.per_gpu_d * nodes * gpus_per_node * days
    if mean > MAX_EVENTS:
        raise InputError("[trace] days", f"about {mean:.3g} events", f"at most {MAX_EVENTS}", "fewer days")
    renewals = sum(
        nodes * (gpus_per_node if rate.scope == "gpu" else 1)
        for rate in preset.rates
        if not rate.arrival.is_memoryless
    )
    if renewals > MAX_RENEWALS:
        found = f"{renewals:.3g} lives of GPUs and nodes"
        raise InputError("[trace] weibull_shape", found, f"at most {MAX_RENEWALS:.0e}", "fewer nodes")


def _chunk(
    preset: Preset, chunk: int, size: int, gpus_per_node: int, first_d: float, last_d: float, seed: int
) -> Columns:
    """Return the failures of one chunk of nodes over [first_d, last_d)."""
    import numpy as np

    weight = weights(preset, size, seed, chunk)
    span = (first_d, last_d)
    single = 1 - (preset.bursts.events_frac if preset.bursts else 0.0)
    per_node_d = [rate.per_gpu_d * gpus_per_node for rate in preset.rates]
    memoryless = [kind for kind, rate in enumerate(preset.rates) if rate.arrival.is_memoryless]
    parts: list[tuple[int, Columns]] = []  # with the number of the repairs' stream
    if memoryless:
        means = np.array([per_node_d[kind] * single for kind in memoryless])
        random = stream(seed, _POISSON, chunk)
        part = _poisson(random, means, weight, span)
        part["kind"] = np.array(memoryless, dtype=np.int64)[part["kind"]]
        part["gpu"] = random.integers(0, gpus_per_node, len(part["kind"]))
        parts.append((0, part))
    if preset.bursts:
        random = stream(seed, _BURSTS, chunk)
        part = _bursts(random, preset, np.array(per_node_d), size, span)
        part["gpu"] = random.integers(0, gpus_per_node, len(part["kind"]))
        parts.append((1, part))
    for kind, rate in enumerate(preset.rates):
        if kind not in memoryless:
            random = stream(seed, _RENEWAL, chunk, kind)
            part = _renewal(random, rate, per_node_d[kind] * single * weight, gpus_per_node, span)
            part["kind"] = np.full(len(part["node"]), kind)
            parts.append((2 + kind, part))
    for number, part in parts:
        _repair(stream(seed, _REPAIR, chunk, number), preset, part)
    return {
        name: np.concatenate([part[name] for _, part in parts]) + (chunk * size if name == "node" else 0)
        for name in COLUMNS
    }


def _poisson(random: np.random.Generator, per_node_d: Any, weight: Any, span: tuple[float, float]) -> Columns:
    import numpy as np

    total, heavy = per_node_d.sum(), np.cumsum(weight)
    count = int(random.poisson(total * heavy[-1] * (span[1] - span[0])))
    # The last bounds are left out: sums of shares may end a hair below 1.
    shares = np.cumsum(per_node_d / total)[:-1]
    return {
        "start_us": _instants_us(random.uniform(*span, count)),
        "node": np.searchsorted(heavy[:-1] / heavy[-1], random.random(count), side="right"),
        "kind": np.searchsorted(shares, random.random(count), side="right"),
    }


def _bursts(
    random: np.random.Generator, preset: Preset, per_node_d: Any, nodes: int, span: tuple[float, float]
) -> Columns:
    """Return the members of bursts; `burst` numbers them, because a burst shares its repair."""
    import numpy as np

    bursts = preset.bursts
    assert bursts
    group = bursts.group_nodes
    one = _poisson(random, per_node_d * (bursts.events_frac / bursts.mean_nodes), np.ones(nodes), span)
    count = len(one["kind"])
    more = random.geometric(1 / (bursts.mean_nodes - 1), count) - 1  # mean: mean_nodes - 2
    members = np.minimum(2 + more, group)
    burst = np.repeat(np.arange(count), members)
    place = np.arange(len(burst)) - np.repeat(np.cumsum(members) - members, members)
    first = one["node"][burst]
    return {
        "start_us": one["start_us"][burst],
        "node": first // group * group + (first % group + place) % group,  # neighbours, around the end
        "kind": one["kind"][burst],
        "burst": burst,
    }


def _renewal(
    random: np.random.Generator, rate: Rate, per_node_d: Any, gpus_per_node: int, span: tuple[float, float]
) -> Columns:
    """Return the renewals of each GPU (or node) of a kind whose failures depend on its age."""
    import numpy as np

    copies = gpus_per_node if rate.scope == "gpu" else 1
    mean_d = np.repeat(copies / per_node_d, copies)
    steady = span[0] < 0
    age_d = rate.arrival.equilibrium_ages(random, mean_d) if steady else np.zeros_like(mean_d)
    alive = np.arange(len(mean_d))
    now_d = np.full(len(mean_d), span[0])
    found: list[tuple[Any, Any]] = []
    while len(alive):
        now_d = now_d + rate.arrival.remaining(random.random(len(alive)), mean_d[alive], age_d)
        going_on = now_d < span[1]
        alive, now_d, age_d = alive[going_on], now_d[going_on], 0.0
        found.append((alive, now_d))
    thing = np.concatenate([which for which, _ in found])
    return {
        "start_us": _instants_us(np.concatenate([when for _, when in found])),
        "node": thing // copies,
        "gpu": thing % copies,
    }


def _repair(random: np.random.Generator, preset: Preset, part: Columns) -> None:
    """Add `end_us`; the members of a burst are mended together."""
    import numpy as np

    count = len(part["kind"])
    luck, more_luck = random.random((count, 2)).T
    burst = part.pop("burst", None)
    if burst is not None and count:
        first = np.searchsorted(burst, burst)
        luck, more_luck = luck[first], more_luck[first]
    end_us = part["start_us"].copy()
    for kind, rate in enumerate(preset.rates):
        mine = part["kind"] == kind
        hours = rate.repair.hours(luck[mine], more_luck[mine])
        end_us[mine] += np.rint(hours * US_PER_H).astype(np.int64)
    part["end_us"] = end_us


def _instants_us(days: Any) -> Any:
    import numpy as np

    return np.floor(days * US_PER_D).astype(np.int64)
