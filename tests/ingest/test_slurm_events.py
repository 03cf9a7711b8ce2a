"""The source `slurm-events`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from slurm_logs import GIVEN, broken, case, kept, refused, rows, sample

from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed
from pipeline.ingest.sources import slurm_events

HEADER = "Cluster|NodeName|TimeStart|TimeEnd|State|Reason|User\n"
GOOD = "oak|n1|2025-03-01T08:00:00|2025-03-01T09:00:00|DOWN*|Not responding|slurm(64030)\n"


def read(text: str | bytes, options: Options = GIVEN) -> Parsed:
    return slurm_events.read(text.encode() if isinstance(text, str) else text, "e.psv", options)


def row(
    reason: str = "r", state: str = "DOWN", start: str = "2025-03-01T08:00:00", end: str = "Unknown"
) -> str:
    return HEADER + f"oak|n1|{start}|{end}|{state}|{reason}|root(0)\n"


def test_a_row_becomes_one_interval() -> None:
    """Local times go to UTC, the state's suffix is read, the reason stays."""
    (event,) = rows(read(HEADER + GOOD, Options(tz="Europe/Berlin")))
    assert event == {
        "t_start": datetime(2025, 3, 1, 7), "t_end": datetime(2025, 3, 1, 8), "kind": "interval",
        "node": "n1", "severity": "down", "component": "unknown", "code": "DOWN",
        "reason": "Not responding", "row": 1,
    }  # fmt: skip


@pytest.mark.parametrize("reason", ["a|b", "|", "a||b", "|a|", "A|B side | 3"])
@pytest.mark.parametrize("order", ["middle", "last", "first"])
def test_bars_in_a_reason_belong_to_it(reason: str, order: str) -> None:
    """Reason takes what the other columns leave over, wherever it stands."""
    lines = {
        "middle": ("NodeName|TimeStart|TimeEnd|State|Reason|User", f"n1|T|Unknown|DOWN|{reason}|root(0)"),
        "last": ("User|State|NodeName|TimeStart|TimeEnd|Reason", f"root(0)|DOWN|n1|T|Unknown|{reason}"),
        "first": ("Reason|Node|Start|End|State", f"{reason}|n1|T|Unknown|DOWN"),
    }[order]
    (event,) = rows(read("\n".join(lines).replace("|T|", "|2025-03-01T08:00:00|")))
    assert (event["node"], event["code"], event["reason"]) == ("n1", "DOWN", reason.strip())


def test_a_bar_at_the_end_of_every_line() -> None:
    """With -p the header and each row end with a bar; a row that does not was cut off."""
    lines = HEADER.replace("User\n", "User|\n") + GOOD.replace("\n", "|\n") + GOOD
    parsed = read(lines)
    assert [event["row"] for event in rows(parsed)] == [1]
    assert refused(parsed) == [slurm_events.FEW]
    barred = GOOD.replace("Not responding", "a|b")
    assert refused(read(HEADER.replace("User\n", "User|\n") + barred)) == [slurm_events.NO_LAST_BAR]


@pytest.mark.parametrize("end", ["Unknown", "", "None", "unknown"])
def test_an_end_that_is_not_known_is_open(end: str) -> None:
    """Slurm has several words for it; none is a time."""
    assert rows(read(row(end=end)))[0]["t_end"] is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (row(start="Unknown"), slurm_events.NO_START),
        (row(start="yesterday"), "start: not an ISO 8601 time with date and clock"),
        (row(start="2026-03-01T08:00:00"), "start: after --as-of, when the log was taken"),
        (row(start="1970-01-01T00:00:00"), "start: before 2000-01-01"),
        (row(end="2025-02-01T08:00:00"), slurm_events.END_FIRST),
        (row(end="2025-02-30T08:00:00"), "end: no such date or clock time"),
        (row(state=""), slurm_states.NO_STATE),
        (row(state="BROKEN"), slurm_states.UNKNOWN_STATE),
        (row(state="IDLE+"), slurm_states.CUT_STATE),
        (row().replace("|n1|", "|n[1-2]|"), slurm_events.MANY_NODES),
        (HEADER + "oak|n1|2025-03-01T08:00:00\n", slurm_events.FEW),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(text: str, reason: str) -> None:
    """One reason each, and the row is counted."""
    parsed = read(text)
    assert (parsed.rows_read, refused(parsed)) == (1, [reason])


