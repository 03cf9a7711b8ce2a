"""`goodput ingest --topology`: checked, kept for a cluster, and used by scenarios that name no file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipeline import cli
from pipeline.lake.store import Lake

RACKS = "node,domain\na2,left\na1,left\nb2,mid\nb1,mid\nc1,right\nc2,right\n"
LOG = "node,start,end\na1,2025-03-01T08:00Z,2025-03-01T09:00Z\nb2,2025-03-02T08:00Z,2025-03-02T09:00Z\n"
STRANGER = "x9,2025-03-03T08:00Z,2025-03-03T09:00Z\n"
SCENARIO = """
[trace]
source = "intervals"
{trace}
window = ["2025-03-01T00:00Z", "2025-03-05T00:00Z"]
[cluster]
placement = "topology"
gpus_per_node = 4
domain_size = 8
{cluster}
[job]
tp = 4
[[policy]]
name = "p"
response = "dp-drop"
"""
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "log.csv").write_text(LOG)
    (tmp_path / "racks.csv").write_text(RACKS)
    return tmp_path


@pytest.fixture
def goodput(folder: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(["--root", str(folder / "root"), *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def ingest(goodput: Call, folder: Path, *more: str, racks: str = "racks.csv") -> tuple[int, str, str]:
    given = ("--topology", str(folder / racks))
    return goodput("ingest", "intervals", str(folder / "log.csv"), *given, *more)


def scenario(folder: Path, trace: str = "", cluster: str = "") -> str:
    path = folder / "s.toml"
    path.write_text(SCENARIO.format(trace=trace, cluster=cluster))
    return str(path)


def places(folder: Path) -> dict[str, int | None]:
    """Return the domain of every node in the built timelines."""
    lake = Lake(folder / "root")
    record = lake.record("timelines", "s")
    assert record is not None
    frame = pl.read_parquet(lake.table(record, "placements"))
    return dict(frame.select("node", "domain_id").rows())


def test_a_scenario_without_a_file_lies_as_the_ingested_topology_says(folder: Path, goodput: Call) -> None:
    """The nodes of the kept file are the population, also when the file itself has gone."""
    assert ingest(goodput, folder)[0] == 0
    (folder / "racks.csv").unlink()
    code, _, err = goodput("timelines", scenario(folder))
    assert code == 0, err
    assert places(folder) == {"a2": 0, "a1": 0, "b2": 1, "b1": 1, "c1": 2, "c2": 2}


def test_the_command_tells_how_log_and_topology_meet(folder: Path, goodput: Call) -> None:
    """Counts with names, in words and as JSON: one of three logged nodes outside, four of six never seen."""
    (folder / "log.csv").write_text(LOG + STRANGER)
    code, out, _ = ingest(goodput, folder)
    assert code == 0
    assert out.splitlines()[1:] == [
        "racks.csv: 3 domains, 6 nodes; kept for cluster 'default'",
        "  nodes of the log that the topology lacks: 1 of 3 (x9)",
        "  nodes of the topology that the log never names: 4 of 6 (a2, b1, c1, c2)",
    ]
    told = json.loads(ingest(goodput, folder, "--json")[1])
    assert told["files"][0]["skipped"] is True
    assert told["topology"] == {
        "file": "racks.csv", "cluster": "default", "domains": 3, "nodes": 6, "log_nodes": 3,
        "outside_topology": 1, "never_seen": 4,
    }  # fmt: skip


def test_it_is_kept_for_its_cluster_and_replaced_when_given_again(folder: Path, goodput: Call) -> None:
    """Each cluster has its own; another one makes the timelines stale, the same in another form does not."""
    assert ingest(goodput, folder, "--cluster", "prod/1")[0] == 0
    code, _, err = goodput("timelines", scenario(folder, 'cluster = "test"'))
    assert code == 2 and "or give it to `goodput ingest intervals PATH --cluster test --topology FILE`" in err
    mine = scenario(folder, 'cluster = "prod/1"')
    assert goodput("timelines", mine)[0] == 0
    # The only cluster of the source needs no name.
    assert goodput("timelines", scenario(folder))[0] == 0

    def ran() -> list[str]:
        code, out, err = goodput("--json", "timelines", scenario(folder, 'cluster = "prod/1"'))
        assert code == 0, err
        return json.loads(out)["ran"]

    assert "timelines" in ran()
    blocks = {"left": "a[2,1]", "mid": "b[2,1]", "right": "c[1-2]"}
    conf = "".join(f"BlockName={name} Nodes={nodes}\n" for name, nodes in blocks.items())
    (folder / "racks.conf").write_text(conf)
    assert ingest(goodput, folder, "--cluster", "prod/1", racks="racks.conf")[0] == 0
    assert ran() == []
    (folder / "racks.csv").write_text(RACKS.replace("a2,left\na1,left", "a1,left\na2,left"))
    assert ingest(goodput, folder, "--cluster", "prod/1")[0] == 0
    assert "timelines" in ran()


def test_a_file_of_the_scenarios_own_comes_first(folder: Path, goodput: Call) -> None:
    """A scenario that names its topology does not look at the kept one."""
    ingest(goodput, folder)
    (folder / "own.csv").write_text("node,domain\na1,x\nb2,x\n")
    code, _, err = goodput("timelines", scenario(folder, cluster='topology = "own.csv"'))
    assert code == 0, err
    assert places(folder) == {"a1": 0, "b2": 0}


def test_bad_files_are_refused_as_in_scenarios_and_nothing_is_ingested(folder: Path, goodput: Call) -> None:
    """The same message but for what names the file; the log is not read before the topology is good."""
    (folder / "racks.csv").write_text(RACKS + "a1,right\n")
    code, _, ingested = ingest(goodput, folder)
    assert code == 2
    assert not Lake(folder / "root").records()
    named = goodput("timelines", scenario(folder, 'path = "log.csv"', 'topology = "racks.csv"'))
    assert named[0] == 2 and named[2] == ingested
    assert "'a1'" in ingested
    code, _, err = ingest(goodput, folder, racks="no.csv")
    assert code == 2
    assert err.startswith("goodput: --topology: 'no.csv' cannot be read (No such file or directory)\n")
    (folder / "racks.txt").write_text(RACKS)
    assert "--topology: 'racks.txt' is no known format" in ingest(goodput, folder, racks="racks.txt")[2]


def test_a_topology_of_other_names_is_refused_and_not_kept(folder: Path, goodput: Call) -> None:
    """When no name of the log is in the file, one of them is the wrong one."""
    (folder / "racks.csv").write_text("node,domain\nA1.site,left\nA2.site,left\n")
    code, _, err = ingest(goodput, folder)
    assert code == 2
    assert "--topology: none of the log's 2 nodes (a1, b2) is in the topology" in err
    assert {record.stage for record in Lake(folder / "root").records().values()} == {"ingest", "catalog"}


def test_sizes_are_checked_against_the_scenario(folder: Path, goodput: Call) -> None:
    """Domains of another size are refused when the scenario is read, with the file's name."""
    ingest(goodput, folder)
    path = scenario(folder)
    Path(path).write_text(Path(path).read_text().replace("domain_size = 8", "domain_size = 16"))
    code, _, err = goodput("timelines", path)
    assert code == 2
    assert "s.toml [cluster] topology: 3 of 3 domains in racks.csv do not fit" in err


