"""The SimPy model of a job gives the engine's ledger to the tick, drawn or through the stages."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from pipeline import config
from pipeline.replay.ledger import Ledger
from pipeline.units import US_PER_D, US_PER_S, to_us
from tests import reference_simulator as reference
from tests.replay.cases import CURVE, Case, run_engine

pytestmark = pytest.mark.usefixtures("simpy")

POWER = reference.Power(Fraction("1.3"), Fraction(0), CURVE)
S = US_PER_S


def modelled(plan, outages: Iterable, apps: Iterable[int]) -> dict[str, Fraction]:
    from tests.peers import simpy_job

    return simpy_job.run(plan, outages, apps)


def engine_ledger(plan, outages, apps: Iterable[int]) -> Ledger:
    """Return the engine's ledger of a plan."""
    job = reference.Job(plan.domain_gpus, plan.domains_per_replica, 1, plan.replicas, 4)
    response, batch = ("dp-drop", "elastic") if plan.shrinks else ("rigid", "pause")
    policy = reference.Policy(
        response,
        batch,
        (),
        reshard_overhead_frac=Fraction(0),
        detect_s=plan.detect,
        restart_s=plan.restart,
        checkpoint_interval_s=plan.interval,
        checkpoint_save_s=plan.save,
    )
    rows = tuple(reference.Outage(o.domain, o.gpu, o.gpu, o.start, o.end) for o in outages)
    pool = reference.Cluster(plan.domains, plan.domain_gpus)
    return run_engine(Case(pool, job, POWER, policy, rows, tuple(apps), plan.window))[0]


def agree(found: dict[str, Fraction], ledger: Ledger) -> None:
    """Compare every bucket, the number of stops and the goodput, exactly."""
    wanted = {name: ticks for name, ticks in ledger.buckets.items() if ticks}
    wanted["interruptions"] = Fraction(ledger.interruptions)
    assert {name: ticks for name, ticks in found.items() if ticks or name == "interruptions"} == wanted
    assert found["productive"] / (ledger.total_gpus * ledger.window) == ledger.goodput_frac


def drawn(seed: int, *, shrinks: bool, unit: int):
    """Return a plan and its failures, in multiples of `unit` ticks: a large unit makes instants meet."""
    from tests.peers import simpy_job

    random = np.random.Generator(np.random.PCG64(seed))
    replicas, spares, gpus = (int(random.integers(low, high)) for low, high in ((1, 5), (0, 4), (1, 5)))
    per_replica = int(random.integers(1, 4))
    window = 20_000 * S

    def ticks(mean_s: float, many: int) -> list[int]:
        return [int(t) // unit * unit for t in random.exponential(mean_s * S, many)]

    detect, restart, interval, save = (ticks(mean, 1)[0] for mean in (60, 200, 900, 30))
    plan = simpy_job.Plan(
        domains=replicas * per_replica + spares,
        domain_gpus=gpus,
        domains_per_replica=per_replica,
        replicas=replicas,
        shrinks=shrinks,
        detect=detect,
        restart=restart,
        interval=interval + unit,
        save=save,
        window=window,
    )
    outages = []
    for start in random.integers(-window // 10, window, int(random.integers(5, 40))).tolist():
        where = int(random.integers(plan.domains)), int(random.integers(gpus))
        begin = start // unit * unit
        outages.append(simpy_job.Outage(*where, begin, begin + unit + ticks(1_500, 1)[0]))
    apps = [int(t) // unit * unit for t in random.integers(0, window, 6)]
    return plan, outages, apps


@pytest.mark.parametrize("shrinks", [False, True])
@pytest.mark.parametrize("unit", [1, 50 * S], ids=["microseconds", "instants meet"])
def test_drawn_jobs(unit: int, shrinks: bool) -> None:
    """Sixty drawn jobs: every bucket equal to the tick, also where faults and completions share instants."""
    stops, lost = 0, Fraction(0)
    for seed in range(60):
        plan, outages, apps = drawn(seed, shrinks=shrinks, unit=unit)
        found = modelled(plan, outages, apps)
        agree(found, engine_ledger(plan, outages, apps))
        stops += int(found["interruptions"])
        lost += found.get("rework", Fraction(0))
    assert stops > 300 and lost > 0


def test_the_worked_case() -> None:
    """Failures at 1,000 and 1,060 s, restart 120 s, save at 600 s: 2,420 s productive, one stop."""
    from tests.peers import simpy_job

    plan = simpy_job.Plan(1, 1, 1, 1, shrinks=False, detect=0, restart=120, interval=600, save=0, window=3000)
    found = modelled(plan, [], [1_000, 1_060])
    assert (found["productive"], found["rework"], found["restart"]) == (2_420, 400, 180)
    assert found["interruptions"] == 1


SCENARIO = """
title = "A small cluster with the failures of a paper"
[trace]
preset = "llama3"
days = 40
seed = 3
[trace.severity]
software = "app"
[cluster]
nodes = 400
domain_size = 32
placement_seeds = [0, 1]
[job]
tp = 32
pp = 4
[costs]
detect_s = 60
restart_s = 240
checkpoint_interval_s = 1800
checkpoint_save_s = 12
[[policy]]
name = "rigid"
response = "rigid"
spare_domains = 8
[[policy]]
name = "dp-drop"
response = "dp-drop"
batch = "elastic"
"""


def test_through_the_stages(tmp_path: Path) -> None:
    """A synthetic log through SQL timelines and replay: the model, fed from the tables, keeps the same."""
    from small_lake import quiet

    from pipeline.ingest import run as ingest
    from pipeline.lake.store import Lake
    from pipeline.replay import run as replay
    from pipeline.timelines import run as timelines
    from tests.peers import simpy_job

    (tmp_path / "s.toml").write_text(SCENARIO)
    scenario = config.load(str(tmp_path / "s.toml"))
    lake = Lake(tmp_path / "root")
    events, _ = ingest.stage(lake, scenario, quiet)
    lines, _ = timelines.stage(lake, scenario, events, quiet)
    ledgers, _ = replay.stage(lake, scenario, lines, quiet)
    outcomes = pl.read_parquet(lake.table(ledgers, "outcomes"))
    origin = to_us(datetime.fromisoformat(lines.facts["window_start"]))
    for row in outcomes.iter_rows(named=True):
        here = pl.col("placement_seed") == row["placement_seed"]
        tables = (
            pl.read_parquet(lake.table(lines, name)).filter(here) for name in ("gpu_downtime", "onsets")
        )
        downtime, onsets = (
            table.with_columns(pl.selectors.datetime().dt.timestamp("us") - origin) for table in tables
        )
        outages = [
            simpy_job.Outage(part["domain_id"], gpu, part["t_start"], part["t_end"])
            for part in downtime.iter_rows(named=True)
            for gpu in range(part["gpu_first"], part["gpu_last"] + 1)
        ]
        apps = onsets.filter(pl.col("severity") == "app")["t"].to_list()
        plan = simpy_job.Plan(
            domains=100,
            domain_gpus=32,
            domains_per_replica=4,
            replicas=row["dp"],
            shrinks=row["response"] == "dp-drop",
            detect=60 * S,
            restart=240 * S,
            interval=1800 * S,
            save=12 * S,
            window=40 * US_PER_D,
        )
        found = modelled(plan, outages, apps)
        assert float(found["productive"] / (100 * 32 * plan.window)) == row["goodput_frac"]
        assert found["interruptions"] == row["interruptions"] > 20
    assert outcomes.height == 4
