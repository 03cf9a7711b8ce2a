"""The source `xid`: kernel logs in every form."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

import gzip
import io
import json
import lzma
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import amd, run, textscan
from pipeline.ingest.documents import gpu_name
from pipeline.ingest.kernellog import told
from pipeline.ingest.parsing import Options, Parsed, RefusedError
from pipeline.ingest.sources import xid
from pipeline.ingest.xidchains import ACTIONS
from pipeline.ingest.xidlines import Message, claim, parse, recovery
from pipeline.lake.store import Lake

ALL = Options.of(tz="UTC", year=2025, boot_time="2025-03-01T00:00Z", node="n1")
BOOT = datetime(2025, 3, 1)
FAULT = "NVRM: Xid (PCI:0000:3b:00): 119, pid=1, name=x, Timeout"


def read(text: str | bytes, options: Options = ALL) -> Parsed:
    return xid.read(text.encode() if isinstance(text, str) else text, "kern.log", options)


def rows(text: str | bytes, options: Options = ALL) -> list[dict[str, Any]]:
    return read(text, options).events.rows(named=True)


def reasons(text: str | bytes, options: Options = ALL) -> list[str]:
    return read(text, options).rejects["reason"].to_list()


def case(shared_dir: Path, name: str) -> tuple[bytes, dict[str, Any]]:
    """Return the log of a public case and what is expected of it."""
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    (log,) = (
        path for path in folder.iterdir() if path.name not in {"SOURCE.txt", "expected.json", "meta.json"}
    )
    return log.read_bytes(), json.loads((folder / "expected.json").read_text())["expected"]


def claims(data: bytes) -> Iterator[Message]:
    """Yield what the messages of a log claim, whether their lines can be dated or not."""
    for text in data.decode("utf-8", errors="replace").splitlines():
        known = told(text, claim)
        with suppress(RefusedError):
            if known and (message := parse(known.message)) and message.family != "lost":
                yield message


def short(name: str) -> str:
    """Return a PCI address as the cases write it."""
    return name[4:]


# --- what stands in front ----------------------------------------------------------------------------------

NOON = datetime(2025, 3, 2, 12)


@pytest.mark.parametrize(
    ("prefix", "when", "node"),
    [
        ("Mar  2 12:00:00 gpu-1 kernel: ", NOON, "gpu-1"),
        ("Mar 02 12:00:00 gpu-1 kernel: [  900.089671] ", NOON, "gpu-1"),
        ("<3>Mar  2 12:00:00 gpu-1 kernel: ", NOON, "gpu-1"),
        ("Mar  2 2025 12:00:00 gpu-1 kernel: ", NOON, "gpu-1"),
        ("Mar  2 12:00:00.250000 gpu-1 kernel: ", NOON + timedelta(seconds=0.25), "gpu-1"),
        ("3月  2 12:00:00 gpu-1 kernel: ", NOON, "gpu-1"),
        ("Mar  2 12:00:00 kernel: ", NOON, "n1"),
        ("Mar  2 12:00:00 10.0.0.7:514 kernel: ", NOON, "10.0.0.7"),
        ("2025-03-02T14:00:00+0200 gpu-1 kernel: ", NOON, "gpu-1"),
        ("2025-03-02T12:00:00.000000+00:00 gpu-1 kernel: [1.5] ", NOON, "gpu-1"),
        ("<3>1 2025-03-02T12:00:00Z gpu-1 kernel - - - ", NOON, "gpu-1"),
        ("2025-03-02 12:00:00 gpu-1 kernel: ", NOON, "gpu-1"),
        ("Sun 2025-03-02 12:00:00 UTC gpu-1 kernel: ", NOON, "gpu-1"),
        ("1740916800.000000 gpu-1 kernel: ", NOON, "gpu-1"),
        ("[129600.000000] gpu-1 kernel: ", NOON, "gpu-1"),
        ("[129600.000000] ", NOON, "n1"),
        ("<3>[129600.000000] ", NOON, "n1"),
        ("[129600.000000] [  T1234] ", NOON, "n1"),
        ("[129600.000000 <    0.000012>] ", NOON, "n1"),
        ("kernel: [129600.000000] ", NOON, "n1"),
        ("kern  :err   : [129600.000000] ", NOON, "n1"),
        ("[Sun Mar  2 12:00:00 2025] ", NOON, "n1"),
        ("kern  :err   : [Sun Mar  2 12:00:00 2025] ", NOON, "n1"),
        ("kern  :err   : 2025-03-02T12:00:00,000000+00:00 ", NOON, "n1"),
        ("2025-03-02T12:00:00,000000+00:00 ", NOON, "n1"),
        ("3,3964,129600000000,-;", NOON, "n1"),
        ("3,3964,129600000000,-,caller=T1;", NOON, "n1"),
        ("10.5.0.2: kern:    info: [2025-03-02T12:00:00.000000999Z]: ", NOON, "10.5.0.2"),
        ("2025-03-02T12:00:00.000000123Z stderr F ", NOON, "n1"),
        ("2025-03-03T09:00:00.000000123Z stdout F [129600.000000] ", NOON, "n1"),
    ],
)
def test_every_prefix_form_is_read(prefix: str, when: datetime, node: str) -> None:
    """A line is dated and placed by its own prefix, whatever the lines around it look like."""
    parsed = read(f"[1.5] usb 1-1: new device\n{prefix}{FAULT}\n")
    assert parsed.rejects.rows() == []
    (row,) = parsed.events.rows(named=True)
    assert (row["row"], row["t_start"], row["node"]) == (2, when, node)
    assert (row["gpu_name"], row["code"], row["severity"]) == ("00000000:3b:00", "xid 119", "down")
    assert row["reason"] == "Xid 119, pid=1, name=x, Timeout"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (FAULT, "no timestamp"),
        (f"[...] {FAULT}", "no timestamp"),
        (f"[Tue Feb 28 08:30:58 2026] {FAULT}", "the weekday does not fit the date"),
        (f"[Sun Feb 30 08:30:58 2025] {FAULT}", "no such date or clock time"),
        (f"Feb 30 08:30:58 gpu-1 kernel: {FAULT}", "no such date or clock time"),
        (f"Foo 12 08:30:58 gpu-1 kernel: {FAULT}", "no month by that name"),
        (f"Sun 2025-03-02 12:00:00 CST gpu-1 kernel: {FAULT}", "zone given as a letter word"),
        (f"2999-03-02T12:00:00Z gpu-1 kernel: {FAULT}", "in the future"),
        (f"1980-03-02T12:00:00Z gpu-1 kernel: {FAULT}", "before 2000-01-01"),
        (f"Mar  2 12:00:00 gpu-1 gpud[12]: {FAULT}", "told by another program than the kernel"),
        ("[1.5] NVRM: Xid (PCI:0000:66:00): abc, pid=2", "no Xid code"),
        ("[1.5] NVRM: Xid : 32, pid=2", "no PCI address"),
        ("[1.5] NVRM: The NVIDIA GPU 0000:b3:00.0", "cut off"),
        ('{"__REALTIME_TIMESTAMP":"17409168', "no"),
    ],
)
def test_a_line_that_cannot_be_read_is_refused(line: str, reason: str) -> None:
    """What claims to be a fault and lacks something is a reject with the reason, never dated by a guess."""
    parsed = read(f"[1.5] usb 1-1: new device\n{line}\n")
    if line.startswith("{"):
        assert parsed.rows_read == 0  # broken, and it claims nothing
        return
    (refused,) = parsed.rejects.rows(named=True)
    assert refused["row"] == 2
    assert refused["reason"].startswith(reason)
    assert refused["text"] == line


@pytest.mark.parametrize(
    ("line", "option"),
    [
        (f"Mar  2 12:00:00 gpu-1 kernel: {FAULT}", "--tz"),
        (f"2025-03-02T12:00:00 gpu-1 kernel: {FAULT}", "--tz"),
        (f"[1.5] {FAULT}", "--boot-time"),
        (f"2025-03-02T12:00:00Z {FAULT}", "--node"),
    ],
)
def test_what_the_file_lacks_is_one_error_that_names_the_option(line: str, option: str) -> None:
    with pytest.raises(InputError, match=option):
        read(line, Options())


def test_a_log_without_years_needs_one() -> None:
    with pytest.raises(InputError, match="--year"):
        read(f"Mar  2 12:00:00 gpu-1 kernel: {FAULT}", Options(tz="UTC"))


def test_local_times_that_a_clock_change_leaves_open_are_refused_unless_folded() -> None:
    text = f"[Sun Oct 26 02:30:00 2025] {FAULT}\n[Sun Mar 30 02:30:00 2025] {FAULT}\n"
    berlin = Options(tz="Europe/Berlin", node="n1")
    assert reasons(text, berlin) == [
        "ambiguous local time: clocks were set back",
        "local time that does not exist: clocks were set forward",
    ]
    (row,) = rows(text, Options(tz="Europe/Berlin", node="n1", fold="later"))
    assert row["t_start"] == datetime(2025, 10, 26, 1, 30)


def journal(**fields: Any) -> str:
    entry = {"__REALTIME_TIMESTAMP": "1740916800000000", "_HOSTNAME": "gpu-1", "_TRANSPORT": "kernel"}
    return json.dumps(entry | fields) + "\n"


def test_journald_json_is_read_also_where_the_message_is_bytes() -> None:
    """MESSAGE is text, or a list of bytes where it is not printable; microseconds are UTC."""
    text = journal(MESSAGE="usb") + journal(MESSAGE=FAULT) + journal(MESSAGE=list(f"{FAULT}\x1b".encode()))
    compact = text.replace(": [", ":[")
    for entries in (text, compact):
        parsed = read(entries, Options())
        assert parsed.events["row"].to_list() == [2, 3]
        assert parsed.events["t_start"].to_list() == [NOON, NOON]
        assert parsed.events["node"].to_list() == ["gpu-1", "gpu-1"]
    assert reasons(journal(MESSAGE=FAULT, _TRANSPORT="syslog")) == ["told by another program than the kernel"]
    assert reasons(journal(MESSAGE=FAULT, __REALTIME_TIMESTAMP=None)) == ["no timestamp"]
    assert reasons(journal(MESSAGE="x") + journal(MESSAGE=FAULT)[:-9]) == ["a cut-off or broken JSON object"]


def test_a_container_log_in_json_takes_its_time_where_the_line_has_none() -> None:
    line = json.dumps({"log": f"{FAULT}\n", "stream": "stderr", "time": "2025-03-02T12:00:00.123456789Z"})
    (row,) = rows(line)
    assert (row["t_start"], row["node"]) == (NOON + timedelta(microseconds=123456), "n1")


def test_the_year_turns_between_wanted_lines() -> None:
    """Lines that nobody wants tell that a year went by between two faults."""
    text = (
        f"Nov  3 01:00:00 a kernel: {FAULT}\nDec  1 01:00:00 a cron[1]: x\n"
        f"Jan  1 01:00:00 a cron[1]: x\n"
        f"Jun  9 01:00:00 a cron[1]: x\nDec  2 01:00:00 a cron[1]: x\nFeb  1 01:00:00 a kernel: {FAULT}\n"
    )
    by_year = [row["t_start"].year for row in rows(text, Options(tz="UTC", year=2022))]
    by_as_of = [row["t_start"].year for row in rows(text, Options.of(tz="UTC", as_of="2024-02-02T00:00Z"))]
    assert by_year == by_as_of == [2022, 2024]


def test_a_file_that_is_no_kernel_log_is_an_input_error_and_a_quiet_one_is_not() -> None:
    with pytest.raises(InputError, match=r"kern\.log: no line of a kernel log"):
        read("name,value\n1,2\n")
    assert read("Mar  2 12:00:00 gpu-1 sshd[1]: hello\n").rows_read == 0


# --- faults ------------------------------------------------------------------------------------------------


def dmesg(*messages: str, step_s: int = 1) -> str:
    return "".join(f"[{100 + step_s * i}.000000] {message}\n" for i, message in enumerate(messages))


def of(*codes: int | str, gpu: str = "3b", step_s: int = 1) -> list[tuple[str, str, str]]:
    """Return (code, kind, severity) of the rows that a run of Xids of one GPU makes."""
    lines = [f"NVRM: Xid (PCI:0000:{gpu}:00): {code}" for code in codes]
    return [(row["code"], row["kind"], row["severity"]) for row in rows(dmesg(*lines, step_s=step_s))]


TO_RESET = "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
TO_NONE = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"


def test_a_clear_ends_the_faults_of_its_gpu_as_one() -> None:
    """Rows since the last clear carry the code of the first of them, and so does the clear."""
    assert of(119, TO_RESET, 95, TO_NONE) == [
        ("xid 119", "onset", "down"),
        ("xid 154 secondary", "onset", "info"),
        ("xid 119", "onset", "down"),
        ("xid 119", "clear", "down"),
    ]
    assert of(119, 95) == [("xid 119", "onset", "down"), ("xid 95", "onset", "down")]


def test_a_clear_does_not_reach_back_over_a_pause() -> None:
    """A fault longer ago than five minutes, with no action pending since, is not what a clear ends."""
    assert [code for code, _, _ in of(119, TO_RESET, TO_NONE, step_s=400)] == [
        "xid 119",
        "xid 154",
        "xid 154",
    ]


def test_secondary_codes_start_nothing() -> None:
    assert of(45) == [("xid 45", "onset", "info")]
    assert of(13, 43) == [("xid 13", "onset", "app"), ("xid 43 secondary", "onset", "info")]
    assert of(43) == [("xid 43", "onset", "app")]
    assert of(13, 43, step_s=301)[1] == ("xid 43", "onset", "app")


def test_a_double_bit_error_that_was_contained_ends_the_job_only() -> None:
    assert of(48, 94)[0] == of(94, 48)[1] == ("xid 48 contained", "onset", "app")
    assert of(48, 63)[0] == of(48, 95, 94)[0] == ("xid 48", "onset", "down")


def test_an_unused_or_unknown_code_is_unknown_not_fatal() -> None:
    for code in (14, 61, 9999):
        (row,) = rows(dmesg(f"NVRM: Xid (PCI:0000:3b:00): {code}"))
        assert (row["severity"], row["component"]) == ("info", "unknown")


def test_a_fault_of_another_gpu_or_before_a_boot_is_another_chain() -> None:
    text = dmesg(
        "NVRM: Xid (PCI:0000:01:00): 119",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.1",
        f"NVRM: Xid (PCI:0000:01:00): {TO_RESET}",
        f"NVRM: Xid (PCI:0000:02:00): {TO_RESET}",
    )
    assert [row["code"] for row in rows(text)] == ["xid 119", "xid 154", "xid 154"]


def test_a_gpu_that_the_driver_does_not_know_is_no_fault() -> None:
    text = "[1.0] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1b80)\n"
    text += "NVRM: installed in this system is not supported by the NVIDIA 570 driver.\n"
    assert read(text).rows_read == 0
    split = (
        "[1.0] NVRM: The NVIDIA GPU 0000:01:00.0\n[1.0] NVRM: (PCI ID: 10de:1b80) installed in this system\n"
    )
    assert read(split + "[1.0] NVRM: is not supported.\n").rows_read == 0


def test_a_lost_gpu_may_stand_in_one_line_with_escaped_ends() -> None:
    line = (
        "Mar  2 12:00:00 g kernel: NVRM: The NVIDIA GPU 0000:b3:00.0#012NVRM: (PCI ID: 10de:26b5) installed"
    )
    (row,) = rows(f"{line} in this system has#012NVRM: fallen off the bus and is not responding.\n")
    assert (row["code"], row["gpu_name"], row["scope"]) == ("xid 79", "00000000:b3:00", "node")


def test_data_of_an_sxid_without_its_first_line_is_a_row_of_its_own() -> None:
    (row,) = rows(dmesg("nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Data {0x1}"))
    assert (row["severity"], row["scope"], row["gpu_name"]) == ("info", "domain", None)


def test_an_amd_reset_that_is_told_to_have_succeeded_twice_is_one_clear() -> None:
    text = dmesg(
        "amdgpu 0000:c3:00.0: amdgpu: 1 uncorrectable hardware errors detected in gfx block",
        "amdgpu 0000:c3:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
        "amdgpu 0000:c3:00.0: amdgpu: 2 correctable hardware errors detected in umc block",
        "amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!",
        "amdgpu 0000:c3:00.0: amdgpu: GPU reset succeeded, trying to resume",
        "amdgpu 0000:c3:00.0: amdgpu: GPU reset(1) succeeded!",
    )
    assert [(row["code"], row["kind"], row["severity"]) for row in rows(text)] == [
        ("ras uncorrectable", "onset", "down"),
        ("ras corrected", "onset", "info"),
        ("ras uncorrectable", "onset", "down"),
        ("ras uncorrectable", "clear", "down"),
    ]


# --- the public cases --------------------------------------------------------------------------------------


@pytest.mark.shared
class TestPublicCases:
    """The public cases, read from the shared folder."""

    def test_a01_a_storm_is_five_rows_of_one_incident(self, shared_dir: Path) -> None:
        """Five rows of one code and GPU, told apart from the tables around them."""
        data, expected = case(shared_dir, "A01")
        found = rows(data, Options(tz="UTC", node="n1"))
        assert len(found) == expected["xid_rows"] + expected["non_xid_rows_emitted"]
        assert {row["code"] for row in found} == {f"xid {expected['xid_code']}"}
        assert {short(row["gpu_name"]) for row in found} == {expected["pci"]}
        times = [row["t_start"] for row in found]
        assert [times[0].isoformat(), times[-1].isoformat()] == [
            expected[name].partition(" ")[0] for name in ("first", "last")
        ]
        gaps = [int((late - early).total_seconds()) for early, late in pairwise(times)]
        assert gaps == expected["inter_event_gaps_s"]
        assert sum(gaps) == expected["span_s"]
        assert 1 + sum(gap > 300 for gap in gaps) == expected["incidents_default_gap_5min"]
        with pytest.raises(InputError, match="--tz"):
            read(data, Options(node="n1"))

    def test_a03_nvlink5_and_its_recovery_actions(self, shared_dir: Path) -> None:
        """Every row is down by its sub-code; the chain of 154 may lack its beginning."""
        data, expected = case(shared_dir, "A03")
        found = rows(data)
        links = [row for row in found if row["reason"].startswith("Xid 149")]
        states = [row for row in found if row["reason"].startswith("Xid 154")]
        assert (len(links), len(states)) == (expected["xid149_rows"], expected["xid154_rows"])
        assert {(row["code"], row["severity"]) for row in links} == {("xid 149", "down")}
        assert {short(row["gpu_name"]) for row in found} == set(expected["gpus"])
        final = {short(row["gpu_name"]): recovery(row["reason"])[1] for row in states}
        words = {"Drain and Reset": "drain_and_reset", "GPU Reset Required": "gpu_reset"}
        assert {name: ACTIONS[action] for name, action in final.items()} == {
            name: words[action] for name, action in expected["final_action"].items()
        }
        late = {short(row["gpu_name"]) for row in states if recovery(row["reason"])[0] != 0}
        assert late == set(expected["missing_transition_gpus"])
        span = found[-1]["t_start"] - found[0]["t_start"]
        assert span == timedelta(seconds=expected["span_s"])
        words = [row["reason"].partition("(0x")[2][:8] for row in links]
        assert {int(word, 16) >> 20 & 63 for word in words} == {expected["subcode_all_149"]}
        assert all(f" {expected['severity_all_149']} " in row["reason"] for row in links)
        with pytest.raises(InputError, match="--boot-time"):
            read(data, Options(node="n1"))

    def test_a04_a_gpu_lost_without_an_xid(self, shared_dir: Path) -> None:
        """Three lines are one fault, dated by the first, with the code of its like."""
        data, expected = case(shared_dir, "A04")
        found = rows(data)
        assert len(found) == expected["failures"] + expected["rows_from_probe_failed_line"]
        (row,) = found
        assert (row["code"], row["severity"]) == (f"xid {expected['xid']}", "down")
        assert expected["xid_source"] == "inferred"
        assert "Xid" not in row["reason"], "the words of the log, which tells no number"
        assert short(row["gpu_name"]) == expected["pci"]
        assert row["t_start"] == BOOT + timedelta(seconds=expected["boot_s"])
        assert (row["t_start"].date() == datetime(2025, 6, 2).date()) is expected["date_from_build_string"]

    def test_a07_lines_without_a_time_are_refused(self, shared_dir: Path) -> None:
        """Wake without a time: refused one by one, and the code is not the last number."""
        data, expected = case(shared_dir, "A07")
        refused = expected["rejected_reason"].replace("_", " ")
        assert reasons(data, Options()) == [refused] * expected["rows"]
        assert len(rows(data, Options())) == expected["rows_with_time"]
        found = list(claims(data))
        assert [claim.code for claim in found] == [expected["xid_code_every_row"]] * expected["rows"]
        causes = {
            claim.address: int(claim.reason.rpartition(" ")[2]) for claim in found if "caused" in claim.reason
        }
        assert causes == expected["caused_by"]
        dated = rows("".join(f"[{at}.0] {line}\n" for at, line in enumerate(data.decode().splitlines())))
        assert len([row for row in dated if row["severity"] == "info"]) == expected["secondary_rows"]
        failures = [row for row in dated if row["severity"] != "info"]
        assert len(failures) == expected["independent_failures_from_these_rows"]

    def test_a09_an_sxid_is_one_row_of_two_lines(self, shared_dir: Path) -> None:
        """The data line adds no row; what has no code or no device is refused."""
        data, expected = case(shared_dir, "A09")
        parsed = read(data)
        found = parsed.events.rows(named=True)
        assert len(found) == expected["events"]
        assert parsed.rejects.height == expected["rejected"]
        for row, said in zip(found, expected["rows"], strict=True):
            assert row["t_start"] == BOOT + timedelta(seconds=said["boot_s"])
            assert (
                f"SXid {said['sxid']}, nvidia-{said['switch']}, {said['severity'].capitalize()}"
                in row["reason"]
            )
            assert row["severity"] == ("down" if said["severity"] == "fatal" else "info")
            assert row["scope"] == "domain"
        assert sum(row["severity"] == "down" for row in found) == expected["domain_outages"]

    def test_a10_every_variant_of_the_message(self, shared_dir: Path) -> None:
        """Twelve are understood, four are not."""
        data, expected = case(shared_dir, "A10")
        found = []
        for line in data.splitlines():
            claim = next(iter(claims(line)), None)
            found.append((claim.code, short(gpu_name(claim.address) or "")) if claim else (None, None))
        assert found == [(told["xid"], told["pci"]) for told in expected["parse"]]
        parsed = read(data)
        # Of the twelve that are read, five have a time that a timeline can use.
        assert parsed.events["row"].to_list() == [1, 3, 4, 5, 8]
        assert parsed.rows_read == expected["parsed"] + expected["rejected"]
        refused = dict(parsed.rejects.select("row", "reason").iter_rows())
        assert sorted([*parsed.events["row"], *refused]) == list(range(1, 17))
        nothing = {13: "no PCI address", 14: "no Xid code", 15: "no PCI address", 16: "no PCI address"}
        assert refused == nothing | dict.fromkeys((2, 6, 7, 9, 10, 11, 12), "no timestamp")
        assert len(nothing) == expected["rejected"]

    def test_a11_the_numbers_of_an_action_hold_whatever_the_words(self, shared_dir: Path) -> None:
        """Four rows start an outage and the fifth ends one."""
        data, expected = case(shared_dir, "A11")
        found = rows(data)
        told = [(short(row["gpu_name"]), ACTIONS[recovery(row["reason"])[1]]) for row in found]
        assert told == [(item["pci"], item["action"]) for item in expected["normalised"]]
        onsets = [row for row in found if row["kind"] == "onset" and row["severity"] == "down"]
        assert len(onsets) == expected["rows_that_start_an_outage"]
        (clear,) = (row for row in found if row["kind"] == "clear")
        assert clear["code"] == onsets[-1]["code"]
        length = clear["t_start"] - onsets[-1]["t_start"]
        assert length.total_seconds() == expected["gpu_0008_unavailable_s"]

    def test_a13_an_unresolved_reset_is_one_open_fault(self, shared_dir: Path) -> None:
        """Told as active is not a fault; a reset that never succeeds ends nothing."""
        data, expected = case(shared_dir, "A13")
        found = rows(data)
        faults = {(row["gpu_name"], row["code"]) for row in found if row["severity"] == "down"}
        assert len(faults) == expected["failures"]
        assert {name for name, _ in faults} == {gpu_name(expected["pci"])}
        assert all(expected["vendor"] in line for line in data.decode().splitlines() if "reset begin" in line)
        assert sum("is active" in row["reason"] for row in found) == expected["ecc_active_rows_counted"]
        assert {row["t_end"] for row in found} == {expected["end"]}
        assert expected["censored"] == (not xid.ENDS), "no end is told, so the scenario assumes one"
        assert found[0]["t_start"] == datetime.fromisoformat(expected["start_local"])
        assert found[0]["code"].replace(" ", "_") == expected["class"]
        assert {row["kind"] for row in found} == {"onset"}

    def test_a14_devices_that_consumed_poison_have_not_failed(self, shared_dir: Path) -> None:
        """Only the GPU that is named has failed."""
        data, expected = case(shared_dir, "A14")
        found = rows(data)
        failed = [row["gpu_name"] for row in found if row["severity"] == "down"]
        assert failed == [gpu_name(expected["primary_pci"])]
        assert len(failed) == expected["primary_failures"]
        related = [row["gpu_name"] for row in found if row["code"] == "ras poison"]
        assert related == [gpu_name(name) for name in expected["related_devices"]]
        told_bits = {amd.status(line) for line in data.decode().splitlines()} - {None}
        bits = expected["status_bits"]
        assert told_bits == {
            amd.Status(*map(bool, (bits["valid_63"], bits["uncorrected_61"], bits["poison_43"])))
        }
        span = found[-1]["t_start"] - found[0]["t_start"]
        assert span + timedelta(microseconds=3) >= timedelta(seconds=expected["span_s"]) >= span

    def test_a15_a_reset_that_succeeded_interrupts_and_takes_nothing(self, shared_dir: Path) -> None:
        """The clear carries the code of its onset."""
        data, expected = case(shared_dir, "A15")
        found = rows(data, Options())
        assert len(found) == 2 * expected["resets"]
        begin, end = found
        assert (begin["kind"], end["kind"], begin["code"]) == ("onset", "clear", end["code"])
        assert {row["gpu_name"] for row in found} == {gpu_name(expected["pci"])}
        assert (begin["severity"] == "down") is expected["job_interrupting"]
        assert (begin["scope"] == "node") is expected["node_outage"]
        assert end["t_start"].replace(tzinfo=UTC) == datetime.fromisoformat(expected["reset_ok"])
        assert begin["t_start"].replace(tzinfo=UTC) == datetime.fromisoformat(expected["start"])
        assert (end["t_start"] - begin["t_start"]).total_seconds() == expected["duration_s"]

    def test_a17_a_time_in_the_future_is_refused(self, shared_dir: Path) -> None:
        """A wrong weekday, or a time after the log was taken, is refused."""
        data, expected = case(shared_dir, "A17")
        told = next(line for line in data.decode().splitlines() if line.startswith("["))
        line = told.replace("audit: ...", FAULT)
        assert reasons(line, Options.of(tz="America/New_York", node="n1")) == [
            "the weekday does not fit the date"
        ]
        weekday = expected["weekday_of_2026_02_28"].partition(" ")[0]
        right = line.replace("Tue", weekday[:3])
        taken = Options.of(tz="America/New_York", node="n1", as_of="2026-02-23T11:11:58-05:00")
        assert expected["verdict"].endswith("future_timestamp")
        assert reasons(right, taken) == ["after --as-of, when the log was taken"]
        ahead = timedelta(seconds=expected["ahead_of_capture_s"])
        assert taken.as_of is not None
        (row,) = rows(right, replace(taken, as_of=taken.as_of + ahead))
        assert row["t_start"] == datetime(2026, 2, 28, 13, 30, 58), "not in the future by a second less"
        assert reasons(right, replace(taken, as_of=taken.as_of + ahead - timedelta(seconds=1))) != []

    def test_a18_years_of_a_log_over_a_leap_day(self, shared_dir: Path) -> None:
        """The last line is the latest that the time of capture allows."""
        data, expected = case(shared_dir, "A18")
        lines = [f"{line.rpartition(' ')[0]} h kernel: {FAULT}" for line in data.decode().splitlines()]
        (folder,) = (shared_dir / "cases").glob("A18-*")
        taken = json.loads((folder / "meta.json").read_text())["capture_time"]
        parsed = read("\n".join(lines), Options.of(tz="UTC", as_of=taken))
        assert parsed.rejects.height == expected["rejected"]
        times = parsed.events["t_start"].to_list()
        assert {time.year for time in times[:12]} == {expected["years_lines_1_12"]}
        assert {time.year for time in times[12:]} == {expected["years_lines_13_24"]}
        assert times[1] == datetime.fromisoformat(expected["line_2"])
        assert times[23] == datetime.fromisoformat(expected["line_24"])

    def test_a20_repeats_are_told_in_the_row(self, shared_dir: Path) -> None:
        """The folded row says how many it stands for."""
        data, expected = case(shared_dir, "A20")
        found = rows(data)
        assert len(found) == expected["rows_parsed"]
        counts = {31: 0, 43: 0}
        for row in found:
            words = row["reason"].partition("message repeated ")[2]
            counts[int(row["reason"][4:6])] += int(words.partition(" ")[0]) if words else 1
        assert counts == {31: expected["xid31_count"], 43: expected["xid43_count"]}
        folded = expected["folded_row"]
        assert [row["t_start"].strftime("%H:%M:%S") for row in found[:2]] == folded["interval"]
        assert f"message repeated {folded['repeat']} times" in found[1]["reason"]
        assert {row["code"] for row in found[:2]} == {f"xid {folded['xid']}"}
        assert short(found[1]["gpu_name"]) == folded["pci"]

    def test_c15_one_spelling_of_an_address(self, shared_dir: Path) -> None:
        """Eight digits of domain, lower case, no function."""
        data, expected = case(shared_dir, "C15")
        found = [gpu_name(line) or "" for line in data.decode().split()]
        assert [short(name) for name in found] == expected["normalised"]

    def test_real_lines(self, shared_data: Path) -> None:
        """Real lines with a time are read, the others are refused for want of one."""
        parsed = read((shared_data / "xid" / "xid_line_variants.txt").read_bytes())
        assert parsed.rows_read == parsed.events.height + parsed.rejects.height > 20
        assert set(parsed.rejects["reason"]) == {"no timestamp"}


# --- streams -----------------------------------------------------------------------------------------------


def test_a_stream_in_small_pieces_gives_the_same_rows() -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(7, size) if size and size > 0 else 7)

    sample = Path(__file__).parents[2] / "data" / "samples" / "xid.log"
    options = Options.of(tz="UTC", as_of="2025-04-01T00:00Z")
    whole = xid.read(sample.read_bytes(), "x", options)
    assert xid.read_stream(Trickle(sample.read_bytes()), "x", options).events.equals(whole.events)


def test_a_file_is_hashed_and_read_in_one_pass_and_skipped_the_next_time(tmp_path: Path) -> None:
    log = tmp_path / "kern.log"
    log.write_text(f"2025-03-02T12:00:00Z gpu-1 kernel: {FAULT}\n")
    lake = Lake(tmp_path / "root")
    (first,) = run.ingest(lake, "xid", [str(log)], Options(), lambda _: None)
    (again,) = run.ingest(lake, "xid", [str(log)], Options(), lambda _: None)
    assert (first.skipped, again.skipped, again.rows_accepted) == (False, True, 1)
    log.write_text(f"2025-03-02T12:00:01Z gpu-1 kernel: {FAULT}\n")
    (other,) = run.ingest(lake, "xid", [str(log)], Options(), lambda _: None)
    assert not other.skipped


@pytest.mark.parametrize("how", ["gzip", "xz", "zstd"])
def test_a_compressed_log_is_the_same_file(tmp_path: Path, how: str) -> None:
    packs: dict[str, Callable[[bytes], bytes]] = {
        "gzip": gzip.compress,
        "xz": lzma.compress,
        "zstd": lambda data: bytes(pa.compress(data, "zstd", asbytes=True)),
    }
    pack = packs[how]
    data = f"2025-03-02T12:00:00Z gpu-1 kernel: {FAULT}\n".encode() * 3
    plain, packed = tmp_path / "a", tmp_path / "b"
    plain.write_bytes(data)
    packed.write_bytes(pack(data))
    done = run.ingest(Lake(tmp_path / "root"), "xid", [str(plain), str(packed)], Options(), lambda _: None)
    assert [item.skipped for item in done] == [False, True]
    packed.write_bytes(pack(data)[:-5])
    with pytest.raises(InputError, match="uncompressed"):
        run.ingest(Lake(tmp_path / "other"), "xid", [str(packed)], Options(), lambda _: None)


def test_years_are_followed_where_only_some_lines_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far into a file one line in a stretch tells the month; a stretch whose ends differ is read whole."""
    months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"] * 3
    lines = [f"{month}  5 01:00:00 a cron[{number}]: x" for month in months for number in range(200)]
    for number in range(0, len(lines), 97):
        lines[number] = f"{lines[number][:16]}a kernel: {FAULT}"
    text = "\n".join(lines)
    exact = read(text, Options(tz="UTC", year=2021)).events
    monkeypatch.setattr(textscan, "EXACT", 0)
    monkeypatch.setattr(textscan, "STEP", 1500)
    monkeypatch.setattr(textscan, "WINDOW", 4096)
    assert read(text, Options(tz="UTC", year=2021)).events.equals(exact)
    assert exact["t_start"].dt.year().unique().sort().to_list() == [2021, 2022, 2023]


