"""The one module that writes: temporary name, fsync, rename; and the manifest of what is current.

A reader sees the old file or the new one, never half of one, whenever the writer is killed. Data
files are immutable (each run writes new names); `manifest.jsonl` says which are current. It grows by one line
a record, because thousands of files in one command would else rewrite it thousands of times; a last line
without its end is no line, so a stage becomes visible as a whole or not at all. It is written anew, by
rename, when most of its lines are out of date. A killed writer leaves its temporary file, which the next run
removes. Longer than other modules, because no other one writes.

    root/raw/<source>/<file>            fetched public traces
    root/<stage>/<scope>/<hash>/*.parquet   tables of one run of a stage
    root/runs/<run_id>.parquet          one row per run of a stage
    root/goodput.duckdb                 views and macros for people
    root/reports/<scenario>/index.html  the page
    root/superseded.json                when each table of a past run was first seen without a record
    root/batch/summary.json             how the last batch went
    root/spill/                         what does not fit into memory, while DuckDB works on it
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from pipeline.errors import BusyError, InputError
from pipeline.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

MANIFEST = "manifest.jsonl"
_OLD_MANIFEST = "manifest.json"  # until format 2
CATALOG = "goodput.duckdb"
_FORMAT = 3  # 3: one line a record; other ids of events
_SPARE_LINES = 100  # lines out of date that are not worth a rewrite
_CHUNK_BYTES = 1 << 20
_POLL_S = 0.2
CHECKED_BYTES = 64 << 20
# A temporary name that `replacing` gives, and DuckDB's log beside one.
_LEFTOVER = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp(\.wal)?")
_AWKWARD = "\\?"  # DuckDB reads them as a separator and as a pattern


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside `path`; when the block ends well, it is synced and renamed to `path`.

    When the block raises, the temporary file is removed and `path` stays as it was.
    """
    _make_folder(path.parent)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        _sync(temporary)
        temporary.chmod(0o644)
        temporary.replace(path)
        _sync(path.parent)
    except BaseException:
        for left in (temporary, Path(f"{name}.wal")):  # the second is DuckDB's log
            left.unlink(missing_ok=True)
        raise


def write_bytes(path: Path, content: bytes) -> None:
    """Replace `path` by these bytes."""
    with replacing(path) as temporary:
        temporary.write_bytes(content)


@dataclass(frozen=True)
class Pieces:
    """A long table that is made while it is written: Arrow tables of one schema, at least one.

    Columns of codes into words are written as such and read as plain ones. `encodings` names Parquet's
    encoding of columns whose values hardly repeat; `ranges` are the columns whose least and largest values
    are worth the time to find them.
    """

    tables: Iterable[pa.Table]
    encodings: Mapping[str, str] = field(default_factory=dict)
    ranges: Sequence[str] = ()


def write_table(path: Path, table: pa.Table | Pieces, metadata: Mapping[str, str] | None = None) -> None:
    """Replace `path` by a Parquet file of this Arrow table (zstd, with key-value metadata)."""
    import pyarrow.parquet as pq

    try:
        if isinstance(table, Pieces):
            with replacing(path) as temporary:
                _write_pieces(temporary, table)
            return
        if metadata:
            table = table.replace_schema_metadata({**(table.schema.metadata or {}), **metadata})
        with replacing(path) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    except OSError as error:
        if error.filename is not None:
            raise
        # Arrow says what went wrong, but not where.
        raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from error


def _write_pieces(path: Path, pieces: Pieces) -> None:
    import pyarrow.parquet as pq

    tables = iter(pieces.tables)
    first = next(tables)
    with pq.ParquetWriter(
        path,
        first.schema,
        compression="zstd",
        store_schema=False,  # else readers are told that columns are codes
        use_dictionary=[name for name in first.schema.names if name not in pieces.encodings],
        column_encoding=dict(pieces.encodings),
        write_statistics=list(pieces.ranges),
    ) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table)


def copy_file(source: Path, path: Path) -> None:
    """Replace `path` by a copy of `source`."""
    with replacing(path) as temporary:
        shutil.copyfile(source, temporary)


