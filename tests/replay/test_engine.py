"""Ledgers small enough to be worked out by hand, each one lesson of model.md section 7."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from pipeline.replay import engine, responses
from pipeline.replay.contract import Shape
from pipeline.replay.engine import History, Instant, Times
from pipeline.replay.ledger import Ledger, LedgerError
from pipeline.replay.packed import Packed
from pipeline.replay.packing import Packer, capabilities
from pipeline.units import S_PER_D, US_PER_D, US_PER_S
from tests.reference_simulator import Cluster, Job, Outage, Policy, Power
from tests.replay.cases import CURVE, Case, run_engine

FOREVER = 10**9
NO_HEADROOM = Power(Fraction("1.3"), Fraction(0), CURVE)
HEADROOM = Power(Fraction("1.3"), Fraction("0.1"), CURVE)
COSTS = {
    "detect_s": 5, "restart_s": 10, "reconfigure_s": 3, "checkpoint_interval_s": 30, "checkpoint_save_s": 0,
}  # fmt: skip


def buckets(
    cluster: Cluster,
    job: Job,
    outages: list[Outage],
    *,
    window: int,
    apps: tuple[int, ...] = (),
    power: Power = NO_HEADROOM,
    response: str = "rigid",
    batch: str = "pause",
    reduced_tp: tuple[int, ...] = (),
    **costs: Any,
) -> tuple[dict[str, Fraction], Ledger, list[str]]:
    """Return the buckets that are not zero, the ledger, and the states in order."""
    policy = Policy(response, batch, reduced_tp, **{**COSTS, "reshard_overhead_frac": Fraction(0), **costs})
    ledger, spans = run_engine(Case(cluster, job, power, policy, tuple(outages), apps, window))
    states: list[str] = []
    for span in spans:
        states += [span.state] if states[-1:] != [span.state] else []
    return {name: ticks for name, ticks in ledger.buckets.items() if ticks}, ledger, states


# The example at the top of model.md: TP64 on NVL72 racks, 8 racks a replica; here two replicas.
RACKS, RACK_JOB = Cluster(16, 72), Job(tp=64, pp=8, cp=1, dp=2, samples_per_replica=16)
JOB_GPUS = 16 * 64
NINE = [Outage(7, 0, 8, 100, FOREVER)]


def test_a_spare_inside_the_rack_dies_unnoticed() -> None:
    """One of the 8 GPUs that TP64 leaves idle on NVL72 moves from static to failed, and nothing stops."""
    found, ledger, states = buckets(RACKS, RACK_JOB, [Outage(7, 70, 70, 100, FOREVER)], window=1000)
    assert found == {"productive": JOB_GPUS * 1000, "failed": 900, "static": 16 * 8 * 1000 - 900}
    assert (ledger.interruptions, states) == (0, ["running"])


def test_a_gpu_in_use_stops_the_job_and_a_spare_of_the_rack_replaces_it() -> None:
    """Work since the last save moves to rework, then detect, then restart; the rack comes back whole."""
    found, ledger, states = buckets(RACKS, RACK_JOB, [Outage(7, 3, 3, 100, FOREVER)], window=1000)
    assert found == {
        "productive": JOB_GPUS * (1000 - 15 - 10),  # the last save was at 90 s
        "rework": JOB_GPUS * 10,
        "detect": JOB_GPUS * 5,
        "restart": JOB_GPUS * 10,
        "failed": 900,
        "static": 16 * 8 * 1000 - 900,
    }
    assert (ledger.interruptions, states) == (1, ["running", "starting", "running"])


def test_rigid_waits_after_the_ninth_dead_gpu() -> None:
    """With 63 healthy GPUs in a rack there is no TP64 group; without a spare rack the job pauses at once."""
    found, _, states = buckets(RACKS, RACK_JOB, NINE, window=1000)
    assert found == {
        "productive": JOB_GPUS * 90,
        "rework": JOB_GPUS * 10,
        "failed": 9 * 900,
        "static": 16 * 8 * 1000,  # 63 are left over in the rack, of which 8 were never of use
        "paused": (15 * 64 + 55) * 900,
    }
    assert states == ["running", "paused"]


def test_dp_drop_goes_on_without_the_replica() -> None:
    """The dropped replica's healthy GPUs are stranded, apart from the 8 a rack that are static."""
    found, _, _ = buckets(RACKS, RACK_JOB, NINE, window=1000, response="dp-drop", batch="elastic")
    healthy, ran = 15 * 64 + 55, 1000 - 100 - 15
    assert found == {
        "productive": JOB_GPUS * 90 + 512 * ran,
        "rework": JOB_GPUS * 10,
        "failed": 9 * 900,
        "static": 16 * 8 * 1000,
        "detect": healthy * 5,
        "restart": healthy * 10,
        "stranded": (healthy - 512) * ran,
    }


