"""A slow and obvious second implementation of model.md, sections 4 to 7, to check the engine against.

In: a cluster, a job, a power curve, a policy, outages and app-level faults. Out: one ledger in GPU-seconds.
Units: whole seconds (`_s`), power in TDP, speed and pace relative to a healthy group. A tick is `[t, t + 1)`.
Everything is exact (int, Fraction); every tick recomputes the pool from the plain list of outages.
It imports nothing from the package, so that an error made there cannot be made here by import. It is one
file, longer than the house likes, for the same reason: it has to be readable beside model.md from top to
bottom.
Easy to get wrong: the order of things at one instant (`_settle`), and that `failed`, `static` and
`spare_idle` follow the capacity now while X, the replicas and the GPUs in use follow the configuration.

Readings, where model.md leaves a choice:

1.  A domain has "full groups beside" a reduced group as many as it offers when the configuration is chosen,
    in use or not (boost limit).
2.  Below the first point of the power curve the speed is that of the first point; the curve must not fall.
3.  An unboosted or boosted group counts `max(1, TP / t / s)`; a replica with a reduced group is `reduced`,
    and costs the resharding overhead, even if its boost makes it whole.
4.  "n > 0" in "in use" and in the resharding rule means the samples the replica does under the batch rule:
    under `stretch` a replica that fits no sample in the healthy budget but is given one is in use; under
    `pause` the replicas after the shortest prefix are not.
5.  `stretch`: "add up to B" is "at least B", since the sum may jump over B; the surplus falls on the last
    replicas. Under `dp-drop` a replica with a group that is not full has no pace and takes no part.
6.  "Share of the samples done" is the replica's samples over the samples of all replicas in use.
7.  `packed` uses the whole pool, so domains beyond the job's need act as spares whatever `spare_domains`
    says; under `fixed` all domains after the job's slots are spares, too, and `spare_domains` itself is
    read nowhere.
8.  `fixed`: replicas are cut from the job's positions (m a slot, fewer in the last) in order, and so may
    begin inside a slot when m does not divide groups_per_replica; a slot takes the first groups of its
    domain, full ones first. "GPUs in offered groups" (worst first) counts all groups the domain offers,
    also those a short last slot can't use.
9.  The configuration of a reconfiguration is chosen when the reconfiguration begins. From then on only its
    GPUs are "of the configuration being started"; those of the old one that it leaves out are idle.
10. A zero-length save, start or reconfiguration completes at the instant it begins, with everything that
    follows from its completion, even if the place of completions in the order of that instant has passed.
    Faults of that instant came earlier, so they can't void it.
11. "Unsaved" is work since the last completed save that no rollback has taken. `immediate` therefore
    reconfigures without a save straight after a save or a start.
12. A save made for `immediate` restarts the interval, like any save. It is no planned stop: `planned_stops`
    counts reconfigurations begun, also those that a fault cuts short.
13. A start after a pause takes `restart_s` only; when a fault cuts it short, the start that follows takes
    the full `detect_s + restart_s`. If a fault leaves no configuration with X > 0, the job is paused with
    no `detect` at all.
14. A zero-length outage changes no capacity, so the configuration chosen at that instant may use the GPU it
    hit. At t <= 0 it does nothing.
15. The timeline gives X and the number of replicas of the configuration that runs, saves or is being
    started (also while nothing is produced), and 0 and 0 while paused.
16. "A configuration with greater X" compares X, after the resharding overhead, with the X of the running
    one.
17. DP that does not fit into a pool without failures is an input error.
18. The facility's cap on boosted domains is spent in packing order, on whole replicas; a replica that does
    not fit is as under `ntp`, and later ones that fit are boosted. Replicas beyond those in use count, too.
    When replicas have left, it is spent again on those that remain.
19. A silent fault that strikes together with another one is found with it. A GPU that has been repaired
    before the fault is found is never down; a further outage that begins meanwhile on a GPU that seems
    healthy, but is down in the log, is not seen. What is not found by the end of the window counts as kept.
20. A corruption that is found while the job is paused voids work and interrupts nothing.
21. A stall of the replicas that go on is a start without detection. A fault of all of them, or an app-level
    fault, in that stall is no new interruption, as in any start, but then work is lost.
22. A replica that is left without a sample when others have left leaves, too.
23. A replica's GPUs: those in use of a domain go to its groups in use in packing order, the lowest first.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, floor

BUCKETS = (
    "failed", "static", "spare_idle", "productive", "rework", "overhead", "checkpoint",
    "detect", "restart", "reconfigure", "paused", "stranded", "gain",
)  # fmt: skip

Gpu = tuple[int, int]  # (domain, GPU index in it)
Pair = tuple[int, int]  # (degree, full groups in its domain)


@dataclass(frozen=True)
class Cluster:
    """The pool: `domains` domains of `domain_size` GPUs."""

    domains: int
    domain_size: int


@dataclass(frozen=True)
class Job:
    """The parallel layout, and the samples (microbatches) of a healthy replica per iteration."""

    tp: int
    pp: int
    cp: int
    dp: int
    samples_per_replica: int
    virtual_stages: int = 1


@dataclass(frozen=True)
class Power:
    """Boost limits (in TDP; the headroom as a share of the rack) and the points (power in TDP, speed)."""

    boost_cap: Fraction
    rack_headroom_frac: Fraction
    curve: tuple[tuple[Fraction, Fraction], ...]
    boosted_domains: int | None = None  # the most domains that the facility lets boost at once


@dataclass(frozen=True)
class Policy:
    """What the job does about failures; times in seconds."""

    response: str  # rigid | dp-drop | ntp | ntp-pw
    batch: str  # elastic | pause | stretch
    reduced_tp: tuple[int, ...]
    packing: str = "packed"  # packed | fixed
    reexpand: str = "next_interruption"  # next_interruption | immediate | checkpoint
    spare_domains: int = 0
    reshard_overhead_frac: Fraction = Fraction(1, 100)
    detect_s: int = 0
    restart_s: int = 0
    reconfigure_s: int = 0
    checkpoint_interval_s: int = 1800
    checkpoint_save_s: int = 0
    detect_by_component: tuple[tuple[str, int], ...] = ()  # (component, seconds); others take detect_s
    silent_components: tuple[str, ...] = ()
    checkpoint_durable_s: int = 0
    attempts: tuple[int, ...] = (1,)  # how often the n-th start is made until it holds; repeated
    stops: str = "job"  # job | replica
    regroup_s: int = 0
    rejoin_s: int = 0


@dataclass(frozen=True)
class Outage:
    """GPUs `gpu_first..gpu_last` (both included) of a domain, unavailable over [t_start, t_end) seconds."""

    domain: int
    gpu_first: int
    gpu_last: int
    t_start: int
    t_end: int
    component: str = ""


@dataclass(frozen=True)
class Result:
    """The ledger in GPU-seconds, the counts, (state, X, replicas in use) and failed GPUs for every second."""

    buckets: dict[str, Fraction]
    interruptions: int
    planned_stops: int
    timeline: list[tuple[str, Fraction, int]]
    failed_gpus: list[int]


@dataclass(frozen=True)
class Group:
    """One offered TP group, and the full groups its domain offers."""

    domain: int
    degree: int
    full_groups: int


@dataclass(frozen=True)
class Replica:
    """A replica in use, the samples it does per iteration, and its place among the replicas formed."""

    groups: tuple[Group, ...]
    samples: int
    place: int = 0


@dataclass(frozen=True)
class Configuration:
    """What packing and batch rule yield: the share of the healthy throughput and the replicas in use."""

    x_raw: Fraction
    x: Fraction
    replicas: tuple[Replica, ...]


NOTHING = Configuration(Fraction(0), Fraction(0), ())


# Section 4: what a domain offers


def capability(
    k: int, G: int, tp: int, reduced: tuple[int, ...], uses_reduced: bool
) -> tuple[int, int, int, int]:
    """(full groups, reduced degree or 0, leftover GPUs, static GPUs) of a domain of G GPUs with k failed."""
    m = G // tp
    full = (G - k) // tp
    rest = G - k - full * tp
    fitting = [t for t in reduced if t <= rest]
    degree = max(fitting) if uses_reduced and full < m and fitting else 0
    leftover = rest - degree
    return full, degree, leftover, min(leftover, G - m * tp)


def _offer(k: int, cluster: Cluster, job: Job, policy: Policy) -> tuple[int, int, int, int]:
    """`capability` of a domain with k failed GPUs under a policy."""
    uses_reduced = policy.response in ("ntp", "ntp-pw")
    return capability(k, cluster.domain_size, job.tp, policy.reduced_tp, uses_reduced)


# Section 5: pace, power, samples


def curve_speed(power_tdp: Fraction, curve: tuple[tuple[Fraction, Fraction], ...]) -> Fraction:
    """Speed at a power in TDP: straight between the points, flat outside them."""
    if power_tdp <= curve[0][0]:
        return Fraction(curve[0][1])
    for i in range(len(curve) - 1):
        (p0, s0), (p1, s1) = curve[i], curve[i + 1]
        if power_tdp <= p1:
            return s0 + (s1 - s0) * Fraction(power_tdp - p0) / (p1 - p0)
    return Fraction(curve[-1][1])


def boost_limit(degree: int, full_groups: int, G: int, tp: int, power: Power) -> Fraction:
    """The most power, in TDP per GPU, of a reduced group beside `full_groups` full ones in its domain."""
    rack_tdp = G * (1 + power.rack_headroom_frac) - full_groups * tp
    return min(Fraction(power.boost_cap), Fraction(rack_tdp) / degree)


def boosted_speed(degree: int, full_groups: int, G: int, tp: int, power: Power) -> Fraction:
    """Speed-up of a reduced group: what reaches the healthy pace (TP / degree), or what its limit allows."""
    at_limit = curve_speed(boost_limit(degree, full_groups, G, tp, power), power.curve)
    return min(Fraction(tp, degree), at_limit)


def group_time(pair: Pair, job: Job, response: str, power: Power, G: int) -> Fraction:
    """Time of one microbatch of one stage on a group, in times of a healthy group, never below 1."""
    degree, full_groups = pair
    boosted = response == "ntp-pw" and degree < job.tp
    speed = boosted_speed(degree, full_groups, G, job.tp, power) if boosted else Fraction(1)
    return max(Fraction(1), Fraction(job.tp, degree) / speed)


def replica_pace(
    groups: list[Pair], job: Job, response: str, power: Power, G: int
) -> tuple[Fraction, Fraction]:
    """(time per sample, fill time) of a replica in healthy group times: tau(n) = n * first + second."""
    times = [group_time(pair, job, response, power, G) for pair in groups]
    stages = [max(times[i : i + job.cp]) for i in range(0, len(times), job.cp)]
    slowest = max(stages)
    return slowest, (sum(stages) - slowest) / job.virtual_stages


def healthy_budget(job: Job) -> Fraction:
    """Tau of a healthy replica doing b samples, in healthy group times."""
    return job.samples_per_replica + Fraction(job.pp - 1, job.virtual_stages)


def samples_within(time: Fraction, pace: tuple[Fraction, Fraction]) -> int:
    """Whole samples, not capped, that a replica of this pace finishes in `time` healthy group times."""
    per_sample, fill = pace
    return max(0, floor((time - fill) / per_sample))


def samples_of_replica(groups: list[Pair], job: Job, response: str, power: Power, G: int) -> int:
    """Samples per iteration, at most b, of a replica of (degree, full groups in its domain) groups."""
    if len(groups) < job.pp * job.cp:
        return 0
    if response in ("rigid", "dp-drop"):
        return job.samples_per_replica if all(degree == job.tp for degree, _ in groups) else 0
    pace = replica_pace(groups, job, response, power, G)
    return min(job.samples_per_replica, samples_within(healthy_budget(job), pace))


# Section 5: packing


def _groups_of(
    domain: int, failed: tuple[int, ...], cluster: Cluster, job: Job, policy: Policy
) -> list[Group]:
    """The groups a domain offers, a reduced one after the full ones."""
    full, degree, _, _ = _offer(failed[domain], cluster, job, policy)
    groups = [Group(domain, job.tp, full) for _ in range(full)]
    return groups + ([Group(domain, degree, full)] if degree else [])


def _cut(positions: list[Group | None], size: int) -> list[tuple[Group, ...]]:
    """Replicas of `size` consecutive positions; empty positions fall out, an incomplete tail is left over."""
    whole = len(positions) // size * size
    cuts = [positions[i : i + size] for i in range(0, whole, size)]
    return [tuple(g for g in cut if g is not None) for cut in cuts]


def pack_sorted(
    failed: tuple[int, ...], cluster: Cluster, job: Job, policy: Policy
) -> list[tuple[Group, ...]]:
    """`packed`: all offered groups, largest degree first, then lowest domain, cut into replicas."""
    offered = [g for d in range(cluster.domains) for g in _groups_of(d, failed, cluster, job, policy)]
    offered.sort(key=lambda g: (-g.degree, g.domain))
    return _cut(list(offered), job.pp * job.cp)


def domains_of_slots(
    failed: tuple[int, ...], cluster: Cluster, job: Job, policy: Policy
) -> list[tuple[int, int]]:
    """`fixed`: (domain, positions) of each slot; short slots, worst first, get whole spare domains."""
    m = cluster.domain_size // job.tp
    positions = job.dp * job.pp * job.cp
    slots = [(i, min(m, positions - i * m)) for i in range(ceil(Fraction(positions, m)))]
    offers = [_offer(k, cluster, job, policy) for k in failed]
    short = [i for i, need in slots if offers[i][0] < need]
    short.sort(key=lambda i: (offers[i][0] * job.tp + offers[i][1], i))
    spares = [d for d in range(len(slots), cluster.domains) if offers[d][0] == m]
    for i, spare in zip(short, spares, strict=False):
        slots[i] = (spare, slots[i][1])
    return slots


def pack_fixed(
    failed: tuple[int, ...], cluster: Cluster, job: Job, policy: Policy
) -> list[tuple[Group, ...]]:
    """`fixed`: DP replicas of consecutive positions; one with an empty position comes out short of groups."""
    positions: list[Group | None] = []
    for domain, need in domains_of_slots(failed, cluster, job, policy):
        groups = _groups_of(domain, failed, cluster, job, policy)[:need]
        positions += [*groups, *([None] * (need - len(groups)))]
    return _cut(positions, job.pp * job.cp)


# Section 6: the batch rule


def _pairs(groups: tuple[Group, ...]) -> list[Pair]:
    """Groups as (degree, full groups in its domain)."""
    return [(g.degree, g.full_groups) for g in groups]


def _elastic(samples: list[int], job: Job) -> tuple[Fraction, list[int]]:
    """(X_raw, samples done): the first DP replicas do what they can."""
    done = samples[: job.dp]
    return Fraction(sum(done), job.dp * job.samples_per_replica), done


def _pause(samples: list[int], job: Job) -> tuple[Fraction, list[int]]:
    """(X_raw, samples done): the shortest prefix that reaches B, the last does what is missing."""
    missing = job.dp * job.samples_per_replica
    done = []
    for n in samples:
        done.append(min(n, missing))
        missing -= done[-1]
        if missing == 0:
            return Fraction(1), done
    return Fraction(0), []


def _stretch(paces: list[tuple[Fraction, Fraction] | None], job: Job) -> tuple[Fraction, list[int]]:
    """(X_raw, samples done): the least time, at least the budget, in which DP replicas reach B."""
    batch = job.dp * job.samples_per_replica
    budget = healthy_budget(job)
    taken = paces[: job.dp]
    ends = {n * p[0] + p[1] for p in taken if p for n in range(1, batch + 1)}
    for time in sorted({budget} | {end for end in ends if end > budget}):
        fits = [samples_within(time, p) if p else 0 for p in taken]
        if sum(fits) >= batch:
            missing = [max(0, batch - sum(fits[:i])) for i in range(len(fits))]
            return budget / time, [min(n, left) for n, left in zip(fits, missing, strict=True)]
    return Fraction(0), []


def configure(
    cluster: Cluster, job: Job, power: Power, policy: Policy, failed: tuple[int, ...]
) -> Configuration:
    """The configuration for `failed` GPUs in each domain; X = 0 if nothing can run."""
    G = cluster.domain_size
    pack = pack_fixed if policy.packing == "fixed" else pack_sorted
    return of_replicas(pack(failed, cluster, job, policy), job, power, policy, G)


def of_replicas(
    formed: list[tuple[Group, ...]], job: Job, power: Power, policy: Policy, G: int
) -> Configuration:
    """The configuration that the batch rule yields from replicas in order."""
    responses = facility_responses(formed, job, power, policy, G)
    samples = [
        samples_of_replica(_pairs(groups), job, response, power, G)
        for groups, response in zip(formed, responses, strict=True)
    ]
    if policy.batch == "stretch":
        able = [_can_stretch(groups, job, policy) for groups in formed]
        paces = [
            replica_pace(_pairs(groups), job, response, power, G) if ok else None
            for groups, response, ok in zip(formed, responses, able, strict=True)
        ]
        x_raw, done = _stretch(paces, job)
    else:
        x_raw, done = (_elastic if policy.batch == "elastic" else _pause)(samples, job)
    if x_raw == 0:
        return NOTHING
    pairs = zip(formed, done, strict=False)
    replicas = tuple(Replica(groups, n, i) for i, (groups, n) in enumerate(pairs) if n > 0)
    reduced = any(g.degree < job.tp for replica in replicas for g in replica.groups)
    x = x_raw / (1 + policy.reshard_overhead_frac) if reduced else x_raw
    return Configuration(x_raw, x, replicas)


def facility_responses(
    formed: list[tuple[Group, ...]], job: Job, power: Power, policy: Policy, G: int
) -> list[str]:
    """`ntp-pw` or `ntp` for each replica: boosted, in order, while the facility's cap lasts."""
    if policy.response != "ntp-pw" or power.boosted_domains is None:
        return [policy.response] * len(formed)
    left, found = power.boosted_domains, []
    for groups in formed:
        whole = len(groups) == job.pp * job.cp
        needs = sum(
            whole and g.degree < job.tp and boost_limit(g.degree, g.full_groups, G, job.tp, power) > 1
            for g in groups
        )
        found.append("ntp-pw" if needs <= left else "ntp")
        left -= needs if needs <= left else 0
    return found


