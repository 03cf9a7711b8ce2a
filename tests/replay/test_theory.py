"""The engine and the planning formulas against closed forms that were derived without it."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, exp, expm1, sqrt

import numpy as np
import polars as pl
import pytest

from pipeline.replay import engine, interval, responses
from pipeline.replay.contract import Offer, Replica, Shape
from pipeline.replay.engine import History, Instant, Times
from pipeline.replay.packed import Packed
from pipeline.replay.packing import Packer, capabilities
from pipeline.units import S_PER_D, US_PER_H, US_PER_S
from tests import reference_simulator as reference
from tests.replay.cases import CURVE
from tests.timelines import lab

TP = 32
H_PER_D = 24


def shape(pp: int = 8, b: int = 8, headroom: str = "0", tp: int = TP, size: int = TP) -> Shape:
    return Shape(tp, pp, 1, b, 1, size, Fraction("1.3"), Fraction(headroom), CURVE)


# -- section 7: the renewal form -----------------------------------------------------------------


def renewal(m: float, dt: float, c: float, u: float) -> float:
    """Return dt / (M * exp(u/M) * (exp((dt+C)/M) - 1)): goodput under app-level faults at rate 1/M."""
    return dt / (m * exp(u / m) * expm1((dt + c) / m))


def replayed(m: float, dt: float, c: float, u: float, seed: int, faults: int) -> float:
    """Return the goodput of a clean one-domain pool under a Poisson stream of app-level faults."""
    ticks_per_m = 1_000_000
    unit = ticks_per_m / m
    window = ticks_per_m * faults
    random = np.random.Generator(np.random.PCG64(seed))
    times = np.unique(np.cumsum(random.exponential(ticks_per_m, 2 * faults)).astype(np.int64))
    instants = [Instant(int(tick), app_fault=True) for tick in times[(times > 0) & (times < window)]]
    job = Shape(1, 1, 1, 1, 1, 1, Fraction(1), Fraction(0), CURVE[:1])
    packer = Packer(job, responses.load("rigid"), "pause", 1, Fraction(0))
    detect = round(u * unit / 3)
    spent = Times(detect, round(u * unit) - detect, 0, round(dt * unit), round(c * unit))
    history = History(1, window, {}, instants)
    return float(
        engine.replay(history, capabilities(job, ()), Packed(packer, 1), spent, "immediate").goodput_frac
    )


# Two-sided at 99.9 % over the four settings together: each at 0.025 %, t with 23 degrees of freedom. A right
# engine fails one choice of seeds in a thousand; the seeds are fixed, so it does so always or never.
SEEDS, FAULTS, T_LIMIT = 24, 2_000, 4.32


@pytest.mark.parametrize(
    ("m", "dt", "c", "u"),
    [(108.0, 30.0, 0.0, 10.0), (108.0, 60.0, 10.0, 20.0), (10.0, 5.0, 1.0, 6.0), (300.0, 45.0, 1.0, 8.0)],
)
def test_goodput_meets_the_renewal_form(m: float, dt: float, c: float, u: float) -> None:
    """The mean over seeds lies in its own interval around the exact form, and that interval is narrow."""
    found = np.array([replayed(m, dt, c, u, seed, FAULTS) for seed in range(SEEDS)])
    error = found.std(ddof=1) / sqrt(SEEDS)
    assert abs(found.mean() - renewal(m, dt, c, u)) < T_LIMIT * error
    # The test has power: a stop, a save or an interval of 1.5 times the length is noticed.
    assert T_LIMIT * error < 0.03 * renewal(m, dt, c, u)
    for wrong in ((m, dt, c, 1.5 * u), (m, 1.5 * dt, c, u), (m, dt, 1.5 * c + dt / 10, u)):
        assert abs(found.mean() - renewal(*wrong)) > T_LIMIT * error


def test_the_renewal_form_gives_the_published_cases() -> None:
    """2,048 nodes at 6.50 per 1,000 node-days, u = 5 min: 0.9329 at 5 min between saves, 0.7144 at 60 min."""
    m = mttf_h(2_048) * 60
    assert round(renewal(m, 5, 0, 5), 4) == 0.9329
    assert round(renewal(m, 60, 0, 5), 4) == 0.7144


# -- section 7: first-order formulas -------------------------------------------------------------

RATE_PER_NODE_D = 6.50 / 1_000


def mttf_h(nodes: int) -> float:
    return H_PER_D / (nodes * RATE_PER_NODE_D)


def test_mean_time_to_failure() -> None:
    """24 / (nodes * rate): 1.80 h for 16,384 GPUs and 0.225 h for 131,072, eight a node."""
    assert round(mttf_h(16_384 // 8), 2) == 1.80
    assert round(mttf_h(131_072 // 8), 3) == 0.225


def test_first_order_ettr() -> None:
    """1 - N r_f (u0 + dt/2): 0.931 and 0.676 for the two cases of the renewal form."""
    for dt_min, wanted in ((5, 0.931), (60, 0.676)):
        assert round(1 - (5 + dt_min / 2) / (mttf_h(2_048) * 60), 3) == wanted


def test_young_and_daly() -> None:
    """M = 7.9 h and C = 36 s: 23.85 min by Young, 23.45 min by Daly, in whole microseconds."""
    mtbi, save = Fraction("7.9") * US_PER_H, 36 * US_PER_S
    minutes = [rule(mtbi, save) / US_PER_S / 60 for rule in (interval.young_us, interval.daly_us)]
    assert [round(value, 2) for value in minutes] == [23.85, 23.45]


def test_daly_stops_at_the_mean_time_between_interruptions() -> None:
    """A save longer than twice that time leaves M itself."""
    assert interval.daly_us(Fraction(100), 200) == 100
    assert interval.daly_us(Fraction(100), 199) != 100


def test_overhead_at_youngs_optimum() -> None:
    """M = 2.3 h, C = 60 s: 12.04 % by sqrt(2C/M), 11.57 % by the exact form without restart cost."""
    mtbi, save = Fraction("2.3") * US_PER_H, 60 * US_PER_S
    assert round(sqrt(2 * save / mtbi), 4) == 0.1204
    best = interval.young_us(mtbi, save)
    assert round(1 - renewal(float(mtbi), best, save, 0), 4) == 0.1157


def test_youngs_interval_is_near_the_best_of_the_exact_form() -> None:
    """No other interval of a dense grid is better by more than 0.1 %, and Daly's is nearer still."""
    mtbi, save = Fraction("2.3") * US_PER_H, 60 * US_PER_S
    best = max(renewal(float(mtbi), dt * US_PER_S, save, 0) for dt in range(60, 7_200, 10))
    young, daly = (rule(mtbi, save) for rule in (interval.young_us, interval.daly_us))
    loss = [best - renewal(float(mtbi), dt, save, 0) for dt in (young, daly)]
    assert -1e-6 < loss[1] < loss[0] < 0.001


