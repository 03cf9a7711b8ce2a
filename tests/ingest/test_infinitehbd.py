"""The source `infinitehbd`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import infinitehbd
from pipeline.schema import COMPONENTS
from pipeline.units import US_PER_D, to_us

FAULT = {"Level": "Hardware Failure", "Class": "GPU", "Desc": "GPU Lost"}


def row(day: Any, kind: str = "fault_start", node: Any = "n1", fault: Any = None) -> dict[str, Any]:
    return {"node_id": node, "event_time": day, "event_type": kind, "fault_type": fault or FAULT}


def read(rows: Any) -> Parsed:
    data = rows if isinstance(rows, bytes) else json.dumps(rows).encode()
    return infinitehbd.read(data, "trace.json", Options())


@pytest.fixture(scope="module")
def trace(shared_data: Path) -> Parsed:
    path = shared_data / "infinitehbd" / "fault_trace.json"
    return infinitehbd.read(path.read_bytes(), path.name, Options())


@pytest.mark.shared
def test_the_public_trace_is_read_whole(trace: Parsed) -> None:
    """1,168 rows: 584 onsets, 584 clears, none rejected, on 231 nodes, in file order."""
    events = trace.events
    assert (trace.rows_read, events.height, trace.rejects.height) == (1168, 1168, 0)
    assert events["kind"].value_counts().sort("kind").rows() == [("clear", 584), ("onset", 584)]
    assert events["node"].n_unique() == 231
    assert events["row"].to_list() == list(range(1, 1169))
    assert set(events["severity"]) == {"down"}
    assert set(events["scope"]) == {"node"}


@pytest.mark.shared
def test_every_class_of_the_public_trace_has_a_component(trace: Parsed, shared_data: Path) -> None:
    """No class is missed: faults per component add up from the authors' own counts per class."""
    counts = json.loads((shared_data / "infinitehbd" / "fault_statistics.json").read_text())
    expected: dict[str, int] = {}
    for level, classes in counts.items():
        for family, numbers in classes.items():
            if family != "LevelTotal":
                component = infinitehbd.COMPONENTS[level, family]
                expected[component] = expected.get(component, 0) + numbers["ClassTotal"]
    onsets = trace.events.filter(pl.col("kind") == "onset")
    assert dict(onsets["component"].value_counts().rows()) == expected
    assert set(infinitehbd.COMPONENTS.values()) <= set(COMPONENTS)


