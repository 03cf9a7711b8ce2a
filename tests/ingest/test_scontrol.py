"""The source `scontrol`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from slurm_logs import GIVEN, TAKEN, broken, case, kept, refused, rows, sample

from pipeline.errors import InputError
from pipeline.ingest import slurm_json, slurm_states
from pipeline.ingest.parsing import NO_NODE, NOT_ISO, NOT_UTF8, Options, Parsed
from pipeline.ingest.slurm_snapshots import BAD_TAKEN, NO_STAMP
from pipeline.ingest.sources import scontrol

WHEN = datetime(2025, 3, 1, 8)
AT = TAKEN.replace(tzinfo=None)
ONE = (
    "NodeName=n1 Arch=x86_64 State=DOWN* BootTime=None Reason={} Comment=State=IDLE [me@2025-01-01T00:00:00\n"
)
LINES = "NodeName=n1 Arch=x86_64\n   OS=Linux 5.4 #1 State=odd\n   State={} Weight=1\n   Reason={}\n\n"


def read(text: str | bytes, options: Options = GIVEN) -> Parsed:
    return scontrol.read(text.encode() if isinstance(text, str) else text, "n.txt", options)


@pytest.mark.parametrize(
    "reason", ["Not responding", "a = b", "gres/gpu count reported lower (0 < 8)", "see [1] x=y", "a [b@c] d"]
)
@pytest.mark.parametrize("shape", ["one", "lines"])
def test_free_text_does_not_hide_the_stamp(shape: str, reason: str) -> None:
    """Blanks, `=` and brackets belong to the reason; its last stamp is the time; Comment is not State."""
    told = f"{reason} [root@2025-03-01T08:00:00]"
    (event,) = rows(read(ONE.format(told) if shape == "one" else LINES.format("DOWN*", told)))
    assert (event["t_start"], event["t_end"], event["code"], event["reason"]) == (WHEN, None, "DOWN", reason)


@pytest.mark.parametrize("reason", ["x", "x [root@Unknown]", "(null)", "none"])
def test_without_a_stamp_a_node_counts_from_the_snapshot(reason: str) -> None:
    """It was down before; the reason says so."""
    (event,) = rows(read(LINES.format("IDLE+DRAIN", reason)))
    why = "x" if reason.startswith("x") else "DRAIN"
    assert (event["t_start"], event["reason"]) == (AT, f"{why} (since before)")


def test_a_reason_over_two_lines() -> None:
    """A line break in a reason does not cost its stamp."""
    text = LINES.format("DOWN", "first\nsecond [root@2025-03-01T08:00:00]\n   Comment=c")
    (event,) = rows(read(text))
    assert (event["t_start"], event["reason"]) == (WHEN, "first\nsecond")


def test_records_follow_each_other() -> None:
    """With blank lines or without, below the time by `date`; a node that works is no row."""
    text = (
        "2025-03-10T07:00:00+00:00\n"
        + LINES.format("MIXED", "x")
        + (LINES.format("DOWN", "x") * 2).replace("\n\n", "\n")
    )
    parsed = read(text.replace("n1 ", "n2 ", 2), Options())
    assert [(row["node"], row["t_start"]) for row in rows(parsed)] == [
        ("n2", datetime(2025, 3, 10, 7)), ("n1", datetime(2025, 3, 10, 7)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NodeName=n1 Arch=x86_64\n", slurm_states.NO_STATE),
        ("NodeName=n1 State=\n", slurm_states.NO_STATE),
        ("NodeName=n1 State=ODD\n", slurm_states.UNKNOWN_STATE),
        ("NodeName= State=DOWN\n", NO_NODE),
        (LINES.format("DOWN", "x [root@soon]"), NO_STAMP),
        (LINES.format("DOWN", "x [root@2026-03-01T08:00:00]"), "after --as-of, when the log was taken"),
        (LINES.format("DOWN", "x [root@13/01-08:00:00]"), "no such date or clock time"),
    ],
)
def test_a_record_that_cannot_be_read_is_refused(text: str, reason: str) -> None:
    """One reason each, and the record is counted."""
    parsed = read(text)
    assert (parsed.rows_read, refused(parsed)) == (1, [reason])


def test_a_record_that_lost_its_beginning_is_refused() -> None:
    """What stands above the first NodeName and tells of a node; bad bytes cost their record only."""
    text = (
        b"   State=DOWN Weight=1\n"
        + LINES.format("DOWN", "\xff").encode("latin-1")
        + LINES.format("DOWN", "x").encode()
    )
    parsed = read(text)
    assert parsed.events.height == 1
    assert refused(parsed) == [scontrol.NO_RECORD, NOT_UTF8]


@pytest.mark.parametrize(
    ("taken", "stamp", "year"),
    [
        (datetime(2025, 7, 1, tzinfo=UTC), "06/02-14:01:24", 2025),
        (datetime(2025, 1, 5, tzinfo=UTC), "12/30-08:00:00", 2024),
        (datetime(2025, 7, 1, tzinfo=UTC), "07/02-00:00:00", 2024),
        (datetime(2027, 7, 1, tzinfo=UTC), "02/29-08:00:00", 2024),
    ],
)
def test_a_stamp_without_a_year(taken: datetime, stamp: str, year: int) -> None:
    """The latest such day that is not after the snapshot; 29 February decides by itself; --year wins."""
    text = LINES.format("DOWN", f"x [root@{stamp}]")
    assert rows(read(text, Options(tz="UTC", as_of=taken)))[0]["t_start"].year == year
    if year == 2024:
        said = Options(tz="UTC", as_of=taken, year=2020)
        assert rows(read(text, said))[0]["t_start"].year == 2020


@pytest.mark.parametrize(
    ("options", "option"), [(Options(tz="UTC"), "--as-of"), (Options(as_of=TAKEN), "--tz")]
)
def test_what_a_snapshot_lacks_is_said_once(options: Options, option: str) -> None:
    """When it was taken, or the zone of its stamps."""
    with pytest.raises(InputError, match=rf"n\.txt(.|\n)*{option}"):
        read(ONE.format("x [root@2025-03-01T08:00:00]"), options)


NODE: dict[str, Any] = {"name": "n1", "state": ["DOWN"], "reason": "x", "reason_changed_at": 1740816000}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"state": "down"}, "DOWN"),
        ({"state": "idle", "state_flags": ["DRAIN"]}, "DRAIN"),
        ({"state": ["MIXED", "DRAIN"]}, "DRAINING"),
        ({"name": None, "hostname": "n1"}, "DOWN"),
        ({"reason_changed_at": {"set": True, "infinite": False, "number": 1740816000}}, "DOWN"),
    ],
)
def test_json_of_scontrol(change: dict[str, Any], code: str) -> None:
    """State as a text or a list, numbers bare or in a box."""
    (event,) = rows(read(json.dumps({"nodes": [{**NODE, **change}]})))
    assert (event["node"], event["code"], event["t_start"]) == ("n1", code, WHEN)


@pytest.mark.parametrize(
    "stamp", [0, None, {"set": False, "number": 5}, {"set": True, "infinite": True, "number": 5}]
)
def test_json_numbers_that_are_not_set(stamp: Any) -> None:
    """They are no times."""
    (event,) = rows(read(json.dumps({"nodes": [{**NODE, "reason_changed_at": stamp}]})))
    assert event["t_start"] == AT


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (1, "not an object"),
        ({**NODE, "state": None}, slurm_states.NO_STATE),
        ({**NODE, "state": []}, slurm_states.NO_STATE),
        ({**NODE, "state": ["ODD"]}, slurm_states.UNKNOWN_STATE),
        ({**NODE, "name": ""}, NO_NODE),
        ({**NODE, "name": "\ud800"}, NOT_UTF8),
        ({**NODE, "reason_changed_at": "soon"}, NO_STAMP),
        ({**NODE, "reason_changed_at": True}, NO_STAMP),
        ({**NODE, "reason_changed_at": 5}, "before 2000-01-01"),
        ({**NODE, "reason_changed_at": 1740816000000}, "after --as-of, when the log was taken"),
    ],
)
def test_json_that_cannot_be_read_is_refused(item: Any, reason: str) -> None:
    """One object, one reason."""
    parsed = read(json.dumps({"nodes": [item]}))
    assert (parsed.rows_read, refused(parsed)) == (1, [reason])


def dump(hour: int, *nodes: dict[str, Any], is_boxed: bool = True) -> str:
    """Return what Slurm prints at an hour of 10 March 2025."""
    answered = 1741564800 + 3600 * hour
    boxed = {"set": True, "infinite": False, "number": answered}
    return json.dumps({"nodes": nodes, "last_update": boxed if is_boxed else answered}, indent=1) + "\n"


def told(text: str, options: Options = GIVEN) -> list[tuple[Any, ...]]:
    """Return node, end and the last instant that is known of each fault."""
    return read(text, options).events.select("node", "t_end", "as_of").rows()


def test_json_says_itself_when_it_was_taken() -> None:
    """`last_update`, bare or boxed, before --as-of; a line by `date` above it before both; 0 is none."""
    seven = datetime(2025, 3, 10, 7)
    for text, options in ((dump(7, NODE), Options()), (dump(7, NODE, is_boxed=False), GIVEN)):
        assert told(text, options) == [("n1", None, seven)]
    assert told("2025-03-10T08:00:00+00:00\n" + dump(7, NODE)) == [("n1", None, datetime(2025, 3, 10, 8))]
    unset = json.dumps({"nodes": [NODE], "last_update": {"set": False, "number": 0}, "meta": {"slurm": {}}})
    assert told(unset) == [("n1", None, AT)]
    with pytest.raises(InputError, match="--as-of"):
        read(unset, Options())
    late = json.dumps({"nodes": [NODE], "last_update": 1741564800 * 1000})
    assert refused(read(late)) == [f"{BAD_TAKEN}: {NOT_ISO}"]


def test_json_below_records_in_text_is_refused_and_not_passed_over() -> None:
    """One way or the other per file: else the nodes of the JSON would be lost without a word."""
    text = "NodeName=n1 State=DOWN\n   Reason=x [root@2025-03-10T05:00:00]\n\n"
    for indent in (None, 1):
        parsed = read(text + json.dumps({"nodes": [NODE]}, indent=indent))
        assert refused(parsed) == [scontrol.JSON_BELOW]
        assert parsed.rows_read == 2


def test_json_of_several_snapshots_is_one_fault_with_its_end() -> None:
    """Documents after each other, each with its own time; one that is cut off costs one row."""
    back, other = {**NODE, "state": ["IDLE"]}, {"name": 5, "state": ["IDLE"]}
    text = dump(7, NODE) + dump(8, NODE, other)
    assert told(text) == [("n1", None, datetime(2025, 3, 10, 8))]
    nine = datetime(2025, 3, 10, 9)
    assert told(text + dump(9, back)) == [("n1", nine, nine)]
    times = "".join(
        f"Mon Mar 10 0{hour}:00:00 2025\n" + dump(1, node) for hour, node in ((7, NODE), (9, back))
    )
    assert told(times, Options(tz="UTC")) == [("n1", nine, nine)]
    parsed = read(dump(7, NODE) + dump(8, NODE)[:60] + "\n" + dump(9, back))
    assert parsed.events["t_end"].to_list() == [nine]
    assert (refused(parsed), parsed.rejects["row"].to_list()) == ([slurm_json.CUT_OFF], [2])
    assert refused(read(dump(7, NODE) + '{"jobs": []}')) == [slurm_json.FOREIGN]


def test_records_that_are_told_again_are_one_fault() -> None:
    """From the stamp to the first snapshot that shows the node at work."""
    down, back = LINES.format("DOWN", "x [root@2025-03-01T08:00:00]"), LINES.format("ALLOCATED", "(null)")
    text = "".join(f"2025-03-10T0{hour}:00Z\n{node}" for hour, node in ((7, down), (8, down), (9, back)))
    (event,) = rows(read(text, Options(tz="UTC")))
    assert (event["t_start"], event["t_end"]) == (WHEN, datetime(2025, 3, 10, 9))


@pytest.mark.parametrize(
    "text", ["PartitionName=p1 Nodes=n1\n", "{", '{"jobs": []}', "[1]", "{" * 10_000, '{"a":' * 10_000]
)
def test_another_format_is_refused(text: str) -> None:
    """Records of partitions or jobs, and JSON that is cut off or without end."""
    with pytest.raises(InputError, match=r"n\.txt"):
        read(text)


def test_records_look_like_themselves() -> None:
    """By their first words."""
    assert scontrol.looks_like(b"".join(sample("scontrol.txt")))
    assert not scontrol.looks_like(b"PartitionName=p1\n")
    for text in (dump(7, NODE), "2025-03-10T07:00:00+00:00\n" + dump(7, NODE)):
        assert scontrol.looks_like(text.encode())


@pytest.mark.shared
def test_public_stamp_without_a_year(shared_dir: Path) -> None:
    """Case B03: month first, the year from outside, the base state DOWN behind its suffix."""
    folder, expected = case(shared_dir, "B03")
    data = (folder / "scontrol.txt").read_bytes()
    with pytest.raises(InputError, match="--as-of"):
        read(data, Options(tz="UTC"))
    for options in (
        Options(tz="UTC", year=2016, as_of=TAKEN),
        Options(tz="UTC", as_of=datetime(2016, 9, 1, tzinfo=UTC)),
    ):
        (event,) = rows(read(data, options))
        assert event["t_start"].isoformat() == expected["with_year_2016"]
        assert (event["code"], event["reason"]) == (expected["base_state"], expected["reason"])
        assert f"{event['t_start']:%m-%dT%H:%M:%S}" == expected["reason_time"].partition(",")[0]
    assert expected["not_responding"], "the suffix hides no state: the node is down"
    assert event["severity"] == "down"
    assert f"[{expected['reason_user']}@" in data.decode()
    assert expected["reason_user"] not in event["reason"], "who set it is no part of the reason"


@pytest.mark.shared
def test_public_json_of_two_generations(shared_dir: Path) -> None:
    """Case B08: a drain in state_flags or in the list of states; none of the nodes is available."""
    folder, expected = case(shared_dir, "B08")
    found = {row["node"]: row for row in rows(read((folder / "nodes.json").read_bytes()))}
    assert set(found) == {node for node, wanted in expected.items() if not wanted["available"]}
    assert [found[node]["code"] for node in ("n1", "n2", "n3")] == ["DRAIN", "DRAIN", "DOWN"]
    assert {row["severity"] for row in found.values()} == {"down"}


@pytest.mark.shared
def test_public_records(shared_data: Path) -> None:
    """A drained node over several lines and a dead one in one line; records of partitions are refused."""
    folder = shared_data / "slurm"
    found = rows(read((folder / "scontrol_show_node.txt").read_bytes()))
    assert [(row["node"], row["code"], row["component"], row["t_start"]) for row in found] == [
        ("node-a-1", "DRAIN", "gpu", datetime(2024, 12, 19, 11, 3, 34)),
        ("datamover2", "DOWN", "unknown", datetime(2017, 6, 29, 8, 0, 7)),
    ]
    with pytest.raises(InputError, match="no NodeName"):
        read((folder / "gcm_sample-scontrol-output.txt").read_bytes())


def test_broken_records_never_surprise() -> None:
    """Whatever bytes: rows and refusals, or one InputError; most records of a broken file are still read."""
    tries: list[bool] = []
    nodes = {"nodes": [NODE, {**NODE, "name": "n2", "state": "idle", "state_flags": ["DRAIN"]}]}
    text = [line + b"\n" for line in json.dumps(nodes, indent=1).encode().split(b"\n")]
    both = [f"2025-03-10T0{hour}:00Z\n{dump(hour, NODE)}".encode() for hour in (7, 8)]
    several = b"".join(both).splitlines(keepends=True)

    @settings(max_examples=200, derandomize=True, database=None, deadline=None)
    @given(data=broken(sample("scontrol.txt")) | broken(text) | broken(several))
    def run(data: bytes) -> None:
        tries.append(kept(scontrol, data, GIVEN))

    run()
    assert sum(tries) > len(tries) / 5
