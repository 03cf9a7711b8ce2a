"""Slurm's topology.conf and topology.yaml of the block plugin: a block is a scale-up domain.

In: the text. Out: one `Row` a node, blocks and nodes in the file's order.
Easy to get wrong: BlockSizes is what Slurm plans with and may be smaller than the block; the block itself is
the domain, and its nodes beyond what the job needs are spares inside the rack. A tree of switches says
nothing about scale-up domains and is refused. In YAML every scalar stays a text: block 010 is not block 8.
Source: topology.conf(5), topology.yaml(5) of Slurm 25.05, and the reader of its configuration files:
keys in any case, values in double quotes if they hold spaces, `#` comments, a backslash joins lines.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator
from typing import Any

from pipeline import hostlist
from pipeline.errors import InputError, listed, nearest
from pipeline.topology.layout import Row

_TREE = "switches (topology/tree), which say nothing about scale-up domains"
_BLOCKS = "blocks (topology/block), or a CSV of node,domain"
_WRITE = "topology.yaml(5) has the layout; a CSV of node,domain says the same"
_CHECK = "`scontrol show hostnames LIST` tells what Slurm makes of it"
_PAIR = re.compile(r"""\s*([A-Za-z0-9_.]+)\s*=\s*(?:"([^"]*)"|(\S+))(?=\s|$)""")
_COMMENT = re.compile(r"(?<!\\)#.*")
_SIZES = re.compile(r"[0-9]+(,[0-9]+)*")


def from_conf(text: str, file: str) -> Iterator[Row]:
    """Yield the nodes of the blocks of a topology.conf."""
    known = ("BlockName", "Nodes", "BlockSizes", "BlockLevels", "TopologyPlugin")
    blocks = _Blocks(file)
    for place, line in _joined_lines(text):
        where = f"{file} {place}"
        pairs: dict[str, str] = {}
        for key, value in _pairs(line, where):
            if key.lower() in pairs:
                raise InputError(where, f"{key} twice", "each key once in a line", "a line for each block")
            pairs[key.lower()] = value
        if "switchname" in pairs or pairs.get("topologyplugin", "").endswith("tree"):
            raise InputError(where, _TREE, _BLOCKS, _WRITE)
        for key in pairs:
            if key not in map(str.lower, known):
                raise InputError(where, f"unknown key {key!r}", listed(known), nearest(key, known))
        if pairs.get("topologyplugin", "topology/block").lower() not in {"topology/block", "block"}:
            raise InputError(where, f"TopologyPlugin={pairs['topologyplugin']}", _BLOCKS, _WRITE)
        _check_sizes(where, pairs.get("blocksizes", pairs.get("blocklevels", "1")))
        if "blockname" in pairs:
            yield from blocks.rows(place, pairs["blockname"], pairs.get("nodes", ""))
        elif "nodes" in pairs:
            raise InputError(
                where, "Nodes without BlockName", "BlockName=b1 Nodes=node[01-18]", "name the block"
            )


def _joined_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the lines without comments, those that end in a backslash joined to the next."""
    held, first = "", 0
    for number, raw in enumerate([*text.split("\n"), ""], 1):
        line = _COMMENT.sub("", raw).rstrip()
        first = first if held else number
        held += line.removesuffix("\\")
        if line.endswith("\\") and held:
            continue
        if held.strip():
            yield f"line {first}", held
        held = ""


def _pairs(line: str, where: str) -> Iterator[tuple[str, str]]:
    end = len(line.rstrip())
    place = 0
    while place < end:
        hit = _PAIR.match(line, place)
        if hit is None:
            found = f"{line[place:].strip()[:40]!r} is not Key=Value"
            raise InputError(
                where, found, "BlockName=b1 Nodes=node[01-18]", "a value with spaces needs quotes"
            )
        yield hit[1], hit[3] if hit[2] is None else hit[2]
        place = hit.end()


def from_yaml(text: str, file: str) -> Iterator[Row]:
    """Yield the nodes of the blocks of a topology.yaml."""
    import yaml

    try:
        document = yaml.load(text, yaml.BaseLoader)  # noqa: S506 - makes texts, lists and dicts, nothing else
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{file} line {mark.line + 1}" if mark else file
        raise InputError(
            where, f"not YAML ({getattr(error, 'problem', None) or error})", "topology.yaml"
        ) from None
    items = _list(document, file, "a list of topologies")
    found = [item for item in items if isinstance(item, dict) and "block" in item]
    if len(found) > 1:
        found = [item for item in found if item.get("cluster_default") == "true"] or found
    if len(found) != 1:
        has_tree = any(isinstance(item, dict) and "tree" in item for item in items)
        told = _TREE if has_tree and not found else f"{len(found)} topologies with blocks"
        expected = (
            f"one with {_BLOCKS}" if has_tree else "one topology with blocks, or one that is cluster_default"
        )
        raise InputError(file, told, expected, _WRITE)
    body = found[0]["block"]
    if not isinstance(body, dict):
        raise InputError(f"{file} block", f"found {reprlib.repr(body)}", "block_sizes and blocks", _WRITE)
    sizes = _list(body.get("block_sizes", ["1"]), f"{file} block_sizes", "a list of sizes")
    _check_sizes(f"{file} block_sizes", ",".join(size if isinstance(size, str) else "?" for size in sizes))
    blocks = _Blocks(file)
    for number, item in enumerate(_list(body.get("blocks"), f"{file} blocks", "a list of blocks"), 1):
        place = f"block {number}"
        names = [item.get("block"), item.get("nodes", "")] if isinstance(item, dict) else []
        if not names or not all(isinstance(name, str) for name in names):
            raise InputError(
                f"{file} {place}", f"found {reprlib.repr(item)}", "block: b1 and nodes: node[01-18]"
            )
        yield from blocks.rows(place, names[0], names[1])


class _Blocks:
    """The blocks read so far: each name once, with nodes, and no more hosts than a list may have."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.first: dict[str, str] = {}
        self.left = hostlist.LIMIT

    def rows(self, place: str, name: str, nodes: str) -> list[Row]:
        """Return the nodes of a block."""
        where = f"{self.file} {place}"
        if name in self.first:
            raise InputError(
                where,
                f"block {name!r} again; first at {self.first[name]}",
                "each block once",
                "join or rename them",
            )
        self.first[name] = place
        try:
            names = hostlist.expand(nodes, self.left)
        except hostlist.HostListError as error:
            raise InputError(f"{where}, nodes of {name!r}", error.found, error.expected, _CHECK) from None
        if not names:
            raise InputError(
                where,
                f"block {name!r} has no nodes",
                "nodes, e.g. node[01-18]",
                "take the block out, or name its nodes",
            )
        self.left -= len(names)
        return [Row(place, node, name) for node in names]


def _check_sizes(where: str, text: str) -> None:
    """Refuse block sizes that are no numbers; what they are does not matter here."""
    if not _SIZES.fullmatch(text):
        raise InputError(
            where, f"block sizes {text[:40]!r}", "whole numbers, e.g. 18,36", "mend or leave them out"
        )


def _list(value: Any, where: str, expected: str) -> list[Any]:
    if not isinstance(value, list):
        found = "nothing" if value is None else f"found {reprlib.repr(value)}"
        raise InputError(where, found, expected, _WRITE)
    return value
