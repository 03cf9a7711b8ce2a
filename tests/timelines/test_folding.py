"""Outages that several logs tell of: one each, by hand and against a slow second opinion."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from time import process_time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline.config import Trace
from pipeline.lake import open_ends, sql
from pipeline.timelines import run, what_ifs
from tests.timelines import folding, lab
from tests.timelines.folding import Told
from tests.timelines.test_logs_together import built, outages, row

EXAMPLES = int(os.environ.get("GOODPUT_EXAMPLES", "360"))
ABOUT = "outage_id, gpu, start_s, end_s, component, events"
PARTS = "select outage_id, gpu, from_s, to_s from parts order by outage_id, gpu nulls first, from_s"


def slurm(start_s: float, end_s: float | None, **more: Any) -> dict[str, Any]:
    """Return an outage of a node that Slurm tells."""
    values = {"component": "unknown", "code": "DOWN", "reason": "Slurm's words", **more}
    return row("slurm-events", "interval", start_s, end_s=end_s, **values)


def k8s(start_s: float, end_s: float | None, **more: Any) -> dict[str, Any]:
    """Return an outage of a node that Kubernetes tells."""
    values = {"component": "host", "code": "Ready", "reason": "NotReady", **more}
    return row("k8s-nodes", "interval", start_s, end_s=end_s, **values)


def agent(start_s: float, end_s: float | None, gpu: int, **more: Any) -> dict[str, Any]:
    """Return an outage of a GPU that a health agent tells with its end."""
    values = {"component": "hbm", "code": "GpuMemory", "reason": "ECC", **more}
    return row("nvsentinel", "interval", start_s, end_s=end_s, gpu=gpu, **values)


def parts(con: Any) -> list[Any]:
    """Return what each outage takes, in seconds."""
    origin = f"epoch_us(timestamp '{lab.START.replace(tzinfo=None)}')"
    con.execute(
        f"""create or replace temp view parts as select outage_id, gpu,
        (epoch_us(t_start) - {origin}) // 1000000 as from_s, (epoch_us(t_end) - {origin}) // 1000000 as to_s
        from outage_parts"""
    )
    found: list[Any] = con.execute(PARTS).fetchall()
    return found


def roles(con: Any) -> dict[str, tuple[str, str]]:
    """Return the outage and the part of each event."""
    found = con.execute("select event_id, outage_id, part from outage_rows").fetchall()
    assert len(found) == len({event for event, *_ in found}), "a row in two outages"
    return {event: (outage, part) for event, outage, part in found}


# -- by hand ------------------------------------------------------------------------------------


def test_two_logs_of_a_node_that_is_down_are_one_outage() -> None:
    """From the first sign to the last return, with the component of the log that knows one."""
    rows = [slurm(1000, 5000), k8s(950, 4900), slurm(6000, 7000), k8s(7000, 7100)]
    with built(rows) as con:
        assert outages(con, ABOUT) == [
            ("e002", None, 950, 5000, "host", 2),
            ("e003", None, 6000, 7000, "unknown", 1),  # Kubernetes lost the node as Slurm had it back
            ("e004", None, 7000, 7100, "host", 1),
        ]
        assert roles(con) == {
            "e001": ("e002", "same"), "e002": ("e002", "interval"), "e003": ("e003", "interval"),
            "e004": ("e004", "interval"),
        }  # fmt: skip
        assert parts(con)[0] == ("e002", None, 950, 5000)


def test_flaps_within_another_logs_outage_are_one() -> None:
    """The node was not back in between, whichever log flaps; a chain without a gap is one outage."""
    long_one = [slurm(0, 4000), k8s(100, 200), k8s(300, 400), k8s(3900, 4100)]
    with built(long_one) as con:
        assert outages(con, "outage_id, start_s, end_s, events") == [("e001", 0, 4100, 4)]
    chain = [slurm(0, 100), k8s(50, 150), slurm(140, 300), k8s(290, 400), slurm(400, 500)]
    with built(chain) as con:
        assert outages(con, "outage_id, start_s, end_s, events") == [
            ("e001", 0, 400, 4),
            ("e005", 400, 500, 1),
        ]


def test_two_rows_of_one_log_alone_stay_two() -> None:
    """Also when one of them meets a row of another log."""
    rows = [slurm(0, 1000), slurm(500, 2000, code="DRAIN"), k8s(1500, 3000)]
    with built(rows) as con:
        assert outages(con, "outage_id, start_s, end_s") == [("e001", 0, 1000), ("e002", 500, 3000)]
        assert con.execute("select count(*) from gpu_downtime").fetchone() == (1,)


def test_a_gpu_takes_no_node_with_it() -> None:
    """A GPU fault around a short outage of its node is one outage; the node is out for its own time only."""
    rows = [agent(1000, 9000, 3), slurm(5000, 5600)]
    with built(rows) as con:
        assert outages(con, ABOUT) == [("e002", None, 1000, 9000, "hbm", 2)]
        assert parts(con) == [("e002", None, 5000, 5600), ("e002", 3, 1000, 5000), ("e002", 3, 5600, 9000)]
        ((down_us,),) = con.execute(
            "select sum((gpu_last - gpu_first + 1) * (epoch_us(t_end) - epoch_us(t_start))) from gpu_downtime"
        ).fetchall()
        assert down_us == (8000 + 7 * 600) * 1_000_000
        ((hours,),) = con.execute("select down_gpu_h from worst_nodes").fetchall()
        assert hours * 3600 == pytest.approx(8000 + 7 * 600)
        told = con.execute("select outage_id, gpu_last - gpu_first + 1 from onsets order by t, gpu_first")
        assert told.fetchall() == [("e002", 1), ("e002", 3), ("e002", 4)]  # the GPU; later the others


def test_an_outage_begins_with_its_cause_and_stops_a_job_once() -> None:
    """A fault that was mended before its node went down is the cause of that, within the lead."""
    rows = [
        row("xid", "onset", 1000, gpu=3, code="79"),
        row("xid", "clear", 1100, gpu=3, code="79"),
        slurm(1300, 7000, component="host"),
    ]
    with built(rows) as con:
        assert outages(con, ABOUT) == [("e003", None, 1000, 7000, "gpu", 3)]
        assert roles(con)["e001"] == ("e003", "cause")
        assert con.execute("select count(*) from onsets").fetchone() == (1,)
    with built(rows, cause_lead_s=299) as con:
        assert outages(con, "outage_id, gpu, start_s, end_s") == [
            ("e001", 3, 1000, 1100),
            ("e003", None, 1300, 7000),
        ]


def test_a_gpu_in_three_logs_and_its_node_in_two() -> None:
    """Kernel log, health agent, Slurm and Kubernetes tell of one fault; another GPU's fault stays apart."""
    rows = [
        row("xid", "onset", 100, gpu=3, code="79"),
        agent(110, 5000, 3),
        row("dcgm", "onset", 130, gpu=3, code="79"),
        slurm(400, 6000),
        k8s(410, 5900),
        agent(6000, 8000, 5),
        row("xid", "onset", 6100, gpu=5, code="48"),
    ]
    with built(rows, onset_only=("xid", "dcgm")) as con:
        assert outages(con, ABOUT) == [
            ("e004", None, 100, 6000, "gpu", 5),
            ("e006", 5, 6000, 8000, "hbm", 2),
        ]
        assert {part for _, part in roles(con).values()} == {"cause", "same", "interval"}


