"""Figures: one module each, discovered by folder.

A figure has a docstring whose first line is the question it answers; TITLE; ORDER on the page; QUERY (SQL
over the catalog, with `$scenario`); `chart(frame)`, an Altair chart with no local time in it;
`summary(frame)`, one sentence with the main number, which stands above the chart and is its alternative
text. It computes no metric.
"""

from __future__ import annotations

import inspect
from functools import cache
from types import ModuleType

from pipeline import discovery


def names() -> list[str]:
    """Return the names of all figures, in page order."""
    return sorted(discovery.names(__path__), key=lambda name: (load(name).ORDER, name))


@cache
def load(name: str) -> ModuleType:
    """Return the module of a figure; raise InputError for an unknown name, TypeError for a broken module."""
    module = discovery.module(__name__, "figure", name, __path__)
    check(name, module)
    return module


def question(name: str) -> str:
    """Return the question a figure answers."""
    return (load(name).__doc__ or "").strip().splitlines()[0]


def check(name: str, module: ModuleType) -> None:
    """Raise TypeError, naming all that is wrong, when a module is not a figure."""
    problems = []
    first = (module.__doc__ or "").strip().split("\n")[0]
    if not first.endswith("?"):
        problems.append("the docstring's first line is no question")
    texts = {word: getattr(module, word, None) for word in ("TITLE", "QUERY")}
    problems += [
        f"no text {word}" for word, text in texts.items() if not (isinstance(text, str) and text.strip())
    ]
    if "$scenario" not in str(getattr(module, "QUERY", "")):
        problems.append("QUERY does not name $scenario")
    order = getattr(module, "ORDER", None)
    if not isinstance(order, int) or isinstance(order, bool):
        problems.append("ORDER is not a whole number")
    for function in ("chart", "summary"):
        found = getattr(module, function, None)
        if not inspect.isfunction(found) or list(inspect.signature(found).parameters) != ["frame"]:
            problems.append(f"no function {function}(frame)")
    if problems:
        message = f"figure {name!r} breaks the contract of report/figures: {'; '.join(problems)}"
        raise TypeError(message)
