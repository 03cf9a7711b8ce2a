"""How long do repairs take?

Above, the Kaplan-Meier curve of all outages: the share still open after so long; an outage that is still open
at the window's end counts as open, not as repaired. Below, median and 95th percentile by component.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import polars as pl

from pipeline.report import theme

TITLE = "Repair time by component"
ORDER = 60
# A repair under a minute is drawn at one minute, because the axis is logarithmic.
QUERY = """
with curve as (
    select *, row_number() over (order by t_h) as place, count(*) over () as steps
    from repair_time($scenario)
    where component = 'all'
)

select
    'curve' as part, component, t_h, survival_frac, at_risk, null as median_h, null as p95_h,
    null as mean_h, null as outages, greatest(t_h, 1 / 60) as drawn_from_h, null as drawn_to_h,
from curve
where place % greatest(1, steps // 400) = 0 or place in (1, steps)
union all by name
select 'curve' as part, 'all' as component, 0 as t_h, 1 as survival_frac, 1 / 60 as drawn_from_h,
from curve
where place = 1 and t_h > 1 / 60
union all by name
select
    'component' as part, component, median_h, p95_h, mean_h, outages,
    greatest(median_h, 1 / 60) as drawn_from_h, greatest(p95_h, 1 / 60) as drawn_to_h,
from repair_summary($scenario)
where median_h is not null
order by part desc, component <> 'all', median_h desc, t_h
"""
_LEFT = 84


def chart(frame: pl.DataFrame) -> Any:
    """Return the curve above the components, on one axis of hours."""
    data = theme.values(frame)
    hours = [1 / 60, 1 / 6, 1, 6, 24, 168, 720, 4380]
    axis = alt.Axis(
        values=hours,
        labelExpr="datum.value < 1 ? format(datum.value * 60, '.0f') + ' min' "
        ": datum.value < 24 ? datum.value + ' h' : format(datum.value / 24, '.0f') + ' d'",
        grid=True,
    )
    longest = max(float(frame[name].max() or 1) for name in ("drawn_from_h", "drawn_to_h"))  # type: ignore[arg-type]
    span = alt.Scale(type="log", domain=[1 / 60, max(longest, 1.0)], nice=False)
    wide: dict[str, Any] = {"minExtent": _LEFT, "maxExtent": _LEFT, "titleX": -_LEFT}

    def x(field: str, words: str = "") -> alt.X:
        return alt.X(f"{field}:Q", title=words, axis=axis, scale=span)

    curve = (
        alt.Chart(data, height=150)
        .transform_filter(alt.datum.part == "curve")
        .mark_line(interpolate="step-after", strokeWidth=2, color=theme.INK)
        .encode(
            x=x("drawn_from_h"),
            y=alt.Y(
                "survival_frac:Q",
                title="outages still open (%)",
                axis=theme.share_axis(tickCount=4, **wide),
                scale=alt.Scale(domain=[0, 1]),
            ),
            tooltip=[
                alt.Tooltip("t_h:Q", title="after (h)", format=",.2f"),
                alt.Tooltip("survival_frac:Q", title="still open", format=".1%"),
                alt.Tooltip("at_risk:Q", title="outages at risk", format=",d"),
            ],
        )
    )
    parts = frame.filter(pl.col("part") == "component")["component"].to_list()
    base = alt.Chart(data, height=alt.Step(30)).transform_filter(alt.datum.part == "component")
    y = alt.Y("component:N", sort=parts, title="component", axis=alt.Axis(labelColor=theme.INK, **wide))
    tooltip = [
        alt.Tooltip("component:N"),
        alt.Tooltip("outages:Q", format=",d"),
        alt.Tooltip("median_h:Q", title="median (h)", format=",.1f"),
        alt.Tooltip("p95_h:Q", title="95th percentile (h)", format=",.1f"),
        alt.Tooltip("mean_h:Q", title="mean (h)", format=",.1f"),
    ]
    words = "repair time, log scale (minutes, hours, days)"
    ended = base.transform_filter("isValid(datum.drawn_to_h)")
    ranges = ended.mark_rule(strokeWidth=2.5, color=theme.SOFT).encode(
        x=x("drawn_from_h", words), x2="drawn_to_h:Q", y=y
    )
    medians = base.mark_point(filled=True, size=110, opacity=1, color="#31618e").encode(
        x=x("drawn_from_h", words), y=y, tooltip=tooltip
    )
    ends = ended.mark_tick(thickness=2.5, size=13, color=theme.SOFT).encode(
        x=x("drawn_to_h", words), y=y, tooltip=tooltip
    )
    below = (ranges + ends + medians).properties(
        title=theme.title("median (dot) to 95th percentile (bar's end)")
    )
    return theme.stacked([curve, below], left=_LEFT + 4, spacing=26)


def summary(frame: pl.DataFrame) -> str:
    """Return the median and 95th percentile of all repairs."""
    rows = frame.filter((pl.col("part") == "component") & (pl.col("component") == "all"))
    if rows.is_empty():
        return "Too few repairs are complete for a median."
    row = rows.row(0, named=True)
    verb = "is" if row["outages"] == 1 else "are"
    return (
        f"Half of {theme.plural(row['outages'], 'outage')} {verb} repaired within "
        f"{theme.hours(row['median_h'])}, 95{theme.THIN}% within {theme.hours(row['p95_h'])}; "
        f"the mean is {theme.hours(row['mean_h'])}."
    )
