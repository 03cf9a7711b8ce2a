"""Which GPU slots of a replica stay idle at a reduced degree, and which ranks form a group.

A slot is a GPU's place in its TP group, 0 to TP-1; a rank numbers the GPUs of the job, TP a replica,
whether they work or not. One reduced degree holds for all replicas with failures: the one of the worst
of them. A sync layout has one degree, and packed replicas run at it anyway.

Easy to get wrong: with `tp` GPUs a replica, slots are not positions. Where slots 2 and 5 of 8 are idle,
slot 3 is position 2 of its group, and a sync pairs equal positions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import zip_longest

from pipeline.errors import InputError

Group = tuple[int, ...]


def idle_slots(failed: Mapping[int, Collection[int]], tp: int) -> tuple[int, dict[int, Group]]:
    """Return the reduced degree and, per replica of `failed`, the slots that stay idle at it, ascending.

    `failed` names each replica's dead slots; one named twice is one. A replica with fewer than the worst
    gives up its highest healthy slots as well. With nothing listed the degree is `tp`. Raise InputError for
    a slot outside 0 to TP-1, and when the worst replica has no slot left.
    """
    dead = {replica: sorted(set(slots)) for replica, slots in failed.items()}
    for replica, slots in dead.items():
        if slots and not 0 <= slots[0] <= slots[-1] < tp:
            raise InputError(f"replica {replica}", f"slots {slots}", f"slots from 0 to {tp - 1}")
    spares = max(map(len, dead.values()), default=0)
    if spares >= tp:
        raise InputError("failed slots", f"all {tp} slots of a replica", "at least one healthy slot")
    idle = {}
    for replica, slots in dead.items():
        healthy = active_slots(tp, slots)
        idle[replica] = tuple(sorted((*slots, *healthy[len(healthy) - (spares - len(slots)) :])))
    return tp - spares, idle


def active_slots(tp: int, idle: Collection[int]) -> Group:
    """Return the slots that work, ascending."""
    return tuple(slot for slot in range(tp) if slot not in idle)


def tp_groups(tp: int, replicas: int, idle: Mapping[int, Collection[int]]) -> tuple[Group, ...]:
    """Return the ranks of every replica's group; the ranks in none of them leave the job."""
    return tuple(
        tuple(replica * tp + slot for slot in active_slots(tp, idle.get(replica, ())))
        for replica in range(replicas)
    )


def dp_groups(groups: Sequence[Group]) -> tuple[Group, ...]:
    """Return the ranks that sync gradients with each other: one position of every group.

    A position beyond the smallest group is one of an extra GPU: its gradients go to core GPUs first,
    so it syncs with nobody, however many healthy replicas there are.
    """
    reduced = min(map(len, groups))
    core = [tuple(group[position] for group in groups) for position in range(reduced)]
    extra = zip_longest(*(group[reduced:] for group in groups))
    return (*core, *((rank,) for position in extra for rank in position if rank is not None))


def ordered(groups: Iterable[Collection[int]]) -> tuple[Group, ...]:
    """Return groups as a user lists them, each and all ascending; raise InputError when two share a rank."""
    result = tuple(sorted(tuple(sorted(group)) for group in groups))
    ranks = [rank for group in result for rank in group]
    if len(set(ranks)) < len(ranks):
        twice = sorted({rank for rank in ranks if ranks.count(rank) > 1})
        raise InputError("TP groups", f"ranks {twice} in more than one place", "disjoint groups")
    return result


def group_of(rank: int, groups: Iterable[Group]) -> Group:
    """Return the group of `rank`; raise InputError when it is in none."""
    for group in groups:
        if rank in group:
            return group
    raise InputError(f"rank {rank}", "in no TP group", "a rank of one of the groups")
