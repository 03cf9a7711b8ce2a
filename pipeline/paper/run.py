"""The claims and figures -> `reports/paper/index.html`, `paper.json` and the verdicts.

In: published numbers beside the code that recomputes them, the public traces that can be had. Out: the page,
the rows as JSON, and as facts what the command prints. It is built again when its code, a number of seeds, a
scenario of data/paper or a trace has changed; it reads no clock.
Easy to get wrong: a row that could not be computed is `not run` and fails nothing, but is told; `outside`
does fail.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline import resources
from pipeline.errors import PipelineError
from pipeline.lake import stages
from pipeline.lake.store import Lake, Record, sha256_of, write_bytes
from pipeline.paper import claims
from pipeline.paper.rows import Context, Row, Verdict
from pipeline.report.run import copy_outputs

STAGE = "paper"
PAGE, NUMBERS = "index.html", "paper.json"
SEEDS = 200
_TRACES = ("infinitehbd",)
_CODE = ("paper", "perf", "replay/responses", "synth/presets")
_PACKAGES = ("duckdb", "numpy", "polars", "altair", "vl-convert-python", "jinja2")


def stage(
    lake: Lake,
    seeds: int,
    log: stages.Log,
    copy_to: Path | None = None,
    traces: Mapping[str, Path] | None = None,
) -> tuple[Record, bool]:
    """Recompute all rows and draw the page; return the record and whether anything ran.

    `traces` are public logs by source; left out, those that can be fetched.
    """
    found = fetched(lake, log) if traces is None else traces
    scenarios = sorted(resources.folder("paper").glob("*.toml"))
    inputs = {
        "seeds": seeds,
        "scenarios": {path.name: path.read_text(encoding="utf-8") for path in scenarios},
        "traces": {name: sha256_of(path) for name, path in found.items()},
    }

    def build(_: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        return _build(lake, Context(root=lake.path(STAGE), seeds=seeds, traces=found), log)

    record, ran = stages.run(
        lake, STAGE, "paper", inputs=inputs, code=_code(), build=build, log=log, seed=f"0 to {seeds - 1}"
    )
    if copy_to is not None:
        copy_outputs(lake, record, copy_to / STAGE)
    return record, ran


def fetched(lake: Lake, log: stages.Log) -> dict[str, Path]:
    """Return the public traces that claims use; one that cannot be had is told and left out."""
    from pipeline.ingest.fetch import fetch

    found = {}
    for source in _TRACES:
        try:
            found[source] = fetch(lake, source, None, log=log)
        except (PipelineError, OSError) as error:
            log(f"{source}: left out ({str(error).splitlines()[0]})")
    return found


def told(row: Row) -> dict[str, Any]:
    """Return a row as plain values."""
    return {
        "name": row.name,
        "source": row.source,
        "published": row.published,
        "printed": row.printed,
        "unit": row.unit,
        "ours": row.ours,
        "low": row.low,
        "high": row.high,
        "tolerance": row.tolerance,
        "distance": row.distance,
        "verdict": row.verdict.value,
        "reason": row.reason,
        "explanation": row.explanation,
        "how": row.how,
    }


def lines(topics: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """Return the verdicts as plain lines: those that need a reader first, then the counts."""
    rows = [row for found in topics.values() for row in found]
    counts = Counter(row["verdict"] for row in rows)
    telling = [row for row in rows if row["verdict"] in {Verdict.OUTSIDE, Verdict.EXPLAINED}]
    width = max((len(row["name"]) for row in telling), default=0)
    plain = [
        f"{row['verdict']:<9}  {row['name']:<{width}}  published {row['printed']}, ours {row['ours']:.4g} "
        f"{row['unit']}"
        for row in sorted(telling, key=lambda row: row["verdict"] != Verdict.OUTSIDE)
    ]
    return [*plain, ", ".join(f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict])]


def _build(lake: Lake, context: Context, log: stages.Log) -> tuple[dict[str, Path], dict[str, Any]]:
    from pipeline.paper import page

    topics: dict[str, list[dict[str, Any]]] = {}
    for name in claims.names():
        log(f"paper: {name}")
        topics[name] = [told(row) for row in claims.rows(name, context)]
    folder = lake.path("reports", STAGE)
    contents = {
        PAGE: page.html(topics, context),
        NUMBERS: json.dumps({"seeds": context.seeds, "topics": topics}, indent=1) + "\n",
    }
    for name, content in contents.items():
        write_bytes(folder / name, content.encode())
    outside = [row["name"] for found in topics.values() for row in found if row["verdict"] == Verdict.OUTSIDE]
    counts = Counter(row["verdict"] for found in topics.values() for row in found)
    facts = {"lines": lines(topics), "outside": outside, "counts": dict(counts)}
    return {name: folder / name for name in contents}, facts


def _code() -> str:
    report = stages.PACKAGE / "report"
    templates = [*report.glob("*.j2"), *Path(__file__).parent.glob("*.j2")]
    digest = hashlib.sha256(stages.code_version(*_CODE, packages=_PACKAGES).encode())
    for path in sorted(templates):
        digest.update(path.read_bytes())
    return digest.hexdigest()
