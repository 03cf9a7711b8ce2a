"""The reference simulator against the cases that model.md works out by hand."""

import random
from dataclasses import replace
from fractions import Fraction
from math import ceil

import pytest

from tests.reference_simulator import (
    BUCKETS,
    Cluster,
    Job,
    Outage,
    Policy,
    Power,
    Result,
    boost_limit,
    boosted_speed,
    capability,
    configure,
    samples_of_replica,
    simulate,
)

CURVE = (
    (Fraction(1), Fraction(1)),
    (Fraction(11, 10), Fraction(1069, 1000)),
    (Fraction(12, 10), Fraction(1122, 1000)),
    (Fraction(13, 10), Fraction(117, 100)),
)
NO_HEADROOM = Power(Fraction(13, 10), Fraction(0), CURVE)
HEADROOM = Power(Fraction(13, 10), Fraction(1, 10), CURVE)

ONE = Cluster(domains=1, domain_size=8)
ONE_JOB = Job(tp=8, pp=1, cp=1, dp=1, samples_per_replica=4)
RIGID = Policy("rigid", "pause", (), restart_s=120, checkpoint_interval_s=600)

RACKS = Cluster(domains=16, domain_size=72)
RACK_JOB = Job(tp=64, pp=8, cp=1, dp=2, samples_per_replica=16)
RACK_POLICY = Policy("rigid", "pause", (60, 56), detect_s=5, restart_s=10, checkpoint_interval_s=30)


def goodput(result: Result) -> Fraction:
    """Productive share of all GPU-seconds."""
    total = sum(result.buckets.values()) - 2 * result.buckets["gain"]
    return result.buckets["productive"] / total


def run_one(policy: Policy, outages: list[Outage], app_faults: list[int], window_s: int) -> Result:
    """Replay one domain of 8 GPUs that is wholly in use."""
    return simulate(ONE, ONE_JOB, NO_HEADROOM, policy, outages, app_faults, window_s)


def run_racks(policy: Policy, outages: list[Outage], power: Power = NO_HEADROOM) -> Result:
    """Replay 100 s of 16 racks of 72 that hold two replicas of 8 groups of 64."""
    return simulate(RACKS, RACK_JOB, power, policy, outages, [], 100)


@pytest.mark.parametrize("by", ["app", "gpu"])
def test_worked_case_of_the_ledger(by: str) -> None:
    """A second failure during a start begins it again, and costs neither an interruption nor work."""
    hits = [Outage(0, 3, 3, t, t) for t in (1000, 1060)] if by == "gpu" else []
    result = run_one(RIGID, hits, [1000, 1060] if by == "app" else [], 3000)
    assert goodput(result) == Fraction(2420, 3000)
    assert round(float(goodput(result)), 6) == 0.806667
    assert result.interruptions == 1
    assert result.buckets["rework"] == 400 * 8
    assert result.buckets["restart"] == 180 * 8
    assert tuple(result.buckets) == BUCKETS


@pytest.mark.parametrize(("degree", "all_stages", "one_stage"), [(30, 7, 7), (28, 6, 7)])
def test_whole_samples_of_a_reduced_replica(degree: int, all_stages: int, one_stage: int) -> None:
    """A replica does the whole samples that fit in the time of a healthy one."""
    job = Job(tp=32, pp=8, cp=1, dp=1, samples_per_replica=8)
    every, first = [(degree, 0)] * 8, [(degree, 0)] + [(32, 1)] * 7
    assert samples_of_replica(every, job, "ntp", NO_HEADROOM, 32) == all_stages
    assert samples_of_replica(first, job, "ntp", NO_HEADROOM, 32) == one_stage
    assert samples_of_replica(first, job, "dp-drop", NO_HEADROOM, 32) == 0
    assert samples_of_replica(every, job, "ntp-pw", HEADROOM, 32) == 8


def test_small_batches_round_hard() -> None:
    """With b = 2 and PP = 8 one sample of two is lost at TP30."""
    job = Job(tp=32, pp=8, cp=1, dp=1, samples_per_replica=2)
    assert samples_of_replica([(30, 0)] * 8, job, "ntp", NO_HEADROOM, 32) == 1


