"""A replica that lost groups runs on as a pipeline of fewer stages; the others take over part of the batch.

Pipeline templates (Oobleck, arXiv 2309.08125): a replica with q whole stages' worth of groups runs with the
largest p' <= q of `templates_pp`, each stage holding more layers. Pace of a stage: p/p' (flattering where
layers do not divide), or by the step-time model, where the scenario has one. Under `stretch` the global batch
stays and is dealt out anew by what each pipeline can do. Under packing `packed` the job goes on while the
smallest template can be filled; the paper says it of any f failures with f + 1 replicas.

Unlike the paper's planner: groups left over form one smaller replica (`packed`), or each replica keeps its
own (`fixed`); no nodes are borrowed, so up to p0 * cp - 1 groups may idle. Layer-wise gradient
synchronization between unlike pipelines and the copying of layers are not modelled beyond the costs of a
start. A replica with a reduced group counts without it.
"""

from __future__ import annotations

from pipeline.replay.contract import Replica, Work, fewer_stages, healthy

USES_REDUCED = False
USES_POWER = False
USES_PARTIAL = True
USES_TEMPLATES = True
BATCHES = ("stretch", "elastic", "pause")


def work(replica: Replica) -> Work:
    """Return the samples that fit with as many stages as its groups and the templates allow."""
    if replica.places is None and replica.is_full:
        return healthy(replica)
    return fewer_stages(replica)
