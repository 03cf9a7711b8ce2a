"""How many spare domains should be held back?

Goodput of the whole pool, spares included: a line for each policy, a panel for each batch rule. The band runs
from the lowest to the highest placement, a ring marks the best split.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt

from pipeline.report import theme

if TYPE_CHECKING:
    import polars as pl

TITLE = "Spare domains against goodput"
ORDER = 20
QUERY = """
select
    batch, policy, spare_domains, spare_frac, dp, goodput_frac, goodput_low_frac, goodput_high_frac, is_best,
from split_curve($scenario)
"""
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])


def chart(frame: pl.DataFrame) -> Any:
    """Return one panel for each batch rule."""
    colours = theme.policy_colours(frame["policy"])
    data = theme.values(frame)
    batches = frame["batch"].unique(maintain_order=True).to_list()
    highest = int(frame["spare_domains"].max() or 0)  # type: ignore[arg-type]
    panels = [_panel(data, batch, colours, highest, last=batch == batches[-1]) for batch in batches]
    return theme.stacked(panels, spacing=30)


def _panel(data: alt.InlineData, batch: str, colours: dict[str, str], highest: int, *, last: bool) -> Any:
    base = alt.Chart(
        data, height=220, title=theme.title(f"batch rule {batch}", theme.BATCH_WORDS.get(batch, ""))
    )
    base = base.transform_filter(alt.datum.batch == batch)
    x = alt.X(
        "spare_domains:Q",
        title="spare domains" if last else None,
        scale=alt.Scale(domain=[-0.02 * max(highest, 1), max(highest, 1)], nice=False),
        axis=alt.Axis(tickMinStep=1, format=",d"),
    )
    legend = alt.Legend(symbolType="stroke", symbolStrokeWidth=3)
    colour = alt.Color("policy:N", scale=theme.scale(colours), legend=legend)
    y_axis = theme.share_axis(tickCount=5, titlePadding=4)
    share = alt.Scale(domain=[0, 1])
    band = base.mark_area(opacity=0.16).encode(
        x=x,
        y=alt.Y("goodput_low_frac:Q", title="goodput (% of the pool's GPU-hours)", axis=y_axis, scale=share),
        y2="goodput_high_frac:Q",
        color=colour,
    )
    y = alt.Y("goodput_frac:Q", title="goodput (% of the pool's GPU-hours)", axis=y_axis, scale=share)
    # Two policies may coincide: a dash lets the one below show through.
    dash = alt.StrokeDash(
        "policy:N",
        legend=legend,
        scale=alt.Scale(
            domain=list(colours), range=[_DASHES[place % len(_DASHES)] for place in range(len(colours))]
        ),
    )
    lines = base.mark_line(strokeWidth=2.4).encode(x=x, y=y, color=colour, strokeDash=dash)
    tooltip = [
        alt.Tooltip("policy:N"),
        alt.Tooltip("spare_domains:Q", title="spare domains"),
        alt.Tooltip("dp:Q", title="replicas (DP)"),
        alt.Tooltip("goodput_frac:Q", title="goodput, mean", format=".2%"),
        alt.Tooltip("goodput_low_frac:Q", title="lowest placement", format=".2%"),
        alt.Tooltip("goodput_high_frac:Q", title="highest placement", format=".2%"),
    ]
    dots = base.mark_point(filled=True, size=26, opacity=1).encode(x=x, y=y, color=colour, tooltip=tooltip)
    rings = (
        base.transform_filter("datum.is_best")
        .mark_point(filled=False, size=150, strokeWidth=2.2, opacity=1)
        .encode(x=x, y=y, color=colour, tooltip=tooltip)
    )
    return theme.layered([band, lines, dots, rings])


def summary(frame: pl.DataFrame) -> str:
    """Return the best split of the best policy under each batch rule, and policies that coincide."""
    best = frame.filter("is_best").sort("batch", "goodput_frac", "policy", descending=[False, True, False])
    parts = []
    for (batch,), rows in best.group_by("batch", maintain_order=True):
        splits = [f"{row['policy']} {row['spare_domains']}" for row in rows.iter_rows(named=True)]
        parts.append(f"under {batch}: {theme.listing(splits)}")
    same = "".join(f" {theme.listing(names)} coincide under {batch}." for batch, names in _coinciding(frame))
    return f"Best spare domains (rings) {'; '.join(parts)}.{same}"


def _coinciding(frame: pl.DataFrame) -> list[tuple[str, list[str]]]:
    """Return the policies whose lines lie on each other, by batch rule."""
    curves = frame.sort("spare_domains").group_by("batch", "policy", maintain_order=True).agg("goodput_frac")
    groups = (
        curves.sort("batch", "policy").group_by("batch", "goodput_frac", maintain_order=True).agg("policy")
    )
    return [(row["batch"], row["policy"]) for row in groups.iter_rows(named=True) if len(row["policy"]) > 1]
