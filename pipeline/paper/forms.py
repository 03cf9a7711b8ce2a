"""Closed forms that a replay must meet: mean time to failure, share of useful time, best interval.

Times are floats in any one unit unless a name says otherwise; shares are fractions. The first-order forms
hold while a stop is rare in an interval; `renewal_frac` is exact for faults at a constant rate on a clean
pool.
Sources: [RSC] arXiv 2410.21680; [Y] Young 1974; [D] Daly 2006; model.md section 7.
Easy to get wrong: a rate per 1,000 node-days counts nodes, a job counts GPUs. Intervals between saves are
running time, so a cycle is interval + save.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, expm1, sqrt

from pipeline.units import H_PER_D


def mttf_h(gpus: int, per_1000_node_d: float, node_gpus: int = 8) -> float:
    """Return the mean time to failure of a job that stops when one of its nodes fails [RSC]."""
    return H_PER_D * 1_000 * node_gpus / (gpus * per_1000_node_d)


def series_mttf(parts: Iterable[tuple[int, float]]) -> float:
    """Return the mean time to failure of parts that all must work: (how many, mean time of one)."""
    return 1 / sum(many / mean for many, mean in parts)


def first_order_frac(mttf: float, interval: float, restart: float, save: float = 0.0) -> float:
    """Return 1 - restart/M - interval/(2M) - save/interval: useful time to first order [RSC][Y]."""
    return 1 - (restart + interval / 2) / mttf - save / interval


def without_rework_frac(mttf: float, interval: float, restart: float, save: float) -> float:
    """Return `first_order_frac` less its rework: what is left out by peers that count no lost work."""
    return 1 - restart / mttf - save / interval


def renewal_frac(mttf: float, interval: float, restart: float, save: float = 0.0) -> float:
    """Return dt / (M exp(u/M) (exp((dt+C)/M) - 1)): exact useful time at a constant rate (model.md 7)."""
    return interval / (mttf * exp(restart / mttf) * expm1((interval + save) / mttf))


def multiplicative_frac(mttf: float, save: float, restart: float, queue: float = 0.0) -> float:
    """Return 1 / (1 + sqrt(2C/M) + (R+q)/M): overheads on top of the work, at Young's interval [Y]."""
    return 1 / (1 + sqrt(2 * save / mttf) + (restart + queue) / mttf)


def waste_at_best_frac(mttf: float, save: float) -> float:
    """Return sqrt(2C/M): saves and rework together at Young's interval, to first order [Y]."""
    return sqrt(2 * save / mttf)


def mtbf_of_stall(useful_frac: float, stall: float) -> float:
    """Return the mean time between faults at which a stall a fault leaves this share of useful time."""
    return stall / (1 - useful_frac)


def stall_bound_frac(mtbf: float, stall: float) -> float:
    """Return 1 - stall/M: the most that a job can keep when every fault costs at least a stall."""
    return 1 - stall / mtbf
