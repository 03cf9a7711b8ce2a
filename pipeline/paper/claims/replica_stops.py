"""One replica stopping alone: a stall of 10 min that leaves 44 % becomes one of 3 min (2602.00277).

The rate of faults is not in the abstract. It follows from the 44 % in two ways, and both are replayed:
faults evenly spaced, and faults at random times, some of which strike in a stall, which then begins again.
Easy to get wrong: ours is time in which the job trains (`ettr_frac`), not the throughput of the whole pool.
Saves take no time and come every second, so that nothing but the stalls is lost.
"""

from __future__ import annotations

from math import log

from pipeline.paper import forms, jobs
from pipeline.paper.rows import Context, Row, of_mean

SOURCE = "arXiv 2602.00277 (FT-HSDP, about 100,000 GPUs), abstract"
HOW = "pipeline.paper.jobs.with_replicas"
MIN_S = 60
BEFORE_FRAC, BEFORE_MIN, AFTER_MIN = 0.44, 10, 3
REPLICAS = 32  # assumed: the abstract does not say how many
FAULTS = 200  # in a replay
_TIMES = jobs.times_of(interval_s=1, restart_s=BEFORE_MIN * MIN_S)


def _evenly(*, alone: bool) -> float:
    """Return the share of time in which the job trains, faults evenly spaced."""
    between_s = forms.mtbf_of_stall(BEFORE_FRAC, BEFORE_MIN) * MIN_S
    faults = [(round((number + 0.5) * between_s, 6), number % REPLICAS) for number in range(FAULTS)]
    return _trained(faults, between_s * FAULTS, alone=alone)


def _drawn(seed: int, *, alone: bool) -> float:
    """Return the same for faults at random times and replicas."""
    import numpy as np

    between_s = BEFORE_MIN * MIN_S / -log(BEFORE_FRAC)  # exp(-stall / M) of the time is left
    random = np.random.Generator(np.random.PCG64(seed))
    window_s = FAULTS * between_s
    moments = np.sort(random.uniform(0, window_s, random.poisson(FAULTS))).round(6)
    struck = random.integers(0, REPLICAS, len(moments))
    return _trained(list(zip(moments.tolist(), struck.tolist(), strict=True)), window_s, alone=alone)


def _trained(faults: list[tuple[float, int]], window_s: float, *, alone: bool) -> float:
    times = jobs.stalls_of(_TIMES, regroup_s=AFTER_MIN * MIN_S)
    return float(jobs.with_replicas(faults, REPLICAS, window_s, times, alone=alone).ettr_frac)


def rows(context: Context) -> list[Row]:
    """Return the share of time that is left, before and after, for both ways to read the rate."""

    def drawn(name: str, printed: str, *, alone: bool, reason: str, explanation: str = "") -> Row:
        found = of_mean([100 * _drawn(seed, alone=alone) for seed in range(context.seeds)])
        return Row(
            name=name,
            source=SOURCE,
            printed=printed,
            unit="%",
            ours=found.mean,
            low=found.low,
            high=found.high,
            how=HOW,
            reason=reason,
            explanation=explanation,
        )

    evenly = Row(
        name="time that 3-min stalls of replicas leave, faults evenly spaced",
        source=SOURCE,
        printed="80",
        unit="%",
        ours=100 * _evenly(alone=True),
        how=HOW,
        reason=f"Each fault costs exactly one stall; {REPLICAS} replicas are assumed.",
        explanation="The kindest spacing, without any other loss: a bound from above. How the faults were "
        "spaced and what else the paper's 80 % holds is unknown to us; at random times we fall below it.",
    )
    return [
        Row(
            name="time that 10-min stalls of the job leave, faults evenly spaced",
            source=SOURCE,
            printed="44",
            unit="%",
            ours=100 * _evenly(alone=False),
            how=HOW,
            reason="The rate of faults is taken from this number.",
        ),
        evenly,
        drawn(
            "time that 10-min stalls of the job leave, faults at random times",
            "44",
            alone=False,
            reason="The rate of faults is taken from this number: exp(-stall/M).",
        ),
        drawn(
            "time that 3-min stalls of replicas leave, faults at random times",
            "80",
            alone=True,
            reason=f"A fault in a stall begins it again; {REPLICAS} replicas are assumed.",
            explanation="A stall that is struck costs its full length again, as in the job that gives the "
            "rate. The published value lies between this one and that for even spacing.",
        ),
    ]
