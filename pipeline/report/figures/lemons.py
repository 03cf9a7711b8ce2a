"""Which nodes are down most, and what would it bring if the worst never failed?

The nodes with the most downtime, each with the number of its outages and, in brackets, the component that
took most of its hours. Orange ones are the worst hundredth of all nodes, which the what-if keeps from
failing. They are chosen in hindsight: chance alone makes some nodes the worst ones, so read the outages
beside the hours.
"""

from __future__ import annotations

import json
from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "Lemon nodes"
ORDER = 75
QUERY = """
select
    node, outages, down_h, down_gpu_h, worst_component, cumulative_frac, is_lemon, drawn_gains, drawn_lemons,
from (select * from lemons($scenario) limit 15)
cross join (select count(*) filter (is_lemon) as drawn_lemons from lemons($scenario))
cross join (
    select
        to_json(
            list([policy, batch, lemons_gain_gpu_h_per_day::varchar] order by batch)
        )::varchar as drawn_gains,
    from headline($scenario)
    where lemons_gain_gpu_h_per_day is not null
)
order by down_gpu_h desc, outages desc, node
"""
_LEFT = 150
_LEAST_LEFT = 60
_NAME_LENGTH = 20
_LEMON, _OTHER = "one of the worst hundredth", "other nodes"


def chart(frame: pl.DataFrame) -> Any:
    """Return a bar for each node, worst first."""
    tones = theme.bucket_colours(["stranded", "spare_idle"])
    words = {_LEMON: tones["stranded"], _OTHER: tones["spare_idle"]}
    outages = pl.when(pl.col("outages") == 1).then(pl.lit("outage")).otherwise(pl.lit("outages"))
    shown = frame.with_columns(
        pl.when("is_lemon").then(pl.lit(_LEMON)).otherwise(pl.lit(_OTHER)).alias("kind"),
        pl.format("{} {} ({})", "outages", outages, "worst_component").alias("about"),
    )
    longest = max((len(name) for name in shown["node"].to_list()), default=0)
    left = min(_LEFT, max(_LEAST_LEFT, 7 * longest + 10))
    cut = f"slice(datum.label, 0, {_NAME_LENGTH - 2}) + '\u2026'"
    axis = alt.Axis(
        labelColor=theme.INK,
        minExtent=left,
        maxExtent=left,
        labelExpr=f"length(datum.label) > {_NAME_LENGTH} ? {cut} : datum.label",
    )
    y = alt.Y("node:N", sort=shown["node"].to_list(), title=None, axis=axis)
    base = alt.Chart(theme.values(shown.drop("drawn_gains", "drawn_lemons")), height=alt.Step(24))
    most = max([*shown["down_gpu_h"].to_list(), 1e-9])
    bars = base.mark_bar(height=15).encode(
        y=y,
        x=alt.X(
            "down_gpu_h:Q",
            title="GPU-hours down in the window",
            axis=alt.Axis(format=",d", tickCount=5, grid=True),
            scale=alt.Scale(domain=[0, most * 1.4], nice=False),
        ),
        color=alt.Color("kind:N", scale=theme.scale(words), sort=list(words)),
        tooltip=[
            alt.Tooltip("node:N"),
            alt.Tooltip("outages:Q", format=",d"),
            alt.Tooltip("down_h:Q", title="hours down", format=",.1f"),
            alt.Tooltip("down_gpu_h:Q", title="GPU-hours down", format=",.0f"),
            alt.Tooltip("worst_component:N", title="worst component"),
            alt.Tooltip("cumulative_frac:Q", title="share of all, up to here", format=".1%"),
        ],
    )
    texts = base.mark_text(align="left", dx=6, color=theme.SOFT, fontSize=11).encode(
        y=y, x=alt.X("down_gpu_h:Q"), text="about:N"
    )
    return theme.stacked([bars + texts], left=left + 4, long_legend=True)


def summary(frame: pl.DataFrame) -> str:
    """Return the share of the worst nodes and what it would bring if they never failed."""
    first = frame.row(0, named=True)
    count = min(first["drawn_lemons"], frame.height)
    shares: list[float] = frame["cumulative_frac"].to_list()
    who = "The worst node carries" if count == 1 else f"The worst {theme.plural(count, 'node')} carry"
    text = f"{who} {theme.percent(shares[count - 1])} of all GPU-hours down"
    gains = json.loads(first["drawn_gains"] or "null") or []
    if not gains:
        return f"{text}."
    told = [f"{policy} under {batch} {theme.whole(float(gain))}" for policy, batch, gain in gains]
    never = "it" if first["drawn_lemons"] == 1 else f"the worst {theme.plural(first['drawn_lemons'], 'node')}"
    return f"{text}. If {never} never failed, GPU-hours a day more: {theme.listing(told)}."
