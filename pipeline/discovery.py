"""Pieces found by folder: one module a piece, its name the file's stem with - for _; no registry to edit.

Sources, presets, responses and figures are found alike. What a module must hold is its folder's own
contract, checked where it is loaded. Looking at a docstring imports nothing.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

from pipeline.errors import InputError, listed, nearest


def names(folders: Iterable[str]) -> list[str]:
    """Return the names of all pieces in a package's folders, sorted; stems with a leading _ are helpers."""
    stems = (module.name for module in pkgutil.iter_modules(folders))
    return sorted(stem.replace("_", "-") for stem in stems if not stem.startswith("_"))


def module_file(kind: str, name: str, folders: Iterable[str]) -> Path:
    """Return the file of a piece; raise InputError, with the nearest name, when there is none."""
    known = names(folders)
    if name in known:
        stem = name.replace("-", "_")
        for folder in folders:
            for path in (Path(folder) / f"{stem}.py", Path(folder) / stem / "__init__.py"):
                if path.is_file():
                    return path
    hint = nearest(name, known) or f"`goodput {_LISTED.get(kind, kind + 's')}` lists them"
    raise InputError(f"{kind} {name!r}", "unknown", f"one of {listed(known)}", hint)


_LISTED = {"response": "policies"}


def module(package: str, kind: str, name: str, folders: Iterable[str]) -> ModuleType:
    """Import the module of a piece."""
    return importlib.import_module(f"{package}.{module_file(kind, name, folders).stem}")


def descriptions(kind: str, folders: Iterable[str]) -> dict[str, str]:
    """Return name -> first line of the docstring."""
    found = {}
    for name in names(folders):
        docstring = ast.get_docstring(ast.parse(module_file(kind, name, folders).read_bytes())) or ""
        found[name] = docstring.split("\n", 1)[0]
    return found
