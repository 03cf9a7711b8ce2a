"""Two replicas of unequal TP degree learn what one uniform replica learns on the joint batch.

The tolerance is that of another order of summation in float64: a few hundred additions per element, each
off by 1.1e-16 at most, over 20 steps. Measured: below 3e-15. A wrong map is off by percents.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.perf.models import ModelShape
from pipeline.perf.resharding import layer_tensors
from pipeline.perf.sharding import ShardMap, balanced, contiguous, round_robin
from tests.perf.proof import (
    FLOAT_BYTES,
    Model,
    OversizeError,
    Rank,
    Replica,
    distance,
    maps_of,
    swapped,
    train_unequal,
    train_uniform,
)

ROUNDING, CAUGHT = 1e-12, 1e-3
TEN_HEADS = Model(groups=10, ffn=37)
COPIES = Model(groups=2, queries=7, ffn=33, copied=True)


@pytest.mark.parametrize(
    ("model", "full", "reduced"),
    [
        pytest.param(TEN_HEADS, 4, 3, id="10 heads and 37 columns, 4 to 3"),
        pytest.param(Model(groups=10, ffn=40), 5, 2, id="both divide, 5 to 2"),
        pytest.param(Model(groups=5, queries=3, ffn=41), 4, 3, id="5 KV heads of 3 queries, 4 to 3"),
        pytest.param(Model(groups=8, queries=2, ffn=31), 8, 7, id="8 KV heads of 2 queries, 8 to 7"),
        pytest.param(Model(groups=16, ffn=61), 8, 6, id="16 heads and 61 columns, 8 to 6"),
        pytest.param(COPIES, 8, 6, id="2 KV heads of 7 queries, copied, 8 to 6"),
        pytest.param(COPIES, 10, 4, id="2 KV heads of 7 queries, copied, 10 to 4"),
        pytest.param(TEN_HEADS, 4, 1, id="one GPU left"),
        pytest.param(TEN_HEADS, 4, 4, id="nothing reduced"),
    ],
)
def test_unequal_replicas_learn_the_same(model, full, reduced):
    """20 AdamW steps: weights and moments of both replicas, and losses, equal those of uniform runs."""
    maps = maps_of(model, full, reduced)
    run = train_unequal(model, maps, maps)
    one_gpu = replace(model, copied=False)
    assert distance(run, train_uniform(one_gpu, 1)) < ROUNDING
    assert distance(run, train_uniform(model, full)) < ROUNDING
    assert run.losses[-1] < run.losses[0] / 2  # it learns, so that equality means something


@settings(max_examples=25)
@given(st.data())
def test_any_shards_and_degrees(data):
    """Any number of heads, columns and GPUs."""
    full = data.draw(st.integers(1, 6))
    reduced = data.draw(st.integers(1, full))
    model = Model(
        groups=data.draw(st.integers(full, 14)),
        queries=data.draw(st.integers(1, 2)),
        ffn=data.draw(st.integers(full, 25)),
        hidden=6,
        head_dim=2,
        tokens=3,
        seed=data.draw(st.integers(0, 99)),
    )
    maps = maps_of(model, full, reduced)
    run = train_unequal(model, maps, maps, steps=3, healthy_samples=2, reduced_samples=1)
    assert distance(run, train_uniform(model, 1, steps=3, samples=3)) < ROUNDING


@settings(max_examples=15)
@given(st.data())
def test_any_degrees_with_copies(data):
    """Any number of KV heads, query heads and GPUs a KV head."""
    groups = data.draw(st.integers(1, 3))
    each = data.draw(st.integers(2, 4))
    full, reduced = groups * each, groups * data.draw(st.integers(1, each))
    model = Model(
        groups=groups,
        queries=data.draw(st.integers(each, 7)),
        ffn=data.draw(st.integers(full, 25)),
        hidden=6,
        head_dim=2,
        tokens=3,
        copied=True,
    )
    maps = maps_of(model, full, reduced)
    run = train_unequal(model, maps, maps, steps=3, healthy_samples=2, reduced_samples=1)
    truth = train_uniform(replace(model, copied=False), 1, steps=3, samples=3)
    assert distance(run, truth) < ROUNDING


def test_the_public_map_is_right_where_both_degrees_divide():
    """Any map serves whose sync layout suits the reduced replica; 12 heads and 24 columns, 4 to 3."""
    model = Model(groups=12, ffn=24)
    maps = maps_of(model, 4, 3, round_robin)
    assert distance(train_unequal(model, maps, maps), train_uniform(model, 1)) < ROUNDING
    plain = maps_of(model, 4, 3, contiguous)
    assert distance(train_unequal(model, plain, maps), train_uniform(model, 1)) < ROUNDING


def test_the_bytes_are_those_foretold():
    """Each step moves what `send` says from GPU to GPU, and the transpose on the way back."""
    model = Model(groups=10, queries=2, ffn=37)
    maps = maps_of(model, 4, 3)
    healthy, reduced = train_unequal(model, maps, maps, steps=2).replicas
    for name, weight in model.weights.items():
        there = maps[weight.family].send * weight.shard_elements * FLOAT_BYTES
        assert (healthy.network.sent_bytes[name] == 2 * (there + there.T)).all()
    assert not reduced.network.sent_bytes


@pytest.mark.parametrize("model", [Model(groups=10, queries=2, ffn=37), COPIES], ids=["cut", "copied"])
def test_a_layer_moves_what_the_cost_says(model):
    """Per GPU, sent and received, both ways: the network's count is that of `layer_tensors`."""
    full, reduced = (8, 6)
    shape = ModelShape(
        layers=1, hidden=model.hidden, heads=model.groups * model.queries, kv_heads=model.groups,
        head_dim=model.head_dim, ffn_hidden=model.ffn, ffn_matrices=3, vocab=full, seq=model.tokens,
    )  # fmt: skip
    maps = maps_of(model, full, reduced)
    healthy, _ = train_unequal(model, maps, maps, steps=1).replicas
    counted = sum(healthy.network.sent_bytes.values())
    tensors = layer_tensors(shape, full, reduced, FLOAT_BYTES)
    foretold = [way for tensor in tensors for way in (tensor.there, tensor.back)]
    assert (counted.sum(axis=1) == sum(way.sent_bytes for way in foretold)).all()
    assert (counted.sum(axis=0) == sum(way.received_bytes for way in foretold)).all()


