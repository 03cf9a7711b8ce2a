"""Kubernetes nodes as JSON: a label of the node names its scale-up domain.

In: the text of `kubectl get nodes -o json`. Out: one `Row` a node that has GPUs, in the file's order; the
domain is the value of the first label of `LABELS` that all of them have.
Easy to get wrong: nodes without a GPU (control plane, storage) are left out, if any node tells of GPUs at
all; a label that only some nodes have is passed over, because the others would lie in no domain. The GPUs of
a node are not taken from its capacity, which shrinks when one of them is lost. A zone or region is no
scale-up domain.
Source: Kubernetes' Node API v1; NVIDIA GPU feature discovery and its DRA driver (<cluster UUID>.<clique id>);
documents of CoreWeave; well-known labels of Kubernetes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pipeline.errors import InputError, listed
from pipeline.topology.layout import Row

LABELS = (
    "nvidia.com/gpu.clique",
    "ds.coreweave.com/nvlink.domain",
    "topology.kubernetes.io/nvlink-domain",
    "topology.kubernetes.io/block",
    "topology.kubernetes.io/rack",
)
_EXPORT = "kubectl get nodes -o json"
_GPUS = ("nvidia.com/gpu", "amd.com/gpu")


def from_json(text: str, file: str, label: str | None = None) -> Iterator[Row]:
    """Yield the nodes of an export by a label, or by the first of `LABELS` that all have."""
    nodes = _with_gpus(_items(text, file))
    for label_of in (label,) if label else LABELS:
        domains = [_word(_labels(node).get(label_of)) for _, node in nodes]
        if nodes and all(domains):
            break
    else:
        raise InputError(
            file,
            f"no label that says the scale-up domain of all {len(nodes)} nodes with GPUs",
            listed([label] if label else LABELS),
            "label the nodes, or write a CSV of node,domain",
        )
    for (number, node), domain in zip(nodes, domains, strict=True):
        yield Row(f"node {number}", _name(node), domain)


def _items(text: str, file: str) -> list[tuple[int, dict[str, Any]]]:
    """Return the nodes of a List, or the one node, with their places."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{file} line {error.lineno}"
        raise InputError(where, f"not valid JSON ({error.msg})", _EXPORT, "export the nodes again") from None
    except (ValueError, RecursionError) as error:
        raise InputError(file, f"JSON that cannot be read ({type(error).__name__})", _EXPORT) from None
    items = document.get("items", [document]) if isinstance(document, dict) else document
    if not isinstance(items, list):
        raise InputError(file, "no list of nodes", _EXPORT)
    for number, item in enumerate(items, 1):
        is_node = isinstance(item, dict) and item.get("kind", "Node") == "Node" and _name(item)
        if not is_node:
            raise InputError(f"{file} node {number}", "not a Kubernetes node", _EXPORT)
    return list(enumerate(items, 1))


def _with_gpus(nodes: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
    """Return the nodes that have GPUs; all of them when none tells."""
    return [node for node in nodes if _gpus(node[1])] or nodes


def _gpus(node: dict[str, Any]) -> bool:
    capacity = _table(_table(node.get("status")).get("capacity"))
    counts = [str(capacity.get(name, "0")) for name in _GPUS]
    return any(count.isdecimal() and int(count[:9]) > 0 for count in counts)


def _labels(node: dict[str, Any]) -> dict[str, Any]:
    return _table(_table(node.get("metadata")).get("labels"))


def _name(node: dict[str, Any]) -> str:
    return _word(_table(node.get("metadata")).get("name"))


def _word(value: Any) -> str:
    """Return a text that UTF-8 can spell (JSON can escape half of a surrogate pair), else an empty one."""
    return value if isinstance(value, str) and value == value.encode("utf-8", "replace").decode() else ""


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
