"""Random times: the gaps between failures, how long repairs take, and the streams they are drawn from.

In: means, shapes and quantiles as publications state them. Out: hours of repair, or gaps in days. A repair
takes exactly two uniform numbers, whatever its distribution, so other repair times leave the failures and
each other's luck as they were. Gaps are Weibull: shape 1 is exponential, below 1 failures follow failures
(infant mortality), above 1 parts wear out.
Ages are true: what has lived `age` waits for its conditional remaining life. In the long run an age has the
equilibrium distribution, density (1 - F(a)) / mean, which for a Weibull is scale * Gamma(1 / shape)^(1 /
shape). Easy to get wrong: a lognormal is given here by its median and 95 % quantile, and a fat tail fitted
to these two may have a mean far beyond what was seen; `longest_h` cuts it (all beyond takes that long), and
`mean_h` is the mean of what is drawn.
Source: the closed forms of renewal theory (inspection paradox), tested in
tests/synth/test_distributions.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_RARE = 1e-9  # an exponential repair longer than this quantile is not waited for


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return the counter-based random stream of a key, e.g. (purpose, chunk).

    Streams of different keys are independent, and none depends on how much another has been read: whatever
    draws node 5,000 gets the same numbers, first or last, in a large cluster or a small one.
    """
    import numpy as np

    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=key)))


@dataclass(frozen=True)
class Mix:
    """A repair that takes one of several times, by weight; `parts` are (weight, hours), weights sum to 1."""

    parts: tuple[tuple[float, float], ...]

    @property
    def mean_h(self) -> float:
        """Mean, hours."""
        return math.fsum(weight * hours for weight, hours in self.parts)

    @property
    def longest_h(self) -> float:
        """The longest repair, hours."""
        return max(hours for _, hours in self.parts)

    def hours(self, u: Any, _v: Any) -> Any:
        """Return hours from uniform numbers in [0, 1)."""
        import numpy as np

        # The last bound is left out: sums of weights may end a hair below 1.
        bounds = np.cumsum([weight for weight, _ in self.parts])[:-1]
        return np.array([hours for _, hours in self.parts])[np.searchsorted(bounds, u, side="right")]


class Fixed(Mix):
    """A repair that always takes the same time."""

    def __init__(self, hours: float) -> None:
        super().__init__(((1.0, hours),))


@dataclass(frozen=True)
class Exponential:
    """A repair that is as likely to end in the next minute, however long it has taken."""

    mean_h: float

    @property
    def longest_h(self) -> float:
        """The time that one repair in 10^9 exceeds, hours."""
        return -self.mean_h * math.log(_RARE)

    def hours(self, u: Any, _v: Any) -> Any:
        """Return hours from uniform numbers in [0, 1)."""
        import numpy as np

        return -self.mean_h * np.log1p(-u)


@dataclass(frozen=True)
class Lognormal:
    """A repair whose logarithm is normal, by its median and 95 % quantile, cut at the longest seen."""

    median_h: float
    p95_h: float
    longest_h: float

    @property
    def sigma(self) -> float:
        """Standard deviation of the logarithm: the two quantiles lie 1.645 of them apart."""
        return math.log(self.p95_h / self.median_h) / _Z95

    @property
    def mean_h(self) -> float:
        """Mean of what is drawn, the cut included, hours."""
        cut = math.log(self.longest_h / self.median_h) / self.sigma
        whole = self.median_h * math.exp(self.sigma**2 / 2)
        return whole * _NORMAL.cdf(cut - self.sigma) + self.longest_h * (1 - _NORMAL.cdf(cut))

    def hours(self, u: Any, v: Any) -> Any:
        """Return hours from uniform numbers in [0, 1), two each (Box and Muller)."""
        import numpy as np

        normal = np.sqrt(-2 * np.log1p(-u)) * np.cos(2 * np.pi * v)
        return np.minimum(self.median_h * np.exp(self.sigma * normal), self.longest_h)


Repair: TypeAlias = Mix | Exponential | Lognormal


@dataclass(frozen=True)
class Weibull:
    """Gaps between the failures of one thing that is as good as new after each; the mean is the rate's."""

    shape: float

    @property
    def is_memoryless(self) -> bool:
        """Shape 1: exponential gaps, a Poisson process."""
        return self.shape == 1

    def scale(self, mean: Any) -> Any:
        """Return the scale that has this mean."""
        return mean / math.gamma(1 + 1 / self.shape)

    def equilibrium_ages(self, random: np.random.Generator, mean: Any) -> Any:
        """Return ages as they are in the long run, in the unit of the means, one each."""
        import numpy as np

        means = np.asarray(mean, dtype=np.float64)
        return self.scale(means) * random.gamma(1 / self.shape, size=means.shape) ** (1 / self.shape)

    def remaining(self, u: Any, mean: Any, age: Any) -> Any:
        """Return the time to the next failure of things of these ages, from uniform numbers in [0, 1)."""
        import numpy as np

        scale = self.scale(mean)
        return scale * ((age / scale) ** self.shape - np.log1p(-u)) ** (1 / self.shape) - age


EXPONENTIAL = Weibull(1.0)
