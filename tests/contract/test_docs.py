"""The READMEs beside the code say what the code says: generated parts, transcripts and links."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pipeline import cli, config
from pipeline.ingest import sources
from pipeline.lake import catalog, sql
from pipeline.replay import responses
from pipeline.report import figures
from pipeline.schema import BUCKETS, TABLES
from pipeline.synth import presets
from tests.docs import files
from tests.docs.markdown import anchor
from tests.docs.of_data import keys

READMES = ("README.md", *files.FILES)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
RENEW = "`make docs` writes it anew"

every_readme = pytest.mark.parametrize("name", files.FILES)


@pytest.fixture(scope="module")
def texts(repo_root: Path) -> dict[str, str]:
    return {name: (repo_root / name).read_text(encoding="utf-8") for name in READMES}


@every_readme
def test_generated_blocks_are_current(texts: dict[str, str], name: str) -> None:
    """A block says what the code says now."""
    assert files.renewed(texts[name], name, consoles=False) == texts[name], f"{name} is stale: {RENEW}"


@pytest.mark.slow
@every_readme
def test_transcripts_are_real(texts: dict[str, str], name: str) -> None:
    """What a page shows on a console is what the commands print."""
    assert files.renewed(texts[name], name, consoles=True) == texts[name], f"{name} is stale: {RENEW}"


def test_every_block_stands_on_a_page(texts: dict[str, str]) -> None:
    """Nothing is generated that nobody reads."""
    found = {block for name in files.FILES for block in files.blocks(texts[name], name)}
    assert found == {*files.BLOCKS, files.CONSOLE}


def test_every_piece_is_named(texts: dict[str, str]) -> None:
    """Each key, source, table, column, macro, question, policy, figure and command stands on its page."""
    data, queries = texts["data/README.md"], texts["queries/README.md"]
    pipeline, reports = texts["pipeline/README.md"], texts["reports/README.md"]
    told = dict(config.keys())
    assert ["title", *(f"{table} {item.name}" for table, item in keys())] == list(told)
    for name in (*sources.names(), *presets.names()):
        assert f"### {name}\n" in data
    for name in config.available():
        assert f"(../data/scenarios/{name}.toml)" in data
    for table, columns in TABLES.items():
        assert f"### {table}\n" in queries
        assert all(f"| `{column.name}` |" in queries for column in columns)
    for query in catalog.macros().values():
        assert f"### {query.name}({', '.join(query.parameters)})\n" in queries
    for name in sql.load("adhoc"):
        assert f"`goodput sql -f {name}" in queries
    assert all(f"| `{bucket}` |" in queries for bucket in BUCKETS)
    for name in responses.names():
        assert f"### {name}\n" in pipeline
    usage = cli.parser().format_help().split("COMMAND\n")[1]
    for command in re.findall(r"^    ([a-z]+)", usage, flags=re.MULTILINE):
        assert re.search(rf"^\| `goodput {command}[ `]", pipeline, flags=re.MULTILINE)
    for name in figures.names():
        assert f"[`{name}`]" in reports


@pytest.mark.parametrize("name", READMES)
def test_links_lead_somewhere(repo_root: Path, texts: dict[str, str], name: str) -> None:
    """A link within the tree names a file that is there, and a heading that its page has."""
    links = [link for link in LINK.findall(texts[name]) if "://" not in link]
    assert links
    for link in links:
        place, _, heading = link.partition("#")
        target = (repo_root / name).parent / place if place else repo_root / name
        assert target.exists(), f"{name}: {link}"
        if heading:
            headings = {anchor(words) for words in HEADING.findall(target.read_text(encoding="utf-8"))}
            assert heading in headings, f"{name}: {link}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin: nothing -->\n<!-- end: nothing -->", "no block is named 'nothing'"),
        ("<!-- begin: keys -->\n<!-- end: tables -->", "block 'keys' ends as 'tables'"),
        ("<!-- begin: keys -->\n", "no begin or no end"),
    ],
    ids=["unknown", "crossed", "open"],
)
def test_a_wrong_marker_is_told(text: str, message: str) -> None:
    """A mistyped marker is an error, not a block that is never renewed."""
    with pytest.raises(ValueError, match=message):
        files.blocks(text, "page")


def test_a_stale_block_and_a_failing_command_are_caught() -> None:
    """A changed word in a block is put right, and a transcript whose command fails is an error."""
    page = f"<!-- begin: buckets -->\n\n{files.BLOCKS['buckets']()}\n\n<!-- end: buckets -->\n"
    assert files.renewed(page, "page", consoles=False) == page
    assert files.renewed(page.replace("failed", "fallen"), "page", consoles=False) == page
    shown = "<!-- begin: console -->\n```console\n$ {}\n{}```\n<!-- end: console -->\n"
    assert files.renewed(shown.format("echo 1", "2\n"), "page", consoles=True) == shown.format(
        "echo 1", "1\n"
    )
    with pytest.raises(RuntimeError, match="exited 2"):
        files.renewed(shown.format("goodput run nothing", ""), "page", consoles=True)
