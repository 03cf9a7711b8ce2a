"""Queries of 3_metrics and 4_outcomes on tables small enough to work out by hand."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path

import pytest
from small_lake import catalog_of, hour, pool, quiet, steps

from pipeline import config
from pipeline.ingest import run as ingest
from pipeline.lake import catalog
from pipeline.lake.store import Lake
from pipeline.report import page
from pipeline.report.figures import tornado
from pipeline.timelines import run as timelines

TOTAL = 480.0  # 2 nodes of 8 GPUs for 30 hours


def split(policy: str, spare: int, seed: int, share: float, batch: str = "elastic", **buckets: float) -> dict:
    """Return a row of `splits` with these GPU-hours."""
    return {
        "policy": policy, "response": policy, "batch": batch, "spare_domains": spare, "placement_seed": seed,
        "dp": 2 - spare, "goodput_frac": share, "productive_gpu_h": share * TOTAL, "total_gpu_h": TOTAL,
        "interruptions": 1, **{f"{name}_gpu_h": value for name, value in buckets.items()},
    }  # fmt: skip


def outage(component: str, start: float, end: float, **more: object) -> dict:
    """Return a row of `outages`."""
    return {
        "outage_id": f"{component}{start}", "node": "n0", "component": component, "t_start": hour(start),
        "t_end": hour(end), "duration_s": (end - start) * 3600, "is_censored": False, "end_origin": "logged",
        **more,
    }  # fmt: skip


SPLITS = [
    # a: 0 spares 0.6 on average, 1 spare 0.8; b: 0.7 at both splits, a tie
    split("a", 0, 0, 0.5, failed=100),
    split("a", 0, 1, 0.7, failed=100),
    split("a", 1, 0, 0.9, failed=10, spare_idle=30, gain=50),
    split("a", 1, 1, 0.7, failed=10, spare_idle=50, gain=70),
    split("b", 0, 0, 0.7),
    split("b", 0, 1, 0.7),
    split("b", 1, 0, 0.6),
    split("b", 1, 1, 0.8),
]
TABLES = {
    "splits": SPLITS,
    "what_ifs": [
        {**split("a", 1, seed, 0.95), "what_if": what}
        for seed in (0, 1)
        for what in ("half_repair", "without_gpu")
    ]
    + [{**split("a", 1, seed, 0.96), "what_if": "without_nic"} for seed in (0, 1)],
    "outages": [outage("gpu", 0, 6), outage("nic", 10, 11)],
    "cluster_timeline": steps((0, 30, 0)) + steps((0, 30, 0), seed=1),
    "placements": pool(seeds=(0, 1)),
}


def rows(con: object, query: str) -> list[dict]:
    """Return a query's rows."""
    return con.sql(query).pl().to_dicts()  # type: ignore[attr-defined]


def test_headline_names_the_best_policy_and_what_it_loses() -> None:
    """Best by mean at its own best split, largest loss without gain, lead paired by placement."""
    (row,) = rows(catalog_of(TABLES), "from headline('s')")
    assert (row["policy"], row["spare_domains"], row["dp"], row["placements"]) == ("a", 1, 1, 2)
    assert row["goodput_frac"] == pytest.approx(0.8)
    assert (row["goodput_low_frac"], row["goodput_high_frac"]) == pytest.approx((0.7, 0.9))
    assert row["productive_gpu_h_per_day"] == pytest.approx(0.8 * TOTAL / 1.25)
    assert (row["largest_loss"], row["largest_loss_gpu_h"]) == ("spare_idle", pytest.approx(40))
    assert row["largest_loss_frac"] == pytest.approx(40 / TOTAL)
    assert (row["next_policy"], row["lead_placements"]) == ("b", 1)
    assert (row["lead_frac"], row["lead_low_frac"], row["lead_high_frac"]) == pytest.approx((0.1, 0.0, 0.2))
    assert (row["worst_component"], row["worst_component_gain_frac"]) == ("nic", pytest.approx(0.16))
    assert row["half_repair_gain_frac"] == pytest.approx(0.15)
    assert (row["half_repair_gain_low_frac"], row["half_repair_gain_high_frac"]) == pytest.approx(
        (0.05, 0.25)
    )
    assert row["half_repair_gain_gpu_h_per_day"] == pytest.approx(0.15 * TOTAL / 1.25)


