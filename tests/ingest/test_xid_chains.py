"""Lines of one GPU that belong together, and what the SQL of stage 2 makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import xid
from pipeline.lake import sql
from pipeline.schema import arrow_schema
from tests.timelines import lab

GPUS = 4
OPTIONS = Options(tz="UTC", boot_time=lab.START, node="n1")
RESET = "154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"
P2P = "154, GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)"
NONE = "154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"


def parsed_of(*told: tuple[int, int | str], gpu: str = "3b") -> Parsed:
    """Return what (second, Xid) lines of one GPU are read as."""
    lines = [f"[{second}.000000] NVRM: Xid (PCI:0000:{gpu}:00): {code}" for second, code in told]
    return xid.read("\n".join(lines).encode(), "kern.log", OPTIONS)


def short(parsed: Parsed) -> list[tuple[str, str, str]]:
    return [(row["code"], row["kind"], row["severity"]) for row in parsed.events.rows(named=True)]


@contextmanager
def tables(parsed: Parsed, window_s: int) -> Iterator[Any]:
    """Yield a connection with the tables of stage 2 of one server with four GPUs, one domain."""
    given = {"cluster": "lab", "source": "xid", "file": "kern.log"}
    events = parsed.events.with_columns(
        pl.format("e{}", pl.col("row").cast(pl.String).str.zfill(4)).alias("event_id"),
        *(pl.lit(value).alias(name) for name, value in given.items()),
    )
    if "as_of" not in events.columns:
        events = events.with_columns(as_of=pl.lit(None, pl.Datetime("us")))
    schema = arrow_schema("events")
    placed = lab.placements(["n1"], lab.cluster(1, GPUS, GPUS))
    with sql.connect() as con:
        table = events.select(schema.names).to_arrow().cast(schema)
        lab.build(con, table, placed, lab.parameters(window_s, GPUS), onset_only=("xid",))
        yield con


def outages(con: Any) -> list[tuple[str, int, int]]:
    """Return severity, start and end in seconds of each outage."""
    frame = con.sql("select severity, t_start, t_end from outages order by t_start, severity").pl()
    return list(lab.seconds(frame, "t_start", "t_end").iter_rows())


def down_stretches(con: Any) -> list[tuple[int, int]]:
    """Return where in seconds GPUs of the domain are down, without a break."""
    rows = con.sql(
        "select epoch_us(t_start), epoch_us(t_end) from domain_timeline where failed_gpus > 0 order by 1"
    ).fetchall()
    found: list[list[int]] = []
    for start, end in rows:
        if found and found[-1][1] == start:
            found[-1][1] = end
        else:
            found.append([start, end])
    origin = int(lab.START.timestamp()) * 1_000_000
    return [((start - origin) // 1_000_000, (end - origin) // 1_000_000) for start, end in found]


def test_a_reset_asked_for_after_a_drain_takes_the_gpu_down() -> None:
    """A drain of its links leaves a GPU degraded; a reset that is asked for later does not."""
    parsed = parsed_of((100, P2P), (160, RESET), (700, NONE))
    assert short(parsed) == [
        ("xid 154", "interval", "degraded"),
        ("xid 154", "onset", "down"),
        ("xid 154", "clear", "down"),
    ]
    with tables(parsed, 2000) as con:
        assert outages(con) == [("degraded", 100, 700), ("down", 160, 700)]
        assert down_stretches(con) == [(160, 700)]


def test_a_drain_asked_for_after_a_reset_changes_nothing() -> None:
    assert short(parsed_of((100, RESET), (160, P2P), (700, NONE))) == [
        ("xid 154", "onset", "down"),
        ("xid 154 secondary", "onset", "info"),
        ("xid 154", "clear", "down"),
    ]


def test_a_reset_asked_for_after_a_fault_that_only_degrades_takes_the_gpu_down() -> None:
    assert short(parsed_of((100, 74), (110, 74), (160, RESET), (700, NONE))) == [
        ("xid 74", "interval", "degraded"),
        ("xid 74 repeated", "onset", "info"),
        ("xid 154", "onset", "down"),
        ("xid 154", "clear", "down"),
    ]


def test_a_later_worse_fault_of_a_chain_is_not_hidden_by_its_first() -> None:
    """The GPU is degraded from the first fault and down from the second, and both end with the clear."""
    parsed = parsed_of((100, 74), (200, 119), (201, RESET), (800, NONE))
    assert [code for code, _, _ in short(parsed)] == ["xid 74", "xid 119", "xid 154 secondary", "xid 119"]
    with tables(parsed, 2000) as con:
        assert outages(con)[::2] == [("degraded", 100, 800), ("info", 201, 201)]
        assert down_stretches(con) == [(200, 800)]


def test_a_later_fault_that_takes_the_server_is_not_hidden_by_one_of_a_gpu() -> None:
    parsed = parsed_of((100, 119), (200, 79), (201, RESET), (800, NONE))
    assert short(parsed)[::3] == [("xid 119", "interval", "down"), ("xid 79", "clear", "down")]
    with tables(parsed, 2000) as con:
        assert down_stretches(con) == [(100, 800)]
        assert con.sql("select max(failed_gpus) from domain_timeline").fetchall() == [(GPUS,)]


def test_without_a_clear_each_fault_stands_for_itself() -> None:
    assert short(parsed_of((100, 74), (200, 119))) == [
        ("xid 74", "onset", "degraded"),
        ("xid 119", "onset", "down"),
    ]


def test_a_clear_that_a_clock_set_back_dates_before_its_fault_gives_no_negative_length() -> None:
    (first, *_) = parsed_of((100, 74), (200, 119), (50, NONE)).events.rows(named=True)
    assert first["t_end"] == first["t_start"]


def test_what_is_left_out_of_the_linking_is_of_no_consequence() -> None:
    """Information between the lines changes nothing, and stays."""
    some = short(parsed_of((100, 119), (101, RESET), (200, NONE)))
    more = short(parsed_of((99, 45), (100, 119), (100, 45), (101, RESET), (150, 63), (200, NONE)))
    assert [row for row in more if row[0] not in {"xid 45", "xid 63"}] == some
    assert len(more) == 6


@pytest.mark.shared
class TestPublicCases:
    """What the public cases say of incidents, by the SQL of stage 2."""

    def case(self, shared_dir: Path, name: str) -> tuple[Parsed, dict[str, Any]]:
        """Return what a case is read as, and what is expected of it."""
        (folder,) = (shared_dir / "cases").glob(f"{name}-*")
        (log,) = folder.glob("*.log")
        expected = json.loads((folder / "expected.json").read_text())["expected"]
        return xid.read(log.read_bytes(), log.name, OPTIONS), expected

    def test_a01_one_incident_of_five_rows(self, shared_dir: Path) -> None:
        """Gaps below the default of five minutes are one incident."""
        (folder,) = (shared_dir / "cases").glob("A01-*")
        expected = json.loads((folder / "expected.json").read_text())["expected"]
        (log,) = folder.glob("*.log")
        parsed = xid.read(log.read_bytes(), log.name, Options(tz="UTC", node="n1"))
        with tables(parsed, 1000) as con:
            found = con.sql("select count(*), max(events) from logged_outages").fetchall()
        assert found == [(expected["incidents_default_gap_5min"], expected["xid_rows"])]

    def test_a03_one_incident_of_the_domain(self, shared_dir: Path) -> None:
        """Nine lines of four GPUs within a second are one stretch in which the domain lacks GPUs."""
        parsed, expected = self.case(shared_dir, "A03")
        with tables(parsed, 300_000) as con:
            assert len(down_stretches(con)) == expected["domain_incidents"]
            (down,) = con.sql("select max(failed_gpus) from domain_timeline").fetchall()
            assert down == (len(expected["gpus"]),)

    def test_a09_one_outage_of_the_domain(self, shared_dir: Path) -> None:
        """A fatal SXid takes the domain, one that is not takes nothing."""
        parsed, expected = self.case(shared_dir, "A09")
        with tables(parsed, 300_000) as con:
            rows = con.sql("select scope from logged_outages where severity = 'down'").fetchall()
        assert rows == [("domain",)] * expected["domain_outages"]

    def test_a14_one_incident_and_what_only_consumed_poison(self, shared_dir: Path) -> None:
        """One GPU is down, once; the other two are told and stay up."""
        parsed, expected = self.case(shared_dir, "A14")
        with tables(parsed, 100_000) as con:
            rows = con.sql("select severity, count(*) from logged_outages group by all").fetchall()
            assert len(down_stretches(con)) == expected["incidents"]
        assert dict(rows)["down"] == expected["incidents"]
