"""From the timeline tables to what the engine steps through.

In: `gpu_downtime` and `onsets` of one placement. Out: a `History` in ticks of a microsecond since
the window's start. Changes at or before 0 set the initial state; changes at or after the window's
end are outside (model.md section 7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline.replay.engine import History, Instant

if TYPE_CHECKING:
    import polars as pl


def build(
    downtime: pl.DataFrame, onsets: pl.DataFrame, *, domains: int, window_start_us: int, window_us: int
) -> History:
    """Return the history of one placement; the frames hold only its rows."""
    initial: dict[int, int] = {}
    instants: dict[int, Instant] = {}

    def at(tick: int) -> Instant:
        found = instants.get(tick)
        if found is None:
            found = instants[tick] = Instant(tick)
        return found

    columns = ("domain_id", "gpu_first", "gpu_last")
    start, end = (_ticks(downtime, name, window_start_us) for name in ("t_start", "t_end"))
    ranges = [downtime[name].to_list() for name in columns]
    for domain, first, last, begin, finish in zip(*ranges, start, end, strict=True):
        mask = mask_of(first, last)
        if begin <= 0:
            initial[domain] = initial.get(domain, 0) | mask
        else:
            at(begin).down.append((domain, mask))
        if finish < window_us:
            at(finish).up.append((domain, mask))
    ranges = [onsets[name].to_list() for name in (*columns, "severity", "component")]
    for domain, first, last, severity, component, tick in zip(
        *ranges, _ticks(onsets, "t", window_start_us), strict=True
    ):
        instant = at(tick)
        if severity == "app":
            instant.app_fault = True
            instant.app_components.append(component)
        else:
            instant.hits.append((domain, mask_of(first, last)))
            instant.components.append(component)
    return History(domains, window_us, initial, [instants[tick] for tick in sorted(instants)])


def mask_of(first: int, last: int) -> int:
    """Return GPUs `first` to `last`, both inclusive, as a bit mask."""
    return ((1 << (last - first + 1)) - 1) << first


def _ticks(frame: pl.DataFrame, name: str, origin_us: int) -> list[int]:
    return (frame[name].dt.timestamp("us") - origin_us).to_list()
