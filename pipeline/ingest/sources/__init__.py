"""The log formats, found by folder: one module a format, `<name>.py` with `_` for the `-` of the name.

A module holds a docstring (its first line is what `goodput sources` prints), `VERSION`, `TITLE`, `LICENSE`,
`HOMEPAGE`, `PUBLIC` (file name -> PublicFile; empty without a public file), `read(data, file, options)` and,
when its times are days since a start, `DAY_0`. There is no registry; a module that breaks this contract is
named, with what it lacks.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from types import ModuleType

from pipeline import discovery
from pipeline.errors import InputError

_TEXTS = ("VERSION", "TITLE", "LICENSE", "HOMEPAGE")


def names() -> list[str]:
    """Return the names of all sources, sorted."""
    return discovery.names(__path__)


def descriptions() -> dict[str, str]:
    """Return name -> first line of the docstring, without importing the modules."""
    return discovery.descriptions("source", __path__)


def module_file(name: str) -> Path:
    """Return the file of a source; raise InputError when there is no such source."""
    return discovery.module_file("source", name, __path__)


def load(name: str) -> ModuleType:
    """Return a source's module; raise InputError when it is unknown or breaks the contract."""
    path = module_file(name)
    module = discovery.module(__name__, "source", name, __path__)
    problem = _problem(module)
    if problem:
        raise InputError(f"source {name!r} ({path.name})", problem, "a module as `sources/__init__.py` says")
    return module


def _problem(module: ModuleType) -> str:
    from pipeline.ingest.parsing import PublicFile

    if not (module.__doc__ or "").strip():
        return "no docstring"
    for constant in _TEXTS:
        if not isinstance(getattr(module, constant, None), str):
            return f"{constant} is missing or not text"
    if not module.VERSION:
        return "VERSION is empty"
    public = getattr(module, "PUBLIC", None)
    if not isinstance(public, dict) or not all(isinstance(item, PublicFile) for item in public.values()):
        return "PUBLIC is missing or not file name -> PublicFile"
    if not callable(getattr(module, "read", None)):
        return "no function read(data, file, options)"
    day_0 = getattr(module, "DAY_0", None)
    if day_0 is not None and not (isinstance(day_0, datetime) and day_0.tzinfo is not None):
        return "DAY_0 is not an instant with a zone"
    return ""
