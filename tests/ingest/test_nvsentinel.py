"""The source `nvsentinel`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import nvsentinel
from tests.ingest.mutations import survives

AS_OF = Options.of(as_of="2026-08-01T00:00Z")
GPU3 = [("GPU", "3"), ("PCI", "0000:4e:00.0"), ("GPU_UUID", "GPU-00000000-0000-0000-0000-000000000003")]


def event(*entities: tuple[str, str], at: str = "10:00", **more: Any) -> dict[str, Any]:
    named = [{"entityType": kind, "entityValue": value} for kind, value in entities]
    return {
        "version": 1,
        "checkName": "SysLogsXIDError",
        "componentClass": "GPU",
        "message": "m",
        "entitiesImpacted": named,
        "generatedTimestamp": f"2026-03-01T{at}:00.5Z",
        "nodeName": "n1",
        **more,
    }


def read(*items: Any, options: Options = AS_OF) -> Parsed:
    return nvsentinel.read("\n".join(json.dumps(item) for item in items).encode(), "f", options)


def test_fatal_is_down_and_a_healthy_event_clears() -> None:
    """Onset and clear have the check as code; a GPU that is named three times is one."""
    parsed = read(event(*GPU3, isFatal=True, errorCode=["79"]), event(*GPU3, at="11:00", isHealthy=True))
    picked = parsed.events.select("kind", "code", "gpu", "gpu_name", "scope").rows()
    assert picked == [(kind, "SysLogsXIDError", 3, "00000000:4e:00", "gpu") for kind in ("onset", "clear")]
    assert parsed.events["severity"][0] == "down"
    assert parsed.events["reason"][0] == "error 79; m"


@pytest.mark.parametrize(
    ("fields", "severity", "component"),
    [
        ({"errorCode": ["13"]}, "app", "software"),
        ({"errorCode": ["119"], "recommendedAction": "COMPONENT_RESET"}, "degraded", "gpu"),
        ({"recommendedAction": "CONTACT_SUPPORT"}, "degraded", "gpu"),
        ({"recommendedAction": 2}, "degraded", "gpu"),
        ({}, "info", "gpu"),
        ({"recommendedAction": "NONE"}, "info", "gpu"),
        ({"isFatal": True, "checkName": "GpuNvlinkWatch"}, "down", "nvlink"),
        ({"isFatal": True, "checkName": "SysLogsSXIDError", "errorCode": ["20034"]}, "down", "nvlink"),
        ({"isFatal": True, "checkName": "CSPMaintenance"}, "down", "planned"),
    ],
)
def test_severity_and_component(fields: dict[str, Any], severity: str, component: str) -> None:
    """The agent's word on fatal counts; below it an Xid is looked up, and never down against that word."""
    parsed = read(event(("GPU", "0"), **fields))
    assert parsed.events.select("severity", "component").rows() == [(severity, component)]
    assert (parsed.events["kind"][0] == "onset") is (severity in {"down", "degraded"})


def test_faults_of_another_weight_are_other_faults() -> None:
    """A fatal event after a lesser one is no repeat of it, and a healthy event closes both."""
    gpu = ("GPU", "0")
    parsed = read(
        event(gpu, recommendedAction="CONTACT_SUPPORT"),
        event(gpu, isFatal=True),
        event(gpu, errorCode=["13"]),
        event(gpu, ("PCI", "0000:1b:00"), isHealthy=True),
    )
    assert parsed.events.select("kind", "code").rows() == [
        ("onset", "SysLogsXIDError degraded"),
        ("onset", "SysLogsXIDError"),
        ("interval", "SysLogsXIDError app"),
        ("clear", "SysLogsXIDError degraded"),
        ("clear", "SysLogsXIDError"),
    ]
    assert (
        parsed.events["t_end"].drop_nulls().to_list()
        == parsed.events.filter(kind="interval")["t_start"].to_list()
    )


def test_each_gpu_of_an_event_is_a_row() -> None:
    """Indices and addresses in turn; names that cannot be matched to indices are left out."""
    both = [("GPU", "0"), ("PCI", "0000:1b:00"), ("GPU", "1"), ("PCI", "0000:29:00")]
    assert read(event(*both)).events.select("gpu", "gpu_name").rows() == [
        (0, "00000000:1b:00"),
        (1, "00000000:29:00"),
    ]
    odd = [("GPU", "0"), ("GPU", "1"), ("PCI", "0000:1b:00")]
    assert read(event(*odd)).events.select("gpu", "gpu_name").rows() == [(0, None), (1, None)]
    assert read(event(("NVSWITCH", "2"))).events.select("gpu", "scope").rows() == [(None, "node")]


def test_a_healthy_event_without_entities_closes_the_check_on_the_node() -> None:
    """One clear for each GPU that the file has opened and not closed; other checks and nodes stay."""
    parsed = read(
        event(("GPU", "0"), isFatal=True),
        event(("GPU", "1"), isFatal=True),
        event(("GPU", "1"), isHealthy=True),
        event(("GPU", "2"), isFatal=True, checkName="GpuMemWatch"),
        event(("GPU", "3"), isFatal=True, nodeName="n2"),
        event(isHealthy=True, at="11:00"),
        event(isHealthy=True, at="12:00"),
    )
    clears = parsed.events.filter(kind="clear").select("node", "code", "gpu", "scope").rows()
    assert clears == [
        ("n1", "SysLogsXIDError", 1, "gpu"),
        ("n1", "SysLogsXIDError", 0, "gpu"),
        ("n1", "SysLogsXIDError", None, "node"),
    ]


