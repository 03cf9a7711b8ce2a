"""A resampled trace keeps what the module says it keeps, and scales to any number of nodes."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from pipeline import config
from pipeline.errors import InputError, NoDataError
from pipeline.ingest import run as ingest
from pipeline.lake import sql, stages
from pipeline.lake.store import Lake, Record
from pipeline.schema import arrow_schema
from pipeline.synth import bootstrap, observed
from pipeline.synth.contract import DAY_0, node_names
from pipeline.synth.draw import COLUMNS
from pipeline.synth.observed import History
from pipeline.synth.tables import Kind, tables
from pipeline.timelines import run as timelines
from pipeline.units import US_PER_D, US_PER_H
from tests.timelines import lab

HBD_DAYS, HBD_NODES = 348.98, 400
SEEDS = 30


def history(outages: list[tuple[float, float, int]], nodes: int = 10, days: float = 100) -> History:
    """Return a history of (start in days, length in hours, node), sorted by start."""
    start_d, length_h, node = (np.array(column) for column in zip(*sorted(outages), strict=True))
    return History(
        nodes=nodes,
        window_us=round(days * US_PER_D),
        start_us=np.rint(start_d * US_PER_D).astype(np.int64),
        length_us=np.rint(length_h * US_PER_H).astype(np.int64),
        node=node.astype(np.int64),
        gpu=np.full(len(node), -1),
        kinds=tuple(Kind("node", "gpu", "down", f"outage {number}") for number in range(len(node))),
        named_nodes=len(set(node.tolist())),
        left_out=0,
        censored=0,
    )


# Three nodes fail together on day 20; node 0 is a lemon; one repair outlasts every block.
TOY = history([(20, 5, 1), (20, 6, 2), (20, 7, 3), *((7 * n, 2, 0) for n in range(14)), (50, 2_000, 4)])


def draw(toy: History = TOY, **changed: Any) -> dict[str, Any]:
    wanted = {"days": 100.0, "nodes": toy.nodes, "block_d": 30.0, "seed": 1, "start": "clean", **changed}
    return bootstrap.draw(toy, wanted.pop("days"), wanted.pop("nodes"), **wanted)


def test_every_outage_is_an_observed_one_in_full() -> None:
    """A drawn outage keeps the length, GPU and kind of the original, also beyond its block and the window."""
    columns = draw(nodes=1_000, days=1_000)
    assert np.array_equal(columns["end_us"] - columns["start_us"], TOY.length_us[columns["kind"]])
    assert np.array_equal(columns["gpu"], TOY.gpu[columns["kind"]])
    assert set(columns["kind"]) == set(range(len(TOY.kinds)))
    assert columns["end_us"].max() > 1_000 * US_PER_D


def test_one_block_as_long_as_the_window_is_the_trace_turned() -> None:
    """With block = window = target, every group has each outage exactly once, shifted around the circle."""
    columns = draw(nodes=30, block_d=100.0)
    assert Counter(columns["kind"]) == dict.fromkeys(range(len(TOY.kinds)), 3)
    group = columns["node"] // 10
    for number in range(3):
        mine = group == number
        shift = (columns["start_us"][mine] - TOY.start_us[columns["kind"][mine]]) % TOY.window_us
        assert len(set(shift.tolist())) == 1


def test_the_rate_is_the_observed_one() -> None:
    """Over seeds the mean number of outages is observed count x days x nodes, within its standard error."""
    counts = [len(draw(nodes=25, days=90, seed=seed)["node"]) for seed in range(400)]
    expected = len(TOY.kinds) * 0.9 * 2.5
    assert abs(np.mean(counts) - expected) < 4.5 * np.std(counts) / sqrt(len(counts))


def test_what_happened_together_happens_together() -> None:
    """Three nodes that fail at one instant do so in the target, on three different nodes of one group."""
    columns = draw(nodes=100, days=2_000)
    burst = columns["kind"][np.isin(columns["kind"], np.flatnonzero(TOY.start_us == 20 * US_PER_D))]
    at = columns["start_us"][np.isin(columns["kind"], burst)]
    nodes = columns["node"][np.isin(columns["kind"], burst)]
    instants, counts = np.unique(at, return_counts=True)
    assert len(instants) > 50
    assert set(counts) == {3}
    for instant in instants:
        mine = nodes[at == instant]
        assert len(set(mine.tolist())) == len(mine)
        assert len(set((mine // 10).tolist())) == 1


def test_an_observed_node_stands_once_in_a_group() -> None:
    """No two nodes of a group carry the same outage: copies would fail at the very same instants."""
    columns = draw(nodes=1_000, days=500)
    keys = list(zip(columns["start_us"], columns["kind"], columns["node"] // 10, strict=True))
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("start", ["clean", "steady"])
def test_a_node_has_its_failures_in_a_cluster_of_any_size(start: str) -> None:
    """The first 25 nodes fail alike, whether 25 or 1,000 are drawn, and longer traces only add to the end."""
    small = draw(nodes=25, days=300, start=start)
    large = draw(nodes=1_000, days=700, start=start)
    mine = (large["node"] < 25) & (large["start_us"] < 300 * US_PER_D)
    for column in COLUMNS:
        assert np.array_equal(small[column], large[column][mine]), column


def test_steady_begins_with_nodes_down_and_clean_with_none() -> None:
    """At time 0 of a steady trace the observed mean share of nodes is down (with overlaps counted)."""
    shares = []
    for seed in range(400):
        columns = draw(start="steady", nodes=50, days=1, seed=seed)
        assert columns["end_us"].min() > 0
        shares.append(np.sum(columns["start_us"] < 0) / 50)
    expected = TOY.length_us.sum() / TOY.window_us / TOY.nodes
    assert abs(np.mean(shares) - expected) < 4.5 * np.std(shares) / sqrt(len(shares))
    assert draw(nodes=50)["start_us"].min() >= 0


def test_nodes_stay_unequal_over_blocks() -> None:
    """Half of the nodes keep their place in a block: the lemon's place has more than its even share."""
    columns = draw(days=3_000)
    counts = np.bincount(columns["node"], minlength=10)
    lemon_kinds = np.isin(columns["kind"], np.flatnonzero(TOY.node == 0))
    at_home = np.bincount(columns["node"][lemon_kinds], minlength=10).max() / lemon_kinds.sum()
    # It stays with 1 - MOVE_FRAC, and a swap leaves it in place once in about five.
    assert 0.45 < at_home < 0.75
    assert counts.min() > 0


