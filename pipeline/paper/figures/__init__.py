"""Figures of the paper's page, ours beside the published points: one module each, discovered by folder.

A figure has a docstring whose first line is the question it answers; TITLE; ORDER on the page;
`frame(context)`, what it draws as a polars frame, made by the same functions as the rows; `chart(frame)`;
`summary(frame)`, one sentence. Published points stand in the frame as rows whose `origin` is `published`.
"""

from __future__ import annotations

from types import ModuleType

from pipeline import discovery

OURS, PUBLISHED = "ours", "published"


def names() -> list[str]:
    """Return the names of all figures, in page order."""
    return sorted(discovery.names(__path__), key=lambda name: (load(name).ORDER, name))


def load(name: str) -> ModuleType:
    """Return the module of a figure; raise InputError for an unknown name, TypeError for a broken module."""
    module = discovery.module(__name__, "figure", name, __path__)
    missing = [
        word
        for word in ("__doc__", "TITLE", "ORDER", "frame", "chart", "summary")
        if not getattr(module, word, None)
    ]
    if missing:
        message = f"figure {name!r} of the paper lacks {', '.join(missing)}"
        raise TypeError(message)
    return module
