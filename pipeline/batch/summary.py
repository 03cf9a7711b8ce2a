"""How a batch went: results, the exit code, `ROOT/batch/summary.json`, lines for people.

The exit code is the worst of all that happened, in the order of `WORST_LAST`. `last_success_at` is when a
batch of this root last ended with 0: a monitor watches its age.
"""

from __future__ import annotations

import dataclasses
import json
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pipeline.errors import PipelineError
from pipeline.lake.store import Lake, write_bytes
from pipeline.lake.superseded import Cleaned

FOLDER, FILE = "batch", "summary.json"
INTERNAL = 70  # EX_SOFTWARE: a mistake of this program
BUSY = 75  # EX_TEMPFAIL: another run holds the root
# Done; try later; no usable data; a check or bar not met; bad input; our own mistake; SIGINT; SIGTERM.
WORST_LAST = (0, BUSY, 3, 1, 2, INTERNAL, 130, 143)
WAITING, RUNNING, DONE, FAILED, INTERRUPTED = "not_started", "running", "done", "failed", "interrupted"

Told = dict[str, str]


def told(error: Exception) -> Told:
    """Return an error as where, found, expected, hint; one that nobody foresaw brings its traceback."""
    if isinstance(error, PipelineError):
        return {
            "where": error.where,
            "found": error.found,
            "expected": error.expected,
            "hint": error.hint,
        }
    if isinstance(error, OSError):
        found = error.strerror or str(error)
        return {"where": str(error.filename or ""), "found": found, "expected": "", "hint": ""}
    text = "".join(traceback.format_exception(error))
    found = f"{type(error).__name__}: {error}"
    hint = "a mistake of this program: report it with this traceback"
    return {"where": "goodput", "found": found, "expected": "", "hint": hint, "traceback": text}


def exit_code_of(error: Exception) -> int:
    """Return the exit code that an error stands for."""
    if isinstance(error, PipelineError):
        return error.exit_code
    return 2 if isinstance(error, OSError) else INTERNAL


def worst(codes: Iterable[int]) -> int:
    """Return the worst of exit codes."""
    return max(codes, key=WORST_LAST.index, default=0)


@dataclass
class DropResult:
    """What became of the files of one drop; rows are those of files ingested this time."""

    source: str
    path: str
    status: str = WAITING
    exit_code: int = 0
    files_found: int = 0
    files_ingested: int = 0
    files_skipped: int = 0
    files_left: int = 0
    files_failed: int = 0
    rows_read: int = 0
    rows_accepted: int = 0
    rows_rejected: int = 0
    left: list[str] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    error: Told | None = None


@dataclass
class ScenarioResult:
    """What became of one scenario; `headline` and `lines` are those of its report."""

    scenario: str
    status: str = WAITING
    exit_code: int = 0
    duration_s: float = 0.0
    ran: list[str] = field(default_factory=list)
    report: str | None = None
    headline: Any = None
    lines: list[str] = field(default_factory=list)
    error: Told | None = None


@dataclass
class Checks:
    """The invariants after the scenarios."""

    status: str = WAITING
    exit_code: int = 0
    broken: list[str] = field(default_factory=list)


