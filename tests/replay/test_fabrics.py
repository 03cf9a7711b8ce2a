"""Fabrics: which domains can join in a TP group, against slow and obvious rules."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from pipeline.config import Scenario, parse
from pipeline.errors import InputError
from pipeline.replay import engine, fabrics, responses
from pipeline.replay import run as replay
from pipeline.replay.engine import Times
from pipeline.replay.ledger import Ledger, Span
from pipeline.replay.study import Failures, Study
from tests import reference_simulator as reference
from tests.replay import cases
from tests.replay.test_properties import QUIET, Drawn

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
RING = fabrics.load("k-hop-ring")


def scenario(cluster: dict[str, Any], job: dict[str, Any], **policy: Any) -> Scenario:
    """Return a scenario of one policy."""
    document = {
        "trace": {"preset": "llama3", "days": 1},
        "cluster": {"gpus_per_node": 4, "domain_size": 4, **cluster},
        "job": {"samples_per_replica": 4, **job},
        "policy": [{"name": "p", "response": "dp-drop", **policy}],
    }
    return parse(document, name="fabric", path=Path("fabric.toml"))


# -- how many groups a ring can form ---------------------------------------------------------------


def most_groups(down: frozenset[int], domains: int, each: int, k_hop: int) -> int:
    """Return the most disjoint groups: `each` healthy nodes, links of 1 to k_hop steps between neighbours."""
    healthy = [node for node in range(domains) if node not in down]
    chains = set()
    for start in healthy:
        for steps in itertools.product(range(1, k_hop + 1), repeat=each - 1):
            nodes = [(start + way) % domains for way in itertools.accumulate((0, *steps))]
            if sum(steps) < domains and not down & set(nodes):
                chains.add(frozenset(nodes))

    @cache
    def most(free: frozenset[int]) -> int:
        usable = [chain for chain in chains if chain <= free]
        if not usable:
            return 0
        node = min(set().union(*usable))
        using = [1 + most(free - chain) for chain in usable if node in chain]
        return max([most(free - {node}), *using])

    return most(frozenset(healthy))


@pytest.mark.parametrize(
    ("domains", "each", "k_hop"), [(7, 2, 1), (7, 3, 2), (8, 2, 2), (8, 3, 3), (6, 4, 2)]
)
def test_a_ring_forms_as_many_groups_as_can_be(domains: int, each: int, k_hop: int) -> None:
    """For every set of failed nodes, what is not cut off makes the most groups that links allow."""
    for count in range(domains + 1):
        for down in itertools.combinations(range(domains), count):
            found = RING.cut_off(down, domains, each, k_hop)
            left = domains - count - len(found.domains)
            assert not set(down) & found.domains
            assert left % each == 0
            assert left // each == most_groups(frozenset(down), domains, each, k_hop), down


@pytest.mark.parametrize(("domains", "each", "k_hop"), [(7, 2, 1), (9, 3, 2), (10, 2, 2)])
def test_groups_are_runs_in_the_ring_s_order(domains: int, each: int, k_hop: int) -> None:
    """Cut into groups from its beginning on, the order puts neighbours at most k_hop links apart."""
    for count in range(domains + 1):
        for down in itertools.combinations(range(domains), count):
            found = RING.cut_off(down, domains, each, k_hop)
            order = [(found.begin + step) % domains for step in range(domains)]
            kept = [node for node in order if node not in down and node not in found.domains]
            for first in range(0, len(kept), each):
                group = kept[first : first + each]
                ways = [(b - a) % domains for a, b in itertools.pairwise(group)]
                # A group may only leap over failed nodes: healthy ones between are never skipped.
                assert all(way <= k_hop for way in ways), (down, group)


# -- the engine on a fabric ------------------------------------------------------------------------


def slow_rule(fabric: str, each: int, k_hop: int):
    """Return a configuration rule: usable nodes one by one, cut into whole replicas."""

    def rule(cluster, job, _power, policy, failed):
        order = [node for node in range(cluster.domains) if failed[node] == 0]
        if fabric == "k-hop-ring":
            order = walked(failed, each, k_hop)
        size = job.pp * job.cp
        replicas = [order[first : first + size] for first in range(0, len(order) - size + 1, size)]
        groups = [tuple(reference.Group(node, job.tp, 1) for node in nodes) for nodes in replicas]
        samples = [job.samples_per_replica] * len(groups)
        if policy.batch == "stretch":
            pace = (Fraction(1), Fraction(job.pp - 1, job.virtual_stages))
            x, done = reference._stretch([pace] * len(groups), job)
        else:
            x, done = (reference._elastic if policy.batch == "elastic" else reference._pause)(samples, job)
        if x == 0:
            return reference.NOTHING
        used = tuple(reference.Replica(mine, n) for mine, n in zip(groups, done, strict=False) if n)
        return reference.Configuration(x, x, used)

    return rule


def walked(failed: tuple[int, ...], each: int, k_hop: int) -> list[int]:
    """Return the nodes of a ring's groups, walking from behind the first gap too wide for a link."""
    domains = len(failed)
    wide = [
        node
        for node in range(domains)
        if failed[node] == 0 and all(failed[(node - back) % domains] for back in range(1, k_hop + 1))
    ]
    # The gap that comes first is the one whose first failed node does.
    begin = min(wide, key=lambda node: first_gap(failed, node), default=0)
    kept, run = [], list[int]()
    for step in range(domains):
        node = (begin + step) % domains
        if failed[node]:
            continue
        if node in wide:
            kept += run[: len(run) // each * each]
            run = []
        run.append(node)
    return kept + run[: len(run) // each * each]


def first_gap(failed: tuple[int, ...], node: int) -> int:
    """Return the first failed node of the gap before a node; in a ring it may lie beyond node 0."""
    back = node - 1
    while failed[back % len(failed)] and node - back <= len(failed):
        back -= 1
    return back + 1


def run_engine(case: cases.Case, fabric: str, each: int, k_hop: int) -> tuple[Ledger, list[Span]]:
    """Return the engine's ledger and spans, through a study of a scenario in this fabric."""
    job, policy = case.job, case.policy
    node = case.cluster.domain_size
    mine = scenario(
        {
            "nodes": case.cluster.domains,
            "gpus_per_node": node,
            "domain_size": node,
            "fabric": fabric,
            "k_hop": k_hop,
        },
        {
            "tp": job.tp * each,
            "pp": job.pp,
            "cp": job.cp // each,
            "dp": job.dp,
            "samples_per_replica": job.samples_per_replica,
            "virtual_stages": job.virtual_stages,
        },
        batch=policy.batch,
    )
    replay.check_policies(mine)
    capability, packing = Study(mine).packing(mine.policies[0], case.cluster.domains)
    times = Times(
        detect=policy.detect_s,
        restart=policy.restart_s,
        reconfigure=policy.reconfigure_s,
        interval=policy.checkpoint_interval_s,
        save=policy.checkpoint_save_s,
    )
    spans: list[Span] = []
    ledger = engine.replay(
        cases.plain_history(case), capability, packing, times, policy.reexpand, spans=spans
    )
    return ledger, spans


@pytest.mark.parametrize("fabric", ["ocs", "k-hop-ring"])
@pytest.mark.parametrize("batch", cases.BATCHES)
@settings(QUIET, max_examples=max(1, EXAMPLES // 6))
@given(data=st.data())
def test_engine_equals_the_reference_on_a_fabric(fabric: str, batch: str, data: st.DataObject) -> None:
    """Buckets, stops and every second are those of the simulator whose replicas are picked node by node."""
    choose = Drawn(data)
    case = cases.make_case(choose, "dp-drop", batch)
    each, k_hop, pp = choose.one((2, 3)), choose.one((1, 2, 3)), choose.one((1, 2))
    dp, node = choose.one((1, 2, 3)), choose.one((1, 2))
    domains = dp * pp * each + choose.one((0, 1, 3))
    outages = []
    for outage in case.outages:
        gpu = outage.gpu_first % node
        outages.append(replace(outage, domain=choose.between(0, domains - 1), gpu_first=gpu, gpu_last=gpu))
    case = replace(
        case,
        cluster=reference.Cluster(domains, node),
        job=replace(case.job, tp=node, pp=pp, cp=each, dp=dp),
        policy=replace(case.policy, packing="packed"),
        outages=tuple(outages),
    )
    note((case, each, k_hop))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reference, "configure", slow_rule(fabric, each, k_hop))
        told = cases.wanted(case)
    ledger, spans = run_engine(case, fabric, each, k_hop)
    assert {name: ledger.buckets[name] for name in told.buckets} == told.buckets
    assert (ledger.interruptions, ledger.planned_stops) == told.stops
    assert cases.seconds_of(case, spans) == told.seconds


def test_within_a_domain_every_fabric_is_the_same() -> None:
    """A TP group that lies in one domain is offered alike, whatever joins domains."""
    history = cases.plain_history(cases.make_case(cases.Seeded(3), "dp-drop", "elastic"))
    found = set()
    for fabric in fabrics.names():
        mine = scenario({"nodes": 16, "domain_size": 8, "fabric": fabric}, {"tp": 4, "pp": 2})
        history = replace(history, domains=8)
        ledger, _ = Study(mine).replay(
            replace(mine.policies[0], costs=replace(mine.policies[0].costs, checkpoint_interval_s=60)),
            Failures({0: history}, {0: 0}),
            0,
        )
        found.add(tuple(ledger.buckets.values()))
    assert len(found) == 1


def test_ocs_survives_what_fixed_wiring_does_not() -> None:
    """Cubes of 64, TP 128: with one failed chip in each of two cubes, any two others make a group."""
    for fabric, size, groups in (("ocs", 64, 3), ("domains", 128, 2)):
        mine = scenario({"nodes": 128, "domain_size": size, "fabric": fabric}, {"tp": 128})
        table, packing = Study(mine).packing(mine.policies[0], mine.cluster.pool_domains)
        for cube in (0, 2):
            packing.change(cube * 64 // size, table[0], table[1])
        assert packing.choose().setting.replicas == groups


def test_fabrics_are_found_by_folder_and_keep_their_contract() -> None:
    """A module in the folder is a fabric; the default is the one that joins nothing."""
    stems = {path.stem for path in Path(fabrics.__file__).parent.glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in fabrics.names()} == stems
    for name in fabrics.names():
        module = fabrics.load(name)
        assert set(module.PACKINGS) <= {"packed", "fixed"}
        assert fabrics.descriptions()[name]
    assert not fabrics.load(scenario({"nodes": 8}, {"tp": 4}).cluster.fabric).CROSSES


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("CROSSES = True\nPACKINGS = ()\n", "no docstring"),
        ('"""A."""\nPACKINGS = ()\n', "CROSSES is not a bool"),
        ('"""A."""\nCROSSES = True\n', "PACKINGS is not a tuple"),
        ('"""A."""\nCROSSES = True\nPACKINGS = ()\ndef cut_off(down): ...\n', "no function cut_off"),
    ],
)
def test_a_broken_fabric_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, told: str
) -> None:
    """A fabric that lacks something says what, by its name."""
    stem = f"broken_{abs(hash(body))}"
    (tmp_path / f"{stem}.py").write_text(body)
    monkeypatch.setattr(fabrics, "__path__", [*fabrics.__path__, str(tmp_path)])
    with pytest.raises(TypeError, match=f"broken-.*{told}"):
        fabrics.load(stem.replace("_", "-"))


@pytest.mark.parametrize(
    ("cluster", "job", "policy", "told"),
    [
        ({"fabric": "k-hop-rng"}, {"tp": 8}, {}, "did you mean 'k-hop-ring'"),
        ({}, {"tp": 8}, {}, "a TP group never crosses a domain"),
        ({"fabric": "ocs"}, {"tp": 6}, {}, "or a multiple of it in fabric ocs"),
        ({"fabric": "k-hop-ring"}, {"tp": 8}, {"packing": "fixed"}, "'fixed' with TP groups of 2 domains"),
        ({"fabric": "ocs"}, {"tp": 8}, {"response": "ntp", "reduced_tp": [4]}, "the full TP degree"),
        ({"fabric": "ocs", "nodes": 1}, {"tp": 8}, {}, "at least 2 domains of 4 GPUs for one replica"),
    ],
)
def test_a_fabric_that_cannot_form_the_groups_is_told(
    cluster: dict[str, Any], job: dict[str, Any], policy: dict[str, Any], told: str
) -> None:
    """One message: what was found, and what the fabric allows."""
    with pytest.raises(InputError, match=told):
        replay.check_policies(scenario({"nodes": 8, **cluster}, job, **policy))


def test_recycle_and_oobleck_run_on_any_fabric() -> None:
    """A stage has its group's domains together: one that is lost loses the stage, not the replica."""
    mine = scenario(
        {"nodes": 16, "fabric": "ocs"}, {"tp": 8, "pp": 4, "dp": 2}, response="recycle", packing="fixed"
    )
    table, packing = Study(mine).packing(mine.policies[0], 16)
    packing.change(3, table[0], table[1])
    found = packing.choose().setting
    assert found.idle == {2}
    assert found.x == Fraction(7, 8)
    assert responses.load("recycle").USES_PARTIAL
