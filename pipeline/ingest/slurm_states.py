"""Slurm's words for the state of a node, and what they mean for its GPUs.

In: a state as any Slurm command prints it: a long or compact word in either case (`DRAINED`, `drng`), flags
joined by `+` (`IDLE+DRAIN`), suffix signs (`DOWN*`, `drain*+`), a JSON list, or sacctmgr's bit field. Out: a
`Verdict` (code, severity, component), or None for a node that can do its work. And a component for a reason.
Easy to get wrong: `DRAIN` on a busy node is a drain that still computes, alone it is a node withheld; a
powered-down cloud node is capacity, not a failure, but one that is also DOWN has failed; `main*` in a column
PARTITION is the default partition and no state.
Choices, where Slurm leaves the meaning to the reader: withheld nodes (DRAINED, FAIL, INVAL) are down, since
no job gets their GPUs; a node that finishes its job first (DRAINING, FAILING) or is silent but not yet set
DOWN is degraded, which takes no GPU; maintenance and reboots are down with component planned, also while a
job of the maintenance reservation runs; power saving, FUTURE and UNKNOWN are info.
Source: man pages sinfo(1), scontrol(1), sacctmgr(1); the bits are those of slurm.h.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from pipeline.ingest.parsing import RefusedError

NO_STATE = "no state"
UNKNOWN_STATE = "not a node state of Slurm's"
CUT_STATE = "a state that is cut off after '+'"


class Verdict(NamedTuple):
    """What a state means: its code, its severity, and the component when the state itself tells it."""

    code: str
    severity: str
    component: str | None = None


# Flags of ours; the words below map Slurm's onto them.
_BUSY, _UP, _POWER, _REBOOTING = "BUSY", "UP", "POWER", "REBOOT"

WORDS: dict[str, tuple[str, ...]] = {
    "DOWN": ("DOWN",),
    "ERROR": ("DOWN",),
    "ERR": ("DOWN",),
    "FAIL": ("FAIL",),
    "FAILED": ("FAIL",),
    "FAILING": ("FAIL", _BUSY),
    "FAILG": ("FAIL", _BUSY),
    "DRAIN": ("DRAIN",),
    "DRAINED": ("DRAIN",),
    "DRAINING": ("DRAIN", _BUSY),
    "DRNG": ("DRAIN", _BUSY),
    "INVAL": ("INVAL",),
    "INVALID": ("INVAL",),
    "INVALID_REG": ("INVAL",),
    "MAINT": ("MAINT",),
    "MAINTENANCE": ("MAINT",),
    "BOOT": (_REBOOTING,),
    "REBOOT": (_REBOOTING,),
    "REBOOT_ISSUED": (_REBOOTING,),
    "REBOOT_REQUESTED": (_UP,),  # asked for; the node still works
    "REBOOT_REQ": (_UP,),
    "REBOOT_CANCELED": (_UP,),
    "CANCEL_REBOOT": (_UP,),
    "CANC_R": (_UP,),
    "NOT_RESPONDING": ("NOT_RESPONDING",),
    "NO_RESPOND": ("NOT_RESPONDING",),
    "POWERED_DOWN": (_POWER,),
    "POWERING_DOWN": (_POWER,),
    "POWERING_UP": (_POWER,),
    "POWER_UP": (_POWER,),
    "POW_DN": (_POWER,),
    "POW_UP": (_POWER,),
    "POWER_DOWN": (_UP,),  # asked for; the node still works
    "POWER_DRAIN": (_UP,),
    "FUTURE": ("FUTURE",),
    "FUTR": ("FUTURE",),
    "UNKNOWN": ("UNKNOWN",),
    "UNK": ("UNKNOWN",),
    "IDLE": (_UP,),
    "ALLOCATED": (_UP, _BUSY),
    "ALLOC": (_UP, _BUSY),
    "MIXED": (_UP, _BUSY),
    "MIX": (_UP, _BUSY),
    "COMPLETING": (_UP, _BUSY),
    "COMP": (_UP, _BUSY),
    "RESERVED": (_UP,),
    "RESV": (_UP,),
    "PLANNED": (_UP,),  # by the backfill scheduler for a job that is to start
    "PLND": (_UP,),
    "BLOCKED": (_UP,),
    "BLOCK": (_UP,),
    "PERFCTRS": (_UP,),
    "NPC": (_UP,),
    "CLOUD": (_UP,),
    "EXTERNAL": (_UP,),
    "RESUME": (_UP,),
    "UNDRAIN": (_UP,),
    "DYNAMIC_NORM": (_UP,),
    "DYNAMIC_FUTURE": (_UP,),
}

SIGNS: dict[str, tuple[str, ...]] = {
    "*": ("NOT_RESPONDING",),
    "~": (_POWER,),  # powered off
    "#": (_POWER,),  # powering up or being configured
    "%": (_POWER,),  # powering down
    "$": ("MAINT",),
    "^": (_REBOOTING,),
    "@": (),  # reboot pending
    "!": (),  # power-down pending
    "-": (),  # planned by the backfill scheduler
}

# The first line whose flags are all there decides; a node that none fits can work.
VERDICTS: tuple[tuple[tuple[str, ...], Verdict], ...] = (
    (("DOWN", "MAINT"), Verdict("DOWN", "down", "planned")),
    (("DOWN", _REBOOTING), Verdict("DOWN", "down", "planned")),  # what `scontrol reboot` sets
    (("DOWN",), Verdict("DOWN", "down")),
    (("FAIL", _BUSY), Verdict("FAILING", "degraded")),
    (("FAIL",), Verdict("FAIL", "down")),
    (("DRAIN", _BUSY, "MAINT"), Verdict("DRAINING", "degraded", "planned")),
    (("DRAIN", _BUSY), Verdict("DRAINING", "degraded")),
    (("DRAIN", "MAINT"), Verdict("DRAIN", "down", "planned")),
    (("DRAIN", _REBOOTING), Verdict("DRAIN", "down", "planned")),
    (("DRAIN",), Verdict("DRAIN", "down")),
    (("INVAL",), Verdict("INVAL", "down")),
    (("MAINT",), Verdict("MAINT", "down", "planned")),
    ((_REBOOTING,), Verdict("REBOOT", "down", "planned")),
    ((_POWER,), Verdict("POWER", "info", "planned")),
    (("FUTURE",), Verdict("FUTURE", "info", "planned")),
    (("NOT_RESPONDING",), Verdict("NOT_RESPONDING", "degraded")),
    (("UNKNOWN",), Verdict("UNKNOWN", "info")),
)

NOT_RESPONDING = Verdict("NOT_RESPONDING", "degraded")

# sacctmgr's StateRaw: the base state in the lowest four bits, then one bit a flag.
_BASES = ("UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE")
_BITS = {
    9: "DRAIN", 10: "COMPLETING", 11: "NOT_RESPONDING", 12: "POWERED_DOWN", 13: "FAIL", 14: "POWERING_UP",
    15: "MAINT", 18: "POWERING_DOWN", 20: "REBOOT_ISSUED", 22: "INVALID_REG",
}  # fmt: skip
_BITS_END = 32
# Listings cut long words to the width of the column; shorter beginnings fit several words.
_SHORTEST_CUT = 8
_CACHED = 4096

_START, _END = "(?<![a-z])(?:", ")(?![a-z])"
# Component -> words, the first that is found decides. First what Slurm itself writes, then what sites write.
REASONS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (component, re.compile(_START + words + _END))
    for component, words in (
        ("planned", "maint|maintenance|patching|upgrade|upgrading|planned|scheduled|reboot asap"),
        ("planned", "reboot requested|reboot issued|reboot complete|power_down_asap"),
        ("nvlink", "nvlink|nvswitch|fabric ?manager"),
        ("hbm", "ecc|hbm|row[ _-]?remap[a-z]*|retired pages?"),
        ("gpu", "gres/gpu|gpus?|xid|nvidia|nvidia-smi|cuda|dcgm|rocm"),
        ("cable", "cables?|transceivers?|optics?"),
        ("nic", "infiniband|ib|nics?|hca|mlx|rdma|roce|omnipath"),
        ("storage", "beegfs|lustre|nfs|gpfs|weka|ceph|file ?systems?|disks?|tmpdisk|nvme|mounts?|ssd"),
        ("power", "psu|power suppl(?:y|ies)"),
        ("cooling", "fans?|temperature|thermal|cooling|leak"),
        ("host", r"realmemory|dimms?|motherboard|bmc|socket\*core\*thread count|cpus"),
        ("software", "kill task failed|prolog|epilog|batch job complete failure|job env|resumetimeout"),
        ("software", "slurmd|slurmctld|slurmdbd|munge"),
    )
)


@lru_cache(maxsize=_CACHED)
def judge(state: str) -> Verdict | None:
    """Return what a state means, or None for a node that can work; refuse what is no state."""
    flags: set[str] = set()
    words = state.strip().upper().split("+")
    if words == [""]:
        raise RefusedError(NO_STATE)
    if words[-1] == "":
        # Before 2.2 a plus behind ALLOC meant jobs that complete; elsewhere it says that flags were cut off.
        if words[:-1] not in (["ALLOC"], ["ALLOCATED"]):
            raise RefusedError(CUT_STATE)
        words.pop()
    for word in words:
        flags |= _flags(word)
    for needed, verdict in VERDICTS:
        if flags.issuperset(needed):
            return verdict
    return None


def judge_all(words: Iterable[str]) -> Verdict | None:
    """Return what a list of words (JSON's `state`, `state_flags`) means."""
    return judge("+".join(words))


def judge_bits(text: str) -> Verdict | None:
    """Return what sacctmgr's StateRaw, a whole number as text, means."""
    if not re.fullmatch("[0-9]{1,10}", text) or int(text) >> _BITS_END:
        raise RefusedError(UNKNOWN_STATE)
    bits = int(text)
    if bits & 0xF >= len(_BASES):
        raise RefusedError(UNKNOWN_STATE)
    return judge_all([_BASES[bits & 0xF], *(word for bit, word in _BITS.items() if bits >> bit & 1)])


@lru_cache(maxsize=_CACHED)
def component_of(reason: str) -> str:
    """Return the component that the words of a reason name, else `unknown`."""
    lower = reason.lower()
    return next((component for component, pattern in REASONS if pattern.search(lower)), "unknown")


def _flags(word: str) -> set[str]:
    flags: set[str] = set()
    while word and word[-1] in SIGNS:
        flags.update(SIGNS[word[-1]])
        word = word[:-1]
    known = WORDS.get(word)
    if known is None and len(word) >= _SHORTEST_CUT:
        fits = {flags for long, flags in WORDS.items() if long.startswith(word)}
        known = fits.pop() if len(fits) == 1 else None
    if known is None:
        raise RefusedError(UNKNOWN_STATE)
    return flags.union(known)
