"""Splits of the pool, save intervals and energy of a scenario's replays."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import Scenario, parse
from pipeline.replay.engine import History, Instant
from pipeline.replay.study import DENSE_SPLITS, MOST_SPARE_FRAC, Failures, Study
from pipeline.schema import BUCKETS
from pipeline.units import US_PER_D, US_PER_H, US_PER_S

POLICIES = [
    {"name": "rigid", "response": "rigid"},
    {"name": "drop", "response": "dp-drop", "batch": "elastic"},
    {"name": "ntp", "response": "ntp", "batch": "stretch", "reduced_tp": [3, 2]},
    {"name": "ntp-pw", "response": "ntp-pw", "reduced_tp": [3, 2]},
]


def scenario(
    nodes: int = 20, size: int = 4, policies: list[dict[str, Any]] | None = None, **tables: dict[str, Any]
) -> Scenario:
    """Return a scenario of 4-GPU nodes."""
    document: dict[str, Any] = {
        "trace": {"preset": "llama3", "days": 1},
        "cluster": {"nodes": nodes, "gpus_per_node": 4, "domain_size": size},
        "job": {"tp": 4, "pp": 2, **tables.pop("job", {})},
        "policy": policies or POLICIES,
        **tables,
    }
    return parse(document, name="s", path=Path("s.toml"))


def failures(domains: int, hits: int, *, rate: float | None = None, onsets: int | None = None) -> Failures:
    """Return a day in which GPU 0 of a domain after the other is down for an hour."""
    instants = []
    for number in range(hits):
        tick = (number + 1) * US_PER_H
        down = Instant(tick, down=[(number % domains, 1)], hits=[(number % domains, 1)])
        if number:
            down.up.append(((number - 1) % domains, 1))
        instants.append(down)
    history = History(domains, US_PER_D, {}, instants)
    return Failures({0: history}, {0: hits if onsets is None else onsets}, rate)


def test_dp_follows_from_the_spares() -> None:
    """A policy gets the most replicas that fit beside its spares, unless the job states its DP."""
    for spares, dp in ((0, 10), (1, 9), (2, 9), (3, 8), (18, 1)):
        policies = [{"name": "p", "response": "dp-drop", "spare_domains": spares}]
        mine = scenario(policies=policies)
        assert Study(mine).dp_of(mine.policies[0]) == dp
        fixed = scenario(policies=[{"name": "p", "response": "dp-drop"}], job={"dp": 3})
        assert Study(fixed).dp_of(replace(fixed.policies[0], spare_domains=spares)) == 3


def test_splits_are_dense_then_coarse() -> None:
    """1,024 domains, 8 a replica: DP 128 to 112 one by one, then steps of 2, 4, 8, ... to 40 % spares."""
    mine = scenario(nodes=1024, job={"pp": 8})
    spares = Study(mine).splits()
    fewer = [*range(DENSE_SPLITS + 1), 18, 22, 30, 46]
    assert spares == [8 * count for count in fewer]
    assert spares[-1] <= MOST_SPARE_FRAC * 1024 < 8 * (46 + 32)


@pytest.mark.parametrize(("nodes", "size", "pp"), [(1024, 4, 8), (1003, 4, 7), (401, 8, 3), (75, 12, 2)])
def test_each_split_is_the_largest_spare_count_of_its_dp(nodes: int, size: int, pp: int) -> None:
    """One more spare would cost a replica, so nothing between two splits is worth comparing."""
    mine = scenario(nodes=nodes, size=size, job={"pp": pp})
    spares = Study(mine).splits()
    assert spares[0] == 0
    counts = [mine.replicas_beside(spare) for spare in spares]
    assert all(later < earlier for earlier, later in pairwise(counts))
    for spare, count in zip(spares[1:], counts[1:], strict=True):
        assert mine.replicas_beside(spare + 1) < count


def test_splits_hold_what_the_policies_state() -> None:
    """A policy's own spare count is compared too; with a stated DP only those are."""
    policies = [{"name": "p", "response": "dp-drop", "spare_domains": 3}]
    assert 3 in Study(scenario(policies=policies)).splits()
    assert Study(scenario(policies=policies, job={"dp": 4})).splits() == [0, 3]


