"""The source `intervals`."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

import io
from datetime import UTC, datetime

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import csvtext
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import intervals
from tests.ingest.mutations import survives

UTC_LOG = Options(tz="UTC")
HEADER = "node,gpu,start,end,component,reason\n"
GOOD = "n1,3,2025-03-01T08:00Z,2025-03-01T09:00Z,gpu,lost\n"


def read(text: str | bytes, options: Options = UTC_LOG) -> Parsed:
    return intervals.read(text.encode() if isinstance(text, str) else text, "log.csv", options)


def parquet(frame: pl.DataFrame) -> bytes:
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


def test_a_row_becomes_one_interval() -> None:
    """Node, GPU, UTC instants, component and reason are taken as they stand."""
    (event,) = read(HEADER + GOOD).events.rows(named=True)
    assert {name: value for name, value in event.items() if value is not None} == {
        "t_start": datetime(2025, 3, 1, 8),
        "t_end": datetime(2025, 3, 1, 9),
        "kind": "interval",
        "node": "n1",
        "gpu": 3,
        "severity": "down",
        "scope": "gpu",
        "component": "gpu",
        "code": "gpu",
        "reason": "lost",
        "row": 1,
    }


def test_a_column_that_is_wanted_itself_is_not_to_be_renamed() -> None:
    """A missing `end` is not found in `node`, which it resembles."""
    with pytest.raises(InputError, match="no column start and no column end") as refused:
        read("node,domain\nn1,r1\n")
    assert "rename" not in str(refused.value)
    with pytest.raises(InputError, match="rename 'end_time' to 'end'"):
        read("node,start,end_time\nn1,,\n")


def test_columns_are_found_by_name_and_further_ones_are_ignored() -> None:
    """Order does not count, unknown columns do no harm, absent optional ones have defaults."""
    parsed = read("ticket,end,start,node\nA-1,,2025-03-01T08:00Z,n1\n")
    (event,) = parsed.events.rows(named=True)
    assert (event["node"], event["gpu"], event["scope"], event["component"]) == (
        "n1",
        None,
        "node",
        "unknown",
    )
    assert event["t_end"] is None


def test_a_component_of_the_users_own_is_unknown_and_kept() -> None:
    """A word outside the fixed list counts as unknown; it stays as the code and in front of the reason."""
    when = "2025-03-01T08:00Z,,"
    parsed = read(f"{HEADER}n1,,{when}psu fan,loud\nn1,,{when}dimm,\nn1,,{when}gpu,lost\n")
    assert parsed.rejects.height == 0
    assert parsed.events.select("component", "code", "reason").rows() == [
        ("unknown", "psu fan", "psu fan: loud"),
        ("unknown", "dimm", "dimm"),
        ("gpu", "gpu", "lost"),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (",3,2025-03-01T08:00Z,,gpu,", "node is empty"),
        ("n1,x,2025-03-01T08:00Z,,gpu,", "gpu is not a whole number"),
        ("n1,-1,2025-03-01T08:00Z,,gpu,", "gpu is not a whole number"),
        ("n1,1.0,2025-03-01T08:00Z,,gpu,", "gpu is not a whole number"),
        ("n1,3,,2025-03-01T08:00Z,gpu,", "start is empty"),
        ("n1,3,soon,,gpu,", "start: not an ISO 8601 time with date and clock"),
        ("n1,3,2025-03-01T08:00Z,9999-12-31T00:00Z,gpu,", "end: in the future"),
        ("n1,3,2025-03-01T08:00Z,2025-03-01T07:59:59.999999Z,gpu,", "end before start"),
        ("n[1-3],,2025-03-01T08:00Z,,gpu,", "node is a list of hosts"),
        ("n1,3,2025-03-01T08:00Z", "3 fields, the header has 6"),
        ("n1,3,2025-03-01T08:00Z,,gpu,a,b", "7 fields, the header has 6"),
    ],
)
@pytest.mark.parametrize("quoted", [False, True], ids=["plain", "quoted"])
def test_a_damaged_row_is_rejected_alone(line: str, reason: str, quoted: bool) -> None:
    """A row that breaks a rule is refused with its reason, place and text; its neighbours stay."""
    good = GOOD.replace("lost", '"lost"') if quoted else GOOD
    parsed = read(HEADER + good + line + "\n" + good)
    ((row, why, text),) = parsed.rejects.rows()
    assert (row, text) == (2, line)
    assert why.startswith(reason)
    assert parsed.events["row"].to_list() == [1, 3]
    assert parsed.rows_read == 3


def test_a_zero_length_interval_is_accepted() -> None:
    """An outage of no length is one possible interruption, so it stays."""
    parsed = read(HEADER + "n1,3,2025-03-01T08:00Z,2025-03-01T08:00:00+00:00,gpu,\n")
    assert parsed.events["t_start"].to_list() == parsed.events["t_end"].to_list()


def test_a_log_cut_in_its_last_row_does_not_open_a_fault() -> None:
    """A row that ends early is refused; it would otherwise read as an outage that is still open."""
    parsed = read(HEADER + GOOD + "n2,3,2025-03-01T08:00Z")
    assert (parsed.events.height, parsed.rejects.height) == (1, 1)


@pytest.mark.parametrize(
    "frame",
    [
        pl.DataFrame({"node": ["n1"], "start": [datetime(2025, 3, 1)], "end": [datetime(2025, 3, 2)]}),
        pl.DataFrame({"node": ["n1"], "start": ["2025-03-01T00:00"], "end": ["2025-03-02T00:00Z"]}),
    ],
    ids=["timestamps", "texts"],
)
def test_times_without_a_zone_are_one_error_for_the_file(frame: pl.DataFrame) -> None:
    """Without tz, a naive time is one clear error, not a reject for each of a million rows."""
    with pytest.raises(InputError, match=r"have no zone .*\n.*\n.*tz = \"UTC\""):
        read(parquet(frame), Options())
    assert read(parquet(frame), Options(tz="Europe/Berlin")).events["t_start"][0] == datetime(2025, 2, 28, 23)


@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_parquet_says_the_same_as_csv(unit: str) -> None:
    """Timestamps of any unit with a zone, integer GPUs and texts give the events of the same CSV."""
    start, end = (datetime(2025, 3, 1, hour, tzinfo=UTC) for hour in (8, 9))
    frame = pl.DataFrame(
        {"node": ["n1"], "gpu": [3], "start": [start], "end": [end], "component": ["gpu"], "reason": ["lost"]}
    ).cast({"start": pl.Datetime(unit, "UTC"), "end": pl.Datetime(unit, "UTC")})
    assert read(parquet(frame), Options()).events.equals(read(HEADER + GOOD).events)


def test_a_timestamp_finer_than_a_microsecond_is_rejected() -> None:
    """Nanoseconds are not rounded away."""
    frame = pl.DataFrame(
        {"node": ["n1", "n1"], "start": [1_740_816_000_000_000_001, 1_740_816_000_000_000_000]}
    )
    for zone in ("UTC", None):
        times = frame.with_columns(
            pl.col("start").cast(pl.Datetime("ns", zone)), end=pl.lit(None, pl.Datetime("ns", zone))
        )
        parsed = read(parquet(times))
        assert parsed.rejects["reason"].to_list() == ["start: finer than a microsecond"]
        assert parsed.events.height == 1


@pytest.mark.parametrize(
    ("data", "found"),
    [
        ("", "no column node"),
        ("node;start;end\n", "separate the fields by commas"),
        ("host,start,end\nn1,,\n", "no column node"),
        ("node,start,start,end\n", "column start twice"),
        (HEADER, "no rows"),
        (HEADER + 'n1,3,2025-03-01T08:00Z,,gpu,"never closed\n', "log.csv line 2: not valid CSV"),
        (b"node,start,end\nn\xe9,,\n", "line 2: byte 0xe9 is not UTF-8"),
        (b"PAR1 and no more", "not a readable Parquet file"),
    ],
)
def test_a_file_of_another_shape_is_one_clear_error(data: str | bytes, found: str) -> None:
    """A header, quote or encoding that does not fit is one message with its place."""
    with pytest.raises(InputError) as raised:
        read(data)
    assert found in str(raised.value)


def test_parquet_of_another_type_is_refused() -> None:
    """A column of a type that is not declared is an error, not a guess."""
    frame = pl.DataFrame({"node": ["n1"], "start": [1_740_816_000], "end": [1_740_816_000]})
    with pytest.raises(InputError, match="column start: type Int64"):
        read(parquet(frame))
    with pytest.raises(InputError, match="column node: type Int64"):
        read(parquet(frame.with_columns(node=pl.lit(1, pl.Int64))))


def test_neighbours_do_not_change_how_a_field_is_read() -> None:
    """Case E03: nothing is sniffed, so 25,000 whole numbers do not turn 007 or 3.9 into something else."""
    lines = "007,3,2025-03-01T08:00Z,,gpu,\n" * 25_000 + "7,3.9,2025-03-01T08:00Z,,gpu,\n"
    parsed = read(HEADER + lines)
    assert set(parsed.events["node"]) == {"007"}
    assert parsed.rejects["row"].to_list() == [25_001]


def test_damage_gives_rows_rejects_or_one_error() -> None:
    """Whatever is done to a file, every row is accounted for."""
    survives(intervals, (HEADER + GOOD * 6).encode(), Options())


cells = st.sampled_from(
    ["", "n1", " n2 ", "3", "x", "2025-03-01T08:00Z", "2025-03-01 09:00", "gpu", "\u00e9"]
)


@settings(deadline=None)
@given(
    st.lists(st.lists(cells, min_size=1, max_size=8).map(",".join), max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_both_ways_to_split_rows_agree_and_count_every_row(lines: list[str], newline: str) -> None:
    """A file with quotes and the same file without give the same events and rejects; none is lost."""
    text = newline.join([HEADER.strip(), GOOD.strip(), *lines]) + newline
    plain, quoted = read(text), read(text.replace("lost", '"lost"'))
    assert plain.events.equals(quoted.events)
    assert plain.rejects.equals(quoted.rejects)
    assert plain.rows_read == plain.events.height + plain.rejects.height == 1 + sum(map(bool, lines))


def test_a_file_of_several_pieces_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are numbered through the file, whatever piece they stand in; so is the row of an error."""
    bad = "n2,,2025-03-01T08:00Z,2025-02-01T09:00Z,,\n"
    text = HEADER + GOOD * 5 + bad + GOOD * 3 + bad
    whole = read(text)
    monkeypatch.setattr(csvtext, "_PIECE_BYTES", 2 * len(GOOD))
    pieces = read(text)
    assert pieces.events.equals(whole.events) and pieces.rejects.equals(whole.rejects)
    assert (pieces.rows_read, pieces.rejects["row"].to_list()) == (10, [6, 10])
    with pytest.raises(InputError, match="row 8") as caught:
        read(HEADER + GOOD * 7 + GOOD.replace("08:00Z", "08:00"), Options())
    assert "2025-03-01T08:00)" in str(caught.value)
