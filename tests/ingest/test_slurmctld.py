"""The source `slurmctld`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from slurm_logs import GIVEN, broken, case, kept, paired, refused, rows, sample

from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed
from pipeline.ingest.slurm_snapshots import NO_HOSTS
from pipeline.ingest.sources import slurmctld

DOWN = "error: Nodes n1 not responding, setting DOWN"
WHEN = datetime(2025, 3, 1, 8)


def read(text: str | bytes, options: Options = GIVEN) -> Parsed:
    return slurmctld.read(text.encode() if isinstance(text, str) else text, "s.log", options)


def told(*messages: str, options: Options = GIVEN) -> Parsed:
    """Return what a log says whose lines are a minute apart."""
    start = WHEN
    lines = (
        f"[{start + timedelta(minutes=place):%Y-%m-%dT%H:%M:%S}.000] {message}"
        for place, message in enumerate(messages)
    )
    return read("\n".join(lines), options)


def brief(parsed: Parsed) -> list[tuple[str, str, str, str]]:
    return [(row["kind"], row["node"], row["code"], row["severity"]) for row in rows(parsed)]


@pytest.mark.parametrize(
    ("stamp", "options"),
    [
        ("[2025-03-01T08:00:00.250] {}", Options(tz="UTC")),
        ("[2025-03-01T08:00:00.250+00:00] {}", Options()),
        ("[2025-03-01T10:00:00.250+02:00] {}", Options()),
        ("[2025-03-01T08:00:00.250Z] {}", Options()),
        ("[Mar  1 08:00:00.250000  4711 slurmctld    0x7f00] {}", Options(tz="UTC", year=2025)),
        (
            "[Mar 01 08:00:00.250000 4711  0x7f00] {}",
            Options(tz="UTC", as_of=datetime(2025, 4, 1, tzinfo=UTC)),
        ),
        ("2025-03-01T09:00:00.250000+01:00 ctl slurmctld[483]: slurmctld: {}", Options()),
        ("2025-03-01T08:00:00.250 ctl slurmctld: {}", Options(tz="UTC")),
    ],
)
def test_every_format_of_the_time(stamp: str, options: Options) -> None:
    """All values of LogTimeFormat that tell the time, and syslog's own."""
    (event,) = rows(read(stamp.format(DOWN), options))
    assert event["t_start"] == WHEN.replace(microsecond=250_000)


@pytest.mark.parametrize(
    "line",
    [
        "[Mar 01 08:00:00] {}",
        "Mar  1 08:00:00 ctl slurmctld[483]: slurmctld: {}",
        "3月  1 08:00:00 c slurmctld: {}",
    ],
)
def test_formats_without_fractions(line: str) -> None:
    """The short format and syslog of old, with the year given or taken from --as-of."""
    for options in (Options(tz="UTC", year=2025), GIVEN):
        assert rows(read(line.format(DOWN), options))[0]["t_start"] == WHEN


def test_thread_id_prints_microseconds_as_a_number() -> None:
    """`.42` is 42 microseconds, padded with blanks and not with zeros."""
    line = f"[Mar  1 08:00:00.42      4711 slurmctld    0x7f00] {DOWN}"
    assert rows(read(line))[0]["t_start"] == WHEN.replace(microsecond=42)


@pytest.mark.parametrize(
    ("line", "options", "option"),
    [
        (f"[2025-03-01T08:00:00] {DOWN}", Options(), "--tz"),
        (f"[Mar 01 08:00:00] {DOWN}", Options(tz="UTC"), "--year"),
        (f"[123456789] {DOWN}", GIVEN, "LogTimeFormat"),
        (DOWN, GIVEN, "LogTimeFormat"),
        (f"slurmctld: {DOWN}", GIVEN, "LogTimeFormat"),
    ],
)
def test_what_a_log_lacks_is_said_once(line: str, options: Options, option: str) -> None:
    """No zone, no year, clock (the processor's time) or omit: one error for the file."""
    with pytest.raises(InputError, match=rf"s\.log(.|\n)*{option}"):
        read(f"{line}\n{line}\n", options)


