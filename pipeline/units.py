"""Named constants and conversions; the only place where 3600 may be written.

Instants are integer microseconds since 1970-01-01 UTC (`*_us`), the resolution of every table.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from math import isqrt

US_PER_S = 1_000_000
S_PER_H = 3_600
S_PER_D = 86_400
H_PER_D = 24
US_PER_H = US_PER_S * S_PER_H
US_PER_D = US_PER_S * S_PER_D
W_PER_KW = 1_000

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_us(moment: datetime) -> int:
    """Return an aware instant as microseconds since the epoch; raise ValueError when it is naive."""
    if moment.tzinfo is None:
        message = f"{moment.isoformat()} has no zone"
        raise ValueError(message)
    return (moment - EPOCH) // timedelta(microseconds=1)


def from_us(instant_us: int) -> datetime:
    """Return microseconds since the epoch as an aware UTC datetime."""
    return EPOCH + timedelta(microseconds=instant_us)


def exact(number: float | str | Fraction) -> Fraction:
    """Return the decimal a person wrote (0.1, "1.069") as an exact fraction, not its binary neighbour."""
    return number if isinstance(number, Fraction) else Fraction(str(number))


def seconds_to_us(seconds: float | Fraction) -> int:
    """Return seconds as whole microseconds, rounded half to even."""
    return round(exact(seconds) * US_PER_S)


def sqrt_us(square_us2: Fraction) -> int:
    """Return the square root of a number of square microseconds, in whole microseconds (floor)."""
    return isqrt(int(square_us2))
