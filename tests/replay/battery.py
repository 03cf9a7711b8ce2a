"""The fixed battery of comparisons with the reference: exit 0 when all agree, 1 with the first difference.

`python -m tests.replay.battery engine|log RESULTS`: drawn outages on the engine, or logs through the SQL
timelines, against the reference's results that `remember` has written. It runs in a process of its own on
whatever `pipeline` that process imports, and prints where that lies. Heavy imports only where used: it starts
once for every mutation.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pipeline
from pipeline.replay.engine import History
from pipeline.units import US_PER_S
from tests.replay import cases

ENGINE_SEEDS, HARDER_SEEDS, CROWDED_SEEDS = 360, 240, 60
LOG_SEEDS = 24


def engine_cases() -> Iterator[cases.Case]:
    """Yield the cases of drawn outages, all responses and batch rules in turn, the harder ones last."""
    for seed in range(ENGINE_SEEDS + HARDER_SEEDS):
        rule, harder = cases.RULES[seed % len(cases.RULES)], seed >= ENGINE_SEEDS
        yield cases.make_case(cases.Seeded(seed), *rule, harder=harder)
    # What full groups leave to a boosted one of their rack matters only to large groups, several a domain.
    for seed in range(CROWDED_SEEDS):
        yield cases.make_case(cases.Seeded(seed), "ntp-pw", crowded=True)


def log_cases() -> Iterator[list[Any]]:
    """Yield the logs, each with a case for every placement seed."""
    from tests.replay import logs

    for seed in range(LOG_SEEDS):
        yield logs.make_logged(cases.Seeded(seed), harder=seed % 2 == 1)


def remember(folder: Path) -> None:
    """Write the reference's results of both batteries into a folder."""
    engine_results = [cases.wanted(case) for case in engine_cases()]
    (folder / "engine.pickle").write_bytes(pickle.dumps(engine_results))
    log_results = [[cases.wanted(logged.case) for logged in log] for log in log_cases()]
    (folder / "log.pickle").write_bytes(pickle.dumps(log_results))


def compared(case: cases.Case, told: cases.Wanted, failures: History | None = None, scale: int = 1) -> str:
    """Return the difference; a replay that breaks down, as by a ledger that does not add up, is one."""
    try:
        return cases.difference(case, failures, scale, told)
    except Exception as error:  # noqa: BLE001 - whatever a planted error leads to
        return f"{type(error).__name__}: {error}"


def engine(folder: Path) -> str:
    """Return the first difference on drawn outages, or an empty text."""
    results = pickle.loads((folder / "engine.pickle").read_bytes())
    for seed, (case, told) in enumerate(zip(engine_cases(), results, strict=True)):
        if found := compared(case, told):
            return f"seed {seed}: {found}"
    return ""


def log(folder: Path) -> str:
    """Return the first difference on logs through the SQL timelines, or an empty text."""
    from tests.replay import logs
    from tests.timelines import lab

    results = pickle.loads((folder / "log.pickle").read_bytes())
    for seed, (log, told) in enumerate(zip(log_cases(), results, strict=True)):
        first = log[0]
        size = first.case.cluster.domain_size
        with lab.built(first.faults, first.placed, first.case.window, size) as con:
            for logged, result in zip(log, told, strict=True):
                failures = logs.sql_history(logged, con)
                if found := compared(logged.case, result, failures, US_PER_S):
                    return f"log {seed}: {found}"
    return ""


if __name__ == "__main__":
    sys.stdout.write(f"{pipeline.__file__}\n")
    difference = {"engine": engine, "log": log}[sys.argv[1]](Path(sys.argv[2]))
    sys.stdout.write(f"{difference}\n")
    sys.exit(1 if difference else 0)
