"""A scenario: TOML -> frozen dataclasses, with exactly the known keys and every value in range.

Durations are seconds (`_s`) or days (`_d`), shares are fractions (`_frac`), power is watts (`_w`)
or multiples of TDP. Unknown keys, wrong types and values out of range are errors that name the
key, the value, what is allowed and the nearest valid key. Comments and the order of keys do not
count: `fingerprint` hashes the parsed values.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

from pipeline import resources, units
from pipeline.errors import InputError, listed, nearest
from pipeline.schema import COMPONENTS, SCOPES, SEVERITIES
from pipeline.topology import files as topology_files
from pipeline.topology.layout import REFUSE, UNEVEN, Fitted, Layout, fit

BATCHES = ("elastic", "pause", "stretch")
PACKINGS = ("packed", "fixed")
REEXPANDS = ("next_interruption", "immediate", "checkpoint")
PLACEMENTS = ("random", "listed", "topology")
STARTS = ("clean", "steady")
CORRELATIONS = ("preset", "none")
INTERVAL_RULES = ("young", "daly")


def _key(
    doc: str,
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    words: tuple[str, ...] | None = None,
) -> Any:
    """Declare a key: its meaning and unit, default and allowed range or words."""
    metadata = {"doc": doc, "low": low, "high": high, "above": above, "words": words}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Where failures come from: a log (`source`), rates (`preset`) or a log, resampled (`bootstrap`)."""

    source: str | None = _key("log format, a name from `goodput sources`", None)
    path: str | None = _key("the log, relative to the scenario file; left out: the public file", None)
    cluster: str | None = _key("only the events of this cluster, a name given to `goodput ingest`", None)
    tz: str | None = _key("zone of a log whose times have none, e.g. UTC or Europe/Berlin", None)
    window_d: tuple[float, float] | None = _key("[from, to] in days since the source's day 0", None)
    window: tuple[str, str] | None = _key("[from, to] as ISO instants with a zone", None)
    preset: str | None = _key("synthetic failures, a name from `goodput presets`", None)
    bootstrap: str | None = _key("a log that is resampled to any size, a name from `goodput sources`", None)
    observed_nodes: int | None = _key(
        "all nodes that a resampled log was taken from, failed or not", None, low=1, high=10_000_000
    )
    block_d: float | None = _key("length of resampled blocks, days; left out: 30", None, low=1, high=36_525)
    weibull_shape: float | None = _key(
        "shape of the gaps between a preset's failures; 1: exponential; left out: the preset's own",
        None,
        low=0.2,
        high=10,
    )
    correlation: str | None = _key(
        "none: without the preset's bursts and lemon nodes", None, words=CORRELATIONS
    )
    days: float | None = _key("length of a synthetic trace, days", None, above=0, high=36_525)
    seed: int = _key("seed of a synthetic trace", 1, low=0)
    start: str = _key("clean: no GPU is down at t = 0; steady: rates have run before", "clean", words=STARTS)
    severity: dict[str, str] = field(
        default_factory=dict, metadata={"doc": "component or reason -> down, degraded, app or info"}
    )
    exclude: tuple[str, ...] = _key("components or reasons that are left out", ())

    @property
    def is_synthetic(self) -> bool:
        """Whether failures are drawn, with made-up node names and `days` from a made-up day 0."""
        return self.source is None


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The machines: nodes, GPUs, scale-up domains and how nodes are laid onto them."""

    nodes: int = _key(
        "nodes of the cluster, failed or not; left out: those of the topology", 0, low=1, high=10_000_000
    )
    gpus_per_node: int = _key("GPUs in a node", 8, low=1, high=1_024)
    domain_size: int = _key("GPUs in a scale-up domain", low=1, high=65_536)
    placement: str = _key("how nodes are laid onto domains", "random", words=PLACEMENTS)
    placement_seeds: tuple[int, ...] = _key("seeds of random placements", (0,), low=0)
    topology: str | None = _key("file that says which domain each node lies in", None)
    uneven_domains: str | None = _key(
        "refuse or drop domains of another size in the topology; left out: refuse", None, words=UNEVEN
    )
    blast_radius: dict[str, int | str] = field(
        default_factory=dict,
        metadata={"doc": "component -> what its faults take out: gpu, node, domain or a number of GPUs"},
    )
    layout: Layout | None = field(default=None, metadata={"derived": True})

    @property
    def pool_domains(self) -> int:
        """Whole domains that the nodes fill; with a topology, its domains of the right size."""
        if self.layout is not None:
            return self.layout.domains
        return self.nodes * self.gpus_per_node // self.domain_size

    @property
    def pool_gpus(self) -> int:
        """GPUs in whole domains."""
        return self.pool_domains * self.domain_size


@dataclass(frozen=True, kw_only=True)
class Job:
    """The training job's shape."""

    tp: int = _key("tensor-parallel degree", low=1)
    pp: int = _key("pipeline-parallel degree", 1, low=1)
    cp: int = _key("context-parallel degree", 1, low=1)
    dp: int | None = _key("replicas; left out: as many as fit beside the spares", None, low=1)
    samples_per_replica: int = _key("samples a replica does per iteration", 8, low=1)
    virtual_stages: int = _key("virtual pipeline stages", 1, low=1)

    @property
    def groups_per_replica(self) -> int:
        """TP groups in a replica."""
        return self.pp * self.cp


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a stop and a save cost, in seconds."""

    detect_s: float = _key("from the fault until it is noticed", 120, low=0)
    restart_s: float = _key("re-init, load and re-shard", 600, low=0)
    reconfigure_s: float = _key("a planned change of configuration", 300, low=0)
    checkpoint_interval_s: float | str = _key(
        "running time between saves, or young / daly", "young", above=0, words=INTERVAL_RULES
    )
    checkpoint_save_s: float = _key("the blocking part of a save", 10, low=0)


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power of a GPU and of its rack; the shipped fractions are assumptions."""

    tdp_w: float = _key("thermal design power of a GPU, watts", 1_000, above=0)
    boost_cap: float = _key("highest power of a boosted GPU, TDP", 1.3, low=1, high=3)
    rack_headroom_frac: float = _key("rack power beyond all GPUs at TDP", 0.1, low=0, high=2)
    curve: tuple[tuple[float, float], ...] = _key(
        "points (power in TDP, speed), first (1, 1)", ((1.0, 1.0), (1.1, 1.069), (1.2, 1.122), (1.3, 1.17))
    )
    draw_frac: float = _key("power of a GPU at work, TDP", 0.8, low=0, high=1)
    idle_frac: float = _key("power of a healthy GPU without work, TDP", 0.2, low=0, high=1)
    overhead_w: float = _key("power beside the GPUs, watts per GPU of the pool", 300, low=0)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One way to live with failures; its `costs` start from the scenario's."""

    name: str = _key("name in tables and charts")
    response: str = _key("what a replica with failures does, a name from `goodput policies`")
    batch: str | None = _key("batch rule; left out: the response's own default", None, words=BATCHES)
    packing: str = _key("how groups are cut into replicas", "packed", words=PACKINGS)
    spare_domains: int = _key("domains held back", 0, low=0)
    reexpand: str = _key("when repaired capacity is taken up", "next_interruption", words=REEXPANDS)
    reduced_tp: tuple[int, ...] = _key("allowed reduced TP degrees", (), low=1)
    reshard_overhead_frac: float = _key("longer iteration while a reduced replica runs", 0.01, low=0, high=1)
    costs: Costs = field(default_factory=Costs, metadata={"doc": "overrides of [costs]"})


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One question: a trace, a cluster, a job and the policies to compare."""

    name: str
    path: Path
    title: str
    trace: Trace
    cluster: Cluster
    job: Job
    costs: Costs
    power: Power
    policies: tuple[Policy, ...]

    def fingerprint(self, *parts: str) -> str:
        """Return a hash of the named parts (all of them when none is named)."""
        chosen = parts or ("title", "trace", "cluster", "job", "costs", "power", "policies")
        values = {part: _plain(getattr(self, part)) for part in chosen}
        return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

    def replicas_beside(self, spare_domains: int) -> int:
        """Return the replicas that fit in the pool less `spare_domains` domains."""
        groups = self.cluster.domain_size // self.job.tp
        domains = max(0, self.cluster.pool_domains - spare_domains)
        return domains * groups // self.job.groups_per_replica


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def available() -> dict[str, Path]:
    """Return the shipped scenarios by name."""
    return {path.stem: path for path in sorted(resources.folder("scenarios").glob("*.toml"))}


def find(name_or_path: str) -> Path:
    """Return the file of a scenario given by name, or by the path of a TOML file."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        if path.is_file():
            return path.resolve()
        raise InputError(name_or_path, "no such scenario file", "the path of a TOML file")
    shipped = available()
    if name_or_path in shipped:
        return shipped[name_or_path]
    hint = nearest(name_or_path, shipped) or "`goodput scenarios` lists them"
    raise InputError(
        f"scenario {name_or_path!r}", "unknown", f"one of {listed(shipped)}, or a .toml file", hint
    )


