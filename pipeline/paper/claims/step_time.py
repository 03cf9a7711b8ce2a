"""The step-time model against published runs: GPT and Llama 3 on A100 and H100, NVL32 against NVL8.

Every input is a data sheet's or a paper's, none is fitted. Where a paper leaves an input open, ours is the
faster end of what it could have been, and the row says how far the other end is.
Source: arXiv 2104.04473 tables 1 and 2, 2205.05198 table 5, 2407.21783 table 4, 2504.06095 figure 2a.
"""

from __future__ import annotations

from pipeline.paper.rows import Context, Row
from pipeline.perf.published import Check, checks

_WHOLE = "TFLOP/s a GPU"


def rows(context: Context) -> list[Row]:  # noqa: ARG001 - nothing is drawn
    """Return a row for each published run."""
    return [_row(check) for check in checks()]


def _row(check: Check) -> Row:
    is_time = check.unit.startswith("s ")
    digits = 0 if check.unit == _WHOLE else 2
    between = f"{check.low:.{digits}f} to {check.high:.{digits}f} by what is not published"
    return Row(
        name=f"{check.name}: {check.unit}",
        source=check.source,
        printed=f"{check.published:.{digits}f}",
        unit=check.unit,
        ours=check.low if is_time else check.high,
        how="pipeline.perf.published.checks",
        reason=between if check.low < check.high else "",
        explanation=check.note,
    )
