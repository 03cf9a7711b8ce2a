"""Public cases of the engines beneath the lake.

Zones (E01), locks (E05), memory and spilling (E06), unknown numbers (E08), huge sums (E10), sentinels (E13).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pytest
from faults.scenario import RUN_NEW, write_scenarios
from lake.conftest import fill
from small_lake import LOG, Built, build

from pipeline.errors import InputError
from pipeline.lake import catalog, doctor, sandbox, sql
from pipeline.lake.store import Lake

ROOT = Path(__file__).resolve().parents[2]
GOODPUT = [sys.executable, "-m", "pipeline"]
# Ids of runs, when each ended, and the hash of the table that says when; the log is of 2024.
RAN = re.compile(
    r"[0-9]{8}T[0-9]{6}-[0-9a-f]{8}|<td>20(?!24)[0-9]{2}-[0-9-]{5} [0-9:]{8}|ingest/files<.{,200}[0-9a-f]{64}"
)
# Sorts 100 MB and gives one number; without p the whole window would be left out as unused.
WINDOW = (
    "select count(p) from (select lag(ts) over (partition by n order by ts) as p from "
    "(select (hash(range) % 20000)::int as n, (hash(range * 7) % 1000000000)::bigint as ts from range({})))"
)


def case(shared_dir: Path, name: str) -> tuple[Path, Any]:
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]


@contextmanager
def holding(path: Path) -> Iterator[int]:
    """Hold a DuckDB file open for writing in another process, as a shell that was left open does."""
    code = (
        "import duckdb, sys; con = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        try:
            yield process.pid
        finally:
            process.terminate()


@pytest.mark.shared
def test_e05_the_engine_locks_a_file_for_one_writer(shared_dir: Path, tmp_path: Path) -> None:
    """What the case says of DuckDB holds: a writer keeps readers out, readers keep a writer out."""
    folder, wanted = case(shared_dir, "E05")
    told = subprocess.run(
        [sys.executable, str(folder / "lock.py")], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert wanted["rw_then_ro"] == wanted["ro_then_rw"] == "IOException lock"
    assert "IOException" in told.stdout
    assert "lock" in told.stdout
    path = str(tmp_path / "x.duckdb")
    reader = f"import duckdb; duckdb.connect({path!r}, read_only=True)"
    with duckdb.connect(path, read_only=True):
        assert subprocess.run([sys.executable, "-c", reader], check=False).returncode == 0, wanted[
            "ro_then_ro"
        ]


@pytest.mark.shared
@pytest.mark.slow
def test_e05_a_held_catalog_stops_neither_readers_nor_writers(shared_dir: Path, tmp_path: Path) -> None:
    """Two reports and an ingest succeed at once beside a shell that holds the catalog for writing."""
    assert "two concurrent" in case(shared_dir, "E05")[1]["product"]
    write_scenarios(tmp_path)
    (tmp_path / "more.csv").write_text("node,start,end\nn9,2024-01-05T00:00Z,2024-01-06T00:00Z\n")

    def ended(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*GOODPUT, "--root", "lake", *arguments]
        env = os.environ | {"PYTHONPATH": str(ROOT)}
        return subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)

    assert ended(*RUN_NEW).returncode == 0
    report = ("report", "new/case.toml")
    at_once = [report, report, ("ingest", "intervals", "more.csv"), ("sql", "select count(*) from events")]
    with holding(tmp_path / "lake" / "goodput.duckdb"), ThreadPoolExecutor(len(at_once)) as pool:
        for done in pool.map(lambda arguments: ended(*arguments), at_once):
            assert done.returncode == 0, done.stderr
            assert "Traceback" not in done.stderr


def test_e05_doctor_names_who_holds_the_catalog(tmp_path: Path) -> None:
    """Not a traceback, and not a catalog that is written anew for nothing."""
    lake = fill(Lake(tmp_path))
    catalog.write(lake)
    with holding(lake.catalog_path) as pid:
        (finding,) = (item for item in doctor.examine(lake) if item.what == "catalog")
        assert not finding.is_good
        assert str(pid) in finding.found
        assert "close" in finding.hint


@pytest.mark.shared
@pytest.mark.slow
def test_e06_a_window_over_millions_of_rows_stays_within_its_memory(shared_dir: Path, tmp_path: Path) -> None:
    """The query of the case, and one that DuckDB cannot leave out: below 1 GiB, in a folder that goes."""
    folder, wanted = case(shared_dir, "E06")
    asked = (folder / "q.sql").read_text(encoding="utf-8").split(";")[-2]
    code = f"""
