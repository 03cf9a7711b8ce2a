"""Ids of events, against the rule as it is told: what a row says, and its ordinal among equal rows."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ingest import run
from pipeline.ingest.parsing import events_frame

IDENTITY = ("t_start", "t_end", "kind", "node", "gpu", "domain", "code", "reason", "gpu_name")
texts = st.sampled_from([None, "", "-", "a", "1:a,1:a", "é", "#0"])
rows = st.fixed_dictionaries(
    {
        "t_start": st.sampled_from([0, 1_735_689_600_000_000]),
        "t_end": st.sampled_from([None, 1_735_689_600_000_001]),
        "gpu": st.sampled_from([None, 0, 11]),
    }
    | dict.fromkeys(("kind", "node", "domain", "code", "reason", "gpu_name"), texts)
)


def obvious(table: list[dict[str, Any]]) -> list[str]:
    """Return the ids, a row at a time."""
    seen: Counter[str] = Counter()
    ids = []
    for row in table:
        *parts, gpu_name = (None if row[name] is None else str(row[name]) for name in IDENTITY)
        spelt = ["-" if part is None else f"{len(part.encode())}:{part}" for part in parts]
        key = ",".join(spelt if gpu_name is None else [*spelt, gpu_name])
        text = f"{json.dumps(['c', 's'])}{key}#{seen[key]}"
        seen[key] += 1
        ids.append(hashlib.blake2b(text.encode(), digest_size=16).hexdigest())
    return ids


@settings(deadline=None)
@given(st.lists(rows, max_size=8))
def test_ids_are_those_of_the_rule(table: list[dict[str, Any]]) -> None:
    """Whole columns and one row at a time give the same ids, in the same order."""
    columns: dict[str, list[Any]] = {name: [row[name] for row in table] for name in IDENTITY}
    columns["row"] = list(range(1, len(table) + 1))
    found = run.identified(events_frame(columns), "c", "s", "file")
    assert found["event_id"].to_list() == obvious(table)
    assert len(set(found["event_id"])) == len(table)
    assert found["row"].to_list() == columns["row"]


def test_an_id_stays_what_it_is() -> None:
    """Ids are kept in files of earlier versions: this one was written by the first."""
    instant = 1_735_689_600_000_000
    columns = {
        "row": [1],
        "t_start": [instant],
        "kind": ["onset"],
        "node": ["n1"],
        "code": ["x"],
        "reason": [""],
    }
    assert run.identified(events_frame(columns), "c", "s", "f")["event_id"].to_list() == [
        "be2ed3e8a38746a51239e7789f9a5ee5"
    ]
