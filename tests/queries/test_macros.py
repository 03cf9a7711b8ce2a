"""Every macro on the log of ten_hours.py: all its rows and columns, worked out by hand or in plain Python.

The arithmetic stands in ten_hours.py for the ledgers, and beside the rows for the rest.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import pytest
from ten_hours import (
    ELASTIC,
    ELASTIC_KWH,
    GAINS,
    LEVELS,
    PER_DAY,
    POOL_GPUS,
    RIGID,
    RIGID_KWH,
    SPARED,
    SPARED_KWH,
    TOTAL_GPU_H,
    WINDOW_H,
    Ask,
    check,
    close,
    hour,
)

from pipeline.lake import catalog

if TYPE_CHECKING:
    import duckdb

# batch rule, policy, spares and DP of each policy's best split, its ledger and energy.
BEST = (
    ("elastic", "dp-drop", 0, 2, ELASTIC, ELASTIC_KWH),
    ("pause", "dp-drop", 1, 1, SPARED, SPARED_KWH),
    ("pause", "rigid", 1, 1, SPARED, SPARED_KWH),
)


# --- 3_metrics --------------------------------------------------------------------------------------------


def test_scenario_window(ask: Ask) -> None:
    """Ten hours, four nodes of two GPUs in two domains."""
    check(
        ask("from scenario_window('small')"),
        "t_start t_end window_us window_d first_seed placements nodes unplaced_nodes pool_domains pool_gpus",
        (hour(0), hour(10), 36_000_000_000, 10 / 24, 0, 1, 4, 0, 2, POOL_GPUS),
    )


def test_concurrency(ask: Ask) -> None:
    """Exceedance: the share of time in which at least k are down, for every k that occurs."""
    # Hours at each level. GPUs: 0 .5+3, 1 1, 2 .5+2+1+1, 4 1. Dirty domains: 0 3.5, 1 6.5: n01 and n03, down
    # together from 4 to 5, share a domain. Nodes: 0 3.5, 1 5.5, 2 1.
    levels = {
        "domains": {0: 3.5, 1: 6.5},
        "gpus": {0: 3.5, 1: 1.0, 2: 4.5, 4: 1.0},
        "nodes": {0: 3.5, 1: 5.5, 2: 1.0},
    }
    expected = [
        (unit, k, *[sum(h for level, h in hours.items() if level >= k) / WINDOW_H] * 3)
        for unit, hours in levels.items()
        for k in hours
    ]
    assert [row[2] for row in expected] == pytest.approx([1, 0.65, 1, 0.65, 0.55, 0.1, 1, 0.65, 0.1])
    columns = "unit k share_frac share_low_frac share_high_frac"
    check(ask("from concurrency('small')"), columns, *expected)


def test_mtbf_by_component(ask: Ask) -> None:
    """Faults begun in the window over its length; the power fault began before."""
    # gpu: 2 in 10 h: 4.8 a day, one in 5 h; 4 nodes * 10/24 d = 5/3 node-days: 2 / (5/3) * 1000 = 1,200.
    columns = "component faults faults_per_day mtbf_h per_1000_node_d"
    rows = [("gpu", 2, 4.8, 5.0, 1200.0)]
    rows += [(component, 1, 2.4, 10.0, 600.0) for component in ("host", "nic", "software")]
    # Its interval has a test of its own (test_mtbf_interval.py).
    check(ask("from mtbf_by_component('small')"), columns, *rows, only=False)


def test_repair_time(ask: Ask) -> None:
    """Kaplan-Meier: the host's outage is at risk for an hour and then leaves without a repair."""
    # all: 1 h: 4 at risk, 1 leaves, S = 1. 2 h: 3 at risk, both gpu faults repaired, S = 1 - 2/3 = 1/3.
    # 3 h: the nic, 1 at risk, S = 0. power began before the window, software took no GPU.
    check(
        ask("from repair_time('small')"),
        "component t_h at_risk repaired censored survival_frac",
        ("all", 1.0, 4, 0, 1, 1.0),
        ("all", 2.0, 3, 2, 0, 1 / 3),
        ("all", 3.0, 1, 1, 0, 0.0),
        ("gpu", 2.0, 2, 2, 0, 0.0),
        ("host", 1.0, 1, 0, 1, 1.0),
        ("nic", 3.0, 1, 1, 0, 0.0),
    )


