"""The source `k8s-events`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import k8s_events
from tests.ingest.mutations import survives

T1, T2, T3 = "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"
AS_OF = Options.of(as_of="2026-06-01T00:00Z")


def event(reason: str, first: Any = T1, last: Any = T1, count: Any = 1, **more: Any) -> dict[str, Any]:
    name = more.pop("name", f"{reason}.{first}")
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": T3},
        "involvedObject": {"kind": "Node", "name": "n1"},
        "reason": reason,
        "message": "m",
        "source": {"component": "node-controller"},
        "firstTimestamp": first,
        "lastTimestamp": last,
        "count": count,
        "eventTime": None,
        **more,
    }


def read(*items: Any) -> Parsed:
    return k8s_events.read("\n".join(json.dumps(item) for item in items).encode(), "events.json", AS_OF)


def rows(parsed: Parsed) -> list[tuple[Any, ...]]:
    """Return kind, node, severity, code and start of each event."""
    picked = parsed.events.select("kind", "node", "severity", "code", "t_start")
    return [(*row[:4], f"{row[4]:%H:%M}") for row in picked.rows()]


def test_the_controller_opens_and_the_kubelet_closes() -> None:
    """Only the node's name matches the two."""
    parsed = read(
        event("NodeNotReady"),
        event("NodeReady", T2, T2, source={"component": "kubelet", "host": "n1"}),
        event("NodeNotSchedulable", T2, T2),
        event("NodeSchedulable", T3, T3),
        event("Rebooted", T2, T2),
    )
    assert rows(parsed) == [
        ("onset", "n1", "down", "Ready", "10:00"),
        ("clear", "n1", "down", "Ready", "11:00"),
        ("onset", "n1", "degraded", "unschedulable", "11:00"),
        ("clear", "n1", "degraded", "unschedulable", "12:00"),
        ("interval", "n1", "app", "Rebooted", "11:00"),
    ]


def test_events_of_two_nodes_with_one_name_are_two() -> None:
    """An event without uid is known by namespace and name; the same one again replaces it."""
    one = event("NodeNotReady", name="a")
    two = event("NodeNotReady", name="b", involvedObject={"kind": "Node", "name": "n2"})
    assert [row[1] for row in rows(read(one, two, one))] == ["n1", "n2"]


def test_a_counted_change_of_state_gives_its_first_and_its_last_time() -> None:
    """Both times are real; what happened between them is not known and not made up."""
    parsed = read(event("NodeNotReady", T1, T3, 5), event("NodeReady", T2, T2, 1))
    assert rows(parsed) == [
        ("onset", "n1", "down", "Ready", "10:00"),
        ("onset", "n1", "down", "Ready", "12:00"),
        ("clear", "n1", "down", "Ready", "11:00"),
    ]


def test_an_event_that_is_delivered_again_counts_once() -> None:
    """The highest count stays, whatever the order."""
    pod = {"kind": "Pod", "name": "p"}
    told = [
        event("Unhealthy", T1, last, count, name="x", involvedObject=pod)
        for count, last in ((1, T1), (4, T3))
    ]
    for order in (told, told[::-1], [{"type": "MODIFIED", "object": item} for item in told]):
        parsed = read(*order)
        assert (parsed.rows_read, parsed.events["reason"].to_list()) == (
            1,
            [f"Unhealthy: m (4 times, last {T3})"],
        )


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"eventTime": "2026-03-01T09:00:00.5Z", "firstTimestamp": T1}, "2026-03-01T09:00:00.500000"),
        ({"firstTimestamp": T1, "lastTimestamp": T2}, "2026-03-01T10:00:00"),
        ({"firstTimestamp": None, "lastTimestamp": T2}, "2026-03-01T11:00:00"),
        (
            {"firstTimestamp": None, "lastTimestamp": None, "series": {"lastObservedTime": T2}},
            "2026-03-01T11:00:00",
        ),
        ({"firstTimestamp": "0001-01-01T00:00:00Z", "lastTimestamp": None}, "2026-03-01T12:00:00"),
    ],
)
def test_the_first_time_that_is_there_counts(times: dict[str, Any], expected: str) -> None:
    """Newer objects have eventTime and series, older ones two stamps; creation is the last resort."""
    parsed = read(event("NodeNotReady") | times)
    assert parsed.events["t_start"][0].isoformat() == expected


