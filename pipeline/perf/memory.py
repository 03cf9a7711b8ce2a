"""Memory of a GPU at any TP degree, and why a reduced degree is not legal.

Bytes of the busiest GPU of the fullest stage. Weights, gradients and optimizer states: 2 bytes bf16, 4
fp32 summed, 12 (fp32 weight and Adam's two moments); ZeRO stages divide states (1) and gradients (2) over
DP, arXiv 1910.02054 section 3.1 (its K = 12; gradients there are fp16, here fp32 as in arXiv
2205.05198, whose figure 1 counts 18 bytes a weight).
Activations: arXiv 2205.05198, equations 1 to 4, for any heads, KV heads and FFN, and its section 4.2.3
for the microbatches in flight. In the usual shape a layer holds s*b*h*(34 + 5*a*s/h)/t.

Not counted: NCCL buffers, fragmentation, the CUDA context. A degree that fits here with little room
may not fit on the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.perf.degrees import why_not
from pipeline.perf.hardware import Gpu
from pipeline.perf.models import ModelShape
from pipeline.perf.step_time import GRADIENT_BYTES, WEIGHT_BYTES, Plan, stage_layers, weights_of_stage

STATE_BYTES = 12
GB = 1e9
# Bytes per hidden unit of a token that TP alone does not divide: inputs of two norms (4), of attention (2)
# and of the FFN (2), two dropout masks (2); ibid., equation 2.
REPLICATED_BYTES = 10
# Bytes per element of an attention matrix that is kept: softmax output, dropout mask and output; ibid., 4.1.
SCORE_BYTES = 5


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Bytes of one GPU."""

    weights_bytes: float
    gradients_bytes: float
    states_bytes: float
    activations_bytes: float

    @property
    def total_bytes(self) -> float:
        """All of it."""
        return self.weights_bytes + self.gradients_bytes + self.states_bytes + self.activations_bytes


def activation_bytes(shape: ModelShape, plan: Plan) -> float:
    """Return what one layer keeps of one microbatch until its backward pass."""
    tokens, split = plan.tokens(shape), plan.tokens_per_gpu(shape)
    if plan.recompute == "full":
        return 2 * tokens * shape.hidden  # a layer's input, kept whole: ibid., section 5
    share = shape.widest(plan.tp)
    # Q, K, V and the input of the output projection; inputs of the activation function and of the last one.
    attention = 2 * shape.head_dim * (2 * share.heads + 2 * share.kv_heads)
    ffn = 2 * shape.ffn_matrices * share.ffn_hidden
    keeps_scores = plan.attention == "unfused" and plan.recompute == "none"
    scores = SCORE_BYTES * shape.seq * share.heads if keeps_scores else 0
    return split * shape.hidden * REPLICATED_BYTES + tokens * (attention + ffn + scores)


def memory(shape: ModelShape, plan: Plan) -> Memory:
    """Return the memory of the busiest GPU in the fullest stage."""
    return max(
        (stage_memory(shape, plan, stage) for stage in {0, plan.pp - 1, *range(min(2, plan.pp))}),
        key=lambda found: found.total_bytes,
    )


def stage_memory(shape: ModelShape, plan: Plan, stage: int) -> Memory:
    """Return the memory of the busiest GPU in one stage (0 is the first, which has the most in flight)."""
    share, ranks = shape.widest(plan.tp), plan.dp * plan.cp
    weights = weights_of_stage(shape, share, plan.pp, stage)
    in_flight: float = min(plan.pp - stage, plan.microbatches)
    if plan.virtual_stages > 1 and in_flight > 1:
        in_flight *= 1 + (plan.pp - 1) / (plan.pp * plan.virtual_stages)  # ibid., section 4.2.3
    activations = in_flight * stage_layers(shape.layers, plan.pp)[stage] * activation_bytes(shape, plan)
    if plan.recompute == "full":  # one layer at a time is computed again
        activations += activation_bytes(shape, replace(plan, recompute="none"))
    if stage == plan.pp - 1:  # inputs of the last norm and of the output layer, logits in fp32; ibid., 4.3
        activations += plan.tokens_per_gpu(shape) * shape.hidden * 4 + plan.tokens(shape) * share.vocab * 4
    return Memory(
        weights_bytes=weights * WEIGHT_BYTES,
        gradients_bytes=weights * GRADIENT_BYTES / (ranks if plan.zero_stage >= 2 else 1),
        states_bytes=weights * STATE_BYTES / (ranks if plan.zero_stage >= 1 else 1),
        activations_bytes=activations,
    )


def too_large(shape: ModelShape, gpu: Gpu, plan: Plan) -> tuple[str, ...]:
    """Return the reason why a plan does not fit in the GPU's memory; none when it does."""
    need_bytes = memory(shape, plan).total_bytes
    if need_bytes <= gpu.hbm_bytes:
        return ()
    return (f"needs {need_bytes / GB:,.0f} GB a GPU, {gpu.name} has {gpu.hbm_bytes / GB:,.0f} GB",)


def legal(shape: ModelShape, gpu: Gpu, plan: Plan, degree: int) -> tuple[str, ...]:
    """Return the reasons why a replica of this plan cannot run at a reduced degree; none when it can.

    Heads, KV heads, FFN columns and vocabulary: degrees.py. Memory: at that degree, the rest of the plan
    unchanged.
    """
    reasons = why_not(shape, plan.tp, degree)
    if degree < 1:
        return reasons
    return (*reasons, *too_large(shape, gpu, replace(plan, tp=degree)))
