"""dcgm-exporter: Xid gauges, as a scrape of its text or as a range query of Prometheus.

In: the exporter's text (one scrape: as_of is its time; or with timestamps), or JSON of a Prometheus query.
Out: an `onset` when a GPU's gauge changes to another Xid that is not 0, or a windowed count grows; an
`interval` without a reading: of a GPU while others of its host are read (down), of a host while others are
(degraded: the host or only its exporter), and `info` where a gauge fell back to 0. A gap that is still open
when the range ends is known up to its last sample: that is its `as_of`.
Easy to get wrong: the gauge holds the LAST Xid until the exporter restarts, so a value that stays is one
event, 0 is no recovery, and repeats are invisible: counts are lower bounds. A series may change its labels
(err_code, pods) and a MIG GPU has one a slice: series of one UUID are one GPU. The name in HELP may not be
that of the series; a windowed count is known by its labels xid and window_size_in_ms. The step is the
smallest distance of two instants of the file. Blank values (2147483632 and up, 9223372036854775792 and up,
140737488355328 and up) are no readings.
Longer than other modules: text and JSON tell of the same gauges, and share all but their parsing.
Source: dcgm-exporter issues 95, 190, 239, 418 and 500; DCGM's dcgm_structs.h; Prometheus' HTTP API.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal, InvalidOperation
from itertools import pairwise
from typing import Any, NamedTuple

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import documents, doubts
from pipeline.ingest.conditions import DEGRADED, DOWN, INFO, xid_fault
from pipeline.ingest.documents import Rows, array, table, word
from pipeline.ingest.parsing import (
    NOT_UTF8,
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    check_plausible,
    text_lines,
)
from pipeline.units import US_PER_S, to_us

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}
EXPORT = """curl -s "http://PROMETHEUS:9090/api/v1/query_range" -d query=DCGM_FI_DEV_XID_ERRORS \\
    -d start=2025-03-01T00:00:00Z -d end=2025-03-08T00:00:00Z -d step=60s > xid.json
curl -s http://NODE:9400/metrics > scrape.prom    # one scrape; then --as-of its time"""
FLAGS = ("as_of", "node", "xid_table")
TRAPS = (
    "The gauge shows the last Xid only: repeats and what came between two samples are lost.",
    "A value that is set when the range begins came before it, nobody knows when, and is refused.",
    "0 after an Xid means that the exporter restarted, not that the GPU recovered.",
    "A GPU without readings counts as down; a whole host without is degraded, for it may be its exporter.",
    "One scrape dates an Xid at the scrape; take a range query where there is a Prometheus.",
)
ENDS = False

EXPECTED = "text of dcgm-exporter, or JSON of a Prometheus query of DCGM_FI_DEV_XID_ERRORS"
HOST_LABELS = ("Hostname", "hostname", "node", "kubernetes_node", "nodename", "instance")
HIGHEST_XID = 9_999
_BLANK_INT32 = range(0x7FFFFFF0, 0x80000000)
_BLANK_FROM = 2**47  # of fp64; those of int64 are larger
_SAMPLE = re.compile(
    r'(\w+)(?:\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\})?[ \t]*([^ \t{}"]*)[ \t]*(-?[0-9]{1,19})?[ \t]*'
)
_LABEL = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_IS_XID = re.compile(r"^\w*XID_ERRORS", re.IGNORECASE)
_BLANK = "a blank value: DCGM had no reading"
_BEFORE = "set before the range begins: when it came is not known"


class _Gpu(NamedTuple):
    """A GPU by host and UUID (else PCI address, else index)."""

    host: str
    key: str


class _Series(NamedTuple):
    labels: dict[str, str]
    values: list[tuple[int, str]]

    @property
    def is_count(self) -> bool:
        return "xid" in self.labels and "window_size_in_ms" in self.labels

    @property
    def is_xid(self) -> bool:
        """Whether it is of Xids; a query that aggregates drops the name."""
        return self.is_count or bool(_IS_XID.match(self.labels.get("__name__", "XID_ERRORS")))


