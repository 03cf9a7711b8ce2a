"""How nodes lie in domains."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.config import Cluster
from pipeline.errors import InputError
from pipeline.timelines import placement
from tests.timelines import lab

SIZES = st.sampled_from([(8, 8), (72, 8), (8, 72), (4, 1), (1, 4), (6, 3), (3, 6)])


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(size=SIZES, nodes=st.integers(1, 40), seed=st.integers(0, 2**32), random=st.booleans())
def test_every_gpu_has_one_place(size: tuple[int, int], nodes: int, seed: int, random: bool) -> None:
    """Each GPU appears once; domains are filled without gap or overlap, and the rest is unplaced."""
    domain_size, per_node = size
    way = "random" if random else "listed"
    machines = lab.cluster(nodes, per_node, domain_size, placement=way, placement_seeds=(seed,))
    names = [f"n{number}" for number in range(nodes)]
    frame = placement.place(names, machines, "lab", seed)
    own = sorted(
        (row["node"], gpu)
        for row in frame.iter_rows(named=True)
        for gpu in range(row["node_gpu_first"], row["node_gpu_first"] + row["gpus"])
    )
    assert own == sorted((name, gpu) for name in names for gpu in range(per_node))
    inside = sorted(
        (row["domain_id"], gpu)
        for row in frame.drop_nulls("domain_id").iter_rows(named=True)
        for gpu in range(row["gpu_first"], row["gpu_first"] + row["gpus"])
    )
    assert inside == [(d, gpu) for d in range(machines.pool_domains) for gpu in range(domain_size)]


def test_listed_keeps_the_order_of_the_log() -> None:
    """Consecutive nodes share a domain, within it they are numbered by name; the last are unplaced."""
    names = ["c", "a", "d", "b", "e"]
    frame = placement.place(names, lab.cluster(5, 2, 4), "lab", 0)
    assert {row["node"]: (row["domain_id"], row["gpu_first"]) for row in frame.iter_rows(named=True)} == {
        "a": (0, 0), "c": (0, 2), "b": (1, 0), "d": (1, 2), "e": (None, 0),
    }  # fmt: skip


def test_a_node_of_several_domains() -> None:
    """A domain smaller than a node takes a part of its GPUs, in order."""
    frame = placement.place(["b", "a"], lab.cluster(2, 8, 4), "lab", 0)
    rows = frame.select("node", "domain_id", "node_gpu_first", "gpu_first", "gpus").rows()
    assert rows == [("b", 0, 0, 0, 4), ("b", 1, 4, 0, 4), ("a", 2, 0, 0, 4), ("a", 3, 4, 0, 4)]


def test_a_placement_depends_on_names_and_seed_only() -> None:
    """The same seed gives the same placement from a log in another order; another seed gives another."""
    names = [f"n{number}" for number in range(30)]
    machines = lab.cluster(30, 8, 16, placement="random", placement_seeds=(1, 2, 3))
    frames = [placement.place(names, machines, "lab", seed) for seed in (1, 2, 3)]
    again = placement.place(names[::-1], machines, "lab", 1)
    assert frames[0].sort("node").equals(again.sort("node"))
    layouts = {tuple(frame.sort("node")["domain_id"].to_list()) for frame in frames}
    assert len(layouts) == 3


def test_random_placements_are_even() -> None:
    """Over 800 seeds a node lies in each of five domains equally often, within 4 standard errors."""
    names = [f"n{number}" for number in range(10)]
    machines = lab.cluster(10, 8, 16, placement="random")
    counts = [0] * 5
    for seed in range(800):
        frame = placement.place(names, machines, "lab", seed)
        counts[frame.filter(pl.col("node") == "n3")["domain_id"].item()] += 1
    assert sum(counts) == 800
    assert all(abs(count - 160) < 4 * (800 * 0.2 * 0.8) ** 0.5 for count in counts)


def cluster(nodes: int) -> Cluster:
    return lab.cluster(nodes, 8, 8)


def test_nodes_that_never_fail_take_part() -> None:
    """The population is the cluster's, not the log's; unnamed nodes follow the named ones."""
    assert placement.population(["x", "y"], cluster(5), "s.toml") == [
        "x", "y", "unnamed-1", "unnamed-2", "unnamed-3",
    ]  # fmt: skip
    assert placement.population([], cluster(12), "s.toml")[8:10] == ["unnamed-09", "unnamed-10"]


def test_more_named_nodes_than_nodes_is_an_error() -> None:
    """A log that names more nodes than the scenario states says both numbers."""
    with pytest.raises(InputError, match=r"s\.toml \[cluster\] nodes: 2, but the log names 3 nodes"):
        placement.population(["x", "y", "z"], cluster(2), "s.toml")


def test_a_log_with_a_node_named_like_an_unnamed_one_is_an_error() -> None:
    """Two nodes of one name would share their failures."""
    with pytest.raises(InputError, match="unnamed-1"):
        placement.population(["unnamed-1"], cluster(3), "s.toml")
