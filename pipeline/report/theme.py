"""How every figure looks: colours, fonts, number words, the shape of axes.

In: frames and words. Out: Altair pieces and formatted text. Percent have one decimal, counts a thousands
separator, times are UTC. A policy and a bucket have one colour everywhere, in a light and a dark tone; a
chart is written with the light tones and the page swaps them, so `DARK` must name every light tone once.
Easy to get wrong: Vega reads an instant without a zone as local time, so `values` writes them with a Z.
Colours: after Okabe and Ito (colour-blind safe), darkened until each stands 3:1 against the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from typing import Any

import altair as alt
import polars as pl

from pipeline.schema import BUCKETS

FONT = "Inter, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, 'DejaVu Sans', sans-serif"
WIDTH = 760  # of a plot in an export; the page gives each plot the width of its column
LEFT = 52  # room for a y axis, fixed so that the page can work out the plot's width
RIGHT = 22
DIGITS = 6  # significant digits that a chart's data carry

DASH, MINUS, THIN = "\u2013", "\u2212", "\u202f"  # en dash, minus sign, narrow no-break space
INK, SOFT, GRID, PAPER = "#1c2430", "#5b6675", "#e3e7ec", "#ffffff"
_POLICY = {"rigid": "#b8588f", "dp-drop": "#c77700", "ntp": "#0072b2", "ntp-pw": "#00875f"}
_MORE = ("#5a4fcf", "#8a6d1d", "#2f8fa8", "#a33b20", "#6b7280")
_BUCKET = {
    "productive": "#31618e",
    "failed": "#9c2f2f",
    "stranded": "#e07b00",
    "paused": "#f2b632",
    "rework": "#54307f",
    "detect": "#7650a6",
    "restart": "#9a78c8",
    "reconfigure": "#bfa6e0",
    "checkpoint": "#178074",
    "overhead": "#74bdb2",
    "spare_idle": "#8b97a5",
    "static": "#bcc5cf",
    "gain": "#31618f",
}
_DARK_TONES = (
    "#e6eaf0", "#a3aebd", "#333c49", "#161b22",
    "#e39cc4", "#f0a83a", "#5ab4f0", "#2fc793",
    "#9d95ff", "#d2b050", "#62c3da", "#ee7d5c", "#a7afbb",
    "#6ea3d4", "#e06a62", "#ff9d33", "#ffd166", "#8f63c9", "#a884d9", "#c2a6ea", "#dccbf4",
    "#35b5a6", "#9adbd2", "#7b8796", "#566170", "#6ea3d5",
)  # fmt: skip
DARK = dict(
    zip((INK, SOFT, GRID, PAPER, *_POLICY.values(), *_MORE, *_BUCKET.values()), _DARK_TONES, strict=True)
)

BATCH_WORDS = {
    "elastic": "the global batch shrinks with the replicas that are left",
    "pause": "the global batch is fixed; the job waits when it cannot be filled",
    "stretch": "the global batch is fixed; iterations get longer",
}


def policy_colours(policies: Iterable[str]) -> dict[str, str]:
    """Return a colour for each policy: the response's own for a shipped name, else one that is free."""
    names = sorted(set(policies))
    others = [name for name in names if name not in _POLICY]
    free = [*_MORE, *(colour for name, colour in _POLICY.items() if name not in names)]
    return {name: _POLICY.get(name) or free[others.index(name) % len(free)] for name in names}


def bucket_colours(buckets: Iterable[str]) -> dict[str, str]:
    """Return the colour of each bucket, in the ledger's order."""
    wanted = set(buckets)
    return {bucket: _BUCKET[bucket] for bucket in BUCKETS if bucket in wanted}


def scale(colours: dict[str, str]) -> alt.Scale:
    """Return a colour scale that fixes each word's colour."""
    return alt.Scale(domain=list(colours), range=list(colours.values()))


# --- numbers in words --------------------------------------------------------------------------------------