class _Span(NamedTuple):
    """From when to when; one without an end goes on at least until the last sample of the range."""

    start: int
    end: int | None
    seen_until: int | None = None


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return Xids and gaps, and the rows refused with the reason."""
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in {b"{", b"["}:
        return _from_prometheus(data, file, options)
    return _from_text(text_lines(data, file), file, options)


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as an export of the exporter or of such a query does."""
    return b"DCGM_FI_" in head or b"DCGM_EXP_" in head


def reading(text: Any, low: float = 0, high: float = float("inf")) -> Decimal | None:
    """Return a value of DCGM, or None for a blank, for what is no number, and for what cannot be."""
    try:
        value = Decimal(str(text).strip())
    except InvalidOperation:
        return None
    if not value.is_finite() or value.copy_abs() >= _BLANK_FROM or value in _BLANK_INT32:
        return None
    return value if low <= value <= high else None


@functools.lru_cache(4096)  # a range holds few different values, millions of times
def _xid_of(text: str) -> int | None:
    value = reading(text, high=HIGHEST_XID)
    return int(value) if value is not None and value == int(value) else None


# -- one scrape ---------------------------------------------------------------------------------


def _from_text(lines: pl.DataFrame, file: str, options: Options) -> Parsed:
    if not lines["line"].str.contains("^(?:# (?:HELP|TYPE) )?DCGM_").any():
        raise InputError(file, "no metric of DCGM", EXPECTED, "is it a scrape of dcgm-exporter?")
    rows: Rows = Rows()
    told: set[tuple[Any, ...]] = set()
    for line, is_text in lines.iter_rows():
        if not _IS_XID.match(line):
            continue
        if not is_text:
            rows.reject(NOT_UTF8, line)
            continue
        hit = _SAMPLE.fullmatch(line)
        if hit is None or not hit[3]:
            rows.reject("a sample without a value" if hit else "not a sample", line)
            continue
        labels = {"__name__": hit[1], **_labels(hit[2] or "")}
        instant = _scraped(hit[4], file, options)
        series = _Series(labels, [])
        # MIG slices repeat the reading of their GPU.
        key = (
            labels.get("Hostname"),
            labels.get("UUID", labels.get("gpu")),
            labels.get("xid"),
            hit[3],
            instant,
        )
        value = _xid_of(hit[3])
        if value == 0 or (key in told and value is not None):
            continue
        told.add(key)
        rows.add(line, lambda: _onset(series, hit[3], instant, file, options))  # noqa: B023 - called at once
    return rows.parsed()


def _labels(text: str) -> dict[str, str]:
    return {name: value.replace('\\"', '"').replace("\\\\", "\\") for name, value in _LABEL.findall(text)}


def _scraped(stamp: str | None, file: str, options: Options) -> int:
    if stamp:
        return int(stamp) * 1000
    if options.as_of is None:
        hint = "--as-of 2025-03-01T00:00Z (when it was scraped)"
        raise InputError(file, "samples without a timestamp", "the time of the scrape", hint)
    return to_us(options.as_of)


def _onset(series: _Series, value: str, instant: int, file: str, options: Options) -> dict[str, Any]:
    """Return the row of an Xid that a series shows."""
    count = _xid_of(value)
    code = _xid_of(series.labels["xid"]) if series.is_count else count
    if code is None or count is None:
        raise RefusedError(_BLANK)
    check_plausible(instant, options)
    text = series.labels.get("err_msg", "")
    known, fault = xid_fault(code, text, options)
    reason = f"Xid {code}" + (f": {text}" if text else "")
    if series.is_count:
        seconds = documents.whole(series.labels["window_size_in_ms"])
        reason += f", {count} within {seconds // 1000 if seconds else '?'} s"
    place = _place(series.labels, file, options)
    return {
        "t_start": instant,
        "kind": "onset",
        **place,
        "scope": known.scope if place["scope"] == "gpu" else "node",
        "severity": known.severity,
        "component": known.component,
        "code": fault,
        "reason": reason,
    }


def _host(labels: Mapping[str, str]) -> str:
    for name in HOST_LABELS:
        if host := labels.get(name, "").strip():
            return host.rpartition(":")[0] or host if name == "instance" else host
    return ""


