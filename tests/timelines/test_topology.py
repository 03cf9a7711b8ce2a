"""Nodes laid onto the domains of a topology, faults of whole domains, and blast radii."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline import resources
from pipeline.config import Scenario, parse
from pipeline.errors import InputError
from pipeline.lake import catalog, checks, sql, stages
from pipeline.lake.store import Lake, Record
from pipeline.synth import run as synth
from pipeline.timelines import run, what_ifs
from tests.timelines import lab
from tests.timelines.lab import Fault

SAMPLES = resources.folder("samples")
WINDOW = 100
# Three racks of two 4-GPU nodes; in the file's order b2 stands before b1.
RACKS = "node,domain\na2,left\na1,left\nb2,mid\nb1,mid\nc1,right\nc2,right\n"
LOG = [Fault("a1", 1, 10, 50), Fault("b2", None, 30, 90)]


def scenario(folder: Path, racks: str | None = RACKS, **cluster: Any) -> Scenario:
    """Return a scenario of the lab's log on a topology written beside it."""
    first, last = ((lab.START + timedelta(seconds=second)).isoformat() for second in (0, WINDOW))
    machines = {"gpus_per_node": 4, "domain_size": 8}
    if racks is not None:
        (folder / "racks.csv").write_text(racks)
        machines |= {"placement": "topology", "topology": "racks.csv"}
    machines = {key: value for key, value in {**machines, **cluster}.items() if value is not None}
    document = {
        "trace": {"source": "intervals", "window": [first, last]},
        "cluster": machines,
        "job": {"tp": 4},
        "policy": [{"name": "p", "response": "dp-drop"}],
    }
    return parse(document, name="lab", path=folder / "lab.toml")


def rows(faults: Sequence[Fault], domains: dict[int, str] | None = None) -> pa.Table:
    """Return the faults as events; those in `domains` (by row, from 0) are faults of that domain."""
    table = lab.events(faults)
    plain = table.to_pylist()
    for row, name in (domains or {}).items():
        plain[row] |= {"domain": name or None, "scope": "domain", "node": plain[row]["node"] or None}
    return pa.Table.from_pylist(plain, schema=table.schema)


def built(
    lake: Lake, mine: Scenario, faults: Sequence[Fault] = LOG, domains: dict[int, str] | None = None
) -> tuple[Record, list[str]]:
    """Run the stage on these faults; return its record and what it logged."""
    events, _ = stages.run(
        lake,
        "ingest",
        "log",
        inputs={"log": [tuple(fault) for fault in faults], "domains": domains},
        code="1",
        build=lambda folder: (stages.write_tables(folder, {"events": rows(faults, domains)}), {}),
        log=lambda _: None,
    )
    told: list[str] = []
    record, _ = run.stage(lake, mine, [events], told.append)
    return record, told


def places(lake: Lake, record: Record) -> dict[str, tuple[int | None, int]]:
    """Return (domain, first GPU) of every node."""
    frame = pl.read_parquet(lake.table(record, "placements"))
    return {row["node"]: (row["domain_id"], row["gpu_first"]) for row in frame.iter_rows(named=True)}


def down(lake: Lake, record: Record) -> list[tuple[int, int, int, int, int]]:
    """Return (domain, first GPU, last GPU, from second, to second) of the downtime."""
    frame = lab.seconds(pl.read_parquet(lake.table(record, "gpu_downtime")), "t_start", "t_end")
    return sorted(frame.select("domain_id", "gpu_first", "gpu_last", "t_start", "t_end").rows())


def test_a_lemon_that_never_fails_keeps_the_faults_of_its_domain(tmp_path: Path) -> None:
    """b2 is the worst node; what takes down its whole rack is no fault of b2, though the log names it."""
    lake = Lake(tmp_path)
    faults = [*LOG, Fault("b2", None, 92, 95)]
    record, _ = built(lake, scenario(tmp_path), faults, {2: "mid"})
    assert pl.read_parquet(lake.table(record, "worst_nodes"))["node"].to_list() == ["b2"]
    frame = pl.read_parquet(lake.table(record, "what_if_gpu_downtime"))
    mine = lab.seconds(frame.filter(pl.col("what_if") == what_ifs.HEALTHY_LEMONS), "t_start", "t_end")
    places_down = mine.select("domain_id", "gpu_first", "gpu_last", "t_start", "t_end").rows()
    assert sorted(places_down) == [(0, 5, 5, 10, 50), (1, 0, 7, 92, 95)]


