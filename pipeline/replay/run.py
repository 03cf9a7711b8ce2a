"""Stage 3: timelines + policies -> ledgers.

In: the tables of the timelines stage. Out: `outcomes` (the scenario's policies), `outcome_timeline`
(their states over time), `splits` (every policy and batch rule at many spare counts), `what_ifs` (each at
its best split when something were different) and `stops` (what each stop cost, by the outage behind it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import units
from pipeline.config import Policy, Scenario
from pipeline.errors import InputError
from pipeline.lake import stages
from pipeline.lake.store import Lake, Record
from pipeline.perf import overhead, pace, templates
from pipeline.replay import fabrics, history, responses, timeline
from pipeline.replay.ledger import Span, Stop
from pipeline.replay.stops import causes
from pipeline.replay.stops import rows as stop_rows
from pipeline.replay.study import Failures, Study
from pipeline.replay.what_ifs import VARIATIONS, Variation
from pipeline.schema import arrow_schema

if TYPE_CHECKING:
    import polars as pl

STAGE = "replay"
MOST_SAVES = 2_000_000
_PACKAGES = ("polars", "pyarrow", "numpy")
_READS = ("gpu_downtime", "onsets", "what_if_gpu_downtime", "what_if_onsets")

Progress = Callable[[Iterable[Any], str], Iterable[Any]]


def check_policies(scenario: Scenario) -> None:
    """Raise InputError for a policy whose response, batch rule or reduced degree cannot be."""
    for index, policy in enumerate(scenario.policies, 1):
        place = f"{scenario.path.name} [policy {index}]"
        try:
            batches = responses.load(policy.response).BATCHES
        except InputError as error:
            raise InputError(
                f"{place} response", f"{policy.response!r} is unknown", error.expected, error.hint
            ) from None
        if responses.load(policy.response).USES_REDUCED and not policy.reduced_tp:
            raise InputError(
                f"{place} reduced_tp",
                f"missing with response {policy.response}",
                f"the reduced TP degrees the job may run at, below {scenario.job.tp}",
                f"e.g. reduced_tp = {_degrees(scenario)}",
            )
        if getattr(responses.load(policy.response), "USES_TEMPLATES", False):
            templates.check(place, scenario, policy)
        overhead.check(place, scenario, policy)
        if policy.batch is not None and policy.batch not in batches:
            raise InputError(
                f"{place} batch",
                f"{policy.batch!r} with response {policy.response}",
                f"one of {', '.join(batches)}",
            )
    pace.paces(scenario)
    fabrics.check(scenario)


def _degrees(scenario: Scenario) -> list[int]:
    """Return an example of reduced degrees: what is left when nodes of a domain are gone, at least half."""
    tp, step = scenario.job.tp, scenario.cluster.gpus_per_node
    step = step if step < tp else max(1, tp // 8)
    return list(range(tp - step, tp // 2 - 1, -step)) or [max(1, tp - 1)]


def stage(
    lake: Lake,
    scenario: Scenario,
    timelines: Record,
    log: stages.Log,
    progress: Progress = lambda items, _: items,
) -> tuple[Record, bool]:
    """Replay a scenario's policies, when the timelines, the policies or the engine have changed."""
    check_policies(scenario)
    facts = timelines.facts
    inputs = {
        "tables": stages.content(timelines, *_READS),
        "window": [facts["window_start"], facts["window_us"]],
        "rates": facts.get("rates"),
        "what_ifs": facts["what_ifs"],
        "scenario": scenario.name,
        "values": scenario.fingerprint("cluster", "job", "power", "policies"),
        "luck": scenario.trace.seed if any(p.costs.restart_fail_frac for p in scenario.policies) else None,
        "slowdown": {degree: str(found) for degree, found in pace.paces(scenario).items()},
        "overheads": [str(overhead.overhead_frac(scenario, policy)) for policy in scenario.policies],
        "templates": sorted((key, str(found)) for key, found in templates.by_policy(scenario).items()),
    }

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        tables = stages.write_tables(folder, _tables(lake, scenario, timelines, progress))
        window = [facts["window_start"], facts["window_end"]]
        return tables, {"least_headroom": _least_headroom(scenario), "window": window}

    return stages.run(
        lake,
        STAGE,
        scenario.name,
        inputs=inputs,
        code=stages.code_version("replay", packages=_PACKAGES),
        build=build,
        log=log,
        scenario=scenario.name,
        seed=" ".join(map(str, scenario.cluster.placement_seeds)),
    )


