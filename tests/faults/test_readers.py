"""Readers while a writer alternates between two versions of a scenario: no error, no mix.

Six of them for a few seconds; GOODPUT_EXAMPLES=20000 takes twenty for a minute.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from faults.scenario import RUN_NEW, RUN_OLD, told_by, write_scenarios

READERS, TIME_S = (20, 60.0) if int(os.environ.get("GOODPUT_EXAMPLES", "360")) > 1000 else (6, 2.0)


@pytest.mark.slow
def test_readers_see_one_version_each_time(tmp_path: Path) -> None:
    """Catalog, `goodput sql` and page read whole, and of one version, while all of them are rewritten."""
    write_scenarios(tmp_path)
    plan = {"commands": [RUN_NEW, RUN_OLD], "readers": READERS, "time_s": TIME_S, "keep_d": 1.0}
    found = told_by("readers.py", tmp_path, plan)
    assert found["wrong"] == []
    assert found["differ"], "the versions must differ in every answer"
    assert {"catalog", "one connection", "sql", "page"} <= found["reads"].keys()
    assert all(count > 0 for count in found["reads"].values())


@pytest.mark.slow
def test_tables_removed_without_a_grace_time_are_missed(tmp_path: Path) -> None:
    """Planted: superseded tables that go at once fail a reader that opened the catalog before."""
    write_scenarios(tmp_path)
    plan = {"commands": [RUN_NEW, RUN_OLD], "readers": 3, "time_s": 0.0, "keep_d": 0.0}
    found = told_by("readers.py", tmp_path, plan)
    assert any(line.startswith("one connection: ") for line in found["wrong"])
