"""Repair times and gaps follow their closed forms.

Samples are compared with a distribution function by the Dvoretzky-Kiefer-Wolfowitz bound: the largest gap of
n samples exceeds sqrt(ln(2 / alpha) / 2n) with probability alpha at most, here one in a million.
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, exp, gamma, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from pipeline.synth.distributions import EXPONENTIAL, Exponential, Fixed, Lognormal, Mix, Weibull, stream

COUNT = 200_000
BOUND = sqrt(log(2 / 1e-6) / (2 * COUNT))
SIGMAS = 4.5  # one false alarm in 150,000


def uniform(*key: int) -> Any:
    return stream(1, *key).random(COUNT)


def largest_gap(samples: Any, below: Callable[[float], float], points: Any) -> float:
    """Return the largest difference from the distribution function `below` at some points."""
    found = np.searchsorted(np.sort(samples), points, side="right") / len(samples)
    return max(abs(found - np.array([below(float(point)) for point in points])))


def test_lognormal_has_its_median_and_95_percent_quantile() -> None:
    """Below the cut a lognormal repair follows the normal law of its logarithm, and has its quantiles."""
    repair = Lognormal(median_h=16.8, p95_h=891.1, longest_h=3_143)
    hours = repair.hours(uniform(0), uniform(1))
    law = NormalDist(log(16.8), repair.sigma)
    points = np.exp(np.linspace(-5, log(3_142), 200))
    assert largest_gap(hours, lambda h: law.cdf(log(h)), points) < BOUND
    for share, quantile in ((0.5, 16.8), (0.95, 891.1)):
        assert law.cdf(log(quantile)) == pytest.approx(share)


@pytest.mark.parametrize("longest_h", [30.0, 3_143.0, 1e12])
def test_lognormal_mean_is_that_of_what_is_drawn(longest_h: float) -> None:
    """`mean_h` counts the cut, nothing is longer, and a cut far away leaves median * exp(sigma^2 / 2)."""
    repair = Lognormal(median_h=16.8, p95_h=200.0 if longest_h > 30 else 29.0, longest_h=longest_h)
    hours = repair.hours(uniform(2), uniform(3))
    assert hours.max() <= longest_h
    assert abs(hours.mean() - repair.mean_h) < SIGMAS * hours.std() / sqrt(COUNT)
    if longest_h == 1e12:
        assert repair.mean_h == pytest.approx(16.8 * exp(repair.sigma**2 / 2))


def test_exponential_repair_follows_its_law() -> None:
    """1 - exp(-h / mean), with the stated mean; the longest is one in 10^9."""
    repair = Exponential(5.0)
    hours = repair.hours(uniform(4), uniform(5))
    assert largest_gap(hours, lambda h: 1 - exp(-h / 5), np.linspace(0.01, 60, 200)) < BOUND
    assert exp(-repair.longest_h / 5) == pytest.approx(1e-9)


def test_mix_takes_each_time_with_its_weight() -> None:
    """Only the listed times occur, each within the binomial interval of its weight; Fixed is a mix of one."""
    repair = Mix(((0.2, 3.0), (0.5, 72.0), (0.3, 120.0)))
    hours = repair.hours(uniform(6), uniform(7))
    assert set(hours) == {3, 72, 120}
    for weight, value in repair.parts:
        spread = sqrt(COUNT * weight * (1 - weight))
        assert abs(np.sum(hours == value) - COUNT * weight) < SIGMAS * spread
    assert repair.mean_h == pytest.approx(0.2 * 3 + 0.5 * 72 + 0.3 * 120)
    assert Fixed(3.0).parts == ((1.0, 3.0),)
    assert set(Fixed(3.0).hours(uniform(6), uniform(7))) == {3}


@pytest.mark.parametrize("shape", [0.5, 0.7, 1.0, 2.0])
def test_new_things_wait_a_weibull_time(shape: float) -> None:
    """From age 0 the gap is Weibull with the stated mean: 1 - exp(-(t / scale)^shape)."""
    mean = 10.0
    gaps = Weibull(shape).remaining(uniform(8), np.full(COUNT, mean), np.zeros(COUNT))
    scale = mean / gamma(1 + 1 / shape)
    points = np.linspace(0.01, 50, 200)
    assert largest_gap(gaps, lambda t: 1 - exp(-((t / scale) ** shape)), points) < BOUND
    assert abs(gaps.mean() - mean) < SIGMAS * gaps.std() / sqrt(COUNT)


# The equilibrium law of an age, the integral of (1 - F) / mean, where it has a simple form; x = a / scale.
EQUILIBRIUM = {
    0.5: lambda x: 1 - (1 + sqrt(x)) * exp(-sqrt(x)),
    1.0: lambda x: 1 - exp(-x),
    2.0: erf,
}


@pytest.mark.parametrize("shape", EQUILIBRIUM)
def test_ages_are_those_of_the_long_run(shape: float) -> None:
    """Ages follow the equilibrium law, and so do the remaining lives at these ages (inspection paradox)."""
    mean = np.full(COUNT, 10.0)
    law = Weibull(shape)
    ages = law.equilibrium_ages(stream(1, 9), mean)
    remaining = law.remaining(uniform(10), mean, ages)
    scale = 10.0 / gamma(1 + 1 / shape)
    points = np.linspace(0.01, 80, 200)
    for samples in (ages, remaining):
        assert largest_gap(samples, lambda a: EQUILIBRIUM[shape](a / scale), points) < BOUND


def test_an_aged_thing_waits_its_conditional_time() -> None:
    """At age a the remaining life exceeds t with probability S(a + t) / S(a); exponential lives forget a."""
    mean, age = np.full(COUNT, 10.0), np.full(COUNT, 7.0)
    points = np.linspace(0.01, 60, 200)
    scale = 10.0 / gamma(1 + 1 / 0.7)
    remaining = Weibull(0.7).remaining(uniform(11), mean, age)
    survival = lambda t: exp(-((t / scale) ** 0.7))  # noqa: E731 - read beside its formula
    assert largest_gap(remaining, lambda t: 1 - survival(7 + t) / survival(7), points) < BOUND
    forgetful = EXPONENTIAL.remaining(uniform(11), mean, age)
    assert np.allclose(forgetful, EXPONENTIAL.remaining(uniform(11), mean, np.zeros(COUNT)))


def test_streams_are_told_apart_by_their_key() -> None:
    """The same seed and key give the same numbers, whatever else was drawn; any other key gives others."""
    first = stream(3, 0, 5).random(4)
    stream(3, 0, 4).random(1_000)
    assert np.array_equal(stream(3, 0, 5).random(4), first)
    others = [stream(4, 0, 5), stream(3, 1, 5), stream(3, 0, 6), stream(3, 5, 0), stream(3, 0)]
    assert all(not np.array_equal(other.random(4), first) for other in others)
