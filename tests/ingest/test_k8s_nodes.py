"""The source `k8s-nodes`, and what conditions mean."""

from __future__ import annotations

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.ingest import conditions
from pipeline.ingest.parsing import NO_ZONE, Options, Parsed
from pipeline.ingest.sources import k8s_nodes
from tests.ingest.mutations import survives

T1, T2, T3 = "2026-03-01T10:00:00Z", "2026-03-01T11:00:00Z", "2026-03-01T12:00:00Z"
AS_OF = Options.of(as_of="2026-06-01T00:00Z")
NOT_SAID = Options()


def condition(name: str, status: str, since: Any = T1, beat: Any = T3, message: str = "m") -> dict[str, Any]:
    return {
        "type": name,
        "status": status,
        "lastHeartbeatTime": beat,
        "lastTransitionTime": since,
        "reason": "r",
        "message": message,
    }


def node(*found: dict[str, Any], name: str = "n1", spec: Any = None, **metadata: Any) -> dict[str, Any]:
    about = {"name": name, "creationTimestamp": "2026-01-01T00:00:00Z", **metadata}
    return {"kind": "Node", "metadata": about, "spec": spec or {}, "status": {"conditions": list(found)}}


def read(*items: Any, options: Options = AS_OF) -> Parsed:
    return k8s_nodes.read("\n".join(json.dumps(item) for item in items).encode(), "nodes.json", options)


def rows(parsed: Parsed) -> list[tuple[Any, ...]]:
    """Return kind, node, severity, component, code and start of each event."""
    picked = parsed.events.select("kind", "node", "severity", "component", "code", "t_start")
    return [(*row[:5], f"{row[5]:%H:%M}") for row in picked.rows()]


def test_ready_takes_a_node_down() -> None:
    """Unknown is lost contact, False is the kubelet's own word; both are down, under one code."""
    parsed = read(
        {"items": [node(condition("Ready", "Unknown")), node(condition("Ready", "False"), name="n2")]}
    )
    assert rows(parsed) == [
        ("onset", "n1", "down", "unknown", "Ready", "10:00"),
        ("onset", "n2", "down", "software", "Ready", "10:00"),
    ]
    assert parsed.events["reason"].to_list() == [f"r: m (last heartbeat {T3})", "r: m"]
    assert set(parsed.events["scope"]) == {"node"}


def test_snapshots_in_one_stream_give_onset_and_clear() -> None:
    """A state that is shown again is no further row."""
    bad, good = node(condition("Ready", "False")), node(condition("Ready", "True", T2))
    for stream in ([bad, bad, good, good], [{"kind": "List", "items": [item]} for item in (bad, bad, good)]):
        assert rows(read(*stream)) == [
            ("onset", "n1", "down", "software", "Ready", "10:00"),
            ("clear", "n1", "down", "unknown", "Ready", "11:00"),
        ]
    watch = [{"type": kind, "object": item} for kind, item in (("ADDED", bad), ("MODIFIED", good))]
    assert rows(read(*watch, {"type": "BOOKMARK", "object": {"kind": "Node"}})) == rows(read(bad, good))


def known(*items: Any, options: Options = NOT_SAID) -> list[tuple[str, str, str]]:
    """Return kind, node and up to when each row is known."""
    found = read(*items, options=options).events.select("kind", "node", "as_of").rows()
    return [(kind, name, f"{at:%H:%M}" if at else "") for kind, name, at in found]


def listed(beat: str, *others: dict[str, Any]) -> dict[str, Any]:
    """Return a List in which one node is healthy, with its last heartbeat."""
    live = node(condition("Ready", "True", "2026-01-01T00:00:00Z", beat), name="live")
    return {"kind": "List", "items": [live, *others]}


LOST = node(condition("Ready", "Unknown", T1, "2026-03-01T09:59:00Z"))


