"""The page: queries -> one self-contained HTML file.

In: a connection with the catalog's views and macros, the scenario, the records it was built from. Out: HTML
that asks nothing of a network: styles, data, the chart library and the charts are inside. It reads no clock
and names no folder, so the same records give the same bytes. It computes no metric: every number is from
a query.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pipeline.config import Scenario
from pipeline.lake import catalog, sql
from pipeline.lake.store import Record
from pipeline.report import answer, assumptions, figures, templating, theme
from pipeline.schema import BUCKET_MEANING

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_SUFFIXES = (
    ("_gpu_h_per_day", "GPU-hours a day", "number"),
    ("_gpu_h", "GPU-hours", "number"),
    ("_frac", "%", "percent"),
    ("_h", "h", "number"),
)
_COLUMN_WORDS = {"t_start": "from", "t_end": "to", "dp": "replicas (DP)", "batch": "batch rule"}


@dataclass(frozen=True)
class Drawn:
    """A figure on this page's data."""

    name: str
    module: ModuleType
    frame: pl.DataFrame
    spec: dict[str, Any]

    @property
    def summary(self) -> str:
        """The sentence above the chart."""
        text: str = self.module.summary(self.frame)
        return text


def frame(con: duckdb.DuckDBPyConnection, query: str, scenario: str) -> pl.DataFrame:
    """Return the result of a query that names `$scenario`."""
    quoted = "'" + scenario.replace("'", "''") + "'"
    found: pl.DataFrame = con.sql(query.replace("$scenario", quoted)).pl()
    return found


def rows(con: duckdb.DuckDBPyConnection, macro: str, scenario: str) -> list[dict[str, Any]]:
    """Return the rows of a macro for a scenario."""
    return frame(con, f"from {macro}($scenario)", scenario).to_dicts()


def draw(con: duckdb.DuckDBPyConnection, scenario: str) -> list[Drawn]:
    """Return the figures that have data, in page order."""
    drawn = []
    for name in figures.names():
        module = figures.load(name)
        found = frame(con, module.QUERY, scenario)
        if not found.is_empty():
            drawn.append(Drawn(name, module, found, spec_of(module.chart(found))))
    return drawn


def spec_of(chart: Any) -> dict[str, Any]:
    """Return a chart as Vega-Lite without a configuration of its own, each panel in the export's width."""
    # Validation takes seconds; the tests do it.
    spec: dict[str, Any] = chart.to_dict(validate=False)
    spec.pop("config", None)
    for panel in spec.get("vconcat", [spec]):
        panel.setdefault("width", theme.WIDTH)
    return spec


def html(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, records: Sequence[Record], drawn: Sequence[Drawn]
) -> str:
    """Return the page."""
    kept_whole = ["GPU-hours", *(policy.name for policy in scenario.policies)]
    return templating.render("template.html.j2", context(con, scenario, records, drawn), kept_whole)


def context(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, records: Sequence[Record], drawn: Sequence[Drawn]
) -> dict[str, Any]:
    """Return all that the template shows."""
    name = scenario.name
    headline = rows(con, "headline", name)
    (window,) = rows(con, "scenario_window", name)
    (faults,) = rows(con, "app_faults", name)
    compared = rows(con, "side_by_side", name)
    ledger = rows(con, "best_ledger", name)
    quality = rows(con, "data_quality", name)
    return {
        "scenario": scenario,
        "window": window,
        "faults": faults,
        "about": about(records),
        "lead": answer.lead(headline),
        "cards": answer.cards(headline),
        "notes": [*answer.warnings(quality), *answer.notes(scenario, faults)],
        "compared": _grouped(compared, "batch"),
        "response_words": {
            row["response"]: answer.RESPONSE_WORDS.get(row["response"], "") for row in compared
        },
        "batch_words": theme.BATCH_WORDS,
        "colours": theme.policy_colours([row["policy"] for row in compared]),
        "ledger": ledger_table(ledger),
        "figures": [shown(item) for item in drawn],
        "quality": quality,
        "values": _grouped([vars(value) for value in assumptions.values(scenario)], "section"),
        "power_notes": answer.headroom(scenario, records),
        "preset_notes": [text for record in records for text in record.facts.get("assumptions", [])],
        "records": [provenance(record) for record in records],
        "files": _files(con),
        "seeds": ", ".join(map(str, scenario.cluster.placement_seeds)),
    }


