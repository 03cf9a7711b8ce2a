"""Clock times of text logs -> UTC microseconds: local times, times without a year, seconds since boot.

In: parts of a time as a log prints them, and the options. Out: microseconds since 1970 UTC, or RefusedError
with the reason that stands in `rejects`. What a whole file lacks (a zone, a year, the instant of boot) is one
InputError for the file, not one reject a row.
Easy to get wrong: a log without years is in file order, so the year turns where the month falls back (a
December line, then a January one); with `as_of` the last line is the latest one that is not after it. 29
February decides: it exists in leap years only.
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
# A month later than the one before it by more than this is a clock set back over a turn of the year, not a
# jump forward: lines of one file are in order but for small steps back.
_STEP_BACK_MONTHS = 6
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


def years_of(days: Sequence[tuple[int, int]], options: Options, file: str) -> list[int]:
    """Return the year of each (month, day), which stand in file order and lack it.

    From `year`, the year of the first line; else from `as_of`, which the last line is not after.
    """
    if not days:
        return []
    turns, past = [0], days[0]
    for month, day in days[1:]:
        turn = turns[-1]
        if past[0] - month > _STEP_BACK_MONTHS:
            turn += 1
        elif month - past[0] > _STEP_BACK_MONTHS:
            turn -= 1  # a step back over New Year, such as a clock that was set
        turns.append(turn)
        past = (month, day)
    if options.year is not None:
        return [options.year + turn for turn in turns]
    if options.as_of is None:
        hint = "--year 2025 (that of the first line), or --as-of 2025-03-01T00:00Z (when the log was taken)"
        raise InputError(file, f"times without a year, such as {_told(days[0])}", "the year", hint)
    # A day of grace, because the zone of the log may be ahead of UTC.
    latest = options.as_of + timedelta(days=1)
    year = latest.year if days[-1] <= (latest.month, latest.day) else latest.year - 1
    return [year - turns[-1] + turn for turn in turns]


def _told(day: tuple[int, int]) -> str:
    names = {number: name.title() for name, number in MONTHS.items()}
    return f"'{names.get(day[0], day[0])} {day[1]}'"