def load(name_or_path: str) -> Scenario:
    """Read and check a scenario; raise InputError with the key, the value and what is allowed."""
    path = find(name_or_path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path.name, f"not valid TOML ({error})", "a scenario in TOML") from error
    return parse(document, name=path.stem, path=path)


_TABLES: dict[str, type] = {"trace": Trace, "cluster": Cluster, "job": Job, "costs": Costs, "power": Power}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def parse(document: Mapping[str, Any], *, name: str, path: Path) -> Scenario:
    """Turn a parsed TOML document into a checked scenario."""
    where = path.name
    if not _NAME.fullmatch(name):
        raise InputError(where, f"the file's name {name!r} cannot name a scenario", "letters, digits, - _ .")
    _exact_keys(
        where, document, ["title", *_TABLES, "policy"], required=("trace", "cluster", "job", "policy")
    )
    tables = {key: _table(where, key, kind, document.get(key, {})) for key, kind in _TABLES.items()}
    raw = document["policy"]
    if not isinstance(raw, list) or not raw:
        raise InputError(f"{where} [[policy]]", "no policy", "at least one [[policy]] table")
    policies = tuple(_policy(where, index, item, tables["costs"]) for index, item in enumerate(raw, 1))
    title = document.get("title", name)
    if not isinstance(title, str):
        raise InputError(f"{where} title", f"found {title!r}", "text")
    tables["cluster"] = _with_topology(f"{where} [cluster]", path, tables["cluster"])
    scenario = Scenario(name=name, path=path, title=title, policies=policies, **tables)
    _check(where, scenario)
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


