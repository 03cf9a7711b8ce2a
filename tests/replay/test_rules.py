"""Rules beyond the default, each worked out by hand, against the reference, and by what it must not change.

Detection by component, silent corruption, durable saves, starts that fail, replicas that stop alone (model.md
section 7). GOODPUT_EXAMPLES=20000 searches longer than the normal run.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from math import exp, expm1, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pipeline.config import parse
from pipeline.errors import InputError
from pipeline.paper import jobs
from pipeline.paper.claims import replica_stops
from pipeline.paper.rows import Context
from pipeline.replay import luck
from pipeline.replay.engine import at_once
from pipeline.replay.ledger import Stop
from pipeline.replay.saves import Saved, Saves
from pipeline.replay.study import Study
from pipeline.units import US_PER_S
from tests.reference_simulator import Cluster, Job, Outage, Policy
from tests.replay import cases
from tests.replay.logs import make_logged, sql_history
from tests.replay.test_engine import buckets
from tests.replay.test_properties import QUIET, Drawn, stored_seconds
from tests.replay.test_study import failures, scenario
from tests.replay.test_theory import renewal
from tests.small_lake import build
from tests.timelines import lab

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
TWO, TWO_JOB = Cluster(2, 4), Job(tp=4, pp=1, cp=1, dp=2, samples_per_replica=1)
ALL = 8
DROP = {"response": "dp-drop", "batch": "elastic"}


def outcome(*outages: Outage, **values: Any) -> tuple[dict[str, Fraction], Any]:
    """Return the buckets that are not zero of two replicas of 4 GPUs over 1,000 s, and their ledger.

    Unless told otherwise 5 s to notice, 10 s to restart, saves every 30 s that take no time.
    """
    found, ledger, _ = buckets(TWO, TWO_JOB, list(outages), **{"window": 1000, **DROP, **values})
    return found, ledger


# -- detection by component ----------------------------------------------------------------------


def test_of_two_faults_the_one_noticed_first_stops_the_job() -> None:
    """A crash (20 s) and a hang (600 s) at 100 s: 20 s to notice, 10 s to restart, 10 s since the save."""
    hang, crash = Outage(0, 0, 0, 100, 100, "nic"), Outage(1, 0, 0, 100, 100, "gpu")
    by = (("nic", 600), ("gpu", 20))
    found, ledger = outcome(hang, crash, detect_by_component=by)
    assert found == {
        "productive": ALL * (1000 - 40), "rework": ALL * 10, "detect": ALL * 20, "restart": ALL * 10,
    }  # fmt: skip
    assert ledger.interruptions == 1
    alone, _ = outcome(hang, detect_by_component=by)
    assert (alone["detect"], alone["productive"]) == (ALL * 600, ALL * (1000 - 620))
    other, _ = outcome(replace(hang, component="host"), detect_by_component=by)
    assert other["detect"] == ALL * 5


def test_a_fault_of_the_application_has_a_component_too() -> None:
    """An app-level hang takes the time of its component."""
    case = cases.Case(
        TWO, TWO_JOB, cases_power(), Policy("rigid", "pause", (), detect_by_component=(("software", 70),)),
        (), (100,), 1000, ("software",),
    )  # fmt: skip
    ledger, _ = cases.run_engine(case)
    assert ledger.buckets["detect"] == ALL * 70
    assert cases.difference(case) == ""


def cases_power() -> Any:
    """Return a power curve that no case here uses."""
    return cases.make_case(cases.Seeded(0)).power


# -- silent corruption ---------------------------------------------------------------------------

SILENT = {"silent_components": ("hbm",), "detect_by_component": (("hbm", 50),)}


def test_work_since_a_silent_fault_is_void() -> None:
    """Corrupt from 100 s, found at 150 s: back to the save at 90 s; till then the GPU seems healthy."""
    found, ledger = outcome(Outage(0, 0, 0, 100, 500, "hbm"), **SILENT)
    assert found == {
        "rework": ALL * 60,  # 90 to 150 s, saves at 120 and 150 s included
        "failed": 350,  # from when it is found
        "restart": 7 * 10,  # nothing is left to detect
        "productive": ALL * 90 + 4 * 840,
        "stranded": 3 * 340 + 4 * 500,
    }
    assert ledger.interruptions == 1


def test_a_stop_before_a_silent_fault_is_found_does_not_find_it() -> None:
    """A crash at 125 s takes its 5 s since the save at 120 s; at 150 s all since the save at 90 s goes."""
    found, ledger = outcome(Outage(0, 0, 0, 100, 100, "hbm"), apps=(125,), **SILENT)
    assert found == {
        "rework": ALL * (5 + 30 + 10),  # 120-125 at the crash; 90-120 and 140-150 when it is found
        "detect": ALL * 5,
        "restart": ALL * (10 + 10),
        "productive": ALL * (90 + 840),
    }
    assert ledger.interruptions == 2


def test_a_silent_fault_that_is_not_found_in_the_window_voids_nothing() -> None:
    """Its detection time ends with the window."""
    found, ledger = outcome(Outage(0, 0, 0, 100, 100, "hbm"), window=150, **SILENT)
    assert (found, ledger.interruptions) == ({"productive": ALL * 150}, 0)


def test_a_stop_by_a_silent_fault_is_laid_to_its_outage() -> None:
    """The row of `stops` is at the instant of the stop, its outage began before."""
    case = cases.Case(
        TWO, TWO_JOB, cases_power(), Policy("dp-drop", "elastic", (), **SILENT, checkpoint_interval_s=30),
        (Outage(0, 0, 0, 100, 500, "hbm"),), (), 1000,
    )  # fmt: skip
    found: list[Stop] = []
    ledger, _ = cases.run_engine(case, stops=found)
    (stop,) = found
    assert (stop.tick, [fault.onset for fault in stop.faults]) == (150, [100])
    assert stop.rework == ledger.buckets["rework"] > 0


# -- durable saves -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("durable_s", "lost_s"),
    [(0, 10), (9, 10), (10, 40), (39, 40), (40, 70), (69, 70), (70, 100), (1000, 100)],
)
def test_a_hardware_fault_goes_back_to_a_durable_save(durable_s: int, lost_s: int) -> None:
    """Saves at 30, 60, 90 s, a fault at 100 s; a write that ends at its very instant is void."""
    found, _ = outcome(Outage(0, 0, 0, 100, 100), checkpoint_durable_s=durable_s)
    assert found["rework"] == ALL * lost_s
    app, _ = outcome(apps=(100,), checkpoint_durable_s=durable_s)
    assert app["rework"] == ALL * 10, "the host's memory survives"


def test_a_later_hardware_fault_takes_saves_that_were_restored() -> None:
    """The crash at 100 s restores 90 s; the dead GPU at 118 s needs the save at 60 s: 30 s and 3 s more."""
    found, ledger = outcome(Outage(0, 0, 0, 118, 118), apps=(100,), checkpoint_durable_s=40)
    assert found["rework"] == ALL * (10 + 30 + 3)
    assert ledger.interruptions == 2


def test_a_planned_stop_does_not_make_its_save_durable() -> None:
    """Capacity returns at 100 s: a save, a change; a GPU in use dies in it at 102 s: all since 0 s goes."""
    values = {"reexpand": "immediate", "reconfigure_s": 3, "checkpoint_save_s": 1}
    back, dead = Outage(1, 0, 0, -5, 50), Outage(0, 0, 0, 52, 52)
    for durable_s, lost in ((0, 0), (30, 4 * 50)):
        found, ledger = outcome(
            back, dead, checkpoint_durable_s=durable_s, checkpoint_interval_s=90, **values
        )
        assert found.get("rework", 0) == lost
        assert (ledger.interruptions, ledger.planned_stops) == (0, 1)


@pytest.mark.parametrize("seed", range(150))
def test_durable_saves_move_work_to_rework_and_nothing_else(seed: int) -> None:
    """The longer a write takes, the more is lost; every second of the timeline stays as it is."""
    case = cases.make_case(cases.Seeded(seed), harder=True)
    case = replace(case, policy=replace(case.policy, stops="job", silent_components=()))
    before = None
    for durable_s in (0, 2, 7, 20, 1000):
        ledger, spans = cases.run_engine(
            replace(case, policy=replace(case.policy, checkpoint_durable_s=durable_s))
        )
        now = (ledger.buckets["rework"], cases.seconds_of(case, spans))
        moved = {**ledger.buckets, "productive": ledger.buckets["productive"] + now[0], "rework": 0}
        if before is not None:
            assert now[0] >= before[0]
            assert (now[1], moved) == (before[1], before[2])
        before = (*now, moved)


# -- starts that fail ----------------------------------------------------------------------------


def test_a_start_that_fails_is_made_again_without_detection() -> None:
    """Three attempts: 5 s to notice, 3 x 10 s to restart."""
    found, ledger = outcome(apps=(100,), attempts=(3,))
    assert (found["detect"], found["restart"], ledger.interruptions) == (ALL * 5, ALL * 30, 1)


@pytest.mark.parametrize("fail_frac", [0.1, 0.5, 0.9])
def test_attempts_are_geometric(fail_frac: float) -> None:
    """Mean 1/(1-p), within 4 standard errors of 4,000 starts; sqrt(p)/(1-p) is one start's deviation."""
    attempts = luck.attempts(fail_frac, 7, 0)
    drawn = np.array([attempts(start) for start in range(4000)])
    error = sqrt(fail_frac) / (1 - fail_frac) / sqrt(len(drawn))
    assert abs(drawn.mean() - 1 / (1 - fail_frac)) < 4 * error
    assert abs((drawn == 1).mean() - (1 - fail_frac)) < 4 * sqrt(fail_frac * (1 - fail_frac) / len(drawn))
    assert luck.attempts(0, 7, 0) is at_once


