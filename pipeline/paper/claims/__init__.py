"""The claims, found by folder: one module a topic, with a docstring and `rows(context) -> list[Row]`.

There is no registry; a module that breaks the contract is named, with what it lacks.
"""

from __future__ import annotations

from pipeline import discovery
from pipeline.errors import InputError
from pipeline.paper.rows import Context, Row


def names() -> list[str]:
    """Return the names of all topics, sorted."""
    return discovery.names(__path__)


def descriptions() -> dict[str, str]:
    """Return name -> first line of the docstring, without importing the modules."""
    return discovery.descriptions("topic", __path__)


def rows(name: str, context: Context) -> list[Row]:
    """Return the rows of a topic; raise InputError when it is unknown or breaks the contract."""
    module = discovery.module(__name__, "topic", name, __path__)
    path = discovery.module_file("topic", name, __path__)
    make = getattr(module, "rows", None)
    if not (module.__doc__ or "").strip():
        found = "no docstring"
    elif not callable(make):
        found = "no function rows(context)"
    else:
        made = make(context)
        if isinstance(made, list) and made and all(isinstance(row, Row) for row in made):
            return made
        found = "rows(context) returned no list of Row"
    raise InputError(f"topic {name!r} ({path.name})", found, "a module as `claims/__init__.py` says")
