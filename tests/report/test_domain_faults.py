"""Faults of whole domains in the metrics, each worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest
from small_lake import catalog_of, hour, steps

WINDOW_H = 30


def outage(name: str, component: str, start: float, end: float, **more: Any) -> dict[str, Any]:
    return {
        "outage_id": name, "component": component, "t_start": hour(start), "t_end": hour(end),
        "duration_s": (end - start) * 3600, "is_censored": False, "end_origin": "logged", "events": 1, **more,
    }  # fmt: skip


def placements(*domains: tuple[str | None, int | None, list[str]], gpus: int = 4) -> list[dict[str, Any]]:
    """Return rows of `placements`: (name, number, nodes) of each domain, 4 GPUs a node."""
    return [
        {
            "node": node, "domain": name, "domain_id": number, "node_gpu_first": 0, "gpu_first": rank * gpus,
            "gpus": gpus,
        }
        for name, number, nodes in domains
        for rank, node in enumerate(nodes)
    ]  # fmt: skip


# Two racks of two 4-GPU nodes, and a third of another size that was dropped.
RACKS = placements(("r0", 0, ["a", "b"]), ("r1", 1, ["c", "d"]), ("odd", None, ["e", "f", "g"]))
# p1: rack r0 by name for 5 h. p2: the rack of node c for 3 h. p3: the dropped rack for 2 h. p4: a rack nobody
# knows for 1 h. n1: node a for 10 h, over p1. g1: one GPU of d for 4 h.
OUTAGES = [
    outage("p1", "power", 2, 7),
    outage("p2", "cooling", 10, 13, node="c"),
    outage("p3", "power", 15, 17),
    outage("p4", "power", 20, 21),
    outage("n1", "host", 0, 10, node="a"),
    outage("g1", "gpu", 11, 15, node="d", gpu=1),
]
EVENTS = [
    {"event_id": "p1", "scope": "domain", "domain": "r0"},
    {"event_id": "p2", "scope": "domain", "domain": "elsewhere", "node": "c"},
    {"event_id": "p3", "scope": "domain", "domain": "odd"},
    {"event_id": "p4", "scope": "domain", "domain": "unknown"},
    {"event_id": "n1", "scope": "node", "node": "a"},
    {"event_id": "g1", "scope": "gpu", "node": "d", "gpu": 1},
]
TABLES: dict[str, list[dict[str, Any]]] = {
    "outages": OUTAGES,
    "events": [
        {"t_start": hour(0), "file": "log.csv", "row": row, "kind": "interval", "source": "x", **event}
        for row, event in enumerate(EVENTS, 1)
    ],
    "placements": RACKS,
    "cluster_timeline": steps((0, WINDOW_H, 0)),
}


def rows(query: str, **changed: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return catalog_of({**TABLES, **changed}).execute(query).fetchall()


def test_a_fault_of_a_domain_takes_all_its_gpus() -> None:
    """By name, by node, a dropped domain its own size, an unknown one the scenario's."""
    assert rows("select outage_id, gpus, is_of_domain from outages_in_window('s') order by 1") == [
        ("g1", 1, False),
        ("n1", 4, False),
        ("p1", 8, True),
        ("p2", 8, True),
        ("p3", 12, True),
        ("p4", 8, True),
    ]


def test_the_direct_loss_is_of_the_whole_domain() -> None:
    """Power: 5 x 8 + 2 x 12 + 1 x 8 GPU-hours on a, b and e, f, g; cooling: 3 x 8 on c and d."""
    found = rows("select component, outages, nodes, down_gpu_h, share_frac from lost_by_component('s')")
    total = 72 + 24 + 40 + 4
    assert found == [
        ("power", 3, 5, pytest.approx(72), pytest.approx(72 / total)),
        ("host", 1, 1, pytest.approx(40), pytest.approx(40 / total)),
        ("cooling", 1, 2, pytest.approx(24), pytest.approx(24 / total)),
        ("gpu", 1, 1, pytest.approx(4), pytest.approx(4 / total)),
    ]


def test_all_nodes_of_the_domain_are_down() -> None:
    """The union per node: a 0 to 10 h, b 2 to 7 h, c 10 to 13 h, d 10 to 15 h, e to g 15 to 17 h."""
    found = rows("select t_start, failed_nodes from node_timeline('s')")
    hours = [((t - hour(0)).total_seconds() / 3600, nodes) for t, nodes in found]
    assert hours == [(0, 1), (2, 2), (7, 1), (10, 2), (13, 1), (15, 3), (17, 0)]


def test_no_node_is_a_lemon_for_its_rack() -> None:
    """Only a and d failed themselves, although the log names c for a fault of its rack."""
    assert rows("select node, outages, down_gpu_h from lemons('s')") == [("a", 1, 40.0), ("d", 1, 4.0)]


def test_a_node_of_several_domains_takes_those_that_the_fault_reaches() -> None:
    """Domains of 4 GPUs in 8-GPU nodes: GPU 5's domain has 4 of them, the node's domains 8."""
    halves = [
        {"node": "a", "domain_id": part, "node_gpu_first": 4 * part, "gpu_first": 0, "gpus": 4}
        for part in (0, 1)
    ]
    outages = [outage("p1", "power", 0, 1, node="a", gpu=5), outage("p2", "power", 2, 3, node="a")]
    found = rows(
        "select outage_id, node, gpus from nodes_of_domain_faults('s')", placements=halves, outages=outages
    )
    assert found == [("p1", "a", 4), ("p2", "a", 8)]


def test_the_first_placement_says_who_shares_a_domain() -> None:
    """Without names, nodes share a domain as the first placement lays them; an unplaced node stands alone."""
    first = placements((None, 0, ["a", "c"]), (None, 1, ["b", "d"]), (None, None, ["e"]))
    second = [
        {**row, "placement_seed": 1} for row in placements((None, 0, ["c", "d"]), (None, 1, ["a", "b"]))
    ]
    outages = [outage("p2", "power", 0, 1, node="c"), outage("p1", "power", 0, 1, node="e")]
    found = rows("select * from nodes_of_domain_faults('s')", placements=first + second, outages=outages)
    assert found == [("p1", "e", 8), ("p2", "a", 4), ("p2", "c", 4)]


def test_other_faults_are_as_before() -> None:
    """Without a fault of a domain the macros read nothing more."""
    plain = [row for row in OUTAGES if not row["outage_id"].startswith("p")]
    assert rows("from nodes_of_domain_faults('s')", outages=plain) == []
    assert rows("select component, nodes, down_gpu_h from lost_by_component('s')", outages=plain) == [
        ("host", 1, 40.0),
        ("gpu", 1, 4.0),
    ]