def percent(fraction: float | None, digits: int = 1) -> str:
    """Return a fraction as percent, with a thin space; an absent one as a dash."""
    return DASH if fraction is None else f"{100 * fraction:,.{digits}f}{THIN}%"


def points(fraction: float | None) -> str:
    """Return a difference of two fractions as signed percentage points."""
    if fraction is None:
        return DASH
    digits = 1 if abs(fraction) >= 0.001 else 2
    return f"{100 * fraction:+,.{digits}f}".replace("-", MINUS) + " points"


def whole(number: float | None) -> str:
    """Return a count with thousands separators."""
    return DASH if number is None else f"{round(number):,}".replace("-", MINUS)


def short(number: float | None) -> str:
    """Return a large number in three digits: 25.7 million, 1,230, 4.1."""
    if number is None:
        return DASH
    for size, word in ((1e9, " billion"), (1e6, " million")):
        if abs(number) >= size:
            return f"{number / size:,.3g}{word}".replace("-", MINUS)
    return whole(number) if abs(number) >= 100 else f"{number:,.3g}".replace("-", MINUS)


def hours(number: float | None) -> str:
    """Return a length in hours in the unit people say: minutes, hours or days."""
    if number is None:
        return "not reached"
    if number >= 48:
        return f"{number / 24:,.3g} days"
    return f"{number:,.3g} hours" if number >= 1 else f"{number * 60:,.2g} minutes"


def plural(count: float, word: str) -> str:
    """Return a count with its noun: 1 placement, 5 placements."""
    return f"{whole(count)} {word}{'' if count == 1 else 's'}"


def spread(low: float | None, high: float | None) -> str:
    """Return the lowest and highest fraction as percent, with a second decimal when one is too few."""
    if low is None or high is None:
        return DASH
    digits = 1 if percent(low) != percent(high) else 2
    if percent(low, digits) == percent(high, digits):
        return f"{percent(low)} in each"
    return f"{percent(low, digits)[:-2]}{DASH}{percent(high, digits)}"


def gained(number: float | None) -> str:
    """Return a gain in whole numbers with its sign; nothing when it is not known."""
    if number is None:
        return ""
    sign = "+" if round(number) > 0 else MINUS if round(number) < 0 else ""
    return sign + whole(abs(number))


def listing(words: Sequence[str]) -> str:
    """Return words as a list in a sentence."""
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1] if words else "none"


# --- pieces of charts --------------------------------------------------------------------------------------


def values(frame: pl.DataFrame) -> alt.InlineData:
    """Return a frame as a chart's data: instants with their zone, numbers in six significant digits."""
    times = [name for name, kind in frame.schema.items() if isinstance(kind, pl.Datetime)]
    floats = [name for name, kind in frame.schema.items() if kind in {pl.Float64, pl.Float32}]
    plain = frame.with_columns(
        *(pl.col(name).dt.strftime("%Y-%m-%dT%H:%M:%SZ") for name in times),
        *(pl.col(name).round_sig_figs(DIGITS) for name in floats),
    )
    return alt.InlineData(values=plain.to_dicts(), name="data")


def since() -> alt.Tooltip:
    """Return the tooltip line that tells from when a reduced series' bucket is."""
    return alt.Tooltip(
        "t_start:T", title="from (UTC)", format="%Y-%m-%d %H:%M", timeUnit="utcyearmonthdatehoursminutes"
    )


def time_axis(frame: pl.DataFrame, *, last: bool) -> alt.X:
    """Return the UTC time axis of `t_start`; only the lowest of several panels says so in words."""
    first, past, days = frame.select(
        pl.col("t_start").min().dt.strftime("%Y-%m-%d"),
        pl.col("t_end").max().dt.strftime("%Y-%m-%d").alias("past"),
        (pl.col("t_end").max() - pl.col("t_start").min()).dt.total_days().alias("days"),
    ).row(0)
    span = f"{first} to {past}"
    form = "%b %Y" if days > 90 else "%d %b" if days > 4 else "%d %b %H:%M"
    axis = alt.Axis(tickCount=6, labels=last, ticks=last, format=form)
    return alt.X(
        "t_start:T", title=f"time (UTC), {span}" if last else "", scale=alt.Scale(type="utc"), axis=axis
    )