def _check_saves(scenario: Scenario, policy: Policy, interval_s: float, window_us: int) -> None:
    """Raise InputError when the saves of a window would not fit in a table of states."""
    saves = window_us / units.US_PER_S / (interval_s + policy.costs.checkpoint_save_s)
    if saves > MOST_SAVES:
        raise InputError(
            f"{scenario.path.name} [costs] checkpoint_interval_s",
            f"{interval_s:g} s makes {saves:,.0f} saves in the window",
            f"at most {MOST_SAVES:,}",
            "a longer interval, or a shorter window",
        )


def _least_headroom(scenario: Scenario) -> list[dict[str, Any]]:
    degrees = {degree for policy in scenario.policies for degree in policy.reduced_tp}
    return Study(scenario).least_headroom(tuple(degrees))


def _tables(lake: Lake, scenario: Scenario, timelines: Record, progress: Progress) -> dict[str, Any]:
    import pyarrow as pa

    study = Study(scenario)
    logged = load(lake, scenario, timelines)
    seeds = scenario.cluster.placement_seeds
    origin_us = _origin_us(timelines)

    outcomes, states = [], []
    stopped = _Stopped(lake, scenario, timelines)
    for policy in progress(scenario.policies, "policies"):
        for seed in seeds:
            spans: list[Span] = []
            stops: list[Stop] = []
            row = study.row(policy, logged, seed, spans, stops)
            stopped.book(replace(policy, batch=study.batch_of(policy)), seed, stops)
            _check_saves(scenario, policy, row["checkpoint_interval_s"], timelines.facts["window_us"])
            outcomes.append(row)
            interval_us = units.seconds_to_us(row["checkpoint_interval_s"])
            save_us = units.seconds_to_us(policy.costs.checkpoint_save_s)
            states.append(
                timeline.table(spans, scenario.name, policy.name, seed, origin_us, interval_us, save_us)
            )

    splits: list[dict[str, Any]] = []
    best: list[Policy] = []
    intervals_s: dict[tuple[Policy, int], float] = {}
    for line in progress(list(study.lines()), "splits of the pool"):
        rows = [
            study.row(replace(line, spare_domains=spare), logged, seed)
            for spare in study.splits()
            for seed in seeds
        ]
        splits += rows
        chosen = replace(line, spare_domains=_best_split(rows))
        best.append(chosen)
        intervals_s |= {
            (chosen, row["placement_seed"]): row["checkpoint_interval_s"]
            for row in rows
            if row["spare_domains"] == chosen.spare_domains
        }

    for line in progress(best, "stops"):
        for seed in seeds:
            if (line, seed) not in stopped.booked:
                stops = []
                study.replay(line, logged, seed, stops=stops)
                stopped.book(line, seed, stops)

    what_ifs: list[dict[str, Any]] = []
    for name, failures in progress(list(_cases(lake, scenario, timelines)), "what-ifs"):
        for line in best:
            what_ifs += [{**study.row(line, failures, seed), "what_if": name} for seed in seeds]
    for name, variation in progress(list(VARIATIONS.items()), "sensitivities"):
        changed = variation.scenario(scenario)
        if changed is not None:
            what_ifs += _varied(Study(changed, study), variation, best, logged, intervals_s, name)

    tables = {"outcomes": outcomes, "splits": splits, "what_ifs": what_ifs, "stops": stopped.rows}
    return {
        "outcome_timeline": pa.concat_tables(states),
        **{name: pa.Table.from_pylist(rows, schema=arrow_schema(name)) for name, rows in tables.items()},
    }