def _place(labels: Mapping[str, str], file: str, options: Options) -> dict[str, Any]:
    index = labels.get("gpu", "")
    pci, uuid = (documents.gpu_name(labels.get(key, "")) for key in ("pci_bus_id", "UUID"))
    gpu = int(index) if re.fullmatch(r"[0-9]{1,4}", index) else None
    name = pci or uuid or labels.get("UUID") or None
    return {
        "node": documents.node_of(_host(labels), file, options),
        "gpu": gpu,
        "gpu_name": name,
        "gpu_uuid": uuid if pci else None,
        "scope": "node" if gpu is None and name is None else "gpu",
    }


# -- a range ------------------------------------------------------------------------------------


def _from_prometheus(data: bytes, file: str, options: Options) -> Parsed:
    rows, found = Rows(), list[_Series]()
    is_query = False
    for piece in documents.pieces(data, file, EXPECTED):
        result = table(table(piece.value).get("data"))
        if piece.is_broken or not isinstance(result.get("result"), list):
            error = word(table(piece.value).get("error"))
            rows.reject(
                documents.BROKEN if piece.is_broken else error or "not a result of a query", piece.text
            )
            continue
        is_query = True
        for item in result["result"]:
            found += _series(rows, item)
    if not is_query:
        raise InputError(file, "no result of a Prometheus query", EXPECTED, "is its status success?")
    by_gpu: dict[_Gpu, list[_Series]] = {}
    for series in found:
        labels = series.labels
        key = labels.get("UUID") or labels.get("pci_bus_id") or labels.get("gpu") or ""
        by_gpu.setdefault(_Gpu(_host(labels), key), []).append(series)
    for group in by_gpu.values():
        _changes(rows, group, file, options)
    _gaps(rows, by_gpu, file, options)
    return replace(rows.parsed(), notes=tuple(_doubts(found)))


def _series(rows: Rows, item: Any) -> Iterator[_Series]:
    """Yield the series of a result; one without times is refused."""
    metric = table(table(item).get("metric"))
    labels = {name: value for name, value in metric.items() if isinstance(value, str)}
    pairs = array(table(item).get("values")) or [table(item).get("value")]
    try:
        values = [(_micros(pair[0]), str(pair[1])) for pair in pairs]
    except (TypeError, KeyError, IndexError, ValueError, ArithmeticError):
        rows.reject("a series whose samples are not [time, value]", item)
        return
    yield _Series(labels, sorted(values))


def _micros(time: Any) -> int:
    if type(time) is int and 0 <= time < 10**12:
        return time * US_PER_S
    if isinstance(time, bool) or not isinstance(time, int | Decimal) or not 0 <= time < 10**12:
        raise ValueError("no time")
    return int(time * US_PER_S)


def _changes(rows: Rows, group: list[_Series], file: str, options: Options) -> None:
    """Add what the gauges and counts of one GPU tell."""
    gauges = [series for series in group if series.is_xid and not series.is_count]
    at: dict[int, dict[int, _Series]] = {}
    for series in gauges:
        for instant, value in _readings(rows, series):
            codes = at.setdefault(instant, {})
            if value:
                codes[value] = series
    before: dict[int, _Series] | None = None
    since = 0
    for instant in sorted(at):
        codes = at[instant]
        for code in codes.keys() - (before or {}):
            told = {"metric": codes[code].labels, "time": instant / US_PER_S, "value": code}
            if before is None:
                rows.reject(_BEFORE, told)
            else:
                rows.add(told, lambda: _onset(codes[code], str(code), instant, file, options))  # noqa: B023
        if before and not codes:
            labels = next(iter(before.values())).labels
            text = "the gauge fell to 0: its exporter restarted, what came meanwhile is not known"
            fault = (INFO, "software", "exporter restart", text)
            _interval(rows, labels, _Span(since, instant), fault, file, options)
        before, since = codes, instant
    for series in group:
        if series.is_count:
            _counted(rows, series, file, options)


def _readings(rows: Rows, series: _Series) -> Iterator[tuple[int, int]]:
    """Yield the readings of a series; a run of blanks is one refused row."""
    was_blank = False
    for instant, text in series.values:
        value = _xid_of(text)
        if value is not None:
            yield instant, value
        elif not was_blank:
            rows.reject(_BLANK, {"metric": series.labels, "time": instant / US_PER_S, "value": text})
        was_blank = value is None


