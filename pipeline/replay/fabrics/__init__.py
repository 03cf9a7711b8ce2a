"""Fabrics: which GPUs of the pool can form a TP group. One module each; discovered by folder.

A fabric is a module with a docstring and

    CROSSES: bool                   may a TP group span several whole domains?
    PACKINGS: tuple[str, ...]       the packings it can be used with
    cut_off(down, domains, each, k_hop) -> CutOff
                                    which whole domains find no group; left out: none, any can join any

A TP group within one domain is the same in every fabric. Where a group spans `each` domains, a domain is the
unit that fails: it takes part whole or not at all, so a scenario names as its domain what the fabric's links
join (a cube, a node), and no group runs at a reduced degree.
"""

from __future__ import annotations

import inspect
from functools import cache
from types import ModuleType

from pipeline import discovery
from pipeline.config import Scenario
from pipeline.errors import InputError, listed
from pipeline.replay import responses


def names() -> list[str]:
    """Return the names of all fabrics, sorted."""
    return discovery.names(__path__)


def descriptions() -> dict[str, str]:
    """Return name -> first line of the docstring."""
    return discovery.descriptions("fabric", __path__)


@cache
def load(name: str) -> ModuleType:
    """Return a fabric's module; raise InputError when it is unknown, TypeError when it is broken."""
    module = discovery.module(__name__, "fabric", name, __path__)
    problems = [] if (module.__doc__ or "").strip() else ["no docstring"]
    if not isinstance(getattr(module, "CROSSES", None), bool):
        problems.append("CROSSES is not a bool")
    if not isinstance(getattr(module, "PACKINGS", None), tuple):
        problems.append("PACKINGS is not a tuple")
    cut_off = getattr(module, "cut_off", None)
    wanted = ["down", "domains", "each", "k_hop"]
    if cut_off is not None and list(inspect.signature(cut_off).parameters) != wanted:
        problems.append(f"cut_off is no function cut_off({', '.join(wanted)})")
    if problems:
        message = f"fabric {name!r} breaks the contract of replay/fabrics: {'; '.join(problems)}"
        raise TypeError(message)
    return module


def check(scenario: Scenario) -> None:
    """Raise InputError when the scenario's fabric is unknown or cannot form its groups."""
    where, cluster, tp = scenario.path.name, scenario.cluster, scenario.job.tp
    name, size = cluster.fabric, cluster.domain_size
    try:
        module = load(name)
    except InputError as error:
        raise InputError(
            f"{where} [cluster] fabric", f"{name!r} is unknown", error.expected, error.hint
        ) from None
    if tp <= size:
        return
    if not module.CROSSES:
        expected = f"at most domain_size ({size}): in fabric {name} a TP group never crosses a domain"
        raise InputError(f"{where} [job] tp", f"TP {tp} in domains of {size} GPUs", expected)
    for index, policy in enumerate(scenario.policies, 1):
        place, group = f"{where} [policy {index}]", f"TP groups of {tp // size} domains"
        if responses.load(policy.response).USES_REDUCED:
            expected = "a response whose groups have the full TP degree"
            raise InputError(f"{place} response", f"{policy.response!r} with {group}", expected)
        if policy.packing not in module.PACKINGS:
            expected = f"{listed(module.PACKINGS)} with fabric {name}"
            raise InputError(f"{place} packing", f"{policy.packing!r} with {group}", expected)
