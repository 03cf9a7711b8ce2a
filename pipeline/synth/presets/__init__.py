"""The presets of failure rates, found by folder: one module a preset, `<name>.py` with `_` for `-`.

A module holds a docstring (its first line is what `goodput presets` prints) and `PRESET`. There is no
registry; a module that breaks the contract is named, with what it lacks.
"""

from __future__ import annotations

from pathlib import Path

from pipeline import discovery
from pipeline.errors import InputError
from pipeline.synth.contract import Preset, problem


def names() -> list[str]:
    """Return the names of all presets, sorted."""
    return discovery.names(__path__)


def descriptions() -> dict[str, str]:
    """Return name -> first line of the docstring, without importing the modules."""
    return discovery.descriptions("preset", __path__)


def module_file(name: str) -> Path:
    """Return the file of a preset; raise InputError when there is no such preset."""
    return discovery.module_file("preset", name, __path__)


def load(name: str) -> Preset:
    """Return a preset; raise InputError when it is unknown or breaks the contract."""
    path = module_file(name)
    module = discovery.module(__name__, "preset", name, __path__)
    preset = getattr(module, "PRESET", None)
    if not (module.__doc__ or "").strip():
        found = "no docstring"
    elif not isinstance(preset, Preset):
        found = "PRESET is missing or not a Preset"
    else:
        found = problem(preset)
        if not found:
            return preset
    raise InputError(f"preset {name!r} ({path.name})", found, "a module as `presets/__init__.py` says")
