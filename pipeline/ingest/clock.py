"""Clock times of text logs -> UTC microseconds: local times, times without a year, seconds since boot.

In: parts of a time as a log prints them, and the options. Out: microseconds since 1970 UTC, or RefusedError
with the reason that stands in `rejects`. What a whole file lacks (a zone, a year, the instant of boot) is one
InputError for the file, not one reject a row.
Easy to get wrong: a log without years is in file order, so a step from line to line of up to half a year goes
forward, over New Year too, and one of up to a month back is a line out of order; any other step leaves the
year open and is the user's to resolve. With `as_of` the last line is the latest one that is not after it. A
pause of more than eleven months is not seen. 29 February in a year without one is refused, never moved.
Source: model.md section 2; formats of syslog (RFC 3164), ctime, dmesg.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation

from pipeline.errors import InputError
from pipeline.ingest.parsing import (
    NO_SUCH,
    TOO_FINE,
    Options,
    RefusedError,
    check_plausible,
    zone_offset,
)
from pipeline.units import US_PER_S, to_us

MONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}
NO_MONTH = "no month by that name"
ZONE_WORD = "zone given as a letter word, which names several zones"
_DAYS_OF = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # of a leap year, which holds every day
_YEAR_D = sum(_DAYS_OF)
# From one line to the next: a log goes on, with pauses, or a line or clock goes back a little. In a year
# without 29 February a step may look one day longer than it is.
_FORWARD_D = 183 + 1
_BACK_D = 31 + 1
_LONGEST_BOOT_S = 3_153_600_000  # a century
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local clock times are counted from a local epoch


def month_of(word: str) -> int:
    """Return a month's number by its English name or the first three letters of it, or `11月`."""
    found = MONTHS.get(word[:3].lower())
    if found is None and (hit := re.fullmatch(r"([0-9]{1,2})月", word)) and 1 <= int(hit[1]) <= 12:
        found = int(hit[1])
    if found is None:
        raise RefusedError(NO_MONTH)
    return found


def micros(decimals: str | None) -> int:
    """Return the decimals of a second as microseconds; refuse what is finer unless the rest is zeros."""
    digits = (decimals or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise RefusedError(TOO_FINE)
    return int(digits[:6])


def local_us(
    year: int, month: int, day: int, hour: int, minute: int, second: int, micro: int, options: Options
) -> int:
    """Return a local clock time in the zone of the options as microseconds since 1970 UTC."""
    try:
        local = datetime(year, month, day, hour, minute, second, micro)  # noqa: DTZ001 - the zone comes next
    except ValueError:
        raise RefusedError(NO_SUCH) from None
    instant_us = (local - zone_offset(local, options) - _NAIVE_EPOCH) // timedelta(microseconds=1)
    check_plausible(instant_us, options)
    return instant_us


def epoch_us(text: str, unit: str, options: Options) -> int:
    """Return seconds (`s`), milliseconds, micro- or nanoseconds since 1970 UTC, as text, in microseconds."""
    scale = {"s": 6, "ms": 3, "us": 0, "ns": -3}[unit]
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise RefusedError(NO_SUCH) from None
    if not number.is_finite() or number.copy_abs() > Decimal(10) ** 30:
        raise RefusedError(NO_SUCH)
    exact = number.scaleb(scale)
    if exact != exact.to_integral_value():
        raise RefusedError(TOO_FINE)
    check_plausible(int(exact), options)
    return int(exact)


def since_boot_us(seconds: str, options: Options, file: str) -> int:
    """Return seconds since boot, as text, as microseconds since 1970 UTC."""
    if options.boot_time is None:
        hint = "--boot-time 2025-03-01T00:00Z (`uptime -s` prints it), or take the log with `dmesg -T`"
        raise InputError(
            file, f"times in seconds since boot, such as {seconds!r}", "the instant of boot", hint
        )
    number = Decimal(seconds)
    if number > _LONGEST_BOOT_S:
        raise RefusedError(NO_SUCH)
    exact = number * US_PER_S
    if exact != exact.to_integral_value():
        raise RefusedError(TOO_FINE)
    instant_us = to_us(options.boot_time) + int(exact)
    check_plausible(instant_us, options)
    return instant_us


def years_of(
    days: Sequence[tuple[int, int]], options: Options, file: str, lines: Sequence[int] | None = None
) -> list[int]:
    """Return the year of each (month, day), which stand in file order and lack it; `lines` are their numbers.

    From `year`, the year of the first; else from `as_of`, which the last is not after. A day that no year has
    gets that of the one before it: it is refused where it is read. Raise InputError where a step is so long
    that the year is open.
    """
    if not days:
        return []
    turns, turn, past = [], 0, -1
    for place, day in enumerate(days):
        if _is_day(day):
            if past >= 0:
                step = _step_d(days[past], day)
                if step is None:
                    raise _too_far(days, past, place, file, lines)
                turn += (step > 0 and day < days[past]) - (step < 0 and day > days[past])
            past = place
        turns.append(turn)
    if options.year is not None:
        return [options.year + turn for turn in turns]
    if options.as_of is None:
        hint = "--year 2025 (that of the first line), or --as-of 2025-03-01T00:00Z (when the log was taken)"
        raise InputError(file, f"times without a year, such as {_told(days[0])}", "the year", hint)
    # A day of grace, because the zone of the log may be ahead of UTC.
    latest = options.as_of + timedelta(days=1)
    year = latest.year if days[past] <= (latest.month, latest.day) else latest.year - 1
    return [year - turns[past] + turn for turn in turns]


def _is_day(day: tuple[int, int]) -> bool:
    return 1 <= day[0] <= 12 and 1 <= day[1] <= _DAYS_OF[day[0] - 1]


def _step_d(past: tuple[int, int], day: tuple[int, int]) -> int | None:
    """Return the days from one line to the next, negative for a step back; None when it may be either."""
    forward = (_place_of(day) - _place_of(past)) % _YEAR_D
    if forward <= _FORWARD_D:
        return forward
    return forward - _YEAR_D if _YEAR_D - forward <= _BACK_D else None


def _place_of(day: tuple[int, int]) -> int:
    """Return a day's place in a leap year, from 0."""
    return sum(_DAYS_OF[: day[0] - 1]) + day[1] - 1


def _too_far(
    days: Sequence[tuple[int, int]], past: int, place: int, file: str, lines: Sequence[int] | None
) -> InputError:
    one, other = (
        _told(days[at]) + (f" (line {lines[at]})" if lines is not None else "") for at in (past, place)
    )
    expected = "at most half a year forward or a month back from line to line, since the year is not told"
    hint = "part the log between these two lines, and give each part its own --year or --as-of"
    return InputError(file, f"times without a year that jump from {one} to {other}", expected, hint)


def _told(day: tuple[int, int]) -> str:
    names = {number: name.title() for name, number in MONTHS.items()}
    return f"'{names.get(day[0], day[0])} {day[1]}'"
