"""The source `hyperpod`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import hyperpod
from tests.ingest.mutations import survives

GIVEN = Options.of(node="i-1", as_of="2026-06-01T00:00Z")
XID = "NVRM: Xid (PCI:0000:b9:00): 64, pid=1"


def agent(state: str = "True", name: str = "NvidiaErrorReboot", **more: Any) -> dict[str, Any]:
    message = f'Node condition {name} is now: {state}, reason: XidHardwareFailure, message: "{XID}"'
    details = {
        "severity": "warn",
        "timestamp": "2026-03-02T20:59:29Z",
        "reason": "XidHardwareFailure",
        "message": message,
    }
    return {
        "level": "info",
        "ts": "2026-03-01T18:35:35Z",
        "details: ": details,
        "HealthMonitoringAgentDetectionEvent": "HealthEvent",
        **more,
    }


def line(item: Any, stamp: str = "2026-03-01T11:35:35.532-07:00") -> str:
    return f"{stamp} {json.dumps(item)}"


def read(*lines: str, options: Options = GIVEN) -> Parsed:
    return hyperpod.read("\n".join(lines).encode(), "f", options)


def document(item: Any, options: Options = GIVEN) -> Parsed:
    return hyperpod.read(json.dumps(item).encode(), "f", options)


def picked(parsed: Parsed, *names: str) -> list[tuple[Any, ...]]:
    return parsed.events.select(names).rows()


def test_a_condition_opens_and_closes() -> None:
    """A node that is to be rebooted is down; the Xid says which part it was; other lines claim nothing."""
    parsed = read(
        "# a comment about HealthMonitoringAgentDetectionEvent",
        line(agent()),
        line({"level": "info", "msg": "heartbeat"}),
        line(agent(HealthMonitoringAgentDetectionEvent="Probe")),
        line(agent("False"), "2026-03-01T12:00:00Z"),
        line(agent(name="OurOwnCheck")),
    )
    assert picked(parsed, "kind", "node", "severity", "component", "code", "scope") == [
        ("onset", "i-1", "down", "hbm", "NvidiaErrorReboot", "node"),
        ("clear", "i-1", "down", "hbm", "NvidiaErrorReboot", "node"),
        ("onset", "i-1", "degraded", "hbm", "OurOwnCheck", "node"),
    ]
    assert parsed.rows_read == 3


def test_a_condition_that_turns_unknown_is_a_moment_of_information() -> None:
    """The check failed, not the node: nothing opens or closes. Ready alone is down, as its node is lost."""
    times = [f"2026-03-01T1{hour}:00:00Z" for hour in range(4)]
    states = ["True", "Unknown", "False", "Unknown"]
    parsed = read(*(line(agent(state), time) for state, time in zip(states, times, strict=True)))
    assert picked(parsed, "kind", "severity", "code") == [
        ("onset", "down", "NvidiaErrorReboot"),
        ("interval", "info", "NvidiaErrorReboot"),
        ("clear", "down", "NvidiaErrorReboot"),
        ("interval", "info", "NvidiaErrorReboot"),
    ]
    assert parsed.events["t_end"].to_list() == [
        start if kind == "interval" else None
        for kind, start in parsed.events.select("kind", "t_start").rows()
    ]
    ready = read(*(line(agent(state, "Ready"), time) for state, time in zip(states, times, strict=True)))
    assert picked(ready, "kind", "severity") == [
        ("clear", "down"), ("onset", "down"), ("onset", "down"), ("onset", "down"),
    ]  # fmt: skip


def test_the_stamp_in_front_counts_then_ts_then_cloudwatch() -> None:
    """The time within the details, a day later, never does."""
    assert read(line(agent())).events["t_start"][0].isoformat() == "2026-03-01T18:35:35.532000"
    assert document(agent()).events["t_start"][0].isoformat() == "2026-03-01T18:35:35"
    bare = agent()
    del bare["ts"]
    stream = {"events": [{"message": json.dumps(bare), "timestamp": 1772390135532}]}
    assert document(stream).events["t_start"][0].isoformat() == "2026-03-01T18:35:35.532000"
    assert document(bare).rejects["reason"].to_list() == ["no time"]


def test_the_stream_names_the_instance() -> None:
    """filter-log-events needs no node; bare lines do."""
    name = "SagemakerHealthMonitoringAgent/workers/i-7"
    events = [{"logStreamName": name, "message": line(agent())}, {"logStreamName": name, "message": "hello"}]
    assert picked(document({"events": events}, Options()), "node") == [("i-7",)]
    with pytest.raises(InputError, match=r"f: the log names no node(.|\n)*--node"):
        read(line(agent()), options=Options())


def health(status: str, time: str = "2026-03-01T10:00:00Z") -> dict[str, Any]:
    summary = {
        "HealthStatus": status,
        "HealthStatusReason": "fault type NvidiaErrorTerminate",
        "RepairAction": "Replace",
    }
    detail = {"InstanceId": "i-7", "HealthSummary": summary}
    return {"detail-type": "SageMaker HyperPod Cluster Node Health Event", "time": time, "detail": detail}


def test_node_health_events_open_and_close() -> None:
    """Unhealthy is down, Healthy its end, anything else is refused."""
    parsed = document([health("Unhealthy"), health("Healthy", "2026-03-01T11:00:00Z"), health("Odd")])
    assert picked(parsed, "kind", "node", "severity", "component", "code") == [
        (kind, "i-7", "down", "gpu", "HealthStatus") for kind in ("onset", "clear")
    ]
    assert parsed.rejects.height == 1


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        (1772390135, "2026-03-01T18:35:35"),
        (1772390135.5, "2026-03-01T18:35:35.500000"),
        ("2026-03-01T11:35:35.532000-07:00", "2026-03-01T18:35:35.532000"),
    ],
)
def test_the_api_gives_seconds_or_iso_times(time: Any, expected: str) -> None:
    """EventBridge gives milliseconds; which it is follows from the envelope, not from the number."""
    event = {"EventTime": time, "InstanceId": "i-7", "ResourceType": "Instance", "Description": "d"}
    parsed = document({"Events": [event]})
    assert parsed.events["t_start"][0].isoformat() == expected
    assert picked(parsed, "severity", "component", "code", "reason") == [
        ("info", "capacity", "Instance", "d")
    ]
    assert document({"Events": [event | {"EventTime": 1772390135532}]}).rejects.height == 1


def test_without_event_time_the_envelope_counts() -> None:
    """A change of the cluster's state is info."""
    item = {
        "detail-type": "SageMaker HyperPod Cluster State Change",
        "time": "2026-03-01T10:00:00Z",
        "detail": {"ClusterStatus": "Failed"},
    }
    assert picked(document(item), "node", "severity", "reason") == [(None, "info", "Failed")]


