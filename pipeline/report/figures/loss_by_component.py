"""What does each component cost, and in what way?

One panel for each batch rule, for its best policy. A dot is what the policy gains when the component never
fails, with the range over placements. The bars tell in what way it costs: GPUs of the pool that only this
component takes; work lost to rollbacks, and starts, of the stops that it caused; and the rest, which is
stranded GPUs and waiting, less what boosted clocks and slack made up for. A bar to the left of 0 is such
slack: failed GPUs that were not missed.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "Loss by component"
ORDER = 70
QUERY = """
select
    batch, policy, component, outages, interruptions, down_gpu_h_per_day,
    failed_gpu_h / window_d as failed_gpu_h_per_day,
    rework_gpu_h / window_d as rework_gpu_h_per_day,
    (detect_gpu_h + restart_gpu_h) / window_d as starts_gpu_h_per_day,
    rest_gpu_h / window_d as rest_gpu_h_per_day,
    brings_back_gpu_h_per_day, brings_back_low_gpu_h_per_day, brings_back_high_gpu_h_per_day,
    brings_back_frac,
from loss_by_component($scenario)
cross join (select window_d from scenario_window($scenario))
"""
_LEFT = 84
_WAYS = {
    "failed_gpu_h_per_day": "GPUs down",
    "rework_gpu_h_per_day": "work lost to rollbacks",
    "starts_gpu_h_per_day": "noticing and starting again",
    "rest_gpu_h_per_day": "stranded or waiting, less what was made up for",
}
_UNIT = "GPU-hours a day"


def chart(frame: pl.DataFrame) -> Any:
    """Return a panel for each batch rule, a row for each component."""
    tones = theme.bucket_colours(["failed", "rework", "restart", "stranded"])
    buckets = ("failed", "rework", "restart", "stranded")
    colours = {words: tones[bucket] for words, bucket in zip(_WAYS.values(), buckets, strict=True)}
    # In every panel the same order, and the same data.
    order = (
        frame.group_by("component")
        .agg(pl.col("brings_back_gpu_h_per_day").max().fill_null(float("-inf")).alias("most"))
        .sort("most", "component", descending=[True, False])["component"]
        .to_list()
    )
    base = alt.Chart(theme.values(frame), height=alt.Step(26))
    batches = frame.select("batch", "policy").unique(maintain_order=True).rows()
    panels = [
        _panel(
            base.transform_filter(alt.datum.batch == batch), order, colours, is_last=place == len(batches)
        ).properties(title=theme.title(f"{policy}, batch rule {batch}"))
        for place, (batch, policy) in enumerate(batches, 1)
    ]
    return theme.stacked(panels, left=_LEFT + 4, spacing=26, long_legend=True)


def _panel(base: alt.Chart, order: list[str], colours: dict[str, str], *, is_last: bool) -> Any:
    axis = alt.Axis(labelColor=theme.INK, minExtent=_LEFT, maxExtent=_LEFT)
    y = alt.Y("component:N", sort=order, title=None, axis=axis)
    title = f"{_UNIT}; dot: gain without the component" if is_last else ""
    x_axis = alt.Axis(format=",d", tickCount=5, grid=True)
    words = ", ".join(f"{key}: '{text}'" for key, text in _WAYS.items())
    places = ", ".join(f"{key}: {place}" for place, key in enumerate(_WAYS))
    bars = (
        base.transform_fold(list(_WAYS), as_=["key", "gpu_h_per_day"])
        .transform_filter("isValid(datum.gpu_h_per_day)")
        .transform_calculate(way=f"{{{words}}}[datum.key]", place=f"{{{places}}}[datum.key]")
        .mark_bar(height=15)
        .encode(
            y=y,
            x=alt.X("gpu_h_per_day:Q", stack="zero", title=title, axis=x_axis),
            color=alt.Color("way:N", scale=theme.scale(colours), sort=list(colours)),
            order=alt.Order("place:Q"),
            tooltip=[
                alt.Tooltip("component:N"),
                alt.Tooltip("way:N"),
                alt.Tooltip("gpu_h_per_day:Q", title=_UNIT, format="+,.0f"),
                alt.Tooltip("outages:Q", format=",d"),
                alt.Tooltip("interruptions:Q", title="stops of the job", format=",.1f"),
            ],
        )
    )
    known = base.transform_filter("isValid(datum.brings_back_gpu_h_per_day)")
    ranges = known.mark_rule(strokeWidth=2, color=theme.INK).encode(
        y=y, x=alt.X("brings_back_low_gpu_h_per_day:Q", title=title), x2="brings_back_high_gpu_h_per_day:Q"
    )
    dots = known.mark_point(
        filled=True, size=80, opacity=1, color=theme.INK, stroke=theme.PAPER, strokeWidth=1.5
    ).encode(
        y=y,
        x=alt.X("brings_back_gpu_h_per_day:Q", title=title),
        tooltip=[
            alt.Tooltip("component:N"),
            alt.Tooltip("policy:N"),
            alt.Tooltip("brings_back_gpu_h_per_day:Q", title=f"gains, {_UNIT}", format="+,.0f"),
            alt.Tooltip("brings_back_low_gpu_h_per_day:Q", title="lowest placement", format="+,.0f"),
            alt.Tooltip("brings_back_high_gpu_h_per_day:Q", title="highest placement", format="+,.0f"),
        ],
    )
    return bars + ranges + dots


def summary(frame: pl.DataFrame) -> str:
    """Return the component whose absence brings most under each batch rule, and what it takes by itself."""
    told = []
    for batch in frame["batch"].unique(maintain_order=True):
        rows = frame.filter((pl.col("batch") == batch) & pl.col("brings_back_gpu_h_per_day").is_not_null())
        if rows.is_empty():
            continue
        worst = rows.sort("brings_back_gpu_h_per_day", "component", descending=[True, False]).row(
            0, named=True
        )
        gain = theme.whole(worst["brings_back_gpu_h_per_day"])
        failed = theme.whole(worst["failed_gpu_h_per_day"])
        told.append(
            f"under {batch}, {worst['policy']} would gain {gain} GPU-hours a day without "
            f"{worst['component']} faults, which take {failed} by GPUs down"
        )
    text = "; ".join(told)
    return f"{text[:1].upper()}{text[1:]}." if text else "No component was left out."
