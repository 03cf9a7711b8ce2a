"""What a message of AMD's kernel driver says of a GPU: hardware errors (RAS), resets, status words.

In: a message that begins with `amdgpu`. Out: `Said`: what it is, the address, its words; None for no fault.
Easy to get wrong: a count of zero errors is no fault; "ECC is active" is none either. An entry of the
Accelerator Check Architecture is what its status word says: one that is valid and poisoned but not
uncorrected is a GPU that was handed bad data, and did not fail.
Source: amdgpu's messages in Linux; AMD's layout of MCA status words.
"""

from __future__ import annotations

import re
from typing import NamedTuple

UNCORRECTABLE, POISON, CORRECTED = "ras uncorrectable", "ras poison", "ras corrected"
RESET, RESET_DONE = "gpu reset", "gpu reset succeeded"

_MESSAGE = re.compile(r"amdgpu ([0-9a-f:.]+): (?:amdgpu: )?(?:\{[0-9]+\})?\s*(.*)", re.IGNORECASE)
_COUNT = re.compile(r"\b([0-9]+) (?:new )?(un|de)?(?:correctable|ferred) hardware errors? ")
_STATUS = re.compile(r"aca entry\[[0-9]+\]\.STATUS=0x([0-9a-f]{1,16})\b", re.IGNORECASE)
_DONE = re.compile(r"GPU reset(?:\([0-9]+\))? succeeded|GPU reset end with ret = 0\b")
_FAILED = re.compile(r"GPU reset(?:\([0-9]+\))? failed|GPU reset end with ret = -")
_VALID, _UNCORRECTED, _POISONED = 63, 61, 43  # bits of a status word


class Said(NamedTuple):
    """What a message says: one of the names above, the address as the log has it, its words."""

    what: str
    address: str
    words: str


class Status(NamedTuple):
    """The bits of a status word that decide."""

    is_valid: bool
    is_uncorrected: bool
    is_poisoned: bool


def parse(message: str) -> Said | None:
    """Return what a message says, None when it tells no fault and no end of one."""
    hit = _MESSAGE.match(message)
    what = _what(hit[2]) if hit else ""
    return Said(what, hit[1], hit[2]) if hit and what else None


def _what(words: str) -> str:
    if counted := _COUNT.search(words):
        known = UNCORRECTABLE if counted[2] == "un" else CORRECTED
        return known if counted[1].strip("0") else ""
    if "uncorrectable hardware error" in words:
        return UNCORRECTABLE
    if bits := status(words):
        if not bits.is_valid:
            return ""
        if bits.is_uncorrected:
            return UNCORRECTABLE
        return POISON if bits.is_poisoned else CORRECTED
    if "GPU reset begin" in words:
        return RESET
    if _DONE.search(words):
        return RESET_DONE
    return RESET if _FAILED.search(words) else ""


def status(words: str) -> Status | None:
    """Return the status word that a line of an entry tells, None when it tells none."""
    hit = _STATUS.search(words)
    if hit is None:
        return None
    word = int(hit[1], 16)
    return Status(bool(word >> _VALID & 1), bool(word >> _UNCORRECTED & 1), bool(word >> _POISONED & 1))
