"""What a scenario assumes: every value with its meaning, and where the number is from.

In: a scenario. Out: rows for the page. The meaning is the `doc` of the dataclass's field, the origin the
comment on the value's line of the TOML file; a value that the file leaves out is a default and marked so.
Easy to get wrong: a `#` inside quotes begins no comment.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.config import Cluster, Scenario

DEFAULT = "assumed: default of the program"
_UNITS = {"_s": "s", "_d": "days", "_w": "W", "days": "days"}
_KEY = re.compile(r"^\s*([A-Za-z_][\w-]*|\"[^\"]*\")\s*=")
_SECTION = re.compile(r"^\s*\[+\s*([^\]]+?)\s*\]+")
_COMMENT = re.compile(r"""(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^"'#])*#\s*(.*)$""")


@dataclass(frozen=True)
class Value:
    """One value of a scenario."""

    section: str
    key: str
    value: str
    meaning: str
    origin: str


def comments(path: Path) -> dict[tuple[str, str], str]:
    """Return the comment on each key's line by (section, key); policies are `policy 1`, `policy 2`, ..."""
    found: dict[tuple[str, str], str] = {}
    section, policies = "", 0
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        if header := _SECTION.match(line):
            section = header[1]
            if section == "policy":
                policies += 1
                section = f"policy {policies}"
            elif section.startswith("policy."):
                section = f"policy {policies}{section[len('policy') :]}"
        elif key := _KEY.match(line):
            comment = _COMMENT.match(line)
            found[section, key[1].strip('"')] = comment[1].strip() if comment else ""
    return found


def _given(path: Path) -> dict[tuple[str, str], str]:
    """Return the keys that a scenario sets, however it spells its tables, each without a comment."""
    document = tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    policies = document.pop("policy", [])
    tables = {name: table for name, table in document.items() if isinstance(table, dict)}
    for number, policy in enumerate(policies, 1):
        tables[f"policy {number}"] = policy
        tables[f"policy {number}.costs"] = policy.get("costs", {})
    return {(name, key): "" for name, table in tables.items() for key in table}


def values(scenario: Scenario) -> list[Value]:
    """Return every value of a scenario in the file's order of sections; keys without a value are left out."""
    noted = {**_given(scenario.path), **comments(scenario.path)}
    rows: list[Value] = []
    pace = () if scenario.step_time.kind == "ideal" else ("step_time", "model", "gpu")
    for section in ("trace", "cluster", "job", "costs", "power", *pace):
        rows += _rows(section, section, getattr(scenario, section), noted)
    if not scenario.trace.is_synthetic:  # a log has no start and no draws; a seed only for what is assumed
        absent = {"start", "redraws"} | (set() if scenario.trace.assumed_per_1000_node_d else {"seed"})
        rows = [row for row in rows if row.section != "trace" or row.key not in absent]
    layout = scenario.cluster.layout
    if layout is not None and scenario.cluster.topology is None:
        (about,) = (item.metadata["doc"] for item in dataclasses.fields(Cluster) if item.name == "topology")
        text = f"sha256 {layout.sha256[:12]}"
        rows.append(Value("cluster", "topology", text, about, "given with the log at ingest"))
    for index, policy in enumerate(scenario.policies, 1):
        rows += _rows(f"policy {policy.name}", f"policy {index}", policy, noted)
        own = {key for place, key in noted if place == f"policy {index}.costs"}
        costs = _rows(f"policy {policy.name}, costs", f"policy {index}.costs", policy.costs, noted)
        rows += [row for row in costs if row.key in own]
    return rows


def _rows(title: str, section: str, part: Any, noted: dict[tuple[str, str], str]) -> Iterator[Value]:
    for item in dataclasses.fields(part):
        value = getattr(part, item.name)
        if item.metadata.get("derived") or value in (None, (), {}) or dataclasses.is_dataclass(value):
            continue
        origin = noted.get((section, item.name))
        if origin is None and isinstance(value, dict):
            origin = ""  # a table of its own, which has no default
        text = DEFAULT if origin is None else origin or "set in the scenario"
        if origin is None and item.name == "nodes":
            text = "from the topology"
        shown = _text(item.name, value) + _unit(item.name, value)
        yield Value(title, item.name, shown, item.metadata.get("doc", ""), text)


def _text(key: str, value: Any) -> str:
    if key in {"path", "topology"}:
        return Path(value).name  # a folder belongs to a machine, not on the page
    if isinstance(value, dict):
        return ", ".join(f"{word}: {choice}" for word, choice in value.items())
    if isinstance(value, tuple):
        return ", ".join(f"({_text('', item)})" if isinstance(item, tuple) else str(item) for item in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _unit(key: str, value: Any) -> str:
    """Return the unit that a key's name ends in, for a number or a list of numbers."""
    if isinstance(value, str):
        return ""
    return next((f" {unit}" for suffix, unit in _UNITS.items() if key.endswith(suffix)), "")