def test_the_new_api_has_other_names() -> None:
    """events.k8s.io: regarding, note, deprecated stamps."""
    item = {
        "kind": "Event",
        "metadata": {"name": "x"},
        "regarding": {"kind": "Node", "name": "n1"},
        "reason": "NodeNotReady",
        "note": "gone",
        "eventTime": None,
        "deprecatedFirstTimestamp": T1,
        "deprecatedLastTimestamp": T2,
        "deprecatedCount": 2,
    }
    parsed = read(item)
    assert [row[4] for row in rows(parsed)] == ["10:00", "11:00"]
    assert set(parsed.events["reason"]) == {"NodeNotReady: gone"}


def test_routine_words_of_a_kubelet_close_nothing() -> None:
    """NodeHasSufficientMemory is said at every start; a pressure that the file has opened is closed."""
    good = event("NodeHasNoDiskPressure", T2, T2)
    assert rows(read(good)) == [("interval", "n1", "info", "DiskPressure", "11:00")]
    assert rows(read(good, event("NodeHasDiskPressure")))[0] == (
        "clear",
        "n1",
        "degraded",
        "DiskPressure",
        "11:00",
    )


@pytest.mark.parametrize("reason", ["KernelDeadlock", "SysLogsXIDError", "TaskHung", "DeletingNode", ""])
def test_reasons_without_a_rule_are_info(reason: str) -> None:
    """The events of health agents end with nothing; their logs and conditions tell more."""
    (row,) = rows(read(event(reason)))
    assert row[2] == "info"


def test_what_cannot_be_placed_is_refused() -> None:
    """No time, no node, no event."""
    parsed = read(
        event("NodeNotReady", None, None, metadata={"name": "x"}),
        event("NodeNotReady", involvedObject={"kind": "Node"}),
        {"kind": "Pod"},
        event("NodeReady"),
    )
    assert sorted(parsed.rejects["reason"]) == ["no node name", "no time", "not a Kubernetes event"]
    assert parsed.events.height == 1
    with pytest.raises(InputError, match="f: no Kubernetes event"):
        k8s_events.read(b'{"kind": "Pod"}', "f", AS_OF)


def test_forgotten_events_stay_true() -> None:
    """A watch tells when an event is forgotten: no row."""
    item = event("NodeNotReady")
    assert read({"type": "ADDED", "object": item}, {"type": "DELETED", "object": item}).rows_read == 1


def expected(shared_dir: Path, name: str) -> tuple[bytes, dict[str, Any]]:
    (case,) = (shared_dir / "cases").glob(f"{name}-*")
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    return (case / "event.json").read_bytes(), wanted


@pytest.mark.shared
def test_an_event_of_a_pod_with_null_stamps(shared_dir: Path) -> None:
    """Case C03: eventTime is the time; it is of a pod, so no node fails."""
    data, wanted = expected(shared_dir, "C03")
    (row,) = k8s_events.read(data, "f", Options()).events.rows(named=True)
    assert row["t_start"].isoformat() + "Z" == wanted["ts"]
    assert wanted["count"] == 1
    assert (row["severity"], row["node"]) == ("info", None)
    assert wanted["node_failure"] is False
    paths = (
        "eventTime",
        "series.lastObservedTime",
        "lastTimestamp",
        "firstTimestamp",
        "metadata.creationTimestamp",
    )
    assert set(wanted["order_of_fallback"]) == set(paths) <= set(k8s_events._FIRST)


@pytest.mark.shared
def test_four_occurrences_are_one_row_without_a_length(shared_dir: Path) -> None:
    """Case C04: first and count stand, nothing is derived of the time between."""
    data, wanted = expected(shared_dir, "C04")
    (row,) = k8s_events.read(data, "f", Options()).events.rows(named=True)
    first, last = (datetime.fromisoformat(wanted[key]).replace(tzinfo=None) for key in ("first", "last"))
    assert row["t_start"] == first
    assert f"({wanted['occurrences']} times, last {wanted['last']})" in row["reason"]
    assert (last - first).total_seconds() == wanted["span_s"]
    assert (row["kind"], row["severity"], row["t_end"], row["node"]) == (
        "onset",
        "info",
        wanted["outage_s"],
        "node-a",
    )


def test_any_damage_is_counted() -> None:
    """Damaged exports give rows and refusals, nothing else."""
    items = [
        event("NodeNotReady", T1, T3, 3),
        event("NodeReady", T2),
        event("Unhealthy", None, None, eventTime=T1),
    ]
    survives(k8s_events, "\n".join(map(json.dumps, items)).encode(), AS_OF)