@pytest.mark.parametrize("message", [FAULT, f"{FAULT} é"], ids=["by columns", "one by one"])
def test_a_line_out_of_order_keeps_its_year_far_into_a_file(
    monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    """A late line of December among those of January, where not every line is looked at, and the reverse."""
    monkeypatch.setattr(textscan, "EXACT", 0)
    monkeypatch.setattr(textscan, "STEP", 1500)
    monkeypatch.setattr(textscan, "WINDOW", 4096)
    old, new = "Dec 31 23:00:00 a cron[1]: x", "Jan  1 01:00:00 a cron[1]: x"
    early, late = f"Jan  1 00:00:00 b kernel: {message}", f"Dec 31 23:59:59 b kernel: {message}"
    text = "\n".join([*[old] * 100, early, *[old] * 500, *[new] * 500, late, *[new] * 100])
    found = read(text, Options(tz="UTC", year=2021)).events["t_start"].to_list()
    assert found == [datetime(2022, 1, 1), datetime(2021, 12, 31, 23, 59, 59)]


@pytest.mark.parametrize(
    "front", ['{{"log":"{}\\n","time":"2025-03-02T12:00:00Z"}}', "2025-03-02T12:00:00Z stdout F {}"]
)
def test_a_time_without_a_year_may_stand_in_a_container_s_line(front: str) -> None:
    """The time inside wins, and --year is that of the first such line."""
    lines = [front.format(f"{day} 12:00:00 b kernel: {FAULT}") for day in ("Dec 31", "Jan  1")]
    found = read("\n".join(lines), Options(tz="UTC", year=2021)).events["t_start"].to_list()
    assert found == [datetime(2021, 12, 31, 12), datetime(2022, 1, 1, 12)]


def test_a_byte_order_mark_is_no_part_of_the_first_line() -> None:
    """Nor does it hide that a file is JSON, whose messages may be lists of bytes."""
    line = f"2025-03-02T12:00:00Z a kernel: {FAULT}\n"
    entry = journal(MESSAGE=list(FAULT.encode()))
    for text in (line, entry):
        parsed = read("\ufeff" + text, Options())
        assert (parsed.events.height, parsed.rejects.height) == (1, 0)


# --- any bytes ---------------------------------------------------------------------------------------------

LOST = """[2.5] NVRM: The NVIDIA GPU 0000:b3:00.0
 NVRM: (PCI ID: 10de:26b5) installed in this system has
 NVRM: fallen off the bus and is not responding to commands."""
SEEDS = [
    f"Mar  2 12:00:00 gpu-1 kernel: [  900.089671] {FAULT}",
    f"2025-03-02T12:00:00.000000+00:00 gpu-1 kernel: {FAULT}",
    f"[129600.000000] {FAULT}",
    f"[Sun Mar  2 12:00:00 2025] {FAULT}",
    f"3,3964,129600000000,-;{FAULT}",
    journal(MESSAGE=FAULT).strip(),
    f"10.5.0.2: kern:    info: [2025-03-02T12:00:00.000000999Z]: {FAULT}",
    "[1.5] nvidia-nvswitch0: SXid (PCI:0000:a9:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    LOST,
    "[3.5] amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!",
    f"[4.5] NVRM: Xid (PCI:0000:3b:00): {TO_NONE}",
]


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Real lines with a few bytes of them lost, doubled, swapped, cut or mixed."""
    lines = draw(st.lists(st.sampled_from(SEEDS), min_size=1, max_size=6))
    data = bytearray("\n".join(lines).encode())
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        other = draw(st.integers(0, len(data)))
        match draw(st.sampled_from(["delete", "double", "swap", "cut", "splice", "byte"])):
            case "delete":
                del data[at : at + 3]
            case "double":
                data[at:at] = data[at : at + 9]
            case "swap" if at < len(data) and other < len(data):
                data[at], data[other] = data[other], data[at]
            case "cut":
                del data[max(at, len(data) // 2) :]
            case "splice":
                data[at:at] = data[min(at, other) : max(at, other)][:40]
            case "byte":
                data[at:at] = draw(st.binary(min_size=1, max_size=2))
    return bytes(data)


def is_accepted(data: bytes) -> bool:
    """Return whether a row is accepted; assert that each is counted once and dated by the log."""
    try:
        parsed = read(data)
    except InputError:
        return False
    assert parsed.rows_read == parsed.events.height + parsed.rejects.height
    places = [*parsed.events["row"], *parsed.rejects["row"]]
    assert len(places) == len(set(places))
    now = datetime.now(UTC).replace(tzinfo=None)
    for moment in parsed.events["t_start"]:
        assert moment.year >= 2000 and abs(now - moment) > timedelta(days=1)
    return parsed.events.height > 0


def test_any_bytes_give_rows_and_rejects_or_one_input_error() -> None:
    """At least a fifth of the damaged logs still tell a fault."""
    accepted: list[bool] = []

    @settings(max_examples=400)
    @given(logs())
    def run(data: bytes) -> None:
        accepted.append(is_accepted(data))

    run()
    assert sum(accepted) * 5 >= len(accepted) > 100
