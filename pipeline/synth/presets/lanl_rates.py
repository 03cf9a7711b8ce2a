"""LANL: 3.2 outages per 1,000 node-days by cause, repaired within hours (CPU clusters, 1996 to 2005).

Source: failure data LA-UR-05-7318. The rate pools systems 18, 19 and 20, the large ones of four-processor
nodes: 3,997, 3,284 and 2,478 outages at 3.20, 3.04 and 3.56 per 1,000 node-days, 3.23 together. Causes and
repair times are those of all 23 systems: 23,739 outages, 453 of which name no cause and are spread over the
rest. Median and 95 % quantile of each cause computed from the file (tests/synth/test_presets.py does it
again); repairs are lognormal through these two points, cut at the longest in the file.
Easy to get wrong: these nodes have no GPU. One of them is read as a node of 8 GPUs, so this preset says
what a cluster would lose if its nodes were mended as fast as LANL's: the median is an hour, InfiniteHBD's
20 hours.
"""

from __future__ import annotations

import math

from pipeline.synth.contract import Preset, Rate
from pipeline.synth.distributions import Lognormal

_NODE_GPUS = 8  # a node is read as a node
_LONGEST_H = 5_325.0

# system -> outages, outages per 1,000 node-days
_SYSTEMS = {18: (3_997, 3.20), 19: (3_284, 3.04), 20: (2_478, 3.56)}
_OUTAGES = sum(outages for outages, _ in _SYSTEMS.values())
_PER_1000_NODE_D = _OUTAGES / math.fsum(outages / rate for outages, rate in _SYSTEMS.values())

# component, cause, outages, median and 95 % quantile of the repair in hours
_TABLE: tuple[tuple[str, str, int, float, float], ...] = (
    ("host", "Hardware", 14_341, 1.13, 9.0),
    ("software", "Software", 5_361, 0.72, 8.0),
    ("unknown", "Undetermined", 2_652, 0.50, 15.6),
    ("nic", "Network", 421, 1.17, 13.7),
    ("power", "Facilities", 362, 4.60, 37.0),
    ("unknown", "Human error", 149, 0.73, 16.3),
)
_NAMED = sum(count for _, _, count, _, _ in _TABLE)

PRESET = Preset(
    title="LANL systems 18 to 20 (LA-UR-05-7318)",
    rates=tuple(
        Rate(
            component=component,
            reason=cause,
            scope="node",
            per_1000_node_d=_PER_1000_NODE_D * count / _NAMED,
            node_gpus=_NODE_GPUS,
            repair=Lognormal(median_h, p95_h, _LONGEST_H),
            origin=f"{_OUTAGES:,} outages of LANL systems 18 to 20, of which {count:,} in {_NAMED:,} by "
            f"cause; repair median {median_h:g} h, 95 % quantile {p95_h:g} h (LA-UR-05-7318)",
        )
        for component, cause, count, median_h, p95_h in _TABLE
    ),
    assumptions=(
        "LANL's nodes have four processors and no GPU; one is read as one node of 8 GPUs.",
        "Causes and repair times are those of all 23 systems, the rate is that of systems 18 to 20.",
        "Repair times are lognormal through the median and 95 % quantile of each cause, cut at 5,325 h.",
    ),
)