def test_luck_belongs_to_the_start() -> None:
    """The n-th start fails as often whoever asks, in any order; other seeds and placements differ."""
    some, same = luck.attempts(0.5, 1, 0), luck.attempts(0.5, 1, 0)
    assert [some(start) for start in range(50)] == [same(start) for start in reversed(range(50))][::-1]
    others = [luck.attempts(0.5, *seeds) for seeds in ((2, 0), (1, 1))]
    assert all([other(n) for n in range(50)] != [some(n) for n in range(50)] for other in others)


def renewal_with_failures(m: float, dt: float, c: float, d: float, r: float, p: float) -> float:
    """Return the renewal form with exp(-u/M) in place of a start's u: the chance that no fault meets it.

    A start takes d + K r, K geometric. One that meets a fault begins again with a K of its own, so with
    P = E exp(-(d + K r)/M) = exp(-d/M) (1-p) exp(-r/M) / (1 - p exp(-r/M)) starts take (1/P - 1) M in all.
    """
    holds = exp(-d / m) * (1 - p) * exp(-r / m) / (1 - p * exp(-r / m))
    return dt * holds / (m * expm1((dt + c) / m))


def test_without_failed_starts_the_form_is_the_renewal_form() -> None:
    """P = exp(-u/M) for p = 0."""
    assert renewal_with_failures(108, 30, 2, 4, 6, 0) == pytest.approx(renewal(108, 30, 2, 10))