import resource, sys
from pathlib import Path
from pipeline.lake import sql
spill = Path(sys.argv[1])
with sql.connect(spill) as con:
    print(con.execute({asked!r}).fetchall()[0][0])
    print(con.execute({WINDOW.format(wanted["count"])!r}).fetchall()[0][0])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    told = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "spill")],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), sql.MEMORY: "64MiB"},
        capture_output=True,
        text=True,
        check=True,
    )
    count, later, peak_kib = map(int, told.stdout.split())
    assert count == wanted["count"]
    assert later == wanted["count"] - 20_000
    assert wanted["peak_rss_limit_suggested"] == "< 1 GiB"
    assert peak_kib < 1 << 20
    assert list(tmp_path.iterdir()) == [], "nothing is left, and nothing in the working folder"


def test_e06_without_a_folder_it_is_refused_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder where the command happens to run, and no traceback."""
    monkeypatch.setenv(sql.MEMORY, "64MiB")
    query = sql.Query("big", "3_metrics", Path("big.sql"), WINDOW.format(6_000_000), {})
    with sql.connect() as con, pytest.raises(InputError, match="memory: does not suffice") as told:
        sql.build(con, [query], {})
    assert "GOODPUT_MEMORY=75%" in told.value.hint


def test_e06_memory_is_half_of_the_machine_or_as_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A share heeds control groups, because DuckDB's own total does."""
    monkeypatch.delenv(sql.MEMORY, raising=False)
    with sql.connect() as con:
        half = sql.memory_mib(con)
        con.execute("set memory_limit = '100%'")
        assert half == pytest.approx(sql.memory_mib(con) / 2, rel=0.02)
    for said, mib in (("1GiB", 1024), ("512 MiB", 512), ("1.5GiB", 1536), ("2TiB", 2 << 20)):
        monkeypatch.setenv(sql.MEMORY, said)
        with sql.connect() as con:
            assert sql.memory_mib(con) == mib
    for bad in ("much", "4", "'", "1KiB", "0%", "-1", "5000TiB"):
        monkeypatch.setenv(sql.MEMORY, bad)
        with pytest.raises(InputError, match="GOODPUT_MEMORY: found"):
            sql.connect()


def test_e06_a_persons_query_has_the_least_of_both_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2 GiB, unless the machine has less than twice that; what the environment says counts alone."""
    lake = fill(Lake(tmp_path))
    monkeypatch.delenv(sql.MEMORY, raising=False)
    with sql.connect() as con:
        half = sql.memory_mib(con)
    with sandbox.open_sandbox(lake) as con:
        assert sql.memory_mib(con) == min(sandbox.DEFAULT_LIMITS.memory_mib, half)
    monkeypatch.setattr(sql, "_MEMORY_SHARE", "200MiB")
    with sandbox.open_sandbox(lake) as con, pytest.raises(InputError, match="at most 200 MiB"):
        sandbox.execute(con, "select range from range(500_000_000) order by hash(range)")
    monkeypatch.setenv(sql.MEMORY, "3GiB")
    with sandbox.open_sandbox(lake) as con:
        assert sql.memory_mib(con) == 3072


@pytest.mark.shared
def test_e10_sums_beyond_64_bits(shared_dir: Path) -> None:
    """Nanoseconds of 3,200 GPUs over 348 days: exact as a sum, refused as a product, never wrapped."""
    _, wanted = case(shared_dir, "E10")
    with sql.connect() as con:
        nanos = "(348::bigint * 86400 * 1000000000)"
        ((total, kind),) = con.execute(
            f"select sum(t), typeof(sum(t)) from (select {nanos} as t from range(3200))"
        ).fetchall()
        assert (str(total), kind) == (str(wanted["exact_ns"]), "HUGEINT")
        with pytest.raises(duckdb.OutOfRangeException):
            con.execute(f"select {nanos} * 3200").fetchall()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return a lake whose log has an open outage and one that ends after the window."""
    late = LOG + "n08,2025-03-03T20:00Z,2025-03-09T00:00Z,gpu\nn06,2025-02-20T00:00Z,2025-03-01T01:00Z,gpu\n"
    return build(tmp_path_factory.mktemp("small"), late)


