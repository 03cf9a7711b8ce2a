"""For what share of the time are at least k GPUs, or k domains, down at once?

Mean over placements, the band from lowest to highest; the share is on a log scale, because the rare instants
decide how many spares a fixed batch needs.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "How much is down at once"
ORDER = 50
QUERY = """
with thinned as (
    select
        *,
        row_number() over (partition by unit order by k) as place,
        count(*) over (partition by unit) as ks,
    from concurrency($scenario)
    where unit in ('gpus', 'domains') and (select max(k) from concurrency($scenario)) > 0
)

select unit, k, share_frac, share_low_frac, share_high_frac
from thinned
where place % greatest(1, ks // 400) = 0 or place = ks or place = 1
order by unit desc, k
"""
_PANELS = {"gpus": ("k, failed GPUs at once", "#9c2f2f"), "domains": ("k, dirty domains at once", "#e07b00")}


def chart(frame: pl.DataFrame) -> Any:
    """Return a panel for GPUs and one for domains."""
    lowest = frame.filter(pl.col("share_frac") > 0)["share_frac"].min()
    floor = max(0.8 * float(lowest or 0.01), 1e-5)  # type: ignore[arg-type]
    shown = frame.with_columns(pl.col("share_low_frac").clip(floor)).filter(pl.col("share_frac") >= floor)
    data = theme.values(shown)
    panels = []
    for unit, (words, colour) in _PANELS.items():
        base = alt.Chart(data, height=170).transform_filter(alt.datum.unit == unit)
        x = alt.X(
            "k:Q",
            title=words,
            axis=alt.Axis(tickMinStep=1, format=",d"),
            scale=alt.Scale(zero=True, nice=False),
        )
        axis = theme.share_axis(format="~%", values=[1, 0.5, 0.1, 0.05, 0.01, 0.001, 0.0001], grid=True)
        share = alt.Scale(type="log", domain=[floor, 1], clamp=True)
        words_y = "time with at least k (% of the window, log scale)"
        band = base.mark_area(interpolate="step-before", opacity=0.2, color=colour).encode(
            x=x, y=alt.Y("share_low_frac:Q", title=words_y, axis=axis, scale=share), y2="share_high_frac:Q"
        )
        line = base.mark_line(interpolate="step-before", strokeWidth=2, color=colour).encode(
            x=x,
            y=alt.Y("share_frac:Q", title=words_y, axis=axis, scale=share),
            tooltip=[
                alt.Tooltip("k:Q", title="at least", format=",d"),
                alt.Tooltip("share_frac:Q", title="share of the time", format=".3%"),
            ],
        )
        panels.append(band + line)
    return theme.stacked(panels, spacing=30)


def summary(frame: pl.DataFrame) -> str:
    """Return how many domains are dirty for half, a tenth and a hundredth of the time."""
    domains = frame.filter(pl.col("unit") == "domains", pl.col("k") > 0).sort("k")
    parts = []
    for share, words in ((0.5, "half"), (0.1, "a tenth"), (0.01, "a hundredth")):
        reached = domains.filter(pl.col("share_frac") >= share)["k"].max()
        if reached is not None:
            parts.append(f"{theme.whole(reached)} for {words} of the time")  # type: ignore[arg-type]
    return (
        f"At least this many domains are dirty at once: {theme.listing(parts)}."
        if parts
        else "Nothing is ever down."
    )
