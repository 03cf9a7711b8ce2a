"""Stage 1 as a whole: files -> tables."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import config, resources
from pipeline.errors import CheckFailedError, InputError, NoDataError
from pipeline.ingest import run
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import intervals
from pipeline.lake import store
from pipeline.lake.store import MANIFEST, Lake, Record
from pipeline.schema import arrow_schema

HEADER = "node,start,end\n"
ROW = "n1,2025-03-01T08:00Z,2025-03-01T09:00Z\n"
BAD = "n1,2025-03-01T08:00Z,2025-03-01T07:00Z\n"


def quiet(_: str) -> None:
    """Take a log line and drop it."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "root")


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(HEADER + ROW + BAD)
    return path


def table(lake: Lake, record: Record, name: str) -> pa.Table:
    return pq.read_table(lake.table(record, name))


def scenario(folder: Path, trace: str) -> config.Scenario:
    text = f"""
[trace]
{trace}
[cluster]
nodes = 4
domain_size = 8
[job]
tp = 8
[[policy]]
name = "p"
response = "dp-drop"
"""
    path = folder / "s.toml"
    path.write_text(text)
    return config.load(str(path))


def test_tables_have_exactly_the_columns_of_the_schema(lake: Lake, log_file: Path) -> None:
    """events, rejects and files are stored with the names and types of schema.py."""
    record, ran = run.ingest_file(lake, "intervals", log_file, Options(), quiet)
    assert ran
    for name in ("events", "rejects", "files"):
        assert table(lake, record, name).schema.equals(arrow_schema(name))
    (row,) = table(lake, record, "files").to_pylist()
    assert (row["file"], row["rows_read"], row["rows_accepted"], row["rows_rejected"]) == ("log.csv", 2, 1, 1)
    (reject,) = table(lake, record, "rejects").to_pylist()
    assert reject == {
        "source": "intervals",
        "file": "log.csv",
        "row": 2,
        "reason": "end before start",
        "text": BAD.strip(),
    }


def test_a_second_ingest_changes_nothing(lake: Lake, log_file: Path, tmp_path: Path) -> None:
    """A file is known by its content: again, renamed or compressed, it is skipped."""
    first = run.ingest(lake, "intervals", [str(log_file)], Options(), quiet)
    manifest = (lake.root / MANIFEST).read_bytes()
    renamed = log_file.rename(tmp_path / "renamed.csv")
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(gzip.compress(renamed.read_bytes()))
    again = run.ingest(lake, "intervals", [str(renamed), str(packed)], Options(), quiet)
    assert [item.skipped for item in first + again] == [False, True, True]
    assert (lake.root / MANIFEST).read_bytes() == manifest


def test_options_that_change_the_meaning_make_another_ingest(lake: Lake, tmp_path: Path) -> None:
    """The same bytes under another zone are other events, beside the first ones."""
    path = tmp_path / "naive.csv"
    path.write_text(HEADER + "n1,2025-03-01T08:00,\n")
    records = [
        run.ingest_file(lake, "intervals", path, Options(tz=zone), quiet)[0] for zone in ("UTC", "Asia/Tokyo")
    ]
    instants = [table(lake, record, "events")["t_start"][0].as_py().hour for record in records]
    assert instants == [8, 23]
    assert len(lake.records()) == 2


def test_equal_bytes_give_equal_tables(tmp_path: Path, log_file: Path) -> None:
    """Two ingests into two roots give byte-identical events and rejects: no clock, no machine in them."""
    lakes = [Lake(tmp_path / name) for name in ("a", "b")]
    records = [run.ingest_file(lake, "intervals", log_file, Options(), quiet)[0] for lake in lakes]
    for name in ("events", "rejects"):
        assert records[0].outputs[name].sha256 == records[1].outputs[name].sha256


@pytest.mark.parametrize(("said", "stored"), [(None, 12), (datetime(2025, 3, 1, 10), 10)])  # noqa: DTZ001
def test_a_log_that_says_when_it_was_taken_is_believed_before_the_option(
    lake: Lake, log_file: Path, monkeypatch: pytest.MonkeyPatch, said: datetime | None, stored: int
) -> None:
    """`as_of` of a row is what its source tells, else what was said at ingest, in UTC."""
    read = intervals.read

    def dated(data: bytes, file: str, options: Options) -> Parsed:
        parsed = read(data, file, options)
        return replace(parsed, events=parsed.events.with_columns(as_of=pl.lit(said, pl.Datetime("us"))))

    monkeypatch.setattr(intervals, "read", dated)
    options = Options(as_of=datetime(2025, 3, 1, 14, tzinfo=timezone(timedelta(hours=2))))
    record, _ = run.ingest_file(lake, "intervals", log_file, options, quiet)
    (found,) = table(lake, record, "events")["as_of"].to_pylist()
    assert found == datetime(2025, 3, 1, stored)  # noqa: DTZ001