def test_ntp_runs_the_rack_at_a_smaller_degree() -> None:
    """TP60 beside seven whole stages fits 15 of 16 samples: 15 * 64/60 + 7 = 23, a healthy replica's time."""
    found, _, _ = buckets(
        RACKS, RACK_JOB, NINE, window=1000, response="ntp", batch="elastic", reduced_tp=(60, 56)
    )
    healthy, ran, x = 15 * 64 + 60, 1000 - 100 - 15, Fraction(31, 32)
    assert found == {
        "productive": JOB_GPUS * 90 + x * JOB_GPUS * ran,
        "rework": JOB_GPUS * 10,
        "failed": 9 * 900,
        "static": 16 * 8 * 100 + (15 * 8 + 3) * 900,  # 3 of 63 are left over beside TP60
        "detect": healthy * 5,
        "restart": healthy * 10,
        "stranded": (healthy - x * JOB_GPUS) * ran,
    }


def test_ntp_pw_keeps_pace_and_books_the_gain() -> None:
    """With headroom 60 GPUs do the work of 64: the 4 are gain, and the resharding is overhead."""
    found, _, _ = buckets(
        RACKS, RACK_JOB, NINE, window=1000, power=HEADROOM, response="ntp-pw", batch="elastic",
        reduced_tp=(60, 56), reshard_overhead_frac=Fraction(1, 100),
    )  # fmt: skip
    ran = 1000 - 100 - 15
    assert found["productive"] == JOB_GPUS * 90 + Fraction(JOB_GPUS * 100, 101) * ran
    assert found["overhead"] == Fraction(JOB_GPUS, 101) * ran
    assert found["gain"] == 4 * ran
    assert "stranded" not in found


ONE, ONE_JOB = Cluster(1, 8), Job(tp=8, pp=1, cp=1, dp=1, samples_per_replica=4)


@pytest.mark.parametrize(("fault", "lost"), [(11, 10), (12, 10), (13, 1), (24, 10), (25, 1)])
def test_a_fault_at_the_instant_a_save_completes_voids_it(fault: int, lost: int) -> None:
    """With interval 10 s and save 2 s, saves are done after 12 and 24 s; a fault then still loses 10 s."""
    found, _, _ = buckets(
        ONE, ONE_JOB, [], window=100, apps=(fault,), checkpoint_interval_s=10, checkpoint_save_s=2
    )
    assert found["rework"] == 8 * lost


def test_a_fault_during_a_start_begins_it_again() -> None:
    """Failures at 1,000 s and 1,060 s, restart 120 s: one interruption of 180 s, 400 s lost, 0.806667."""
    found, ledger, _ = buckets(
        ONE, ONE_JOB, [], window=3000, apps=(1000, 1060), detect_s=0, restart_s=120, checkpoint_interval_s=600
    )
    assert found == {"productive": 8 * 2420, "rework": 8 * 400, "restart": 8 * 180}
    assert ledger.interruptions == 1
    assert round(float(ledger.goodput_frac), 6) == 0.806667
    assert ledger.ettr_frac == Fraction(2420, 3000)


def test_a_fault_as_a_start_completes_begins_it_again() -> None:
    """Faults come before starts that complete, so the second is no interruption of its own."""
    found, ledger, _ = buckets(ONE, ONE_JOB, [], window=100, apps=(20, 35))
    assert (ledger.interruptions, found["detect"], found["restart"]) == (1, 8 * 10, 8 * 20)
    found, ledger, _ = buckets(ONE, ONE_JOB, [], window=100, apps=(20, 36))
    assert (ledger.interruptions, found["rework"]) == (2, 8 * 21)


def test_a_paused_job_starts_with_restart_only() -> None:
    """Nothing has to be noticed: the job waits for capacity and sees it come."""
    found, ledger, states = buckets(ONE, ONE_JOB, [Outage(0, 2, 2, 10, 20)], window=100)
    waits = {"paused": 7 * 10, "restart": 8 * 10}
    assert found == {"productive": 8 * 70, "rework": 8 * 10, "failed": 10, **waits}
    assert (ledger.interruptions, states) == (1, ["running", "paused", "starting", "running"])


