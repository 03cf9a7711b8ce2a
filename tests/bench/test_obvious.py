"""The benchmark compares replays of the same thing."""

from __future__ import annotations

from pathlib import Path

from tests.bench.year import by_engine, by_obvious, failures, scenario


def test_both_replays_agree_bucket_by_bucket(tmp_path: Path) -> None:
    """Twenty days of 1,024 GPUs: the engine and the obvious loop book every GPU-microsecond alike."""
    mine = scenario(days=20, nodes=128, spares=8)
    trouble = failures(mine, tmp_path)
    for policy in mine.policies:
        fast, slow = by_engine(mine, policy, trouble, repeats=1), by_obvious(mine, policy, trouble)
        assert fast.buckets == slow.buckets
        assert fast.interruptions == slow.interruptions
    assert slow.interruptions > 5
