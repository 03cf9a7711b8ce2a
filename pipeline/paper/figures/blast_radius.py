"""What if a failure takes more than one GPU of its domain?

Throughput lost, packed, when one failure in a thousand GPUs takes 1 to 8 GPUs; mean over placements. The
values of the paper's figure 10 could not be read; what it says does hold: DP-DROP is poor whatever the
radius, NTP and NTP-PW get worse with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from pipeline.paper.claims.loss import RADII, STRUCK, losses
from pipeline.paper.pool import METHODS
from pipeline.report import theme

if TYPE_CHECKING:
    from pipeline.paper.rows import Context

TITLE = "Throughput lost against blast radius (figure 10)"
ORDER = 50
_PLACEMENTS = 50


def frame(context: Context) -> pl.DataFrame:
    """Return `method, radius_gpus, loss_frac`."""
    seeds = min(context.seeds, _PLACEMENTS)
    rows = []
    for method in METHODS:
        for radius in RADII:
            found = losses(method, "packed", STRUCK * radius, radius, seeds)
            rows.append((method, radius, sum(found) / len(found)))
    return pl.DataFrame(rows, schema=["method", "radius_gpus", "loss_frac"], orient="row")


def chart(frame: pl.DataFrame) -> Any:
    """Return bars by radius and method."""
    colours = theme.policy_colours(METHODS)
    bars = (
        alt.Chart(theme.values(frame), height=200)
        .mark_bar()
        .encode(
            x=alt.X("radius_gpus:O", title="GPUs taken by a failure", axis=alt.Axis(labelAngle=0)),
            xOffset=alt.XOffset("method:N", sort=list(METHODS)),
            y=alt.Y("loss_frac:Q", title="throughput lost (%)", axis=theme.share_axis(tickCount=5)),
            color=alt.Color("method:N", scale=theme.scale(colours)),
            tooltip=[
                alt.Tooltip("method:N"),
                alt.Tooltip("radius_gpus:O", title="GPUs a failure"),
                alt.Tooltip("loss_frac:Q", title="lost", format=".2%"),
            ],
        )
    )
    return theme.stacked([bars])


def summary(frame: pl.DataFrame) -> str:
    """Return the loss of each method at the smallest and the largest radius."""
    told = []
    for method in METHODS:
        one = frame.filter(pl.col("method") == method).sort("radius_gpus")["loss_frac"]
        told.append(f"{method} {theme.percent(one[0])} to {theme.percent(one[-1])}")
    return f"From 1 to {RADII[-1]} GPUs a failure: {'; '.join(told)}."