RACK = "example.com/rack"


def nodes_json(folder: Path) -> None:
    """Write the racks as Kubernetes nodes with a label that no product knows."""
    rows = [line.split(",") for line in RACKS.splitlines()[1:]]
    items = [{"kind": "Node", "metadata": {"name": node, "labels": {RACK: rack}}} for node, rack in rows]
    (folder / "nodes.json").write_text(json.dumps({"kind": "List", "items": items}))


def test_a_label_of_ones_own_names_the_domains(folder: Path, goodput: Call) -> None:
    """Given at ingest it holds for the kept copy; given in the scenario, for the scenario's own file."""
    nodes_json(folder)
    assert "no label that says" in ingest(goodput, folder, racks="nodes.json")[2]
    assert ingest(goodput, folder, "--topology-label", RACK, racks="nodes.json")[0] == 0
    code, _, err = goodput("timelines", scenario(folder))
    assert code == 0, err
    kept = places(folder)
    own = f'topology = "nodes.json"\ntopology_label = "{RACK}"'
    code, _, err = goodput("timelines", scenario(folder, cluster=own))
    assert code == 0, err
    assert kept == places(folder) == {"a2": 0, "a1": 0, "b2": 1, "b1": 1, "c1": 2, "c2": 2}


def test_a_label_where_none_can_be_is_told(folder: Path, goodput: Call) -> None:
    """Without a topology, or beside a format that has no labels."""
    code, _, err = goodput("ingest", "intervals", str(folder / "log.csv"), "--topology-label", RACK)
    assert code == 2 and "--topology-label: given without --topology" in err
    code, _, err = ingest(goodput, folder, "--topology-label", RACK)
    assert code == 2 and "a label for 'racks.csv'" in err
    own = scenario(folder, cluster=f'topology = "racks.csv"\ntopology_label = "{RACK}"')
    code, _, err = goodput("timelines", own)
    assert code == 2 and "[cluster] topology: a label for 'racks.csv'" in err
