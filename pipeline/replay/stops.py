"""What each stop of a job cost, by the outage that caused it.

In: the engine's stops and the `onsets` of the same placement. Out: rows of `stops`, one per stop and outage
that struck it; several at one instant share its cost evenly. A replica that stops alone costs the stall of
the others as `restart`; what it does not do until it is back is stranded, as with a dropped one.
Easy to get wrong: an onset on GPUs that were not in use stops nothing; a silent fault stops the job after its
onset; outages that strike one domain at one instant are listed one by one by the engine; and `share_frac` is
what keeps sums over rows equal to the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pipeline import units
from pipeline.replay.history import mask_of
from pipeline.replay.ledger import Fault, Stop

if TYPE_CHECKING:
    import polars as pl


class Cause(NamedTuple):
    """An onset: the GPUs that it takes (a bit mask of one domain), or none for an app-level fault."""

    outage_id: str
    domain: int | None
    mask: int


def causes(onsets: pl.DataFrame, window_start_us: int) -> dict[int, list[Cause]]:
    """Return the onsets of one placement by tick (microseconds since the window's start)."""
    found: dict[int, list[Cause]] = {}
    ticks = (onsets["t"].dt.timestamp("us") - window_start_us).to_list()
    columns = ("outage_id", "domain_id", "gpu_first", "gpu_last")
    for tick, outage, domain, first, last in zip(
        ticks, *(onsets[name].to_list() for name in columns), strict=True
    ):
        mask = 0 if domain is None else mask_of(first, last)
        found.setdefault(tick, []).append(Cause(outage, domain, mask))
    return found


def rows(
    stops: Sequence[Stop],
    by_tick: Mapping[int, Sequence[Cause]],
    window_start_us: int,
    about: Mapping[str, Any],
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `stops`; `about` holds the columns that all rows of one replay share."""
    for stop in stops:
        outages = sorted({outage for fault in stop.faults for outage in _behind(fault, by_tick[fault.onset])})
        for outage in outages:
            yield {
                **about,
                "t": units.from_us(window_start_us + stop.tick).replace(tzinfo=None),
                "state": stop.state,
                "outage_id": outage,
                "share_frac": 1 / len(outages),
                **{
                    f"{bucket}_gpu_h": float(ticks / (len(outages) * units.US_PER_H))
                    for bucket, ticks in (
                        ("rework", stop.rework),
                        ("detect", stop.detect),
                        ("restart", stop.restart),
                    )
                },
            }


def _behind(fault: Fault, begun: Sequence[Cause]) -> Iterator[str]:
    """Yield the outages, of those that began with it, that struck the job."""
    struck: dict[int, int] = {}
    for domain, mask in fault.struck:
        struck[domain] = struck.get(domain, 0) | mask
    for cause in begun:
        if fault.app_fault if cause.domain is None else struck.get(cause.domain, 0) & cause.mask:
            yield cause.outage_id