def test_lines_cover_the_batch_rules() -> None:
    """Every policy is compared under elastic and pause, and under its own rule; rigid under pause only."""
    lines = [(line.name, line.batch) for line in Study(scenario()).lines()]
    assert lines == [
        ("rigid", "pause"),
        ("drop", "elastic"), ("drop", "pause"),
        ("ntp", "elastic"), ("ntp", "pause"), ("ntp", "stretch"),
        ("ntp-pw", "elastic"), ("ntp-pw", "pause"),
    ]  # fmt: skip


def interval_us(mine: Scenario, trouble: Failures) -> int:
    _, times = Study(mine).replay(mine.policies[0], trouble, 0)
    return times.interval


def test_youngs_interval_from_onsets() -> None:
    """In hindsight M = window / onsets * pool GPUs / job GPUs, and the interval is sqrt(2 M C)."""
    mine = scenario(policies=[{"name": "p", "response": "dp-drop", "spare_domains": 4}])
    # 24 h / 6 onsets * 80 GPUs / 64 GPUs = 5 h; sqrt(2 * 18,000 s * 10 s) = 600 s.
    trouble = failures(20, 6)
    assert Study(mine).mtbi_us(8, trouble, 0) == 5 * US_PER_H
    assert interval_us(mine, trouble) == 600 * US_PER_S


def test_youngs_interval_from_rates() -> None:
    """With synthetic rates M is 1 / (rate * job GPUs), whatever happened to be drawn."""
    # 1 / (0.075 a GPU-day * 64 GPUs) = 5 h.
    mine = scenario(policies=[{"name": "p", "response": "dp-drop", "spare_domains": 4}])
    for hits in (0, 6, 20):
        trouble = failures(20, hits, rate=0.075)
        assert Study(mine).mtbi_us(8, trouble, 0) == 5 * US_PER_H
        assert interval_us(mine, trouble) == 600 * US_PER_S


def test_without_failures_there_is_no_save_within_the_window() -> None:
    """Nothing to fear, nothing to save: the interval is the window."""
    mine = scenario()
    assert interval_us(mine, failures(20, 0)) == US_PER_D


def test_dalys_interval_and_stated_seconds() -> None:
    """Daly's rule corrects Young's; a number of seconds is taken as it stands."""
    daly = scenario(costs={"checkpoint_interval_s": "daly"}, job={"dp": 8})
    # 600 s * (1 + sqrt(10 / 36,000) / 3 + 10 / 36,000 / 9) - 10 s = 593.35 s.
    assert interval_us(daly, failures(20, 6)) == pytest.approx(593.35 * US_PER_S, abs=0.01 * US_PER_S)
    stated = scenario(costs={"checkpoint_interval_s": 90.5})
    assert interval_us(stated, failures(20, 6)) == 90_500_000


def test_policies_see_the_same_failures() -> None:
    """Each row is the same in any order of policies, and the pool is the same for all."""
    mine, trouble = scenario(), failures(20, 20)
    study, other = Study(mine), Study(mine)
    rows = {policy.name: study.row(policy, trouble, 0) for policy in mine.policies}
    again = {policy.name: other.row(policy, trouble, 0) for policy in reversed(mine.policies)}
    assert rows == again
    assert len({row["total_gpu_h"] for row in rows.values()}) == 1
    # 19 outages of an hour, and the last one from 20 h to the window's end.
    assert {row["failed_gpu_h"] for row in rows.values()} == {19 + 4.0}


