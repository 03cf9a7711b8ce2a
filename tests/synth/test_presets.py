"""The shipped presets say what their publications say."""

from __future__ import annotations

import csv
import json
import lzma
from collections import Counter, defaultdict
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipeline.synth import presets
from pipeline.synth.distributions import Lognormal, Mix
from pipeline.synth.draw import draw

LLAMA3_PER_GPU_D = 419 / 54 / 16_384
HBD_DAYS, HBD_NODES = 348.98, 400


@pytest.mark.parametrize("name", ["llama3", "ntp-paper"])
def test_total_rate_is_that_of_the_llama3_report(name: str) -> None:
    """Both presets add up to 419 interruptions in 54 days on 16,384 GPUs."""
    assert presets.load(name).per_gpu_d == pytest.approx(LLAMA3_PER_GPU_D, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "per_1000_node_d"), [("rsc-1", 6.50), ("rsc-2", 2.34), ("hbd-rates", 4.18), ("lanl-rates", 3.23)]
)
def test_total_rate_is_the_published_one(name: str, per_1000_node_d: float) -> None:
    """Each preset's total is the published rate of 8-GPU nodes, to its printed decimals."""
    assert round(presets.load(name).per_gpu_d * 8_000, 2) == per_1000_node_d


def test_rsc_1_gives_the_mean_time_to_failure_of_its_paper() -> None:
    """16,384 GPUs at 6.50 per 1,000 node-days fail every 1.80 h (model.md section 7)."""
    assert round(24 / (presets.load("rsc-1").per_gpu_d * 16_384), 2) == 1.80


@pytest.mark.shared
def test_llama3_rows_are_the_counts_of_the_table(shared_data: Path) -> None:
    """Rates are the table's counts, row by row, not its printed percentages."""
    with (shared_data / "logbooks" / "llama3_table.csv").open() as stream:
        table = {row["component"]: int(row["count"]) for row in csv.DictReader(stream)}
    found = {rate.reason: rate.per_gpu_d * 54 * 16_384 for rate in presets.load("llama3").rates}
    assert found == pytest.approx(table)
    assert sum(table.values()) == 419


def test_llama3_repair_times_are_borrowed_and_split_as_in_the_ntp_paper() -> None:
    """Every repair time names where it is borrowed from; the long ones are 78 % of the counts."""
    preset = presets.load("llama3")
    assert all("2504.06095" in rate.borrowed_from for rate in preset.rates)
    hardware = sum(rate.per_gpu_d for rate in preset.rates if rate.repair.longest_h > 3)
    assert hardware / preset.per_gpu_d == pytest.approx(328 / 419)


def test_ntp_paper_split_and_repair() -> None:
    """78 % hardware with 3 or 5 days at equal odds, 22 % software with 3 h, one GPU each."""
    hardware, software = presets.load("ntp-paper").rates
    assert hardware.per_gpu_d / (hardware.per_gpu_d + software.per_gpu_d) == pytest.approx(0.78)
    assert isinstance(hardware.repair, Mix)
    assert isinstance(software.repair, Mix)
    assert hardware.repair.parts == ((0.5, 72), (0.5, 120))
    assert software.repair.parts == ((1, 3),)
    assert {hardware.scope, software.scope} == {"gpu"}


@pytest.mark.parametrize("name", ["rsc-1", "rsc-2"])
def test_rsc_borrows_its_repair_times(name: str) -> None:
    """RSC's rate is a node rate without repair times; these are InfiniteHBD's, and it says so."""
    (rate,) = presets.load(name).rates
    assert rate.scope == "node"
    assert "InfiniteHBD" in rate.borrowed_from


# -- against the traces --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def faults(shared_data: Path) -> list[dict[str, Any]]:
    """Return the faults of the InfiniteHBD trace, paired here on their own, without the pipeline."""
    rows = json.loads((shared_data / "infinitehbd" / "fault_trace.json").read_text())
    is_open: dict[tuple[str, ...], list[float]] = defaultdict(list)
    found = []
    for row in rows:
        kind = row["fault_type"]
        key = (row["node_id"], kind["Level"], kind["Class"], kind["Desc"])
        if row["event_type"] == "fault_start":
            is_open[key].append(row["event_time"])
        else:
            start = is_open[key].pop(0)
            hours = (row["event_time"] - start) * 24
            found.append({"node": key[0], "class": f"{key[1]} / {key[2]}", "t": start, "h": hours})
    return found


@pytest.mark.shared
def test_hbd_rows_are_the_trace(faults: list[dict[str, Any]]) -> None:
    """Counts, medians and 95 % quantiles of every class, the rare ones together, are those of the trace."""
    preset = presets.load("hbd-rates")
    hours = defaultdict(list)
    named = {rate.reason for rate in preset.rates}
    for fault in faults:
        hours[fault["class"] if fault["class"] in named else "12 rare classes together"].append(fault["h"])
    assert len({fault["class"] for fault in faults} - named) == 12
    assert set(hours) == named
    for rate in preset.rates:
        mine = hours[rate.reason]
        assert rate.per_gpu_d * 8 * HBD_NODES * HBD_DAYS == pytest.approx(len(mine))
        assert isinstance(rate.repair, Lognormal)
        assert np.median(mine) == pytest.approx(rate.repair.median_h, abs=0.06)
        assert np.quantile(mine, 0.95) == pytest.approx(rate.repair.p95_h, abs=0.06)
        assert rate.repair.longest_h == pytest.approx(max(fault["h"] for fault in faults), abs=0.2)