def _varied(
    study: Study,
    variation: Variation,
    best: Sequence[Policy],
    logged: Failures,
    intervals_s: Mapping[tuple[Policy, int], float],
    name: str,
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `what_ifs` of one variation."""
    for line in best:
        for seed in study.scenario.cluster.placement_seeds:
            policy = variation.policy(line, intervals_s[line, seed])
            if policy is not None:
                yield {**study.row(policy, logged, seed), "what_if": name}


class _Stopped:
    """The rows of `stops`: of each policy as listed, and of each line at its best split, once each."""

    def __init__(self, lake: Lake, scenario: Scenario, timelines: Record) -> None:
        import polars as pl

        onsets = pl.read_parquet(lake.table(timelines, "onsets"), glob=False)
        self.origin_us = _origin_us(timelines)
        self.causes = {
            seed: causes(onsets.filter(pl.col("placement_seed") == seed), self.origin_us)
            for seed in scenario.cluster.placement_seeds
        }
        self.scenario = scenario.name
        self.rows: list[dict[str, Any]] = []
        self.booked: set[tuple[Policy, int]] = set()

    def book(self, policy: Policy, seed: int, stops: Sequence[Stop]) -> None:
        """Book the stops of one replay."""
        self.booked.add((policy, seed))
        about = {
            "scenario": self.scenario,
            "policy": policy.name,
            "batch": policy.batch,
            "spare_domains": policy.spare_domains,
            "placement_seed": seed,
        }
        self.rows += stop_rows(stops, self.causes[seed], self.origin_us, about)


def _best_split(rows: list[dict[str, Any]]) -> int:
    """Return the spare count with the highest mean goodput over placements, the fewest on a tie."""
    goodput: dict[int, list[float]] = {}
    for row in rows:
        goodput.setdefault(row["spare_domains"], []).append(row["goodput_frac"])
    # Rounded, as in 4_outcomes/best_splits.sql: sums of floats in another order may differ in the last digit.
    means = {spare: round(fsum(found) / len(found), 12) for spare, found in goodput.items()}
    return min(means, key=lambda spare: (-means[spare], spare))


def _origin_us(timelines: Record) -> int:
    return units.to_us(datetime.fromisoformat(timelines.facts["window_start"]))


def load(lake: Lake, scenario: Scenario, timelines: Record) -> Failures:
    """Return the failures as the log has them."""
    import polars as pl

    downtime = pl.read_parquet(lake.table(timelines, "gpu_downtime"), glob=False)
    onsets = pl.read_parquet(lake.table(timelines, "onsets"), glob=False)
    return _failures(scenario, timelines, downtime, onsets, _rate_per_gpu_d(timelines))


def _cases(lake: Lake, scenario: Scenario, timelines: Record) -> Iterable[tuple[str, Failures]]:
    import polars as pl

    downtime = pl.read_parquet(lake.table(timelines, "what_if_gpu_downtime"), glob=False)
    onsets = pl.read_parquet(lake.table(timelines, "what_if_onsets"), glob=False)
    for name, words, components in timelines.facts["what_ifs"]:
        chosen = pl.col("what_if") == name
        mine = downtime.filter(chosen), onsets.filter(chosen)
        yield name, _failures(scenario, timelines, *mine, _rate_per_gpu_d(timelines, words, components))


def _failures(
    scenario: Scenario,
    timelines: Record,
    downtime: pl.DataFrame,
    onsets: pl.DataFrame,
    rate_per_gpu_d: float | None,
) -> Failures:
    import polars as pl

    histories, counts = {}, {}
    for seed in scenario.cluster.placement_seeds:
        chosen = pl.col("placement_seed") == seed
        mine = onsets.filter(chosen)
        histories[seed] = history.build(
            downtime.filter(chosen),
            mine,
            domains=scenario.cluster.pool_domains,
            window_start_us=_origin_us(timelines),
            window_us=timelines.facts["window_us"],
        )
        counts[seed] = mine["outage_id"].n_unique()
    return Failures(histories, counts, rate_per_gpu_d)


def _rate_per_gpu_d(
    timelines: Record, words: Sequence[str] = (), components: Sequence[str] = ()
) -> float | None:
    """Return a synthetic trace's rate of interrupting faults, without those that a what-if leaves out."""
    rates = timelines.facts.get("rates")
    if rates is None:
        return None
    kept = [
        rate
        for rate in rates
        if rate["component"] not in {*words, *components} and rate["reason"] not in words
    ]
    return fsum(rate["per_gpu_d"] for rate in kept)
