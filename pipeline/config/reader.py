"""TOML -> dataclasses: exactly the known keys, each of its type and within its range.

Which keys fit together is the business of rules.py.
"""

from __future__ import annotations

import dataclasses
import math
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pipeline import resources
from pipeline.config import rules, steps
from pipeline.config.model import Cluster, Costs, Gpu, Job, Model, Policy, Power, Scenario, StepTime, Trace
from pipeline.errors import InputError, listed, nearest


def available() -> dict[str, Path]:
    """Return the shipped scenarios by name."""
    return {path.stem: path for path in sorted(resources.folder("scenarios").glob("*.toml"))}


def find(name_or_path: str) -> Path:
    """Return the file of a scenario given by name, or by the path of a TOML file."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if path.is_file():
            return _own(path.resolve())
        raise InputError(name_or_path, "no such scenario file", "the path of a TOML file")
    shipped = available()
    if name_or_path in shipped:
        return shipped[name_or_path]
    hint = nearest(name_or_path, shipped) or "`goodput scenarios` lists them"
    raise InputError(
        f"scenario {name_or_path!r}", "unknown", f"one of {listed(shipped)}, or a .toml file", hint
    )


def _own(path: Path) -> Path:
    """Return a scenario file of the user's own; results go by its name, so no shipped one may share it."""
    if path.stem == "paper":
        raise InputError(path.name, "the name of a page of its own", "another name", "rename the file")
    shipped = available().get(path.stem)
    if shipped is not None and not shipped.samefile(path):
        raise InputError(path.name, "the name of a shipped scenario", "a name of its own", "rename the file")
    return path


