"""Which outages of several logs are one, in plain Python: every row held against every other.

In: rows as dictionaries of test_folding. Out: what `outage_members` must say of them. It follows model.md
section 2, rule 7, word for word, and shares no step with the SQL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

FOREVER = 10**18


@dataclass(frozen=True)
class Told:
    """An outage as one log tells it, in seconds; `end` None: still open; `no_end`: the log tells no ends."""

    id: str
    log: str
    node: str
    gpu: int | None
    start: int
    end: int | None
    no_end: bool = False
    component: str = "gpu"

    @property
    def until(self) -> float:
        """From when on the log says no more that this is out; an instant lasts a moment."""
        return max(FOREVER if self.end is None else self.end, self.start + 1e-6)

    @property
    def order(self) -> tuple[int, str]:
        """The order in which outages are looked at."""
        return (self.start, self.id)


class Group(NamedTuple):
    """Outages of one node or GPU that were laid together."""

    rows: tuple[Told, ...]

    @property
    def id(self) -> str:
        """The first row's."""
        return min(self.rows, key=lambda row: row.order).id

    @property
    def logs(self) -> set[str]:
        """The logs that tell of it."""
        return {row.log for row in self.rows}

    @property
    def start(self) -> int:
        """When it began."""
        return min(row.start for row in self.rows)

    @property
    def until(self) -> float:
        """When it was over."""
        return max(row.until for row in self.rows)

    @property
    def is_wide(self) -> bool:
        """Whether the whole node is out."""
        return self.rows[0].gpu is None

    @property
    def no_end(self) -> bool:
        """Whether it is a fault whose end no log tells."""
        return self.rows[0].no_end


def overlap(one: Told, other: Told) -> bool:
    """Return whether two rows have an instant in common."""
    return one.start < other.until and other.start < one.until


def groups(rows: Sequence[Told]) -> list[Group]:
    """Lay together what overlaps a row of another log about the same node or GPU, gap-free."""
    known = [row for row in rows if not row.no_end]

    def same(one: Told, other: Told) -> bool:
        return (one.node, one.gpu) == (other.node, other.gpu) and overlap(one, other)

    meeting = [row for row in known if any(same(row, other) and row.log != other.log for other in known)]
    left, found = list(meeting), []
    while left:
        stretch = [left.pop()]
        for member in stretch:
            near = [row for row in left if same(row, member)]
            left = [row for row in left if row not in near]
            stretch += near
        found.append(Group(tuple(stretch)))
    return found + [Group((row,)) for row in rows if row not in meeting]


def cause_of(fault: Group, found: Sequence[Group], lead_s: int) -> Group | None:
    """Return the outage that a fault is part of."""

    def takes(host: Group) -> bool:
        wide = host.is_wide and (fault.no_end or not fault.is_wide)
        own = (
            fault.no_end and not fault.is_wide and not host.is_wide and host.rows[0].gpu == fault.rows[0].gpu
        )
        several = len(fault.logs | host.logs) > 1
        lasts = fault.start + 1e-6 if fault.no_end else fault.until
        in_time = host.start < lasts or host.start <= fault.start + lead_s
        node = host.rows[0].node == fault.rows[0].node
        return not host.no_end and node and several and (wide or own) and in_time and host.until > fault.start

    hosts = [host for host in found if host is not fault and takes(host)]
    return min(hosts, key=lambda host: (host.start, host.id), default=None)


class Member(NamedTuple):
    """A row of `outage_members`."""

    part: str
    outage: str
    role: str
    start: int
    end: int


def members(rows: Sequence[Told], window_s: int, lead_s: int, repair_s: int) -> set[Member]:
    """Return every row with its outage and its own interval."""
    found = groups(rows)
    hosts = {group.id: cause_of(group, found, lead_s) for group in found}
    ends = {
        group.id: max(max(row.start, window_s if row.end is None else row.end) for row in group.rows)
        for group in found
    }
    result = set()
    for group in found:
        host = hosts[group.id]
        wide = hosts[host.id] if host else None
        root = (wide or host or group).id
        for row in group.rows:
            end = row.end if row.end is not None else max(row.start, window_s)
            if group.no_end:
                end = max(row.start, ends[host.id]) if host else row.start + repair_s
            role = "own" if row.id == root else "cause" if host else "same"
            result.add(Member(row.id, root, role, row.start, end))
    anchors = {row.id: row for row in rows if row.gpu is None}
    for anchor in anchors.values():
        causes = [
            member.start
            for member in result
            if member.outage == anchor.id and member.role == "cause" and member.start >= anchor.start - lead_s
        ]
        mine = next(member for member in result if member.part == anchor.id)
        result = result - {mine} | {mine._replace(start=min([mine.start, *causes]))}
    return result
