"""Clock times of text logs: the years of lines that have none."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest.clock import years_of
from pipeline.ingest.parsing import Options
from pipeline.ingest.sources import fabricmanager, slurmctld, xid

YEAR = Options(year=2024)


def taken(day: str) -> Options:
    return Options(as_of=datetime.fromisoformat(day).replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("days", "years"),
    [
        ([(12, 31), (1, 1)], [2024, 2025]),
        ([(3, 1), (3, 1), (3, 2)], [2024] * 3),
        ([(1, 1), (12, 31), (1, 2)], [2024, 2023, 2024]),  # a line out of order over New Year
        ([(3, 5), (2, 28), (3, 6)], [2024] * 3),
        ([(1, 31), (2, 29), (8, 1), (1, 31), (2, 1)], [2024, 2024, 2024, 2025, 2025]),
        ([(1, 1), (7, 2), (12, 31), (7, 1)], [2024, 2024, 2024, 2025]),  # half a year each
        ([(12, 31), (12, 1)], [2024, 2024]),
        ([(12, 31), (4, 45), (13, 1), (0, 0), (1, 1)], [2024, 2024, 2024, 2024, 2025]),
        ([(2, 30)], [2024]),
        ([], []),
    ],
)
def test_years_follow_the_lines(days: list[tuple[int, int]], years: list[int]) -> None:
    """Forward by up to half a year, back by up to a month; what is no day does not count as a step."""
    assert years_of(days, YEAR, "f") == years
    if len(days) > 1:
        last = max(place for place, day in enumerate(days) if day[1] <= 31 and 1 <= day[0] <= 12)
        month, day = days[last]
        assert years_of(days, taken(f"{years[last]}-{month:02}-{day:02}"), "f") == years


@pytest.mark.parametrize("days", [[(1, 1), (7, 5)], [(3, 1), (11, 3)], [(5, 1), (3, 20)], [(2, 29), (1, 20)]])
def test_a_step_that_may_be_either_way_is_the_users(days: list[tuple[int, int]]) -> None:
    """More than half a year forward, or more than a month back: neither is guessed, with whatever option."""
    for options in (YEAR, taken("2025-01-01"), Options()):
        with pytest.raises(
            InputError, match=r"f: .*'\w{3} \d+' \(line 7\) to '\w{3} \d+' \(line 9\)(.|\n)*--year"
        ) as told:
            years_of([(days[0]), *days], options, "f", [5, 7, 9])
        assert "--as-of" in str(told.value)


@pytest.mark.parametrize(
    ("as_of", "year"),
    [("2025-03-01", 2025), ("2025-02-28", 2025), ("2025-02-27", 2024), ("2025-12-31", 2025)],
)
def test_the_last_line_is_the_latest_before_the_log_was_taken(as_of: str, year: int) -> None:
    """With a day of grace, since its zone may be ahead of UTC."""
    assert years_of([(2, 20), (3, 1)], taken(as_of), "f") == [year] * 2


def test_a_log_without_years_needs_one_option() -> None:
    """One of two."""
    with pytest.raises(InputError, match=r"'Mar 1'(.|\n)*--year(.|\n)*--as-of"):
        years_of([(3, 1)], Options(), "f")


@given(
    st.dates(date(2001, 1, 1), date(2030, 1, 1)),
    st.lists(st.integers(-31, 183), max_size=12),
)
def test_years_that_were_forgotten_come_back(first: date, steps: list[int]) -> None:
    """A log of years with pauses and lines out of order, from its first year or from when it was taken."""
    days = [first]
    for step in steps:
        days.append(days[-1] + timedelta(days=step))
    forgotten = [(day.month, day.day) for day in days]
    assert years_of(forgotten, Options(year=first.year), "f") == [day.year for day in days]
    assert years_of(forgotten, taken(days[-1].isoformat()), "f") == [day.year for day in days]


XID = "h kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus."
SILENT = "ctl slurmctld[1]: error: Nodes n1 not responding, setting DOWN"


@pytest.mark.parametrize(("source", "message"), [(xid, XID), (slurmctld, SILENT)])
def test_sources_refuse_what_is_open_and_count_29_february(source: object, message: str) -> None:
    """A jump is one error for the file, counted over lines that are no rows; a day that is not is one row."""

    def read(*days: str) -> tuple[list[str], list[str]]:
        # Lines before the last tell nothing, so that only the last is a row.
        text = (
            "\n".join(f"{day} 10:00:00 h kernel: x" for day in days[:-1])
            + f"\n{days[-1]} 10:00:00 {message}\n"
        )
        parsed = source.read(text.encode(), "f.log", Options(tz="UTC", year=2023))  # type: ignore[attr-defined]
        return [str(start)[:10] for start in parsed.events["t_start"]], parsed.rejects["reason"].to_list()

    with pytest.raises(InputError, match=r"f\.log: .*'Mar 1'.* to 'Nov 3'"):
        read("Jan  1", "Mar  1", "Nov  3")
    # From line to line, not from month to month.
    assert read("Jan  1", "Jan 31", "Jul 25") == (["2023-07-25"], [])
    assert read("Dec 31", "Feb 29") == (["2024-02-29"], [])
    assert read("Jan 31", "Feb 29") == ([], ["no such date or clock time"])


def test_the_fabric_manager_too() -> None:
    """Its lines in syslog have no year."""
    line = "{} 10:00:00 h nv-fabricmanager[1]: request to query NVSwitch device information failed\n"
    given = Options(tz="UTC", year=2023)
    with pytest.raises(InputError, match=r"f: .*'Mar 1' to 'Nov 3'"):
        fabricmanager.read("".join(map(line.format, ("Mar  1", "Nov  3"))).encode(), "f", given)
    between = "Jul 31 10:00:00 h other[1]: x\n"
    text = line.format("Mar  1") + between + line.format("Nov  3") + line.format("Feb  1")
    starts = fabricmanager.read(text.encode(), "f", given).events["t_start"]
    assert [start.year for start in starts] == [2023, 2023, 2024], "lines of other programs count"
