"""Every figure keeps the contract, on the frames of a small lake."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from small_lake import Built, build

from pipeline.errors import InputError
from pipeline.lake import catalog, sql
from pipeline.report import figures, page, theme

UNITS = re.compile(r"%|GPU|domains|time \(UTC\)|hours|component")


@pytest.fixture(scope="session")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[str, page.Drawn]:
    built: Built = build(tmp_path_factory.mktemp("figures"))
    with catalog.connect(built.lake) as con:
        return {item.name: item for item in page.draw(con, "small")}


def encodings(spec: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every channel of a spec."""
    if isinstance(spec, dict):
        yield from ((name, more) for name, more in spec.get("encoding", {}).items() if isinstance(more, dict))
        for key in ("layer", "vconcat", "hconcat"):
            yield from (pair for part in spec.get(key, []) for pair in encodings(part))


def test_figures_are_found_by_folder() -> None:
    """A module in the folder is a figure; there is no registry, and places on the page are not shared."""
    stems = {path.stem for path in Path(figures.__file__).parent.glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in figures.names()} == stems
    orders = [figures.load(name).ORDER for name in figures.names()]
    assert orders == sorted(set(orders))


def test_an_unknown_figure_names_the_nearest() -> None:
    """A mistyped figure is told with the valid names."""
    with pytest.raises(InputError, match="did you mean 'ledger'"):
        figures.load("leger")


@pytest.mark.parametrize("name", figures.names())
def test_figure_is_drawn_with_units_and_in_utc(drawn: dict[str, page.Drawn], name: str) -> None:
    """It has data, every axis title a unit, every time scale and instant is UTC."""
    item = drawn[name]
    channels = list(encodings(item.spec))
    titles = [more["title"] for channel, more in channels if channel in {"x", "y"} and more.get("title")]
    assert titles
    for title in titles:
        assert UNITS.search(title), title
    times = [more for channel, more in channels if more.get("type") == "temporal" and channel in {"x", "y"}]
    assert all(more["scale"]["type"] == "utc" for more in times)
    text = json.dumps(item.spec)
    assert not re.search(r'"\d{4}-\d\d-\d\dT[\d:.]+"', text)
    assert '"timeUnit": "year' not in text
    assert {"left", "right"} <= item.spec["usermeta"].keys()


@pytest.mark.parametrize("name", figures.names())
def test_figure_is_valid_vega_lite(drawn: dict[str, page.Drawn], name: str) -> None:
    """The page skips Altair's validation, which takes seconds; a valid chart gives the same spec with it."""
    item = drawn[name]
    chart = item.module.chart(item.frame)
    assert chart.to_dict() == chart.to_dict(validate=False)


@pytest.mark.parametrize("name", figures.names())
def test_figure_says_its_answer(drawn: dict[str, page.Drawn], name: str) -> None:
    """The question is a question, and the summary one sentence or two with a number."""
    assert figures.question(name).endswith("?")
    summary = drawn[name].summary
    assert summary.endswith(".") and re.search(r"\d", summary)
    assert "None" not in summary


@pytest.mark.parametrize("name", figures.names())
def test_series_are_short(drawn: dict[str, page.Drawn], name: str) -> None:
    """At most 1,000 rows a series reach the page."""
    frame = drawn[name].frame
    keys = [key for key in ("unit", "policy", "batch", "component") if key in frame.columns]
    assert frame.group_by(keys).len()["len"].max() <= 1000


@pytest.mark.parametrize("name", figures.names())
def test_colours_have_a_dark_twin(drawn: dict[str, page.Drawn], name: str) -> None:
    """No colour is written that the page cannot turn dark."""
    found = set(re.findall(r'"(#[0-9a-f]{6})"', json.dumps([drawn[name].spec, theme.config()])))
    assert found <= theme.DARK.keys()


@pytest.mark.parametrize("name", figures.names())
def test_query_reads_queries_and_takes_the_scenario(name: str) -> None:
    """Arithmetic lives in queries/: a figure reads macros, never a table of the lake."""
    query = figures.load(name).QUERY
    assert sql.parents(query) <= catalog.macros().keys()


def broken(**changes: Any) -> ModuleType:
    """Return a figure that lacks something."""
    module = ModuleType("broken")
    good = {
        "__doc__": "Is it?",
        "TITLE": "t",
        "ORDER": 1,
        "QUERY": "from headline($scenario)",
        "chart": lambda frame: frame,
        "summary": lambda frame: f"{frame}.",
    }
    for name, value in {**good, **changes}.items():
        setattr(module, name, value)
    return module


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"__doc__": "A chart."}, "no question"),
        ({"TITLE": " "}, "no text TITLE"),
        ({"QUERY": "from headline('x')"}, "does not name"),
        ({"ORDER": "1"}, "not a whole number"),
        ({"chart": lambda: None}, r"no function chart\(frame\)"),
        ({"summary": None}, r"no function summary\(frame\)"),
    ],
    ids=["docstring", "title", "query", "order", "chart", "summary"],
)
def test_a_module_that_breaks_the_contract_is_named(changes: dict[str, Any], told: str) -> None:
    """A broken figure is refused loudly with all that is wrong."""
    figures.check("fine", broken())
    with pytest.raises(TypeError, match=told):
        figures.check("bad", broken(**changes))