@pytest.mark.shared
def test_interleaved_faults_of_one_node_keep_their_codes(shared_dir: Path) -> None:
    """Case D04: each clear carries the code of its own onset, so that six faults can be paired."""
    case = shared_dir / "cases" / "D04-infinitehbd-interleaved-faults"
    expected = json.loads((case / "expected.json").read_text())["expected"]["intervals_days"]
    parsed = read((case / "fault_trace_node.json").read_bytes())
    day_0 = to_us(infinitehbd.DAY_0)
    is_open: dict[str, int] = {}
    found = []
    for event in parsed.events.with_columns(us=pl.col("t_start").to_physical()).iter_rows(named=True):
        if event["kind"] == "onset":
            is_open[event["code"]] = event["us"]
        else:
            found.append([is_open.pop(event["code"]), event["us"]])
    exact = [[day_0 + round(day * 10_000) * US_PER_D // 10_000 for day in pair] for pair in expected]
    assert sorted(found) == exact


def test_a_day_with_four_decimals_is_a_whole_number_of_microseconds() -> None:
    """Days are read as decimals: 3.8955 days is 21:29:31.2 on the third day, not a neighbour of it."""
    assert read([row(3.8955)]).events["t_start"][0] == datetime(2024, 4, 2, 21, 29, 31, 200_000)


def test_an_unknown_class_is_kept() -> None:
    """A class the table does not know becomes component `unknown`; the row is not lost."""
    parsed = read([row(1, fault={"Level": "New", "Class": "Quantum", "Desc": "x"})])
    assert parsed.events["component"].to_list() == ["unknown"]


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        (7, "not an object"),
        ({"node_id": "n1"}, "event_type is missing"),
        (row(1, kind="fault_pause"), "event_type is not fault_start or fault_end"),
        (row("1.5"), "event_time is not a number"),
        (row(True), "event_time is not a number"),
        (row(None), "event_time is not a number"),
        (row(float("nan")), "event_time is not a finite number"),
        (row(float("inf")), "event_time is not a finite number"),
        (row(-0.5), "event_time is negative"),
        (row(10**400), "in the future"),
        (row(39_000.5), "in the future"),
        (row(1, node=12), "node_id is not text"),
        (row(1, node=" "), "node_id is empty"),
        (row(1, node="\ud800"), "node_id is not valid text"),
        (row(1, fault="GPU"), "fault_type is not an object"),
        (row(1, fault={"Level": "x", "Class": "y"}), "Desc is missing"),
    ],
)
def test_a_damaged_row_is_rejected_alone(damaged: Any, reason: str) -> None:
    """A row that breaks a rule is refused with its reason and place; its neighbours stay."""
    parsed = read([row(1), damaged, row(2, "fault_end")])
    assert parsed.rejects.select("row", "reason").rows() == [(2, reason)]
    assert parsed.events["row"].to_list() == [1, 3]


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", "1E400", "0." + "1" * 5_000])
def test_a_monstrous_number_costs_nothing(number: str) -> None:
    """Numbers with endless digits or exponents are refused, not computed with."""
    text = json.dumps([row(0)]).replace('"event_time": 0', f'"event_time": {number}')
    assert read(text.encode()).rejects.height == 1


def test_a_clear_without_an_onset_is_rejected() -> None:
    """A clear needs an open onset of the same node and fault before it; equal times go by file order."""
    rows = [
        row(1, "fault_end"),
        row(1),
        row(1, "fault_end"),
        row(2, "fault_end"),
        row(3),
        row(2.5, "fault_end"),
    ]
    parsed = read(rows)
    assert parsed.rejects["row"].to_list() == [1, 4, 6]
    assert set(parsed.rejects["reason"]) == {"clear without an onset"}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"[]", "an empty array"),
        (b"{}", "a JSON dict"),
        (b"null", "null"),
        (b"[" * 100_000, "RecursionError"),
        (b"[1" + b"0" * 5_000 + b"]", "ValueError"),
        (b'[{"node_id": "n1", "event_t', "line 1 column"),
        (b"node,start,end\n", "not valid JSON"),
        (b"[\n\xff]", "line 2: byte 0xff is not UTF-8"),
        (b"", "not valid JSON"),
    ],
)
def test_a_file_that_is_no_trace_is_one_clear_error(data: bytes, found: str) -> None:
    """A file cut off, of another format or empty gives one message with its place."""
    with pytest.raises(InputError, match=r"trace\.json") as raised:
        read(data)
    assert found in str(raised.value)


words = st.text("n1 \ud800\u00e9", max_size=3)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_every_row_read_is_accepted_or_rejected(data: st.DataObject) -> None:
    """Whatever stands in whichever field, each row is counted once."""
    rows: list[Any] = [row(day, kind) for day in range(3) for kind in ("fault_start", "fault_end")]
    for place in data.draw(st.sets(st.integers(0, 5))):
        keys = [*rows[place], "all"]
        key = data.draw(st.sampled_from(keys))
        value = data.draw(json_values)
        rows[place] = value if key == "all" else {**rows[place], key: value}
        if key != "all" and data.draw(st.booleans()):
            del rows[place][key]
    parsed = read(rows)
    seen = sorted([*parsed.events["row"], *parsed.rejects["row"]])
    assert seen == list(range(1, 7))
    assert parsed.rows_read == 6
