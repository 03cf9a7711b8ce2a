"""Drawn failures follow their preset: rates, gaps, lemons, bursts, repair times, and no order of drawing."""

from __future__ import annotations

import dataclasses
from math import gamma, sqrt
from time import perf_counter
from typing import Any

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.synth import draw as module
from pipeline.synth import presets
from pipeline.synth.contract import Bursts, Lemons, Preset, Rate, changed
from pipeline.synth.distributions import Fixed, Mix, Weibull
from pipeline.synth.draw import COLUMNS, chunk_nodes, weights
from pipeline.units import US_PER_D, US_PER_H

NODES, GPUS_PER_NODE, DAYS = 4_096, 8, 200
SIGMAS = 4.5  # one false alarm in 150,000 draws; seeds are fixed anyway


def draw(
    preset: str | Preset, *, seed: int = 7, start: str = "clean", days: float = DAYS, nodes: int = NODES
) -> dict[str, Any]:
    chosen = presets.load(preset) if isinstance(preset, str) else preset
    return module.draw(chosen, days, nodes, GPUS_PER_NODE, seed=seed, start=start)


def one_rate(per_1000_node_d: float = 100.0, **more: Any) -> Preset:
    """Return a preset of one rate: by default a failure per node every ten days, mended in an hour."""
    values: dict[str, Any] = {"component": "gpu", "reason": "r", "scope": "gpu", "repair": Fixed(1.0), **more}
    rate = Rate(per_1000_node_d=per_1000_node_d, node_gpus=8, origin="a test", **values)
    return Preset("test", (rate,))


def count_spread(preset: Preset, mean: float, nodes: int) -> float:
    """Return the standard deviation of a count: Poisson, widened by bursts and by the number of lemons."""
    variance = mean
    if preset.bursts:
        bursts = preset.bursts
        size = bursts.mean_nodes
        second = (size - 2) * (size - 1) + size**2  # geometric beyond 2: variance (size - 2) * (size - 1)
        variance = mean * (1 - bursts.events_frac) + mean * bursts.events_frac / size * second
    if preset.lemons:
        share, (heavy, light) = preset.lemons.nodes_frac, preset.lemons.weights
        variance += (mean / nodes) ** 2 * nodes * share * (1 - share) * (heavy - light) ** 2
    return sqrt(variance)


@pytest.mark.parametrize("name", presets.names())
@pytest.mark.parametrize("start", ["clean", "steady"])
def test_counts_follow_the_rates(name: str, start: str) -> None:
    """In total and for each rate, the number of events lies in the computed interval of its mean."""
    preset, columns = presets.load(name), draw(name, start=start)
    gpu_days = NODES * GPUS_PER_NODE * DAYS
    began = columns["kind"][columns["start_us"] >= 0]
    mean = preset.per_gpu_d * gpu_days
    assert abs(len(began) - mean) < SIGMAS * count_spread(preset, mean, NODES)
    for index, rate in enumerate(preset.rates):
        mean = rate.per_gpu_d * gpu_days
        assert abs(np.sum(began == index) - mean) < SIGMAS * count_spread(preset, mean, NODES), rate.reason


@pytest.mark.parametrize("name", presets.names())
def test_repair_times_have_their_mean(name: str) -> None:
    """Each rate's repairs lie within the interval of their mean and are never longer than the longest."""
    preset = presets.load(name)
    preset = dataclasses.replace(preset, bursts=None)  # a burst shares one repair: fewer independent ones
    columns = draw(preset, days=2_000)
    hours = (columns["end_us"] - columns["start_us"]) / US_PER_H
    for index, rate in enumerate(preset.rates):
        mine = hours[columns["kind"] == index]
        assert mine.max() <= rate.repair.longest_h
        assert abs(mine.mean() - rate.repair.mean_h) <= SIGMAS * mine.std() / sqrt(len(mine)) + 1e-9
        if isinstance(rate.repair, Mix):
            assert set(mine) == {value for _, value in rate.repair.parts}


