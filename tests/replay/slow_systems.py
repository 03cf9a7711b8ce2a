"""ReCycle and Oobleck, slow and obvious: a second configuration rule, and a schedule slot by slot.

`configure(system, templates)` stands in for the rule in tests/reference_simulator.py, which knows neither;
all else of that simulator stays. Samples are dealt out one by one. It imports nothing
from the package.
`period` schedules forward passes, input gradients and weight gradients of every microbatch greedily, as
ReCycle's Decoupled BackProp and Staggered Optimizer allow (arXiv 2405.14009), to see what a job with lost
stages can reach. Each of the three takes one slot, so that a microbatch of one stage takes three (assumed).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tests import reference_simulator as reference
from tests.reference_simulator import Cluster, Configuration, Group, Job, Policy, Power

Rule = Callable[[Cluster, Job, Power, Policy, tuple[int, ...]], Configuration]


def configure(system: str, templates: tuple[int, ...] = ()) -> Rule:
    """Return the rule that yields a configuration from the failed GPUs of each domain."""

    def rule(
        cluster: Cluster, job: Job, power: Power, policy: Policy, failed: tuple[int, ...]
    ) -> Configuration:
        del power  # no group is boosted
        replicas = _replicas(cluster, job, policy, failed)
        if system == "recycle":
            return _recycle(replicas[: job.dp], job, policy.batch)
        return _oobleck(replicas, job, policy.batch, templates)

    return rule


def _replicas(
    cluster: Cluster, job: Job, policy: Policy, failed: tuple[int, ...]
) -> list[list[Group | None]]:
    """Every replica's positions, stage by stage; None where a group is missing."""
    size, wanted = job.pp * job.cp, job.dp * job.pp * job.cp
    places: list[Group | None] = []
    if policy.packing == "fixed":
        for domain, need in reference.domains_of_slots(failed, cluster, job, policy):
            full = (cluster.domain_size - failed[domain]) // job.tp
            places += [Group(domain, job.tp, full) if i < full else None for i in range(need)]
    else:
        for domain in range(cluster.domains):
            full = (cluster.domain_size - failed[domain]) // job.tp
            places += [Group(domain, job.tp, full) for _ in range(full)]
        while len(places) < wanted or len(places) % size:
            places.append(None)
    return [places[i : i + size] for i in range(0, len(places), size)]


def _recycle(replicas: list[list[Group | None]], job: Job, batch: str) -> Configuration:
    """Each stage's samples go, one by one, to the peer that has done the fewest."""
    stages = [range(s * job.cp, (s + 1) * job.cp) for s in range(job.pp)]
    peers = [[r for r in range(job.dp) if all(replicas[r][i] for i in stage)] for stage in stages]
    if not all(peers):
        return reference.NOTHING
    healthy, wanted = reference.healthy_budget(job), job.dp * job.samples_per_replica
    done, time = wanted, max(_busiest(found, wanted) for found in peers)
    if batch == "stretch":
        x = min(Fraction(1), healthy / time)
    else:
        while done and max(_busiest(found, done) for found in peers) > healthy:
            done -= 1
        x = Fraction(done, wanted) if batch == "elastic" else Fraction(done == wanted)
    if x == 0:
        return reference.NOTHING
    used = []
    for r, groups in enumerate(replicas):
        mine = [s for s in range(job.pp) if r in peers[s]]
        share = sum((Fraction(1, job.pp * len(peers[s])) for s in mine), Fraction(0))
        kept = tuple(group for s in mine for i in stages[s] if (group := groups[i]))
        if share:
            used.append(reference.Replica(kept, share))  # type: ignore[arg-type]  # a share of the samples
    return Configuration(x, x, tuple(used))


def _busiest(peers: list[int], samples: int) -> int:
    """The samples of the busiest peer when they are dealt out one by one."""
    load = dict.fromkeys(peers, 0)
    for _ in range(samples):
        load[min(peers, key=lambda peer: load[peer])] += 1
    return max(load.values())


