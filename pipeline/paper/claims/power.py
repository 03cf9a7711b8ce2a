"""What a boost costs and reaches: performance per watt, local batch and least power at TP30 and TP28.

Source: arXiv 2504.06095 sections 4.3, 6.2 and 6.5; the cells of its table 1 could not be read.
"""

from __future__ import annotations

import dataclasses
from fractions import Fraction

from pipeline.paper import pool
from pipeline.paper.rows import Context, Row
from pipeline.replay.contract import Offer, Replica

_CURVE = "pipeline.replay.contract.Shape.speed"


def perf_per_watt(power: Fraction) -> Fraction:
    """Return the change of performance per watt at a power (TDP): speed / power - 1."""
    return pool.study().shape.speed(power) / power - 1


def samples(degree: int, reduced_stages: int) -> int:
    """Return the local batch of a replica with so many stages at a reduced degree, at normal power."""
    shape = pool.study().shape
    groups = (Offer(degree),) * reduced_stages + (Offer(shape.tp),) * (shape.pp - reduced_stages)
    replica = Replica(groups, shape)
    paces = replica.paces((Fraction(1),) * len(groups))
    return min(shape.samples_per_replica, replica.samples_within(paces, shape.budget))


def redistributed(degree: int) -> tuple[Fraction, Fraction, int]:
    """Return power (TDP), speed and local batch of a group boosted by its dead neighbours' power alone.

    All stages at that degree, no rack headroom: the G - t dead GPUs of a domain free (G - t) / t each.
    """
    shape = dataclasses.replace(pool.study().shape, rack_headroom_frac=Fraction(0))
    offer = Offer(degree)
    power = shape.boosted(offer)
    replica = Replica((offer,) * shape.pp, shape)
    paces = replica.paces((power,) * shape.pp)
    fits = min(shape.samples_per_replica, replica.samples_within(paces, shape.budget))
    return power, shape.speed(power), fits


def rows(context: Context) -> list[Row]:  # noqa: ARG001 - nothing is drawn
    """Return the two points on the curve, and for each reduced degree its batch, power and headroom."""
    found = [
        Row(
            name=f"performance per watt at {float(power):.1f} times TDP",
            source="arXiv 2504.06095 section 6.5",
            printed=printed,
            unit="%",
            ours=float(100 * perf_per_watt(power)),
            how=_CURVE,
            reason="our curve goes through this point: it is an input, no finding",
        )
        for power, printed in ((Fraction(11, 10), "-2.8"), (Fraction(12, 10), "-6.5"))
    ]
    found += [row for degree in pool.policy("ntp-pw").reduced_tp for row in _without_headroom(degree)]
    of = pool.study()
    unread = "the cell of table 1 could not be read"
    source = "arXiv 2504.06095 table 1"
    for needed in of.least_headroom(pool.policy("ntp-pw").reduced_tp):
        degree = needed["degree"]
        found += [
            Row(
                name=f"TP{degree}, {stages} of {of.shape.pp} stages: local batch without boost",
                source=source,
                printed="",
                unit="samples",
                ours=float(samples(degree, stages)),
                how="pipeline.paper.claims.power.samples",
                reason=unread,
            )
            for stages in (of.shape.pp, 1)
        ]
        found += [
            Row(
                name=f"TP{degree}: {what}",
                source=source,
                printed="",
                unit=unit,
                ours=needed[key],
                how="pipeline.replay.study.Study.least_headroom",
                reason=unread if needed[key] is not None else "beyond the curve",
            )
            for what, key, unit in (
                ("least power with the full batch", "power_tdp", "TDP"),
                ("least rack headroom with the full batch", "headroom_frac", "of rack TDP"),
            )
        ]
    return found


def _without_headroom(degree: int) -> list[Row]:
    power, speed, batch = redistributed(degree)
    return [
        Row(
            name=f"TP{degree}, only the dead GPUs' power: {what}",
            source="arXiv 2504.06095 sections 4.3 and 6.5 (no value printed)",
            printed="",
            unit=unit,
            ours=float(value),
            how="pipeline.paper.claims.power.redistributed",
            reason=(f"the healthy pace needs a speed of {32 / degree:.3f}, more than the dead GPUs free"),
        )
        for what, unit, value in (
            ("power", "TDP", power),
            ("speed", "of healthy", speed),
            ("local batch, all stages", "samples", batch),
        )
    ]
