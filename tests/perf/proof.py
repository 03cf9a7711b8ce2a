"""A small transformer trained by two data-parallel replicas of unequal TP degree, in numpy and float64.

Ranks are objects that share no memory: what one knows of another came through `Network`, which counts
bytes. A rank may hold an array only through `Rank.hold`, which refuses one above its shard's size; that
size is ceil(S/N), computed here and not by the code under test. Weights are drawn by shard id, so that
no rank ever sees a whole matrix, and have their natural form: Q, K, V, gate and up are cut by column,
the output projection and down by row.

The model is one block: causal attention with grouped queries, then a gated FFN, both added to their
input. A shard of the FFN is a column. One of the attention is a KV head with its query heads or, where
there are more GPUs than KV heads (`copied`), a query head, beside a copy of K and V.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import cycle

import numpy as np
import numpy.typing as npt

from pipeline.perf.degrees import copy_senders, cut_attention
from pipeline.perf.models import ModelShape
from pipeline.perf.sharding import Ints, ShardMap, balanced

Array = npt.NDArray[np.float64]
Maps = dict[str, ShardMap]
Mapper = Callable[[int, int, int], ShardMap]

FLOAT_BYTES = 8
LEARNING_RATE, BETA1, BETA2, EPSILON, DECAY = 1e-2, 0.9, 0.95, 1e-8, 0.1


class OversizeError(Exception):
    """A rank was asked to hold an array above its shard's size."""


@dataclass(frozen=True)
class Weight:
    """A weight matrix: the family whose shards cut it, the axis, its width per shard and across."""

    family: str
    axis: int
    width: int
    across: int

    @property
    def shard_elements(self) -> int:
        """Elements of one shard."""
        return self.width * self.across


@dataclass(frozen=True)
class Model:
    """Sizes of the block: `groups` KV heads of `queries` query heads each; `seed` draws weights and data."""

    groups: int = 10
    queries: int = 1
    ffn: int = 37
    hidden: int = 12
    head_dim: int = 4
    tokens: int = 5
    copied: bool = False
    seed: int = 0

    @property
    def shards(self) -> dict[str, int]:
        """Shards by family."""
        heads = {"attention": self.groups * self.queries, "kv": self.groups} if self.copied else {}
        return {"attention": self.groups, "ffn": self.ffn, **heads}

    @property
    def copies(self) -> list[str]:
        """The matrices that several GPUs hold alike."""
        return [name for name, weight in self.weights.items() if weight.family == "kv"]

    @property
    def weights(self) -> dict[str, Weight]:
        """The matrices by name."""
        query = self.head_dim if self.copied else self.queries * self.head_dim
        kv_family = "kv" if self.copied else "attention"
        return {
            "q": Weight("attention", 1, query, self.hidden),
            "k": Weight(kv_family, 1, self.head_dim, self.hidden),
            "v": Weight(kv_family, 1, self.head_dim, self.hidden),
            "output": Weight("attention", 0, query, self.hidden),
            "gate": Weight("ffn", 1, 1, self.hidden),
            "up": Weight("ffn", 1, 1, self.hidden),
            "down": Weight("ffn", 0, 1, self.hidden),
        }

    def drawn(self, name: str, ids: Ints) -> Array:
        """Return the initial weights of these shards, side by side: drawn by head or column."""
        weight, number = self.weights[name], list(self.weights).index(name)
        width = 1 if weight.family == "ffn" else self.head_dim
        shape = (weight.across, width) if weight.axis else (width, weight.across)
        parts = [
            np.random.default_rng([self.seed, number, part]).normal(0, 0.3, shape)
            for part in _places(np.arange(max(ids) + 1), ids, weight.width // width)
        ]
        return np.concatenate(parts, axis=weight.axis)

    def data(self, step: int, samples: int) -> tuple[Array, Array]:
        """Return the inputs and targets of one step, [sample, token, hidden]."""
        draw = np.random.default_rng([self.seed, 1000, step])
        both = draw.normal(size=(2, samples, self.tokens, self.hidden))
        return both[0], both[1]


@dataclass
class Rank:
    """One GPU: its arrays by kind and name, and the most shards of a family that it may hold of a kind."""

    model: Model
    limits: dict[str, dict[str, int]]
    arrays: dict[tuple[str, str], Array] = field(default_factory=dict)

    def hold(self, kind: str, name: str, array: Array) -> Array:
        """Keep an array of a weight's form; raise OversizeError when it is above the shard's size."""
        weight = self.model.weights[name]
        self._refuse(kind, name, array, self.limits[kind][weight.family] * weight.shard_elements)
        self.arrays[kind, name] = array
        return array

    def activate(self, family: str, name: str, array: Array, shard_elements: int) -> Array:
        """Return an activation that is cut by shards; raise OversizeError as `hold`."""
        self._refuse("activation", name, array, self.limits["weight"][family] * shard_elements)
        return array

    def _refuse(self, kind: str, name: str, array: Array, limit: int) -> None:
        if array.size > limit:
            message = f"{kind} {name}: {array.size} elements, the shard has {limit}"
            raise OversizeError(message)


@dataclass
class Network:
    """The scale-up network of one replica: hands over copies, and counts bytes by sender and receiver."""

    gpus: int
    sent_bytes: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict)

    def send(self, name: str, sender: int, receiver: int, piece: Array) -> Array:
        """Return what the receiver gets."""
        counts = self.sent_bytes.setdefault(name, np.zeros((self.gpus, self.gpus), dtype=np.int64))
        counts[sender, receiver] += piece.size * FLOAT_BYTES
        return piece.copy()