@dataclass
class Summary:
    """One batch. `error` is what stopped it as a whole."""

    config: str
    started_at: datetime
    ended_at: datetime | None = None
    last_success_at: str | None = None
    stopped_by: int = 0
    drops: list[DropResult] = field(default_factory=list)
    scenarios: list[ScenarioResult] = field(default_factory=list)
    checks: Checks = field(default_factory=Checks)
    cleaned: Cleaned | None = None
    error: Told | None = None
    error_code: int = 0

    @property
    def _parts(self) -> list[DropResult | ScenarioResult | Checks]:
        return [*self.drops, *self.scenarios, self.checks]

    @property
    def exit_code(self) -> int:
        """The worst of all that happened."""
        return worst([*(part.exit_code for part in self._parts), self.error_code, self.stopped_by])

    @property
    def status(self) -> str:
        """One word: done, failed, interrupted, or busy when another run holds the root."""
        if self.stopped_by:
            return INTERRUPTED
        return {0: DONE, BUSY: "busy"}.get(self.exit_code, FAILED)

    def fail(self, error: Exception) -> Told:
        """Note what stopped the batch as a whole; return it as texts."""
        self.error_code = worst([self.error_code, exit_code_of(error)])
        self.error = self.error or told(error)
        return self.error

    def interrupt(self, exit_code: int) -> None:
        """Note that a signal stopped the batch, and what it was at."""
        self.stopped_by = exit_code
        for part in self._parts:
            if part.status == RUNNING:
                part.status = INTERRUPTED

    def plain(self) -> dict[str, Any]:
        """Return the summary as JSON-able values; a number that is none (NaN) is null."""
        assert self.ended_at is not None, "the batch has ended"
        document = {
            "config": self.config,
            "status": self.status,
            "exit_code": self.exit_code,
            "started_at": _iso(self.started_at),
            "ended_at": _iso(self.ended_at),
            "duration_s": round((self.ended_at - self.started_at).total_seconds(), 3),
            "last_success_at": self.last_success_at,
            "error": self.error,
            "drops": [dataclasses.asdict(item) for item in self.drops],
            "scenarios": [dataclasses.asdict(item) for item in self.scenarios],
            "checks": dataclasses.asdict(self.checks),
            "cleaned": dataclasses.asdict(self.cleaned) if self.cleaned else None,
        }
        text = json.dumps(document, default=str)
        plain: dict[str, Any] = json.loads(text, parse_constant=lambda _: None)
        return plain

    def end(self, at: datetime, lake: Lake) -> None:
        """End the batch, remembering when the last good one was, and publish the summary."""
        self.ended_at = at
        self.last_success_at = _iso(at) if self.exit_code == 0 else _last_success(lake)
        text = json.dumps(self.plain(), indent=1, allow_nan=False) + "\n"
        write_bytes(lake.path(FOLDER, FILE), text.encode())

    def text(self) -> list[str]:
        """Return the summary as lines for people."""
        lines = [line for drop in self.drops for line in _drop_lines(drop)]
        lines += [line for scenario in self.scenarios for line in _scenario_lines(scenario)]
        lines += [f"check: {line}" for line in self.checks.broken]
        if self.cleaned and self.cleaned.files_removed:
            size_mb = self.cleaned.bytes_removed / 1e6
            lines.append(f"removed {self.cleaned.files_removed} superseded files, {size_mb:,.1f} MB")
        lines += _error_lines("batch", self.error)
        return [*lines, f"{self.status}, exit {self.exit_code}"]


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _last_success(lake: Lake) -> str | None:
    try:
        before = json.loads(lake.path(FOLDER, FILE).read_text(encoding="utf-8"))
        at = before["last_success_at"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return at if isinstance(at, str) else None


def _drop_lines(drop: DropResult) -> list[str]:
    files = "file" if drop.files_found == 1 else "files"
    counts = (
        f"{drop.files_found} {files}: {drop.files_ingested} ingested, {drop.files_skipped} known, "
        f"{drop.files_left} still being written, {drop.files_failed} failed; "
        f"{drop.rows_read:,} rows read, {drop.rows_rejected:,} rejected"
    )
    lines = [f"{drop.path} ({drop.source}): {counts}"]
    lines += [line for failed in drop.failed for line in _error_lines(failed["file"], failed)]
    return lines + _error_lines(drop.path, drop.error)


def _scenario_lines(result: ScenarioResult) -> list[str]:
    if result.status != DONE:
        return [f"{result.scenario}: {result.status}", *_error_lines(result.scenario, result.error)]
    ran = ", ".join(result.ran) or "nothing to do"
    answers = [line for line in result.lines if not line.startswith((" ", "note:"))]
    return [f"{result.scenario}: {ran}; {result.report}", *(f"  {line}" for line in answers)]


def _error_lines(what: str, error: Told | None) -> list[str]:
    if error is None:
        return []
    where = f"{error['where']}: " if error["where"] not in {"", what} else ""
    lines = [f"  {what}: {where}{error['found']}"]
    lines += [f"    expected: {error['expected']}"] if error["expected"] else []
    return lines + ([f"    to do: {error['hint']}"] if error["hint"] else [])
