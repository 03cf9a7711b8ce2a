"""Every response keeps the contract of replay/contract.py."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from pipeline.config import BATCHES
from pipeline.errors import InputError
from pipeline.replay import responses
from pipeline.replay.contract import Alike, Offer, Replica, Shape, Together

CURVE = tuple((Fraction(p), Fraction(s)) for p, s in (("1", "1"), ("1.1", "1.069"), ("1.2", "1.122")))


def shape(pp: int = 2, cp: int = 2, b: int = 8, v: int = 2) -> Shape:
    """Return a job of TP8 in domains of 16 GPUs."""
    return Shape(8, pp, cp, b, v, 16, Fraction("1.2"), Fraction("0.05"), CURVE)


def replicas(job: Shape) -> list[Replica]:
    """Return replicas of all mixtures of three degrees, with a full group beside or not."""
    kinds = (Offer(8), Offer(7, 1), Offer(5))
    return [Replica(groups, job) for groups in itertools.product(kinds, repeat=job.groups_per_replica)]


def test_responses_are_found_by_folder() -> None:
    """A module in the folder is a response, with `-` for `_`; there is no registry."""
    stems = {path.stem for path in Path(responses.__file__).parent.glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in responses.names()} == stems
    assert {"rigid", "dp-drop", "ntp", "ntp-pw"} <= set(responses.names())


@pytest.mark.parametrize("name", responses.names())
def test_batch_rules_are_known(name: str) -> None:
    """A response allows some of the batch rules, each once, its default first."""
    batches = responses.load(name).BATCHES
    assert len(set(batches)) == len(batches)
    assert set(batches) <= set(BATCHES)


@pytest.mark.parametrize("name", responses.names())
def test_a_whole_replica_does_all_its_samples(name: str) -> None:
    """Without failures every response is the same: b samples at healthy pace and TDP."""
    for job in (shape(), shape(pp=1, cp=1, b=1, v=1), shape(pp=3, cp=1, b=5, v=4)):
        work = responses.load(name).work(Replica((Offer(8),) * job.groups_per_replica, job))
        assert work.samples == job.samples_per_replica
        assert work.paces == (1,) * job.pp
        assert set(work.powers) == {1}


@pytest.mark.parametrize("name", responses.names())
def test_work_is_within_its_bounds(name: str) -> None:
    """0 <= samples <= b, exact paces of at least 1 a stage or none, exact powers of at least 1 a group."""
    job, module = shape(), responses.load(name)
    for replica in replicas(job):
        work = module.work(replica)
        assert isinstance(work.samples, int)
        assert 0 <= work.samples <= job.samples_per_replica
        assert len(work.powers) == job.groups_per_replica
        assert all(isinstance(power, Fraction | int) and 1 <= power <= job.boost_cap for power in work.powers)
        if work.paces is None:
            assert work.samples == 0
        else:
            assert len(work.paces) == job.pp
            assert all(isinstance(pace, Fraction | int) and pace >= 1 for pace in work.paces)


@pytest.mark.parametrize("name", responses.names())
def test_work_depends_on_the_replica_alone(name: str) -> None:
    """No state: the same replica gives the same work, whatever came between."""
    job, module = shape(), responses.load(name)
    first = [module.work(replica) for replica in replicas(job)]
    assert [module.work(replica) for replica in reversed(replicas(job))] == first[::-1]


@pytest.mark.parametrize("name", responses.names())
def test_a_larger_group_never_costs_samples(name: str) -> None:
    """Replacing a group by one of a greater degree loses nothing."""
    job, module = shape(), responses.load(name)
    for replica in replicas(job):
        for place in range(len(replica.groups)):
            better = (*replica.groups[:place], Offer(8), *replica.groups[place + 1 :])
            assert module.work(Replica(better, job)).samples >= module.work(replica).samples


@pytest.mark.parametrize("name", [n for n in responses.names() if not responses.load(n).USES_REDUCED])
def test_a_response_without_reduced_groups_leaves_such_a_replica_out(name: str) -> None:
    """Where USES_REDUCED is false a reduced group means no work, even with more time."""
    work = responses.load(name).work(Replica((Offer(8), Offer(7), Offer(8), Offer(8)), shape()))
    assert (work.samples, work.paces) == (0, None)


def partial(name: str) -> bool:
    """Return whether a response can use a replica that lacks groups."""
    return getattr(responses.load(name), "USES_PARTIAL", False)


@pytest.mark.parametrize("name", [name for name in responses.names() if partial(name)])
def test_a_replica_that_lacks_groups_works_with_the_rest(name: str) -> None:
    """Idle groups are its own, the last where only the last are empty; one more never costs samples."""
    job, module = replace(shape(pp=3), templates={2: Fraction(3, 2), 1: Fraction(3)}), responses.load(name)
    size = job.groups_per_replica
    for count in range(1, size):
        for places in itertools.combinations(range(size), count):
            replica = Replica((Offer(8),) * count, job, places)
            work = module.work(replica)
            assert 0 <= work.samples <= job.samples_per_replica
            assert (work.paces is not None) or work.samples == 0
            assert len(work.powers) == count
            assert work.idle <= set(range(count))
            if places == tuple(range(count)):
                assert work.idle == set(range(count - len(work.idle), count))
            more = tuple(sorted({*places, next(place for place in range(size) if place not in places)}))
            better = Replica((Offer(8),) * len(more), job, more if len(more) < size else None)
            assert module.work(better).samples >= work.samples


@pytest.mark.parametrize("name", [n for n in responses.names() if hasattr(responses.load(n), "together")])
def test_what_replicas_do_together_is_all_of_it(name: str) -> None:
    """Shares are of one whole, workers no more than replicas, and whole replicas share alike."""
    job, module = shape(pp=3, cp=2), responses.load(name)
    whole = Replica((Offer(8),) * 6, job)
    assert module.together([Alike(whole, 4)]) == Together(4, (Fraction(1, 4),))
    assert module.together([]).workers == 0
    for places in itertools.combinations(range(6), 4):
        found = module.together([Alike(whole, 3), Alike(Replica((Offer(8),) * 4, job, places), 2)])
        assert 3 <= found.workers <= 5
        assert 3 * found.shares[0] + 2 * found.shares[1] == 1
        assert all(0 <= share <= Fraction(1, 3) for share in found.shares)


def test_boosting_never_does_less() -> None:
    """ntp-pw does at least the samples of ntp, and no faster than healthy."""
    job = shape()
    for replica in replicas(job):
        plain, boosted = (responses.load(name).work(replica) for name in ("ntp", "ntp-pw"))
        assert boosted.samples >= plain.samples
        assert all(fast <= slow for fast, slow in zip(boosted.paces, plain.paces, strict=True))


def test_an_unknown_response_names_the_nearest() -> None:
    """A mistyped response is told with the valid names."""
    with pytest.raises(InputError, match="did you mean 'dp-drop'"):
        responses.load("dp-drp")


WHOLE = (
    '"""A response."""\nUSES_REDUCED = False\nUSES_POWER = False\nBATCHES = ("pause",)\n'
    "def work(replica):\n    return None\n"
)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"""A response."""', "", "no docstring"),
        ("USES_REDUCED = False", "", "USES_REDUCED is not a bool"),
        ("USES_REDUCED = False", "USES_REDUCED = 1", "USES_REDUCED is not a bool"),
        ("USES_POWER = False", "", "USES_POWER is not a bool"),
        ('("pause",)', '"pause"', "BATCHES is not a tuple"),
        ('("pause",)', "()", "BATCHES is not a tuple"),
        ('("pause",)', '("wait",)', "BATCHES is not a tuple"),
        ("def work(replica)", "def work(replica, more)", r"no function work\(replica\)"),
        ("def work(replica)", "def works(replica)", r"no function work\(replica\)"),
        ("USES_REDUCED", "USES_PARTIAL = 1\nUSES_REDUCED", "USES_PARTIAL is not a bool"),
        ("USES_REDUCED", "USES_TEMPLATES = 1\nUSES_REDUCED", "USES_TEMPLATES is not a bool"),
        ("USES_REDUCED", "together = 1\nUSES_REDUCED", r"no function together\(replicas\)"),
    ],
)
def test_a_broken_module_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, old: str, new: str, told: str
) -> None:
    """A response that lacks something says what, by its name, before any replay."""
    stem = f"broken_{abs(hash((old, new)))}"
    assert WHOLE.count(old) == 1
    (tmp_path / f"{stem}.py").write_text(WHOLE.replace(old, new))
    monkeypatch.setattr(responses, "__path__", [*responses.__path__, str(tmp_path)])
    with pytest.raises(TypeError, match=f"broken-.*{told}"):
        responses.load(stem.replace("_", "-"))


def test_a_new_module_needs_no_registration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in the folder is found and loaded as it is."""
    (tmp_path / "brand_new.py").write_text(WHOLE)
    monkeypatch.setattr(responses, "__path__", [*responses.__path__, str(tmp_path)])
    assert "brand-new" in responses.names()
    assert responses.load("brand-new").BATCHES == ("pause",)
