"""Other replicas take over the samples of a lost stage, in the idle time of their pipelines; needs no spares.

A stage that lost a group hands its samples to the replicas that still have that stage; each stage so does the
whole batch with the w_s replicas that have it (ReCycle, arXiv 2405.14009: micro-batches are re-routed to
data-parallel peers). The stage with the fewest, w = min(w_s), sets the pace: n samples take ceil(n / w)
microbatch times, or a healthy iteration b + (p - 1)/v where that is longer: up to then they fit into the
bubbles, which is the paper's claim for Decoupled BackProp with the Staggered Optimizer. It is a bound: no
schedule ends before its busiest stage is done. Greedy schedules in the tests reach it where GPUs have room
for more activations in flight than 1F1B keeps; without any such room they need up to a pipeline's fill more.
Assumed, not modelled: that memory, and the traffic between replicas.

One lost stage of dp replicas costs nothing under `stretch` when ceil(dp*b / (dp - 1)) is within the healthy
iteration, else the iteration lasts that long. Under packing `packed` groups are regrouped into whole
replicas, so what is left over helps no one and only the bubbles are gained; `fixed` keeps the stages in their
places, as the paper does. A replica with a reduced group has lost that stage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from pipeline.replay.contract import Alike, Replica, Together, Work, healthy

USES_REDUCED = False
USES_POWER = False
USES_PARTIAL = True
BATCHES = ("stretch", "elastic", "pause")


def work(replica: Replica) -> Work:
    """Return all samples when every group is full; else the groups of whole stages only take part."""
    shape, whole = replica.shape, set(replica.whole_stages)
    if len(whole) == shape.pp:
        return healthy(replica)
    places = range(len(replica.groups)) if replica.places is None else replica.places
    idle = frozenset(index for index, place in enumerate(places) if place // shape.cp not in whole)
    return Work(0, None, (Fraction(1),) * len(replica.groups), idle)


def together(replicas: Sequence[Alike]) -> Together:
    """Return the job of these replicas: each stage's samples are spread evenly over those that have it."""
    having: Counter[int] = Counter()
    for replica, many in replicas:
        having.update(dict.fromkeys(replica.whole_stages, many))
    stages = replicas[0].replica.shape.pp if replicas else 1
    shares = [sum((Fraction(1, having[stage]) for stage in r.whole_stages), Fraction(0)) for r, _ in replicas]
    workers = min(having[stage] for stage in range(stages))
    return Together(workers, tuple(share / stages for share in shares))
