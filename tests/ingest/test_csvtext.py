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


def test_a_byte_order_mark_within_a_file_stays_where_it_is() -> None:
    """Whichever way the rows are split, and wherever a piece begins."""
    text = "x,y,z\n\ufeff1,2,3\n"
    whole, ragged = frame(text), frame(text + "1\n")
    assert whole == ragged[:1]
    assert "\ufeff1" in whole[0]


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


@settings(deadline=None)
@given(
    rows, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.integers(1, 40), st.sampled_from(["", '"'])
)
def test_pieces_are_the_whole(lines: list[str], newline: str, ends: bool, size: int, quote: str) -> None:
    """Wherever a file is cut, its pieces have the rows, numbers and texts that it has as one."""
    text = newline.join(["", "x,y,z", f"{quote}1{quote},2,3", "long,1,2,3", *lines]) + newline * ends
    whole = csvtext.read(text, "f.csv", pick)
    for mark in (b"", b"\xef\xbb\xbf"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csvtext, "_PIECE_BYTES", size)
            tables = list(csvtext.pieces(mark + text.encode(), "f.csv", pick))
        assert pl.concat(table.frame for table in tables).rows() == whole.frame.rows()
        bad = (table.with_frame(table.frame.with_columns(refused="shape")) for table in tables)
        parsed = csvtext.joined(table.parsed({"code": pl.col("x")}) for table in bad)
        told = whole.with_frame(whole.frame.with_columns(refused="shape")).parsed({"code": pl.col("x")})
        assert parsed.events.equals(told.events)
        assert parsed.rejects.equals(told.rejects)
        assert parsed.rows_read == told.rows_read


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\xef\xbb\xbf", b"x,y,z", b"x,y,z\n\n"])
def test_no_rows_in_pieces_is_an_empty_table(data: bytes) -> None:
    """As with the whole file, the header is asked for its columns even then."""
    if b"x" in data:
        (table,) = csvtext.pieces(data, "f.csv", pick)
        assert table.frame.rows() == []
    else:
        with pytest.raises(ValueError, match="z"):
            list(csvtext.pieces(data, "f.csv", pick))


def test_a_byte_that_is_no_text_is_told_with_its_line_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line is the file's, not the piece's."""
    monkeypatch.setattr(csvtext, "_PIECE_BYTES", 8)
    with pytest.raises(InputError, match=r"f\.csv line 4"):
        list(csvtext.pieces(b"x,y,z\n1,2,3\n1,2,3\n1,\xff,3\n", "f.csv", pick))


def test_blanks_around_a_text_do_not_count() -> None:
    """A text of blanks is null, as an empty one."""
    frame = pl.DataFrame({"x": [" a b\t", "", " ", None], "y": [" kept "] * 4})
    assert csvtext.cleaned(frame, ["x"]).rows() == [
        ("a b", " kept "),
        (None, " kept "),
        (None, " kept "),
        (None, " kept "),
    ]