class Replica:
    """One data-parallel replica: the ranks of a TP group.

    `computes_in` is "comp" for a healthy replica of a job with reduced ones, "sync" for a reduced one.
    """

    def __init__(self, model: Model, maps: Maps, computes_in: str) -> None:
        self.model, self.maps, self.computes_in = model, maps, computes_in
        some = next(iter(maps.values()))
        self.gpus = some.full if computes_in == "comp" else some.reduced
        self.network = Network(self.gpus)
        self.ranks = [self._rank(gpu, some.reduced) for gpu in range(self.gpus)]

    def _rank(self, gpu: int, reduced: int) -> Rank:
        own, sync = (
            {family: -(-count // gpus) for family, count in self.model.shards.items()}
            for gpus in (self.gpus, reduced)
        )  # a copy of one KV head, as ceil(kv_heads/GPUs) says too
        kinds = ("weight", "gradient", "moment1", "moment2", "message")
        limits = {
            **dict.fromkeys(kinds, own),
            "sync gradient": sync if gpu < reduced else dict.fromkeys(own, 0),
        }
        rank = Rank(self.model, limits)
        for name, weight in self.model.weights.items():
            held = rank.hold("weight", name, self.model.drawn(name, self.ids(weight.family, gpu)))
            rank.hold("moment1", name, np.zeros_like(held))
            rank.hold("moment2", name, np.zeros_like(held))
        return rank

    def ids(self, family: str, gpu: int) -> Ints:
        """Return the shards that a GPU computes with."""
        if family == "kv":
            return np.array([gpu % self.model.groups])
        shard_map = self.maps[family]
        return shard_map.comp_ids(gpu) if self.computes_in == "comp" else shard_map.sync_ids(gpu)

    def learn(self, inputs: Array, targets: Array, joint_samples: int) -> float:
        """Make every rank's gradients of the joint batch's mean squared error; return this replica's part."""
        attentions = [attention(rank, inputs) for rank in self.ranks]
        middle = inputs + sum(part for part, _ in attentions)
        ffns = [ffn(rank, middle) for rank in self.ranks]
        outputs = middle + sum(part for part, _ in ffns)
        slope = (outputs - targets) / joint_samples
        slope = slope + sum(back(slope) for _, back in ffns)
        for _, back in attentions:
            back(slope)
        self._add_copies_up()
        return float(0.5 * ((outputs - targets) ** 2).sum() / joint_samples)

    def _add_copies_up(self) -> None:
        """Give every GPU of a KV head the sum of their gradients, as any job with copies does."""
        for name in self.model.copies:
            for head in range(self.model.groups):
                sharing = self.ranks[head :: self.model.groups]
                total = sum(rank.arrays["gradient", name] for rank in sharing)
                for rank in sharing:
                    rank.hold("gradient", name, total.copy())

    def hand_copies_back(self) -> None:
        """Give the extra ranks the synced gradients of their copies."""
        for name in self.model.copies:
            reduced = self.maps["attention"].reduced
            for extra, core in copy_senders(self.gpus, reduced, self.model.groups).items():
                copy = self._carried(name, core, extra, self.ranks[core].arrays["gradient", name])
                self.ranks[extra].hold("gradient", name, copy)

    def reshard(self) -> None:
        """Bring the gradients into the sync layout: extra ranks send, core ranks put in order."""
        self._move("gradient", "sync gradient")

    def reshard_back(self) -> None:
        """Bring the synced gradients back into the comp layout."""
        self._move("sync gradient", "gradient", back=True)

    def _move(self, source: str, target: str, *, back: bool = False) -> None:
        """Move every matrix that is cut from one layout to the other, by shard id."""
        for name, weight in self.model.weights.items():
            if name in self.model.copies:
                continue
            shard_map = self.maps[weight.family]
            layouts = (shard_map.comp_ids, shard_map.sync_ids)
            held_before, held_after = reversed(layouts) if back else layouts
            for receiver in range(self.gpus if back else shard_map.reduced):
                parts = {}
                for sender in range(shard_map.reduced if back else self.gpus):
                    ids = shard_map.sent_ids(*((receiver, sender) if back else (sender, receiver)))
                    if ids.size:
                        part = self._cut(name, self.ranks[sender], source, held_before(sender), ids)
                        if sender != receiver:
                            part = self._carried(name, sender, receiver, part)
                        parts[sender] = ids, part
                self._join(name, receiver, target, held_after(receiver), parts)

    def _carried(self, name: str, sender: int, receiver: int, part: Array) -> Array:
        self.ranks[sender].hold("message", name, part)
        return self.network.send(name, sender, receiver, part)

    def _cut(self, name: str, rank: Rank, kind: str, held: Ints, ids: Ints) -> Array:
        weight = self.model.weights[name]
        return rank.arrays[kind, name].take(_places(held, ids, weight.width), axis=weight.axis)

    def _join(self, name: str, gpu: int, kind: str, held: Ints, parts: dict[int, tuple[Ints, Array]]) -> None:
        weight = self.model.weights[name]
        shape = [weight.across, weight.across]
        shape[weight.axis] = held.size * weight.width
        joined = np.full(shape, np.nan)  # a place that no part fills shows
        for ids, part in parts.values():
            where = [slice(None), slice(None)]
            where[weight.axis] = _places(held, ids, weight.width)
            joined[tuple(where)] = part
        self.ranks[gpu].hold(kind, name, joined)

    def step(self, number: int) -> None:
        """Update the weights of every rank by AdamW, from its own gradients and moments."""
        for rank in self.ranks:
            for name in self.model.weights:
                gradient = rank.arrays["gradient", name]
                first = BETA1 * rank.arrays["moment1", name] + (1 - BETA1) * gradient
                second = BETA2 * rank.arrays["moment2", name] + (1 - BETA2) * gradient**2
                rank.hold("moment1", name, first)
                rank.hold("moment2", name, second)
                scaled = (first / (1 - BETA1**number)) / (np.sqrt(second / (1 - BETA2**number)) + EPSILON)
                held = rank.arrays["weight", name]
                rank.hold("weight", name, held * (1 - LEARNING_RATE * DECAY) - LEARNING_RATE * scaled)

    def whole(self, kind: str, name: str) -> Array:
        """Return a matrix put together by shard id. For comparisons only: no rank does this.

        Copies must be alike to the last bit.
        """
        weight = self.model.weights[name]
        if name in self.model.copies:
            ones = self.ranks[: self.model.groups]
            for rank, one in zip(self.ranks, cycle(ones), strict=False):
                assert np.array_equal(rank.arrays[kind, name], one.arrays[kind, name]), (
                    f"copies of {name} differ"
                )
            return np.concatenate([one.arrays[kind, name] for one in ones], axis=weight.axis)
        ids = np.concatenate([self.ids(weight.family, gpu) for gpu in range(self.gpus)])
        parts = np.concatenate([rank.arrays[kind, name] for rank in self.ranks], axis=weight.axis)
        return parts.take(_places(ids, np.arange(ids.size), weight.width, ordered=False), axis=weight.axis)


def _places(held: Ints, ids: Ints, width: int, *, ordered: bool = True) -> Ints:
    """Return where the elements of `ids` lie in a memory that holds the shards `held` in this order."""
    order = np.arange(held.size) if ordered else np.argsort(held)
    shards = order[np.searchsorted(held, ids, sorter=None if ordered else order)]
    return (shards[:, None] * width + np.arange(width)).ravel()


Back = Callable[[Array], Array]


def attention(rank: Rank, inputs: Array) -> tuple[Array, Back]:
    """Return a rank's part of the attention's output, and the function from its slope to the input's.

    The way back keeps the gradients of the rank's weights. [b]atch, [t]oken, [g]roup, [h]ead of a group.
    """
    model, held = rank.model, rank.arrays
    samples, tokens, _ = inputs.shape
    rows = samples * tokens
    k, v = ((inputs @ held["weight", name]).reshape(samples, tokens, -1, model.head_dim) for name in "kv")
    heads = (samples, tokens, k.shape[2], -1, model.head_dim)
    q = (inputs @ held["weight", "q"]).reshape(heads)
    scores = np.einsum("btghd,bsgd->bghts", q, k) / np.sqrt(model.head_dim)
    scores = np.where(np.tri(tokens, dtype=bool), scores, -np.inf)
    chances = np.exp(scores - scores.max(axis=-1, keepdims=True))
    chances = chances / chances.sum(axis=-1, keepdims=True)
    mixed = np.einsum("bghts,bsgd->btghd", chances, v)
    kv_family, queries = ("kv", 1) if model.copied else ("attention", model.queries)
    for name, array in (("q", q), ("mixed", mixed)):
        rank.activate("attention", name, array, rows * queries * model.head_dim)
    for name, array in (("k", k), ("v", v)):
        rank.activate(kv_family, name, array, rows * model.head_dim)
    rank.activate("attention", "chances", chances, rows * tokens * queries)
    flat_inputs, flat_mixed = inputs.reshape(rows, -1), mixed.reshape(rows, -1)

    def back(slope: Array) -> Array:
        flat = slope.reshape(rows, -1)
        rank.hold("gradient", "output", flat_mixed.T @ flat)
        d_mixed = (flat @ held["weight", "output"].T).reshape(heads)
        d_chances = np.einsum("btghd,bsgd->bghts", d_mixed, v)
        d_v = np.einsum("bghts,btghd->bsgd", chances, d_mixed)
        inner = (d_chances * chances).sum(axis=-1, keepdims=True)
        d_scores = chances * (d_chances - inner) / np.sqrt(model.head_dim)
        d_q = np.einsum("bghts,bsgd->btghd", d_scores, k)
        d_k = np.einsum("bghts,btghd->bsgd", d_scores, q)
        d_inputs = np.zeros_like(flat)
        for name, d_part in (("q", d_q), ("k", d_k), ("v", d_v)):
            d_flat = d_part.reshape(rows, -1)
            rank.hold("gradient", name, flat_inputs.T @ d_flat)
            d_inputs += d_flat @ held["weight", name].T
        return d_inputs.reshape(inputs.shape)

    return flat_mixed.reshape(samples, tokens, -1) @ held["weight", "output"], back


def ffn(rank: Rank, inputs: Array) -> tuple[Array, Back]:
    """Return a rank's part of the FFN's output, and the way back, as `attention`."""
    held = rank.arrays
    rows = inputs.shape[0] * inputs.shape[1]
    flat_inputs = inputs.reshape(rows, -1)
    gate, up = (
        rank.activate("ffn", name, flat_inputs @ held["weight", name], rows) for name in ("gate", "up")
    )
    chance = 1 / (1 + np.exp(-gate))
    inner = rank.activate("ffn", "inner", gate * chance * up, rows)

    def back(slope: Array) -> Array:
        flat = slope.reshape(rows, -1)
        d_inner = flat @ held["weight", "down"].T
        d_up = d_inner * gate * chance
        d_gate = d_inner * up * chance * (1 + gate * (1 - chance))
        rank.hold("gradient", "down", inner.T @ flat)
        rank.hold("gradient", "gate", flat_inputs.T @ d_gate)
        rank.hold("gradient", "up", flat_inputs.T @ d_up)
        return (d_gate @ held["weight", "gate"].T + d_up @ held["weight", "up"].T).reshape(inputs.shape)

    return (inner @ held["weight", "down"]).reshape(inputs.shape), back


def sync(healthy: Replica, reduced: Replica) -> None:
    """Add up the gradients of two replicas: position j with j, blind to shard ids as a network is."""
    healthy.reshard()
    for name in healthy.model.weights:
        kind = "gradient" if name in healthy.model.copies else "sync gradient"
        for ours, theirs in zip(healthy.ranks, reduced.ranks, strict=False):
            both = ours.arrays[kind, name] + theirs.arrays["gradient", name]
            ours.hold(kind, name, both)
            theirs.hold("gradient", name, both.copy())
    healthy.reshard_back()
    healthy.hand_copies_back()


@dataclass(frozen=True)
class Run:
    """A finished training: its replicas and the loss of every step."""

    replicas: tuple[Replica, ...]
    losses: tuple[float, ...]


def maps_of(model: Model, full: int, reduced: int, mapper: Mapper = balanced) -> Maps:
    """Return the map of attention and FFN; that of attention with copies is the project's own."""
    maps = {family: mapper(model.shards[family], full, reduced) for family in ("attention", "ffn")}
    if model.copied:
        shape = ModelShape(
            layers=1, hidden=model.hidden, heads=model.groups * model.queries, kv_heads=model.groups,
            head_dim=model.head_dim, ffn_hidden=model.ffn, ffn_matrices=3, vocab=full, seq=model.tokens,
        )  # fmt: skip
        maps["attention"] = cut_attention(shape, full, reduced).shard_map
    return maps


def train_unequal(
    model: Model,
    healthy_maps: Maps,
    reduced_maps: Maps,
    *,
    steps: int = 20,
    healthy_samples: int = 3,
    reduced_samples: int = 2,
) -> Run:
    """Train a healthy and a reduced replica, each on its part of the batch."""
    healthy, reduced = Replica(model, healthy_maps, "comp"), Replica(model, reduced_maps, "sync")
    joint, losses = healthy_samples + reduced_samples, []
    for step in range(1, steps + 1):
        inputs, targets = model.data(step, joint)
        loss = healthy.learn(inputs[:healthy_samples], targets[:healthy_samples], joint)
        loss += reduced.learn(inputs[healthy_samples:], targets[healthy_samples:], joint)
        sync(healthy, reduced)
        healthy.step(step)
        reduced.step(step)
        losses.append(loss)
    return Run((healthy, reduced), tuple(losses))


def train_uniform(model: Model, degree: int, *, steps: int = 20, samples: int = 5) -> Run:
    """Train one replica of `degree` GPUs on the joint batch, its shards cut into plain slices."""
    replica, losses = Replica(model, maps_of(model, degree, degree), "comp"), []
    for step in range(1, steps + 1):
        losses.append(replica.learn(*model.data(step, samples), samples))
        replica.step(step)
    return Run((replica,), tuple(losses))


def distance(run: Run, truth: Run) -> float:
    """Return the largest relative difference of losses, weights and moments, of any replica, to `truth`.

    Relative to the largest element of the matrix in `truth`; a value that is not a number is infinitely far.
    """
    pairs = [(np.array(run.losses), np.array(truth.losses))]
    for replica in run.replicas:
        for name in replica.model.weights:
            pairs += [
                (replica.whole(kind, name), truth.replicas[0].whole(kind, name))
                for kind in ("weight", "moment1", "moment2")
            ]
    worst = max(float(np.abs(ours - true).max() / np.abs(true).max()) for ours, true in pairs)
    return np.inf if np.isnan(worst) else worst


def swapped(shard_map: ShardMap, first: int, second: int) -> ShardMap:
    """Return the map with two shards in each other's place in the sync layout."""
    sync_gpu = shard_map.sync_gpu.copy()
    sync_gpu[[first, second]] = sync_gpu[[second, first]]
    return replace(shard_map, sync_gpu=sync_gpu)
