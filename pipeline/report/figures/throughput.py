"""How does each policy's throughput move over time?

The share of the healthy job's throughput, the mean of a bucket of time, for each policy as the scenario lists
it; the gap to 100 % is work not done. One placement is shown.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "Throughput over time"
ORDER = 40
QUERY = """
select policy, batch, t_start, t_end, low_frac, mean_frac, high_frac, paused_frac, placement_seed
from throughput_over_time($scenario)
inner join compare($scenario) using (policy)
"""


def chart(frame: pl.DataFrame) -> Any:
    """Return a strip for each policy, the highest throughput first."""
    colours = theme.policy_colours(frame["policy"])
    data = theme.values(frame)
    order = _order(frame)
    panels = []
    titles = {
        policy: f"{policy}, {batch} batch" for policy, batch in frame.select("policy", "batch").iter_rows()
    }
    for policy in order:
        base = alt.Chart(data, height=64, title=theme.title(titles[policy])).transform_filter(
            alt.datum.policy == policy
        )
        x = theme.time_axis(frame, last=policy == order[-1])
        axis = theme.share_axis(values=[0, 0.5, 1])
        y_title = "relative throughput (%)"
        tooltip = [
            theme.since(),
            alt.Tooltip("mean_frac:Q", title="mean", format=".1%"),
            alt.Tooltip("low_frac:Q", title="lowest", format=".1%"),
            alt.Tooltip("high_frac:Q", title="highest", format=".1%"),
            alt.Tooltip("paused_frac:Q", title="time paused", format=".1%"),
        ]
        y = alt.Y(
            "mean_frac:Q",
            title=y_title if policy == order[0] else "",
            axis=axis,
            scale=alt.Scale(domain=[0, 1]),
        )
        fill = base.mark_area(interpolate="step-after", opacity=0.85, color=colours[policy]).encode(
            x=x, y=y, tooltip=tooltip
        )
        panels.append(fill)
    return theme.stacked(panels, spacing=12)


def _order(frame: pl.DataFrame) -> list[str]:
    ranked = frame.group_by("policy").agg(pl.col("mean_frac").mean())
    return ranked.sort("mean_frac", "policy", descending=[True, False])["policy"].to_list()


def summary(frame: pl.DataFrame) -> str:
    """Return the steadiest policy, or that none is steadier than another."""
    lowest = frame.group_by("policy").agg(pl.col("mean_frac").min(), pl.col("paused_frac").max())
    steady = lowest.sort("mean_frac", "policy", descending=[True, False]).row(0, named=True)
    level = lowest.height > 1 and lowest["mean_frac"].n_unique() == 1
    who = "No policy is steadier than another" if level else f"{steady['policy']} is steadiest"
    return (
        f"{who}: in its worst stretch {'each' if level else 'it'} still does "
        f"{theme.percent(steady['mean_frac'])} of the healthy job's work "
        f"(placement {frame['placement_seed'][0]}, spares as the scenario lists them)."
    )
