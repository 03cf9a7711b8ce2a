"""The source `google-machine-events`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone
from __future__ import annotations

import csv
import json
from datetime import datetime
from pathlib import Path

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import google_machine_events as google
from tests.ingest.mutations import survives

SAMPLE = (resources.folder("samples") / "google-machine-events.csv").read_bytes()
IN_2019 = Options.of(boot_time="2019-05-01T06:50Z")
AFTER = 2**63 - 1


def read(text: str, options: Options | None = None) -> Parsed:
    return google.read(text.encode(), "machine_events", options or Options())


def told(parsed: Parsed) -> list[tuple[str, str, str]]:
    return parsed.events.select("node", "kind", "severity").rows()


def test_a_removal_and_the_return_are_one_fault() -> None:
    """An ADD clears the removal before it, in time order; a machine that comes first is no return."""
    text = "2000000000,7,0,,,\n1000000000,7,1,,,\n3000000000,8,0,,,\n4000000000,7,2,,,\n"
    parsed = read(text)
    assert told(parsed) == [
        ("7", "clear", "down"),
        ("7", "onset", "down"),
        ("8", "onset", "info"),
        ("7", "onset", "info"),
    ]
    assert parsed.events["code"].to_list() == ["removed", "removed", "add", "update"]


def test_events_of_2019_are_numbered_from_one() -> None:
    """ADD is 1 in 2019 and 0 in 2011; JSON lines and a CSV with a header say the same."""
    rows = [
        {"time": "0", "machine_id": "-3", "type": 1, "switch_id": "s="},
        {"time": "900000000", "machine_id": "-3", "type": 2, "missing_data_reason": 1},
        {"time": "1800000000", "machine_id": "-3", "type": 1},
    ]
    lines = "\n".join(map(json.dumps, rows))
    parsed = read(lines, IN_2019)
    assert [kind for _, kind, _ in told(parsed)] == ["onset", "onset", "clear"]
    assert parsed.events["reason"].to_list() == ["ADD, switch s=", "REMOVE, missing data: 1", "ADD"]
    assert parsed.events["t_start"][1] == datetime(2019, 5, 1, 7, 5)
    keys = ("machine_id", "time", "type")
    table = "\n".join([",".join(keys), *(",".join(str(row[key]) for key in keys) for row in rows)])
    assert read(table, IN_2019).events.drop("reason").equals(parsed.events.drop("reason"))


def test_2019_needs_the_instant_of_its_time_0() -> None:
    """Its wall clock is stated nowhere in the data: one error for the file, which names the option."""
    with pytest.raises(InputError, match=r"(?s)machine_events.*--boot-time"):
        read('{"time": "0", "machine_id": "1", "type": 1}')


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (f"{AFTER},7,1,,,", "time 2^63-1 lies after the trace"),
        (f"{AFTER},7,0,,,", "time 2^63-1 lies after the trace"),
        (f"{AFTER - 1},7,1,,,", "in the future"),
        ("99999999999999999999,7,1,,,", "time is not whole microseconds"),
        ("1.5,7,1,,,", "time is not whole microseconds"),
        ("0,7,1,,,", "time 0 lies before the trace"),
        ("0,7,2,,,", "time 0 lies before the trace"),
        ("1000000,,1,,,", "no machine_id"),
        ("1000000,7,3,,,", "type is no event of this trace"),
        ("1000000,7,1", "3 fields, a row has 6"),
    ],
)
def test_a_row_without_an_instant_is_refused(line: str, reason: str) -> None:
    """Sentinels and damage are refused, never dated."""
    parsed = read(f"1000000,1,1,,,\n{line}\n")
    assert parsed.events.height == 1
    assert parsed.rejects["reason"].to_list()[0].startswith(reason)


@pytest.mark.shared
def test_d09_the_case(shared_dir: Path) -> None:
    """Machine 5 is down for 900 s, 9 from 2,100 s on, 6 is updated, and 7 never leaves within the trace."""
    (folder,) = (shared_dir / "cases").glob("D09-*")
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]
    parsed = google.read((folder / "machine_events.csv").read_bytes(), "machine_events.csv", Options())
    rows = parsed.events.to_dicts()
    start = google.TIME_0_OF_2011.replace(tzinfo=None)
    up = [row["node"] for row in rows if row["code"] == "add" and row["t_start"] == start + google.LEAD]
    assert up == wanted["machines_up_at_start"]
    downs = {
        row["node"]: row["t_start"] for row in rows if (row["kind"], row["severity"]) == ("onset", "down")
    }
    clears = {row["node"]: row["t_start"] for row in rows if row["kind"] == "clear"}
    outages = [
        {
            "machine": node,
            "start_s": int((begin - start).total_seconds()),
            "end_s": int((clears[node] - start).total_seconds()),
            "s": int((clears[node] - begin).total_seconds()),
        }
        for node, begin in downs.items()
        if node in clears
    ]
    assert outages == wanted["outages"]
    assert downs["5"].isoformat() + "Z" == wanted["utc_of_5_down"]
    assert [(node, int((downs[node] - start).total_seconds())) for node in downs.keys() - clears.keys()] == [
        ("9", 2100)
    ]
    assert wanted["machine_9"].startswith("left-censored: up until 2100 s, then down, open")
    assert [row["severity"] for row in rows if row["node"] == "6"] == ["info", "info"]
    assert wanted["machine_6"] == "no outage (update)"
    assert [row["severity"] for row in rows if row["node"] == "7"] == ["info"], wanted["machine_7"]
    assert parsed.rejects["reason"].str.contains("after the trace").to_list() == [True]


@pytest.mark.shared
def test_e13_sentinels_are_no_instants(shared_dir: Path) -> None:
    """0 is before the trace, 600 s its first instant, 2^63-1 after it; nothing infinite is stored."""
    (folder,) = (shared_dir / "cases").glob("E13-*")
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]["product"]
    times = [line["t_us"] for line in csv.DictReader((folder / "t.csv").read_text().splitlines())]
    parsed = read("".join(f"{time},7,1,,,\n" for time in times))
    start = google.TIME_0_OF_2011.replace(tzinfo=None) + google.LEAD
    reasons = dict(parsed.rejects.select("row", "reason").rows())
    found = [
        "before_trace" if "before the trace" in reasons.get(1, "") else "",
        f"{(parsed.events['t_start'][0] - start).total_seconds()} s after trace start",
        "after_trace" if "after the trace" in reasons.get(3, "") else "",
    ]
    assert found == wanted["t"]
    assert parsed.events.height == 1
    assert parsed.events["t_end"].null_count() == 1 - wanted["infinite_values_stored"]


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a file, every row is accounted for."""
    survives(google, SAMPLE, Options())
    lines = (
        b'{"time": "0", "machine_id": "1", "type": 1}\n{"time": "900000000", "machine_id": "1", "type": 2}\n'
    )
    survives(google, lines * 3, IN_2019, examples=80)