def test_power_limit_without_headroom() -> None:
    """Without headroom TP30 of 32 draws 1.0667 TDP, reaches 1.046, and falls short by one sample."""
    job = Job(tp=32, pp=8, cp=1, dp=1, samples_per_replica=8)
    assert boost_limit(30, 0, 32, 32, NO_HEADROOM) == Fraction(16, 15)
    assert boosted_speed(30, 0, 32, 32, NO_HEADROOM) == Fraction(1046, 1000)
    assert samples_of_replica([(30, 0)] * 8, job, "ntp-pw", NO_HEADROOM, 32) == 7
    assert boosted_speed(30, 0, 32, 32, HEADROOM) == Fraction(32, 30)
    assert boosted_speed(28, 0, 32, 32, HEADROOM) == Fraction(32, 28)


def test_capability_of_a_rack() -> None:
    """The 8 GPUs that TP64 leaves idle in a rack of 72 are eaten first, then a reduced group is formed."""
    assert capability(0, 72, 64, (60, 56), uses_reduced=True) == (1, 0, 8, 8)
    assert capability(8, 72, 64, (60, 56), uses_reduced=True) == (1, 0, 0, 0)
    assert capability(9, 72, 64, (60, 56), uses_reduced=True) == (0, 60, 3, 3)
    assert capability(9, 72, 64, (60, 56), uses_reduced=False) == (0, 0, 63, 8)
    assert capability(17, 72, 64, (60, 56), uses_reduced=True) == (0, 0, 55, 8)


def test_idle_gpu_of_a_rack_stops_nothing() -> None:
    """A failure of a GPU that TP64 leaves idle moves one GPU from static to failed and stops nothing."""
    result = run_racks(RACK_POLICY, [Outage(7, 70, 70, 40, 1000)])
    assert result.interruptions == 0
    assert result.buckets["failed"] == 60
    assert result.buckets["static"] == 16 * 8 * 100 - 60
    assert goodput(result) == Fraction(64, 72)


def test_used_gpu_of_a_rack_stops_the_job() -> None:
    """A failure of a GPU in use rolls the whole job back, and the rack comes back whole on its spare GPU."""
    result = run_racks(RACK_POLICY, [Outage(7, 0, 0, 40, 1000)])
    assert result.interruptions == 1
    assert result.buckets["rework"] == 10 * 1024
    assert result.buckets["detect"] == 5 * 1024
    assert result.buckets["restart"] == 10 * 1024
    assert result.timeline[-1] == ("running", 1, 2)


NINE_DEAD = [Outage(7, 0, 8, 40, 1000)]


def test_rigid_waits_for_the_ninth_gpu() -> None:
    """With 63 healthy GPUs in a rack the rigid job is paused at once, without detection."""
    result = run_racks(RACK_POLICY, NINE_DEAD)
    assert result.timeline[40] == ("paused", 0, 0)
    assert result.buckets["detect"] == 0
    assert result.buckets["paused"] == 60 * (15 * 64 + 55)


def test_dp_drop_goes_on_without_the_replica() -> None:
    """The healthy GPUs of a dropped replica are stranded, apart from the 8 a rack that are static anyway."""
    result = run_racks(replace(RACK_POLICY, response="dp-drop", batch="elastic"), NINE_DEAD)
    assert result.timeline[-1] == ("running", Fraction(1, 2), 1)
    assert result.buckets["stranded"] == 45 * (7 * 64 + 55)
    assert result.buckets["static"] == 16 * 8 * 100


def test_ntp_runs_the_replica_with_fewer_samples() -> None:
    """A replica with one stage at TP60 does 15 of 16 samples, and the job pays for resharding."""
    result = run_racks(replace(RACK_POLICY, response="ntp", batch="elastic"), NINE_DEAD)
    assert result.timeline[-1] == ("running", Fraction(31, 32) / Fraction(101, 100), 2)
    assert result.buckets["gain"] == 0
    assert result.buckets["overhead"] > 0


def test_ntp_pw_keeps_pace() -> None:
    """Raised power makes the reduced replica whole; its work beyond its GPUs is gain."""
    result = run_racks(replace(RACK_POLICY, response="ntp-pw", batch="elastic"), NINE_DEAD)
    assert result.timeline[-1] == ("running", Fraction(100, 101), 2)
    assert result.buckets["gain"] == 45 * 4
    assert result.buckets["stranded"] == 0


