"""Failures from a preset's rates -> `events` of kind interval, as a log would have them.

In: a scenario's [trace] (preset, days, seed, start) and [cluster] (nodes, gpus_per_node). Out: the tables
`events`, `rejects` (empty) and `files` (one row). Time 0 is contract.DAY_0.
A Poisson process at the total rate of the cluster's GPUs, placed uniformly on nodes and GPUs, kinds by their
share, repair times by their distribution. `clean`: nothing is down at time 0. `steady`: events are drawn from
one longest repair before time 0 on, which is all that can still be down then; those over before time 0 are
left out.
Easy to get wrong: a GPU that is down can be hit again, so downtime is the union, not the sum; an interval may
end after the window. The same parameters give the same bytes: no clock is read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import InputError
from pipeline.lake import stages
from pipeline.schema import arrow_schema
from pipeline.synth import presets
from pipeline.synth.contract import DAY_0, Preset, node_names
from pipeline.units import US_PER_D, US_PER_H, to_us

if TYPE_CHECKING:
    from pipeline.config import Scenario
    from pipeline.lake.store import Lake, Record

STAGE = "synth"
SOURCE = "synth"
VERSION = "1"
MAX_EVENTS = 50_000_000  # some gigabytes; beyond that a typing error is likelier than a wish

Log = Callable[[str], None]


def stage(lake: Lake, scenario: Scenario, log: Log) -> tuple[Record, bool]:
    """Draw the failures of a scenario with a preset; return the record and whether it ran."""
    trace, cluster = scenario.trace, scenario.cluster
    name, days = trace.preset, trace.days
    if name is None or days is None:
        raise InputError(f"{scenario.path.name} [trace]", "no preset", 'preset = "..." and days = ...')
    preset = presets.load(name)
    gpus = cluster.nodes * cluster.gpus_per_node
    wanted = {
        "preset": name,
        "rates": [asdict(rate) for rate in preset.rates],
        "days": days,
        "seed": trace.seed,
        "start": trace.start,
        "nodes": cluster.nodes,
        "gpus_per_node": cluster.gpus_per_node,
    }
    sha256 = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        columns = draw(preset, days, cluster.nodes, cluster.gpus_per_node, seed=trace.seed, start=trace.start)
        tables = _tables(columns, preset, cluster.nodes, f"preset {name}", sha256)
        count = tables["events"].num_rows
        log(f"preset {name}: {count} events on {gpus} GPUs in {days:g} days")
        facts = {
            "source": SOURCE,
            "file": f"preset {name}",
            "title": preset.title,
            "rows_read": count,
            "rows_accepted": count,
            "rows_rejected": 0,
            "day_0": DAY_0.isoformat(),
            "rate_per_gpu_d": preset.per_gpu_d,
            "assumptions": assumptions(preset, trace.start),
        }
        return stages.write_tables(folder, tables), facts

    return stages.run(
        lake,
        STAGE,
        scenario.name,
        inputs={"parameters": sha256, "version": VERSION},
        code=stages.code_version(
            "synth/run.py",
            "synth/contract.py",
            f"synth/presets/{presets.module_file(name).name}",
            "schema.py",
            "units.py",
        ),
        build=build,
        log=log,
        scenario=scenario.name,
        seed=str(trace.seed),
    )


def draw(
    preset: Preset, days: float, nodes: int, gpus_per_node: int, *, seed: int, start: str
) -> dict[str, Any]:
    """Return arrays `start_us`, `end_us` (from time 0), `node`, `gpu` and `kind` (index of the rate)."""
    import numpy as np

    lead_us = round(preset.longest_repair_h * US_PER_H) if start == "steady" else 0
    span_us = round(days * US_PER_D)
    mean = preset.per_gpu_d * nodes * gpus_per_node * (span_us + lead_us) / US_PER_D
    if mean > MAX_EVENTS:
        raise InputError("[trace] days", f"about {mean:.3g} events", f"at most {MAX_EVENTS}", "fewer days")
    random = np.random.Generator(np.random.PCG64(seed))
    count = int(random.poisson(mean))
    start_us = np.sort(random.integers(-lead_us, span_us, count))
    node = random.integers(0, nodes, count)
    gpu = random.integers(0, gpus_per_node, count)
    # The last bound is replaced by 1: sums of shares may end a hair below it.
    bounds = np.cumsum([rate.per_gpu_d / preset.per_gpu_d for rate in preset.rates])[:-1]
    kind = np.searchsorted(bounds, random.random(count), side="right")
    luck = random.random(count)
    repair_us = np.empty(count, dtype=np.int64)
    for index, rate in enumerate(preset.rates):
        mine = kind == index
        weights = np.cumsum([weight for weight, _ in rate.repair.parts])[:-1]
        hours_us = np.array([round(hours * US_PER_H) for _, hours in rate.repair.parts], dtype=np.int64)
        repair_us[mine] = hours_us[np.searchsorted(weights, luck[mine], side="right")]
    end_us = start_us + repair_us
    kept = end_us > 0
    arrays = {"start_us": start_us, "end_us": end_us, "node": node, "gpu": gpu, "kind": kind}
    return {name: array[kept] for name, array in arrays.items()}


def assumptions(preset: Preset, start: str) -> list[str]:
    """Return what a reader must know about synthetic failures, as sentences."""
    began = {
        "clean": "Nothing is down at the start, so the first days are better than the long run.",
        "steady": "The rates have run before the start, so it begins with GPUs down.",
    }
    return [
        "Failures are independent and memoryless (Poisson); real ones come in bursts and on lemons.",
        "A GPU that is down can fail again; downtime is the union.",
        began[start],
        *preset.assumptions,
        *dict.fromkeys(f"Borrowed: {rate.borrowed_from}." for rate in preset.rates if rate.borrowed_from),
    ]


def _tables(columns: dict[str, Any], preset: Preset, nodes: int, file: str, sha256: str) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa

    count = len(columns["kind"])
    rows = np.arange(1, count + 1)
    rates = preset.rates
    is_node = np.array([rate.scope == "node" for rate in rates])[columns["kind"]]
    names = pa.array(node_names(nodes))
    values = {
        # The parameters decide every row, so their hash and the row's place are its content.
        "event_id": pa.array([f"{sha256[:16]}{row:016x}" for row in range(1, count + 1)], pa.string()),
        "cluster": pa.array(["default"] * count, pa.string()),
        "source": pa.array([SOURCE] * count, pa.string()),
        "t_start": pa.array(columns["start_us"] + to_us(DAY_0), pa.timestamp("us")),
        "t_end": pa.array(columns["end_us"] + to_us(DAY_0), pa.timestamp("us")),
        "kind": pa.array(["interval"] * count, pa.string()),
        "node": names.take(pa.array(columns["node"])),
        "gpu": pa.array(columns["gpu"], pa.int64(), mask=is_node),
        "domain": pa.nulls(count, pa.string()),
        "severity": pa.array(["down"] * count, pa.string()),
    }
    for name, words in (
        ("scope", [rate.scope for rate in rates]),
        ("component", [rate.component for rate in rates]),
        ("code", [rate.reason for rate in rates]),
        ("reason", [rate.reason for rate in rates]),
    ):
        values[name] = pa.array(words, pa.string()).take(pa.array(columns["kind"]))
    values["file"] = pa.array([file] * count, pa.string())
    values["row"] = pa.array(rows, pa.int64())
    source_file = {
        "file": file,
        "sha256": sha256,
        "source": SOURCE,
        "source_version": VERSION,
        "rows_read": count,
        "rows_accepted": count,
        "rows_rejected": 0,
        "ingested_at": None,  # nothing was read, and a clock would make equal runs differ
    }
    return {
        "events": pa.table(values, schema=arrow_schema("events")),
        "rejects": arrow_schema("rejects").empty_table(),
        "files": pa.Table.from_pylist([source_file], schema=arrow_schema("files")),
    }
