"""Ids of events, against the rule as it is told: a sum of a hash for each column, and of an ordinal."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.ingest import event_ids, run
from pipeline.ingest.parsing import events_frame
from pipeline.lake import store
from pipeline.schema import arrow_schema

IDENTITY = ("t_start", "t_end", "kind", "node", "gpu", "domain", "code", "reason", "gpu_name")
ADDED = {"cluster": "c", "source": "s", "file": "f"}
INSTANT = 1_735_689_600_000_000
ROW: dict[str, Any] = {
    "t_start": INSTANT,
    "kind": "onset",
    "node": "n1",
    "code": "x",
    "reason": "",
}
texts = st.sampled_from([None, "", "-", "a", "b", "ab", "é", "#0"])
rows = st.fixed_dictionaries(
    {
        "t_start": st.sampled_from([0, INSTANT]),
        "t_end": st.sampled_from([None, INSTANT + 1]),
        "gpu": st.sampled_from([None, 0, 11]),
    }
    | dict.fromkeys(("node", "domain", "code", "reason", "gpu_name"), texts)
    | {"kind": st.sampled_from(["onset", "clear"])}
)


def frame(table: list[dict[str, Any]]) -> pl.DataFrame:
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in table] for name in IDENTITY}
    return events_frame({**columns, "row": list(range(1, len(table) + 1))})


def ids(table: list[dict[str, Any]], **added: str) -> list[str]:
    pieces = run._event_pieces(frame(table), {**ADDED, **added}, None)
    return [text for piece in pieces.tables for text in piece["event_id"].to_pylist()]


def halves(name: str, text: str = "") -> list[int]:
    digest = hashlib.blake2b(text.encode(), digest_size=16, person=name.encode()).digest()
    return [int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")]


def mixed(value: int) -> int:
    """SplitMix64's finaliser, as its authors write it."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB % 2**64
    return value ^ (value >> 31)


def of_value(name: str, value: str | int | None) -> list[int]:
    if value is None:
        return [0, 0]
    if isinstance(value, str):
        return halves(name, value)
    return [mixed((value + seed) % 2**64) for seed in halves(name)]


def obvious(table: list[dict[str, Any]]) -> list[str]:
    """Return the ids, a row at a time."""
    seen: Counter[str] = Counter()
    found = []
    for row in table:
        parts = [of_value(name, row.get(name)) for name in IDENTITY]
        parts += [of_value("cluster", "c"), of_value("source", "s")]
        key = repr([row.get(name) for name in IDENTITY])
        parts.append(of_value("ordinal", seen[key] or None))
        seen[key] += 1
        found.append("".join(f"{sum(part[half] for part in parts) % 2**64:016x}" for half in (0, 1)))
    return found


@settings(deadline=None)
@given(st.lists(rows, max_size=8))
def test_ids_are_those_of_the_rule(table: list[dict[str, Any]]) -> None:
    """Whole columns and one row at a time give the same ids, in the same order; all rows of a file differ."""
    found = ids(table)
    assert found == obvious(table)
    assert len(set(found)) == len(table)


def test_an_id_stays_what_it_is() -> None:
    """Ids are kept in files of earlier versions and other machines: these are of the first of this kind."""
    assert ids([ROW, ROW, {**ROW, "t_end": INSTANT + 1, "gpu": 3, "gpu_name": "é"}]) == [
        "e457e43921de7888e13b8fdd694ba8b8",
        "0728112a295497103b18490b352923e4",
        "c70e4e8c6f2b9bcdf91217e7f83713bf",
    ]


@pytest.mark.parametrize(
    "other",
    [
        {"reason": None},  # nothing said is not the empty text
        {"node": "n", "reason": "1"},  # no text runs over into the next
        {"node": "x", "code": "n1"},
        {"node": None, "domain": "n1"},
        {"gpu": 0},  # the first GPU is not the whole node
        {"t_start": INSTANT + 1},
        {"t_end": INSTANT},
        {"kind": "clear"},
        {"gpu_name": ""},
    ],
)
def test_whatever_a_row_says_counts(other: dict[str, Any]) -> None:
    """Two rows that say different things have different ids, in both halves."""
    (first, second) = ids([ROW, {**ROW, **other}])
    assert first[:16] != second[:16] and first[16:] != second[16:]
    assert ids([{**ROW, **other}]) == [second]


def test_cluster_and_source_count_and_the_file_does_not() -> None:
    """A row that is sent again in another file has the same id; the same row of another cluster has not."""
    assert ids([ROW]) == ids([ROW], file="another")
    assert len({ids([ROW])[0], ids([ROW], cluster="d")[0], ids([ROW], source="t")[0]}) == 3


def test_a_million_random_rows_differ() -> None:
    """Ids, and each half of them, are distinct where what the rows say is: in few values of each column."""
    rng = np.random.default_rng(1)
    count = 1_000_000
    sizes = {"t_start": 1_000, "node": 1_000, "gpu": 8, "code": 100}
    picked = np.unique(rng.integers(0, np.prod(list(sizes.values())), count))
    table = dict(zip(sizes, np.unravel_index(picked, tuple(sizes.values())), strict=True))
    words = pl.Series([f"w{place}" for place in range(1_000)])
    frame = events_frame(
        {
            "row": pl.Series(range(1, len(picked) + 1)),
            "t_start": pl.Series(INSTANT + table["t_start"] * 1_000_000),
            "kind": pl.Series(["onset"]).new_from_index(0, len(picked)),
            "node": words.gather(table["node"]),
            "gpu": pl.Series(table["gpu"]),
            "code": words.gather(table["code"]),
        }
    )
    pieces = run._event_pieces(frame, ADDED, None)
    found = pl.concat([pl.Series("id", piece["event_id"]) for piece in pieces.tables])
    assert len(found) == len(picked) > 990_000
    for half in (found.str.head(16), found.str.tail(16)):
        assert half.n_unique() == len(picked)


def test_equal_rows_far_apart_are_numbered_in_their_order() -> None:
    """Of equal rows the first has the id of one that stands alone; blocks and other rows do not matter."""
    count = event_ids._BLOCK_ROWS + 10
    table = [{**ROW, "t_start": INSTANT + place} for place in range(count)]
    table[-1] = table[-2] = table[3]
    found = ids(table)
    assert found[3] == ids([table[3]])[0]
    assert [found[3], found[-2], found[-1]] == ids([table[3]] * 3)
    assert len(set(found)) == count


@pytest.mark.parametrize("many", [1, 4])
def test_long_tables_and_many_words_are_stored_as_short_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    """Groups of rows, and texts instead of codes where words are many, change nothing in what is read."""
    table = [{**ROW, "node": f"n{place % 7}", "reason": None if place % 3 else "é"} for place in range(20)]
    wanted = ids(table)
    monkeypatch.setattr(run, "_GROUP_ROWS", 6)
    monkeypatch.setattr(run, "_MANY_WORDS", many)
    store.write_table(tmp_path / "events.parquet", run._event_pieces(frame(table), ADDED, None))
    found = pq.read_table(tmp_path / "events.parquet")
    assert found.schema.equals(arrow_schema("events"))
    assert found["event_id"].to_pylist() == wanted
    for name in ("node", "reason"):
        assert found[name].to_pylist() == [row[name] for row in table]
    assert found["row"].to_pylist() == list(range(1, 21))
    assert set(found["cluster"].to_pylist()) == {"c"}


def test_a_word_outside_the_schema_is_a_fault_of_the_source() -> None:
    """Sources owe the words of the schema."""
    with pytest.raises(AssertionError, match="kind outside"):
        ids([{**ROW, "kind": "repair"}])
