"""The source `npd`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import npd
from tests.ingest.mutations import survives

GIVEN = Options.of(node="n1", as_of="2026-06-01T00:00Z")
KLOG = "I0301 10:00:00.863102       1 custom_plugin_monitor.go:283] New status generated: &"
T1, T2 = (f"2026-03-01 {hour}:00:00.123456789 +0000 UTC m=+155.02" for hour in (10, 11))
EVENT = f"{{Severity:warn Timestamp:{T1} Reason:TaskHung Message:task x blocked}}"


def condition(name: str = "GPUProblem", status: str = "True", since: str = T1) -> str:
    return f"{{Type:{name} Status:{status} Transition:{since} Reason:r Message:m {{x}} [y]}}"


def line(events: str = "", conditions: str = "") -> str:
    return f"{KLOG}{{Source:kernel-monitor Events:[{events}] Conditions:[{conditions}]}}\n"


def read(*texts: str, options: Options = GIVEN) -> Parsed:
    return npd.read("".join(texts).encode(), "n7.log", options)


def rows(parsed: Parsed) -> list[tuple[Any, ...]]:
    """Return severity, component, code and start of each event."""
    picked = parsed.events.select("severity", "component", "code", "t_start")
    return [(*row[:3], f"{row[3]:%H:%M}") for row in picked.rows()]


def test_events_are_info_and_conditions_degraded() -> None:
    """A healthy condition beside them is no row."""
    parsed = read(line(EVENT, f"{condition('KernelDeadlock', 'False')} {condition('ReadonlyFilesystem')}"))
    assert rows(parsed) == [
        ("info", "software", "TaskHung", "10:00"),
        ("degraded", "storage", "ReadonlyFilesystem", "10:00"),
    ]
    assert parsed.events["reason"].to_list() == ["TaskHung: task x blocked", "r: m {x} [y]"]
    assert set(parsed.events["kind"]) == {"onset"}


def test_a_condition_is_told_once_for_each_transition() -> None:
    """Every line repeats all conditions; False clears nothing, for it is a restart of the daemon."""
    false = line("", condition(status="False", since=T2))
    parsed = read(line("", condition()), line("", condition()), false, line("", condition(since=T2)))
    assert [row[3] for row in rows(parsed)] == ["10:00", "11:00"]


def test_the_event_of_a_change_is_not_a_second_fault() -> None:
    """It tells the condition that stands beside it."""
    told = EVENT.replace("task x blocked", "Node condition GPUProblem is now: True, reason: r")
    assert [row[2] for row in rows(read(line(told, condition())))] == ["GPUProblem"]


def test_a_check_that_failed_is_info_and_own_names_are_degraded() -> None:
    """Unknown is the check's word on itself."""
    parsed = read(line("", f"{condition(status='Unknown')} {condition('OurNvLinkProblem')}"))
    assert rows(parsed) == [
        ("info", "gpu", "GPUProblem", "10:00"),
        ("degraded", "nvlink", "OurNvLinkProblem", "10:00"),
    ]
    assert parsed.events["kind"].to_list() == ["interval", "onset"], "the first swallows no onset"
    assert parsed.events["t_end"].to_list() == [parsed.events["t_start"][0], None]


def test_hyperpods_conditions_take_the_node() -> None:
    """A reboot or a replacement follows."""
    assert rows(read(line("", condition("NvidiaErrorTerminate"))))[0][:2] == ("down", "gpu")


def test_messages_of_several_lines_and_prefixes() -> None:
    """A message goes on until its end or the next line of the log; what stands before a line is no matter."""
    text = line("", condition()).replace("m {x} [y]", "first\nsecond")
    other = "E0301 10:00:00.863102       1 plugin.go:185] Error in running plugin\n"
    for prefix in ("", "[pod/npd-x/npd] ", "Mar 01 10:00:00 n1 npd[4208]: ", "2026-03-01T10:00:00.0Z "):
        parsed = read(*(f"{prefix}{part}" for part in (text, other, line(EVENT))))
        assert parsed.events["reason"].to_list() == ["r: first\nsecond", "TaskHung: task x blocked"]


def test_a_line_that_is_cut_off_is_one_reject() -> None:
    """What follows is read."""
    parsed = read(line(EVENT, condition())[:190] + "\n", line(EVENT))
    assert (parsed.rejects["reason"].to_list(), parsed.events.height) == (["a status that is cut off"], 1)


@pytest.mark.parametrize("time", ["2026-13-01 10:00:00 +0000 UTC", "0001-01-01 00:00:00 +0000 UTC"])
def test_times_are_checked(time: str) -> None:
    """No event is dated otherwise than by its own time."""
    parsed = read(line(EVENT.replace(T1, time)))
    assert (parsed.rows_read, parsed.rejects.height) == (1, 1)


def test_the_node_is_given() -> None:
    """The log names none: an input error, or the file's own name."""
    with pytest.raises(InputError, match=r"n7.log: the log names no node(.|\n)*--node @file"):
        read(line(EVENT), options=Options())
    assert read(line(EVENT), options=Options(node="@file")).events["node"].to_list() == ["n7"]


def test_conditions_as_json() -> None:
    """The daemon's own endpoint says transition, Kubernetes lastTransitionTime; some name the node."""
    items = [
        {
            "type": "KernelDeadlock",
            "status": "True",
            "transition": "2026-03-01T10:00:00.123456789Z",
            "reason": "r",
        },
        {
            "type": "GPUProblem",
            "status": "True",
            "lastTransitionTime": "2026-03-01T11:00:00Z",
            "nodeName": "n9",
        },
        {"type": "GPUProblem"},
    ]
    parsed = npd.read(json.dumps(items).encode(), "f", GIVEN)
    assert parsed.events.select("node", "code").rows() == [("n1", "KernelDeadlock"), ("n9", "GPUProblem")]
    assert parsed.rejects["reason"].to_list() == ["not a condition"]
    assert npd.looks_like(line(EVENT).encode()) and not npd.looks_like(b"{}")


@pytest.mark.shared
def test_a_sticky_condition_has_no_end_and_takes_no_capacity(shared_dir: Path) -> None:
    """Case C05: True in two snapshots a month apart is one onset; its end is unknown."""
    case = shared_dir / "cases" / "C05-npd-sticky-condition"
    wanted = json.loads((case / "expected.json").read_text())["expected"]
    (row,) = npd.read((case / "snapshots.jsonl").read_bytes(), "f", GIVEN).events.rows(named=True)
    assert row["t_start"].isoformat() + "Z" == wanted["problem_start"]
    assert (row["kind"], row["t_end"], npd.ENDS) == ("onset", wanted["problem_end"], wanted["clearable"])
    assert (row["severity"] == "down") is (wanted["node_downtime_s"] > 0)
    assert wanted["censored"] == (row["t_end"] is None)


def test_any_damage_is_counted() -> None:
    """Damaged logs give rows and refusals, nothing else."""
    survives(npd, (resources.folder("samples") / "npd.log").read_bytes(), GIVEN)
    items = [
        {"type": "GPUProblem", "status": "True", "transition": f"2026-03-01T1{n}:00:00Z"} for n in range(4)
    ]
    survives(npd, "\n".join(map(json.dumps, items)).encode(), GIVEN)
