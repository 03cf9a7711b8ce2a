"""The source `sinfo`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_logs import GIVEN, TAKEN, broken, case, kept, refused, rows, sample

from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.clock import ZONE_WORD
from pipeline.ingest.parsing import NO_NODE, NO_SUCH, NOT_UTF8, Options, Parsed
from pipeline.ingest.slurm_snapshots import BAD_TAKEN, NO_HOSTS, NO_STAMP
from pipeline.ingest.sources import sinfo

BARS = "STATE|USER|TIMESTAMP|NODELIST|REASON\n"
GOOD = "drained|root|2025-03-01T08:00:00|n1|Xid 79\n"
LISTED = "REASON               USER      TIMESTAMP           NODELIST\n"
WHEN = datetime(2025, 3, 1, 8)
AT = TAKEN.replace(tzinfo=None)


def read(text: str | bytes, options: Options = GIVEN) -> Parsed:
    return sinfo.read(text.encode() if isinstance(text, str) else text, "i.txt", options)


def test_a_node_becomes_an_open_interval() -> None:
    """From the reason's time, with an open end; the component is that of the reason."""
    (event,) = rows(read(BARS + GOOD))
    assert event == {
        "t_start": WHEN, "t_end": None, "kind": "interval", "node": "n1", "severity": "down",
        "component": "gpu", "code": "DRAIN", "reason": "Xid 79", "row": 1,
    }  # fmt: skip


@pytest.mark.parametrize("stamp", ["Unknown", "N/A", "none", ""])
def test_without_a_time_a_node_counts_from_the_snapshot(stamp: str) -> None:
    """It was down before, nobody knows since when: the reason says so."""
    (event,) = rows(read(BARS + GOOD.replace("2025-03-01T08:00:00", stamp)))
    assert (event["t_start"], event["reason"]) == (AT, "Xid 79 (since before)")


@pytest.mark.parametrize(
    "line",
    [
        "2025-03-10T07:00:00+00:00",
        "Mon Mar 10 07:00:00 2025",
        "Mon Mar 10 07:00:00 UTC 2025",
        "Mon Mar 10 07:00:00 AM UTC 2025",
        "Mon Mar 10 11:00:00 +04 2025",
        "Mon 10 Mar 2025 07:00:00 AM UTC",
        "Mon, 10 Mar 2025 02:00:00 -0500",
        "1741590000",
    ],
)
def test_the_time_above_a_listing_is_its_time(line: str) -> None:
    """By `date -Is`, `sinfo -l` and `date`; a stamp after it is impossible, whatever --as-of says."""
    text = f"{line}\n{BARS}down|root|Unknown|n1|none\ndown|root|2025-03-10T07:30:00|n2|x\n"
    for options in (Options(tz="UTC"), GIVEN):
        parsed = read(text, options)
        assert [(row["node"], row["t_start"]) for row in rows(parsed)] == [("n1", datetime(2025, 3, 10, 7))]
        assert refused(parsed) == ["after --as-of, when the log was taken"]


def test_each_listing_has_its_own_time() -> None:
    """A listing without one takes --as-of and never that of the listing above; no such day is told."""
    down = BARS + "down|root|Unknown|n{}|none\n"
    times = ("Mon Mar 10 07:00:00 2025\n", "", "Mon Feb 30 07:00:00 2025\n", "Mon Mar 10 07:00:00 CST 2025\n")
    text = "".join(time + down.format(place) for place, time in enumerate(times))
    parsed = read(text)
    assert [row["t_start"] for row in rows(parsed)] == [datetime(2025, 3, 10, 7), AT]
    assert parsed.events["as_of"].to_list() == [datetime(2025, 3, 10, 7), AT]
    assert refused(parsed) == [f"{BAD_TAKEN}: {NO_SUCH}", f"{BAD_TAKEN}: {ZONE_WORD}"]