def _exact_keys(where: str, raw: Mapping[str, Any], valid: list[str], required: tuple[str, ...]) -> None:
    for key in raw:
        if key not in valid:
            hint = nearest(key, valid)
            raise InputError(f"{where}: {key}", "unknown key", f"one of {listed(valid)}", hint)
    for key in required:
        if key not in raw:
            raise InputError(f"{where}: {key}", "missing", f"the key {key!r}")


def _table(where: str, place: str, kind: type, raw: Any, skip: tuple[str, ...] = ()) -> Any:
    if not isinstance(raw, dict):
        raise InputError(f"{where} [{place}]", f"found {raw!r}", "a table")
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
    _exact_keys(f"{where} [{place}]", raw, list(fields), required)
    values = {
        key: _value(f"{where} [{place}] {key}", raw[key], hints[key], fields[key].metadata) for key in raw
    }
    return kind(**values)


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
        allowed = typing.get_args(typing.get_args(option)[1]) or (str,)
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
    parts = []
    if rule.get("low") is not None:
        parts.append(f"at least {rule['low']}")
    if rule.get("above") is not None:
        parts.append(f"more than {rule['above']}")
    if rule.get("high") is not None:
        parts.append(f"at most {rule['high']}")
    return "a number, " + " and ".join(parts) if parts else "a finite number"


def _type_words(options: tuple[Any, ...], rule: Mapping[str, Any]) -> str:
    names = {str: "text", int: "a whole number", float: "a number"}
    words = [names.get(option, f"a list like {option}".replace("typing.", "")) for option in options]
    text = " or ".join(words)
    return f"{text} ({rule['doc']})" if rule.get("doc") else text


def _check(where: str, scenario: Scenario) -> None:
    _check_trace(where, scenario.trace)
    _check_cluster(where, scenario)
    _check_curve(where, scenario.power)
    names = [policy.name for policy in scenario.policies]
    for index, policy in enumerate(scenario.policies, 1):
        _check_policy(f"{where} [policy {index}]", policy, scenario)
        if names.count(policy.name) > 1:
            raise InputError(f"{where} [policy {index}] name", f"{policy.name!r} twice", "a name of its own")


# Keys of [trace] that belong to some kinds of trace only.
_ONLY_WITH = {
    "path": ("source", "bootstrap"),
    "cluster": ("source", "bootstrap"),
    "tz": ("source", "bootstrap"),
    "window": ("source", "bootstrap"),
    "window_d": ("source", "bootstrap"),
    "days": ("preset", "bootstrap"),
    "weibull_shape": ("preset",),
    "correlation": ("preset",),
    "block_d": ("bootstrap",),
    "observed_nodes": ("bootstrap",),
}


