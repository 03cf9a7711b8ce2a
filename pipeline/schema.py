"""The columns of every stored table: name, type, unit in the name, meaning.

One definition serves the Arrow schemas that files are written with, the comments in the catalog
and the documentation. Instants are UTC microseconds; intervals are `[t_start, t_end)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

TEXT, INT, FLOAT, TIME, BOOL = "text", "int", "float", "time", "bool"

SEVERITIES = ("down", "degraded", "app", "info")
SCOPES = ("gpu", "node", "domain")
KINDS = ("onset", "clear", "interval")
CAPACITY = "capacity"  # taken back by whoever lends it (spot): no failure, never mixed with failures unsaid
COMPONENTS = (
    "gpu",
    "hbm",
    "nvlink",
    "nic",
    "cable",
    "host",
    "power",
    "cooling",
    "storage",
    "software",
    "planned",
    CAPACITY,
    "unknown",
)

# The ledger's buckets in the order people read them (model.md section 7). `gain` is subtracted.
BUCKETS = (
    "productive",
    "failed",
    "stranded",
    "paused",
    "rework",
    "detect",
    "restart",
    "reconfigure",
    "checkpoint",
    "overhead",
    "spare_idle",
    "static",
    "gain",
)
BUCKET_MEANING = {
    "productive": "work kept, in GPU-hours of a healthy job",
    "failed": "the GPU itself is unavailable",
    "stranded": "healthy while the job runs, but without work: dropped replicas, rounding, fragments",
    "paused": "healthy while the job waits for capacity",
    "rework": "productive once, lost to a rollback",
    "detect": "healthy while a fault is being noticed",
    "restart": "healthy while the job starts again",
    "reconfigure": "healthy during a planned change of configuration",
    "checkpoint": "healthy while the job is blocked by a save",
    "overhead": "resharding between unequal replicas",
    "spare_idle": "healthy GPUs of full groups beyond what the job needs",
    "static": "healthy, can never be used with this TP and domain size",
    "gain": "subtracted: work beyond the number of GPUs that did it (boosted clocks)",
}


@dataclass(frozen=True)
class Column:
    """One column: its name (unit as suffix), type and meaning."""

    name: str
    type: str
    meaning: str


def _columns(*rows: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*row) for row in rows)


_SCENARIO = ("scenario", TEXT, "name of the scenario, the stem of its TOML file")
_SEED = ("placement_seed", INT, "seed of the placement of nodes onto domains")
_DOMAIN = ("domain_id", INT, "scale-up domain, 0 .. domains - 1")
_FIRST = ("gpu_first", INT, "first GPU of the range, 0 .. domain_size - 1")
_LAST = ("gpu_last", INT, "last GPU of the range, inclusive")
_START = ("t_start", TIME, "start of the interval, UTC, inclusive")
_END = ("t_end", TIME, "end of the interval, UTC, exclusive")

TABLES: dict[str, tuple[Column, ...]] = {
    "events": _columns(
        ("event_id", TEXT, "hash of the content; a row that was sent again has the same id"),
        ("cluster", TEXT, "name of the cluster the log belongs to"),
        ("source", TEXT, "log format, a name from `goodput sources`"),
        ("t_start", TIME, "instant of the event, UTC; start for kind interval"),
        ("t_end", TIME, "end, UTC, for kind interval; null: still open, or not of that kind"),
        ("kind", TEXT, "onset, clear or interval"),
        ("node", TEXT, "server; null when the fault is of a domain"),
        ("gpu", INT, "GPU index within the node; null: the whole node"),
        (
            "gpu_name",
            TEXT,
            "GPU as the log names it, a PCI address or UUID; null when it does not",
        ),
        ("gpu_uuid", TEXT, "its UUID, where the log gives that beside another gpu_name"),
        ("domain", TEXT, "scale-up domain as the log names it; null when it does not"),
        ("severity", TEXT, "down, degraded, app or info, as the source says"),
        ("scope", TEXT, "gpu, node or domain: what the fault takes out"),
        ("component", TEXT, "what failed, one of the fixed list of components"),
        ("code", TEXT, "the fault's identity in the log; an onset and its clear carry the same code"),
        ("reason", TEXT, "the log's own words"),
        ("file", TEXT, "name of the file the row stands in"),
        ("row", INT, "place of the row in its file, from 1"),
        ("as_of", TIME, "instant up to which the log knows, UTC: its own, else as said; null: neither"),
    ),
    "rejects": _columns(
        ("source", TEXT, "log format the file was read as"),
        ("file", TEXT, "name of the file the row stands in"),
        ("row", INT, "place of the row in its file, from 1"),
        ("reason", TEXT, "why the row was refused"),
        ("text", TEXT, "the row as it stood, cut at 500 characters"),
    ),
    "files": _columns(
        ("file", TEXT, "name of the ingested file"),
        ("sha256", TEXT, "hash of its bytes"),
        ("source", TEXT, "log format it was read as"),
        ("source_version", TEXT, "version of the reader"),
        ("rows_read", INT, "rows found in the file"),
        ("rows_accepted", INT, "rows that became events"),
        ("rows_rejected", INT, "rows refused, each in `rejects` with its reason"),
        ("ingested_at", TIME, "when the file was read, UTC"),
    ),
    "outages": _columns(
        (
            "outage_id",
            TEXT,
            "event_id of the onset, in the log that is sure of the whole node; assumed-app-N when assumed",
        ),
        _SCENARIO,
        ("node", TEXT, "server; null when the fault is of a domain, or an assumed app-level fault"),
        ("gpu", INT, "GPU index within the node; null: the whole node"),
        ("domain_id", INT, "null: outages are of nodes; gpu_downtime has the domain for each placement"),
        _START,
        _END,
        ("duration_s", FLOAT, "length in seconds as logged; up to the window's end when still open"),
        ("component", TEXT, "what failed, as the log says that tells most"),
        ("severity", TEXT, "down, degraded, app or info after the scenario's choice"),
        ("reason", TEXT, "that log's own words"),
        ("is_censored", BOOL, "still open at the window's end"),
        (
            "end_origin",
            TEXT,
            "logged, assumed, as_of (open when the log was taken) or window (open at its end)",
        ),
        ("events", INT, "accepted rows that were folded into this outage; 0: an assumed app-level fault"),
    ),
    "gpu_downtime": _columns(_SCENARIO, _SEED, _DOMAIN, _FIRST, _LAST, _START, _END),
    "onsets": _columns(
        _SCENARIO,
        _SEED,
        ("t", TIME, "instant at which GPUs that were up went down, UTC"),
        _DOMAIN,
        _FIRST,
        _LAST,
        ("severity", TEXT, "down, or app for a fault that takes no GPU away"),
        ("outage_id", TEXT, "the outage that began"),
        ("component", TEXT, "what failed"),
    ),
    "domain_timeline": _columns(
        _SCENARIO, _SEED, _DOMAIN, _START, _END, ("failed_gpus", INT, "GPUs down in the domain")
    ),
    "cluster_timeline": _columns(
        _SCENARIO,
        _SEED,
        _START,
        _END,
        ("failed_gpus", INT, "GPUs down in the pool"),
        ("dirty_domains", INT, "domains with at least one GPU down"),
    ),
    "domain_tail": _columns(
        _SCENARIO,
        _SEED,
        _START,
        _END,
        ("k", INT, "number of failed GPUs"),
        ("domains_with_at_least_k", INT, "domains with k or more GPUs down"),
    ),
    "placements": _columns(
        _SCENARIO,
        _SEED,
        ("node", TEXT, "server"),
        ("domain", TEXT, "name of its domain in the topology; null without one"),
        ("domain_id", INT, "domain it lies in; null: unplaced, outside the pool"),
        ("node_gpu_first", INT, "first of the node's own GPUs that lies in the domain"),
        ("gpu_first", INT, "where that GPU stands in the domain"),
        ("gpus", INT, "number of GPUs of the node in this domain"),
    ),
    "outcomes": _columns(
        _SCENARIO,
        ("policy", TEXT, "name of the policy in the scenario"),
        ("response", TEXT, "what a replica with failures does"),
        ("batch", TEXT, "batch rule: elastic, pause or stretch"),
        ("spare_domains", INT, "domains held back for the policy"),
        _SEED,
        ("replication", INT, "replication of a sweep; 0 for a single replay"),
        ("dp", INT, "data-parallel replicas the job has when healthy"),
        ("idle_domains", INT, "domains beside the spares that fill no whole replica"),
        ("checkpoint_interval_s", FLOAT, "running time between saves, seconds"),
        ("goodput_frac", FLOAT, "productive over total, of the whole pool"),
        ("ettr_frac", FLOAT, "share of wall time in which work that was kept was done"),
        ("interruptions", INT, "stops from running or saving"),
        ("planned_stops", INT, "planned changes of configuration"),
        ("total_gpu_h", FLOAT, "GPU-hours of the pool over the window"),
        *((f"{bucket}_gpu_h", FLOAT, BUCKET_MEANING[bucket] + ", GPU-hours") for bucket in BUCKETS),
        ("energy_kwh", FLOAT, "energy of the pool over the window, from assumed power fractions"),
    ),
    "outcome_timeline": _columns(
        _SCENARIO,
        ("policy", TEXT, "name of the policy in the scenario"),
        _SEED,
        _START,
        _END,
        ("state", TEXT, "running, saving, starting, reconfiguring or paused"),
        ("relative_throughput_frac", FLOAT, "throughput over that of the healthy job; 0 unless running"),
        ("replicas", INT, "replicas in use"),
        ("failed_gpus", INT, "GPUs down in the pool"),
    ),
    "runs": _columns(
        ("run_id", TEXT, "one run of one stage"),
        ("stage", TEXT, "ingest, timelines, replay, catalog or report"),
        ("scenario", TEXT, "name of the scenario; empty for ingest by hand"),
        ("started_at", TIME, "UTC"),
        ("ended_at", TIME, "UTC"),
        ("code_version", TEXT, "hash of the stage's code, comments left out"),
        ("input_hash", TEXT, "hash of all the stage read"),
        ("seed", TEXT, "seeds of the run"),
        ("status", TEXT, "done or failed"),
    ),
}


TABLES["splits"] = TABLES["outcomes"]
TABLES["what_ifs"] = (
    *TABLES["outcomes"],
    Column(
        "what_if",
        TEXT,
        "half_repair, double_repair: repair times; without_X: component X never fails; healthy_lemons: the "
        "nodes of worst_nodes never fail; may_compute: what may leave a node computing stops nothing; "
        "redraw_N: another draw of a synthetic trace; half_ and double_restart, _interval, _samples: length "
        "of a start, time between saves, samples a replica; half_boost, full_boost: speed that power brings",
    ),
)
TABLES["stops"] = _columns(
    _SCENARIO,
    ("policy", TEXT, "name of the policy in the scenario"),
    ("batch", TEXT, "batch rule: elastic, pause or stretch"),
    ("spare_domains", INT, "domains held back for the policy"),
    _SEED,
    ("t", TIME, "instant of the stop, UTC"),
    (
        "state",
        TEXT,
        "what the job was doing; an interruption from running or saving, else a start struck again",
    ),
    ("outage_id", TEXT, "an outage that took a GPU in use, or an app-level fault"),
    ("share_frac", FLOAT, "the outage's share of the stop: 1 over the number of outages at that instant"),
    ("rework_gpu_h", FLOAT, "work lost to the rollback, this outage's share, GPU-hours"),
    ("detect_gpu_h", FLOAT, BUCKET_MEANING["detect"] + ", this outage's share, GPU-hours"),
    ("restart_gpu_h", FLOAT, BUCKET_MEANING["restart"] + ", this outage's share, GPU-hours"),
)
TABLES["outage_rows"] = _columns(
    _SCENARIO,
    ("outage_id", TEXT, "the outage"),
    ("event_id", TEXT, "a row that it was made of"),
    (
        "part",
        TEXT,
        "onset, repeat, clear, interval; again: an open one told again; same: of another log; cause",
    ),
    ("source", TEXT, "log format"),
    ("file", TEXT, "file the row stands in"),
    ("row", INT, "place of the row in its file, from 1"),
    ("t", TIME, "instant of the row, UTC"),
    ("node", TEXT, "server"),
    ("gpu_name", TEXT, "GPU as the log names it"),
    ("code", TEXT, "the fault's identity in the log"),
    ("reason", TEXT, "the log's own words"),
)
TABLES["outage_parts"] = _columns(
    _SCENARIO,
    ("outage_id", TEXT, "the outage, one that takes GPUs away"),
    ("node", TEXT, "server; null when the fault is of a domain"),
    ("gpu", INT, "GPU index within the node; null: the whole node"),
    _START,
    _END,
)
TABLES["worst_nodes"] = _columns(
    _SCENARIO,
    ("node", TEXT, "server"),
    ("down_gpu_h", FLOAT, "GPU-hours down within the window, sums of outages"),
    ("outages", INT, "outages that meet the window"),
)
TABLES["unpaired_clears"] = _columns(
    _SCENARIO,
    ("source", TEXT, "log format"),
    ("file", TEXT, "file the row stands in"),
    ("row", INT, "place of the row in its file, from 1"),
    ("node", TEXT, "server"),
    ("t", TIME, "instant of the clear, UTC"),
    ("code", TEXT, "the fault that was not open"),
)
# Tables that only the next stage reads: the catalog has no view of them.
HIDDEN_TABLES = ("redrawn_events", "what_if_gpu_downtime", "what_if_onsets")
TABLE_MEANING = {
    "events": "accepted log rows, each once",
    "rejects": "refused log rows with the reason",
    "files": "ingested files",
    "outages": "one per fault of one entity, onsets paired with clears, before the union",
    "unpaired_clears": "clears that close no open fault, refused at pairing",
    "placements": "how nodes lie in domains, for every placement seed",
    "gpu_downtime": "when GPUs are down: the union of outages per GPU range",
    "onsets": "instants at which GPUs that were up go down, and app-level faults",
    "domain_timeline": "failed GPUs of each domain over time",
    "cluster_timeline": "failed GPUs and dirty domains of the pool over time",
    "domain_tail": "domains with at least k failed GPUs over time",
    "outcomes": "the ledger of each policy of a scenario, in GPU-hours",
    "outcome_timeline": "what state each policy's job is in over time",
    "splits": "outcomes of every policy and batch rule at many spare counts",
    "stops": "what stopped each job and what that cost, for policies as listed and at their best splits",
    "outage_rows": "which rows of which logs made each outage",
    "outage_parts": "what each outage takes: the node or a GPU, and when",
    "worst_nodes": "the worst hundredth of the nodes by downtime, at least one",
    "what_ifs": "outcomes at each policy's best split when something were different",
    "runs": "runs of stages",
}


def arrow_schema(table: str) -> pa.Schema:
    """Return the Arrow schema of a stored table."""
    import pyarrow as pa

    types = {
        TEXT: pa.string(),
        INT: pa.int64(),
        FLOAT: pa.float64(),
        TIME: pa.timestamp("us"),
        BOOL: pa.bool_(),
    }
    return pa.schema([pa.field(column.name, types[column.type]) for column in TABLES[table]])