def _can_stretch(groups: tuple[Group, ...], job: Job, policy: Policy) -> bool:
    """Whether a replica has all its groups and, unless the response uses reduced ones, all of them full."""
    complete = len(groups) == job.pp * job.cp
    return complete and (policy.response in ("ntp", "ntp-pw") or all(g.degree == job.tp for g in groups))


def gpus_in_use(configuration: Configuration, down: list[set[int]], G: int) -> list[set[Gpu]]:
    """The GPUs of each replica: the lowest-numbered healthy ones of each domain, to its groups in order."""
    healthy = [[gpu for gpu in range(G) if gpu not in gpus] for gpus in down]
    found = []
    for replica in configuration.replicas:
        mine: set[Gpu] = set()
        for group in replica.groups:
            assert group.degree <= len(healthy[group.domain])
            mine |= {(group.domain, healthy[group.domain].pop(0)) for _ in range(group.degree)}
        found.append(mine)
    return found


def gain_gpus(configuration: Configuration, job: Job) -> Fraction:
    """Work of the replicas in use beyond their GPUs, in GPUs of a healthy job."""
    work = configuration.x_raw * job.dp * job.pp * job.cp * job.tp
    done = sum(replica.samples for replica in configuration.replicas)
    excess = [
        work * Fraction(replica.samples, done) - sum(g.degree for g in replica.groups)
        for replica in configuration.replicas
    ]
    return sum((max(Fraction(0), e) for e in excess), Fraction(0))