def test_equal_splits_go_to_fewer_spares() -> None:
    """Of two splits with the same mean goodput the one with fewer spares is best."""
    best = rows(catalog_of(TABLES), "select spare_domains from best_splits('s') where policy = 'b'")
    assert best == [{"spare_domains": 0}]


def test_a_single_policy_has_no_lead_and_a_clean_log_no_component() -> None:
    """Without a second policy, an outage or a what-if the headline has nulls, not errors."""
    con = catalog_of({**TABLES, "splits": SPLITS[:4], "what_ifs": [], "outages": []})
    (row,) = rows(con, "from headline('s')")
    assert row["policy"] == "a"
    assert [row[name] for name in ("next_policy", "worst_component", "half_repair_gain_frac")] == [None] * 3


def test_side_by_side_holds_the_stated_split_under_every_batch_rule() -> None:
    """The stated spares stand beside the best split, also under a rule that is not the policy's own."""
    listed = {**split("a", 0, 0, 0.6), "batch": "elastic"}
    paused = [{**row, "batch": "pause"} for row in SPLITS[:4]]
    con = catalog_of({**TABLES, "splits": SPLITS[:4] + paused, "outcomes": [listed]})
    found = rows(con, "from side_by_side('s')")
    assert [row["is_listed"] for row in found] == [True, False]
    for row in found:
        assert (row["listed_spare_domains"], row["listed_goodput_frac"]) == (0, pytest.approx(0.6))
        assert (row["best_spare_domains"], row["best_goodput_frac"]) == (1, pytest.approx(0.8))


def test_loss_by_component_tells_the_direct_loss_from_what_comes_back() -> None:
    """Down GPU-hours are outage length times GPUs; what comes back is the gain of the best policy."""
    found = {row["component"]: row for row in rows(catalog_of(TABLES), "from loss_by_component('s')")}
    assert found["gpu"]["down_gpu_h"] == pytest.approx(48)
    assert found["nic"]["down_gpu_h"] == pytest.approx(8)
    assert found["nic"]["brings_back_gpu_h"] == pytest.approx(0.16 * TOTAL)


def test_a_policy_that_a_change_does_not_touch_can_still_overtake() -> None:
    """Half the boost takes a below b, which never boosts; a tie stays with the best one."""
    ends = {"half_boost": 0.6, "full_boost": 0.85, "half_restart": 0.82, "double_restart": 0.7}
    changed = [{**split("a", 1, seed, end), "what_if": name} for name, end in ends.items() for seed in (0, 1)]
    changed += [
        {**split("b", 0, seed, 0.7), "what_if": name}
        for name in ("half_restart", "double_restart")
        for seed in (0, 1)
    ]
    frame = page.frame(catalog_of({**TABLES, "what_ifs": changed}), tornado.QUERY, "s")
    found = {row["axis"]: (row["low_best_policy"], row["high_best_policy"]) for row in frame.to_dicts()}
    assert found == {"speed from power": ("b", "a"), "restart time": ("a", "a")}
    assert "b leads under elastic when speed from power is half" in tornado.summary(frame)


def test_an_outage_counts_within_the_window_only() -> None:
    """Downtime before the window's start and after its end is not the window's."""
    con = catalog_of({**TABLES, "outages": [outage("gpu", -5, 2), outage("gpu", 28, 90)]})
    assert rows(con, "select down_gpu_h from lost_by_component('s')") == [{"down_gpu_h": pytest.approx(32)}]
    assert rows(con, "select faults, mtbf_h from mtbf_by_component('s')") == [
        {"faults": 1, "mtbf_h": pytest.approx(30)}
    ]


def test_kaplan_meier_keeps_open_outages_at_risk() -> None:
    """Repairs at 1 h and 3 h and one outage open after 2 h: survival 2/3, 2/3, 0."""
    outages = [
        outage("gpu", 0, 1),
        outage("gpu", 2, 4, is_censored=True, end_origin="window"),
        outage("gpu", 5, 8),
        outage("gpu", 9, 29, end_origin="assumed"),
        outage("gpu", -9, 29),
    ]
    con = catalog_of({**TABLES, "outages": outages})
    curve = rows(
        con, "select t_h, at_risk, repaired, survival_frac from repair_time('s') where component = 'gpu'"
    )
    assert [tuple(row.values()) for row in curve] == [
        (1, 3, 1, pytest.approx(2 / 3)),
        (2, 2, 0, pytest.approx(2 / 3)),
        (3, 1, 1, 0),
    ]
    (row,) = rows(con, "from repair_summary('s') where component = 'all'")
    assert (row["outages"], row["median_h"], row["p95_h"]) == (5, 3, 3)
    assert (row["censored_frac"], row["assumed_frac"], row["begun_before_frac"]) == (0.2, 0.2, 0.2)
    assert row["mean_h"] == pytest.approx(1 + 2 / 3 * 2)