@pytest.mark.parametrize(
    ("text", "options", "option"),
    [
        (BARS + GOOD, Options(tz="UTC"), "--as-of"),
        (BARS + GOOD, Options(as_of=TAKEN), "--tz"),
        ("Mon Mar 10 07:00:00 2025\n" + BARS + GOOD, Options(), "--tz"),
        ('{"nodes": [{"name": "n1", "state": "DOWN"}]}', Options(), "--as-of"),
    ],
)
def test_what_a_snapshot_lacks_is_said_once(text: str, options: Options, option: str) -> None:
    """When it was taken, or the zone: one error for the file."""
    with pytest.raises(InputError, match=rf"i\.txt(.|\n)*{option}"):
        read(text, options)


def test_nodes_that_work_are_no_rows() -> None:
    """A reason that was left behind does not take a node; power saving is told as info."""
    parsed = read(
        BARS + "idle|root|2025-03-01T08:00:00|n1|old\nmix-|root|Unknown|n2|none\nidle~|x|Unknown|n3|none\n"
    )
    assert [(row["node"], row["severity"]) for row in rows(parsed)] == [("n3", "info")]


def test_a_node_in_two_partitions_is_one_row() -> None:
    """`sinfo -N` lists a node for each partition, and the next listing tells it again."""
    parsed = read(BARS + GOOD + GOOD + BARS + GOOD)
    assert [row["row"] for row in rows(parsed)] == [1]


def spans(text: str) -> list[tuple[str, str, str, str, str]]:
    """Return node, code, start, end and the last instant that is known, of listings of one day, as clocks."""
    parsed = read(text, Options(tz="UTC"))
    assert refused(parsed) == []
    events = parsed.events.to_dicts()
    assert [event["row"] for event in events] == list(range(1, len(events) + 1))
    clocks = [
        ["" if event[key] is None else f"{event[key]:%H:%M}" for key in ("t_start", "t_end", "as_of")]
        for event in events
    ]
    return [
        (event["node"], event["code"], start, end, known)
        for event, (start, end, known) in zip(events, clocks, strict=True)
    ]


def listing(clock: str, *lines: str, header: str = BARS) -> str:
    """Return a listing taken at a clock time; a line is node, state and the clock of its reason."""
    parts = [line.split() for line in lines]
    rows = (
        f"{state}|root|{since and f'2025-03-10T{since}:00'}|{node}|x\n"
        for node, state, since in ((*part, "")[:3] for part in parts)
    )
    return f"Mon Mar 10 {clock}:00 2025\n{header}{''.join(rows)}"


def test_snapshots_of_one_file_are_one_fault_with_its_end() -> None:
    """Down in two, back in the third: from its stamp to the first that shows it back, which bounds it."""
    first, second, third = (
        listing("07:00", "n1 down 06:30", "n2 idle"),
        listing("08:00", "n1 down 06:30"),
        listing("09:00", "n1 idle"),
    )
    assert spans(first) == [("n1", "DOWN", "06:30", "", "07:00")]
    assert spans(first + second) == [("n1", "DOWN", "06:30", "", "08:00")]
    assert spans(first + second + third) == [("n1", "DOWN", "06:30", "09:00", "09:00")]
    assert spans(third + second + first) == spans(first + second + third), "by time, not by place"


def test_without_a_stamp_a_fault_lasts_from_the_first_to_the_last_sight() -> None:
    """Both ends are dated by the snapshot that shows them; what is down again is another fault."""
    text = "".join(
        listing(f"{hour:02}:00", f"n1 {state}")
        for hour, state in enumerate(["idle", "down", "down", "mix", "idle", "down", "down"], 7)
    )
    assert spans(text) == [("n1", "DOWN", "08:00", "10:00", "10:00"), ("n1", "DOWN", "12:00", "", "13:00")]


