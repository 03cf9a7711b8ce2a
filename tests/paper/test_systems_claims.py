"""Claims on other systems: the ring's waste against counting by hand, and what the small jobs search."""

from __future__ import annotations

from datetime import datetime, timedelta

import polars as pl
import pytest

from pipeline.paper import hbd
from pipeline.paper.claims import systems
from pipeline.paper.rows import Verdict

DAY_0 = datetime(2024, 1, 1)  # noqa: DTZ001 - tables hold UTC without a zone


def timeline(*rows: tuple[int, int, int, int]) -> pl.DataFrame:
    """Return a node timeline of one placement from (node, first day, last day, failed GPUs)."""
    return pl.DataFrame(
        [
            (0, node, DAY_0 + timedelta(days=first), DAY_0 + timedelta(days=last), failed)
            for node, first, last, failed in rows
        ],
        schema={
            "placement_seed": pl.Int64,
            "domain_id": pl.Int64,
            "t_start": pl.Datetime("us"),
            "t_end": pl.Datetime("us"),
            "failed_gpus": pl.Int64,
        },
        orient="row",
    )


def test_a_ring_wastes_what_fills_no_group() -> None:
    """Ring of 10, groups of 4: 2 nodes for 4 days, 1 for 2 days, then two rows of 3 or, bridged, 2 of 6."""
    clean = [(node, 0, 10, 0) for node in range(10) if node not in {3, 4, 8, 9}]
    rows = [
        *clean,
        (3, 0, 4, 0), (3, 4, 6, 4), (3, 6, 7, 1), (3, 7, 10, 4),
        (4, 0, 6, 0), (4, 6, 10, 4),
        (8, 0, 6, 0), (8, 6, 10, 4),
        (9, 0, 6, 0), (9, 6, 10, 4),
    ]  # fmt: skip
    # From day 6 on 3, 4, 8 and 9 are down: cut at both pairs, 5 to 7 and 0 to 2 are three nodes each.
    (found,) = hbd.ring_waste_frac(timeline(*rows), 10, 4, 2)
    assert found == pytest.approx((4 * 2 + 2 * 1 + 4 * 6) / (10 * 10))
    (bridged,) = hbd.ring_waste_frac(timeline(*rows), 10, 4, 3)
    assert bridged == pytest.approx((4 * 2 + 2 * 1 + 4 * 2) / (10 * 10))


def test_oobleck_survives_one_failure_less_than_it_has_pipelines() -> None:
    """With the smallest pipelines each failure takes one; with smaller templates it takes more."""
    assert systems.survived("oobleck", 3, systems._shape(2, 4)) == 2
    assert systems.survived("oobleck", 2, systems._shape(3, 4, (2, 1))) == 5
    assert systems.survived("recycle", 3, systems._shape(2, 4)) == 2
    assert systems.survived("dp-drop", 3, systems._shape(2, 4)) == 2


def test_rows_hold_without_the_trace(tmp_path) -> None:
    """What needs no log is computed, nothing is outside, and the rest says what it lacks."""
    rows = systems.rows(systems.Context(tmp_path))
    assert not [row.name for row in rows if row.verdict is Verdict.OUTSIDE]
    assert sum(row.verdict is Verdict.MEETS for row in rows) == 2
    assert all(row.reason for row in rows if row.ours is None)
