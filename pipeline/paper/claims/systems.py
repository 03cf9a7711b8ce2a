"""Other systems: ReCycle, Oobleck and rings of nodes, as far as their numbers are known to us.

Sources, of which only the abstracts were read: ReCycle arXiv 2405.14009, Oobleck arXiv 2309.08125,
InfiniteHBD arXiv 2502.03885. Speed-ups over other systems are measured on set-ups that the abstracts do not
state, so they stand here without ours. What is claimed of any job is checked on a small one, exhaustively.
Rings: the public trace through the real stages, a mean over 40 random placements on 4-GPU nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations

from pipeline.paper.claims.hbd import HALVES_SEED, PLACEMENTS, SOURCE
from pipeline.paper.hbd import Trace
from pipeline.paper.rows import Context, Row, of_one
from pipeline.replay import responses
from pipeline.replay.contract import Offer, Shape
from pipeline.replay.packing import Packer, Setting

RECYCLE = "arXiv 2405.14009, abstract"
OOBLECK = "arXiv 2309.08125, abstract"
INFINITE_HBD = "arXiv 2502.03885, abstract"
GPUS = 8  # of a group in the small jobs; no result depends on it
RING_TP, NVL72, CUBE = 32, 72, 64
SET_UP = "The models, GPUs and failures behind it are not in the abstract, and {} is not modelled here."


def rows(context: Context) -> list[Row]:
    """Return what is claimed of ReCycle, of Oobleck, and of rings against domains."""
    return [*_recycle(), *_oobleck(), *_rings(context)]


def setting(system: str, lost: Iterable[tuple[int, int]], *, dp: int, shape: Shape) -> Setting:
    """Return what a job of `dp` replicas does that lost the groups (replica, position); the batch stays."""
    packer = Packer(shape, responses.load(system), "stretch", dp, Fraction(0))
    gone, size = set(lost), shape.groups_per_replica
    offers = [tuple(None if (r, i) in gone else Offer(GPUS) for i in range(size)) for r in range(dp)]
    return packer.setting("job", lambda: [packer.part(r, 1, groups) for r, groups in enumerate(offers)])


def survived(system: str, dp: int, shape: Shape) -> int:
    """Return the most lost groups that the job survives wherever they fall."""
    places = [(r, i) for r in range(dp) for i in range(shape.groups_per_replica)]
    count = 0
    while all(setting(system, lost, dp=dp, shape=shape).x > 0 for lost in combinations(places, count + 1)):
        count += 1
    return count


def most_idle_percent(dp: int, shape: Shape, failures: int) -> float:
    """Return the largest share of healthy GPUs that Oobleck leaves idle, over all places of the failures."""
    places = [(r, i) for r in range(dp) for i in range(shape.groups_per_replica)]
    healthy = (len(places) - failures) * GPUS
    used = (setting("oobleck", lost, dp=dp, shape=shape).gpus_used for lost in combinations(places, failures))
    return 100 * (1 - min(used) / healthy)


def _shape(pp: int, samples: int, templates: tuple[int, ...] = ()) -> Shape:
    paces = {stages: Fraction(pp, stages) for stages in templates}
    one = Fraction(1)
    return Shape(GPUS, pp, 1, samples, 1, GPUS, one, Fraction(0), ((one, one),), templates=paces)


def _recycle() -> list[Row]:
    kept = [
        Row(
            name=f"ReCycle: throughput with one lost stage, {dp} pipelines of {pp} stages, {b} samples each",
            source="arXiv 2405.14009, figures",
            printed="",
            unit="%",
            ours=100 * float(setting("recycle", [(0, pp // 2)], dp=dp, shape=_shape(pp, b)).x),
            how="pipeline.paper.claims.systems.setting",
            reason="A bound that its schedules aim at: (b + p - 1) / ceil(dp * b / (dp - 1)), at most 1.",
        )
        for dp, pp, b in ((2, 4, 8), (3, 4, 6), (8, 8, 8))
    ]
    faster = [
        Row(
            name=f"ReCycle over {other}, at best",
            source=RECYCLE,
            printed=printed,
            unit="times the throughput",
            ours=None,
            how="pipeline.replay.responses.recycle.together",
            reason=SET_UP.format(missing),
        )
        for other, printed, missing in (
            ("Oobleck", "1.46", "the time of its planner"),
            ("Bamboo", "1.64", "Bamboo"),
        )
    ]
    return [*kept, *faster]


def _oobleck() -> list[Row]:
    replicas, small, larger = 4, _shape(2, 4), _shape(4, 4, (3, 2))
    how = "pipeline.paper.claims.systems."
    return [
        Row(
            name=f"Oobleck: failures that {replicas} pipelines of the smallest size survive anywhere",
            source=f"{OOBLECK}: f + 1 replicas for any f failures",
            printed=f">= {replicas - 1}",
            unit="failures",
            ours=float(survived("oobleck", replicas, small)),
            how=f"{how}survived",
        ),
        Row(
            name=f"Oobleck: GPUs idle after one failure, {replicas} pipelines of 4 stages (3 and 2)",
            source=OOBLECK,
            printed="0",
            unit="% of healthy GPUs",
            ours=most_idle_percent(replicas, larger, 1),
            how=f"{how}most_idle_percent",
        ),
        Row(
            name=f"Oobleck: GPUs idle after {replicas - 1} failures at worst, the same job",
            source=OOBLECK,
            printed="0",
            unit="% of healthy GPUs",
            ours=most_idle_percent(replicas, larger, replicas - 1),
            how=f"{how}most_idle_percent",
            explanation="Pipelines do not borrow nodes here: one that keeps a single node leaves it idle.",
        ),
        Row(
            name="Oobleck over Bamboo and Varuna, at best",
            source=f"{OOBLECK}, version 2 (13.9 in the proceedings)",
            printed="29.6",
            unit="times the throughput",
            ours=None,
            how="pipeline.replay.responses.oobleck.work",
            reason=SET_UP.format("either of them"),
        ),
    ]


def _rings(context: Context) -> list[Row]:
    file = context.traces.get(SOURCE)
    absent = "" if file else f"Needs the trace of {SOURCE}, which was not at hand."
    wasted: dict[str, list[float]] = {}
    if file:
        trace = Trace.of(context.root / "hbd", file).halves(context.root / "hbd-halves", HALVES_SEED)
        found = trace.ring_waste_frac(RING_TP, (2, 3), PLACEMENTS)
        wasted = {f"K = {hops}": shares for hops, shares in found.items()}
        wasted |= {
            name: trace.waste_frac(size, [RING_TP], PLACEMENTS)[RING_TP]
            for name, size in (("NVL72", NVL72), ("64-GPU cube", CUBE))
        }
    spreads = {name: of_one([100 * share for share in found]) for name, found in wasted.items()}
    rings = [
        Row(
            name=f"GPUs in no full group, TP{RING_TP} on a ring of 4-GPU nodes, {name}",
            source="arXiv 2502.03885, figures",
            printed="",
            unit="%",
            ours=spreads[name].mean if spreads else None,
            low=spreads[name].low if spreads else None,
            high=spreads[name].high if spreads else None,
            how="pipeline.paper.hbd.ring_waste_frac",
            reason=absent or "The abstract says near zero; its figures were not readable to us.",
        )
        for name in ("K = 2", "K = 3")
    ]
    ratios = [
        Row(
            name=f"GPUs in no full group, TP{RING_TP}: {name} over a ring, K = 2",
            source=f"{INFINITE_HBD}: more than one order of magnitude",
            printed="> 10",
            unit="times the share",
            ours=spreads[name].mean / spreads["K = 2"].mean if spreads else None,
            how="pipeline.paper.hbd.ring_waste_frac",
            reason=absent or "Which TP degree and which K the abstract means is not known to us.",
        )
        for name in ("NVL72", "64-GPU cube")
    ]
    return [*rings, *ratios]
