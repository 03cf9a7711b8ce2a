"""One night: take in dropped files, build what is stale, check, clean, say how it went.

In: a configuration and the chain of stages (handed in by the command, so that there is one chain). Out: the
lake, JSON lines, the summary. The root's lock is held from the first file to the summary; a batch that does
not get it changes nothing, not even the summary, which belongs to the run that holds it.
Easy to get wrong: nobody watches, so whatever goes wrong in one file or scenario is noted and the next one
has its turn; only a signal, or `keep_going = false`, ends a batch early.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipeline.batch import config, stop, summary
from pipeline.batch.config import Batch
from pipeline.batch.drops import Taker
from pipeline.batch.journal import Journal
from pipeline.batch.summary import DropResult, ScenarioResult, Summary
from pipeline.errors import BusyError, PipelineError
from pipeline.lake import catalog, checks, superseded
from pipeline.lake.store import Lake, Record, now
from pipeline.report.run import PAGE, headline


class Watch:
    """What a chain of stages tells while it builds one scenario."""

    def __init__(self, scenario: str, journal: Journal, stopping: stop.Stop) -> None:
        self.ran: list[str] = []
        self._scenario = scenario
        self._journal = journal
        self._stopping = stopping
        self._since_s = time.monotonic()

    def log(self, text: str) -> None:
        """Take a log line of a stage."""
        self._journal.info("progress", scenario=self._scenario, text=text)

    def note(self, stage: str, ran: bool) -> None:
        """Take the end of a stage, which ran or was current."""
        self._stopping.check()
        duration_s = round(time.monotonic() - self._since_s, 3)
        self._since_s = time.monotonic()
        event = "stage_done" if ran else "stage_skipped"
        self._journal.info(event, scenario=self._scenario, stage=stage, duration_s=duration_s)
        if ran:
            self.ran.append(stage)


# All stages of a scenario, given by name or file, in a lake; returns the record of its report.
Build = Callable[[str, Lake, Watch], Record]


def run(
    path: Path, *, asked_root: Path | None, default_root: Path, build: Build, journal: Journal
) -> Summary:
    """Run the batch that a file configures and return how it went; only a bug raises."""
    result = Summary(config=path.name, started_at=now())
    with stop.listening() as stopping, journal.takes_warnings():
        root, batch = asked_root, None
        try:
            real, document = config.read(path)
            root = asked_root or config.root_of(real, document) or default_root
            batch = config.parse(real, document)
        except PipelineError as error:
            journal.error("config_refused", **result.fail(error))
        except stop.Stopped:
            result.interrupt(stopping.exit_code)
        if root is not None and not result.stopped_by:
            _hold(Night(Lake(root), batch, build, journal, stopping, result))
        stopping.is_ending = True
        result.ended_at = result.ended_at or now()
        _tell_end(journal, result)
    return result


def _hold(night: Night) -> None:
    """Hold the root's lock for the whole night."""
    journal, result, batch = night.journal, night.result, night.batch
    wait_s = batch.wait_lock_s if batch else 0.0

    def on_wait() -> None:
        journal.info("waiting", why="another run holds the root", wait_lock_s=wait_s)

    try:
        with night.lake.lock(on_wait, wait_s):
            night.spend()
    except BusyError as error:
        if result.error is None:
            result.fail(error)
    except stop.Stopped:
        result.interrupt(night.stopping.exit_code)
    except (PipelineError, OSError) as error:
        journal.error("batch_failed", **result.fail(error))


def _tell_end(journal: Journal, result: Summary) -> None:
    assert result.ended_at is not None, "the end is known"
    duration_s = round((result.ended_at - result.started_at).total_seconds(), 3)
    if result.status == "busy":
        journal.error("root_busy", exit_code=result.exit_code, duration_s=duration_s, **(result.error or {}))
        return
    tell = journal.error if result.exit_code else journal.info
    event = "batch_interrupted" if result.stopped_by else "batch_done"
    tell(event, status=result.status, exit_code=result.exit_code, duration_s=duration_s)


