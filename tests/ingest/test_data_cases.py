"""Public cases of trace data and of the engines beneath, as far as they touch the reading of logs.

D11, D13, D14, D15 and D19 are of formats that no source reads: what each teaches is tested on the part of
this project that it concerns. What a case asks of SQL or of the report stands with those tests.
"""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone
from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.errors import InputError
from pipeline.ingest import csvtext, doubts
from pipeline.ingest.parsing import Options, parse_instants
from pipeline.ingest.sources import bgl, dcgm, intervals
from pipeline.lake import sql
from pipeline.report import answer
from pipeline.schema import FLOAT, TABLES
from pipeline.units import to_us

pytestmark = pytest.mark.shared


def case(shared_dir: Path, name: str) -> tuple[Path, Any]:
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]


def outage(node: str, start: datetime, end: datetime | None) -> str:
    return f"{node},{start.isoformat()}Z,{end.isoformat() + 'Z' if end else ''}\n"


def read(rows: str) -> pl.DataFrame:
    parsed = intervals.read(f"node,start,end\n{rows}".encode(), "log.csv", Options())
    assert parsed.rejects.is_empty()
    return parsed.events


def test_d11_a_table_with_a_column_less_is_refused_whole(shared_dir: Path) -> None:
    """Columns are found by name or counted: nine fields never fill ten names, and empty ones stay empty."""
    folder, wanted = case(shared_dir, "D11")
    text = (folder / "machine_usage.csv").read_text(encoding="utf-8")
    documented = [f"c{place}" for place in range(10)]
    table = csvtext.read(text, "usage.csv", lambda _: {"last": 9}, documented)
    assert set(table.frame["shape"]) == {f"{wanted['columns']} fields, a row has 10"}
    (names,) = re.findall(r"schema\.txt of the repository \((.*)\)", wanted["behaviour"])
    places = {name: place for place, name in enumerate(names.split(","))}
    rows = csvtext.read(text, "usage.csv", lambda _: places, names.split(",")).frame.to_dicts()
    assert [row["shape"] for row in rows] == [None] * len(rows)
    first = {name: _told(field) for name, field in rows[0].items() if name in places}
    renamed = {"machine_id": "machine", "time_stamp": "t_s"}
    assert {renamed.get(name, name): field for name, field in first.items()} == wanted["row1"]
    assert int(rows[1]["time_stamp"]) - int(rows[0]["time_stamp"]) == wanted["step_s"]
    with pytest.raises(InputError, match=r"log\.csv header: no column node and no column start"):
        intervals.read(text.encode(), "log.csv", Options())


def _told(field: str) -> float | str | None:
    """Return a field as the number that it is, the text, or nothing."""
    try:
        return float(field) if field else None
    except ValueError:
        return field


def test_d13_what_is_unknown_is_refused_and_told_and_never_a_success(shared_dir: Path) -> None:
    """Episodes without metadata have no start: 99.75 % before day 109, none from then on.

    A window that is covered has no warning; one that is not names the share of refused rows.
    """
    folder, wanted = case(shared_dir, "D13")
    days = list(csv.DictReader((folder / "coverage.csv").read_text(encoding="utf-8").splitlines()))
    first, last = wanted["rates_window"]

    def covered(begin: int, end: int) -> tuple[float, list[str]]:
        rows = []
        for day in (day for day in days if begin <= int(day["day"]) <= end):
            start = datetime(2025, 1, 1) + timedelta(days=int(day["day"]))
            linked, episodes = int(day["linked"]), int(day["episodes"])
            rows += [outage("n1", start + timedelta(seconds=number), None) for number in range(linked)]
            rows += ["n1,,\n"] * (episodes - linked)
        parsed = intervals.read(f"node,start,end\n{''.join(rows)}".encode(), "log.csv", Options())
        assert parsed.events.height + parsed.rejects.height == len(rows)
        assert parsed.events["t_end"].null_count() == parsed.events.height, "what has no end stays open"
        refused = {"count": parsed.rejects.height, "of_count": len(rows), "reason": "start is empty"}
        others = ("clears of no open fault", "unplaced nodes", "unplaced outages")
        quality = [{"item": item, "count": 0, "of_count": 1, "reason": ""} for item in others]
        quality += [{"item": item, **refused} for item in ("rows rejected", "rejected because")]
        return parsed.events.height / len(rows), answer.warnings([row | {"share_frac": 0} for row in quality])

    assert covered(first, last) == (wanted["coverage_from_109"], [])
    share, warnings = covered(0, first - 1)
    assert share == wanted["coverage_before_109"]
    assert "warn when linkage < 95 %" in wanted["report"]
    assert len(warnings) == 1
    assert "rows of the log were rejected and are not in the answer because: start is empty" in warnings[0]


