"""The source `lanl`."""

from __future__ import annotations

import csv
import io
import json
import lzma
from pathlib import Path

import polars as pl
import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import lanl
from pipeline.schema import COMPONENTS
from tests.ingest.mutations import survives

SAMPLE = (resources.folder("samples") / "lanl.csv").read_text(encoding="utf-8")
HEADER, GOOD = SAMPLE.splitlines()[:2]
DENVER = Options(tz="America/Denver")
LATER = Options(tz="America/Denver", fold="later")


def read(text: str, options: Options = DENVER) -> Parsed:
    return lanl.read(text.encode(), "lanl.csv", options)


def row(**fields: str) -> str:
    """Return a text of the header and one row that differs from a good one in these columns."""
    values = dict(zip(HEADER.split(","), GOOD.split(","), strict=True)) | fields
    return f"{HEADER}\n{','.join(values.values())}\n"


def minutes(parsed: Parsed) -> list[int]:
    return (parsed.events["t_end"] - parsed.events["t_start"]).dt.total_minutes().to_list()


def down_time(text: str) -> list[int]:
    return [int(line["Down Time"]) for line in csv.DictReader(io.StringIO(text))]


def case(shared_dir: Path, name: str) -> tuple[Path, dict[str, object]]:
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]


@pytest.fixture(scope="module")
def public(shared_data: Path) -> bytes:
    (path,) = (shared_data / "lanl").glob("*.csv.xz")
    return lzma.decompress(path.read_bytes())


def test_a_row_becomes_one_interval() -> None:
    """The node is system and zero-based number, the times are UTC; the code is the cause."""
    (event,) = read(row()).events.to_dicts()
    assert (event["kind"], event["node"], event["scope"], event["severity"]) == (
        "interval",
        "s90n0",
        "node",
        "down",
    )
    assert [str(event[name]) for name in ("t_start", "t_end")] == [
        "2003-03-30 16:15:00",
        "2003-03-30 17:40:00",
    ]
    assert (event["code"], event["component"]) == ("Hardware/Memory Dimm", "host")


def test_summer_time_makes_an_hour() -> None:
    """An outage over a change of the clocks lasts what its Down Time says, not what subtraction gives."""
    assert minutes(read(SAMPLE)) == down_time(SAMPLE)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"Prob Started": "10/26/2003 1:30"}, "Prob Started: ambiguous"),
        ({"Prob Fixed": "4/6/2003 2:30"}, "Prob Fixed: local time that does not exist"),
        ({"Prob Started": "30.3.2003 9:15"}, "Prob Started: not a time such as"),
        ({"Prob Started": "2/30/2003 9:15"}, "Prob Started: no such date"),
        ({"Prob Started": ""}, "Prob Started: not a time such as"),
        ({"Prob Started": "1/1/1970 0:00"}, "Prob Started: before 1995-01-01"),
        ({"Prob Fixed": "3/30/2103 9:15"}, "Prob Fixed: in the future"),
        ({"Prob Fixed": "3/30/2003 9:14"}, "fixed before started"),
        ({"System": ""}, "System is not a whole number"),
        ({"nodenumz": "x"}, "nodenumz is not a whole number"),
        ({"Software": "DST"}, "more than one cause"),
        ({"Same Event": "No,No"}, "27 fields, the header has 26"),
    ],
)
def test_a_damaged_row_is_refused(fields: dict[str, str], reason: str) -> None:
    """What cannot be read is refused with the reason, and never repaired."""
    (reject,) = read(row(**fields)).rejects.to_dicts()
    assert reject["reason"].startswith(reason)


def test_the_zone_must_be_given() -> None:
    """Times without a zone are one error for the file, which names the option."""
    with pytest.raises(InputError, match=r"(?s)lanl.csv.*--tz"):
        read(SAMPLE, Options())
    with pytest.raises(InputError, match=r"header.*not once each: nodenumz"):
        read(SAMPLE.replace("nodenumz", "number"))


def test_a_node_without_a_number_is_the_system() -> None:
    """A row that names a system alone stands for the system."""
    assert read(row(nodenumz="")).events["node"].to_list() == ["s90"]


@pytest.mark.shared
def test_d06_down_time_is_minutes_of_the_sites_clock(shared_dir: Path) -> None:
    """The file's Down Time is minutes; with the site's zone the instants agree with it within a minute."""
    folder, wanted = case(shared_dir, "D06")
    text = (folder / "lanl_sample.csv").read_text(encoding="utf-8")
    assert down_time(text) == wanted["down_min"]
    assert minutes(read(text)) == wanted["tz_America/Denver_min"]
    assert wanted["unit"] == "minutes"
    assert read(text).notes == ()
    naive = read(text, Options(tz="Etc/GMT+7"))
    assert minutes(naive) == wanted["naive_min"]
    assert len(naive.notes) == 1
    assert "3 of 6 rows state another length than from their start to their end" in naive.notes[0]


def test_a_file_without_down_times_has_no_note() -> None:
    """The column is looked at where it is; what is no number states nothing."""
    assert read(row(**{"Down Time": "soon"})).notes == ()
    assert read(row(**{"Down Time": "9999"})).notes != ()
    lines = [",".join(line) for line in csv.reader(io.StringIO(row()))]
    assert read("\n".join([lines[0].replace("Down Time", "Other"), *lines[1:]])).notes == ()