# Section 7: outages at an instant


def _gpus(outage: Outage) -> set[Gpu]:
    """The GPUs of an outage."""
    return {(outage.domain, gpu) for gpu in range(outage.gpu_first, outage.gpu_last + 1)}


def down_at(t: int, outages: list[Outage], domains: int) -> list[set[int]]:
    """GPUs of each domain that are down over the second [t, t + 1): the union of the outages."""
    down: list[set[int]] = [set() for _ in range(domains)]
    for o in outages:
        if o.t_start <= t < o.t_end:
            down[o.domain] |= set(range(o.gpu_first, o.gpu_last + 1))
    return down


def onsets_at(t: int, outages: list[Outage], domains: int) -> set[Gpu]:
    """GPUs that were up just before second t and go down at it, if only for zero length."""
    before, now = down_at(t - 1, outages, domains), down_at(t, outages, domains)
    for o in outages:
        if o.t_start == o.t_end == t:
            now[o.domain] |= set(range(o.gpu_first, o.gpu_last + 1))
    return {(d, gpu) for d in range(domains) for gpu in now[d] - before[d]}


# Section 7: the job in time


@dataclass
class _Corruption:
    """A silent fault that struck the job, not yet found; its GPUs that the log has as down."""

    onset: int
    found: int
    of_hardware: bool
    gpus: set[Gpu]


