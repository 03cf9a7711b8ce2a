"""Two versions of a small scenario, a synthetic one, and the start of the process that a test needs apart."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LOG = """node,start,end,component
n01,2024-01-03T00:00Z,2024-01-04T12:00Z,gpu
n02,2024-01-08T06:00Z,2024-01-08T18:00Z,nic
"""
POLICY = """
[cluster]
nodes = 4
domain_size = 16
[job]
tp = 16
[[policy]]
name = "drop"
response = "dp-drop"
batch = "elastic"
"""
LOGGED = """title = "Two small domains"
[trace]
source = "intervals"
path = "log.csv"
window = ["2024-01-01T00:00Z", "2024-01-{day}T00:00Z"]
"""
DRAWN = """title = "Two small domains, drawn"
[trace]
preset = "llama3"
days = 20
seed = 1
"""
RUN_OLD, RUN_NEW, RUN_DRAWN = (["run", f"{name}/case.toml"] for name in ("old", "new", "drawn"))


def write_scenarios(folder: Path) -> None:
    """Write the scenario in an old and a new version, each with its log, and one with a preset."""
    later = LOG + "n03,2024-01-12T00:00Z,2024-01-13T00:00Z,host\n"
    for name, log, trace in (
        ("old", LOG, LOGGED.format(day=21)),
        ("new", later, LOGGED.format(day=26)),
        ("drawn", "", DRAWN),
    ):
        (folder / name).mkdir()
        (folder / name / "case.toml").write_text(trace + POLICY)
        (folder / name / "log.csv").write_text(log)


def told_by(script: str, folder: Path, plan: Mapping[str, Any]) -> dict[str, Any]:
    """Run a script of this folder on a plan; return what it found."""
    here = Path(__file__)
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", str(here.with_name(script))],
        input=json.dumps({"folder": str(folder), **plan}),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(here.parents[2]), "OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    sys.stdout.write(json.dumps({name: value for name, value in found.items() if name != "wrong"}) + "\n")
    return found
