"""How many GPUs are failed at once over the paper's fifteen days?

Five of our draws of the trace behind the paper's figure 4: 32,768 GPUs from a clean start, hardware repaired
in 3 or 5 days. The rule stands at 0.1 % of the GPUs; the paper's trace lies above it for 81 % of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from pipeline.paper import pool
from pipeline.paper.claims.availability import GPUS
from pipeline.paper.claims.failures import DAYS, NODE_GPUS, NODES, THRESHOLD_FRAC, preset, shares_above
from pipeline.report import theme

if TYPE_CHECKING:
    from pipeline.paper.rows import Context

TITLE = "GPUs failed over fifteen days (figure 4)"
ORDER = 20
_DRAWS = 5
_READING = "3 or 5 days at equal odds"


def frame(context: Context) -> pl.DataFrame:
    """Return `draw, day_d, failed_gpus, above_frac, mean_above_frac`: steps, and time above 0.1 %."""
    shares = shares_above(_READING, context.seeds)
    found = []
    for seed in range(min(_DRAWS, context.seeds)):
        at, failed = pool.failed_over_time(pool.trace(preset(_READING), DAYS, NODES, NODE_GPUS, seed), DAYS)
        kept = at[:-1] < DAYS
        rows = pl.DataFrame({"day_d": at[:-1][kept], "failed_gpus": failed[kept]})
        found.append(rows.with_columns(draw=pl.lit(f"draw {seed + 1}"), above_frac=pl.lit(shares[seed])))
    mean = pl.lit(sum(shares) / len(shares))
    return pl.concat(found).select("draw", "day_d", "failed_gpus", "above_frac", mean_above_frac=mean)


def chart(frame: pl.DataFrame) -> Any:
    """Return steps by draw and the rule at 0.1 %."""
    draws = frame["draw"].unique(maintain_order=True).to_list()
    tones = ("#0072b2", "#c77700", "#00875f", "#b8588f", "#5a4fcf")[: len(draws)]
    lines = (
        alt.Chart(theme.values(frame.with_columns(pl.col("failed_gpus").cast(pl.Int64))), height=240)
        .mark_line(interpolate="step-after", strokeWidth=1.6, opacity=0.9)
        .encode(
            x=alt.X(
                "day_d:Q",
                title="time (days from a clean start)",
                scale=alt.Scale(domain=[0, DAYS]),
                axis=alt.Axis(tickCount=6, format="d"),
            ),
            y=alt.Y("failed_gpus:Q", title="GPUs failed at once", axis=alt.Axis(tickCount=5)),
            color=alt.Color(
                "draw:N",
                scale=alt.Scale(domain=draws, range=list(tones)),
                legend=alt.Legend(symbolType="stroke", symbolStrokeWidth=3),
            ),
            tooltip=[
                alt.Tooltip("draw:N"),
                alt.Tooltip("day_d:Q", title="day", format=".2f"),
                alt.Tooltip("failed_gpus:Q", title="failed GPUs"),
                alt.Tooltip("above_frac:Q", title="time above 0.1 %", format=".1%"),
            ],
        )
    )
    rule = alt.Chart(theme.no_data()).mark_rule(strokeDash=[4, 3], color=theme.INK)
    return theme.stacked([theme.layered([lines, rule.encode(y=alt.datum(GPUS * THRESHOLD_FRAC))])])


def summary(frame: pl.DataFrame) -> str:
    """Return the mean share of time above 0.1 %, and its range over the draws that are shown."""
    mean, low, high = frame.select(
        pl.col("mean_above_frac").first(),
        pl.col("above_frac").min().alias("low"),
        pl.col("above_frac").max().alias("high"),
    ).row(0)
    return (
        f"More than 0.1 % of GPUs are failed for {theme.percent(mean)} of the time, the mean over all seeds "
        f"(published for one trace: 81\u202f%); in the draws shown, {theme.spread(low, high)}."
    )
