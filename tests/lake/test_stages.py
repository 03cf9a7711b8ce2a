"""Stages run when what they read has changed in meaning, and at no other time."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from lake.conftest import publish, rows

from pipeline.lake import stages
from pipeline.lake.store import Lake


def statuses(lake: Lake) -> list[str]:
    """Return the status of every run, in order of its end."""
    tables = [pq.read_table(path).to_pylist()[0] for path in lake.path("runs").glob("*.parquet")]
    return [row["status"] for row in sorted(tables, key=lambda row: row["ended_at"])]


def test_the_same_inputs_run_once(tmp_path: Path) -> None:
    """A second call with equal inputs returns the first record and builds nothing."""
    lake = Lake(tmp_path)
    first, ran = publish(lake, "replay", "s", {"outcomes": rows("outcomes")}, window=1)
    again, ran_again = publish(lake, "replay", "s", {"outcomes": rows("outcomes", 1)}, window=1)
    assert ran and not ran_again and again == first and statuses(lake) == ["done"]


def test_another_input_or_scope_runs(tmp_path: Path) -> None:
    """A changed input makes a new record in a new folder; another scope has its own."""
    lake = Lake(tmp_path)
    first, _ = publish(lake, "replay", "s", {"outcomes": rows("outcomes")}, window=1)
    second, ran = publish(lake, "replay", "s", {"outcomes": rows("outcomes", 1)}, window=2)
    assert ran and second.outputs["outcomes"].path != first.outputs["outcomes"].path
    assert lake.table(first, "outcomes").is_file()  # readers of the old one are not cut off
    assert publish(lake, "replay", "t", {}, window=2)[1]
    assert lake.record("replay", "s") == second


def test_a_missing_file_runs_again(tmp_path: Path) -> None:
    """A table that was removed is built again."""
    lake = Lake(tmp_path)
    record, _ = publish(lake, "replay", "s", {"outcomes": rows("outcomes")})
    lake.table(record, "outcomes").unlink()
    assert publish(lake, "replay", "s", {"outcomes": rows("outcomes")})[1]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failed_build_leaves_the_old_record(tmp_path: Path, error: type[BaseException]) -> None:
    """A build that raises is noted as failed; what was current stays so."""
    lake = Lake(tmp_path)
    first, _ = publish(lake, "replay", "s", {"outcomes": rows("outcomes")}, window=1)

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        stages.write_tables(folder, {"outcomes": rows("outcomes", 1)})
        raise error

    with pytest.raises(error):
        stages.run(lake, "replay", "s", inputs={"window": 2}, code="c0de", build=build, log=lambda _: None)
    assert lake.record("replay", "s") == first and statuses(lake) == ["done", "failed"]
    assert not publish(lake, "replay", "s", {}, window=1)[1]


def test_equal_bytes_have_an_equal_content_hash(tmp_path: Path) -> None:
    """A stage that writes what it wrote before leaves later stages fresh: they look at content."""
    lake = Lake(tmp_path)
    first, _ = publish(lake, "timelines", "s", {"outages": rows("outages")}, code_like=1)
    second, _ = publish(lake, "timelines", "s", {"outages": rows("outages")}, code_like=2)
    assert first.run_id != second.run_id and stages.content(first) == stages.content(second)


def test_input_hash_ignores_the_order_of_names() -> None:
    """Inputs are named; their order says nothing, their values do."""
    assert stages.input_hash({"a": 1, "b": 2}) == stages.input_hash({"b": 2, "a": 1})
    assert stages.input_hash({"a": 1}) != stages.input_hash({"a": 2})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a copy of a piece of the package, which `code_version` looks at."""
    copy = tmp_path / "package"
    shutil.copytree(stages.PACKAGE / "lake", copy / "lake", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(stages, "PACKAGE", copy)
    return copy


@pytest.mark.parametrize(
    ("find", "put", "changes"),
    [
        ("import ast", "# a comment\n\nimport ast", False),
        ("return digest.hexdigest()", "return (digest.hexdigest())  # why", False),
        ("digest = hashlib.sha256()", "digest = hashlib.sha512()", True),
        ("wanted[:12]", "wanted[:13]", True),
    ],
)
def test_code_version_is_of_the_meaning(package: Path, find: str, put: str, changes: bool) -> None:
    """A comment, a blank line or brackets change no version; another number does."""
    before = stages.code_version("lake")
    file = package / "lake" / "stages.py"
    text = file.read_text()
    assert find in text
    file.write_text(text.replace(find, put))
    assert (stages.code_version("lake") != before) is changes


def test_code_version_counts_files_and_their_names(package: Path) -> None:
    """A new or renamed module of a folder is a change; a module elsewhere is not."""
    before, single = stages.code_version("lake"), stages.code_version("lake/sql.py")
    (package / "lake" / "extra.py").write_text("")
    added = stages.code_version("lake")
    (package / "lake" / "extra.py").rename(package / "lake" / "other.py")
    assert len({before, added, stages.code_version("lake")}) == 3
    assert stages.code_version("lake/sql.py") == single


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("-- title: t\nselect 'a -- b' as x from events -- why\n", False),
        ("/* why */\nselect\n    'a -- b' as x\nfrom events\n", False),
        ("select 'a -- c' as x from events", True),
        ("select 'a  -- b' as x from events", True),
        ("select 'a -- b' as y from events", True),
    ],
)
def test_sql_version_is_of_the_words(tmp_path: Path, text: str, changes: bool) -> None:
    """Comments and white space change no version; words and texts do, also texts that look like comments."""
    file = tmp_path / "q.sql"
    file.write_text("select 'a -- b' as x from events")
    before = stages.sql_version([file])
    file.write_text(text)
    assert (stages.sql_version([file]) != before) is changes


