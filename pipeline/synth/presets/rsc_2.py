"""Meta RSC-2: 2.34 node failures per 1,000 node-days of 8 A100; repair times borrowed from InfiniteHBD.

Source: the rate is that of arXiv 2410.21680 (about 8,000 A100, 11 months), read in second-hand accounts of
the paper, not in its text. It counts node failures; at this rate, the mean time to failure of 16,384 GPUs
is 5.0 h. The paper's own 7.9 h for jobs of 1,024 GPUs lies far below what any node rate gives by inverse
scaling (28.8 h at RSC-1's), so small jobs die of more than their nodes: this preset is the node rate.
What those accounts do not give is borrowed: repair times are those of all 584 faults of the InfiniteHBD
trace, lognormal through their median and 95 % quantile and cut at the longest. Causes are not told apart.
"""

from __future__ import annotations

from pipeline.synth.contract import Preset, Rate
from pipeline.synth.distributions import Lognormal

PRESET = Preset(
    title="Meta RSC-2 (arXiv 2410.21680)",
    rates=(
        Rate(
            component="unknown",
            reason="node failure",
            scope="node",
            per_1000_node_d=2.34,
            node_gpus=8,
            repair=Lognormal(median_h=20.4, p95_h=737.7, longest_h=3_143.0),
            origin="2.34 failures per 1,000 node-days of 8 A100 (arXiv 2410.21680, read second-hand)",
            borrowed_from="repair time: InfiniteHBD trace, all faults, median 20.4 h, 95 % quantile 737.7 h",
        ),
    ),
    assumptions=(
        "The rate is that of nodes; on RSC-1, jobs of 1,024 GPUs failed 3.7 times as often as it says.",
        "Causes are not told apart, and every failure takes its whole node.",
    ),
)