def test_repair_summary(ask: Ask) -> None:
    """Median and 95 % read off the curve; the mean is the area under it: 1 + 1 * 1 + 1 * 1/3 for all."""
    check(
        ask("from repair_summary('small')"),
        "component outages median_h p95_h mean_h censored_frac assumed_frac begun_before_frac",
        ("all", 5, 2.0, 3.0, 7 / 3, 1 / 5, 0.0, 1 / 5),
        ("gpu", 2, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0),
        ("host", 1, None, None, 1.0, 1.0, 0.0, 0.0),
        ("nic", 1, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0),
        ("power", 1, None, None, None, 0.0, 0.0, 1.0),
    )


@pytest.mark.parametrize(
    ("size", "domains", "dirty_h"),
    [
        (4, 2, 6 + 0.5),  # domain 0: 1-6 and 9-10; domain 1: 0-.5
        (2, 4, 4 + 3 + 0 + 0.5),  # node by node: n01 1-5, n03 4-6 and 9-10, n02, n04
        (8, 1, 0.5 + 5 + 1),  # anything down
        (1, 8, 14),  # every GPU for itself: the downtime
        (16, 0, math.nan),  # no such block in the pool
    ],
)
def test_availability(ask: Ask, size: int, domains: int, dirty_h: float) -> None:
    """The share of time that a block is clean, beside the closed form (1 - 14/80) ** size."""
    clean = 1 - dirty_h / (domains * WINDOW_H) if domains else None
    check(
        ask(f"from availability('small', {size})"),
        "domain_size domains gpu_frac clean_frac clean_low_frac clean_high_frac closed_form_frac",
        (size, domains, 1 - 14 / TOTAL_GPU_H, clean, clean, clean, (66 / 80) ** size),
    )


def test_lemons(ask: Ask) -> None:
    """Nodes by GPU-hours down, outages summed: n01 1 * 2 h + 2 * 3 h, n03 2 * 2 h + 2 * 1 h, n04 2 * .5 h."""
    check(
        ask("from lemons('small')"),
        "node outages down_h down_gpu_h worst_component cumulative_frac nodes_frac",
        ("n01", 2, 5.0, 8.0, "nic", 8 / 15, 1 / 4),
        ("n03", 2, 3.0, 6.0, "gpu", 14 / 15, 2 / 4),
        ("n04", 1, 0.5, 1.0, "power", 1.0, 3 / 4),
        only=False,
    )


def test_lost_by_component(ask: Ask) -> None:
    """The same 15 GPU-hours: gpu 1 * 2 h + 2 * 2 h, nic 2 * 3 h, host 2 * 1 h, power 2 * .5 h."""
    check(
        ask("from lost_by_component('small')"),
        "component outages nodes down_gpu_h share_frac",
        ("gpu", 2, 2, 6.0, 6 / 15),
        ("nic", 1, 1, 6.0, 6 / 15),
        ("host", 1, 1, 2.0, 2 / 15),
        ("power", 1, 1, 1.0, 1 / 15),
        only=False,
    )


def test_outages_in_window(ask: Ask, con: duckdb.DuckDBPyConnection) -> None:
    """Cut to the window, with the length as logged beside; a node takes two GPUs, gpu 0 of n01 one."""
    ids = dict(con.execute('select "row", event_id from events').fetchall())
    check(
        ask("from outages_in_window('small') order by t_start"),
        "outage_id node gpu component reason is_censored end_origin begins_in_window t_start t_end "
        "duration_h gpus down_h",
        (ids[6], "n04", None, "power", "", False, "logged", False, hour(0), hour(0.5), 2.5, 2, 0.5),
        (ids[1], "n01", 0, "gpu", "Xid 79", False, "logged", True, hour(1), hour(3), 2.0, 1, 2.0),
        (ids[2], "n01", None, "nic", "link down", False, "logged", True, hour(2), hour(5), 3.0, 2, 3.0),
        (ids[3], "n03", None, "gpu", "Xid 48", False, "logged", True, hour(4), hour(6), 2.0, 2, 2.0),
        (ids[4], "n03", None, "host", "no answer", True, "window", True, hour(9), hour(10), 1.0, 2, 1.0),
        only=False,
    )


def test_node_timeline(ask: Ask) -> None:
    """Failed nodes: a cover of the window; n01 counts once from 1 to 5, whatever its outages do."""
    spans = [(0, 0.5, 1), (0.5, 1, 0), (1, 4, 1), (4, 5, 2), (5, 6, 1), (6, 9, 0), (9, 10, 1)]
    rows = [(hour(start), hour(end), failed) for start, end, failed in spans]
    check(ask("from node_timeline('small')"), "t_start t_end failed_nodes", *rows)


