"""Small jobs on the engine whose whole history can be said in a line, for the claims that need one.

In: times in seconds. Out: the engine's ledger, with its spans when a list is given. The pool is one GPU, so
that goodput is the share of useful time (`ettr_frac`) when nothing but app-level faults happens.
Easy to get wrong: the engine counts microseconds and starts running at 0 at no cost; a peer that logs the
first start as well has a longer window, which the caller adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from pipeline.replay import engine, responses
from pipeline.replay.contract import Shape
from pipeline.replay.engine import History, Instant, Times
from pipeline.replay.ledger import Ledger, Span
from pipeline.replay.packed import Packed
from pipeline.replay.packing import Packer, capabilities
from pipeline.units import US_PER_S, seconds_to_us

_ONE = Fraction(1)
_SHAPE = Shape(
    tp=1,
    pp=1,
    cp=1,
    samples_per_replica=1,
    virtual_stages=1,
    domain_size=1,
    boost_cap=_ONE,
    rack_headroom_frac=Fraction(0),
    curve=((_ONE, _ONE),),
)


def times_of(*, interval_s: float, restart_s: float, save_s: float = 0.0, detect_s: float = 0.0) -> Times:
    """Return what things take, in microseconds; a planned stop costs a restart."""
    return Times(
        detect=seconds_to_us(detect_s),
        restart=seconds_to_us(restart_s),
        reconfigure=seconds_to_us(restart_s),
        interval=seconds_to_us(interval_s),
        save=seconds_to_us(save_s),
    )


def stalls_of(times: Times, *, regroup_s: float, rejoin_s: float = 0.0) -> Times:
    """Return the same times with the stalls of a job whose replicas stop alone."""
    return replace(times, regroup=seconds_to_us(regroup_s), rejoin=seconds_to_us(rejoin_s))


def with_app_faults(
    faults_s: Iterable[float], window_s: float, times: Times, spans: list[Span] | None = None
) -> Ledger:
    """Replay a job on a clean pool that faults stop at these instants."""
    window = seconds_to_us(window_s)
    ticks = sorted({seconds_to_us(moment) for moment in faults_s})
    instants = [Instant(tick, app_fault=True) for tick in ticks if 0 < tick < window]
    packer = Packer(_SHAPE, responses.load("rigid"), "pause", 1, Fraction(0))
    history = History(1, window, {}, instants)
    return engine.replay(
        history, capabilities(_SHAPE, ()), Packed(packer, 1), times, "next_interruption", spans=spans
    )


def with_repairs(
    repairs_s: Sequence[float], window_s: float, times: Times, spans: list[Span] | None = None
) -> Ledger:
    """Replay a job whose missing replicas come back one by one, each taken up straight after a save.

    There is a replica a repair, and one that never failed; every stop is planned and loses no step.
    """
    window, replicas = seconds_to_us(window_s), 1 + len(repairs_s)
    packer = Packer(_SHAPE, responses.load("dp-drop"), "elastic", replicas, Fraction(0))
    back = sorted(repairs_s)
    instants = [Instant(seconds_to_us(moment), up=[(domain, 1)]) for domain, moment in enumerate(back, 1)]
    history = History(replicas, window, dict.fromkeys(range(1, replicas), 1), instants)
    return engine.replay(
        history, capabilities(_SHAPE, ()), Packed(packer, replicas), times, "checkpoint", spans=spans
    )


def with_replicas(
    faults_s: Iterable[tuple[float, int]], replicas: int, window_s: float, times: Times, *, alone: bool
) -> Ledger:
    """Replay a job of one-GPU replicas; a fault (instant, replica) takes no GPU away, only its process."""
    window = seconds_to_us(window_s)
    instants: dict[int, Instant] = {}
    for moment, replica in faults_s:
        tick = seconds_to_us(moment)
        if 0 < tick < window:
            instants.setdefault(tick, Instant(tick)).hits.append((replica, 1))
    packer = Packer(_SHAPE, responses.load("dp-drop"), "elastic", replicas, Fraction(0))
    history = History(replicas, window, {}, [instants[tick] for tick in sorted(instants)])
    return engine.replay(
        history,
        capabilities(_SHAPE, ()),
        Packed(packer, replicas),
        times,
        "next_interruption",
        by_replica=alone,
    )


def drawn_goodput_frac(mttf_s: float, window_s: float, times: Times, seed: int) -> float:
    """Return the goodput of one job under faults that come at a constant rate, one every `mttf_s`."""
    import numpy as np

    random = np.random.Generator(np.random.PCG64(seed))
    faults: list[float] = []
    reached = 0.0
    while reached < window_s:
        many = max(16, round(1.2 * (window_s - reached) / mttf_s))
        drawn = reached + np.cumsum(random.exponential(mttf_s, many))
        faults += drawn.tolist()
        reached = faults[-1]
    return float(with_app_faults((round(moment, 6) for moment in faults), window_s, times).goodput_frac)


def run_lengths_s(length_s: float, stall_s: float, stops: int) -> list[float]:
    """Return the instants of stops that each come `length_s` after the job runs again."""
    return [stop * (length_s + stall_s) + length_s for stop in range(stops)]


def seconds(ticks: int) -> float:
    """Return ticks of the engine as seconds."""
    return ticks / US_PER_S