def test_d14_times_off_a_grid_are_kept_and_told(shared_dir: Path) -> None:
    """Instants off a grid of 300 s are not snapped to it; their common remainder is told."""
    folder, wanted = case(shared_dir, "D14")
    rows = list(csv.DictReader((folder / "timestamps.csv").read_text(encoding="utf-8").splitlines()))
    day_0 = datetime(2025, 1, 1)
    events = read("".join(outage("n1", day_0 + timedelta(seconds=int(row["t"])), None) for row in rows))
    seconds = [int((start - day_0).total_seconds()) for start in events["t_start"]]
    assert seconds == [int(row["t"]) for row in rows]
    (note,) = doubts.grid(events["t_start"].to_physical(), 300, to_us(day_0.replace(tzinfo=UTC)))
    assert note == (
        f"{wanted['off_grid']} of {wanted['off_grid'] + wanted['on_grid']} instants are off a grid of 300 s, "
        f"most often by +{wanted['remainder_all']} s: kept as they are"
    )


def test_d14_samples_off_the_grid_of_a_query_are_told(shared_dir: Path) -> None:
    """A gauge that is read at these seconds: one sample is off the grid of the others."""
    folder, wanted = case(shared_dir, "D14")
    rows = csv.DictReader((folder / "timestamps.csv").read_text(encoding="utf-8").splitlines())
    epoch = 1_750_000_200
    values = sorted({epoch + int(row["t"]) for row in rows} | {epoch + 100 + 300 * step for step in range(9)})
    labels = {"__name__": "DCGM_FI_DEV_XID_ERRORS", "gpu": "0", "Hostname": "n1"}
    result = {"metric": labels, "values": [[at, "0"] for at in values]}
    document = {"status": "success", "data": {"resultType": "matrix", "result": [result]}}
    (note,) = dcgm.read(json.dumps(document).encode(), "f", Options()).notes
    assert note.startswith(f"{wanted['on_grid']} of {len(values)} instants are off a grid of 300 s")
    result["values"] = [[at, "0"] for at in values if (at - epoch) % 300 == wanted["remainder_all"]]
    assert dcgm.read(json.dumps(document).encode(), "f", Options()).notes == ()


def test_d15_lengths_are_differences_of_instants(shared_dir: Path) -> None:
    """A stated duration is not believed: start and end are, each with its own offset, and a note tells it."""
    folder, wanted = case(shared_dir, "D15")
    overstated = {}
    for name, note in (("trace_seren.csv", []), ("trace_kalos.csv", ["2 of 2 rows state another length"])):
        raw = (folder / name).read_bytes()
        with pytest.raises(InputError, match="no column node"):
            intervals.read(raw, name, Options())
        places: list[str] = []

        def pick(header: list[str], places: list[str] = places) -> dict[str, int]:
            places += header
            return {column: place for place, column in enumerate(header)}

        jobs = csvtext.read(raw.decode(), name, pick).frame
        starts, ends = (parse_instants(jobs[key], Options())["us"] for key in ("start_time", "end_time"))
        found = doubts.lengths(jobs["duration"].cast(pl.Int64), starts, ends)
        assert [text.partition(" than")[0] for text in found] == note
        table = jobs.rename({"start_time": "start", "end_time": "end", "job_id": "node"})
        parsed = intervals.read(table.select("node", "start", "end").write_csv().encode(), name, Options())
        for event, job in zip(parsed.events.to_dicts(), jobs.to_dicts(), strict=True):
            run_s = int((event["t_end"] - event["t_start"]).total_seconds())
            assert run_s == wanted["run_s"][job["job_id"]]
            gpu_s = run_s * int(job["gpu_num"])
            assert gpu_s == wanted["gpu_s"][job["job_id"]]
            overstated[job["job_id"]] = float(job["gpu_time"]) - gpu_s
    too_much = wanted["published_gpu_time_kalos_overstates_by"]
    assert {job: by for job, by in overstated.items() if by} == too_much
    assert wanted["node_failures"] == 0, "job states are no faults of nodes: the raw files are refused above"
    submitted = parse_instants(pl.Series(["2023-03-01 00:18:22+08:00"]), Options())["us"]
    assert submitted.cast(pl.Datetime("us"))[0].isoformat() + "Z" == wanted["submit_utc_5778432"]


