"""The NTP paper's cluster at one instant and over its trace: what the claims on it share.

In: a scenario of data/paper, failed GPUs by domain. Out: throughput relative to the healthy job, by the same
packing and responses that a replay uses; failures of the paper's trace by seed, as arrays.
Easy to get wrong: "0.1 % failed" is a share of the GPUs of the whole pool, spares included; a trace's draws
are nested (a node fails alike in any larger cluster), so one draw serves every number of spares.
Source: arXiv 2504.06095 sections 3.6, 6.2, 6.3 and 6.5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING

from pipeline import config, resources
from pipeline.replay.study import Study
from pipeline.units import US_PER_D

if TYPE_CHECKING:
    import numpy as np

    from pipeline.config import Policy
    from pipeline.replay.packing import Setting
    from pipeline.synth.contract import Preset

METHODS = ("dp-drop", "ntp", "ntp-pw")


@cache
def study() -> Study:
    """Return the paper's cluster and job."""
    return Study(config.load(str(resources.folder("paper") / "ntp.toml")))


def policy(name: str, **changes: object) -> Policy:
    """Return a method of the paper, changed as asked."""
    from dataclasses import replace

    (found,) = (item for item in study().scenario.policies if item.name == name)
    return replace(found, **changes)  # type: ignore[arg-type]


def failed_by_domain(
    random: np.random.Generator, failed: int, domains: int, size: int, radius: int = 1
) -> np.ndarray:
    """Return how many GPUs of each domain are failed when `failed` are, evenly placed.

    Each failure takes `radius` GPUs of one domain (the blast radius); `failed` is rounded to whole failures.
    """
    import numpy as np

    places = random.choice(domains * (size // radius), round(failed / radius), replace=False)
    return np.bincount(places // (size // radius), minlength=domains) * radius


def setting(of: Study, method: Policy, failed: Iterable[int], domains: int) -> Setting:
    """Return the configuration of a pool whose domains have so many failed GPUs."""
    capability, packing = of.packing(method, domains)
    for domain, count in enumerate(failed):
        if count:
            packing.change(domain, capability[0], capability[count])
    return packing.candidate()


def loss(of: Study, method: Policy, failed: Iterable[int], domains: int) -> Fraction:
    """Return the share of the healthy job's throughput that is lost."""
    return 1 - setting(of, method, failed, domains).x


@dataclass(frozen=True)
class Trace:
    """Failures of one draw, by start: days, and the number of the GPU in a cluster of any size above it."""

    start_d: np.ndarray
    end_d: np.ndarray
    gpu: np.ndarray

    def within(self, gpus: int) -> Trace:
        """Return the failures of the first `gpus` GPUs."""
        mine = self.gpu < gpus
        return Trace(self.start_d[mine], self.end_d[mine], self.gpu[mine])


def trace(preset: Preset, days: float, nodes: int, gpus_per_node: int, seed: int) -> Trace:
    """Return the failures of a cluster from a clean start."""
    from pipeline.synth.draw import draw

    found = draw(preset, days, nodes, gpus_per_node, seed=seed, start="clean")
    gpu = found["node"] * gpus_per_node + found["gpu"]
    return Trace(found["start_us"] / US_PER_D, found["end_us"] / US_PER_D, gpu)


def failed_over_time(drawn: Trace, days: float) -> tuple[np.ndarray, np.ndarray]:
    """Return instants (days, the last one the window's end) and the GPUs failed from each to the next."""
    import numpy as np

    # A GPU that is hit while it is down is counted once: its intervals are united first.
    order = np.lexsort((drawn.start_d, drawn.gpu))
    gpu, start, end = drawn.gpu[order], drawn.start_d[order], np.minimum(drawn.end_d[order], days)
    latest = np.full(len(gpu), -np.inf)
    for place in range(1, len(gpu)):
        if gpu[place] == gpu[place - 1]:
            latest[place] = max(latest[place - 1], end[place - 1])
    start, end = np.maximum(start, latest), np.maximum(end, latest)
    times = np.concatenate([start, end])
    steps = np.concatenate([np.ones(len(start)), -np.ones(len(end))])
    at = np.lexsort((steps, times))  # ends first: what is mended as another breaks is not counted with it
    return np.concatenate([[0.0], times[at], [days]]), np.concatenate([[0.0], np.cumsum(steps[at])])
