"""What a topology is, and how it fits a cluster's sizes.

In: the nodes of each domain as a file states them; gpus_per_node and domain_size. Out: the domains of
exactly `domain_size` GPUs in the file's order, and those of another size, refused or left out.
Easy to get wrong: the size that counts is that of the whole domain, spare nodes included; a domain whose
nodes have the right sum but not gpus_per_node each does not fit either: GPUs are numbered by node.
Source: model.md section 3.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.errors import InputError

REFUSE, DROP = "refuse", "drop"
UNEVEN = (REFUSE, DROP)
_SHOWN = 5  # names in a message


class Row(NamedTuple):
    """A node, where it stands in the file, its domain, and its GPUs if the file says."""

    place: str
    node: str
    domain: str
    gpus: int | None = None


@dataclass(frozen=True)
class Topology:
    """The nodes of each domain, both in the file's order."""

    file: str
    domains: dict[str, list[Row]]

    @property
    def nodes(self) -> list[str]:
        """All nodes, domain by domain."""
        return [row.node for rows in self.domains.values() for row in rows]

    @property
    def sha256(self) -> str:
        """Hash of what the file says: format, comments and spacing do not count."""
        plain = [[name, [row[1:] for row in rows]] for name, rows in self.domains.items()]
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()


@dataclass(frozen=True)
class Layout:
    """What a scenario knows of its topology before any stage runs."""

    sha256: str
    domains: int


@dataclass(frozen=True)
class Fitted:
    """The nodes of the domains of exactly `domain_size` GPUs, and of those that are left out."""

    kept: dict[str, list[Row]]
    dropped: dict[str, list[Row]]

    @property
    def domains(self) -> dict[str, list[Row]]:
        """All domains, kept or not."""
        return {**self.kept, **self.dropped}

    def renamed(self, names: Sequence[str]) -> Fitted:
        """Return the same places with other names of nodes, those of the kept domains first."""
        own = iter(names)
        fresh = {
            domain: [row._replace(node=next(own)) for row in rows] for domain, rows in self.domains.items()
        }
        return Fitted({name: fresh[name] for name in self.kept}, {name: fresh[name] for name in self.dropped})


def fit(topology: Topology, gpus_per_node: int, domain_size: int, uneven: str, where: str) -> Fitted:
    """Return the domains of the stated size; refuse or drop (`uneven`) those of another size."""
    kept: dict[str, list[Row]] = {}
    dropped: dict[str, list[Row]] = {}
    misfits: dict[str, str] = {}
    totals: set[int] = set()
    for name, rows in topology.domains.items():
        gpus = [gpus_per_node if row.gpus is None else row.gpus for row in rows]
        odd = [f"{row.node} has {own}" for row, own in zip(rows, gpus, strict=True) if own != gpus_per_node]
        if sum(gpus) == domain_size and not odd:
            kept[name] = rows
            continue
        dropped[name] = rows
        misfits[name] = f"{name} ({sum(gpus)} GPUs{', ' if odd else ''}{few(odd)})"
        totals.add(0 if odd else sum(gpus))
    if kept and (uneven == DROP or not dropped):
        return Fitted(kept, dropped)
    told = few(list(misfits.values()))
    found = f"{len(dropped)} of {len(topology.domains)} domains in {topology.file} do not fit: {told}"
    expected = f"{domain_size} GPUs (domain_size) in each, {gpus_per_node} (gpus_per_node) in each node"
    if kept:
        hint = 'mend the file, or uneven_domains = "drop" leaves such domains out'
    elif len(totals) == 1 and 0 not in totals:
        hint = f"domain_size = {totals.pop()} fits all of them"
    else:
        hint = "state domain_size and gpus_per_node as they are"
    raise InputError(where, found, expected, hint)


def outside(
    named: Sequence[str], topology: Mapping[str, Sequence[Row]], domains: Collection[str], where: str
) -> list[str]:
    """Return the nodes of a log that a topology lacks; `domains` are the domains that the log names.

    Raise InputError when the log and the topology have no name in common.
    """
    known = {row.node for rows in topology.values() for row in rows}
    others = [name for name in named if name not in known]
    if named and len(others) == len(named) and not topology.keys() & set(domains):
        found = f"none of the log's {len(named)} nodes ({few(named)}) is in the topology"
        expected = f"the log's own names; the topology has {few(sorted(known))}"
        raise InputError(where, found, expected, "name nodes alike in both (short or full host names?)")
    return others


def few(texts: Sequence[str]) -> str:
    """Return the first texts as one, and how many more there are."""
    return ", ".join(texts[:_SHOWN]) + (f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else "")