def test_d19_rows_need_no_order_and_quotes_come_back(shared_dir: Path) -> None:
    """Rows stay in file order with their place, whatever the order of their times; octal escapes are text."""
    folder, wanted = case(shared_dir, "D19")
    lines = (folder / "HPC.log").read_text(encoding="utf-8").splitlines()
    parts = [line.split(" ", 6) for line in lines]
    table = io.StringIO()
    writer = csv.writer(table)
    writer.writerow(["node", "start", "end", "reason"])
    for _, node, _, _, epoch, _, text in parts:
        start = datetime(1970, 1, 1) + timedelta(seconds=int(epoch))
        told = re.sub(r"\\([0-7]{3})", lambda hit: chr(int(hit[1], 8)), text)
        writer.writerow([node, f"{start.isoformat()}Z", "", told])
    events = intervals.read(table.getvalue().encode(), "hpc.csv", Options()).events
    assert events["row"].to_list() == list(range(1, wanted["rows"] + 1))
    assert events["t_start"].is_sorted() == wanted["sorted_input"]
    assert f"{events['t_start'].min():%Y-%m-%dT%H:%M:%SZ}" == wanted["min_ts"]
    assert f"{events['t_start'].max():%Y-%m-%dT%H:%M:%SZ}" == wanted["max_ts"]
    assert events["node"].n_unique() == wanted["nodes"]
    assert events["t_end"].null_count() == events.height, "no row tells an end"
    assert events["reason"].str.contains(wanted["decoded_fragment"], literal=True).any()
    lost = events.filter(pl.col("reason").str.contains("is in the unavailable state"))
    assert lost.height == wanted["unavailable_transitions"]
    with pytest.raises(InputError, match=r"HPC\.log"):
        bgl.read((folder / "HPC.log").read_bytes(), "HPC.log", Options())


def test_e01_instants_do_not_depend_on_the_machines_zone(shared_dir: Path, tmp_path: Path) -> None:
    """A named zone is applied, never that of the session; tables are the same bytes in Tokyo and New York."""
    _, wanted = case(shared_dir, "E01")
    (via_tz, naive) = (wanted["duckdb_2.0.1"][key] for key in ("via_tz", "naive"))
    text = pl.Series(["2023-01-01 00:00:00"])
    found = [parse_instants(text, Options(tz=zone))["us"][0] for zone in ("America/New_York", "UTC")]
    assert found == [via_tz * 1_000_000, naive * 1_000_000]
    (tmp_path / "log.csv").write_text("node,start,end\nn1,2023-01-01 00:00:00,2023-07-01 00:00:00\n")
    tables = set()
    for zone in ("Asia/Tokyo", "America/New_York"):
        root = tmp_path / zone.replace("/", "-")
        command = [sys.executable, "-m", "pipeline", "--root", str(root), "ingest", "intervals"]
        command += [str(tmp_path / "log.csv"), "--tz", "Europe/Berlin"]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"TZ": zone})
        (events,) = (path for path in root.rglob("events*.parquet") if path.is_file())
        tables.add(hashlib.sha256(events.read_bytes()).hexdigest())
    assert len(tables) == 1