@pytest.mark.parametrize("fail_frac", [0.3, 0.7])
def test_goodput_with_failed_starts_meets_its_closed_form(fail_frac: float) -> None:
    """Faults every 1,000 s at a constant rate, 16 seeds of 800 faults, within 4.1 standard errors (t, 15)."""
    m, dt, c, d, r = 1000.0, 200.0, 10.0, 20.0, 60.0
    times = jobs.times_of(interval_s=dt, restart_s=r, save_s=c, detect_s=d)
    found = np.array(
        [
            jobs.drawn_goodput_frac(
                m, 800 * m, replace(times, attempts=luck.attempts(fail_frac, seed, 0)), seed
            )
            for seed in range(16)
        ]
    )
    error = found.std(ddof=1) / sqrt(len(found))
    assert abs(found.mean() - renewal_with_failures(m, dt, c, d, r, fail_frac)) < 4.1 * error
    assert abs(found.mean() - renewal(m, dt, c, d + r)) > 4.1 * error, "the test has power"


# -- replicas that stop alone --------------------------------------------------------------------

ALONE = {"stops": "replica", "regroup_s": 4, "rejoin_s": 3}


def test_one_replica_stops_and_the_other_goes_on() -> None:
    """At 100 s: 4 s of regrouping; half the job until 115 s (5 + 10); 3 s to join. Nothing is lost."""
    found, ledger = outcome(Outage(0, 0, 0, 100, 100), **ALONE)
    assert found == {
        "restart": ALL * 4,
        "reconfigure": ALL * 3,
        "stranded": 4 * 11,
        "productive": ALL * (100 + 882) + 4 * 11,
    }
    assert (ledger.interruptions, ledger.planned_stops) == (1, 1)


