"""Drop the data-parallel replicas that have a failed GPU; the others go on.

A replica counts only when all its groups are full; under `elastic` the batch shrinks by the
dropped replicas (model.md section 5; DP-DROP in [NTP] arXiv 2504.06095).
"""

from __future__ import annotations

from pipeline.replay.contract import Replica, Work, healthy, nothing

USES_REDUCED = False
USES_POWER = False
BATCHES = ("elastic", "pause", "stretch")


def work(replica: Replica) -> Work:
    """Return all samples when every group is full, else nothing."""
    return healthy(replica) if replica.is_full else nothing(replica)