def test_a_shorter_stall_is_bounded_by_the_longer_one() -> None:
    """A 10-minute stall that leaves 44 % implies an MTBF of 17.9 min, so a 3-minute stall leaves 83.2 %."""
    mtbf_min = 10 / (1 - 0.44)
    assert round(mtbf_min, 1) == 17.9
    assert round(1 - 3 / mtbf_min, 3) == 0.832


# -- section 5: what a wounded replica does ------------------------------------------------------


def samples(response: str, degrees: list[int], job: Shape) -> int:
    replica = Replica(tuple(Offer(degree) for degree in degrees), job)
    return responses.load(response).work(replica).samples


@pytest.mark.parametrize(
    ("degrees", "wanted"), [([30] * 8, 7), ([28] * 8, 6), ([TP] * 7 + [30], 7), ([TP] * 7 + [28], 7)]
)
def test_samples_of_a_wounded_replica(degrees: list[int], wanted: int) -> None:
    """Of b = 8 at PP 8: all eight stages reduced give 7 at TP30 and 6 at TP28, one stage reduced 7 and 7."""
    assert samples("ntp", degrees, shape()) == wanted


def test_rounding_dominates_at_small_b() -> None:
    """Of b = 2 at PP 8: one stage at TP30 loses half a replica."""
    assert samples("ntp", [TP] * 7 + [30], shape(b=2)) == 1


def test_power_limit_without_headroom() -> None:
    """TP30 of 32 may draw 1.067 and reaches speed 1.046, short of the 1.067 it needs: 7 samples."""
    job = shape()
    limit = job.boost_limit(Offer(30))
    assert (round(float(limit), 3), round(float(job.speed(limit)), 3)) == (1.067, 1.046)
    assert job.boosted(Offer(30)) == limit
    assert samples("ntp-pw", [30] * 8, job) == 7


def test_ten_percent_headroom_makes_both_degrees_whole() -> None:
    """With 10 % headroom in the rack TP30 and TP28 keep the healthy pace, at the least power that does it."""
    job = shape(headroom="0.1")
    for degree in (30, 28):
        assert samples("ntp-pw", [degree] * 8, job) == 8
        power = job.boosted(Offer(degree))
        assert job.speed(power) == Fraction(TP, degree)
        assert job.speed(power - Fraction(1, 1000)) < Fraction(TP, degree)


def test_full_groups_beside_take_their_share_of_the_rack() -> None:
    """min(boost_cap, (G * (1 + headroom) - a * TP) / t): beside a full group less is left."""
    job = shape(headroom="0.1", tp=8, size=16)
    assert job.boost_limit(Offer(7, 0)) == Fraction("1.3")
    assert job.boost_limit(Offer(7, 1)) == Fraction("1.3") < Fraction(16 * 11, 70) - Fraction(8, 7)
    tight = replace(job, rack_headroom_frac=Fraction(0))
    assert tight.boost_limit(Offer(7, 1)) == Fraction(8, 7)


def with_dirty(packer: Packer, domains: int, dirty: int) -> Packed:
    """Return a pool in which so many domains have one failed GPU."""
    packing, can = Packed(packer, domains), capabilities(packer.shape, ())
    for domain in range(dirty):
        packing.change(domain, can[0], can[1])
    return packing


