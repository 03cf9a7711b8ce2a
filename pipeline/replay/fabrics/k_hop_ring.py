"""Nodes in a ring with links to the next 1 to K on either side: a TP group is a run of healthy nodes.

InfiniteHBD (arXiv 2502.03885): links reach over failed nodes, so K - 1 failed nodes in a row are bridged and
K (`k_hop`) cut the ring. Between two cuts, floor(healthy nodes / nodes a group) groups can be formed; the
healthy nodes behind the last of them find no group. `domain_size` is the node (`gpus_per_node`) and TP a
multiple of it; a node with a failed GPU is bridged as a whole. The ring runs in the order of domain_id.
Groups are taken from behind the first cut on (from domain 0 where there is none).
Not modelled: traffic between racks, which the paper's placement of groups also keeps low.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline.replay.reach import CutOff

CROSSES = True
PACKINGS = ("packed",)


def cut_off(down: Sequence[int], domains: int, each: int, k_hop: int) -> CutOff:
    """Return where the ring's order begins and the healthy domains in no group; `down` is sorted."""
    cuts = _cuts(down, domains, k_hop)
    lost = set(down)
    if not cuts:
        return CutOff(0, _last_healthy(lost, domains - 1, (domains - len(down)) % each, domains))
    ends: set[int] = set()
    for (_, begin), (end, _) in zip(cuts, [*cuts[1:], cuts[0]], strict=True):
        length = (end - begin) % domains
        inside = sum((place - begin) % domains < length for place in down)
        ends |= _last_healthy(lost, end - 1, (length - inside) % each, domains)
    return CutOff(cuts[0][1], frozenset(ends))


def _cuts(down: Sequence[int], domains: int, k_hop: int) -> list[tuple[int, int]]:
    """Return each row of at least `k_hop` failed nodes as (its first, the node after it), in order."""
    if len(down) == domains:
        return [(0, 0)]
    rows: list[list[int]] = []
    for place in down:
        if rows and rows[-1][1] == place:
            rows[-1][1] = place + 1
        else:
            rows.append([place, place + 1])
    if len(rows) > 1 and rows[0][0] == 0 and rows[-1][1] == domains:
        rows[0][0] = rows.pop()[0] - domains
    return [(first % domains, after % domains) for first, after in rows if after - first >= k_hop]


def _last_healthy(lost: set[int], last: int, many: int, domains: int) -> frozenset[int]:
    """Return the last so many healthy nodes up to `last`."""
    found: set[int] = set()
    while len(found) < many:
        if last % domains not in lost:
            found.add(last % domains)
        last -= 1
    return frozenset(found)