def test_the_year_turns_in_lines_that_are_no_rows() -> None:
    """A log of December to February: the turn stands in lines of no interest."""
    lines = [
        f"[Dec 30 08:00:00] {DOWN}",
        "[Dec 31 23:59:59] x",
        "[Jan 01 00:00:01] x",
        f"[Feb 28 08:00:00] {DOWN}",
    ]
    years = [row["t_start"].year for row in rows(read("\n".join(lines)))]
    assert years == [2024, 2025]
    leap = f"[Feb 29 08:00:00] {DOWN}"
    assert refused(read(leap, Options(tz="UTC", year=2025))) == ["no such date or clock time"]


def test_a_line_may_name_many_nodes() -> None:
    """Each node of a host list is a row; a list that is bad or endless is one refused row."""
    parsed = told(
        "error: Nodes gpu[08-10],b1 not responding, setting DOWN",
        "error: Nodes gpu[9-1] not responding",
        "error: Nodes gpu[0-999999999] not responding",
        "error: Nodes gpu[1 not responding",
    )
    assert [row["node"] for row in rows(parsed)] == ["gpu08", "gpu09", "gpu10", "b1"]
    assert refused(parsed) == [NO_HOSTS] * 3


def test_only_setting_down_takes_a_node() -> None:
    """Silence is degraded and ends with "now responding", which leaves a node that was set DOWN there."""
    parsed = told("error: Nodes n1 not responding", "Node n1 now responding", DOWN, "Node n1 now responding")
    assert brief(parsed) == [
        ("onset", "n1", "NOT_RESPONDING", "degraded"),
        ("clear", "n1", "NOT_RESPONDING", "degraded"),
        ("onset", "n1", "DOWN", "down"),
        ("clear", "n1", "NOT_RESPONDING", "down"),
    ]
    assert paired(parsed, "DOWN")["n1"][0][1] is None


def test_back_in_service_leaves_a_drain() -> None:
    """A return to service ends DOWN only; a state set to IDLE ends both, and the silence before."""
    parsed = told(
        "error: Nodes n1 not responding",
        DOWN,
        "update_node: node n1 reason set to: Xid 79",
        "update_node: node n1 state set to DRAINED",
        "node_did_resp: node n1 returned to service",
        "update_node: node n1 state set to IDLE",
    )
    assert brief(parsed)[2:] == [
        ("onset", "n1", "DRAIN", "down"),
        ("clear", "n1", "DOWN", "down"),
        ("clear", "n1", "NOT_RESPONDING", "degraded"),
        ("clear", "n1", "DRAIN", "down"),
    ]
    assert rows(parsed)[2]["reason"] == "Xid 79"
    assert rows(parsed)[2]["component"] == "gpu"


def test_a_drain_weighs_more_when_the_job_has_ended() -> None:
    """DRAINING is degraded; DRAINED ends that and begins a fault that takes the node."""
    parsed = told("update_node: node n1 state set to DRAINING", "update_node: node n1 state set to DRAINED")
    assert brief(parsed) == [
        ("onset", "n1", "DRAIN", "degraded"),
        ("clear", "n1", "DRAIN", "degraded"),
        ("onset", "n1", "DRAIN", "down"),
    ]
    assert [row["t_start"].minute for row in rows(parsed)] == [0, 1, 1]


def test_an_end_is_written_for_what_may_be_open() -> None:
    """The onset may stand in an older log: each fault that IDLE may end is cleared once."""
    idle = "update_node: node n1 state set to IDLE"
    assert brief(told(idle, idle, DOWN, idle)) == [
        ("clear", "n1", "DOWN", "down"),
        ("clear", "n1", "DRAIN", "down"),
        ("clear", "n1", "DOWN", "down"),
        ("onset", "n1", "DOWN", "down"),
        ("clear", "n1", "DOWN", "down"),
    ]