def _check_trace(where: str, trace: Trace) -> None:
    place = f"{where} [trace]"
    kinds = ("source", "preset", "bootstrap")
    given = [kind for kind in kinds if getattr(trace, kind) is not None]
    if len(given) != 1:
        found = "both " + " and ".join(given) if given else "neither source nor preset nor bootstrap"
        expected = "one of source (a log), preset (synthetic rates) and bootstrap (a log, resampled)"
        raise InputError(place, found, expected)
    (kind,) = given
    for key, owners in _ONLY_WITH.items():
        if kind not in owners and getattr(trace, key) is not None:
            raise InputError(f"{place} {key}", f"given beside {kind}", f"only with {' or '.join(owners)}")
    if kind != "source" and trace.days is None:
        raise InputError(f"{place} days", "missing", "the length of the synthetic trace in days")
    if kind == "bootstrap" and trace.observed_nodes is None:
        expected = "all nodes that the log was taken from, failed or not"
        raise InputError(f"{place} observed_nodes", "missing", expected)
    if kind != "preset" and (trace.window is None) == (trace.window_d is None):
        expected = "one of window_d = [from, to] and window = [from, to]"
        raise InputError(place, "no window, or two", expected)
    if trace.window_d is not None and not 0 <= trace.window_d[0] < trace.window_d[1] < 40_000:
        raise InputError(f"{place} window_d", f"found {list(trace.window_d)}", "0 <= from < to, in days")
    if trace.window is not None:
        first, last = (instant(f"{place} window", text) for text in trace.window)
        if first >= last:
            raise InputError(f"{place} window", f"found {list(trace.window)}", "from before to")
    for key, word in trace.severity.items():
        if word not in SEVERITIES:
            raise InputError(f"{place}.severity {key!r}", f"found {word!r}", f"one of {listed(SEVERITIES)}")


def log_window(where: str, trace: Trace, day_0: str | None) -> tuple[datetime, datetime]:
    """Return the window of a log, UTC; `day_0` is the instant of day 0 of the log, if it has one."""
    if trace.window is not None:
        start, end = (instant(f"{where} window", text) for text in trace.window)
        return start, end
    if day_0 is None:
        raise InputError(
            f"{where} window_d",
            f"days, but {trace.source or trace.bootstrap!r} has no day 0",
            "window = [from, to] as instants, e.g. 2024-03-30T00:00Z",
        )
    assert trace.window_d is not None, "checked when the scenario is read"
    origin = units.to_us(datetime.fromisoformat(day_0))
    start, end = (units.from_us(origin + round(units.exact(d) * units.US_PER_D)) for d in trace.window_d)
    return start, end


def instant(where: str, text: str) -> datetime:
    """Return an ISO instant with a zone as UTC; raise InputError when it is not one."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InputError(where, f"found {text!r}", "an ISO instant, e.g. 2024-03-30T00:00Z") from None
    if moment.tzinfo is None:
        raise InputError(where, f"{text!r} has no zone", "an instant with a zone", f"write {text}Z for UTC")
    return moment.astimezone(UTC)


def topology_of(scenario: Scenario) -> Fitted:
    """Read a scenario's topology again; raise InputError when it has changed since the scenario was read."""
    where, cluster = f"{scenario.path.name} [cluster] topology", scenario.cluster
    assert cluster.topology is not None, "asked of a scenario with a topology"
    assert cluster.layout is not None, "made when the scenario is read"
    found = topology_files.read(scenario.path.parent / cluster.topology, where)
    if found.sha256 != cluster.layout.sha256:
        raise InputError(where, "changed during the run", "one topology for a run", "run again")
    return fit(found, cluster.gpus_per_node, cluster.domain_size, cluster.uneven_domains or REFUSE, where)


def _with_topology(place: str, path: Path, cluster: Cluster) -> Cluster:
    """Return the cluster with the nodes and domains of its topology, if it has one."""
    if (cluster.placement == "topology") != (cluster.topology is not None):
        found = f"placement is {cluster.placement!r}, topology is {cluster.topology or 'missing'!r}"
        hint = 'topology = "topology.csv" names the file' if cluster.topology is None else ""
        raise InputError(f"{place} topology", found, 'placement = "topology" and topology, or neither', hint)
    if cluster.topology is None:
        if not cluster.nodes:
            raise InputError(f"{place}: nodes", "missing", "the key 'nodes'", "or give a topology")
        if cluster.uneven_domains is not None:
            raise InputError(f"{place} uneven_domains", "given without a topology", "only with a topology")
        return cluster
    where = f"{place} topology"
    if cluster.domain_size % cluster.gpus_per_node:
        found = f"{cluster.domain_size} GPUs with {cluster.gpus_per_node} GPUs a node"
        expected = "a multiple of gpus_per_node: in a topology a node lies in one domain"
        raise InputError(f"{place} domain_size", found, expected)
    topology = topology_files.read(path.parent / cluster.topology, where)
    nodes = len(topology.nodes)
    if cluster.nodes not in {0, nodes}:
        found = f"{cluster.nodes}, but {topology.file} has {nodes} nodes"
        hint = "leave nodes out: it is taken from the file"
        raise InputError(f"{place} nodes", found, f"{nodes}, or no nodes", hint)
    fitted = fit(
        topology, cluster.gpus_per_node, cluster.domain_size, cluster.uneven_domains or REFUSE, where
    )
    return dataclasses.replace(cluster, nodes=nodes, layout=Layout(topology.sha256, len(fitted.kept)))