@dataclass
class _Run:
    """The job now; `left_s` counts down a save, a reconfiguration, or a start after its `detect_left_s`."""

    cluster: Cluster
    job: Job
    power: Power
    policy: Policy
    buckets: dict[str, Fraction] = field(default_factory=lambda: dict.fromkeys(BUCKETS, Fraction(0)))
    known: dict[tuple[int, ...], Configuration] = field(default_factory=dict)
    down: list[set[int]] = field(default_factory=list)
    state: str = "paused"  # running | saving | starting | reconfiguring | paused
    configuration: Configuration = NOTHING
    gpus_of: list[set[Gpu]] = field(default_factory=list)  # of each replica in use
    detect_left_s: int = 0
    left_s: int = 0
    since_s: int = 0  # running time since the last save, start or reconfiguration
    t: int = 0
    work: list[tuple[int, Fraction]] = field(default_factory=list)  # productive GPU-seconds, second by second
    saves: list[int] = field(default_factory=list)  # when they completed
    hidden: list[_Corruption] = field(default_factory=list)
    starts: int = 0
    regrouping: bool = False
    ready_at: int | None = None  # when replicas that start beside the running job may join it
    interruptions: int = 0
    planned_stops: int = 0

    @property
    def in_use(self) -> set[Gpu]:
        """The GPUs of all replicas in use."""
        return set().union(*self.gpus_of)

    @property
    def unsaved(self) -> Fraction:
        """Productive GPU-seconds since the last completed save."""
        last = self.saves[-1] if self.saves else 0
        return sum((amount for t, amount in self.work if t >= last), Fraction(0))

    def roll_back(self, before: int) -> None:
        """Go back to the last save that completed before an instant; the start of the window is one."""
        self.saves = [t for t in self.saves if t < before]
        last = self.saves[-1] if self.saves else 0
        lost = sum((amount for t, amount in self.work if t >= last), Fraction(0))
        self.work = [(t, amount) for t, amount in self.work if t < last]
        self.buckets["productive"] -= lost
        self.buckets["rework"] += lost

    def next_restart_s(self) -> int:
        """How long the next start takes after detection, with the attempts that fail."""
        attempts = self.policy.attempts[self.starts % len(self.policy.attempts)]
        self.starts += 1
        return self.policy.restart_s * attempts

    def possible(self) -> Configuration:
        """The configuration of the capacity now (memoised: it depends on the failed counts only)."""
        failed = tuple(len(gpus) for gpus in self.down)
        if failed not in self.known:
            self.known[failed] = configure(self.cluster, self.job, self.power, self.policy, failed)
        return self.known[failed]

    def adopt(self) -> bool:
        """Choose the configuration of this instant and fix its GPUs; without one the job is paused."""
        self.configuration = self.possible()
        self.gpus_of = gpus_in_use(self.configuration, self.down, self.cluster.domain_size)
        self.regrouping, self.ready_at = False, None
        self.detect_left_s = self.left_s = self.since_s = 0
        self.state = "running" if self.configuration.x > 0 else "paused"
        return self.configuration.x > 0

    def begin_start(self, detect_s: int) -> None:
        """Begin a start of `detect_s + restart_s`, or pause."""
        if self.adopt():
            self.state, self.detect_left_s, self.left_s = "starting", detect_s, self.next_restart_s()
            assert self.unsaved == 0

    def begin_reconfigure(self) -> None:
        """Begin a planned stop; everything is saved."""
        assert self.unsaved == 0
        assert self.state == "running"
        assert self.adopt()
        self.state, self.left_s = "reconfiguring", self.policy.reconfigure_s
        self.planned_stops += 1
        self.complete_start()

    def complete_start(self) -> None:
        """Run, if a start or reconfiguration is at its end."""
        if self.state in ("starting", "reconfiguring") and self.detect_left_s == self.left_s == 0:
            self.state, self.regrouping = "running", False

    def complete_save(self) -> bool:
        """Keep the work, if a save is at its end; say whether it was."""
        if self.state != "saving" or self.left_s > 0:
            return False
        self.state, self.since_s = "running", 0
        self.saves.append(self.t)
        return True

    def begin_save(self) -> bool:
        """Begin a blocking save; say whether it has completed at once."""
        self.state, self.left_s = "saving", self.policy.checkpoint_save_s
        return self.complete_save()

    def interrupt(self, detect_s: int, before: int) -> None:
        """Stop the job: roll back to the last save before an instant, start again."""
        if self.state in ("running", "saving"):
            self.interruptions += 1
        self.roll_back(before)
        if self.state != "paused":
            self.begin_start(detect_s)

    def leave(self, hit: set[Gpu], detect_s: int) -> bool:
        """Stop the replicas that were hit alone, if the job may and the others can go on."""
        if self.state not in ("running", "saving") and not self.regrouping:
            return False
        stay = [i for i, gpus in enumerate(self.gpus_of) if not gpus & hit]
        formed = [self.configuration.replicas[i].groups for i in stay]
        left = of_replicas(formed, self.job, self.power, self.policy, self.cluster.domain_size)
        if left.x == 0:
            return False
        if not self.regrouping:
            self.interruptions += 1
        self.configuration = left
        self.gpus_of = [self.gpus_of[stay[replica.place]] for replica in left.replicas]
        self.state, self.regrouping = "starting", True
        self.detect_left_s, self.left_s = 0, self.policy.regroup_s
        self.ready_at = self.t + detect_s + self.next_restart_s()
        return True

    def join(self) -> None:
        """Let a better configuration start beside the running job, and join it when it is ready."""
        if self.state not in ("running", "saving"):
            return
        policy, is_better = self.policy, self.possible().x > self.configuration.x
        if self.ready_at is None and is_better:
            self.ready_at = self.t + self.next_restart_s()
        if self.ready_at is None or self.ready_at > self.t:
            return
        if not is_better:
            self.ready_at = None
        elif self.state == "running":
            if policy.checkpoint_save_s == 0 and self.since_s == policy.checkpoint_interval_s:
                self.begin_save()  # it takes no time
            since_s = self.since_s
            self.adopt()
            self.state, self.left_s, self.since_s = "reconfiguring", policy.rejoin_s, since_s
            self.planned_stops += 1
            self.complete_start()
            self.join()

    def reexpand(self, saved: bool) -> None:
        """Take up a configuration with greater X; `saved`: a save has completed at this instant."""
        if self.state != "running" or self.possible().x <= self.configuration.x:
            return
        if self.policy.reexpand == "checkpoint" and saved:
            self.begin_reconfigure()
        if self.policy.reexpand == "immediate" and (self.unsaved == 0 or self.begin_save()):
            self.begin_reconfigure()


