"""The battery notices every error of `mutations.py`, and nothing in the true sources."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.replay import battery
from tests.replay.mutations import MUTATIONS, Mutation


def tree(repo_root: Path, folder: Path) -> Path:
    """Return a copy of what the battery runs on: the package and its queries."""
    for name in ("pipeline", "queries"):
        shutil.copytree(repo_root / name, folder / name)  # times too, so that compiled modules stay valid
    return folder


@pytest.fixture(scope="session")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the reference's results."""
    folder = tmp_path_factory.mktemp("reference")
    battery.remember(folder)
    return folder


def run(name: str, results: Path, copy: Path, repo_root: Path) -> subprocess.CompletedProcess[str]:
    """Run a battery on a copy of the package and this checkout's tests."""
    env = {**os.environ, "PYTHONPATH": f"{copy}{os.pathsep}{repo_root}", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "tests.replay.battery", name, str(results)]
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(str(copy / "pipeline")), f"not the copy: {done.stdout}{done.stderr}"
    return done


@pytest.mark.slow
@pytest.mark.parametrize("name", ["engine", "log"])
def test_true_sources_pass_the_battery(repo_root: Path, results: Path, tmp_path: Path, name: str) -> None:
    """An unchanged copy shows no difference, so what a mutation shows is its own."""
    done = run(name, results, tree(repo_root, tmp_path), repo_root)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=list(MUTATIONS))
def test_battery_notices(repo_root: Path, results: Path, tmp_path: Path, mutation: Mutation) -> None:
    """A planted error applies exactly once and is told by a difference from the reference."""
    copy = tree(repo_root, tmp_path)
    target = copy / mutation.file
    text = target.read_text(encoding="utf-8")
    for old, new in mutation.replacements:
        assert text.count(old) == 1, f"{mutation.file} holds {text.count(old)} times: {old}"
        text = text.replace(old, new)
    target.write_text(text, encoding="utf-8")
    done = run(mutation.battery, results, copy, repo_root)
    assert done.returncode == 1, f"not noticed\n{done.stdout}{done.stderr}"
    assert "\nseed " in done.stdout or "\nlog " in done.stdout, f"it broke before any replay\n{done.stderr}"