def test_concurrency_is_the_share_of_time_with_at_least_k() -> None:
    """Each placement answers for every k that any reaches; mean, lowest and highest are over placements."""
    timeline = steps((0, 10, 0), (10, 25, 8), (25, 30, 16)) + steps((0, 15, 0), (15, 30, 8), seed=1)
    con = catalog_of({**TABLES, "cluster_timeline": timeline, "outages": []})
    found = rows(
        con, "select k, share_frac, share_low_frac, share_high_frac from concurrency('s') where unit = 'gpus'"
    )
    assert [tuple(row.values()) for row in found] == [
        (0, 1, 1, 1),
        (8, pytest.approx(7 / 12), pytest.approx(1 / 2), pytest.approx(2 / 3)),
        (16, pytest.approx(1 / 12), 0, pytest.approx(1 / 6)),
    ]


def test_node_timeline_is_a_cover_of_the_union() -> None:
    """Overlapping and abutting outages of one node count once, and the window is covered without a gap."""
    outages = [outage("gpu", 1, 5), outage("nic", 3, 8), outage("gpu", 8, 9), outage("gpu", 2, 4, node="n1")]
    found = rows(catalog_of({**TABLES, "outages": outages}), "from node_timeline('s')")
    spans = [((row["t_start"] - hour(0)).total_seconds() / 3600, row["failed_nodes"]) for row in found]
    assert spans == [(0, 0), (1, 1), (2, 2), (4, 1), (9, 0)]
    assert found[-1]["t_end"] == hour(30)


def test_reduced_series_keep_lowest_highest_and_area() -> None:
    """A bucket keeps the extremes and the exact area of the step series, in at most 1,000 rows."""
    dice = random.Random(1)
    cuts = sorted({0.0, 30.0, *(round(dice.uniform(0, 30), 6) for _ in range(3000))})
    levels = [(a, b, dice.randrange(17)) for a, b in pairwise(cuts)]
    states = [
        {
            "policy": "a",
            "t_start": hour(a),
            "t_end": hour(b),
            "state": "running",
            "relative_throughput_frac": n / 16,
        }
        for a, b, n in levels
    ]
    con = catalog_of({**TABLES, "cluster_timeline": steps(*levels), "outcome_timeline": states})
    area = sum((hour(b) - hour(a)).total_seconds() * n for a, b, n in levels)
    length = "(epoch_us(t_end) - epoch_us(t_start)) / 1e6"
    for macro, mean, low, high, unit in (
        ("failures_over_time('s') where unit = 'gpus'", "mean", "low", "high", 1),
        ("throughput_over_time('s')", "mean_frac", "low_frac", "high_frac", 16),
    ):
        (row,) = rows(
            con, f"select count(*) as n, sum({mean} * {length}) as a, min({low}) as l, max({high}) as h, "
            f"sum({length}) as t from {macro}"
        )  # fmt: skip
        assert row["n"] <= 1000
        assert row["a"] * unit == pytest.approx(area, rel=1e-9)
        assert (row["l"], row["h"] * unit, row["t"]) == (0, 16, pytest.approx(30 * 3600))


def test_lemons_rank_nodes_by_downtime() -> None:
    """The worst node comes first with its share of all downtime and of all nodes."""
    outages = [outage("gpu", 0, 3), outage("nic", 5, 6, node="n1")]
    found = rows(catalog_of({**TABLES, "outages": outages}), "from lemons('s')")
    assert [(row["node"], row["cumulative_frac"], row["nodes_frac"]) for row in found] == [
        ("n0", pytest.approx(0.75), 0.5),
        ("n1", pytest.approx(1), 1),
    ]


