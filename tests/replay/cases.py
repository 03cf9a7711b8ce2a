"""Replays that the engine and the reference simulator must agree on, and the comparison itself.

In: a source of choices (a seeded generator here, Hypothesis in its own test). Out: a `Case`, and
`difference(case)`, which names the first thing in which the two differ, or is empty.
Ticks of the engine are whole seconds here; through the SQL timelines they are microseconds (`scale`).
Random times rarely meet. So instants are mostly built from earlier ones plus what things take (detect,
restart, interval, save): faults fall on the very instant at which a save or a start completes, outages abut.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import repeat
from typing import Any, NamedTuple, Protocol

from pipeline.replay import engine, responses
from pipeline.replay.contract import Shape
from pipeline.replay.engine import RUNNING, SAVING, History, Instant, Times
from pipeline.replay.ledger import Ledger, Span, Stop
from pipeline.replay.packing import Packer, capabilities
from pipeline.replay.study import PACKINGS
from tests import reference_simulator as reference

CURVE = tuple(
    (Fraction(power), Fraction(speed))
    for power, speed in (("1", "1"), ("1.1", "1.069"), ("1.2", "1.122"), ("1.3", "1.17"))
)
RESPONSES = ("rigid", "dp-drop", "ntp", "ntp-pw")
BATCHES = ("elastic", "pause", "stretch")
RULES = [("rigid", "pause"), *((response, batch) for response in RESPONSES[1:] for batch in BATCHES)]
REEXPANDS = ("next_interruption", "immediate", "checkpoint")
COMPONENTS = ("gpu", "hbm", "nic")


class Choices(Protocol):
    """Where a case's values come from."""

    def one(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""

    def between(self, low: int, high: int) -> int:
        """Return a whole number, both ends included."""


class Seeded:
    """Choices of a seeded generator."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def one(self, options: Sequence[Any]) -> Any:
        """Return one of the options."""
        return self.random.choice(options)

    def between(self, low: int, high: int) -> int:
        """Return a whole number, both ends included."""
        return self.random.randint(low, high)


@dataclass(frozen=True)
class Case:
    """One replay in the reference simulator's own words."""

    cluster: reference.Cluster
    job: reference.Job
    power: reference.Power
    policy: reference.Policy
    outages: tuple[reference.Outage, ...]
    app_faults: tuple[int, ...]
    window: int
    app_components: tuple[str, ...] = ()


Second = tuple[str, Fraction, int, int]  # state, X, replicas, failed GPUs


class Wanted(NamedTuple):
    """What the reference says: GPU-seconds by bucket, (interruptions, planned stops), and every second."""

    buckets: dict[str, Fraction]
    stops: tuple[int, int]
    seconds: list[Second]


def make_case(
    choose: Choices,
    response: str | None = None,
    batch: str | None = None,
    *,
    harder: bool = False,
    crowded: bool = False,
) -> Case:
    """Return a case whose outages strike any GPUs of any domain.

    `harder`: with rules beyond the default; `crowded`: large groups, several a domain.
    """
    cluster, job, power, policy, window = make_job(choose, response, batch, crowded=crowded)
    clock = Clock(choose, policy, window)
    if harder:
        policy = replace(policy, **drawn_rules(choose))
        clock = Clock(choose, policy, window)
    outages = []
    for _ in range(choose.one((4, 8, 11, 6, 2, 1, 0))):
        first = choose.one((0, choose.between(0, cluster.domain_size - 1)))
        last = choose.one((first, first, first, choose.between(first, cluster.domain_size - 1)))
        domain = max(0, choose.between(-(cluster.domains // 2), cluster.domains - 1))
        span = clock.interval()
        outages.append(reference.Outage(domain, first, last, *span, component(choose, harder)))
        if echo := clock.echo(*span):
            place = (domain, first, choose.one((first, last)))
            outages.append(reference.Outage(*place, *echo, component(choose, harder)))
    apps = tuple(clock.instant() for _ in range(choose.one((0, 0, 1, 3))))
    by = tuple(component(choose, harder) for _ in apps)
    return Case(cluster, job, power, policy, tuple(outages), apps, window, by if harder else ())


def component(choose: Choices, harder: bool) -> str:
    """Return what failed; nothing where no rule asks for it."""
    return str(choose.one(COMPONENTS)) if harder else ""


def drawn_rules(choose: Choices) -> dict[str, Any]:
    """Return values of the rules that change nothing by default, each of them left out now and then."""
    by = {name: choose.one((0, 1, 4, 9, 15)) for name in choose.one((COMPONENTS, COMPONENTS[:1], ()))}
    return {
        "detect_by_component": tuple(by.items()),
        "silent_components": choose.one(((), (), ("hbm",), ("gpu", "hbm"), COMPONENTS)),
        "checkpoint_durable_s": choose.one((0, 0, 1, 5, 12, 30)),
        "attempts": choose.one(((1,), (1, 3), (2, 1, 1))),
        "stops": choose.one(("job", "replica", "replica")),
        "regroup_s": choose.one((1, 3, 0, 6)),
        "rejoin_s": choose.one((0, 2, 4)),
    }


def make_job(
    choose: Choices, response: str | None = None, batch: str | None = None, *, crowded: bool = False
) -> tuple[Any, ...]:
    """Return a cluster, a job, its power, a policy and the window."""
    response = response or choose.one((*RESPONSES, "ntp", "ntp-pw"))
    batch = "pause" if response == "rigid" else batch or choose.one(BATCHES)
    reduces = response.startswith("ntp")
    tp, per_domain = choose.one((4, 3, 2, 6, 8) if reduces else (4, 3, 2, 1)), choose.one((1, 1, 1, 2, 3))
    if crowded:
        tp, per_domain = choose.one((8, 6, 8)), choose.one((2, 2, 3))
    size = per_domain * tp + choose.one((0, 0, choose.between(0, tp - 1)))
    pp, cp = choose.one((1, 2, 1, 3)), choose.one((1, 1, 2))
    least = -(-pp * cp // per_domain)
    domains = least * choose.one((1, 2, 2, 3)) + choose.one((0, 0, 1, 2))
    most = domains * per_domain // (pp * cp)
    # Replicas beyond DP can fill a fixed batch.
    dp = max(1, most - choose.one((1, 0, 2) if batch == "pause" and reduces else (0, 0, 1, 0, 2)))
    samples, stages = choose.one((4, 8, 6, 3, 1) if reduces else (1, 2, 4)), choose.one((1, 2, 3))
    job = reference.Job(tp, pp, cp, dp, samples, stages)
    power = reference.Power(
        Fraction(choose.one(("1.3", "1.25", "1.1", "1"))),
        Fraction(choose.one(("0", "0.1", "0.3"))),
        CURVE,
        choose.one((None, None, None, 0, 1, 2, 3)),
    )
    degrees = tuple(range(tp - 1, 0, -1))
    policy = reference.Policy(
        response=response,
        batch=batch,
        reduced_tp=choose.one((degrees, degrees, degrees, degrees[:1], degrees[1:], ())),
        packing=choose.one(("packed", "packed", "fixed")),
        reexpand=choose.one((*REEXPANDS, "immediate")),
        reshard_overhead_frac=Fraction(choose.one(("0.01", "0.5", "0"))),
        detect_s=choose.one((1, 3, 0)),
        restart_s=choose.one((2, 7, 1, 0)),
        reconfigure_s=choose.one((3, 1, 0)),
        checkpoint_interval_s=choose.between(1, 12),
        checkpoint_save_s=choose.one((1, 2, 0)),
    )
    window = choose.one((60, 90, 75, 40, 90, choose.between(1, 9)))
    return reference.Cluster(domains, size), job, power, policy, window


class Clock:
    """Instants, most of them tied to earlier ones by what things take."""

    def __init__(self, choose: Choices, policy: reference.Policy, window: int) -> None:
        self.choose, self.window = choose, window
        start, save = policy.detect_s + policy.restart_s, policy.checkpoint_save_s
        cycle = policy.checkpoint_interval_s + save
        self.known = [0]
        self.steps = (
            0,
            policy.detect_s,
            policy.restart_s,
            start,
            policy.checkpoint_interval_s,
            cycle,
            2 * cycle,
            start + policy.checkpoint_interval_s,
            start + cycle,
            policy.reconfigure_s,
            save,
            *(seconds for _, seconds in policy.detect_by_component),
            *([policy.checkpoint_durable_s] * bool(policy.checkpoint_durable_s)),
            *([policy.regroup_s, policy.rejoin_s] * (policy.stops == "replica")),
        )

    def instant(self) -> int:
        """Return an instant, at times just outside the window."""
        if self.choose.between(0, 3):
            found = self.choose.one(self.known) + self.choose.one(self.steps)
        else:
            found = self.choose.between(-4, self.window + 2)
        self.known.append(found)
        return found

    def interval(self) -> tuple[int, int]:
        """Return a start and an end, at times the same instant."""
        start = self.instant()
        length = self.choose.one((4, 9, 20, 1, 40, 0, 2, 200))
        end = start + length
        if not self.choose.between(0, 3):
            end = max(start, self.instant())
        self.known.append(end)
        return start, end

    def echo(self, start: int, end: int) -> tuple[int, int] | None:
        """Return a second outage nested in the first, abutting it, or of no length at its end; or none."""
        inside = start + (end - start) // 3
        return self.choose.one(
            (None, None, None, (inside, (inside + end) // 2), (end, end + 5), (end, end), (inside, end + 3))
        )


# -- the engine on a case ---------------------------------------------------------------------------


def plain_history(case: Case) -> History:
    """Return the history of a case from a union per GPU, without SQL."""
    instants: dict[int, Instant] = {}
    initial: dict[int, int] = {}
    by_gpu: dict[tuple[int, int], list[tuple[int, int, str]]] = {}
    for outage in case.outages:
        for gpu in range(outage.gpu_first, outage.gpu_last + 1):
            mine = (outage.t_start, outage.t_end, outage.component)
            by_gpu.setdefault((outage.domain, gpu), []).append(mine)

    def at(tick: int) -> Instant:
        return instants.setdefault(tick, Instant(tick))

    for (domain, gpu), intervals in by_gpu.items():
        mask = 1 << gpu
        merged = _union([(start, end) for start, end, _ in intervals])
        for start, end in merged:
            if end <= 0 or start >= case.window:
                continue
            if start <= 0:
                initial[domain] = initial.get(domain, 0) | mask
            else:
                at(start).down.append((domain, mask))
            if end < case.window:
                at(end).up.append((domain, mask))
        for start, _, what in intervals:
            was_down = any(first < start <= last for first, last in merged)
            if 0 < start < case.window and not was_down:
                at(start).hits.append((domain, mask))
                at(start).components.append(what)
    for tick, what in zip(case.app_faults, case.app_components or repeat(""), strict=False):
        if 0 < tick < case.window:
            at(tick).app_fault = True
            at(tick).app_components.append(what)
    return History(case.cluster.domains, case.window, initial, [instants[tick] for tick in sorted(instants)])


def _union(intervals: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(pair for pair in intervals if pair[1] > pair[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def shape_of(case: Case) -> Shape:
    """Return the engine's view of job and machines."""
    job, power = case.job, case.power
    return Shape(
        tp=job.tp,
        pp=job.pp,
        cp=job.cp,
        samples_per_replica=job.samples_per_replica,
        virtual_stages=job.virtual_stages,
        domain_size=case.cluster.domain_size,
        boost_cap=power.boost_cap,
        rack_headroom_frac=power.rack_headroom_frac,
        curve=power.curve,
        boosted_domains=power.boosted_domains,
    )


def run_engine(
    case: Case, failures: History | None = None, scale: int = 1, stops: list[Stop] | None = None
) -> tuple[Ledger, list[Span]]:
    """Return the engine's ledger and spans; `scale` is ticks a second. Fill `stops` when it is given."""
    policy, shape, module = case.policy, shape_of(case), responses.load(case.policy.response)
    packer = Packer(shape, module, policy.batch, case.job.dp, policy.reshard_overhead_frac)
    times = Times(
        detect=policy.detect_s * scale,
        restart=policy.restart_s * scale,
        reconfigure=policy.reconfigure_s * scale,
        interval=policy.checkpoint_interval_s * scale,
        save=policy.checkpoint_save_s * scale,
        detect_by={name: seconds * scale for name, seconds in policy.detect_by_component},
        silent=frozenset(policy.silent_components),
        durable=policy.checkpoint_durable_s * scale,
        regroup=policy.regroup_s * scale,
        rejoin=policy.rejoin_s * scale,
        attempts=lambda start: policy.attempts[start % len(policy.attempts)],
    )
    spans: list[Span] = []
    capability = capabilities(shape, policy.reduced_tp if module.USES_REDUCED else ())
    failures = plain_history(case) if failures is None else failures
    packing = PACKINGS[policy.packing](packer, case.cluster.domains)
    ledger = engine.replay(
        failures, capability, packing, times, policy.reexpand,
        by_replica=policy.stops == "replica", spans=spans, stops=stops,
    )  # fmt: skip
    return ledger, spans


def wanted(case: Case) -> Wanted:
    """Return what the reference simulator says."""
    outages = list(case.outages)
    result = reference.simulate(
        case.cluster, case.job, case.power, case.policy, outages, list(case.app_faults), case.window,
        case.app_components,
    )  # fmt: skip
    seconds = [(*second, failed) for second, failed in zip(result.timeline, result.failed_gpus, strict=True)]
    return Wanted(result.buckets, (result.interruptions, result.planned_stops), seconds)


def seconds_of(case: Case, spans: Sequence[Span], scale: int = 1) -> list[Second]:
    """Return (state, X, replicas, failed GPUs) of every second; regular saves lie within a span."""
    policy, seconds, now = case.policy, list[Second](), 0
    interval, save = (part * scale for part in (policy.checkpoint_interval_s, policy.checkpoint_save_s))
    for span in spans:
        assert span.start == now < span.end, "the spans have a gap or an overlap"
        now = span.end
        for tick in range(span.start, span.end, scale):
            saves = span.state == RUNNING and (tick - span.start + span.phase) % (interval + save) >= interval
            state = SAVING if saves else span.state
            seconds.append((state, span.setting.x, span.setting.replicas, span.failed))
    return seconds


def difference(
    case: Case, failures: History | None = None, scale: int = 1, told: Wanted | None = None
) -> str:
    """Return in what the engine differs from the reference (run here, unless given), or an empty text."""
    told = told or wanted(case)
    ledger, spans = run_engine(case, failures, scale)
    for name, value in told.buckets.items():
        if ledger.buckets[name] != value * scale:
            return f"{name}: {ledger.buckets[name] / scale}, reference {value}"
    stops = (ledger.interruptions, ledger.planned_stops)
    if stops != told.stops:
        return f"stops {stops}, reference {told.stops}"
    found = seconds_of(case, spans, scale)
    if len(found) != len(told.seconds):
        return f"{len(found)} seconds, reference {len(told.seconds)}"
    for second, (mine, theirs) in enumerate(zip(found, told.seconds, strict=True)):
        if mine != theirs:
            return f"second {second}: {mine}, reference {theirs}"
    return ""


def check_stops(case: Case) -> None:
    """Assert that what stops cost is what the ledger holds; only a first start has no stop before it."""
    plain, _ = run_engine(case)
    found: list[Stop] = []
    ledger, spans = run_engine(case, stops=found)
    assert ledger.buckets == plain.buckets
    assert sum(stop.state in {"running", "saving"} for stop in found) == ledger.interruptions
    assert sum((stop.rework for stop in found), Fraction(0)) == ledger.buckets["rework"]
    first = found[0].tick if found else case.window
    early = any(span.state == "starting" and span.start < first for span in spans)
    for bucket in ("detect", "restart"):
        laid = sum(getattr(stop, bucket) for stop in found)
        assert laid == ledger.buckets[bucket] if not early else laid <= ledger.buckets[bucket]
