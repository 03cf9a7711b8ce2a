"""Who may import whom: the contracts of pyproject.toml hold, and they bite.

A contract that nothing can break protects nothing, so each rule is also broken on purpose in a copy of the
package, and the linter must name the contract that was broken.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LINTER = "import sys; from importlinter.cli import lint_imports_command; sys.exit(lint_imports_command())"

FLOORS = "Floors: imports point downwards, stages meet in files"
SOURCE_LIST = "A source imports the schema, the shared parsing and nothing else of ours"
SOURCE_REACH = "A source reaches no lake, no scenario and no DuckDB, not even through others"
RESPONSE_LIST = "A response imports the replay contract and the units, nothing else of ours"

# Case: (planted imports by module, the contract that must catch them); {any}: a real module of that folder.
PLANTS = {
    "report imports replay": ({"report/planted.py": "pipeline.replay"}, FLOORS),
    "lake imports a stage": ({"lake/planted.py": "pipeline.timelines"}, FLOORS),
    "units import the schema": ({"units.py": "pipeline.schema"}, FLOORS),
    "module without a floor": ({"utils.py": "json"}, FLOORS),
    "source imports source": (
        {"ingest/sources/planted.py": "pipeline.ingest.sources.{any}"},
        "Sources do not know each other",
    ),
    "source imports lake": ({"ingest/sources/planted.py": "pipeline.lake"}, SOURCE_LIST),
    "source imports duckdb": ({"ingest/sources/planted.py": "duckdb"}, SOURCE_REACH),
    "source reaches the scenario through parsing": (
        {"ingest/sources/planted.py": "pipeline.ingest.parsing", "ingest/parsing.py": "pipeline.config"},
        SOURCE_REACH,
    ),
    "response imports engine": ({"replay/responses/planted.py": "pipeline.replay.engine"}, RESPONSE_LIST),
    "response imports schema": ({"replay/responses/planted.py": "pipeline.schema"}, RESPONSE_LIST),
    "response imports response": (
        {"replay/responses/planted.py": "pipeline.replay.responses.{any}"},
        "Responses do not know each other",
    ),
    "engine imports a response": (
        {"replay/engine.py": "pipeline.replay.responses.{any}"},
        "The engine names no response and no fabric",
    ),
    "fabric imports fabric": (
        {"replay/fabrics/planted.py": "pipeline.replay.fabrics.{any}"},
        "Fabrics do not know each other",
    ),
    "figure imports figure": (
        {"report/figures/planted.py": "pipeline.report.figures.{any}"},
        "Figures do not know each other",
    ),
}


def lint(tree: Path) -> subprocess.CompletedProcess[str]:
    """Run the import linter on the package in `tree`, not on the installed one."""
    return subprocess.run(
        [sys.executable, "-c", LINTER, "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def some_module(folder: Path) -> str:
    """Return the name of one real module of `folder`."""
    names = sorted(p.stem for p in folder.glob("*.py") if p.stem not in {"__init__", "planted"})
    assert names, f"{folder} holds no module"
    return names[0]


@pytest.fixture
def copied(repo_root: Path, tmp_path: Path) -> Path:
    """Return a copy of the package with its contracts, free to be spoilt."""
    shutil.copytree(
        repo_root / "pipeline", tmp_path / "pipeline", ignore=shutil.ignore_patterns("__pycache__")
    )
    shutil.copy(repo_root / "pyproject.toml", tmp_path)
    return tmp_path


def test_contracts_hold(repo_root: Path) -> None:
    """Every import of the package respects the floors."""
    result = lint(repo_root)
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("case", PLANTS)
def test_planted_import_is_caught(copied: Path, case: str) -> None:
    """A forbidden import breaks the contract that forbids it."""
    plants, contract = PLANTS[case]
    for path, imported in plants.items():
        package, _, last = imported.rpartition(".")
        name = some_module(copied.joinpath(*package.split("."))) if last == "{any}" else last
        with (copied / "pipeline" / path).open("a", encoding="utf-8") as file:
            file.write(f"\nimport {package}.{name}\n" if package else f"\nimport {name}\n")

    result = lint(copied)

    assert result.returncode == 1, result.stdout + result.stderr
    assert f"{contract} BROKEN" in " ".join(result.stdout.split()), result.stdout