@pytest.mark.shared
def test_e08_no_number_of_a_table_is_nan(shared_dir: Path, built: Built) -> None:
    """Both engines see the same greatest value, and a threshold selects no unknown row."""
    _, wanted = case(shared_dir, "E08")
    unknown = pl.DataFrame({"down_h": [1.0, 2.0, math.nan, None]})
    assert unknown["down_h"].max() == wanted["polars_max"]
    assert unknown.filter(pl.col("down_h") > 3).height == int(wanted["polars_nan_gt_3"])
    columns = 0
    with sql.connect() as con:
        con.register("unknown", unknown.to_arrow())
        assert str(con.execute("select max(down_h) from unknown").fetchall()[0][0]) == wanted["duckdb_max"]
        for path in built.lake.root.rglob("*.parquet"):
            table = pl.read_parquet(path)
            for name in (name for name, kind in table.schema.items() if kind == pl.Float64):
                columns += 1
                assert not table[name].is_nan().any(), (path.name, name)
                assert not table[name].is_infinite().any(), (path.name, name)
                engine = con.execute(f'select max("{name}") from read_parquet(?)', [str(path)]).fetchall()
                assert engine[0][0] == table[name].max()
    assert columns > 20


@pytest.mark.shared
def test_e13_open_ends_are_clipped_to_the_window(shared_dir: Path, built: Built) -> None:
    """A sentinel is no instant in the engine, and no downtime reaches beyond the window."""
    folder, wanted = case(shared_dir, "E13")
    (*_, last) = (folder / "t.csv").read_text(encoding="utf-8").split()
    with sql.connect() as con:
        assert wanted["duckdb_make_timestamp_max"] == "ConversionException"
        with pytest.raises(duckdb.ConversionException):
            con.execute(f"select make_timestamp({last})").fetchall()
        ((text,),) = con.execute(f"select make_timestamp({last} - 1)::varchar").fetchall()
        assert text == wanted["duckdb_make_timestamp_max_minus_1"]
    assert wanted["product"]["intervals_clipped_to_window"]
    start, end = (datetime.fromisoformat(built.timelines.facts[f"window_{key}"]) for key in ("start", "end"))
    first, until = start.replace(tzinfo=None), end.replace(tzinfo=None)
    timeline = pl.read_parquet(built.lake.table(built.timelines, "cluster_timeline"))
    down = pl.read_parquet(built.lake.table(built.timelines, "gpu_downtime"))
    for table in (timeline, down):
        assert table["t_start"].min() == first
        assert table["t_end"].max() == until
    outages = pl.read_parquet(built.lake.table(built.timelines, "outages"))
    (still_open,) = outages.filter("is_censored").to_dicts()
    assert (still_open["node"], still_open["t_end"], still_open["end_origin"]) == ("n07", until, "window")
    instants = [table[name] for table in (timeline, down, outages) for name in ("t_start", "t_end")]
    far = sum(int((column.dt.year() > 2100).sum()) for column in instants)
    assert far == wanted["product"]["infinite_values_stored"]


@pytest.mark.shared
@pytest.mark.slow
def test_e01_tables_and_page_do_not_depend_on_the_zone_of_the_machine(
    shared_dir: Path, tmp_path: Path
) -> None:
    """Run in Tokyo and in New York: the same bytes, but for when each stage ran."""
    assert "reports identical under TZ" in case(shared_dir, "E01")[1]["product"]
    write_scenarios(tmp_path)
    found = []
    for zone in ("Asia/Tokyo", "America/New_York"):
        command = [*GOODPUT, "--root", "lake", *RUN_NEW]
        env = os.environ | {"PYTHONPATH": str(ROOT), "TZ": zone}
        subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, check=True)
        tables = [path for path in (tmp_path / "lake").rglob("*.parquet") if "runs" not in path.parts]
        hashes = {
            path.relative_to(tmp_path).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in tables
            if not path.name.startswith("files")
        }
        page = (tmp_path / "lake" / "reports" / "case" / "index.html").read_text(encoding="utf-8")
        found.append((hashes, RAN.sub("", page)))
        (tmp_path / "lake").rename(tmp_path / zone.replace("/", "-"))
    assert len(found[0][0]) > 10
    assert found[0] == found[1]
