"""Checkpoint-restart with a fixed shape: the job runs only with all its replicas whole, else it waits.

A replica counts only when all its groups are full; the batch rule is always `pause`
(model.md section 5, [RSC] arXiv 2410.21680).
"""

from __future__ import annotations

from pipeline.replay.contract import Replica, Work, healthy, nothing

USES_REDUCED = False
USES_POWER = False
BATCHES = ("pause",)


def work(replica: Replica) -> Work:
    """Return all samples when every group is full, else nothing."""
    return healthy(replica) if replica.is_full else nothing(replica)