def test_an_open_fault_is_known_to_the_newest_heartbeat_of_the_last_list_that_shows_it() -> None:
    """Of a live kubelet: a lost node tells no time. What a later List shows again is no row but moves it."""
    first, second = listed("2026-03-01T10:03:00Z", LOST), listed(T2, LOST)
    assert known(first) == [("onset", "n1", "10:03")]
    assert known(first, second) == [("onset", "n1", "11:00")]
    back = listed(T3, node(condition("Ready", "True", "2026-03-01T11:30:00Z", T3)))
    assert known(first, second, back) == [("onset", "n1", "11:00"), ("clear", "n1", "12:00")]
    assert known(listed("2026-03-01T09:00:00Z", LOST)) == [("onset", "n1", "10:00")], "not before it began"
    assert known(first, second, options=AS_OF) == [("onset", "n1", "")], "what is said counts for the last"
    assert known(first, back, options=AS_OF) == [("onset", "n1", "10:03"), ("clear", "n1", "")]


def test_where_no_kubelet_lives_nothing_tells_when_it_was() -> None:
    """A lone lost node, or a heartbeat that cannot be."""
    assert known({"items": [LOST]}) == known(LOST) == [("onset", "n1", "")]
    assert (
        known({"items": [LOST, node(condition("Ready", "True", None, "2199-01-01T00:00:00Z"))]})[0][2] == ""
    )


def test_a_watch_is_known_to_its_newest_heartbeat() -> None:
    """It tells every change: a fault that it says nothing more of is open as long as it ran."""
    live = [listed(beat)["items"][0] for beat in (T1, T2, T3)]
    events = [{"type": "MODIFIED", "object": item} for item in (live[0], LOST, live[1], live[2])]
    assert known(*events) == known(live[0], LOST, *live[1:]) == [("onset", "n1", "12:00")]


def test_a_cordon_is_known_as_long_as_it_is_shown() -> None:
    """Up to the last snapshot that shows it."""
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": T1}
    cordoned = node(spec={"unschedulable": True, "taints": [taint]})
    assert known(listed(T1, cordoned), listed(T2, cordoned), listed(T3)) == [("onset", "n1", "11:00")]


def test_two_files_pair_as_one_stream_does() -> None:
    """The clear of a later file has the code of the onset, and a file taken twice says the same."""
    (onset,), (clear,) = (
        rows(read(node(condition("Ready", *state)))) for state in (("False",), ("True", T2))
    )
    assert (onset[0], clear[0], onset[4]) == ("onset", "clear", clear[4])
    late = read(node(condition("Ready", "True", T2, beat="2026-03-09T00:00:00Z")))
    assert late.events.equals(read(node(condition("Ready", "True", T2))).events)


def test_other_conditions_are_never_down() -> None:
    """Pressure is degraded; unknown is info, for Ready tells of lost contact; new names are info."""
    parsed = read(
        node(
            condition("Ready", "True"),
            condition("DiskPressure", "True"),
            condition("OutOfDisk", "Unknown"),
            condition("SomethingNew", "True"),
            condition("SomethingElse", "False"),
            condition("KernelReady", "False"),
            condition("NetworkUnavailable", "False", "2026-01-01T00:00:00Z"),
        )
    )
    assert [row[2:5] for row in rows(parsed)] == [
        ("down", "unknown", "Ready"),
        ("degraded", "storage", "DiskPressure"),
        ("info", "storage", "OutOfDisk"),
        ("info", "unknown", "SomethingNew"),
        ("degraded", "software", "KernelReady"),
    ]
    assert parsed.events["kind"].to_list() == ["clear", "onset", "interval", "onset", "onset"]


def test_unknown_neither_opens_nor_closes() -> None:
    """A fault that stands when contact is lost is closed by the next False, one that is new opens by True."""
    states = [("SysLogsXIDError", *state) for state in (("True", T1), ("Unknown", T2), ("False", T3))]
    kinds = read(*(node(condition(*state)) for state in states)).events["kind"].to_list()
    assert kinds == ["onset", "interval", "clear"]
    states = [("SysLogsXIDError", *state) for state in (("Unknown", T1), ("True", T2))]
    parsed = read(*(node(condition(*state)) for state in states))
    assert parsed.events.select("kind", "severity").rows() == [("interval", "info"), ("onset", "down")]