def test_e03_whole_numbers_before_it_do_not_round_a_field(shared_dir: Path, tmp_path: Path) -> None:
    """After 25,000 whole numbers 3.9 is refused where a whole number belongs, and never 4."""
    folder, wanted = case(shared_dir, "E03")
    subprocess.run([sys.executable, str(folder / "gen.py")], check=True, cwd=tmp_path)
    header, *rows = (tmp_path / "mid2.csv").read_text(encoding="utf-8").splitlines()
    assert header == "node,down_s"
    text = "node,gpu,start,end\n" + "".join(f"{row},2025-03-01T08:00Z,\n" for row in rows)
    parsed = intervals.read(text.encode(), "mid2.csv", Options())
    assert parsed.rejects.select("row", "reason").rows() == [(25_001, "gpu is not a whole number")]
    assert dict(parsed.events["gpu"].value_counts().rows()) == {3: 25_000, 7: 1}
    swapped = "gpu,node,start,end\n" + "".join(f"0,{row.split(',')[1]},2025-03-01T08:00Z,\n" for row in rows)
    names = intervals.read(swapped.encode(), "mid2.csv", Options()).events["node"]
    assert names.to_list()[-2:] == ["3.9", "007"], "a name is text"
    assert float(names[25_000]) == wanted["correct"]["n2"]
    assert wanted["correct"]["n3"].startswith("007 as text if the column is an id, 7 if declared integer")
    assert math.isclose(sum(map(float, names)), wanted["sum_down_s"])


def test_e08_events_hold_no_number_that_may_be_nan(shared_dir: Path) -> None:
    """No stored column of a log is a float, and a float where a whole number belongs is refused."""
    _, wanted = case(shared_dir, "E08")
    assert wanted["polars_nan_gt_3"]
    assert not any(column.type == FLOAT for name in ("events", "rejects", "files") for column in TABLES[name])
    table = io.BytesIO()
    start = pl.Series([datetime(2025, 3, 1)]).dt.replace_time_zone("UTC")
    pl.DataFrame({"node": ["n1"], "gpu": [math.nan], "start": start, "end": start}).write_parquet(table)
    with pytest.raises(InputError, match="column gpu: type Float64"):
        intervals.read(table.getvalue(), "log.parquet", Options())


def test_e09_epoch_seconds_do_not_wrap(shared_dir: Path) -> None:
    """1721068200 s is July 2024, and what milliseconds would be taken for is refused."""
    _, wanted = case(shared_dir, "E09")
    line = "- {} 2024.07.15 n1 Jul 15 18:30:00 n1/n1 text\n"
    parsed = bgl.read(line.format(1721068200).encode(), "log", Options())
    assert parsed.events["t_start"][0].isoformat() + "Z" == wanted["correct"]
    mixed = line.format(1721068200) + line.format(1721068200000)
    assert bgl.read(mixed.encode(), "log", Options()).rejects.height == 1


def test_e10_sums_of_gpu_time_are_exact(shared_dir: Path) -> None:
    """3,200 GPUs over 348 days: microseconds add up exactly in Polars and in DuckDB."""
    _, wanted = case(shared_dir, "E10")
    start = datetime(2024, 1, 1)
    events = read("".join(outage(f"n{gpu}", start, start + timedelta(days=348)) for gpu in range(3_200)))
    assert events["t_start"].dtype == pl.Datetime("us")
    day = timedelta(days=1)
    assert (events["t_end"] - events["t_start"]).sum() / day == wanted["exact_days"]  # type: ignore[operator]
    table = events.to_arrow()
    with sql.connect() as con:
        con.register("events_read", table)
        found = con.execute("select sum(epoch_us(t_end) - epoch_us(t_start)) from events_read").fetchone()
    assert found is not None
    assert found[0] * 1_000 == wanted["exact_ns"]


def test_e15_a_note_does_not_change_how_a_date_is_read(shared_dir: Path) -> None:
    """Fields are text until a column's own rule converts them: neighbours do not matter."""
    folder, wanted = case(shared_dir, "E15")
    for name, columns in (("a", ("ACCESSION_NUMBER", "FILING_DATE")), ("b", ("note", "d"))):
        text = (folder / f"{name}.csv").read_text(encoding="utf-8")
        places = {column: place for place, column in enumerate(columns)}
        frame = csvtext.read(text, f"{name}.csv", lambda _, places=places: places).frame
        assert frame.select(columns).rows() == [tuple(line.split(",")) for line in text.split()[1:]]
    assert wanted["b"]["note"].startswith(str(frame["note"][0]))
    noted = read("12/25/2020,2021-03-10T00:00:00Z,\n1-1-1A,2021-03-10T00:00:00Z,\n")
    assert noted["node"].to_list() == ["12/25/2020", "1-1-1A"]
    assert {str(start)[:10] for start in noted["t_start"]} == {wanted["b"]["d"]}