# -- the placement ------------------------------------------------------------------------------


def test_nodes_lie_where_the_topology_says(tmp_path: Path) -> None:
    """Domains and the nodes within them keep the file's order; nodes that never fail are part of the pool."""
    lake = Lake(tmp_path)
    mine = scenario(tmp_path)
    record, told = built(lake, mine)
    assert places(lake, record) == {
        "a2": (0, 0), "a1": (0, 4), "b2": (1, 0), "b1": (1, 4), "c1": (2, 0), "c2": (2, 4),
    }  # fmt: skip
    assert (mine.cluster.nodes, mine.cluster.pool_domains, mine.cluster.pool_gpus) == (6, 3, 24)
    assert down(lake, record) == [(0, 5, 5, 10, 50), (1, 0, 3, 30, 90)]
    assert record.outputs["domain_timeline"].rows == 3 + 2 + 0 + 2
    names = pl.read_parquet(lake.table(record, "placements"))["domain"].to_list()
    assert names == ["left", "left", "mid", "mid", "right", "right"]
    assert record.facts["unplaced_nodes"] == record.facts["unplaced_outages"] == 0
    assert told[1:] == []


@pytest.mark.parametrize("name", ["topology.csv", "topology.conf", "topology.yaml"])
def test_every_format_gives_the_same_placement(tmp_path: Path, name: str) -> None:
    """The shipped CSV, topology.conf and topology.yaml give one placement, the same tables and hash."""
    lake = Lake(tmp_path)
    sizes = {"gpus_per_node": 8, "domain_size": 24, "placement": "topology"}
    log = [Fault("node-09", 1, 10, 50), Fault("node-12", None, 30, 90)]
    made = []
    for file in (name, "topology.csv"):
        mine = scenario(tmp_path, None, topology=str(SAMPLES / file), **sizes)
        record, _ = built(lake, mine, log)
        made.append((record.outputs["placements"].sha256, record.outputs["gpu_downtime"].sha256))
        assert (mine.cluster.nodes, mine.cluster.pool_domains) == (12, 4)
        assert down(lake, record) == [(2, 9, 9, 10, 50), (3, 16, 23, 30, 90)]
    assert made[0] == made[1]


def test_the_names_in_the_topology_are_the_population(tmp_path: Path) -> None:
    """`nodes` may be left out; the same number is accepted and another one refused with both numbers."""
    assert scenario(tmp_path, nodes=6).cluster.nodes == 6
    with pytest.raises(InputError) as caught:
        scenario(tmp_path, nodes=7)
    assert str(caught.value) == (
        "lab.toml [cluster] nodes: 7, but racks.csv has 6 nodes\n"
        "  expected: 6, or no nodes\n"
        "  to do: leave nodes out: it is taken from the file"
    )


def test_spare_nodes_stand_inside_the_rack(tmp_path: Path) -> None:
    """A block of three nodes is one domain, even when the job needs two: the third is a spare in the rack."""
    text = "node,domain\n" + "".join(f"n{rack}{node},r{rack}\n" for rack in range(4) for node in range(3))
    mine = scenario(tmp_path, text, domain_size=12)
    assert mine.cluster.pool_domains == 4
    with pytest.raises(
        InputError, match=r"4 of 4 domains .* do not fit: r0 \(12 GPUs\)[\s\S]*domain_size = 12 fits"
    ):
        scenario(tmp_path, text, domain_size=8)


UNEVEN = RACKS + "d1,short\ne1,long\ne2,long\ne3,long\n"


def test_domains_of_another_size_are_refused(tmp_path: Path) -> None:
    """The message names the domains and their sizes, what was expected, and how to go on without them."""
    with pytest.raises(InputError) as caught:
        scenario(tmp_path, UNEVEN)
    assert str(caught.value) == (
        "lab.toml [cluster] topology: 2 of 5 domains in racks.csv do not fit: "
        "short (4 GPUs), long (12 GPUs)\n"
        "  expected: 8 GPUs (domain_size) in each, 4 (gpus_per_node) in each node\n"
        '  to do: mend the file, or uneven_domains = "drop" leaves such domains out'
    )