def remove(path: Path, below: Path) -> None:
    """Remove a file, then the folders over it that are left empty, up to `below`, which stays."""
    assert path.is_relative_to(below), f"{path} is not below {below}"
    path.unlink(missing_ok=True)
    for folder in path.parents:
        if folder == below or any(folder.iterdir()):
            break
        folder.rmdir()


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _make_folder(folder: Path) -> None:
    """Make a folder, and those it lies in, with their names on disk before a record can name them."""
    if not folder.is_dir():
        _make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        _sync(folder.parent)


def _remove_leftovers(root: Path) -> None:
    """Remove temporary files of writers that were killed; only who holds the lock knows that they are dead.

    One that cannot be removed does no harm.
    """
    for folder, _, names in os.walk(root):
        for name in filter(_LEFTOVER.fullmatch, names):
            with contextlib.suppress(OSError):
                Path(folder, name).unlink()


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@dataclass(frozen=True)
class Output:
    """One current output of a stage: its file (relative to the root), hash, number of rows and size."""

    path: str
    sha256: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Record:
    """The last good run of a stage for a scope (a scenario, or one ingested file)."""

    stage: str
    scope: str
    input_hash: str
    code_version: str
    run_id: str
    ended_at: str
    outputs: dict[str, Output]
    facts: dict[str, Any] = field(default_factory=dict)


class Lake:
    """The home of built data: paths, the manifest, and the lock that lets one run write at a time."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._read: tuple[tuple[int, int, int], _Manifest] | None = None

    def path(self, *parts: str) -> Path:
        """Return a path under the root."""
        return self.root.joinpath(*parts)

    @property
    def catalog_path(self) -> Path:
        """The DuckDB file of views and macros."""
        return self.root / CATALOG

    @contextlib.contextmanager
    def lock(self, on_wait: Callable[[], None] | None = None, wait_s: float | None = None) -> Iterator[None]:
        """Hold the root's write lock; wait for another run, after telling the user through `on_wait`.

        Raise BusyError when it still holds the root after `wait_s` seconds (None: wait for ever).
        """
        bad = sorted(set(_AWKWARD) & set(str(self.root)))
        if bad:
            raise InputError(str(self.root), f"a root with {' and '.join(bad)}", "a path without \\ and ?")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            stream = (self.root / ".lock").open("w")
        except OSError as error:
            hint = "choose another folder with --root"
            raise InputError(str(self.root), f"cannot be written ({error.strerror})", hint=hint) from error
        with stream:
            if not _locks(stream):
                if on_wait and wait_s != 0:
                    on_wait()
                if wait_s is None:
                    fcntl.flock(stream, fcntl.LOCK_EX)
                elif not _locks_within(stream, wait_s):
                    raise BusyError(
                        str(self.root), "another run holds this root", hint="try again when it has ended"
                    )
            _remove_leftovers(self.root)
            yield

    def records(self) -> dict[str, Record]:
        """Return the current record of every stage and scope, by `stage/scope`."""
        return dict(sorted(self._manifest().records.items()))

    def _manifest(self) -> _Manifest:
        """Return what the manifest says, parsed again only when another run has written to it."""
        path = self.root / MANIFEST
        version = _version(path)
        if version is None:
            if (self.root / _OLD_MANIFEST).is_file():
                raise InputError(str(path), "a root of an older version", f"format {_FORMAT}", _REBUILD)
            return _Manifest({}, 0, 0)
        if self._read is None or self._read[0] != version:
            self._read = (version, _parsed(path))
        return self._read[1]

    def record(self, stage: str, scope: str) -> Record | None:
        """Return the current record of a stage for a scope, if its files are there as they were written.

        A page and the catalog have fixed names: after a kill between such a file and its record, the
        file is of another run than the record says.
        """
        found = self._manifest().records.get(f"{stage}/{scope}")
        if found and all(self.is_intact(output) for output in found.outputs.values()):
            return found
        return None

    def is_intact(self, output: Output) -> bool:
        """Return whether a file is there with its size and, up to CHECKED_BYTES, with its hash."""
        path = self.root / output.path
        if not path.is_file() or path.stat().st_size != output.bytes:
            return False
        return output.bytes > CHECKED_BYTES or sha256_of(path) == output.sha256

    def publish(self, record: Record) -> None:
        """Make a record current: it is on disk when this returns."""
        path, manifest = self.root / MANIFEST, self._manifest()
        manifest.records[f"{record.stage}/{record.scope}"] = record
        self._read = None  # should the write fail
        if manifest.lines and manifest.lines < 2 * len(manifest.records) + _SPARE_LINES:
            line = _line(record)
            _append(path, manifest.bytes, line)
            manifest = manifest._replace(lines=manifest.lines + 1, bytes=manifest.bytes + len(line))
        else:
            rows = [manifest.records[key] for key in sorted(manifest.records)]
            content = b"".join([_HEADER, *map(_line, rows)])
            write_bytes(path, content)
            manifest = _Manifest(manifest.records, len(rows) + 1, len(content))
        version = _version(path)
        self._read = version and (version, manifest)

    def table(self, record: Record, name: str) -> Path:
        """Return the file of one of a record's tables."""
        return self.root / record.outputs[name].path

    def write_run(self, row: Mapping[str, Any]) -> None:
        """Write one row of `runs`."""
        import pyarrow as pa

        table = pa.Table.from_pylist([dict(row)], schema=arrow_schema("runs"))
        write_table(self.root / "runs" / f"{row['run_id']}.parquet", table)


