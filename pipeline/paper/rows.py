"""One published number beside ours: what was printed, what we get, how far they may part, the verdict.

In: a number as its source prints it (`printed`), ours, and the 95 % interval of ours over seeds where there
is one. Out: `Row`, whose value, tolerance, distance and verdict are computed. Nobody types a tolerance: it is
the larger of half a unit of the last printed digit and the interval over seeds.
Easy to get wrong: "0.90" and "0.9" are two statements, so `printed` is text; write "3e3" for a rounded 3,000.
A bound ("< 1", "> 0.9") is no rounded value, so only the interval widens it. "Up to 12 %" names a maximum:
compare our maximum with "12". A tie is within: distances are compared as exact decimals.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist, fmean, quantiles, stdev
from typing import NamedTuple

from pipeline.units import exact

_PRINTED = re.compile(r"(?P<relation>[<>]=?)?\s*(?P<number>-?\d[\d,]*(\.\d+)?(e-?\d+)?)")

CONFIDENCE = 0.95
FEWEST_SEEDS = 40  # the 2.5 % quantile of fewer values is their smallest


class Spread(NamedTuple):
    """A mean over seeds and the 95 % interval around it."""

    mean: float
    low: float
    high: float


def of_mean(values: Sequence[float]) -> Spread:
    """Return the mean and its own interval: for a number that its source gives as an expectation."""
    _check_many(values)
    mean, error = fmean(values), stdev(values) / math.sqrt(len(values))
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * error
    return Spread(mean, mean - reach, mean + reach)


def of_one(values: Sequence[float]) -> Spread:
    """Return the mean and the range of single draws: for a number that its source saw once."""
    _check_many(values)
    cuts = quantiles(values, n=FEWEST_SEEDS, method="inclusive")
    mean = fmean(values)
    return Spread(mean, min(cuts[0], mean), max(cuts[-1], mean))


def _check_many(values: Sequence[float]) -> None:
    if len(values) < FEWEST_SEEDS:
        message = f"{len(values)} seeds; an interval needs {FEWEST_SEEDS}"
        raise ValueError(message)


class Verdict(StrEnum):
    """What the comparison says; the value is the word a reader sees."""

    MEETS = "meets"
    OUTSIDE = "outside"
    EXPLAINED = "explained"
    UNKNOWN = "value unknown to us"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Context:
    """What the claims may use.

    `root` is a lake of their own to build in; `seeds` the number of draws behind an interval; `traces` the
    public logs at hand, source -> file. A claim whose log is missing returns rows that are `not run`.
    """

    root: Path
    seeds: int = 200
    traces: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """A published number and ours.

    `printed` is the number as its source prints it, with its relation when it is a bound; empty when we could
    not read it. `low` and `high` bound `ours` over seeds (95 %). `how` begins with the dotted name of the
    function, or the path of the query, that makes `ours`. `reason` is said whatever the verdict is;
    `explanation` says why the numbers differ and turns `outside` into `explained`. `ours` may be missing only
    when `reason` says why it was not computed. Raises ValueError for a row that says less than that.
    """

    name: str
    source: str
    printed: str
    unit: str
    ours: float | None
    how: str
    low: float | None = None
    high: float | None = None
    reason: str = ""
    explanation: str = ""

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem:
            message = f"row {self.name!r}: {problem}"
            raise ValueError(message)

    def _problem(self) -> str:
        """Return what is wrong with the row, or an empty string."""
        for part in ("name", "source", "unit", "how"):
            if not getattr(self, part).strip():
                return f"{part} is empty"
        if self.printed and not _PRINTED.fullmatch(self.printed):
            return f"printed is {self.printed!r}; expected a number, or a bound such as '< 1'"
        if self.ours is None:
            return "" if self.reason else "without ours, reason says why it was not computed"
        if not math.isfinite(self.ours):
            return f"ours is {self.ours}"
        if (self.low is None) != (self.high is None):
            return "low and high come together"
        if self.low is not None and self.high is not None and not self.low <= self.ours <= self.high:
            return f"ours {self.ours} lies outside its interval {self.low} to {self.high}"
        return ""

    @property
    def relation(self) -> str:
        """How the source relates to its number: `=`, or the sign of a bound."""
        found = _PRINTED.fullmatch(self.printed)
        return (found["relation"] if found else None) or "="

    @property
    def published(self) -> float | None:
        """The published number, None when it is unknown to us."""
        return None if self._number is None else float(self._number)

    @property
    def tolerance(self) -> float:
        """How far `ours` may lie from the published number, on the side where it lies; in `unit`."""
        return float(self._tolerance)

    @property
    def distance(self) -> float | None:
        """Ours minus published, None when either is missing; in `unit`."""
        return None if self._distance is None else float(self._distance)

    @property
    def verdict(self) -> Verdict:
        """`meets` within the tolerance; else `outside`, or `explained` when an explanation stands beside."""
        if self.ours is None:
            return Verdict.NOT_RUN
        distance = self._distance
        if distance is None:
            return Verdict.UNKNOWN
        if self._is_within(distance):
            return Verdict.MEETS
        return Verdict.EXPLAINED if self.explanation.strip() else Verdict.OUTSIDE

    def _is_within(self, distance: Fraction) -> bool:
        """Whether a distance is one that the source's statement and the tolerance allow."""
        tolerance = self._tolerance
        match self.relation:
            case "<":
                return distance < tolerance
            case "<=":
                return distance <= tolerance
            case ">":
                return distance > -tolerance
            case ">=":
                return distance >= -tolerance
            case _:
                return abs(distance) <= tolerance

    @property
    def _decimal(self) -> Decimal | None:
        found = _PRINTED.fullmatch(self.printed)
        return Decimal(found["number"].replace(",", "")) if found else None

    @property
    def _number(self) -> Fraction | None:
        return None if self._decimal is None else Fraction(self._decimal)

    @property
    def _distance(self) -> Fraction | None:
        if self._number is None or self.ours is None:
            return None
        return exact(self.ours) - self._number

    @property
    def _rounding(self) -> Fraction:
        """Half a unit of the last printed digit; a bound is not rounded."""
        decimal = self._decimal
        if decimal is None or self.relation != "=":
            return Fraction(0)
        return Fraction(10) ** int(decimal.as_tuple().exponent) / 2

    @property
    def _tolerance(self) -> Fraction:
        """The larger of the rounding and the part of the interval that points at the published number."""
        distance = self._distance
        if distance is None or self.ours is None or self.low is None or self.high is None:
            return self._rounding
        ours = exact(self.ours)
        towards = ours - exact(self.low) if distance > 0 else exact(self.high) - ours
        return max(self._rounding, towards)
