"""The source `titan`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed, parse_instants
from pipeline.ingest.sources import titan
from tests.ingest.mutations import survives

SAMPLE = (resources.folder("samples") / "titan.csv").read_text(encoding="utf-8")
HEADER, GOOD = SAMPLE.splitlines()[:2]
NEW_YORK = Options(tz="America/New_York")
LATER = Options(tz="America/New_York", fold="later")


def read(text: str, options: Options = NEW_YORK) -> Parsed:
    return titan.read(text.encode(), "titan.csv", options)


def row(**fields: str) -> str:
    """Return a text of the header and one row that differs from a good one in these columns."""
    values = dict(zip(HEADER.split(","), GOOD.split(","), strict=True)) | fields
    return f"{HEADER}\n{','.join(values.values())}\n"


def case(shared_dir: Path, name: str) -> tuple[str, dict[str, Any]]:
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]
    return (folder / "gc_full_sample.csv").read_text(encoding="utf-8"), wanted


def columns(text: str) -> pl.DataFrame:
    return pl.read_csv(text.encode(), infer_schema=False)


def off_s(table: pl.DataFrame, options: Options) -> list[int | None]:
    """Return by how many seconds `remove` less `insert` exceeds `duration`, in a zone."""
    inserted, removed = (parse_instants(table[name], options)["us"] for name in ("insert", "remove"))
    return ((removed - inserted) // 1_000_000 - table["duration"].cast(pl.Int64)).to_list()


@pytest.fixture(scope="module")
def public(shared_data: Path) -> str:
    return (shared_data / "titan" / "gc_full.csv").read_text(encoding="utf-8")


def test_a_fault_is_an_onset_and_a_span_without_one_is_information() -> None:
    """The node is the slot, the GPU its index 0 and its serial number as text."""
    fault, span, *_ = read(SAMPLE).events.to_dicts()
    assert (fault["kind"], fault["severity"], fault["code"], fault["t_end"]) == ("onset", "down", "DBE", None)
    assert (fault["node"], fault["gpu"], fault["gpu_name"]) == ("c0-0c1s2n0", 0, "0399900000001")
    assert str(fault["t_start"]) == "2016-06-30 12:15:00"
    assert fault["reason"] == "DBE, after 77060770 s in the slot"
    assert (span["kind"], span["severity"]) == ("interval", "info")
    assert int((span["t_end"] - span["t_start"]).total_seconds()) == 94_962_442


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"SN": ""}, "SN is empty"),
        ({"location": "c0-0c1s2"}, "location is no slot"),
        ({"event": "XID"}, "event is not"),
        ({"duration": "1.5"}, "duration is not whole seconds"),
        ({"remove": ""}, "remove is empty"),
        ({"remove": "2016-06-30"}, "remove: not an ISO 8601"),
        ({"remove": "2016-11-06 01:15:00"}, "remove: ambiguous"),
        ({"insert": "2016-03-13 02:15:00"}, "insert: local time that does not exist"),
        ({"insert": "2017-01-01 00:00:00"}, "removed before inserted"),
        ({"insert": "", "event": ""}, "neither a span nor an event"),
        ({"event": "DBE,x"}, "8 fields, the header has 7"),
    ],
)
def test_a_damaged_row_is_refused(fields: dict[str, str], reason: str) -> None:
    """What cannot be read is refused with the reason, and never repaired."""
    (reject,) = read(row(**fields)).rejects.to_dicts()
    assert reject["reason"].startswith(reason)


def test_the_zone_must_be_given() -> None:
    """Times without a zone are one error for the file, which names the option."""
    with pytest.raises(InputError, match=r"(?s)titan.csv.*--tz"):
        read(SAMPLE, Options())


@pytest.mark.shared
def test_d01_spans_are_differences_of_instants(shared_dir: Path) -> None:
    """Subtracted as they stand times are off by an hour; in the site's zone they give the duration."""
    text, wanted = case(shared_dir, "D01")
    assert off_s(columns(text), Options(tz="UTC")) == wanted["sample_naive_diff_s"]
    assert read(text).notes == ()
    (note,) = read(text, Options(tz="UTC")).notes
    assert note.startswith("6 of 9 rows state another length than from their start to their end")
    assert "by -3,600 s" in note
    assert off_s(columns(text), NEW_YORK) == wanted["sample_diff_with_America/New_York_s"]
    spans = read(text).events.filter(pl.col("kind") == "interval")
    told = spans["reason"].str.extract("^([0-9]+) s").cast(pl.Int64)
    assert (spans["t_end"] - spans["t_start"]).dt.total_seconds().to_list() == told.to_list()


