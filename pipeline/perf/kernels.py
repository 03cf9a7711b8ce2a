"""Time of single kernels on a GPU: matrix products, attention, and what only moves memory.

A GEMM is cut into tiles, a tile runs on one processor, and all processors finish a wave together:
a matrix that fills the last tile or the last wave badly costs as much as a full one (tile and wave
quantization, NVIDIA, Matrix Multiplication Background User's Guide, DU-09799-001, sections 2.3 and
3). That is the whole efficiency curve: the GPU's measured best, times how full its waves are, and
never faster than memory delivers. The guide names 256x128 and 128x256 as cuBLAS's most efficient
tiles; 128x128 is allowed beside them at the same efficiency, a simplification in favor of short
matrices. Sizes are elements, times seconds.
"""

from __future__ import annotations

from pipeline.perf.hardware import Gpu

TILES = ((256, 128), (128, 256), (128, 128))
ELEMENT_BYTES = {"bf16": 2, "fp8": 1}
# A causal kernel skips the masked half of the attention matrix (arXiv 2307.08691, section 3.1).
CAUSAL_FRAC = 0.5
# The fused backward pass does five matrix products where the forward pass does two (ibid., section 4.1).
FUSED_BACKWARD = 2.5


def gemm_s(gpu: Gpu, dtype: str, m: int, n: int, k: int, batch: int = 1) -> float:
    """Return the time of `batch` products of an m x k by a k x n matrix."""
    work_flop = min(
        _waves(gpu, m, n, batch, tile) * gpu.processors * 2 * tile[0] * tile[1] * k for tile in TILES
    )
    moved_bytes = batch * (m * k + k * n + m * n) * ELEMENT_BYTES[dtype]
    return max(work_flop / gpu.gemm_flop_per_s(dtype), memory_s(gpu, moved_bytes))


def linear_backward_s(gpu: Gpu, dtype: str, m: int, n: int, k: int) -> float:
    """Return the time of the two products behind one of the forward pass: gradients of input and weights."""
    return gemm_s(gpu, dtype, m, k, n) + gemm_s(gpu, dtype, k, n, m)


def fused_attention_s(gpu: Gpu, queries: int, keys: int, heads: int, head_dim: int) -> float:
    """Return the time of the forward pass of causal attention in one fused kernel (arXiv 2307.08691)."""
    flop = 4 * queries * keys * heads * head_dim * CAUSAL_FRAC
    return flop / (gpu.bf16_flop_per_s * gpu.attention_frac)


def memory_s(gpu: Gpu, moved_bytes: float) -> float:
    """Return the time to read and write this much memory."""
    return moved_bytes / (gpu.hbm_bytes_per_s * gpu.hbm_frac)


def _waves(gpu: Gpu, m: int, n: int, batch: int, tile: tuple[int, int]) -> int:
    tiles = batch * -(-m // tile[0]) * -(-n // tile[1])
    return -(-tiles // gpu.processors)