def load(name_or_path: str, ingested: rules.Ingested | None = None) -> Scenario:
    """Read and check a scenario; raise InputError with the key, the value and what is allowed.

    `ingested` finds the topology that was ingested with the log, for a scenario that names none of its own.
    """
    path = find(name_or_path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, endless digits or nesting
        raise InputError(path.name, f"not valid TOML ({error})", "a scenario in TOML") from error
    return parse(document, name=path.stem, path=path, ingested=ingested)


_TABLES: dict[str, type] = {
    "trace": Trace,
    "cluster": Cluster,
    "job": Job,
    "costs": Costs,
    "power": Power,
    "step_time": StepTime,
    "model": Model,
    "gpu": Gpu,
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def keys() -> list[tuple[str, str]]:
    """Return every key of a scenario, `[table] key`, with its default and meaning."""
    rows = [("title", "what the page is headed with (default: the file's name)")]
    for table, kind in {**_TABLES, "policy": Policy}.items():
        for item in dataclasses.fields(kind):
            if item.metadata.get("doc") is None:
                continue
            name = f"[[{table}]] {item.name}" if table == "policy" else f"[{table}] {item.name}"
            words = item.metadata.get("words")
            about = item.metadata["doc"] + (f"; one of {', '.join(words)}" if words else "")
            if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
                about += " (required)"
            elif item.default not in (dataclasses.MISSING, None, (), "") and "left out: " not in about:
                about += f" (default {_default(item.default)})"
            rows.append((name, about))
    return rows


def _default(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_default, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)


def parse(
    document: Mapping[str, Any], *, name: str, path: Path, ingested: rules.Ingested | None = None
) -> Scenario:
    """Turn a parsed TOML document into a checked scenario."""
    where = path.name
    if not _NAME.fullmatch(name):
        raise InputError(where, f"the file's name {name!r} cannot name a scenario", "letters, digits, - _ .")
    exact_keys(where, document, ["title", *_TABLES, "policy"], required=("trace", "cluster", "job", "policy"))
    tables = {key: _table(where, key, kind, document.get(key, {})) for key, kind in _TABLES.items()}
    raw = document["policy"]
    if not isinstance(raw, list) or not raw:
        raise InputError(f"{where} [[policy]]", "no policy", "at least one [[policy]] table")
    policies = tuple(_policy(where, index, item, tables["costs"]) for index, item in enumerate(raw, 1))
    title = document.get("title", name)
    if not isinstance(title, str):
        raise InputError(f"{where} title", f"found {title!r}", "text")
    topology = rules.topology_path(path, tables["trace"], tables["cluster"], ingested)
    tables["cluster"] = rules.with_topology(
        f"{where} [cluster]", tables["trace"], tables["cluster"], topology
    )
    tables["step_time"] = steps.with_measured(f"{where} [step_time]", tables["step_time"], path)
    scenario = Scenario(
        name=name, path=path, title=title, policies=policies, topology_path=topology, **tables
    )
    rules.check(where, scenario, document["trace"].keys())
    return scenario


def _policy(where: str, index: int, raw: Any, costs: Costs) -> Policy:
    place = f"policy {index}"
    if not isinstance(raw, dict):
        raise InputError(f"{where} [[policy]]", f"found {raw!r}", "a table")
    raw = dict(raw)
    own = raw.pop("costs", {})
    if not isinstance(own, dict):
        raise InputError(f"{where} [policy.costs]", f"found {own!r}", "a table")
    changed = _table(where, f"{place}.costs", Costs, own)
    merged = dataclasses.replace(costs, **{key: getattr(changed, key) for key in own})
    policy: Policy = _table(where, place, Policy, raw, skip=("costs",))
    return dataclasses.replace(policy, costs=merged)


def exact_keys(where: str, raw: Mapping[str, Any], valid: list[str], required: tuple[str, ...] = ()) -> None:
    """Raise InputError for a key that is unknown, naming the nearest valid one, or that is missing."""
    for key in raw:
        if key not in valid:
            hint = nearest(key, valid)
            raise InputError(f"{where}: {key}", "unknown key", f"one of {listed(valid)}", hint)
    for key in required:
        if key not in raw:
            raise InputError(f"{where}: {key}", "missing", f"the key {key!r}")


def _table(where: str, place: str, kind: type, raw: Any, skip: tuple[str, ...] = ()) -> Any:
    return kind(**table(f"{where} [{place}]", kind, raw, skip))


def table(where: str, kind: type, raw: Any, skip: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the checked values of a TOML table; the fields of the dataclass `kind` say what may stand there.

    A field's metadata holds its meaning (`doc`) and range (`low`, `high`, `above`, `words`); fields in `skip`
    are no keys. Raise InputError with the key, the value and what is allowed.
    """
    if not isinstance(raw, dict):
        raise InputError(where, f"found {raw!r}", "a table")
    fields = {
        item.name: item
        for item in dataclasses.fields(kind)
        if item.name not in skip and not item.metadata.get("derived")
    }
    hints = typing.get_type_hints(kind)
    required = tuple(
        key
        for key, item in fields.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
    )
    exact_keys(where, raw, list(fields), required)
    return {key: _value(f"{where} {key}", raw[key], hints[key], fields[key].metadata) for key in raw}


def _value(where: str, value: Any, hint: Any, rule: Mapping[str, Any]) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    options = tuple(option for option in options if option is not type(None))
    for option in options:
        fits, converted = _fit(value, option)
        if fits:
            _in_range(where, converted, rule)
            return converted
    raise InputError(where, f"found {value!r}", _type_words(options, rule))


def _fit(value: Any, option: Any) -> tuple[bool, Any]:
    origin = typing.get_origin(option)
    if origin is tuple:
        inner = typing.get_args(option)
        many = len(inner) == 2 and inner[1] is Ellipsis
        if not isinstance(value, list | tuple) or (not many and len(value) != len(inner)):
            return False, None
        kinds = [inner[0]] * len(value) if many else list(inner)
        parts = [_fit(item, kind) for item, kind in zip(value, kinds, strict=True)]
        return all(fits for fits, _ in parts), tuple(part for _, part in parts)
    if origin is dict:
        (_, kind_of_value) = typing.get_args(option)
        allowed = typing.get_args(kind_of_value) or (kind_of_value,)
        fits = isinstance(value, dict) and all(
            any(_fit(item, kind)[0] for kind in allowed) for item in value.values()
        )
        return fits, value
    if option is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        return fits, value if fits else None
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if option is str and isinstance(value, datetime):
        return True, value.isoformat()
    return isinstance(value, option), value


def _in_range(where: str, value: Any, rule: Mapping[str, Any]) -> None:
    words = rule.get("words")
    if isinstance(value, str) and words and value not in words:
        raise InputError(where, f"found {value!r}", f"one of {listed(words)}", nearest(value, words))
    for number in value if isinstance(value, tuple) else (value,):
        if isinstance(number, bool) or not isinstance(number, int | float):
            continue
        low, high, above = rule.get("low"), rule.get("high"), rule.get("above")
        out = (
            not math.isfinite(number)
            or (low is not None and number < low)
            or (high is not None and number > high)
            or (above is not None and number <= above)
        )
        if out:
            raise InputError(where, f"found {number!r}", _range_words(rule))


def _range_words(rule: Mapping[str, Any]) -> str:
    limits = _limits(rule)
    return f"a number, {limits}" if limits else "a finite number"


def _limits(rule: Mapping[str, Any]) -> str:
    parts = []
    if rule.get("low") is not None:
        parts.append(f"at least {rule['low']}")
    if rule.get("above") is not None:
        parts.append(f"more than {rule['above']}")
    if rule.get("high") is not None:
        parts.append(f"at most {rule['high']}")
    return " and ".join(parts)


def _type_words(options: tuple[Any, ...], rule: Mapping[str, Any]) -> str:
    words, limits, parts = rule.get("words"), _limits(rule), []
    for option in options:
        if option is str:
            parts.append(f"one of {listed(words)}" if words else "text")
        else:
            parts.append(f"{_kind_words(option)}, {limits}" if limits else _kind_words(option))
    text = " or ".join(parts)
    return f"{text} ({rule['doc']})" if rule.get("doc") else text


def _kind_words(option: Any) -> str:
    """Return what a value of a type is, in words: `tuple[int, ...]` is a list of whole numbers."""
    inner = typing.get_args(option)
    if typing.get_origin(option) is dict:
        return "a table"
    if inner and inner[-1] is Ellipsis:
        item = _kind_words(inner[0])
        return f"a list of {item}" if item.startswith("[") else f"a list of {item.removeprefix('a ')}s"
    if inner:
        return f"[{', '.join(map(_kind_words, inner))}]"
    return {str: "text", int: "a whole number", float: "a number"}.get(option, "true or false")