def test_a_fault_in_a_start_after_a_pause_takes_the_full_time() -> None:
    """The start after a pause has no detect; when a fault cuts it short, the next one has."""
    found, ledger, _ = buckets(ONE, ONE_JOB, [Outage(0, 2, 2, 10, 20)], window=100, apps=(26,))
    assert (found["restart"], found["detect"], ledger.interruptions) == (8 * 16, 8 * 5, 1)


def test_app_faults_of_a_paused_job_are_ignored() -> None:
    """A job that does not run cannot crash."""
    found, ledger, _ = buckets(ONE, ONE_JOB, [Outage(0, 2, 2, 10, 20)], window=100, apps=(15,))
    assert (found["restart"], ledger.interruptions) == (8 * 10, 1)


def test_several_faults_at_one_instant_are_one_interruption() -> None:
    """Two GPUs and the application at 10 s stop the job once."""
    outages = [Outage(0, 0, 0, 10, 10), Outage(0, 5, 5, 10, 10)]
    found, ledger, _ = buckets(ONE, ONE_JOB, outages, window=100, apps=(10,))
    assert found == {"productive": 8 * 75, "rework": 8 * 10, "detect": 8 * 5, "restart": 8 * 10}
    assert ledger.interruptions == 1


def test_packing_gathers_broken_domains_in_one_replica() -> None:
    """Two broken domains in two replicas of two cost one replica, not both."""
    outages = [Outage(0, 0, 0, 0, FOREVER), Outage(2, 0, 0, 0, FOREVER)]
    job = Job(tp=4, pp=2, cp=1, dp=2, samples_per_replica=4)
    found, _, _ = buckets(Cluster(4, 4), job, outages, window=50, response="dp-drop", batch="elastic")
    assert found == {"productive": 8 * 50, "failed": 2 * 50, "stranded": 6 * 50}


def test_pause_fills_the_batch_beyond_dp() -> None:
    """Two replicas that do 7 of 8 samples leave two missing, which a third one beyond DP does."""
    outages = [Outage(domain, 0, 0, 0, FOREVER) for domain in range(3)]
    job = Job(tp=8, pp=1, cp=1, dp=2, samples_per_replica=8)
    found, _, _ = buckets(Cluster(3, 8), job, outages, window=50, response="ntp", reduced_tp=(7,))
    assert found == {"productive": 16 * 50, "failed": 3 * 50, "stranded": (21 - 16) * 50}
    found, _, _ = buckets(Cluster(2, 8), job, outages[:2], window=50, response="ntp", reduced_tp=(7,))
    assert found == {"paused": 14 * 50, "failed": 2 * 50}


def test_a_repaired_gpu_is_not_in_use_until_the_next_start() -> None:
    """GPU 0 is back at 40 s, but the job runs on 1..4 since 25 s: its next failure stops nothing."""
    outages = [Outage(0, 0, 0, 10, 40), Outage(0, 0, 0, 50, 60), Outage(0, 4, 4, 70, 80)]
    job = Job(tp=4, pp=1, cp=1, dp=1, samples_per_replica=4)
    _, ledger, states = buckets(Cluster(1, 5), job, outages, window=100)
    assert ledger.interruptions == 2
    assert states == ["running", "starting"] * 2 + ["running"]


@pytest.mark.parametrize(
    ("reexpand", "states", "planned", "productive"),
    [
        ("next_interruption", ["running"], 0, 4 * 100),
        # Half the job until the repair at 15 s, a save of 2 s, 3 s to change, the whole job from 20 s on; the
        # whole job saves after 20 s of work.
        ("immediate", ["running", "saving", "reconfiguring", "running"], 1, 4 * 15 + 8 * 20 * 3),
        # The same after the regular save at 20 to 22 s.
        ("checkpoint", ["running", "reconfiguring", "running"], 1, 4 * 20 + 8 * 20 * 3),
    ],
)
def test_repaired_capacity_is_taken_up_as_the_policy_says(
    reexpand: str, states: list[str], planned: int, productive: int
) -> None:
    """At the next interruption only, at once behind a save, or when a regular save completes."""
    job, save = Job(tp=4, pp=1, cp=1, dp=2, samples_per_replica=4), {"checkpoint_interval_s": 20}
    window = {"next_interruption": 100 + 8, "immediate": 86, "checkpoint": 91}[reexpand]
    found, ledger, seen = buckets(
        Cluster(2, 4), job, [Outage(0, 1, 1, 0, 15)], window=window, response="dp-drop", batch="elastic",
        reexpand=reexpand, checkpoint_save_s=2, **save,
    )  # fmt: skip
    assert (seen, ledger.planned_stops, ledger.interruptions) == (states, planned, 0)
    assert found["productive"] == productive


