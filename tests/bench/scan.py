"""`python -m tests.bench.scan [MB]`: a big syslog and a storm of Xids.

The syslog: the time to ingest its Xids, and the times in which DuckDB and polars count them. The storm: the
time to read it, and the time in which the SQL folds it to incidents. Ratios are taken within one run on one
machine: each way is run in turn, thrice, and its best time counts. The syslog is bounded by its bytes: each
is hashed by one core, and looked at six times by another (five pairs of letters, the newlines) in its cache.
"""

from __future__ import annotations

import math
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import duckdb
import polars as pl

from pipeline.config import Trace
from pipeline.ingest import run
from pipeline.ingest.parsing import Options
from pipeline.ingest.sources import xid
from pipeline.lake import open_ends, sql
from pipeline.lake.store import Lake
from pipeline.timelines import run as timelines

XID_FRAC = 0.001
_LINES = 100_000
_ROUNDS = 3
_AS_OF = "2025-10-01T00:00Z"
_OPTIONS = Options.of(tz="UTC", as_of=_AS_OF)
_OTHERS = (
    "systemd[1]: Started Session {} of user root.",
    "sshd[{}]: Accepted publickey for svc from 10.0.0.7 port 51234 ssh2",
    "kernel: [{}.123456] IPv6: ADDRCONF(NETDEV_CHANGE): eth0: link becomes ready",
    "kubelet[{}]: operation_generator.go:722] MountVolume.SetUp succeeded for volume token",
)


def write_syslog(path: Path, size_mb: int) -> int:
    """Write a syslog of about that size without years; return its lines with an Xid."""
    dice = random.Random(1)
    moment = datetime(2025, 3, 1)  # noqa: DTZ001 - a local clock time
    lines, xids = [], 0
    for number in range(_LINES):
        moment += timedelta(milliseconds=dice.randint(1, 900))
        head = f"{moment:%b %e %H:%M:%S} gpu-{dice.randint(1, 400):03d} "
        if dice.random() < XID_FRAC:
            xids += 1
            code = dice.choice((13, 31, 43, 79, 119))
            where = f"kernel: [{number}.123456] NVRM: Xid (PCI:0000:{dice.randint(1, 8):02x}:00): {code}, "
            lines.append(f"{head}{where}pid={number}, name=python3, Ch 00000010")
        else:
            lines.append(head + dice.choice(_OTHERS).format(number))
    block = ("\n".join(lines) + "\n").encode()
    times = max(1, size_mb * 1_000_000 // len(block))
    with path.open("wb") as file:
        for _ in range(times):
            file.write(block)
    return xids * times


def write_storm(path: Path, rows: int) -> None:
    """Write a log of nothing but Xids."""
    start = datetime(2025, 3, 1)  # noqa: DTZ001 - UTC by the option
    with path.open("w", encoding="utf-8") as file:
        for number in range(rows):
            moment = start + timedelta(milliseconds=5 * number)
            code = (45, 13, 31, 119)[number % 4]
            head = f"{moment.isoformat(timespec='milliseconds')}+00:00 gpu-{number % 37:03d} kernel: "
            text = (
                f"NVRM: Xid (PCI:0000:{number % 8 + 1:02x}:00): {code}, pid={number}, name=python3, Ch 10\n"
            )
            file.write(head + text)


def _ingested(path: Path, root: Path) -> tuple[run.Ingested, Lake]:
    lake = Lake(root / f"lake-{perf_counter()}")
    (done,) = run.ingest(lake, "xid", [str(path)], _OPTIONS, lambda _: None)
    return done, lake


def _ingest(path: Path, root: Path) -> int:
    done, _ = _ingested(path, root)
    return done.rows_accepted


def _read(path: Path) -> int:
    with path.open("rb") as stream:
        return xid.read_stream(stream, path.name, _OPTIONS).events.height


def _fold(events: Path) -> int:
    """Return the rows that the SQL of stage 2 folds to incidents."""
    chain = {query.name: query for query in sql.ordered(sql.load("2_timelines"), given=timelines.GIVEN)}
    with sql.connect() as con:
        con.execute(f"create temp view ingested_events as from read_parquet('{events}')")
        sql.build(con, [sql.load("1_events")["events"]], {})
        open_ends.register(con, ["xid"], Trace())
        values = {"fold_s": Trace().fold_s, "gpus_per_node": 8}
        sql.build(con, [chain[name] for name in ("gpu_names", "located_events", "incidents")], values)
        ((rows,),) = con.execute("select count(*) from incidents").fetchall()
    return int(rows)


# A process begins with the memory of the one it was forked from as its highest: a small one stands between.
_WATCH = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def _peak_mb(path: Path, root: Path) -> float:
    """Return the memory that the command takes for a file, at most."""
    words = ["--root", str(root / "peak"), "ingest", "xid", str(path), "--tz", "UTC", "--as-of", _AS_OF]
    command = [sys.executable, "-c", _WATCH, sys.executable, "-m", "pipeline", *words]
    return int(subprocess.run(command, check=True, capture_output=True).stdout) / 1024


def _count_by_duckdb(path: Path) -> int:
    columns = (
        "header=false, delim='\x01', quote='', escape='', columns={'line': 'varchar'}, auto_detect=false"
    )
    sql = f"select count(*) from read_csv('{path}', {columns}) where contains(line, 'Xid')"
    with duckdb.connect() as con:
        con.execute("set enable_progress_bar = false")
        ((count,),) = con.execute(sql).fetchall()
    return int(count)


def _count_by_polars_csv(path: Path) -> int:
    frame = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String})
    return int(_count(frame))


