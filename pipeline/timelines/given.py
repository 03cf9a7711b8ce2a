"""What the queries of stage 2 are given beside events, and whether a scenario and its logs fit together.

In: a scenario, and a connection that holds its `events`. Out: placements, severities and blast radii as
tables. Easy to get wrong: a word under [trace] that no log holds, or a GPU beyond the node, is a mistake of
the scenario and never counts for nothing unsaid. Source: model.md section 2, rules 5 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipeline import config
from pipeline.config import Scenario
from pipeline.errors import InputError, nearest
from pipeline.lake import stages
from pipeline.schema import CAPACITY, COMPONENTS
from pipeline.synth.contract import node_names

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_FIRST_NODES = 10


def check_words(con: duckdb.DuckDBPyConnection, scenario: Scenario) -> None:
    """Raise InputError for a word under [trace] that is no component, and no code or reason of the log."""
    trace = scenario.trace
    said = {"severity": tuple(trace.severity), "exclude": trace.exclude, "may_compute": trace.may_compute}
    if not any(said.values()):
        return
    reasons, codes = (
        {word for (word,) in con.execute(f"select distinct {name} from events").fetchall() if word}
        for name in ("reason", "code")
    )
    reasons |= {config.ASSUMED_REASON} if trace.app_faults_per_1000_node_d else set()
    for key, words in said.items():
        # What may compute is looked up in the table of outages, which has no codes.
        more, kinds = (reasons, "reason") if key == "may_compute" else (reasons | codes, "code or reason")
        for word in words:
            if word not in COMPONENTS and word not in more:
                raise InputError(
                    f"{scenario.path.name} [trace] {key}",
                    f"{word!r} is no component and no {kinds} in the log",
                    f"one of {', '.join(COMPONENTS)}, or a {kinds} as the log has it",
                    nearest(word, [*COMPONENTS, *sorted(more)]),
                )


def check_capacity(con: duckdb.DuckDBPyConnection, scenario: Scenario) -> None:
    """Raise InputError when spot capacity and failures lie in one trace and the scenario does not say so."""
    trace = scenario.trace
    if CAPACITY in trace.severity or CAPACITY in trace.exclude:
        return
    ((taken, failed),) = con.execute(
        f"""select count(*) filter (component = '{CAPACITY}'), count(*) filter (component <> '{CAPACITY}')
        from events where severity = 'down'"""
    ).fetchall()
    if taken and failed:
        raise InputError(
            f"{scenario.path.name} [trace]",
            f"{taken} rows of capacity taken back (spot) beside {failed} of failures",
            "one kind, or a word on it",
            'exclude = ["capacity"], or [trace.severity] capacity = "down" to count both',
        )


def severity_choices(scenario: Scenario) -> pa.Table:
    """Return the severities that a scenario gives to components, codes and reasons."""
    import pyarrow as pa

    chosen = {**scenario.trace.severity, **dict.fromkeys(scenario.trace.exclude, "info")}
    return pa.table(
        {"word": pa.array(chosen, pa.string()), "severity": pa.array(chosen.values(), pa.string())}
    )


def blast_radius(chosen: Mapping[str, int | str]) -> pa.Table:
    """Return what faults of a component take out at least: a number of GPUs or a scope."""
    import pyarrow as pa

    gpus = [reach if isinstance(reach, int) else None for reach in chosen.values()]
    scopes = [reach if isinstance(reach, str) else None for reach in chosen.values()]
    return pa.table(
        {
            "component": pa.array(chosen, pa.string()),
            "radius_gpus": pa.array(gpus, pa.int64()),
            "scope": pa.array(scopes, pa.string()),
        }
    )


def placements(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, log: stages.Log
) -> tuple[Any, dict[str, Any]]:
    """Return how nodes lie in domains, and what is worth telling about it."""
    import polars as pl

    from pipeline.timelines import placement

    cluster, where = scenario.cluster, scenario.path.name
    if cluster.placement == "topology":
        return _topology_placement(con, scenario, log)
    if scenario.trace.is_synthetic:
        nodes = node_names(cluster.nodes)
    else:
        nodes = placement.population(_named_nodes(con), cluster, where)
    _check_gpus(con, scenario, ())
    seeds = cluster.placement_seeds
    return pl.concat([placement.place(nodes, cluster, scenario.name, seed) for seed in seeds]), {}


def _topology_placement(
    con: duckdb.DuckDBPyConnection, scenario: Scenario, log: stages.Log
) -> tuple[Any, dict[str, Any]]:
    """Return the placement that the scenario's topology states; synthetic nodes take its places in order."""
    from pipeline.timelines import placement
    from pipeline.topology.layout import few, outside

    fitted, others = config.topology_of(scenario), []
    if scenario.trace.is_synthetic:
        fitted = fitted.renamed(node_names(scenario.cluster.nodes))
    else:
        domains = con.execute("select distinct domain from events where domain is not null").fetchall()
        where = f"{scenario.path.name} [cluster] topology"
        others = outside(_named_nodes(con), fitted.domains, [name for (name,) in domains], where)
    dropped = [row.node for rows in fitted.dropped.values() for row in rows]
    _check_gpus(con, scenario, dropped)
    if others:
        log(f"unplaced: {len(others)} nodes of the log that the topology lacks ({few(others)})")
    if dropped:
        log(f"unplaced: {len(dropped)} nodes of domains of another size ({few(list(fitted.dropped))})")
    facts = {
        "dropped_domains": list(fitted.dropped),
        "nodes_outside_topology": len(others),
        "first_nodes_outside_topology": others[:_FIRST_NODES],
    }
    return placement.lay(fitted, others, scenario.cluster, scenario.name), facts


def _named_nodes(con: duckdb.DuckDBPyConnection) -> list[str]:
    """Return the nodes that the log names, in its order."""
    found = con.execute(
        """select node from events where node is not null
        group by node order by min(t_start), min(file), min("row")"""
    ).fetchall()
    return [name for (name,) in found]


def _check_gpus(con: duckdb.DuckDBPyConnection, scenario: Scenario, beside: Sequence[str]) -> None:
    """Raise InputError when the log names a GPU beyond the node; nodes in `beside` may be of another kind."""
    query = "select max(gpu) from events where node is null or not list_contains(?::varchar[], node)"
    ((largest,),) = con.execute(query, [list(beside)]).fetchall()
    if largest is not None and largest >= scenario.cluster.gpus_per_node:
        raise InputError(
            f"{scenario.path.name} [cluster] gpus_per_node",
            f"{scenario.cluster.gpus_per_node}, but the log names GPU {largest}",
            f"at least {largest + 1} (GPUs are counted from 0)",
        )


def check_names(con: duckdb.DuckDBPyConnection, scenario: Scenario) -> None:
    """Raise InputError when the logs name more GPUs of a placed node than it has."""
    found = con.execute(
        """select node, count(*) from gpu_names where node in (select node from placements)
        group by cluster, node having count(*) filter (gpu is null) > 0 order by node limit 1"""
    ).fetchall()
    for node, names in found:
        raise InputError(
            f"{scenario.path.name} [cluster] gpus_per_node",
            f"{scenario.cluster.gpus_per_node}, but the logs name {names} GPUs of node {node}",
            "at least as many as a node has names, one name a GPU",
            f"the table events lists them: gpu_name and source where node = '{node}'",
        )