def test_an_unexpected_reboot_begins_at_the_last_response() -> None:
    """The line's own numbers are bounds in UTC; the node stays DOWN until somebody resumes it."""
    line = "validate_node_specs: Node n1 unexpectedly rebooted boot_time={} last response={}"
    last = int(WHEN.replace(tzinfo=UTC).timestamp()) - 600
    parsed = told(line.format(last + 120, last), "update_node: node n1 state set to IDLE")
    assert paired(parsed, "DOWN") == {"n1": [(WHEN - timedelta(minutes=10), WHEN + timedelta(minutes=1))]}
    assert refused(told(line.format(last - 1, last))) == [slurmctld.BOOT_FIRST]
    assert refused(told(line.format(last + 7200, last))) == [slurmctld.BOOT_LATE]
    assert refused(told(line.format(9_999_999_999, last))) == ["after --as-of, when the log was taken"]
    assert refused(told(line.format(1, 0))) == ["before 2000-01-01"]


def test_a_reboot_in_the_second_of_a_return_begins_after_it() -> None:
    """The last response is in whole seconds; sorted by time, the return must not end the new fault."""
    last = int(WHEN.replace(tzinfo=UTC).timestamp())
    text = (
        "[2025-03-01T08:00:00.500] node n1 returned to service\n"
        "[2025-03-01T08:05:00.000] Node n1 unexpectedly rebooted"
        f" boot_time={last + 60} last response={last}\n"
    )
    assert [row["t_start"].microsecond for row in rows(read(text))] == [500_000, 500_000]


def test_reasons_come_before_states() -> None:
    """A reason, a failed prolog and an invalid registration are told in front of the drain they cause."""
    parsed = told(
        "error: validate_node_specs: Prolog or job env setup failure on node n1, draining the node",
        "drain_nodes: node n1 state set to DRAIN",
        "error: Setting node n2 state to INVAL with reason:gres/gpu count reported lower (7 < 8)",
        "drain_nodes: node n2 state set to DRAIN",
        "drain_nodes: node n3 state set to DRAIN",
    )
    assert [(row["code"], row["severity"], row["component"]) for row in rows(parsed)] == [
        ("DRAIN", "down", "software"),
        ("INVAL", "info", "gpu"),
        ("DRAIN", "down", "gpu"),
        ("DRAIN", "down", "unknown"),
    ]
    assert rows(parsed)[3]["reason"] == "DRAIN"


def test_what_is_told_besides() -> None:
    """A killed job and power saving are info; maintenance is planned; a state that is unknown is refused."""
    parsed = told(
        "Killing JobId=48 on failed node gpu-1",
        "requeue job JobId=49 due to failure of node gpu-1",
        "update_node: node n1 state set to POWERED_DOWN",
        "update_node: node n1 state set to DOWN+MAINT",
        "update_node: node n1 state set to SLEEPY",
        "error: Setting node n2 state to DOWN",
    )
    assert [(row["code"], row["severity"], row["component"]) for row in rows(parsed)] == [
        ("JOB_KILLED", "info", "unknown"),
        ("JOB_KILLED", "info", "unknown"),
        ("POWER", "info", "planned"),
        ("DOWN", "down", "planned"),
        ("DOWN", "down", "unknown"),
    ]
    assert refused(parsed) == [slurm_states.UNKNOWN_STATE]


def test_other_lines_are_no_rows() -> None:
    """Only what is said of a node's state is; what claims that and cannot be read is refused."""
    parsed = told(
        "error: Node n1 has low socket*core*thread count (1 < 20)",
        "slurmdbd: connection not responding",
        "sched: Allocate JobId=1 NodeList=n1",
        "update_node: node n1 state set to",
        "Node n1 unexpectedly rebooted boot_time=soon last response=never",
    )
    assert (parsed.rows_read, refused(parsed)) == (2, [slurmctld.NOT_READ] * 2)