@pytest.mark.shared
def test_hbd_mean_repair_is_near_the_traces(faults: list[dict[str, Any]]) -> None:
    """The lognormals' mean repair, weighted by rate, is within 12 % of the trace's 133 h."""
    preset = presets.load("hbd-rates")
    mean_h = sum(rate.per_gpu_d * rate.repair.mean_h for rate in preset.rates) / preset.per_gpu_d
    assert mean_h == pytest.approx(np.mean([fault["h"] for fault in faults]), rel=0.12)


@pytest.mark.shared
def test_hbd_bursts_are_the_traces(faults: list[dict[str, Any]]) -> None:
    """85 of 584 faults share their instant, at 30 instants, on different nodes."""
    together = {t: count for t, count in Counter(fault["t"] for fault in faults).items() if count > 1}
    assert (sum(together.values()), len(together)) == (85, 30)
    for t in together:
        nodes = [fault["node"] for fault in faults if fault["t"] == t]
        assert len(set(nodes)) == len(nodes)
    bursts = presets.load("hbd-rates").bursts
    assert bursts is not None
    assert bursts.events_frac == pytest.approx(85 / 584)
    assert bursts.mean_nodes == pytest.approx(85 / 30)


@pytest.mark.shared
def test_hbd_lemons_show_the_traces_share(faults: list[dict[str, Any]]) -> None:
    """In draws as large as the trace, the worst 10 % of nodes have on average its 41 % of the faults."""
    counts = sorted(Counter(fault["node"] for fault in faults).values(), reverse=True)
    trace = sum(counts[: HBD_NODES // 10]) / len(faults)
    assert round(trace, 2) == 0.41
    shares = []
    for seed in range(100):
        columns = draw(presets.load("hbd-rates"), HBD_DAYS, HBD_NODES, 8, seed=seed, start="clean")
        found = np.sort(np.bincount(columns["node"], minlength=HBD_NODES))[::-1]
        shares.append(found[: HBD_NODES // 10].sum() / found.sum())
    assert abs(np.mean(shares) - trace) < 0.01  # the standard error of this mean is 0.002


@pytest.mark.shared
def test_rsc_repair_times_are_those_of_all_hbd_faults(faults: list[dict[str, Any]]) -> None:
    """What RSC borrows is the median and the 95 % quantile of all 584 faults."""
    hours = [fault["h"] for fault in faults]
    for name in ("rsc-1", "rsc-2"):
        repair = presets.load(name).rates[0].repair
        assert isinstance(repair, Lognormal)
        assert np.median(hours) == pytest.approx(repair.median_h, abs=0.06)
        assert np.quantile(hours, 0.95) == pytest.approx(repair.p95_h, abs=0.06)
        assert repair.p95_h / repair.median_h == pytest.approx(np.exp(1.6448536 * repair.sigma))


@pytest.mark.shared
def test_lanl_rows_are_the_file(shared_data: Path) -> None:
    """Counts by system and cause, medians and 95 % quantiles are those of LA-UR-05-7318."""
    (path,) = (shared_data / "lanl").glob("*.csv.xz")
    with lzma.open(path, "rt", encoding="latin-1") as stream:
        rows = list(csv.DictReader(stream))
    minutes = [float(row["Down Time"].replace(",", "")) for row in rows]
    assert len(rows) == 23_739
    systems = Counter(int(row["System"]) for row in rows)
    assert [systems[number] for number in (18, 19, 20)] == [3_997, 3_284, 2_478]
    columns = {"Human error": "Human Error"}
    preset = presets.load("lanl-rates")
    named = 0
    for rate in preset.rates:
        column = columns.get(rate.reason, rate.reason)
        mine = [value / 60 for row, value in zip(rows, minutes, strict=True) if row[column].strip()]
        named += len(mine)
        assert f"{len(mine):,} in 23,286" in rate.origin
        assert rate.per_gpu_d / preset.per_gpu_d == pytest.approx(len(mine) / 23_286)
        assert isinstance(rate.repair, Lognormal)
        assert np.median(mine) == pytest.approx(rate.repair.median_h, abs=0.006)
        assert np.quantile(mine, 0.95) == pytest.approx(rate.repair.p95_h, abs=0.06)
    assert named == 23_286
    assert max(minutes) / 60 == pytest.approx(5_325, abs=1)


def test_a_lognormal_is_derived_from_its_two_quantiles() -> None:
    """Presets state quantiles and the code derives sigma = ln(p95 / median) / 1.645."""
    for rate in presets.load("hbd-rates").rates:
        assert isinstance(rate.repair, Lognormal)
        assert rate.repair.sigma == pytest.approx(log(rate.repair.p95_h / rate.repair.median_h) / 1.6448536)