def test_thousands_of_files_cost_alike(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a file adds to the manifest does not grow with the files before it, and is there at once."""
    written: list[int] = []
    append = store._append

    def counted(path: Path, end: int, line: bytes) -> None:
        append(path, end, line)
        written.append(len(line))
        assert len(Lake(lake.root).records()) == len(written) + 1

    monkeypatch.setattr(store, "_append", counted)
    monkeypatch.setattr(store, "_parsed", lambda path, real=store._parsed: parsed.append(path) or real(path))
    parsed: list[Path] = []
    logs = tmp_path / "logs"
    logs.mkdir()
    for place in range(12):
        (logs / f"{place:02}.csv").write_text(HEADER + ROW.replace("n1", f"n{place:02}"))
    done = run.ingest(lake, "intervals", [str(logs)], Options(), quiet)
    assert [item.rows_accepted for item in done] == [1] * 12
    assert len(written) == 11 and max(written) < min(written) + 20
    assert len(parsed) == 11  # by the readers above: the writer knows what it wrote


def test_a_row_sent_again_keeps_its_id_and_equal_rows_of_a_file_stay_two(lake: Lake, tmp_path: Path) -> None:
    """event_id is a hash of the content and of the ordinal among equal rows of the file."""
    (tmp_path / "a.csv").write_text(HEADER + ROW)
    (tmp_path / "b.csv").write_text(HEADER + BAD + ROW + ROW)
    ids = [
        table(lake, run.ingest_file(lake, "intervals", tmp_path / name, Options(), quiet)[0], "events")[
            "event_id"
        ].to_pylist()
        for name in ("a.csv", "b.csv")
    ]
    assert ids[1][0] == ids[0][0]
    assert ids[1][0] != ids[1][1]


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz", ".zst"])
def test_compressed_logs_are_read(lake: Lake, tmp_path: Path, suffix: str) -> None:
    """gzip, xz and zstd are known by their first bytes; a file cut off is an input error."""
    data = (HEADER + ROW * 1000).encode()
    pack = {
        "": lambda raw: raw,
        ".gz": gzip.compress,
        ".xz": lzma.compress,
        ".zst": lambda raw: pa.compress(raw, codec="zstd", asbytes=True),
    }[suffix]
    path = tmp_path / f"log.csv{suffix}"
    path.write_bytes(pack(data))
    (item,) = run.ingest(lake, "intervals", [str(path)], Options(), quiet)
    assert item.rows_accepted == 1000
    if suffix:
        path.write_bytes(pack(data + b"#")[:-6])
        with pytest.raises(InputError, match="cut off"):
            run.ingest(lake, "intervals", [str(path)], Options(), quiet)


def test_folders_and_globs_name_files_from_there(lake: Lake, tmp_path: Path) -> None:
    """Names in tables are paths below the folder or glob; hidden files are left out; a file is read once."""
    logs = tmp_path / "logs"
    (logs / "x").mkdir(parents=True)
    for place, name in enumerate(("x/b.csv", "a.csv", ".hidden.csv")):
        (logs / name).write_text(HEADER + ROW * (place + 1))
    names = [
        [item.file for item in run.ingest(Lake(tmp_path / f"r{place}"), "intervals", paths, Options(), quiet)]
        for place, paths in enumerate(
            ([str(logs)], [str(logs / "*" / "*.csv")], [str(logs), str(logs / "a.csv")])
        )
    ]
    assert names == [["a.csv", "x/b.csv"], ["x/b.csv"], ["a.csv", "x/b.csv"]]


@pytest.mark.parametrize(
    "paths",
    [
        [],
        ["absent.csv"],
        ["absent*.csv"],
        ["**x"],
        ["n" * 5_000],
        ["s3://bucket/log.csv"],
        ["empty-folder"],
        ["empty.csv"],
    ],
    ids=lambda paths: "+".join(paths)[:20] or "none",
)
def test_a_path_that_stands_for_nothing_is_one_error(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, paths: list[str]
) -> None:
    """A missing file, a glob without a match or an empty file is told, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty-folder").mkdir()
    (tmp_path / "empty.csv").touch()
    with pytest.raises(InputError):
        run.ingest(lake, "intervals", paths, Options(), quiet)
    assert not lake.records()


def test_an_unknown_source_names_the_valid_ones(lake: Lake, log_file: Path) -> None:
    """A mistyped source is told with the nearest name."""
    with pytest.raises(InputError, match="did you mean 'intervals'"):
        run.ingest(lake, "interval", [str(log_file)], Options(), quiet)


def test_strict_fails_on_any_reject(lake: Lake, log_file: Path) -> None:
    """--strict: exit 1 when a row was rejected, also when the file had been ingested before."""
    run.ingest(lake, "intervals", [str(log_file)], Options(), quiet)
    with pytest.raises(CheckFailedError, match="1 rows rejected"):
        run.ingest(lake, "intervals", [str(log_file)], Options(), quiet, strict=True)


def test_a_scenario_s_path_is_relative_to_its_file(lake: Lake, tmp_path: Path, log_file: Path) -> None:
    """`path` is looked for beside the scenario; the second run reads nothing."""
    window = 'window = ["2025-03-01T00:00Z", "2025-03-02T00:00Z"]'
    chosen = scenario(tmp_path, f'source = "intervals"\npath = "{log_file.name}"\n{window}')
    records, ran = run.stage(lake, chosen, quiet)
    assert (len(records), ran) == (1, True)
    assert run.stage(lake, chosen, quiet) == (records, False)


def test_a_log_without_one_good_row_is_no_data(lake: Lake, tmp_path: Path, log_file: Path) -> None:
    """A scenario whose log has only rejects stops with exit 3, not with a report of no failures."""
    log_file.write_text(HEADER + BAD)
    window = 'window = ["2025-03-01T00:00Z", "2025-03-02T00:00Z"]'
    chosen = scenario(tmp_path, f'source = "intervals"\npath = "{log_file.name}"\n{window}')
    with pytest.raises(NoDataError, match="no row accepted of 1 read"):
        run.stage(lake, chosen, quiet)


def test_a_source_without_a_public_file_needs_a_path(lake: Lake, tmp_path: Path) -> None:
    """`path` may be left out only when there is a public file to fetch."""
    chosen = scenario(tmp_path, 'source = "intervals"\nwindow_d = [0.0, 1.0]')
    with pytest.raises(InputError, match="has no public file"):
        run.stage(lake, chosen, quiet)


@pytest.mark.shared
def test_the_public_trace_is_fetched_when_a_scenario_needs_it(lake: Lake, shared_data: Path) -> None:
    """A scenario without a path reads the source's public file, and a spoilt copy is fetched again."""
    assert shared_data
    chosen = config.load("hbd72")
    (record,), ran = run.stage(lake, chosen, quiet)
    assert ran
    assert record.facts["rows_accepted"] == 1168
    assert record.facts["day_0"] == "2024-03-30T00:00:00+00:00"
    raw = lake.path("raw", "infinitehbd", "fault_trace.json")
    whole = raw.read_bytes()
    raw.write_bytes(whole[:-1])
    assert run.stage(lake, chosen, quiet)[1] is False
    assert raw.read_bytes() == whole


def test_a_preset_comes_through_the_same_door(lake: Lake, tmp_path: Path) -> None:
    """For a preset, the stage's records are the synthetic ones."""
    (record,), ran = run.stage(lake, scenario(tmp_path, 'preset = "llama3"\ndays = 365\nseed = 1'), quiet)
    assert (record.stage, ran) == ("synth", True)
    assert json.dumps(record.facts)


def test_a_file_of_another_source_is_named(lake: Lake, tmp_path: Path) -> None:
    """The error of the asked source says what it found; the hint which source knows the file."""
    path = tmp_path / "events.txt"
    path.write_bytes((resources.folder("samples") / "slurm-events.psv").read_bytes())
    with pytest.raises(InputError, match="it looks like slurm-events"):
        run.ingest(lake, "sinfo", [str(path)], Options(tz="UTC"), lambda _: None)
    # Where the asked source is the likely one, its own hint stands.
    with pytest.raises(InputError, match="--tz"):
        run.ingest(lake, "slurm-events", [str(path)], Options(), lambda _: None)
