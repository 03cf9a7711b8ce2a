"""Which lines of a kernel log belong to one fault of a GPU: the fault, its wake, what it needs, its end.

In: rows in file order, each with what its line means by itself. Out: the rows with what they mean together:
`kind`, `t_end`, and for some another severity, scope or code; a success told twice is left out.
Easy to get wrong: Xid 45 and 154, and 43 after another Xid, are the wake of a fault and start none: they are
`info`, under a code of their own so that they open and close nothing. But 154 takes the GPU down where the
log tells no fault of it in the five minutes before, or none that takes it down while 154 asks for a reset.
A clear ends the faults of its GPU since the last one. It carries the code of the first of the worst of them,
as do all of those; the first lesser one of each code becomes an interval that ends with it, so that none
hides another. A loader line of the driver is a boot: what was before it is over.
Source: NVIDIA's Xid catalogue; gpud, NVSentinel; amdgpu's messages in Linux.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from sys import intern
from typing import Any

import polars as pl

from pipeline.ingest import amd
from pipeline.ingest.xidlines import SXID, XID, recovery
from pipeline.units import US_PER_S

FOLLOWS_US = 300 * US_PER_S
DATA_US = US_PER_S  # between the two lines of an SXid
ACTIONS = {0: "none", 1: "gpu_reset", 2: "node_reboot", 3: "drain_p2p", 4: "drain_and_reset"}
SECONDARY = "xid 154 secondary"

# What a row says by itself; `family` of a switch's is followed by the switch and its address.
ROWS = pl.Schema(
    {
        "row": pl.Int64(),
        "t_start": pl.Int64(),
        "node": pl.String(),
        "gpu_name": pl.String(),
        "family": pl.String(),
        "number": pl.Int64(),
        "severity": pl.String(),
        "scope": pl.String(),
        "component": pl.String(),
        "code": pl.String(),
        "reason": pl.String(),
    }
)
_CHANGED = ("place", "kind", "t_end", "severity", "scope", "component", "code")
_TELLING = (43, 48, 94, 154)  # that say something of other rows, or are told by them
_UNCONTAINED = {64, 95}
_WIDTHS = {"gpu": 0, "node": 1, "domain": 2}


@dataclass(slots=True)
class _Event:
    """A row that others bear on."""

    place: int
    row: int
    t_start: int
    node: str
    gpu_name: str | None
    family: str
    number: int | None
    severity: str
    scope: str
    component: str
    code: str
    reason: str
    kind: str = "onset"
    t_end: int | None = None

    @property
    def weight(self) -> tuple[bool, int]:
        """How much the fault takes: of the GPU, and of what is around it."""
        return self.severity == "down", _WIDTHS[self.scope]


@dataclass(slots=True)
class _Device:
    """What is known of a GPU while its lines pass."""

    chain: list[_Event] = field(default_factory=list)
    action: int = 0
    last_us: int | None = None
    last_any_us: int | None = None
    cleared_us: int | None = None
    contained_us: int | None = None
    double_bit: list[_Event] = field(default_factory=list)


def linked(rows: pl.DataFrame, boots: list[tuple[int, str]]) -> pl.DataFrame:
    """Return rows with `kind` and `t_end`; `boots` are line numbers and servers, rows are in file order."""
    rows = rows.with_columns(kind=pl.lit("onset"), t_end=pl.lit(None, pl.Int64)).with_row_index("place")
    is_telling = (pl.col("family") != XID) | pl.col("number").is_in(_TELLING)
    devices = rows.filter(is_telling).select("node", "gpu_name").unique()
    if devices.is_empty():
        return rows.drop("place")
    # Of other GPUs no row bears on another, and most rows of a storm are of no consequence.
    picked = rows.filter(is_telling | (pl.col("severity") != "info"))
    picked = picked.join(devices, on=["node", "gpu_name"], how="semi", nulls_equal=True).sort("place")
    is_read = (pl.col("number") == 154) | (pl.col("family") != XID)
    picked = picked.with_columns(reason=pl.when(is_read).then("reason").otherwise(pl.lit("")))
    events = [_Event(*_held(values)) for values in picked.select("place", *ROWS).iter_rows()]
    kept = list(_kept(events, boots))
    left_out = (
        {event.place for event in events} - {event.place for event in kept} if len(kept) < len(events) else ()
    )
    changed = pl.DataFrame(
        {name: [getattr(event, name) for event in kept] for name in _CHANGED},
        schema={"place": pl.get_index_type(), **{name: rows.schema[name] for name in _CHANGED[1:]}},
    )
    rows = rows.update(changed, on="place", how="left")
    return rows.filter(~pl.col("place").is_in(sorted(left_out))).drop("place")


def _held(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return values with each word held once: a storm repeats its words, and would not fit into memory."""
    return tuple(intern(value) if isinstance(value, str) else value for value in values)


