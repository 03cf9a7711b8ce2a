"""A replayed job as the step log that Google's goodput library reads.

In: `outcome_timeline` rows of one policy, the interval between saves, the length of a step. Out: the calls a
trainer would have made: job start and end, the parts of a start, the start of every step, saves as custom
events. Instants are microseconds from the window's start; a step is running time.
Steps are numbered by the work they add, so a rollback repeats numbers and a planned stop repeats none. Saves
must fall between steps: the interval is a whole number of steps, and no policy saves out of turn.
Easy to get wrong: a save that is complete when a fault strikes at that very instant is void (model.md section
7), so the work saved is the last whole interval before the last microsecond of work.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

JOB_START = datetime(2026, 3, 1, tzinfo=UTC)

WORKS = {"running", "saving"}
FAULTS = {"starting", "paused"}  # what follows work only after a fault


class Entry(NamedTuple):
    """One line of the log: a method of the library's recorder, and its arguments."""

    call: str
    arguments: dict[str, Any]


def entries(
    timeline: pa.Table, interval_us: int, step_us: int, first_start_us: int = 0, restart_us: int = 0
) -> list[Entry]:
    """Return the log, in order; `first_start_us` is put before the window, which begins with a running job.

    A start is logged from the end of its detection: `restart_us` before it ends, half of it initialization,
    half preparation.
    """
    assert interval_us % step_us == 0, "saves fall between steps"
    log: list[Entry] = []

    def say(call: str, at_us: int, **more: Any) -> None:
        moment = JOB_START + timedelta(microseconds=first_start_us + at_us)
        name = "end_time" if call.endswith("end_time") else "start_time"
        log.append(Entry(call, {name: moment, **more}))

    spans = _merged(timeline)
    _start(say, -first_start_us, 0)
    done = 0  # running time that counts as work, in microseconds
    for number, (state, start, end) in enumerate(spans):
        follows = spans[number + 1][0] if number + 1 < len(spans) else ""
        if state == "running":
            base = done
            done += end - start
            for step in range(-(-base // step_us), -(-done // step_us)):
                say("record_step_start_time", start + step * step_us - base, step=step)
        elif state == "saving":
            say("record_custom_badput_event_start_time", start, custom_badput_event_type="save")
            if follows not in FAULTS:
                say("record_custom_badput_event_end_time", end, custom_badput_event_type="save")
        else:
            _start(say, max(start, end - restart_us), end)
        if follows in FAULTS and state in WORKS:
            done = max(0, (done - 1) // interval_us) * interval_us
    say("record_job_end_time", spans[-1][2])
    return log


def _merged(timeline: pa.Table) -> list[tuple[str, int, int]]:
    """Return (state, start, end) in microseconds from the first row, equal neighbours as one."""
    rows = timeline.select(["state", "t_start", "t_end"]).to_pylist()
    origin = rows[0]["t_start"]
    spans: list[tuple[str, int, int]] = []
    for row in rows:
        start, end = ((row[name] - origin) // timedelta(microseconds=1) for name in ("t_start", "t_end"))
        if spans and spans[-1][0] == row["state"]:
            spans[-1] = (row["state"], spans[-1][1], end)
        else:
            spans.append((row["state"], start, end))
    return spans


def _start(say: Callable[..., None], start_us: int, end_us: int) -> None:
    middle = (start_us + end_us) // 2
    say("record_job_start_time", start_us)
    say("record_tpu_init_start_time", start_us)
    say("record_tpu_init_end_time", middle)
    say("record_training_preparation_start_time", middle)
    say("record_training_preparation_end_time", end_us)