def _strike(run: _Run, raw: list[set[int]], hit: set[Gpu], components: set[str], app: bool) -> None:
    """The capacity changes of an instant (`raw`: what the log has as down) and the stop that they cause.

    `hit`: GPUs in use that go down, `components`: of those faults and of the app-level ones.
    """
    policy, t, durable_s = run.policy, run.t, run.policy.checkpoint_durable_s
    strikes = (bool(hit) or app) and run.state != "paused"
    known = dict(policy.detect_by_component)
    detect_s = min((known.get(name, policy.detect_s) for name in components), default=0)
    if strikes and components <= set(policy.silent_components):
        run.hidden.append(_Corruption(t, t + detect_s, bool(hit), set(hit)))
        strikes = False
    for corruption in run.hidden:
        corruption.gpus &= {(domain, gpu) for domain, gpus in enumerate(raw) for gpu in gpus}
    found = [corruption for corruption in run.hidden if corruption.found == t]
    run.hidden = [corruption for corruption in run.hidden if corruption.found > t]
    seeming = set().union(*(corruption.gpus for corruption in run.hidden))
    run.down = [{gpu for gpu in gpus if (domain, gpu) not in seeming} for domain, gpus in enumerate(raw)]
    before = [t - durable_s if hit else t] if strikes else []
    for corruption in found:
        before.append(corruption.onset)
        before.append(t - durable_s if corruption.of_hardware else t)
    if not before:
        return
    alone = policy.stops == "replica" and not found and not app
    if not (alone and run.leave(hit, detect_s)):
        run.interrupt(0 if found else detect_s, min(before))


