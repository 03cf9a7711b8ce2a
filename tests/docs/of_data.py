"""What data/README.md lists: sources, samples, presets, scenarios and their keys."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from pathlib import Path
from typing import Any

from pipeline import config, resources
from pipeline.config import model, reader
from pipeline.ingest import sources
from pipeline.synth import distributions, presets
from tests.docs.markdown import code, described, link, table

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def source_blocks() -> str:
    """Every log format."""
    parts = []
    for name in sources.names():
        module = sources.load(name)
        about = sources.about(name)
        facts = [f"Module: {link(Path(module.__file__ or ''))}."]
        if about.export:
            facts.append(f"Export it with:\n\n```sh\n{about.export}\n```\n")
        if about.options:
            facts.append(f"Options it may ask for: {', '.join(f'`{option}`' for option in about.options)}.")
        if not about.ends:
            facts.append("It does not tell when a fault ends: `[trace] assumed_repair_h` does.")
        if about.title and not module.PUBLIC:
            facts.append(f"From [{about.title}]({about.homepage}): {about.license}.")
        if about.traps:
            facts.append("\n" + "\n".join(f"- {trap}" for trap in about.traps))
        for file, public in module.PUBLIC.items():
            facts.append(
                f"Public file: `{file}`, {public.bytes:,} bytes, [{module.TITLE}]({module.HOMEPAGE}), "
                f"{module.LICENSE}; `goodput fetch {name}` gets it and checks its hash."
            )
        parts.append(described(name, module.__doc__ or "", "\n".join(facts)))
    return "\n\n".join(parts)


def sample_blocks() -> str:
    """Every sample file, and what reads it."""
    rows = []
    for path in sorted(resources.folder("samples").iterdir()):
        if path.is_dir() or path.name.endswith(".options.toml"):
            continue
        read_by = [name for name in sources.names() if path.stem.replace("_", "-").startswith(name)]
        how = f"`goodput ingest {max(read_by, key=len)}`" if read_by else "`[cluster] topology`"
        rows.append((link(path), f"{len(path.read_bytes().splitlines()):,}", how))
    return table(("sample", "lines", "read by"), rows)


def repair(one: distributions.Repair) -> str:
    """Return a repair time in words."""
    if isinstance(one, distributions.Mix):
        parts = [f"{hours:g} h" + (f" ({weight:.0%})" if weight < 1 else "") for weight, hours in one.parts]
        return " or ".join(parts)
    if isinstance(one, distributions.Lognormal):
        return (
            f"lognormal: median {one.median_h:g} h, 95 % within {one.p95_h:g} h, at most {one.longest_h:g} h"
        )
    return f"exponential: mean {one.mean_h:g} h"


def preset_blocks() -> str:
    """Every synthetic failure model with its rates."""
    parts = []
    for name in presets.names():
        preset = presets.load(name)
        rows = [
            (
                rate.component,
                rate.reason,
                rate.scope,
                f"{rate.per_1000_node_d:.3g} of {rate.node_gpus} GPUs",
                repair(rate.repair),
                rate.origin + (f"; borrowed: {rate.borrowed_from}" if rate.borrowed_from else ""),
            )
            for rate in preset.rates
        ]
        head = ("component", "reason", "takes a", "per 1,000 node-days", "repair", "origin")
        uneven = [
            f"- {what}: {', '.join(f'{k} {v}' for k, v in dataclasses.asdict(item).items())}."
            for what, item in (("lemon nodes", preset.lemons), ("bursts", preset.bursts))
            if item is not None
        ]
        assumed = [f"- Assumed: {text}" for text in preset.assumptions]
        docstring = sys.modules[f"{presets.__name__}.{presets.module_file(name).stem}"].__doc__ or ""
        parts.append(described(name, docstring, table(head, rows) + "\n\n" + "\n".join([*uneven, *assumed])))
    return "\n\n".join(part.strip() for part in parts)


def scenario_blocks() -> str:
    """Every shipped scenario."""
    rows = []
    for name, path in config.available().items():
        scenario = config.load(name)
        trace = scenario.trace
        kinds = ("source", "preset", "bootstrap")
        whence = next(f"{kind} `{getattr(trace, kind)}`" for kind in kinds if getattr(trace, kind))
        gpus = f"{scenario.cluster.nodes * scenario.cluster.gpus_per_node:,}"
        policies = code(policy.name for policy in scenario.policies)
        about = (scenario.title, whence, gpus, str(scenario.cluster.domain_size), policies)
        rows.append((link(path, name), *about))
    return table(("scenario", "title", "failures from", "GPUs", "GPUs a domain", "policies"), rows)


def key_tables() -> dict[str, type]:
    """Return the tables of a scenario that hold keys, by their heading."""
    return {f"[{name}]": kind for name, kind in reader._TABLES.items()} | {"[[policy]]": model.Policy}


def keys() -> list[tuple[str, dataclasses.Field[Any]]]:
    """Return every key of a scenario as (`[table]`, its field)."""
    return [
        (heading, item)
        for heading, kind in key_tables().items()
        for item in dataclasses.fields(kind)
        if item.metadata.get("doc") is not None
    ]


def type_words(kind: Any) -> str:
    """Return a key's type in words."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin in {types.UnionType, typing.Union}:
        return " or ".join(type_words(one) for one in inner if one is not types.NoneType)
    if origin is tuple and inner[-1] is ...:
        return f"list of {type_words(inner[0])}"
    if origin is tuple:
        return f"[{', '.join(type_words(one) for one in inner)}]"
    if origin is dict:
        return f"table of {type_words(inner[1])}"
    return _WORDS.get(kind, "table")


def allowed(item: dataclasses.Field[Any]) -> str:
    """Return the range and the words of a key."""
    about = item.metadata
    low, high, above = (about.get(name) for name in ("low", "high", "above"))
    bounds = [f"above {above:,.15g}"] if above is not None else []
    bounds += [f"from {low:,.15g}"] if low is not None else []
    bounds += [f"up to {high:,.15g}" if high < 1e15 else "up to 2^63 - 1"] if high is not None else []
    return " or ".join(part for part in (" ".join(bounds), code(about.get("words") or ())) if part)


def default(item: dataclasses.Field[Any]) -> str:
    """Return a key's default as TOML, or that it must be given."""
    if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
        return "**required**"
    low = item.metadata.get("low")
    below = low is not None and isinstance(item.default, int) and item.default < low  # stands for "left out"
    left_out = below or item.default in {dataclasses.MISSING, None, (), ""}
    return "" if left_out else f"`{reader._default(item.default)}`"


def key_blocks() -> str:
    """Every key of a scenario."""
    parts = []
    for heading, kind in key_tables().items():
        hints = typing.get_type_hints(kind)
        rows = [
            (
                f"`{item.name}`",
                type_words(hints[item.name]),
                default(item),
                allowed(item),
                item.metadata["doc"],
            )
            for place, item in keys()
            if place == heading
        ]
        doc = inspect.cleandoc(kind.__doc__ or "")
        head = ("key", "type", "default", "allowed", "meaning")
        parts.append(f"### `{heading}`\n\n{doc}\n\n{table(head, rows)}")
    return "\n\n".join(parts)
