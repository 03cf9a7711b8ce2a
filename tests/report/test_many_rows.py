"""Public case E11: timelines of more than 5,000 rows reach the page reduced, with totals of all of them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import altair as alt
import polars as pl
import pytest
from small_lake import DAY_0, SCENARIO, build

from pipeline.lake import catalog
from pipeline.report import page

OUTAGES, NODES, EVERY_S, LENGTH_S = 3_000, 8, 600, 360
DAYS = 21
DRAWABLE = 5_000


@pytest.mark.shared
@pytest.mark.slow
def test_e11_more_rows_than_a_chart_takes(shared_dir: Path, tmp_path: Path) -> None:
    """Altair refuses 5,001 rows; no chart of the page has that many, and its sums are of all rows."""
    (folder,) = (shared_dir / "cases").glob("E11-*")
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]
    assert wanted["altair"] == f"MaxRowsError ({DRAWABLE + 1} > {DRAWABLE})"
    with pytest.raises(alt.MaxRowsError):
        exec((folder / "t.py").read_text(encoding="utf-8"), {})

    starts = [DAY_0 + timedelta(seconds=number * EVERY_S) for number in range(OUTAGES)]
    length = timedelta(seconds=LENGTH_S)
    rows = [
        f"n{number % NODES + 1:02},{start.isoformat()}Z,{(start + length).isoformat()}Z,gpu"
        for number, start in enumerate(starts)
    ]
    end = (DAY_0 + timedelta(days=DAYS)).isoformat()
    scenario = SCENARIO.replace("2025-03-04T00:00Z", f"{end}Z")
    built = build(tmp_path, "\n".join(["node,start,end,component", *rows]), scenario)
    timeline = pl.read_parquet(built.lake.table(built.timelines, "cluster_timeline"))
    assert timeline.filter(placement_seed=0).height > DRAWABLE

    with catalog.connect(built.lake) as con:
        for item in page.draw(con, "small"):
            assert item.frame.height <= DRAWABLE, item.name
        (lost,) = page.rows(con, "lost_by_component", "small")
    assert lost["outages"] == OUTAGES
    assert lost["down_gpu_h"] == pytest.approx(OUTAGES * LENGTH_S / 3600 * 8)
    html = built.page.read_text(encoding="utf-8")
    assert len(html) < 5_000_000
    assert "the mean of a bucket of time" in html, "the page says that the chart is reduced"
