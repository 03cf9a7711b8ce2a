"""Google's goodput library on our step logs: equal where a stop loses steps, too high where it loses none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.paper import claims, jobs
from pipeline.paper.claims import peers
from pipeline.paper.rows import Context, Verdict
from pipeline.replay import timeline
from pipeline.replay.ledger import Ledger, Span
from pipeline.units import seconds_to_us
from tests.peers import google_goodput, step_log
from tests.peers.google_goodput import Reported

pytestmark = pytest.mark.usefixtures("google")

STAMP_PERCENT = 1e-6  # stamps are seconds since 1970 as floats: 0.2 us each


def reported(job: peers.LoggedJob, folder: Path) -> tuple[Reported, Ledger]:
    """Return what the library says of a job's outcome timeline, and our ledger of the same replay."""
    spans: list[Span] = []
    ledger = job.replay(spans)
    interval, save = job.times.interval, job.times.save
    rows = timeline.table(spans, "s", "p", 0, 0, interval, save)
    lengths = [seconds_to_us(part) for part in (peers.STEP_S, peers.FIRST_START_S, peers.RESTART_S)]
    return google_goodput.report(step_log.entries(rows, interval, *lengths), folder), ledger


@pytest.mark.parametrize("index", [0, 1])
def test_equal_where_stops_lose_steps(tmp_path: Path, index: int) -> None:
    """10,000 and 100,000 steps, 9 and 90 stops: the same goodput, and the library's buckets add up."""
    job = peers.google_jobs()[index]
    found, ledger = reported(job, tmp_path)
    assert ledger.interruptions == (9, 90)[index]
    assert found.goodput == pytest.approx(job.ours_percent(ledger), abs=STAMP_PERCENT)
    assert f"{found.goodput:.4f}" == job.printed == ("95.0932", "95.1910")[index]
    assert found.total == pytest.approx(100, abs=STAMP_PERCENT)


def test_the_error_on_a_stop_that_loses_no_step(tmp_path: Path) -> None:
    """Five planned stops after a save: the library sees none of them and its buckets exceed the whole."""
    job = peers.google_jobs()[-1]
    found, ledger = reported(job, tmp_path)
    assert (ledger.interruptions, ledger.planned_stops) == (0, 5)
    assert f"{found.goodput:.4f}" == job.printed == "99.7702"
    assert round(found.total, 2) == 101.15
    assert round(job.ours_percent(ledger), 4) == 95.7488
    # What it takes for work is the stops themselves, less what it sees of them as restarts.
    stops_percent = 100 * 5 * 420 / (jobs.seconds(ledger.window) + peers.FIRST_START_S)
    assert found.goodput - job.ours_percent(ledger) == pytest.approx(stops_percent, abs=STAMP_PERCENT)


@pytest.mark.parametrize("seed", range(4))
def test_equal_on_drawn_faults_with_saves(tmp_path: Path, seed: int) -> None:
    """Faults at any instant, during saves and starts too: the same goodput to the stamps' rounding."""
    times = jobs.times_of(interval_s=600, detect_s=45, restart_s=peers.RESTART_S, save_s=20)
    random = np.random.Generator(np.random.PCG64(seed))
    faults = np.cumsum(random.exponential(2_500, 40)).round(6).tolist()
    window_s = faults[-1] + 700.0  # it ends at work
    job = peers.LoggedJob(
        "drawn", "", times, lambda spans: jobs.with_app_faults(faults, window_s, times, spans)
    )
    found, ledger = reported(job, tmp_path)
    assert 20 < ledger.interruptions <= 40
    assert found.goodput == pytest.approx(job.ours_percent(ledger), abs=STAMP_PERCENT)


def test_the_rows_say_what_the_library_says(tmp_path: Path) -> None:
    """Three rows meet, the one that loses no step is explained with its distance."""
    rows = [row for row in claims.rows("peers", Context(tmp_path, seeds=40)) if row.source == peers.GOOGLE]
    meets, explained = Verdict.MEETS, Verdict.EXPLAINED
    assert [row.verdict for row in rows] == [meets, meets, meets, explained]
    assert rows[-1].distance == pytest.approx(-4.0214, abs=1e-4)
