"""A big syslog, the time to ingest its Xids, and the times in which DuckDB and polars count them.

Ratios are taken within one run on one machine: each way is run in turn, thrice, and its best time counts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from time import perf_counter

import duckdb
import polars as pl

from pipeline.ingest import run
from pipeline.ingest.parsing import Options
from pipeline.lake.store import Lake

XID_FRAC = 0.001
_LINES = 100_000
_ROUNDS = 3
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


def _ingest(path: Path, root: Path) -> int:
    options = Options.of(tz="UTC", as_of="2025-10-01T00:00Z")
    (done,) = run.ingest(Lake(root / f"lake-{perf_counter()}"), "xid", [str(path)], options, lambda _: None)
    return done.rows_accepted


def _count_by_duckdb(path: Path) -> int:
    columns = (
        "header=false, delim='\x01', quote='', escape='', columns={'line': 'varchar'}, auto_detect=false"
    )
    sql = f"select count(*) from read_csv('{path}', {columns}) where contains(line, 'Xid')"
    ((count,),) = duckdb.sql(sql).fetchall()
    return int(count)


def _count_by_polars_csv(path: Path) -> int:
    frame = pl.scan_csv(path, has_header=False, separator="\x01", quote_char=None, schema={"line": pl.String})
    return int(_count(frame))


def _count_by_polars_lines(path: Path) -> int:
    return int(_count(pl.scan_lines(path)))


def _count(frame: pl.LazyFrame) -> int:
    kept = frame.filter(pl.col("line").str.contains("Xid", literal=True)).select(pl.len())
    return int(kept.collect().item())


def _best(way: Callable[[], int], expected: int, best_s: float) -> float:
    began = perf_counter()
    found = way()
    assert found == expected, f"{found} Xids found, {expected} are there"
    return min(best_s, perf_counter() - began)


def main(folder: Path, size_mb: int, storm_rows: int = 100_000) -> None:
    """Print the table."""
    path = folder / "syslog"
    expected = write_syslog(path, size_mb)
    ways: dict[str, Callable[[], int]] = {
        "goodput ingest xid": lambda: _ingest(path, folder),
        "duckdb counts (read_csv)": lambda: _count_by_duckdb(path),
        "polars counts (scan_csv)": lambda: _count_by_polars_csv(path),
        "polars counts (scan_lines)": lambda: _count_by_polars_lines(path),
    }
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            best[name] = _best(way, expected, best[name])
    size = path.stat().st_size
    mine = best["goodput ingest xid"]
    print(f"\nsyslog of {size / 1e6:,.0f} MB, {expected:,} Xids        s    MB/s  speed of ingest against it")
    for name, wall_s in best.items():
        print(f"{name:34} {wall_s:8.2f} {size / 1e6 / wall_s:7.0f} {wall_s / mine:8.2f}x")
    path.unlink()
    storm = folder / "storm"
    write_storm(storm, storm_rows)
    wall_s = _best(lambda: _ingest(storm, folder), storm_rows, float("inf"))
    print(f"a storm of {storm_rows:,} Xids in {wall_s:.1f} s, {storm_rows / wall_s:,.0f} rows a second")
    storm.unlink()
