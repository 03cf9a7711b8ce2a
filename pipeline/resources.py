"""Where the shipped queries, scenarios and samples are: the wheel's own copy, else the checkout's.

The wheel carries `queries/`, `data/scenarios/`, `data/samples/`, `data/batch/` and `data/paper/` under
`pipeline/_share`, so the command runs outside a checkout.
"""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_CHECKOUT = {
    "queries": "queries",
    "scenarios": "data/scenarios",
    "samples": "data/samples",
    "batch": "data/batch",
    "paper": "data/paper",
}


def folder(name: str) -> Path:
    """Return the folder of shipped `queries`, `scenarios`, `samples`, `batch` or `paper` files.

    Raise FileNotFoundError when neither the wheel's nor the checkout's copy exists.
    """
    for candidate in (_PACKAGE / "_share" / name, _PACKAGE.parent / _CHECKOUT[name]):
        if candidate.is_dir():
            return candidate
    message = f"the shipped folder {name!r} is missing from this installation"
    raise FileNotFoundError(message)
