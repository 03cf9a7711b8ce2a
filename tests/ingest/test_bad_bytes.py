"""One byte that is no text, and line ends of old Macs, in the log of every source.

A log that crashed mid-write costs the row that stands there. What is one document, or a table, is refused
whole, with the line; no source ends with a traceback, and none leaves a damaged row out without a word.
"""

from __future__ import annotations

import re

import pytest

from pipeline.errors import InputError
from pipeline.ingest import sources
from pipeline.ingest.parsing import NOT_UTF8, Options, Parsed
from tests.contract.test_every_source import sample, sample_options

# A row (and what must stand in it to be one) of each source whose logs are lines.
ROWS = {
    "bgl": b"KERNDTLB",
    "fabricmanager": b"fatal error",
    "google-machine-events": b'"machine_id"',
    "hyperpod": b"HealthMonitoringAgentDetectionEvent",
    "mira": b"FATAL",
    "npd": b"New status generated: &{Source:",
    "nvsentinel": b'"isFatal"',
    "scontrol": b"NodeName=",
    "sinfo": b"down",
    "slurm-events": b"|DOWN",
    "slurmctld": b"not responding",
    "spot": b"remove",
    "xid": b"Xid",
}
# Tables and whole documents.
FILES = {"infinitehbd", "intervals", "lanl", "titan"}
# JSON documents one after the other, or in one list: the samples are one document.
DOCUMENTS = {"dcgm", "gpud", "k8s-events", "k8s-nodes"}
LINES = {  # where the sample is no text of lines
    "google-machine-events": b'{"time": "0", "machine_id": "1", "type": 1}\n'
    b'{"time": "700000000", "machine_id": "1", "type": 2}\n{"time": "0", "machine_id": "2", "type": 1}\n',
    "hyperpod": b'2026-03-01T00:00:00Z {"ts":"2026-03-01T00:00:00Z","details: ":{"message":"Node condition A'
    b' is now: True","reason":"a"},"HealthMonitoringAgentDetectionEvent":"HealthEvent"}\n' * 3,
}


def text(name: str) -> bytes:
    return LINES.get(name) or sample(name).read_bytes()


def options(name: str) -> Options:
    if name in LINES:
        return Options.of(node="n1", boot_time="2019-05-01T06:50Z")
    return sample_options(name)


def read(name: str, data: bytes) -> Parsed:
    parsed: Parsed = sources.load(name).read(data, "log.txt", options(name))
    return parsed


def damaged(data: bytes, mark: bytes) -> bytes:
    """Return a log with a bad byte behind the mark, in the last line that holds it."""
    lines = data.split(b"\n")
    (*_, place) = (number for number, line in enumerate(lines) if mark in line)
    at = lines[place].rindex(mark) + len(mark)
    lines[place] = lines[place][:at] + b"\xe4" + lines[place][at:]
    return b"\n".join(lines)


def test_every_source_is_listed() -> None:
    """A new source says which way a bad byte goes."""
    assert set(ROWS) | FILES | DOCUMENTS == set(sources.names())


@pytest.mark.parametrize("name", ROWS)
def test_a_bad_byte_costs_one_row(name: str) -> None:
    """All other rows are read, and the bad one is refused, or stands with a mark."""
    whole, parsed = read(name, text(name)), read(name, damaged(text(name), ROWS[name]))
    assert parsed.rejects.height == whole.rejects.height + 1
    assert 0 < parsed.events.height <= whole.events.height
    names = ["t_start", "kind", "node", "code"]
    assert parsed.events.join(whole.events, on=names, how="anti", nulls_equal=True).is_empty()
    assert any("\ufffd" in told for told in parsed.rejects["text"])


@pytest.mark.parametrize("name", sorted(FILES | DOCUMENTS))
def test_a_bad_byte_in_a_table_or_a_document_is_told_with_its_line(name: str) -> None:
    """One error for the file."""
    data = text(name)
    place = data.index(b"\n", len(data) // 2)
    line = data.count(b"\n", 0, place) + 1
    with pytest.raises(InputError, match=rf"log\.txt line {line}: byte 0xe4 is not UTF-8"):
        read(name, data[:place] + b"\xe4" + data[place:])


@pytest.mark.parametrize("name", sorted(DOCUMENTS))
def test_a_bad_byte_costs_one_of_several_documents(name: str) -> None:
    """As `kubectl get -w` writes them."""
    data = text(name).strip()
    place = data.rindex(b'"')
    bad = data[:place] + b"\xe4" + data[place:]
    whole, parsed = read(name, data), read(name, b"\n".join([data, bad]))
    assert parsed.events.height == whole.events.height
    assert parsed.rejects["reason"].to_list()[-1] == "not valid JSON"


@pytest.mark.parametrize("name", sources.names())
def test_lines_of_old_macs_are_read_alike(name: str) -> None:
    """A carriage return alone, or with a newline, ends a line as a newline does."""
    data = text(name)
    whole = read(name, data)
    for end in (b"\r", b"\r\n"):
        parsed = read(name, re.sub(rb"\r?\n", end, data))
        assert parsed.events.equals(whole.events)
        assert parsed.rows_read == whole.rows_read


@pytest.mark.parametrize("name", sources.names())
def test_utf_16_is_told(name: str) -> None:
    """As a shell of Windows writes files."""
    with pytest.raises(InputError, match=r"log\.txt"):
        read(name, text(name).decode().encode("utf-16"))


def test_the_reason_names_the_bytes() -> None:
    """What people count in `rejects`."""
    parsed = read("bgl", damaged(text("bgl"), ROWS["bgl"]))
    assert parsed.rejects["reason"].to_list() == [NOT_UTF8]
