"""The engine against the reference simulator on drawn clusters, with and without the SQL timelines.

GOODPUT_EXAMPLES=20000 searches longer than the normal run.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from pipeline.lake import sql
from pipeline.replay import timeline
from pipeline.replay.ledger import Span
from pipeline.units import US_PER_S
from tests.replay import cases
from tests.replay.logs import make_logged, sql_history
from tests.timelines import lab

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
QUIET = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


class Drawn:
    """Choices of Hypothesis."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data

    def one(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return self.data.draw(st.sampled_from(options))

    def between(self, low: int, high: int) -> int:
        """Return a whole number, both ends included."""
        return self.data.draw(st.integers(low, high))


@pytest.mark.parametrize(("response", "batch"), cases.RULES)
@settings(QUIET, max_examples=max(1, EXAMPLES // len(cases.RULES)))
@given(data=st.data())
def test_engine_equals_the_reference(response: str, batch: str, data: st.DataObject) -> None:
    """Buckets, stops and the state of every second are those of the one-second simulator, exactly."""
    case = cases.make_case(Drawn(data), response, batch)
    note(case)
    assert cases.difference(case) == ""
    _, spans = cases.run_engine(case)
    assert stored_seconds(case, spans) == [
        (state, float(x) * (state == "running"), replicas * (state in {"running", "saving"}), failed)
        for state, x, replicas, failed in cases.seconds_of(case, spans)
    ]


def stored_seconds(case: cases.Case, spans: list[Span]) -> list[tuple[str, float, int, int]]:
    """Return (state, X while running, replicas at work, failed GPUs) of every second in the table."""
    policy = case.policy
    interval, save = policy.checkpoint_interval_s, policy.checkpoint_save_s
    table = timeline.table(spans, "s", "p", 0, 0, interval, save)
    starts, ends = (table[name].cast("int64").to_pylist() for name in ("t_start", "t_end"))
    assert starts == [0, *ends[:-1]]
    assert ends[-1] == case.window
    names = ("state", "relative_throughput_frac", "replicas", "failed_gpus")
    rows = zip(*(table[name].to_pylist() for name in names), strict=True)
    return [row for start, end, row in zip(starts, ends, rows, strict=True) for _ in range(start, end)]


@pytest.mark.slow
@settings(QUIET, max_examples=max(1, EXAMPLES // 9))
@given(data=st.data())
def test_log_to_ledger_equals_the_reference(data: st.DataObject) -> None:
    """From a log's rows through the SQL union, GPU ranges and onsets, the ledger is the reference's."""
    logs = make_logged(Drawn(data))
    first = logs[0]
    with lab.built(first.faults, first.placed, first.case.window, first.case.cluster.domain_size) as con:
        for logged in logs:
            note(logged)
            failures = sql_history(logged, con)
            assert cases.difference(logged.case, failures, US_PER_S) == ""


def test_cases_reach_what_is_easy_to_get_wrong() -> None:
    """Ties, roll-backs, boosts, pauses and planned stops occur often enough to prove something."""
    seen: Counter[str] = Counter()
    for seed in range(200):
        case = cases.make_case(cases.Seeded(seed), *cases.RULES[seed % len(cases.RULES)])
        ledger, spans = cases.run_engine(case)
        seen.update(bucket for bucket, ticks in ledger.buckets.items() if ticks)
        seen.update({span.state for span in spans})
        seen.update(["planned stop"] * bool(ledger.planned_stops))
        seen.update(["interruption"] * bool(ledger.interruptions))
        starts = [outage.t_start for outage in case.outages]
        seen.update(["faults at one instant"] * (len(set(starts)) < len(starts)))
        seen.update(["zero length"] * any(outage.t_start == outage.t_end for outage in case.outages))
        ends = {(outage.domain, outage.t_end) for outage in case.outages}
        longer = [outage for outage in case.outages if outage.t_start < outage.t_end]
        seen.update(["abutting"] * any((outage.domain, outage.t_start) in ends for outage in longer))
        inside = [span for span in spans if span.state == "running" and span.end < case.window]
        cycle = case.policy.checkpoint_interval_s + case.policy.checkpoint_save_s
        ties = any((span.end - span.start + span.phase) % cycle == 0 for span in inside)
        seen.update(["change as a save completes"] * ties)
    wanted = {
        "gain": 4, "overhead": 8, "rework": 90, "paused": 30, "reconfigure": 10, "checkpoint": 70,
        "spare_idle": 60, "static": 20, "stranded": 50, "planned stop": 12, "interruption": 100, "saving": 4,
        "faults at one instant": 40, "zero length": 40, "abutting": 20, "change as a save completes": 40,
    }  # fmt: skip
    assert {name: seen[name] for name, least in wanted.items() if seen[name] < least} == {}


def test_sources_of_choices_agree_on_what_they_may_return() -> None:
    """A whole number between two ends includes both, from either source."""
    choose = cases.Seeded(0)
    assert {choose.between(1, 3) for _ in range(50)} == {1, 2, 3}
    assert {choose.one("ab") for _ in range(50)} == {"a", "b"}


def test_sql_connection_is_reusable() -> None:
    """Tables of one log leave nothing behind for the next in the same connection."""
    machines = lab.cluster(2, 2, 4)
    placed = lab.placements(["a", "b"], machines)
    values = lab.parameters(20, 4)
    with sql.connect() as con:
        lab.build(con, lab.events([lab.Fault("a", None, 2, 5)]), placed, values)
        assert lab.stored(con, "onsets").height == 1
        lab.build(con, lab.events([]), placed, values)
        assert lab.stored(con, "onsets").height == 0
