"""Instants and options that sources share."""

# ruff: noqa: DTZ001 - tables hold UTC instants without a zone, logs hold local clock times
from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest import parsing
from pipeline.ingest.parsing import Options, RefusedError, parse_instant, parse_instants

AS_OF = datetime(2026, 1, 1, tzinfo=UTC)
BERLIN = Options(tz="Europe/Berlin", as_of=AS_OF)
REASONS = {
    "2024-03-30": parsing.NOT_ISO,
    "30.03.2024 10:00": parsing.NOT_ISO,
    "1711792800": parsing.NOT_ISO,
    "\u0662\u0660\u0662\u0664-03-30T10:00Z": parsing.NOT_ISO,
    "2024-03-30T10:00Z\n": parsing.NOT_ISO,
    "2024-02-30T10:00Z": parsing.NO_SUCH,
    "0000-01-01T00:00Z": parsing.NO_SUCH,
    "2024-03-30T24:00Z": parsing.NO_SUCH,
    "2024-03-30T10:00:60Z": parsing.NO_SUCH,
    "2024-03-30T10:00+24:00": parsing.NO_SUCH,
    "2024-03-30T10:00:00.1234567Z": parsing.TOO_FINE,
    "2024-03-31T02:30": parsing.SKIPPED,
    "2024-10-27T02:30": parsing.AMBIGUOUS,
    "1999-12-31T23:59:59.999999Z": parsing.TOO_EARLY,
    "1970-01-01T00:00:00Z": parsing.TOO_EARLY,
    "0001-01-01T00:00:00": parsing.TOO_EARLY,
    "2026-01-01T00:00:00.000001Z": parsing.AFTER_AS_OF,
    "9999-12-31T23:59:59": parsing.AFTER_AS_OF,
}
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
moments = st.datetimes(datetime(2000, 1, 2), datetime(2025, 12, 30), timezones=offsets)


def vector(texts: list[str], options: Options) -> list[tuple[int | None, str | None]]:
    return parse_instants(pl.Series(texts, dtype=pl.String), options).select("us", "reason").rows()


def scalar(text: str, options: Options) -> tuple[int | None, str | None]:
    try:
        return parsing.to_us(parse_instant(text, options)), None
    except RefusedError as error:
        return None, str(error)


@settings(deadline=None)
@given(moments, st.sampled_from(["T", " "]))
def test_an_instant_written_in_iso_reads_back_the_same(moment: datetime, between: str) -> None:
    """Writing any instant with any offset and reading it gives the same instant, to the microsecond."""
    text = moment.isoformat(sep=between)
    assert parse_instant(text, Options(as_of=AS_OF)) == moment
    assert vector([text], Options(as_of=AS_OF)) == [(parsing.to_us(moment.astimezone(UTC)), None)]


@pytest.mark.parametrize("text", REASONS)
def test_a_doubtful_time_is_refused_with_its_reason(text: str) -> None:
    """No time is repaired: each kind of doubt has its own reason."""
    assert scalar(text, BERLIN) == (None, REASONS[text])
    assert vector([text], BERLIN) == [(None, REASONS[text])]


@settings(deadline=None)
@given(
    st.lists(
        st.one_of(
            st.from_regex(
                r"\A(0000|0001|19[79]9|20[012][0-9]|9999)-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]"
                r"(:[0-6][0-9]([.,][0-9]{1,8})?)?(Z| UTC|[+-][0-3][0-9](:?[0-9]{2})?)?\Z"
            ),
            st.datetimes(datetime(2024, 3, 30), datetime(2024, 4, 1)).map(str),
            st.datetimes(datetime(2024, 10, 26), datetime(2024, 10, 28)).map(str),
            st.sampled_from(list(REASONS)),
            st.text(max_size=20),
        ),
        min_size=1,
        max_size=20,
    ),
    st.sampled_from([BERLIN, Options(as_of=AS_OF), Options(tz="America/New_York", as_of=AS_OF)]),
)
def test_a_column_is_read_as_its_texts_one_by_one(texts: list[str], options: Options) -> None:
    """The reader of columns and the reader of single texts agree on every value and every reason."""
    assert vector(texts, options) == [scalar(text, options) for text in texts]


def test_zeros_beyond_microseconds_are_exact() -> None:
    """Decimals beyond six are taken when they are zeros, since nothing is lost."""
    expected = datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=UTC)
    assert parse_instant("2024-01-01T00:00:00.123456000Z", BERLIN) == expected


def test_a_zone_in_the_text_wins() -> None:
    """`tz` serves times without a zone only."""
    assert parse_instant("2024-07-01T12:00Z", BERLIN).hour == 12
    assert parse_instant("2024-07-01T12:00", BERLIN).hour == 10


def test_a_far_future_is_refused_without_as_of() -> None:
    """Without --as-of, one day from now is the last instant believed."""
    late = datetime.now(UTC) + timedelta(days=2)
    assert scalar(late.isoformat(), Options()) == (None, parsing.IN_FUTURE)


@pytest.mark.parametrize("zone", ["europe/berlin", "Europe/Berlim", "../etc/passwd", "", "\0"])
def test_an_unknown_zone_is_named_at_once(zone: str) -> None:
    """A zone that does not exist is an input error before any row is read."""
    with pytest.raises(InputError, match="unknown zone"):
        Options(tz=zone)


