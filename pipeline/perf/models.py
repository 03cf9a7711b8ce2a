"""The shape of a dense transformer: what step time, memory and resharding need to know of a model.

Sizes are counts (hidden units, heads, layers) and sequences are tokens. A layer holds attention
(Q, K, V and the output projection) and an FFN of two matrices (up, down) or three (gate, up, down:
gated, as SwiGLU). Biases, norms and learned positions are left out: below 0.1 % of the weights
(the 13/(12h) term of equation 2 in arXiv 2104.04473).

Not known here: experts. A mixture of experts moves its FFN by all-to-all over other groups than
TP, so every number of this package would be wrong for it; `experts` above 1 is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pipeline.errors import InputError

TWO_MATRICES, THREE_MATRICES = 2, 3


class Widest(NamedTuple):
    """The share of a GPU that holds the most: query heads, KV heads, FFN columns, vocabulary rows."""

    heads: int
    kv_heads: int
    ffn_hidden: int
    vocab: int


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A dense transformer.

    Raise InputError when the numbers make no transformer: a size below 1, `heads` that `kv_heads`
    does not divide, FFN matrices other than 2 or 3, or experts.
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn_hidden: int
    ffn_matrices: int
    vocab: int
    seq: int
    tie_embeddings: bool = False
    experts: int = 1

    def __post_init__(self) -> None:
        sizes = (
            "layers", "hidden", "heads", "kv_heads", "head_dim", "ffn_hidden", "vocab", "seq", "experts",
        )  # fmt: skip
        for name in sizes:
            if getattr(self, name) < 1:
                raise InputError(f"[model] {name}", f"found {getattr(self, name)}", "a number of at least 1")
        if self.experts > 1:
            raise InputError(
                "[model] experts",
                f"found {self.experts}",
                "1: a dense model",
                "expert parallelism is not modelled; give a measured table under [step_time]",
            )
        if self.heads % self.kv_heads:
            raise InputError(
                "[model] kv_heads",
                f"{self.kv_heads} KV heads for {self.heads} heads",
                "a divisor of heads: every KV head serves equally many query heads",
            )
        if self.ffn_matrices not in {TWO_MATRICES, THREE_MATRICES}:
            found = f"found {self.ffn_matrices}"
            raise InputError("[model] ffn_matrices", found, "2 (up, down) or 3 (gate, up, down)")

    @property
    def queries_per_group(self) -> int:
        """Query heads that share one KV head (1 without grouped-query attention)."""
        return self.heads // self.kv_heads

    @property
    def attention_weights(self) -> int:
        """Weights of the attention of one layer: Q and output by query heads, K and V by KV heads."""
        return 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)

    @property
    def ffn_weights(self) -> int:
        """Weights of the FFN of one layer."""
        return self.ffn_matrices * self.hidden * self.ffn_hidden

    @property
    def layer_weights(self) -> int:
        """Weights of one layer."""
        return self.attention_weights + self.ffn_weights

    def widest(self, tp: int) -> Widest:
        """Return the largest share that a GPU of a TP group of this degree holds.

        KV heads are split whole, their query heads with them, while there are enough: 8 KV heads on 7 GPUs
        put two on one. Beyond that, query heads are split and GPUs hold copies of a KV head: of one each
        where every KV head has equally many GPUs, else some of two.
        """
        if tp <= self.kv_heads:
            kv_heads = -(-self.kv_heads // tp)
            heads = kv_heads * self.queries_per_group
        else:
            heads = -(-self.heads // tp)
            kv_heads = 1 if tp % self.kv_heads == 0 else min(2, heads)
        return Widest(heads, kv_heads, -(-self.ffn_hidden // tp), -(-self.vocab // tp))

    @property
    def embedding_weights(self) -> int:
        """Weights of the input embedding and, when it is not tied to it, of the output layer."""
        return self.vocab * self.hidden * (1 if self.tie_embeddings else 2)

    @property
    def weights(self) -> int:
        """Weights of the whole model."""
        return self.layers * self.layer_weights + self.embedding_weights

    def layer_weights_of(self, share: Widest) -> int:
        """Weights of one layer that a GPU with this share holds."""
        attention = 2 * self.hidden * self.head_dim * (share.heads + share.kv_heads)
        return attention + self.ffn_matrices * self.hidden * share.ffn_hidden

    def model_flop(self, samples: int) -> int:
        """FLOP that the model itself needs for the forward and backward pass of this many sequences.

        Equation 7 of arXiv 2205.05198, 72 B L s h^2 (1 + s/6h + v/12hL), for any heads and FFN: 6 a token and
        weight of the layers and the output, 12 * seq a token and column of attention. The attention matrix
        counts in full, as there and in arXiv 2204.02311, although a causal kernel skips half of it.
        """
        per_token = 6 * (self.layers * self.layer_weights + self.vocab * self.hidden)
        return samples * self.seq * (per_token + 12 * self._attention_width * self.seq)

    def recompute_flop(self, samples: int, recompute: str) -> int:
        """FLOP of what is computed again: the forward pass of all layers, or of attention's core.

        With `full` added, `model_flop` becomes equation 3 of arXiv 2104.04473:
        96 B s l h^2 (1 + s/6h + V/16lh).
        """
        core = 4 * self._attention_width * self.seq
        layers = 2 * self.layers * self.layer_weights
        return samples * self.seq * {"none": 0, "selective": core, "full": layers + core}[recompute]

    @property
    def _attention_width(self) -> int:
        return self.layers * self.heads * self.head_dim
