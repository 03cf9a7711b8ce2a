"""Run a stage only when something it reads has changed.

A stage is named by (stage, scope). Its input hash covers the content of every table it reads, the
scenario values it uses and the meaning of its code: Python is hashed as a syntax tree and SQL
without comments, so a changed comment runs nothing. A stage that writes the same bytes as before
does not make later stages stale, because they look at content.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pipeline
from pipeline.lake.store import Lake, Output, Record, now, sha256_of, write_table

PACKAGE = Path(pipeline.__file__).parent
# A quoted text or name, which counts as it stands, or a stretch of comments and white space.
_SQL_SPACE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?:\s|--[^\n]*|/\*.*?\*/)+""", re.DOTALL)

Build = Callable[[Path], tuple[dict[str, Path], dict[str, Any]]]
Log = Callable[[str], None]


def code_version(*places: str) -> str:
    """Return a hash of the meaning of package files or folders, e.g. `timelines`, `lake/sql.py`."""
    digest = hashlib.sha256()
    for place in places:
        target = PACKAGE / place
        files = [target] if target.is_file() else sorted(target.rglob("*.py"))
        for path in files:
            digest.update(path.relative_to(PACKAGE).as_posix().encode())
            digest.update(ast.dump(ast.parse(path.read_bytes())).encode())
    return digest.hexdigest()


def sql_version(paths: Iterable[Path]) -> str:
    """Return a hash of SQL files by their words: comments and white space do not count."""
    digest = hashlib.sha256()
    for path in sorted(paths):
        text = _SQL_SPACE.sub(lambda hit: hit[0] if hit[0][0] in "'\"" else " ", path.read_text("utf-8"))
        digest.update(f"{path.name}\n{text.strip()}\n".encode())
    return digest.hexdigest()


def input_hash(inputs: Mapping[str, Any]) -> str:
    """Return a hash of named inputs."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()


def content(record: Record, *names: str) -> dict[str, str]:
    """Return the content hashes of a record's tables (all of them when none is named)."""
    return {name: record.outputs[name].sha256 for name in names or sorted(record.outputs)}


def run(
    lake: Lake,
    stage: str,
    scope: str,
    *,
    inputs: Mapping[str, Any],
    code: str,
    build: Build,
    log: Log,
    scenario: str = "",
    seed: str = "",
) -> tuple[Record, bool]:
    """Return the current record of a stage, building it when its inputs or code have changed.

    `build(folder)` writes its tables into a new folder and returns them by name, with facts worth
    keeping (numbers, texts). The second value says whether it ran. When it raises, the old record
    stays current and the run is noted as failed.
    """
    wanted = input_hash(dict(inputs))
    current = lake.record(stage, scope)
    if current and current.input_hash == wanted and current.code_version == code:
        return current, False
    run_id = f"{now():%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    folder = lake.path(stage, scope, wanted[:12] + code[:4])
    row = {
        "run_id": run_id,
        "stage": stage,
        "scenario": scenario,
        "started_at": now().replace(tzinfo=None),
        "code_version": code[:12],
        "input_hash": wanted,
        "seed": seed,
    }
    log(f"{stage} {scope}")
    try:
        tables, facts = build(folder)
    except BaseException:
        lake.write_run({**row, "ended_at": now().replace(tzinfo=None), "status": "failed"})
        raise
    outputs = {name: _output(lake, path) for name, path in tables.items()}
    ended = now()
    record = Record(stage, scope, wanted, code, run_id, ended.isoformat(), outputs, facts)
    lake.publish(record)
    lake.write_run({**row, "ended_at": ended.replace(tzinfo=None), "status": "done"})
    return record, True


def _output(lake: Lake, path: Path) -> Output:
    rows = 0
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        rows = pq.read_metadata(path).num_rows
    return Output(path.relative_to(lake.root).as_posix(), sha256_of(path), rows)


def write_tables(folder: Path, tables: Mapping[str, Any]) -> dict[str, Path]:
    """Write Arrow tables as `folder/<name>.parquet` and return their files by name."""
    files = {}
    for name, table in tables.items():
        files[name] = folder / f"{name}.parquet"
        write_table(files[name], table)
    return files
