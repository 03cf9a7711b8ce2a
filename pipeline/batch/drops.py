"""Take the files of a drop into the lake: each content once, each file on its own.

A file that is absent, unreadable or broken is noted and the next one is taken. One that changed less than
`settle_s` ago is still being written and is left for the next time. Easy to get wrong: the instant that
counts is the inode's change (ctime), because copying tools set a file's own time (mtime) to that of the
original.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.batch import summary
from pipeline.batch.config import Batch, Drop
from pipeline.batch.journal import Journal
from pipeline.batch.stop import Stop
from pipeline.batch.summary import DropResult, exit_code_of, told
from pipeline.errors import CheckFailedError, InputError
from pipeline.ingest import run as ingest
from pipeline.ingest import topology
from pipeline.ingest.files import Found, find
from pipeline.ingest.parsing import Options
from pipeline.lake.store import Lake, Record

_MAGIC = "*?["


@dataclass(frozen=True)
class Taker:
    """Takes in the files of drops."""

    batch: Batch
    lake: Lake
    journal: Journal
    stop: Stop

    def take(self, drop: Drop, result: DropResult) -> None:
        """Ingest what is new in a drop and note in `result` what became of every file."""
        result.status = summary.RUNNING
        try:
            map_file = None if drop.topology is None else Path(self.batch.place(drop.topology))
            found = [
                item for item in listed(self.batch.place(drop.path)) if not _is_same(item.path, map_file)
            ]
            result.files_found = len(found)
            records = []
            for item in found:
                record = self._take(drop, item, result)
                if record is not None:
                    records.append(record)
                if result.failed and not self.batch.keep_going:
                    break
            if map_file is not None and not self._is_left(map_file, map_file.name, drop, result):
                self._keep(map_file, drop, records)
            if drop.strict and result.rejected:
                self._refuse(drop, result)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other drops are taken
            self.stop.check()
            result.error = told(error)
            result.exit_code = summary.worst([result.exit_code, exit_code_of(error)])
            self.journal.error("drop_failed", **_of(drop), **result.error)
        result.status = summary.FAILED if result.exit_code else summary.DONE
        counts = {key: value for key, value in vars(result).items() if key.startswith(("files_", "rows_"))}
        self.journal.info("drop_done", **_of(drop), status=result.status, **counts)

    def _is_left(self, path: Path, name: str, drop: Drop, result: DropResult) -> bool:
        """Return whether a file is still being written, and note that it is left for the next time."""
        if not is_settling(path, self.batch.settle_s):
            return False
        result.files_left += 1
        result.left.append(name)
        of, settle_s = {**_of(drop), "file": name}, self.batch.settle_s
        self.journal.info("file_left", **of, why="still being written", settle_s=settle_s)
        return True

    def _keep(self, path: Path, drop: Drop, records: list[Record]) -> None:
        """Keep the topology of the drop's cluster, and note how its names and those of the logs meet."""
        cluster = drop.cluster or Options.cluster
        given = topology.read(path, drop.topology_label, "topology")
        met = topology.meet(self.lake, given, records, cluster)
        topology.keep(self.lake, given, cluster, lambda _: None)
        counts = {
            key: value if isinstance(value, (str, int)) else len(value) for key, value in vars(met).items()
        }
        self.journal.info("topology_kept", **_of(drop), **counts)

    def _take(self, drop: Drop, found: Found, result: DropResult) -> Record | None:
        """Ingest a file; return its record, or None when it failed or is left for the next time."""
        assert found.path is not None, "a drop is never standard input"
        of = {**_of(drop), "file": found.name}
        try:
            if self._is_left(found.path, found.name, drop, result):
                return None
            started = time.monotonic()
            options = drop.options(self.batch.path.parent)
            record, ran = ingest.ingest_file(
                self.lake, drop.source, found.path, options, lambda _: None, name=found.name
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the other files are taken
            self.stop.check()
            result.files_failed += 1
            result.failed.append({"file": found.name, **told(error)})
            result.exit_code = summary.worst([result.exit_code, exit_code_of(error)])
            self.journal.error("file_failed", **of, **told(error))
            return None
        counts: dict[str, int] = {key: record.facts[key] for key in _ROWS}
        if counts["rows_rejected"] and (ran or drop.strict):
            result.rejected.append({"file": found.name, "rows_rejected": counts["rows_rejected"]})
        if not ran:
            result.files_skipped += 1
            self.journal.info("file_skipped", **of, why="ingested before")
            return record
        result.files_ingested += 1
        for key, rows in counts.items():
            setattr(result, key, getattr(result, key) + rows)
        tell = self.journal.warning if counts["rows_rejected"] else self.journal.info
        tell("file_ingested", **of, **counts, duration_s=round(time.monotonic() - started, 3))
        return record

    def _refuse(self, drop: Drop, result: DropResult) -> None:
        rows = sum(item["rows_rejected"] for item in result.rejected)
        names = [item["file"] for item in result.rejected]
        where = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        hint = "see the table `rejects`; send the file again and take the old one away"
        raise CheckFailedError(f"{drop.path}: {where}", f"{rows} rows rejected", "none (strict)", hint)


def _is_same(path: Path | None, other: Path | None) -> bool:
    return path is not None and other is not None and path.resolve() == other.resolve()


_ROWS = ("rows_read", "rows_accepted", "rows_rejected")


def _of(drop: Drop) -> dict[str, Any]:
    return {"drop": drop.path, "source": drop.source}


def listed(place: str) -> list[Found]:
    """Return the files of a folder, a file or a glob; none of an empty folder.

    Raise InputError when the file, or the folder to look in, is absent or may not be read.
    """
    path = Path(place)
    base = path if path.exists() else next(p for p in (path, *path.parents) if not _has_magic(p))
    if base.is_dir() and not os.access(base, os.R_OK | os.X_OK):
        raise InputError(place, "may not be read", "a folder that this user may read")
    try:
        return find([place])
    except InputError:
        if base.is_dir():
            return []
        raise


def _has_magic(path: Path) -> bool:
    return any(mark in str(path) for mark in _MAGIC)


def is_settling(path: Path, settle_s: float) -> bool:
    """Return whether a file changed less than `settle_s` seconds ago; raise InputError when it is gone."""
    try:
        changed_s = path.stat().st_ctime
    except OSError as error:
        hint = "it was there when the folder was listed"
        raise InputError(path.name, f"cannot be read ({error.strerror})", "a file", hint) from None
    return settle_s > 0 and time.time() - changed_s < settle_s