def test_one_log_never_gives_cause_and_outage() -> None:
    """Nor is a fault of a domain, or capacity taken back, part of an outage of a node."""
    rows = [
        agent(100, 200, 3),
        row("nvsentinel", "interval", 150, end_s=5000, code="node"),
        row("xid", "onset", 6000, gpu=1, scope="domain", code="149"),
        slurm(6100, 6500),
        row("spot", "onset", 7000, component="capacity", code="lost"),
        row("spot", "clear", 8000, component="capacity", code="lost"),
        k8s(7100, 7900),
    ]
    with built(rows) as con:
        found = [outage for outage, *_ in outages(con)]
    assert found == ["e001", "e002", "e003", "e004", "e005", "e007"]


def test_what_is_open_ends_with_the_last_log_that_knows() -> None:
    """A snapshot of Monday and a log of Wednesday: the union of both; the later one says if it is over."""
    snapshot = row("sinfo", "interval", 100, as_of_s=2000, code="DOWN")
    with built([snapshot, slurm(150, 4000)]) as con:
        assert outages(con, "outage_id, start_s, end_s, end_origin, is_censored") == [
            ("e001", 100, 4000, "logged", False)
        ]
    with built([snapshot, slurm(150, 1800)]) as con:
        assert outages(con, "outage_id, end_s, end_origin, is_censored") == [("e001", 2000, "as_of", True)]


