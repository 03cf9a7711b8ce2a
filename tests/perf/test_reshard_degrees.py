"""Which reduced degrees a model has, and the reasons against the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.perf import presets
from pipeline.perf.degrees import copy_senders, cut_attention, degree, degrees, why_not
from pipeline.perf.models import ModelShape

SHAPE = ModelShape(
    layers=2,
    hidden=128,
    heads=32,
    kv_heads=32,
    head_dim=4,
    ffn_hidden=512,
    ffn_matrices=2,
    vocab=1000,
    seq=64,
)


def test_heads_need_not_divide():
    """The paper's model falls to 30 and 28: 5 of 128 heads, 2,731 and 2,926 columns on the busiest GPU."""
    shape = presets.model("ntp-480b")
    for reduced, columns in ((30, 2731), (28, 2926)):
        found = degree(shape, 32, reduced)
        assert (found.query_heads, found.ffn_columns, found.reasons) == (5, columns, ())


def test_every_degree_is_listed_once():
    """From one below the full degree down to 1, all legal where each GPU gets a head."""
    found = degrees(SHAPE, 32)
    assert [one.degree for one in found] == list(range(31, 0, -1))
    assert not any(one.reasons for one in found)
    assert [one.query_heads for one in found[:2]] == [2, 2] and found[-1].query_heads == 32


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"heads": 7, "kv_heads": 7}, "7 query heads"),
        ({"ffn_hidden": 6}, "6 FFN columns"),
        ({"vocab": 5}, "5 voc"),
    ],
)
def test_a_gpu_without_a_share_is_a_reason(change, what):
    """Fewer heads, columns or rows than GPUs."""
    (reason, *_) = why_not(replace(SHAPE, **change), 8, 4)
    assert reason.startswith(what) and reason.endswith("leave some of 8 GPUs without one")


@pytest.mark.parametrize("reduced", [8, 9, 0, -1])
def test_a_reduced_degree_is_below_the_full_one(reduced):
    """The full degree and what lies beyond is no reduced degree."""
    assert why_not(SHAPE, 8, reduced) == ("a reduced degree lies from 1 to 7",)


def test_kv_heads_are_shards_while_there_are_enough():
    """8 KV heads on 8 GPUs fall to any degree: a KV head moves with its query heads."""
    shape = replace(SHAPE, kv_heads=8)
    assert not any(one.reasons for one in degrees(shape, 8))
    assert degree(shape, 8, 7).query_heads == 2 * 4
    cut = cut_attention(shape, 8, 7)
    assert (cut.queries_per_shard, cut.kv_copied, cut.shard_map.shards) == (4, False, 8)
    assert copy_senders(8, 7, 8) == {}


def test_copies_of_kv_heads_are_equally_many():
    """8 KV heads on 32 GPUs: 4 GPUs share one, so 24, 16 and 8 GPUs work and all others have a reason."""
    shape = replace(SHAPE, kv_heads=8)
    assert [one.degree for one in degrees(shape, 32) if not one.reasons] == [24, 16, 8]
    assert why_not(shape, 32, 30) == ("8 KV heads cannot have equally many copies on 30 GPUs",)


def test_copies_of_kv_heads_lie_alike():
    """GPU g has query heads of KV head g mod kv_heads only; extra GPUs hear from core ones of the same."""
    shape = replace(SHAPE, heads=56, kv_heads=8)
    cut = cut_attention(shape, 32, 24)
    assert (cut.queries_per_shard, cut.kv_copied, cut.shard_map.shards) == (1, True, 56)
    kv_head = np.arange(56) // 7
    assert (cut.shard_map.comp_gpu % 8 == kv_head).all() and (cut.shard_map.sync_gpu % 8 == kv_head).all()
    assert cut.shard_map.comp_sizes.tolist() == [2] * 24 + [1] * 8
    assert cut.shard_map.sync_sizes.tolist() == [3] * 8 + [2] * 16 + [0] * 8
    assert cut.shard_map.send.sum() == 8 and not cut.shard_map.send[:24].any()
    assert copy_senders(32, 24, 8) == {24 + gpu: gpu for gpu in range(8)}
    assert all(extra % 8 == core % 8 for extra, core in copy_senders(64, 24, 8).items())


def test_llama3_405b_in_a_rack():
    """8 KV heads at TP64 fall by whole eights only: 56, 48 and so on; at TP8 to any degree."""
    shape = presets.model("llama3-405b")
    assert [one.degree for one in degrees(shape, 64) if not one.reasons] == [56, 48, 40, 32, 24, 16, 8]
    assert [one.degree for one in degrees(shape, 8) if not one.reasons] == [7, 6, 5, 4, 3, 2, 1]
    assert why_not(shape, 12, 8) == ("8 KV heads cannot have equally many copies on 12 GPUs",)


def test_an_illegal_degree_is_refused_with_its_reasons():
    """The message names the degree and why."""
    with pytest.raises(
        InputError, match="TP30 of TP32: 8 KV heads cannot have equally many copies on 30 GPUs"
    ):
        cut_attention(replace(SHAPE, kv_heads=8), 32, 30)