def _settle(run: _Run) -> None:
    """All that happens at one instant after the stops, in the order of section 7."""
    saved = run.complete_save()
    run.complete_start()
    if run.state == "paused" and run.possible().x > 0:
        run.begin_start(detect_s=0)
        run.complete_start()
    if run.policy.stops == "replica":
        run.join()
    else:
        run.reexpand(saved)
    is_due = run.state == "running" and run.since_s >= run.policy.checkpoint_interval_s
    if is_due and run.begin_save() and run.policy.stops == "job":
        run.reexpand(saved=True)


def _bucket_of_wait(run: _Run) -> str:
    """The bucket of all other healthy GPUs while the job does not run."""
    if run.state == "starting":
        return "detect" if run.detect_left_s > 0 else "restart"
    return {"saving": "checkpoint", "reconfiguring": "reconfigure", "paused": "paused"}[run.state]


def _second(run: _Run) -> dict[str, Fraction]:
    """The GPU-seconds of one second in this state, by bucket."""
    cluster, job = run.cluster, run.job
    offers = [_offer(len(gpus), cluster, job, run.policy) for gpus in run.down]
    need = job.dp * job.pp * job.cp
    now = dict.fromkeys(BUCKETS, Fraction(0))
    now["failed"] += sum(len(gpus) for gpus in run.down)
    now["static"] += sum(static for _, _, _, static in offers)
    now["spare_idle"] += max(0, sum(full for full, _, _, _ in offers) - need) * job.tp
    others = cluster.domains * cluster.domain_size - sum(now.values(), Fraction(0))
    if run.state != "running":
        now[_bucket_of_wait(run)] = others
        return now
    now["productive"] = run.configuration.x * need * job.tp
    now["overhead"] = (run.configuration.x_raw - run.configuration.x) * need * job.tp
    now["gain"] = gain_gpus(run.configuration, job)
    now["stranded"] = others - (now["productive"] + now["overhead"] - now["gain"])
    return now