@pytest.mark.shared
def test_d08_months_of_installation_are_never_read_as_days(shared_dir: Path) -> None:
    """`5-Apr` means April 2005: nothing is read from such columns, so what they hold changes nothing."""
    folder, _ = case(shared_dir, "D08")
    text = (folder / "lanl_sample.csv").read_text(encoding="utf-8")
    dates = (folder / "dates.txt").read_text(encoding="utf-8").split("\n")
    whole = read(text)
    assert whole.rejects.is_empty()
    for date in dates:
        lines = list(csv.reader(io.StringIO(text)))
        for line in lines[1:]:
            line[7:10] = [date] * 3
        changed = read("\n".join(",".join(line) for line in lines))
        assert changed.events.equals(whole.events)


@pytest.mark.shared
def test_the_public_file_is_read_whole(public: bytes) -> None:
    """Every row is accepted once the hour that came twice is told: counts as published."""
    events = lanl.read(public, "lanl.csv", LATER).events
    assert events.height == 23_739
    assert events["node"].str.extract("^s([0-9]+)").n_unique() == 23
    assert events["node"].n_unique() == 3_577
    assert (events["t_end"] == events["t_start"]).sum() == 122
    assert (events["code"] == "unknown").sum() == 453
    assert str(events["t_start"].min())[:7] == "1995-05"
    assert str(events["t_end"].max())[:10] == "2005-09-09"
    assert set(events["component"]) <= set(COMPONENTS)
    per = dict(events.group_by(pl.col("node").str.extract("^(s[0-9]+)")).agg(pl.len()).rows())
    assert {name: per[name] for name in ("s18", "s19", "s20", "s2")} == {
        "s18": 3_997, "s19": 3_284, "s20": 2_478, "s2": 7_104,
    }  # fmt: skip
    assert (events["node"] == "s17").sum() == 126


@pytest.mark.shared
def test_overlaps_and_duplicates_of_the_public_file_are_kept(public: bytes) -> None:
    """91 outages begin before the one before them on their node has ended; 27 rows stand twice: all kept."""
    events = lanl.read(public, "lanl.csv", LATER).events
    ordered = events.sort("node", "t_start", "t_end", "row")
    before = ordered.select(pl.col("t_end").shift(1).over("node")).to_series()
    assert (ordered["t_start"] < before).sum() == 91
    assert events.height - events.select("node", "t_start", "t_end").n_unique() == 27


@pytest.mark.shared
def test_repair_times_of_the_public_file(public: bytes) -> None:
    """Repair times, whole and by the column of the cause: mean 5.87 h, median 0.98, as published."""
    events = lanl.read(public, "lanl.csv", LATER).events
    hours = (pl.col("t_end") - pl.col("t_start")).dt.total_minutes() / 60
    all_h = events.select(hours).to_series()
    assert round(all_h.mean() or 0, 2) == 5.87
    assert [round(all_h.quantile(p) or 0, 2) for p in (0.5, 0.95, 0.99)] == [0.98, 10.32, 63.02]
    assert round(all_h.max() or 0) == 5_325
    cause = pl.col("code").str.extract("^([^/]+)/")
    table = events.group_by(cause).agg(pl.len(), hours.median().alias("m"), hours.quantile(0.95).alias("q"))
    found = {name: (count, m, q) for name, count, m, q in table.rows() if name}
    published = {
        "Hardware": (14_341, 1.13, 9.0),
        "Software": (5_361, 0.72, 8.0),
        "Undetermined": (2_652, 0.5, 15.7),
        "Network": (421, 1.17, 13.7),
        "Facilities": (362, 4.65, 37.5),
        "Human Error": (149, 0.73, 18.0),
    }
    assert found.keys() == published.keys()
    for name, (count, median, tail) in published.items():
        # Published from naive subtraction, and a quantile between two rows has several definitions.
        assert found[name] == (count, pytest.approx(median, abs=0.1), pytest.approx(tail, abs=0.3))


@pytest.mark.shared
def test_d06_the_zone_mends_22_of_24_and_the_fold_the_other_two(public: bytes, shared_dir: Path) -> None:
    """As they stand 24 rows are an hour off; the zone mends 22, two lie in the hour that comes twice."""
    _, wanted = case(shared_dir, "D06")
    whole = wanted["whole_file"]
    assert isinstance(whole, dict)
    told = down_time(public.decode())

    def off(options: Options) -> list[int]:
        events = lanl.read(public, "lanl.csv", options).events
        spans = (events["t_end"] - events["t_start"]).dt.total_minutes()
        return [span - told[place - 1] for place, span in zip(events["row"], spans, strict=True)]

    naive = off(Options(tz="Etc/GMT+7"))
    assert (len(naive), naive.count(0)) == (whole["rows"], whole["equal"])
    assert naive.count(1) + naive.count(-1) == whole["off_by_1_min"]
    assert naive.count(60) + naive.count(-60) == whole["off_by_60_min"] == 24
    earlier = off(Options(tz="America/Denver", fold="earlier"))
    assert [abs(span) for span in earlier if abs(span) > 1] == [60, 60], "2 of 24 are left"
    later = off(LATER)
    assert 24 - sum(abs(span) > 1 for span in later) == whole["explained_by_America/Denver"]
    assert lanl.read(public, "lanl.csv", LATER).notes == ()
    (note,) = lanl.read(public, "lanl.csv", Options(tz="Etc/GMT+7")).notes
    assert note.startswith("24 of 23,739 rows state another length")
    refused = lanl.read(public, "lanl.csv", DENVER).rejects
    assert refused["row"].to_list() == [18_567, 20_566], "file lines 18568 and 20567"
    assert refused["reason"].str.contains("ambiguous").all()


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a file, every row is accounted for."""
    survives(lanl, SAMPLE.encode(), DENVER)