def test_app_faults(ask: Ask) -> None:
    """Six outages: five take GPUs away, the software fault does not."""
    check(ask("from app_faults('small')"), "outages app_faults down", (6, 1, 5), only=False)


def test_data_quality(ask: Ask) -> None:
    """Seven rows read, six accepted, one refused: it ends before it begins."""
    found = {(row["item"], row["reason"]): row for row in ask("from data_quality('small')")}
    ((reason,),) = [row.values() for row in ask("select reason from rejects")]
    expected: dict[tuple[str, str], tuple[int, int | None]] = {
        ("files", ""): (1, None),
        ("rows read", ""): (7, None),
        ("rows accepted", ""): (6, 7),
        ("rows rejected", ""): (1, 7),
        ("rejected because", reason): (1, 7),
        ("clears of no open fault", ""): (0, 6),
        ("outages", ""): (6, None),
        ("outages by severity", "down"): (5, 6),
        ("outages by severity", "app"): (1, 6),
        ("outages without a logged end", ""): (1, 6),
        ("outages with an assumed end", ""): (0, 6),
        ("outages of no length", ""): (1, 6),
        ("nodes with an outage", ""): (4, 4),
        ("unplaced nodes", ""): (0, 4),
        ("unplaced outages", ""): (0, 6),
    }
    assert expected.keys() <= found.keys()
    for key, (count, of_count) in expected.items():
        share = count / of_count if of_count else None
        assert (found[key]["count"], found[key]["of_count"]) == (count, of_count), key
        assert found[key]["share_frac"] == close(share), key


def test_failures_over_time(ask: Ask) -> None:
    """400 buckets of 90 s; here no bucket holds a change, so lowest, highest and mean are the level."""
    expected = []
    for unit, place in (("gpus", 2), ("domains", 3)):
        for number in range(400):
            start, end = number * WINDOW_H / 400, (number + 1) * WINDOW_H / 400
            (level,) = [row[place] for row in LEVELS if row[0] <= start and end <= row[1]]
            expected.append((unit, hour(start), hour(end), level, level, float(level), 0))
    columns = "unit t_start t_end low high mean placement_seed"
    check(ask("from failures_over_time('small')"), columns, *expected)


# --- 4_outcomes -------------------------------------------------------------------------------------------


def share(ledger: dict[str, float]) -> float:
    """Return the goodput of a ledger."""
    return ledger["productive"] / TOTAL_GPU_H


@pytest.mark.parametrize("ledger", [ELASTIC, RIGID, SPARED])
def test_the_ledgers_by_hand_add_up(ledger: dict[str, float]) -> None:
    """Before they judge anything: 8 GPUs for 10 hours."""
    assert sum(ledger.values()) - 2 * ledger["gain"] == pytest.approx(TOTAL_GPU_H)


def test_compare(ask: Ask) -> None:
    """Policies as listed, and at the best split under their own batch rule."""
    columns = (
        "policy response batch spare_domains dp goodput_frac goodput_low_frac goodput_high_frac ettr_frac "
        "interruptions productive_gpu_h total_gpu_h energy_kwh placements best_spare_domains best_dp "
        "best_goodput_frac best_goodput_low_frac best_goodput_high_frac best_productive_gpu_h"
    )
    # Work that was kept was done for .6 + 4.8 + 1.2 + .6 = 7.2 h of 10 (dp-drop), 1.8 h (rigid).
    rows = [
        ("dp-drop", "dp-drop", "elastic", 1, 1, *[0.36] * 3, 0.72, 3.0, 28.8, 80.0, SPARED_KWH, 1,
         0, 2, *[0.42] * 3, 33.6),
        ("rigid", "rigid", "pause", 0, 2, *[0.18] * 3, 0.18, 3.0, 14.4, 80.0, RIGID_KWH, 1,
         1, 1, *[0.36] * 3, 28.8),
    ]  # fmt: skip
    check(ask("from compare('small')"), columns, *rows)


