"""What the tests of Slurm sources share: public cases, broken logs, and what any read must keep."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed

# Long ago, so that a row dated by the clock of the run would be seen.
TAKEN = datetime(2025, 7, 1, tzinfo=UTC)
GIVEN = Options(tz="UTC", as_of=TAKEN)


def case(shared_dir: Path, name: str) -> tuple[Path, dict[str, Any]]:
    """Return a public case's folder and what is expected of it."""
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    return folder, json.loads((folder / "expected.json").read_text(encoding="utf-8"))["expected"]


def sample(file: str) -> list[bytes]:
    """Return the lines of a shipped sample."""
    return (resources.folder("samples") / file).read_bytes().splitlines(keepends=True)


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    """Return the events as they are told most briefly."""
    return parsed.events.select(
        "t_start", "t_end", "kind", "node", "severity", "component", "code", "reason", "row"
    ).to_dicts()


def refused(parsed: Parsed) -> list[str]:
    """Return the reasons of rejected rows, in order."""
    return parsed.rejects["reason"].to_list()


def paired(parsed: Parsed, code: str) -> dict[str, list[tuple[datetime | None, datetime | None]]]:
    """Return node -> (start, end) of a code's faults in file order; None where the log does not tell it."""
    found: dict[str, list[tuple[datetime | None, datetime | None]]] = {}
    for event in parsed.events.filter(parsed.events["code"] == code).iter_rows(named=True):
        faults = found.setdefault(event["node"], [])
        is_open = bool(faults) and faults[-1][1] is None
        if event["kind"] == "clear":
            start = faults.pop()[0] if is_open else None
            faults.append((start, event["t_start"]))
        elif not is_open:
            faults.append((event["t_start"], None))
    return found


@st.composite
def broken(draw: st.DrawFn, lines: list[bytes]) -> bytes:
    """Return a log with up to three of its lines deleted, doubled, cut, spliced or with bytes changed."""
    lines = list(lines)
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(lines) - 1))
        line = lines[place]
        at = draw(st.integers(0, len(line)))
        match draw(st.sampled_from(("delete", "double", "cut", "splice", "swap", "byte"))):
            case "delete":
                lines[place] = b""
            case "double":
                lines[place] = line * 2
            case "cut":
                lines[place] = line[:at] + b"\n"
            case "splice":
                other = draw(st.sampled_from(lines))
                lines[place] = line[:at] + other[draw(st.integers(0, len(other))) :]
            case "swap":
                lines[place] = line[:at] + line[at : at + 2][::-1] + line[at + 2 :]
            case "byte":
                lines[place] = line[:at] + bytes([draw(st.integers(0, 255))]) + line[at + 1 :]
    return b"".join(lines)


def kept(module: ModuleType, data: bytes, options: Options) -> bool:
    """Return whether any row of a broken log was accepted, after checking what holds for every read."""
    try:
        parsed = module.read(data, "broken", options)
    except InputError as error:
        assert "broken" in str(error)  # noqa: PT017 - it may raise
        return False
    assert parsed.rows_read == parsed.events.height + parsed.rejects.height
    places = [*parsed.events["row"], *parsed.rejects["row"]]
    assert sorted(places) == list(range(1, parsed.rows_read + 1))
    now = datetime.now(UTC).replace(tzinfo=None)
    for moment in [*parsed.events["t_start"], *parsed.events["t_end"].drop_nulls()]:
        assert moment.year >= 2000
        assert abs(now - moment) > timedelta(days=1)
    assert all(parsed.rejects["reason"])
    return bool(parsed.events.height)
