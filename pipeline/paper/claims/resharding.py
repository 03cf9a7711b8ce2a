"""Resharding: the slowed backward pass of the prototype, and its cost in the large job (2504.06095).

Computed from data sheets and the balanced map, nothing is fitted. Both published bounds are read in a
secondary text. Which type the prototype's gradients have is not known to us, so both stand here.
"""

from __future__ import annotations

from pipeline.paper.rows import Context, Row
from pipeline.perf import presets
from pipeline.perf.reshard_tables import figure8, large_job

PROTOTYPE_GPU = "a100-80gb"
JOB_MODEL, JOB_GPU, JOB_DEGREES = "ntp-480b", "ntp-b200", (30, 28)
GRADIENTS = {"BF16": 2, "FP32": 4}  # bytes per element
_TWICE = "FP32 gradients double the bytes; only with 4K tokens and one sample does that pass the bound."


def rows(context: Context) -> list[Row]:  # noqa: ARG001 - nothing is drawn
    """Return the worst case of figure 8 and the overhead of the large job, for both gradient types."""
    prototype = [
        Row(
            name=f"slowdown of the last backward pass at worst, {kind} gradients",
            source="arXiv 2504.06095 figure 8",
            printed="<= 4",
            unit="%",
            ours=100 * max(row.slowdown_frac for row in figure8(presets.gpu(PROTOTYPE_GPU), size)),
            how="pipeline.perf.reshard_tables.figure8",
            explanation=_TWICE if kind == "FP32" else "",
        )
        for kind, size in GRADIENTS.items()
    ]
    shape, gpu = presets.model(JOB_MODEL), presets.gpu(JOB_GPU)
    job = [
        Row(
            name=f"longer iteration of the 480B job with replicas at TP{degree}, {kind} gradients",
            source="developer.nvidia.com, Nonuniform Tensor Parallelism, 2026 (in summaries)",
            printed="< 1",
            unit="%",
            ours=100 * large_job(shape, gpu, degree, size).overhead_frac,
            how="pipeline.perf.reshard_tables.large_job",
            reason="With the way back in the open and an iteration of computing alone: a bound from above.",
        )
        for degree in JOB_DEGREES
        for kind, size in GRADIENTS.items()
    ]
    return [*prototype, *job]
