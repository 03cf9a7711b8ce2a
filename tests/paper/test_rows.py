"""A row's tolerance and verdict follow from what was printed and what we get; nobody types them."""

from __future__ import annotations

from statistics import fmean

import pytest

from pipeline.paper.rows import Row, Verdict, of_mean, of_one


def row(printed="94", ours: float | None = 93.75, **more) -> Row:
    values = {"name": "n", "source": "s", "unit": "%", "how": "h", **more}
    return Row(printed=printed, ours=ours, **values)


@pytest.mark.parametrize(
    ("printed", "tolerance"),
    [("94", 0.5), ("0.93", 0.005), ("0.930", 0.0005), ("3e3", 500), ("-2.8", 0.05), ("1,168", 0.5), ("", 0)],
)
def test_the_tolerance_is_half_a_unit_of_the_last_printed_digit(printed: str, tolerance: float) -> None:
    """0.93 and 0.930 are two statements, and 3e3 is a rounded thousand."""
    assert row(printed).tolerance == tolerance


@pytest.mark.parametrize(
    ("printed", "ours", "verdict"),
    [
        ("94", 93.75, Verdict.MEETS),
        ("94", 94.5, Verdict.MEETS),  # a tie is within
        ("94", 94.51, Verdict.OUTSIDE),
        ("0.93", 0.935, Verdict.MEETS),  # exact, though 0.935 - 0.93 > 0.005 in binary
        ("0.93", 0.9351, Verdict.OUTSIDE),
        ("-2.8", -2.84, Verdict.MEETS),
        ("< 1", 0.99, Verdict.MEETS),
        ("< 1", 1.0, Verdict.OUTSIDE),
        ("<= 3", 3.0, Verdict.MEETS),
        ("<= 3", 3.1, Verdict.OUTSIDE),  # a bound is not rounded
        ("> 0.9", 0.9, Verdict.OUTSIDE),
        (">= 0.9", 0.9, Verdict.MEETS),
        ("", 1.0, Verdict.UNKNOWN),
    ],
)
def test_the_verdict_is_computed(printed: str, ours: float, verdict: Verdict) -> None:
    """Within the tolerance meets; a bound binds exactly; without a published value nothing is claimed."""
    assert row(printed, ours).verdict is verdict


def test_an_explanation_changes_outside_and_nothing_else() -> None:
    """It excuses a distance that is shown; it does not soften a row that meets."""
    far = row(ours=80.0, explanation="why")
    assert (far.verdict, far.distance, far.tolerance) == (Verdict.EXPLAINED, -14.0, 0.5)
    assert row(ours=80.0, explanation=" ").verdict is Verdict.OUTSIDE
    assert row(explanation="why").verdict is Verdict.MEETS
    assert row("", explanation="why").verdict is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("ours", "low", "high", "verdict", "tolerance"),
    [
        (90.0, 85.0, 94.0, Verdict.MEETS, 4.0),
        (90.0, 80.0, 93.9, Verdict.OUTSIDE, 3.9),  # the far side of the interval does not help
        (95.0, 93.0, 99.0, Verdict.MEETS, 2.0),
        (94.1, 94.0, 94.2, Verdict.MEETS, 0.5),  # the rounding is larger
    ],
)
def test_the_interval_counts_on_the_side_of_the_published_number(
    ours: float, low: float, high: float, verdict: Verdict, tolerance: float
) -> None:
    """The tolerance is the larger of the rounding and the interval towards the published number."""
    one = row(ours=ours, low=low, high=high)
    assert one.verdict is verdict and one.tolerance == pytest.approx(tolerance)


def test_an_interval_widens_a_bound() -> None:
    """A mean over seeds may lie beyond a bound by no more than its interval."""
    assert row("<= 3", 3.1, low=2.9, high=3.3).verdict is Verdict.MEETS
    assert row("<= 3", 3.1, low=3.05, high=3.3).verdict is Verdict.OUTSIDE


def test_without_ours_a_row_says_why() -> None:
    """A row that was not computed is shown as such, with its reason, and never meets."""
    assert row(ours=None, reason="the trace is not at hand").verdict is Verdict.NOT_RUN
    assert row(ours=None, reason="r").distance is None
    with pytest.raises(ValueError, match="why it was not computed"):
        row(ours=None)


@pytest.mark.parametrize(
    "wrong",
    [
        {"printed": "about 94"},
        {"printed": "94 %"},
        {"ours": float("nan")},
        {"low": 1.0},
        {"low": 94.0, "high": 95.0},
        {"name": " "},
        {"source": ""},
        {"unit": ""},
        {"how": ""},
    ],
)
def test_a_row_that_says_too_little_is_refused(wrong: dict[str, object]) -> None:
    """What a reader needs to judge a row is there, or there is no row."""
    with pytest.raises(ValueError, match="row"):
        row(**wrong)


def test_intervals_over_seeds() -> None:
    """The mean's interval shrinks with more seeds; that of single draws holds 95 % of them."""
    values = [float(number) for number in range(1_000)]
    mean, one = of_mean(values), of_one(values)
    assert mean.mean == one.mean == fmean(values)
    assert mean.high - mean.low == pytest.approx(2 * 1.96 * 288.8 / 1_000**0.5, rel=0.001)
    inside = sum(one.low <= value <= one.high for value in values)
    assert inside == pytest.approx(950, abs=2)
    with pytest.raises(ValueError, match="needs 40"):
        of_one(values[:39])


def test_an_interval_holds_its_mean_even_when_one_draw_is_far_off() -> None:
    """One draw far off pulls the mean beyond 95 % of the draws; the interval reaches out to it."""
    spread = of_one([0.0] * 99 + [1e6])
    assert spread.low <= spread.mean <= spread.high
