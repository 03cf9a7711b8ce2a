"""Small pieces of Markdown, and the units that names end in."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Longest first: `_gpu_h_per_day` also ends in `_per_day`.
_UNITS = {
    "_gpu_h_per_day": "GPU-hours a day", "per_1000_node_d": "per 1,000 node-days", "_per_day": "per day",
    "_gpu_h": "GPU-hours", "_kwh": "kWh", "_frac": "share", "_bytes": "bytes", "_us": "µs", "_s": "s",
    "_h": "h", "_d": "d", "_w": "W",
}  # fmt: skip


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a Markdown table."""
    lines = [list(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def code(words: Iterable[object]) -> str:
    """Return words as one list of code."""
    return ", ".join(f"`{word}`" for word in words)


def described(name: str, docstring: str, more: str = "") -> str:
    """Return a section for a piece: its docstring, whose first line is its title, and what else there is."""
    first, _, rest = inspect.cleandoc(docstring).partition("\n")
    return "\n\n".join(part for part in (f"### {name}", first, rest.strip(), more) if part)


def unit(name: str) -> str:
    """Return the unit that a name's suffix stands for, or an empty text."""
    return next((words for suffix, words in _UNITS.items() if name.endswith(suffix)), "")


def link(path: Path, words: str = "") -> str:
    """Return a link from a README one folder below the root."""
    place = path.resolve().relative_to(ROOT).as_posix()
    return f"[{f'`{words}`' if words else place}](../{place})"


def anchor(heading: str) -> str:
    """Return the anchor that a Markdown page gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