def test_a_node_that_is_not_listed_is_not_known_to_be_back() -> None:
    """Of another partition, or by `sinfo -R`: only a listing that shows it at work ends its fault."""
    down, reasons = listing("07:00", "n1 down 06:30"), "REASON|TIMESTAMP|NODELIST\n"
    for later in (
        listing("09:00", "n2 idle"),
        f"Mon Mar 10 09:00:00 2025\n{reasons}x|2025-03-10T08:00:00|n2\n",
        f"Mon Mar 10 09:00:00 2025\n{reasons}none|Unknown|n1\n",
        f"Mon Mar 10 09:00:00 2025\n{BARS}idle|root|Unknown|n[3-1]|none\n",
    ):
        assert spans(down + later)[0] == ("n1", "DOWN", "06:30", "", "07:00")
    assert spans(down + listing("09:00", "n2 idle", "n1 down 06:30")) == [
        ("n1", "DOWN", "06:30", "", "09:00")
    ]
    assert spans(down + f"Mon Mar 10 09:00:00 2025\n{BARS}idle|root|Unknown|n[0-3]|none\n") == [
        ("n1", "DOWN", "06:30", "09:00", "09:00")
    ]


@pytest.mark.parametrize(
    ("then", "ends", "starts"),
    [
        ("n1 drain 07:40", "07:40", "07:40"),  # another reason, which tells when it was set
        ("n1 drain 06:30", "08:00", "08:00"),  # the job ended between the two; the stamp is of the reason
        ("n1 drain", "08:00", "08:00"),
    ],
)
def test_another_state_ends_the_one_before(then: str, ends: str, starts: str) -> None:
    """At the stamp of the new one if it was set between the two snapshots, else at the later of them."""
    text = listing("07:00", "n1 drng 06:30") + listing("08:00", then) + listing("09:00", "n1 idle")
    assert spans(text) == [
        ("n1", "DRAINING", "06:30", ends, "08:00"), ("n1", "DRAIN", starts, "09:00", "09:00"),
    ]  # fmt: skip


def test_a_stamp_that_is_left_over_does_not_reach_back_over_a_time_at_work() -> None:
    """A node at work with its old reason that goes down again is down from the snapshot that shows it."""
    text = "".join(
        listing(f"{hour:02}:00", f"n1 {state} 06:30") for hour, state in ((7, "down"), (8, "idle"))
    )
    assert spans(text + listing("09:00", "n1 idle") + listing("10:00", "n1 down 06:30")) == [
        ("n1", "DOWN", "06:30", "08:00", "08:00"), ("n1", "DOWN", "10:00", "", "10:00"),
    ]  # fmt: skip


def test_what_contradicts_itself_at_one_instant_is_down() -> None:
    """Two listings below one time, or without any, say nothing of what came after."""
    both = (
        listing("07:00", "n1 idle", "n1 down 06:30")
        + "Mon Mar 10 07:00:00 2025\n"
        + BARS
        + "idle|x||n1|none\n"
    )
    assert spans(both) == [("n1", "DOWN", "06:30", "", "07:00")]


def test_rows_below_a_time_are_of_its_snapshot_also_without_a_header() -> None:
    """`sinfo -h` after the first: the header stands once, the time above each."""
    again = listing("08:00", "n2 down", header="")
    assert spans(listing("07:00", "n1 down") + again) == [
        ("n1", "DOWN", "07:00", "", "07:00"), ("n2", "DOWN", "08:00", "", "08:00"),
    ]  # fmt: skip


SHOWN = st.tuples(
    st.sampled_from(["idle", "down", "drain", "absent"]), st.sampled_from(["", "0", "30", "60"])
)


@settings(max_examples=300)
@given(st.lists(st.tuples(SHOWN, SHOWN), min_size=1, max_size=6), st.randoms())
def test_what_snapshots_show_is_what_comes_out(snapshots: list[tuple[Any, Any]], dice: Any) -> None:
    """A node is down at every snapshot that shows it down and at none that shows it at work, in any order."""
    texts, shown = [], []
    for place, states in enumerate(snapshots):
        at, lines = datetime(2025, 3, 10, 7 + place), []
        for node, (state, age) in zip(("n1", "n2"), states, strict=True):
            if state != "absent":
                lines.append(
                    f"{node} {state} {at - timedelta(minutes=int(age)):%H:%M}" if age else f"{node} {state}"
                )
                shown.append((node, state, at))
        texts.append(listing(f"{at:%H:%M}", *lines))
    parsed = read("".join(texts), Options(tz="UTC"))
    events = parsed.events.to_dicts()
    for node, state, at in shown:
        found = {
            event["code"]
            for event in events
            if event["node"] == node
            and event["t_start"] <= at
            and (at < event["t_end"] if event["t_end"] else at <= event["as_of"])
        }
        assert found == (set() if state == "idle" else {state.upper()})
    dice.shuffle(texts)
    columns = ["node", "code", "t_start", "t_end", "as_of", "reason"]
    again = read("".join(texts), Options(tz="UTC")).events.select(columns).sort(columns)
    assert again.equals(parsed.events.select(columns).sort(columns))