def test_every_wrapping_says_the_same() -> None:
    """Protobuf lists, log lines, MongoDB's lower-case fields and snake case."""
    one = event(*GPU3, isFatal=True)
    lower = {key.lower(): value for key, value in one.items()}
    lower["entitiesimpacted"] = [
        {key.lower(): value for key, value in item.items()} for item in one["entitiesImpacted"]
    ]
    lower["generatedtimestamp"] = {"seconds": {"$numberLong": "1772359200"}, "nanos": 500000000}
    snake = {"check_name" if key == "checkName" else key: value for key, value in one.items()}
    wanted = read(one).events
    for item in (
        {"version": 1, "events": [one]},
        {"time": "x", "level": "INFO", "msg": "y", "events": {"version": 1, "events": [one]}},
        [one],
        {"_id": {"$oid": "65"}, "createdAt": {"$date": "x"}, "healthevent": lower},
        snake,
    ):
        assert read(item).events.equals(wanted)


def test_log_lines_without_events_are_no_rows() -> None:
    """They claim nothing."""
    line = {"time": "x", "level": "INFO", "msg": "started"}
    assert read(line, event()).rows_read == 1
    with pytest.raises(InputError, match="f: no health event"):
        read(line)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"checkName": ""}, "no check name"),
        ({"nodeName": ""}, "no node name"),
        ({"generatedTimestamp": None}, "no time"),
        ({"generatedTimestamp": {"seconds": 5}}, "before 2000-01-01"),
        ({"isFatal": "yes"}, "isfatal is not true or false"),
    ],
)
def test_rows_are_refused_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    """Nothing is filled in."""
    parsed = read(event(**fields), event())
    assert (parsed.rejects["reason"].to_list(), parsed.events.height) == ([reason], 1)


def test_an_own_table_of_xids_takes_effect() -> None:
    """--xid-table holds for health events too."""
    table = "code,severity,scope,component\n13,degraded,gpu,hbm\n"
    parsed = read(event(("GPU", "0"), errorCode=["13"]), options=Options(xid_table=table))
    assert parsed.events.select("severity", "component").rows() == [("degraded", "hbm")]


@pytest.mark.shared
def test_the_public_recovery_event(shared_dir: Path) -> None:
    """Case C11: a clear of one check on one GPU, its nanoseconds cut off."""
    case = shared_dir / "cases" / "C11-recovery-event"
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    parsed = nvsentinel.read((case / "log.jsonl").read_bytes(), "log.jsonl", Options())
    (row,) = parsed.events.rows(named=True)
    assert (row["kind"], wanted["kind"]) == ("clear", "recovery")
    assert (row["scope"], row["code"]) == (wanted["scope"], wanted["check"])
    assert row["gpu_name"] == f"0000{wanted['pci']}"
    assert row["t_start"].isoformat() + "Z" == wanted["ts"]
    assert parsed.events.filter(kind="onset").height == wanted["failures"]


@pytest.mark.shared
def test_overlapping_faults_of_one_node(shared_dir: Path) -> None:
    """Case C12: each clear closes its own check on its own GPU; the node is down for the union.

    The case's own field names are put into the tool's; the union over GPUs, SQL's business, is done by hand.
    """
    case = shared_dir / "cases" / "C12-overlapping-faults-one-node"
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    lines = [json.loads(line) for line in (case / "events.jsonl").read_text().splitlines()]
    items = [
        event(
            ("PCI", line["gpu"]),
            checkName=line["check"],
            nodeName=line["node"],
            generatedTimestamp=line["t"],
            isFatal=line["isFatal"],
            isHealthy=line["isHealthy"],
        )
        for line in lines
    ]
    is_open: dict[Any, datetime] = {}
    faults: list[tuple[str, datetime, datetime]] = []
    for row in read(*items).events.rows(named=True):
        key = (row["code"], row["gpu_name"])
        if row["kind"] == "onset":
            assert row["severity"] == "down"
            is_open[key] = row["t_start"]
        else:
            faults.append((row["gpu_name"], is_open.pop(key), row["t_start"]))
    assert not is_open
    lengths = {name: (end - start).total_seconds() for name, start, end in faults}
    assert sum(lengths.values()) == wanted["sum_of_faults_s"] == wanted["gpu_seconds_lost_if_gpu_scoped"]
    assert lengths["00000000:02:00"] == wanted["gpu_0000:02:00_down_s"]
    start, end = min(fault[1] for fault in faults), max(fault[2] for fault in faults)
    assert [[f"{time.isoformat()}Z" for time in (start, end)]] == wanted["node_down"]
    assert (end - start).total_seconds() == wanted["node_down_s"]
    assert wanted["node_down_s"] * 8 == wanted["gpu_seconds_lost_if_node_scoped_8_gpus"]


@pytest.mark.shared
def test_counts_without_times_are_refused(shared_data: Path) -> None:
    """The public table of Xid 45 per node: 17 rows, none of which can be dated."""
    path = shared_data / "nvsentinel" / "xid45_per_node_storm.csv"
    parsed = nvsentinel.read(path.read_bytes(), path.name, Options())
    assert (parsed.rows_read, parsed.rejects.height) == (17, 17)
    assert set(parsed.rejects["reason"]) == {"a count without a time"}


def test_any_damage_is_counted() -> None:
    """Damaged exports give rows and refusals, nothing else."""
    survives(nvsentinel, (resources.folder("samples") / "nvsentinel.jsonl").read_bytes(), AS_OF)
