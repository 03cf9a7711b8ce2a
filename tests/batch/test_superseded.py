"""Tables of past runs go when no reader can still hold them, and nothing else goes."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pytest
from batch.conftest import LATER, Site, full

from pipeline.batch import run as batch
from pipeline.batch.run import Watch
from pipeline.config import load
from pipeline.errors import InputError
from pipeline.ingest import run as ingest
from pipeline.lake import superseded
from pipeline.lake.store import MANIFEST, Lake, Record, remove
from pipeline.timelines import run as timelines

NIGHT = datetime(2025, 3, 1, 2, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A root with one table that no record names."""
    (tmp_path / "timelines/one/0123456789abcdef").mkdir(parents=True)
    (tmp_path / "timelines/one/0123456789abcdef/outages.parquet").write_bytes(b"12345")
    return Lake(tmp_path)


def test_days_count_from_when_a_table_was_first_seen_superseded(lake: Lake) -> None:
    """An old file that was current until yesterday stays its days; then it and its empty folders go."""
    os.utime(lake.path("timelines/one/0123456789abcdef/outages.parquet"), (0, 0))
    for night in range(7):
        cleaned = superseded.clean(lake, 7, NIGHT + night * DAY)
        assert (cleaned.files_removed, cleaned.files_waiting, cleaned.bytes_waiting) == (0, 1, 5)
    cleaned = superseded.clean(lake, 7, NIGHT + 7 * DAY)
    assert (cleaned.files_removed, cleaned.bytes_removed, cleaned.files_waiting) == (1, 5, 0)
    assert not lake.path("timelines").exists() and lake.root.is_dir()
    assert json.loads(lake.path(superseded.SEEN).read_text()) == {}


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"a": 1}', '{"a": "soon"}'])
def test_lost_memory_waits_anew(lake: Lake, content: str) -> None:
    """An unreadable list of dates removes nothing early."""
    lake.path(superseded.SEEN).write_text(content)
    assert superseded.clean(lake, 7, NIGHT).files_removed == 0
    assert superseded.clean(lake, 7, NIGHT + 8 * DAY).files_removed == 1


def test_every_table_that_a_run_writes_can_go(site: Site) -> None:
    """Also the large ones that only the next stage reads, of a log and of a synthetic trace."""
    site.run(full)
    drawn = site.folder / "drawn.toml"
    drawn.write_text(DRAWN)
    with site.lake.lock():
        ingest.stage(site.lake, load(str(drawn)), lambda _: None)
    built = {path for stage in superseded.STAGES for path in site.lake.path(stage).rglob("*.parquet")}
    assert {"redrawn_events", "what_if_gpu_downtime", "splits"} <= {path.stem for path in built}
    site.lake.path(MANIFEST).unlink()
    assert set(superseded.find(site.lake)) == built


DRAWN = """
[trace]
preset = "rsc-1"
days = 2
redraws = 1
[cluster]
nodes = 8
domain_size = 8
[job]
tp = 8
[[policy]]
name = "drop"
response = "dp-drop"
"""


def test_zero_days_remove_at_once(lake: Lake) -> None:
    """Who has no readers need not wait."""
    assert superseded.clean(lake, 0, NIGHT).files_removed == 1


def test_what_the_lake_does_not_own_stays(lake: Lake) -> None:
    """Files of people, links, other names and other folders are never removed."""
    foreign = [
        "timelines/one/0123456789abcdef/notes.parquet",
        "timelines/one/0123456789abcdef/outages.csv",
        "timelines/one/mine/outages.parquet",
        "raw/0123456789abcdef/outages.parquet",
        "outages.parquet",
    ]
    for name in foreign:
        lake.path(name).parent.mkdir(parents=True, exist_ok=True)
        lake.path(name).write_text("mine")
    lake.path("timelines/one/0123456789abcdef/onsets.parquet").symlink_to(lake.path("outages.parquet"))
    assert superseded.clean(lake, 0, NIGHT).files_removed == 1
    assert all(lake.path(name).is_file() for name in foreign)
    assert lake.path("timelines/one/0123456789abcdef/onsets.parquet").is_symlink()


def test_nothing_outside_the_root_can_be_removed(tmp_path: Path) -> None:
    """A path that is not below the root is a bug, not a deletion."""
    outside = tmp_path / "outside"
    outside.write_text("")
    with pytest.raises(AssertionError):
        remove(outside, below=tmp_path / "root")
    assert outside.is_file()


def test_a_reader_of_the_old_catalog_is_served_through_the_grace_time(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Last night's catalog answers through the grace time; then its tables are gone, and counted."""
    site.run(full)
    with duckdb.connect(str(site.lake.catalog_path), read_only=True) as reader:
        ask = "select count(*) from outages"
        assert reader.execute(ask).fetchall() == [(3,)]
        site.drop("second.csv", LATER)
        tonight = site.run(full).cleaned
        assert tonight.files_removed == 0 and tonight.files_waiting > 0 and tonight.bytes_waiting > 0
        assert reader.execute(ask).fetchall() == [(3,)], "the reader still sees what it opened"

        real = batch.now
        monkeypatch.setattr(batch, "now", lambda: real() + timedelta(days=7, hours=1))
        later = site.run(full).cleaned
        assert (later.files_removed, later.bytes_removed) == (tonight.files_waiting, tonight.bytes_waiting)
        with pytest.raises(duckdb.IOException):
            reader.execute(ask).fetchall()
    assert site.summary()["cleaned"]["bytes_removed"] == tonight.bytes_waiting
    with duckdb.connect(str(site.lake.catalog_path), read_only=True) as reader:
        assert reader.execute(ask).fetchall() == [(4,)]


def test_the_catalog_never_names_what_was_removed(site: Site) -> None:
    """A scenario that fails half-way has new timelines: the catalog is renewed before the old ones go."""
    site.write(more="keep_old_d = 0")
    site.run(full)
    text = (site.folder / "one.toml").read_text()
    site.scenario(
        "one.toml", text.replace("domain_size = 16", "domain_size = 32").replace("tp = 16", "tp = 32")
    )

    def half(name: str, lake: Lake, watch: Watch) -> Record:
        scenario = load(name)
        events, _ = ingest.stage(lake, scenario, watch.log)
        timelines.stage(lake, scenario, events, watch.log)
        raise InputError("replay", "fails")

    result = site.run(half)

    assert result.exit_code == 2 and result.cleaned.files_removed > 0
    with duckdb.connect(str(site.lake.catalog_path), read_only=True) as reader:
        assert reader.execute("select count(*) from domain_timeline").fetchall()[0][0] > 0


def test_a_table_that_is_current_again_is_forgotten(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Going back to an old scenario makes its old tables current; their days begin anew later."""
    site.run(full)
    before = (site.folder / "one.toml").read_text()
    site.scenario(
        "one.toml", before.replace("domain_size = 16", "domain_size = 32").replace("tp = 16", "tp = 32")
    )
    site.run(full)
    assert any(name.startswith("timelines/one/") for name in _seen(site))
    old = set(_seen(site))
    site.scenario("one.toml", before)
    site.run(full)
    assert not old & set(_seen(site))
    assert superseded.find(site.lake) and site.lake.record("timelines", "one")


def _seen(site: Site) -> dict[str, str]:
    return json.loads(site.lake.path(superseded.SEEN).read_text())
