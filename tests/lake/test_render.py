"""Printing: every format holds the same cells, and a cell is never taken for anything but data."""

from __future__ import annotations

import csv
import io
import json
import math
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline.errors import InputError
from pipeline.lake.render import FORMATS, MAX_CELL, render

NAN, INF = float("nan"), float("inf")
NASTY = 'a,"b"\r\n|c\\ <d> \x1b[31m\u202e é 漢'


def shown(table: pa.Table, form: str = "table", **more: int) -> str:
    return render(table, form, **more).decode()


@pytest.fixture(scope="module")
def everything() -> pa.Table:
    """Return a table with every type DuckDB has, its smallest and largest values, and nulls."""
    with duckdb.connect() as con:
        return con.sql("select * from test_all_types()").to_arrow_table()


@pytest.mark.parametrize("form", FORMATS)
def test_every_type_has_a_text_in_every_format(everything: pa.Table, form: str) -> None:
    """No type, and no extreme value of one, stops a format."""
    rendered = render(everything, form)
    assert rendered
    if form == "json":
        assert len(json.loads(rendered)["rows"]) == everything.num_rows
    if form == "parquet":
        back = pq.read_table(io.BytesIO(rendered))
        assert back.schema.names == everything.schema.names and back.num_rows == everything.num_rows


@pytest.mark.parametrize("form", FORMATS)
def test_no_rows_still_have_names(form: str) -> None:
    """An empty result names its columns."""
    table = pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.float64())})
    rendered = render(table, form)
    if form == "parquet":
        assert pq.read_table(io.BytesIO(rendered)).equals(table)
    else:
        assert b"a" in rendered and b"b" in rendered


def test_an_unknown_format_is_a_clear_error() -> None:
    """The message names the formats and the nearest one."""
    with pytest.raises(InputError, match=r"'jsn'[\s\S]*csv, json, markdown, parquet, table[\s\S]*'json'"):
        render(pa.table({"a": [1]}), "jsn")


# --- table ------------------------------------------------------------------------------------------------


def test_table_aligns_numbers_right_and_counts_rows() -> None:
    """Texts stand left, numbers right, nulls are empty, the last line counts."""
    table = pa.table({"name": ["a", None, "long name"], "n": [1, 22, None]})
    assert shown(table).split("\n") == [
        "name        n",
        "---------  --",
        "a           1",
        "           22",
        "long name",
        "(3 rows)",
        "",
    ]


@pytest.mark.parametrize(("count", "footer"), [(0, "(0 rows)"), (1, "(1 row)"), (1200, "(1,200 rows)")])
def test_table_counts_in_words(count: int, footer: str) -> None:
    """One row is not `1 rows`."""
    table = pa.table({"a": pa.array(range(count), pa.int64())})
    assert shown(table, max_rows=2000).endswith(f"{footer}\n")


def test_table_says_what_it_leaves_out() -> None:
    """A long result is cut, and the footer says how many rows there are and how to see them."""
    text = shown(pa.table({"a": range(1234)}), max_rows=10)
    assert text.count("\n") == 13 and "the first 10 of 1,234 rows; --format csv prints all" in text
    assert shown(pa.table({"a": range(1234)}), "csv", max_rows=10).count("\n") == 1235


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.9590596, 0.5], ["0.95906", "0.50000"]),
        ([25704393.93, 620413.86], ["25704394", "620414"]),
        ([1.0, 20.0, None], ["1", "20", ""]),
        ([123.456, 1.5], ["123.456", "1.500"]),
        ([1234.5678], ["1234.57"]),
        ([1e-9, 0.5], ["1.00e-09", "0.5"]),
        ([0.0, -0.25], ["0.00", "-0.25"]),
        ([NAN, INF, -INF], ["nan", "inf", "-inf"]),
        ([1e300, 0.5], ["1e+300", "0.5"]),
        ([None, None], ["", ""]),
    ],
)
def test_table_gives_a_column_the_decimals_it_needs(values: list[float | None], expected: list[str]) -> None:
    """Six digits at most, alike in one column, as many as needed; whole numbers without; tiny never zero."""
    lines = shown(pa.table({"a": pa.array(values, pa.float64())})).split("\n")[2:-2]
    assert [line.strip() for line in lines] == expected


def test_table_keeps_the_terminal_safe() -> None:
    """Control and direction characters are shown as escapes, a line break does not break the row."""
    text = shown(pa.table({"a\x1b": [NASTY]}))
    assert text.count("\n") == 4 and "\x1b" not in text and "\u202e" not in text and "\r" not in text
    assert "\\x1b[31m" in text and "é 漢" in text


def test_table_cuts_long_cells() -> None:
    """A cell is at most MAX_CELL characters wide, and shows that it was cut."""
    line = shown(pa.table({"a": ["x" * 500]})).split("\n")[2]
    assert len(line) == MAX_CELL and line.endswith("…")


def test_table_aligns_wide_characters() -> None:
    """Characters that take two places are counted so."""
    lines = shown(pa.table({"a": ["漢字", "ab"], "b": ["x", "y"]})).split("\n")
    assert lines[2] == "漢字  x" and lines[3] == "ab    y"


