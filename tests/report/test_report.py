"""Stage 4 as a whole: one page, honest and the same from the same records."""

from __future__ import annotations

import html
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from small_lake import LOG, SCENARIO, Built, build

from pipeline.errors import NoDataError
from pipeline.lake.store import Lake
from pipeline.report import answer, assumptions, page, run, templating

LIMIT_BYTES = 3_000_000


@pytest.fixture(scope="session")
def text(built: Built) -> str:
    return built.page.read_text()


def test_a_second_run_builds_nothing_and_still_has_its_last_lines(built: Built) -> None:
    """The stage is current when nothing changed; the headline comes from its record."""
    first, _ = built.report()
    again, ran = built.report()
    assert (again, ran) == (first, False)
    lines = run.headline(again)
    assert re.match(r"(elastic|pause) batch: \S+ keeps \d+\.\d % of the pool's GPU-hours", lines[0])
    assert any("half the repair time" in line for line in lines)
    assert all(line.isascii() for line in lines)


def test_a_missing_copy_is_made_again(built: Built, tmp_path: Path) -> None:
    """The copy for people is restored although the stage is current."""
    record, _ = built.report(tmp_path)
    copy = tmp_path / "small" / run.PAGE
    copy.unlink()
    _, ran = built.report(tmp_path)
    assert not ran
    assert copy.read_bytes() == built.lake.table(record, run.PAGE).read_bytes()


def test_a_changed_comment_makes_the_page_stale(tmp_path: Path) -> None:
    """The page shows the comments of the scenario file as sources, so a new comment is a new page."""
    here = build(tmp_path)
    here.report()
    here.scenario.path.write_text(SCENARIO.replace("# quicker", "# measured"))
    assert here.report()[1]
    assert "measured" in here.page.read_text()


def test_the_page_names_no_folder_of_the_machine(built: Built, text: str) -> None:
    """Neither the root nor the scenario's folder is on the page."""
    assert str(built.lake.root) not in text
    assert str(built.scenario.path.parent) not in text


def test_the_same_records_give_the_same_page(built: Built, text: str) -> None:
    """Building the page reads no clock."""
    read = [*built.events, built.timelines, built.replay]
    with run._connection(built.lake, read) as con:
        drawn = page.draw(con, built.scenario.name)
        assert page.html(con, built.scenario, read, drawn) == text


def test_words_of_the_scenario_are_text_and_never_markup(text: str) -> None:
    """A title that closes a script is shown, not run."""
    assert "Eight nodes &lt;/script&gt;&lt;b&gt;for three days" in text
    assert "</script><b>" not in text
    assert templating.script({"a": "</script>"}) == '{"a":"\\u003c/script>"}'


def test_names_may_hold_any_sign(tmp_path: Path) -> None:
    """A policy and nodes with separators, quotes, markup and braces: every figure draws, all are told."""
    name = """a|b;c "d" 'e' </script> {{f}} %s $scenario \u65e5"""
    log = LOG.replace("n01", "n|0;1 'x' {y}").replace("n02", "</script>").replace("n05", "\u00fc$scenario")
    policies = f'[[policy]]\nname = {json.dumps(name)}\nresponse = "dp-drop"\n'
    odd = build(tmp_path, log, SCENARIO.split("[[policy]]", maxsplit=1)[0] + policies)

    text = odd.page.read_text(encoding="utf-8")

    assert name not in text
    assert f"GPU-hours a day more: {name} under " in html.unescape(text)