def _check_blast_radius(place: str, cluster: Cluster) -> None:
    for component, reach in cluster.blast_radius.items():
        where = f"{place}.blast_radius {component!r}"
        if component not in COMPONENTS:
            expected = f"one of {listed(COMPONENTS)}"
            raise InputError(where, "unknown component", expected, nearest(component, COMPONENTS))
        fits = reach in SCOPES if isinstance(reach, str) else 1 <= reach <= cluster.domain_size
        if not fits:
            expected = f"one of {listed(SCOPES)}, or GPUs from 1 to domain_size ({cluster.domain_size})"
            hint = nearest(reach, SCOPES) if isinstance(reach, str) else 'domain_size GPUs are "domain"'
            raise InputError(where, f"found {reach!r}", expected, hint)


def _check_cluster(where: str, scenario: Scenario) -> None:
    cluster, job = scenario.cluster, scenario.job
    size, per_node = cluster.domain_size, cluster.gpus_per_node
    place = f"{where} [cluster]"
    if size % per_node and per_node % size:
        raise InputError(
            f"{place} domain_size",
            f"{size} GPUs with {per_node} GPUs a node: a node would straddle domains",
            "a multiple or a divisor of gpus_per_node",
        )
    if not cluster.placement_seeds or len(set(cluster.placement_seeds)) < len(cluster.placement_seeds):
        found = f"found {list(cluster.placement_seeds)}"
        raise InputError(f"{place} placement_seeds", found, "one or more different seeds")
    if cluster.placement != "random" and len(cluster.placement_seeds) > 1:
        found = f"several seeds for a {cluster.placement} placement"
        raise InputError(f"{place} placement_seeds", found, "one seed: the order is given")
    _check_blast_radius(place, cluster)
    if job.tp > size:
        raise InputError(
            f"{where} [job] tp",
            f"TP {job.tp} in domains of {size} GPUs",
            f"at most domain_size ({size}): a TP group never crosses a domain",
        )
    if scenario.replicas_beside(0) < 1:
        need = -(-job.groups_per_replica // (size // job.tp))
        raise InputError(
            f"{place} {'nodes' if cluster.layout is None else 'topology'}",
            f"{cluster.pool_domains} domains, {cluster.pool_gpus} GPUs: smaller than one replica",
            f"at least {need} domains of {size} GPUs for one replica (tp {job.tp}, pp {job.pp}, cp {job.cp})",
        )


def _check_curve(where: str, power: Power) -> None:
    points = power.curve
    rising = all(p1 > p0 and s1 >= s0 for (p0, s0), (p1, s1) in pairwise(points))
    if not points or points[0] != (1.0, 1.0) or not rising:
        raise InputError(
            f"{where} [power] curve",
            f"found {[list(point) for point in points]}",
            "points [power, speed] that begin with [1, 1] and rise",
        )


def _check_policy(place: str, policy: Policy, scenario: Scenario) -> None:
    if not policy.name.strip():
        raise InputError(f"{place} name", "empty", "a name")
    for degree in policy.reduced_tp:
        if degree >= scenario.job.tp:
            raise InputError(
                f"{place} reduced_tp", f"found {degree}", f"degrees below tp ({scenario.job.tp})"
            )
    if len(set(policy.reduced_tp)) < len(policy.reduced_tp):
        raise InputError(f"{place} reduced_tp", f"found {list(policy.reduced_tp)}", "each degree once")
    fits = scenario.replicas_beside(policy.spare_domains)
    wanted = scenario.job.dp or 1
    if fits < wanted:
        raise InputError(
            f"{place} spare_domains",
            f"{policy.spare_domains} spares leave room for {fits} replicas",
            f"room for at least {wanted} in {scenario.cluster.pool_domains} domains",
            "hold back fewer spares" if fits < 1 else "lower [job] dp, or hold back fewer spares",
        )
    costs = policy.costs
    if costs.checkpoint_interval_s in INTERVAL_RULES and costs.checkpoint_save_s == 0:
        raise InputError(
            f"{place} checkpoint_interval_s",
            f"{costs.checkpoint_interval_s!r} with checkpoint_save_s = 0: the best interval would be 0",
            "an interval in seconds, or a save that takes time",
        )