def test_rows_and_refusals_share_their_numbers() -> None:
    """In the order of the file, and a fault that is told again takes none."""
    text = (
        listing("07:00", "n1 down")
        + "odd|root||n2|x\n"
        + listing("08:00", "n1 down", "n3 down")
        + "odd|r||n2|x\n"
    )
    parsed = read(text, Options(tz="UTC"))
    assert [(row["node"], row["row"]) for row in rows(parsed)] == [("n1", 1), ("n3", 3)]
    assert parsed.rejects["row"].to_list() == [2, 4]


def test_node_lists_are_expanded() -> None:
    """Each node is a row; a bad list, an endless one and none are refused."""
    lists = ("gpu[08-10],b1", "n[3-1]", "n[0-999999999]", "(null)")
    parsed = read(BARS + "".join(GOOD.replace("n1", text) for text in lists))
    assert [row["node"] for row in rows(parsed)] == ["gpu08", "gpu09", "gpu10", "b1"]
    assert refused(parsed) == [NO_HOSTS, NO_HOSTS, NO_NODE]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("drained|root|2025-03-01T08:00:00|n1\n", sinfo.FEW),
        ("sleepy|root|2025-03-01T08:00:00|n1|x\n", slurm_states.UNKNOWN_STATE),
        ("down|root|Ystday 08:00|n1|x\n", NO_STAMP),
        ("down|root|2025-02-30T08:00:00|n1|x\n", "no such date or clock time"),
        ("down|root|1970-01-01T00:00:00|n1|x\n", "before 2000-01-01"),
    ],
)
def test_a_row_that_cannot_be_read_is_refused(row: str, reason: str) -> None:
    """One reason each, and the row is counted."""
    parsed = read(BARS + row)
    assert (parsed.rows_read, refused(parsed)) == (1, [reason])


def test_bars() -> None:
    """REASON takes the bars that are left over; without it they are refused; one at the end is nothing."""
    middle = "NODELIST|REASON|STATE\nn1|a|b|down\nn2|a|b|\n"
    assert [(row["node"], row["reason"]) for row in rows(read(middle))] == [("n1", "a|b (since before)")]
    assert refused(read(middle)) == [slurm_states.UNKNOWN_STATE]
    assert refused(read("NODELIST|STATE\nn1|down|x|y\n")) == [sinfo.MANY]
    assert rows(read("NODELIST|STATE\nn1|down|\n"))[0]["code"] == "DOWN"


def test_columns_of_sinfo_r() -> None:
    """Blanks in a reason do not shift columns; a row that stands askew is refused, and one that is cut."""
    good = "Kill task failed     root      2025-03-01T08:00:00 n[1-2]\n"
    parsed = read(LISTED + good + good.replace("failed ", "failed") + good[:40] + "\n")
    assert [(row["node"], row["reason"], row["code"]) for row in rows(parsed)] == [
        ("n1", "Kill task failed", "UNAVAILABLE"), ("n2", "Kill task failed", "UNAVAILABLE"),
    ]  # fmt: skip
    assert refused(parsed) == [sinfo.CROOKED, sinfo.FEW]
    wide = "Lüfter ausgefallen   root      2025-03-01T08:00:00 n3\n".replace("n   root", "n  root")
    assert rows(read(LISTED + wide))[0]["node"] == "n3"  # sinfo pads in bytes


