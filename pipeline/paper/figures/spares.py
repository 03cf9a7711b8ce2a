"""What do spare domains bring when the batch is fixed?

Throughput per GPU, spares counted: the share of fifteen days in which the full batch can be done, over the
share of domains that are no spares; mean over seeds, hardware repaired in 5 days. Rules stand at the spares
that the paper states for no pause in its figure 7: 90 for DP-DROP, 16 for NTP, 0 for NTP-PW.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from pipeline.paper import pool
from pipeline.paper.claims.spares import curve
from pipeline.paper.pool import METHODS
from pipeline.report import theme

if TYPE_CHECKING:
    from pipeline.paper.rows import Context

TITLE = "Throughput per GPU against spare domains (figure 7)"
ORDER = 40
_SPARES = tuple(range(0, 113, 8))
_SEEDS = 20
_STATED = {"dp-drop": 90, "ntp": 16, "ntp-pw": 0}


def frame(context: Context) -> pl.DataFrame:
    """Return `method, spare_domains, running_frac, per_gpu_frac, published_spare_domains`."""
    domains, seeds = pool.study().scenario.cluster.pool_domains, min(context.seeds, _SEEDS)
    rows = [
        (method, spares, running, running * domains / (domains + spares), _STATED[method])
        for method in METHODS
        for spares, running in zip(_SPARES, curve(method, _SPARES, seeds), strict=True)
    ]
    schema = ["method", "spare_domains", "running_frac", "per_gpu_frac", "published_spare_domains"]
    return pl.DataFrame(rows, schema=schema, orient="row")


def chart(frame: pl.DataFrame) -> Any:
    """Return lines by method and a rule at each published number."""
    colours = theme.policy_colours(METHODS)
    base = alt.Chart(theme.values(frame), height=260)
    colour = alt.Color(
        "method:N", scale=theme.scale(colours), legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3)
    )
    lines = base.mark_line(strokeWidth=2.2, point=True).encode(
        x=alt.X("spare_domains:Q", title="spare domains", scale=alt.Scale(domain=[-2, 114], nice=False)),
        y=alt.Y(
            "per_gpu_frac:Q",
            title="throughput per GPU (% of healthy)",
            axis=theme.share_axis(tickCount=5),
            scale=alt.Scale(domain=[0, 1]),
        ),
        color=colour,
        tooltip=[
            alt.Tooltip("method:N"),
            alt.Tooltip("spare_domains:Q", title="spare domains"),
            alt.Tooltip("running_frac:Q", title="time with the full batch", format=".1%"),
            alt.Tooltip("per_gpu_frac:Q", title="throughput per GPU", format=".1%"),
        ],
    )
    rules = base.transform_filter("datum.spare_domains == 0").mark_rule(strokeDash=[4, 3], strokeWidth=1.6)
    return theme.stacked([theme.layered([lines, rules.encode(x="published_spare_domains:Q", color=colour)])])


def summary(frame: pl.DataFrame) -> str:
    """Return the best number of spares of each method."""
    best = frame.sort("per_gpu_frac", "spare_domains", descending=[True, False]).group_by("method").first()
    found = {row["method"]: row for row in best.iter_rows(named=True)}
    told = [
        f"{method} does best with {found[method]['spare_domains']} "
        f"({theme.percent(found[method]['per_gpu_frac'])})"
        for method in METHODS
    ]
    return f"Of the numbers tried, {theme.listing(told)}."
