"""How much of the cluster can a job use when every domain with a failed GPU is lost?

Expected share of 32,768 GPUs in whole domains, failures evenly placed, one line a TP degree; the dot is the
one value of the paper's figure 3 that could be read (94 % for TP64 at 0.1 % failed).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from pipeline.paper.claims.availability import GPUS, TP, usable
from pipeline.paper.figures import OURS, PUBLISHED
from pipeline.report import theme

if TYPE_CHECKING:
    from pipeline.paper.rows import Context

TITLE = "GPUs usable against GPUs failed, by TP degree (figure 3)"
ORDER = 10
_TONES = ("#8b97a5", "#5b6675", "#c77700", "#0072b2", "#b8588f")
_FAILED = (*range(0, 131, 5), 131)


def frame(context: Context) -> pl.DataFrame:  # noqa: ARG001 - a closed form
    """Return `tp, failed_frac, usable_frac, origin`."""
    rows = [(f"TP{size}", failed / GPUS, usable(failed, size), OURS) for size in TP for failed in _FAILED]
    rows.append(("TP64", 0.001, 0.94, PUBLISHED))
    return pl.DataFrame(rows, schema=["tp", "failed_frac", "usable_frac", "origin"], orient="row")


def chart(frame: pl.DataFrame) -> Any:
    """Return lines by TP degree and the published dot."""
    degrees = [f"TP{size}" for size in TP]
    base = alt.Chart(theme.values(frame), height=280)
    x = alt.X(
        "failed_frac:Q",
        title="GPUs failed (% of all)",
        axis=theme.share_axis(format=".1%", tickCount=5),
        scale=alt.Scale(domain=[0, 0.004]),
    )
    y = alt.Y(
        "usable_frac:Q",
        title="GPUs in whole domains (% of all)",
        axis=theme.share_axis(tickCount=5),
        scale=alt.Scale(domain=[0.72, 1]),
    )
    colour = alt.Color(
        "tp:N",
        scale=alt.Scale(domain=degrees, range=list(_TONES)),
        legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3),
    )
    tooltip = [
        alt.Tooltip("tp:N", title="TP degree"),
        alt.Tooltip("failed_frac:Q", title="failed", format=".2%"),
        alt.Tooltip("usable_frac:Q", title="usable", format=".2%"),
        alt.Tooltip("origin:N"),
    ]
    lines = base.transform_filter(alt.datum.origin == OURS).mark_line(strokeWidth=2.2)
    dots = base.transform_filter(alt.datum.origin == PUBLISHED).mark_point(size=120, filled=True, opacity=1)
    layers = [mark.encode(x=x, y=y, color=colour, tooltip=tooltip) for mark in (lines, dots)]
    return theme.stacked([theme.layered(layers)])


def summary(frame: pl.DataFrame) -> str:
    """Return the share at the published point."""
    ours = usable(round(GPUS * 0.001), 64)
    (least,) = frame.filter(pl.col("tp") == "TP72").select(pl.col("usable_frac").min()).row(0)
    return (
        f"With 0.1 % of GPUs failed, TP64 can use {theme.percent(ours)} (published: 94\u202f%); "
        f"at 0.4 % failed, TP72 loses {theme.percent(1 - least)}."
    )