@pytest.mark.parametrize(("at", "lost"), [(126, ALL * 10 + 4 * 11 + ALL * 8), (130, ALL * 3)])
def test_the_interval_goes_on_over_the_stalls(at: int, lost: int) -> None:
    """10 s before the fault, 11 s alone, 9 s from 118 s on: the save is at 127 s; then the job crashes."""
    found, _ = outcome(Outage(0, 0, 0, 100, 100), apps=(at,), **ALONE)
    assert found["rework"] == lost


def test_a_replica_waits_for_its_gpu_and_then_starts() -> None:
    """Dead until 300 s: a start of 10 s beside the running job, then 3 s to join."""
    found, ledger = outcome(Outage(0, 0, 0, 100, 300), **ALONE)
    assert found == {
        "failed": 200,
        "restart": 7 * 4,
        "reconfigure": ALL * 3,
        "stranded": 3 * 196 + 4 * 10,
        "productive": ALL * (100 + 687) + 4 * 206,
    }
    assert (ledger.interruptions, ledger.planned_stops) == (1, 1)


def test_a_fault_of_every_replica_stops_the_job() -> None:
    """So does one of the application, one that was silent, and one whose batch rule needs all replicas."""
    both = [Outage(0, 0, 0, 100, 100, "hbm"), Outage(1, 0, 0, 100, 100, "hbm")]
    job, _ = outcome(*both)
    assert outcome(*both, **ALONE)[0] == job
    assert outcome(apps=(100,), **ALONE)[0] == outcome(apps=(100,))[0]
    assert outcome(both[0], **ALONE, **SILENT)[0] == outcome(both[0], **SILENT)[0]
    for response in ("dp-drop", "rigid"):
        rule = {"response": response, "batch": "pause"}
        assert outcome(both[0], **ALONE, **rule)[0] == outcome(both[0], **rule)[0]


def test_published_stalls() -> None:
    """10 min that leave 44 %: with 3 min evenly spaced faults leave 83.2 %, random ones 78 to 79 %."""
    before, after, drawn_before, drawn_after = replica_stops.rows(Context(Path(), seeds=40))
    assert (before.ours, after.ours) == pytest.approx((44, 83.2), abs=0.02)
    assert [row.verdict for row in (before, drawn_before)] == ["meets", "meets"]
    assert drawn_after.ours == pytest.approx(100 * 0.44**0.3, abs=1)  # exp(-3/M), exp(-10/M) = 0.44
    assert drawn_after.ours < 80 < after.ours


@pytest.mark.parametrize("seed", range(200))
def test_stops_of_replicas_add_up(seed: int) -> None:
    """What stops cost is what the ledger holds, also with silent faults and replicas that stop alone."""
    case = cases.make_case(cases.Seeded(seed), *cases.RULES[seed % len(cases.RULES)], harder=True)
    cases.check_stops(case)


# -- all rules against the reference --------------------------------------------------------------


