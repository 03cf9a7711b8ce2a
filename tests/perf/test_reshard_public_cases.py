"""The public code's behaviour, case by case (Megatron-LM, branch dev, nonuniform_tp.py and its tests).

Cases marked public are asserted by its own tests, the others were worked out from its rules. Where it is
inconsistent, the test says so and shows what ours does instead.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest

from pipeline.errors import InputError
from pipeline.perf.resharding import grad_buffer
from pipeline.perf.sharding import ShardMap, balanced, round_robin
from pipeline.perf.slots import active_slots, dp_groups, group_of, idle_slots, ordered, tp_groups

# --- which slots stay idle --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("failed", "tp", "spares", "idle"),
    [
        ({}, 8, 0, {}),  # 1, public
        ({0: [2, 5], 1: [1, 3]}, 8, 2, {0: (2, 5), 1: (1, 3)}),  # 2, public
        ({0: [2, 5], 1: [1]}, 8, 2, {0: (2, 5), 1: (1, 7)}),  # 3, public
        ({0: [7], 1: [0, 1]}, 8, 2, {0: (6, 7), 1: (0, 1)}),  # 4
        ({0: [0, 1, 2], 3: [7], 5: []}, 8, 3, {0: (0, 1, 2), 3: (5, 6, 7), 5: (5, 6, 7)}),  # 5
        ({0: [31], 1: [0, 5, 30, 31]}, 32, 4, {0: (28, 29, 30, 31), 1: (0, 5, 30, 31)}),  # 6
        ({2: [5, 2]}, 8, 2, {2: (2, 5)}),  # 7
    ],
)
def test_idle_slots(failed, tp, spares, idle):
    """Cases 1 to 7: the worst replica sets the degree; the others give up their highest healthy slots."""
    assert idle_slots(failed, tp) == (tp - spares, idle)


def test_a_slot_named_twice_is_one():
    """Case 8: the public code counts {0: [1, 1], 1: [7]} as two failures; ours loses one GPU a replica."""
    assert idle_slots({0: [1, 1], 1: [7]}, 8) == (7, {0: (1,), 1: (7,)})


@pytest.mark.parametrize("failed", [{0: [8]}, {0: [-1, 2]}, {0: list(range(8))}])
def test_slots_that_cannot_be_are_refused(failed):
    """A slot outside the group, or a replica without a healthy slot, is a user's mistake."""
    with pytest.raises(InputError):
        idle_slots(failed, 8)


def test_active_slots():
    """Cases 9 to 11, public: the rest of the group works; with none named the last ones are spare."""
    degree, _ = idle_slots({0: [6, 7]}, 8)
    assert active_slots(8, range(degree, 8)) == (0, 1, 2, 3, 4, 5)
    assert active_slots(8, [2, 5]) == (0, 1, 3, 4, 6, 7)
    assert active_slots(8, [0, 7]) == (1, 2, 3, 4, 5, 6)


# --- groups -----------------------------------------------------------------------------------------------


def test_groups_of_a_reduced_replica():
    """Case 12, public: of 4 slots 2 and 3 are idle; rank 2 is in no group and leaves, rank 4 stays."""
    groups = tp_groups(4, 2, {0: [2, 3]})
    assert groups == ((0, 1), (4, 5, 6, 7))
    assert group_of(4, groups) == (4, 5, 6, 7)
    with pytest.raises(InputError, match="in no TP group"):
        group_of(2, groups)


def test_groups_that_sync():
    """TP2 beside TP4 on six ranks: position pairs with position, extra GPUs with nobody."""
    assert dp_groups(((0, 1), (2, 3, 4, 5))) == ((0, 2), (1, 3), (4,), (5,))
    assert dp_groups(tp_groups(4, 3, {1: [0, 2]})) == ((0, 5, 8), (1, 7, 9), (2,), (10,), (3,), (11,))


def test_groups_as_listed():
    """Case 30, public: groups are put in order; a shared rank, and a rank in none, are refused."""
    assert ordered([[4, 5, 6, 7], [0, 1], [2, 3]]) == ((0, 1), (2, 3), (4, 5, 6, 7))
    with pytest.raises(InputError, match=r"ranks \[1\]"):
        ordered([[0, 1], [1, 2]])
    with pytest.raises(InputError, match="rank 8: in no TP group"):
        group_of(8, ordered([[0, 1], [4, 5]]))


