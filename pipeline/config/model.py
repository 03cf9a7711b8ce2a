"""The tables of a scenario as frozen dataclasses: every key with its meaning, unit and range.

A key's metadata serves the reader's messages and the report's list of assumptions.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.topology.layout import UNEVEN, Layout

BATCHES = ("elastic", "pause", "stretch")
PACKINGS = ("packed", "fixed")
REEXPANDS = ("next_interruption", "immediate", "checkpoint")
STOPS = ("job", "replica")
PLACEMENTS = ("random", "listed", "topology")
STARTS = ("clean", "steady")
FOLDS = ("earlier", "later")
CORRELATIONS = ("preset", "none")
PLANNED_IGNORE, PLANNED_DOWN = PLANNED = ("ignore", "down")
INTERVAL_RULES = ("young", "daly")
OVERHEAD_RULES = ("model",)
STEP_TIMES = ("ideal", "table", "model")
DTYPES = ("bf16", "fp8")
RECOMPUTES = ("none", "selective", "full")
MOST_SEED = 2**63 - 1
LONGEST_S = 1e9  # thirty years
# Assumed repair times, hours, for logs that tell no ends: medians per class of the InfiniteHBD trace (arXiv
# 2502.03885), `other` is the median of all its faults.
REPAIR_H = {
    "gpu": 16.8,
    "nic": 11.8,
    "cable": 47.4,
    "power": 351.0,
    "cooling": 73.5,
    "software": 16.9,
    "other": 20.4,
}
ASSUMED_COMPONENT, ASSUMED_REASON = "software", "assumed app fault"


def _key(
    doc: str,
    default: Any = dataclasses.MISSING,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    words: tuple[str, ...] | None = None,
) -> Any:
    """Declare a key: its meaning and unit, default and allowed range or words."""
    metadata = {"doc": doc, "low": low, "high": high, "above": above, "words": words}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, kw_only=True)
class Trace:
    """Where failures come from.

    A log (`source`) or all logs of a `cluster`, rates (`preset`), or a log, resampled (`bootstrap`).
    """

    source: str | None = _key("log format, a name from `goodput sources`", None)
    path: str | None = _key(
        "the log, relative to the scenario file; left out: the public file or, with `cluster` or without a "
        "public file, all that was ingested",
        None,
    )
    cluster: str | None = _key(
        "only the events of this cluster, a name given to `goodput ingest`; without source: all its logs",
        None,
    )
    tz: str | None = _key("zone of a log whose times have none, e.g. UTC or Europe/Berlin", None)
    year: int | None = _key(
        "year of the first line of a log whose times have none", None, low=2000, high=9999
    )
    fold: str | None = _key("which one of two, for times that a clock change repeats", None, words=FOLDS)
    as_of: str | None = _key("instant the log was taken; no event may be later", None)
    boot_time: str | None = _key("instant of boot, for seconds since boot", None)
    node: str | None = _key("server of a log that names none; @file: its file's name", None)
    xid_table: str | None = _key(
        "meanings of Xid codes in place of the shipped ones, a CSV relative to the scenario file", None
    )
    window_d: tuple[float, float] | None = _key("[from, to] in days since the source's day 0", None)
    window: tuple[str, str] | None = _key("[from, to] as ISO instants with a zone", None)
    preset: str | None = _key("synthetic failures, a name from `goodput presets`", None)
    bootstrap: str | None = _key("a log that is resampled to any size, a name from `goodput sources`", None)
    observed_nodes: int | None = _key(
        "all nodes that a resampled log was taken from, failed or not", None, low=1, high=10_000_000
    )
    block_d: float | None = _key("length of resampled blocks, days; left out: 30", None, low=1, high=36_525)
    weibull_shape: float | None = _key(
        "shape of the gaps between a preset's failures; 1: exponential; left out: the preset's own",
        None,
        low=0.2,
        high=10,
    )
    correlation: str | None = _key(
        "none: without the preset's bursts and lemon nodes", None, words=CORRELATIONS
    )
    days: float | None = _key("length of a synthetic trace, days", None, above=0, high=36_525)
    seed: int = _key(
        "seed of a synthetic trace, of assumed app-level faults and of starts that fail",
        1,
        low=0,
        high=MOST_SEED,
    )
    redraws: int = _key(
        "further draws of a synthetic trace, which tell how sure the answer is", 4, low=0, high=100
    )
    start: str = _key("clean: no GPU is down at t = 0; steady: rates have run before", "clean", words=STARTS)
    severity: dict[str, str] = field(
        default_factory=dict,
        metadata={"doc": 'component, code ("xid 79") or reason -> down, degraded, app or info'},
    )
    may_compute: tuple[str, ...] = _key(
        "components or reasons that may leave a node computing: the report shows the headline both ways", ()
    )
    exclude: tuple[str, ...] = _key("components, codes or reasons that are left out", ())
    planned: str | None = _key(
        "down: planned work counts as the log says; ignore: it is no failure; left out: ignore, but down "
        "where a trace of failures has it among them",
        None,
        words=PLANNED,
    )
    assumed_repair_h: dict[str, float] = field(
        default_factory=dict,
        metadata={
            "doc": "component -> repair time, hours, for logs that tell no ends; left out: public medians"
        },
    )
    fold_s: float = _key(
        "repeats of one fault within this are one incident, seconds, in logs that tell no ends",
        300,
        low=0,
        high=LONGEST_S,
    )
    cause_lead_s: float = _key(
        "a fault of a log without ends is part of an outage that another log begins this much later, seconds",
        900,
        low=0,
        high=LONGEST_S,
    )
    app_faults_per_1000_node_d: float = _key(
        "assumed app-level faults (crashes, hangs: the job stops, no GPU is down) beside those of the trace, "
        "per 1,000 node-days of the pool's nodes",
        0,
        low=0,
        high=10_000,
    )

    @property
    def assumed_per_1000_node_d(self) -> float:
        """Rate of the assumed app-level faults; 0 when `severity` or `exclude` leaves them out."""
        for word in (ASSUMED_REASON, ASSUMED_COMPONENT):
            choice = "info" if word in self.exclude else self.severity.get(word)
            if choice is not None:
                return 0.0 if choice in {"info", "degraded"} else self.app_faults_per_1000_node_d
        return self.app_faults_per_1000_node_d

    def redraw_seed(self, number: int) -> int:
        """Seed of the n-th redraw: the n-th after the trace's own, 0 after the highest."""
        return (self.seed + number) % (MOST_SEED + 1)

    @property
    def is_synthetic(self) -> bool:
        """Whether failures are drawn, with made-up node names and `days` from a made-up day 0."""
        return self.preset is not None or self.bootstrap is not None

    def repair_h(self, component: str) -> float:
        """Return the repair time that is assumed where a log tells no end, hours."""
        return self.assumed_repair_h.get(component) or REPAIR_H.get(component) or REPAIR_H["other"]


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """The machines: nodes, GPUs, scale-up domains and how nodes are laid onto them."""

    nodes: int = _key(
        "nodes of the cluster, failed or not; left out: those of the topology", 0, low=1, high=10_000_000
    )
    gpus_per_node: int = _key("GPUs in a node", 8, low=1, high=1_024)
    domain_size: int = _key("GPUs in a scale-up domain", low=1, high=65_536)
    fabric: str = _key(
        "which domains can join in one TP group: domains (none), ocs (any), k-hop-ring (healthy neighbours)",
        "domains",
    )
    k_hop: int = _key("how far links of a k-hop-ring reach, domains", 2, low=1, high=64)
    placement: str = _key("how nodes are laid onto domains", "random", words=PLACEMENTS)
    placement_seeds: tuple[int, ...] = _key("seeds of random placements", (0,), low=0, high=MOST_SEED)
    topology: str | None = _key(
        "file that says which domain each node lies in; left out: the one that was ingested with the log",
        None,
    )
    topology_label: str | None = _key(
        "label of Kubernetes nodes that names the domain, for a topology in JSON; left out: the first known "
        "one that all nodes with GPUs have",
        None,
    )
    uneven_domains: str | None = _key(
        "refuse or drop domains of another size in the topology; left out: refuse", None, words=UNEVEN
    )
    blast_radius: dict[str, int | str] = field(
        default_factory=dict,
        metadata={"doc": "component -> what its faults take out: gpu, node, domain or a number of GPUs"},
    )
    layout: Layout | None = field(default=None, metadata={"derived": True})

    @property
    def pool_domains(self) -> int:
        """Whole domains that the nodes fill; with a topology, its domains of the right size."""
        if self.layout is not None:
            return self.layout.domains
        return self.nodes * self.gpus_per_node // self.domain_size

    @property
    def pool_gpus(self) -> int:
        """GPUs in whole domains."""
        return self.pool_domains * self.domain_size


