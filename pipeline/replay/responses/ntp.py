"""Nonuniform tensor parallelism: a wounded replica runs at a reduced TP degree with fewer samples.

It does the most whole samples that end within a healthy replica's time, at normal power
(model.md section 5; [NTP] arXiv 2504.06095 section 4).
"""

from __future__ import annotations

from fractions import Fraction

from pipeline.replay.contract import Replica, Work, reduced

USES_REDUCED = True
USES_POWER = False
BATCHES = ("elastic", "pause", "stretch")


def work(replica: Replica) -> Work:
    """Return the samples that fit at normal power."""
    return reduced(replica, (Fraction(1),) * len(replica.groups))