@pytest.mark.shared
def test_d01_the_whole_file(public: str, shared_dir: Path) -> None:
    """16,944 of 36,185 dated rows disagree as they stand; by the site's clock all but 2, which come twice."""
    whole = case(shared_dir, "D01")[1]["whole_file"]
    table = columns(public)
    naive = off_s(table, Options(tz="UTC"))
    found = [naive.count(seconds) for seconds in (0, 3600, -3600, None)]
    assert found == [whole[f"naive_{key}"] for key in ("equal", "plus_3600", "minus_3600")] + [
        whole["undated"]
    ]
    assert len(naive) == whole["rows"]
    assert off_s(table, LATER).count(0) == whole["tz_equal"]
    earlier = off_s(table, Options(tz="America/New_York", fold="earlier"))
    assert [seconds for seconds in earlier if seconds] == [-3600, -3600]
    refused = read(public).rejects
    assert refused["row"].to_list() == [21_304, 25_900]
    assert refused["reason"].str.contains("remove: ambiguous").all()


@pytest.mark.shared
def test_d03_faults_without_a_span_are_counted(shared_dir: Path) -> None:
    """They are faults at a known time and no exposure; serial numbers keep their zero."""
    text, wanted = case(shared_dir, "D03")
    events = read(text).events
    faults = events.filter(pl.col("kind") == "onset")
    assert faults.height == wanted["failures_counted"] == wanted["left_censored"]
    assert not faults["reason"].str.contains("in the slot").any()
    spans = events.filter(pl.col("kind") == "interval")
    assert (spans["t_end"] - spans["t_start"]).dt.total_seconds().sum() == wanted["exposure_s"]
    assert spans["gpu_name"].to_list() == [wanted["first_SN"]]
    assert wanted["SN_type"] == "string"
    assert events["gpu_name"].dtype == pl.String


@pytest.mark.shared
def test_the_public_file_is_read_whole(public: str, shared_dir: Path) -> None:
    """37,343 rows, 30,207 serials, 18,687 slots, and the faults as published, by kind and by year."""
    events = read(public, LATER).events
    assert (events.height, events["gpu_name"].n_unique(), events["node"].n_unique()) == (
        37_343,
        30_207,
        18_687,
    )
    wanted = case(shared_dir, "D03")[1]["whole_file_events"]
    counts = dict(events["code"].value_counts().rows())
    assert counts == {"DBE": wanted["DBE"], "OTB": wanted["OTB"], "life span": wanted["none"]}
    in_slot = events.filter(pl.col("reason").str.contains("after "))
    assert dict(in_slot["code"].value_counts().rows()) == {"DBE": 3_787, "OTB": 1_422}
    exposure = events["reason"].str.extract("([0-9]+) s in the slot").cast(pl.Int64).sum()
    assert round(exposure / (365.2425 * 86_400)) == 100_822, "GPU-years"
    faults = in_slot["gpu_name"].value_counts()["count"]
    assert ((faults == 2).sum(), (faults > 2).sum()) == (64, 6), "GPUs with two faults, and with more"
    local = pl.col("t_start").dt.replace_time_zone("UTC").dt.convert_time_zone("America/New_York")
    per_year = in_slot.filter(pl.col("code") == "DBE").group_by(local.dt.year()).len().sort("t_start")
    assert per_year["len"].to_list() == [15, 127, 1_290, 822, 808, 725]
    assert str(events["t_start"].min())[:10] == "2013-11-19"
    assert str(events["t_end"].max())[:10] == "2019-08-02", "evening of 1 August in New York"


@pytest.mark.shared
def test_overlaps_of_the_public_file(public: str) -> None:
    """13 spans begin before the one before them in their slot has ended, 2 before that of their GPU."""
    table = columns(public).filter(pl.col("insert").is_not_null())
    ordered = {name: table.sort(name, "insert", "remove") for name in ("location", "SN")}
    overlaps = {
        name: (rows["insert"] < rows.select(pl.col("remove").shift(1).over(name)).to_series()).sum()
        for name, rows in ordered.items()
    }
    assert overlaps == {"location": 13, "SN": 2}
    scans = table["insert"].value_counts()
    assert scans.filter(pl.col("insert") == "2014-01-21 10:28:50")["count"].to_list() == [18_231]


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a file, every row is accounted for."""
    survives(titan, SAMPLE.encode(), NEW_YORK)