def test_sql_version_counts_names_not_order(tmp_path: Path) -> None:
    """The order in which files are given says nothing; a file's name does."""
    one, two = tmp_path / "one.sql", tmp_path / "two.sql"
    one.write_text("select 1")
    two.write_text("select 2")
    assert stages.sql_version([one, two]) == stages.sql_version([two, one])
    before = stages.sql_version([one])
    assert stages.sql_version([one.rename(tmp_path / "new.sql")]) != before


def test_code_version_follows_imports(package: Path) -> None:
    """A stage's code is all that it imports, so that no module it uses can be forgotten."""
    (package / "used.py").write_text("X = 1\n")
    (package / "stage.py").write_text("from pipeline.used import X\n")
    before = stages.code_version("stage.py")
    (package / "used.py").write_text("X = 22\n")

    assert stages.code_version("stage.py") != before
    assert stages.code_version(alone=["stage.py"]) != stages.code_version("stage.py")


def test_code_version_counts_package_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of a library may give other bytes, so it makes the stage stale."""
    before = stages.code_version("units.py", packages=["duckdb"])
    monkeypatch.setattr(stages, "_version", lambda _: "99")

    assert stages.code_version("units.py", packages=["duckdb"]) != before


def test_every_stage_hashes_what_it_uses() -> None:
    """The closure of a stage holds config, schema and the SQL runner; none of them is listed by hand."""
    for stage, used in {
        "timelines": ("config/rules.py", "synth/contract.py", "lake/checks.py", "lake/sql.py"),
        "replay": ("config/model.py", "schema.py", "units.py"),
        "report": ("config/model.py", "lake/sql.py", "units.py", "__init__.py"),
    }.items():
        waiting, seen = list(stages._files(stage)), set()
        while waiting:
            path = waiting.pop()
            if path not in seen:
                seen.add(path)
                names = stages._meaning(path).imports
                waiting += [file for name in names if (file := stages._module_file(name))]
        assert {stages.PACKAGE / place for place in used} <= seen, stage
