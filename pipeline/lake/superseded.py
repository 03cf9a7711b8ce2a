"""Files of past runs: which there are, and their removal when no reader can still hold them.

A file is superseded when it is a table of a run, `<stage>/<scope>/<hash>/<table>.parquet`, and no record of
the manifest names it. Readers who opened the catalog before it was rewritten go on reading such files.
Easy to get wrong: a file's own time says when it was written, not when its last reader may have come: a
table of last year may have been current until a minute ago. So `superseded.json` keeps when each was first
seen without a record, and its days are counted from there. A table that becomes current again is forgotten.
Temporary files of killed writers are no business of this module: who takes the lock removes them.
The caller of `clean` holds the lake's lock and has renewed the catalog, which may not name a file that goes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from pipeline.lake.store import Lake, remove, write_bytes
from pipeline.schema import HIDDEN_TABLES, TABLES

SEEN = "superseded.json"
# The stages whose runs have a folder each; pages and the catalog are replaced where they stand.
STAGES = ("ingest", "synth", "timelines", "replay")
_NAMES = {*TABLES, *HIDDEN_TABLES}
_RUN_FOLDER = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True)
class Cleaned:
    """What a cleaning removed, and what waits for its day."""

    files_removed: int
    bytes_removed: int
    files_waiting: int
    bytes_waiting: int


def find(lake: Lake) -> list[Path]:
    """Return the tables of past runs that no record names, sorted."""
    used = {output.path for record in lake.records().values() for output in record.outputs.values()}
    return sorted(path for path in _tables(lake) if path.relative_to(lake.root).as_posix() not in used)


def clean(lake: Lake, keep_d: float, at: datetime) -> Cleaned:
    """Remove what was superseded `keep_d` days before `at`, or earlier; remember the rest."""
    before, due = _seen(lake), at - timedelta(days=keep_d)
    waiting: dict[str, datetime] = {}
    removed_bytes: list[int] = []
    for path in find(lake):
        name = path.relative_to(lake.root).as_posix()
        since = before.get(name, at)
        if since > due:
            waiting[name] = since
            continue
        removed_bytes.append(path.stat().st_size)
        remove(path, below=lake.root)
    if waiting != before:
        content = {name: since.isoformat() for name, since in waiting.items()}
        write_bytes(lake.path(SEEN), json.dumps(content, indent=1).encode())
    return Cleaned(
        files_removed=len(removed_bytes),
        bytes_removed=sum(removed_bytes),
        files_waiting=len(waiting),
        bytes_waiting=sum(lake.path(name).stat().st_size for name in waiting),
    )


def _tables(lake: Lake) -> Iterator[Path]:
    for stage in STAGES:
        for path in lake.path(stage).rglob("*.parquet"):
            in_run = _RUN_FOLDER.fullmatch(path.parent.name)
            if in_run and path.stem in _NAMES and path.is_file() and not path.is_symlink():
                yield path


def _seen(lake: Lake) -> dict[str, datetime]:
    """Return when each file was first seen superseded; nothing when that cannot be read: all wait anew."""
    try:
        found = json.loads(lake.path(SEEN).read_text(encoding="utf-8"))
        return {str(name): datetime.fromisoformat(since) for name, since in found.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