def no_data() -> alt.InlineData:
    """Return the data of a mark that stands for itself."""
    return alt.InlineData(values=[{}])


def share_axis(**more: Any) -> alt.Axis:
    """Return an axis of percent, written as in the text: 95.9 % with a thin space."""
    return alt.Axis(**{"format": ".0%", "labelExpr": "replace(datum.label, '%', '\u202f%')", **more})


def with_room(
    left: Sequence[tuple[float, str]],
    right: Sequence[tuple[float, str]],
    *,
    narrowest: float,
    least: float,
) -> list[float]:
    """Return an axis' ends: the values, with room for the words to the left and right of them.

    The words, in small type, fit beside their values on a plot that is `narrowest` pixels wide. An axis of
    values that are alike is `least` long.
    """
    reached = [value for value, _ in (*left, *right)]
    middle, span = (min(reached) + max(reached)) / 2, max(max(reached) - min(reached), least)
    low, high = middle - span / 2, middle + span / 2
    for _ in range(50):  # a longer axis makes words longer in its unit
        a_pixel = (high - low) / narrowest
        low = min([low, *(value - a_pixel * _length(words) for value, words in left)])
        high = max([high, *(value + a_pixel * _length(words) for value, words in right)])
    return [low, high]


def _length(words: str) -> float:
    return 6 + 5 * len(words) if words else 0


def stacked(
    charts: Sequence[Any],
    *,
    left: int = LEFT,
    right: int = RIGHT,
    spacing: int = 18,
    long_legend: bool = False,
) -> Any:
    """Return panels one above the other, with the room that the page leaves for their axes.

    A legend of long words stands in one column on a narrow page.
    """
    # A single panel too: the legend of a stack stands above it, that of a chart beside its axis' title.
    return alt.vconcat(*charts, spacing=spacing).properties(
        usermeta={"left": left, "right": right, "long_legend": long_legend}
    )


def layered(layers: Sequence[Any]) -> Any:
    """Return charts drawn over each other."""
    return reduce(add, layers)


def title(text: str, more: str = "") -> alt.TitleParams:
    """Return the heading of a panel, with an explanation below it."""
    return alt.TitleParams(
        text,
        subtitle=more or alt.Undefined,
        anchor="start",
        frame="bounds",
        fontSize=13,
        fontWeight=600,
        offset=10,
        subtitleColor=SOFT,
        subtitleFontSize=12,
        subtitlePadding=4,
    )


def config() -> dict[str, Any]:
    """Return the Vega-Lite configuration of every chart, in light tones."""
    axis = {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelOverlap": "greedy",
        "labelFlush": False,
        "labelPadding": 5,
        "titlePadding": 8,
    }
    return {
        "background": "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "padding": 2,
        "axis": axis,
        "axisX": {"grid": False, "labelSeparation": 6},
        # A y title lies flat above its axis, where it can be read; the extent is fixed for the page.
        "axisY": {
            "domain": False,
            "ticks": False,
            "minExtent": LEFT - 4,
            "maxExtent": LEFT - 4,
            "titleAngle": 0,
            "titleAlign": "left",
            "titleAnchor": "start",
            "titleBaseline": "bottom",
            "titleX": 4 - LEFT,
            "titleY": -12,
        },
        "legend": {
            "orient": "top",
            "direction": "horizontal",
            "columns": 7,
            "title": None,
            "labelColor": INK,
            "labelFontSize": 12,
            "symbolSize": 110,
            "symbolType": "square",
            "symbolOpacity": 1,
            "labelLimit": 320,
            "columnPadding": 14,
            "rowPadding": 4,
            "offset": 14,
        },
        "title": {"color": INK, "font": FONT},
        "text": {"color": INK, "font": FONT, "fontSize": 12},
        "rule": {"color": SOFT},
    }
