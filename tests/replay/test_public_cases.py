"""Public cases of goodput accounting, as far as the model covers them.

A node of these cases is a scale-up domain here: what the cases count is nodes, and a TP group fills one.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from small_lake import catalog_of, hour, pool, steps

from pipeline import cli
from pipeline.lake import catalog, sql
from pipeline.lake.store import Lake
from pipeline.replay.ledger import Ledger, Span
from tests.reference_simulator import Cluster, Job, Outage, Policy, Power
from tests.replay.cases import CURVE, Case, run_engine, seconds_of
from tests.timelines import lab

if TYPE_CHECKING:
    import polars as pl

pytestmark = pytest.mark.shared

FOREVER = 10**9
POWER = Power(Fraction(1), Fraction(0), CURVE)


def case(shared_dir: Path, name: str, inputs: str) -> tuple[Any, dict[str, Any]]:
    """Return a case's input (parsed JSON, or rows of CSV) and its expected values."""
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    text = (folder / inputs).read_text(encoding="utf-8")
    rows = json.loads(text) if inputs.endswith("json") else list(csv.DictReader(text.splitlines()))
    return rows, json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]


def replayed(
    domains: int,
    job: Job,
    policy: Policy,
    outages: list[Outage],
    window: int,
    app_faults: Iterable[int] = (),
) -> tuple[Case, Ledger, list[Span]]:
    mine = Case(Cluster(domains, job.tp), job, POWER, policy, tuple(outages), tuple(app_faults), window)
    return mine, *run_engine(mine)


def intervals(mine: Case, spans: list[Span], state: str) -> list[list[int]]:
    """Return the intervals in a state."""
    found: list[list[int]] = []
    for second, row in enumerate(seconds_of(mine, spans)):
        if row[0] == state:
            if found and found[-1][1] == second:
                found[-1][1] = second + 1
            else:
                found.append([second, second + 1])
    return found


def paired(rows: Iterable[tuple[int, str]], window_s: int, severity: str = "down") -> pl.DataFrame:
    """Return the outages of one fault on one node, from its (second, onset or clear) rows in log order."""
    marks = [(second, kind) for second, kind in rows]
    faults = [lab.Fault("n1", None, second, None, severity) for second, _ in marks]
    table = lab.events(faults)
    kinds = [kind for _, kind in marks]
    table = table.set_column(table.schema.get_field_index("kind"), "kind", [kinds])
    with sql.connect() as con:
        placed = lab.placements(["n1"], lab.cluster(1, 8, 8))
        lab.build(con, table, placed, lab.parameters(window_s, 8))
        return lab.seconds(lab.stored(con, "outages"), "t_start", "t_end")


def test_f01_nested_time_is_booked_once(shared_dir: Path) -> None:
    """What lies within something else is not added again: every second is in one bucket, 85 s in all.

    The case's waits (`slice_down`, `scale_up`, and the time that it leaves unattributed) are capacity that is
    not there: one long outage with the two named ones nested in it, whose union counts. Its re-initialisation
    is a start, and its `tpu_init` and `training_prep` are parts of that start, which the ledger does not tell
    apart (a start out of a pause has no `detect`). A second domain that waits whole shows `paused`.
    """
    events, wanted = case(shared_dir, "F01", "events.json")
    spans_s = {item["e"]: (item["s"], item["t"]) for item in events if "s" in item}
    wall = events[-1]["t"]
    start, end = spans_s["reinit"]
    nested = [Outage(0, 0, 0, *spans_s[name]) for name in ("slice_down", "scale_up")]
    outages = [Outage(0, 0, 0, -1, start), *nested]
    job = Job(1, 2, 1, 1, 1)
    policy = Policy("rigid", "pause", (), restart_s=end - start, checkpoint_interval_s=FOREVER)
    mine, ledger, spans = replayed(2, job, policy, outages, wall)
    assert intervals(mine, spans, "paused") == [[0, start]]
    assert intervals(mine, spans, "starting") == [[start, end]]
    assert intervals(mine, spans, "running") == [[end, wall]]
    wait = wanted["slice_down"] + wanted["scale_up"] + wanted["unattributed"]
    exclusive = {"failed": wait, "paused": wait, "restart": 2 * wanted["reinit"], "productive": 2 * 10}
    assert {name: value for name, value in ledger.buckets.items() if value} == exclusive
    assert sum(exclusive.values()) == 2 * wanted["sum_exclusive"] == 2 * wanted["wall_s"]
    assert round(float(ledger.goodput_frac), 6) == wanted["goodput"]
    lengths = sum(outage.t_end - max(0, outage.t_start) for outage in outages)
    assert lengths - wait == wanted["slice_down"] + wanted["scale_up"], "the sum of outages counts them twice"


