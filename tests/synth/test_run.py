"""The stage writes a preset's failures as the tables of stage 1, each time the same."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pipeline import config
from pipeline.errors import InputError
from pipeline.lake.store import Lake
from pipeline.schema import arrow_schema
from pipeline.synth import presets
from pipeline.synth import run as synth
from pipeline.synth.contract import DAY_0, node_names


def scenario(folder: Path, trace: str, nodes: int = 64, gpus_per_node: int = 8) -> config.Scenario:
    path = folder / "s.toml"
    path.write_text(
        f"[trace]\n{trace}\n[cluster]\nnodes = {nodes}\ngpus_per_node = {gpus_per_node}\ndomain_size = 8\n"
        '[job]\ntp = 4\n[[policy]]\nname = "p"\nresponse = "dp-drop"\n'
    )
    return config.load(str(path))


def stage(lake: Lake, chosen: config.Scenario) -> Any:
    return synth.stage(lake, chosen, lambda _: None)


def test_tables_are_those_of_the_schema(tmp_path: Path) -> None:
    """Intervals with rows 1..n and the cluster's node names; GPU faults have an index, node faults none."""
    lake = Lake(tmp_path / "root")
    record, ran = stage(lake, scenario(tmp_path, 'preset = "llama3"\ndays = 365\nseed = 3'))
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


@pytest.mark.parametrize("name", presets.names())
def test_every_preset_comes_with_its_facts(tmp_path: Path, name: str) -> None:
    """The record carries day 0, a title, the rate and what a reader must know."""
    record, _ = stage(Lake(tmp_path / "root"), scenario(tmp_path, f'preset = "{name}"\ndays = 30'))
    assert record.facts["day_0"] == DAY_0.isoformat()
    assert record.facts["title"] == presets.load(name).title
    assert record.facts["rate_per_gpu_d"] == pytest.approx(presets.load(name).per_gpu_d)
    assert len(record.facts["assumptions"]) >= 3


def test_the_same_scenario_gives_the_same_bytes(tmp_path: Path) -> None:
    """Events depend on the parameters only; another seed gives others; a second run does nothing."""
    chosen = scenario(tmp_path, 'preset = "hbd-rates"\ndays = 365\nseed = 3')
    lakes = [Lake(tmp_path / name) for name in ("a", "b")]
    records = [stage(lake, chosen)[0] for lake in lakes]
    assert {name: out.sha256 for name, out in records[0].outputs.items()} == {
        name: out.sha256 for name, out in records[1].outputs.items()
    }
    assert stage(lakes[0], chosen) == (records[0], False)
    record, ran = stage(lakes[0], scenario(tmp_path, 'preset = "hbd-rates"\ndays = 365\nseed = 4'))
    assert ran
    assert record.outputs["events"].sha256 != records[0].outputs["events"].sha256


@pytest.mark.parametrize("key", ['correlation = "none"', "weibull_shape = 0.7"])
def test_the_scenario_may_change_how_a_preset_arrives(tmp_path: Path, key: str) -> None:
    """`correlation` and `weibull_shape` give other failures at the same rate, and other assumptions."""
    lake = Lake(tmp_path / "root")
    plain = 'preset = "hbd-rates"\ndays = 365\n'
    before, _ = stage(lake, scenario(tmp_path, plain))
    after, ran = stage(lake, scenario(tmp_path, plain + key))
    assert ran
    assert after.outputs["events"].sha256 != before.outputs["events"].sha256
    assert after.facts["assumptions"] != before.facts["assumptions"]
    assert after.facts["rate_per_gpu_d"] == before.facts["rate_per_gpu_d"]


def test_the_rate_is_of_what_interrupts(tmp_path: Path) -> None:
    """Young's rule starts from the kinds that stop a job: what is excluded or degraded is left out."""
    lake = Lake(tmp_path / "root")
    trace = 'preset = "ntp-paper"\ndays = 30\n'
    total = 419 / 54 / 16_384
    cases = {
        'exclude = ["software"]': 0.78,
        '[trace.severity]\nsoftware = "degraded"': 0.78,
        '[trace.severity]\nsoftware = "app"': 1.0,
        'exclude = ["software", "gpu"]': 0.0,
    }
    for key, share in cases.items():
        record, _ = stage(lake, scenario(tmp_path, trace + key))
        assert record.facts["rate_per_gpu_d"] == pytest.approx(share * total)


def test_a_trace_without_failures_is_a_trace(tmp_path: Path) -> None:
    """A small, short cluster may well see nothing: the tables are empty, and that is no error."""
    chosen = scenario(tmp_path, 'preset = "llama3"\ndays = 0.001\nseed = 1', nodes=1)
    record, _ = stage(Lake(tmp_path / "root"), chosen)
    assert record.outputs["events"].rows == 0


def test_node_names_keep_one_width() -> None:
    """Names sort as their numbers do, also beyond 99,999 nodes."""
    names = node_names(100_001)
    assert (names[0], names[-1]) == ("node-000001", "node-100001")


WINDOW = "window_d = [0, 100]"
# (lines of [trace], what the message must name)
WRONG = [
    ('preset = "llama3"', ["days", "missing"]),
    ('preset = "llama3"\nbootstrap = "infinitehbd"\ndays = 1', ["both preset and bootstrap"]),
    ('preset = "llama3"\ndays = 1\nblock_d = 30', ["block_d", "beside preset", "only with bootstrap"]),
    ('preset = "llama3"\ndays = 1\npath = "a"', ["path", "beside preset", "only with source or bootstrap"]),
    ('preset = "llama3"\ndays = 1\nweibull_shape = 0.1', ["weibull_shape", "at least 0.2"]),
    ('preset = "llama3"\ndays = 1\ncorrelation = "non"', ["correlation", "did you mean 'none'"]),
    (f'bootstrap = "infinitehbd"\ndays = 1\n{WINDOW}', ["observed_nodes", "missing", "failed or not"]),
    ('bootstrap = "infinitehbd"\ndays = 1\nobserved_nodes = 4', ["no window"]),
    (f'bootstrap = "infinitehbd"\n{WINDOW}\nobserved_nodes = 4', ["days", "missing"]),
    (f'source = "infinitehbd"\n{WINDOW}\ncorrelation = "none"', ["correlation", "only with preset"]),
    (f'source = "infinitehbd"\n{WINDOW}\nobserved_nodes = 4', ["observed_nodes", "only with bootstrap"]),
]


@pytest.mark.parametrize(("trace", "said"), WRONG)
def test_a_wrong_trace_is_named(tmp_path: Path, trace: str, said: list[str]) -> None:
    """Keys that do not belong together are one message with the key and what it belongs to."""
    with pytest.raises(InputError) as caught:
        scenario(tmp_path, trace)
    assert all(part in str(caught.value) for part in said), str(caught.value)
