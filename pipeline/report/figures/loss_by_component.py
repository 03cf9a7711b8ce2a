"""What does each component cost?

Bars: GPU-hours a day that the component's own outages take. Dots: GPU-hours a day that the best policy of a
batch rule gains when the component never fails, with the range over placements.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "Loss by component"
ORDER = 70
QUERY = """
select
    batch, policy, component, outages, down_gpu_h_per_day, brings_back_gpu_h_per_day,
    brings_back_low_gpu_h_per_day, brings_back_high_gpu_h_per_day, brings_back_frac,
from loss_by_component($scenario)
"""
_LEFT = 84
_TONES = {"elastic": "#0072b2", "pause": "#c77700", "stretch": "#00875f"}


def chart(frame: pl.DataFrame) -> Any:
    """Return a row for each component."""
    shown = frame.with_columns(pl.format("without it, {} ({}) gains", "policy", "batch").alias("line"))
    lines = dict(shown.select("line", "batch").unique(maintain_order=True).iter_rows())
    colours = {line: _TONES.get(batch, theme.INK) for line, batch in lines.items()}
    down = "down, all policies alike"
    rows = shown["component"].unique(maintain_order=True).to_list()
    data = theme.values(shown)
    first = frame["batch"][0]
    y_axis = alt.Axis(labelColor=theme.INK, minExtent=_LEFT, maxExtent=_LEFT, titleX=-_LEFT)
    y = alt.Y("component:N", sort=rows, title="component", axis=y_axis)
    scale = theme.scale({down: "#bcc5cf", **colours})
    words = "GPU-hours a day"
    base = alt.Chart(data, height=44 * max(len(rows), 1))
    bars = (
        base.transform_filter(alt.datum.batch == first)
        .transform_calculate(what=f"'{down}'")
        .mark_bar(height=26)
        .encode(
            y=y,
            x=alt.X("down_gpu_h_per_day:Q", title=words, axis=alt.Axis(format=",d", tickCount=5, grid=True)),
            color=alt.Color("what:N", scale=scale),
            tooltip=[
                alt.Tooltip("component:N"),
                alt.Tooltip("outages:Q", format=",d"),
                alt.Tooltip("down_gpu_h_per_day:Q", title="down, GPU-hours a day", format=",.0f"),
            ],
        )
    )
    offset = alt.YOffset(
        "line:N", sort=list(colours), scale=alt.Scale(domain=list(colours), paddingOuter=0.4)
    )
    known = base.transform_filter("isValid(datum.brings_back_gpu_h_per_day)")
    ranges = known.mark_rule(strokeWidth=2).encode(
        y=y,
        yOffset=offset,
        x=alt.X("brings_back_low_gpu_h_per_day:Q", title=words),
        x2="brings_back_high_gpu_h_per_day:Q",
        color=alt.Color("line:N", scale=scale),
    )
    dots = known.mark_point(filled=True, size=90, opacity=1, stroke=theme.PAPER, strokeWidth=1).encode(
        y=y,
        yOffset=offset,
        x=alt.X("brings_back_gpu_h_per_day:Q", title=words),
        color=alt.Color("line:N", scale=scale),
        tooltip=[
            alt.Tooltip("component:N"),
            alt.Tooltip("batch:N", title="batch rule"),
            alt.Tooltip("policy:N"),
            alt.Tooltip("brings_back_gpu_h_per_day:Q", title="gains, GPU-hours a day", format="+,.0f"),
            alt.Tooltip("brings_back_low_gpu_h_per_day:Q", title="lowest placement", format="+,.0f"),
            alt.Tooltip("brings_back_high_gpu_h_per_day:Q", title="highest placement", format="+,.0f"),
        ],
    )
    return theme.stacked([bars + ranges + dots], left=_LEFT + 4, long_legend=True)


def summary(frame: pl.DataFrame) -> str:
    """Return the component that takes most, and what the best policies would gain without it."""
    worst = frame.sort("down_gpu_h_per_day", "component", descending=[True, False]).row(0, named=True)
    text = (
        f"{worst['component']} faults take most, {theme.whole(worst['down_gpu_h_per_day'])} GPU-hours a day"
    )
    gains = [
        f"{row['policy']} under {row['batch']} {theme.whole(row['brings_back_gpu_h_per_day'])}"
        for row in frame.filter(pl.col("component") == worst["component"]).iter_rows(named=True)
        if row["brings_back_gpu_h_per_day"] is not None
    ]
    return f"{text}; without them {theme.listing(gains)} GPU-hours a day more." if gains else f"{text}."