def test_bars_without_a_reason_column_are_refused() -> None:
    """Nothing says which column holds them."""
    text = "NodeName|TimeStart|TimeEnd|State\nn1|2025-03-01T08:00:00|Unknown|DOWN|x\n"
    assert refused(read(text)) == [slurm_events.MANY]


def test_a_line_break_in_a_reason_costs_its_row() -> None:
    """Neither half is a row; the rows around it are read."""
    text = row() + "oak|n2|2025-03-01T08:00:00|Unknown|DOWN|two\nlines|root(0)\n" + GOOD
    parsed = read(text)
    assert [event["row"] for event in rows(parsed)] == [1, 4]
    assert refused(parsed) == [slurm_events.FEW] * 2


def test_bytes_that_are_not_utf8_cost_their_row() -> None:
    """The row's text keeps a mark for each; the file is read on."""
    parsed = read(row().encode() + GOOD.replace("Not", "N\xf6t").encode("latin-1") + GOOD.encode())
    assert [event["row"] for event in rows(parsed)] == [1, 3]
    assert refused(parsed) == [NOT_UTF8]
    assert "N\ufffdt responding" in parsed.rejects["text"][0]


def test_rows_of_the_cluster_are_kept_and_take_nothing() -> None:
    """An event without a node is one of the cluster: info, with no node and no domain."""
    text = HEADER + "oak||2025-03-01T08:00:00|Unknown||Cluster Registered TRES|slurm(64030)\n"
    (event,) = read(text).events.rows(named=True)
    assert (event["node"], event["domain"], event["severity"], event["scope"]) == (
        None,
        None,
        "info",
        "domain",
    )


def test_severities_of_states() -> None:
    """A drain that computes is degraded; planned work has its component; a node that works is info."""
    states = ("DRAIN", "DRNG", "MAINT", "IDLE~", "MIXED")
    found = [rows(read(row(state=state)))[0] for state in states]
    assert [(event["severity"], event["component"]) for event in found] == [
        ("down", "unknown"), ("degraded", "unknown"), ("down", "planned"), ("info", "planned"),
        ("info", "unknown"),
    ]  # fmt: skip


def test_state_raw_and_seconds_since_1970() -> None:
    """StateRaw is a bit field; SLURM_TIME_FORMAT=%s prints seconds, which need no zone."""
    text = f"NodeName|StateRaw|TimeStart|TimeEnd\nn1|{2 | 1 << 9}|1740816000|1740819600\n"
    (event,) = rows(read(text, Options()))
    assert (event["code"], event["t_start"], event["t_end"]) == (
        "DRAIN", datetime(2025, 3, 1, 8), datetime(2025, 3, 1, 9),
    )  # fmt: skip


def test_a_zone_is_asked_for() -> None:
    """Times without a zone need --tz; hours that clocks skip or repeat are refused by row."""
    with pytest.raises(InputError, match=r"e\.psv(.|\n)*--tz"):
        read(HEADER + GOOD, Options())
    berlin = Options(tz="Europe/Berlin")
    texts = [row(start="2025-03-30T02:30:00"), row(start="2024-10-27T02:30:00")]
    assert [refused(read(text, berlin))[0].partition(":")[0] for text in texts] == ["start", "start"]
    assert rows(read(texts[1], Options(tz="Europe/Berlin", fold="later")))[0]["t_start"].hour == 1