# -- the real trace ------------------------------------------------------------------------------


def statistics(columns: dict[str, Any], nodes: int, days: float) -> dict[str, float]:
    """Return what the bootstrap is judged by; capacity uses the union of outages per node."""
    span = round(days * US_PER_D)
    began = columns["start_us"][columns["start_us"] >= 0]
    gaps = np.diff(np.sort(began))
    outages = pl.DataFrame(
        {
            "node": columns["node"],
            "low": np.clip(columns["start_us"], 0, span),
            "high": np.clip(columns["end_us"], 0, span),
        }
    ).sort("node", "low")
    # An outage adds what reaches beyond all earlier ones of its node.
    reached = pl.col("high").cum_max().shift(1).over("node").fill_null(0)
    outages = outages.with_columns(low=pl.max_horizontal("low", reached)).filter(
        pl.col("low") < pl.col("high")
    )
    down = np.zeros(nodes)
    per_node = outages.group_by("node").agg((pl.col("high") - pl.col("low")).sum().alias("us"))
    down[per_node["node"].to_numpy()] = per_node["us"].to_numpy()
    ends = np.concatenate([outages["low"], outages["high"], [0, span]])
    steps = np.concatenate([np.ones(outages.height), -np.ones(outages.height), [0, 0]])
    order = np.argsort(ends, kind="stable")
    level, length = np.cumsum(steps[order])[:-1], np.diff(ends[order])
    by_level = np.argsort(level, kind="stable")
    share = np.cumsum(length[by_level]) / span
    percentile = {p: level[by_level][np.searchsorted(share, p / 100)] / nodes for p in (50, 90, 99)}
    faults = np.sort(np.bincount(columns["node"][columns["start_us"] >= 0], minlength=nodes))[::-1]
    worst = nodes // 10
    return {
        "per 1,000 node-days": len(began) / nodes / days * 1_000,
        "gap CV": float(gaps.std() / gaps.mean()),
        "share of zero gaps": float(np.mean(gaps == 0)),
        "mean down": float(down.sum() / span / nodes),
        "downtime on the worst 10 %": float(np.sort(down)[::-1][:worst].sum() / down.sum()),
        "faults on the worst 10 %": float(faults[:worst].sum() / faults.sum()),
        "nodes without a fault": float(np.mean(faults == 0)),
        **{f"p{p} down": float(value) for p, value in percentile.items()},
        "repair median, h": float(
            np.median((columns["end_us"] - columns["start_us"])[columns["start_us"] >= 0]) / US_PER_H
        ),
    }


def write(folder: Path, trace: str, nodes: int = 64) -> config.Scenario:
    path = folder / "boot.toml"
    path.write_text(
        f"[trace]\n{trace}\n[cluster]\nnodes = {nodes}\ndomain_size = 16\n"
        '[job]\ntp = 16\n[[policy]]\nname = "p"\nresponse = "dp-drop"\n'
    )
    return config.load(str(path))


