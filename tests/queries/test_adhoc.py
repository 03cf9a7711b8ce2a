"""Every worked query of queries/adhoc on the log of ten_hours.py, and on rows made up for one rule each.

Answers are worked out by hand or in plain Python, in another way than the query does.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from small_lake import catalog_of, pool, steps
from small_lake import hour as hour_of
from ten_hours import RIGID, SPARED, TOTAL_GPU_H, Ask, check, hour

from pipeline.lake import sandbox, sql

if TYPE_CHECKING:
    from collections.abc import Iterable

DAY_H = 24


def made_up(query: str, outages: Iterable[tuple[str, float, float]], window_h: float, nodes: int) -> Any:
    """Return the answer of a worked query on outages (node, from hour, to hour) of nodes of 8 GPUs."""
    rows = [
        {
            "outage_id": f"{number:04}", "node": node, "component": "gpu", "t_start": hour_of(start),
            "t_end": hour_of(min(end, window_h)), "duration_s": (end - start) * 3600,
            "is_censored": end > window_h, "end_origin": "window" if end > window_h else "logged",
            "events": 1,
        }
        for number, (node, start, end) in enumerate(outages)
    ]  # fmt: skip
    timeline = steps((0, window_h, 0))
    con = catalog_of({"outages": rows, "cluster_timeline": timeline, "placements": pool(nodes)})
    return sandbox.execute(con, sql.load("adhoc")[query].text, {"scenario": "s"}).to_pylist()


def poisson_at_least(count: int, expected: float) -> float:
    """Return the chance of at least so many events: one less those below."""
    below = (math.exp(-expected) * expected**k / math.factorial(k) for k in range(count))
    return 1 - math.fsum(below)


def test_every_worked_query_has_a_case_here() -> None:
    """A new question comes with an answer worked out another way."""
    cases = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert cases >= sql.load("adhoc").keys()


# --- what failed ------------------------------------------------------------------------------------------


def test_lemon_nodes(ask: Ask) -> None:
    """Two faults are no wonder when 1.25 are expected: n01 gpu and nic, n03 gpu and host, n02 software."""
    two, one = poisson_at_least(2, 5 / 4), poisson_at_least(1, 5 / 4)
    check(
        ask("lemon_nodes"),
        "node faults expected_faults by_chance_frac nodes_by_chance is_lemon faults_frac down_gpu_h "
        "downtime_frac commonest_component",
        ("n01", 2, 1.25, two, 4 * two, False, 2 / 5, 8.0, 8 / 15, "gpu"),
        ("n03", 2, 1.25, two, 4 * two, False, 2 / 5, 6.0, 6 / 15, "gpu"),
        ("n02", 1, 1.25, one, 4 * one, False, 1 / 5, 0.0, 0.0, "software"),
    )


def test_a_lemon_stands_out() -> None:
    """Of 50 nodes with 0.4 faults each on average, six on one node are no chance; twenty nodes are told."""
    outages = [("n7", 10.0 * k, 10.0 * k + 1) for k in range(6)]
    outages += [(f"n{k}", 100.0, 101.0) for k in range(10, 24)]
    found = made_up("lemon_nodes", outages, 200, 50)
    assert [(row["node"], row["is_lemon"]) for row in found][:2] == [("n7", True), ("n10", False)]
    assert found[0]["nodes_by_chance"] == pytest.approx(50 * poisson_at_least(6, 20 / 50), rel=1e-6)
    assert len(found) == 15
    many = [(f"n{k}", 1.0, 2.0) for k in range(50)]
    assert len(made_up("lemon_nodes", many, 200, 50)) == 20


def test_repair_survival(ask: Ask) -> None:
    """The curves of repair_time at fixed times; the host's is not known beyond its one open hour."""
    gone = [0.0] * 6
    check(
        ask("repair_survival"),
        "component repairs still_open median_h open_after_1_h_frac open_after_4_h_frac open_after_12_h_frac "
        "open_after_1_d_frac open_after_3_d_frac open_after_7_d_frac open_after_30_d_frac",
        ("all", 3, 1, 2.0, 1.0, *gone),
        ("gpu", 2, 0, 2.0, 1.0, *gone),
        ("nic", 1, 0, 3.0, 1.0, *gone),
        ("host", 0, 1, None, 1.0, *[None] * 6),
    )