def test_bad_bytes_and_bad_times_cost_their_lines() -> None:
    """The log is read on; a line without a time is refused when others have one."""
    good = f"[2025-03-01T08:00:00] {DOWN}\n".encode()
    bad = good.replace(b"n1", b"n\xff") + good.replace(b"03-01", b"02-30") + DOWN.encode() + b"\n"
    parsed = read(good + bad + good.replace(b"2025", b"2026") + good.replace(b"-03-", b"/03/"))
    assert parsed.events.height == 1
    assert refused(parsed) == [
        NOT_UTF8, "no such date or clock time", slurmctld.NO_TIME, "after --as-of, when the log was taken",
        slurmctld.BAD_TIME,
    ]  # fmt: skip


def test_a_log_without_news_of_nodes_is_empty() -> None:
    """Nothing failed: no rows, and no mistake; a file that is no such log is one."""
    assert read("[2025-03-01T08:00:00.000] slurmctld version 24.05.2 started\n").rows_read == 0
    with pytest.raises(InputError, match="no line of slurmctld"):
        read("hello\nworld\n")
    assert slurmctld.looks_like(b"".join(sample("slurmctld.log")))
    assert not slurmctld.looks_like(b"[2025-03-01T08:00:00.000] hello\n")


@pytest.mark.shared
def test_public_log_with_flaps(shared_dir: Path) -> None:
    """Case B01: two outages, both open; two flaps; two ends whose onset is older than the log."""
    folder, expected = case(shared_dir, "B01")
    parsed = read((folder / "slurmctld.log").read_bytes(), Options(tz="UTC"))
    assert not refused(parsed)
    faults = paired(parsed, "DOWN")
    spans = [(node, *span) for node, found in faults.items() for span in found]
    wanted = expected["down_intervals"]
    opened = {(node, start) for node, start, end in spans if start and end is None}
    assert opened == {(row["node"], datetime.fromisoformat(row["start"])) for row in wanted}
    ended = {(node, end) for node, start, end in spans if start is None}
    assert ended == {
        (row["node"], datetime.fromisoformat(row["end"])) for row in expected["left_censored_ends"]
    }
    assert [span for span in spans if span[1] and span[2]] == [] == [None] * expected["outages_closed"]
    assert len(opened) == expected["outages_open"]
    silent = paired(parsed, "NOT_RESPONDING")
    flaps = [(end - start).total_seconds() for start, end in silent["c002"] if start and end]
    assert flaps == [row["s"] for row in expected["flaps"]]
    assert silent["c001"] == [(datetime.fromisoformat(wanted[0]["suspect_since"]), None)]


@pytest.mark.shared
def test_public_lines(shared_data: Path) -> None:
    """Lines of five public logs: times with and without a zone or year, and two that lost theirs."""
    data = (shared_data / "slurm" / "slurmctld_log.txt").read_bytes()
    parsed = read(data, Options(tz="UTC", year=2026, as_of=datetime(2026, 7, 1, tzinfo=UTC)))
    assert paired(parsed, "DOWN") == {
        "Login-1": [(datetime(2024, 9, 12, 6, 41, 25), None)],
        "worker1": [(datetime(2026, 6, 13, 6, 47, 30), datetime(2026, 6, 13, 6, 54, 2))],
    }
    assert refused(parsed) == [slurmctld.NO_TIME] * 2


def test_broken_logs_never_surprise() -> None:
    """Whatever bytes: rows and refusals, or one InputError; most rows of a broken log are still read."""
    tries: list[bool] = []
    syslog = [
        line.replace(b"[2025-03-", b"Mar ")
        .replace(b"+00:00] ", b" ctl slurmctld[1]: ")
        .replace(b"T", b" ", 1)
        for line in sample("slurmctld.log")
    ]
    syslog = [line[:15] + line[line.index(b" ctl") :] for line in syslog]

    @settings(max_examples=200, derandomize=True, database=None, deadline=None)
    @given(data=broken(sample("slurmctld.log")) | broken(syslog))
    def run(data: bytes) -> None:
        tries.append(kept(slurmctld, data, GIVEN))

    run()
    assert kept(slurmctld, b"".join(syslog), GIVEN)
    assert sum(tries) > len(tries) / 5
