"""Several clusters in one lake: which files and events a scenario reads."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pipeline import cli, config
from pipeline.errors import InputError, NoDataError
from pipeline.ingest import run
from pipeline.ingest.parsing import Options
from pipeline.lake.store import Lake, Record
from pipeline.timelines import run as timelines

HEADER = "node,start,end\n"
DAY = "{},2025-03-0{}T08:00{},2025-03-0{}T09:00{}\n"
SCENARIO = """
[trace]
{}
window = ["2025-03-01T00:00Z", "2025-03-05T00:00Z"]
[cluster]
nodes = 4
domain_size = 8
[job]
tp = 8
[[policy]]
name = "p"
response = "dp-drop"
"""


def quiet(_: str) -> None:
    """Take a log line and drop it."""


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path / "root")


def ingest(lake: Lake, name: str, day: int, cluster: str, zone: str = "Z", tz: str | None = None) -> None:
    """Ingest a file of one outage of node `name`."""
    path = lake.root.parent / f"{name}.csv"
    path.write_text(HEADER + DAY.format(name, day, zone, day, zone))
    run.ingest(lake, "intervals", [str(path)], Options(cluster=cluster, tz=tz), quiet)


def scenario(lake: Lake, *trace: str) -> config.Scenario:
    path = lake.root.parent / "s.toml"
    path.write_text(SCENARIO.format("\n".join(('source = "intervals"', *trace))))
    return config.load(str(path))


def nodes(lake: Lake, records: list[Record]) -> list[tuple[str, str]]:
    """Return (cluster, node) of all events."""
    rows = [row for record in records for row in pq.read_table(lake.table(record, "events")).to_pylist()]
    return sorted((row["cluster"], row["node"]) for row in rows)


def test_a_scenario_reads_the_files_of_its_cluster(lake: Lake) -> None:
    """Without a path, all ingested files of the source and the cluster, and no other's."""
    ingest(lake, "a", 1, "prod")
    ingest(lake, "b", 2, "prod")
    ingest(lake, "c", 3, "test")
    mine = scenario(lake, 'cluster = "prod"')
    records, ran = run.stage(lake, mine, quiet)
    assert nodes(lake, records) == [("prod", "a"), ("prod", "b")]
    assert ran is False
    built, _ = timelines.stage(lake, mine, records, quiet)
    assert (built.facts["events"], built.facts["outages"]) == (2, 2)
    ingest(lake, "d", 4, "prod")
    records, _ = run.stage(lake, mine, quiet)
    assert timelines.stage(lake, mine, records, quiet)[0].facts["outages"] == 3


def test_one_cluster_needs_no_name(lake: Lake) -> None:
    """A lake with the files of one cluster needs no key; with two, the message lists them."""
    ingest(lake, "a", 1, "prod")
    records, _ = run.stage(lake, scenario(lake), quiet)
    assert nodes(lake, records) == [("prod", "a")]
    ingest(lake, "b", 1, "test")
    with pytest.raises(InputError) as caught:
        run.stage(lake, scenario(lake), quiet)
    assert str(caught.value) == (
        "s.toml [trace] cluster: 'intervals' has ingested files of 2 clusters: prod, test\n"
        "  expected: one of them\n"
        "  to do: cluster = ... names it"
    )


def test_a_cluster_without_files_is_no_data(lake: Lake) -> None:
    """The message names the clusters there are, and how to add one."""
    ingest(lake, "a", 1, "prod")
    with pytest.raises(
        NoDataError, match=r"cluster 'dev'; there are prod[\s\S]*goodput ingest intervals FILE --cluster dev"
    ):
        run.stage(lake, scenario(lake, 'cluster = "dev"'), quiet)


def test_a_path_is_read_as_the_scenario_s_cluster(lake: Lake) -> None:
    """With a path its file alone is read, under the cluster's name, whatever else is in the lake."""
    ingest(lake, "a", 1, "prod")
    (lake.root.parent / "b.csv").write_text(HEADER + DAY.format("b", 1, "Z", 1, "Z"))
    records, ran = run.stage(lake, scenario(lake, 'cluster = "test"', 'path = "b.csv"'), quiet)
    assert (nodes(lake, records), ran) == ([("test", "b")], True)
    assert [record.facts["cluster"] for record in records] == ["test"]


def test_events_of_another_cluster_are_left_out(lake: Lake) -> None:
    """Whatever files are handed on, the timelines of a scenario count its own cluster's events only."""
    ingest(lake, "a", 1, "it's")
    ingest(lake, "b", 2, "test")
    records = [record for record in lake.records().values() if record.stage == "ingest"]
    record, _ = timelines.stage(lake, scenario(lake, """cluster = "it's" """), records, quiet)
    assert (record.facts["events"], record.facts["event_nodes"]) == (1, 1)


def test_a_file_read_again_with_other_options_counts_once(lake: Lake) -> None:
    """A log first read with the wrong zone is not counted beside itself; the zone belongs to `ingest`."""
    ingest(lake, "a", 1, "prod", "", "Europe/Berlin")
    ingest(lake, "a", 1, "prod", "", "UTC")
    records, _ = run.stage(lake, scenario(lake, 'cluster = "prod"'), quiet)
    (row,) = pq.read_table(lake.table(records[0], "events")).to_pylist()
    assert (len(records), row["t_start"].hour) == (1, 8)
    with pytest.raises(InputError, match=r"tz: 'UTC' for files that are already ingested[\s\S]*--tz UTC"):
        run.stage(lake, scenario(lake, 'cluster = "prod"', 'tz = "UTC"'), quiet)


def test_a_named_cluster_never_means_the_public_file(lake: Lake) -> None:
    """A cluster of one's own is not silently the source's public trace."""
    text = 'source = "infinitehbd"\ncluster = "mine"\nwindow_d = [0, 1]'
    path = lake.root.parent / "s.toml"
    path.write_text(SCENARIO.replace('window = ["2025-03-01T00:00Z", "2025-03-05T00:00Z"]', "").format(text))
    with pytest.raises(NoDataError, match=r"no ingested file of 'infinitehbd' of cluster 'mine'"):
        run.stage(lake, config.load(str(path)), quiet)


def test_a_preset_has_no_cluster_to_choose(lake: Lake) -> None:
    """`cluster` picks events of logs; beside a preset it is an error."""
    path = lake.root.parent / "s.toml"
    text = SCENARIO.format('preset = "llama3"\ndays = 3\ncluster = "prod"')
    path.write_text(text.replace('window = ["2025-03-01T00:00Z", "2025-03-05T00:00Z"]', ""))
    with pytest.raises(InputError, match=r"cluster: given beside preset\n.*only with source or bootstrap"):
        config.load(str(path))


def test_ingest_then_run_works_on_the_command_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`goodput ingest intervals ... --cluster prod`, then the timelines of a scenario that names prod."""
    lake = Lake(tmp_path / "root")
    for name, cluster in (("a", "prod"), ("b", "test")):
        (tmp_path / f"{name}.csv").write_text(HEADER + DAY.format(name, 1, "Z", 1, "Z"))
        call = [
            "--root",
            str(lake.root),
            "ingest",
            "intervals",
            str(tmp_path / f"{name}.csv"),
            "--cluster",
            cluster,
        ]
        assert cli.main(call) == 0
    scenario(lake, 'cluster = "prod"')
    assert cli.main(["--root", str(lake.root), "timelines", str(tmp_path / "s.toml")]) == 0
    assert "done: timelines" in capsys.readouterr().out