@pytest.fixture(scope="module")
def real(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> History:
    """Return the history of the InfiniteHBD trace."""
    folder = tmp_path_factory.mktemp("hbd")
    path = shared_data / "infinitehbd" / "fault_trace.json"
    chosen = write(
        folder,
        f'bootstrap = "infinitehbd"\npath = "{path}"\nwindow_d = [0, {HBD_DAYS}]\n'
        "days = 9\nobserved_nodes = 400",
    )
    lake = Lake(folder / "root")
    (item,) = ingest.ingest(lake, "infinitehbd", [str(path)], ingest.Options(), lambda _: None)
    window = observed.window("a test", chosen.trace, [item.record])
    return observed.load(lake, [item.record], window, HBD_NODES, "a test")


@pytest.fixture(scope="module")
def trace_and_draws(real: History) -> tuple[dict[str, float], dict[str, Any]]:
    """Return the statistics of the trace, and those of draws as large, one each for a number of seeds."""
    trace = {
        "start_us": real.start_us,
        "end_us": real.start_us + real.length_us,
        "node": real.node,
    }
    draws = [
        statistics(
            bootstrap.draw(real, HBD_DAYS, HBD_NODES, block_d=30, seed=seed, start="steady"),
            HBD_NODES,
            HBD_DAYS,
        )
        for seed in range(SEEDS)
    ]
    own = statistics(trace, HBD_NODES, HBD_DAYS)
    return own, {name: np.array([one[name] for one in draws]) for name in own}


@pytest.mark.shared
def test_the_history_is_the_trace(real: History, trace_and_draws: tuple[dict[str, float], Any]) -> None:
    """584 outages of 231 nodes out of 400, with the reference values of model.md section 3."""
    assert (len(real.kinds), real.named_nodes, real.left_out, real.censored) == (584, 231, 0, 0)
    trace, _ = trace_and_draws
    assert [round(trace[f"p{p} down"] * HBD_NODES) for p in (50, 90, 99)] == [7, 22, 31]
    assert trace["mean down"] * HBD_NODES * HBD_DAYS == pytest.approx(3_231.3222, abs=1e-4)


@pytest.mark.shared
def test_the_trace_looks_like_one_of_its_bootstraps(
    trace_and_draws: tuple[dict[str, float], dict[str, Any]],
) -> None:
    """Every statistic of the trace lies within two standard deviations of 30 draws of 400 nodes."""
    trace, draws = trace_and_draws
    for name, value in trace.items():
        mean, spread = draws[name].mean(), draws[name].std(ddof=1)
        assert abs(value - mean) < 2 * spread, f"{name}: trace {value:.4g}, drawn {mean:.4g} +- {spread:.2g}"


# What 30 draws of 400 nodes give on average, over what the trace has: closer than the spread of one draw.
BIAS = {
    "per 1,000 node-days": 0.10,
    "gap CV": 0.15,
    "share of zero gaps": 0.20,
    "mean down": 0.15,
    "downtime on the worst 10 %": 0.05,
    "faults on the worst 10 %": 0.05,
    "nodes without a fault": 0.10,
    "p50 down": 0.25,
    "p90 down": 0.35,  # the one bad season, days 60 to 120, is cut up by blocks of 30 days
    "p99 down": 0.25,
    "repair median, h": 0.20,
}


@pytest.mark.shared
@pytest.mark.parametrize("name", BIAS)
def test_the_mean_of_many_draws_is_near_the_trace(
    trace_and_draws: tuple[dict[str, float], dict[str, Any]], name: str
) -> None:
    """On average a statistic is off by no more than its stated share of the trace's value."""
    trace, draws = trace_and_draws
    assert draws[name].mean() == pytest.approx(trace[name], rel=BIAS[name])


@pytest.mark.shared
def test_failures_stay_bursty(trace_and_draws: tuple[dict[str, float], dict[str, Any]]) -> None:
    """Gaps are far from Poisson (CV 1): on average above 1.4, as the trace's 1.76."""
    trace, draws = trace_and_draws
    assert round(trace["gap CV"], 2) == 1.76
    assert draws["gap CV"].mean() > 1.4


@pytest.mark.shared
def test_a_larger_cluster_keeps_rate_and_level_and_varies_less(
    real: History, trace_and_draws: tuple[dict[str, float], dict[str, Any]]
) -> None:
    """4,096 nodes have the rate and mean share down of 400, within the spread of 400, and a lower p99."""
    trace, draws = trace_and_draws
    large = [
        statistics(bootstrap.draw(real, 365, 4_096, block_d=30, seed=seed, start="steady"), 4_096, 365)
        for seed in range(5)
    ]
    for name in ("per 1,000 node-days", "mean down"):
        values = np.array([one[name] for one in large])
        assert abs(values.mean() - trace[name]) < draws[name].std(ddof=1)
        assert values.std(ddof=1) < draws[name].std(ddof=1)
    assert max(one["p99 down"] for one in large) < trace["p99 down"]


@pytest.mark.shared
def test_a_year_of_a_million_gpus_takes_seconds(real: History) -> None:
    """125,000 nodes for a year: some 190,000 outages."""
    columns = bootstrap.draw(real, 365, 125_000, block_d=30, seed=1, start="steady")
    mean = 584 / HBD_DAYS * 365 * 125_000 / HBD_NODES
    assert np.sum(columns["start_us"] >= 0) == pytest.approx(mean, rel=0.05)


# -- the stage -----------------------------------------------------------------------------------

LOG = """node,start,end,component,reason
a,2024-01-03T00:00:00Z,2024-01-03T06:00:00Z,gpu,dead
b,2024-01-03T00:00:00Z,2024-01-04T00:00:00Z,power,dark
c,2024-01-20T00:00:00Z,2024-01-20T01:00:00Z,software,slow
b,2023-12-01T00:00:00Z,2024-01-02T00:00:00Z,nic,old
c,2024-01-30T00:00:00Z,,gpu,open
"""
BOOT = """bootstrap = "intervals"
path = "log.csv"
window = ["2024-01-01T00:00Z", "2024-02-01T00:00Z"]
observed_nodes = 20
block_d = 10
days = 400
"""


def stage(folder: Path, trace: str = BOOT, log: str = LOG, nodes: int = 64) -> tuple[Lake, Record, bool]:
    (folder / "log.csv").write_text(log)
    lake = Lake(folder / "root")
    (record,), ran = ingest.stage(lake, write(folder, trace, nodes), lambda _: None)
    return lake, record, ran


def test_a_bootstrap_comes_through_the_same_door(tmp_path: Path) -> None:
    """The stage ingests the source, resamples its outages and returns the synthetic record alone."""
    lake, record, ran = stage(tmp_path)
    assert (record.stage, ran) == ("synth", True)
    events = pl.read_parquet(lake.table(record, "events"))
    assert set(events["kind"]) == {"interval"}
    assert set(events["reason"]) == {"dead", "dark", "slow", "open"}  # what began before the window is out
    assert set(events["component"]) == {"gpu", "power", "software"}
    assert events["node"].str.starts_with("node-").all()
    assert events["t_start"].min() >= DAY_0.replace(tzinfo=None)
    facts = record.facts
    assert facts["day_0"] == DAY_0.isoformat()
    assert facts["rate_per_gpu_d"] == pytest.approx(4 / (31 * 20 * 8))
    assert "resampled" in facts["title"]
    told = " ".join(facts["assumptions"])
    for part in (
        "4 real outages of 20 nodes",
        "17 of these nodes had none",
        "10-day blocks",
        "left out: 1.",
        "which end there: 1.",
    ):
        assert part in told, part


def test_a_bootstrap_becomes_timelines(tmp_path: Path) -> None:
    """The timelines have the synthetic window, and every node of the target is placed by its name."""
    lake, record, _ = stage(tmp_path)
    chosen = config.load(str(tmp_path / "boot.toml"))
    built, _ = timelines.stage(lake, chosen, [record], lambda _: None)
    assert built.facts["window_us"] == 400 * US_PER_D
    assert built.facts["window_start"] == DAY_0.isoformat()
    assert built.facts["rates"] == record.facts["rates"]
    assert sum(rate["per_gpu_d"] for rate in record.facts["rates"]) == pytest.approx(
        record.facts["rate_per_gpu_d"], rel=1e-12
    )
    placements = pl.read_parquet(lake.table(built, "placements"))
    assert sorted(placements["node"])[:2] == ["node-00001", "node-00002"]
    assert placements["node"].n_unique() == 64


def test_it_runs_again_only_when_what_it_reads_has_changed(tmp_path: Path) -> None:
    """A second run does nothing; another seed, block or log draws anew; equal parameters, equal bytes."""
    _, first, _ = stage(tmp_path)
    assert stage(tmp_path)[1:] == (first, False)
    digests = {first.outputs["events"].sha256}
    for trace, log in (
        (BOOT + "seed = 2\n", LOG),
        (BOOT.replace("block_d = 10", "block_d = 20"), LOG),
        (BOOT, LOG.replace("06:00", "07:00")),
    ):
        _, record, ran = stage(tmp_path, trace, log)
        assert ran
        digests.add(record.outputs["events"].sha256)
    assert len(digests) == 4
    other = tmp_path / "elsewhere"
    other.mkdir()
    assert stage(other)[1].outputs["events"].sha256 == first.outputs["events"].sha256


def test_the_observed_rate_leaves_out_what_the_scenario_leaves_out(tmp_path: Path) -> None:
    """`exclude` and [trace.severity] apply to the resampled events as to a log's, and to the rate."""
    _, record, _ = stage(tmp_path, BOOT + 'exclude = ["software"]\n')
    assert record.facts["rate_per_gpu_d"] == pytest.approx(3 / (31 * 20 * 8))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("block_d = 10", "block_d = 32", "block_d: 32 days.*window has 31"),
        ("observed_nodes = 20", "observed_nodes = 2", "observed_nodes: 2, but outages name 3 nodes"),
        (
            'window = ["2024-01-01T00:00Z", "2024-02-01T00:00Z"]',
            "window_d = [0, 31]",
            "'intervals' has no day 0",
        ),
    ],
)
def test_a_wrong_bootstrap_is_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """What does not fit the log is told with the key, before anything is drawn."""
    with pytest.raises(InputError, match=said):
        stage(tmp_path, BOOT.replace(old, new))


