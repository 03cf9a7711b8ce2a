"""Synthetic failures follow their preset's rates."""

from __future__ import annotations

from datetime import timedelta
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from pipeline import config
from pipeline.lake.store import Lake
from pipeline.schema import arrow_schema
from pipeline.synth import presets
from pipeline.synth import run as synth
from pipeline.synth.contract import DAY_0, node_names
from pipeline.units import US_PER_D, US_PER_H

NODES, GPUS_PER_NODE, DAYS = 4_096, 8, 200
SIGMAS = 4.5  # one false alarm in 150,000 draws; seeds are fixed anyway


def draw(name: str, *, seed: int = 7, start: str = "clean", days: float = DAYS) -> dict[str, Any]:
    return synth.draw(presets.load(name), days, NODES, GPUS_PER_NODE, seed=seed, start=start)


def scenario(folder: Path, trace: str, nodes: int = 64, gpus_per_node: int = 8) -> config.Scenario:
    path = folder / "s.toml"
    path.write_text(
        f"[trace]\n{trace}\n[cluster]\nnodes = {nodes}\ngpus_per_node = {gpus_per_node}\ndomain_size = 8\n"
        '[job]\ntp = 4\n[[policy]]\nname = "p"\nresponse = "dp-drop"\n'
    )
    return config.load(str(path))


@pytest.mark.parametrize("name", presets.names())
def test_counts_follow_the_rates(name: str) -> None:
    """In total and for each rate, the number of events lies in the Poisson interval of its mean."""
    preset, columns = presets.load(name), draw(name)
    gpu_days = NODES * GPUS_PER_NODE * DAYS
    assert abs(len(columns["kind"]) - preset.per_gpu_d * gpu_days) < SIGMAS * sqrt(
        preset.per_gpu_d * gpu_days
    )
    for index, rate in enumerate(preset.rates):
        mean = rate.per_gpu_d * gpu_days
        assert abs(np.sum(columns["kind"] == index) - mean) < SIGMAS * sqrt(mean), rate.reason


@pytest.mark.parametrize("name", presets.names())
def test_repair_times_follow_their_weights(name: str) -> None:
    """Each rate's repairs take only its own times, each with its weight."""
    columns = draw(name)
    hours = (columns["end_us"] - columns["start_us"]) / US_PER_H
    for index, rate in enumerate(presets.load(name).rates):
        mine = hours[columns["kind"] == index]
        assert set(mine) <= {value for _, value in rate.repair.parts}
        for weight, value in rate.repair.parts:
            spread = sqrt(len(mine) * weight * (1 - weight))
            assert abs(np.sum(mine == value) - len(mine) * weight) <= SIGMAS * spread


def test_hardware_and_software_stand_78_to_22() -> None:
    """The NTP paper's split is met within its binomial interval."""
    kind = draw("ntp-paper")["kind"]
    share, spread = np.mean(kind == 0), sqrt(0.78 * 0.22 / len(kind))
    assert abs(share - 0.78) < SIGMAS * spread


def test_places_and_times_are_uniform() -> None:
    """Nodes, GPUs and instants are drawn evenly: ten equal parts differ by chance only."""
    columns = draw("ntp-paper")
    count = len(columns["kind"])
    spans = {"node": NODES, "gpu": GPUS_PER_NODE, "start_us": DAYS * US_PER_D}
    for name, span in spans.items():
        parts = 8 if name == "gpu" else 10
        found = np.bincount(columns[name] * parts // span, minlength=parts)
        assert np.all(np.abs(found - count / parts) < SIGMAS * sqrt(count / parts)), name


def test_clean_starts_with_nothing_down() -> None:
    """With start = clean, no event begins before time 0."""
    assert draw("ntp-paper")["start_us"].min() >= 0


def test_steady_starts_at_the_long_run_level() -> None:
    """With start = steady, the number down at time 0 is Poisson with mean rate x mean repair."""
    preset = presets.load("ntp-paper")
    columns = draw("ntp-paper", start="steady", days=10)
    down = np.sum((columns["start_us"] < 0) & (columns["end_us"] > 0))
    mean_d = sum(
        rate.per_gpu_d * weight * hours / 24 for rate in preset.rates for weight, hours in rate.repair.parts
    )
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


def test_tables_are_those_of_the_schema(tmp_path: Path) -> None:
    """Intervals with rows 1..n and the cluster's node names; GPU faults have an index, node faults none."""
    lake = Lake(tmp_path / "root")
    chosen = scenario(tmp_path, 'preset = "llama3"\ndays = 365\nseed = 3')
    record, ran = synth.stage(lake, chosen, lambda _: None)
    assert ran
    for name in ("events", "rejects", "files"):
        assert pq.read_table(lake.table(record, name)).schema.equals(arrow_schema(name))
    events = pq.read_table(lake.table(record, "events")).to_pylist()
    assert [event["row"] for event in events] == list(range(1, len(events) + 1))
    assert len({event["event_id"] for event in events}) == len(events) > 30
    names = node_names(64)
    assert names[0] == "node-00001"
    assert {event["node"] for event in events} <= set(names)
    assert all((event["gpu"] is None) == (event["scope"] == "node") for event in events)
    assert {event["scope"] for event in events} == {"gpu", "node"}
    day_0 = DAY_0.replace(tzinfo=None)
    assert all(day_0 <= event["t_start"] < day_0 + timedelta(days=365) for event in events)
    assert record.facts["rate_per_gpu_d"] == pytest.approx(419 / 54 / 16_384)
    assert any("Borrowed" in text for text in record.facts["assumptions"])


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    """Events depend on the parameters only; another seed gives others; a second run does nothing."""
    chosen = scenario(tmp_path, 'preset = "llama3"\ndays = 365\nseed = 3')
    lakes = [Lake(tmp_path / name) for name in ("a", "b")]
    records = [synth.stage(lake, chosen, lambda _: None)[0] for lake in lakes]
    assert {name: out.sha256 for name, out in records[0].outputs.items()} == {
        name: out.sha256 for name, out in records[1].outputs.items()
    }
    assert synth.stage(lakes[0], chosen, lambda _: None) == (records[0], False)
    other = scenario(tmp_path, 'preset = "llama3"\ndays = 365\nseed = 4')
    record, ran = synth.stage(lakes[0], other, lambda _: None)
    assert ran
    assert record.outputs["events"].sha256 != records[0].outputs["events"].sha256


def test_rates_scale_with_gpus_not_with_nodes() -> None:
    """4-GPU nodes fail half as often as the 8-GPU nodes that a rate is quoted for."""
    preset = presets.load("llama3")
    small = synth.draw(preset, DAYS, NODES, 4, seed=1, start="clean")
    mean = preset.per_gpu_d * NODES * 4 * DAYS
    assert abs(len(small["kind"]) - mean) < SIGMAS * sqrt(mean)


def test_a_trace_without_failures_is_a_trace(tmp_path: Path) -> None:
    """A small, short cluster may well see nothing: the tables are empty, and that is no error."""
    chosen = scenario(tmp_path, 'preset = "llama3"\ndays = 0.001\nseed = 1', nodes=1)
    record, _ = synth.stage(Lake(tmp_path / "root"), chosen, lambda _: None)
    assert record.outputs["events"].rows == 0


def test_node_names_keep_one_width() -> None:
    """Names sort as their numbers do, also beyond 99,999 nodes."""
    names = node_names(100_001)
    assert (names[0], names[-1]) == ("node-000001", "node-100001")
