"""Public cases of goodput accounting, as far as the model covers them.

A node of these cases is a scale-up domain here: what the cases count is nodes, and a TP group fills one.
"""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from pipeline.replay.ledger import Ledger, Span
from tests.reference_simulator import Cluster, Job, Outage, Policy, Power
from tests.replay.cases import CURVE, Case, run_engine, seconds_of

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
    domains: int, job: Job, policy: Policy, outages: list[Outage], window: int
) -> tuple[Case, Ledger, list[Span]]:
    mine = Case(Cluster(domains, job.tp), job, POWER, policy, tuple(outages), (), window)
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
