"""The public InfiniteHBD trace through the real stages: what fails, and which GPUs find no full group.

In: the trace's file and a folder for a lake of its own. Out: numbers of nodes, faults and node time; the mean
share of GPUs that are healthy and in no full TP group of their domain, per placement.
Easy to get wrong: [HBD] has nodes of 4 GPUs, the trace nodes of 8. A fault is given to one half of its node
at random (`seed`), and the half that failed is the half that comes back. The population is 400 nodes, not the
231 that fail.
Source: arXiv 2502.03885 and its trace; model.md sections 3 and 8.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import Scenario, parse
from pipeline.ingest import run as ingest
from pipeline.ingest.parsing import Options
from pipeline.lake.store import Lake, Record, write_table
from pipeline.replay import fabrics
from pipeline.timelines import run as timelines
from pipeline.units import US_PER_D

if TYPE_CHECKING:
    import polars as pl

NODES, NODE_GPUS = 400, 8
WINDOW_D = (0.0, 348.98)
HALF_GPUS = 4


def quiet(_: str) -> None:
    """Drop a log line."""


def scenario(name: str, *, domain_size: int, **cluster: Any) -> Scenario:
    """Return a scenario of the trace; its job only has to fit."""
    document = {
        "trace": {"source": "infinitehbd", "window_d": list(WINDOW_D)},
        "cluster": {"nodes": NODES, "domain_size": domain_size, **cluster},
        "job": {"tp": 1},
        "policy": [{"name": "p", "response": "dp-drop"}],
    }
    return parse(document, name=name, path=Path(f"{name}.toml"))


@dataclass(frozen=True)
class Trace:
    """The ingested trace, and tables built on it."""

    lake: Lake
    events: Record

    @classmethod
    def of(cls, root: Path, file: Path) -> Trace:
        """Ingest the trace into a lake at `root`."""
        lake = Lake(root)
        return cls(lake, ingest.ingest_file(lake, "infinitehbd", file, Options(), quiet)[0])

    def tables(self, mine: Scenario) -> dict[str, pl.DataFrame]:
        """Return the timelines of a scenario."""
        import polars as pl

        record, _ = timelines.stage(self.lake, mine, [self.events], quiet)
        return {name: pl.read_parquet(self.lake.table(record, name)) for name in timelines.STORED}

    @cached_property
    def by_node(self) -> dict[str, pl.DataFrame]:
        """The timelines with every node as a domain of its own."""
        return self.tables(scenario("nodes", domain_size=NODE_GPUS))

    def halves(self, root: Path, seed: int) -> Trace:
        """Return the trace on 4-GPU nodes, in a lake at `root`: each fault takes one half of its node."""
        import numpy as np
        import polars as pl

        events = pl.read_parquet(self.lake.table(self.events, "events")).sort("row")
        random = np.random.Generator(np.random.PCG64(seed))
        open_faults: dict[tuple[str, str], list[int]] = {}
        chosen: list[int] = []
        for node, code, kind in events.select("node", "code", "kind").iter_rows():
            queue = open_faults.setdefault((node, code), [])
            if kind == "onset":
                queue.append(int(random.integers(2)))
                chosen.append(queue[-1])
            else:
                chosen.append(queue.pop(0))
        split = events.with_columns(node=pl.col("node") + "-" + pl.Series(chosen).cast(pl.String))
        lake = Lake(root)
        target = lake.path("events.parquet")
        write_table(target, split.to_arrow())
        output = type(self.events.outputs["events"])(
            "events.parquet", f"halves-{seed}", split.height, target.stat().st_size
        )
        return Trace(lake, Record(**{**vars(self.events), "outputs": {"events": output}}))

    def waste_frac(self, size: int, tps: Sequence[int], placements: int) -> dict[int, list[float]]:
        """Return for each TP the share of GPUs healthy and in no full group, by placement, on 4-GPU nodes."""
        mine = scenario(
            f"waste-{size}",
            domain_size=size,
            nodes=NODES * NODE_GPUS // HALF_GPUS,
            gpus_per_node=HALF_GPUS,
            placement_seeds=list(range(placements)),
        )
        domains = self.tables(mine)["domain_timeline"]
        return {tp: waste_frac(domains, size, tp) for tp in tps}

    def ring_waste_frac(self, tp: int, hops: Sequence[int], placements: int) -> dict[int, list[float]]:
        """Return the same for a ring of 4-GPU nodes, by K, the reach of its links."""
        nodes = NODES * NODE_GPUS // HALF_GPUS
        mine = scenario(
            "waste-ring",
            domain_size=HALF_GPUS,
            nodes=nodes,
            gpus_per_node=HALF_GPUS,
            placement_seeds=list(range(placements)),
        )
        domains = self.tables(mine)["domain_timeline"]
        return {k_hop: ring_waste_frac(domains, nodes, tp // HALF_GPUS, k_hop) for k_hop in hops}


def days(frame: pl.DataFrame) -> pl.Series:
    """Return the length of each row in days."""
    return (frame["t_end"].dt.timestamp("us") - frame["t_start"].dt.timestamp("us")) / US_PER_D


def waste_frac(domains: pl.DataFrame, size: int, tp: int) -> list[float]:
    """Return for each placement, in order, the mean share of GPUs that are healthy and in no full group."""
    import polars as pl

    healthy = size - pl.col("failed_gpus")
    frame = domains.with_columns(length=days(domains)).with_columns(
        lost=(healthy - healthy // tp * tp) * pl.col("length"), held=size * pl.col("length")
    )
    sums = frame.group_by("placement_seed").agg(pl.col("lost").sum(), pl.col("held").sum())
    return [lost / held for _, lost, held in sums.sort("placement_seed").iter_rows()]


def ring_waste_frac(domains: pl.DataFrame, nodes: int, each: int, k_hop: int) -> list[float]:
    """Return for each placement, in order, the mean share of nodes healthy and in no group of a ring.

    Groups are of `each` nodes; `domains` is the timeline of the nodes, down when any of their GPUs is.
    """
    import polars as pl

    cut_off = fabrics.load("k-hop-ring").cut_off
    frame = domains.select(
        "placement_seed",
        "domain_id",
        down=pl.col("failed_gpus") > 0,
        start_us=pl.col("t_start").dt.timestamp("us"),
        end_us=pl.col("t_end").dt.timestamp("us"),
    )
    begin, end = int(frame["start_us"].min()), int(frame["end_us"].max())  # type: ignore[arg-type]
    found = []
    for seed in sorted(frame["placement_seed"].unique()):
        rows = frame.filter("down", pl.col("placement_seed") == seed)
        spans = list(
            zip(*(rows[name].to_list() for name in ("domain_id", "start_us", "end_us")), strict=True)
        )
        # A node's rows may abut: it is down while one of them lasts.
        changes = [(t, 1, node) for node, t, _ in spans] + [(t, -1, node) for node, _, t in spans]
        lasting: Counter[int] = Counter()
        lost, since = 0, begin
        for t, step, node in [*sorted(changes), (end, 0, 0)]:
            if t > since:
                down = sorted(node for node, count in lasting.items() if count)
                lost += len(cut_off(down, nodes, each, k_hop).domains) * (t - since)
                since = t
            lasting[node] += step
        found.append(lost / (nodes * (end - begin)))
    return found


def nodes_down(cluster: pl.DataFrame, share: float) -> int:
    """Return the least number of nodes down that is not exceeded for a share of the time."""
    ordered = cluster.with_columns(length=days(cluster)).sort("dirty_domains")
    reached = ordered["length"].cum_sum() / ordered["length"].sum()
    return int(ordered["dirty_domains"][int((reached >= share).arg_max() or 0)])
