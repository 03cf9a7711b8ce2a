"""Nonuniform tensor parallelism with a power boost of the reduced groups, within the rack's limit.

Each reduced group draws the least power that reaches the healthy pace, or its limit when that is
not enough (model.md section 5; NTP-PW in [NTP] arXiv 2504.06095 section 4.3).
"""

from __future__ import annotations

from pipeline.replay.contract import Replica, Work, reduced

USES_REDUCED = True
USES_POWER = True
BATCHES = ("elastic", "pause", "stretch")


def work(replica: Replica) -> Work:
    """Return the samples that fit with boosted groups."""
    return reduced(replica, tuple(replica.shape.boosted(group) for group in replica.groups))