def test_f02_capacity_is_weighted_by_time(shared_dir: Path) -> None:
    """Two of four slices run throughout, though four are available from 8 h on: 1/2, and 5/9 available.

    The gap of 1/18 is the policy's (`stranded`), not the hardware's (`failed`).
    """
    rows, wanted = case(shared_dir, "F02", "slices.csv")
    change, end = (int(row["t_h"]) for row in rows[1:])
    slices = int(rows[0]["total"])
    down = slices - int(rows[0]["available"])
    policy = Policy("dp-drop", "elastic", (), checkpoint_interval_s=FOREVER)
    outages = [Outage(domain, 0, 0, -1, change) for domain in range(down)]
    _, ledger, _ = replayed(slices, Job(1, 1, 1, slices, 1), policy, outages, end)
    total = slices * end
    assert float(ledger.goodput_frac) == wanted["stepping_efficiency"]
    assert round(float(1 - ledger.buckets["failed"] / total), 6) == wanted["availability"]
    assert round(float(ledger.buckets["stranded"] / total), 6) == wanted["lost_by_not_scaling_up"]


def test_f04_a_restart_loop_that_never_starts_is_one_interruption(shared_dir: Path) -> None:
    """Failures during recovery extend it: 44 attempts, one interruption, 3,960 s lost, nothing kept.

    Each cycle is a start that is struck at the very instant at which it would be complete. The first fault
    comes a second after the window's start, because the model takes what is down at t <= 0 for the initial
    state; that second's work is lost to the roll-back.
    """
    cycles, wanted = case(shared_dir, "F04", "cycles.csv")
    faults = [int(cycle["start_s"]) + 1 for cycle in cycles]
    wall = wanted["lost_wall_s"]
    policy = Policy("rigid", "pause", (), restart_s=90, checkpoint_interval_s=FOREVER)
    mine, ledger, spans = replayed(1, Job(1, 1, 1, 1, 1), policy, [], wall + 1, faults)
    assert len(faults) == wanted["failed_recovery_attempts"]
    assert ledger.interruptions == wanted["independent_failures"]
    assert intervals(mine, spans, "starting") == [[1, wall + 1]]
    assert ledger.buckets["restart"] == wall
    assert ledger.buckets["productive"] == wanted["net_progress_steps"]
    assert float(ledger.goodput_frac) == wanted["goodput_in_window"]


def test_f04_a_loop_that_runs_a_little_each_time_keeps_nothing(shared_dir: Path) -> None:
    """Taken as a start and three steps of a second each, the loop loses the same wall time and keeps nothing.

    Every cycle then stops a running job, so the model counts the 44 of them as interruptions: it sees when
    a job stops and not why, and that one corrupt file is behind all the stops is not in its
    history. All else agrees: 132 s of work done, none kept. Telling one cause from many is the log's business
    (the next test).
    """
    cycles, wanted = case(shared_dir, "F04", "cycles.csv")
    steps_s = int(cycles[0]["steps_after_load"])
    start_s = int(cycles[0]["end_s"]) - steps_s
    # As above the first fault comes after a second; the last cycle ends a second before the window.
    faults = [1, *(int(cycle["end_s"]) + 1 for cycle in cycles)]
    policy = Policy("rigid", "pause", (), restart_s=start_s, checkpoint_interval_s=FOREVER)
    mine, ledger, spans = replayed(1, Job(1, 1, 1, 1, 1), policy, [], faults[-1] + 1, faults)
    assert ledger.interruptions == wanted["independent_failures"] + wanted["failed_recovery_attempts"]
    assert sum(end - start for start, end in intervals(mine, spans, "running")[1:]) == 132
    assert ledger.buckets["rework"] == 1 + steps_s * len(cycles)
    assert ledger.buckets["restart"] == start_s * len(cycles) + 1
    assert ledger.buckets["productive"] == wanted["net_progress_steps"]
    assert ledger.buckets["rework"] + ledger.buckets["restart"] == wanted["lost_wall_s"] + 2