def _counted(rows: Rows, series: _Series, file: str, options: Options) -> None:
    """Add a row where a windowed count grows; while it holds or falls, the same events are in its window."""
    before = 0
    for instant, count in _readings(rows, series):
        if count > before:
            told = {"metric": series.labels, "time": instant / US_PER_S, "value": count}
            rows.add(told, lambda: _onset(series, str(count), instant, file, options))  # noqa: B023
        before = count


def _interval(
    rows: Rows,
    labels: Mapping[str, str],
    span: _Span,
    fault: tuple[str, str, str, str],
    file: str,
    options: Options,
) -> None:
    severity, component, code, reason = fault

    def make() -> dict[str, Any]:
        for instant in span:
            if instant is not None:
                check_plausible(instant, options)
        return {
            "t_start": span.start,
            "t_end": span.end,
            "as_of": span.seen_until,
            "kind": "interval",
            **_place(labels, file, options),
            "severity": severity,
            "component": component,
            "code": code,
            "reason": reason,
        }

    told = {"metric": dict(labels), "from": span.start / US_PER_S, "to": span.end and span.end / US_PER_S}
    rows.add(told, make)


def _gaps(rows: Rows, by_gpu: Mapping[_Gpu, list[_Series]], file: str, options: Options) -> None:
    """Add the intervals in which a GPU, or all GPUs of a host, have no samples."""
    of_gpu = {gpu: {time for series in group for time, _ in series.values} for gpu, group in by_gpu.items()}
    of_host: dict[str, set[int]] = {}
    for gpu, times in of_gpu.items():
        of_host.setdefault(gpu.host, set()).update(times)
    for gpu, times in of_gpu.items():
        labels = by_gpu[gpu][0].labels
        for gap in _missing(sorted(of_host[gpu.host]), times):
            text = "no sample while other GPUs of the host have some"
            _interval(rows, labels, gap, (DOWN, "gpu", "no reading", text), file, options)
    instants, read = _grid(of_host.values()), set[int]().union(*of_host.values())
    for host, times in of_host.items():
        # Instants at which nothing at all was read are Prometheus' own, unless there is one host only.
        seen = [at for at in instants if at in read or len(of_host) == 1]
        labels = next(group[0].labels for gpu, group in by_gpu.items() if gpu.host == host)
        named = {name: value for name, value in labels.items() if name in HOST_LABELS}
        for gap in _missing(seen, times):
            text = "no sample of the host: lost, or its exporter"
            _interval(rows, named, gap, (DEGRADED, "unknown", "no reading", text), file, options)


def _doubts(found: Iterable[_Series]) -> list[str]:
    """Return a note on samples off the grid of the query, whose gaps of whole hosts cannot be told."""
    instants = pl.Series(sorted({time for series in found for time, _ in series.values}), dtype=pl.Int64)
    steps = instants.diff().drop_nulls()
    step_s = round(steps.mode().sort()[0] / US_PER_S) if len(steps) > 1 else 0
    return doubts.grid(instants, step_s, instants[0]) if step_s else []


def _missing(instants: Iterable[int], present: set[int]) -> Iterator[_Span]:
    """Yield [first instant without a sample, next instant with one); what is open was seen until the last."""
    start: int | None = None
    instant = 0
    for instant in instants:
        if instant in present:
            if start is not None:
                yield _Span(start, instant)
            start = None
        elif start is None:
            start = instant
    if start is not None:
        yield _Span(start, None, instant)


def _grid(times: Iterable[set[int]]) -> list[int]:
    """Return the instants of the query, gaps of all series filled by the step; none when there is no step."""
    instants = sorted(set().union(*times))
    steps = [later - earlier for earlier, later in pairwise(instants)]
    if len(steps) < 2:
        return instants
    step = min(steps)
    if any(distance % step for distance in steps) or (instants[-1] - instants[0]) // step > 10_000_000:
        return []
    return list(range(instants[0], instants[-1] + 1, step))
