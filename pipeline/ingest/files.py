"""Which files a user means, and their uncompressed bytes.

In: paths as typed (file, folder, glob, `-` for standard input). Out: names for the tables, and bytes: whole
(`read_bytes`), or as a stream for a log larger than memory (`open_stream`).
Names carry no folder of the machine: a file has its own name, a file below a folder or a glob its path from
there, so that the same log gives the same tables on every machine. Compression (.gz, .xz, .zst) is known by
the first bytes, not by the name; what was compressed in several parts is read whole, and what is cut off, or
followed by other bytes, is refused whole. Files whose names begin with a dot are left out of folders.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import sys
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, cast

from pipeline.errors import InputError

STDIN = "-"
_ALL = _GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd"
_MAGIC = "*?["
_BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError)
_HASH_AT_ONCE = 8 << 20
_PIECE = 1 << 20
# How readers tell that no part begins where one must: ours of xz, gzip's, zstd's.
_BEHIND = "no part begins", "Not a gzipped file", "Unknown frame descriptor"


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
        raise _unreadable(found, error) from None
    if data.startswith(_ALL):
        try:
            stream = _uncompressing(io.BytesIO(data), data[: len(_XZ)])
            data = b"".join(iter(lambda: stream.read(_HASH_AT_ONCE), b""))
        except _BROKEN as error:
            raise _damaged(found, error) from None
    if not data:
        raise _empty(found)
    return data


class Hashed:
    """A stream that is hashed while it is read, on a core of its own."""

    def __init__(self, found: Found, stream: BinaryIO) -> None:
        """Take the stream that `open_stream` opened."""
        self._found = found
        self._stream = stream
        self._hash = hashlib.sha256()
        self._held = memoryview(b"")
        self._pool = ThreadPoolExecutor(1)
        self._working: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next bytes; raise InputError when the file cannot be read or uncompressed."""
        if size < 0:
            return b"".join(iter(lambda: self.read(_HASH_AT_ONCE), b""))
        if not self._held:
            self._held = memoryview(self._next())
        whole = self._held.obj
        if isinstance(whole, bytes) and len(whole) == len(self._held) <= size:
            data, self._held = whole, memoryview(b"")  # as it is: to copy a whole log costs time
        else:
            data, self._held = bytes(self._held[:size]), self._held[size:]
        return data

    def is_empty(self) -> bool:
        """Return whether there is nothing to read, now."""
        if not self._held:
            self._held = memoryview(self._next())
        return not self._held

    def sha256(self) -> str:
        """Return the hash of the whole content; what was not read yet is read."""
        while self._next():
            pass
        return self._hash.hexdigest()

    def _next(self) -> bytes:
        """Read a large piece and have it hashed: in small ones the threads would wait for each other."""
        try:
            data = self._stream.read(_HASH_AT_ONCE)
        except _BROKEN as error:
            raise _damaged(self._found, error) from None
        if self._working:
            self._working.result()
        self._working = self._pool.submit(self._hash.update, data) if data else None
        return data


@contextmanager
def open_stream(found: Found) -> Iterator[Hashed]:
    """Open a file's content, uncompressed, to be read once; raise InputError when it cannot be read."""
    with ExitStack() as stack:
        try:
            raw = sys.stdin.buffer if found.path is None else stack.enter_context(found.path.open("rb"))
            head = cast("io.BufferedReader", raw).peek(len(_XZ))[: len(_XZ)]
        except OSError as error:
            raise _unreadable(found, error) from None
        hashed = stack.enter_context(Hashed(found, _uncompressing(raw, head)))
        if hashed.is_empty():
            raise _empty(found)
        yield hashed


def _uncompressing(raw: BinaryIO, head: bytes) -> BinaryIO:
    if head.startswith(_GZIP):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if head.startswith(_XZ):
        return cast("BinaryIO", _Xz(raw))
    if head.startswith(_ZSTD):
        import pyarrow as pa

        return cast("BinaryIO", pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"))
    return raw


class _Xz:
    """The content of an .xz file, its parts one after the other.

    Python's own reader takes no padding between parts, and is silent about other bytes behind them.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._part, self._begun = lzma.LZMADecompressor(lzma.FORMAT_XZ), b""

    def read(self, size: int) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        while True:
            if self._part.eof and not self._begin_next():
                return b""
            piece = b""
            if self._part.needs_input:
                piece, self._begun = self._begun or self._raw.read(_PIECE), b""
                if not piece:
                    raise EOFError("its end is missing")
            if data := self._part.decompress(piece, size):
                return data

    def _begin_next(self) -> bool:
        """Begin the next part; return False when there is none."""
        left = self._part.unused_data.lstrip(b"\0")
        while not left and (piece := self._raw.read(_PIECE)):
            left = piece.lstrip(b"\0")
        if left and not (left := left + self._raw.read(len(_XZ))).startswith(_XZ):
            raise lzma.LZMAError(_BEHIND[0])
        self._part, self._begun = lzma.LZMADecompressor(lzma.FORMAT_XZ), left
        return bool(left)


def _unreadable(found: Found, error: OSError) -> InputError:
    return InputError(found.name, f"cannot be read ({error.strerror})", "a readable file")


def _empty(found: Found) -> InputError:
    return InputError(found.name, "an empty file", "a log", "check that the copy or the pipe is whole")


def _damaged(found: Found, error: Exception) -> InputError:
    if any(told in str(error) for told in _BEHIND):
        expected, hint = "compressed content to its end", "remove what stands behind it, or copy it again"
        return InputError(found.name, "other bytes behind its compressed content", expected, hint)
    hint = "the file may be cut off: copy it again"
    return InputError(found.name, f"cannot be uncompressed ({error})", "a whole file", hint)


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
