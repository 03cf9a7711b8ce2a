"""What `goodput perf` prints: the presets, or the degrees of a scenario with time, memory and legality."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.config import Scenario
from pipeline.perf import pace, presets
from pipeline.perf.calibrate import Calibration
from pipeline.perf.step_time import hardware_flop_per_s, model_flop_per_s

MS_PER_S = 1e3
GB = 1e9
TERA = 1e12


@dataclass(frozen=True)
class Told:
    """The same for people and as JSON."""

    lines: list[str]
    plain: dict[str, Any]


def about_presets() -> Told:
    """Return the names of all presets with a line about each."""
    kinds = {"model": ("models", presets.models()), "gpu": ("gpus", presets.gpus())}
    found = {
        table: {name: presets.about(kind, name) for name in names} for table, (kind, names) in kinds.items()
    }
    lines = []
    for table, known in found.items():
        lines.append(f'[{table}] preset = "..."')
        lines += [f"  {row}" for row in _aligned(list(known.items()))]
    return Told(lines, found)


def degrees(scenario: Scenario) -> Told:
    """Return TP and the reduced degrees of a scenario: pace, time, memory, and why one is not legal."""
    setup, rows = pace.setup(scenario), pace.rows(scenario)
    plain: dict[str, Any] = {"scenario": scenario.name, "kind": scenario.step_time.kind}
    lines = ["no [model] and no [gpu]: time, memory and legality are not known"]
    if setup is not None:
        lines, healthy = _healthy(setup)
        plain |= healthy
    head = ("tp", "pace", "TP/t", "ms a microbatch", "GB a GPU", "legal")
    lines += ["", *_aligned([head, *(_cells(row, is_known=setup is not None) for row in rows)])]
    plain["degrees"] = [asdict(row) for row in rows]
    if setup is not None and setup.calibration is not None:
        lines += ["", *_calibrated(setup.calibration)]
        plain["calibration"] = {
            "factors": asdict(setup.calibration.factors),
            "rows": [{**asdict(row), "error_frac": row.error_frac} for row in setup.calibration.rows],
        }
    return Told(lines, plain)


def _calibrated(fitted: Calibration) -> list[str]:
    """Return the factors of a calibration, and ours against measured."""
    factors = fitted.factors
    told = f"computing takes {factors.compute:.3f} times as long as modeled, "
    told += f"TP collectives {factors.collective:.3f} times"
    cells = [
        (
            str(row.degree),
            f"{row.measured_s:.4g}",
            f"{row.modeled_s:.4g}",
            f"{row.calibrated_s:.4g}",
            f"{row.error_frac:+.1%}",
        )
        for row in fitted.rows
    ]
    head = ("tp", "s measured", "s modeled", "s calibrated", "error")
    return [f"calibrated on measured steps: {told}", *_aligned([head, *cells])]


def _healthy(setup: pace.Setup) -> tuple[list[str], dict[str, Any]]:
    """Return the healthy job as modeled, without the factors of a calibration."""
    shape, gpu, plan, iteration = setup.shape, setup.gpu, setup.plan, setup.iteration()
    model_flop = model_flop_per_s(shape, plan, iteration.total_s)
    hardware_flop = hardware_flop_per_s(shape, plan, iteration.total_s)
    peak = gpu.peak_flop_per_s(plan.dtype)
    values = {
        "gpus": plan.gpus,
        "dp": plan.dp,
        "iteration_s": iteration.total_s,
        **{key: value for key, value in asdict(iteration).items() if key != "mean_compute_s"},
        "model_flop_per_s": model_flop,
        "mfu_frac": model_flop / peak,
        "hfu_frac": hardware_flop / peak,
    }
    parts = (
        ("computing", iteration.compute_s),
        ("TP collectives", iteration.collective_s),
        ("network", iteration.network_s),
        ("bubble", iteration.bubble_s),
        ("gradient sync", iteration.gradients_s),
        ("optimizer", iteration.optimizer_s),
    )
    plan_words = f"TP {plan.tp}, PP {plan.pp}, CP {plan.cp}, DP {plan.dp}"
    seconds = ", ".join(f"{what} {part_s:.3g}" for what, part_s in parts)
    shares = f"MFU {model_flop / peak:.1%}, HFU {hardware_flop / peak:.1%}"
    lines = [
        f"{shape.weights / GB:,.1f} billion weights on {plan.gpus:,} {gpu.name}: {plan_words}",
        f"iteration {iteration.total_s:.4g} s: {seconds}",
        f"{model_flop / TERA:,.0f} TFLOP/s a GPU, {shares}: a bound, real steps are longer",
    ]
    return lines, values


def _cells(row: pace.Row, *, is_known: bool) -> tuple[str, ...]:
    legal = ("; ".join(row.reasons) or "yes") if is_known else "?"
    return (
        str(row.degree),
        f"{row.pace:.3f}",
        f"{row.ideal:.3f}",
        "" if row.microbatch_s is None else f"{row.microbatch_s * MS_PER_S:,.1f}",
        "" if row.memory_bytes is None else f"{row.memory_bytes / GB:,.0f}",
        legal,
    )


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows of equally many cells as lines with aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