@dataclass(frozen=True)
class Night:
    """What one batch works with, once it holds the root; `batch` is None when its configuration is wrong."""

    lake: Lake
    batch: Batch | None
    build: Build
    journal: Journal
    stopping: stop.Stop
    result: Summary

    def spend(self) -> None:
        """Do all there is to do, and publish the summary however it ends."""
        try:
            if self.batch is not None:
                self._work(self.batch)
        except stop.Stopped:
            self.result.interrupt(self.stopping.exit_code)
        except Exception as error:  # noqa: BLE001 - the summary is written whatever happened
            if self.stopping.signal_number:
                self.result.interrupt(self.stopping.exit_code)
            else:
                self.journal.error("batch_failed", **self.result.fail(error))
        self.stopping.is_ending = True
        self.result.end(now(), self.lake)

    def _work(self, batch: Batch) -> None:
        self.journal.info(
            "batch_started",
            config=batch.path.name,
            root=str(self.lake.root),
            drops=len(batch.drops),
            scenarios=len(batch.scenarios),
        )
        self.result.drops = [DropResult(drop.source, drop.path) for drop in batch.drops]
        self.result.scenarios = [ScenarioResult(config.name_of(item)) for item in batch.scenarios]
        taker = Taker(batch, self.lake, self.journal, self.stopping)
        for drop, taken in zip(batch.drops, self.result.drops, strict=True):
            taker.take(drop, taken)
            if self._halts(taken.exit_code):
                return
        for name, built in zip(batch.scenarios, self.result.scenarios, strict=True):
            self._scenario(batch.scenario(name), built)
            if self._halts(built.exit_code):
                return
        # Renewed also when a scenario failed half-way: no file that the catalog names may be removed.
        catalog.stage(self.lake, lambda text: self.journal.info("progress", text=text))
        self._check()
        self._clean(batch.keep_old_d)

    def _halts(self, exit_code: int) -> bool:
        assert self.batch is not None, "there is work"
        if exit_code == 0 or self.batch.keep_going:
            return False
        self.journal.warning("batch_halted", why="keep_going = false")
        return True

    def _scenario(self, name: str, result: ScenarioResult) -> None:
        result.status = summary.RUNNING
        watch = Watch(result.scenario, self.journal, self.stopping)
        started_s = time.monotonic()
        try:
            record = self.build(name, self.lake, watch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other scenarios are built
            self.stopping.check()
            result.error = summary.told(error)
            result.exit_code = summary.exit_code_of(error)
            result.status = summary.FAILED
        else:
            result.report = record.outputs[PAGE].path
            result.headline = record.facts.get("headline")
            result.lines = headline(record)
            result.status = summary.DONE
        result.ran = watch.ran
        result.duration_s = round(time.monotonic() - started_s, 3)
        fields = {"scenario": result.scenario, "ran": result.ran, "duration_s": result.duration_s}
        if result.error:
            self.journal.error("scenario_failed", **fields, exit_code=result.exit_code, **result.error)
        else:
            self.journal.info("scenario_done", **fields, report=result.report)

    def _check(self) -> None:
        result = self.result.checks
        result.status = summary.RUNNING
        try:
            result.broken = checks.all_records(self.lake)
        except Exception:
            result.status = summary.FAILED
            raise
        for line in result.broken:
            self.journal.error("check_broken", text=line)
        result.exit_code = 1 if result.broken else 0
        result.status = summary.FAILED if result.broken else summary.DONE
        self.journal.info("checks_done", broken=len(result.broken))

    def _clean(self, keep_old_d: float) -> None:
        cleaned = superseded.clean(self.lake, keep_old_d, now())
        self.result.cleaned = cleaned
        self.journal.info("cleaned", **vars(cleaned))