def _configure_nvl32(packing: str, failed: list[int]) -> Fraction:
    """X of dp-drop on 1,024 domains of 32 with 8 domains a replica."""
    job = Job(tp=32, pp=8, cp=1, dp=128, samples_per_replica=8)
    policy = Policy("dp-drop", "elastic", (), packing=packing)
    return configure(Cluster(1024, 32), job, NO_HEADROOM, policy, tuple(failed)).x


@pytest.mark.parametrize("dirty", [0, 1, 8, 9, 121, 124, 128])
def test_packed_dp_drop_has_a_closed_form(dirty: int) -> None:
    """Packed dp-drop loses as many replicas as the dirty domains fill, rounded up."""
    failed = random.Random(dirty).sample([1] * dirty + [0] * (1024 - dirty), 1024)
    assert _configure_nvl32("packed", failed) == 1 - Fraction(ceil(dirty / 8), 128)


def test_four_permille_failed_loses_an_eighth_packed() -> None:
    """131 failed GPUs of 32,768 cost dp-drop 12.5 % packed, and about 64 % with fixed ranks."""
    rng = random.Random(4)
    failed = [0] * 1024
    for gpu in rng.sample(range(32_768), 131):
        failed[gpu // 32] += 1
    assert 121 <= sum(k > 0 for k in failed) <= 128
    assert _configure_nvl32("packed", failed) == Fraction(7, 8)
    clean = sum(not any(failed[i : i + 8]) for i in range(0, 1024, 8))
    assert _configure_nvl32("fixed", failed) == Fraction(clean, 128)
    assert 0.56 < 1 - clean / 128 < 0.72


def test_fixed_ranks_give_the_worst_slot_to_a_spare() -> None:
    """The slot with the fewest GPUs in offered groups is replaced first, by the lowest whole spare domain."""
    job = Job(tp=4, pp=1, cp=1, dp=4, samples_per_replica=4)
    policy = Policy("ntp", "elastic", (3, 2), packing="fixed")
    config = configure(Cluster(4, 8), job, NO_HEADROOM, policy, (1, 2, 1, 0))
    assert [g.domain for r in config.replicas for g in r.groups] == [0, 0, 3, 3]
    assert [r.samples for r in config.replicas] == [4, 3, 4, 4]


def test_pause_takes_replicas_beyond_dp() -> None:
    """With a fixed batch the replica that follows makes up the missing samples and does no more."""
    job = Job(tp=4, pp=1, cp=1, dp=2, samples_per_replica=4)
    config = configure(Cluster(3, 4), job, NO_HEADROOM, Policy("ntp", "pause", (3,)), (0, 1, 1))
    assert [r.samples for r in config.replicas] == [4, 3, 1]
    assert (config.x_raw, config.x) == (1, Fraction(100, 101))


def test_stretch_takes_the_least_sufficient_time() -> None:
    """With a fixed batch and no spare replica the iteration grows until the batch fits, and no longer."""
    job = Job(tp=4, pp=1, cp=1, dp=2, samples_per_replica=4)
    config = configure(Cluster(2, 4), job, NO_HEADROOM, Policy("ntp", "stretch", (2,)), (0, 2))
    assert config.x_raw == Fraction(4, 6)  # at time 5 they fit 5 + 2, short of 8; at time 6 they fit 6 + 3
    assert [r.samples for r in config.replicas] == [6, 2]


def test_fault_as_a_save_completes_voids_it() -> None:
    """A fault at the very instant a save would complete voids the save."""
    policy = replace(RIGID, checkpoint_interval_s=10, checkpoint_save_s=5)
    assert run_one(policy, [], [15], 100).buckets["rework"] == 10 * 8
    assert run_one(policy, [], [16], 100).buckets["rework"] == 1 * 8


def test_faults_hit_only_gpus_that_were_up() -> None:
    """Abutting outages are one, and a zero-length outage hits a GPU only if it was up just before."""
    policy = replace(RIGID, restart_s=5)
    outages = [Outage(0, 0, 0, 10, 20), Outage(0, 0, 0, 20, 30), Outage(0, 0, 0, 30, 30)]
    result = run_one(policy, outages, [], 60)
    assert (result.interruptions, result.buckets["paused"], result.buckets["restart"]) == (1, 20 * 7, 5 * 8)
    again = run_one(policy, [*outages, Outage(0, 0, 0, 31, 31)], [], 60)
    assert (again.interruptions, again.buckets["restart"]) == (1, 6 * 8)


def test_window_edges_interrupt_nothing() -> None:
    """What happens at t <= 0 sets the initial state; what happens at or after the window end is outside."""
    outages = [Outage(0, 0, 0, -9, 0), Outage(0, 1, 1, 0, 0), Outage(0, 1, 1, 50, 99)]
    result = run_one(RIGID, outages, [-3, 0, 50], 50)
    assert (result.interruptions, goodput(result)) == (0, 1)


@pytest.mark.parametrize(
    ("reexpand", "save_s", "saving_s", "stops", "greater_from"),
    [
        ("next_interruption", 2, 2 * 2, 0, None),  # saves at 30 and 62 s
        ("immediate", 2, 2 * 2, 1, 25 + 2 + 3),  # saves at 25 and 60 s
        ("checkpoint", 2, 2, 1, 30 + 2 + 3),  # one save at 30 s, the next is due as the window ends
        ("checkpoint", 0, 0, 1, 30 + 3),
    ],
)
def test_reexpansion(reexpand: str, save_s: int, saving_s: int, stops: int, greater_from: int | None) -> None:
    """Repaired capacity is taken up at the next start, after a save at once, or after a regular save."""
    policy = Policy(
        "dp-drop", "elastic", (), reexpand=reexpand, reconfigure_s=3,
        checkpoint_interval_s=30, checkpoint_save_s=save_s,
    )  # fmt: skip
    job = replace(ONE_JOB, dp=2)
    result = simulate(Cluster(2, 8), job, NO_HEADROOM, policy, [Outage(1, 0, 0, -1, 25)], [], 65)
    running = [t for t, (state, x, _) in enumerate(result.timeline) if state == "running" and x == 1]
    assert (running[0] if running else None) == greater_from
    assert result.planned_stops == stops
    assert result.buckets["checkpoint"] == saving_s * 16


def test_rigid_needs_the_batch_rule_pause() -> None:
    """Any other batch rule for the rigid response is an input error."""
    with pytest.raises(ValueError, match="pause"):
        run_one(replace(RIGID, batch="elastic"), [], [], 10)


def test_identity_holds_on_random_failures() -> None:
    """The buckets add up to the pool, and none is negative, whatever fails under whatever policy."""
    for seed in range(150):
        rng = random.Random(seed)
        cluster = Cluster(rng.randint(3, 6), rng.choice([4, 5, 9]))
        size = rng.choice([(1, 1), (2, 1), (1, 2), (3, 1)])
        fit = cluster.domains * (cluster.domain_size // 4) // (size[0] * size[1])
        job = Job(4, *size, max(1, fit - rng.randint(0, 1)), rng.randint(1, 5), rng.randint(1, 2))
        response = rng.choice(["rigid", "dp-drop", "ntp", "ntp-pw"])
        policy = Policy(
            response,
            "pause" if response == "rigid" else rng.choice(["elastic", "pause", "stretch"]),
            rng.choice([(3, 2), (3,), (2, 1)]),
            rng.choice(["packed", "fixed"]),
            rng.choice(["next_interruption", "immediate", "checkpoint"]),
            detect_s=rng.randint(0, 3),
            restart_s=rng.randint(0, 5),
            reconfigure_s=rng.randint(0, 3),
            checkpoint_interval_s=rng.randint(1, 15),
            checkpoint_save_s=rng.randint(0, 3),
        )
        outages = []
        for _ in range(rng.randint(0, 14)):
            first, start = rng.randrange(cluster.domain_size), rng.randint(-10, 130)
            last = rng.randint(first, min(first + 2, cluster.domain_size - 1))
            end = start + rng.choice([0, 1, 9, 50])
            outages.append(Outage(rng.randrange(cluster.domains), first, last, start, end))
        faults = [rng.randint(-5, 130) for _ in range(rng.randint(0, 3))]
        power = rng.choice([NO_HEADROOM, HEADROOM])
        result = simulate(cluster, job, power, policy, outages, faults, 120)
        assert len(result.timeline) == 120
