"""Run a stage only when something it reads has changed.

A stage is named by (stage, scope). Its input hash covers the content of every table it reads, the
scenario values it uses and the meaning of its code: Python is hashed as a syntax tree and SQL
without comments, so a changed comment runs nothing. A stage that writes the same bytes as before
does not make later stages stale, because they look at content.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.metadata
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pipeline
from pipeline.lake.store import Lake, Output, Record, now, sha256_of, write_table

PACKAGE = Path(pipeline.__file__).parent
# A quoted text or name, which counts as it stands, or a stretch of comments and white space.
_SQL_SPACE = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|(?:\s|--[^\n]*|/\*.*?\*/)+""", re.DOTALL)

Build = Callable[[Path], tuple[dict[str, Path], dict[str, Any]]]
Log = Callable[[str], None]


def code_version(*places: str, alone: Sequence[str] = (), packages: Sequence[str] = ()) -> str:
    """Return a hash of the meaning of package files or folders and of all that they import.

    `places` are like `timelines` or `lake/sql.py`; imports are followed within the package, so a
    stage cannot forget a module it uses. What is found by folder at run time (a response, a figure)
    is not an import and must be named. Files in `alone` are hashed without their imports. The
    versions of `packages` count too: another DuckDB or Altair may give other bytes.
    """
    seen: dict[Path, str] = {path: _meaning(path).digest for place in alone for path in _files(place)}
    waiting = [path for place in places for path in _files(place)]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            found = _meaning(path)
            seen[path] = found.digest
            waiting += [target for name in found.imports if (target := _module_file(name))]
    named = sorted((path.relative_to(PACKAGE).as_posix(), digest) for path, digest in seen.items())
    versions = [(name, _version(name)) for name in sorted(packages)]
    return hashlib.sha256(json.dumps([named, versions]).encode()).hexdigest()


_version = functools.cache(importlib.metadata.version)  # it reads a file each time


class _Meaning(NamedTuple):
    """A module's hash, comments left out, and the names it imports from the package."""

    digest: str
    imports: frozenset[str]


_MEANINGS: dict[tuple[Path, int, int], _Meaning] = {}


def _meaning(path: Path) -> _Meaning:
    stat = path.stat()
    key = (path, stat.st_mtime_ns, stat.st_size)
    found = _MEANINGS.get(key)
    if found is None:
        tree = ast.parse(path.read_bytes())
        names: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module)
                names.update(f"{node.module}.{alias.name}" for alias in node.names)
        digest = hashlib.sha256(ast.dump(tree).encode()).hexdigest()
        ours = frozenset(name for name in names if name.partition(".")[0] == pipeline.__name__)
        found = _MEANINGS[key] = _Meaning(digest, ours)
    return found


def _files(place: str) -> list[Path]:
    target = PACKAGE / place
    return [target] if target.is_file() else sorted(target.rglob("*.py"))


def _module_file(name: str) -> Path | None:
    """Return the file of a module of the package; None for a name that is no module."""
    target = PACKAGE.joinpath(*name.split(".")[1:])
    for path in (target.with_suffix(".py"), target / "__init__.py"):
        if path.is_file():
            return path
    return None


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
    name = path.relative_to(lake.root).as_posix()
    return Output(name, sha256_of(path), rows, path.stat().st_size)


def write_tables(folder: Path, tables: Mapping[str, Any]) -> dict[str, Path]:
    """Write Arrow tables as `folder/<name>.parquet` and return their files by name."""
    files = {}
    for name, table in tables.items():
        files[name] = folder / f"{name}.parquet"
        write_table(files[name], table)
    return files
