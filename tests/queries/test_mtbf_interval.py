"""The interval of mtbf_by_component against its definition, by sums of Poisson terms and no chi-square."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
from small_lake import catalog_of, hour, pool, steps

WINDOW_H = 30.0
TAIL = 0.025
EXACT = 10  # counts whose quantiles the query holds as numbers


def at_most(faults: int, expected: float) -> float:
    """Return the chance of at most so many faults when so many are expected."""
    terms = (math.exp(k * math.log(expected) - expected - math.lgamma(k + 1)) for k in range(faults + 1))
    return math.fsum(terms)


def intervals(counts: Iterable[int]) -> dict[int, dict[str, float]]:
    """Return the row of the query for components with these numbers of faults."""
    outages = [
        {
            "outage_id": f"{count}-{number}", "node": "n0", "component": f"c{count}", "t_start": hour(0),
            "t_end": hour(1),
        }
        for count in counts
        for number in range(count)
    ]  # fmt: skip
    tables = {"outages": outages, "cluster_timeline": steps((0, WINDOW_H, 0)), "placements": pool()}
    found = catalog_of(tables).sql("from mtbf_by_component('s')").pl().to_dicts()
    return {row["faults"]: row for row in found}


def test_bounds_are_where_what_was_seen_becomes_unlikely() -> None:
    """Up to ten faults, at either bound what was seen or beyond it has a chance of 2.5 %."""
    for faults, row in intervals(range(1, EXACT + 1)).items():
        assert at_most(faults, WINDOW_H / row["mtbf_low_h"]) == pytest.approx(TAIL, rel=1e-5)
        assert 1 - at_most(faults - 1, WINDOW_H / row["mtbf_high_h"]) == pytest.approx(TAIL, rel=1e-5)
        assert row["mtbf_low_h"] < row["mtbf_h"] < row["mtbf_high_h"]


def test_bounds_beyond_the_table_are_within_the_stated_error() -> None:
    """From eleven faults on, the bounds lie within 0.14 % of where the chance is 2.5 %."""
    counts = [*range(EXACT + 1, 61), 97, 250, 1000]
    found = intervals(counts)
    assert sorted(found) == counts
    off = 1.0014
    for faults, row in found.items():
        most, fewest = WINDOW_H / row["mtbf_low_h"], WINDOW_H / row["mtbf_high_h"]
        assert at_most(faults, most * off) < TAIL < at_most(faults, most / off)
        assert 1 - at_most(faults - 1, fewest / off) < TAIL < 1 - at_most(faults - 1, fewest * off)


def test_bounds_narrow_with_every_fault() -> None:
    """Over the same time more faults give shorter times between them, at both bounds, also past the table."""
    rows = [row for _, row in sorted(intervals(range(1, 25)).items())]
    for name in ("mtbf_low_h", "mtbf_high_h"):
        values = [row[name] for row in rows]
        assert values == sorted(values, reverse=True)
    widths = [row["mtbf_high_h"] / row["mtbf_low_h"] for row in rows]
    assert widths == sorted(widths, reverse=True)
