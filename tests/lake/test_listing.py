"""The listing says everything there is to ask; a query of a scenario that is not built says so."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from lake.conftest import publish, rows

from pipeline import cli
from pipeline.lake import catalog, guard, listing, sandbox, sql
from pipeline.lake.store import Lake
from pipeline.schema import TABLES


def test_describe_names_everything(lake: Lake) -> None:
    """The listing holds every table, column, macro and worked query, with meaning and number of rows."""
    text = listing.describe(lake)
    for table, columns in TABLES.items():
        assert f"\n{table}: " in text
        assert all(column.name in text and column.meaning in text for column in columns)
    for name, query in catalog.macros().items():
        assert guard.usage(name) in text and query.header["title"] in text
    for name, query in sql.load("adhoc").items():
        assert f"-f {name} --param scenario=..." in text and query.header["title"] in text
    assert "(3 rows)" in text and "from badput($scenario)" in text
    assert "-f events_of_node --param scenario=... --param node=...: " in text


@pytest.mark.parametrize("name", sorted(catalog.macros()))
def test_describe_tells_a_macros_columns_with_types(lake: Lake, name: str) -> None:
    """Each macro's block has grain, units, caveat, and one line for each column of its result, in order."""
    blocks = listing.describe(lake).split("\n\n")
    (block,) = [block for block in blocks if block.startswith(guard.usage(name))]
    told = re.findall(r"^  (\w+) +(text|int|float|time|bool)\b", block, flags=re.MULTILINE)
    given = {key: "64" if key == "domain_size" else "small" for key in catalog.macros()[name].parameters}
    result = sandbox.run(lake, guard.usage(name), given)
    assert [column for column, _ in told] == result.schema.names
    assert all(len(line) <= 160 for line in block.splitlines())
    assert [key in block for key in ("\n  grain: ", "\n  units: ", "\n  caveat: ")] == [True] * 3


def test_describe_gives_the_ledgers_columns_their_meaning(lake: Lake) -> None:
    """A column of the ledger is explained in a macro too; a name with several meanings is not."""
    text = listing.describe(lake)
    assert re.search(r"from badput\(\$scenario\)[^\0]*?\n  share_frac  float\n\n", text)
    assert re.search(r"\n  energy_kwh +float  energy of the pool", text.split("from compare($scenario)")[1])


@pytest.mark.parametrize(
    ("query", "given", "names"),
    [
        ("from compare('typo')", {}, {"typo"}),
        ("from compare($s)", {"s": "typo"}, {"typo"}),
        ("from availability('typo', 64)", {}, {"typo"}),
        ("select * from (from badput('a')) union all from badput('b')", {}, {"a", "b"}),
        ("with x as (from outages where node = 'n' and scenario = 'a') from x", {}, {"a"}),
        ("from outages as o where $scenario = o.scenario", {"scenario": "a"}, {"a"}),
        ("from outages where node = 'a' or scenario <> 'b' or scenario = node", {}, set()),
        ("from range(3)", {}, set()),
        ("from json_each('[1]')", {}, set()),
        ("explain from compare('typo')", {}, set()),
        ("from compare(null)", {}, set()),
        ("from compare()", {}, set()),
        ("selct 1", {}, set()),
    ],
)
def test_the_scenarios_a_query_asks_for(query: str, given: dict[str, str], names: set[str]) -> None:
    """They are a macro's first argument, or what the column `scenario` is to be equal to."""
    with duckdb.connect() as con:
        assert guard.scenarios(con, query, given) == names


def test_a_scenario_that_is_not_built_is_told(lake: Lake) -> None:
    """The line names the scenario, those that are built, and what to do; a built one needs no line."""
    publish(lake, "replay", "small_72", {"outcomes": rows("outcomes", 1)})
    assert listing.unbuilt(lake, "from compare('small')") == []
    assert listing.unbuilt(lake, "from compare('smal')") == [
        "nothing is built of scenario 'smal'; scenarios built here: small, small_72; did you mean 'small'?"
    ]
    (shipped,) = listing.unbuilt(lake, "from compare($scenario)", {"scenario": "hbd64"})
    assert shipped.endswith("scenarios built here: small, small_72; `goodput run hbd64` builds it")
    assert len(listing.unbuilt(lake, sandbox.load_adhoc("months"), {"scenario": "zz"})) == 1


def test_the_command_tells_it_beside_the_answer(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer stays on stdout, exit code 0; the line goes to stderr, and -q silences it."""
    catalog.write(lake)
    asked = ["sql", "select count(*) as n from compare('smal')", "--format", "csv"]
    assert cli.main(["--root", str(lake.root), *asked]) == 0
    captured = capsys.readouterr()
    assert captured.out.split() == ["n", "0"] and "nothing is built of scenario 'smal'" in captured.err
    assert cli.main(["--root", str(lake.root), "-q", *asked]) == 0
    assert capsys.readouterr().err == ""


def test_an_empty_lake_has_no_scenario(tmp_path: Path) -> None:
    """Before any run the line says that none is built."""
    (line,) = listing.unbuilt(Lake(tmp_path / "none"), "from compare('zz')")
    assert line == "nothing is built of scenario 'zz'; scenarios built here: none"