@pytest.mark.parametrize(("response", "batch"), cases.RULES)
@settings(QUIET, max_examples=max(1, EXAMPLES // len(cases.RULES)))
@given(data=st.data())
def test_engine_equals_the_reference_with_all_rules(response: str, batch: str, data: st.DataObject) -> None:
    """Buckets, stops and every second, with drawn values of every rule, are those of the simulator."""
    case = cases.make_case(Drawn(data), response, batch, harder=True)
    note(case)
    assert cases.difference(case) == ""
    _, spans = cases.run_engine(case)
    assert [second[0] for second in stored_seconds(case, spans)] == [
        second[0] for second in cases.seconds_of(case, spans)
    ]


@pytest.mark.slow
@settings(QUIET, max_examples=max(1, EXAMPLES // 9))
@given(data=st.data())
def test_log_to_ledger_equals_the_reference_with_all_rules(data: st.DataObject) -> None:
    """Components come from the log's rows through the SQL timelines."""
    logs = make_logged(Drawn(data), harder=True)
    first = logs[0]
    with lab.built(first.faults, first.placed, first.case.window, first.case.cluster.domain_size) as con:
        for logged in logs:
            note(logged)
            assert cases.difference(logged.case, sql_history(logged, con), US_PER_S) == ""


def test_cases_reach_what_the_rules_are_for() -> None:
    """Each rule changes the ledger of many cases, and what is easy to get wrong occurs."""
    seen: Counter[str] = Counter()
    default = Policy("rigid", "pause", ())
    rules = tuple(cases.drawn_rules(cases.Seeded(0)))
    for seed in range(300):
        case = cases.make_case(cases.Seeded(seed), *cases.RULES[seed % len(cases.RULES)], harder=True)
        found: list[Stop] = []
        ledger, _ = cases.run_engine(case, stops=found)
        for rule in rules:
            plain = replace(case, policy=replace(case.policy, **{rule: getattr(default, rule)}))
            seen[rule] += cases.run_engine(plain)[0].buckets != ledger.buckets
        onsets = [{fault.onset for fault in stop.faults} for stop in found]
        seen["found later"] += any(min(one) < stop.tick for one, stop in zip(onsets, found, strict=True))
        seen["found with another"] += any(len(one) > 1 for one in onsets)
        seen["found while paused"] += any(stop.state == "paused" for stop in found)
    wanted = {
        "detect_by_component": 80, "silent_components": 80, "checkpoint_durable_s": 40, "attempts": 50,
        "stops": 40, "regroup_s": 20, "rejoin_s": 20, "found later": 60, "found with another": 3,
        "found while paused": 1,
    }  # fmt: skip
    assert {name: seen[name] for name, least in wanted.items() if seen[name] < least} == {}


# -- the defaults change nothing -----------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100))
def test_values_that_say_the_default_change_nothing(seed: int) -> None:
    """Every component at detect_s, components without silent ones, stalls that no job makes."""
    case = cases.make_case(cases.Seeded(seed), *cases.RULES[seed % len(cases.RULES)])
    same = {
        "detect_by_component": tuple((name, case.policy.detect_s) for name in ("", *cases.COMPONENTS)),
        "silent_components": ("planned",), "checkpoint_durable_s": 0, "attempts": (1,), "regroup_s": 9,
        "rejoin_s": 9,
    }  # fmt: skip
    ledger, spans = cases.run_engine(case)
    other, other_spans = cases.run_engine(replace(case, policy=replace(case.policy, **same)))
    assert other.buckets == ledger.buckets
    assert cases.seconds_of(case, other_spans) == cases.seconds_of(case, spans)


def test_a_scenario_without_the_keys_uses_none_of_the_rules() -> None:
    """The times of a policy hold no component, no durable time and no attempts."""
    mine = scenario()
    _, times = Study(mine).replay(mine.policies[1], failures(20, 2), 0)
    rules = (times.detect_by, times.silent, times.durable, times.attempts)
    assert rules == ({}, frozenset(), 0, at_once)


# -- the keys ------------------------------------------------------------------------------------


def test_keys_reach_the_engine() -> None:
    """Each key of [costs] arrives in ticks; a policy's own table takes the place of the scenario's."""
    costs = {
        "detect_by_component": {"nic": 600}, "silent_components": ["hbm"], "checkpoint_durable_s": 7,
        "restart_fail_frac": 0.5, "regroup_s": 8, "rejoin_s": 9,
    }  # fmt: skip
    own = {"name": "own", "response": "dp-drop", "costs": {"detect_by_component": {"gpu": 1.5}}}
    plain = {"name": "p", "response": "dp-drop", "stops": "replica"}
    mine = scenario(policies=[plain, own], costs=costs)
    found = [Study(mine).replay(policy, failures(20, 2), 0)[1] for policy in mine.policies]
    assert [times.detect_by for times in found] == [{"nic": 600 * US_PER_S}, {"gpu": 1_500_000}]
    for times in found:
        assert times.silent == {"hbm"}
        assert (times.durable, times.regroup, times.rejoin) == tuple(s * US_PER_S for s in (7, 8, 9))
        same = luck.attempts(0.5, 1, 0)
        assert [times.attempts(n) for n in range(9)] == [same(n) for n in range(9)]
    assert hash(mine.policies[0]) != hash(mine.policies[1])


@pytest.mark.parametrize(
    ("costs", "policy", "words"),
    [
        ({"detect_by_component": {"nics": 1}}, {}, "unknown component 'nics'"),
        ({"detect_by_component": {"nic": -1}}, {}, "found -1"),
        ({"silent_components": ["gpus"]}, {}, "unknown component 'gpus'"),
        ({"restart_fail_frac": 1}, {}, "restart_fail_frac"),
        ({}, {"stops": "domain"}, "stops"),
        ({}, {"stops": "replica", "reexpand": "immediate"}, "'immediate' with stops"),
    ],
)
def test_values_that_cannot_be(costs: dict[str, Any], policy: dict[str, Any], words: str) -> None:
    """Each is one clear message."""
    with pytest.raises(InputError, match=words):
        scenario(policies=[{"name": "p", "response": "dp-drop", **policy}], costs=costs)


def test_components_of_a_log_decide_how_soon_a_fault_is_noticed(tmp_path: Path) -> None:
    """A NIC's fault hangs the job for 600 s, a GPU's is noticed after 60 s: 11 min of two nodes of 8 GPUs."""
    log = """node,start,end,component
n00,2025-03-01T02:00Z,2025-03-01T02:00Z,nic
n01,2025-03-01T05:00Z,2025-03-01T05:00Z,gpu
"""
    document = """
[trace]
source = "intervals"
path = "log.csv"
window = ["2025-03-01T00:00Z", "2025-03-02T00:00Z"]
[cluster]
nodes = 2
domain_size = 8
placement = "listed"
[job]
tp = 8
[costs]
detect_s = 60
checkpoint_interval_s = 1800
[costs.detect_by_component]
nic = 600
[[policy]]
name = "p"
response = "rigid"
"""
    built = build(tmp_path, log, document)
    outcomes, stops = (
        pl.read_parquet(built.lake.table(built.replay, name)) for name in ("outcomes", "stops")
    )
    assert outcomes["detect_gpu_h"].to_list() == [pytest.approx(16 * 660 / 3600)]
    own = stops.filter(policy="p", batch="pause", spare_domains=0).sort("t")
    assert own["detect_gpu_h"].to_list() == pytest.approx([16 * 600 / 3600, 16 * 60 / 3600])


def test_a_document_may_give_every_key(tmp_path: Path) -> None:
    """A policy's costs stand beside the scenario's, and their table of components with them."""
    document = {
        "trace": {"preset": "llama3", "days": 1},
        "cluster": {"nodes": 8, "domain_size": 8},
        "job": {"tp": 8},
        "costs": {"detect_by_component": {"nic": 600}},
        "policy": [{"name": "p", "response": "rigid", "costs": {"silent_components": ["hbm", "gpu"]}}],
    }
    mine = parse(document, name="s", path=tmp_path / "s.toml")
    assert mine.policies[0].costs.detect_by_component == {"nic": 600}
    assert mine.policies[0].costs.silent_components == ("hbm", "gpu")


# -- what a rollback takes back --------------------------------------------------------------------


def test_saves_by_hand() -> None:
    """Three intervals of 10 saved at 12, 24, 36, then 4 unsaved; a rollback before 24 keeps the first."""
    saves, setting = Saves(), Study(scenario()).packing(scenario().policies[1], 20)[1].candidate()
    saves.saved.append(Saved(setting, 10, 12, 12, 3))
    saves.unsaved.append((setting, 4))
    assert sum(ticks for _, ticks in saves.roll_back(37)) == 4
    assert saves.roll_back(37) == []
    assert saves.roll_back(24) == [(setting, 20)]
    saves.unsaved.append((setting, 3))
    saves.complete(40)
    assert saves.roll_back(41) == []
    saves.forget(40)
    assert saves.roll_back(0) == [(setting, 3)]
