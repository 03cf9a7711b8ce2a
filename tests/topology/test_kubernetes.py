"""Kubernetes nodes as a topology: which label counts, which nodes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import resources
from pipeline.errors import InputError
from pipeline.topology import files, kubernetes

CLIQUE, COREWEAVE = kubernetes.LABELS[:2]


def node(name: Any, gpus: int = 8, **labels: Any) -> dict[str, Any]:
    named = {key.replace("__", "/").replace("_", "."): value for key, value in labels.items()}
    capacity = {"cpu": "192", "nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "8"}
    return {"kind": "Node", "metadata": {"name": name, "labels": named}, "status": {"capacity": capacity}}


def rows(*nodes: Any, label: str | None = None) -> list[tuple[str, str]]:
    text = json.dumps({"kind": "List", "items": list(nodes)})
    return [(row.node, row.domain) for row in kubernetes.from_json(text, "nodes.json", label)]


def test_the_sample_says_what_the_other_samples_say() -> None:
    """The same domains in the same order; the control plane is left out."""
    samples = resources.folder("samples")
    topology = files.read(samples / "topology.json", "")
    assert topology.sha256 == files.read(samples / "topology.csv", "").sha256
    assert len(topology.nodes) == 12


def test_the_first_label_that_all_nodes_have_counts() -> None:
    """One that some nodes lack would leave them in no domain."""
    first = node("a", nvidia_com__gpu_clique="u.1", ds_coreweave_com__nvlink_domain="d1")
    both = node("b", nvidia_com__gpu_clique="u.2", ds_coreweave_com__nvlink_domain="d1")
    one = node("b", ds_coreweave_com__nvlink_domain="d2")
    assert rows(first, both) == [("a", "u.1"), ("b", "u.2")]
    assert rows(first, one) == [("a", "d1"), ("b", "d2")]
    assert rows(first, both, label=COREWEAVE) == [("a", "d1"), ("b", "d1")]


def test_nodes_without_gpus_are_left_out_if_any_tells() -> None:
    """An export without capacities keeps all nodes."""
    gpu, plain = node("a", nvidia_com__gpu_clique="u.1"), node("control", 0)
    assert rows(gpu, plain) == [("a", "u.1")]
    assert rows(node("a", 0, nvidia_com__gpu_clique="u.1")) == [("a", "u.1")]


def test_one_node_and_a_bare_list() -> None:
    """A single Node, and an array of Nodes."""
    item = node("a", nvidia_com__gpu_clique="u.1")
    for document in (item, [item]):
        (row,) = kubernetes.from_json(json.dumps(document), "f")
        assert (row.node, row.domain, row.gpus) == ("a", "u.1", None)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "t.json line 1: not valid JSON"),
        ("[" * 100_000, "t.json: JSON that cannot be read"),
        ("5", "t.json: no list of nodes"),
        ('{"items": {}}', "t.json: no list of nodes"),
        ("[]", "t.json: no label"),
        ('[{"kind": "Pod"}]', "t.json node 1: not a Kubernetes node"),
        (json.dumps([node("a"), node("b", nvidia_com__gpu_clique="u")]), "of all 2 nodes with GPUs"),
        (json.dumps([node("a", topology_kubernetes_io__zone="z")]), "no label that says the scale-up domain"),
        (json.dumps([node("\ud800", nvidia_com__gpu_clique="u")]), "node 1: not a Kubernetes node"),
        (json.dumps([node("a", nvidia_com__gpu_clique="u")] * 2), "t.json node 2: node 'a' again"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, told: str) -> None:
    """The message names the file and the place, and a label is never made up."""
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InputError) as caught:
        files.read(tmp_path / "t.json", "")
    assert told in str(caught.value)


@settings(max_examples=100, derandomize=True, database=None, deadline=None)
@given(place=st.integers(0, 400), length=st.integers(0, 30), data=st.binary(max_size=9))
def test_any_damage_is_an_input_error_or_a_topology(
    tmp_path_factory: pytest.TempPathFactory, place: int, length: int, data: bytes
) -> None:
    """Never a traceback."""
    text = json.dumps([node(name, nvidia_com__gpu_clique="u.1") for name in "ab"]).encode()
    file = tmp_path_factory.mktemp("t") / "t.json"
    file.write_bytes(text[:place] + data + text[place + length :])
    try:
        assert files.read(file, "").nodes
    except InputError as error:
        assert error.where.startswith("t.json")  # noqa: PT017 - either of two outcomes is right
