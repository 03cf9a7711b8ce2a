"""Where do the pool's GPU-hours go under each policy?

One bar for each policy and batch rule, at its best split: the buckets of the ledger, whose meanings are in
the table below. The dashed line is the whole pool; a bar beyond it did work on boosted clocks (`gain`,
subtracted).
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme
from pipeline.schema import BUCKETS

TITLE = "Where the GPU-hours go"
ORDER = 10
QUERY = """
select batch, policy, spare_domains, bucket, share_frac, gpu_h, goodput_frac
from best_ledger($scenario)
"""
_LEFT = 118


def chart(frame: pl.DataFrame) -> Any:
    """Return the stacked bars, best policy first within each batch rule."""
    shown = frame.filter(pl.col("bucket") != "gain")
    shown = shown.with_columns(
        pl.format("{}|{} · {} spares", "policy", "batch", "spare_domains").alias("line"),
        pl.col("bucket").replace_strict({name: place for place, name in enumerate(BUCKETS)}).alias("place"),
    ).sort("batch", "goodput_frac", "policy", "place", descending=[False, True, False, False])
    lines = shown["line"].unique(maintain_order=True).to_list()
    colours = theme.bucket_colours(shown.filter(pl.col("share_frac") > 0)["bucket"])
    longest = max([1.0, *shown.group_by("line").agg(pl.col("share_frac").sum())["share_frac"].to_list()])
    y = alt.Y(
        "line:N",
        sort=lines,
        title=None,
        axis=alt.Axis(
            labelExpr="split(datum.value, '|')",
            labelLineHeight=14,
            labelOffset=-6,
            minExtent=_LEFT,
            maxExtent=_LEFT,
            labelColor=theme.INK,
        ),
    )
    base = alt.Chart(theme.values(shown), height=alt.Step(44))
    bars = base.mark_bar(stroke=theme.PAPER, strokeWidth=0.8).encode(
        y=y,
        x=alt.X(
            "share_frac:Q",
            stack="zero",
            title="share of the pool's GPU-hours (%)",
            axis=theme.share_axis(values=[0, 0.2, 0.4, 0.6, 0.8, 1]),
            scale=alt.Scale(domain=[0, longest], nice=False),
        ),
        color=alt.Color("bucket:N", scale=theme.scale(colours), sort=list(colours)),
        order=alt.Order("place:Q"),
        tooltip=[
            alt.Tooltip("policy:N"),
            alt.Tooltip("batch:N", title="batch rule"),
            alt.Tooltip("bucket:N"),
            alt.Tooltip("share_frac:Q", title="share of the pool", format=".2%"),
            alt.Tooltip("gpu_h:Q", title="GPU-hours", format=",.0f"),
        ],
    )
    words = "format(100 * datum.share_frac, '.1f') + '\u202f%'"
    base = base.transform_calculate(words=words)
    labels = (
        base.transform_filter("datum.bucket == 'productive' && datum.share_frac > 0.12")
        .mark_text(align="left", dx=8, color=theme.PAPER, fontWeight=600, fontSize=13)
        .encode(y=y, x=alt.datum(0), text="words:N")
    )
    small = (
        base.transform_filter("datum.bucket == 'productive' && datum.share_frac <= 0.12")
        .mark_text(align="left", dx=8, color=theme.INK, fontWeight=600, fontSize=13)
        .encode(y=y, x=alt.X("share_frac:Q"), text="words:N")
    )
    whole = alt.Chart(theme.no_data()).mark_rule(strokeDash=[3, 3], color=theme.INK).encode(x=alt.datum(1))
    return theme.stacked([bars + labels + small + whole], left=_LEFT + 4)


def summary(frame: pl.DataFrame) -> str:
    """Return which policy keeps most and what it loses most to."""
    # Rounded: two batch rules may agree but for the order of a sum.
    ranked = frame.with_columns(pl.col("goodput_frac").round(9)).sort(
        "goodput_frac", "batch", "policy", descending=[True, False, False]
    )
    best = ranked.row(0, named=True)
    mine = frame.filter((pl.col("batch") == best["batch"]) & (pl.col("policy") == best["policy"]))
    losses = mine.filter(~pl.col("bucket").is_in(["productive", "gain"])).sort("share_frac", descending=True)
    worst = losses.row(0, named=True)
    largest = (
        f"its largest loss is {worst['bucket']}, {theme.percent(worst['share_frac'])}"
        if worst["share_frac"]
        else "it loses nothing"
    )
    return (
        f"{best['policy']} under {best['batch']} keeps most, {theme.percent(best['goodput_frac'])} of the "
        f"pool; {largest}."
    )