def test_repairs_between_two_steps_are_read_off_the_step_before() -> None:
    """Repairs after 2, 10, 100 and 1,000 h: 3/4 are open after 4 h and 1/4 after a week and a month."""
    found = made_up("repair_survival", [("n0", 0, h) for h in (2, 10, 100, 1000)], 2000, 2)
    (row,) = [row for row in found if row["component"] == "all"]
    assert [row[f"open_after_{t}_frac"] for t in ("1_h", "4_h", "12_h", "1_d", "3_d", "7_d", "30_d")] == (
        pytest.approx([1, 3 / 4, 1 / 2, 1 / 2, 1 / 2, 1 / 4, 1 / 4])
    )
    assert row["median_h"] == 10


def test_failures_by_hour(ask: Ask) -> None:
    """Ten hours of the clock with half a fault expected in each; Friday has four of them, Saturday six."""
    found = ask("failures_by_hour")
    at = {21: 1, 22: 1, 0: 1, 5: 1, 3: 1}  # hours 1, 2, 4, 9 and 7 after 20:00
    z = 0.5 / math.sqrt(5 * 0.1 * 0.9)
    expected: list[tuple[Any, ...]] = [
        ("hour", f"{h:02}:00", 1 / 24, at.get(h, 0), 0.5, z if h in at else -z, False)
        for h in (*range(6), *range(20, 24))
    ]
    expected += [("weekday", "Friday", 4 / 24, 2, 2.0, 0.0, False)]
    expected += [("weekday", "Saturday", 6 / 24, 3, 3.0, 0.0, False)]
    check(found, "part slot exposed_d faults expected_faults z stands_out", *expected)


def test_an_hour_that_stands_out() -> None:
    """Forty faults at three in the morning on ten days, sixty spread evenly: only that hour stands out."""
    nightly = [("n0", DAY_H * day + 3.5, DAY_H * day + 3.6) for day in range(10) for _ in range(4)]
    spread = [("n1", 4.0 * k + 0.5, 4.0 * k + 0.6) for k in range(60)]
    found = made_up("failures_by_hour", nightly + spread, 10 * DAY_H, 2)
    assert [row["slot"] for row in found if row["part"] == "hour" and row["stands_out"]] == ["03:00"]
    (night,) = [row for row in found if row["slot"] == "03:00"]
    assert night["z"] == pytest.approx((40 - 100 / 24) / math.sqrt(100 / 24 * 23 / 24))
    assert sum(row["exposed_d"] for row in found) == pytest.approx(20)


def test_months(ask: Ask) -> None:
    """Hours 0 to 4 are February; the nic's outage is down in both months and begins in one."""
    # February: .5 h * 2 + 1 h * 1 + 2 h * 2 = 6 of 32 GPU-hours; March: 1 h * 4 + 2 * 1 h * 2 = 8 of 48.
    # Rates: 2 faults in 4 nodes * 4 h, 3 in 4 nodes * 6 h: 3,000 per 1,000 node-days both.
    check(
        ask("months"),
        "month days faults failing_nodes per_1000_node_d down_gpu_h down_frac down_gpu_h_per_fault "
        "most_failed_gpus most_dirty_domains",
        ("2025-02", 4 / 24, 2, 1, 3000.0, 6.0, 6 / 32, 3.0, 2, 1),
        ("2025-03", 6 / 24, 3, 2, 3000.0, 8.0, 8 / 48, 8 / 3, 4, 1),
    )


