"""Responses: what a replica with failures does. One module each; discovered by folder."""

from __future__ import annotations

import inspect
from functools import cache
from types import ModuleType

from pipeline import discovery
from pipeline.config import BATCHES
from pipeline.errors import listed


def names() -> list[str]:
    """Return the names of all responses, sorted."""
    return discovery.names(__path__)


@cache
def load(name: str) -> ModuleType:
    """Return a response's module; raise InputError when it is unknown, TypeError when it is broken."""
    module = discovery.module(__name__, "response", name, __path__)
    _check(name, module)
    return module


def _check(name: str, module: ModuleType) -> None:
    problems = []
    if not (module.__doc__ or "").strip():
        problems.append("no docstring")
    problems += [
        f"{flag} is not a bool"
        for flag in ("USES_REDUCED", "USES_POWER")
        if not isinstance(getattr(module, flag, None), bool)
    ]
    batches = getattr(module, "BATCHES", None)
    if not isinstance(batches, tuple) or not batches or not set(batches) <= set(BATCHES):
        problems.append(f"BATCHES is not a tuple out of {listed(BATCHES)}")
    work = getattr(module, "work", None)
    if not inspect.isfunction(work) or list(inspect.signature(work).parameters) != ["replica"]:
        problems.append("no function work(replica)")
    problems += [
        f"{flag} is not a bool"
        for flag in ("USES_PARTIAL", "USES_TEMPLATES")
        if not isinstance(getattr(module, flag, False), bool)
    ]
    together = getattr(module, "together", None)
    if together is not None and (
        not inspect.isfunction(together) or list(inspect.signature(together).parameters) != ["replicas"]
    ):
        problems.append("together is no function together(replicas)")
    if problems:
        message = f"response {name!r} breaks the contract of replay/contract.py: {'; '.join(problems)}"
        raise TypeError(message)
