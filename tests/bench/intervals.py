"""`python -m tests.bench.intervals [ROWS]`: the source `intervals` against DuckDB on the same CSV.

DuckDB reads the file and writes it as Parquet, with no rule for any row; the source reads it with all of its
rules; the ingest also gives every row its id and stores events, rejects and the file's own row. Processor
time first, because machines are shared; ratios are taken within one run. The memory is that of all three and,
within `python -m tests.bench`, of what ran before.
"""

from __future__ import annotations

import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from pipeline.ingest import run
from pipeline.ingest.parsing import Options
from pipeline.ingest.sources import intervals
from pipeline.lake.store import Lake

DEFAULT_ROWS = 1_000_000
ROUNDS = 3
NODES = 4_096
_YEAR_S, _2025_S = 31_536_000, 1_735_689_600


def write_log(path: Path, rows: int) -> None:
    """Write a CSV of outages of a year: node, start, end, component, reason."""
    rng = np.random.default_rng(1)
    starts = pl.Series(_2025_S + rng.integers(0, _YEAR_S, rows)) * 1_000_000
    ends = starts + pl.Series(rng.integers(60, 86_400, rows)) * 1_000_000
    components = pl.Series(["gpu", "nic", "host", "power"])
    pl.DataFrame(
        {
            "node": pl.Series(rng.integers(0, NODES, rows)).cast(pl.String).str.zfill(4),
            "start": starts.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "end": ends.cast(pl.Datetime("us")).dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": components.gather(rng.integers(0, len(components), rows)),
            "reason": ["seen by the health check"] * rows,
        }
    ).with_columns(node=pl.lit("node-") + pl.col("node")).write_csv(path)


class Cost(NamedTuple):
    """What a piece of work took: processor time of all threads, and time by the clock."""

    busy_s: float
    wall_s: float


def cost(work: Callable[[], object]) -> Cost:
    """Return what a piece of work takes."""
    before, began = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    work()
    wall_s, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF)
    return Cost(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall_s)


def table(rows: int) -> dict[str, Cost]:
    """Return what each way to take in a log of so many rows takes."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        log, lake = Path(folder) / "log.csv", Path(folder) / "lake"
        write_log(log, rows)
        with duckdb.connect() as con:
            copy = f"copy (from read_csv('{log}')) to '{folder}/log.parquet'"
            ways: dict[str, Callable[[], object]] = {
                "DuckDB, to Parquet": lambda: con.execute(copy),
                "the source": lambda: intervals.read(log.read_bytes(), "log.csv", Options()),
                "goodput ingest": lambda: _ingest(lake, log),
            }
            # In turn, so that none is always the first on a cold cache; the best counts.
            rounds = [{name: cost(way) for name, way in ways.items()} for _ in range(ROUNDS)]
    return {name: Cost(*map(min, zip(*(one[name] for one in rounds), strict=True))) for name in ways}


def _ingest(root: Path, log: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)
    run.ingest(Lake(root), "intervals", [str(log)], Options(), lambda _: None, strict=True)


def main(rows: int) -> None:
    """Print the table."""
    found = table(rows)
    base = found["DuckDB, to Parquet"]
    print(f"{rows:,} rows of node,start,end,component,reason")
    for name, taken in found.items():
        print(
            f"{name:20} {taken.busy_s:8.2f} s of processor time {taken.busy_s / base.busy_s:6.1f}x"
            f" {taken.wall_s:8.2f} s by the clock {taken.wall_s / base.wall_s:6.1f}x"
        )
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_ROWS)
