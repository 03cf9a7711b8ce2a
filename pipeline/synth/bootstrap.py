"""Block bootstrap of a real trace: its own outages, resampled over time and nodes, for a cluster of any size.

In: the outages of `history.nodes` observed nodes over the observed window, a seed. Out: arrays as draw.draw
gives. The target's nodes are cut into groups as large as the observed cluster (the last one may be smaller).
Each group is that cluster again: its nodes in a random order, and one sequence of blocks of `block_d` days,
each cut out of the observed window at a random instant (circular: after the window's end comes its start,
so every instant is as likely). Every observed node has a place in its group for good; in each block half
of them (MOVE_FRAC) swap places with one another. An outage belongs to the block in which it begins and
keeps its full length beyond the block's end.
Kept: the rate; a node's own history within a block; what happens at one instant to several nodes (bursts)
and how many nodes of a group are down together; causes and repair times, which go together; bad weeks; how
unequal nodes are. Not kept: anything longer than a block (a bad season is cut up, so the worst weeks are
somewhat milder); the order of outages across a block's edge; what binds groups to each other, for they are
drawn apart, so a cluster of many groups varies less about its mean than the observed one.
Easy to get wrong: inside a group no observed node comes twice. Drawn with replacement, copies of one node
would fail at the very same instants: bursts that nobody has seen. And nodes that never swap
meet the same block of their history again, which makes worse lemons than the real ones.
Streams are keyed by (seed, purpose, group): a node has the same failures whatever the size of the
cluster. Source: circular block bootstrap (Politis and Romano 1992); model.md section 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.synth.distributions import stream
from pipeline.synth.draw import COLUMNS, MAX_EVENTS, Columns
from pipeline.synth.observed import History
from pipeline.units import US_PER_D

if TYPE_CHECKING:
    import numpy as np

BLOCK_D = 30.0  # long against most repairs (InfiniteHBD: 90 % are under 13 days), short against a year
# The worst 10 % of nodes of the InfiniteHBD trace have 41 % of its faults and 69 % of its downtime. Drawn (60
# seeds, means): with no swaps 51 and 80 %, with half 40 and 70 %, with all 36 and 67 %.
MOVE_FRAC = 0.5
_ORDER, _BLOCKS = 100, 101  # purposes of streams, apart from those of draw.py: never renumber


def draw(history: History, days: float, nodes: int, *, block_d: float, seed: int, start: str) -> Columns:
    """Return resampled failures as arrays; `kind` is the number of the original outage.

    `clean`: nothing is down at time 0. `steady`: blocks run from one longest outage before time 0 on, and
    what is over by then is left out.
    """
    import numpy as np

    span_us, block_us = round(days * US_PER_D), round(block_d * US_PER_D)
    mean = len(history.kinds) / history.window_us * span_us * nodes / history.nodes
    if mean > MAX_EVENTS:
        raise InputError("[trace] days", f"about {mean:.3g} events", f"at most {MAX_EVENTS}", "fewer days")
    lead_us = int(history.length_us.max()) if start == "steady" else 0
    before = -(-lead_us // block_us)  # whole blocks, so that time 0 is the edge of one
    first_us = np.arange(-before, -(-span_us // block_us)) * block_us
    parts = [
        _group(history, group, first_us, block_us, nodes - group * history.nodes, seed)
        for group in range(-(-nodes // history.nodes))
    ]
    columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    kept = columns["start_us"] < span_us
    kept &= (columns["start_us"] >= 0) | (columns["end_us"] > 0)
    columns = {name: array[kept] for name, array in columns.items()}
    order = np.lexsort((columns["kind"], columns["node"], columns["start_us"]))
    return {name: array[order] for name, array in columns.items()}


def _group(history: History, group: int, first_us: Any, block_us: int, room: int, seed: int) -> Columns:
    """Return the failures of one group of nodes, of which the cluster has `room`."""
    import numpy as np

    window_us = history.window_us
    place = _places(stream(seed, _ORDER, group), history.nodes, len(first_us))
    cut_us = stream(seed, _BLOCKS, group).integers(0, window_us, len(first_us))
    # Twice around the circle: a block never reaches further, because it is no longer than the window.
    twice_us = np.concatenate([history.start_us, history.start_us + window_us])
    low = np.searchsorted(twice_us, cut_us, side="left")
    high = np.searchsorted(twice_us, cut_us + block_us, side="left")
    counts = high - low
    block = np.repeat(np.arange(len(first_us)), counts)
    which = np.arange(len(block)) - np.repeat(np.cumsum(counts) - counts, counts) + low[block]
    outage = which % len(history.kinds)
    start_us = first_us[block] + twice_us[which] - cut_us[block]
    node = place[block, history.node[outage]]
    kept = node < room
    outage, start_us = outage[kept], start_us[kept]
    return {
        "start_us": start_us,
        "end_us": start_us + history.length_us[outage],
        "node": node[kept] + group * history.nodes,
        "gpu": history.gpu[outage],
        "kind": outage,
    }


def _places(random: np.random.Generator, nodes: int, blocks: int) -> Any:
    """Return, block by block, where in the group each observed node stands."""
    import numpy as np

    places = np.empty((blocks, nodes), dtype=np.int64)
    places[:] = random.permutation(nodes)
    for place in places:
        movers = np.flatnonzero(random.random(nodes) < MOVE_FRAC)
        place[movers] = place[random.permutation(movers)]
    return places


def assumptions(history: History, nodes: int, block_d: float, start: str) -> list[str]:
    """Return what a reader must know about resampled failures, as sentences."""
    window_d = history.window_us / US_PER_D
    spared = history.nodes - history.named_nodes
    texts = [
        (
            f"Failures are {len(history.kinds):,} real outages of {history.nodes:,} nodes over "
            f"{window_d:,.1f} days ({spared:,} of these nodes had none), resampled in {block_d:g}-day blocks."
        ),
        (
            f"Each group of {history.nodes:,} nodes repeats the observed cluster at random times; bursts and "
            "the number of nodes down together are kept within a group."
        ),
        "Half of the nodes swap places in each block, so that the worst nodes stay about as bad as observed.",
        "Trends longer than a block are not kept.",
    ]
    if nodes > history.nodes:
        texts.append(
            "Groups are independent of each other, so the larger cluster varies less about its mean than the "
            "observed one; what would strike all of it at once was not observed."
        )
    if history.censored:
        texts.append(f"Outages still open at the window's end, which end there: {history.censored:,}.")
    if history.domain_faults:
        texts.append(
            f"{history.domain_faults:,} of the outages are of whole domains: each takes the domain that its "
            "node lies in here, whatever its size. They come as often per node as observed, so a larger "
            "domain is hit more often."
        )
    if history.left_out:
        texts.append(f"Outages begun before the window, or of no named node, left out: {history.left_out:,}.")
    began = {
        "clean": "Nothing is down at the start, so the first weeks are better than the long run.",
        "steady": "Outages that began before the start are still down at it.",
    }
    return [*texts, "A node that is down can fail again; downtime is the union.", began[start]]
