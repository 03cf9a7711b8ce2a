"""Pieces of charts that figures share."""

from __future__ import annotations

import altair as alt
import polars as pl
import pytest

from pipeline.report import theme
from pipeline.report.figures import throughput


def test_words_beside_marks_fit_on_a_narrow_plot() -> None:
    """Each word has its pixels between its value and the axis' end, however long the axis gets for it."""
    left, right = [(0.86, "twice"), (0.88, "half or twice")], [(0.91, "half"), (0.89, "")]
    low, high = theme.with_room(left, right, narrowest=210, least=0.001)
    a_pixel = (high - low) / 210
    assert all((value - low) / a_pixel >= 5 * len(words) for value, words in left)
    assert all((high - value) / a_pixel >= 5 * len(words) for value, words in right)
    assert low < 0.86 and high > 0.91


def test_an_axis_of_equal_values_has_a_length() -> None:
    """Values that are alike stand in the middle of the shortest axis."""
    assert theme.with_room([(0.5, "")], [(0.5, "")], narrowest=210, least=0.004) == pytest.approx(
        [0.498, 0.502]
    )


def test_a_single_panel_is_a_stack_too() -> None:
    """Else its legend would be drawn over the title of its y axis."""
    spec = theme.stacked([alt.Chart(theme.no_data()).mark_point()]).to_dict()
    assert len(spec["vconcat"]) == 1


@pytest.mark.parametrize(
    ("worst", "told"),
    [
        (0.5, "No policy is steadier than another: in its worst stretch each"),
        (0.4, "b is steadiest: in its worst"),
    ],
)
def test_a_tie_has_no_steadiest_policy(worst: float, told: str) -> None:
    """Policies that do the same in their worst stretch are not ranked by their names."""
    columns = {
        "policy": ["a", "b"],
        "mean_frac": [worst, 0.5],
        "paused_frac": [0.0, 0.0],
        "placement_seed": 0,
    }
    assert throughput.summary(pl.DataFrame(columns)).startswith(told)
