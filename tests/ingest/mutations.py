"""Lines of a log, damaged as transfers and editors damage them, and what must hold for whatever comes out."""

from __future__ import annotations

from datetime import UTC, datetime
from types import ModuleType

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import InputError
from pipeline.ingest.parsing import EARLIEST, Options
from pipeline.units import US_PER_D, to_us


@st.composite
def mutated(draw: st.DrawFn, seed: bytes) -> bytes:
    """Return a log with one to three changes: bytes or lines cut out, doubled, swapped or spliced in."""
    data = bytearray(seed)
    for _ in range(draw(st.integers(1, 3))):
        if len(data) < 2:
            break
        place = draw(st.integers(0, len(data) - 2))
        length = draw(st.integers(1, 40))
        change = draw(st.sampled_from(["cut", "double", "swap", "truncate", "splice", "line"]))
        if change == "cut":
            del data[place : place + length]
        elif change == "double":
            data[place:place] = data[place : place + length]
        elif change == "swap":
            data[place], data[place + 1] = data[place + 1], data[place]
        elif change == "truncate":
            del data[max(place, len(data) // 3) :]
        elif change == "splice":
            other = draw(st.integers(0, len(data) - 1))
            data[place : place + length] = data[other : other + length]
        else:
            lines = bytes(data).split(b"\n")
            data[place:place] = b"\n" + draw(st.sampled_from(lines)) + b"\n"
    return bytes(data)


def is_accepted(module: ModuleType, data: bytes, options: Options) -> bool:
    """Return whether a row is accepted; assert that every row is counted once and dated by the log."""
    try:
        parsed = module.read(data, "mutated", options)
    except InputError:
        return False
    assert parsed.rows_read == parsed.events.height + parsed.rejects.height
    rows = pl.concat([parsed.events["row"], parsed.rejects["row"]])
    assert sorted(rows) == list(range(1, parsed.rows_read + 1))
    now = to_us(datetime.now(UTC))
    for instant in parsed.events["t_start"].to_physical():
        assert instant >= to_us(EARLIEST)
        assert abs(instant - now) > US_PER_D
    assert not parsed.events["severity"].is_null().any()
    return parsed.events.height > 0


def survives(module: ModuleType, seed: bytes, options: Options, examples: int = 150) -> None:
    """Assert that a source takes any damage to a log, and reads at least a fifth of the damaged ones."""
    accepted: list[bool] = []

    @settings(max_examples=examples, derandomize=True, database=None, deadline=None)
    @given(mutated(seed))
    def run(data: bytes) -> None:
        accepted.append(is_accepted(module, data, options))

    run()
    assert sum(accepted) * 5 >= len(accepted)