def test_availability_of_blocks_is_the_time_they_are_clean() -> None:
    """A block of two nodes is dirty while either is down; the GPUs' own availability is the same."""
    down = [
        {"domain_id": d, "gpu_first": 0, "gpu_last": 7, "t_start": hour(a), "t_end": hour(b)}
        for d, a, b in ((0, 0, 6), (1, 3, 9))
    ]
    con = catalog_of(
        {**TABLES, "gpu_downtime": down, "cluster_timeline": steps((0, 30, 0)), "placements": pool()}
    )
    (whole,) = rows(con, "from availability('s', 16)")
    (half,) = rows(con, "from availability('s', 8)")
    assert (whole["domains"], half["domains"]) == (1, 2)
    assert whole["gpu_frac"] == half["gpu_frac"] == pytest.approx(0.8)
    assert (whole["clean_frac"], half["clean_frac"]) == (pytest.approx(0.7), pytest.approx(0.8))


def test_data_quality_accounts_for_every_row() -> None:
    """Rows read are rows accepted and rows rejected, and each reason is told with its count."""
    file = {"file": "f", "source": "x", "rows_read": 5, "rows_accepted": 3, "rows_rejected": 2}
    rejects = [{"source": "x", "file": "f", "row": n, "reason": "bad time"} for n in (4, 5)]
    con = catalog_of({**TABLES, "files": [file], "rejects": rejects})
    found = {(row["item"], row["reason"]): row["count"] for row in rows(con, "from data_quality('s')")}
    assert found["rows read", ""] == found["rows accepted", ""] + found["rows rejected", ""] == 5
    assert found["rejected because", "bad time"] == 2
    assert (found["nodes with an outage", ""], found["outages by severity", "down"]) == (1, 2)


@pytest.mark.parametrize(
    ("source", "as_of", "expected"),
    [
        ("x", None, {"before its first row": (5, 0.05), "after its last row": (35, 0.35)}),
        ("x", 90, {"before its first row": (5, 0.05), "after its last row": (10, 0.1)}),
        ("x", 200, {"before its first row": (5, 0.05), "after its last row": (0, 0.0)}),
        ("synth", None, {}),
    ],
)
def test_a_window_beyond_the_log_is_told(
    source: str, as_of: float | None, expected: dict[str, tuple[int, float]]
) -> None:
    """Before its first row and after its last, or after it was taken, nothing is known; 100 hours here."""
    event = {"event_id": "e", "source": source, "kind": "interval", "severity": "down", "cluster": "c"}
    event |= {"t_start": hour(5), "t_end": hour(65), "as_of": as_of and hour(as_of)}
    con = catalog_of(
        {
            "ingested_events": [],
            "events": [event],
            "outages": [{"outage_id": "e", "t_start": hour(5), "t_end": hour(65), "events": 1}],
            "cluster_timeline": steps((0, 100, 0)),
            "placements": pool(),
        }
    )
    found = rows(con, "from data_quality('s') where item like 'hours of the window%'")
    assert {row["reason"]: (row["count"], row["share_frac"]) for row in found} == expected


@pytest.mark.shared
def test_the_public_trace_gives_the_published_numbers(tmp_path: Path, shared_data: Path) -> None:
    """HBD, 400 nodes: mean down 2.31 %, p50 7, p90 22, p95 26, p99 31, at most 35; availability 0.976852."""
    assert shared_data
    lake, scenario = Lake(tmp_path), config.load("hbd64")
    events, _ = ingest.stage(lake, scenario, quiet)
    timelines.stage(lake, scenario, events, quiet)
    with catalog.connect(lake) as con:
        nodes = "from concurrency('hbd64') where unit = 'nodes'"
        quantiles = [
            con.execute(f"select max(k) {nodes} and share_frac > {share}").fetchall()[0][0]
            for share in (0.5, 0.1, 0.05, 0.01, 0)
        ]
        ((mean,),) = con.execute(
            "select sum(failed_nodes * epoch(t_end - t_start)) / sum(epoch(t_end - t_start)) / 400 "
            "from node_timeline('hbd64')"
        ).fetchall()
        (own,) = rows(con, "from availability('hbd64', 64)")
    assert quantiles == [7, 22, 26, 31, 35]
    assert mean == pytest.approx(0.0231, abs=5e-5)
    assert own["gpu_frac"] == pytest.approx(0.976852, abs=5e-7)