def test_a_cordon_is_a_planned_drain() -> None:
    """It starts where its taint was added and ends by the heartbeat that shows the node without it."""
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": T2}
    ready = condition("Ready", "True", "2026-01-01T00:00:00Z")
    parsed = read(node(ready, spec={"unschedulable": True, "taints": [taint]}), node(ready))
    assert rows(parsed) == [
        ("onset", "n1", "degraded", "planned", "unschedulable", "11:00"),
        ("clear", "n1", "degraded", "planned", "unschedulable", "12:00"),
    ]


def test_a_cordon_without_a_time_is_refused_once() -> None:
    """What was never opened is not closed either."""
    ready = condition("Ready", "True", "2026-01-01T00:00:00Z")
    parsed = read(*[node(ready, spec={"unschedulable": True})] * 2, node(ready))
    assert (parsed.events.height, parsed.rows_read) == (0, 1)
    assert "no timeAdded" in parsed.rejects["reason"][0]


def test_taints_that_say_no_fault_are_no_rows() -> None:
    """Dedicated nodes carry taints for ever."""
    spec = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
    assert read(node(condition("Ready", "True", "2026-01-01T00:00:00Z"), spec=spec)).rows_read == 0


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (condition("Ready", "False", None), "no time"),
        (condition("Ready", "False", "0001-01-01T00:00:00Z"), "no time"),
        (condition("Ready", "False", "2026-03-01T10:00:00"), NO_ZONE),
        (condition("Ready", "False", "2027-03-01T10:00:00Z"), "after --as-of, when the log was taken"),
        ({"type": "Ready"}, "a condition without type or status"),
        (5, "a condition without type or status"),
    ],
)
def test_rows_are_refused_with_the_reason(item: Any, reason: str) -> None:
    """No condition is dated by anything but its own transition."""
    parsed = read(node(item), node(condition("Ready", "False"), name="n2"))
    assert parsed.rejects["reason"].to_list() == [reason]
    assert parsed.events["node"].to_list() == ["n2"]


def test_a_zero_heartbeat_is_never() -> None:
    """It is no lower bound."""
    parsed = read(node(condition("Ready", "Unknown", beat="0001-01-01T00:00:00Z")))
    assert parsed.events["reason"].to_list() == ["r: m"]


def test_a_deleted_node_is_told_with_its_time_or_refused() -> None:
    """It is info: whether capacity is gone or comes back under another name, the log does not tell."""
    gone = node(condition("Ready", "False"), deletionTimestamp=T2)
    assert rows(read({"type": "DELETED", "object": gone})) == [
        ("onset", "n1", "info", "capacity", "deleted", "11:00")
    ]
    parsed = read({"type": "DELETED", "object": node()})
    assert parsed.rejects["reason"].to_list() == ["no time"]


def test_other_objects_and_broken_ones_are_refused() -> None:
    """One broken object costs one row."""
    data = (
        '{"kind": "Pod", "metadata": {}}\n{"type": "ERROR", "object": {"kind": "Status"}}\n{"kind": \n'
        + json.dumps(node(condition("Ready", "False")))
    )
    parsed = k8s_nodes.read(data.encode(), "f", AS_OF)
    assert (parsed.rows_read, parsed.events.height) == (4, 1)
    with pytest.raises(InputError, match="f: no Kubernetes node"):
        k8s_nodes.read(b'{"kind": "Pod", "metadata": {}}', "f", AS_OF)


def test_conditions_alone_need_the_name_of_their_node() -> None:
    """One input error names the option."""
    with pytest.raises(InputError, match=r"nodes.json: the log names no node(.|\n)*--node"):
        read([condition("Ready", "False")])
    parsed = read([condition("Ready", "False")], options=Options.of(node="@file"))
    assert parsed.events["node"].to_list() == ["nodes"]


def test_the_zone_of_gos_print_is_its_offset() -> None:
    """IST has three meanings."""
    line = "{{Type:Ready Status:Unknown LastHeartbeatTime:{0} LastTransitionTime:{0} Reason:r Message:m}}"
    text = "\n".join(line.format(f"2026-03-01 10:00:00 {zone}") for zone in ("+0530 IST", "+0000 UTC", "IST"))
    parsed = k8s_nodes.read(text.encode(), "f", Options.of(node="n"))
    assert [f"{start:%H:%M}" for start in parsed.events["t_start"]] == ["04:30", "10:00"]
    assert parsed.rejects.height == 1