def test_what_lies_outside_the_window_does_nothing() -> None:
    """Changes at or before 0 set the initial state, those at or after the end are outside."""
    outages = [Outage(0, 0, 0, -50, -1), Outage(0, 3, 3, -5, 0), Outage(0, 5, 5, 100, 200)]
    found, ledger, _ = buckets(ONE, ONE_JOB, outages, window=100, apps=(-1, 0, 100, 101))
    assert (found, ledger.interruptions) == ({"productive": 800}, 0)
    found, _, states = buckets(ONE, ONE_JOB, [Outage(0, 0, 0, 0, 4)], window=100)
    assert (found["paused"], states) == (7 * 4, ["paused", "starting", "running"])


def test_a_start_at_the_windows_end_is_cut() -> None:
    """The window's end cuts a start short; its buckets still cover every second."""
    found, _, _ = buckets(ONE, ONE_JOB, [], window=100, apps=(93,))
    assert found == {"productive": 8 * 90, "rework": 8 * 3, "detect": 8 * 5, "restart": 8 * 2}


def test_a_million_gpus_over_a_year_are_exact() -> None:
    """2^20 GPUs for a year in microseconds are 3.3e19 GPU-microseconds, beyond 64 bits; not one is lost."""
    domains, size, year = 1 << 14, 64, 365 * US_PER_D
    shape = Shape(64, 8, 1, 8, 1, size, Fraction("1.3"), Fraction("0.1"), CURVE)
    module = responses.load("ntp-pw")
    packer = Packer(shape, module, "elastic", domains // 8, Fraction(1, 100))
    repair, instants, failed = 3 * US_PER_D + 1, {}, 0
    for number in range(2_000):
        start = 1 + number * (year // 2_000) + number % 7
        domain, mask = (number * 7_919) % domains, 1 << (number % size)
        end = min(start + repair, year)
        instants.setdefault(start, Instant(start)).down.append((domain, mask))
        instants[start].hits.append((domain, mask))
        failed += end - start
        if end < year:
            instants.setdefault(end, Instant(end)).up.append((domain, mask))
    history = History(domains, year, {}, [instants[tick] for tick in sorted(instants)])
    times = Times(120 * US_PER_S, 600 * US_PER_S, 0, 1800 * US_PER_S + 1, 10 * US_PER_S)
    ledger = engine.replay(
        history, capabilities(shape, (63,)), Packed(packer, domains), times, "next_interruption"
    )
    total = domains * size * year
    assert total == (1 << 20) * 365 * S_PER_D * US_PER_S > 1 << 64
    assert sum(ledger.buckets.values()) - 2 * ledger.buckets["gain"] == total
    assert ledger.buckets["failed"] == failed
    # X is 100/101 of a whole number: no float could hold it.
    assert ledger.buckets["productive"].denominator > 1
    assert ledger.interruptions > 1_900
    in_start = (120 + 600) * US_PER_S * (domains * size - 100)
    assert in_start * 1_900 < ledger.buckets["detect"] + ledger.buckets["restart"] < in_start * 2_010


def test_a_ledger_that_does_not_add_up_is_refused() -> None:
    """A GPU-second that is booked twice, or not at all, is our bug and never passes."""
    for extra in (1, -1):
        ledger = Ledger(total_gpus=8, job_gpus=8, window=10)
        ledger.wait("paused", 10, 8)
        ledger.capacity(1, extra, 0, 0)
        with pytest.raises(LedgerError, match=r"not 8 \* 10"):
            ledger.settle()


def test_a_negative_bucket_is_refused() -> None:
    """Buckets that add up, one of them below zero, are our bug too."""
    ledger = Ledger(total_gpus=8, job_gpus=8, window=10)
    ledger.wait("paused", 10, 9)
    ledger.capacity(10, -1, 0, 0)
    with pytest.raises(LedgerError, match="negative buckets: failed"):
        ledger.settle()


def test_a_replay_leaves_its_inputs_alone() -> None:
    """The same history replayed twice, or by another policy between, gives the same ledger."""
    case = Case(
        RACKS, RACK_JOB, HEADROOM, Policy("ntp-pw", "elastic", (60,), **COSTS), tuple(NINE), (50, 60), 500
    )
    first, _ = run_engine(case)
    run_engine(replace(case, policy=Policy("rigid", "pause", (), **COSTS)))
    again, _ = run_engine(case)
    assert first.buckets == again.buckets
