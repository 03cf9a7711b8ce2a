"""What `goodput doctor` looks at: versions, the catalog and its paths, free space, leftovers."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
from dataclasses import dataclass

from pipeline import __version__
from pipeline.errors import PipelineError
from pipeline.lake import catalog, sql, superseded
from pipeline.lake.store import Lake

PACKAGES = ("polars", "pyarrow", "duckdb", "numpy", "altair", "vl-convert-python")
LOW_SPACE_BYTES = 1 << 30


@dataclass(frozen=True)
class Finding:
    """One thing looked at."""

    what: str
    found: str
    is_good: bool = True
    hint: str = ""


def examine(lake: Lake) -> list[Finding]:
    """Return what was found, in a fixed order."""
    findings = [Finding("goodput-replay", f"{__version__} on Python {platform.python_version()}")]
    for name in PACKAGES:
        try:
            findings.append(Finding(name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            findings.append(Finding(name, "missing", is_good=False, hint="make setup"))
    findings.append(_space(lake))
    if not lake.root.is_dir():
        return [*findings, Finding("built data", f"none in {lake.root}", hint="goodput run demo")]
    return [*findings, *_manifest(lake), _catalog(lake), _leftovers(lake)]


def _space(lake: Lake) -> Finding:
    place = next(p for p in (lake.root.resolve(), *lake.root.resolve().parents) if p.exists())
    free = shutil.disk_usage(place).free
    good = free > LOW_SPACE_BYTES
    hint = "" if good else "free some space, or choose another --root"
    return Finding("free space", f"{free / (1 << 30):,.1f} GiB", good, hint)


def _manifest(lake: Lake) -> list[Finding]:
    try:
        records = lake.records()
    except PipelineError as error:
        return [Finding("manifest", error.found, is_good=False, hint=error.hint)]
    missing = [
        output.path
        for record in records.values()
        for output in record.outputs.values()
        if not lake.is_intact(output)
    ]
    if missing:
        found = f"{len(missing)} files missing or changed, e.g. {missing[0]}"
        return [Finding("manifest", found, is_good=False, hint="run the scenario again: it is rebuilt")]
    return [Finding("manifest", f"{len(records)} records, all files there")]


def _catalog(lake: Lake) -> Finding:
    path = lake.catalog_path
    if not path.is_file():
        return Finding("catalog", "none yet", hint="goodput run demo")
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True, config={"autoinstall_known_extensions": False}) as con:
            for table in catalog.base_tables(lake):
                con.execute(f'select * from "{catalog.table_name(table)}" limit 0').fetchall()
    except duckdb.Error as error:
        if "Could not set lock" in str(error):
            hint = "close it there, or open it read-only; goodput itself needs no lock on it"
            return Finding("catalog", " ".join(str(error).split()), is_good=False, hint=hint)
        try:
            with lake.lock(wait_s=0):
                catalog.write(lake)
        except (PipelineError, duckdb.Error, OSError):
            text = str(error).splitlines()[0]
            return Finding("catalog", text, is_good=False, hint="run any scenario again")
        return Finding("catalog", "its paths were stale (moved?); written anew")
    return Finding("catalog", f"{len(sql.load('3_metrics', '4_outcomes'))} macros, all views open")


def _leftovers(lake: Lake) -> Finding:
    stale = [path for path in lake.root.rglob(".*.tmp") if path.is_file()]
    unused = superseded.find(lake)
    if not stale and not unused:
        return Finding("leftovers", "none")
    size = sum(path.stat().st_size for path in (*stale, *unused))
    found = f"{len(stale)} temporary and {len(unused)} superseded files, {size / 1e6:,.1f} MB"
    return Finding("leftovers", found)