def test_rows_of_several_clusters_need_a_word() -> None:
    """Two clusters may both have a node n1: --cluster says which rows are meant."""
    text = HEADER + GOOD + GOOD.replace("oak", "elm")
    with pytest.raises(InputError, match="several clusters: oak, elm"):
        read(text)
    parsed = read(text, Options(tz="UTC", cluster="elm"))
    assert [event["row"] for event in rows(parsed)] == [2]
    assert refused(parsed) == [slurm_events.OTHER_CLUSTER]


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        "Account|JobID|State\n1|2|DOWN\n",
        HEADER.replace("State", "Reason2"),
        HEADER.replace("User", "State"),
    ],
)
def test_a_file_without_the_header_is_refused(text: str) -> None:
    """No header (-n), that of another command, no State, or State twice."""
    with pytest.raises(InputError, match=r"e\.psv"):
        read(text)


def test_the_header_alone_is_an_empty_table() -> None:
    """No node was down: no rows, and no mistake."""
    assert read(HEADER).rows_read == 0
    assert slurm_events.looks_like(HEADER.encode())
    assert not slurm_events.looks_like(GOOD.encode())


@pytest.mark.shared
def test_public_events_with_bars(shared_dir: Path) -> None:
    """Case B09: four rows of nodes, one of the cluster, two open, overlaps left to the union."""
    folder, expected = case(shared_dir, "B09")
    parsed = read((folder / "events.psv").read_bytes(), Options(tz="UTC"))
    assert not refused(parsed)
    events = rows(parsed)
    nodes = [event for event in events if event["node"]]
    assert (len(nodes), len(events) - len(nodes)) == (expected["node_rows"], expected["cluster_rows"])
    assert [event["node"] for event in nodes if event["t_end"] is None] == expected["open_rows"]
    assert events[3]["reason"] == expected["row4_reason"]
    states = [state.partition(" ")[0] for state in expected["states"].values()]
    assert [event["code"] for event in nodes[:3]] == states == ["DRAIN", "DRAIN", "DOWN"]
    assert [event["node"] for event in nodes[:2]] == list(expected["states"])[:2]
    assert expected["row4_user"] not in events[3]["reason"]
    down, planned = ({(nodes[place]["t_start"], nodes[place]["t_end"])} for place in (2, 3))
    assert nodes[3]["component"] == "planned"
    minutes = [
        {minute for start, end in spans for minute in range(int(start.timestamp()), int(end.timestamp()), 60)}
        for spans in (down, planned)
    ]
    assert len(minutes[0] | minutes[1]) * 60 == expected["nid0125_union_s"]
    assert len(minutes[0]) * 60 == expected["nid0125_unplanned_s"]
    assert len(minutes[1] - minutes[0]) * 60 == expected["nid0125_maint_only_s"]


@pytest.mark.shared
def test_a_table_by_the_grammar(shared_data: Path) -> None:
    """Bars in the reason, an open row, a cluster row; the hour that New York skips is refused there."""
    data = (shared_data / "slurm" / "SYNTHETIC_sacctmgr_event_parsable2.txt").read_bytes()
    assert read(data, Options(tz="UTC", as_of=None)).events.height == 5
    parsed = read(data, Options(tz="America/New_York"))
    assert [event["row"] for event in rows(parsed)] == [1, 2, 3, 5]
    assert rows(parsed)[2]["reason"] == "Xid 79 | rack 4 | ticket 88"
    assert rows(parsed)[3]["component"] == "planned"


@pytest.mark.shared
@pytest.mark.parametrize("kind", ["fake-line-break", "output-invalid-utf8", "output-with-invalid-lines"])
def test_job_records_are_another_format(shared_data: Path, kind: str) -> None:
    """Tables of sacct, dirt and all, are refused by their header."""
    data = (shared_data / "slurm" / f"gcm_sample-sacct-{kind}.txt").read_bytes()
    with pytest.raises(InputError, match="no such header"):
        read(data)


def test_broken_tables_never_surprise() -> None:
    """Whatever bytes: rows and refusals, or one InputError; most rows of a broken table are still read."""
    tries: list[bool] = []

    @settings(max_examples=200, derandomize=True, database=None, deadline=None)
    @given(data=broken(sample("slurm-events.psv")))
    def run(data: bytes) -> None:
        tries.append(kept(slurm_events, data, GIVEN))

    run()
    assert sum(tries) > len(tries) / 5
