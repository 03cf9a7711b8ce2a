"""What each stop costs, and the outage it is laid to: sums equal the ledger, shares go by instant and GPU."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from fractions import Fraction

import polars as pl
import pytest

from pipeline.replay import stops
from pipeline.replay.ledger import Fault, Stop
from pipeline.units import US_PER_H, to_us
from tests.replay import cases

START_US = to_us(datetime(2025, 3, 1, tzinfo=UTC))


@pytest.mark.parametrize("seed", range(240))
def test_what_stops_cost_is_what_the_ledger_holds(seed: int) -> None:
    """Rework, detect and restart of all stops are the ledger's; only a first start has no stop before it."""
    case = cases.make_case(cases.Seeded(seed), *cases.RULES[seed % len(cases.RULES)])
    cases.check_stops(case)


@pytest.mark.parametrize("seed", range(240))
def test_a_stop_is_of_gpus_that_went_down_at_its_instant(seed: int) -> None:
    """No stop without a GPU of a hit or an app-level fault, none while paused, none twice at an instant."""
    case = cases.make_case(cases.Seeded(seed), *cases.RULES[seed % len(cases.RULES)])
    instants = {instant.tick: instant for instant in cases.plain_history(case).instants}
    found: list[Stop] = []
    cases.run_engine(case, stops=found)
    assert max(Counter(stop.tick for stop in found).values(), default=1) == 1
    for stop in found:
        instant = instants[stop.tick]
        (fault,) = stop.faults
        assert fault.onset == stop.tick
        assert fault.struck or fault.app_fault
        assert fault.app_fault == instant.app_fault
        assert stop.state != "paused"
        hits: dict[int, int] = {}
        for domain, mask in instant.hits:
            hits[domain] = hits.get(domain, 0) | mask
        assert all(mask and mask & hits[domain] == mask for domain, mask in fault.struck)


def onsets(*rows: tuple[int, str, int | None, int | None, int | None]) -> pl.DataFrame:
    """Return onsets of one placement: (second, outage, domain, first GPU, last GPU)."""
    frame = pl.DataFrame(
        rows,
        schema={"s": int, "outage_id": str, "domain_id": int, "gpu_first": int, "gpu_last": int},
        orient="row",
    )
    return frame.with_columns(
        pl.from_epoch(pl.col("s") * 1_000_000 + START_US, time_unit="us").cast(pl.Datetime("us")).alias("t")
    )


def stop_of(tick: int, state: str, struck: list[tuple[int, int]], *, app_fault: bool = False) -> Stop:
    """Return a stop by what struck at its instant."""
    return Stop(tick, state, [Fault(tick, struck, app_fault)])


def test_a_silent_fault_is_laid_to_the_outage_at_its_onset() -> None:
    """Found at 60 s with a crash, it began at 5 s; another outage of that GPU at 60 s is no cause."""
    frame = onsets((5, "silent", 0, 0, 0), (60, "other", 0, 0, 0), (60, "app", None, None, None))
    stop = Stop(60_000_000, "running", [Fault(60_000_000, [], True), Fault(5_000_000, [(0, 1)], False)])
    found = [row["outage_id"] for row in stops.rows([stop], stops.causes(frame, START_US), START_US, {})]
    assert found == ["app", "silent"]


def test_outages_of_one_domain_at_one_instant_share_a_stop() -> None:
    """The engine lists each hit of a domain by itself: none of them hides another."""
    by_tick = stops.causes(onsets((60, "a", 0, 0, 0), (60, "b", 0, 3, 3), (60, "c", 1, 0, 0)), START_US)
    stop = stop_of(60_000_000, "running", [(0, 0b0001), (0, 0b1000), (1, 0b0001)])
    found = [(row["outage_id"], row["share_frac"]) for row in stops.rows([stop], by_tick, START_US, {})]
    assert found == [(outage, pytest.approx(1 / 3)) for outage in ("a", "b", "c")]


def test_outages_at_one_instant_share_a_stop_evenly() -> None:
    """Two outages struck GPUs in use, a third one a GPU that was not; an app fault counts as one more."""
    by_tick = stops.causes(
        onsets((60, "a", 0, 0, 3), (60, "b", 1, 2, 2), (60, "idle", 1, 7, 7), (60, "app", None, None, None)),
        START_US,
    )
    stop = stop_of(60_000_000, "running", [(0, 0b0011), (1, 0b0100)], app_fault=True)
    stop.rework, stop.detect, stop.restart = Fraction(3 * US_PER_H), 6 * US_PER_H, 9 * US_PER_H

    rows = list(stops.rows([stop], by_tick, START_US, {"policy": "p"}))

    assert [row["outage_id"] for row in rows] == ["a", "app", "b"]
    for row in rows:
        assert row["share_frac"] == pytest.approx(1 / 3)
        assert (row["rework_gpu_h"], row["detect_gpu_h"], row["restart_gpu_h"]) == (1, 2, 3)
        assert (row["policy"], row["state"]) == ("p", "running")
        assert row["t"] == datetime(2025, 3, 1, 0, 1)  # noqa: DTZ001 - tables hold UTC without a zone


def test_an_app_fault_that_others_did_not_cause_is_not_laid_to_them() -> None:
    """Without an app fault in the stop, an app-level onset at that instant is no cause."""
    by_tick = stops.causes(onsets((5, "a", 0, 0, 0), (5, "app", None, None, None)), START_US)
    stop = stop_of(5_000_000, "starting", [(0, 1)])
    assert [row["outage_id"] for row in stops.rows([stop], by_tick, START_US, {})] == ["a"]
