"""Responses: what a replica with failures does. One module each; discovered by folder."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from types import ModuleType

from pipeline.config import BATCHES
from pipeline.errors import InputError, listed, nearest


def names() -> list[str]:
    """Return the names of all responses."""
    return sorted(info.name.replace("_", "-") for info in pkgutil.iter_modules(__path__))


@cache
def load(name: str) -> ModuleType:
    """Return a response's module; raise InputError when it is unknown, TypeError when it is broken."""
    if name not in names():
        raise InputError(f"response {name!r}", "unknown", f"one of {listed(names())}", nearest(name, names()))
    module = importlib.import_module(f"{__name__}.{name.replace('-', '_')}")
    _check(name, module)
    return module


def _check(name: str, module: ModuleType) -> None:
    problems = []
    if not (module.__doc__ or "").strip():
        problems.append("no docstring")
    if not isinstance(getattr(module, "USES_REDUCED", None), bool):
        problems.append("USES_REDUCED is not a bool")
    batches = getattr(module, "BATCHES", None)
    if not isinstance(batches, tuple) or not batches or not set(batches) <= set(BATCHES):
        problems.append(f"BATCHES is not a tuple out of {listed(BATCHES)}")
    work = getattr(module, "work", None)
    if not inspect.isfunction(work) or list(inspect.signature(work).parameters) != ["replica"]:
        problems.append("no function work(replica)")
    if problems:
        message = f"response {name!r} breaks the contract of replay/contract.py: {'; '.join(problems)}"
        raise TypeError(message)
