"""Measured steps: a CSV with the columns `tp` and `seconds` -> seconds per TP degree.

Other columns (a step's number, a date) are passed over. A degree with several rows gets their median, so
that a step with a save in it does not count. The degrees must have been measured on the same work: equal
microbatches, equally many of them, every stage at that degree.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from pathlib import Path
from statistics import median

from pipeline.config.model import StepTime
from pipeline.errors import InputError, nearest

COLUMNS = ("tp", "seconds")


def with_measured(where: str, step_time: StepTime, scenario: Path) -> StepTime:
    """Return [step_time] with its measured seconds; raise InputError when `kind` and `path` do not fit."""
    if step_time.path is None:
        if step_time.kind == "table":
            raise InputError(
                f"{where} path", "missing with kind table", "a CSV with the columns tp and seconds"
            )
        return step_time
    if step_time.kind == "ideal":
        raise InputError(f"{where} path", "given with kind ideal", "kind = table, or kind = model")
    measured = read(scenario.parent / step_time.path, f"{where} path")
    return dataclasses.replace(step_time, measured=tuple(measured.items()))


def read(path: Path, where: str) -> dict[int, float]:
    """Return the median seconds of every TP degree, largest degree first; raise InputError for a bad row."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(where, f"{path.name}: {error.strerror}", "a CSV file") from None
    except UnicodeDecodeError:
        raise InputError(where, f"{path.name}: not UTF-8 text", "a CSV file") from None
    rows = csv.DictReader(text.splitlines(), skipinitialspace=True)
    header = [name.strip() for name in rows.fieldnames or ()]
    rows.fieldnames = header
    for column in COLUMNS:
        if column not in header:
            found = f"{path.name} has no column {column!r}"
            raise InputError(where, found, f"the columns {' and '.join(COLUMNS)}", nearest(column, header))
    seconds: dict[int, list[float]] = {}
    for row in rows:
        place = f"{path.name} line {rows.line_num}"
        degree, time_s = (_number(place, column, row[column]) for column in COLUMNS)
        if degree != int(degree):
            raise InputError(f"{place} tp", f"found {row['tp']!r}", "a whole number")
        seconds.setdefault(int(degree), []).append(time_s)
    if not seconds:
        raise InputError(where, f"{path.name} has no row", "one row a step")
    return {degree: median(seconds[degree]) for degree in sorted(seconds, reverse=True)}


def _number(place: str, column: str, text: str | None) -> float:
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise InputError(f"{place} {column}", f"found {text!r}", "a number above 0")
    return value
