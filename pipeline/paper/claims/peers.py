"""Peers that can run: Google's goodput library on our step logs, mlsysim's closed forms.

The numbers are what ml-goodput-measurement 0.2.3 and mlsysim 0.3.0 print; tests/peers runs both again and
holds them against these rows. Where a peer is right, ours is the same; where it leaves something out, the row
says what.
Easy to get wrong: the step log begins with a first start, our window with a running job, so the library's
window is longer by `FIRST_START_S`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pipeline.paper import forms, jobs
from pipeline.paper.rows import Context, Row, of_mean
from pipeline.replay.engine import Times
from pipeline.replay.interval import young_us
from pipeline.replay.ledger import Ledger, Span
from pipeline.units import S_PER_H, US_PER_S, exact

# -- Google's library -----------------------------------------------------------------------------

GOOGLE = "ml-goodput-measurement 0.2.3, on the step log of the same job"
STEP_S = 10.0
FIRST_START_S = 120.0  # initialization and preparation of the first start, 60 s each
RESTART_S = 120.0  # the same after a stop
_DETECT_S = 300.0
_INTERVAL_S = 1_000.0  # 100 steps
_RUN_S = 11_140.0  # 1,114 steps between a start and the next stop, 14 of them after the last save
_STALL_S = _DETECT_S + RESTART_S


@dataclass(frozen=True)
class LoggedJob:
    """A job that Google's library is asked about: its replay, and what the library reports in percent."""

    name: str
    printed: str
    times: Times
    replay: Callable[[list[Span] | None], Ledger]
    explanation: str = ""

    def ours_percent(self, ledger: Ledger) -> float:
        """Return the useful share of the logged time, first start included."""
        window_s = jobs.seconds(ledger.window) + FIRST_START_S
        return 100 * jobs.seconds(ledger.kept_ticks) / window_s


def stopped(stops: int, last_s: float, printed: str) -> LoggedJob:
    """Return a job that stops at regular lengths of run and then runs `last_s` to its end."""
    times = jobs.times_of(interval_s=_INTERVAL_S, detect_s=_DETECT_S, restart_s=RESTART_S)
    faults = jobs.run_lengths_s(_RUN_S, _STALL_S, stops)
    window_s = stops * (_RUN_S + _STALL_S) + last_s
    replay = partial(jobs.with_app_faults, faults, window_s, times)
    return LoggedJob(f"useful time, {stops} stops that each lose steps", printed, times, replay)


def without_loss() -> LoggedJob:
    """Return a job of 5,000 steps with five stops of 420 s straight after a save, which lose no step."""
    times = jobs.times_of(interval_s=_INTERVAL_S, restart_s=_STALL_S)
    repairs_s = (8_000.0, 16_000.0, 25_000.0, 33_000.0, 42_000.0)
    window_s = 5_000 * STEP_S + len(repairs_s) * _STALL_S
    return LoggedJob(
        "useful time, 5 stops that lose no step",
        "99.7702",
        times,
        partial(jobs.with_repairs, repairs_s, window_s, times),
        "The library sees a stop only when a step number comes twice. A stop that loses no step (hot spare, "
        "planned re-expansion) is counted as one long step, and its buckets add up to 101.15 %.",
    )


def google_jobs() -> list[LoggedJob]:
    """Return the jobs, shortest first: 10,000 steps, 100,000, 54 days, and one that loses no step."""
    return [
        stopped(9, 1_000.0, "95.0932"),
        stopped(90, 10_000.0, "95.1910"),
        stopped(424, 1_600.0, "95.15496"),
        without_loss(),
    ]


def _google() -> list[Row]:
    return [
        Row(
            name=job.name,
            source=GOOGLE,
            printed=job.printed,
            unit="%",
            ours=job.ours_percent(job.replay(None)),
            how="pipeline.replay.engine.replay",
            explanation=job.explanation,
        )
        for job in google_jobs()
    ]


# -- mlsysim --------------------------------------------------------------------------------------

MLSYSIM = "mlsysim 0.3.0, Llama-3 fleet of 2,048 nodes, 60 s a save, 300 s a recovery"
NODES, NODE_GPUS, NODE_NICS = 2_048, 8, 8  # mlsysim's fleet; its power supplies are redundant
GPU_MTTF_H, NIC_MTTF_H = 50_000.0, 150_000.0  # mlsysim's component table
SAVE_S, RECOVERY_S = 60.0, 300.0


def fleet_mttf_s() -> float:
    """Return the mean time to failure of mlsysim's fleet from its parts, in seconds."""
    parts = ((NODES * NODE_GPUS, GPU_MTTF_H), (NODES * NODE_NICS, NIC_MTTF_H))
    return forms.series_mttf(parts) * S_PER_H


def young_s() -> float:
    """Return Young's interval of that fleet, in seconds."""
    return young_us(exact(fleet_mttf_s()) * US_PER_S, int(SAVE_S) * US_PER_S) / US_PER_S


def _mlsysim(context: Context) -> list[Row]:
    mttf_s, best_s = fleet_mttf_s(), young_s()
    times = jobs.times_of(interval_s=best_s, restart_s=RECOVERY_S, save_s=SAVE_S)
    replayed = of_mean(
        [jobs.drawn_goodput_frac(mttf_s, 200 * mttf_s, times, seed) for seed in range(context.seeds)]
    )
    lost = best_s / (2 * mttf_s)
    return [
        Row(
            name="mean time between failures",
            source=MLSYSIM,
            printed="2.28882",
            unit="h",
            ours=mttf_s / S_PER_H,
            how="pipeline.paper.forms.series_mttf",
        ),
        Row(
            name="Young's interval",
            source=MLSYSIM,
            printed="994.3689",
            unit="s",
            ours=best_s,
            how="pipeline.replay.interval.young_us",
        ),
        Row(
            name="saves and rework at Young's interval",
            source=MLSYSIM + " (CheckpointIntervalModel)",
            printed="0.12068",
            unit="fraction",
            ours=forms.waste_at_best_frac(mttf_s, SAVE_S),
            how="pipeline.paper.forms.waste_at_best_frac",
        ),
        Row(
            name="goodput by its own form, no rework",
            source=MLSYSIM + " (ReliabilityModel)",
            printed="0.903251",
            unit="fraction",
            ours=forms.without_rework_frac(mttf_s, best_s, RECOVERY_S, SAVE_S),
            how="pipeline.paper.forms.without_rework_frac",
        ),
        Row(
            name="goodput to first order, with the rework",
            source=MLSYSIM + " (ReliabilityModel)",
            printed="0.903251",
            unit="fraction",
            ours=forms.first_order_frac(mttf_s, best_s, RECOVERY_S, SAVE_S),
            how="pipeline.paper.forms.first_order_frac",
            explanation=f"Its form has no term for lost work, T/(2M) = {lost:.4f}, which at Young's interval "
            "is as large as the saves it does count.",
        ),
        Row(
            name="goodput replayed under drawn faults",
            source=MLSYSIM + " (ReliabilityModel)",
            printed="0.903251",
            unit="fraction",
            ours=replayed.mean,
            low=replayed.low,
            high=replayed.high,
            how="pipeline.paper.jobs.drawn_goodput_frac",
            explanation="As above: a replay loses the work since the last save at every fault.",
        ),
    ]


def rows(context: Context) -> list[Row]:
    """Return the rows of both peers."""
    return [*_google(), *_mlsysim(context)]
