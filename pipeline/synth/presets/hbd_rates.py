"""InfiniteHBD: 584 node faults by class, lognormal repair, lemon nodes and bursts, as in the public trace.

Source: arXiv 2502.03885 and its trace (Apache-2.0), 400 nodes of 8 GPUs, days 0 to 348.98; counts, median
and 95 % repair time of each class computed from the trace (tests/synth/test_presets.py does it again). The
trace is per node, so every fault takes its node.
Repair times are lognormal through the median and the 95 % quantile of a class, cut at the longest repair of
the whole trace. That is a fit through two points: NIC gives a mean of 241 h where the trace has 256 h, GPU
172 for 155 h; over all classes 148 h for 133 h.
Bursts: 85 of the 584 faults share their instant (the trace's 8.64 s) with others, at 30 instants, 2.8
faults each; nearly all have one cause and most one repair time. The trace has no topology: a burst strikes
neighbours in a group of 400.
Lemons: the worst 10 % of the 400 nodes carry 41 % of the faults. By chance alone they would carry 26 %, so
the share expected of lemons is the one with which draws as large as the trace show 41 % (derived by
drawing; tested). Easy to get wrong: the real rate is not constant (118 outages in days 60 to 90, 11 in days
0 to 30) and 169 nodes never fail, more than here; `bootstrap = "infinitehbd"` keeps both.
"""

from __future__ import annotations

from pipeline.synth.contract import Bursts, Lemons, Preset, Rate, per_1000_node_d
from pipeline.synth.distributions import Lognormal

_DAYS, _NODES, _NODE_GPUS = 348.98, 400, 8
_LONGEST_H = 3_143.0  # the longest of the 584 repairs
_COUNT = 584
_TRACE = "faults on 400 nodes in 348.98 days (InfiniteHBD-Trace, arXiv 2502.03885)"

# component, level / class of the trace, count, median and 95 % quantile of the repair in hours
_TABLE: tuple[tuple[str, str, int, float, float], ...] = (
    ("gpu", "Hardware Failure / GPU", 158, 16.8, 891.1),
    ("unknown", "Other Failure / Unknown Error", 144, 15.6, 658.5),
    ("unknown", "Other Failure / Stress Test Failure", 97, 14.4, 93.8),
    ("cable", "Hardware Failure / Parameter Plane Cable", 40, 47.4, 534.0),
    ("cooling", "Hardware Failure / Fan", 33, 73.5, 1_162.5),
    ("nic", "Hardware Failure / NIC", 30, 11.8, 1_747.4),
    ("power", "Hardware Failure / Power Supply", 26, 351.1, 1_322.7),
    ("planned", "Other Failure / Training Task Troubleshooting", 14, 16.5, 72.1),
    ("software", "Software Failure / Other Failures", 12, 43.0, 244.4),
    ("software", "Software Failure / Software Tool", 7, 16.9, 154.7),
    ("unknown", "12 rare classes together", 23, 21.5, 183.0),  # each has 4 faults or fewer
)

PRESET = Preset(
    title="InfiniteHBD, rates per class (arXiv 2502.03885)",
    rates=tuple(
        Rate(
            component=component,
            reason=reason,
            scope="node",
            per_1000_node_d=per_1000_node_d(count, _DAYS, _NODES * _NODE_GPUS, _NODE_GPUS),
            node_gpus=_NODE_GPUS,
            repair=Lognormal(median_h, p95_h, _LONGEST_H),
            origin=f"{count} of {_COUNT} {_TRACE}; repair median {median_h:g} h, 95 % quantile {p95_h:g} h",
        )
        for component, reason, count, median_h, p95_h in _TABLE
    ),
    assumptions=(
        (
            "Repair times are lognormal through the median and 95 % quantile of each class, cut at 3,143 h; "
            "their mean is 148 h, the trace's 133 h."
        ),
        "The rate is constant; the trace's own is not (118 outages in days 60 to 90, 11 in days 0 to 30).",
        "Every fault takes its whole node, as the trace has no GPU in it.",
    ),
    lemons=Lemons(
        nodes_frac=0.10,
        rate_frac=0.44,
        origin="such that the worst 10 % of 400 nodes show 41 % of the faults, as in the InfiniteHBD trace",
    ),
    bursts=Bursts(
        events_frac=85 / _COUNT,
        mean_nodes=85 / 30,
        group_nodes=_NODES,
        origin="85 of 584 faults of the InfiniteHBD trace at 30 common instants",
    ),
)