def test_badput(ask: Ask) -> None:
    """Every bucket of both policies as listed, largest first."""
    found = ask("from badput('small')")
    expected = [
        (policy, bucket, gpu_h, gpu_h, gpu_h, gpu_h / TOTAL_GPU_H)
        for policy, ledger in (("dp-drop", SPARED), ("rigid", RIGID))
        for bucket, gpu_h in sorted(ledger.items())
    ]
    columns = "policy bucket gpu_h gpu_h_low gpu_h_high share_frac"
    check(sorted(found, key=lambda row: (row["policy"], row["bucket"])), columns, *expected)
    for _, rows in itertools.groupby(found, key=lambda row: row["policy"]):
        sizes = [row["gpu_h"] for row in rows]
        assert sizes == sorted(sizes, reverse=True)


def test_best_splits(ask: Ask) -> None:
    """dp-drop keeps .42 without a spare when the batch shrinks; a fixed batch is better off with one."""
    found = ask("from best_splits('small')")
    expected = [
        (batch, policy, policy, spare, dp, 0, 1, *[share(ledger)] * 3, 0.72, 3.0, TOTAL_GPU_H, kwh)
        for batch, policy, spare, dp, ledger, kwh in BEST
    ]
    columns = (
        "batch policy response spare_domains dp idle_domains placements goodput_frac goodput_low_frac "
        "goodput_high_frac ettr_frac interruptions total_gpu_h energy_kwh"
    )
    check(found, columns, *expected, only=False)
    for row, (*_, ledger, _) in zip(found, BEST, strict=True):
        assert {key: row[key] for key in row if key not in columns.split()} == {
            f"{bucket}_gpu_h": close(gpu_h) for bucket, gpu_h in ledger.items()
        }


def test_best_ledger(ask: Ask) -> None:
    """The same ledgers bucket by bucket, largest first, ties by name."""
    expected = [
        (batch, policy, spare, share(ledger), bucket, gpu_h, gpu_h / TOTAL_GPU_H)
        for batch, policy, spare, _, ledger, _ in BEST
        for bucket, gpu_h in sorted(ledger.items(), key=lambda item: (-item[1], item[0]))
    ]
    columns = "batch policy spare_domains goodput_frac bucket gpu_h share_frac"
    check(ask("from best_ledger('small')"), columns, *expected)


def test_split_curve(ask: Ask) -> None:
    """Both splits of the pool, the best marked; with a fixed batch dp-drop without a spare does as rigid."""
    columns = (
        "batch policy spare_domains dp goodput_frac goodput_low_frac goodput_high_frac placements "
        "spare_frac is_best"
    )
    lines = [("elastic", "dp-drop", ELASTIC), ("pause", "dp-drop", RIGID), ("pause", "rigid", RIGID)]
    rows = []
    for batch, policy, without in lines:
        is_best = batch == "elastic"
        rows.append((batch, policy, 0, 2, *[share(without)] * 3, 1, 0.0, is_best))
        rows.append((batch, policy, 1, 1, *[share(SPARED)] * 3, 1, 0.5, not is_best))
    check(ask("from split_curve('small')"), columns, *rows)


def test_side_by_side(ask: Ask) -> None:
    """The listed spares under each rule beside the best split, and what repairs twice as fast bring there."""
    columns = (
        "batch policy response is_listed listed_spare_domains listed_dp listed_goodput_frac "
        "listed_goodput_low_frac listed_goodput_high_frac best_spare_domains best_dp best_goodput_frac "
        "best_goodput_low_frac best_goodput_high_frac best_productive_gpu_h_per_day best_interruptions "
        "half_repair_gain_gpu_h_per_day"
    )
    rows = [
        ("elastic", "dp-drop", "dp-drop", True, 1, 1, *[0.36] * 3, 0, 2, *[0.42] * 3, 33.6 * PER_DAY, 3.0,
         2.4 * PER_DAY),
        ("pause", "dp-drop", "dp-drop", False, 1, 1, *[0.36] * 3, 1, 1, *[0.36] * 3, 28.8 * PER_DAY, 3.0,
         0.0),
        ("pause", "rigid", "rigid", True, 0, 2, *[0.18] * 3, 1, 1, *[0.36] * 3, 28.8 * PER_DAY, 3.0, 0.0),
    ]  # fmt: skip
    check(ask("from side_by_side('small')"), columns, *rows, only=False)