def test_domains_of_another_size_are_dropped_by_choice(tmp_path: Path) -> None:
    """Their nodes and faults are unplaced and counted; the other domains are numbered without gaps."""
    lake = Lake(tmp_path)
    text = UNEVEN.replace("d1,short\n", "").replace("domain\n", "domain\nd1,short\n")
    mine = scenario(tmp_path, text, uneven_domains="drop")
    record, told = built(lake, mine, [*LOG, Fault("e2", 1, 5, 9), Fault("", None, 5, 9)], {3: "long"})
    assert (mine.cluster.nodes, mine.cluster.pool_domains) == (10, 3)
    found = places(lake, record)
    assert {name for name, (domain, _) in found.items() if domain is None} == {"d1", "e1", "e2", "e3"}
    assert found["c2"] == (2, 4)
    assert record.facts["unplaced_nodes"] == 4
    assert record.facts["unplaced_outages"] == 2
    assert record.facts["dropped_domains"] == ["short", "long"]
    assert "unplaced: 4 nodes of domains of another size (short, long)" in told
    assert down(lake, record) == [(0, 5, 5, 10, 50), (1, 0, 3, 30, 90)]


def test_a_node_with_other_gpus_makes_its_domain_uneven(tmp_path: Path) -> None:
    """`gpus` states a node's own number: refused, or dropped with its domain, even when the sum fits."""
    text = RACKS.replace("\n", ",\n").replace("domain,", "domain,gpus", 1)
    text = (
        text.replace("c1,right,", "c1,right,6")
        .replace("c2,right,", "c2,right,2")
        .replace("a1,left,", "a1,left,4")
    )
    with pytest.raises(
        InputError, match=r"1 of 3 .*: right \(8 GPUs, c1 has 6, c2 has 2\)\n.*, 4 \(gpus_per_node\)"
    ):
        scenario(tmp_path, text)
    lake = Lake(tmp_path)
    record, _ = built(lake, scenario(tmp_path, text, uneven_domains="drop"), [*LOG, Fault("c1", 5, 1, 2)])
    assert record.facts["unplaced_nodes"] == 2
    assert record.facts["unplaced_outages"] == 1


def test_nodes_that_the_topology_lacks_are_unplaced(tmp_path: Path) -> None:
    """Nodes of the log outside the topology are counted, the first few named; the rest is as without them."""
    lake = Lake(tmp_path)
    others = [Fault(f"x{number:02}", None, number, 60) for number in range(12)]
    record, told = built(lake, scenario(tmp_path), [*LOG, *others])
    assert record.facts["nodes_outside_topology"] == record.facts["unplaced_nodes"] == 12
    assert record.facts["unplaced_outages"] == 12
    assert record.facts["first_nodes_outside_topology"] == [f"x{number:02}" for number in range(10)]
    assert told[-1] == (
        "unplaced: 12 nodes of the log that the topology lacks (x00, x01, x02, x03, x04 and 7 more)"
    )
    assert down(lake, record) == [(0, 5, 5, 10, 50), (1, 0, 3, 30, 90)]


def test_a_log_of_other_names_is_an_error(tmp_path: Path) -> None:
    """A log without one known node is another cluster's, or names nodes in full; it is no healthy cluster."""
    log = [fault._replace(node=f"{fault.node}.example") for fault in LOG]
    with pytest.raises(InputError) as caught:
        built(Lake(tmp_path), scenario(tmp_path), log)
    told = str(caught.value)
    assert "none of the log's 2 nodes (a1.example, b2.example) is in the topology" in told
    assert "the topology has a1, a2, b1, b2, c1 and 1 more" in told
    assert "short or full host names" in told
    built(Lake(tmp_path), scenario(tmp_path), [*log, Fault("", None, 1, 2)], {2: "left"})


def test_a_gpu_beyond_the_node_is_an_error(tmp_path: Path) -> None:
    """GPU 4 of a 4-GPU node contradicts gpus_per_node, with a topology too."""
    with pytest.raises(InputError, match="gpus_per_node: 4, but the log names GPU 4"):
        built(Lake(tmp_path), scenario(tmp_path), [Fault("a1", 4, 1, 2)])


def test_a_changed_topology_runs_again_and_a_comment_does_not(tmp_path: Path) -> None:
    """The timelines follow what the topology says, not its bytes; a change during the run is told."""
    lake = Lake(tmp_path)
    first, _ = built(lake, scenario(tmp_path))
    assert built(lake, scenario(tmp_path, RACKS.replace("\n", "\n\n").replace(",", " , ")))[0] == first
    moved, _ = built(lake, scenario(tmp_path, RACKS.replace("a2,left\na1,left", "a1,left\na2,left")))
    assert down(lake, moved)[0] == (0, 1, 1, 10, 50)
    mine = scenario(tmp_path)
    (tmp_path / "racks.csv").write_text(UNEVEN)
    with pytest.raises(InputError, match=r"topology: changed during the run"):
        built(lake, mine, [*LOG, Fault("a1", 1, 70, 80)])


