"""A scenario: TOML -> frozen dataclasses, with exactly the known keys and every value in range.

Durations are seconds (`_s`) or days (`_d`), shares are fractions (`_frac`), power is watts (`_w`)
or multiples of TDP. Unknown keys, wrong types and values out of range are errors that name the
key, the value, what is allowed and the nearest valid key. Comments and the order of keys do not
count: `fingerprint` hashes the parsed values.
"""

from pipeline.config.model import (
    ASSUMED_COMPONENT,
    ASSUMED_REASON,
    BATCHES,
    INTERVAL_RULES,
    OVERHEAD_RULES,
    PLANNED_DOWN,
    PLANNED_IGNORE,
    Cluster,
    Costs,
    Gpu,
    Job,
    Model,
    Policy,
    Power,
    Scenario,
    StepTime,
    Trace,
)
from pipeline.config.reader import available, find, keys, load, parse
from pipeline.config.rules import instant, log_window, topology_of

__all__ = [
    "ASSUMED_COMPONENT",
    "ASSUMED_REASON",
    "BATCHES",
    "INTERVAL_RULES",
    "OVERHEAD_RULES",
    "PLANNED_DOWN",
    "PLANNED_IGNORE",
    "Cluster",
    "Costs",
    "Gpu",
    "Job",
    "Model",
    "Policy",
    "Power",
    "Scenario",
    "StepTime",
    "Trace",
    "available",
    "find",
    "instant",
    "keys",
    "load",
    "log_window",
    "parse",
    "topology_of",
]
