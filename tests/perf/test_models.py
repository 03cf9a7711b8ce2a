"""The shape of a model: its weights, its FLOP, and what the busiest GPU of a TP group holds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.perf import presets
from pipeline.perf.models import ModelShape

GPT3 = presets.model("gpt3-175b")
LLAMA = presets.model("llama3-405b")


@pytest.mark.parametrize(
    "name", ["1.7b", "3.6b", "7.5b", "18.4b", "39.1b", "76.1b", "145.6b", "310.1b", "529.6b", "1008b"]
)
def test_weights_are_those_of_the_table(name: str) -> None:
    """The rows of table 1 of arXiv 2104.04473 have the weights that they are named after.

    Learned positions (seq * hidden), norms and biases are left out: 0.3 % of the smallest model.
    """
    published = float(name.removesuffix("b")) * 1e9
    assert abs(presets.model(f"megatron-{name}").weights - published) < 0.05e9 + 0.003 * published


def test_weights_of_gated_grouped_models() -> None:
    """Llama 3 has 8.0, 70.6 and 405.9 billion weights."""
    found = [presets.model(f"llama3-{size}").weights / 1e9 for size in ("8b", "70b", "405b")]
    assert found == pytest.approx([8.03, 70.55, 405.85], abs=0.005)


def test_flop_is_equation_3_and_7() -> None:
    """For the usual shape FLOP are 96 B s L h^2 (1 + s/6h + V/16Lh); 72 and V/12Lh unrecomputed."""
    b, s, L, h, v = 7, GPT3.seq, GPT3.layers, GPT3.hidden, GPT3.vocab
    model = GPT3.model_flop(b)
    assert model == pytest.approx(72 * b * s * L * h**2 * (1 + s / (6 * h) + v / (12 * L * h)), rel=1e-12)
    full = model + GPT3.recompute_flop(b, "full")
    assert full == pytest.approx(96 * b * s * L * h**2 * (1 + s / (6 * h) + v / (16 * L * h)), rel=1e-12)
    assert GPT3.recompute_flop(b, "selective") == 4 * b * L * s**2 * h
    assert GPT3.recompute_flop(b, "none") == 0


@pytest.mark.parametrize(
    ("shape", "tp", "heads", "kv_heads", "ffn"),
    [
        (presets.model("ntp-480b"), 32, 4, 4, 2_560),
        (presets.model("ntp-480b"), 30, 5, 5, 2_731),
        (presets.model("ntp-480b"), 28, 5, 5, 2_926),
        (LLAMA, 8, 16, 1, 6_656),
        (LLAMA, 7, 32, 2, 7_607),  # a KV head is not split: one GPU has two
        (LLAMA, 16, 8, 1, 3_328),  # copies of KV heads
        (LLAMA, 15, 9, 2, 3_550),  # nine query heads reach over two KV heads
    ],
)
def test_widest_share(shape: ModelShape, tp: int, heads: int, kv_heads: int, ffn: int) -> None:
    """The busiest GPU holds whole heads, KV heads and columns, rounded up."""
    assert shape.widest(tp)[:3] == (heads, kv_heads, ffn)


@given(tp=st.integers(1, 128))
def test_shares_cover_the_model(tp: int) -> None:
    """As many shares as GPUs hold everything, and at a degree that divides they hold it once."""
    share = GPT3.widest(tp)
    assert share.heads * tp >= GPT3.heads
    assert share.ffn_hidden * tp >= GPT3.ffn_hidden
    held = GPT3.layer_weights_of(share) * tp
    assert held >= GPT3.layer_weights
    if GPT3.heads % tp == 0 and GPT3.ffn_hidden % tp == 0:
        assert held == GPT3.layer_weights


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"experts": 8}, "expert parallelism is not modelled"),
        ({"kv_heads": 7}, "a divisor of heads"),
        ({"ffn_matrices": 4}, "2 (up, down) or 3"),
        ({"layers": 0}, "at least 1"),
    ],
)
def test_what_is_no_dense_transformer_is_refused(wrong: dict[str, int], words: str) -> None:
    """A shape that the package cannot compute is one clear message."""
    with pytest.raises(InputError) as raised:
        replace(GPT3, **wrong)
    assert words in str(raised.value)