def _pass_second(run: _Run) -> None:
    """Book one second and move the clocks of the state on by it."""
    now = _second(run)
    assert all(value >= 0 for value in now.values()), now
    for name, value in now.items():
        run.buckets[name] += value
    if run.state == "running":
        run.since_s += 1
        run.work.append((run.t, now["productive"]))
    elif run.detect_left_s > 0:
        run.detect_left_s -= 1
    elif run.state != "paused":
        run.left_s -= 1


def _check_input(cluster: Cluster, job: Job, power: Power, policy: Policy, outages: list[Outage]) -> None:
    """Refuse what model.md does not define."""
    m = cluster.domain_size // job.tp
    speeds = [speed for _, speed in power.curve]
    rules = {
        "rigid goes with the batch rule pause only": policy.response != "rigid" or policy.batch == "pause",
        "unknown response": policy.response in ("rigid", "dp-drop", "ntp", "ntp-pw"),
        "unknown batch rule": policy.batch in ("elastic", "pause", "stretch"),
        "unknown packing": policy.packing in ("packed", "fixed"),
        "unknown reexpand": policy.reexpand in ("next_interruption", "immediate", "checkpoint"),
        "the job does not fit into the pool": job.dp * job.pp * job.cp <= cluster.domains * m,
        "the interval between saves must be positive": policy.checkpoint_interval_s > 0,
        "the power curve must not fall": speeds == sorted(speeds),
        "an outage ends before it starts": all(o.t_start <= o.t_end for o in outages),
        "a start is made at least once": min(policy.attempts) >= 1,
    }
    for message, holds in rules.items():
        if not holds:
            raise ValueError(message)


