"""The topology of an ingested log: checked and kept under the root, one for each cluster.

In: a topology file and the records of the logs ingested with it. Out: a copy of the file, as it stands, in
the record `topology/<hash of the cluster's name>`; and how its names and those of the log meet. A scenario on
a log of that cluster with `placement = "topology"` and no file of its own reads the copy.
Easy to get wrong: sizes are the scenario's business (domain_size, gpus_per_node): here only the file and the
names are checked. A topology that is given again replaces the one before. Nodes of the topology that the log
never names are healthy ones, or another spelling: counted, never refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.ingest import sources
from pipeline.ingest.parsing import Options
from pipeline.ingest.run import STAGE as INGEST
from pipeline.ingest.run import cluster_of
from pipeline.lake import stages
from pipeline.lake.store import Lake, Record, write_bytes
from pipeline.topology import files
from pipeline.topology.layout import Topology, few, outside

if TYPE_CHECKING:
    from pipeline.config import Trace

STAGE = "topology"
WHERE = "--topology"
_FILE = "file"


@dataclass(frozen=True)
class Given:
    """A topology file that was read and checked."""

    path: Path
    data: bytes
    topology: Topology


@dataclass(frozen=True)
class Meeting:
    """How a topology and a log meet: the nodes of each, and those that the other lacks."""

    file: str
    cluster: str
    domains: int
    nodes: int
    log_nodes: int
    outside_topology: tuple[str, ...]
    never_seen: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return what a user should know, as text."""
        return [
            f"{self.file}: {self.domains:,} domains, {self.nodes:,} nodes; kept for cluster {self.cluster!r}",
            _told("nodes of the log that the topology lacks", self.outside_topology, self.log_nodes),
            _told("nodes of the topology that the log never names", self.never_seen, self.nodes),
        ]

    def plain(self) -> dict[str, Any]:
        """Return the counts, for JSON."""
        counts = {"outside_topology": len(self.outside_topology), "never_seen": len(self.never_seen)}
        return {**vars(self), **counts}


def _told(what: str, names: Sequence[str], of: int) -> str:
    return f"  {what}: {len(names):,} of {of:,}" + (f" ({few(names)})" if names else "")


def read(path: Path, label: str | None = None, where: str = WHERE) -> Given:
    """Read and check a topology file; raise InputError as a scenario that names it does.

    `label` names the label of Kubernetes nodes that says their domain.
    """
    data = files.load(path, where, "the path of a topology file")
    topology = files.parse(path, data, where, label)
    if label is None:
        return Given(path, data, topology)
    # The copy is read by scenarios that know of no label: it says what the label said.
    return Given(path.with_suffix(".csv"), files.to_csv(topology), topology)


def meet(lake: Lake, given: Given, logs: Sequence[Record], cluster: str) -> Meeting:
    """Compare the names of a topology with those of logs; raise InputError when they have none in common."""
    import polars as pl

    frames = [
        pl.read_parquet(lake.table(record, "events"), columns=["node", "domain"], glob=False)
        for record in logs
    ]
    named = {
        key: sorted(set().union(*(frame[key].drop_nulls().to_list() for frame in frames)))
        for key in ("node", "domain")
    }
    topology = given.topology
    seen = set(named["node"])
    return Meeting(
        file=given.path.name,
        cluster=cluster,
        domains=len(topology.domains),
        nodes=len(topology.nodes),
        log_nodes=len(seen),
        outside_topology=tuple(outside(named["node"], topology.domains, named["domain"], WHERE)),
        never_seen=tuple(name for name in topology.nodes if name not in seen),
    )


def keep(lake: Lake, given: Given, cluster: str, log: stages.Log) -> Record:
    """Keep a topology for a cluster, in place of the one before; the caller holds the lake's lock."""

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        path = folder / given.path.name
        write_bytes(path, given.data)
        return {_FILE: path}, {"cluster": cluster, "file": given.path.name}

    record, _ = stages.run(
        lake,
        STAGE,
        _scope(cluster),
        inputs={"file": given.path.name, "data": given.data.hex(), "cluster": cluster},
        code=stages.code_version("ingest/topology.py", alone=("ingest/run.py",)),
        build=build,
        log=log,
    )
    return record


def kept(lake: Lake, trace: Trace) -> Path | None:
    """Return the topology that was kept for the cluster of a scenario's log, if there is one."""
    cluster = trace.cluster or _only_cluster(lake, trace) or Options.cluster
    record = lake.record(STAGE, _scope(cluster))
    return None if record is None else lake.table(record, _FILE)


def _only_cluster(lake: Lake, trace: Trace) -> str | None:
    """Return the cluster that all ingested files of the source are of, when the scenario reads those."""
    if trace.path is not None or (trace.source is not None and sources.load(trace.source).PUBLIC):
        return None
    found = {
        cluster_of(record)
        for record in lake.records().values()
        if record.stage == INGEST and record.facts["source"] == trace.source
    }
    return found.pop() if len(found) == 1 else None


def _scope(cluster: str) -> str:
    return stages.input_hash({"cluster": cluster})[:16]  # a name may hold what no folder's name may
