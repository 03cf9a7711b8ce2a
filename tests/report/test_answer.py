"""The answer in words."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline import config
from pipeline.report import answer, theme

ROW: dict[str, Any] = {
    "batch": "elastic",
    "policy": "ntp",
    "spare_domains": 1,
    "dp": 1,
    "placements": 2,
    "goodput_frac": 0.8,
    "goodput_low_frac": 0.79,
    "goodput_high_frac": 0.81,
    "productive_gpu_h": 800.0,
    "productive_gpu_h_per_day": 100.0,
    "total_gpu_h": 1000.0,
    "largest_loss": "failed",
    "largest_loss_gpu_h": 50.0,
    "largest_loss_frac": 0.05,
    "next_policy": "dp-drop",
    "lead_frac": 0.02,
    "lead_placements": 2,
    "worst_component": "gpu",
    "worst_component_gain_gpu_h_per_day": 5.0,
    "worst_component_gain_frac": 0.04,
    "half_repair_gain_gpu_h_per_day": 3.0,
    "half_repair_gain_frac": 0.03,
    "redraws": 0,
    "redraw_low_frac": None,
    "redraw_high_frac": None,
    "half_repair_gain_low_frac": 0.02,
    "half_repair_gain_high_frac": 0.04,
    "second_component": "nic",
    "second_component_gain_gpu_h_per_day": 2.0,
    "response": "ntp",
    "idle_domains": 0,
    "may_compute_goodput_frac": None,
    "may_compute_gain_frac": None,
}


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        ("hbd64", [answer.HINDSIGHT, answer.ONE_PERIOD]),
        ("boot32k", [answer.HINDSIGHT, answer.ONE_PERIOD, answer.DRAWS]),
    ],
)
def test_the_last_note_says_what_the_ranges_are(scenario: str, told: list[str]) -> None:
    """Placements are no other period of failures; further draws are, and no bound."""
    faults = {"outages": 1, "down": 1, "app_faults": 0, "logged_app_faults": 0, "assumed_app_faults": 0}
    assert answer.notes(config.load(scenario), faults)[-1] == " ".join(told)


def test_the_answer_is_given_both_ways() -> None:
    """With faults that may leave a node computing, the lines tell what is kept if they do."""
    row = ROW | {"may_compute_goodput_frac": 0.97, "may_compute_gain_frac": 0.012}
    assert "  if wounded nodes compute: 97.0 % kept (+1.2 points)" in answer.lines(
        [row], QUALITY, app_faults=True
    )


def quality(**counts: int) -> list[dict]:
    """Return the rows of the query `data_quality` that warnings look at."""
    items = (
        "rows rejected",
        "rejected because",
        "clears of no open fault",
        "unplaced nodes",
        "unplaced outages",
    )
    rows = [(item, counts.get(item.replace(" ", "_"), 0)) for item in items]
    return [{"item": item, "reason": "end before start", "count": n, "of_count": 10} for item, n in rows]


QUALITY = quality()


def test_what_is_not_in_the_answer_is_told_with_it() -> None:
    """Refused rows come with their main reason; unplaced nodes and outages are told."""
    found = answer.lines(
        [ROW], quality(rows_rejected=3, rejected_because=2, unplaced_nodes=1), app_faults=True
    )
    assert found[-2:] == [
        (
            "note: 3 of 10 rows of the log were rejected and are not in the answer, most of them because: "
            "end before start"
        ),
        "note: 1 of 10 nodes fill no whole domain and are outside the pool",
    ]


@pytest.mark.parametrize(
    ("before", "after", "told"), [(0.0, 0.05, []), (0.04, 0.03, ["7.0 %"]), (None, None, [])]
)
def test_a_window_beyond_the_log_is_a_warning(
    before: float | None, after: float | None, told: list[str]
) -> None:
    """From a twentieth of the window on: no failure known is not no failure."""
    item = {"item": answer.NO_LOG, "count": 1, "of_count": 100}
    bare = [item | {"reason": "side", "share_frac": share} for share in (before, after)]
    found = [answer.plain(text) for text in answer.warnings([*quality(), *bare])]
    assert [text.partition(" of the window lies before the first row")[0] for text in found] == told


@pytest.mark.parametrize(
    ("of_the_reason", "because"),
    [(1, ", for example because: "), (2, ", most of them because: "), (3, " because: ")],
)
def test_a_main_reason_is_said_to_be_that_of_most_rows_only_when_it_is(
    of_the_reason: int, because: str
) -> None:
    """One reason of five is an example, one of two thirds is that of most, and the only one is the reason."""
    rows = quality(rows_rejected=3, rejected_because=of_the_reason)
    assert answer.warnings(rows) == [
        f"3 of 10 rows of the log were rejected and are not in the answer{because}end before start"
    ]


@pytest.mark.parametrize(
    ("count", "told"), [(1, "1 outage of planned work is"), (3, "3 outages of planned work are")]
)
def test_planned_work_that_is_set_aside_is_told(count: int, told: str) -> None:
    """One outage is, several are left out."""
    item = {"item": "planned work set aside", "count": count, "of_count": 10, "share_frac": 0.1, "reason": ""}
    assert answer.warnings([*quality(), item]) == [f"{told} left out: it is no failure"]


def test_a_tie_names_both_policies() -> None:
    """When two policies keep exactly the same, the lead sentence names both."""
    assert answer.lead([{**ROW, "lead_frac": 0.0}]).startswith("ntp and dp-drop keep most of the pool")


def test_domains_beyond_the_replicas_are_told() -> None:
    """No spare domain is not said alone when domains fill no whole replica."""
    line = answer.lines([{**ROW, "spare_domains": 0, "idle_domains": 3}], QUALITY, app_faults=True)[0]
    assert line.endswith("no spare domain, 3 domains beyond the replicas")


def test_lines_of_a_terminal() -> None:
    """One block a batch rule: share, spread, GPU-hours, loss, component, repair; then the lower bound."""
    assert answer.lines([ROW], QUALITY, app_faults=False) == [
        "elastic batch: ntp keeps 80.0 % of the pool's GPU-hours, 1 spare domain",
        "  how sure: 79.0-81.0 % over 2 placements; 2.0 points ahead of dp-drop (in 2 of 2)",
        "  kept: 100 GPU-hours a day; 800 of 1,000 GPU-hours in all",
        "  largest loss: failed, 5.0 % (the GPU itself is unavailable)",
        "  main cause: gpu faults: without them 5 GPU-hours a day more (+4.0 points); without nic faults 2",
        "  half the repair time: 3 GPU-hours a day more (+3.0 points, +2.0 to +4.0 points)",
        "no app-level faults in the log: interruptions are a lower bound",
    ]
    assert answer.lines([ROW], QUALITY, app_faults=True)[-1].startswith("  half")
    assert answer.lines([], QUALITY, app_faults=False) == ["no policy was replayed"]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"placements": 1}, "one placement, so no spread is known"),
        ({"next_policy": None}, "the only policy under this rule"),
        ({"lead_frac": 0.0}, "level with dp-drop"),
    ],
    ids=["one placement", "one policy", "a tie"],
)
def test_how_sure_says_what_is_not_known(change: dict, told: str) -> None:
    """No spread from one placement, no lead without a second policy, a tie is a tie."""
    assert told in answer.sure({**ROW, **change})


def test_a_gain_whose_sign_the_placements_dispute_is_no_clear_change() -> None:
    """Half the repair time may cost in one placement and bring in another."""
    row = {**ROW, "half_repair_gain_low_frac": -0.01}
    assert answer.half_repair(row).startswith("no clear change")
    assert "fewer" in answer.half_repair({**ROW, "half_repair_gain_gpu_h_per_day": -3.0})


def test_nothing_failed_is_said_so() -> None:
    """A clean log has no costliest component and nothing to repair."""
    row = {**ROW, "worst_component_gain_gpu_h_per_day": None, "half_repair_gain_gpu_h_per_day": None}
    assert (answer.component(row), answer.half_repair(row)) == ("nothing failed", "nothing to repair")


def test_the_lead_names_a_policy_once_when_it_is_best_under_every_rule() -> None:
    """One sentence a page, with the numbers of all batch rules."""
    pause = {**ROW, "batch": "pause", "goodput_frac": 0.7}
    assert answer.plain(answer.lead([ROW, pause])) == (
        "ntp keeps most of the pool's GPU-hours under every batch rule: 80.0 % if the global batch may "
        "shrink and 70.0 % if it is fixed and the job waits."
    )
    assert "by dp-drop" in answer.lead([ROW, {**pause, "policy": "dp-drop"}])


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_policies_and_text_stand_out_in_light_and_dark() -> None:
    """Lines 3:1 and words 4.5:1 against the page, in both tones."""
    for colour in theme.policy_colours(["rigid", "dp-drop", "ntp", "ntp-pw", "mine"]).values():
        assert _contrast(colour, theme.PAPER) >= 3
        assert _contrast(theme.DARK[colour], theme.DARK[theme.PAPER]) >= 3
    for colour in (theme.INK, theme.SOFT):
        assert _contrast(colour, theme.PAPER) >= 4.5
        assert _contrast(theme.DARK[colour], theme.DARK[theme.PAPER]) >= 4.5


def test_a_policy_keeps_its_colour() -> None:
    """A shipped policy has its own colour whoever else is there; others never share one."""
    alone = theme.policy_colours(["ntp"])
    many = theme.policy_colours(["ntp", "a", "b", "c"])
    assert alone["ntp"] == many["ntp"]
    assert len(set(many.values())) == 4


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        (theme.percent(0.95906), "95.9\u202f%"),
        (theme.percent(None), theme.DASH),
        (theme.points(-0.0002), "\u22120.02 points"),
        (theme.whole(1234567.8), "1,234,568"),
        (theme.short(25_704_393.0), "25.7 million"),
        (theme.hours(0.5), "30 minutes"),
        (theme.hours(240.0), "10 days"),
        (theme.spread(0.89281, 0.89312), "89.28\u201389.31\u202f%"),
        (theme.spread(0.5, 0.5), "50.0\u202f% in each"),
        (theme.listing(["a", "b", "c"]), "a, b and c"),
    ],
)
def test_numbers_in_words(found: str, wanted: str) -> None:
    """Percent with one decimal (two when one hides a difference), thousands separators, units people say."""
    assert found == wanted
