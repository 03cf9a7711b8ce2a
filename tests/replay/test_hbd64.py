"""The headline on the real trace: what each policy keeps of the pool without spares, scenario hbd64.

The expected shares are as stated for this trace, and derived: nobody measured them on the cluster. They are
round numbers and the placement is random, hence the 1.5 points.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from pipeline import config
from pipeline.ingest import run as ingest
from pipeline.lake.store import Lake
from pipeline.replay import run as replay
from pipeline.replay.study import Study
from pipeline.timelines import run as timelines

STATED = {"rigid": 0.01, "dp-drop": 0.78, "ntp": 0.91, "ntp-pw": 0.95}
TOLERANCE_FRAC = 0.015
SEED = 0


def quiet(_: str) -> None:
    """Take a log line and drop it."""


@pytest.mark.shared
def test_policies_keep_what_was_stated_for_the_real_trace(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without spares rigid < dp-drop < ntp < ntp-pw, near 1 %, 78 %, 91 % and 95 % of the pool."""
    monkeypatch.setenv("GOODPUT_DATA", str(shared_data))  # absolute: nothing is fetched
    shipped = config.load("hbd64")
    scenario = replace(shipped, cluster=replace(shipped.cluster, placement_seeds=(SEED,)))
    lake = Lake(tmp_path)
    events, _ = ingest.stage(lake, scenario, quiet)
    lines, _ = timelines.stage(lake, scenario, events, quiet)
    failures = replay.load(lake, scenario, lines)
    study = Study(scenario)
    goodput = {
        policy.name: study.row(replace(policy, spare_domains=0), failures, SEED)["goodput_frac"]
        for policy in scenario.policies
    }

    assert goodput == pytest.approx(STATED, abs=TOLERANCE_FRAC)
    assert all(goodput[less] < goodput[more] for less, more in pairwise(STATED))
