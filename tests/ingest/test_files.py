"""Files as they are handed in: compressed in one part or several, empty, cut off, followed by other bytes."""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from pipeline.errors import InputError
from pipeline.ingest.detect import detect
from pipeline.ingest.files import Found, open_stream, read_bytes

TEXT = b"".join(b"line %d of a log\n" % number for number in range(5_000))


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


HOW: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "xz": lzma.compress, "zst": zstd}


def whole(found: Found) -> bytes:
    return read_bytes(found)


def streamed(found: Found) -> bytes:
    with open_stream(found) as stream:
        return b"".join(iter(lambda: stream.read(1000), b""))


both_ways = pytest.mark.parametrize("read", [whole, streamed])
every_kind = pytest.mark.parametrize("kind", HOW)


def found(folder: Path, data: bytes) -> Found:
    path = folder / "log"
    path.write_bytes(data)
    return Found("log", path)


@both_ways
@every_kind
def test_what_was_compressed_in_parts_is_read_whole(
    tmp_path: Path, kind: str, read: Callable[[Found], bytes]
) -> None:
    """Logs that were rotated and joined, or written by several threads; an empty part changes nothing."""
    pack = HOW[kind]
    assert read(found(tmp_path, pack(TEXT))) == TEXT
    assert read(found(tmp_path, pack(TEXT) + pack(b"") + pack(b"end\n"))) == TEXT + b"end\n"


@both_ways
@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_padding_between_and_behind_parts_is_none_of_the_content(
    tmp_path: Path, kind: str, read: Callable[[Found], bytes]
) -> None:
    """Zeros, as tapes and both formats allow them."""
    pack = HOW[kind]
    assert read(found(tmp_path, pack(TEXT) + bytes(64) + pack(TEXT) + bytes(512))) == TEXT + TEXT


@both_ways
@pytest.mark.parametrize("kind", ["", *HOW])
def test_an_empty_content_is_an_empty_file(tmp_path: Path, kind: str, read: Callable[[Found], bytes]) -> None:
    """Compressed or not, nothing is nothing."""
    with pytest.raises(InputError, match="log: an empty file"):
        read(found(tmp_path, HOW[kind](b"") if kind else b""))


@both_ways
@every_kind
@pytest.mark.parametrize("kept", [7, 0.5, -1])
def test_a_file_that_is_cut_off_is_told(
    tmp_path: Path, kind: str, read: Callable[[Found], bytes], kept: float
) -> None:
    """Behind its first bytes, in the middle, one byte short, and in a second part."""
    data = HOW[kind](TEXT)
    data = data[: int(len(data) * kept)] if isinstance(kept, float) else data[:kept]
    for front in (b"", HOW[kind](TEXT)):
        with pytest.raises(InputError) as told:
            read(found(tmp_path, front + data))
        error = told.value
        assert error.where == "log"
        assert "cannot be uncompressed" in error.found
        assert (error.expected, error.hint) == ("a whole file", "the file may be cut off: copy it again")


@both_ways
@every_kind
@pytest.mark.parametrize("behind", [b"x", b"more text\n", b"\xfd7zXZ" * 3])
def test_other_bytes_behind_are_told_and_never_left_out(
    tmp_path: Path, kind: str, read: Callable[[Found], bytes], behind: bytes
) -> None:
    """A log that was appended to its compressed past: what stands behind would be lost without a word."""
    with pytest.raises(InputError) as told:
        read(found(tmp_path, HOW[kind](TEXT) + behind))
    error = told.value
    assert (error.where, error.found) == ("log", "other bytes behind its compressed content")
    assert error.expected
    assert error.hint


@both_ways
@pytest.mark.parametrize("kind", ["gz", "xz"])
def test_damage_within_is_told(tmp_path: Path, kind: str, read: Callable[[Found], bytes]) -> None:
    """One byte that is not what it was; zstd keeps a checksum only on request."""
    data = bytearray(HOW[kind](TEXT))
    data[len(data) // 2] ^= 0xFF
    with pytest.raises(InputError, match="log: cannot be uncompressed"):
        read(found(tmp_path, bytes(data)))


def test_detect_tells_what_cannot_be_read(tmp_path: Path) -> None:
    """Each file has its line, and the next one is looked at."""
    for name, data in {"a.gz": gzip.compress(b""), "b.xz": lzma.compress(TEXT)[:9]}.items():
        (tmp_path / name).write_bytes(data)
    assert [item.problem for item in detect([str(tmp_path)])] == [
        "an empty file",
        "cannot be uncompressed (its end is missing)",
    ]