def _oobleck(
    replicas: list[list[Group | None]], job: Job, batch: str, templates: tuple[int, ...]
) -> Configuration:
    """Each replica runs as the longest pipeline that its groups can form."""
    formed, paces = [], list[tuple[Fraction, Fraction] | None]()
    for places in replicas:
        groups = [group for group in places if group]
        fitting = [n for n in (job.pp, *templates) if n * job.cp <= len(groups)]
        stages = max(fitting, default=0)
        formed.append(tuple(groups[: stages * job.cp]))
        pace = Fraction(job.pp, stages) if stages else Fraction(1)
        paces.append((pace, (stages - 1) * pace / job.virtual_stages) if stages else None)
    budget, most = reference.healthy_budget(job), job.samples_per_replica
    samples = [min(most, reference.samples_within(budget, pace)) if pace else 0 for pace in paces]
    if batch == "stretch":
        x, done = reference._stretch(paces, job)
    else:
        x, done = (reference._elastic if batch == "elastic" else reference._pause)(samples, job)
    if x == 0:
        return reference.NOTHING
    used = tuple(reference.Replica(groups, n) for groups, n in zip(formed, done, strict=False) if n)
    return Configuration(x, x, used)


class _Task(NamedTuple):
    """A microbatch (`row` of replica `origin`) of one iteration; in this order workers prefer them."""

    iteration: int
    row: int
    origin: int


def period(dp: int, pp: int, b: int, lost: set[tuple[int, int]], room: int, iterations: int = 8) -> int:
    """Slots between the ends of two late iterations of a greedy schedule.

    `lost` are (replica, stage) that failed; their microbatches go to the peer of that stage with the fewest.
    A worker of stage s keeps at most p - s + `room` microbatches that still miss a gradient; 1F1B has room 0.
    """
    owner = _owners(dp, pp, b, lost)
    todo: dict[tuple[int, int], dict[_Task, str]] = {}
    for (task, stage), replica in owner.items():
        for iteration in range(iterations):
            todo.setdefault((replica, stage), {})[task._replace(iteration=iteration)] = "forward"
    ended: dict[tuple[str, _Task, int], int] = {}
    stepped = {(-1, stage): 0 for stage in range(pp)}
    left = {(iteration, stage): dp * b for iteration in range(iterations) for stage in range(pp)}
    held = dict.fromkeys(todo, 0)

    def is_ready(task: _Task, kind: str, worker: tuple[int, int], slot: int) -> bool:
        stage = worker[1]
        if kind == "forward":
            before = stage == 0 or ended.get(("forward", task, stage - 1), slot + 1) <= slot
            is_new = stepped.get((task.iteration - 1, stage), slot + 1) <= slot
            return before and is_new and held[worker] < pp - stage + room
        return (
            kind == "weights" or stage == pp - 1 or ended.get(("inputs", task, stage + 1), slot + 1) <= slot
        )

    slot = 0
    rank = {"inputs": 0, "forward": 1, "weights": 2}
    following = {"forward": "inputs", "inputs": "weights"}
    while any(todo.values()):
        begun = []
        for worker, mine in todo.items():
            ready = [(rank[kind], task) for task, kind in mine.items() if is_ready(task, kind, worker, slot)]
            if ready:
                begun.append((worker, min(ready)[1]))
        slot += 1
        for worker, task in begun:
            kind, stage = todo[worker].pop(task), worker[1]
            ended[kind, task, stage] = slot
            held[worker] += {"forward": 1, "inputs": 0, "weights": -1}[kind]
            if kind != "weights":
                todo[worker][task] = following[kind]
                continue
            left[task.iteration, stage] -= 1
            if left[task.iteration, stage] == 0:
                stepped[task.iteration, stage] = slot
    ends = [max(stepped[iteration, stage] for stage in range(pp)) for iteration in range(iterations)]
    return max(later - earlier for earlier, later in pairwise(ends[2:]))


def _owners(dp: int, pp: int, b: int, lost: set[tuple[int, int]]) -> dict[tuple[_Task, int], int]:
    """The replica that does each microbatch of each stage, in every iteration."""
    owners = {}
    for stage in range(pp):
        peers = [replica for replica in range(dp) if (replica, stage) not in lost]
        load = dict.fromkeys(peers, b)
        for origin in range(dp):
            for row in range(b):
                owner = origin
                if origin not in load:
                    owner = min(peers, key=lambda peer: (load[peer], (peer - origin - row) % dp))
                    load[owner] += 1
                owners[_Task(0, row, origin), stage] = owner
    return owners