@dataclass(frozen=True, kw_only=True)
class Job:
    """The training job's shape."""

    tp: int = _key("tensor-parallel degree", low=1)
    pp: int = _key("pipeline-parallel degree", 1, low=1)
    cp: int = _key("context-parallel degree", 1, low=1)
    dp: int | None = _key("replicas; left out: as many as fit beside the spares", None, low=1)
    samples_per_replica: int = _key("samples a replica does per iteration", 8, low=1)
    virtual_stages: int = _key("virtual pipeline stages", 1, low=1)

    @property
    def groups_per_replica(self) -> int:
        """TP groups in a replica."""
        return self.pp * self.cp


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What a stop and a save cost, in seconds."""

    detect_s: float = _key("from the fault until it is noticed", 120, low=0, high=LONGEST_S)
    restart_s: float = _key("re-init, load and re-shard", 600, low=0, high=LONGEST_S)
    reconfigure_s: float = _key("a planned change of configuration", 300, low=0, high=LONGEST_S)
    checkpoint_interval_s: float | str = _key(
        "running time between saves, or young / daly", "young", above=0, high=LONGEST_S, words=INTERVAL_RULES
    )
    checkpoint_save_s: float = _key("the blocking part of a save", 10, low=0, high=LONGEST_S)
    # A hang shows when a collective runs out of time: PyTorch waits 600 s (pytorch/pytorch pull 110947).
    detect_by_component: dict[str, float] = field(
        default_factory=dict,
        hash=False,
        metadata={
            "doc": "component -> from its fault until it is noticed, seconds, e.g. 600 where PyTorch ends a "
            "hang; left out: detect_s"
        },
    )
    # Silent data corruption: arXiv 2102.11245; Llama 3 lists it among its causes (arXiv 2407.21783 table 5).
    silent_components: tuple[str, ...] = _key(
        "components whose faults corrupt the job unseen: it runs on until they are noticed, and all since "
        "the fault is void",
        (),
    )
    checkpoint_durable_s: float = _key(
        "from a save until its write has reached durable storage; after a fault that takes GPUs the job goes "
        "back to the last save that had",
        0,
        low=0,
        high=LONGEST_S,
    )
    restart_fail_frac: float = _key(
        "share of starts that fail at their end and are made again", 0, low=0, high=0.99
    )
    # Both assumed; FT-HSDP (arXiv 2602.00277) reports 3 min for the whole stall.
    regroup_s: float = _key(
        'with stops = "replica": how long the other replicas stall after a fault, noticing it included',
        60,
        low=0,
        high=LONGEST_S,
    )
    rejoin_s: float = _key(
        'with stops = "replica": how long the job stalls when replicas join', 60, low=0, high=LONGEST_S
    )


@dataclass(frozen=True, kw_only=True)
class Power:
    """Power of a GPU and of its rack; the shipped fractions are assumptions."""

    tdp_w: float = _key("thermal design power of a GPU, watts", 1_000, above=0)
    boost_cap: float = _key("highest power of a boosted GPU, TDP", 1.3, low=1, high=3)
    rack_headroom_frac: float = _key("rack power beyond all GPUs at TDP", 0.1, low=0, high=2)
    boosted_domains_frac: float = _key(
        "facility's cap: the most domains that may be boosted at once, of the pool", 1, low=0, high=1
    )
    curve: tuple[tuple[float, float], ...] = _key(
        "points (power in TDP, speed), first (1, 1)", ((1.0, 1.0), (1.1, 1.069), (1.2, 1.122), (1.3, 1.17))
    )
    draw_frac: float = _key("power of a GPU at work, TDP", 0.8, low=0, high=1)
    idle_frac: float = _key("power of a healthy GPU without work, TDP", 0.2, low=0, high=1)
    overhead_w: float = _key("power beside the GPUs, watts per GPU of the pool", 300, low=0)


@dataclass(frozen=True, kw_only=True)
class StepTime:
    """How much slower a TP group is at a reduced degree; a plan's details for the step-time model."""

    kind: str = _key(
        "ideal: TP/t, which flatters; table: as measured in `path`; model: computed from [model] and [gpu]",
        "ideal",
        words=STEP_TIMES,
    )
    path: str | None = _key(
        "CSV of measured steps, columns tp and seconds, relative to the scenario file; with kind model the "
        "model is calibrated on it",
        None,
    )
    microbatch_samples: int = _key("sequences in a microbatch, which is one sample of [job]", 1, low=1)
    dtype: str = _key("what matrix products compute in", "bf16", words=DTYPES)
    recompute: str = _key("activations that are computed again", "none", words=RECOMPUTES)
    zero_stage: int = _key(
        "over DP, 0: nothing is sharded, 1: optimizer states, 2: gradients too", 1, low=0, high=2
    )
    tp_hidden_frac: float = _key("share of TP collectives that runs behind computing", 0, low=0, high=1)
    measured: tuple[tuple[int, float], ...] = field(default=(), metadata={"derived": True})


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model that is trained: a preset, its numbers changed or all given here."""

    preset: str | None = _key("a name from `goodput perf`", None)
    layers: int | None = _key("transformer layers", None, low=1)
    hidden: int | None = _key("width of the hidden states", None, low=1)
    heads: int | None = _key("query heads of attention", None, low=1)
    kv_heads: int | None = _key("heads of keys and values", None, low=1)
    head_dim: int | None = _key("width of a head", None, low=1)
    ffn_hidden: int | None = _key("columns of the FFN", None, low=1)
    ffn_matrices: int | None = _key("matrices of the FFN: 2, or 3 when gated", None, low=2, high=3)
    vocab: int | None = _key("rows of the embedding", None, low=1)
    seq: int | None = _key("tokens of a sequence", None, low=1)
    tie_embeddings: bool | None = _key("one table serves input and output", None)


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """The GPU and its links: a preset, its numbers changed or all given here."""

    preset: str | None = _key("a name from `goodput perf`", None)
    processors: int | None = _key("processors (SMs) that compute a tile each", None, low=1)
    bf16_flop_per_s: float | None = _key("dense peak, FLOP/s", None, above=0)
    gemm_bf16_frac: float | None = _key("share of it that a large product reaches", None, above=0, high=1)
    fp8_flop_per_s: float | None = _key("dense peak, FLOP/s; 0: none", None, low=0)
    gemm_fp8_frac: float | None = _key("share of it that a large product reaches", None, low=0, high=1)
    attention_frac: float | None = _key("share of the bf16 peak in fused attention", None, above=0, high=1)
    hbm_bytes: float | None = _key("memory", None, above=0)
    hbm_bytes_per_s: float | None = _key("bandwidth of the memory", None, above=0)
    hbm_frac: float | None = _key("share of it that is reached", None, above=0, high=1)
    nvlink_bytes_per_s: float | None = _key("bandwidth in the domain, one direction", None, above=0)
    nvlink_frac: float | None = _key("share of it that is reached", None, above=0, high=1)
    nvlink_latency_s: float | None = _key("time of an empty message", None, low=0)
    nic_bytes_per_s: float | None = _key("bandwidth of the network a GPU, one direction", None, above=0)
    nic_frac: float | None = _key("share of it that is reached", None, above=0, high=1)
    nic_latency_s: float | None = _key("time of an empty message", None, low=0)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One way to live with failures; its `costs` start from the scenario's."""

    name: str = _key("name in tables and charts")
    response: str = _key("what a replica with failures does, a name from `goodput policies`")
    batch: str | None = _key("batch rule; left out: the response's own default", None, words=BATCHES)
    packing: str = _key("how groups are cut into replicas", "packed", words=PACKINGS)
    spare_domains: int = _key("domains held back", 0, low=0)
    reexpand: str = _key("when repaired capacity is taken up", "next_interruption", words=REEXPANDS)
    stops: str = _key(
        "what a fault of GPUs in use stops: the job, or the replica that they belong to", "job", words=STOPS
    )
    reduced_tp: tuple[int, ...] = _key("allowed reduced TP degrees", (), low=1)
    templates_pp: tuple[int, ...] = _key(
        "fewer pipeline stages that a replica may run with; left out, with [model] and [gpu]: all that fit "
        "into memory",
        (),
        low=1,
    )
    reshard_overhead_frac: float | str = _key(
        "longer iteration while a reduced replica runs; model: computed from [model] and [gpu]",
        0.01,
        low=0,
        high=1,
        words=OVERHEAD_RULES,
    )
    costs: Costs = field(default_factory=Costs, metadata={"doc": "overrides of [costs]"})


