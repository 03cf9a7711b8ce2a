"""Which values of a scenario fit together: the trace's keys, the cluster and the job, the policies.

Each rule raises InputError with the key, what was found and what fits.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

from pipeline import units
from pipeline.config.model import INTERVAL_RULES, LONGEST_S, Cluster, Costs, Policy, Power, Scenario, Trace
from pipeline.errors import InputError, listed, nearest
from pipeline.schema import COMPONENTS, SCOPES, SEVERITIES
from pipeline.topology import files as topology_files
from pipeline.topology.layout import REFUSE, Fitted, Layout, fit

Ingested = Callable[[Trace], Path | None]  # the topology that was ingested with a trace's log


def check(where: str, scenario: Scenario, given: Collection[str]) -> None:
    """Check a scenario as a whole; `given` are the keys that stand under [trace]."""
    _check_trace(where, scenario.trace, given)
    _check_cluster(where, scenario)
    _check_curve(where, scenario.power)
    names = [policy.name for policy in scenario.policies]
    for index, policy in enumerate(scenario.policies, 1):
        _check_policy(f"{where} [policy {index}]", policy, scenario)
        if names.count(policy.name) > 1:
            raise InputError(f"{where} [policy {index}] name", f"{policy.name!r} twice", "a name of its own")


# What a log does not say itself, as `goodput ingest` takes it.
LOG_OPTIONS = ("tz", "year", "fold", "as_of", "boot_time", "node", "xid_table")

# Keys of [trace] that belong to some kinds of trace only.
_ONLY_WITH = {
    "path": ("source", "bootstrap"),
    "cluster": ("source", "bootstrap"),
    **dict.fromkeys(LOG_OPTIONS, ("source", "bootstrap")),
    "window": ("source", "bootstrap"),
    "window_d": ("source", "bootstrap"),
    "days": ("preset", "bootstrap"),
    "seed": ("preset", "bootstrap"),
    "start": ("preset", "bootstrap"),
    "redraws": ("preset", "bootstrap"),
    "weibull_shape": ("preset",),
    "correlation": ("preset",),
    "block_d": ("bootstrap",),
    "observed_nodes": ("bootstrap",),
}


def _check_trace(where: str, trace: Trace, given: Collection[str]) -> None:
    place = f"{where} [trace]"
    kinds = ("source", "preset", "bootstrap")
    named = [kind for kind in kinds if getattr(trace, kind) is not None]
    if not named and trace.cluster is not None:
        named = ["source"]  # all logs of the cluster
        for key in ("path", *LOG_OPTIONS):
            if getattr(trace, key) is not None:
                raise InputError(f"{place} {key}", "given without source", "source, the format of the log")
    if len(named) != 1:
        found = "both " + " and ".join(named) if named else "neither source nor preset nor bootstrap"
        expected = "one of source (a log), preset (synthetic rates) and bootstrap (a log, resampled)"
        hint = "" if named else "or cluster alone: all logs that were ingested for it"
        raise InputError(place, found, expected, hint)
    (kind,) = named
    for key, owners in _ONLY_WITH.items():
        if kind not in owners and key in given and not (key == "seed" and trace.app_faults_per_1000_node_d):
            raise InputError(f"{place} {key}", f"given beside {kind}", f"only with {' or '.join(owners)}")
    if kind != "source" and trace.days is None:
        raise InputError(f"{place} days", "missing", "the length of the synthetic trace in days")
    if kind == "bootstrap" and trace.observed_nodes is None:
        expected = "all nodes that the log was taken from, failed or not"
        raise InputError(f"{place} observed_nodes", "missing", expected)
    if kind != "preset" and (trace.window is None) == (trace.window_d is None):
        expected = "one of window_d = [from, to] and window = [from, to]"
        raise InputError(place, "no window, or two", expected)
    _check_window(place, trace)
    _check_repairs(f"{place}.assumed_repair_h", trace.assumed_repair_h)
    for key, word in trace.severity.items():
        if word not in SEVERITIES:
            expected = f"one of {listed(SEVERITIES)}"
            raise InputError(
                f"{place}.severity {key!r}", f"found {word!r}", expected, nearest(word, SEVERITIES)
            )


def _check_window(place: str, trace: Trace) -> None:
    if trace.window_d is not None and not 0 <= trace.window_d[0] < trace.window_d[1] < 40_000:
        found = f"found {list(trace.window_d)}"
        raise InputError(f"{place} window_d", found, "0 <= from < to < 40,000, in days")
    if trace.window is not None:
        first, last = (instant(f"{place} window", text) for text in trace.window)
        if first >= last:
            raise InputError(f"{place} window", f"found {list(trace.window)}", "from before to")


def _check_repairs(place: str, chosen: Mapping[str, float]) -> None:
    for component, hours in chosen.items():
        if component not in COMPONENTS:
            hint = nearest(component, COMPONENTS)
            raise InputError(place, f"unknown component {component!r}", f"one of {listed(COMPONENTS)}", hint)
        if not 0 < hours <= 1e6:
            raise InputError(f"{place} {component!r}", f"found {hours!r}", "hours, above 0, at most 1e6")


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
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InputError(where, f"found {text!r}", "an instant of this era") from None


def topology_of(scenario: Scenario) -> Fitted:
    """Read a scenario's topology again; raise InputError when it has changed since the scenario was read."""
    where, cluster = f"{scenario.path.name} [cluster] topology", scenario.cluster
    assert scenario.topology_path is not None, "asked of a scenario with a topology"
    assert cluster.layout is not None, "made when the scenario is read"
    found = topology_files.read(scenario.topology_path, where, cluster.topology_label)
    if found.sha256 != cluster.layout.sha256:
        raise InputError(where, "changed during the run", "one topology for a run", "run again")
    return fit(found, cluster.gpus_per_node, cluster.domain_size, cluster.uneven_domains or REFUSE, where)


