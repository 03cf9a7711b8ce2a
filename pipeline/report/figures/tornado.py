"""How far does the answer move when an assumption is off by a factor of two?

One panel for each batch rule, for its best policy at its best split; the line in the middle is the answer.
Each bar changes one value and leaves the rest: the goodput with it halved or doubled, as written at the ends.
A policy that overtakes the best one when a value changes is named below the chart; one to which the value
means nothing, as power does without a boost, stays where it is. An interval between saves that is best for
the failures that happened loses at both ends.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "How sure: one value at a time"
ORDER = 80
QUERY = """
with
ranked as (
    select
        batch, policy, goodput_frac,
        row_number() over (partition by batch order by goodput_frac desc, policy) as place,
    from best_splits($scenario)
),
axes as (
    select distinct batch, axis from tornado($scenario)
),
ends as (
    select
        ranked.batch,
        ranked.policy,
        place,
        axes.axis,
        round(coalesce(low_frac, goodput_frac), 12) as low_frac,
        round(coalesce(high_frac, goodput_frac), 12) as high_frac,
    from ranked
    inner join axes on axes.batch = ranked.batch
    left join tornado($scenario) as moved
        on moved.batch = ranked.batch and moved.policy = ranked.policy and moved.axis = axes.axis
),
leaders as (
    select
        batch,
        axis,
        first(policy order by low_frac desc, place) as low_best_policy,
        first(policy order by high_frac desc, place) as high_best_policy,
    from ends
    group by batch, axis
)
select
    batch, policy, axis, logged_frac, low_what_if, low_frac, high_what_if, high_frac, reach_frac,
    low_best_policy, high_best_policy,
from tornado($scenario)
inner join (select batch, policy from ranked where place = 1) using (batch, policy)
inner join leaders using (batch, axis)
order by batch, reach_frac desc, axis
"""
_LEFT = 112
_NARROWEST = 210  # pixels of a plot on a phone
_LEAST_SPAN = 0.004
_WHOLE_PERCENT = 0.03  # axes at least this long have no ticks between whole percents
_ENDS = {
    "half_repair": "half",
    "double_repair": "twice",
    "half_restart": "half",
    "double_restart": "twice",
    "half_interval": "half",
    "double_interval": "twice",
    "half_samples": "half",
    "double_samples": "twice",
    "half_boost": "half",
    "full_boost": "as power",
    "may_compute": "may compute",
}


def chart(frame: pl.DataFrame) -> Any:
    """Return a panel for each batch rule, a bar for each value, the widest on top."""
    drawn = _with_ends(frame)
    base = alt.Chart(theme.values(drawn), height=alt.Step(30))
    batches = frame.select("batch", "policy", "logged_frac").unique(maintain_order=True).rows()
    panels = []
    for place, (batch, policy, logged) in enumerate(batches, 1):
        rows = drawn.filter(pl.col("batch") == batch)
        mine = base.transform_filter(alt.datum.batch == batch)
        middle = alt.Chart(theme.no_data()).mark_rule(color=theme.INK, strokeWidth=1.5)
        layers = [*_bars(mine, rows, is_last=place == len(batches)), middle.encode(x=alt.datum(logged))]
        heading = theme.title(f"{policy}, batch rule {batch}: {theme.percent(logged)}")
        panels.append(theme.layered(layers).properties(title=heading))
    return theme.stacked(panels, left=_LEFT + 4, spacing=26)


def _with_ends(frame: pl.DataFrame) -> pl.DataFrame:
    """Add what stands at each end; where both ends lie on one side, the farther one speaks for both."""
    low, high = pl.col("low_frac") - pl.col("logged_frac"), pl.col("high_frac") - pl.col("logged_frac")
    is_one_sided = (low.sign() == high.sign()).fill_null(value=False)
    is_low_far = low.abs() >= high.abs()
    words = {side: pl.col(f"{side}_what_if").replace_strict(_ENDS, default="") for side in ("low", "high")}
    both = pl.format("{} or {}", words["low"], words["high"])
    return frame.with_columns(
        pl.when(is_one_sided)
        .then(pl.when(is_far).then(both).otherwise(pl.lit("")))
        .otherwise(words[side])
        .alias(f"drawn_{side}_end")
        for side, is_far in (("low", is_low_far), ("high", ~is_low_far))
    )


def _domain(rows: pl.DataFrame) -> list[float]:
    """Return the axis' ends: all values, and room for the words beside them, also on a phone."""
    logged = rows["logged_frac"].to_list()
    left, right = [(value, "") for value in logged], [(value, "") for value in logged]
    for side in ("low", "high"):
        for middle, value, words in zip(
            logged, rows[f"{side}_frac"].to_list(), rows[f"drawn_{side}_end"].to_list(), strict=True
        ):
            if value is not None:
                (left if value < middle else right).append((value, words))
    return theme.with_room(left, right, narrowest=_NARROWEST, least=_LEAST_SPAN)


