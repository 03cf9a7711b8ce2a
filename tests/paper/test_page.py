"""The proof as a page and as a command: verdicts, exit codes, and a way from each number to its code."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline import cli, resources
from pipeline.config import load
from pipeline.errors import InputError
from pipeline.lake.store import Lake, Record
from pipeline.paper import claims, figures, page, run
from pipeline.paper.rows import Row, Verdict

SEEDS = 40


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("paper")


@pytest.fixture(scope="module")
def built(root: Path) -> Record:
    """The page of few seeds, without any trace."""
    record, ran = run.stage(Lake(root), SEEDS, lambda _: None, traces={})
    assert ran
    return record


@pytest.fixture(scope="module")
def topics(root: Path, built: Record) -> dict[str, list[dict[str, Any]]]:
    text = Lake(root).table(built, run.NUMBERS).read_text(encoding="utf-8")
    return json.loads(text)["topics"]


@pytest.fixture(scope="module")
def text(root: Path, built: Record) -> str:
    return Lake(root).table(built, run.PAGE).read_text(encoding="utf-8")


def test_every_topic_is_on_the_page_and_nothing_is_outside(
    built: Record, topics: dict[str, Any], text: str
) -> None:
    """A row outside fails the command: either it is mended or explained."""
    assert set(topics) == set(claims.names())
    assert built.facts["outside"] == []
    for name in topics:
        assert f'id="topic-{name}"' in text
    for name in figures.names():
        assert f'id="figure-{name}"' in text


def test_from_every_number_to_the_code_that_made_it(topics: dict[str, Any], text: str) -> None:
    """`how` of each row is a function or a query that exists, and the page carries its text."""
    for how in {row["how"].split()[0] for found in topics.values() for row in found}:
        assert page.source(how)
        assert f'id="how-{how}"' in text


def test_the_required_rows_of_the_paper_are_there(topics: dict[str, Any]) -> None:
    """One row at least for each statement on the paper's figures and tables."""
    names = [row["name"] for found in topics.values() for row in found]
    for word in (
        "TP64, 0.10% failed", "TP8, ", "TP72, ", "0.1 % failed, high TP", "domain size that loses 10 %",
        "repair 3 or 5 days at equal odds", "repair 3 days", "repair 5 days",
        "three times the rate: peak", "three times the rate, TP64",
        "dp-drop, packed: loss", "ntp, packed: loss", "ntp-pw, packed: loss",
        "dp-drop, fixed: loss", "ntp, fixed: loss", "ntp-pw, fixed: loss",
        "dp-drop: spare domains", "ntp: spare domains", "ntp-pw: spare domains", "throughput per GPU",
        "domains boosted", "performance per watt at 1.1", "performance per watt at 1.2",
        "TP30, 8 of 8 stages", "TP28, 8 of 8 stages", "TP30: least power", "TP28: least power",
        "8 GPUs a failure",
    ):  # fmt: skip
        assert any(word in name for name in names), word


def test_the_page_is_current_until_a_seed_or_a_trace_changes(
    root: Path, built: Record, tmp_path: Path
) -> None:
    """A second run does nothing; another number of seeds is another page."""
    lake = Lake(root)
    again, ran = run.stage(lake, SEEDS, lambda _: None, traces={}, copy_to=tmp_path)
    assert not ran and again.run_id == built.run_id
    assert (tmp_path / "paper" / run.PAGE).is_file()


def test_the_page_asks_nothing_of_a_network(text: str) -> None:
    """No address outside a link, and the content policy forbids loading."""
    assert "default-src 'none'" in text
    assert not re.findall(r'(?:src|href)="https?://', text)


def test_the_command_prints_verdicts_and_ends_with_1_on_a_row_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 when all is met or explained; 1, with the names, when a number has moved."""
    good = Row(name="two", source="s", printed="2", unit="u", ours=2.1, how="pipeline.paper.page.number")
    bad = Row(name="three", source="s", printed="3", unit="u", ours=9.0, how="pipeline.paper.page.number")
    monkeypatch.setattr(run, "fetched", lambda *_: {})
    monkeypatch.setattr(claims, "names", lambda: ["one"])
    monkeypatch.setattr(claims, "descriptions", lambda: {"one": "One."})
    monkeypatch.setattr(figures, "names", list)
    monkeypatch.setattr(claims, "rows", lambda *_: [good])
    call = ["--root", str(tmp_path / "root"), "paper", "--seeds"]
    assert cli.main([*call, "40"]) == 0
    assert "1 meets" in capsys.readouterr().out

    monkeypatch.setattr(claims, "rows", lambda *_: [good, bad])
    assert cli.main([*call, "41"]) == 1
    said = capsys.readouterr()
    assert "outside" in said.out and "published 3, ours 9" in said.out
    assert "1 rows outside: three" in said.err
    # The page is there all the same: it shows what is wrong.
    assert (tmp_path / "root/reports/paper/index.html").is_file()


def test_too_few_seeds_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A 95 % interval needs forty draws."""
    assert cli.main(["paper", "--seeds", "39"]) == 2
    assert "--seeds: found 39" in capsys.readouterr().err


def test_no_scenario_may_take_the_page_s_place(tmp_path: Path) -> None:
    """Results go by the scenario's name."""
    file = tmp_path / "paper.toml"
    file.write_text("")
    with pytest.raises(InputError, match="a page of its own"):
        load(str(file))


def test_the_scenarios_of_the_paper_are_scenarios() -> None:
    """Each file of data/paper loads, and every value in it has a source."""
    for path in resources.folder("paper").glob("*.toml"):
        assert load(str(path)).title
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.match(r"[a-z_]+ = [\d\[]", line):
                assert "#" in line or line.startswith(
                    ("pp", "seed", "placement_seeds", "reduced_tp", "reshard")
                ), line


def test_every_verdict_has_its_words() -> None:
    """A new verdict is explained on the page."""
    assert set(page.ABOUT) == set(Verdict)
