"""journald's export format and JSON over several lines."""

from __future__ import annotations

import io
from datetime import datetime

import pytest

from pipeline.errors import InputError
from pipeline.ingest import journal
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import xid
from pipeline.ingest.textscan import LINES

FAULT = "NVRM: Xid (PCI:0000:3b:00): 119, pid=1, name=x, Timeout"
NOON = datetime(2025, 3, 2, 12)  # noqa: DTZ001 - tables hold UTC instants without a zone


def read(data: bytes) -> Parsed:
    return xid.read(data, "journal", Options())


def export(message: bytes, second: int = 0, transport: str = "kernel", host: str = "gpu-1") -> bytes:
    """Return an entry; a message with bytes that are not printable is told with its length."""
    stamp = 1_740_916_800_000_000 + second * 1_000_000
    told = b"MESSAGE=" + message + b"\n"
    if not all(32 <= byte < 127 for byte in message):
        told = b"MESSAGE\n" + len(message).to_bytes(8, "little") + message + b"\n"
    return (
        f"__CURSOR=s=1;i={second}\n__REALTIME_TIMESTAMP={stamp}\n__MONOTONIC_TIMESTAMP=5\n_BOOT_ID=1\n"
        f"_TRANSPORT={transport}\n".encode()
        + told
        + f"_HOSTNAME={host}\nPRIORITY=3\n\n".encode()
    )


def pretty(message: str, transport: str = "kernel") -> str:
    fields = {
        "__REALTIME_TIMESTAMP": '"1740916800000000"',
        "_TRANSPORT": f'"{transport}"',
        "MESSAGE": message,
        "_HOSTNAME": '"gpu-1"',
    }
    return "{\n" + ",\n".join(f'\t"{key}" : {value}' for key, value in fields.items()) + "\n}\n"


def test_an_export_is_read_by_entries() -> None:
    data = (
        export(b"usb 1-1: new device") + export(FAULT.encode(), 1) + export(FAULT.encode() + b"\x1b\n\n", 2)
    )
    parsed = read(data)
    assert parsed.rejects.is_empty()
    first, second = parsed.events.rows(named=True)
    assert (first["t_start"], first["node"], first["code"]) == (NOON.replace(second=1), "gpu-1", "xid 119")
    assert second["t_start"] == NOON.replace(second=2)
    # The number of the first line of an entry, which begins after a blank one.
    lines = data.split(b"\n")
    assert [lines[row - 1][:9] for row in parsed.events["row"]] == [b"__CURSOR="] * 2


def test_an_entry_of_another_program_and_a_command_that_quotes_an_xid_are_no_faults() -> None:
    data = export(FAULT.encode(), transport="syslog")
    data += export(b"x").replace(b"PRIORITY=3", b"_CMDLINE=grep " + FAULT.encode())
    assert read(data).rejects["reason"].to_list() == ["told by another program than the kernel"]
    assert read(data).events.is_empty()


def test_what_lacks_its_time_or_is_cut_off_is_refused() -> None:
    whole = export(FAULT.encode())
    untimed = whole.replace(b"__REALTIME_TIMESTAMP=1740916800000000\n", b"")
    assert read(untimed).rejects["reason"].to_list() == ["no timestamp"]
    binary = export(FAULT.encode() + b"\x1b")
    cut = export(b"x") + binary[: binary.index(b"\x1b")]
    assert read(cut).rejects["reason"].to_list() == ["a cut-off entry of the journal"]


def test_json_over_several_lines_is_read_by_objects() -> None:
    as_bytes = "[ " + ", ".join(map(str, FAULT.encode())) + " ]"
    spread = "[\n\t\t" + ",\n\t\t".join(map(str, FAULT.encode())) + "\n\t]"
    text = pretty('"usb"') + pretty(f'"{FAULT}"') + pretty(as_bytes) + pretty(spread)
    parsed = read(text.encode())
    assert parsed.rejects.is_empty()
    assert parsed.events["t_start"].to_list() == [NOON] * 3
    lines = text.split("\n")
    assert [lines[row - 1] for row in parsed.events["row"]] == ["{"] * 3
    cut = read((pretty('"usb"') + pretty(f'"{FAULT}"')[:-30]).encode())
    assert cut.rejects["reason"].to_list() == ["a cut-off or broken JSON object"]


def test_the_same_entries_in_small_pieces_are_the_same_rows() -> None:
    class Trickle(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(min(5, size) if size and size > 0 else 5)

    for data in (
        export(b"x") + export(FAULT.encode(), 1) + export(FAULT.encode() + b"\n", 2),
        (pretty('"usb"') + pretty(f'"{FAULT}"') * 3).encode(),
    ):
        again = xid.read_stream(Trickle(data), "journal", Options())
        assert again.events.equals(read(data).events)
        assert again.events.height >= 2


def test_the_form_is_told_by_the_first_bytes() -> None:
    assert journal.cut_of(b"__CURSOR=x") == journal.EXPORT
    assert journal.cut_of(b'{"MESSAGE":"x"}') == journal.cut_of(b"Mar  2 ") == LINES
    assert journal.cut_of(b"{\n") not in (LINES, journal.EXPORT)
    assert xid.looks_like(export(b"x"))
    assert xid.looks_like(pretty('"x"').encode())
    assert not xid.looks_like(b"__init__ = 1\n")


def test_a_quiet_journal_is_no_mistake_and_another_file_is_one() -> None:
    assert read(export(b"x")).rows_read == 0
    with pytest.raises(InputError, match="no line of a kernel log"):
        read(b"__all__ = 1\n")


def test_half_of_a_surrogate_pair_is_no_end_of_the_file() -> None:
    """JSON can write what no text may hold."""
    parsed = read(pretty(f'"{FAULT} \\ud800"').encode())
    assert parsed.events["reason"].to_list() == ["Xid 119, pid=1, name=x, Timeout ?"]
