"""A GPU with its memory and links, in SI units: FLOP/s, bytes, bytes per second, seconds.

A peak is what the data sheet prints, dense (no sparsity), and a link's bandwidth is that of one
direction. Each `_frac` beside it is the share that a published microbenchmark reaches; time is
computed from the product. `gemm_*_frac` is for a large matrix that fills the GPU, what is lost on
others is computed (kernels.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.errors import InputError

DTYPES = ("bf16", "fp8")


@dataclass(frozen=True)
class Link:
    """A way from GPU to GPU: bytes per second in one direction, the share reached, seconds per message."""

    bytes_per_s: float
    reached_frac: float
    latency_s: float

    def ring_s(self, ranks: int, size_bytes: float) -> float:
        """Return the time of a reduce-scatter or all-gather of a tensor of this size over a ring.

        (n-1)/n of the bytes pass each link, in n-1 messages one after the other (Thakur, Rabenseifner and
        Gropp 2005, section 4). An all-reduce is both.
        """
        if ranks == 1:
            return 0.0
        moved_bytes = (ranks - 1) / ranks * size_bytes
        return moved_bytes / (self.bytes_per_s * self.reached_frac) + (ranks - 1) * self.latency_s

    def send_s(self, size_bytes: float) -> float:
        """Return the time of one message."""
        return size_bytes / (self.bytes_per_s * self.reached_frac) + self.latency_s


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU as step time and memory see it; `name` is for people."""

    name: str
    domain_size: int
    processors: int
    bf16_flop_per_s: float
    gemm_bf16_frac: float
    fp8_flop_per_s: float = 0.0
    gemm_fp8_frac: float = 0.0
    attention_frac: float
    hbm_bytes: float
    hbm_bytes_per_s: float
    hbm_frac: float
    nvlink_bytes_per_s: float
    nvlink_frac: float
    nvlink_latency_s: float
    nic_bytes_per_s: float
    nic_frac: float
    nic_latency_s: float

    def peak_flop_per_s(self, dtype: str) -> float:
        """Return the data sheet's dense peak; raise InputError for a type the GPU does not compute in."""
        peak = {"bf16": self.bf16_flop_per_s, "fp8": self.fp8_flop_per_s}[dtype]
        if not peak:
            raise InputError("[step_time] dtype", f"{dtype} on {self.name}", "bf16")
        return peak

    def gemm_flop_per_s(self, dtype: str) -> float:
        """Return the FLOP/s of a large GEMM that fills the GPU."""
        frac = {"bf16": self.gemm_bf16_frac, "fp8": self.gemm_fp8_frac}[dtype]
        return self.peak_flop_per_s(dtype) * frac

    @property
    def scale_up(self) -> Link:
        """NVLink, or what stands in its place."""
        return Link(self.nvlink_bytes_per_s, self.nvlink_frac, self.nvlink_latency_s)

    @property
    def scale_out(self) -> Link:
        """The network card of one GPU."""
        return Link(self.nic_bytes_per_s, self.nic_frac, self.nic_latency_s)