WRONG = [
    ({"topology": None}, ["[cluster] topology: placement is 'topology', topology is 'missing'", "to do:"]),
    ({"placement": None}, ["placement is 'random', topology is 'racks.csv'", 'placement = "topology"']),
    ({"placement": "listed"}, ["placement is 'listed'"]),
    ({"placement_seeds": [0, 1]}, ["placement_seeds: several seeds for a topology placement", "one seed"]),
    ({"topology": "no.csv"}, ["'no.csv' cannot be read", "relative to the scenario file"]),
    ({"uneven_domains": "skip"}, ["uneven_domains: found 'skip'", "drop, refuse"]),
    ({"domain_size": 2}, ["domain_size: 2 GPUs with 4 GPUs a node", "a multiple of gpus_per_node"]),
    ({"blast_radius": {"nvswitch": "domain"}}, ["blast_radius 'nvswitch': unknown component", "nvlink"]),
    ({"blast_radius": {"nvlink": "rack"}}, ["blast_radius 'nvlink': found 'rack'", "domain, gpu, node"]),
    ({"blast_radius": {"nvlink": 0}}, ["blast_radius 'nvlink': found 0", "GPUs from 1 to domain_size (8)"]),
    ({"blast_radius": {"nvlink": 9}}, ["found 9", "domain_size GPUs are"]),
    ({"blast_radius": {"nvlink": True}}, ["blast_radius: found {'nvlink': True}"]),
    ({"blast_radius": {"nvlink": 1.5}}, ["blast_radius: found {'nvlink': 1.5}"]),
    ({"layout": {}}, ["layout", "unknown key"]),
]


@pytest.mark.parametrize(
    ("cluster", "said"), WRONG, ids=[f"{i}-{next(iter(c))}" for i, (c, _) in enumerate(WRONG)]
)
def test_a_wrong_cluster_is_told(tmp_path: Path, cluster: dict[str, Any], said: list[str]) -> None:
    """Keys that contradict each other or hold no known value say what was found and what is allowed."""
    with pytest.raises(InputError) as caught:
        scenario(tmp_path, **cluster)
    told = str(caught.value)
    assert all(part in told for part in said), told
    assert str(tmp_path) not in told


def test_uneven_domains_needs_a_topology(tmp_path: Path) -> None:
    """Without a topology no domain is uneven, and `nodes` is needed."""
    with pytest.raises(InputError, match="uneven_domains: given without a topology"):
        scenario(tmp_path, None, nodes=6, uneven_domains="drop")
    with pytest.raises(InputError, match=r"nodes: missing[\s\S]*or give a topology"):
        scenario(tmp_path, None)


def test_synthetic_failures_fall_onto_the_topology(tmp_path: Path) -> None:
    """Drawn failures have nodes of their own, which take the topology's places in order."""
    lake = Lake(tmp_path)
    (tmp_path / "racks.csv").write_text(RACKS)
    document = {
        "trace": {"preset": "llama3", "days": 2000, "seed": 3},
        "cluster": {"gpus_per_node": 4, "domain_size": 8, "placement": "topology", "topology": "racks.csv"},
        "job": {"tp": 4},
        "policy": [{"name": "p", "response": "dp-drop"}],
    }
    mine = parse(document, name="drawn", path=tmp_path / "drawn.toml")
    events, _ = synth.stage(lake, mine, lambda _: None)
    record, _ = run.stage(lake, mine, [events], lambda _: None)
    assert record.facts["event_nodes"] > 1
    assert record.facts["unplaced_outages"] == 0
    assert list(places(lake, record).values()) == [(0, 0), (0, 4), (1, 0), (1, 4), (2, 0), (2, 4)]
    assert record.outputs["gpu_downtime"].rows > 0


# -- faults of domains ---------------------------------------------------------------------------


