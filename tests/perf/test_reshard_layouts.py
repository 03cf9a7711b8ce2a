"""Comp and sync layouts for any number of shards and any two degrees."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.perf.reshard_tables import compare_maps
from pipeline.perf.sharding import MAPS, ShardMap, balanced, contiguous, least_moved, round_robin

MANY = 128_256  # the vocabulary of Llama 3 (arXiv 2407.21783 has 128K), in rows


@st.composite
def degrees(draw, most_shards: int = 600, most_gpus: int = 72):
    """Draw shards and two degrees that they fill."""
    full = draw(st.integers(1, most_gpus))
    return draw(st.integers(full, max(full, most_shards))), full, draw(st.integers(1, full))


def total(shard_map: ShardMap) -> int:
    return int(shard_map.send.sum())


def sizes(shards: int, gpus: int) -> list[list[int]]:
    """Return every way to spread shards as evenly as possible: which GPUs hold one more."""
    low, more = divmod(shards, gpus)
    return [[low + (gpu in larger) for gpu in range(gpus)] for larger in combinations(range(gpus), more)]


@given(degrees())
def test_every_shard_is_once_in_each_layout(case):
    """The ids of all GPUs together are 0 to S-1: in the comp layout on N1 GPUs, in the sync layout on N2."""
    shards, full, reduced = case
    shard_map = balanced(shards, full, reduced)
    for ids, gpus in ((shard_map.comp_ids, full), (shard_map.sync_ids, reduced)):
        held = np.concatenate([ids(gpu) for gpu in range(gpus)])
        assert sorted(held.tolist()) == list(range(shards))
    assert not shard_map.sync_sizes[reduced:].any()


@given(degrees())
def test_sync_shards_are_consecutive(case):
    """A core GPU's sync shards are one run of ids that follows the run of the GPU before it."""
    shards, full, reduced = case
    held = np.concatenate([balanced(shards, full, reduced).sync_ids(gpu) for gpu in range(reduced)])
    assert held.tolist() == list(range(shards))


@given(degrees())
def test_layouts_and_messages_are_even(case):
    """In a layout, and in what core GPUs receive and extra ones send, GPUs differ by one shard at most."""
    shards, full, reduced = case
    shard_map = balanced(shards, full, reduced)
    for counts in (
        shard_map.comp_sizes,
        shard_map.sync_sizes[:reduced],
        shard_map.send.sum(axis=0)[:reduced],
        shard_map.send.sum(axis=1)[reduced:],
    ):
        assert np.ptp(counts) <= 1 if counts.size else full == reduced


@given(degrees())
def test_only_extra_gpus_send_and_only_core_gpus_receive(case):
    """Core GPUs keep the first of their own sync shards; every message is one run of ids."""
    shards, full, reduced = case
    shard_map = balanced(shards, full, reduced)
    assert not shard_map.send[:reduced].any() and not shard_map.send[:, reduced:].any()
    for core in range(reduced):
        kept = shard_map.comp_ids(core)
        assert kept.tolist() == shard_map.sync_ids(core)[: kept.size].tolist()
    pairs = np.argwhere(shard_map.send)
    assert len(pairs) < full
    for sender, receiver in pairs:
        ids = shard_map.sent_ids(sender, receiver)
        assert ids.size == shard_map.send[sender, receiver] and np.ptp(ids) == ids.size - 1


@given(degrees(), st.sampled_from(sorted(MAPS)))
def test_what_is_sent_is_received(case, name):
    """In every map, rows of `send` are what leaves comp shards, columns what completes sync shards."""
    try:
        shard_map = MAPS[name](*case)
    except InputError:
        assert name == "round-robin"
        return
    stays = np.bincount(
        shard_map.comp_gpu[shard_map.comp_gpu == shard_map.sync_gpu], minlength=shard_map.full
    )
    assert (shard_map.send.sum(axis=1) + stays == shard_map.comp_sizes).all()
    assert (shard_map.send.sum(axis=0) + stays == shard_map.sync_sizes).all()
    for sender, receiver in product(range(min(4, shard_map.full)), repeat=2):
        if sender != receiver:
            assert shard_map.sent_ids(sender, receiver).size == shard_map.send[sender, receiver]