def test_a_window_without_outages_is_no_data(tmp_path: Path) -> None:
    """Nothing can be resampled from a window in which nothing began."""
    with pytest.raises(NoDataError, match="no outage of a node or a domain begins in it"):
        stage(tmp_path, BOOT.replace("2024-01-01", "2024-03-01").replace("2024-02-01", "2024-04-01"))


def test_faults_of_domains_stay_faults_of_domains(tmp_path: Path) -> None:
    """Drawn again they take a whole domain each, as often per node as observed, and the page says so."""
    # Twenty nodes over 100 s: rack r1 by name alone and r2 too, twice; c's rack; one fault of node d.
    faults = [
        lab.Fault("", None, 10, 11, reason="r1"),
        lab.Fault("", None, 30, 32, reason="r2"),
        lab.Fault("", None, 60, 63, reason="r2"),
        lab.Fault("c", None, 70, 74, reason="c"),
        lab.Fault("d", None, 80, 85, reason="d"),
    ]
    rows = lab.events(faults).to_pylist()
    for row, domain in zip(rows, ["r1", "r2", "r2", None, None], strict=True):
        row |= {"node": row["node"] or None, "domain": domain}
        row["scope"] = "node" if row["node"] == "d" else "domain"
    events = pa.Table.from_pylist(rows, schema=arrow_schema("events"))
    lake = Lake(tmp_path / "root")
    record, _ = stages.run(
        lake,
        "ingest",
        "log",
        inputs={},
        code="1",
        build=lambda folder: (stages.write_tables(folder, {"events": events}), {}),
        log=lambda _: None,
    )
    window = (lab.START, lab.START + timedelta(seconds=100))
    found = observed.load(lake, [record], window, 20, "a test")
    assert [kind.scope for kind in found.kinds] == ["domain"] * 4 + ["node"]
    assert (found.domain_faults, found.named_nodes, found.left_out) == (4, 2, 0)
    assert found.node.tolist() == [0, 10, 10, 0, 1]  # r1 and r2 far apart; c and d by name
    told = " ".join(bootstrap.assumptions(found, 20, 30, "clean"))
    assert "4 of the outages are of whole domains" in told and "left out" not in told

    # One block as long as the window: each once for every 20 nodes.
    columns = bootstrap.draw(found, 100 / 86_400, 40, block_d=100 / 86_400, seed=1, start="clean")
    assert Counter(columns["kind"]) == dict.fromkeys(range(5), 2)
    drawn = tables(columns, found.kinds, 40, "drawn", "0" * 64)["events"]
    places = lab.placements(node_names(40), lab.cluster(40, 8, 16))
    with sql.connect() as con:
        values = {
            **lab.parameters(200, 16),
            "window_start": DAY_0.replace(tzinfo=None),
            "window_end": DAY_0.replace(tzinfo=None) + timedelta(seconds=200),
        }
        lab.build(con, drawn, places, values)
        gpus = con.execute(
            "select reason, gpu_last - gpu_first + 1 "
            "from placed_outages join outages using (outage_id) order by 1"
        ).fetchall()
    assert gpus == [("c", 16)] * 2 + [("d", 8)] * 2 + [("r1", 16)] * 2 + [("r2", 16)] * 4
