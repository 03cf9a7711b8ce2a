"""Presets of GPUs and models: one TOML file each, found by folder, every number with its source beside it."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from pipeline.errors import InputError, listed, nearest
from pipeline.perf.hardware import Gpu
from pipeline.perf.models import ModelShape

_FOLDER = Path(__file__).resolve().parent


def gpus() -> list[str]:
    """Return the names of all GPUs, sorted."""
    return _names("gpus")


def models() -> list[str]:
    """Return the names of all models, sorted."""
    return _names("models")


def gpu(name: str) -> Gpu:
    """Return a GPU; raise InputError when there is no such preset."""
    return Gpu(name=name, **gpu_values(name))


def model(name: str) -> ModelShape:
    """Return a model; raise InputError when there is no such preset."""
    return ModelShape(**model_values(name))


def gpu_values(name: str) -> dict[str, Any]:
    """Return the numbers of a GPU, apart from its name."""
    return {key: value for key, value in _read("gpus", name).items() if key != "about"}


def model_values(name: str) -> dict[str, Any]:
    """Return the numbers of a model."""
    return {key: value for key, value in _read("models", name).items() if key != "about"}


def about(kind: str, name: str) -> str:
    """Return one line about a preset of the kind `gpus` or `models`."""
    text: str = _read(kind, name)["about"]
    return text


def _names(kind: str) -> list[str]:
    return sorted(path.stem for path in (_FOLDER / kind).glob("*.toml"))


@cache
def _read(kind: str, name: str) -> dict[str, Any]:
    known = _names(kind)
    if name not in known:
        where = f"[{kind.removesuffix('s')}] preset {name!r}"
        raise InputError(where, "unknown", f"one of {listed(known)}", nearest(name, known))
    return tomllib.loads((_FOLDER / kind / f"{name}.toml").read_text(encoding="utf-8"))