def test_longest_outages(ask: Ask) -> None:
    """By hours within the window: the power fault lasted longer, but before it."""
    columns = (
        "place node gpu component reason t_start t_end down_h gpus down_gpu_h cumulative_frac still_open "
        "began_before"
    )
    check(
        ask("longest_outages"),
        columns,
        (1, "n01", None, "nic", "link down", hour(2), hour(5), 3.0, 2, 6.0, 6 / 15, False, False),
        (2, "n03", None, "gpu", "Xid 48", hour(4), hour(6), 2.0, 2, 4.0, 10 / 15, False, False),
        (3, "n01", 0, "gpu", "Xid 79", hour(1), hour(3), 2.0, 1, 2.0, 12 / 15, False, False),
        (4, "n03", None, "host", "no answer", hour(9), hour(10), 1.0, 2, 2.0, 14 / 15, True, False),
        (5, "n04", None, "power", "", hour(0), hour(0.5), 0.5, 2, 1.0, 1.0, False, True),
    )


def test_bursts(ask: Ask) -> None:
    """Faults are an hour apart at least; of two days, Saturday sees n03, n02 and n03 again."""
    rows = []
    for together, bucket_s in (("second", 1), ("minute", 60), ("hour", 3600)):
        a_bucket = 5 * bucket_s / 36_000
        by_chance = 36_000 / bucket_s * poisson_at_least(2, a_bucket)
        rows.append((together, 0, pytest.approx(by_chance, rel=1e-4), 0.0, 0.0, 1, hour(1)))
    days = 10 / 24 * poisson_at_least(2, 12)
    rows.append(("day", 1, days, 1 / days, 3 / 5, 2, hour(4)))
    columns = "together bursts bursts_by_chance times_chance faults_in_bursts_frac most_nodes largest_from"
    check(ask("bursts"), columns, *rows)


def test_nodes_that_fail_in_one_second_are_a_burst() -> None:
    """Three nodes at one instant, two within a minute, and one node twice at once, which is no burst."""
    second = 1 / 3600
    outages = [(f"n{k}", 10.0, 11.0) for k in range(3)]
    outages += [("n0", 20.0, 21.0), ("n1", 20 + 20 * second, 21.0), ("n3", 30.0, 31.0), ("n3", 30.0, 32.0)]
    found = {row["together"]: row for row in made_up("bursts", outages, 48, 4)}
    assert [found[unit]["bursts"] for unit in ("second", "minute", "hour")] == [1, 2, 2]
    assert [found[unit]["faults_in_bursts_frac"] for unit in ("second", "minute")] == [3 / 7, 5 / 7]
    assert (found["minute"]["most_nodes"], found["minute"]["largest_from"]) == (3, hour_of(10))


def test_worst_moments(ask: Ask) -> None:
    """The first of Friday's moments with two GPUs down, and Saturday's hour with four."""
    check(
        ask("worst_moments"),
        "t_start lasted_h failed_gpus failed_frac dirty_domains failed_nodes components nodes",
        (hour(4), 1.0, 4, 0.5, 1, 2, "gpu 1, nic 1", "n01 n03"),
        (hour(0), 0.5, 2, 0.25, 1, 1, "power 1", "n04"),
    )


def test_events_of_node(ask: Ask) -> None:
    """n01 fails again before it is back; n03 works for three hours and is then down for good."""
    columns = "t_start t_end duration_h up_h gpu severity component reason still_open file row"
    check(
        ask("events_of_node", node="n01"),
        columns,
        (hour(1), hour(3), 2.0, None, 0, "down", "gpu", "Xid 79", False, "log.csv", 1),
        (hour(2), hour(5), 3.0, 0.0, None, "down", "nic", "link down", False, "log.csv", 2),
    )
    check(
        ask("events_of_node", node="n03"),
        columns,
        (hour(4), hour(6), 2.0, None, None, "down", "gpu", "Xid 48", False, "log.csv", 3),
        (hour(9), hour(10), 1.0, 3.0, None, "down", "host", "no answer", True, "log.csv", 4),
    )
    assert [row["severity"] for row in ask("events_of_node", node="n02")] == ["app"]
    assert ask("events_of_node", node="n05") == []


