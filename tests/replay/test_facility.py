"""The facility's cap on domains that boost at once, and what ntp-pw does when it binds."""

from __future__ import annotations

from fractions import Fraction

import pytest

from pipeline.replay import responses
from pipeline.replay.contract import Offer, Shape
from pipeline.replay.packing import Packer, Setting
from tests.replay.cases import CURVE


def shape(cap: int | None) -> Shape:
    return Shape(32, 2, 1, 8, 1, 32, Fraction("1.3"), Fraction("0.1"), CURVE, boosted_domains=cap)


def setting(cap: int | None, response: str = "ntp-pw") -> Setting:
    """Four replicas of two stages: one healthy, then TP30 in both, in one, and TP28 in both stages."""
    packer = Packer(shape(cap), responses.load(response), "elastic", 4, Fraction(0))
    full = Offer(32)
    replicas = [(full, full), (Offer(30), Offer(30)), (full, Offer(30)), (Offer(28), Offer(28))]
    return packer.setting(
        cap, lambda: [packer.part(place, 1, groups) for place, groups in enumerate(replicas)]
    )


@pytest.mark.parametrize(
    ("cap", "samples"),
    # At normal power the wounded replicas do 7, 7 and 6 of their 8 samples.
    [(None, 32), (5, 32), (4, 30), (3, 30), (2, 29), (1, 29), (0, 28)],
)
def test_the_cap_is_spent_in_packing_order_on_whole_replicas(cap: int | None, samples: int) -> None:
    """Two stages at TP30 need two boosts; with one left the next replica that needs one gets it."""
    assert setting(cap).x == Fraction(samples, 32)


def test_without_a_boost_it_is_ntp() -> None:
    """A cap of no domain gives the configuration of ntp, its power included."""
    capped, plain = setting(0), setting(None, "ntp")
    assert (capped.x, capped.power_gpus, capped.gain_gpus) == (plain.x, plain.power_gpus, plain.gain_gpus)


def test_power_is_that_of_the_boosted_groups_alone() -> None:
    """Of the replicas only the second is boosted: each of its groups draws what TP30 needs."""
    one = setting(2)
    extra = one.power_gpus - one.gpus_used
    needed = shape(None).power_for(Fraction(32, 30))
    assert needed is not None
    assert extra == 2 * 30 * (needed - 1)
