"""How much of the paper's trace has more than 0.1 % of the GPUs failed, and three times the rate (Fig 4).

The paper repairs hardware in "3/5 days". Each reading is a row: equal odds, 3 days, 5 days.
A published number is one trace's, so its tolerance is the spread of one seed's value, not of the mean.
Source: arXiv 2504.06095 section 3.6 and figure 4.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TYPE_CHECKING

from pipeline.paper import pool
from pipeline.paper.claims.availability import GPUS, usable
from pipeline.paper.rows import Context, Row, of_one
from pipeline.synth import presets
from pipeline.synth.distributions import Fixed, Mix

if TYPE_CHECKING:
    from pipeline.synth.contract import Preset

DAYS, NODES, NODE_GPUS = 15, 4_096, 8
THRESHOLD_FRAC = 0.001
READINGS = {
    "3 or 5 days at equal odds": Mix(((0.5, 72.0), (0.5, 120.0))),
    "3 days": Fixed(72.0),
    "5 days": Fixed(120.0),
}
_SOURCE = "arXiv 2504.06095 section 3.6, fig. 4"


def preset(reading: str, times: float = 1.0) -> Preset:
    """Return the paper's failures with one reading of the hardware repair and a multiple of the rate."""
    paper = presets.load("ntp-paper")
    hardware, software = (
        dataclasses.replace(rate, per_1000_node_d=rate.per_1000_node_d * times) for rate in paper.rates
    )
    return dataclasses.replace(
        paper, rates=(dataclasses.replace(hardware, repair=READINGS[reading]), software)
    )


@cache
def shares_above(reading: str, seeds: int) -> tuple[float, ...]:
    """Return, by seed, the share of the trace with more than 0.1 % of the GPUs failed."""
    found = []
    for seed in range(seeds):
        at, failed = pool.failed_over_time(pool.trace(preset(reading), DAYS, NODES, NODE_GPUS, seed), DAYS)
        found.append(float((at[1:] - at[:-1])[failed > GPUS * THRESHOLD_FRAC].sum() / DAYS))
    return tuple(found)


@cache
def peaks(times: float, seeds: int) -> tuple[int, ...]:
    """Return, by seed, the most GPUs failed at once, hardware repaired in 3 or 5 days."""
    drawn = (
        pool.trace(preset("3 or 5 days at equal odds", times), DAYS, NODES, NODE_GPUS, seed)
        for seed in range(seeds)
    )
    return tuple(int(pool.failed_over_time(item, DAYS)[1].max()) for item in drawn)


def rows(context: Context) -> list[Row]:
    """Return the share of time above 0.1 % for each reading, and the two statements on the tripled rate."""
    return [*(_share(reading, context.seeds) for reading in READINGS), *_tripled(context.seeds)]


def _share(reading: str, seeds: int) -> Row:
    mean, low, high = (100 * value for value in of_one(shares_above(reading, seeds)))
    return Row(
        name=f"time with more than 0.1 % failed, repair {reading}",
        source=_SOURCE,
        printed="81",
        unit="%",
        ours=mean,
        low=low,
        high=high,
        how="pipeline.paper.claims.failures.shares_above",
        reason=f"{seeds} traces of 15 days from a clean start; the paper shows one and writes 3/5 days",
        explanation="With 3 days alone the level of 33 failed GPUs is reached later and left more often."
        if reading == "3 days"
        else "",
    )


def _tripled(seeds: int) -> list[Row]:
    once, thrice = peaks(1.0, seeds), peaks(3.0, seeds)
    ratio = of_one([high / low for low, high in zip(once, thrice, strict=True)])
    left = of_one([100 * usable(peak, 64) for peak in thrice])
    unresolved = (
        "Unresolved. Three times the rate triples the mean, and the peak by nearly as much; the paper's "
        "twofold peak and 80 % belong together (0.35 % failed at TP64), so its experiment is set up in "
        "another way."
    )
    how = "pipeline.paper.claims.failures.peaks"
    return [
        Row(
            name="three times the rate: peak of failed GPUs",
            source=_SOURCE,
            printed="2",
            unit="times",
            ours=ratio[0],
            low=ratio[1],
            high=ratio[2],
            how=how,
            explanation=unresolved,
        ),
        Row(
            name="three times the rate, TP64: GPUs usable at the peak",
            source=_SOURCE,
            printed="80",
            unit="%",
            ours=left[0],
            low=left[1],
            high=left[2],
            how=how,
            explanation=unresolved,
        ),
    ]
