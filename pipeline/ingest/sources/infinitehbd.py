"""InfiniteHBD-Trace: 348 days of faults on 400 eight-GPU nodes (JSON, start and end rows).

In: a JSON array of {node_id, event_time, event_type, fault_type {Level, Class, Desc}}; `event_time` is in
DAYS since day 0, `event_type` is fault_start or fault_end. Out: `onset` and `clear` rows in file order; both
carry the code Level/Class/Desc, by which they are paired.
Easy to get wrong: file order breaks ties at equal times (sorting by time and type splits 14 faults of length
zero); times are read as decimals, so that 3.8955 is a whole number of microseconds, and anything finer is
rounded to the nearest one, since a fraction of a day rarely is whole; only nodes that failed appear.
Source: arXiv 2502.03885 and its public trace. The authors state the start 2024-03-30 without a zone: UTC is
assumed. The first row is at day 3.8955, so times count from the start of observation, not from that row.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest.parsing import (
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    Reject,
    check_plausible,
    decode,
    events_frame,
    rejects_frame,
)
from pipeline.units import US_PER_D, to_us

VERSION = "2"  # 2: a second clear of a fault with repeated onsets is refused
TITLE = "InfiniteHBD-Trace (StepFun, 2025)"
LICENSE = "Apache-2.0"
HOMEPAGE = "https://github.com/stepfun-ai/InfiniteHBD-Trace"
PUBLIC = {
    "fault_trace.json": PublicFile(
        url="https://raw.githubusercontent.com/stepfun-ai/InfiniteHBD-Trace/main/fault_trace.json",
        sha256="5871b881b341c9526223c025eda3a9bd2f0f875cf8d53441688ccd953e11b80d",
        bytes=339_053,
    )
}
EXPORT = ""
FLAGS = ()
TRAPS = (
    "Only nodes that failed are named: give all 400 as nodes, or every rate is 1.73 times too high.",
    "File order breaks ties: a fault of no length has its end sorted before its start by (time, type).",
    "It holds no fault of a job alone, so interruptions are a lower bound.",
)
ENDS = True
PLANNED = "down"  # its authors count changes, tests and troubleshooting among the faults
DAY_0 = datetime(2024, 3, 30, tzinfo=UTC)

_KINDS = {"fault_start": "onset", "fault_end": "clear"}
_MAX_D = 40_000  # a century; keeps arithmetic small before the plausibility test
_MAX_DECIMALS = 40

# (Level, Class) -> component; Class alone is not enough: two levels have "Other Failures".
_HARDWARE, _SOFTWARE, _OTHER = "Hardware Failure", "Software Failure", "Other Failure"
COMPONENTS = {
    # ECC faults stay with the GPU: the log does not say which memory, and counts stay comparable with the
    # authors' own statistics per class.
    (_HARDWARE, "GPU"): "gpu",
    (_HARDWARE, "NIC"): "nic",
    (_HARDWARE, "Parameter Plane Cable"): "cable",  # link down of the training network
    (_HARDWARE, "Fan"): "cooling",
    (_HARDWARE, "Power Supply"): "power",
    (_HARDWARE, "CPU"): "host",
    (_HARDWARE, "Motherboard"): "host",
    (_HARDWARE, "Motherboard Battery"): "host",
    (_HARDWARE, "Riser Card"): "host",  # carries whatever card sits on it; the board is the host's
    (_HARDWARE, "RAID Card"): "storage",
    (_HARDWARE, "Other Failures"): "unknown",  # its only description is "Unknown Error"
    (_SOFTWARE, "File System"): "storage",  # disks and mounts, read-only or in error
    (_SOFTWARE, "Software Tool"): "software",  # kubelet
    (_SOFTWARE, "Operating System"): "software",  # kernel panic
    (_SOFTWARE, "Firmware"): "software",  # a version that does not match: mended by an update, not a part
    (_SOFTWARE, "Other Failures"): "software",
    (_OTHER, "Unknown Error"): "unknown",
    (_OTHER, "System Crash"): "unknown",  # "Server down" is an effect, not a cause
    (_OTHER, "Stress Test Failure"): "unknown",  # found by a test, cause not stated; the node did fail
    # Taken offline by people, whatever they found afterwards.
    (_OTHER, "Change"): "planned",
    (_OTHER, "Test"): "planned",
    (_OTHER, "Training Task Troubleshooting"): "planned",
}


class _Event(NamedTuple):
    row: int
    t_start: int
    kind: str
    node: str
    component: str
    code: str
    reason: str


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the rows of a trace as onsets and clears, and those refused with the reason."""
    items = _array(data, file)
    events: list[_Event] = []
    rejects: list[Reject] = []
    for row, item in enumerate(items, 1):
        try:
            events.append(_event(row, item, options))
        except RefusedError as error:
            rejects.append(Reject(row, str(error), _text(item)))
    orphans = _clears_without_onset(events)
    rejects += [Reject(row, "clear without an onset", _text(items[row - 1])) for row in orphans]
    kept = [event for event in events if event.row not in orphans]
    columns: dict[str, list[Any]] = {
        name: [getattr(event, name) for event in kept] for name in _Event._fields
    }
    columns["severity"] = ["down"] * len(kept)  # the trace has no weaker state: every fault took the node
    columns["scope"] = ["node"] * len(kept)
    return Parsed(events_frame(columns), rejects_frame(sorted(rejects)), len(items))


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as this trace does."""
    return head.lstrip()[:1] == b"[" and b'"fault_type"' in head and b'"event_time"' in head


def _array(data: bytes, file: str) -> list[Any]:
    expected = "a JSON array of fault_start and fault_end rows"
    hint = "the file may be cut off or of another format: fetch or copy it again"
    try:
        document = json.loads(decode(data, file), parse_float=Decimal)
    except json.JSONDecodeError as error:
        where = f"{file} line {error.lineno} column {error.colno}"
        raise InputError(where, f"not valid JSON ({error.msg})", expected, hint) from None
    except (ValueError, ArithmeticError, RecursionError) as error:  # endless digits, exponents or nesting
        raise InputError(file, f"JSON that cannot be read ({type(error).__name__})", expected, hint) from None
    if not isinstance(document, list):
        found = "null" if document is None else f"a JSON {type(document).__name__}"
        raise InputError(f"{file} line 1", f"found {found}", expected, hint)
    if not document:
        raise InputError(file, "an empty array: no rows", expected, "choose a file that holds faults")
    return document


def _event(row: int, item: Any, options: Options) -> _Event:
    if not isinstance(item, dict):
        raise RefusedError("not an object")
    node = _word(item, "node_id")
    kind = _KINDS.get(_word(item, "event_type"))
    if kind is None:
        raise RefusedError("event_type is not fault_start or fault_end")
    instant_us = _instant_us(_value(item, "event_time"), options)
    fault = _value(item, "fault_type")
    if not isinstance(fault, dict):
        raise RefusedError("fault_type is not an object")
    level, family, description = (_word(fault, key) for key in ("Level", "Class", "Desc"))
    component = COMPONENTS.get((level, family), "unknown")
    code = f"{level}/{family}/{description}"
    return _Event(row, instant_us, kind, node, component, code, description)


def _value(item: dict[str, Any], key: str) -> Any:
    if key not in item:
        raise RefusedError(f"{key} is missing")
    return item[key]


def _word(item: dict[str, Any], key: str) -> str:
    word = _value(item, key)
    if not isinstance(word, str):
        raise RefusedError(f"{key} is not text")
    if not word.strip():
        raise RefusedError(f"{key} is empty")
    try:
        word.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        raise RefusedError(f"{key} is not valid text") from None
    return word


def _instant_us(days: Any, options: Options) -> int:
    if isinstance(days, bool) or not isinstance(days, int | float | Decimal):
        raise RefusedError("event_time is not a number")
    if isinstance(days, float) or (isinstance(days, Decimal) and not days.is_finite()):
        raise RefusedError("event_time is not a finite number")  # only NaN and Infinity arrive as float
    if days < 0:
        raise RefusedError("event_time is negative")
    if days > _MAX_D:
        raise RefusedError(options.too_late)
    if isinstance(days, Decimal) and int(days.as_tuple().exponent) < -_MAX_DECIMALS:
        raise RefusedError("event_time has too many decimals")
    instant_us = to_us(DAY_0) + round(Fraction(days) * US_PER_D)
    check_plausible(instant_us, options)
    return instant_us


def _clears_without_onset(events: list[_Event]) -> set[int]:
    """Return the rows of clears with nothing open on their node and fault, by time, then file order."""
    is_open: set[tuple[str, str]] = set()
    orphans = set()
    for event in sorted(events, key=lambda event: (event.t_start, event.row)):
        key = (event.node, event.code)
        if event.kind == "onset":
            is_open.add(key)  # a repeated onset of an open fault opens nothing further
        elif key in is_open:
            is_open.remove(key)
        else:
            orphans.add(event.row)
    return orphans


def _text(item: Any) -> str:
    return json.dumps(item, default=float)
