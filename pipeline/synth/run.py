"""Failures from a preset's rates, or from a real trace resampled -> `events` of kind interval.

In: a scenario's [trace] (preset or bootstrap, days, seed, start) and [cluster] (nodes, gpus_per_node); for
a bootstrap also the records of the ingested source. Out: the tables `events`, `rejects`, `files` and
`redrawn_events` (the same from the seeds that follow, told apart by the column `redraw`), and
facts: day_0, title, rate_per_gpu_d (what interrupts a job, per GPU and day, after [trace.severity]) and
assumptions, as sentences for the report.
Easy to get wrong: time 0 is contract.DAY_0, also for a bootstrap, whose `window` is that of the original
trace. The same parameters give the same bytes: no clock is read.
Source: model.md section 8.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import PLANNED_DOWN, PLANNED_IGNORE
from pipeline.errors import InputError
from pipeline.lake import open_ends, stages
from pipeline.schema import arrow_schema
from pipeline.synth import bootstrap, observed, presets
from pipeline.synth.contract import DAY_0, REDRAWN, Preset, changed
from pipeline.synth.draw import Columns, draw
from pipeline.synth.tables import SOURCE, VERSION, Kind, tables

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.config import Scenario, Trace
    from pipeline.lake.store import Lake, Record

STAGE = "synth"
INTERRUPTING = ("down", "app")

Log = Callable[[str], None]
# Failures by seed, what the kinds are, facts.
Source = tuple[Callable[[int], Columns], Sequence[Kind], Mapping[str, Any]]


def stage(lake: Lake, scenario: Scenario, log: Log) -> tuple[Record, bool]:
    """Draw the failures of a scenario with a preset; return the record and whether it ran."""
    trace = scenario.trace
    if trace.preset is None:
        raise InputError(f"{scenario.path.name} [trace]", "no preset", 'preset = "..." and days = ...')
    preset = changed(
        presets.load(trace.preset), weibull_shape=trace.weibull_shape, correlation=trace.correlation
    )

    def drawn(seed: int) -> Columns:
        cluster = scenario.cluster
        return draw(preset, _days(trace), cluster.nodes, cluster.gpus_per_node, seed=seed, start=trace.start)

    def source() -> Source:
        kinds = [Kind(rate.scope, rate.component, "down", rate.reason) for rate in preset.rates]
        pairs = zip(preset.rates, kinds, strict=True)
        rates = [_rate(kind, rate.per_gpu_d) for rate, kind in pairs if _interrupts(trace, kind)]
        facts = {
            "title": preset.title,
            "rate_per_gpu_d": math.fsum(rate["per_gpu_d"] for rate in rates),
            "rates": rates,
            "assumptions": assumptions(preset, trace.start),
        }
        return drawn, kinds, facts

    code = f"synth/presets/{presets.module_file(trace.preset).name}"
    return _stage(lake, scenario, {"preset": asdict(preset)}, (code,), source, log)


def resample(lake: Lake, scenario: Scenario, sources: Sequence[Record], log: Log) -> tuple[Record, bool]:
    """Draw the failures of a scenario with a bootstrap from the ingested events of its source."""
    trace, cluster, where = scenario.trace, scenario.cluster, f"{scenario.path.name} [trace]"
    window = observed.window(where, trace, sources)
    block_d = trace.block_d or bootstrap.BLOCK_D
    days = observed.days(window)
    if block_d > days:
        found = f"{block_d:g} days, but the observed window has {days:g}"
        raise InputError(f"{where} block_d", found, "blocks no longer than the window")

    def source() -> Source:
        nodes, gpus = trace.observed_nodes or 0, cluster.gpus_per_node
        history = observed.load(lake, sources, window, nodes, where, trace, gpus)

        def drawn(seed: int) -> Columns:
            return bootstrap.draw(
                history, _days(trace), cluster.nodes, block_d=block_d, seed=seed, start=trace.start
            )

        counts = Counter(
            (kind.component, kind.reason or "") for kind in history.kinds if _interrupts(trace, kind)
        )
        gpu_days = history.nodes * cluster.gpus_per_node * days
        about: Mapping[str, Any] = next((record.facts for record in sources), {})
        facts = {
            "title": f"{about.get('title') or trace.bootstrap}, resampled in blocks of {block_d:g} days",
            "license": about.get("license", ""),
            "homepage": about.get("homepage", ""),
            "rate_per_gpu_d": counts.total() / gpu_days,
            "rates": [
                {"component": component, "reason": reason, "per_gpu_d": count / gpu_days}
                for (component, reason), count in sorted(counts.items())
            ],
            "assumptions": bootstrap.assumptions(history, cluster.nodes, block_d, trace.start),
        }
        return drawn, history.kinds, facts

    parameters = {
        "bootstrap": [stages.content(record, "events") for record in sources],
        "queries": stages.sql_version(query.path for query in observed.queries()),
        "window": [moment.isoformat() for moment in window],
        "block_d": block_d,
        "observed_nodes": trace.observed_nodes,
        "without_ends": [trace.assumed_repair_h, trace.fold_s, trace.cause_lead_s],
        "planned": open_ends.planned_aside(sources, trace),
    }
    return _stage(lake, scenario, parameters, ("lake/sql.py",), source, log)


def _stage(
    lake: Lake,
    scenario: Scenario,
    parameters: Mapping[str, Any],
    code: tuple[str, ...],
    source: Callable[[], Source],
    log: Log,
) -> tuple[Record, bool]:
    trace, cluster = scenario.trace, scenario.cluster
    file = f"preset {trace.preset}" if trace.preset else f"bootstrap {trace.bootstrap}"
    wanted = {
        **parameters,
        "days": trace.days,
        "seed": trace.seed,
        "start": trace.start,
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
    }
    sha256 = stages.input_hash(wanted)

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        drawn, kinds, about = source()
        columns = drawn(trace.seed)
        count = len(columns["kind"])
        gpus = cluster.nodes * cluster.gpus_per_node
        log(f"{file}: {count} events on {gpus} GPUs in {trace.days:g} days")
        facts = {
            "source": SOURCE,
            "file": file,
            "rows_read": count,
            "rows_accepted": count,
            "rows_rejected": 0,
            "day_0": DAY_0.isoformat(),
            "planned": PLANNED_DOWN,  # a model of failures; a bootstrap has set planned work aside already
            **about,
        }
        found = tables(columns, kinds, cluster.nodes, file, sha256)
        found[REDRAWN] = _redrawn(
            [tables(drawn(seed), kinds, cluster.nodes, file, sha256)["events"] for seed in _further(trace)]
        )
        return stages.write_tables(folder, found), facts

    choices = {**trace.severity, **dict.fromkeys(trace.exclude, "info")}
    modules = [f"synth/{path.name}" for path in sorted(Path(__file__).parent.glob("*.py"))]
    return stages.run(
        lake,
        STAGE,
        scenario.name,
        inputs={
            "parameters": sha256,
            "version": VERSION,
            "severity": choices,
            "planned": trace.planned,
            "redraws": trace.redraws,
        },
        code=stages.code_version(*modules, *code, packages=("numpy", "polars", "pyarrow")),
        build=build,
        log=log,
        scenario=scenario.name,
        seed=str(trace.seed),
    )


def _further(trace: Trace) -> list[int]:
    """Return the seeds of a trace's redraws: those that follow its own."""
    return [trace.redraw_seed(number) for number in range(1, trace.redraws + 1)]