def test_a_fault_of_a_domain_takes_all_its_gpus(tmp_path: Path) -> None:
    """It goes by the domain's name, by its node if the topology lacks that name, else it is unplaced."""
    lake = Lake(tmp_path)
    more = [("", None, 5, 9), ("c1", None, 60, 70), ("c1", 3, 80, 90), ("", None, 1, 2), ("a1", None, 95, 96)]
    log = [*LOG, *(Fault(*row) for row in more)]
    record, _ = built(lake, scenario(tmp_path), log, {2: "mid", 3: "sw7", 4: "", 5: "sw7", 6: "right"})
    assert down(lake, record) == [
        (0, 5, 5, 10, 50),
        (1, 0, 3, 5, 9),
        (1, 0, 3, 30, 90),
        (1, 4, 7, 5, 9),
        (2, 0, 7, 60, 70),
        (2, 0, 7, 80, 90),
        (2, 0, 7, 95, 96),
    ]
    assert record.facts["outages"] == 7
    assert record.facts["unplaced_outages"] == 1
    onsets = lab.seconds(pl.read_parquet(lake.table(record, "onsets")), "t")
    assert (5, 1, 0, 7) in onsets.select("t", "domain_id", "gpu_first", "gpu_last").rows()


def test_names_of_domains_mean_nothing_without_a_topology(tmp_path: Path) -> None:
    """A random placement knows no domain by name: such faults are unplaced, unless a node is named."""
    lake = Lake(tmp_path)
    mine = scenario(tmp_path, None, nodes=6, placement="listed")
    record, _ = built(
        lake, mine, [*LOG, Fault("", None, 5, 9), Fault("a1", None, 95, 96)], {2: "mid", 3: "left"}
    )
    assert record.facts["unplaced_outages"] == 1
    assert (0, 0, 7, 95, 96) in {(d, *gpus) for d, *gpus in merged(down(lake, record))}


def merged(ranges: list[tuple[int, int, int, int, int]]) -> list[tuple[int, int, int, int, int]]:
    """Join neighbouring GPU ranges of the same times."""
    joined: list[tuple[int, int, int, int, int]] = []
    for domain, first, last, start, end in sorted(ranges, key=lambda row: (row[0], row[3:], row[1])):
        if (
            joined
            and joined[-1][0] == domain
            and joined[-1][3:] == (start, end)
            and joined[-1][2] == first - 1
        ):
            joined[-1] = (domain, joined[-1][1], last, start, end)
        else:
            joined.append((domain, first, last, start, end))
    return joined


def test_data_quality_counts_unplaced_outages(tmp_path: Path) -> None:
    """The report's line agrees with the stage's fact: unknown domains, missing nodes."""
    lake = Lake(tmp_path)
    log = [
        *LOG,
        Fault("", None, 5, 9),
        Fault("", None, 5, 9),
        Fault("x", 1, 5, 9),
        Fault("y", 1, 5, 9, "info"),
    ]
    record, _ = built(lake, scenario(tmp_path), log, {2: "mid", 3: "sw7"})
    assert record.facts["unplaced_outages"] == 2
    catalog.stage(lake, lambda _: None, "lab")
    with catalog.connect(lake) as con:
        found = con.execute(
            "select item, count, of_count from data_quality('lab') where item like 'unplaced%'"
        ).fetchall()
    assert found == [("unplaced nodes", 2, 8), ("unplaced outages", 2, 6)]


# -- blast radius --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("radius", "found"),
    [
        ({}, [(0, 6, 6)]),
        ({"nvlink": "domain"}, [(0, 6, 6)]),
        ({"gpu": "gpu"}, [(0, 6, 6)]),
        ({"gpu": "node"}, [(0, 4, 7)]),
        ({"gpu": "domain"}, [(0, 0, 7)]),
        ({"gpu": 1}, [(0, 6, 6)]),
        ({"gpu": 2}, [(0, 6, 7)]),
        ({"gpu": 5}, [(0, 0, 2), (0, 6, 7)]),
        ({"gpu": 8}, [(0, 0, 7)]),
    ],
    ids=str,
)
def test_a_component_s_radius_widens_its_faults(
    tmp_path: Path, radius: dict[str, Any], found: list[Any]
) -> None:
    """GPU, node, domain, or n GPUs from the faulty one on, going on at the domain's first GPU."""
    lake = Lake(tmp_path)
    record, _ = built(lake, scenario(tmp_path, blast_radius=radius), [Fault("a1", 2, 10, 50)])
    assert down(lake, record) == [(*place, 10, 50) for place in found]


