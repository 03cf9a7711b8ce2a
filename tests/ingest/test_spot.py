"""The source `spot`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone
from __future__ import annotations

import itertools
import json
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import spot
from tests.ingest.mutations import is_accepted, mutated, survives

SAMPLE = (resources.folder("samples") / "spot.csv").read_text(encoding="utf-8")
TIME_0 = datetime(2024, 1, 1)
OPTIONS = Options.of(boot_time="2024-01-01T00:00Z", tz="UTC")


def read(text: str, options: Options = OPTIONS) -> Parsed:
    return spot.read(text.encode(), "spot", options)


def ticks(counts: list[object], gap: int = 60) -> str:
    return json.dumps({"metadata": {"gap_seconds": gap}, "data": counts})


def told(parsed: Parsed) -> list[tuple[str, str, str, int, int | None]]:
    """Return (slot, kind, severity, start, end) of the events, in seconds since the start."""
    rows = parsed.events.select("node", "kind", "severity", "t_start", "t_end").rows()
    return [
        (
            node[-2:],
            kind,
            severity,
            int((start - TIME_0).total_seconds()),
            end and int((end - TIME_0).total_seconds()),
        )
        for node, kind, severity, start, end in rows
    ]


def up_over_time(parsed: Parsed) -> list[tuple[datetime, int]]:
    """Return how many slots are filled after each instant, from the events alone."""
    steps: dict[datetime, int] = {}
    for event in parsed.events.iter_rows(named=True):
        at = event["t_end"] or event["t_start"]
        goes = event["kind"] == "onset" and event["severity"] == "down"
        steps[at] = steps.get(at, 0) + (-1 if goes else 1)
    count, found = 0, []
    for at in sorted(steps):
        count += steps[at]
        found.append((at, count))
    return found


def test_machines_fill_slots() -> None:
    """Who comes takes the lowest free slot; a slot first filled later was absent from the start."""
    assert told(read(SAMPLE)) == [
        ("01", "onset", "info", 0, None),
        ("02", "onset", "info", 0, None),
        ("03", "interval", "down", 0, 120),
        ("02", "onset", "down", 900, None),
        ("02", "clear", "down", 1500, None),
        ("01", "onset", "down", 2400, None),
        ("02", "onset", "down", 2400, None),
    ]
    events = read(SAMPLE).events
    assert set(events["component"]) == {"capacity"}
    # Of other identity than a loss: the loss after it would else be a repeat of an open fault.
    is_fill = events["severity"] == "info"
    assert set(events.filter(is_fill)["code"]) == {"there from the start"}
    assert set(events.filter(~is_fill)["code"]) == {"capacity"}
    assert events["reason"][3] == "remove machine-b"


def test_counts_lose_the_highest_slot_first() -> None:
    """Counts have no names: last in, first out; ticks without a change are no rows."""
    parsed = read(ticks([0, 2, 2, 1, 1, 3]))
    assert told(parsed) == [
        ("01", "interval", "down", 0, 60),
        ("02", "interval", "down", 0, 60),
        ("02", "onset", "down", 180, None),
        ("02", "clear", "down", 300, None),
        ("03", "interval", "down", 0, 300),
    ]
    assert parsed.rows_read == 5


def test_samples_with_dates_need_a_zone_and_step_forward() -> None:
    """A step back in time, or another count at one instant, is two samplers: refused."""
    text = (
        "2024-01-01, 00:00:00, 2\n2024-01-01, 00:02:00, 1\n2024-01-01, 00:01:00, 2\n2024-01-01, 00:02:00, 2\n"
    )
    parsed = read(text)
    assert told(parsed) == [
        ("01", "onset", "info", 0, None),
        ("02", "onset", "info", 0, None),
        ("02", "onset", "down", 120, None),
    ]
    assert parsed.rejects["reason"].to_list() == [
        "earlier than the line before: two samplers",
        "another count at the same instant: two samplers",
    ]
    with pytest.raises(InputError, match=r"(?s)spot.*--tz"):
        read(text, Options())


@pytest.mark.parametrize("text", [SAMPLE, ticks([1]), '[0, "add", {"nodes": ["n"]}]'])
def test_times_since_the_start_need_its_instant(text: str) -> None:
    """One error for the file, which names the option."""
    with pytest.raises(InputError, match=r"(?s)spot.*--boot-time"):
        read(text, Options())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0,add,a\n1000,remove,b\n", "removed while it is not there"),
        ("0,add,a\n1000,add,a\n", "added while it is there"),
        ("5000,add,a\n1000,add,b\n", "earlier than the line before"),
        ("0,add,a\n1000,drop,a\n", "not MS,add|remove,NODE"),
        ("0,add,a\n9999999999999,remove,a\n", "in the future"),
        (ticks([1, -1]), "count is not a whole number"),
        (ticks([1, 1.5]), "count is not a whole number"),
        (ticks([1, None]), "count is not a whole number"),
        ("2024-01-01, 00:00:00, 2\n2024-01-01, 00:00:70, 1\n", "no such date or clock time"),
        ('[0, "add", {"nodes": ["n"]}]\n[60000, "migration", {"nodes": ["n"]}]', "neither add nor remove"),
        ('[0, "add", {"nodes": ["n"]}]\n[60000, "remove", {"nodes": [1]}]', "not [MS, WORD, {nodes}]"),
        ('[0, "add", {"nodes": ["n"]}]\n[60000, "remove"', "not [MS, WORD, {nodes}]"),
    ],
)
def test_a_line_that_cannot_be_is_refused(text: str, reason: str) -> None:
    """What contradicts the lines before it is refused, and changes nothing."""
    parsed = read(text)
    assert not parsed.events.is_empty()
    assert parsed.rejects["reason"].to_list()[0].startswith(reason)


@pytest.mark.parametrize(
    "text", ["{}", ticks([]), ticks([1], gap=0), ticks([0]), "a,b,c", "2024-01-01T00:00Z,5\n", "0,drop,a\n"]
)
def test_another_file_is_one_error(text: str) -> None:
    """Four forms begin in four ways; what begins otherwise, or holds nothing, is told so."""
    with pytest.raises(InputError, match="spot"):
        read(text)


@pytest.mark.shared
@pytest.mark.parametrize(
    ("path", "rows", "slots", "hours", "still_up"),
    [
        ("bamboo/p3-trace.csv", 344, 32, 11.4, 10),
        ("bamboo/g4dn-trace.csv", 153, 24, 10.7, 5),
        ("oobleck/10m.csv", 45, 30, 2.5, 15),
        ("oobleck/30m.csv", 45, 30, 7.5, 15),
        ("oobleck/1h.csv", 45, 30, 15, 15),
        ("parcae/trace_hl_15_25.jsonl.txt", 45, 32, 1, None),
    ],
)
def test_public_lists_of_changes(
    shared_data: Path, path: str, rows: int, slots: int, hours: float, still_up: int | None
) -> None:
    """Every line is a change, the slots are as many as were up at most, and some are up at the end."""
    parsed = read((shared_data / path).read_text(encoding="utf-8"))
    assert (parsed.rows_read, parsed.rejects.height) == (rows, 0)
    assert parsed.events["node"].n_unique() == slots
    counts = [count for _, count in up_over_time(parsed)]
    assert max(counts) == slots
    last = max(parsed.events["t_start"].max(), parsed.events["t_end"].max() or TIME_0)  # type: ignore[type-var]
    assert (last - TIME_0) / timedelta(hours=1) == pytest.approx(hours, abs=0.2)
    assert still_up is None or counts[-1] == still_up


@pytest.mark.shared
def test_public_lists_name_each_machine_once(shared_data: Path) -> None:
    """A machine that returns has a new name: 177 and 79 names, up to six gone at one stamp."""
    for name, machines in (("p3", 177), ("g4dn", 79)):
        events = read((shared_data / "bamboo" / f"{name}-trace.csv").read_text(encoding="utf-8")).events
        comes = events.filter(pl.col("reason").str.starts_with("add "))
        assert comes["reason"].n_unique() == comes.height == machines
    goes = events.filter(pl.col("reason").str.starts_with("remove "))
    assert goes.height == 74


@pytest.mark.shared
@pytest.mark.parametrize(
    ("path", "ticks_read", "slots"),
    [
        ("skypilot/availability_16-node_aws-08-27-2023_us-west-2a_v100_1.json", None, 16),
        ("skypilot/preemption_4-node_aws-08-03-2023_us-east-2a_v100_1.json", None, 4),
    ],
)
def test_public_counts_come_back_from_the_slots(
    shared_data: Path, path: str, ticks_read: None, slots: int
) -> None:
    """The number of slots that are filled is the count of the file at every tick."""
    text = (shared_data / path).read_text(encoding="utf-8")
    counts = json.loads(text)["data"]
    parsed = read(text)
    assert (parsed.rejects.height, parsed.events["node"].n_unique()) == (0, slots)
    steps = dict(up_over_time(parsed))
    now = 0
    for tick, count in enumerate(counts):
        now = steps.get(TIME_0 + timedelta(seconds=300 * tick), now)
        assert now == count


@pytest.mark.shared
def test_public_samples_of_two_samplers(shared_data: Path) -> None:
    """The A100 file is clean, 17 to 64 machines; in the V100 file 15 lines step back in time."""
    clean = read((shared_data / "bamboo" / "gcloud-a100x1-east1b.txt").read_text(encoding="utf-8"))
    counts = [count for _, count in up_over_time(clean)]
    assert (clean.rejects.height, min(counts), max(counts)) == (0, 17, 64)
    assert sum(after < before for before, after in itertools.pairwise(counts)) == 36
    mixed = read((shared_data / "bamboo" / "gcloud-v100x1-east1c.txt").read_text(encoding="utf-8"))
    assert dict(mixed.rejects["reason"].value_counts().rows()) == {
        "earlier than the line before: two samplers": 15,
        "another count at the same instant: two samplers": 9,
    }


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a file, every row is accounted for."""
    survives(spot, SAMPLE.encode() * 2, OPTIONS)
    arrays = b'[0, "add", {"nodes": ["a", "b"]}]\n[60000, "no-op", {"nodes": []}]\n'
    arrays += b'[120000, "remove", {"nodes": ["a"]}]\n'
    survives(spot, arrays, OPTIONS, examples=80)
    survives(spot, b"2024-01-01, 00:00:00, 2\n2024-01-01, 00:01:00, 1\n" * 2, OPTIONS, examples=80)


@settings(max_examples=80, derandomize=True, database=None, deadline=None)
@given(mutated(ticks([10, 12, 11, 10, 14, 13] * 4).encode()))
def test_damage_to_a_json_document_is_one_error_or_rows(data: bytes) -> None:
    """One object is whole or not: most damage is one error, which is why no share of rows is asked for."""
    is_accepted(spot, data, OPTIONS)