def test_f04_repeats_of_one_fault_are_one_outage(shared_dir: Path) -> None:
    """Of one fault that is logged 44 times before it clears, the log makes one outage that lasts the loop."""
    cycles, wanted = case(shared_dir, "F04", "cycles.csv")
    rows = [(int(cycle["start_s"]), "onset") for cycle in cycles] + [(wanted["lost_wall_s"], "clear")]
    (outage,) = paired(rows, 10_000).to_dicts()
    assert (outage["t_start"], outage["t_end"]) == (0, wanted["lost_wall_s"])
    assert outage["duration_s"] == wanted["lost_wall_s"]
    assert outage["events"] == len(rows)


def test_f06_a_job_without_spares_waits(shared_dir: Path) -> None:
    """Four of five nodes are needed: the first failure takes the spare, the second waits for a repair.

    The case models no lost work; the states are compared, and saves cost nothing. Its `spares_at` counts
    nodes beyond the need, -1 included, which the ledger does not hold: `spare_idle` is never below zero.
    """
    given, wanted = case(shared_dir, "F06", "timeline.json")
    policy = Policy("rigid", "pause", (), restart_s=given["restart_s"], checkpoint_interval_s=1)
    outages = [
        Outage(int(failure["node"][1:]) - 1, 0, 0, failure["t"], failure["t"] + failure["repair_s"])
        for failure in given["failures"]
    ]
    job = Job(1, given["need"], 1, 1, 1)
    mine, ledger, spans = replayed(given["allocated"], job, policy, outages, given["end"])
    running = intervals(mine, spans, "running")
    assert running == wanted["running_intervals"]
    assert sum(end - start for start, end in running) == wanted["run_s"]
    paused = intervals(mine, spans, "paused")
    assert sum(end - start for start, end in paused) == wanted["stalled_s"]
    starting = intervals(mine, spans, "starting")
    assert sum(end - start for start, end in starting) == wanted["restart_s"]
    work = ledger.buckets["productive"] + ledger.buckets["rework"]
    assert work / (given["need"] * given["end"]) == Fraction(str(wanted["goodput"]))


F08_SCENARIO = """
title = "Two nodes, 1,000 s"
[trace]
source = "infinitehbd"
path = "*.json"
window_d = [0.0, 0.01157407407]  # 1,000 s
[cluster]
nodes = 2
domain_size = 8
[job]
tp = 8
[costs]
checkpoint_interval_s = 60
[[policy]]
name = "dp-drop"
response = "dp-drop"
"""


def as_trace(rows: Iterable[dict[str, Any]]) -> str:
    """Return rows of F08 in a form that a source reads: onsets and clears, times in days."""
    return json.dumps(
        [
            {
                "node_id": row["node"],
                "event_time": round(row["t"] / 86_400, 14),
                "event_type": "fault_end" if row.get("healthy") else "fault_start",
                "fault_type": {"Level": "Hardware Failure", "Class": "GPU", "Desc": row["check"]},
            }
            for row in rows
        ]
    )