def test_the_page_is_small_and_loads_nothing(text: str) -> None:
    """Under 3 MB; no element names an address to load."""
    assert len(text.encode()) < LIMIT_BYTES
    # The chart library, which comes last, holds code that could make elements.
    own = text.split('<script type="module">', maxsplit=1)[0]
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=(?![\"']?data:)", own)


def test_headings_and_landmarks_are_in_order(text: str) -> None:
    """One h1, no level skipped, a language, a skip link to the main part."""
    body = text.split("<script", 1)[0]
    levels = [int(level) for level in re.findall(r"<h([1-6])", body)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert '<html lang="en">' in body
    for landmark in ("<header", "<nav", '<main id="main"', "<footer", 'href="#main"'):
        assert landmark in body


def test_a_log_without_app_faults_says_that_interruptions_are_a_lower_bound(
    built: Built, tmp_path: Path
) -> None:
    """The sentence stands on the page exactly when no outage is of severity app."""
    assert answer.LOWER_BOUND in built.page.read_text().replace("&#39;", "'")
    assert answer.ALL_DOWN in built.page.read_text().replace("&#39;", "'")
    chosen = SCENARIO.replace("[cluster]", '[trace.severity]\nhost = "app"\n[cluster]')
    assert answer.LOWER_BOUND not in build(tmp_path, LOG, chosen).page.read_text()


def test_data_quality_tells_what_the_log_lacks(text: str) -> None:
    """Rows read, the reason of the reject, the open outage and the unplaced node are on the page."""
    body = re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text.split("<script", 1)[0]))
    for words in (
        "rows read 8",
        "rejected because: end before start 1 8",
        "unplaced nodes 1 9",
        "outages without a logged end 1 7",
        "nodes with an outage 6 9",
    ):
        assert words in body, words


def test_other_files_of_the_lake_are_not_counted(tmp_path: Path) -> None:
    """The page is about the scenario's own log, whatever else was ingested into the root."""
    one = build(tmp_path, LOG)
    two = build(tmp_path, LOG + "n08,2025-03-01T02:00Z,2025-03-01T03:00Z,gpu\n")
    assert len([key for key in two.lake.records() if key.startswith("ingest/")]) == 2
    assert ">log.csv<" in one.page.read_text()
    assert two.page.read_text().count('<th scope="row">log.csv</th>') == 1


def test_report_json_holds_the_headline(built: Built) -> None:
    """`report.json` has the rows of the headline for scripts."""
    record, _ = built.report()
    numbers = json.loads(built.lake.table(record, run.NUMBERS).read_text())
    assert numbers["headline"] == record.facts["headline"]
    assert {row["policy"] for row in numbers["policies"]} == {"dp-drop", "ntp"}


def test_exports_are_written_beside_the_page(built: Built) -> None:
    """Every figure as PNG, SVG and CSV."""
    written = run.render(built.lake, built.scenario, run.FORMATS)
    assert len(written) == 3 * len({path.stem for path in written})
    heads = {".png": b"\x89PNG", ".svg": b"<svg", ".csv": None}
    for path in written:
        head = heads[path.suffix]
        assert path.parent == built.lake.path("reports", "small")
        assert path.read_bytes().startswith(head) if head else b"," in path.read_bytes()


def test_exports_of_a_scenario_that_was_never_run_are_no_data(built: Built, tmp_path: Path) -> None:
    """`--format png` before any run says so."""
    with pytest.raises(NoDataError):
        run.render(Lake(tmp_path), replace(built.scenario, name="other"), ["png"])


def test_every_value_has_its_meaning_and_its_source(built: Built) -> None:
    """Meaning from the dataclass, source from the comment of the line; a `#` within quotes is no comment."""
    found = {(row.section, row.key): row for row in assumptions.values(built.scenario)}
    assert found["cluster", "nodes"].origin == "one fills no domain"
    assert found["trace", "path"].origin == "made up # for tests"
    assert found["costs", "detect_s"].origin == assumptions.DEFAULT
    assert found["costs", "detect_s"].value == "120 s"
    assert found["policy ntp, costs", "restart_s"].origin == "quicker"
    assert found["policy ntp", "reduced_tp"].value == "8"
    assert ("policy ntp, costs", "detect_s") not in found
    assert all(row.meaning for row in found.values())


def test_comments_are_found_after_values_with_hashes(tmp_path: Path) -> None:
    """A `#` in a quoted value does not begin the comment."""
    path = tmp_path / "s.toml"
    path.write_text("[trace]\npath = \"a#b.csv\" # real\ntz = 'x#y'\n")
    assert assumptions.comments(path) == {("trace", "path"): "real", ("trace", "tz"): ""}