def _count_by_polars_lines(path: Path) -> int:
    return int(_count(pl.scan_lines(path)))


def _count(frame: pl.LazyFrame) -> int:
    kept = frame.filter(pl.col("line").str.contains("Xid", literal=True)).select(pl.len())
    return int(kept.collect().item())


class Cost(NamedTuple):
    """Seconds by the clock, and of the processor, which other work on the machine disturbs less."""

    wall_s: float = math.inf
    busy_s: float = math.inf


_NONE = Cost()


def _best(way: Callable[[], int], expected: int, best: Cost = _NONE) -> Cost:
    began, busy = perf_counter(), process_time()
    found = way()
    busy, wall = process_time() - busy, perf_counter() - began
    assert found == expected, f"{found} Xids found, {expected} are there"
    return Cost(min(best.wall_s, wall), min(best.busy_s, busy))


def scan(folder: Path, size_mb: int) -> None:
    """Print how fast a syslog is ingested, and how fast others count its lines."""
    path = folder / "syslog"
    expected = write_syslog(path, size_mb)
    ways: dict[str, Callable[[], int]] = {
        "goodput ingest xid": lambda: _ingest(path, folder),
        "duckdb counts (read_csv)": lambda: _count_by_duckdb(path),
        "polars counts (scan_csv)": lambda: _count_by_polars_csv(path),
        "polars counts (scan_lines)": lambda: _count_by_polars_lines(path),
    }
    best = dict.fromkeys(ways, Cost())
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            best[name] = _best(way, expected, best[name])
    size_mb_told = path.stat().st_size / 1e6
    mine = best["goodput ingest xid"]
    print(f"\nsyslog of {size_mb_told:,.0f} MB, {expected:,} Xids; speed of ingest against each way")
    print(f"{'':30} {'s':>7} {'MB/s':>7} {'against':>8} {'busy s':>7} {'against':>8}")
    for name, cost in best.items():
        wall = f"{cost.wall_s:7.2f} {size_mb_told / cost.wall_s:7.0f} {cost.wall_s / mine.wall_s:7.2f}x"
        print(f"{name:30} {wall} {cost.busy_s:7.2f} {cost.busy_s / mine.busy_s:7.2f}x")
    print(f"memory of the command: {_peak_mb(path, folder):,.0f} MB at most")
    path.unlink()


def storm(folder: Path, rows: int) -> None:
    """Print how fast a storm of Xids is read, ingested and folded to incidents."""
    path = folder / "storm"
    write_storm(path, rows)
    reading = _best(lambda: _read(path), rows)
    ingesting = _best(lambda: _ingest(path, folder), rows)
    done, lake = _ingested(path, folder)
    folding = _best(lambda: _fold(lake.table(done.record, "events")), rows)
    print(f"\na storm of {rows:,} Xids              s   busy s   rows/s")
    for name, cost in {"read": reading, "ingest": ingesting, "fold to incidents": folding}.items():
        print(f"{name:30} {cost.wall_s:7.1f} {cost.busy_s:8.1f} {rows / cost.wall_s:8,.0f}")
    ratios = (folding.wall_s / reading.wall_s, folding.busy_s / reading.busy_s)
    print(f"folding against reading: {ratios[0]:.2f}x, busy {ratios[1]:.2f}x")
    print(f"memory of the command: {_peak_mb(path, folder):,.0f} MB at most")
    path.unlink()


def main(folder: Path, size_mb: int, storm_rows: int = 800_000) -> None:
    """Print both tables."""
    scan(folder, size_mb)
    storm(folder, storm_rows)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(Path(temporary), int(sys.argv[1]) if len(sys.argv) > 1 else 200)