@pytest.mark.parametrize(
    ("reach", "found"),
    [("gpu", (4, 7)), (1, (4, 7)), (6, (4, 9)), ("node", (4, 7)), ("domain", (0, 7))],
    ids=str,
)
def test_a_radius_never_narrows_a_fault(tmp_path: Path, reach: Any, found: tuple[int, int]) -> None:
    """A node that is down is down as a whole; more GPUs than it has reach into its neighbours."""
    lake = Lake(tmp_path)
    record, _ = built(lake, scenario(tmp_path, blast_radius={"gpu": reach}), [Fault("a1", None, 10, 50)])
    gpus = {gpu for _, first, last, _, _ in down(lake, record) for gpu in range(first, last + 1)}
    assert gpus == {gpu % 8 for gpu in range(found[0], found[1] + 1)}


FAULTS = st.builds(
    Fault,
    st.sampled_from(["n0", "n1", "n2", "n3", ""]),
    st.none() | st.integers(0, 3),
    st.integers(-2, 12),
    st.integers(12, 14),
    st.sampled_from(["down", "down", "app"]),
    st.sampled_from(["gpu", "nvlink", "power"]),
)
REACH = st.sampled_from(["gpu", "node", "domain", 1, 2, 3, 4])


@settings(
    max_examples=40, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
@given(
    faults=st.lists(FAULTS, max_size=8),
    names=st.lists(st.sampled_from(["", "r0", "r1", "sw"]), min_size=8, max_size=8),
    radius=st.dictionaries(st.sampled_from(["gpu", "nvlink", "power"]), REACH),
    layout=st.sampled_from([(4, 2), (4, 4), (2, 4)]),
)
def test_faults_reach_what_a_list_of_gpus_says(
    faults: list[Fault], names: list[str], radius: dict[str, Any], layout: tuple[int, int]
) -> None:
    """Domains by name, radii and parts of nodes, GPU by GPU and second by second; all checks hold."""
    size, per_node = layout
    faults = [
        fault._replace(gpu=fault.gpu if fault.node and (fault.gpu or 0) < per_node else None)
        for fault in faults
    ]
    domains = {row: name for row, name in enumerate(names[: len(faults)]) if name or not faults[row].node}
    machines = lab.cluster(4, per_node, size, blast_radius=radius)
    placed = lab.placements(["n0", "n1", "n2", "n3"], machines)
    placed = placed.with_columns(domain=pl.format("r{}", "domain_id"))
    with sql.connect() as con:
        lab.build(con, rows(faults, domains), placed, lab.parameters(14, size), radius=radius)
        assert checks.broken(con, run.STORED, lab.parameters(14, size)) == []
        frame = lab.seconds(lab.stored(con, "gpu_downtime"), "t_start", "t_end")
    found = sorted(
        (second, row["domain_id"], gpu)
        for row in frame.iter_rows(named=True)
        for second in range(row["t_start"], row["t_end"])
        for gpu in range(row["gpu_first"], row["gpu_last"] + 1)
    )
    wanted = {
        (second, *gpu)
        for row, fault in enumerate(faults)
        if fault.severity == "down"
        for gpu in reached(fault, domains.get(row), radius.get(fault.component), placed, size)
        for second in range(max(0, fault.start_s), min(14, fault.end_s or 14))
    }
    assert found == sorted(wanted)


def reached(
    fault: Fault, domain: str | None, reach: str | int | None, placed: pl.DataFrame, size: int
) -> set[tuple[int, int]]:
    """Return the (domain, GPU) that a fault takes out; `domain` is None for one that is not of a domain."""
    where = {
        (row["node"], row["node_gpu_first"] + gpu): (row["domain_id"], row["gpu_first"] + gpu)
        for row in placed.iter_rows(named=True)
        for gpu in range(row["gpus"])
    }
    by_name = {place for place in where.values() if f"r{place[0]}" == domain}
    own = {place for (node, gpu), place in where.items() if node == fault.node and fault.gpu in {None, gpu}}
    if domain is not None or reach == "domain":
        hit = {number for number, _ in own}
        return by_name or {place for place in where.values() if place[0] in hit}
    if reach == "node":
        return {place for (node, _), place in where.items() if node == fault.node}
    more = reach if isinstance(reach, int) else 1
    starts = {number: min(gpu for domain_id, gpu in own if domain_id == number) for number, _ in own}
    return own | {(number, (first + step) % size) for number, first in starts.items() for step in range(more)}