def _locks(stream: IO[str]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _locks_within(stream: IO[str], wait_s: float) -> bool:
    deadline = time.monotonic() + wait_s
    while (left_s := deadline - time.monotonic()) > 0:
        time.sleep(min(_POLL_S, left_s))
        if _locks(stream):
            return True
    return False


_REBUILD = "remove the folder and run again; raw logs are not in it unless they were fetched"


_HEADER = json.dumps({"format": _FORMAT}).encode() + b"\n"


class _Manifest(NamedTuple):
    """The current records, and how many lines and bytes of the file tell them."""

    records: dict[str, Record]
    lines: int
    bytes: int


def _parsed(path: Path) -> _Manifest:
    """Return what a manifest says; raise InputError when it is not one of ours."""
    lines = path.read_bytes().split(b"\n")
    try:
        found = json.loads(lines[0])["format"]
        if found != _FORMAT:
            raise InputError(str(path), f"format {found!r}", f"format {_FORMAT}", _REBUILD)
        first, *others = lines[1:-1]  # the last one has no end: it was not written whole
        rows = [_record(first)]
        try:
            rows += [_record(line) for line in others]
        except ValueError:
            # A power cut may leave the end of the last line without its beginning: nobody was told of it.
            rows += [_record(line) for line in others[:-1]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(str(path), "not a readable manifest", hint=_REBUILD) from error
    size = sum(len(line) + 1 for line in lines[: len(rows) + 1])
    return _Manifest({f"{row.stage}/{row.scope}": row for row in rows}, len(rows) + 1, size)


def _record(line: bytes) -> Record:
    row = json.loads(line)
    return Record(**{**row, "outputs": {name: Output(**output) for name, output in row["outputs"].items()}})


def _line(record: Record) -> bytes:
    plain = dict(vars(record))
    plain["outputs"] = {name: dict(vars(output)) for name, output in record.outputs.items()}
    return json.dumps(plain, sort_keys=True).encode() + b"\n"


def _append(path: Path, end: int, line: bytes) -> None:
    """Write a line after the first `end` bytes of a file; what a killed writer left behind is cut off."""
    try:
        with path.open("r+b") as stream:
            stream.truncate(end)
            stream.seek(end)
            stream.write(line)
        _sync(path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.truncate(path, end)
        raise


def _version(path: Path) -> tuple[int, int, int] | None:
    """Return what differs when another run has written to a file; None when there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def now() -> datetime:
    """Return the current instant, UTC."""
    return datetime.now(UTC)