_PARTS = ("title", "trace", "cluster", "job", "costs", "power", "policies", "step_time", "model", "gpu")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One question: a trace, a cluster, a job and the policies to compare."""

    name: str
    path: Path
    title: str
    trace: Trace
    cluster: Cluster
    job: Job
    costs: Costs
    power: Power
    policies: tuple[Policy, ...]
    step_time: StepTime = field(default_factory=StepTime)
    model: Model = field(default_factory=Model)
    gpu: Gpu = field(default_factory=Gpu)
    topology_path: Path | None = None  # what it says is in cluster.layout

    def fingerprint(self, *parts: str) -> str:
        """Return a hash of the named parts (all of them when none is named)."""
        chosen = parts or _PARTS
        values = {part: _plain(getattr(self, part)) for part in chosen}
        return hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()

    def replicas_beside(self, spare_domains: int) -> int:
        """Return the replicas that fit in the pool less `spare_domains` domains."""
        groups = max(1, self.cluster.domain_size // self.job.tp)
        domains = max(0, self.cluster.pool_domains - spare_domains)
        return domains * groups // (self.job.groups_per_replica * self.domains_per_group)

    @property
    def domains_per_group(self) -> int:
        """Domains that one TP group spans; above 1 only in a fabric that joins domains."""
        return max(1, self.job.tp // self.cluster.domain_size)


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