def test_columns_of_dash_o() -> None:
    """`-O` parts columns by nothing when a field fills its own."""
    names = ("NODELIST", "STATE", "REASON", "TIMESTAMP")
    cells = ("n1", "drained", "gres/gpu count repor", "2025-03-01T08:00:00")
    text = "".join(f"{name:20}" for name in names) + "\n" + "".join(f"{cell:20}" for cell in cells) + "\n"
    (event,) = rows(read(text))
    assert (event["node"], event["reason"], event["t_start"]) == ("n1", "gres/gpu count repor", WHEN)


def test_columns_by_blanks() -> None:
    """REASON as the last column takes the rest; elsewhere the number of words must fit."""
    header = "NODELIST NODES PARTITION STATE REASON\n"
    parsed = read(header + "n1 1 main* down* Not responding\nn2 1 main* drained*\nn3 1 down*\n")
    assert [(row["node"], row["reason"]) for row in rows(parsed)] == [
        ("n1", "Not responding (since before)"), ("n2", "DRAIN (since before)"),
    ]  # fmt: skip
    assert refused(parsed) == [sinfo.FEW]
    assert refused(read("PARTITION STATE NODELIST\nmain* down n1 n2\n")) == [sinfo.MANY]


def test_rows_above_the_header_and_bad_bytes_are_refused() -> None:
    """A first line that was cut off says nothing; a line that is not UTF-8 costs itself."""
    parsed = read(
        b"8:00|n0|x\n" + BARS.encode() + GOOD.replace("Xid", "X\xefd").encode("latin-1") + GOOD.encode()
    )
    assert [row["node"] for row in rows(parsed)] == ["n1"]
    assert sorted(refused(parsed)) == sorted([sinfo.ABOVE, NOT_UTF8])


@pytest.mark.parametrize(
    "text", ["n1|down\n", "USER|STATE\n", "NODELIST|USER\nn1|root\n", "{}", '{"sinfo": 1}', "{"]
)
def test_another_format_is_refused(text: str) -> None:
    """No header (-h), no nodes, neither state nor reason, JSON of something else, or cut off."""
    with pytest.raises(InputError, match=r"i\.txt"):
        read(text)


@pytest.mark.parametrize("stamp", [1740816000, {"set": True, "infinite": False, "number": 1740816000}])
def test_json_of_sinfo(stamp: object) -> None:
    """A line stands for all nodes with one state; a number comes bare or in a box, and 0 is none."""

    def line(state: list[str], since: object) -> dict[str, object]:
        reason = {"description": "Xid 79", "time": since, "user": "root"}
        return {"node": {"state": state}, "nodes": {"nodes": ["n1", "n2"]}, "reason": reason}

    text = json.dumps(
        {"sinfo": [line(["IDLE", "DRAIN"], stamp), line(["IDLE"], 0), line(["DOWN"], 0), [], {"node": 1}]}
    )
    parsed = read(text)
    assert [(row["node"], row["code"], row["t_start"]) for row in rows(parsed)] == [
        ("n1", "DRAIN", WHEN), ("n2", "DRAIN", WHEN), ("n1", "DOWN", AT), ("n2", "DOWN", AT),
    ]  # fmt: skip
    assert refused(parsed) == ["not an object with a node"] * 2


def test_a_listing_looks_like_one() -> None:
    """By its header."""
    assert sinfo.looks_like(BARS.encode())
    assert sinfo.looks_like(b"Mon Mar 10 07:00:00 2025\n" + LISTED.encode())
    assert not sinfo.looks_like(GOOD.encode())


@pytest.mark.shared
def test_public_listings_of_reasons(shared_dir: Path) -> None:
    """Case B04: zero padding is kept, a host with digits and dashes is one, and "start" may be unknown."""
    folder, expected = case(shared_dir, "B04")
    wanted = expected["sinfo_list_reasons.txt"]
    found = rows(read((folder / "sinfo_list_reasons.txt").read_bytes()))
    assert [row["node"] for row in found] == wanted["nodes"]
    assert {row["reason"] for row in found} == {wanted["reason"] + " (since before)"}  # start: null
    wanted = expected["sinfo_R.txt"]
    found = rows(read((folder / "sinfo_R.txt").read_bytes()))
    assert [row["node"] for row in found] == wanted["nodes"]
    assert (found[0]["reason"], found[0]["component"]) == (wanted["reason"], "software")
    assert found[0]["t_start"].isoformat() == wanted["start_local"]