# --- the proof can fail -----------------------------------------------------------------------------------


def test_two_shards_in_each_others_place_are_noticed():
    """The healthy replica syncs two columns with the wrong partners: sizes fit, numbers do not."""
    maps = maps_of(TEN_HEADS, 4, 3)
    wrong = {**maps, "ffn": swapped(maps["ffn"], 0, 36)}
    assert distance(train_unequal(TEN_HEADS, wrong, maps), train_uniform(TEN_HEADS, 1)) > CAUGHT


def test_two_heads_in_each_others_place_are_noticed():
    """The same for heads."""
    maps = maps_of(TEN_HEADS, 4, 3)
    wrong = {**maps, "attention": swapped(maps["attention"], 0, 9)}
    assert distance(train_unequal(TEN_HEADS, wrong, maps), train_uniform(TEN_HEADS, 1)) > CAUGHT


def test_extra_gpus_without_the_synced_copies_are_noticed(monkeypatch):
    """Copies of K and V that nobody hands back part from those of the core GPUs."""
    maps = maps_of(COPIES, 8, 6)
    monkeypatch.setattr(Replica, "hand_copies_back", lambda _: None)
    run = train_unequal(COPIES, maps, maps, steps=1)
    with pytest.raises(AssertionError, match="copies of k differ"):
        distance(run, train_uniform(COPIES, 8, steps=1))


def test_weights_loaded_by_plain_slices_are_noticed(monkeypatch):
    """Extra GPUs that load consecutive ids, as a checkpoint of uniform TP has them, compute other shards."""

    def plain_slices(replica: Replica, family: str, gpu: int):
        shard_map = replica.maps[family]
        if replica.computes_in == "sync":
            return shard_map.sync_ids(gpu)
        return contiguous(shard_map.shards, shard_map.full, shard_map.reduced).comp_ids(gpu)

    model = Model(groups=12, ffn=36)
    maps = maps_of(model, 4, 3)
    truth = train_uniform(model, 1)
    monkeypatch.setattr(Replica, "ids", plain_slices)
    assert distance(train_unequal(model, maps, maps), truth) > CAUGHT


