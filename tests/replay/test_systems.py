"""ReCycle and Oobleck as responses: against a slow second rule, closed forms, and schedules slot by slot."""

from __future__ import annotations

import os
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pipeline.replay import engine, responses
from pipeline.replay.contract import Alike, Offer, Replica, Shape
from pipeline.replay.engine import Times
from pipeline.replay.ledger import Ledger, Span
from pipeline.replay.packing import Packer, Setting, capabilities
from pipeline.replay.study import PACKINGS
from tests import reference_simulator as reference
from tests.replay import cases, slow_systems
from tests.replay.test_properties import QUIET, Drawn

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
SYSTEMS = [(system, batch) for system in ("recycle", "oobleck") for batch in cases.BATCHES]
CURVE = ((Fraction(1), Fraction(1)),)


def make_case(choose: cases.Choices, batch: str) -> tuple[cases.Case, tuple[int, ...]]:
    """Return a case with pipelines of several stages, and the templates for it."""
    case = cases.make_case(choose, "dp-drop", batch)
    pp, cp, per_domain = (
        choose.one((3, 2, 4, 1)),
        choose.one((1, 1, 2)),
        case.cluster.domain_size // case.job.tp,
    )
    dp = choose.one((2, 3, 1, 4))
    domains = -(-dp * pp * cp // per_domain) + choose.one((0, 0, 1))
    shape = {"pp": pp, "cp": cp, "dp": dp, "samples_per_replica": choose.one((4, 1, 6, 2))}
    outages = tuple(replace(outage, domain=outage.domain % domains) for outage in case.outages)
    case = replace(
        case,
        cluster=replace(case.cluster, domains=domains),
        job=replace(case.job, **shape),
        outages=outages,
    )
    every = tuple(range(pp - 1, 0, -1))
    return case, choose.one((every, every, every[:1], every[1:]))


def run_engine(case: cases.Case, system: str, templates: tuple[int, ...]) -> tuple[Ledger, list[Span]]:
    """Return the engine's ledger and spans of a case under a system."""
    policy = case.policy
    paces = {stages: Fraction(case.job.pp, stages) for stages in templates}
    shape = replace(cases.shape_of(case), templates=paces if system == "oobleck" else {})
    packer = Packer(shape, responses.load(system), policy.batch, case.job.dp, policy.reshard_overhead_frac)
    times = Times(
        detect=policy.detect_s,
        restart=policy.restart_s,
        reconfigure=policy.reconfigure_s,
        interval=policy.checkpoint_interval_s,
        save=policy.checkpoint_save_s,
    )
    spans: list[Span] = []
    packing = PACKINGS[policy.packing](packer, case.cluster.domains)
    history = cases.plain_history(case)
    ledger = engine.replay(history, capabilities(shape, ()), packing, times, policy.reexpand, spans=spans)
    return ledger, spans


def difference(case: cases.Case, system: str, templates: tuple[int, ...]) -> str:
    """Return in what the engine differs from the simulator with the slow rule, or an empty text."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "configure", slow_systems.configure(system, templates))
        told = cases.wanted(case)
    ledger, spans = run_engine(case, system, templates)
    wrong = {name: value for name, value in told.buckets.items() if ledger.buckets[name] != value}
    if wrong:
        return f"{ {name: (ledger.buckets[name], value) for name, value in wrong.items()} }"
    if (ledger.interruptions, ledger.planned_stops) != told.stops:
        return f"stops {ledger.interruptions, ledger.planned_stops}, reference {told.stops}"
    pairs = zip(cases.seconds_of(case, spans), told.seconds, strict=True)
    return next(
        (f"second {t}: {mine}, {theirs}" for t, (mine, theirs) in enumerate(pairs) if mine != theirs), ""
    )


@pytest.mark.parametrize(("system", "batch"), SYSTEMS)
@settings(QUIET, max_examples=max(1, EXAMPLES // len(SYSTEMS)))
@given(data=st.data())
def test_engine_equals_the_slow_rule(system: str, batch: str, data: st.DataObject) -> None:
    """Buckets, stops and the state of every second are those of the simulator with the slow rule, exactly."""
    case, templates = make_case(Drawn(data), batch)
    note((case, templates))
    assert difference(case, system, templates) == ""


def test_cases_reach_what_the_systems_are_for() -> None:
    """Jobs run on with lost stages, leave groups idle, gain work beyond their GPUs and stretch."""
    seen = dict.fromkeys(("recycle partial", "oobleck partial", "idle", "gain", "stretched"), 0)
    for seed in range(200):
        system, batch = SYSTEMS[seed % len(SYSTEMS)]
        case, templates = make_case(cases.Seeded(seed), batch)
        ledger, spans = run_engine(case, system, templates)
        whole = case.job.pp * case.job.cp * case.job.tp
        settings_of = [span.setting for span in spans if span.state == "running" and span.setting.x > 0]
        seen[f"{system} partial"] += any(one.gpus_used < one.replicas * whole for one in settings_of)
        seen["idle"] += any(one.idle for one in settings_of)
        seen["gain"] += ledger.buckets["gain"] > 0
        seen["stretched"] += batch == "stretch" and any(0 < one.x < 1 for one in settings_of)
    assert {name: count for name, count in seen.items() if count < 8} == {}


# -- closed forms ------------------------------------------------------------------------------------------


def shape_of(pp: int, b: int, *, cp: int = 1, v: int = 1, templates: tuple[int, ...] = ()) -> Shape:
    """Return a job of TP8 on domains of 8 GPUs."""
    paces = {stages: Fraction(pp, stages) for stages in templates}
    return Shape(8, pp, cp, b, v, 8, Fraction(1), Fraction(0), CURVE, templates=paces)


def setting_of(system: str, shape: Shape, batch: str, lost: set[tuple[int, int]], dp: int) -> Setting:
    """Return the configuration of a job that lost the groups (replica, position)."""
    packer = Packer(shape, responses.load(system), batch, dp, Fraction(1, 100))
    offers = [
        tuple(None if (replica, place) in lost else Offer(8) for place in range(shape.groups_per_replica))
        for replica in range(dp)
    ]
    return packer.setting("case", lambda: [packer.part(r, 1, groups) for r, groups in enumerate(offers)])


@pytest.mark.parametrize("dp", [2, 3, 4, 8, 64, 100])
@pytest.mark.parametrize("pp", [1, 2, 4, 8])
@pytest.mark.parametrize("v", [1, 2])
def test_one_lost_stage_costs_recycle_what_the_bubbles_cannot_hold(dp: int, pp: int, v: int) -> None:
    """The dp - 1 peers do dp*b samples of that stage: free up to b + (p - 1)/v each, longer beyond."""
    b = 6
    healthy = b + Fraction(pp - 1, v)
    busiest = -(-dp * b // (dp - 1))
    x = setting_of("recycle", shape_of(pp, b, v=v), "stretch", {(1, pp - 1)}, dp).x
    assert x == min(1, healthy / busiest)
    is_free = -(-b // (dp - 1)) <= Fraction(pp - 1, v)
    assert (x == 1) == is_free
    paused = setting_of("recycle", shape_of(pp, b, v=v), "pause", {(1, pp - 1)}, dp).x
    assert paused == is_free


def test_losses_in_different_stages_cost_recycle_no_more_than_one() -> None:
    """The stage with the fewest peers sets the pace; two losses in one stage cost, spread they do not."""
    shape, dp = shape_of(4, 8), 4
    spread = setting_of("recycle", shape, "stretch", {(0, 0), (1, 1), (2, 2), (3, 3)}, dp)
    one = setting_of("recycle", shape, "stretch", {(0, 0)}, dp)
    two = setting_of("recycle", shape, "stretch", {(0, 0), (1, 0)}, dp)
    assert spread.x == one.x == 1
    assert two.x == Fraction(11, 16)
    assert setting_of("recycle", shape, "stretch", {(r, 0) for r in range(dp)}, dp).x == 0
    dropped = setting_of("dp-drop", shape, "stretch", {(0, 0), (1, 1), (2, 2), (3, 3)}, dp)
    assert dropped.x == 0, "dp-drop has no whole replica left"


def test_recycle_uses_a_stage_only_with_all_its_groups() -> None:
    """With CP a stage that lost one group leaves its other idle; its replica's other stages work on."""
    shape = shape_of(3, 6, cp=2)
    found = setting_of("recycle", shape, "stretch", {(1, 2)}, 2)
    assert found.idle == {6 + 3}
    assert found.gpus_used == 8 * 10
    assert found.replicas == 2


def test_recycle_gains_what_bubbles_hold() -> None:
    """At X = 1 the job's GPUs do the work of those that are gone: that is the gain."""
    found = setting_of("recycle", shape_of(4, 6), "stretch", {(1, 2)}, 3)
    assert (found.x, found.gain_gpus) == (1, 8)
    assert found.gpus_used == 8 * 11


def test_packed_recycle_gains_the_bubbles_only() -> None:
    """Regrouped into whole replicas, stages have the same peers: X = tau / ceil(dp * b / whole replicas)."""
    shape = shape_of(4, 6)
    packer = Packer(shape, responses.load("recycle"), "stretch", 4, Fraction(0))
    packing = PACKINGS["packed"](packer, 16)
    table = capabilities(shape, ())
    for domain in range(5):
        packing.change(domain, table[0], table[1])
    assert packing.candidate().x == Fraction(9, 12)  # 11 groups are 2 replicas of 4 and 3 left over
    packing = PACKINGS["packed"](packer, 16)
    packing.change(0, table[0], table[1])
    assert packing.candidate().x == 1  # 3 replicas do 24 samples in 8, within 9


@pytest.mark.parametrize("room", [0, 4, 100])
@pytest.mark.parametrize(
    ("dp", "pp", "b", "lost"),
    [
        (3, 4, 6, {(1, 2)}),
        (3, 4, 6, {(1, 0)}),
        (3, 4, 6, {(1, 3)}),
        (2, 4, 8, {(0, 1)}),
        (4, 4, 8, {(0, 1), (1, 2)}),
        (4, 4, 8, {(0, 1), (1, 1)}),
        (4, 2, 8, {(0, 1)}),
        (3, 3, 4, {(0, 1)}),
    ],
)
def test_schedules_reach_what_recycle_is_taken_to_do(
    dp: int, pp: int, b: int, lost: set[tuple[int, int]], room: int
) -> None:
    """With room in memory a schedule reaches the model's time; without, it needs at most the fill more."""
    x = setting_of("recycle", shape_of(pp, b), "stretch", lost, dp).x
    healthy = 3 * (b + pp - 1)
    busiest = 3 * max(-(-dp * b // (dp - sum(stage == one for _, stage in lost))) for one in range(pp))
    found = slow_systems.period(dp, pp, b, lost, room)
    assert busiest <= found <= busiest + 3 * (pp - 1)
    if room == 100:
        assert found <= healthy / x


def test_a_smaller_pipeline_does_what_its_stages_can() -> None:
    """With p' of p stages: pace p/p', tau(n) = (n + p' - 1) * p/p'; 7 of 8 stages lose one of 8 samples."""
    for stages, samples in ((7, 7), (6, 6), (4, 4), (2, 2), (1, 1)):
        lost = {(0, place) for place in range(8 - stages)}
        found = setting_of("oobleck", shape_of(8, 8, templates=tuple(range(1, 8))), "elastic", lost, 4)
        assert found.x == Fraction(3 * 8 + samples, 32), stages
        assert found.gpus_used == 8 * (24 + stages)


def test_oobleck_keeps_the_batch_by_a_longer_iteration() -> None:
    """4 of 4 stages and 2 of 4: in time T they do T - 3 and (T - 2) / 2 samples; 8 of them end at T = 8."""
    found = setting_of("oobleck", shape_of(4, 4, templates=(2,)), "stretch", {(0, 1), (0, 2)}, 2)
    assert found.x == Fraction(7, 8)


@pytest.mark.parametrize("left", range(1, 17))
def test_oobleck_goes_on_while_the_smallest_template_can_be_filled(left: int) -> None:
    """With replicas of 4 stages and templates down to 2, packed jobs stop only below 2 groups."""
    shape = shape_of(4, 4, templates=(3, 2))
    packer = Packer(shape, responses.load("oobleck"), "stretch", 4, Fraction(0))
    packing, table = PACKINGS["packed"](packer, 16), capabilities(shape, ())
    for domain in range(16 - left):
        packing.change(domain, table[0], table[1])
    found = packing.choose()
    assert (found.setting.x > 0) == (left >= 2)
    used = sum(found.groups(domain, table[domain < 16 - left])[0] for domain in range(16))
    assert used == (left if left % 4 != 1 else left - 1), "less than the smallest template is left idle"


def test_shares_of_a_job_add_up() -> None:
    """What the replicas of a job do together is all of it, whatever was lost."""
    shape, module = shape_of(3, 4, cp=2), responses.load("recycle")
    whole = Replica((Offer(8),) * 6, shape)
    wounded = Replica((Offer(8),) * 4, shape, (0, 1, 3, 5))
    job = module.together([Alike(whole, 5), Alike(wounded, 2)])
    assert job.workers == 5
    assert 5 * job.shares[0] + 2 * job.shares[1] == 1


def test_a_reduced_group_is_none_to_the_systems() -> None:
    """Neither runs below the full TP degree: such a group counts as lost."""
    shape = shape_of(2, 4, templates=(1,))
    replica = Replica((Offer(8), Offer(6)), shape)
    assert replica.whole_stages == (0,)
    for system in ("recycle", "oobleck"):
        work = responses.load(system).work(replica)
        assert work.idle == {1}
    assert responses.load("oobleck").work(replica).paces == (2,)
    alone = Packer(shape, responses.load("rigid"), "pause", 1, Fraction(0)).part(0, 1, (Offer(8), None))
    assert alone.kind.replica is None, "others have no use for such a replica"
