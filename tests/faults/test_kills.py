"""Killed at any step of any write, or out of disk: readers see the old state or the new, a rerun finishes.

The normal run takes each kind of write (a table, a run's row, the manifest, the catalog, the page, its
numbers) at one step; GOODPUT_EXAMPLES=20000 takes every step of every write, and further commands.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from faults.scenario import RUN_DRAWN, RUN_NEW, RUN_OLD, told_by, write_scenarios

from pipeline.errors import BusyError
from pipeline.lake import store

EVERY_STEP = int(os.environ.get("GOODPUT_EXAMPLES", "360")) > 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two versions of a scenario and a synthetic one."""
    write_scenarios(tmp_path)
    return tmp_path


def done(folder: Path, command: list[str], before: list[list[str]], **given: Any) -> dict[str, Any]:
    """Return what the victim found."""
    plan = {"how": "kill", "limits": [], "writer": "renames", "all": EVERY_STEP, "only": [], **given}
    return told_by("victim.py", folder, {"command": command, "before": before, **plan})


REPLAY_NEW = ["replay", "new/case.toml"]
INGEST = ["ingest", "intervals", "new/log.csv"]
# The command, what ran before, and the steps of the normal run, in the shortest command that makes them.
CASES = {
    "ingest by hand": (
        INGEST,
        [RUN_OLD],
        [
            ["table", "3 half"],
            ["run", "3 half"],
            ["manifest.jsonl", "3 half"],
            ["manifest.jsonl", "4 written"],
            ["goodput.duckdb", "3 half"],
        ],
    ),
    "the page alone": (
        RUN_NEW,
        [RUN_OLD, REPLAY_NEW],
        [["index.html", "3 half"], ["report.json", "6 renamed"]],
    ),
    "first build": (RUN_NEW, [], []),
    "over an older state": (RUN_NEW, [RUN_OLD], []),
    "drawn over logged": (RUN_DRAWN, [RUN_OLD], []),
}
NORMAL = ["ingest by hand", "the page alone"]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES if EVERY_STEP else NORMAL)
def test_a_kill_at_any_step_leaves_the_old_state_or_the_new(folder: Path, case: str) -> None:
    """After SIGKILL all that is read is whole and of one state, and a rerun ends as if nothing had been."""
    command, before, only = CASES[case]
    found = done(folder, command, before, only=only)
    assert found["wrong"] == {}
    assert found["disturbed"] == (found["steps"] if EVERY_STEP else len(only))
    assert found["left"] > 0  # killed writers leave temporary files, which the rerun removed


@pytest.mark.slow
@pytest.mark.parametrize("case", NORMAL if EVERY_STEP else NORMAL[:1])
def test_a_full_disk_is_one_message_and_a_rerun_finishes(folder: Path, case: str) -> None:
    """Without space the command exits 2 with one message, cleans up, and leaves the old state or the new."""
    command, before, only = CASES[case]
    found = done(folder, command, before, only=only[-1:], how="full")
    assert found["wrong"] == {}
    assert found["disturbed"] == (found["steps"] if EVERY_STEP else 1)
    assert found["left"] == 0


@pytest.mark.slow
def test_each_library_that_cannot_write_is_one_message(folder: Path) -> None:
    """A write that the system refuses, in Python, Arrow or DuckDB, is told as a full disk is."""
    limits = [1 << n for n in (range(8, 19) if EVERY_STEP else (14,))]
    found = done(folder, RUN_NEW, [RUN_OLD], only=[["none", ""]], all=False, how="full", limits=limits)
    assert found["wrong"] == {}
    assert found["disturbed"] == len(limits)


@pytest.mark.slow
def test_a_writer_without_rename_is_caught(folder: Path) -> None:
    """Planted: a store that writes under the final name leaves half a catalog and page."""
    kinds = ["goodput.duckdb", "index.html"] if EVERY_STEP else ["index.html"]
    only = [[kind, "3 half"] for kind in kinds]
    found = done(folder, RUN_NEW, [RUN_OLD], only=only, all=False, writer="in place")
    assert len(found["wrong"]) == len(only)
    assert not any("not by the kill" in line for lines in found["wrong"].values() for line in lines)


def test_new_folders_are_on_disk_before_their_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each new folder's name is synced in the folder above it: a power cut keeps what the manifest names."""
    synced: list[Path] = []
    monkeypatch.setattr(store, "_sync", synced.append)
    store.write_bytes(tmp_path / "a" / "b" / "file", b"new")
    assert synced[:2] == [tmp_path, tmp_path / "a"]
    assert synced[-1] == tmp_path / "a" / "b"


def test_the_lock_removes_leftovers_of_its_own_writer_only(tmp_path: Path) -> None:
    """Temporaries of a killed writer go when the next run has the lock; a user's own files stay."""
    kept = [".hidden", ".notes.tmp", ".page.html.12345678.tmp.bak", "a.12345678.tmp", ".x.UPPER678.tmp"]
    gone = [".manifest.jsonl.ab_cd123.tmp", ".goodput.duckdb.00000000.tmp.wal"]
    (tmp_path / "deep").mkdir()
    for name in (*kept, *gone):
        (tmp_path / "deep" / name).touch()
    with store.Lake(tmp_path).lock():
        assert {path.name for path in (tmp_path / "deep").iterdir()} == set(kept)


def test_a_run_that_waits_removes_nothing(tmp_path: Path) -> None:
    """While another run holds the lock, its temporary file is no leftover."""
    with store.Lake(tmp_path).lock(), store.replacing(tmp_path / "file") as temporary:
        with pytest.raises(BusyError), store.Lake(tmp_path).lock(wait_s=0):
            pass
        assert temporary.exists()