def _bars(base: alt.Chart, rows: pl.DataFrame, *, is_last: bool) -> list[Any]:
    """Return the bars of both sides with what stands at their ends."""
    axis = alt.Axis(labelColor=theme.INK, minExtent=_LEFT, maxExtent=_LEFT)
    y = alt.Y("axis:N", sort=rows["axis"].to_list(), title=None, axis=axis)
    domain = _domain(rows)
    form = ".0%" if domain[1] - domain[0] >= _WHOLE_PERCENT else ".1%"
    x = alt.X(
        "logged_frac:Q",
        title="goodput (%)" if is_last else "",
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=theme.share_axis(format=form, tickCount=4, grid=True),
    )
    tones = theme.bucket_colours(["stranded", "checkpoint"])
    layers: list[Any] = []
    for side in ("low", "high"):
        one = base.transform_filter(f"isValid(datum.{side}_frac)")
        shade = alt.condition(
            f"datum.{side}_frac < datum.logged_frac",
            alt.value(tones["stranded"]),
            alt.value(tones["checkpoint"]),
        )
        tooltip = [
            alt.Tooltip("axis:N", title="value"),
            alt.Tooltip(f"{side}_what_if:N", title="changed to"),
            alt.Tooltip(f"{side}_frac:Q", title="goodput", format=".2%"),
            alt.Tooltip("logged_frac:Q", title="as it stands", format=".2%"),
        ]
        layers.append(
            one.mark_bar(height=16).encode(y=y, x=x, x2=f"{side}_frac:Q", color=shade, tooltip=tooltip)
        )
        below = one.transform_filter(f"datum.{side}_frac < datum.logged_frac")
        above = one.transform_filter(f"datum.{side}_frac >= datum.logged_frac")
        layers += [
            mark.encode(y=y, x=alt.X(f"{side}_frac:Q"), text=f"drawn_{side}_end:N")
            for mark in (
                below.mark_text(align="right", dx=-4, color=theme.SOFT, fontSize=11),
                above.mark_text(align="left", dx=4, color=theme.SOFT, fontSize=11),
            )
        ]
    return layers


def summary(frame: pl.DataFrame) -> str:
    """Return the value that moves the answer most under each batch rule, and who overtakes the best one."""
    told = []
    for batch in frame["batch"].unique(maintain_order=True):
        row = frame.filter(pl.col("batch") == batch).row(0, named=True)
        found = [
            value for value in (row["low_frac"], row["high_frac"], row["logged_frac"]) if value is not None
        ]
        told.append(f"under {batch}, {row['axis']}: {theme.spread(min(found), max(found))} ({row['policy']})")
    text = f"What moves the answer most: {'; '.join(told)}."
    overtaken = [
        f"{row[f'{side}_best_policy']} leads under {row['batch']} when {row['axis']} is {_ENDS[what_if]}"
        for row in frame.iter_rows(named=True)
        for side in ("low", "high")
        if (what_if := row[f"{side}_what_if"]) and row[f"{side}_best_policy"] != row["policy"]
    ]
    return (
        f"{text} {theme.listing(overtaken)}." if overtaken else f"{text} No bar changes which policy is best."
    )
