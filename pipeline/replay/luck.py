"""Starts that fail: how often each must be made until one holds.

In: the share of starts that fail, and seeds. Out: attempts by the number of a start. The n-th start has a
random stream of its own, so it fails as often under every policy, in every worker and whatever the starts
before it did. The number is geometric, with mean 1 / (1 - p).
"""

from __future__ import annotations

from collections.abc import Callable

from pipeline.replay.engine import at_once
from pipeline.synth.distributions import stream

_PURPOSE = 5_200  # of its own among the purposes of streams


def attempts(fail_frac: float, seed: int, placement_seed: int) -> Callable[[int], int]:
    """Return the attempts that the n-th start (from 0) takes: 1 where none fails."""
    if not fail_frac:
        return at_once

    def until_it_holds(start: int) -> int:
        luck = stream(seed, _PURPOSE, placement_seed, start)
        tries = 1
        while luck.random() < fail_frac:
            tries += 1
        return tries

    return until_it_holds