def test_rows_hold_the_ledger_in_gpu_hours() -> None:
    """Buckets add up to the pool's GPU-hours, gain subtracted; a goodput is productive over total."""
    mine = scenario()
    for policy in mine.policies:
        row = Study(mine).row(policy, failures(20, 20), 0)
        added = sum(row[f"{bucket}_gpu_h"] for bucket in BUCKETS) - 2 * row["gain_gpu_h"]
        assert row["total_gpu_h"] == 80 * 24
        assert added == pytest.approx(80 * 24)
        assert row["goodput_frac"] == pytest.approx(row["productive_gpu_h"] / row["total_gpu_h"])


def test_packers_are_not_shared_between_degrees() -> None:
    """Two policies that differ in one value only do not get each other's configurations."""
    some = [
        {"name": "none", "response": "ntp", "reduced_tp": []},
        {"name": "some", "response": "ntp", "reduced_tp": [3]},
        {"name": "dear", "response": "ntp", "reduced_tp": [3], "reshard_overhead_frac": 0.5},
        {"name": "wait", "response": "ntp", "reduced_tp": [3], "batch": "pause"},
    ]
    mine, trouble = scenario(policies=some), failures(20, 20)
    study = Study(mine)
    together = [study.row(policy, trouble, 0)["goodput_frac"] for policy in mine.policies]
    alone = [Study(mine).row(policy, trouble, 0)["goodput_frac"] for policy in mine.policies]
    assert together == alone
    assert len(set(together)) == 4


def test_energy_of_a_simple_case() -> None:
    """GPUs at work 0.8 TDP, other healthy ones 0.2, failed none, and 300 W a GPU of the pool beside them.

    Eight GPUs in two domains, one replica of one group: 4 h at work, then GPU 0 of domain 1 (a spare) is dead
    for 20 h, in which four GPUs work, three idle and one is off.
    """
    policies = [{"name": "p", "response": "dp-drop", "spare_domains": 1}]
    mine = scenario(nodes=2, policies=policies, job={"pp": 1})
    history = History(2, US_PER_D, {}, [Instant(4 * US_PER_H, down=[(1, 1)], hits=[(1, 1)])])
    row = Study(mine).row(mine.policies[0], Failures({0: history}, {0: 0}), 0)
    gpu_kwh = 0.8 * 4 * 24 + 0.2 * (4 * 4 + 3 * 20)
    assert row["energy_kwh"] == pytest.approx(gpu_kwh + 0.3 * 8 * 24)
    assert row["failed_gpu_h"] == 20
    assert row["interruptions"] == 0


def test_energy_of_boosted_and_waiting_gpus() -> None:
    """A boosted group draws its own power while it runs; a job that starts or waits draws idle power only.

    Domain of 4, TP4, from the first instant on 3 GPUs at the least power for 4/3 speed, which no power gives:
    the limit of 1.3 TDP.
    """
    policies = [{"name": "p", "response": "ntp-pw", "reduced_tp": [3], "batch": "elastic"}]
    mine = scenario(
        nodes=1, policies=policies, job={"pp": 1}, costs={"checkpoint_interval_s": 10**6, "restart_s": 3480},
        power={"rack_headroom_frac": 0.1, "overhead_w": 0},
    )  # fmt: skip
    history = History(1, US_PER_D, {0: 1}, [Instant(US_PER_H, app_fault=True)])
    row = Study(mine).row(mine.policies[0], Failures({0: history}, {0: 0}), 0)
    # 23 h at work, one hour (120 s + 3,480 s) starting.
    assert row["energy_kwh"] == pytest.approx(0.8 * 1.3 * 3 * 23 + 0.2 * 3 * 1)
    assert row["detect_gpu_h"] + row["restart_gpu_h"] == pytest.approx(3)


def test_mean_time_is_exact() -> None:
    """A rate of 0.1 is a tenth, not its binary neighbour."""
    mine = scenario(job={"dp": 8})
    assert Study(mine).mtbi_us(8, failures(20, 0, rate=0.1), 0) == Fraction(US_PER_D * 10, 64)
