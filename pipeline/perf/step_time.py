"""Step time: one microbatch of one pipeline stage at any TP degree, and the whole iteration.

In: a model's shape, a GPU, a plan of parallelism. Out: seconds. A TP group is as slow as its busiest
GPU, the one that holds `ModelShape.widest`: 128 heads on 30 GPUs make 5 on some, so attention takes
1.25 times as long as on 32, not 1.067 times.

- Layer: GEMM roofline and fused or unfused attention (kernels.py), memory-bound kernels by the
  bytes they move, four ring passes over the scale-up link in each direction (section 3 of arXiv
  1909.08053: two all-reduces; section 4.2.2 of arXiv 2205.05198: reduce-scatter and all-gather of
  the same bytes, a further all-gather hidden behind the gradient of the weights).
- Pipeline: tau = n * max(c) + (sum(c) - max(c)) / v over the stages' times c, model.md section 5;
  with equal stages the (p-1)/(v*m) bubble of section 2.2 of arXiv 2104.04473.
- Iteration: the pipeline, what of the gradient sync is not hidden, the optimizer.

Not modeled: congestion, stragglers, kernel launches that the GPU waits for, data loading; all of
them make a real step longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.perf.hardware import DTYPES, Gpu
from pipeline.perf.kernels import FUSED_BACKWARD, fused_attention_s, gemm_s, linear_backward_s, memory_s
from pipeline.perf.models import ModelShape, Widest

RECOMPUTES = ("none", "selective", "full")
ATTENTIONS = ("fused", "unfused")
ACTIVATION_BYTES = 2  # bf16, whatever the matrix products compute in
GRADIENT_BYTES = 4  # summed in fp32: arXiv 2407.21783, section 3.3.2
WEIGHT_BYTES = 2
# Adam reads weight, gradient and two moments and writes weight and moments, all fp32, and a bf16 copy.
OPTIMIZER_MOVED_BYTES = 4 * 4 + 3 * 4 + 2
# Bytes moved per hidden unit of a token: two layer norms (read, write) and two fused dropouts with residual
# (read two, write one and a mask); backward: norms read two and write one, dropouts read one and a mask.
NORM_FORWARD_BYTES = 2 * (4 + 7)
NORM_BACKWARD_BYTES = 2 * (6 + 5)
# The same per element of an unfused attention matrix: softmax, then dropout with its mask.
SOFTMAX_FORWARD_BYTES = 4 + 5
SOFTMAX_BACKWARD_BYTES = 6 + 5
# And per logit: cast to fp32, maximum, sum of exponentials; their gradient.
LOSS_BYTES = 10 + 6


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a job is laid out and run; `microbatches` are those of one replica in one iteration.

    `recompute`: which activations are computed again in the backward pass (arXiv 2205.05198): none, the
    core of attention, or whole layers. `zero_stage` is that of arXiv 1910.02054: 0 replicates optimizer
    states and gradients over DP, 1 shards the states, 2 the gradients too. `tp_hidden_frac` is the share of
    TP collectives that runs behind computation.
    """

    tp: int
    pp: int = 1
    cp: int = 1
    dp: int = 1
    microbatches: int = 1
    microbatch_samples: int = 1
    virtual_stages: int = 1
    dtype: str = "bf16"
    attention: str = "fused"
    recompute: str = "none"
    sequence_parallel: bool = True
    zero_stage: int = 1
    overlap_gradients: bool = True
    overlap_pipeline: bool = True
    tp_hidden_frac: float = 0.0

    def __post_init__(self) -> None:
        for name in ("tp", "pp", "cp", "dp", "microbatches", "microbatch_samples", "virtual_stages"):
            if getattr(self, name) < 1:
                raise InputError(f"plan {name}", f"found {getattr(self, name)}", "a number of at least 1")
        for name, words in (
            ("dtype", DTYPES),
            ("attention", ATTENTIONS),
            ("recompute", RECOMPUTES),
            ("zero_stage", (0, 1, 2)),
        ):
            if getattr(self, name) not in words:
                expected = f"one of {', '.join(map(str, words))}"
                raise InputError(f"plan {name}", f"found {getattr(self, name)!r}", expected)
        if not 0 <= self.tp_hidden_frac <= 1:
            raise InputError("plan tp_hidden_frac", f"found {self.tp_hidden_frac}", "from 0 to 1")

    @property
    def gpus(self) -> int:
        """GPUs of the job."""
        return self.tp * self.pp * self.cp * self.dp

    @property
    def samples(self) -> int:
        """Samples of an iteration, all replicas together."""
        return self.dp * self.microbatches * self.microbatch_samples

    def tokens(self, shape: ModelShape) -> int:
        """Tokens of a microbatch that one CP rank computes."""
        return -(-shape.seq // self.cp) * self.microbatch_samples

    def tokens_per_gpu(self, shape: ModelShape) -> int:
        """Tokens of a microbatch whose norms and residuals a GPU computes: its part, if sequence-parallel."""
        return -(-self.tokens(shape) // self.tp) if self.sequence_parallel else self.tokens(shape)


@dataclass(frozen=True)
class Time:
    """Seconds, by what they are spent on: computing, TP collectives, and messages over the network."""

    compute_s: float = 0.0
    collective_s: float = 0.0
    network_s: float = 0.0

    @property
    def total_s(self) -> float:
        """All of it, one after the other."""
        return self.compute_s + self.collective_s + self.network_s

    def __add__(self, other: Time) -> Time:
        """Return both, one after the other."""
        return Time(
            self.compute_s + other.compute_s,
            self.collective_s + other.collective_s,
            self.network_s + other.network_s,
        )

    def __mul__(self, times: float) -> Time:
        """Return it repeated."""
        return Time(self.compute_s * times, self.collective_s * times, self.network_s * times)


@dataclass(frozen=True, kw_only=True)
class Iteration:
    """Seconds of one iteration, by what the slowest stage spends them on.

    `compute_s` holds what is computed again; `mean_compute_s` is the mean over stages, without the
    unevenness of the first and last one.
    """

    compute_s: float
    collective_s: float
    network_s: float
    bubble_s: float
    gradients_s: float
    optimizer_s: float
    mean_compute_s: float

    @property
    def total_s(self) -> float:
        """The iteration."""
        work_s = self.compute_s + self.collective_s + self.network_s
        return work_s + self.bubble_s + self.gradients_s + self.optimizer_s

    @property
    def computing_frac(self) -> float:
        """Share of the time in which a GPU computes, mean over stages."""
        return self.mean_compute_s / self.total_s


def stage_layers(layers: int, pp: int) -> tuple[int, ...]:
    """Return the layers of each stage: as even as can be, the first and last one short before the others.

    They hold the embedding and the output layer; with 126 layers on 16 stages they have 7 and the others 8,
    as section 3.3.2 of arXiv 2407.21783 has it. Raise InputError with fewer layers than stages.
    """
    if layers < pp:
        raise InputError("[job] pp", f"{pp} stages for {layers} layers", "at most one stage a layer")
    fewest, more = divmod(layers, pp)
    counts = [fewest] * pp
    for stage in [*range(1, pp - 1), 0, pp - 1][:more]:
        counts[stage] += 1
    return tuple(counts)


def layer_time(shape: ModelShape, gpu: Gpu, plan: Plan) -> tuple[Time, Time]:
    """Return the time of one microbatch in one layer, forward and backward (with what is computed again)."""
    forward, core_s = _forward(shape, gpu, plan)
    again = {"none": Time(), "selective": Time(core_s), "full": forward}[plan.recompute]
    return forward, _backward(shape, gpu, plan, core_s) + again


def output_time(shape: ModelShape, gpu: Gpu, plan: Plan) -> tuple[Time, Time]:
    """Return the time of one microbatch in the output layer and the loss, forward and backward."""
    tokens, rows = plan.tokens(shape), shape.widest(plan.tp).vocab
    loss_s = memory_s(gpu, tokens * rows * LOSS_BYTES)
    product_s = gemm_s(gpu, plan.dtype, tokens, rows, shape.hidden)
    backward_s = linear_backward_s(gpu, plan.dtype, tokens, rows, shape.hidden)
    collective = Time(collective_s=_collective_s(shape, gpu, plan, passes=1))
    return Time(product_s + loss_s) + collective, Time(backward_s) + collective


def stage_time(shape: ModelShape, gpu: Gpu, plan: Plan, layers: int, *, is_last: bool = False) -> Time:
    """Return the time of one microbatch in one stage of so many layers, forward and backward."""
    forward, backward = layer_time(shape, gpu, plan)
    time = (forward + backward) * layers
    if is_last:
        forward, backward = output_time(shape, gpu, plan)
        time = time + forward + backward
    if plan.pp > 1 and not plan.overlap_pipeline:
        # Each GPU sends its part of the hidden states on, and their gradient back: section 4.1 of 2104.04473.
        part_bytes = -(-plan.tokens(shape) // plan.tp) * shape.hidden * ACTIVATION_BYTES
        time = time + Time(network_s=2 * plan.virtual_stages * gpu.scale_out.send_s(part_bytes))
    return time


def microbatch_time(shape: ModelShape, gpu: Gpu, plan: Plan) -> Time:
    """Return the time of one microbatch in a stage between the first and the last: c(t) is a ratio of it."""
    return stage_time(shape, gpu, plan, max(stage_layers(shape.layers, plan.pp)))


def pipeline_time(shape: ModelShape, gpu: Gpu, plan: Plan) -> tuple[Time, Time, float]:
    """Return the slowest stage's time for all microbatches, the bubble, and the mean computing time."""
    counts = stage_layers(shape.layers, plan.pp)
    inner = {layers: stage_time(shape, gpu, plan, layers) for layers in set(counts)}
    times = [inner[layers] for layers in counts[:-1]]
    times.append(stage_time(shape, gpu, plan, counts[-1], is_last=True))
    slowest = max(times, key=lambda time: time.total_s)
    rest = sum(times, Time()) + slowest * -1
    mean_compute_s = plan.microbatches * sum(time.compute_s for time in times) / plan.pp
    return slowest * plan.microbatches, rest * (1 / plan.virtual_stages), mean_compute_s


def iteration_time(shape: ModelShape, gpu: Gpu, plan: Plan) -> Iteration:
    """Return the time of one iteration: pipeline, gradient sync that is not hidden, optimizer."""
    work, bubble, mean_compute_s = pipeline_time(shape, gpu, plan)
    share, stages = shape.widest(plan.tp), {0, plan.pp // 2, plan.pp - 1}
    weights = max(weights_of_stage(shape, share, plan.pp, stage) for stage in stages)
    _, backward = layer_time(shape, gpu, plan)
    last_backward_s = backward.compute_s * min(stage_layers(shape.layers, plan.pp))
    return Iteration(
        compute_s=work.compute_s,
        collective_s=work.collective_s,
        network_s=work.network_s,
        bubble_s=bubble.total_s,
        gradients_s=_gradients_s(gpu, plan, weights, last_backward_s),
        optimizer_s=memory_s(gpu, _own(weights, plan, from_stage=1) * OPTIMIZER_MOVED_BYTES),
        mean_compute_s=mean_compute_s,
    )


def weights_of_stage(shape: ModelShape, share: Widest, pp: int, stage: int) -> int:
    """Return the weights that a GPU with this share holds in a stage, with the embedding and the output."""
    weights = stage_layers(shape.layers, pp)[stage] * shape.layer_weights_of(share)
    embedding = share.vocab * shape.hidden
    tables = (stage == 0) + (stage == pp - 1)
    if pp == 1 and shape.tie_embeddings:
        tables = 1  # one table serves both ends
    return weights + tables * embedding


def model_flop_per_s(shape: ModelShape, plan: Plan, iteration_s: float) -> float:
    """Return the FLOP/s per GPU that the model needs, without what is computed again (for the MFU)."""
    return shape.model_flop(plan.samples) / (iteration_s * plan.gpus)


def hardware_flop_per_s(shape: ModelShape, plan: Plan, iteration_s: float) -> float:
    """Return the FLOP/s per GPU with what is computed again (for the HFU)."""
    flop = shape.model_flop(plan.samples) + shape.recompute_flop(plan.samples, plan.recompute)
    return flop / (iteration_s * plan.gpus)


def _linears(shape: ModelShape, plan: Plan) -> list[tuple[int, int, int]]:
    """Return the matrix products of a layer's forward pass on the busiest GPU, as (m, n, k)."""
    tokens, share = plan.tokens(shape), shape.widest(plan.tp)
    width = shape.head_dim * share.heads
    columns = (shape.ffn_matrices - 1) * share.ffn_hidden
    return [
        (tokens, width + 2 * shape.head_dim * share.kv_heads, shape.hidden),
        (tokens, shape.hidden, width),
        (tokens, columns, shape.hidden),
        (tokens, shape.hidden, share.ffn_hidden),
    ]


def _forward(shape: ModelShape, gpu: Gpu, plan: Plan) -> tuple[Time, float]:
    """Return the forward pass of a layer, and the part of it that is attention's core."""
    products_s = sum(gemm_s(gpu, plan.dtype, *sizes) for sizes in _linears(shape, plan))
    core_s = _core_s(shape, gpu, plan)
    share = shape.widest(plan.tp)
    # The activation function reads gate and up (or one matrix) and writes one.
    moved_bytes = plan.tokens(shape) * 2 * shape.ffn_matrices * share.ffn_hidden
    moved_bytes += plan.tokens_per_gpu(shape) * shape.hidden * NORM_FORWARD_BYTES
    collective_s = _collective_s(shape, gpu, plan, passes=4)
    time = Time(
        products_s + core_s + memory_s(gpu, moved_bytes), collective_s, _keys_values_s(shape, gpu, plan)
    )
    return time, core_s


def _backward(shape: ModelShape, gpu: Gpu, plan: Plan, core_s: float) -> Time:
    products_s = sum(linear_backward_s(gpu, plan.dtype, *sizes) for sizes in _linears(shape, plan))
    share = shape.widest(plan.tp)
    moved_bytes = plan.tokens(shape) * (4 * shape.ffn_matrices - 2) * share.ffn_hidden
    moved_bytes += plan.tokens_per_gpu(shape) * shape.hidden * NORM_BACKWARD_BYTES
    attention_s = core_s * FUSED_BACKWARD if plan.attention == "fused" else _core_backward_s(shape, gpu, plan)
    collective_s = _collective_s(shape, gpu, plan, passes=4)
    compute_s = products_s + attention_s + memory_s(gpu, moved_bytes)
    return Time(compute_s, collective_s, _keys_values_s(shape, gpu, plan))


def _core_s(shape: ModelShape, gpu: Gpu, plan: Plan) -> float:
    """Return the forward pass of attention's core: scores, softmax, weighted values."""
    queries, heads = plan.tokens(shape), shape.widest(plan.tp).heads
    if plan.attention == "fused":
        return fused_attention_s(gpu, queries, shape.seq, heads, shape.head_dim)
    products_s = sum(gemm_s(gpu, "bf16", *sizes) for sizes in _scores(shape, plan))
    return products_s + memory_s(gpu, queries * shape.seq * heads * SOFTMAX_FORWARD_BYTES)


def _core_backward_s(shape: ModelShape, gpu: Gpu, plan: Plan) -> float:
    products_s = sum(
        gemm_s(gpu, "bf16", m, k, n, batch) + gemm_s(gpu, "bf16", k, n, m, batch)
        for m, n, k, batch in _scores(shape, plan)
    )
    elements = plan.tokens(shape) * shape.seq * shape.widest(plan.tp).heads
    return products_s + memory_s(gpu, elements * SOFTMAX_BACKWARD_BYTES)


def _scores(shape: ModelShape, plan: Plan) -> list[tuple[int, int, int, int]]:
    """Return the two products of unfused attention, one of each a head and sample, as (m, n, k, batch)."""
    queries = -(-shape.seq // plan.cp)
    batch = plan.microbatch_samples * shape.widest(plan.tp).heads
    return [(queries, shape.seq, shape.head_dim, batch), (queries, shape.head_dim, shape.seq, batch)]


def _collective_s(shape: ModelShape, gpu: Gpu, plan: Plan, *, passes: int) -> float:
    """Return ring passes over the hidden states of a microbatch that computation does not hide.

    At a degree that does not divide the sequence a GPU's part is the largest one.
    """
    size_bytes = -(-plan.tokens(shape) // plan.tp) * plan.tp * shape.hidden * ACTIVATION_BYTES
    return passes * gpu.scale_up.ring_s(plan.tp, size_bytes) * (1 - plan.tp_hidden_frac)


def _keys_values_s(shape: ModelShape, gpu: Gpu, plan: Plan) -> float:
    """Return the all-gather of keys and values over CP ranks, which nothing hides.

    Section 3.3.2 of arXiv 2407.21783; backward a reduce-scatter of their gradients, as long.
    """
    width = 2 * shape.head_dim * shape.widest(plan.tp).kv_heads
    size_bytes = shape.seq * plan.microbatch_samples * width * ACTIVATION_BYTES
    return gpu.scale_out.ring_s(plan.cp, size_bytes)


def gradient_sync_s(gpu: Gpu, plan: Plan, weights: int) -> float:
    """Return the gradient sync of so many weights over DP and CP ranks.

    An all-reduce of fp32 gradients; with sharded states a reduce-scatter of them and an all-gather of the new
    weights (arXiv 1910.02054, section 7: the same volume at equal width).
    """
    ranks, link = plan.dp * plan.cp, gpu.scale_out
    back_bytes = WEIGHT_BYTES if plan.zero_stage else GRADIENT_BYTES
    return link.ring_s(ranks, weights * GRADIENT_BYTES) + link.ring_s(ranks, weights * back_bytes)


def _gradients_s(gpu: Gpu, plan: Plan, weights: int, last_backward_s: float) -> float:
    """Return the part of it that the last microbatch's backward pass does not hide."""
    sync_s = gradient_sync_s(gpu, plan, weights)
    return max(0.0, sync_s - last_backward_s) if plan.overlap_gradients else sync_s


def _own(weights: int, plan: Plan, from_stage: int) -> float:
    """Return the weights whose states a GPU keeps: its share over DP and CP from a ZeRO stage on."""
    return weights / (plan.dp * plan.cp) if plan.zero_stage >= from_stage else weights
