"""JSON exports: one value, several, one a line, damaged ones; times, PCI addresses and Extended JSON."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone
from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.ingest import documents, sources
from pipeline.ingest.clock import epoch_us
from pipeline.ingest.parsing import IN_FUTURE, NO_ZONE, TOO_EARLY, Options, RefusedError
from pipeline.units import to_us

NONE = Options()
T = to_us(datetime(2026, 3, 1, 22, 40, 5, 417257, tzinfo=UTC))


def values(text: str) -> list[Any]:
    return [
        None if piece.is_broken else piece.value for piece in documents.pieces(text.encode(), "f", "JSON")
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1}', [{"a": 1}]),
        ('\ufeff {"a": 1}\n', [{"a": 1}]),
        ('{"a": 1}{"a": 2}\n{\n "a": 3\n}\n', [{"a": 1}, {"a": 2}, {"a": 3}]),
        ('{"a": 1}\n{"a": \n{"a": 3}\n', [{"a": 1}, None, {"a": 3}]),
        ('{"a": "x\n{"a": 3}\n', [None, {"a": 3}]),
        ('{"a": 1}\nError from server\n{"a": 3}\n', [{"a": 1}, None, {"a": 3}]),
        ('{"a": 1}\n{"a": 2', [{"a": 1}, None]),
        ('{"a": 1}\n{"a": ' + "9" * 5000 + '}\n{"a": 3}', [{"a": 1}, None, {"a": 3}]),
        ('{"a": 1}\n' + "[" * 100_000, [{"a": 1}, None]),
        ("[1.5]", [[Decimal("1.5")]]),
    ],
)
def test_documents_are_read_one_by_one(text: str, expected: list[Any]) -> None:
    """A damaged document is one broken piece; reading goes on at the next line that begins one."""
    assert values(text) == expected


@pytest.mark.parametrize("text", ["", "\n\n", "{", "[" * 100_000, "no JSON", '{"a": 1', "\x00" * 9])
def test_a_file_without_any_document_is_an_input_error(text: str) -> None:
    """What holds no document at all is another format, or cut off."""
    with pytest.raises(InputError, match=r"^f: "):
        values(text)


def test_a_bad_byte_costs_its_document() -> None:
    """One line of many is broken, with a mark where the byte was; in a file that is one document all is."""
    lines = b'\xef\xbb\xbf{"a": "\xc3\xa4"}\n{"a": "\xff\xe4"}\n{"a": "\\ud800"}\n'
    found = documents.pieces(lines, "f", "JSON")
    assert [piece.value for piece in found] == [{"a": "\u00e4"}, None, {"a": "\ud800"}]
    assert found[1] == documents.Piece(None, '{"a": "\ufffd\ufffd"}', is_broken=True)
    with pytest.raises(InputError, match="f line 2: byte 0xff is not UTF-8"):
        documents.pieces(b'{"a":\n"\xff"}', "f", "JSON")
    with pytest.raises(InputError, match="UTF-16"):
        documents.pieces('{"a": 1}'.encode("utf-16"), "f", "JSON")


def test_lines_of_old_macs_are_documents() -> None:
    """A broken line ends at its carriage return."""
    assert values('{"a": 1}\r{"a": \r{"a": 3}\r') == [{"a": 1}, None, {"a": 3}]


def test_many_broken_lines_cost_no_more_than_their_length() -> None:
    """Each broken line is skipped once."""
    found = values('{"a": 1}\n' + '{"a": [1, 2\n' * 20_000 + '{"a": 2}\n')
    assert (len(found), found[-1]) == (20_002, {"a": 2})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-03-01T22:40:05.417257Z", T),
        ("2026-03-01T22:40:05.417257999Z", T),
        ("2026-03-02T04:10:05.417257+05:30", T),
        (None, documents.NO_TIME),
        ("", documents.NO_TIME),
        ("0001-01-01T00:00:00Z", documents.NO_TIME),
        ("2026-03-01T22:40:05", NO_ZONE),
        ("9999-12-31T23:59:59Z", IN_FUTURE),
        ("1999-12-31T23:59:59Z", TOO_EARLY),
        (5, "a time that is not text"),
    ],
)
def test_times_are_cut_at_the_microsecond_and_never_guessed(value: Any, expected: int | str) -> None:
    """Go prints nanoseconds and writes a zero time for never."""
    if isinstance(expected, int):
        assert documents.instant_us(value, NONE) == expected
    else:
        with pytest.raises(RefusedError, match=expected):
            documents.instant_us(value, NONE)


@pytest.mark.parametrize(
    "value",
    [
        {"seconds": 1772404805, "nanos": 417257973},
        {"seconds": "1772404805", "nanos": "417257000"},
        {"seconds": {"$numberLong": "1772404805"}, "nanos": {"$numberInt": "417257001"}},
        "2026-03-01T22:40:05.417257973Z",
        {"$date": "2026-03-01T22:40:05.417257Z"},
    ],
)
def test_protobuf_times_have_several_spellings(value: Any) -> None:
    """Protobuf's JSON, its fields, and MongoDB's Extended JSON name one instant."""
    assert documents.protobuf_us(value, NONE) == T


def test_a_date_of_mongodb_is_in_milliseconds() -> None:
    """$date may hold $numberLong."""
    assert documents.protobuf_us({"$date": {"$numberLong": "1772404805417"}}, NONE) == T - 257


@pytest.mark.parametrize(
    "value", [{}, {"nanos": 5}, {"seconds": 1, "nanos": -1}, {"seconds": 10**40}, [], None]
)
def test_what_is_no_protobuf_time_is_refused(value: Any) -> None:
    """No time, a part of a second that is none, and 1970 are refused."""
    with pytest.raises(RefusedError):
        documents.protobuf_us(value, NONE)


@pytest.mark.shared
def test_pci_addresses_have_one_spelling(shared_dir: Path) -> None:
    """Case C15, with domains of 8 digits where the case keeps the low 4."""
    case = shared_dir / "cases" / "C15-pci-id-normalisation"
    lines = (case / "pci.txt").read_text().split()
    found = [documents.gpu_name(line) for line in lines]
    wanted = json.loads((case / "expected.json").read_text())["expected"]["normalised"]
    assert found == [f"0000{name}" for name in wanted]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU-00000000-0000-0000-0000-000000000003", "GPU-00000000-0000-0000-0000-000000000003"),
        ("GPU0000:00:1B.0", "00000000:00:1b"),
        ("", None),
        ("3", None),
        ("0000:zz:00", None),
        ("123456789:00:00", None),
    ],
)
def test_gpu_names(text: str, expected: str | None) -> None:
    """A UUID stands as it is; what is neither is no name."""
    assert documents.gpu_name(text) == expected


def test_rows_that_utf_8_cannot_spell_are_refused() -> None:
    """JSON can spell half of a surrogate pair: refused in a name, replaced in a text."""
    rows = documents.Rows()
    columns = {
        "t_start": T,
        "kind": "onset",
        "severity": "info",
        "scope": "node",
        "component": "gpu",
        "code": "x",
    }
    assert not rows.add({"n": "\ud800"}, lambda: {**columns, "node": "\ud800"})
    assert rows.add({}, lambda: {**columns, "node": "n", "reason": "\ud800" + "x" * 900})
    parsed = rows.parsed()
    assert parsed.rejects.rows() == [(1, documents.NOT_TEXT, '{"n": "?"}')]
    assert parsed.events["row"].to_list() == [2]
    assert parsed.events["t_start"].to_list() == [datetime(2026, 3, 1, 22, 40, 5, 417257)]


@pytest.mark.parametrize("text", ["1e999999999", "-1e999999999"])
def test_an_endless_exponent_is_no_number(text: str) -> None:
    """Arithmetic on it would overflow."""
    assert documents.whole(Decimal(text)) is None
    with pytest.raises(RefusedError):
        documents.protobuf_us({"seconds": Decimal(text)}, NONE)
    with pytest.raises(RefusedError):
        epoch_us(text, "s", NONE)


@pytest.mark.parametrize("source", ["k8s-nodes", "k8s-events", "nvsentinel", "gpud", "hyperpod", "npd"])
def test_what_stands_in_the_place_of_an_object_is_told_alone(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long list of another format costs its length once, not once an item."""
    told: list[str] = []

    def reject(self: documents.Rows, reason: str, item: Any) -> None:
        told.append(item if isinstance(item, str) else documents.text_of(item))

    monkeypatch.setattr(documents.Rows, "reject", reject)
    data = json.dumps([{"other": place} for place in range(50)]).encode()
    with pytest.raises(InputError):
        sources.load(source).read(data, "f.json", Options(node="n"))
    assert told == [f'{{"other": {place}}}' for place in range(50)]
