"""Four nodes for ten hours: a log and a job small enough to account for every GPU-hour with pencil and paper.

Nodes n01 and n03 are domain 0, n02 and n04 domain 1; a node has 2 GPUs, a domain 4, the pool 8. Hours count
from 2025-02-28T20:00Z, so that hour 4 begins a day, a month and a weekend.

    hour        0   .5  1       2       3       4       5       6       7       8       9       10
    n01 gpu 0               [------ gpu ----]
    n01                             [-------- nic ----------]
    n03                                             [----- gpu -----]                       [ host ...
    n02                                                                     software (app)
    n04     [-power-]
    failed GPUs     2   0       1           2               4       2       0       0       0       2

The power fault began two hours before the window; the host fault is still open at its end. GPU 0 of n01 is
down from 1 to 5 and GPU 1 from 2 to 5: sums of outages give 2 + 6 GPU-hours for n01, the union gives 4 + 3.

The job is TP4, one domain a replica. A start takes 0.1 h to detect and 0.2 h to restart; after 0.6 h of
running follows a save of 0.1 h. What the three lines do, X * J * TP in GPUs:

`ELASTIC` (dp-drop, no spare, DP 2): domain 0 alone (4 GPUs) from 0; save .6-.7; the gpu fault at 1 takes
  .3 h. Start 1-1.3 on domain 1 (4 GPUs), which runs to the app fault at 7: 8 rounds of .7 h, then .1 h lost.
  Start 7-7.3, both domains (8 GPUs): 2 rounds, .3 h lost at 9. Start 9-9.3 on domain 1: .6 h, save 9.9-10.
`RIGID` (rigid, no spare, DP 2; 8 GPUs or none): paused 0-.5, start (restart only) .5-.7, .3 h lost at 1.
  Paused 1-6, start 6-6.2, .6 h, save, .1 h lost at 7. Start 7-7.3, 2 rounds, .3 h lost at 9. Paused 9-10.
`SPARED` (any response, one spare, DP 1; 4 GPUs): as ELASTIC, but from 7.3 on domain 0 alone; while both
  domains are clean (.5-1 and 6-9) one is `spare_idle`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import small_lake

Ask = Callable[..., list[dict[str, Any]]]

SCENARIO_NAME = "small"
HOUR_0 = datetime(2025, 2, 28, 20)  # noqa: DTZ001 - tables hold UTC without a zone
WINDOW_H = 10.0
POOL_GPUS = 8
TOTAL_GPU_H = 80.0
PER_DAY = 24 / WINDOW_H

LOG = """node,gpu,start,end,component,reason
n01,0,2025-02-28T21:00Z,2025-02-28T23:00Z,gpu,Xid 79
n01,,2025-02-28T22:00Z,2025-03-01T01:00Z,nic,link down
n03,,2025-03-01T00:00Z,2025-03-01T02:00Z,gpu,Xid 48
n03,,2025-03-01T05:00Z,,host,no answer
n02,,2025-03-01T03:00Z,2025-03-01T03:00Z,software,NCCL timeout
n04,,2025-02-28T18:00Z,2025-02-28T20:30Z,power,
n04,,2025-03-01T02:00Z,2025-03-01T01:00Z,power,ends before it begins
"""
RACKS = """node,domain
n01,A
n03,A
n02,B
n04,B
"""
SCENARIO = """
title = "Four nodes for ten hours"
[trace]
source = "intervals"
path = "log.csv"
window = ["2025-02-28T20:00Z", "2025-03-01T06:00Z"]
[trace.severity]
software = "app"
[cluster]
nodes = 4
gpus_per_node = 2
domain_size = 4
placement = "topology"
topology = "racks.csv"
[job]
tp = 4
pp = 1
samples_per_replica = 2
[costs]
detect_s = 360
restart_s = 720
checkpoint_interval_s = 2160
checkpoint_save_s = 360
[power]
tdp_w = 1000
draw_frac = 1.0
idle_frac = 0.5
overhead_w = 0
[[policy]]
name = "dp-drop"
response = "dp-drop"
batch = "elastic"
spare_domains = 1
[[policy]]
name = "rigid"
response = "rigid"
"""

# Failed GPUs of the pool, dirty domains and failed nodes over time: (from hour, to hour, ...).
LEVELS = [
    (0, 0.5, 2, 1, 1),
    (0.5, 1, 0, 0, 0),
    (1, 2, 1, 1, 1),
    (2, 4, 2, 1, 1),
    (4, 5, 4, 1, 2),
    (5, 6, 2, 1, 1),
    (6, 9, 0, 0, 0),
    (9, 10, 2, 1, 1),
]

_NONE = dict.fromkeys(("reconfigure", "overhead", "static", "gain"), 0.0)
# In every line `failed` is the union: n04 .5 h * 2, n01 4 h + 3 h, n03 2 h * 2 and 1 h * 2 = 14.
ELASTIC = {
    "productive": 33.6,  # (.6 + 8 * .6 + .6) h * 4 + 2 * .6 h * 8 = 24 + 9.6
    "failed": 14.0,
    # Running, healthy less the 4 that work: 2 * .5 + 4 * .4 on domain 0; 3 * .6 + 3 * 2 * .6 + 2 * .4
    # + 2 * .5 + 4 * .8 on domain 1 (none from 4 to 5: the 4 healthy ones work), 2 * .6 at the end.
    "stranded": 14.2,
    "paused": 0.0,
    "rework": 4.0,  # .3 h * 4 + .1 h * 4 + .3 h * 8
    "detect": 2.1,  # .1 h at 1, 7 and 9 with 7, 8 and 6 healthy
    "restart": 4.2,  # .2 h likewise
    "checkpoint": 7.9,  # .1 h each, healthy: 8 | 7 6 6 4 4 6 8 8 | 8 8 | 6
    "spare_idle": 0.0,
    **_NONE,
}
RIGID = {
    "productive": 14.4,  # 3 * .6 h * 8
    "failed": 14.0,
    "stranded": 0.0,
    "paused": 38.0,  # .5 h * 6 + 1 h * 7 + 2 h * 6 + 1 h * 4 + 1 h * 6 + 1 h * 6
    "rework": 5.6,  # (.3 + .1 + .3) h * 8
    "detect": 0.8,  # at 7 only: a job that can't run is paused at once
    "restart": 4.8,  # .2 h * 8 at .5, 6 and 7.1
    "checkpoint": 2.4,  # 3 * .1 h * 8
    "spare_idle": 0.0,
    **_NONE,
}
SPARED = {
    "productive": 28.8,  # (.6 + 8 * .6 + 2 * .6 + .6) h * 4
    "failed": 14.0,
    "stranded": 9.4,  # 0-.5: 2 * .5; on domain 1: 3 * .6 + 3 * 2 * .6 + 2 * .4 + 2 * .5; at the end 2 * .6
    "paused": 0.0,
    "rework": 2.8,  # (.3 + .1 + .3) h * 4
    "detect": 1.7,  # .1 h with 7, 8 - 4 and 6 healthy beside the idle spare
    "restart": 3.4,
    "checkpoint": 5.9,  # .1 h each: 4 | 7 6 6 4 4 6 4 4 | 4 4 | 6
    "spare_idle": 14.0,  # (.5 + 3) h * 4
    **_NONE,
}
# Energy, kWh: 1 kW for a GPU in use while running or saving, else half for a healthy one (66 GPU-hours).
ELASTIC_KWH = 54.6  # in use (1 + 5.7 + .7) h * 4 + 1.7 h * 8 = 43.2; 43.2 + (66 - 43.2) / 2
RIGID_KWH = 44.2  # in use (.3 + .8 + 1.7) h * 8 = 22.4; 22.4 + 43.6 / 2
SPARED_KWH = 51.2  # in use (1 + 5.7 + 1.7 + .7) h * 4 = 36.4; 36.4 + 29.6 / 2

# Gains in productive GPU-hours when something were different: ELASTIC and SPARED at their splits.
GAINS = {
    # n01 is back at 3.5, n03 at 5, n04 never down: both domains from 0, .6 h * 4 more before the fault at 1.
    "half_repair": (2.4, 0.0),
    # The nic's fault at 2 stops the job on domain 0 instead: 2 * .6 h * 4, then 6 rounds of domain 1 from
    # 2.3, .5 h lost at 7: 4.8 + 14.4 where there was 2.4 + 19.2.
    "without_gpu": (-2.4, -2.4),
    # No fault at 9. ELASTIC: 7.3-10 on both, (3 * .6 + .6) h * 8 for 9.6 + 2.4; SPARED: the same on 4 GPUs.
    "without_host": (7.2, 2.4),
    "without_nic": (0.0, 0.0),  # the job is on domain 1 while the nic is down
    "without_power": (2.4, 0.0),  # both domains from 0, as with half_repair
    # No stop at 7: domain 1 from 1.3 to 10, 12 rounds and .3 h: 30 for 19.2 + 9.6 + 2.4, or 19.2 + 4.8 + 2.4.
    "without_software": (-1.2, 3.6),
}


def build(folder: Path) -> small_lake.Built:
    """Write the files and run the stages from the log to the ledgers."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "racks.csv").write_text(RACKS)
    return small_lake.build(folder, LOG, SCENARIO)


def hour(hours: float) -> datetime:
    """Return the instant so many hours after the window's start."""
    return HOUR_0 + timedelta(hours=hours)


def close(value: Any) -> Any:
    """Return what a value may be compared with: a float within 1e-9, everything else as it is."""
    return pytest.approx(value, rel=1e-9, abs=1e-9) if isinstance(value, float) else value


def check(found: list[dict[str, Any]], columns: str, *rows: tuple[Any, ...], only: bool = True) -> None:
    """Assert that these are all rows, in order, and with `only` all columns, which one text names."""
    names = columns.split()
    assert not found or (list(found[0]) == names if only else set(names) <= set(found[0])), list(found[0])
    values = [tuple(row[name] for name in names) for row in found]
    for value, row in zip(values, rows, strict=True):
        assert value == tuple(close(cell) for cell in row)