def test_flat_pairing_of_a_matrix_cut_by_column_is_noticed(monkeypatch):
    """Side parts behind the own part in memory, whatever the axis, pair unlike elements in the sync."""
    joined = Replica._join

    def flat(replica: Replica, name: str, gpu: int, kind: str, held, parts) -> None:
        joined(replica, name, gpu, kind, held, parts)
        if kind == "sync gradient":
            shape = replica.ranks[gpu].arrays[kind, name].shape
            blocks = [part.ravel() for _, (_, part) in sorted(parts.items())]  # a core GPU's own comes first
            replica.ranks[gpu].hold(kind, name, np.concatenate(blocks).reshape(shape))

    maps = maps_of(TEN_HEADS, 4, 3)
    truth = train_uniform(TEN_HEADS, 1)
    monkeypatch.setattr(Replica, "_join", flat)
    assert distance(train_unequal(TEN_HEADS, maps, maps), truth) > CAUGHT


def test_uneven_layouts_hold_too_much():
    """The public map at 32 shards, 8 to 7 GPUs, needs ranks that hold 5 of a shard of 4."""
    model = Model(groups=32, ffn=56, head_dim=1)
    maps = {"attention": round_robin(32, 8, 7), "ffn": balanced(56, 8, 7)}
    with pytest.raises(OversizeError, match="weight q"):
        train_unequal(model, maps, maps, steps=1)


def test_a_reduced_replica_of_other_sizes_does_not_fit():
    """A reduced replica cut by other rules than the sync layout has shards of other sizes."""
    model = Model(groups=32, ffn=56, head_dim=1)
    ours = maps_of(model, 8, 7)
    other = ours["attention"]
    other = replace(other, sync_gpu=np.repeat(np.arange(7), [4] * 3 + [5] * 4))  # the larger ones last
    with pytest.raises(ValueError, match="broadcast"):
        train_unequal(model, ours, {**ours, "attention": other}, steps=1)


def test_a_rank_refuses_more_than_its_shard():
    """One row above the shard is refused, the shard itself is held."""
    rank = Rank(TEN_HEADS, {"weight": {"attention": 3, "ffn": 10}})
    rank.hold("weight", "down", np.zeros((10, 12)))
    with pytest.raises(OversizeError, match="weight down: 132 elements, the shard has 120"):
        rank.hold("weight", "down", np.zeros((11, 12)))
    with pytest.raises(OversizeError, match="activation up"):
        rank.activate("ffn", "up", np.zeros((5, 11)), 5)


def test_an_extra_rank_holds_no_synced_gradient():
    """Its limit is 0: a sync layout beyond the core GPUs is refused."""
    replica = Replica(TEN_HEADS, maps_of(TEN_HEADS, 4, 3), "comp")
    with pytest.raises(OversizeError, match="sync gradient q"):
        replica.ranks[3].hold("sync gradient", "q", np.zeros((12, 4)))


# --- the yardstick ----------------------------------------------------------------------------------------


def test_gradients_are_the_slopes_of_the_loss():
    """Central differences of the loss, in every matrix, meet the gradients of the uniform replica."""
    model = Model(groups=4, queries=2, ffn=7, hidden=6, head_dim=3)
    inputs, targets = model.data(1, 2)

    def loss(name: str, place: tuple[int, ...], change: float) -> float:
        replica = Replica(model, maps_of(model, 1, 1), "comp")
        replica.ranks[0].arrays["weight", name][place] += change
        return replica.learn(inputs, targets, 2)

    replica = Replica(model, maps_of(model, 1, 1), "comp")
    replica.learn(inputs, targets, 2)
    draw = np.random.default_rng(0)
    for name in model.weights:
        gradient = replica.ranks[0].arrays["gradient", name]
        for _ in range(4):
            place = tuple(int(draw.integers(size)) for size in gradient.shape)
            slope = (loss(name, place, 1e-5) - loss(name, place, -1e-5)) / 2e-5
            assert gradient[place] == pytest.approx(slope, rel=1e-6, abs=1e-7)


def test_shards_keep_their_ids():
    """A matrix put together from a comp layout is the one that was drawn."""
    model = Model(groups=11, ffn=29)
    maps: dict[str, ShardMap] = maps_of(model, 5, 3)
    for computes_in in ("comp", "sync"):
        replica = Replica(model, maps, computes_in)
        for name, weight in model.weights.items():
            drawn = model.drawn(name, np.arange(model.shards[weight.family]))
            assert (replica.whole("weight", name) == drawn).all()