def _redrawn(draws: Sequence[pa.Table]) -> pa.Table:
    """Return the events of all redraws, told apart by the column `redraw`, from 1."""
    import pyarrow as pa

    schema = arrow_schema("events").append(pa.field("redraw", pa.int64()))
    numbered = [
        events.append_column("redraw", pa.array([number] * events.num_rows, pa.int64()))
        for number, events in enumerate(draws, 1)
    ]
    return pa.concat_tables([schema.empty_table(), *numbered])


def _rate(kind: Kind, per_gpu_d: float) -> dict[str, Any]:
    return {"component": kind.component, "reason": kind.reason or "", "per_gpu_d": per_gpu_d}


def _days(trace: Trace) -> float:
    assert trace.days is not None, "config checks it"
    return trace.days


def _interrupts(trace: Trace, kind: Kind) -> bool:
    """Say whether a kind stops a job, after the scenario's choice of severities."""
    choices = {**trace.severity, **dict.fromkeys(trace.exclude, "info")}
    left_out = "info" if kind.component == "planned" and trace.planned == PLANNED_IGNORE else None
    severity = choices.get(kind.reason or "") or choices.get(kind.component) or left_out or kind.severity
    return severity in INTERRUPTING


def assumptions(preset: Preset, start: str) -> list[str]:
    """Return what a reader must know about synthetic failures, as sentences."""
    lemons, bursts = preset.lemons, preset.bursts
    shapes = sorted({rate.arrival.shape for rate in preset.rates if not rate.arrival.is_memoryless})
    texts = []
    if lemons:
        texts.append(
            f"{lemons.nodes_frac:.0%} of the nodes are expected to carry {lemons.rate_frac:.0%} of the "
            f"failures outside bursts: {lemons.origin}."
        )
    if bursts:
        texts.append(
            f"{bursts.events_frac:.1%} of the failures come in bursts of {bursts.mean_nodes:.1f} nodes at "
            f"one instant, neighbours in a group of {bursts.group_nodes}: {bursts.origin}."
        )
    if shapes:
        told = ", ".join(f"{shape:g}" for shape in shapes)
        texts.append(f"Gaps are Weibull, shape {told}; a part is as good as new after each failure.")
    if not (lemons or bursts or shapes):
        texts.append(
            "Failures are independent and memoryless (Poisson); real ones come in bursts and on lemons."
        )
    began = {
        "clean": "Nothing is down at the start, so the first days are better than the long run.",
        "steady": "The rates have run before the start, so it begins with GPUs down.",
    }
    return [
        *texts,
        "A GPU that is down can fail again; downtime is the union.",
        began[start],
        *preset.assumptions,
        *dict.fromkeys(f"Borrowed: {rate.borrowed_from}." for rate in preset.rates if rate.borrowed_from),
    ]