def test_packed_dp_drop_at_the_papers_failed_share() -> None:
    """0.4 % of 32,768 GPUs failed, NVL32, 8 domains a replica: packed dp-drop loses 12.5 %."""
    random = np.random.Generator(np.random.PCG64(1))
    domains, losses = 1_024, []
    packer = Packer(shape(), responses.load("dp-drop"), "elastic", 128, Fraction(0))
    for _ in range(200):
        hit = random.choice(domains * TP, 131, replace=False) // TP
        losses.append(1 - float(with_dirty(packer, domains, len(set(hit.tolist()))).candidate().x))
    # 131 hits leave 1,024 * (1 - (1 - 1/1,024)^131) = 123 dirty domains: 15.4 of 128 replicas, rounded up.
    dirty = domains * (1 - (1 - 1 / domains) ** 131)
    assert float(np.median(losses)) == ceil(dirty / 8) / 128 == 0.125
    assert float(np.mean(losses)) == pytest.approx(0.125, abs=0.002)


# -- section 5: the packed closed form -----------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("domains", "r", "spares"), [(12, 3, 3), (13, 4, 2), (9, 2, 0)])
def test_packed_closed_form_from_the_tail(domains: int, r: int, spares: int, seed: int) -> None:
    """Replicas whose worst domain has >= k failed are ceil(max(C_k - free, 0) / r), free = domains - DP * r.

    The printed form with spare_domains holds when the pool less the spares is a multiple of r, so that
    nothing else is left over.
    """
    size, window = 4, 60
    random = np.random.Generator(np.random.PCG64(seed))
    names = [f"n{number:02}" for number in range(domains)]
    bounds = ((-5, window), (0, domains), (0, size), (1, 40))  # start, node, GPU, length
    rows = zip(*(random.integers(*ends, 40).tolist() for ends in bounds), strict=True)
    faults = [lab.Fault(names[node], gpu, start, start + length) for start, node, gpu, length in rows]
    dp = (domains - spares) // r
    free = domains - dp * r
    machines = reference.Cluster(domains, size)
    job = reference.Job(size, r, 1, dp, 8)
    policy = reference.Policy("ntp", "elastic", (3, 2, 1))
    dropper = Packer(shape(pp=r, tp=size, size=size), responses.load("dp-drop"), "elastic", dp, Fraction(0))
    with lab.built(faults, lab.placements(names, lab.cluster(domains, size, size)), window, size) as con:
        tail = lab.seconds(lab.stored(con, "domain_tail"), "t_start", "t_end")
        by_domain = lab.seconds(lab.stored(con, "domain_timeline"), "t_start", "t_end")
    assert tail["k"].max() >= 2
    lost_some = 0
    for second in range(window):
        now = (pl.col("t_start") <= second) & (second < pl.col("t_end"))
        failed = tuple(by_domain.filter(now).sort("domain_id")["failed_gpus"].to_list())
        replicas = reference.pack_sorted(failed, machines, job, policy)
        # The first DP replicas; one that cannot even be formed has a domain without any group.
        worst = [size - min(group.degree for group in groups) for groups in replicas[:dp]]
        worst += [size] * (dp - len(worst))
        for k, count in tail.filter(now).select("k", "domains_with_at_least_k").iter_rows():
            lost = ceil(max(count - free, 0) / r)
            assert sum(failed_most >= k for failed_most in worst) == lost
            if k == 1:
                lost_some += lost > 0
                assert with_dirty(dropper, domains, count).candidate().replicas == dp - lost
            if (domains - spares) % r == 0:
                assert free == spares
    assert lost_some


# -- section 8: synthetic clusters ---------------------------------------------------------------


def test_share_of_usable_domains_at_a_given_failed_share() -> None:
    """TP64 with 0.1 % failed leaves 94 % of GPUs usable: (1 - f)^G, and exactly C(N-G, n) / C(N, n)."""
    gpus, size = 32_768, 64
    failed = round(gpus / 1_000)
    exact = Fraction(1)
    for number in range(failed):
        exact *= Fraction(gpus - size - number, gpus - number)
    assert round((1 - 0.001) ** size, 2) == round(float(exact), 2) == 0.94
    # The packer agrees: with single failures in random places the full groups are the clean domains.
    random = np.random.Generator(np.random.PCG64(2))
    clean = [
        1 - len(set((random.choice(gpus, failed, replace=False) // size).tolist())) / (gpus // size)
        for _ in range(400)
    ]
    error = float(np.std(clean, ddof=1)) / sqrt(len(clean))
    assert abs(float(np.mean(clean)) - float(exact)) < 3.3 * error  # two-sided, 99.9 %


def test_llama_rate_matches_the_synthetic_preset() -> None:
    """419 interruptions in 54 days on 16,384 GPUs are one in 3.1 h: the number Young's rule starts from."""
    per_gpu_d = 419 / 54 / 16_384
    assert round(H_PER_D / (per_gpu_d * 16_384), 1) == 3.1
    from pipeline.synth import presets

    assert presets.load("llama3").per_gpu_d == pytest.approx(per_gpu_d)
    assert S_PER_D == H_PER_D * 3_600
