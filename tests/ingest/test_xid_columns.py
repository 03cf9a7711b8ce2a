"""Usual lines read by columns give the rows that they give one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import xidcolumns
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import xid
from tests.ingest import test_xid

ALL = Options.of(tz="Europe/Berlin", year=2025, boot_time="2025-03-01T00:00Z", node="n1")
BARE = Options.of(year=2025)
XIDS = [
    "79",
    "13, pid=1, name=x, Ch 00000010",
    "119,  Timeout ",
    "145, RLW_REMAP Nonfatal XC0 (0x82 0x41 0x1)",
    "48",
    "94, a",
]
PREFIXES = [
    "2025-03-02T12:00:00.000000+00:00 gpu-1 kernel: ",
    "2025-03-02T12:00:00.123456789Z gpu-1 kernel: [  1.5] ",
    "2025-03-02 12:00:00,5 gpu-1 kernel: ",
    "2025-03-30T02:30:00 gpu-1 kernel: ",
    "2025-02-30T02:30:00Z gpu-1 kernel: ",
    "2999-03-02T12:00:00Z gpu-1 kernel: ",
    "2025-03-02T12:00:00+0100 GPU kernel: ",
    "2025-03-02T12:00:00 GPU kernel: ",
    "Mar  2 12:00:00 gpu-1 kernel: [  900.089671] ",
    "Feb 30 12:00:00.25 gpu-1 kernel: ",
    "Mar 12 12:00:00.1234567 gpu-1.site kernel: ",
    "Foo 12 12:00:00 gpu-1 kernel: ",
    "Mar  2 1:00:00 gpu-1 kernel: ",
    "Mar  2 12:00:00 gpu-1 gpud[3]: ",
    "[129600.000000] ",
    "2025-03-02T12:00:00 Z kernel: ",
    "2025-03-02T12:00:00 UTC-1 kernel: ",
]
REST = [
    "[1.5] NVRM: The NVIDIA GPU 0000:b3:00.0",
    " NVRM: (PCI ID: 10de:26b5) installed in this system has",
    " NVRM: fallen off the bus and is not responding to commands.",
    "Mar  3 12:00:00 gpu-1 cron[1]: x",
]


@st.composite
def lines(draw: st.DrawFn) -> str:
    address = draw(st.sampled_from(["PCI:0000:3b:00", "0000:3B:00.0", "3b:00", "PCI:0009:01:00"]))
    words = draw(
        st.sampled_from([*XIDS, test_xid.TO_RESET, test_xid.TO_NONE, "43", "0", "13\tx", "31, #012 é"])
    )
    prefix = draw(st.sampled_from(PREFIXES))
    message = f"NVRM: Xid ({address}): {words}"
    if draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(REST))
    text = prefix + message
    if draw(st.integers(0, 4)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["", " ", "#012", "é", "x", "9", "\t", '"'])) + text[at + 1 :]
    return text


@st.composite
def entries(draw: st.DrawFn) -> str:
    fields: dict[str, Any] = {
        "__REALTIME_TIMESTAMP": draw(
            st.sampled_from(["1740916800000000", "1", "99999999999999999", "x", 5, None])
        ),
        "_HOSTNAME": draw(st.sampled_from(["gpu-1", "gpu-1", "gpu-1:5", "-", "", None])),
        "_TRANSPORT": draw(st.sampled_from(["kernel", "kernel", "kernel", "syslog", None])),
        "MESSAGE": f"NVRM: Xid (PCI:0000:3b:00): {draw(st.sampled_from([*XIDS, 'a', '31 é', '31 #012 x']))}",
        "PRIORITY": draw(st.sampled_from(["3", "MESSAGE", "__REALTIME_TIMESTAMP", 3, ["a", "b"]])),
    }
    left = draw(st.sets(st.sampled_from(sorted(fields)), max_size=1))
    text = json.dumps({key: value for key, value in fields.items() if key not in left})
    if draw(st.integers(0, 5)) == 0:
        return text[:-1] + ', "MESSAGE": "NVRM: Xid (PCI:0000:3b:00): 13"}'
    if draw(st.integers(0, 5)) == 0:
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["", '"', "\\", "{", ","])) + text[at + 1 :]
    return text


def both(data: bytes, options: Options) -> tuple[Parsed | str, Parsed | str]:
    """Return what a log is read as, usual lines by columns and not."""

    def none_usual(
        numbers: Sequence[int], texts: Sequence[str], runs: Sequence[int], *_: Any
    ) -> xidcolumns.Usual:
        nothing = xidcolumns.usual([], [], [], options, xid.xids.table(options))
        return nothing._replace(left=list(range(len(texts))))

    def read() -> Parsed | str:
        try:
            return xid.read(data, "log", options)
        except InputError as error:
            return error.found

    fast = read()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(xid, "usual", none_usual)
        return fast, read()


def check(data: bytes, options: Options) -> int:
    fast, slow = both(data, options)
    if isinstance(fast, str) or isinstance(slow, str):
        # Which of several things that a file lacks is told first may differ.
        assert isinstance(fast, str) and isinstance(slow, str)
        return 0
    assert fast.events.equals(slow.events)
    assert fast.rejects.equals(slow.rejects)
    assert fast.rows_read == slow.rows_read
    return fast.events.height


FOUND = {"rows": 0}


@settings(max_examples=250)
@given(st.lists(lines(), min_size=1, max_size=8))
def test_lines_of_text(found: list[str]) -> None:
    for options in (ALL, BARE):
        FOUND["rows"] += check("\n".join(found).encode(), options)


@settings(max_examples=250)
@given(st.lists(entries(), min_size=1, max_size=6))
def test_entries_of_journald(found: list[str]) -> None:
    FOUND["rows"] += check("\n".join(found).encode(), ALL)


@settings(max_examples=150)
@given(test_xid.logs())
def test_any_bytes(data: bytes) -> None:
    FOUND["rows"] += check(data, test_xid.ALL)


def test_the_searches_above_met_rows() -> None:
    assert FOUND["rows"] > 500


def test_the_sample() -> None:
    sample = Path(__file__).parents[2] / "data" / "samples" / "xid.log"
    assert check(sample.read_bytes(), Options.of(tz="UTC", as_of="2025-04-01T00:00Z")) == 10


@pytest.mark.shared
def test_the_public_cases_and_real_lines(shared_dir: Path, shared_data: Path) -> None:
    logs = [*(shared_dir / "cases").glob("A*/*"), shared_data / "xid" / "xid_line_variants.txt"]
    assert sum(check(path.read_bytes(), test_xid.ALL) for path in logs if path.suffix != ".json") > 30


def test_most_lines_of_a_storm_are_usual() -> None:
    """The forms of rsyslog, new and old, and journald's JSON are read by columns."""
    stamp = '"__REALTIME_TIMESTAMP":"1740916800000000"'
    texts = [
        f"{PREFIXES[0]}{test_xid.FAULT}",
        f"{PREFIXES[8]}{test_xid.FAULT}",
        f'{{{stamp},"_HOSTNAME":"a","_TRANSPORT":"kernel","MESSAGE":"{test_xid.FAULT}"}}',
    ]
    table = xid.xids.table(ALL)
    for text in texts:
        rows, left = xidcolumns.usual([1], [text], [0], ALL, table)
        assert (left, rows["code"].to_list()) == ([], ["xid 119"])
    assert isinstance(rows, pl.DataFrame)
