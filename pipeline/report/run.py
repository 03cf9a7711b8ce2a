"""Stage 4: ledgers -> `reports/<scenario>/index.html` and `report.json`; exports on demand.

In: the records of the events, the timelines and the replay. Out: the page, the headline as JSON, and the
facts from which the command prints its last lines without building anything. Files are published by rename.
Easy to get wrong: the page shows comments of the TOML file, so they are an input here, unlike anywhere else;
a copy for people may be missing although the stage is current.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import Scenario
from pipeline.errors import NoDataError
from pipeline.lake import catalog, sql, stages
from pipeline.lake.store import Lake, Record, copy_file, sha256_of, write_bytes

if TYPE_CHECKING:
    import duckdb

STAGE = "report"
_PACKAGES = ("duckdb", "polars", "altair", "vl-convert-python", "jinja2")
PAGE, NUMBERS = "index.html", "report.json"
FORMATS = ("png", "svg", "csv")
_SCALE = 2  # pixels of a PNG for each pixel of the chart


def stage(
    lake: Lake,
    scenario: Scenario,
    records: Sequence[Record],
    timelines: Record,
    replay: Record,
    log: stages.Log,
    copy_to: Path | None = None,
) -> tuple[Record, bool]:
    """Build the page of a scenario when a number, a query, a value or the template has changed."""
    from pipeline.report import assumptions

    read = [*records, timelines, replay]
    queries = sql.load("1_events", "3_metrics", "4_outcomes")
    inputs = {
        "tables": [stages.content(record) for record in read],
        "facts": [record.facts for record in read],
        # As they stand, comments too: the page shows them.
        "queries": {name: query.text for name, query in queries.items()},
        "scenario": scenario.name,
        "values": scenario.fingerprint(),
        "comments": sorted(map(list, assumptions.comments(scenario.path).items())),
    }

    def build(_: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        return _build(lake, scenario, read)

    record, ran = stages.run(
        lake,
        STAGE,
        scenario.name,
        inputs=inputs,
        code=_code(),
        build=build,
        log=log,
        scenario=scenario.name,
        seed=" ".join(map(str, scenario.cluster.placement_seeds)),
    )
    if copy_to is not None:
        copy_outputs(lake, record, copy_to / scenario.name)
    return record, ran


def headline(record: Record) -> list[str]:
    """Return the answer as plain lines, from the record of the stage."""
    found: list[str] = record.facts.get("lines", [])
    return found


def render(lake: Lake, scenario: Scenario, formats: Sequence[str]) -> list[Path]:
    """Write each figure as PNG, SVG or CSV beside the page and return the files."""
    from pipeline.report import page

    with catalog.connect(lake) as con:
        drawn = page.draw(con, scenario.name)
    if not drawn:
        raise NoDataError(
            f"scenario {scenario.name!r}", "no figure has data", hint=f"goodput run {scenario.name}"
        )
    folder = lake.path("reports", scenario.name)
    written = []
    for item in drawn:
        for form in formats:
            path = folder / f"{item.name}.{form}"
            write_bytes(path, _export(item, form))
            written.append(path)
    return written


def _export(item: Any, form: str) -> bytes:
    from pipeline.report import theme

    if form == "csv":
        text: str = item.frame.write_csv(datetime_format="%Y-%m-%dT%H:%M:%S%.6fZ")
        return text.encode()
    import vl_convert

    title = {
        "text": item.module.TITLE,
        "subtitle": item.summary,
        "anchor": "start",
        "offset": 16,
        "frame": "group",
    }
    config = {**theme.config(), "background": theme.PAPER, "padding": 16}
    panels = [{**panel} for panel in item.spec.get("vconcat", [])]
    spec = {**item.spec, "config": config, "description": item.summary, "title": title}
    if panels:
        spec["vconcat"] = panels
    text = json.dumps(spec)
    if form == "svg":
        drawing: str = vl_convert.vegalite_to_svg(text)
        return drawing.encode()
    pixels: bytes = vl_convert.vegalite_to_png(text, scale=_SCALE)
    return pixels


def _build(lake: Lake, scenario: Scenario, read: Sequence[Record]) -> tuple[dict[str, Path], dict[str, Any]]:
    from pipeline.report import answer, page

    with _connection(lake, read) as con:
        drawn = page.draw(con, scenario.name)
        text = page.html(con, scenario, read, drawn)
        answers = page.rows(con, "headline", scenario.name)
        compared = page.rows(con, "side_by_side", scenario.name)
        (faults,) = page.rows(con, "app_faults", scenario.name)
        quality = page.rows(con, "data_quality", scenario.name)
    numbers = {
        "scenario": scenario.name,
        "title": scenario.title,
        "headline": answers,
        "policies": compared,
        "app_faults": faults["app_faults"],
        "assumed_app_faults": faults["assumed_app_faults"],
    }
    folder = lake.path("reports", scenario.name)
    contents = {PAGE: text, NUMBERS: json.dumps(numbers, indent=1) + "\n"}
    for name, content in contents.items():
        write_bytes(folder / name, content.encode())
    facts = {
        "headline": answers,
        "app_faults": faults["app_faults"],
        "lines": answer.lines(
            answers,
            quality,
            app_faults=bool(faults["app_faults"]),
            assumption=answer.assumed(scenario, faults),
        ),
    }
    return {name: folder / name for name in contents}, facts


@contextmanager
def _connection(lake: Lake, read: Sequence[Record]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield the catalog over the scenario's own records, so that no other file of the lake is counted."""
    records = {f"{record.stage}/{record.scope}": record for record in read}
    with sql.connect(lake.path(sql.SPILL)) as con, sql.within_memory():
        catalog.define(con, catalog.base_tables(lake, records))
        yield con


def _code() -> str:
    # Told by its path: importing the page costs seconds, which a run that is current must not pay.
    templates = [path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.j2"))]
    code = stages.code_version("report", packages=_PACKAGES)
    return hashlib.sha256(b"\0".join([code.encode(), *templates])).hexdigest()


def copy_outputs(lake: Lake, record: Record, folder: Path) -> None:
    """Copy what a page's record holds into a folder for people, where a copy is missing or old."""
    for name, output in record.outputs.items():
        target = folder / name
        if not target.is_file() or sha256_of(target) != output.sha256:
            copy_file(lake.table(record, name), target)
