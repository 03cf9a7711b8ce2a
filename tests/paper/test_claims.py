"""What the claims on the paper compute, against closed forms and slow counting."""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np
import pytest

from pipeline.paper import pool
from pipeline.paper.claims import availability, failures, loss, spares


@pytest.mark.parametrize(("gpus", "size", "failed"), [(64, 8, 3), (64, 8, 0), (64, 64, 1), (32_768, 64, 33)])
def test_usable_is_the_exact_share(gpus: int, size: int, failed: int) -> None:
    """C(N - G, n) / C(N, n)."""
    exact = comb(gpus - size, failed) / comb(gpus, failed)
    assert availability.usable(failed, size, gpus) == pytest.approx(exact, rel=1e-12)


def test_counted_placements_agree_with_the_closed_form() -> None:
    """Random placements give the same share within their interval."""
    mean, low, high = availability.counted(33, 64, 200)
    assert low <= availability.usable(33, 64) <= high and low < mean < high


def test_placing_failures_keeps_their_number() -> None:
    """Each failure takes `radius` GPUs of one domain; no domain loses more than it has."""
    for radius in (1, 2, 8):
        found = pool.failed_by_domain(np.random.default_rng(1), 96, 16, 32, radius)
        assert found.sum() == 96 and found.max() <= 32 and (found % radius == 0).all()


def test_failed_over_time_counts_a_gpu_once() -> None:
    """GPU 7 is hit again while it is down; GPU 9 ends after the window."""
    drawn = pool.Trace(
        start_d=np.array([1.0, 2.0, 3.0, 9.0]),
        end_d=np.array([4.0, 2.5, 5.0, 99.0]),
        gpu=np.array([7, 7, 7, 9]),
    )
    at, failed = pool.failed_over_time(drawn, 10.0)
    area = float((np.diff(at) * failed).sum())
    assert area == pytest.approx((5 - 1) + (10 - 9))
    assert failed.max() == 1 and at[-1] == 10


def test_loss_in_packed_pools_is_the_closed_form() -> None:
    """dp-drop packed, G = TP: ceil(dirty domains / 8) of 128 replicas are lost (model.md section 5)."""
    of, domains = pool.study(), 1_024
    for dirty in (0, 1, 8, 9, 123):
        failed = [1] * dirty + [0] * (domains - dirty)
        lost = pool.loss(of, pool.policy("dp-drop"), failed, domains)
        assert float(lost) == pytest.approx(-(-dirty // 8) / 128)


def test_a_larger_share_or_radius_never_loses_less_in_the_mean() -> None:
    """The means over the same seeds rise."""
    for method in pool.METHODS:
        means = [np.mean(loss.losses(method, "packed", fraction, 1, 40)) for fraction in loss.FRACTIONS]
        assert all(low <= high + 1e-12 for low, high in pairwise(means))


def test_a_tripled_rate_is_three_times_as_many_failures() -> None:
    """Only the rates change."""
    once, thrice = failures.preset("5 days"), failures.preset("5 days", 3.0)
    assert thrice.per_gpu_d == pytest.approx(3 * once.per_gpu_d)


def test_least_spares_is_the_first_that_never_pauses() -> None:
    """Checked for one seed against the share of the time that runs."""
    for method in pool.METHODS:
        (least,) = spares.least_spares(method, 1)
        fixed = pool.policy(method, batch="pause")
        assert spares.running_frac(fixed, least, 0) == 1
        assert all(spares.running_frac(fixed, fewer, 0) < 1 for fewer in range(max(0, least - 3), least))


def test_running_time_agrees_with_the_engine() -> None:
    """A replay without costs pauses for exactly the time in which the batch cannot be done."""
    from pipeline.replay import engine
    from pipeline.replay.engine import History, Instant, Times

    of = pool.study()
    method = pool.policy("dp-drop", batch="pause", reexpand="immediate")
    extra, seed = 60, 3
    domains = of.scenario.cluster.pool_domains + extra
    down: dict[int, int] = {}
    instants: dict[int, Instant] = {}
    for day, domain, count in spares._changes(seed, domains):
        tick = round(day * 86_400e6)
        at = instants.setdefault(tick, Instant(tick))
        before, after = down.get(domain, 0), (1 << count) - 1
        changed = (domain, before ^ after)
        if count > before.bit_count():
            at.down.append(changed)
            at.hits.append(changed)
        else:
            at.up.append(changed)
        down[domain] = after
    window = round(spares.DAYS * 86_400e6)
    history = History(domains, window, {}, [instants[tick] for tick in sorted(instants)])
    capability, packing = of.packing(method, domains)
    none = Times(detect=0, restart=0, reconfigure=0, interval=window, save=0)
    ledger = engine.replay(history, capability, packing, none, "immediate")
    paused = float(ledger.buckets["paused"]) > 0
    assert paused == (spares.running_frac(method, extra, seed) < 1)
    running = sum(ledger._ran.values()) / window
    assert running == pytest.approx(spares.running_frac(method, extra, seed), abs=1e-9)
