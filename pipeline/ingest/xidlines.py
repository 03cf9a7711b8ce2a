"""What a kernel message says of a GPU or a switch: Xid, SXid, a lost GPU, AMD's faults.

In: the text of a message, from the vendor's name on. Out: `Message`, or RefusedError for one that claims a
fault and cannot be read; `meaning_of`: what it means by itself, and the identity of its fault.
Easy to get wrong: the code is the first number after the bracket of the device; `PCI:`, the domain, the
function, a comma and anything behind may be missing. A GPU that fell off the bus may be told without a code:
79. The numbers of an Xid 154's actions hold, the words vary by driver.
Source: NVIDIA's open kernel modules and Xid catalogue; gpud, NVSentinel.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from pipeline.ingest import amd, xids
from pipeline.ingest.documents import gpu_name
from pipeline.ingest.parsing import RefusedError
from pipeline.ingest.xids import Meaning

NO_CODE = "no Xid code"
NO_DEVICE = "no PCI address"
XID, SXID, LOST = "xid", "sxid", "lost"
ADDRESS = r"(?:PCI:)?((?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"

_BEGINNINGS = ("NVRM:", "nvidia-nvswitch", "amdgpu ")
_CLAIM = re.compile(
    r"NVRM:\s*(?:Xid\b|The NVIDIA GPU\b|\(PCI ID:|installed in this|fallen off|loading NVIDIA"
    r"|GPU\b.{0,60}?fallen off the bus)"
    r"|nvidia-nvswitch[0-9]+: SXid\b|SXid \("
    r"|amdgpu [0-9a-f:.]{7,16}: "
)
_DEVICE = re.compile(rf"Xid\s*\({ADDRESS}\)\s*:\s*")
_NUMBER = re.compile(r"([0-9]{1,5})\b[\s,]*")
_USUAL = re.compile(rf"NVRM: Xid \({ADDRESS}\): ([1-9][0-9]{{0,4}})\b[\s,]*")
_LOST = re.compile(rf"NVRM:\s*(?:The NVIDIA )?GPU (?:at )?{ADDRESS}(?=[\s:,.]|$)")
_ACTION = re.compile(r"changed from 0x([0-9a-f]+).*? to 0x([0-9a-f]+)", re.IGNORECASE)
_FATAL = re.compile(r"(?<![A-Za-z-])fatal\b", re.IGNORECASE)


class Message(NamedTuple):
    """What a kernel message says: the vendor's family, its code, the device, and its words.

    `address` is as the log has it, `reason` the words from the code on.
    """

    family: str
    code: int | None
    address: str
    reason: str
    switch: str = ""


def claim(text: str) -> int:
    """Return where a message begins that may claim a fault; -1: nowhere."""
    places = [place for mark in _BEGINNINGS if (place := text.find(mark)) >= 0]
    if places and _CLAIM.match(text, min(places)):
        return min(places)
    hit = _CLAIM.search(text) if places or "SXid" in text else None
    return hit.start() if hit else -1


def parse(message: str) -> Message | None:
    """Return what a kernel message claims, None when it claims no fault; refuse one that cannot be read."""
    if message.startswith("amdgpu"):
        said = amd.parse(message)
        return Message(said.what, None, said.address, said.words) if said else None
    if hit := _USUAL.match(message):
        return Message(XID, int(hit[2]), hit[1], reason_of(hit[2], message[hit.end() :].rstrip()))
    if "Xid" in message[:40] and "fallen" not in message[:30]:
        return _unusual(message)
    if "GPU" not in message[:24]:
        return None
    hit = _LOST.match(message)
    if hit is None:
        raise RefusedError(NO_DEVICE)
    words = message.removeprefix("NVRM:").strip()
    if "fallen off the bus" in message:
        return Message(XID, 79, hit[1], words)
    return Message(LOST, None, hit[1], words)


def reason_of(code: object, words: str) -> str:
    """Return an Xid's reason."""
    return f"Xid {code}, {words}" if words else f"Xid {code}"


def _unusual(message: str) -> Message:
    device = _DEVICE.search(message)
    if device is None:
        raise RefusedError(NO_DEVICE)
    number = _NUMBER.match(message, device.end())
    if number is None:
        raise RefusedError(NO_CODE)
    words = message[number.end() :].strip()
    code = int(number[1])
    if "SXid" in message[:32]:
        switch = message.partition(":")[0] if message.startswith("nvidia-") else ""
        reason = f"SXid {code}, {words}" if not switch else f"SXid {code}, {switch}, {words}"
        return Message(SXID, code, device[1], reason, switch)
    return Message(XID, code, device[1], reason_of(code, words))


def recovery(reason: str) -> tuple[int, int] | None:
    """Return the actions that an Xid 154 changes from and to; None where it does not tell them."""
    hit = _ACTION.search(reason)
    return (int(hit[1][-8:], 16), int(hit[2][-8:], 16)) if hit else None


def meaning_of(message: Message, table: xids.Table) -> tuple[Meaning, str]:
    """Return what a message means by itself, and the identity of its fault."""
    code = message.code or 0
    if message.family == XID:
        meaning = table.meaning(code, message.reason)
        # Faults of one code that weigh differently are different faults: none opens or closes the other.
        weighs_less = table.has_rules(code) and meaning.severity != "down"
        return meaning, f"xid {code} {meaning.severity}" if weighs_less else f"xid {code}"
    if message.family == SXID:
        if _FATAL.search(message.reason):
            return Meaning("down", "domain", "nvlink"), f"sxid {code}"
        return Meaning("info", "domain", "nvlink"), f"sxid {code} non-fatal"
    if message.family in {amd.POISON, amd.CORRECTED}:
        return Meaning("info", "gpu", "hbm"), message.family
    is_reset = message.family in {amd.RESET, amd.RESET_DONE}
    return Meaning("down", "gpu", "gpu"), amd.RESET if is_reset else message.family


@functools.lru_cache(maxsize=4096)
def name_of(address: str) -> str | None:
    """Return the GPU's name of an address, None when it is no address."""
    return gpu_name(address)
