"""CSV as text."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import csvtext

fields = st.sampled_from(["", "a", " b ", "007", "é", "\t"])
rows = st.lists(st.lists(fields, min_size=1, max_size=4).map(",".join), max_size=6)


def pick(header: list[str]) -> dict[str, int]:
    return {name: header.index(name) for name in ("z", "x")}


def frame(text: str) -> list[tuple[object, ...]]:
    return csvtext.read(text, "f.csv", pick).frame.rows()


@settings(deadline=None)
@given(rows, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans())
def test_three_ways_to_split_agree(lines: list[str], newline: str, ends: bool) -> None:
    """At once, line by line, and by Python's csv module for a quote: the same fields, shapes and rows."""
    text = newline.join(["x,y,z", "1,2,3", *lines]) + newline * ends
    quoted = newline.join(["x,y,z", '"1",2,3', *lines]) + newline * ends
    ragged = csvtext.read(text + newline + "1,2,3,4", "f.csv", pick).frame.rows()
    assert frame(text) == frame(quoted) == ragged[:-1]
    assert ragged[-1][1:] == (None, None, "4 fields, the header has 3")


def test_a_short_row_is_told_from_empty_fields() -> None:
    """A short and a long row have as many commas as two whole ones: both are told."""
    assert frame("x,y,z\n1,2\n1,2,3,4\n,,\n") == [
        (1, None, None, "2 fields, the header has 3"),
        (2, None, None, "4 fields, the header has 3"),
        (3, "", "", None),
    ]
    table = csvtext.read("1,2\n3\n", "f.csv", lambda _: {"x": 0}, ("x", "y"))
    assert table.frame.rows() == [(1, "1", None), (2, None, "1 fields, a row has 2")]


@pytest.mark.parametrize("text", ["", "\n\n", "x,y,z", "x,y,z\n\n", '"x",y,z\n'])
def test_no_rows_is_an_empty_table(text: str) -> None:
    """The header is asked for its columns even then."""
    if not text.strip():
        with pytest.raises(ValueError, match="z"):
            frame(text)
    else:
        assert frame(text) == []


def test_a_quote_that_never_closes_is_one_error() -> None:
    """It says in which line."""
    with pytest.raises(InputError, match=r"f.csv line 2: not valid CSV"):
        frame('x,y,z\n1,"2,3\n')


def test_refused_rows_keep_their_text() -> None:
    """The text of a reject is the row as it stood, whichever way it was split."""
    for text in ("x,y,z\n1,2,3\nb,a,d\n", "x,y,z\n1,2,3\nb,a,d\nlong,1,2,3\n", 'x,y,z\n"1",2,3\nb,a,d\n'):
        table = csvtext.read(text, "f.csv", pick)
        bad = csvtext.first((pl.col("x") == "b", "a b"))
        parsed = table.with_frame(table.frame.with_columns(refused=bad)).parsed({"code": pl.col("x")})
        assert parsed.rejects.rows()[0] == (2, "a b", "b,a,d")
        assert parsed.rows_read == parsed.events.height + parsed.rejects.height
        assert parsed.events["code"].to_list() == ["1"]
