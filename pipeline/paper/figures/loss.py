"""How much throughput does each method lose when the batch may shrink?

Mean over placements at each share of failed GPUs. Packed is what the paper's resource manager does; fixed
leaves every domain in its place. Dots are the paper's statements on its figure 6: up to 12 % for DP-DROP, at
most 3 % for NTP, under 1 % for NTP-PW.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from pipeline.paper.claims.loss import FRACTIONS, losses
from pipeline.paper.figures import OURS, PUBLISHED
from pipeline.paper.pool import METHODS
from pipeline.report import theme

if TYPE_CHECKING:
    from pipeline.paper.rows import Context

TITLE = "Throughput lost against GPUs failed (figure 6)"
ORDER = 30
_PLACEMENTS = 20
_STATED = {"dp-drop": 0.12, "ntp": 0.03, "ntp-pw": 0.01}


def frame(context: Context) -> pl.DataFrame:
    """Return `packing, method, failed_frac, loss_frac, origin`."""
    seeds = min(context.seeds, _PLACEMENTS)
    rows = []
    for packing in ("packed", "fixed"):
        for method in METHODS:
            rows.append((packing, method, 0.0, 0.0, OURS))
            for fraction in FRACTIONS:
                found = losses(method, packing, fraction, 1, seeds)
                rows.append((packing, method, fraction, sum(found) / len(found), OURS))
    rows += [("packed", method, FRACTIONS[-1], share, PUBLISHED) for method, share in _STATED.items()]
    return pl.DataFrame(
        rows, schema=["packing", "method", "failed_frac", "loss_frac", "origin"], orient="row"
    )


def chart(frame: pl.DataFrame) -> Any:
    """Return a panel for each packing."""
    colours = theme.policy_colours(METHODS)
    data = theme.values(frame)
    panels = []
    for packing, words in (
        ("packed", "wounded domains share replicas"),
        ("fixed", "domains keep their place"),
    ):
        base = alt.Chart(data, height=210, title=theme.title(packing, words))
        base = base.transform_filter(alt.datum.packing == packing)
        x = alt.X(
            "failed_frac:Q",
            title="GPUs failed (% of all)" if packing == "fixed" else "",
            axis=theme.share_axis(format=".1%", tickCount=5),
        )
        y = alt.Y("loss_frac:Q", title="throughput lost (%)", axis=theme.share_axis(tickCount=5))
        colour = alt.Color(
            "method:N",
            scale=theme.scale(colours),
            legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3),
        )
        tooltip = [
            alt.Tooltip("method:N"),
            alt.Tooltip("failed_frac:Q", title="failed", format=".2%"),
            alt.Tooltip("loss_frac:Q", title="lost", format=".2%"),
            alt.Tooltip("origin:N"),
        ]
        lines = base.transform_filter(alt.datum.origin == OURS).mark_line(strokeWidth=2.2, point=True)
        dots = base.transform_filter(alt.datum.origin == PUBLISHED).mark_point(
            size=130, filled=True, opacity=1
        )
        layers = [mark.encode(x=x, y=y, color=colour, tooltip=tooltip) for mark in (lines, dots)]
        panels.append(theme.layered(layers[:1] if packing == "fixed" else layers))
    return theme.stacked(panels, spacing=26)


def summary(frame: pl.DataFrame) -> str:
    """Return the losses at the largest share, packed and fixed."""
    last = frame.filter((pl.col("failed_frac") == FRACTIONS[-1]) & (pl.col("origin") == OURS))
    found = {(row["packing"], row["method"]): row["loss_frac"] for row in last.iter_rows(named=True)}
    told = [f"{method} loses {theme.percent(found['packed', method])}" for method in METHODS]
    fixed = theme.percent(found["fixed", "dp-drop"])
    return f"At 0.4 % failed, {theme.listing(told)}; without packing, dp-drop would lose {fixed}."