def test_what_is_cut_off_or_empty_is_refused() -> None:
    """One line costs one row; another log is an input error."""
    cut = line(agent())[:-20] + ' "HealthMonitoringAgentDetectionEvent"'
    parsed = read(cut, line(agent(**{"details: ": {}})), line(agent()))
    assert parsed.rejects["reason"].to_list() == ["a line that is cut off", "a health event without details"]
    assert parsed.events.height == 1
    with pytest.raises(InputError, match="f: nothing of HyperPod"):
        read("hello")


@pytest.mark.shared
def test_the_public_excerpts_are_read(shared_data: Path) -> None:
    """The agent's line at its own stamp; the cluster event at EventTime, a year before its envelope."""
    path = shared_data / "hyperpod" / "health_monitoring_agent.txt"
    parsed = hyperpod.read(path.read_bytes(), path.name, Options(node="n"))
    assert picked(parsed, "code", "severity") == [("NvidiaErrorReboot", "down")]
    assert parsed.events["t_start"][0].isoformat() == "2024-08-21T18:35:35.532000"
    path = shared_data / "hyperpod" / "cluster_event_shortened.json"
    parsed = hyperpod.read(path.read_bytes(), path.name, Options())
    assert picked(parsed, "severity", "component") == [("info", "capacity")]
    assert parsed.events["t_start"][0].isoformat() == "2025-06-01T16:20:25.350000"


def test_any_damage_is_counted() -> None:
    """Damaged exports give rows and refusals, nothing else."""
    survives(hyperpod, "\n".join([line(agent()), line(agent("False"))] * 2).encode(), GIVEN)
    survives(
        hyperpod,
        "\n".join(map(json.dumps, [health("Unhealthy"), health("Healthy"), agent()])).encode(),
        GIVEN,
    )


def test_events_of_another_program_are_no_stream() -> None:
    """A stream of CloudWatch has messages; one that matched nothing is empty."""
    with pytest.raises(InputError, match="nothing of HyperPod"):
        hyperpod.read(b'{"component": "gpu", "events": [{"time": "2026-03-01T00:00:00Z"}]}', "f", GIVEN)
    assert hyperpod.read(b'{"events": []}', "f", GIVEN).rows_read == 0
