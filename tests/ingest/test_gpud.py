"""The source `gpud`."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest import documents
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import gpud
from pipeline.units import US_PER_S
from tests.ingest.mutations import survives

GIVEN = Options.of(node="n1", as_of="2026-06-01T00:00Z")
XID = "accelerator-nvidia-error-xid"
T = "2026-03-01T10:00:00Z"


def event(name: str = "error_xid", message: str = "m", **more: Any) -> dict[str, Any]:
    return {"time": T, "name": name, "message": message, **more}


def read(*events: Any, component: str = XID, options: Options = GIVEN) -> Parsed:
    return gpud.read(json.dumps([{"component": component, "events": list(events)}]).encode(), "f", options)


def picked(parsed: Parsed, *names: str) -> list[tuple[Any, ...]]:
    return parsed.events.select(names).rows()


@pytest.mark.parametrize(
    "extra",
    [
        {"extra_info": {"data": json.dumps({"xid": 79, "device_uuid": "PCI:0000:4e:00"})}},
        {"extra_info": {"xid": "79", "device_uuid": "PCI:0000:4E:00"}},
        {
            "extra_info": {"device_uuid": "PCI:0000:4e:00"},
            "message": "XID 79 (GPU lost) detected on PCI:0000:4e:00",
        },
        {"message": "xid 79 detected on PCI:0000:4e:00", "extra_info": None},
    ],
)
def test_an_xid_is_found_in_every_version(extra: dict[str, Any]) -> None:
    """In a JSON text within JSON, in plain fields, or in the message alone."""
    parsed = read(event() | extra)
    assert picked(parsed, "node", "code", "gpu_name", "severity") == [
        ("n1", "xid 79", "00000000:4e:00", "down")
    ]
    assert set(parsed.events["kind"]) == {"onset"}


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("", (None, "node")),
        ("GPU-0000-1", ("GPU-0000-1", "gpu")),
        ("0000:4e:00.0", ("00000000:4e:00", "gpu")),
    ],
)
def test_the_device_may_be_empty_a_uuid_or_an_address(device: str, expected: tuple[Any, str]) -> None:
    """An Xid of an unknown GPU takes the node."""
    parsed = read(event(extra_info={"xid": 119, "device_uuid": device}))
    assert picked(parsed, "gpu_name", "scope") == [expected]


@pytest.mark.parametrize(
    ("component", "name", "kind", "expected"),
    [
        ("accelerator-nvidia-fabric-manager", "fabricmanager_nvswitch_fatal_error", "", ("down", "nvlink")),
        (
            "accelerator-nvidia-fabric-manager",
            "fabricmanager_nvswitch_non_fatal_error",
            "Warning",
            ("degraded", "nvlink"),
        ),
        ("accelerator-nvidia-error-sxid", "error_sxid", "Fatal", ("down", "nvlink")),
        ("accelerator-nvidia-infiniband", "ib_port_drop", "Warning", ("degraded", "nic")),
        ("accelerator-nvidia-ecc", "ecc", "Critical", ("degraded", "hbm")),
        ("accelerator-nvidia-temperature", "hot", "Info", ("info", "cooling")),
        ("disk", "full", "Warning", ("degraded", "storage")),
        ("memory", "oom", "Warning", ("degraded", "host")),
        (XID, "SetHealthy", "Info", ("info", "gpu")),
    ],
)
def test_other_events_have_the_severity_of_their_type(
    component: str, name: str, kind: str, expected: tuple[str, str]
) -> None:
    """The component says which part; a name without a type says fatal itself."""
    parsed = read(event(name, **({"type": kind} if kind else {})), component=component)
    assert picked(parsed, "severity", "component") == [expected]
    assert picked(parsed, "code") == [(name,)]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (event(extra_info={"xid": 0}), "Xid 0 is no Xid"),
        (event(), "an Xid without a code"),
        (event(extra_info={"data": "{"}), "extra_info.data is not valid JSON"),
        (event(extra_info={"xid": 79}, time=None), "no time"),
        (event(extra_info={"xid": 79}, time="47 minutes ago"), "not an ISO 8601 time with date and clock"),
        (5, "not an event of gpud"),
    ],
)
def test_rows_are_refused_with_the_reason(item: Any, reason: str) -> None:
    """Nothing is filled in."""
    parsed = read(item, event(extra_info={"xid": 79}))
    assert (parsed.rejects["reason"].to_list(), parsed.events.height) == ([reason], 1)


def test_the_node_is_given_and_an_empty_log_is_no_mistake() -> None:
    """One input error names the option; components without events hold no row."""
    with pytest.raises(InputError, match=r"f: the log names no node(.|\n)*--node"):
        read(event(), options=Options())
    assert read().rows_read == 0
    with pytest.raises(InputError, match="f: no event of gpud"):
        gpud.read(b'{"a": 1}', "f", GIVEN)


@pytest.mark.shared
def test_json_within_json(shared_dir: Path) -> None:
    """Case C13: the absolute time wins over the age in the message; an empty device is an unknown GPU.

    The window that was asked for is no event; it is read here by the tool that reads every time.
    """
    case = shared_dir / "cases" / "C13-gpud-nested-json"
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    data = (case / "event.json").read_bytes()
    (row,) = gpud.read(data, "f", Options(node="n")).events.rows(named=True)
    assert row["t_start"].isoformat() + "Z" == wanted["ts"]
    assert (row["code"], row["gpu_name"], row["scope"]) == (f"xid {wanted['xid']}", wanted["gpu"], "node")
    window = [documents.instant_us(json.loads(data)[key], Options()) for key in ("startTime", "endTime")]
    told = [documents.instant_us(text, Options()) for text in wanted["observation_window"]]
    assert window == told
    assert (window[1] - window[0]) / US_PER_S == wanted["window_s"]
    asked = datetime.fromisoformat(wanted["observation_window"][1]).replace(tzinfo=None)
    assert int((asked - row["t_start"]).total_seconds()) == wanted["age_check_s"]


@pytest.mark.shared
def test_the_public_excerpts_are_read(shared_data: Path) -> None:
    """An old event, a log line with Xid 0, an event of the fabric manager."""
    path = shared_data / "gpud" / "events.json"
    parsed = gpud.read(path.read_bytes(), path.name, Options(node="n"))
    assert picked(parsed, "code", "severity", "component") == [
        ("xid 119", "down", "gpu"),
        ("fabricmanager_nvswitch_non_fatal_error", "degraded", "nvlink"),
    ]
    assert parsed.rejects["reason"].to_list() == ["Xid 0 is no Xid"]


def test_any_damage_is_counted() -> None:
    """Damaged exports give rows and refusals, nothing else."""
    components = json.loads((resources.folder("samples") / "gpud.json").read_text())
    survives(gpud, "\n".join(map(json.dumps, components * 2)).encode(), GIVEN)
