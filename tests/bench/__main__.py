"""`python -m tests.bench [MB [ROWS]]`: a year of 32,768 GPUs against the obvious loop, logs against DuckDB.

A syslog against a count of its lines, of 200 MB unless a size is given; a storm of Xids; a table of outages
against its copy to Parquet, of a million rows unless a number is given. Ratios are taken within one run on
one machine; nothing is asserted about time, only that both agree.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tests.bench import intervals, scan
from tests.bench.year import by_engine, by_obvious, failures, scenario

DAYS, NODES, SPARES = 365, 4096, 96
SYSLOG_MB = 200


def main() -> int:
    """Print the table; return 1 when the two replays disagree."""
    mine = scenario(DAYS, NODES, SPARES)
    with tempfile.TemporaryDirectory() as root:
        began = perf_counter()
        trouble = failures(mine, Path(root))
        wall_s = perf_counter() - began
    print(f"{DAYS} days of {NODES * 8:,} GPUs, drawn and laid onto domains in {wall_s:.1f} s")
    print("response    instants  stops  engine ms     steps  obvious ms   ratio")
    agreed = True
    for policy in mine.policies:
        fast, slow = by_engine(mine, policy, trouble), by_obvious(mine, policy, trouble)
        agreed = agreed and fast.buckets == slow.buckets and fast.interruptions == slow.interruptions
        print(
            f"{policy.name:10} {fast.steps:9,} {fast.interruptions:6,} {fast.wall_s * 1e3:10.1f} "
            f"{slow.steps:9,} {slow.wall_s * 1e3:11.0f} {slow.wall_s / fast.wall_s:6.0f}x"
        )
    print("buckets agree exactly" if agreed else "THE BUCKETS DIFFER")
    with tempfile.TemporaryDirectory() as folder:
        scan.main(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else SYSLOG_MB)
    print()
    intervals.main(int(sys.argv[2]) if len(sys.argv) > 2 else intervals.DEFAULT_ROWS)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