def test_a_fault_in_planned_work_is_part_of_it_unless_it_goes_on() -> None:
    """What begins with planned work and ends with it is none of the failures; what outlasts it is one."""
    planned = slurm(1000, 3000, component="planned", reason="maintenance")
    aside = {"planned_aside": ["slurm-events"]}
    columns = "outage_id, start_s, end_s, severity, component"
    with built([planned, k8s(1100, 3200, component="unknown")], **aside) as con:
        assert outages(con, columns) == [("e001", 1000, 3200, "info", "planned")]
        assert con.execute("from gpu_downtime").fetchall() == []
    with built([planned, k8s(2900, 9000)], **aside) as con:
        assert outages(con, columns) == [("e001", 2900, 9000, "down", "host")]
        assert con.execute(
            "select sum(epoch_us(t_end) - epoch_us(t_start)) from gpu_downtime"
        ).fetchone() == (6100 * 1_000_000,)
        assert roles(con) == {"e001": ("e001", "interval"), "e002": ("e001", "same")}
    reboot = [row("xid", "onset", 900, gpu=3, code="79"), planned]
    with built(reboot, **aside) as con:  # the repair of a fault is no planned work
        assert outages(con, columns) == [("e002", 900, 3000, "down", "gpu")]
    with built([planned, k8s(1100, 3200, component="unknown")]) as con:
        assert outages(con, columns) == [("e001", 1000, 3200, "down", "planned")]
    with built([planned], choices={"planned": "down"}, **aside) as con:
        assert outages(con, columns) == [("e001", 1000, 3000, "down", "planned")]


# -- a second opinion ---------------------------------------------------------------------------

LOGS = ("slurm-events", "k8s-nodes", "nvsentinel")
WINDOW_S, LEAD_S, REPAIR_S = 10_000, 4, 7
NODES = [f"n{number:02}" for number in range(20)]  # as many cases at once


@st.composite
def told(draw: Any) -> list[Told]:
    """Return outages that crowd on few seconds of some nodes: nested, abutting, equal, open, of no length."""
    one = st.tuples(
        st.sampled_from(["", *LOGS]),
        st.sampled_from([None, None, 0, 1]),
        st.integers(0, 24),
        st.sampled_from([0, 1, 3, 3, 6, 12, None]),
    )
    found = []
    for node in NODES:
        for log, gpu, start, length in draw(st.lists(one, min_size=1, max_size=9)):
            end = None if length is None or not log else start + length
            found.append(Told(f"e{len(found):04}", log or "xid", node, gpu, start, end, no_end=not log))
    return found


def as_rows(faults: Sequence[Told]) -> list[dict[str, Any]]:
    """Return the outages as events; each fault without an end has a code of its own."""
    return [
        row(
            fault.log, "onset" if fault.no_end else "interval", fault.start, node=fault.node, gpu=fault.gpu,
            end_s=fault.end, event_id=fault.id, code=fault.id, row=number,
        )
        for number, fault in enumerate(faults, 1)
    ]  # fmt: skip