def test_fails_again(ask: Ask) -> None:
    """Ten hours are too short to watch a repair for a day."""
    assert ask("fails_again") == []


def test_a_node_fails_again_within_days_of_its_repair() -> None:
    """Overlapping and abutting outages are one repair; repairs too late to be watched are left out."""
    days = [
        ("n0", 1, 2), ("n0", 1.5, 3), ("n0", 3, 4),  # one spell, repaired on day 4
        ("n0", 4.5, 5),  # again after .5 d; the next one after 5 d
        ("n0", 10, 11),  # no other
        ("n1", 2, 6),  # no other
        ("n2", 39.5, 39.6),  # watched for .4 d only
        ("n3", 20, 99),  # still open
    ]  # fmt: skip
    found = made_up("fails_again", [(n, DAY_H * a, DAY_H * b) for n, a, b in days], 40 * DAY_H, 4)
    up_node_d = 4 * 40 - (3 + 0.5 + 1 + 4 + 0.1 + 20)
    chance = [1 - math.exp(-6 / up_node_d * within) for within in (1, 7, 30)]
    # Repairs on days 4, 5, 11 and 6; within 30 days only those of days 4, 5 and 6 are watched to the end.
    again = [1 / 4, 2 / 4, 2 / 3]
    check(
        found,
        "within_d repairs fails_again_frac by_chance_frac times_chance",
        *[
            (within, repairs, share, by_chance, share / by_chance)
            for within, repairs, share, by_chance in zip((1, 7, 30), (4, 4, 3), again, chance, strict=True)
        ],
    )


# --- domains ----------------------------------------------------------------------------------------------


def test_worst_domains(ask: Ask) -> None:
    """Domain 0 has 13 of 14 GPU-hours down, n01 8 of the 14 its outages sum to; n04 was down at the start."""
    check(
        ask("worst_domains"),
        "placement_seed place domain_id down_gpu_h downtime_frac dirty_frac most_failed_gpus onsets "
        "failing_nodes worst_node worst_node_frac",
        (0, 1, 0, 13.0, 13 / 14, 0.6, 4, 4, 2, "n01", 8 / 14),
        (0, 2, 1, 1.0, 1 / 14, 0.05, 2, 0, 1, "n04", 1.0),
    )


def test_dirty_together(ask: Ask) -> None:
    """One domain is dirty for 6.5 h in three spells, 1-6 the longest; two never are."""
    by_chance = 1 - (1 - 0.65 / 2) ** 2  # each of two domains is dirty .65 / 2 of the time
    check(
        ask("dirty_together"),
        "k share_frac share_low_frac share_high_frac spells longest_spell_d by_chance_frac times_chance",
        (1, 0.65, 0.65, 0.65, 3.0, 5 / 24, by_chance, 0.65 / by_chance),
    )


# --- what a policy would have done ------------------------------------------------------------------------


def test_five_spares(ask: Ask) -> None:
    """One spare is the most there is: it costs an elastic batch 4.8 GPU-hours and brings the others 14.4."""
    columns = (
        "batch policy spare_domains dp_without dp_with goodput_without_frac goodput_with_frac bought_gpu_h "
        "paused_change_gpu_h spare_idle_change_gpu_h best_spare_domains"
    )
    check(
        ask("five_spares"),
        columns,
        ("pause", "dp-drop", 1, 2, 1, 0.18, 0.36, 14.4, -38.0, 14.0, 1),
        ("pause", "rigid", 1, 2, 1, 0.18, 0.36, 14.4, -38.0, 14.0, 1),
        ("elastic", "dp-drop", 1, 2, 1, 0.42, 0.36, -4.8, 0.0, 14.0, 0),
    )


