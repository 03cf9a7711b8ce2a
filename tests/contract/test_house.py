"""The house: what the tree holds, what the lock files pin, what the wheel carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

LOCKS = ("requirements.lock", "tests/requirements.lock")
TOP_LEVEL = {
    ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "data", "pipeline",
    "pyproject.toml", "queries", "reports", "requirements.lock", "tests",
}  # fmt: skip
PROMISED_TARGETS = {
    "setup", "report", "run", "ingest", "timelines", "replay",
    "sql", "bench", "lint", "golden", "clean", "test",
}  # fmt: skip

# In pieces, so that this file does not hold what it looks for.
INDEX_ADDRESS = re.compile(
    "|".join(
        re.escape("".join(pieces))
        for pieces in (
            ("files.python", "hosted"),
            ("pypi", ".org"),
            ("pypi.", "python"),
            ("python.org/", "simple"),
            ("registry.", "npmjs"),
            ("deb.", "debian.org"),
        )
    )
)
HOMES = "|".join("".join(pieces) for pieces in (("ho", "me"), ("ro", "ot"), ("wo", "rk"), ("Us", "ers")))
MACHINE_PATH = re.compile(rf"(?<![\w.:/])/(?:{HOMES})/\w")


def run(*command: str | Path, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a command in `cwd`; its output is the message when it fails."""
    result = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command} exited {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


@pytest.fixture(scope="session")
def tree_files(repo_root: Path) -> list[Path]:
    """Return the files git tracks or would track, relative to the root."""
    which = ("--cached", "--others", "--exclude-standard")
    listed = run("git", "-c", "core.quotePath=false", "ls-files", *which, cwd=repo_root)
    files = [Path(line) for line in listed.stdout.splitlines() if (repo_root / line).is_file()]
    assert files
    return files


def requirements(lock: Path) -> list[str]:
    """Return the lock file's requirements, each on one line, without comments."""
    joined = lock.read_text(encoding="utf-8").replace("\\\n", " ")
    return [line for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def test_top_level_holds_only_the_agreed_names(tree_files: list[Path]) -> None:
    """A new name at the top of the tree is a decision, not an accident."""
    assert {file.parts[0] for file in tree_files} <= TOP_LEVEL


def test_no_index_address_and_no_machine_path(repo_root: Path, tree_files: list[Path]) -> None:
    """No text file says where packages were fetched or on which machine it was written."""
    found = []
    for file in tree_files:
        content = (repo_root / file).read_bytes()
        if b"\0" in content:
            continue
        for number, line in enumerate(content.decode("utf-8", errors="replace").splitlines(), start=1):
            for pattern in (INDEX_ADDRESS, MACHINE_PATH):
                if hit := pattern.search(line):
                    found.append(f"{file}:{number}: {hit.group()}")  # noqa: PERF401 - two loops and a condition
    assert not found, "\n".join(found)


@pytest.mark.parametrize("lock", LOCKS)
def test_lock_pins_with_hashes_and_names_no_address(repo_root: Path, lock: str) -> None:
    """Every requirement is one exact version with its hashes; the index is the user's own."""
    pins = requirements(repo_root / lock)
    assert pins
    for pin in pins:
        assert re.match(r"[a-z0-9.-]+==[^\s;]+( ;[^=]*.*?)? +--hash=sha256:", pin), pin[:120]
    text = (repo_root / lock).read_text(encoding="utf-8")
    assert not re.search(r"://|--(?:\S*index|find-links|trusted-host)|^-[ife]", text, flags=re.MULTILINE)


def test_development_lock_agrees_with_the_running_one(repo_root: Path) -> None:
    """Tests run on the very versions that a user installs."""
    running, development = ({pin.split()[0] for pin in requirements(repo_root / lock)} for lock in LOCKS)
    assert running <= development, running - development


def test_make_prints_every_target(repo_root: Path) -> None:
    """`make` alone lists the promised targets, and every target a user can call."""
    printed = set(re.findall(r"^ +make ([a-z]+) +\S", run("make", cwd=repo_root).stdout, flags=re.MULTILINE))
    makefile = (repo_root / "Makefile").read_text(encoding="utf-8")
    assert printed == set(re.findall(r"^([a-z]+):(?!=)", makefile, flags=re.MULTILINE))
    assert printed >= PROMISED_TARGETS


@pytest.fixture(scope="session")
def wheel(repo_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the project's wheel, built offline with the pinned build backend."""
    out = tmp_path_factory.mktemp("wheel")
    if shutil.which("uv") and not has_pip():
        run(
            "uv", "build", "--wheel", "--offline", "--no-build-isolation", "--python", sys.executable,
            "--out-dir", out, cwd=repo_root,
        )  # fmt: skip
    else:
        run(
            sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation",
            "--wheel-dir", out, ".", cwd=repo_root,
        )  # fmt: skip
    (built,) = out.glob("*.whl")
    return built


def has_pip() -> bool:
    """Tell whether this environment has pip (uv builds environments without it)."""
    return (
        subprocess.run(
            [sys.executable, "-m", "pip", "--version"], capture_output=True, check=False
        ).returncode
        == 0
    )


def install(wheel: Path, target: Path) -> None:
    """Unpack the wheel into `target`, offline."""
    pip = [sys.executable, "-m", "pip", "install"] if has_pip() else ["uv", "pip", "install", "--offline"]
    run(*pip, "--no-index", "--no-deps", "--target", target, wheel, cwd=target.parent)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("queries", "queries"),
        ("data/scenarios", "scenarios"),
        ("data/samples", "samples"),
        ("data/batch", "batch"),
    ],
)
def test_wheel_carries_what_the_command_reads(
    repo_root: Path, tree_files: list[Path], wheel: Path, here: str, there: str
) -> None:
    """Every shipped query, scenario and sample is in the wheel, byte for byte."""
    shipped = [file for file in tree_files if file.is_relative_to(here) and file.name != "README.md"]
    assert shipped, f"{here} holds no file"
    with zipfile.ZipFile(wheel) as archive:
        for file in shipped:
            name = f"pipeline/_share/{there}/{file.relative_to(here).as_posix()}"
            assert archive.read(name) == (repo_root / file).read_bytes()


@pytest.mark.slow
def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    """Tests, reports, built data and the READMEs of folders stay out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
        assert not [name for name in archive.namelist() if name.endswith("README.md")]
    assert {top for top in tops if not top.endswith(".dist-info")} == {"pipeline"}


@pytest.mark.slow
def test_wheel_runs_outside_a_checkout(repo_root: Path, wheel: Path, tmp_path: Path) -> None:
    """The installed command lists the shipped scenarios from any folder."""
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    site.mkdir()
    elsewhere.mkdir()
    install(wheel, site)
    listed = run(sys.executable, "-m", "pipeline", "scenarios", cwd=elsewhere, PYTHONPATH=str(site)).stdout
    for scenario in (repo_root / "data" / "scenarios").glob("*.toml"):
        assert scenario.stem in listed