# --- the flat buffer --------------------------------------------------------------------------------------


def test_flat_buffer():
    """Case 13, public: a 4x2 matrix whose core GPU gets 2 rows of each of two others, 2 DP ranks."""
    shard_map = round_robin(16, 4, 2)
    received = shard_map.send[:, 0].tolist()
    assert received == [0, 0, 2, 2]
    buffer = grad_buffer([(4 * 2, sum(received) * 2)], 2)
    assert buffer.places == ((0, 8, 16),)
    assert (buffer.used, buffer.size) == (16, 128)


def test_flat_buffer_of_several():
    """A tensor starts at a multiple of 64, the buffer ends at one of 128 and of the DP ranks."""
    buffer = grad_buffer([(70, 0), (10, 5)], 3)
    assert buffer.places == ((0, 70, 70), (128, 138, 143))
    assert (buffer.used, buffer.size) == (143, 384)


# --- the map ----------------------------------------------------------------------------------------------


def comp(shard_map: ShardMap) -> list[list[int]]:
    return [shard_map.comp_ids(gpu).tolist() for gpu in range(shard_map.full)]


def elements(shard_map: ShardMap, local_dim: int) -> list[list[int]]:
    """Return `send` in elements along the cut axis, of which a GPU has `local_dim` in the comp layout."""
    return (shard_map.send * (local_dim * shard_map.full // shard_map.shards)).tolist()


def test_no_spares_no_reshard():
    """Case 14, public: without spares nothing is sent; for a reduced replica see the proof."""
    assert not round_robin(24, 8, 8).send.any() and not balanced(24, 8, 8).send.any()


def test_24_heads_8_to_6():
    """Case 15: rows of 8 (public); unit 128 with the whole size, 16 with the size of a rank."""
    public = round_robin(24, 8, 6)
    rows = elements(public, 384)
    assert len(rows) == 8 and rows[:6] == [[0] * 8] * 6
    assert rows[6:] == [[128] * 3 + [0] * 5, [0] * 3 + [128] * 3 + [0] * 2]
    assert elements(public, 48)[6] == [16] * 3 + [0] * 5
    assert comp(public) == [[0, 1, 2], [4, 5, 6], [8, 9, 10], [12, 13, 14], [16, 17, 18], [20, 21, 22],
                            [3, 7, 11], [15, 19, 23]]  # fmt: skip
    assert comp(balanced(24, 8, 6)) == comp(public)


@pytest.mark.parametrize(
    ("shards", "full", "reduced", "local_dim", "extra_rows"),
    [
        (128, 4, 2, 128, [[64, 64, 0, 0]] * 2),  # 16
        (128, 4, 2, 32, [[16, 16, 0, 0]] * 2),  # 16, with the size of a rank
        (8, 4, 2, 64, [[32, 32, 0, 0]] * 2),  # 17
        (1024, 4, 2, 256, [[128, 128, 0, 0]] * 2),  # 18
        (512, 4, 2, 128, [[64, 64, 0, 0]] * 2),  # 19
        (12, 4, 3, 3, [[1, 1, 1, 0]]),  # 20
        (24, 4, 3, 6, [[2, 2, 2, 0]]),  # 21
        (56, 8, 7, 7, [[1] * 7 + [0]]),  # 22
        (4, 4, 2, 4, [[4, 0, 0, 0], [0, 4, 0, 0]]),  # 23
    ],
)
def test_rows_of_the_extra_gpus(shards, full, reduced, local_dim, extra_rows):
    """Cases 16 to 23: what the extra GPUs send; core GPUs send nothing, and ours sends as much in total."""
    public, ours = round_robin(shards, full, reduced), balanced(shards, full, reduced)
    rows = elements(public, local_dim)
    assert len(rows) == full and rows[reduced:] == extra_rows and not np.any(rows[:reduced])
    assert (ours.send.sum(axis=1) == public.send.sum(axis=1)).all()
    assert (ours.send.sum(axis=0) == public.send.sum(axis=0)).all()


def test_ids_of_the_extra_gpus():
    """Cases 17 and 20 to 23: the public code takes ids from the ends of pieces in turn; ours takes runs."""
    assert comp(round_robin(8, 4, 2)) == [[0, 1], [4, 5], [3, 7], [2, 6]]
    assert comp(balanced(8, 4, 2)) == [[0, 1], [4, 5], [2, 3], [6, 7]]
    assert comp(round_robin(12, 4, 3)) == [[0, 1, 2], [4, 5, 6], [8, 9, 10], [3, 7, 11]]
    assert comp(round_robin(24, 4, 3))[-1] == sorted([7, 15, 23, 6, 14, 22])
    assert comp(round_robin(56, 8, 7))[-1] == [7, 15, 23, 31, 39, 47, 55]
    assert comp(round_robin(4, 4, 2)) == [[0], [2], [1], [3]] == comp(balanced(4, 4, 2))


def test_96_shards_32_to_24():
    """Case 24: each extra GPU serves three core GPUs of its own, in both maps."""
    public = round_robin(96, 32, 24)
    for extra in range(24, 32):
        first = 3 * (extra - 24)
        assert np.flatnonzero(public.send[extra]).tolist() == [first, first + 1, first + 2]
        assert set(public.send[extra, first : first + 3]) == {1}
    assert (balanced(96, 32, 24).send == public.send).all()


def test_12000_shards_32_to_30():
    """Case 25: 375 and 400; the public code cuts 375 in 30 pieces of 12 or 13, ours in 15 of 25."""
    public = round_robin(12_000, 32, 30)
    assert public.send[30, :30].tolist() == [13] * 15 + [12] * 15
    assert public.send[31, :30].tolist() == [12] * 15 + [13] * 15
    assert set(public.comp_sizes) == {375} and set(public.sync_sizes[:30]) == {400}
    assert set(balanced(12_000, 32, 30).send[30:, :30].ravel()) == {0, 25}


@pytest.mark.parametrize(
    ("shards", "full", "reduced", "sync", "comp_sizes", "our_sync", "our_comp"),
    [
        (32, 8, 7, [5] * 6 + [2], [4, 4, 4, 4, 5, 5, 2, 4], [5] * 4 + [4] * 3, [4] * 8),  # 26
        (64, 8, 6, [11] * 5 + [9], [8, 8, 8, 8, 9, 7, 8, 8], [11] * 4 + [10] * 2, [8] * 8),  # 27
        (
            81_920, 32, 30, [2731] * 29 + [2721], [2560] * 20 + [2561] * 9 + [2551] + [2560] * 2,
            [2731] * 20 + [2730] * 10, [2560] * 32,
        ),  # 28
    ],
)  # fmt: skip
def test_shards_that_a_degree_does_not_divide(shards, full, reduced, sync, comp_sizes, our_sync, our_comp):
    """Cases 26 to 28: the public layouts are uneven, ours differ by one at most."""
    public, ours = round_robin(shards, full, reduced), balanced(shards, full, reduced)
    assert public.sync_sizes[:reduced].tolist() == sync
    assert public.comp_sizes.tolist() == comp_sizes
    assert ours.sync_sizes[:reduced].tolist() == our_sync
    assert ours.comp_sizes.tolist() == our_comp


def test_rows_of_uneven_public_layouts():
    """Cases 26 and 27: the rows themselves."""
    assert round_robin(32, 8, 7).send[7].tolist() == [1, 1, 1, 1, 0, 0, 0, 0]
    assert round_robin(64, 8, 6).send[6:].tolist() == [[2, 2, 1, 1, 1, 1, 0, 0], [1, 1, 2, 2, 1, 1, 0, 0]]


@pytest.mark.parametrize("reduced", [30, 28])
def test_128_heads_on_30_and_28_gpus(reduced):
    """Case 29: 26 pieces of 5 heads, an index error in the public code; ours gives 4 or 5 heads a GPU."""
    with pytest.raises(InputError, match="pieces of 5 shards"):
        round_robin(128, 32, reduced)
    ours = balanced(128, 32, reduced)
    assert set(ours.comp_sizes) == {4} and set(ours.sync_sizes[:reduced]) == {4, 5}
    ids = chain.from_iterable(ours.sync_ids(gpu).tolist() for gpu in range(reduced))
    assert list(ids) == list(range(128))
