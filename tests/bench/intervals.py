"""`python -m tests.bench.intervals [ROWS]`: the source `intervals` against DuckDB on the same CSV.

DuckDB reads the file and writes it as Parquet, with no rule for any row; the source reads it with all of its
rules; the ingest also gives every row its id and stores events, rejects and the file's own row. Processor
time, because machines are shared; ratios are taken within one run.
"""

from __future__ import annotations

import resource
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from pipeline.ingest import run
from pipeline.ingest.parsing import Options
from pipeline.ingest.sources import intervals
from pipeline.lake.store import Lake

DEFAULT_ROWS = 1_000_000
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


def seconds(work: Callable[[], object]) -> float:
    """Return the processor time of a piece of work, of all threads."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(rows: int) -> dict[str, float]:
    """Return the processor time of each way to take in a log of so many rows."""
    import duckdb

    with tempfile.TemporaryDirectory() as folder:
        log, lake = Path(folder) / "log.csv", Path(folder) / "lake"
        write_log(log, rows)
        with duckdb.connect() as con:
            copy = f"copy (from read_csv('{log}')) to '{folder}/log.parquet'"
            return {
                "DuckDB, to Parquet": seconds(lambda: con.execute(copy)),
                "the source": seconds(lambda: intervals.read(log.read_bytes(), "log.csv", Options())),
                "goodput ingest": seconds(lambda: _ingest(lake, log)),
            }


def _ingest(root: Path, log: Path) -> None:
    run.ingest(Lake(root), "intervals", [str(log)], Options(), lambda _: None, strict=True)


def main() -> int:
    """Print the table."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_ROWS
    found = table(rows)
    base = found["DuckDB, to Parquet"]
    print(f"{rows:,} rows of node,start,end,component,reason")
    for name, taken_s in found.items():
        print(f"{name:20} {taken_s:8.2f} s of processor time {taken_s / base:6.1f}x")
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.1f} GiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
