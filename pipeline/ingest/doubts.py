"""What is odd about a file and is kept as it is: a note for people, never a changed or refused row.

In: columns of instants (microseconds), and of lengths that rows state. Out: notes, none where all is well.
Easy to get wrong: a length that a row states may be measured from another instant (from submission, from the
end before), or by a clock that was set in between; start and end count, and the difference is told. Instants
off the grid of a sampler are not moved onto it; a difference that most of them share is a clue to their
origin and no licence to take it off.
"""

from __future__ import annotations

import polars as pl

from pipeline.units import US_PER_S


def lengths(stated_s: pl.Series, starts_us: pl.Series, ends_us: pl.Series, within_s: int = 0) -> list[str]:
    """Return a note when rows state lengths that are not the time from their start to their end.

    Rows without one of the three are left out; `within_s` is what rounding makes of a difference.
    """
    apart = (stated_s.cast(pl.Float64) - (ends_us - starts_us) / US_PER_S).drop_nulls()
    wrong = apart.filter(apart.abs() > within_s)
    if wrong.is_empty():
        return []
    found = f"{len(wrong):,} of {len(apart):,} rows state another length than from their start to their end"
    return [f"{found}, most often by {_most_often(wrong)} s: start and end count"]


def grid(instants_us: pl.Series, step_s: int, first_us: int) -> list[str]:
    """Return a note when instants are no whole steps from the first of a grid."""
    behind = (instants_us - first_us) % (step_s * US_PER_S)
    wrong = behind.filter(behind != 0) / US_PER_S
    if wrong.is_empty():
        return []
    found = f"{len(wrong):,} of {len(behind):,} instants are off a grid of {step_s} s"
    return [f"{found}, most often by {_most_often(wrong)} s: kept as they are"]


def _most_often(values: pl.Series) -> str:
    return f"{float(values.mode().sort()[0]):+,g}"