@pytest.mark.shared
def test_a_lost_node_is_one_outage(shared_dir: Path) -> None:
    """Case C01: four conditions turn Unknown at once; the start lies between heartbeat and transition."""
    case = shared_dir / "cases" / "C01-node-unknown-interval"
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    parsed = k8s_nodes.read((case / "conditions.json").read_bytes(), "n1.json", Options.of(node="@file"))
    down = [
        row for row in parsed.events.rows(named=True) if (row["severity"], row["kind"]) == ("down", "onset")
    ]
    assert len(down) == wanted["outages"]
    start = down[0]["t_start"]
    assert f"{start:%Y-%m-%dT%H:%M:%SZ}" == wanted["default_start"] == wanted["down_since_upper"]
    beat = re.search(r"last heartbeat (\S+)\)", down[0]["reason"])
    assert beat and beat[1] == wanted["down_since_lower"]
    lower = datetime.fromisoformat(beat[1]).replace(tzinfo=None)
    assert (start - lower).total_seconds() == wanted["start_uncertainty_s"]
    assert parsed.rejects.height == 0


@pytest.mark.shared
def test_a_packed_message_is_one_outage(shared_dir: Path) -> None:
    """Case C14: two errors of one GPU in one condition, at the instant that the offset says."""
    case = shared_dir / "cases" / "C14-condition-message-packed"
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    data = (case / "condition.txt").read_bytes()
    parsed = k8s_nodes.read(data, "f", Options.of(node="node-a"))
    (row,) = parsed.events.rows(named=True)
    assert (row["kind"], row["severity"], row["component"]) == ("onset", "down", "gpu")
    assert wanted["outages"] == 1
    assert f"{row['t_start']:%Y-%m-%dT%H:%M:%SZ}" == wanted["ts_utc"]
    errors = conditions.packed(data.decode())
    assert [{"xid": int(error.code), "action": error.action} for error in errors] == wanted["errors"]
    assert len({error.gpu_name for error in errors}) == wanted["gpus"]
    assert wanted["worst_action"] in {error.action for error in errors}


@pytest.mark.shared
def test_the_public_excerpt_is_read(shared_data: Path) -> None:
    """Three conditions of a lost node, without the one that tells that it is down."""
    path = shared_data / "k8s" / "node_conditions_notready.json"
    parsed = k8s_nodes.read(path.read_bytes(), path.name, Options.of(node="n"))
    assert parsed.events.select("kind", "severity").rows() == [
        ("clear", "degraded"),
        ("interval", "info"),
        ("interval", "info"),
    ]


@pytest.mark.parametrize(
    ("name", "severity", "component"),
    [
        ("SysLogsXIDError", "down", "gpu"),
        ("SysLogsSXIDError", "down", "nvlink"),
        ("GpuNvlinkWatch", "down", "nvlink"),
        ("GpuThermalWatch", "down", "cooling"),
        ("GpuMemWatch", "down", "hbm"),
        ("CSPMaintenance", "down", "planned"),
        ("KernelDeadlock", "degraded", "software"),
    ],
)
def test_what_conditions_mean(name: str, severity: str, component: str) -> None:
    """A check of NVSentinel stands on a node when it is fatal."""
    found = conditions.meaning(name)
    assert found and found[:2] == (severity, component)
    assert conditions.meaning("Gpu") is None


def test_sticky_conditions_are_known() -> None:
    """What node-problem-detector reads off a log is in the table."""
    assert all(conditions.meaning(name) for name in conditions.STICKY)


def test_any_damage_is_counted() -> None:
    """Damaged streams give rows and refusals, nothing else."""
    taint = {"key": "node.kubernetes.io/unschedulable", "timeAdded": T2}
    items = [
        node(condition("Ready", "False"), condition("MemoryPressure", "Unknown")),
        node(condition("Ready", "True", T2), spec={"unschedulable": True, "taints": [taint]}, name="n2"),
        {"type": "MODIFIED", "object": node(condition("Ready", "True", T2))},
    ]
    survives(k8s_nodes, "\n".join(map(json.dumps, items)).encode(), AS_OF)
