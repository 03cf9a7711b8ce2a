"""InfiniteHBD: what fails in the public trace, and the GPUs that find no full TP group (2502.03885).

The trace is replayed through the real stages; shares of GPUs are a mean over 40 random placements on 4-GPU
nodes. Without the trace the rows are `not run`.
Easy to get wrong: "derived" marks a reference that this project worked out from the trace. The paper's own
10.04 % (NVL72) and 7.56 % (64-GPU cube) at TP32 are only recalled, so they are told and not compared.
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline.paper.hbd import NODES, WINDOW_D, Trace, days, nodes_down
from pipeline.paper.rows import Context, Row, Spread, of_one

SOURCE = "infinitehbd"
PLACEMENTS, HALVES_SEED = 40, 2025
README = "InfiniteHBD-Trace, README"
DERIVED_3 = "derived from the trace: model.md section 3"
DERIVED_8 = "derived from the trace, mean of five placements: model.md section 8"
_STAGES = "pipeline.timelines.run.stage"
_WASTE = "pipeline.paper.hbd.waste_frac"

# (domain size, its name, TP, printed in percent, remark)
WASTE = (
    (72, "NVL72", 32, "10.06", "Recalled from the paper, not checked: 10.04 %."),
    (64, "64-GPU cube", 32, "7.15", "Recalled from the paper, not checked: 7.56 %."),
    (576, "NVL576", 32, "2.97", ""),
    (72, "NVL72", 16, "10.0", ""),
    (72, "NVL72", 64, "10.2", ""),
)

Number = Callable[[Trace], float]


def _node_time_down_percent(trace: Trace) -> float:
    cluster = trace.by_node["cluster_timeline"]
    node_days = float((cluster["dirty_domains"] * days(cluster)).sum())
    return 100 * node_days / (NODES * (WINDOW_D[1] - WINDOW_D[0]))


def _down(share: float) -> Number:
    return lambda trace: nodes_down(trace.by_node["cluster_timeline"], share)


# (name, source, printed, unit, the number)
_COUNTS: tuple[tuple[str, str, str, str, Number], ...] = (
    (
        "nodes that ever fail",
        README,
        "231",
        "nodes",
        lambda trace: trace.by_node["outages"]["node"].n_unique(),
    ),
    ("faults", DERIVED_3, "584", "outages", lambda trace: trace.by_node["outages"].height),
    ("node time down", DERIVED_3, "2.31", "%", _node_time_down_percent),
    ("nodes down, half of the time at most", DERIVED_3, "7", "nodes", _down(0.5)),
    ("nodes down, 90 % of the time at most", DERIVED_3, "22", "nodes", _down(0.9)),
    ("nodes down, 95 % of the time at most", DERIVED_3, "26", "nodes", _down(0.95)),
    ("nodes down, 99 % of the time at most", DERIVED_3, "31", "nodes", _down(0.99)),
    ("nodes down, at most", DERIVED_3, "35", "nodes", _down(1.0)),
)


def rows(context: Context) -> list[Row]:
    """Return what fails, then the share of GPUs in no full group by domain size and TP."""
    file = context.traces.get(SOURCE)
    trace = None if file is None else Trace.of(context.root / "hbd", file)
    absent = "" if trace else f"Needs the trace of {SOURCE}, which was not at hand."
    counts = [
        Row(
            name=name,
            source=source,
            printed=printed,
            unit=unit,
            ours=None if trace is None else float(number(trace)),
            how=_STAGES,
            reason=absent,
        )
        for name, source, printed, unit, number in _COUNTS
    ]
    found = {} if trace is None else _waste(trace, context)
    shares = []
    for size, domain, tp, printed, remark in WASTE:
        spread = found.get((size, tp))
        shares.append(
            Row(
                name=f"GPUs in no full group, TP{tp} on {domain}",
                source=DERIVED_8,
                printed=printed,
                unit="%",
                ours=None if spread is None else spread.mean,
                low=None if spread is None else spread.low,
                high=None if spread is None else spread.high,
                how=_WASTE,
                reason=absent or remark,
            )
        )
    return [*counts, *shares]


def _waste(trace: Trace, context: Context) -> dict[tuple[int, int], Spread]:
    """Return the spread over placements, in percent, by domain size and TP."""
    halves = trace.halves(context.root / "hbd-halves", HALVES_SEED)
    spreads = {}
    for size in dict.fromkeys(size for size, *_ in WASTE):
        tps = [tp for other, _, tp, *_ in WASTE if other == size]
        for tp, shares in halves.waste_frac(size, tps, PLACEMENTS).items():
            spreads[size, tp] = of_one([100 * share for share in shares])
    return spreads
