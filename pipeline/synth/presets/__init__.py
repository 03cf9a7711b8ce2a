"""The presets of failure rates, found by folder: one module a preset, `<name>.py` with `_` for `-`.

A module holds a docstring (its first line is what `goodput presets` prints) and `PRESET`. There is no
registry; a module that breaks the contract is named, with what it lacks.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path

from pipeline.errors import InputError, listed, nearest
from pipeline.synth.contract import Preset, problem


def names() -> list[str]:
    """Return the names of all presets, sorted."""
    stems = (module.name for module in pkgutil.iter_modules(__path__))
    return sorted(stem.replace("_", "-") for stem in stems if not stem.startswith("_"))


def descriptions() -> dict[str, str]:
    """Return name -> first line of the docstring."""
    return {name: _first_line(module_file(name)) for name in names()}


def module_file(name: str) -> Path:
    """Return the file of a preset; raise InputError when there is no such preset."""
    stem = name.replace("-", "_")
    for folder in __path__:
        path = Path(folder) / f"{stem}.py"
        if name in names() and path.is_file():
            return path
    hint = nearest(name, names()) or "`goodput presets` lists them"
    raise InputError(f"preset {name!r}", "unknown", f"one of {listed(names())}", hint)


def load(name: str) -> Preset:
    """Return a preset; raise InputError when it is unknown or breaks the contract."""
    path = module_file(name)
    module = importlib.import_module(f"{__name__}.{path.stem}")
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


def _first_line(path: Path) -> str:
    docstring = ast.get_docstring(ast.parse(path.read_bytes())) or ""
    return docstring.split("\n", 1)[0]
