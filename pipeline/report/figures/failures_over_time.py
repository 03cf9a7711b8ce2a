"""How many GPUs are down over time, and how many domains do they touch?

The dark line is the mean of a bucket of time, the band runs from its lowest to its highest instant. One
placement is shown: the same failed nodes touch other domains in another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from pipeline.report import theme

if TYPE_CHECKING:
    import polars as pl

TITLE = "Failures over time"
ORDER = 30
QUERY = """
select unit, t_start, t_end, low, mean, high, placement_seed
from failures_over_time($scenario)
"""
_PANELS = {
    "gpus": ("failed GPUs", "#9c2f2f"),
    "domains": ("dirty domains (at least one GPU down)", "#e07b00"),
}


def chart(frame: pl.DataFrame) -> Any:
    """Return a panel for GPUs and one for domains, on one time axis."""
    data = theme.values(frame)
    panels = []
    for unit, (words, colour) in _PANELS.items():
        base = alt.Chart(data, height=130).transform_filter(alt.datum.unit == unit)
        x = theme.time_axis(frame, last=unit == "domains")
        y_axis = alt.Axis(tickCount=4, tickMinStep=1, format=",d")
        tooltip = [
            theme.since(),
            alt.Tooltip("low:Q", title="lowest", format=",d"),
            alt.Tooltip("mean:Q", format=",.1f"),
            alt.Tooltip("high:Q", title="highest", format=",d"),
        ]
        band = base.mark_area(interpolate="step-after", opacity=0.28, color=colour).encode(
            x=x, y=alt.Y("low:Q", title=words, axis=y_axis), y2="high:Q", tooltip=tooltip
        )
        line = base.mark_line(interpolate="step-after", strokeWidth=1.3, color=colour).encode(
            x=x, y=alt.Y("mean:Q", title=words, axis=y_axis)
        )
        panels.append(band + line)
    return theme.stacked(panels, spacing=26)


def summary(frame: pl.DataFrame) -> str:
    """Return the worst instants."""
    worst = {unit: rows["high"].max() for (unit,), rows in frame.group_by("unit")}
    seed = frame["placement_seed"][0]
    return (
        f"At the worst instant {theme.whole(worst.get('gpus'))} GPUs are down; "  # type: ignore[arg-type]
        f"at most {theme.whole(worst.get('domains'))} domains are dirty at once "  # type: ignore[arg-type]
        f"(placement {seed}; the band is lowest to highest, the line the mean)."
    )