def about(records: Sequence[Record]) -> dict[str, str]:
    """Return what the source says about itself: title, license, homepage."""
    facts: Mapping[str, Any] = next((record.facts for record in records if record.facts.get("title")), {})
    return {key: str(facts.get(key) or "") for key in ("title", "license", "homepage")}


def ledger_table(ledger: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the ledger as a table: a row a bucket, a column a policy at its best split."""
    columns = list(dict.fromkeys((row["batch"], row["policy"], row["spare_domains"]) for row in ledger))
    shares = {(row["batch"], row["policy"], row["bucket"]): row["share_frac"] for row in ledger}
    tones = theme.bucket_colours(BUCKET_MEANING)
    lines = [
        {
            "bucket": bucket,
            "meaning": meaning,
            "tone": tones[bucket],
            "shares": [shares.get((batch, policy, bucket)) for batch, policy, _ in columns],
        }
        for bucket, meaning in BUCKET_MEANING.items()
    ]
    return {"columns": columns, "rows": lines}


def shown(item: Drawn) -> dict[str, Any]:
    """Return a figure as the template needs it."""
    columns = [column(name) for name in item.frame.columns if not name.startswith("drawn_")]
    return {
        "name": item.name,
        "title": item.module.TITLE,
        "question": figures.question(item.name),
        "about": " ".join((item.module.__doc__ or "").strip().split("\n\n", 1)[-1].replace("`", "").split()),
        "summary": item.summary,
        "made_by": "SQL",
        "spec": templating.script(item.spec),
        "columns": templating.script(columns),
        "sql": queries_of(item.module.QUERY),
    }


def column(name: str) -> dict[str, str]:
    """Return a column's heading with its unit, and how its cells are written."""
    for suffix, unit, kind in _SUFFIXES:
        if name.endswith(suffix):
            return {
                "name": name,
                "title": f"{name.removesuffix(suffix).replace('_', ' ')} ({unit})",
                "kind": kind,
            }
    if name in {"t_start", "t_end"}:
        return {"name": name, "title": f"{_COLUMN_WORDS[name]} (UTC)", "kind": "time"}
    return {"name": name, "title": _COLUMN_WORDS.get(name, name.replace("_", " ")), "kind": "plain"}


def queries_of(query: str) -> list[tuple[str, str]]:
    """Return the figure's own query and the files of `queries/` it reads first-hand."""
    known = catalog.macros()
    reads = sorted(sql.parents(query) & known.keys())
    files = [(f"queries/{known[name].folder}/{name}.sql", known[name].text.strip()) for name in reads]
    return [("the figure's query", query.strip()), *files]


def provenance(record: Record) -> dict[str, Any]:
    """Return what a record says of its run; paths are relative to the root."""
    return {
        "stage": record.stage,
        "run_id": record.run_id,
        "ended_at": record.ended_at[:19].replace("T", " "),
        "code": record.code_version[:12],
        "input": record.input_hash[:12],
        "outputs": [
            {"name": name, "rows": output.rows, "sha256": output.sha256}
            for name, output in sorted(record.outputs.items())
        ],
    }


def _files(con: duckdb.DuckDBPyConnection) -> list[dict[str, Any]]:
    found: pl.DataFrame = con.sql("select * exclude (ingested_at) from files order by file, sha256").pl()
    return found.to_dicts()


def _grouped(found: Sequence[dict[str, Any]], key: str) -> dict[str, list[dict[str, Any]]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found:
        groups.setdefault(row[key], []).append(row)
    return groups