@pytest.mark.parametrize(
    "word", ["CST", "cst", "PDT", "AEST", "EST", "est", "MST", "HST", "EST5EDT", "PST8PDT", "CET", "MET"]
)
def test_a_letter_word_is_no_zone_and_gets_no_near_one(word: str) -> None:
    """CST is six hours off UCT, the name that is nearest as text."""
    with pytest.raises(InputError, match="several zones") as told:
        Options(tz=word)
    assert "did you mean" not in str(told.value)


@pytest.mark.parametrize("word", ["EST", "MST", "HST", "EST5EDT"])
def test_letters_that_zone_databases_know_get_a_place_and_an_offset(word: str) -> None:
    """EST is five hours behind UTC all year there, and with summer time in many a log."""
    with pytest.raises(InputError, match=r"America/New_York|America/Denver|Pacific/Honolulu") as told:
        Options.of(tz=word)
    assert "Etc/GMT+5" in str(told.value)


@pytest.mark.parametrize("zone", ["UTC", "GMT", "Etc/GMT+5", "Etc/UTC", "America/New_York", "Singapore"])
def test_a_place_or_an_offset_is_a_zone(zone: str) -> None:
    """What names one zone is taken."""
    assert parsing.check_zone(zone).key == zone


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "posix/Europe/Berlin", "right/UTC", "Factory"])
def test_the_zone_of_this_machine_is_none(zone: str) -> None:
    """The same command gives the same tables everywhere, and leap seconds are in no log."""
    with pytest.raises(InputError, match="unknown zone"):
        Options(tz=zone)


@pytest.mark.parametrize("year", [25, 0, -5, 1999, 99999])
def test_a_year_that_no_log_has_is_named_at_once(year: int) -> None:
    """One message for the option, not one refusal a row."""
    with pytest.raises(InputError, match=rf"(?s)year: found {year}\b.*2000 to 9999"):
        Options(year=year)


@pytest.mark.parametrize("key", ["as_of", "boot_time", "node", "cluster"])
def test_an_empty_option_is_not_one_left_out(key: str) -> None:
    """As of a variable of the shell that is not set."""
    with pytest.raises(InputError, match=f"--{key.replace('_', '-')}: found ''"):
        Options.of(**{key: ""})


def test_options_from_texts_name_the_option() -> None:
    """An option that is no instant is told by the name the user typed."""
    assert Options.of(as_of="2024-01-01T00:00Z").as_of == datetime(2024, 1, 1, tzinfo=UTC)
    with pytest.raises(InputError, match="--as-of"):
        Options.of(as_of="yesterday")


def test_only_changed_options_are_part_of_a_file_s_identity() -> None:
    """Options left at their defaults do not change which ingest a file belongs to."""
    assert Options().plain() == {}
    assert Options(tz="UTC", as_of=AS_OF).plain() == {"tz": "UTC", "as_of": "2026-01-01T00:00:00+00:00"}


def test_lines_of_old_macs_are_lines() -> None:
    """A carriage return ends a line where nothing else does; within lines it stays."""
    assert parsing.decode(b"a\rb\r", "x") == "a\nb\n"
    assert parsing.decode(b"a\rb\r\nc", "x") == "a\rb\r\nc"
    with pytest.raises(InputError, match="x line 2"):
        parsing.decode(b"a\r\xff", "x")


def test_lines_of_text_keep_a_mark_for_bad_bytes() -> None:
    """One bad line is told and the others stay; a mark that stood in the log itself is text."""
    data = "\ufeffa\r\n\ufffd\n".encode() + b"b\xffc\n\xe4\n\nend"
    lines = parsing.text_lines(data, "x.log")
    assert lines["line"].to_list() == ["a", "\ufffd", "b\ufffdc", "\ufffd", "", "end"]
    assert lines["is_text"].to_list() == [True, True, False, False, True, True]
    assert parsing.text_lines(b"a\nb", "x.log")["is_text"].to_list() == [True, True]
    assert parsing.text_lines(b"a\rb\xff\rc", "x.log").rows() == [
        ("a", True),
        ("b\ufffd", False),
        ("c", True),
    ]
    with pytest.raises(InputError, match=r"x\.log line 1"):
        parsing.text_lines("a".encode("utf-16"), "x.log")


near = st.text("0123459-:TtzZ +.", min_size=20, max_size=20)
edits = st.lists(st.tuples(st.integers(0, 19), st.sampled_from("0123459-:TtzZ +.")), max_size=3)


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), edits, near), min_size=1, max_size=3))
def test_a_column_of_the_commonest_length_is_read_as_its_texts_one_by_one(
    items: list[list[tuple[int, str]] | str | None],
) -> None:
    """The shortcut for columns of `2025-03-01T08:00:00Z` takes nothing else, and takes that alike."""
    texts = []
    for item in items:
        letters = list("2025-03-01T08:00:00Z" if not isinstance(item, str) else item)
        for place, letter in item if isinstance(item, list) else ():
            letters[place] = letter
        texts.append(None if item is None else "".join(letters))
    wanted = [(None, None) if text is None else scalar(text, Options()) for text in texts]
    assert parse_instants(pl.Series(texts, dtype=pl.String), Options()).rows() == wanted