@pytest.mark.shared
def test_public_states(shared_dir: Path) -> None:
    """Case B05, read as a listing: what is down, planned, powered off, and what is no row."""
    folder, expected = case(shared_dir, "B05")
    found = rows(read("NODELIST|STATE\n" + (folder / "sinfo.txt").read_text()))
    told = {
        severity: [row["node"] for row in found if row["severity"] == severity]
        for severity in ("info", "down")
    }
    silent = [row["node"] for row in found if row["severity"] == "degraded"]
    assert told["info"] == expected["powered_down_not_failed"]
    assert sorted(told["down"] + silent) == expected["unavailable"]
    assert {row["node"] for row in found}.isdisjoint(expected["available"])
    assert silent == ["n02", "n10"], "not responding, and draining: both may still compute"


@pytest.mark.shared
def test_public_long_listing(shared_dir: Path) -> None:
    """Case B12: the line above is the time taken, `main*` a partition, and the start is unknown."""
    folder, expected = case(shared_dir, "B12")
    found = rows(read((folder / "sinfo-lNe.txt").read_bytes(), Options(tz="UTC")))
    assert len(found) == expected["rows"]
    assert {row["t_start"].isoformat() for row in found} == {expected["capture_local"]}
    assert {row["code"] for row in found} == {expected["base_state"]}
    assert {row["reason"] for row in found} == {expected["reason"] + " (since before)"}
    assert expected["interval_start"].startswith("unknown"), "which the words in brackets say"
    assert expected["not_responding"]
    assert {row["severity"] for row in found} == {"down"}, "a star behind the state changes nothing"
    assert expected["partition"] not in {row["node"] for row in found}


@pytest.mark.shared
def test_public_listings_of_two_centres(shared_data: Path) -> None:
    """One filesystem fault of 60 nodes among 100; states with suffixes; a table of 43 columns; no header."""
    folder = shared_data / "slurm"
    parsed = read((folder / "sinfo_R_community.txt").read_bytes())
    assert (parsed.events.height, refused(parsed)) == (100, [])
    assert {row["component"] for row in rows(parsed) if "BEEGFS" in row["reason"]} == {"storage"}
    parsed = read((folder / "sinfo_states.txt").read_bytes())
    assert dict(parsed.events["code"].value_counts().rows()) == {
        "DOWN": 2, "DRAINING": 67, "FAIL": 4, "MAINT": 5,
    }  # fmt: skip
    (compute,) = [row["t_start"] for row in rows(parsed) if row["node"] == "compute001"]
    assert compute == datetime(2016, 6, 9, 22, 22, 36)  # by the line above its own listing
    parsed = read((folder / "gcm_sample-sinfo-output.txt").read_bytes())
    assert [(row["node"], row["reason"]) for row in rows(parsed)] == [("node0201", "replace")]
    with pytest.raises(InputError, match="no header"):
        read((folder / "sinfo_R_small.txt").read_bytes())


def test_broken_listings_never_surprise() -> None:
    """Whatever bytes: rows and refusals, or one InputError; most rows of a broken listing are still read."""
    tries: list[bool] = []
    options = Options(tz="UTC", as_of=datetime(2025, 7, 1, tzinfo=UTC))
    listed = [LISTED.encode(), b"Kill task failed     root      2025-03-01T08:00:00 n[1-2]\n"] * 2

    @settings(max_examples=200, derandomize=True, database=None, deadline=None)
    @given(data=broken(sample("sinfo.txt")) | broken(listed))
    def run(data: bytes) -> None:
        tries.append(kept(sinfo, data, options))

    run()
    assert sum(tries) > len(tries) / 5