def test_a_plan_is_printed_as_drawn() -> None:
    """EXPLAIN's drawing is not put into a cell."""
    with duckdb.connect() as con:
        plan = con.sql("explain select 42").to_arrow_table()
    assert shown(plan) == plan.column(1)[0].as_py() and shown(plan).count("\n") > 2


# --- csv --------------------------------------------------------------------------------------------------


def test_csv_reads_back_as_it_was() -> None:
    """Quotes, commas and line breaks survive a reader of RFC 4180; lines end in CRLF."""
    cells = [NASTY, "", " padded ", "=1+1", "x", '"', "\n"]
    text = shown(pa.table({"a,b": cells, "n": range(7)}), "csv")
    assert text.startswith('"a,b",n\r\n')
    read = list(csv.reader(io.StringIO(text, newline="")))
    assert read == [["a,b", "n"], *([cell, str(n)] for n, cell in enumerate(cells))]


def test_csv_tells_null_from_an_empty_text() -> None:
    """Null is nothing, an empty text two quotes."""
    assert shown(pa.table({"a": [None, ""], "b": [1, None]}), "csv") == 'a,b\r\n,1\r\n"",\r\n'


def test_csv_keeps_numbers_in_full() -> None:
    """A float reads back to the same bits."""
    values = [0.1, 1 / 3, 25704393.934484713, 5e-324, 1.7976931348623157e308]
    text = shown(pa.table({"a": values, "b": [2**63 - 1] * 5}), "csv")
    assert [float(line.split(",")[0]) for line in text.split("\r\n")[1:-1]] == values
    assert "9223372036854775807" in text


# --- json -------------------------------------------------------------------------------------------------


def test_json_has_columns_with_types_and_rows_as_objects() -> None:
    """One object; rows carry the columns' names."""
    document = json.loads(shown(pa.table({"a": [1, None], "b": ["x", NASTY]}), "json"))
    assert document == {
        "columns": [{"name": "a", "type": "int64"}, {"name": "b", "type": "string"}],
        "rows": [{"a": 1, "b": "x"}, {"a": None, "b": NASTY}],
    }


def test_json_has_no_nan() -> None:
    """NaN and infinities, also inside lists, are null: other readers refuse them."""
    text = shown(pa.table({"a": [NAN, INF, 0.5], "b": [[NAN], [INF, 1.0], []]}), "json")
    assert [row["a"] for row in json.loads(text, parse_constant=pytest.fail)["rows"]] == [None, None, 0.5]


def test_json_keeps_integers_whole() -> None:
    """Sums are HUGEINT and come as decimals; they stay whole numbers."""
    with duckdb.connect() as con:
        table = con.sql("select sum(a) as s, 1.5::decimal(4, 2) as d from range(5) as t(a)").to_arrow_table()
    assert json.loads(shown(table, "json"))["rows"] == [{"s": 10, "d": 1.5}]


# --- instants ---------------------------------------------------------------------------------------------


def test_instants_are_iso_with_z() -> None:
    """A naive instant is UTC, one with a zone is converted; both end in Z in every text format."""
    moment = datetime(2024, 3, 30, 12, 0, 0, 500, tzinfo=UTC)
    table = pa.table(
        {
            "naive": pa.array([moment.replace(tzinfo=None)], pa.timestamp("us")),
            "zoned": pa.array([moment], pa.timestamp("us", "Asia/Tokyo")),
            "nanos": pa.array([moment.replace(tzinfo=None)], pa.timestamp("ns")),
        }
    )
    expected = "2024-03-30T12:00:00.000500Z"
    assert set(json.loads(shown(table, "json"))["rows"][0].values()) == {expected}
    assert shown(table, "csv").count(expected) == 3 and shown(table).count(expected) == 3


def test_instants_python_cannot_hold_are_printed() -> None:
    """An infinite instant or the year 20000 is a value like others."""
    with duckdb.connect() as con:
        query = "select unnest([timestamp '20000-01-01', 'infinity', timestamp '2024-01-01', null]) as t"
        table = con.sql(query).to_arrow_table()
    cells = [row["t"] for row in json.loads(shown(table, "json"))["rows"]]
    assert cells[2:] == ["2024-01-01T00:00:00Z", None] and all(isinstance(cell, str) for cell in cells[:2])


# --- markdown and parquet ---------------------------------------------------------------------------------


def test_markdown_is_one_table_whatever_the_cells_hold() -> None:
    """Bars, tags and line breaks in a cell stay in the cell; number columns are aligned right."""
    lines = shown(pa.table({"a|b": [NASTY, "x"], "n": [1, 2]}), "markdown").split("\n")
    assert lines[0] == "| a\\|b | n |" and lines[1] == "| --- | ---: |" and lines[3] == "| x | 2 |"
    assert len(lines) == 5 and "\\|c" in lines[2] and "&lt;d>" in lines[2]


def test_parquet_reads_back_equal() -> None:
    """Types, nulls and values are the result's own."""
    table = pa.table({"a": [1, None], "b": [0.5, math.pi], "c": [["x"], []]})
    assert pq.read_table(io.BytesIO(render(table, "parquet"))).equals(table)
