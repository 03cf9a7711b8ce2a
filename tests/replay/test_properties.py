"""The engine against the reference simulator on drawn clusters, with and without the SQL timelines.

GOODPUT_EXAMPLES=20000 searches longer than the normal run.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.lake import sql
from pipeline.units import US_PER_S
from tests.replay import cases
from tests.timelines import lab

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
RULES = [("rigid", "pause")] + [(r, b) for r in cases.RESPONSES[1:] for b in cases.BATCHES]
QUIET = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)


@pytest.mark.parametrize(("response", "batch"), RULES)
@settings(QUIET, max_examples=max(1, EXAMPLES // len(RULES)))
@given(data=st.data())
def test_engine_equals_the_reference(response: str, batch: str, data: st.DataObject) -> None:
    """Buckets, stops and the state of every second are those of the one-second simulator, exactly."""
    case = data.draw(cases.drawn_cases(response, batch))
    assert cases.difference(case) == ""


@settings(QUIET, max_examples=max(1, EXAMPLES // 6))
@given(cases.drawn_logs())
def test_log_to_ledger_equals_the_reference(logs: list[cases.Logged]) -> None:
    """From a log's rows through the SQL union, GPU ranges and onsets, the ledger is the reference's."""
    first = logs[0]
    with lab.built(
        first.faults, first.placed, first.case.window, first.case.cluster.domain_size
    ) as con:
        for logged in logs:
            failures = cases.sql_history(logged, con)
            assert cases.difference(logged.case, failures, US_PER_S) == ""


def test_cases_reach_what_is_easy_to_get_wrong() -> None:
    """The cases hold ties, roll-backs, boosts, pauses and planned stops often enough to prove something."""
    seen: Counter[str] = Counter()
    for seed in range(200):
        case = cases.make_case(cases.Seeded(seed))
        ledger, spans = cases.run_engine(case)
        seen.update(bucket for bucket, ticks in ledger.buckets.items() if ticks)
        seen.update({span.state for span in spans})
        seen.update(["planned stop"] * bool(ledger.planned_stops))
        seen.update(["interruption"] * bool(ledger.interruptions))
        starts = [outage.t_start for outage in case.outages]
        seen.update(["faults at one instant"] * (len(set(starts)) < len(starts)))
        seen.update(["zero length"] * any(outage.t_start == outage.t_end for outage in case.outages))
        ends = {(outage.domain, outage.t_end) for outage in case.outages}
        seen.update(["abutting"] * any((o.domain, o.t_start) in ends for o in case.outages if o.t_start < o.t_end))
        inside = [span for span in spans if span.state == "running"]
        cycle = case.policy.checkpoint_interval_s + case.policy.checkpoint_save_s
        ties = any((span.end - span.start + span.phase) % cycle == 0 for span in inside if span.end < case.window)
        seen.update(["change as a save completes"] * ties)
    wanted = {
        "gain": 15, "overhead": 25, "rework": 60, "paused": 30, "reconfigure": 20, "checkpoint": 80,
        "spare_idle": 60, "static": 40, "stranded": 40, "planned stop": 30, "interruption": 100, "saving": 15,
        "faults at one instant": 60, "zero length": 60, "abutting": 60, "change as a save completes": 60,
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