@pytest.mark.slow
def test_f08_what_is_sent_again_changes_nothing(
    shared_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row that arrives again, later or first, opens no outage; events count by their own time, files once.

    No source reads the case's own JSON lines, so they are converted to the rows of `infinitehbd`: what was
    ingested later stands in a file of its own, which is even read first. Its event ids are hashes of the
    content. Two equal rows of one file stay two events (they may be two), and one outage all the same.
    """
    (folder,) = (shared_dir / "cases").glob("F08-*")
    rows = [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    wanted = json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]
    (tmp_path / "later.json").write_text(as_trace(row for row in rows if "ingested_at" in row))
    (tmp_path / "stream.json").write_text(as_trace(row for row in rows if "ingested_at" not in row))
    (tmp_path / "f08.toml").write_text(F08_SCENARIO)
    lake = Lake(tmp_path / "root")

    def run(command: str) -> dict[str, Any]:
        code = cli.main(["-q", "--json", "--root", str(lake.root), command, str(tmp_path / "f08.toml")])
        told = capsys.readouterr()
        assert code == 0, told.err
        done: dict[str, Any] = json.loads(told.out)
        return done

    def found() -> tuple[list[list[Any]], int, int]:
        with catalog.connect(lake) as con:
            outages = con.sql("select node, t_start, t_end from outages order by t_start").fetchall()
            stored, events = con.sql(
                "select (select sum(rows_accepted) from files), (select count(*) from events)"
            ).fetchall()[0]
        day_0 = datetime(2024, 3, 30)  # noqa: DTZ001 - tables hold UTC without a zone
        spans = [[(instant - day_0).total_seconds() for instant in row[1:]] for row in outages]
        return [[row[0], *span] for row, span in zip(outages, spans, strict=True)], stored, events

    first = run("run")
    page = Path(first["report"]).read_bytes()
    assert first["ran"]
    outages, stored, events = found()
    assert outages == wanted["outages"]
    assert sum(end - start for _, start, end in outages) == wanted["down_s"]
    assert stored - events == wanted["duplicates_dropped"]

    again = run("run")
    assert again["ran"] == []
    assert found() == (outages, stored, events)
    assert Path(again["report"]).read_bytes() == page

    # A cold start sends the whole stream once more, the stale row in it.
    (tmp_path / "zz-restart.json").write_text(as_trace(rows))
    assert "timelines" in run("timelines")["ran"]
    assert found()[0] == outages


def test_f10_only_a_completed_save_counts(shared_dir: Path) -> None:
    """A save that is under way when the fault strikes is void: the roll-back goes to the one before.

    The case saves beside the work (340 steps lost: 40 of them during the save); here the blocking part of a
    save stops the work, so the same save from 600 s on loses the 300 s of work before it, never nothing.
    """
    rows, wanted = case(shared_dir, "F10", "ckpt.csv")
    failure, _ = case(shared_dir, "F10", "failure.json")
    starts = [int(row["start_s"]) for row in rows]
    # 285 s, a save of 30 s, 285 s: the second save begins at 600 s.
    interval, blocked = 285, int(rows[1]["end_s"]) - starts[1]
    policy = Policy(
        "rigid", "pause", (), restart_s=failure["restart_s"], checkpoint_interval_s=interval,
        checkpoint_save_s=blocked,
    )  # fmt: skip
    assert 2 * interval + blocked == starts[2]
    outages = [Outage(0, 0, 0, failure["t"] - 15, failure["t"] - 15)]  # within the blocking part
    _, ledger, _ = replayed(1, Job(1, 1, 1, 1, 1), policy, outages, 700)
    assert ledger.buckets["rework"] == interval
    assert ledger.buckets["restart"] == wanted["restart_s"]
    assert wanted["lost_s"] == failure["t"] - wanted["rollback_step"]
    # A save that blocks nothing is complete at once: work since 300 s is lost, and so the case's 340 s.
    policy = Policy("rigid", "pause", (), restart_s=failure["restart_s"], checkpoint_interval_s=starts[1])
    late = [Outage(0, 0, 0, failure["t"], failure["t"])]
    _, ledger, _ = replayed(1, Job(1, 1, 1, 1, 1), policy, late, 700)
    assert ledger.buckets["rework"] == wanted["if_wrongly_600"]["lost_steps"]


def test_f12_a_failure_within_the_restart(shared_dir: Path) -> None:
    """Two nodes fail within one restart: one interruption, down once, work lost once.

    The case's goodput is of the job's eight nodes, spares left out; that is `ettr_frac`.
    """
    given, wanted = case(shared_dir, "F12", "f.json")
    policy = Policy(
        "rigid", "pause", (), restart_s=given["restart_s"], checkpoint_interval_s=given["ckpt_every_s"],
        checkpoint_save_s=given["ckpt_cost_s"],
    )  # fmt: skip
    outages = [
        Outage("ab".index(failure["node"]), 0, 0, failure["t"], FOREVER) for failure in given["failures"]
    ]
    job = Job(1, given["job_nodes"], 1, 1, 1)
    mine, ledger, spans = replayed(given["job_nodes"] + given["spares"], job, policy, outages, given["end"])
    assert ledger.interruptions == wanted["interruptions"]
    assert len(outages) == wanted["failures"]
    assert intervals(mine, spans, "starting") == [wanted["down_interval"]]
    nodes = given["job_nodes"]
    assert ledger.buckets["rework"] == nodes * wanted["lost_work_s"]
    assert ledger.buckets["productive"] == nodes * wanted["productive_s"]
    assert round(float(ledger.ettr_frac), 6) == wanted["goodput"]


def test_f11_few_faults_make_a_wide_interval(shared_dir: Path) -> None:
    """Three times to failure have the mean 21.57 h, and the truth lies somewhere between 9 and 105 h.

    The case's interval is that of an observation which ends with its third failure, 2T / chi-square with six
    degrees on both sides. A log's window ends on its own, so the product's lower bound allows for the fault
    that was about to come: eight degrees. At the third failure the two meet: a window that ends just before
    it has the case's lower bound, and one that ends just after it has its upper bound.
    """
    rows, wanted = case(shared_dir, "F11", "ttf.csv")
    times, now = [], 0.0
    for row in rows:
        now += float(row["ttf_h"])
        times.append(now)
    outages = [
        {"outage_id": f"o{n}", "node": "n0", "component": "gpu", "t_start": hour(t), "t_end": hour(t)}
        for n, t in enumerate(times)
    ]

    def measured(window_h: float) -> dict[str, Any]:
        tables = {"outages": outages, "cluster_timeline": steps((0, window_h, 0)), "placements": pool(1)}
        (row,) = catalog_of(tables).sql("from mtbf_by_component('s')").pl().to_dicts()
        return row

    before, after = measured(now), measured(now + 1e-6)
    assert (before["faults"], after["faults"]) == (wanted["n_ttf"] - 1, wanted["n_ttf"])
    assert round(after["mtbf_h"], 4) == wanted["mean_ttf_h"]
    assert [round(before["mtbf_low_h"], 2), round(after["mtbf_high_h"], 2)] == wanted["ci95_exponential_h"]
    assert after["mtbf_low_h"] < before["mtbf_low_h"], "a window that ends on its own knows a little less"


def test_f11_incidents_and_samples_are_other_questions(shared_dir: Path) -> None:
    """Seven incidents in the journal give another mean than three times to failure: the query says which.

    The share of time that is down is another query's business, weighted by time. The incidents' own instants
    are not given; equal ones with the stated share are laid out here.
    """
    given, wanted = case(shared_dir, "F11", "journal.json")
    days = (datetime.fromisoformat(given["to"]) - datetime.fromisoformat(given["from"])).days
    window_h, count = 24 * days, given["incidents"]
    gap_h, down_h = window_h / count, given["faulted_fraction"] * window_h / count
    spans = [(n * gap_h, n * gap_h + down_h) for n in range(count)]
    times = [{"t_start": hour(start), "t_end": hour(end)} for start, end in spans]
    named = [{"outage_id": f"o{n}", "node": "n0", "component": "gpu", **t} for n, t in enumerate(times)]
    down = [{"domain_id": 0, "gpu_first": 0, "gpu_last": 0, **t} for t in times]
    level = steps(*((start, end, 1) for start, end in spans), (spans[-1][1], window_h, 0))
    tables = {
        "outages": named, "gpu_downtime": down, "cluster_timeline": level, "placements": pool(1, gpus=1),
    }  # fmt: skip
    con = catalog_of(tables)
    (row,) = con.sql("from mtbf_by_component('s')").pl().to_dicts()
    assert row["faults"] == wanted["incidents"]
    assert row["mtbf_h"] == pytest.approx(gap_h)
    assert row["mtbf_low_h"] < wanted["mean_ttf_h"] < row["mtbf_h"]
    ((share,),) = con.sql("select gpu_frac from availability('s', 1)").fetchall()
    assert round(share, 3) == wanted["availability_from_samples"]
    stated = sql.load("3_metrics")["mtbf_by_component"].header["caveat"]
    assert "window / faults" in stated and "samples" in stated


def test_f11_a_reboot_that_cures_nothing_is_no_new_failure(shared_dir: Path) -> None:
    """A fault that shows again before it cleared is still the same outage; after a clear it is a new one."""
    _, wanted = case(shared_dir, "F11", "journal.json")
    assert wanted["reboots_without_recovery_not_counted_as_new_failures"]
    rows = [(100, "onset"), (700, "onset"), (1300, "onset"), (9000, "clear"), (9500, "onset")]
    found = paired(rows, 10_000)
    assert found.select("t_start", "t_end").rows() == [(100, 9000), (9500, 10_000)]