def test_gpu_faults_alone(ask: Ask) -> None:
    """Two gpu faults with 6 of 15 GPU-hours; without them every line loses 2.4 (see ten_hours.GAINS)."""
    gpu = ("gpu", 2, 2, 6.0, 6 / 15)
    check(
        ask("gpu_faults_alone"),
        "batch policy spare_domains component outages nodes down_gpu_h downtime_frac goodput_frac "
        "goodput_without_frac brings_back_gpu_h brings_back_per_gpu_h_down",
        ("elastic", "dp-drop", 0, *gpu, 0.42, 0.39, -2.4, -0.4),
        ("pause", "dp-drop", 1, *gpu, 0.36, 0.33, -2.4, -0.4),
        ("pause", "rigid", 1, *gpu, 0.36, 0.33, -2.4, -0.4),
    )


def test_faster_repair(ask: Ask) -> None:
    """Downtime falls from 14 to 8: power 1 to 0, n01 7 to 4, n03 4 to 2; an outage still open stays so."""
    check(
        ask("faster_repair"),
        "batch policy spare_domains goodput_frac half_repair_frac gain_frac gain_low_frac gain_high_frac "
        "up_gpu_h gain_gpu_h gain_per_gpu_h_up is_clear",
        ("elastic", "dp-drop", 0, 0.42, 0.45, 0.03, 0.03, 0.03, 6.0, 2.4, 0.4, True),
        ("pause", "dp-drop", 1, 0.36, 0.36, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, False),
        ("pause", "rigid", 1, 0.36, 0.36, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, False),
    )


def test_checkpoint_cost(ask: Ask) -> None:
    """Saves every 36 min: at one spare they cost more than what is lost, for rigid less."""
    rows = [
        (policy, batch, spare, 3.0, 36.0, 36 * math.sqrt(ledger["checkpoint"] / ledger["rework"]),
         ledger["checkpoint"], ledger["checkpoint"] / TOTAL_GPU_H, ledger["rework"],
         ledger["rework"] / TOTAL_GPU_H, ledger["rework"] / 3, ledger["detect"] + ledger["restart"],
         (ledger["detect"] + ledger["restart"]) / TOTAL_GPU_H)
        for policy, batch, spare, ledger in (("dp-drop", "elastic", 1, SPARED), ("rigid", "pause", 0, RIGID))
    ]  # fmt: skip
    columns = (
        "policy batch spare_domains interruptions interval_min balanced_interval_min checkpoint_gpu_h "
        "checkpoint_frac rework_gpu_h rework_frac rework_gpu_h_per_interruption detect_and_restart_gpu_h "
        "detect_and_restart_frac"
    )
    check(ask("checkpoint_cost"), columns, *rows)


def test_policy_states(ask: Ask) -> None:
    """dp-drop works 7.9 h in 15 spells with 12 saves and 3 starts; rigid works 2.5 h and waits for 6.5."""
    columns = "policy doing share_frac share_low_frac share_high_frac throughput_frac spells longest_h"
    hours = [
        ("dp-drop", "full speed", 7.9, 1.0, 15.0, 0.6),
        ("dp-drop", "saving", 1.2, 0.0, 12.0, 0.1),
        ("dp-drop", "starting", 0.9, 0.0, 3.0, 0.3),
        ("rigid", "paused", 6.5, 0.0, 3.0, 5.0),
        ("rigid", "full speed", 2.5, 1.0, 6.0, 0.6),
        ("rigid", "starting", 0.7, 0.0, 3.0, 0.3),
        ("rigid", "saving", 0.3, 0.0, 3.0, 0.1),
    ]
    rows = [
        (policy, doing, *[length / 10] * 3, throughput, spells, longest)
        for policy, doing, length, throughput, spells, longest in hours
    ]
    check(ask("policy_states"), columns, *rows)