@settings(
    max_examples=max(1, EXAMPLES // 18),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(faults=told(), data=st.data())
def test_the_sql_equals_a_slow_second_opinion(faults: list[Told], data: st.DataObject) -> None:
    """Whatever the order of rows: the same outages, each row in one, no downtime but the logs' own."""
    rows = data.draw(st.permutations(as_rows(faults)))
    with built(rows, hours=REPAIR_S / 3600, nodes=NODES, cause_lead_s=LEAD_S) as con:
        origin = lab.START.replace(tzinfo=None)
        members = con.execute(
            """select part_id, outage_id, role, (epoch_us(t_start) - epoch_us($1::timestamp)) // 1000000,
            (epoch_us(t_end) - epoch_us($1::timestamp)) // 1000000, takes from outage_members""",
            [origin],
        ).fetchall()
        wanted = folding.members(faults, WINDOW_S, LEAD_S, REPAIR_S)
        assert {folding.Member(*found[:5]) for found in members} == wanted
        assert all(takes for *_, takes in members)
        assert len(roles(con)) == len(faults)
        _check_intervals(con, faults, wanted)


def _check_intervals(con: Any, faults: Sequence[Told], wanted: set[folding.Member]) -> None:
    by_id = {fault.id: fault for fault in faults}
    mine: dict[str, list[folding.Member]] = {}
    for member in wanted:
        mine.setdefault(member.outage, []).append(member)
    found = {
        outage: (start, end, gpu)
        for outage, start, end, gpu in outages(con, "outage_id, start_s, end_s, gpu")
    }
    assert {outage: (start, end) for outage, (start, end, _) in found.items()} == {
        outage: (min(m.start for m in members), max(m.end for m in members))
        for outage, members in mine.items()
    }
    seconds: Counter[tuple[str, str, int, int]] = Counter()
    for outage, gpu, start, end in parts(con):
        node = by_id[outage].node
        gpus = range(8) if gpu is None else [gpu]
        seconds.update((outage, node, one, second) for one in gpus for second in range(start, min(end, 60)))
    assert not seconds or max(seconds.values()) == 1, "a GPU twice in the parts of an outage"
    assert set(seconds) == {
        (member.outage, by_id[member.part].node, gpu, second)
        for member in wanted
        for gpu in (range(8) if by_id[member.part].gpu is None else [by_id[member.part].gpu])
        for second in range(member.start, min(member.end, 60))
    }
    down = lab.seconds(lab.stored(con, "gpu_downtime"), "t_start", "t_end")
    assert {
        (gpu, second)
        for first, last, start, end in down.select("gpu_first", "gpu_last", "t_start", "t_end").iter_rows()
        for gpu in range(first, last + 1)
        for second in range(start, min(end, 60))
    } == {(8 * NODES.index(node) + gpu, second) for _, node, gpu, second in seconds}


COUNT = int(os.environ.get("GOODPUT_OUTAGES", "300000"))


def test_many_outages_take_seconds() -> None:
    """Four logs that tell of the same nodes, or all of one: no row is held against every other."""

    def build(count: int, nodes: int) -> float:
        with sql.connect() as con:
            con.execute(
                """create temp table logged_outages as
                select
                    'e' || i as outage_id, 'c' as cluster, ['', 'b', 'c', 'd'][1 + i % 4] as log,
                    i % 4 > 0 as has_ends,
                    'n' || (i // 4) % $nodes as node, case when i % 4 < 2 then i % 8 end as gpu,
                    case when i % 4 < 2 then 'gpu' else 'node' end as scope, null::varchar as domain,
                    timestamp '2025-01-01' + to_seconds(i // 4 * 40 + i % 4) as t_start,
                    case when i % 4 > 0 then timestamp '2025-01-01' + to_seconds(i // 4 * 40 + 30 + i % 4)
                        else timestamp '2025-01-01' + to_seconds(i // 4 * 40 + 86400) end as t_end,
                    null::timestamp as as_of, 'gpu' as component, 'down' as severity, 'words' as reason,
                    1 as events, false as is_planned, i % 4 = 0 as is_assumed,
                from range($count) as numbers(i)""",
                {"count": count, "nodes": nodes},
            )
            con.execute(f"create temp table assumed_faults ({lab.NO_ASSUMED})")
            values = lab.parameters(10**9, 16)
            names = ("same_outages", "causes", "outage_members", "outages", "outage_parts")
            found = sql.load("2_timelines")
            start = process_time()
            sql.build(con, [found[name] for name in names], values)
            spent = process_time() - start
            assert con.execute("select count(*) from outages").fetchone() == (count // 4,)
        return spent

    spent = build(COUNT, 2_000)
    assert spent < 60, spent
    few, many = build(25_000, 1), build(200_000, 1)
    assert many < 24 * few + 1


def test_the_stage_stores_what_outages_take() -> None:
    """The table is one of the stored, with the columns of the schema."""
    assert "outage_parts" in run.STORED
    with built([slurm(1000, 5000)]) as con:
        table = what_ifs.stored(con, "outage_parts")
    assert table.num_rows == 1


@pytest.mark.parametrize(
    ("chosen", "aside"), [(None, ["slurm-events"]), ("ignore", ["infinitehbd", "slurm-events"]), ("down", [])]
)
def test_whose_planned_work_is_set_aside(chosen: str | None, aside: list[str]) -> None:
    """By default that of every log but a trace whose authors count it among the failures."""
    told: list[Any] = [
        SimpleNamespace(facts={"source": "infinitehbd", "planned": "down"}),
        SimpleNamespace(facts={"source": "slurm-events", "planned": "ignore"}),
    ]
    assert open_ends.planned_aside(told, Trace(planned=chosen)) == aside