def test_what_if_gains(ask: Ask) -> None:
    """Each component left out, and repairs twice as fast: replayed by hand in ten_hours.py."""
    expected = []
    for batch, policy, spare, _, ledger, _ in BEST:
        for name, gains in sorted(GAINS.items()):
            gain, logged = gains[batch == "pause"], share(ledger)
            frac, a_day = gain / TOTAL_GPU_H, gain * PER_DAY
            expected.append(
                (
                    batch,
                    policy,
                    name,
                    spare,
                    logged,
                    logged + frac,
                    frac,
                    frac,
                    frac,
                    gain,
                    a_day,
                    a_day,
                    a_day,
                )
            )
    columns = (
        "batch policy what_if spare_domains logged_frac what_if_frac gain_frac gain_low_frac gain_high_frac "
        "gain_gpu_h gain_gpu_h_per_day gain_low_gpu_h_per_day gain_high_gpu_h_per_day"
    )
    found = [row for row in ask("from what_if_gains('small')") if row["what_if"] in GAINS]
    found.sort(key=lambda row: (row["batch"], row["policy"], row["what_if"]))
    check(found, columns, *expected, only=False)


def test_loss_by_component(ask: Ask) -> None:
    """What failed itself, from the log; what the best policy gets back, and which part its stops took."""
    # outages, GPU-hours they sum to, and those of the union that nothing else takes: gpu and nic share GPU 0
    # of n01 from 2 to 3.
    down = {
        "gpu": (2, 6.0, 5.0),
        "nic": (1, 6.0, 5.0),
        "host": (1, 2.0, 2.0),
        "power": (1, 1.0, 1.0),
        "software": (0, 0.0, 0.0),
    }
    # The stops at 1, 9 and 7: rework, detect, restart.
    stops = {
        "elastic": {"gpu": (1.2, 0.7, 1.4), "host": (2.4, 0.6, 1.2), "software": (0.4, 0.8, 1.6)},
        "pause": {"gpu": (1.2, 0.7, 1.4), "host": (1.2, 0.6, 1.2), "software": (0.4, 0.4, 0.8)},
    }
    expected = []
    for batch, stopped in stops.items():
        for component, (outages, down_gpu_h, failed) in down.items():
            gain = GAINS[f"without_{component}"][batch == "pause"]
            a_day, parts = gain * PER_DAY, (failed, *stopped.get(component, (0.0, 0.0, 0.0)))
            expected.append(
                (batch, "dp-drop", component, outages, down_gpu_h, down_gpu_h * PER_DAY,
                 float(component in stopped), gain, *[a_day] * 3, gain / TOTAL_GPU_H, *parts,
                 gain - sum(parts))
            )  # fmt: skip
    columns = (
        "batch policy component outages down_gpu_h down_gpu_h_per_day interruptions brings_back_gpu_h "
        "brings_back_gpu_h_per_day brings_back_low_gpu_h_per_day brings_back_high_gpu_h_per_day "
        "brings_back_frac failed_gpu_h rework_gpu_h detect_gpu_h restart_gpu_h rest_gpu_h"
    )
    found = ask("from loss_by_component('small')")
    place = list(down).index
    found.sort(key=lambda row: (row["batch"], place(row["component"])))
    check(found, columns, *expected, only=False)


def test_headline(ask: Ask) -> None:
    """The best policy for each rule, its largest loss, what two components cost it, and the runner-up."""
    nothing: list[Any] = [None] * 6
    rows = [
        ("elastic", "dp-drop", "dp-drop", 0, 2, 0, 1, *[0.42] * 3, 3.0, 33.6, 33.6 * PER_DAY, 80.0,
         "stranded", 14.2, 14.2 / 80, *nothing,
         "host", 7.2, 7.2 * PER_DAY, 7.2 / 80, "power", 2.4 * PER_DAY,
         2.4, 2.4 * PER_DAY, *[2.4 / 80] * 3),
        # Two policies are level; failed and spare_idle too, and the first by name is told.
        ("pause", "dp-drop", "dp-drop", 1, 1, 0, 1, *[0.36] * 3, 3.0, 28.8, 28.8 * PER_DAY, 80.0,
         "failed", 14.0, 14 / 80, "rigid", 0.36, 0.0, 0.0, 0.0, 0,
         "software", 3.6, 3.6 * PER_DAY, 3.6 / 80, "host", 2.4 * PER_DAY,
         0.0, 0.0, *[0.0] * 3),
    ]  # fmt: skip
    columns = (
        "batch policy response spare_domains dp idle_domains placements goodput_frac goodput_low_frac "
        "goodput_high_frac interruptions productive_gpu_h productive_gpu_h_per_day total_gpu_h largest_loss "
        "largest_loss_gpu_h largest_loss_frac next_policy next_goodput_frac lead_frac lead_low_frac "
        "lead_high_frac lead_placements worst_component worst_component_gain_gpu_h "
        "worst_component_gain_gpu_h_per_day worst_component_gain_frac second_component "
        "second_component_gain_gpu_h_per_day half_repair_gain_gpu_h half_repair_gain_gpu_h_per_day "
        "half_repair_gain_frac half_repair_gain_low_frac half_repair_gain_high_frac"
    )
    found = ask("from headline('small')")
    check(found, columns, *rows, only=False)
    # The scenario names no fault that may leave a node computing.
    assert [row["may_compute_gain_frac"] for row in found] == [None, None]