def test_hardware_and_software_stand_78_to_22() -> None:
    """The NTP paper's split is met within its binomial interval."""
    kind = draw("ntp-paper")["kind"]
    share, spread = np.mean(kind == 0), sqrt(0.78 * 0.22 / len(kind))
    assert abs(share - 0.78) < SIGMAS * spread


def test_places_and_times_are_uniform() -> None:
    """Nodes, GPUs and instants are drawn evenly: eight or ten equal parts differ by chance only."""
    columns = draw("ntp-paper")
    count = len(columns["kind"])
    for name, span in {"node": NODES, "gpu": GPUS_PER_NODE, "start_us": DAYS * US_PER_D}.items():
        parts = 8 if name == "gpu" else 10
        found = np.bincount(columns[name] * parts // span, minlength=parts)
        assert np.all(np.abs(found - count / parts) < SIGMAS * sqrt(count / parts)), name


def test_clean_starts_with_nothing_down() -> None:
    """With start = clean, no event begins before time 0."""
    assert all(draw(name)["start_us"].min() >= 0 for name in presets.names())


@pytest.mark.parametrize("name", presets.names())
def test_steady_starts_at_the_long_run_level(name: str) -> None:
    """With start = steady, the number down at time 0 is Poisson with mean rate x mean repair."""
    preset = dataclasses.replace(presets.load(name), bursts=None, lemons=None)
    columns = draw(preset, start="steady", days=10)
    down = np.sum((columns["start_us"] < 0) & (columns["end_us"] > 0))
    mean_d = sum(rate.per_gpu_d * rate.repair.mean_h / 24 for rate in preset.rates)
    mean = mean_d * NODES * GPUS_PER_NODE
    assert abs(down - mean) < SIGMAS * sqrt(mean)
    assert columns["end_us"].min() > 0


def test_share_of_time_above_a_thousandth_is_that_of_the_paper() -> None:
    """32,768 GPUs for 15 days from a clean start: above 0.1 % failed for about 0.81 of the time (mean)."""
    span, shares = 15 * US_PER_D, []
    for seed in range(150):
        columns = draw("ntp-paper", seed=seed, days=15)
        times = np.concatenate([columns["start_us"], columns["end_us"], [span]])
        steps = np.concatenate([np.ones(len(columns["kind"])), -np.ones(len(columns["kind"])), [0]])
        order = np.argsort(times, kind="stable")
        times, down = np.minimum(times[order], span), np.cumsum(steps[order])
        shares.append(np.sum(np.diff(times)[down[:-1] > 32.768]) / span)
    assert abs(np.mean(shares) - 0.81) < 0.015


def test_rates_scale_with_gpus_not_with_nodes() -> None:
    """4-GPU nodes fail half as often as the 8-GPU nodes that a rate is quoted for."""
    preset = presets.load("llama3")
    small = module.draw(preset, DAYS, NODES, 4, seed=1, start="clean")
    mean = preset.per_gpu_d * NODES * 4 * DAYS
    assert abs(len(small["kind"]) - mean) < SIGMAS * sqrt(mean)


# -- ages ----------------------------------------------------------------------------------------


def per_thing(columns: dict[str, Any]) -> Any:
    """Return the number of failures of each GPU."""
    thing = columns["node"] * GPUS_PER_NODE + columns["gpu"]
    return np.bincount(thing[columns["start_us"] >= 0], minlength=NODES * GPUS_PER_NODE)


@pytest.mark.parametrize("shape", [0.7, 2.0])
def test_a_steady_weibull_cluster_fails_at_the_stated_rate_from_the_first_day(shape: float) -> None:
    """With equilibrium ages a GPU has window / mean gap failures on average, in every part of the window."""
    preset = one_rate(800.0, arrival=Weibull(shape))  # a GPU every ten days
    columns = draw(preset, start="steady", days=20)
    half = 10 * US_PER_D
    for first in (0, half):
        part = {
            key: column[(columns["start_us"] >= first) & (columns["start_us"] < first + half)]
            for key, column in columns.items()
        }
        counts = per_thing(part)
        assert abs(counts.mean() - 1.0) < SIGMAS * counts.std() / sqrt(len(counts))


@pytest.mark.parametrize("shape", [0.7, 2.0])
def test_new_weibull_parts_follow_the_renewal_theorem(shape: float) -> None:
    """From age 0 a GPU has t / mean + (CV^2 - 1) / 2 failures by t: infant mortality adds some."""
    columns = draw(one_rate(800.0, arrival=Weibull(shape)), days=DAYS)
    counts = per_thing(columns)
    square = gamma(1 + 2 / shape) / gamma(1 + 1 / shape) ** 2 - 1
    expected = DAYS / 10 + (square - 1) / 2
    assert abs(counts.mean() - expected) < SIGMAS * counts.std() / sqrt(len(counts))
    # And the variance of a renewal count grows as CV^2 * t / mean; 10 % covers its constant term.
    assert counts.var() == pytest.approx(square * DAYS / 10, rel=0.1)


def test_a_weibull_of_shape_one_is_the_poisson_process() -> None:
    """The renewal path at shape 1 has the counts of the Poisson path: equal mean and variance."""
    columns = draw(one_rate(800.0, arrival=Weibull(1 + 1e-12)), days=20)
    counts = per_thing(columns)
    spread = sqrt(2 / len(counts))
    assert abs(counts.mean() - 2) < SIGMAS * sqrt(2 / len(counts))
    assert abs(counts.var() / 2 - 1) < SIGMAS * spread * sqrt(1 + 1 / 4)  # fourth moment of Poisson(2)


def test_node_faults_age_with_their_node() -> None:
    """A kind of scope node has one life a node: its gaps have the rate of the node, not of a GPU."""
    columns = draw(one_rate(100.0, scope="node", arrival=Weibull(2.0)), start="steady", days=200)
    counts = np.bincount(columns["node"][columns["start_us"] >= 0], minlength=NODES)
    assert set(columns["gpu"]) == {-1}
    assert abs(counts.mean() - 20) < SIGMAS * counts.std() / sqrt(NODES)


# -- lemons and bursts ---------------------------------------------------------------------------


def test_lemons_carry_their_share() -> None:
    """Lemons are the stated share of nodes and carry the stated share of the failures."""
    preset = dataclasses.replace(one_rate(), lemons=Lemons(0.1, 0.4, "a test"))
    columns = draw(preset)
    size = chunk_nodes(preset)
    weight = np.concatenate([weights(preset, size, 7, chunk) for chunk in range(NODES // size)])
    is_lemon = weight > 1
    assert abs(is_lemon.sum() - 0.1 * NODES) < SIGMAS * sqrt(NODES * 0.09)
    found = np.mean(is_lemon[columns["node"]])
    expected = weight[is_lemon].sum() / weight.sum()
    assert abs(found - expected) < SIGMAS * sqrt(expected * (1 - expected) / len(columns["node"]))
    assert preset.lemons is not None
    heavy, light = preset.lemons.weights
    assert 0.1 * heavy == pytest.approx(0.4)
    assert 0.1 * heavy + 0.9 * light == pytest.approx(1)


@pytest.fixture(scope="module")
def bursty() -> tuple[Preset, dict[str, Any]]:
    bursts = Bursts(events_frac=0.3, mean_nodes=3.0, group_nodes=100, origin="a test")
    preset = dataclasses.replace(
        one_rate(20.0, scope="node", repair=Mix(((0.5, 1.0), (0.5, 2.0)))), bursts=bursts
    )
    return preset, draw(preset)


def test_bursts_have_their_share_and_size(bursty: tuple[Preset, dict[str, Any]]) -> None:
    """The share of failures at common instants and the mean size of bursts lie in their intervals."""
    _, columns = bursty
    _, sizes = np.unique(columns["start_us"], return_counts=True)
    together = sizes[sizes > 1]
    count = len(columns["node"])
    assert abs(together.sum() / count - 0.3) < SIGMAS * count_spread(*bursty_mean(bursty)) / count
    assert abs(together.mean() - 3) < SIGMAS * together.std() / sqrt(len(together))


def bursty_mean(bursty: tuple[Preset, dict[str, Any]]) -> tuple[Preset, float, int]:
    return bursty[0], 0.02 * NODES * DAYS, NODES


def test_a_burst_strikes_neighbours_once_and_is_mended_at_once(
    bursty: tuple[Preset, dict[str, Any]],
) -> None:
    """The members of a burst are different nodes of one group, with one end."""
    _, columns = bursty
    order = np.argsort(columns["start_us"], kind="stable")
    start = columns["start_us"][order]
    ends, nodes = columns["end_us"][order], columns["node"][order]
    edges = np.flatnonzero(np.diff(start)) + 1
    seen = 0
    for members, end in zip(np.split(nodes, edges), np.split(ends, edges), strict=True):
        if len(members) > 1:
            seen += 1
            assert len(set(members.tolist())) == len(members)
            assert len(set((members // 100).tolist())) == 1
            assert len(set(end.tolist())) == 1
    assert seen > 1_000


def test_correlation_none_leaves_independent_failures() -> None:
    """`correlation = "none"` drops lemons and bursts, keeps the rate; `weibull_shape` replaces all gaps."""
    preset = presets.load("hbd-rates")
    plain = changed(preset, weibull_shape=None, correlation="none")
    assert (plain.lemons, plain.bursts, plain.rates) == (None, None, preset.rates)
    assert changed(preset, weibull_shape=None, correlation=None) == preset
    aged = changed(preset, weibull_shape=0.7, correlation=None)
    assert {rate.arrival for rate in aged.rates} == {Weibull(0.7)}
    starts = draw(plain)["start_us"]
    assert np.mean(np.diff(starts) == 0) < 1e-3


# -- streams -------------------------------------------------------------------------------------

VARIANTS = {
    **{name: presets.load(name) for name in presets.names()},
    "weibull": changed(presets.load("hbd-rates"), weibull_shape=0.7, correlation=None),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("start", ["clean", "steady"])
def test_a_node_has_its_failures_in_a_cluster_of_any_size(name: str, start: str) -> None:
    """The failures of the first 700 nodes are the same, whether 700 nodes are drawn or 5,000."""
    small = draw(VARIANTS[name], start=start, nodes=700, days=500)
    large = draw(VARIANTS[name], start=start, nodes=5_000, days=500)
    mine = large["node"] < 700
    assert len(small["node"]) > 100
    for column in COLUMNS:
        assert np.array_equal(small[column], large[column][mine]), column


def test_other_repair_times_leave_the_failures_alone() -> None:
    """A scenario with other repairs has the same failures at the same instants: common random numbers."""
    preset = presets.load("hbd-rates")
    rates = tuple(dataclasses.replace(rate, repair=Fixed(1.0)) for rate in preset.rates)
    before, after = draw(preset), draw(dataclasses.replace(preset, rates=rates))
    for column in ("start_us", "node", "kind"):
        assert np.array_equal(before[column], after[column])


def test_a_year_of_a_million_gpus_takes_seconds() -> None:
    """125,000 nodes for a year, bursts, lemons and ages included, take less than ten seconds."""
    began = perf_counter()
    columns = draw(VARIANTS["weibull"], nodes=125_000, days=365, start="steady")
    assert perf_counter() - began < 10
    assert 150_000 < len(columns["node"]) < 250_000


def test_too_much_is_refused_before_it_is_drawn() -> None:
    """A trace of more events or lives than memory holds is a mistake, told with the limit."""
    with pytest.raises(InputError, match="events"):
        draw("rsc-1", nodes=10_000_000, days=36_525)
    with pytest.raises(InputError, match="lives"):
        draw(changed(presets.load("llama3"), weibull_shape=2.0, correlation=None), nodes=20_000_000, days=1)