def topology_path(path: Path, trace: Trace, cluster: Cluster, ingested: Ingested | None) -> Path | None:
    """Return the file of a scenario's topology: its own, or the one that was ingested with its log."""
    if cluster.topology is not None:
        return path.parent / cluster.topology
    is_asked = cluster.placement == "topology" and not trace.is_synthetic
    return ingested(trace) if is_asked and ingested is not None else None


def with_topology(place: str, trace: Trace, cluster: Cluster, file: Path | None) -> Cluster:
    """Return the cluster with the nodes and domains of its topology, if it has one."""
    if (cluster.placement == "topology") != (file is not None):
        found = f"placement is {cluster.placement!r}, topology is {cluster.topology or 'missing'!r}"
        hint = 'topology = "topology.csv" names the file' if file is None else ""
        if file is None and not trace.is_synthetic:
            name = f" --cluster {trace.cluster}" if trace.cluster else ""
            hint += f", or give it to `goodput ingest {trace.source or 'SOURCE'} PATH{name} --topology FILE`"
        raise InputError(f"{place} topology", found, 'placement = "topology" and topology, or neither', hint)
    if file is None:
        if not cluster.nodes:
            raise InputError(f"{place}: nodes", "missing", "the key 'nodes'", "or give a topology")
        for key in ("uneven_domains", "topology_label"):
            if getattr(cluster, key) is not None:
                raise InputError(f"{place} {key}", "given without a topology", "only with a topology")
        return cluster
    where = f"{place} topology"
    if cluster.domain_size % cluster.gpus_per_node:
        found = f"{cluster.domain_size} GPUs with {cluster.gpus_per_node} GPUs a node"
        expected = "a multiple of gpus_per_node: in a topology a node lies in one domain"
        raise InputError(f"{place} domain_size", found, expected)
    topology = topology_files.read(file, where, cluster.topology_label)
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
    if job.tp > size and (cluster.fabric == "domains" or job.tp % size):
        crosses = f", or a multiple of it in fabric {cluster.fabric}" if cluster.fabric != "domains" else ""
        raise InputError(
            f"{where} [job] tp",
            f"TP {job.tp} in domains of {size} GPUs",
            f"at most domain_size ({size}){crosses or ': a TP group never crosses a domain'}",
        )
    if scenario.replicas_beside(0) < 1:
        need = -(-job.groups_per_replica * scenario.domains_per_group // max(1, size // job.tp))
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


def _check_costs(place: str, costs: Costs) -> None:
    for key in ("detect_by_component", "silent_components"):
        for component in getattr(costs, key):
            if component not in COMPONENTS:
                expected = f"one of {listed(COMPONENTS)}"
                hint = nearest(component, COMPONENTS)
                raise InputError(f"{place} {key}", f"unknown component {component!r}", expected, hint)
    for component, seconds in costs.detect_by_component.items():
        if not 0 <= seconds <= LONGEST_S:
            expected = f"seconds, from 0 to {LONGEST_S:g}"
            raise InputError(f"{place}.detect_by_component {component!r}", f"found {seconds!r}", expected)


def _check_policy(place: str, policy: Policy, scenario: Scenario) -> None:
    if not policy.name.strip() or not policy.name.isprintable():
        found = f"found {policy.name!r}" if policy.name.strip() else "empty"
        raise InputError(f"{place} name", found, "a name in printable characters")
    for degree in policy.reduced_tp:
        if degree >= scenario.job.tp:
            raise InputError(
                f"{place} reduced_tp", f"found {degree}", f"degrees below tp ({scenario.job.tp})"
            )
    if len(set(policy.reduced_tp)) < len(policy.reduced_tp):
        raise InputError(f"{place} reduced_tp", f"found {list(policy.reduced_tp)}", "each degree once")
    if any(stages >= scenario.job.pp for stages in policy.templates_pp):
        found = f"found {list(policy.templates_pp)}"
        raise InputError(f"{place} templates_pp", found, f"stages below pp ({scenario.job.pp})")
    if len(set(policy.templates_pp)) < len(policy.templates_pp):
        raise InputError(f"{place} templates_pp", f"found {list(policy.templates_pp)}", "each number once")
    fits = scenario.replicas_beside(policy.spare_domains)
    wanted = scenario.job.dp or 1
    if fits < wanted:
        raise InputError(
            f"{place} spare_domains",
            f"{policy.spare_domains} spares leave room for {fits} replicas",
            f"room for at least {wanted} in {scenario.cluster.pool_domains} domains",
            "hold back fewer spares" if fits < 1 else "lower [job] dp, or hold back fewer spares",
        )
    if policy.stops == "replica" and policy.reexpand != "next_interruption":
        raise InputError(
            f"{place} reexpand",
            f'{policy.reexpand!r} with stops = "replica"',
            "no reexpand: replicas join as soon as they have started",
        )
    _check_costs(f"{place}.costs", policy.costs)
    costs = policy.costs
    if costs.checkpoint_interval_s in INTERVAL_RULES and costs.checkpoint_save_s == 0:
        raise InputError(
            f"{place} checkpoint_interval_s",
            f"{costs.checkpoint_interval_s!r} with checkpoint_save_s = 0: the best interval would be 0",
            "an interval in seconds, or a save that takes time",
        )