def test_lead_over_next(ask: Ask) -> None:
    """Under pause dp-drop and rigid keep the same: the lead is nothing. Under elastic there is one policy."""
    check(
        ask("from lead_over_next('small')"),
        "batch policy next_policy next_goodput_frac lead_frac lead_low_frac lead_high_frac lead_placements",
        ("pause", "dp-drop", "rigid", share(SPARED), 0.0, 0.0, 0.0, 0),
    )


def test_tornado(ask: Ask, con: duckdb.DuckDBPyConnection) -> None:
    """Each pair of what-ifs beside the goodput as logged, from the rows of the ledgers."""
    logged = dict(
        con.execute("select (batch, policy, spare_domains)::text, goodput_frac from splits").fetchall()
    )
    ends: dict[tuple[str, str, str], tuple[float, float]] = {}
    for batch, policy, key, what_if, goodput in con.execute(
        "select batch, policy, (batch, policy, spare_domains)::text, what_if, goodput_frac from what_ifs"
    ).fetchall():
        ends[batch, policy, what_if] = (logged[key], goodput)
    found = ask("from tornado('small')")
    assert {row["axis"] for row in found} >= {"repair time", "restart time", "save interval"}
    for row in found:
        told = [
            (row[f"{end}_what_if"], row[f"{end}_frac"]) for end in ("low", "high") if row[f"{end}_what_if"]
        ]
        pairs = [ends[row["batch"], row["policy"], what_if] for what_if, _ in told]
        assert [goodput for _, goodput in told] == pytest.approx([goodput for _, goodput in pairs])
        assert row["logged_frac"] == pytest.approx(pairs[0][0])
        assert row["reach_frac"] == pytest.approx(max(abs(there - here) for here, there in pairs))
    assert [row["reach_frac"] for row in found if row["batch"] == "elastic"] == sorted(
        (row["reach_frac"] for row in found if row["batch"] == "elastic"), reverse=True
    )


# When the two policies' jobs are at work: (from hour, to hour), at full throughput; see ten_hours.py.
def rounds(start: float, end: float) -> list[tuple[float, float]]:
    """Return the spans of running from a start to the stop: 0.6 h, then a save of 0.1 h."""
    spans = []
    while start < end - 1e-9:
        spans.append((start, min(start + 0.6, end)))
        start += 0.7
    return spans


RUNNING = {
    "dp-drop": [*rounds(0, 1), *rounds(1.3, 7), *rounds(7.3, 9), *rounds(9.3, 10)],
    "rigid": [*rounds(0.7, 1), *rounds(6.2, 7), *rounds(7.3, 9)],
}
PAUSED = {"dp-drop": [], "rigid": [(0, 0.5), (1, 6), (9, 10)]}


def test_throughput_over_time(ask: Ask) -> None:
    """300 buckets of 120 s; every change falls on a border, so a bucket is all work or none."""
    expected = []
    for policy in ("dp-drop", "rigid"):
        for number in range(300):
            middle = (number + 0.5) * WINDOW_H / 300
            at_work = float(any(start < middle < end for start, end in RUNNING[policy]))
            paused = float(any(start < middle < end for start, end in PAUSED[policy]))
            start, end = hour(number * 120 / 3600), hour((number + 1) * 120 / 3600)
            expected.append((policy, start, end, at_work, at_work, at_work, paused, 0))
    columns = "policy t_start t_end low_frac high_frac mean_frac paused_frac placement_seed"
    check(ask("from throughput_over_time('small')"), columns, *expected)


def test_every_macro_has_a_case_here() -> None:
    """A new macro comes with rows worked out by hand; those of others' tests are named here."""
    elsewhere = {"nodes_of_domain_faults"}  # test_domain_faults.py: this log has none of a domain
    assert {name.removeprefix("test_") for name in globals() if name.startswith("test_")} >= (
        catalog.macros().keys() - elsewhere
    )
