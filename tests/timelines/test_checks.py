"""Each rule in queries/checks finds a row that breaks it, and nothing in good tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pipeline.lake import checks, sql
from pipeline.schema import BUCKETS
from pipeline.timelines import run
from tests.timelines import lab
from tests.timelines.lab import Fault

WINDOW, SIZE = 20, 4
AT = "make_timestamp(epoch_us(timestamp '2024-02-28 23:59:30') + {} * 1000000)"
ALL = (*run.STORED, "files", "rejects", "outcomes", "splits", "what_ifs", "outcome_timeline")


def at(second: int) -> str:
    """Return SQL for an instant of the window."""
    return AT.format(second)


@pytest.fixture(scope="module")
def good() -> Iterator[Any]:
    """Yield a connection with good tables of every kind that a check reads."""
    log = [Fault("a", 1, 2, 9), Fault("a", None, 5, 12), Fault("b", 0, 8, 9), Fault("c", None, 15, None)]
    placed = lab.placements(["a", "b", "c"], lab.cluster(3, 4, SIZE))
    with lab.built(log, placed, WINDOW, SIZE) as made:
        made.execute("create table files as select 'f' as file, 's' as source, 3 as rows_read, "
                     "2 as rows_accepted, 1 as rows_rejected")  # fmt: skip
        made.execute("create table rejects as select 'f' as file, 's' as source, 1 as \"row\"")
        some = {"productive": 60, "failed": 30, "stranded": 12, "gain": 2, "total": 100}
        hours = dict.fromkeys(BUCKETS, 0) | some
        columns = ", ".join(f"{value}::double as {bucket}_gpu_h" for bucket, value in hours.items())
        for name in ("outcomes", "splits", "what_ifs"):
            made.execute(f"create table {name} as select 'p' as policy, {columns}")
        made.execute(
            "create table outcome_timeline as select 'p' as policy, 0 as placement_seed, "
            f"{at(0)} as t_start, {at(7)} as t_end, 'running' as state "
            f"union all select 'p', 0, {at(7)}, {at(WINDOW)}, 'paused'"
        )
        yield made


@pytest.fixture
def con(good: Any) -> Iterator[Any]:
    """Yield the good tables; what a test plants is taken back."""
    good.execute("begin")
    yield good
    good.execute("rollback")


def broken(con: Any) -> list[str]:
    """Return the names of the rules that are broken."""
    return [line.split(":")[0] for line in checks.broken(con, ALL, lab.parameters(WINDOW, SIZE))]


def test_good_tables_break_no_rule(con: Any) -> None:
    """All rules run here, and none finds a row."""
    assert all(sql.parents(query.body) <= set(ALL) for query in sql.load("checks").values())
    assert broken(con) == []


def again(start: int, end: int, **gpus: int) -> str:
    """Return SQL that adds to the row of GPU 0 of domain 0 (down from 5 s to 12 s) another one."""
    changes = [f"{at(start)} as t_start", f"{at(end)} as t_end"]
    changes += [f"{value} as {column}" for column, value in gpus.items()]
    rows = "from gpu_downtime where domain_id = 0 and gpu_first = 0"
    return f"insert into gpu_downtime select * replace ({', '.join(changes)}) {rows}"


# What is planted, by rule. A planted row may break a second rule as well; the named one must be among them.
PLANTED = [
    ("domain_cover", f"update domain_timeline set t_end = {at(3)} where t_end = {at(2)}"),
    ("domain_cover", f"update domain_timeline set t_end = {at(1)} where t_end = {at(2)}"),
    ("domain_cover", f"delete from domain_timeline where domain_id = 0 and t_start = {at(0)}"),
    ("domain_cover", f"delete from domain_timeline where domain_id = 2 and t_end = {at(WINDOW)}"),
    ("domain_cover", f"update domain_timeline set t_start = {at(2)} where domain_id = 0 and t_end = {at(2)}"),
    ("downtime_area", "update domain_timeline set failed_gpus = failed_gpus + 1 where domain_id = 1"),
    ("downtime_area", f"update cluster_timeline set failed_gpus = 0 where t_start = {at(5)}"),
    ("downtime_area", f"update gpu_downtime set t_end = {at(11)} where t_end = {at(12)} and gpu_first = 0"),
    ("downtime_area", "delete from domain_tail where k = 4"),
    ("downtime_area", "delete from gpu_downtime"),
    ("downtime_overlap", again(11, 13)),
    ("downtime_overlap", again(12, 13)),
    ("downtime_overlap", again(13, 14, gpu_last=3)),
    ("downtime_overlap", again(6, 7, gpu_first=0, gpu_last=3)),
    # The same GPU under two ranges, at times that do not meet.
    ("downtime_overlap", again(15, 16, gpu_last=2)),
    ("failed_range", "update domain_timeline set failed_gpus = -1 where domain_id = 1"),
    ("failed_range", "update domain_timeline set failed_gpus = 5 where domain_id = 1"),
    ("ledger_sum", "update outcomes set stranded_gpu_h = 12.001"),
    ("ledger_sum", "update splits set gain_gpu_h = 0"),
    ("ledger_sum", "update what_ifs set failed_gpu_h = -30, stranded_gpu_h = 72"),
    ("ledger_sum", "update outcomes set total_gpu_h = 101"),
    ("rows_accounted", "update files set rows_accepted = 3"),
    ("rows_accounted", "update files set rows_accepted = 3, rows_rejected = 0"),
    ("rows_accounted", "delete from rejects"),
    ("state_cover", f"update outcome_timeline set t_end = {at(8)} where t_end = {at(7)}"),
    ("state_cover", f"update outcome_timeline set t_end = {at(6)} where t_end = {at(7)}"),
    ("state_cover", f"delete from outcome_timeline where t_start = {at(0)}"),
    ("state_cover", f"delete from outcome_timeline where t_start = {at(7)}"),
]  # fmt: skip
IDS = [f"{rule}-{number}" for number, (rule, _) in enumerate(PLANTED)]


@pytest.mark.parametrize(("rule", "change"), PLANTED, ids=IDS)
def test_a_planted_row_is_found(con: Any, rule: str, change: str) -> None:
    """A row that breaks the rule is selected by it."""
    ((rows,),) = con.execute(change).fetchall()
    assert rows > 0, "nothing was planted"
    assert rule in broken(con)


def test_every_rule_has_a_planted_row() -> None:
    """A new rule needs a row that breaks it."""
    assert {rule for rule, _ in PLANTED} == set(sql.load("checks"))


def test_a_broken_rule_is_told_in_words(con: Any) -> None:
    """The line names the rule, how many rows break it, and what it demands."""
    con.execute("update files set rows_accepted = 3")
    (line,) = checks.broken(con, ALL, lab.parameters(WINDOW, SIZE))
    assert line == "rows_accounted: 1 rows break the rule: Every row read is accepted or rejected"


def test_rules_without_their_tables_are_left_out(con: Any) -> None:
    """A check runs only where all the tables it reads are there."""
    con.execute("update files set rows_accepted = 3")
    assert checks.broken(con, run.STORED, lab.parameters(WINDOW, SIZE)) == []
