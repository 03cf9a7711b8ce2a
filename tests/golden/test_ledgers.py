"""Golden texts: a change of the numbers, or of a name that people rely on, shows as a readable diff.

`make golden` writes them anew into `__snapshots__`. What a number should be is tested elsewhere, against hand
calculations and an independent simulator; here it only must not change unseen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

from pipeline.lake import catalog
from pipeline.lake.store import Lake
from pipeline.schema import BUCKETS
from tests.small_lake import Built, build

if TYPE_CHECKING:
    from syrupy.assertion import SnapshotAssertion

# A day's faults on five domains of four nodes: single nodes and GPUs, two at once in a domain, a dead domain,
# one that stays open, one without length, and one of a node in no domain.
LOG = """node,gpu,start,end,component
n00,,2025-03-01T02:10:00Z,2025-03-01T09:40:00Z,gpu
n08,,2025-03-01T05:00:00Z,2025-03-01T05:30:00Z,nic
n09,2,2025-03-01T05:20:00Z,2025-03-01T12:00:00Z,gpu
n05,,2025-03-01T11:00:00Z,2025-03-01T11:00:00Z,host
n16,,2025-03-01T14:45:30Z,2025-03-01T18:00:00Z,power
n17,,2025-03-01T14:45:30Z,2025-03-01T18:00:00Z,power
n18,,2025-03-01T14:45:30Z,2025-03-01T17:00:00Z,power
n19,,2025-03-01T14:45:30Z,2025-03-01T17:00:00Z,power
n12,,2025-03-01T20:00:00Z,,gpu
n20,,2025-03-01T21:00:00Z,2025-03-01T22:00:00Z,gpu
"""
SCENARIO = """
title = "Five domains for a day"
[trace]
source = "intervals"
path = "log.csv"
window = ["2025-03-01T00:00Z", "2025-03-02T00:00Z"]
[cluster]
nodes = 21
gpus_per_node = 4
domain_size = 16
placement = "listed"
[job]
tp = 16
[costs]
checkpoint_interval_s = 1800
[power]
rack_headroom_frac = 0.3
"""
REDUCED = "reduced_tp = [12, 8]\n"
LINES = {
    "rigid pause": "",
    "dp-drop elastic": "",
    "dp-drop pause": "spare_domains = 1\n",
    "ntp elastic": REDUCED,
    "ntp pause": f"{REDUCED}spare_domains = 1\n",
    "ntp-pw elastic": REDUCED,
    "ntp-pw pause": f"{REDUCED}spare_domains = 1\n",
}


def policy(line: str, more: str) -> str:
    """Return a `[[policy]]` table for a response and its batch rule."""
    response, batch = line.split()
    return f'[[policy]]\nname = "{line}"\nresponse = "{response}"\nbatch = "{batch}"\n{more}'


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return the lake after the real stages."""
    policies = "".join(policy(line, more) for line, more in LINES.items())
    return build(tmp_path_factory.mktemp("golden"), LOG, SCENARIO + policies)


def text_of(row: dict[str, Any]) -> str:
    """Return a row of `outcomes` as lines of a name and a number."""
    head = [
        f"{name:<14}{row[name]:>12}" for name in ("dp", "spare_domains", "interruptions", "planned_stops")
    ]
    shares = [f"{name:<14}{row[f'{name}_frac']:>12.6f}" for name in ("goodput", "ettr")]
    hours = [f"{name:<14}{row[f'{name}_gpu_h']:>12.6f} GPU-hours" for name in (*BUCKETS, "total")]
    return "\n".join([*head, *shares, *hours])


@pytest.mark.parametrize("line", LINES)
def test_ledger_of_each_policy(built: Built, line: str, snapshot: SnapshotAssertion) -> None:
    """A policy's ledger on the same day of faults stays what it was, to the millionth of a GPU-hour."""
    outcomes = pl.read_parquet(built.lake.table(built.replay, "outcomes"))
    (row,) = outcomes.filter(policy=line).to_dicts()
    assert text_of(row) == snapshot


def test_columns_of_each_macro(tmp_path_factory: pytest.TempPathFactory, snapshot: SnapshotAssertion) -> None:
    """Names of macros, their parameters and columns are a promise to those who wrote SQL on them."""
    lines = []
    with catalog.connect(Lake(tmp_path_factory.mktemp("empty"))) as con:
        for name, query in sorted(catalog.macros().items()):
            nulls = ", ".join("null" for _ in query.parameters)
            columns = con.execute(f'select * from "{name}"({nulls})').description
            assert columns
            lines += [
                f"{name}({catalog.macro_parameters(query)}):",
                *(f"    {column[0]}" for column in columns),
            ]
    assert "\n".join(lines) == snapshot