@given(degrees())
def test_no_two_balanced_layouts_move_less(case):
    """Ours moves the least possible, and neither a GPU's sending nor its receiving can be less."""
    shards, full, reduced = case
    shard_map = balanced(shards, full, reduced)
    assert total(shard_map) == least_moved(shards, full, reduced)
    assert shard_map.send.sum(axis=0).max() == -(-total(shard_map) // reduced)
    if full > reduced:
        assert shard_map.send.sum(axis=1).max() == -(-total(shard_map) // (full - reduced))


@pytest.mark.parametrize("full", range(1, 7))
def test_least_is_the_least_of_all_layouts(full):
    """The bound meets a search over every pair of even layouts, with the best ids for each."""
    for shards in range(full, 3 * full + 2):
        for reduced in range(1, full + 1):
            kept = max(
                sum(map(min, comp, [*sync, *[0] * (full - reduced)]))
                for comp, sync in product(sizes(shards, full), sizes(shards, reduced))
            )
            assert least_moved(shards, full, reduced) == shards - kept


@given(degrees())
def test_where_both_degrees_divide_the_public_map_moves_as_much(case):
    """At S divisible by N1 and N2 the public map moves as much per GPU, in as many messages or more."""
    shards, full, reduced = case
    shards *= full * reduced
    ours, public = balanced(shards, full, reduced), round_robin(shards, full, reduced)
    for axis in (0, 1):
        assert (ours.send.sum(axis=axis) == public.send.sum(axis=axis)).all()
        assert (np.count_nonzero(ours.send, axis=axis) <= np.count_nonzero(public.send, axis=axis)).all()
    assert (ours.comp_sizes == public.comp_sizes).all() and (ours.sync_gpu == public.sync_gpu).all()


def test_the_papers_naive_problem():
    """Hidden 12,000, 32 to 30 GPUs: two send 25 to each of 15; plain slices move 12 times more."""
    ours, plain = balanced(12_000, 32, 30), contiguous(12_000, 32, 30)
    assert set(ours.comp_sizes) == {375} and set(ours.sync_sizes[:30]) == {400}
    assert ours.send[30].tolist() == [25] * 15 + [0] * 17  # the walk-through prints 375/15 = 25
    assert ours.send[31].tolist() == [0] * 15 + [25] * 15 + [0] * 2
    assert (total(ours), total(plain)) == (750, 9_000)
    assert np.count_nonzero(ours.send) == 30 and np.count_nonzero(round_robin(12_000, 32, 30).send) == 60
    # Plain slices use every port at once, so their busiest port moves little more than ours.
    assert (ours.send.sum(axis=1).max(), plain.send.sum(axis=0).max()) == (375, 400)


def test_a_vocabulary_is_mapped_at_once():
    """The rows of a vocabulary are one array operation away."""
    shard_map = balanced(MANY, 72, 64)
    assert total(shard_map) == least_moved(MANY, 72, 64) and np.ptp(shard_map.comp_sizes) <= 1


def test_the_full_degree_moves_nothing():
    """A job without a reduced replica has one layout."""
    shard_map = balanced(100, 8, 8)
    assert total(shard_map) == 0 and (shard_map.comp_gpu == shard_map.sync_gpu).all()


@pytest.mark.parametrize("case", [(10, 4, 5), (3, 4, 2), (10, 4, 0), (0, 0, 0)])
@pytest.mark.parametrize("name", sorted(MAPS))
def test_degrees_that_make_no_layout_are_refused(case, name):
    """A reduced degree above the full one, or a GPU without a shard, is a user's mistake."""
    with pytest.raises(InputError, match="1 <= reduced degree <= full degree <= shards"):
        MAPS[name](*case)


def test_the_table_of_maps():
    """Ours never moves more than another map, and the table says where the public one has no answer."""
    rows = compare_maps()
    for ours, plain, public in zip(*(rows[start::3] for start in range(3)), strict=True):
        assert ours.moved == ours.least <= plain.moved and not ours.problem
        assert max(ours.comp_spread, ours.sync_spread) <= 1
        if public.problem:
            assert ours.shards == 128
        else:
            assert (ours.moved, ours.busiest) == (public.moved, public.busiest)
            assert ours.messages <= public.messages and ours.busiest_messages <= public.busiest_messages
    uneven = [(row.shards, row.full, row.reduced) for row in rows if row.comp_spread > 1]
    assert uneven == [(32, 8, 7), (64, 8, 6), (81920, 32, 30)]