def _kept(events: list[_Event], boots: list[tuple[int, str]]) -> Iterator[_Event]:
    devices: dict[tuple[str, str | None], _Device] = {}
    faults: dict[tuple[str, str, int | None], int] = {}  # SXid by node, switch and code
    waiting = iter(sorted(boots))
    boot = next(waiting, None)
    for event in events:
        while boot and boot[0] < event.row:
            for node, name in list(devices):
                if node == boot[1]:
                    devices[node, name] = _Device()
            boot = next(waiting, None)
        if event.family.startswith(SXID):
            if _is_first(event, faults):
                yield event
            continue
        device = devices.setdefault((event.node, event.gpu_name), _Device())
        if event.family == XID:
            _xid(event, device)
            yield event
        elif _amd_kept(event, device):
            yield event


def _is_first(event: _Event, faults: dict[tuple[str, str, int | None], int]) -> bool:
    """Return whether a line of a switch tells a fault, and not the data of one that was told."""
    key = (event.node, event.family, event.number)
    if " Data " in event.reason:
        return abs(event.t_start - faults.get(key, -DATA_US)) > DATA_US
    faults[key] = event.t_start
    return True


def _is_near(event: _Event, moment_us: int | None) -> bool:
    return moment_us is not None and abs(event.t_start - moment_us) <= FOLLOWS_US


def _xid(event: _Event, device: _Device) -> None:
    if event.number == 154:
        _state(event, device)
        return
    if event.number == 43 and _is_near(event, device.last_any_us):
        event.severity, event.code = "info", "xid 43 secondary"
    if event.number in {48, 94}:
        _contain(event, device)
    if event.severity in {"down", "degraded"}:
        _join(event, device)
    if event.severity != "info":
        device.last_any_us = event.t_start


def _contain(event: _Event, device: _Device) -> None:
    """A double-bit error that Xid 94 says was contained ends the job, not the GPU."""
    if event.number == 94:
        device.contained_us = event.t_start
        if not any(other.number in _UNCONTAINED for other in device.chain):
            for other in device.double_bit:
                if _is_near(event, other.t_start):
                    _demote(other, device)
        device.double_bit = []
    elif _is_near(event, device.contained_us):
        _demote(event, device)
    else:
        device.double_bit.append(event)


def _demote(event: _Event, device: _Device) -> None:
    event.severity, event.code = "app", "xid 48 contained"
    device.chain = [other for other in device.chain if other is not event]


def _join(event: _Event, device: _Device) -> None:
    """Put a fault into the chain of its GPU, or begin a new one after a pause."""
    if not device.action and not _is_near(event, device.last_us):
        device.chain = []
    device.chain.append(event)
    device.last_us = event.t_start


def _state(event: _Event, device: _Device) -> None:
    """Xid 154: what the GPU needs now."""
    change = recovery(event.reason)
    if change is None:
        event.severity, event.code = "info", SECONDARY
        return
    action = change[1]
    if action == 0:
        _clear(event, device, "xid 154")
        return
    severity = "degraded" if ACTIONS.get(action) == "drain_p2p" else "down"
    follows = bool(device.chain) and (bool(device.action) or _is_near(event, device.last_us))
    device.action = action
    if follows and (severity == "degraded" or any(other.severity == "down" for other in device.chain)):
        event.severity, event.code = "info", SECONDARY
        return
    event.code, event.severity = "xid 154", severity
    event.scope = "node" if ACTIONS.get(action) == "node_reboot" else "gpu"
    device.chain = [*device.chain, event] if follows else [event]
    device.last_us = event.t_start


def _clear(event: _Event, device: _Device, code: str) -> None:
    """End the chain of a GPU."""
    event.kind, event.code = "clear", code
    if device.chain:
        worst = max(other.weight for other in device.chain)
        lead = next(other for other in device.chain if other.weight == worst)
        event.code, event.severity = lead.code, lead.severity
        event.scope, event.component = lead.scope, lead.component
        lesser: set[str] = set()
        for other in device.chain:
            if other.weight == worst:
                other.code = lead.code
            elif other.code in lesser:
                other.severity, other.code = "info", f"{other.code} repeated"
            else:
                lesser.add(other.code)
                other.kind, other.t_end = "interval", max(event.t_start, other.t_start)
    device.chain, device.action, device.last_us = [], 0, None
    device.cleared_us = event.t_start


def _amd_kept(event: _Event, device: _Device) -> bool:
    """Link a row of an AMD GPU; return False for a success that is told a second time."""
    if event.family == amd.RESET_DONE:
        if not device.chain and _is_near(event, device.cleared_us):
            return False
        _clear(event, device, amd.RESET)
        return True
    if event.severity == "down":
        _join(event, device)
        event.code = device.chain[0].code
    return True
