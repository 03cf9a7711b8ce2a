"""The page of the proof: rows with their verdicts, figures beside published points, the code of each number.

In: the rows of all topics and the context they were made in. Out: one self-contained HTML file.
"""

from __future__ import annotations

import importlib
import inspect
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import resources
from pipeline.paper import claims, figures
from pipeline.paper.rows import Context, Verdict
from pipeline.report import page, templating
from pipeline.report.theme import DASH, MINUS

_TEMPLATE = "paper.html.j2"
_WORDS = ("GPU-hours", "dp-drop", "ntp-pw", "NTP-PW", "DP-DROP")
ABOUT = {
    Verdict.MEETS: "ours lies within the tolerance",
    Verdict.OUTSIDE: "ours lies beyond it, and nobody knows why",
    Verdict.EXPLAINED: "ours lies beyond it, for the reason given",
    Verdict.UNKNOWN: "the published value could not be read; ours stands alone",
    Verdict.NOT_RUN: "not computed here, for the reason given",
}


def html(topics: Mapping[str, Sequence[Mapping[str, Any]]], context: Context) -> str:
    """Return the page."""
    rows = [row for found in topics.values() for row in found]
    counts = Counter(row["verdict"] for row in rows)
    questions = claims.descriptions()
    values = {
        "seeds": context.seeds,
        "total": len(rows),
        "counts": [
            (verdict.value, counts[verdict], ABOUT[verdict]) for verdict in Verdict if counts[verdict]
        ],
        "topics": [
            {
                "name": name,
                "title": questions[name].rstrip("."),
                "known": [_shown(row) for row in found if row["printed"]],
                "unread": [_shown(row) for row in found if not row["printed"]],
            }
            for name, found in topics.items()
        ],
        "figures": [_drawn(name, context) for name in figures.names()],
        "made_by": {how: source(how) for how in sorted({row["how"].split()[0] for row in rows})},
        "scenarios": [
            (path.name, path.read_text(encoding="utf-8"))
            for path in sorted(resources.folder("paper").glob("*.toml"))
        ],
    }
    return templating.render(_TEMPLATE, values, _WORDS, Path(__file__).parent)


def source(how: str) -> str:
    """Return the code of a dotted name, or the text of a query; raise LookupError when there is none."""
    if how.endswith(".sql"):
        return (resources.folder("queries").parent / how).read_text(encoding="utf-8").strip()
    parts = how.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return inspect.getsource(inspect.unwrap(found)).strip()
    raise LookupError(how)


def number(value: float | None) -> str:
    """Return a number in four significant digits; an absent one as a dash."""
    if value is None:
        return DASH
    text = f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:,.4g}"
    return text.replace("-", MINUS)


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as the template needs it."""
    interval = "" if row["low"] is None else f"{number(row['low'])} to {number(row['high'])}"
    return {
        **row,
        "printed": row["printed"].replace("-", MINUS) or DASH,
        "ours": number(row["ours"]),
        "interval": interval,
        "tolerance": number(row["tolerance"]) if row["published"] is not None else DASH,
        "tone": row["verdict"].replace(" ", "-"),
        "how": row["how"].split()[0],
    }


def _drawn(name: str, context: Context) -> dict[str, Any]:
    module = figures.load(name)
    frame = module.frame(context)
    doc = (module.__doc__ or "").strip()
    return {
        "name": name,
        "title": module.TITLE,
        "question": doc.splitlines()[0],
        "about": " ".join(doc.split("\n\n", 1)[-1].split()),
        "summary": module.summary(frame),
        "made_by": "Code",
        "spec": templating.script(page.spec_of(module.chart(frame))),
        "columns": templating.script([page.column(column) for column in frame.columns]),
        "sql": [
            (f"pipeline/paper/figures/{Path(module.__file__ or '').name}", inspect.getsource(module.frame))
        ],
    }
