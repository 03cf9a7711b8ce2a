"""Assumed app-level faults: a seeded Poisson stream of the rate that the scenario states."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from pipeline import config
from pipeline.config.model import MOST_SEED
from pipeline.errors import InputError
from pipeline.synth.app_faults import instants_us, table
from pipeline.synth.contract import DAY_0
from pipeline.units import US_PER_D

RATE, NODES, DAYS = 6.5, 400, 50
MEAN = RATE / 1_000 * NODES * DAYS  # 130
SEEDS = 400
LIMIT = NormalDist().inv_cdf(1 - 0.001 / 2)  # two-sided at 99.9 %; the seeds are fixed


def drawn(seed: int, rate: float = RATE, nodes: int = NODES, days: float = DAYS) -> np.ndarray:
    return instants_us(rate, nodes, round(days * US_PER_D), seed)


def test_counts_over_seeds_are_poisson() -> None:
    """Mean and variance over seeds are both the expected count, within two-sided limits."""
    counts = np.array([len(drawn(seed)) for seed in range(SEEDS)])
    assert abs(counts.mean() - MEAN) < LIMIT * sqrt(MEAN / SEEDS)
    # The index of dispersion times (n - 1) is chi-square with n - 1 degrees of freedom.
    dispersion = counts.var(ddof=1) / MEAN
    assert abs(dispersion - 1) < LIMIT * sqrt(2 / (SEEDS - 1))
    # The test has power: a rate that is 5 % off, or counts that do not vary, would be noticed.
    assert abs(counts.mean() - 1.05 * MEAN) > LIMIT * sqrt(MEAN / SEEDS)
    assert len(set(counts.tolist())) > 20


def test_instants_are_spread_evenly() -> None:
    """Kolmogorov-Smirnov against the uniform: no part of the window is favoured, from chunk to chunk."""
    found = np.sort(drawn(3, rate=10_000)) / (DAYS * US_PER_D)
    n = len(found)
    assert n > 100_000
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - found).max(), (found - steps[:-1]).max())
    assert distance < 1.95 / sqrt(n)  # 99.9 %


def test_they_are_whole_microseconds_in_the_window_in_order() -> None:
    """Integers in [0, window), sorted."""
    found = drawn(1)
    assert found.dtype == np.int64
    assert found.min() >= 0 and found.max() < DAYS * US_PER_D
    assert all(a <= b for a, b in pairwise(found.tolist()))


def test_a_longer_window_keeps_the_first_faults_and_another_seed_has_others() -> None:
    """The n-th fault of a seed is the same one however long the window is."""
    short, long = drawn(1), drawn(1, days=1_000)
    assert len(long) > len(short)
    assert np.array_equal(long[: len(short)], short)
    assert not np.array_equal(drawn(2)[:10], short[:10])


def test_twice_the_rate_comes_twice_as_early() -> None:
    """Rates, and numbers of nodes, are compared on the same luck."""
    once = drawn(1)
    for twice in (drawn(1, rate=2 * RATE), drawn(1, nodes=2 * NODES)):
        assert np.abs(twice[: len(once)] - once / 2).max() <= 1


def test_no_rate_no_faults_and_too_many_are_refused() -> None:
    """A rate of 0 draws nothing; a number of faults that no machine could step through is refused."""
    assert len(drawn(1, rate=0)) == 0
    with pytest.raises(InputError, match=r"app_faults_per_1000_node_d: about 3\.65e\+09 faults"):
        drawn(1, rate=10_000, nodes=1_000_000, days=365)


@pytest.mark.parametrize(("seed", "redraw", "same_as"), [(7, 2, 9), (MOST_SEED, 1, 0)])
def test_a_redraw_is_another_seed_s_draw(seed: int, redraw: int, same_as: int) -> None:
    """Faults and assumed faults of a redraw come from one seed, also after the highest."""
    scenario = config.load("boot32k")

    def of(seed: int, redraw: int) -> list[dict[str, Any]]:
        trace = replace(scenario.trace, seed=seed, app_faults_per_1000_node_d=RATE)
        return table(replace(scenario, trace=trace), DAY_0, US_PER_D, redraw).to_pylist()

    assert of(seed, redraw) == of(same_as, 0) != of(seed, 0)
