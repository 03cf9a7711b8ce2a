"""Which files a user means, and their uncompressed bytes.

In: paths as typed (file, folder, glob, `-` for standard input). Out: names for the tables and bytes.
Names carry no folder of the machine: a file has its own name, a file below a folder or a glob its path from
there, so that the same log gives the same tables on every machine. Compression (.gz, .xz, .zst) is known by
the first bytes, not by the name. Files whose names begin with a dot are left out of folders.
"""

from __future__ import annotations

import gzip
import lzma
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from pipeline.errors import InputError

STDIN = "-"
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_MAGIC = "*?["


class Found(NamedTuple):
    """A file to read: its name in tables and messages, and its path (None: standard input)."""

    name: str
    path: Path | None


def find(paths: Iterable[str]) -> list[Found]:
    """Return the files that paths, folders and globs stand for; raise InputError when one stands for none."""
    found = {item.path: item for text in paths for item in _told(text)}  # a file named twice is read once
    if not found:
        raise InputError("PATH", "no path given", "a file, a folder, a glob or -")
    return list(found.values())


def read_bytes(found: Found) -> bytes:
    """Return a file's content, uncompressed; raise InputError when it cannot be read whole."""
    try:
        data = sys.stdin.buffer.read() if found.path is None else found.path.read_bytes()
    except OSError as error:
        raise InputError(found.name, f"cannot be read ({error.strerror})", "a readable file") from None
    if not data:
        raise InputError(found.name, "an empty file", "a log", "check that the copy or the pipe is whole")
    try:
        return _uncompressed(data)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError) as error:
        hint = "the file may be cut off: copy it again"
        raise InputError(found.name, f"cannot be uncompressed ({error})", "a whole file", hint) from None


def _told(text: str) -> list[Found]:
    try:
        return _find(text)
    except (OSError, ValueError) as error:  # a name too long, a pattern such as **x
        raise InputError(text, f"cannot be looked up ({error})", "a file, a folder, a glob or -") from None


def _find(text: str) -> list[Found]:
    if text == STDIN:
        return [Found("stdin", None)]
    if "://" in text:
        hint = "copy the file here, or pipe it in with -"
        raise InputError(text, "an address", "a file, a folder, a glob or -", hint)
    path = Path(text)
    if path.is_dir():
        below = (item for item in path.rglob("*") if item.is_file())
        return _named(text, path, (item for item in below if not _is_hidden(item.relative_to(path))))
    if path.exists():
        return [Found(path.name, path)]
    if any(mark in text for mark in _MAGIC):
        fixed = _before_magic(path)
        base = Path(*fixed) if fixed else Path()
        pattern = str(path.relative_to(base)) if fixed else text
        return _named(text, base, (item for item in base.glob(pattern) if item.is_file()))
    raise InputError(text, "no such file or folder", "a file, a folder, a glob or -")


def _named(text: str, base: Path, items: Iterable[Path]) -> list[Found]:
    found = [Found(item.relative_to(base).as_posix(), item) for item in sorted(items)]
    if not found:
        raise InputError(text, "no file matches", "at least one file")
    return found


def _before_magic(path: Path) -> list[str]:
    """Return the leading parts of a glob that hold no wildcard."""
    fixed = []
    for part in path.parts:
        if any(mark in part for mark in _MAGIC):
            break
        fixed.append(part)
    return fixed


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _uncompressed(data: bytes) -> bytes:
    if data.startswith(_GZIP):
        return gzip.decompress(data)
    if data.startswith(_XZ):
        return lzma.decompress(data)
    if data.startswith(_ZSTD):
        import pyarrow as pa

        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return bytes(stream.read())
    return data
