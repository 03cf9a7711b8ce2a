"""The SQL timelines against a brute-force union, GPU by GPU and second by second."""

from __future__ import annotations

import os
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from pipeline.lake import checks
from pipeline.lake import sql as lake_sql
from pipeline.schema import arrow_schema
from pipeline.timelines import run
from tests.timelines import lab
from tests.timelines.lab import Fault

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
WINDOW = 14  # short, so that faults meet


@st.composite
def layouts(draw: Any) -> tuple[list[str], Any]:
    """Return node names and a cluster: several nodes a domain, or several domains a node."""
    size, per_node = draw(st.sampled_from([(4, 2), (2, 4), (3, 3), (6, 2), (1, 3), (1, 1)]))
    nodes = draw(st.integers(max(1, size // per_node), 7))
    seeds = draw(st.sampled_from([(0,), (1, 5)]))
    way = "random" if len(seeds) > 1 else "listed"
    names = [f"n{(5 * number) % 8}" for number in range(nodes)]
    return names, lab.cluster(nodes, per_node, size, placement=way, placement_seeds=seeds)


def faults(names: list[str], per_node: int) -> st.SearchStrategy[list[Fault]]:
    """Return logs whose rows crowd on few nodes and instants: nested, abutting, equal, of no length, open."""
    some = st.integers(-3, WINDOW + 3)
    lengths = st.sampled_from([0, 1, 2, 3, 6, 30])
    severities = st.sampled_from(["down", "down", "down", "down", "app", "degraded", "info"])

    def fault(node: str, gpu: int | None, start: int, length: int, is_open: bool, severity: str) -> Fault:
        return Fault(node, gpu, start, None if is_open else start + length, severity)

    gpus = st.none() | st.integers(0, per_node - 1)
    is_open = st.integers(0, 7).map(lambda number: number == 0)
    nodes = st.sampled_from(names[:2]) | st.sampled_from(names)
    return st.lists(st.builds(fault, nodes, gpus, some, lengths, is_open, severities), max_size=12)


def cover(frame: pl.DataFrame, keys: list[str], values: list[str]) -> dict[tuple[Any, ...], list[Any]]:
    """Return the values of every second by key; the intervals of each key must cover the window in order."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in lab.seconds(frame, "t_start", "t_end").iter_rows(named=True):
        seconds = found.setdefault(tuple(row[key] for key in keys), [])
        assert row["t_start"] == len(seconds) < row["t_end"], "a gap or an overlap"
        seconds += [tuple(row[value] for value in values)] * (row["t_end"] - row["t_start"])
    assert all(len(seconds) == WINDOW for seconds in found.values())
    return found


@pytest.mark.slow
@settings(
    max_examples=max(1, EXAMPLES // 12),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data(), layout=layouts())
def test_tables_equal_the_brute_force_union(data: st.DataObject, layout: tuple[list[str], Any]) -> None:
    """Downtime, domains, pool, tail counts and onsets say of each second what the list of faults says."""
    names, machines = layout
    log = data.draw(faults(names, machines.gpus_per_node))
    placed = lab.placements(names, machines)
    note(placed)
    size, domains = machines.domain_size, machines.pool_domains
    with lab.built(log, placed, WINDOW, size) as con:
        assert checks.broken(con, run.STORED, lab.parameters(WINDOW, size)) == []
        tables = {name: lab.stored(con, name) for name in run.STORED}
        assert partitioned_steps(con) == con.sql(f"from domain_steps order by {STEP_KEY}").fetchall()
    by_domain = cover(tables["domain_timeline"], ["placement_seed", "domain_id"], ["failed_gpus"])
    by_pool = cover(tables["cluster_timeline"], ["placement_seed"], ["failed_gpus", "dirty_domains"])
    by_tail = cover(tables["domain_tail"], ["placement_seed", "k"], ["domains_with_at_least_k"])
    assert set(by_pool) == {(seed,) for seed in machines.placement_seeds}
    assert set(by_domain) == {(seed, d) for seed in machines.placement_seeds for d in range(domains)}
    for seed in machines.placement_seeds:
        where = lab.places(log, placed, seed, WINDOW)
        down = lab.down_by_second(where, WINDOW)
        assert gpu_seconds(tables["gpu_downtime"], seed) == sorted(
            (second, *gpu) for second, gpus in enumerate(down) for gpu in gpus
        )
        for second, gpus in enumerate(down):
            failed = [sum(gpu[0] == domain for gpu in gpus) for domain in range(domains)]
            assert [by_domain[seed, d][second][0] for d in range(domains)] == failed
            assert by_pool[(seed,)][second] == (sum(failed), sum(count > 0 for count in failed))
            for k in range(1, size + 1):
                told = by_tail.get((seed, k))
                assert (told[second][0] if told else 0) == sum(count >= k for count in failed)
        assert onset_gpus(tables["onsets"], seed) == lab.onset_gpus(where, WINDOW)
        app = tables["onsets"].filter(pl.col("placement_seed") == seed, pl.col("severity") == "app")
        assert sorted(lab.seconds(app, "t")["t"].to_list()) == sorted(
            fault.start_s for fault in log if fault.severity == "app" and 0 < fault.start_s < WINDOW
        )


def gpu_seconds(frame: pl.DataFrame, seed: int) -> list[tuple[int, int, int]]:
    """Return (second, domain, GPU), each as often as the table says so: once."""
    rows = lab.seconds(frame.filter(pl.col("placement_seed") == seed), "t_start", "t_end")
    return sorted(
        (second, row["domain_id"], gpu)
        for row in rows.iter_rows(named=True)
        for second in range(row["t_start"], row["t_end"])
        for gpu in range(row["gpu_first"], row["gpu_last"] + 1)
    )


def onset_gpus(frame: pl.DataFrame, seed: int) -> set[tuple[int, int, int]]:
    """Return (second, domain, GPU) of the onsets that take GPUs."""
    rows = lab.seconds(frame.filter(pl.col("placement_seed") == seed, pl.col("severity") == "down"), "t")
    return {
        (row["t"], row["domain_id"], gpu)
        for row in rows.iter_rows(named=True)
        for gpu in range(row["gpu_first"], row["gpu_last"] + 1)
    }


STEP_KEY = "placement_seed, domain_id, t_us"


def partitioned_steps(con: Any) -> list[tuple[Any, ...]]:
    """Return domain_steps with the running sum of each domain taken for itself.

    The query takes one sum over all domains in order, which is right because each closed interval nets zero.
    """
    text = lake_sql.load("2_timelines")["domain_steps"].body
    streamed = "sum(change) over (rows unbounded preceding)"
    assert text.count(streamed) == 1
    own = "sum(change) over (partition by placement_seed, domain_id order by t_us rows unbounded preceding)"
    values = {"window_us": lab.parameters(WINDOW, 1)["window_us"]}
    found = con.execute(f"from ({text.replace(streamed, own)}) order by {STEP_KEY}", values)
    return found.fetchall()


# -- single lessons ------------------------------------------------------------------------------


def downtime(log: list[Fault], **more: Any) -> list[tuple[int, ...]]:
    """Return (first GPU, last GPU, start, end) of one 4-GPU node that is a domain."""
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    with lab.built(log, placed, WINDOW, 4, **more) as con:
        frame = lab.seconds(lab.stored(con, "gpu_downtime"), "t_start", "t_end")
    return frame.select("gpu_first", "gpu_last", "t_start", "t_end").rows()


def test_a_gpu_and_its_node_overlap() -> None:
    """A node outage around a GPU outage is one union for that GPU, and the node's for the others."""
    found = downtime([Fault("a", 1, 1, 5), Fault("a", None, 4, 8)])
    assert sorted(found) == [(0, 0, 4, 8), (1, 1, 1, 8), (2, 3, 4, 8)]


def test_many_equal_outages_are_one() -> None:
    """Rows that tie in every column are sorted alike by each step of the union."""
    assert downtime([Fault("a", None, 1, 5)] * 25_000) == [(0, 3, 1, 5)]


def test_abutting_outages_are_one() -> None:
    """An outage that begins as another ends leaves no instant in which the GPU is up, and is no onset."""
    log = [Fault("a", 1, 1, 5), Fault("a", 1, 5, 8)]
    assert downtime(log) == [(1, 1, 1, 8)]
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    with lab.built(log, placed, WINDOW, 4) as con:
        assert lab.stored(con, "onsets")["outage_id"].to_list() == ["e00001"]


def test_an_outage_of_no_length_is_an_onset_only() -> None:
    """It takes no capacity, yet a running job may stop at it; on a GPU that is down it is nothing."""
    log = [Fault("a", 1, 3, 3), Fault("a", 1, 4, 6), Fault("a", 1, 5, 5), Fault("a", 1, 6, 6)]
    assert downtime(log) == [(1, 1, 4, 6)]
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    with lab.built(log, placed, WINDOW, 4) as con:
        assert lab.stored(con, "onsets")["outage_id"].to_list() == ["e00001", "e00002"]


def test_onset_ranges_are_joined_again() -> None:
    """A node outage is cut only at a GPU that was down already."""
    log = [Fault("a", 1, 1, 6), Fault("a", None, 4, 8), Fault("a", None, 10, 12)]
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    with lab.built(log, placed, WINDOW, 4) as con:
        frame = lab.seconds(lab.stored(con, "onsets"), "t")
    rows = frame.select("t", "gpu_first", "gpu_last").rows()
    assert rows == [(1, 1, 1), (4, 0, 0), (4, 2, 3), (10, 0, 3)]


def test_shorter_repairs_and_components_left_out() -> None:
    """A what-if scales repairs but never an open end, and leaves a component out altogether."""
    log = [Fault("a", 0, 2, 10), Fault("a", 1, 4, None), Fault("a", 2, 1, 3, component="host")]
    assert sorted(downtime(log, repair_scale_frac=0.5)) == [(0, 0, 2, 6), (1, 1, 4, 14), (2, 2, 1, 2)]
    assert sorted(downtime(log, left_out=["host"])) == [(0, 0, 2, 10), (1, 1, 4, 14)]


def test_a_component_left_out_is_no_reason_of_that_name() -> None:
    """A log's reason may be any text: a host fault for the reason "power" stays when power is left out."""
    log = [Fault("a", 0, 2, 10, component="host", reason="power"), Fault("a", 1, 4, 6, component="power")]
    assert downtime(log, left_out_components=["power"]) == [(0, 0, 2, 10)]
    assert downtime(log, left_out=["power"]) == []


def test_a_scenario_chooses_what_is_down() -> None:
    """[trace.severity] maps components and reasons; the reason wins over the component."""
    log = [
        Fault("a", 0, 1, 3, component="cooling", reason="fan"),
        Fault("a", 1, 1, 3, component="cooling", reason="pump"),
        Fault("a", 2, 1, 3, "degraded", "nic", "slow"),
    ]
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    choices = {"cooling": "degraded", "pump": "down", "slow": "app"}
    with lake_sql.connect() as con:
        lab.build(con, lab.events(log), placed, lab.parameters(WINDOW, 4), choices)
        assert lab.stored(con, "gpu_downtime")["gpu_first"].to_list() == [1]
        assert sorted(lab.stored(con, "onsets")["severity"].to_list()) == ["app", "down"]


def test_a_scenario_chooses_by_code_too() -> None:
    """A code stands for all of its reasons, also of information; a reason wins, a component gives way."""
    log = [
        Fault("a", gpu, 1, 3, severity, component, reason)
        for gpu, (severity, component, reason) in enumerate(
            [
                ("down", "gpu", "Xid 79, fell off"),
                ("down", "gpu", "Xid 79, is lost"),
                ("info", "gpu", "Xid 63, a row is remapped"),
                ("info", "gpu", "noted"),
                ("down", "gpu", "Xid 48"),
            ]
        )
    ]
    codes = ["xid 79", "xid 79", "xid 63", "gpu", "xid 48"]
    table = lab.events(log)
    frame = pl.from_arrow(table).with_columns(code=pl.Series(codes))
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    choices = {"xid 79": "app", "Xid 79, is lost": "degraded", "xid 63": "down", "gpu": "info"}
    with lake_sql.connect() as con:
        lab.build(con, frame.to_arrow().cast(table.schema), placed, lab.parameters(WINDOW, 4), choices)
        found = con.sql("select gpu, severity from outages order by gpu").fetchall()
    assert found == [(0, "app"), (1, "degraded"), (2, "down"), (3, "info"), (4, "info")]


def test_onsets_and_clears_pair_by_fault_and_in_file_order() -> None:
    """A fault of no length opens and closes in file order; a second onset of an open fault opens nothing."""
    table = lab.events([Fault("a", 0, start, None, reason=code) for start, code in ROWS])
    kinds = ["onset", "onset", "clear", "clear", "onset", "clear", "clear", "onset"]
    frame = pl.from_arrow(table).with_columns(kind=pl.Series(kinds))
    placed = lab.placements(["a"], lab.cluster(1, 4, 4))
    with lake_sql.connect() as con:
        lab.build(con, frame.to_arrow().cast(table.schema), placed, lab.parameters(WINDOW, 4))
        outages = lab.seconds(lab.stored(con, "outages"), "t_start", "t_end")
        unpaired = con.sql('select "row" from unpaired_clears').fetchall()
    found = outages.select("outage_id", "t_start", "t_end", "is_censored", "events").rows()
    assert sorted(found) == [
        ("e00001", 1, 4, False, 3),
        ("e00005", 6, 6, False, 2),
        ("e00008", 9, WINDOW, True, 1),
    ]
    assert unpaired == [(4,), (7,)]


ROWS = [(1, "x"), (2, "x"), (4, "x"), (5, "x"), (6, "x"), (6, "x"), (7, "y"), (9, "y")]


@pytest.mark.parametrize(("file", "row", "outages"), [("f", 2, 2), ("g", 2, 1), ("f", 1, 1)])
def test_an_open_interval_told_again_with_its_end_is_one_outage(file: str, row: int, outages: int) -> None:
    """A log that has grown tells the end of an outage that was open; two rows of one file stay two."""
    events = lab.events([Fault("a", None, 2, None), Fault("a", None, 2, 9)]).to_pydict()
    events["file"], events["row"] = ["f", file], [1, row]
    with lake_sql.connect() as con:
        rows = pa.table(events, schema=arrow_schema("events"))
        placed = lab.placements(["a"], lab.cluster(1, 8, 8))
        lab.build(con, rows, placed, lab.parameters(WINDOW, 8))
        found = con.execute("select is_censored from outages order by is_censored").fetchall()
    assert len(found) == outages
    assert found[0] == (False,)