def simulate(
    cluster: Cluster,
    job: Job,
    power: Power,
    policy: Policy,
    outages: list[Outage],
    app_faults: list[int],
    window_s: int,
    app_components: tuple[str, ...] = (),
) -> Result:
    """Run the job over [0, window_s) in ticks of one second and return its ledger in GPU-seconds.

    `app_components` names the component of each app-level fault; without it they have none.
    """
    _check_input(cluster, job, power, policy, outages)
    run = _Run(cluster, job, power, policy)
    timeline, failed_gpus = [], []
    for t in range(window_s):
        run.t, raw = t, down_at(t, outages, cluster.domains)
        if t == 0:
            run.down = raw
            run.adopt()
        else:
            hit = onsets_at(t, outages, cluster.domains) & run.in_use
            components = {o.component for o in outages if o.t_start == t and _gpus(o) & hit}
            apps = [i for i, instant in enumerate(app_faults) if instant == t]
            components |= {app_components[i] if app_components else "" for i in apps}
            _strike(run, raw, hit, components, bool(apps))
            _settle(run)
        timeline.append((run.state, run.configuration.x, len(run.configuration.replicas)))
        failed_gpus.append(sum(len(gpus) for gpus in run.down))
        _pass_second(run)
    total = cluster.domains * cluster.domain_size * window_s
    assert sum(run.buckets.values()) - 2 * run.buckets["gain"] == total
    assert all(value >= 0 for value in run.buckets.values())
    return Result(run.buckets, run.interruptions, run.planned_stops, timeline, failed_gpus)
