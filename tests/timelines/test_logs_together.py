"""Logs that tell no ends, and several logs of one site: incidents, causes, GPUs by name, each by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from pipeline.ingest.parsing import Options
from pipeline.ingest.sources import spot
from pipeline.lake import sql
from pipeline.schema import arrow_schema
from pipeline.units import US_PER_S, to_us
from tests.timelines import lab

WINDOW_S = 10_000
NODES = ["a", "b"]


def row(source: str, kind: str, start_s: float, node: str = "a", **more: Any) -> dict[str, Any]:
    """Return an event; `end_s` is the end of an interval, in seconds from the window's start."""
    end_s = more.pop("end_s", None)
    as_of_s = more.pop("as_of_s", None)
    gpu = more.get("gpu") is not None or more.get("gpu_name") is not None

    def instant(second: float | None) -> int | None:
        return None if second is None else to_us(lab.START) + round(second * US_PER_S)

    return {
        "cluster": "lab", "source": source, "t_start": instant(start_s), "t_end": instant(end_s),
        "kind": kind, "node": node, "severity": "down", "scope": "gpu" if gpu else "node",
        "component": "gpu", "code": "x", "reason": "words", "as_of": instant(as_of_s),
        "file": f"{source}.log", **more,
    }  # fmt: skip


@contextmanager
def built(
    rows: Sequence[dict[str, Any]],
    onset_only: Sequence[str] = ("xid",),
    hours: float = 1.0,
    choices: dict[str, str] | None = None,
    nodes: Sequence[str] = NODES,
    **more: Any,
) -> Iterator[Any]:
    """Yield a connection with the tables of these rows, in file order; nodes of 8 GPUs, one domain."""
    numbered = [{"event_id": f"e{place:03}", "row": place, **item} for place, item in enumerate(rows, 1)]
    size = 8 * len(nodes)
    placed = lab.placements(nodes, lab.cluster(len(nodes), 8, size))
    repairs = {"assumed_repair_h": {"gpu": hours}}
    with sql.connect() as con:
        table = pa.Table.from_pylist(numbered, schema=arrow_schema("events"))
        values = lab.parameters(WINDOW_S, size, **more)
        lab.build(con, table, placed, values, choices, onset_only=onset_only, repairs=repairs)
        yield con


def outages(con: Any, columns: str = "outage_id, gpu, start_s, end_s, end_origin, events") -> list[Any]:
    """Return the outages in order of their starts; times in seconds from the window's start."""
    origin = lab.START.replace(tzinfo=None)
    found: list[Any] = con.execute(
        f"""select {columns} from (
            select
                *,
                (epoch_us(t_start) - epoch_us($1::timestamp)) // 1000000 as start_s,
                (epoch_us(t_end) - epoch_us($1::timestamp)) // 1000000 as end_s,
            from outages
        ) order by start_s, outage_id""",
        [origin],
    ).fetchall()
    return found


def test_a_storm_is_one_incident_and_its_repair_is_assumed() -> None:
    """Gaps of up to 300 s are one incident, counted from the row before; the repair follows the last row."""
    storm = [row("xid", "onset", second, gpu=0) for second in (0, 300, 600, 901)]
    with built(storm) as con:
        assert outages(con) == [
            ("e001", 0, 0, 600 + 3600, "assumed", 3),
            ("e004", 0, 901, 901 + 3600, "assumed", 1),
        ]
    with built(storm, fold_s=301) as con:
        assert outages(con) == [("e001", 0, 0, 901 + 3600, "assumed", 4)]


def test_other_faults_other_gpus_and_app_faults_are_not_folded() -> None:
    """A fault is its node, GPU and code; what takes nothing down has no length."""
    rows = [
        row("xid", "onset", 0, gpu=0, code="79"),
        row("xid", "onset", 1, gpu=1, code="79"),
        row("xid", "onset", 2, gpu=0, code="48"),
        row("xid", "onset", 3, gpu=0, code="13", severity="app"),
        row("xid", "onset", 4, node="b", gpu=0, code="79"),
    ]
    with built(rows) as con:
        found = outages(con, "outage_id, end_s - start_s, severity, end_origin")
    assert found == [
        ("e001", 3600, "down", "assumed"), ("e002", 3600, "down", "assumed"),
        ("e003", 3600, "down", "assumed"), ("e004", 0, "app", "logged"), ("e005", 3600, "down", "assumed"),
    ]  # fmt: skip


def test_a_clear_ends_an_incident_also_where_ends_are_seldom_told() -> None:
    """A recovery that is logged takes the place of the assumed repair, however late it comes."""
    rows = [
        row("xid", "onset", 0, gpu=0),
        row("xid", "onset", 100, gpu=0),
        row("xid", "clear", 5000, gpu=0),
        row("xid", "clear", 5001, gpu=0),
        row("xid", "onset", 5100, gpu=0),
    ]
    with built(rows) as con:
        assert outages(con) == [
            ("e001", 0, 0, 5000, "logged", 3),
            ("e005", 0, 5100, 5100 + 3600, "assumed", 1),
        ]
        assert con.execute('select "row" from unpaired_clears').fetchall() == [(4,)]


def test_one_fault_in_two_logs_without_ends_is_one_outage() -> None:
    """The kernel log and an agent that repeats it are folded by node, GPU and code, whatever the log."""
    rows = [row("xid", "onset", 0, gpu=2), row("gpud", "onset", 30, gpu=2)]
    with built(rows, onset_only=("xid", "gpud")) as con:
        assert outages(con) == [("e001", 2, 0, 30 + 3600, "assumed", 2)]
        told = con.execute("select part, source from outage_rows order by event_id").fetchall()
    assert told == [("onset", "xid"), ("repeat", "gpud")]


def test_the_kernel_log_gives_the_cause_and_slurm_the_interval() -> None:
    """An outage begins with its cause, ends as the scheduler says, and is one outage with an audit."""
    rows = [
        row("xid", "onset", 1000, gpu=3, code="79"),
        row("xid", "onset", 1010, gpu=3, code="79"),
        row("slurm-events", "interval", 1300, end_s=7000, component="unknown", code="DOWN"),
        row("xid", "onset", 2000, gpu=5, code="48"),  # while the node is down already
        row("xid", "onset", 7000, gpu=5, code="48"),  # the node has just come back
    ]
    with built(rows) as con:
        assert outages(con, "outage_id, gpu, start_s, end_s, end_origin, component, events") == [
            ("e003", None, 1000, 7000, "logged", "gpu", 4),
            ("e005", 5, 7000, 7000 + 3600, "assumed", "gpu", 1),
        ]
        told = con.execute('select outage_id, part, source, "row" from outage_rows').fetchall()
        onsets = con.execute("select count(*) from onsets").fetchone()
    assert told == [
        ("e003", "cause", "xid", 1), ("e003", "cause", "xid", 2), ("e003", "interval", "slurm-events", 3),
        ("e003", "cause", "xid", 4), ("e005", "onset", "xid", 5),
    ]  # fmt: skip
    assert onsets == (1,)  # one interruption of the node; at 7,000 s its GPUs were down until that instant


def test_an_open_outage_takes_no_fault_after_its_log_was_taken() -> None:
    """A snapshot of a node that is down knows nothing of a fault after it, which has downtime of its own."""
    rows = [
        row("sinfo", "interval", 100, as_of_s=2000, code="DOWN"),
        row("xid", "onset", 1999, gpu=3, code="79"),
        row("xid", "onset", 2001, gpu=4, code="48"),
    ]
    with built(rows) as con:
        assert outages(con) == [
            ("e001", None, 100, 2000, "as_of", 2),
            ("e003", 4, 2001, 2001 + 3600, "assumed", 1),
        ]


def test_machines_there_from_the_start_can_be_lost() -> None:
    """The row that says a slot was filled opens no fault that would swallow the loss."""
    log = b"0,add,m1\n0,add,m2\n60000,remove,m1\n120000,add,m3\n180000,remove,m2\n"
    parsed = spot.read(log, "spot.csv", Options(boot_time=lab.START))
    rows = [
        {**item, "event_id": f"e{item['row']:03}", "cluster": "lab", "source": "spot", "file": "spot.csv"}
        for item in parsed.events.to_dicts()
    ]
    rows = [{**item, "node": {"slot-0001": "a", "slot-0002": "b"}[item["node"]]} for item in rows]
    with built(rows) as con:
        lost = [found for found in outages(con, "node, severity, start_s, end_s") if found[1] == "down"]
    assert lost == [("a", "down", 60, 120), ("b", "down", 180, WINDOW_S)]


def test_a_cause_comes_at_most_so_long_before() -> None:
    """What lies further back, on another node, or takes nothing down is a fault of its own."""
    slurm = row("slurm-events", "interval", 2000, end_s=3000, component="host", code="DOWN")
    rows = [
        row("xid", "onset", 1099, gpu=3),
        row("xid", "onset", 1500, gpu=4, severity="app"),
        row("xid", "onset", 1500, node="b", gpu=3),
        slurm,
    ]
    with built(rows, cause_lead_s=900) as con:
        assert [found[0] for found in outages(con)] == ["e001", "e002", "e003", "e004"]
    with built(rows, cause_lead_s=901) as con:
        assert outages(con, "outage_id, start_s, component") == [
            ("e004", 1099, "gpu"), ("e002", 1500, "gpu"), ("e003", 1500, "gpu"),
        ]  # fmt: skip


def test_gpus_by_name_take_the_free_indices_in_order() -> None:
    """A name with an index somewhere has it everywhere; others take what is free, by the order of the bus."""
    rows = [
        row("xid", "onset", 0, gpu_name="00000000:9b:00", code="1"),
        row("xid", "onset", 1, gpu_name="00000000:1b:00", code="1"),
        row("dcgm", "onset", 2, gpu_name="00000000:cb:00", gpu=0, code="1"),
        row("xid", "onset", 3, gpu_name="00000000:cb:00", code="2"),
        row("xid", "onset", 4, node="b", gpu_name="00000000:9b:00", code="1"),
    ]
    with built(rows, onset_only=("xid", "dcgm")) as con:
        assert outages(con, "outage_id, node, gpu") == [
            ("e001", "a", 2), ("e002", "a", 1), ("e003", "a", 0), ("e004", "a", 0), ("e005", "b", 0),
        ]  # fmt: skip


def test_a_fault_that_takes_the_node_takes_all_its_gpus() -> None:
    """Scope says what a fault takes out, also where the row names the GPU that it began with."""
    rows = [
        row("xid", "onset", 0, gpu=3, code="79", scope="node"),
        row("xid", "onset", 5000, gpu=3, code="48"),
    ]
    with built(rows) as con:
        assert outages(con, "outage_id, gpu") == [("e001", None), ("e002", 3)]
        taken = con.execute(
            "select sum(gpu_last - gpu_first + 1) from gpu_downtime group by t_start order by t_start"
        ).fetchall()
    assert taken == [(8,), (1,)]


def test_an_open_outage_is_known_until_the_log_was_taken() -> None:
    """It ends at --as-of, or at the window's end; a later log that has it too is the one that counts."""
    rows = [
        row("sinfo", "interval", 100, as_of_s=4000, code="1"),
        row("sinfo", "interval", 100, as_of_s=99_000, code="2"),
        row("sinfo", "interval", 100, code="3"),
        row("sinfo", "interval", 5000, as_of_s=4000, code="4"),
    ]
    with built(rows) as con:
        assert outages(con, "outage_id, end_s, end_origin, is_censored") == [
            ("e001", 4000, "as_of", True),
            ("e002", WINDOW_S, "window", True),
            ("e003", WINDOW_S, "window", True),
            ("e004", 5000, "as_of", True),
        ]
    sent_again = [{**row("sinfo", "interval", 100, as_of_s=t), "event_id": "same"} for t in (4000, 6000)]
    with built(sent_again) as con:
        assert outages(con, "outage_id, end_s") == [("same", 6000)]


def test_a_choice_for_a_component_leaves_information_alone() -> None:
    """Capacity counted as down loses no machine that was there from the start; a reason of it may."""
    start = row("spot", "onset", 0, severity="info", component="capacity", code="there", reason="there")
    rows = [start, row("spot", "onset", 60, component="capacity"), row("spot", "clear", 120)]
    columns = "severity, start_s, end_s"
    with built(rows, choices={"capacity": "down"}) as con:
        assert outages(con, columns) == [("info", 0, WINDOW_S), ("down", 60, 120)]
    with built(rows, choices={"capacity": "degraded", "there": "down"}) as con:
        assert outages(con, columns) == [("down", 0, WINDOW_S), ("degraded", 60, 120)]


def test_many_equal_outages_are_one_downtime() -> None:
    """Rows that tie are sorted alike by every window that numbers them."""
    count = 20_000
    with built([row("slurm-events", "interval", 60, end_s=600)] * count) as con:
        assert con.execute("select count(*) from outages").fetchone() == (count,)
        assert con.execute("select count(*) from gpu_downtime").fetchone() == (1,)


def test_a_pci_address_and_a_uuid_of_one_gpu_are_one() -> None:
    """A row that gives both names makes them one, in every log of the node and of no other node."""
    uuid, other = "GPU-aaaa", "GPU-bbbb"
    rows = [
        row("xid", "onset", 0, gpu_name="00000000:9b:00", code="79"),
        row("gpud", "onset", 10, gpu_name=uuid, code="79"),
        row("gpud", "onset", 20, gpu_name=other, code="79"),
        row("dcgm", "onset", 30, gpu_name="00000000:9b:00", gpu_uuid=uuid, code="79"),
        row("nvsentinel", "onset", 40, gpu_name=uuid, gpu=5, severity="info", code="temp"),
        row("gpud", "onset", 50, node="b", gpu_name=uuid, code="79"),
    ]
    with built(rows, onset_only=("xid", "gpud", "dcgm")) as con:
        assert outages(con, "outage_id, node, gpu, events") == [
            ("e001", "a", 5, 3), ("e003", "a", 0, 1), ("e005", "a", 5, 1), ("e006", "b", 0, 1),
        ]  # fmt: skip
        names = con.execute("select count(distinct gpu), count(*) from gpu_names where node = 'a'").fetchone()
    assert names == (2, 3)


def test_a_rotated_log_goes_on_in_its_next_file() -> None:
    """Open on Monday: the clear of Wednesday's file ends it, or Wednesday's instant bounds it."""
    monday = row("k8s-nodes", "onset", 100, file="monday.log", as_of_s=2000)
    wednesday = {"file": "wednesday.log", "as_of_s": 6000}
    other = row("k8s-nodes", "onset", 5000, node="b", **wednesday)
    columns = "outage_id, start_s, end_s, end_origin"
    with built([monday, other]) as con:
        assert outages(con, columns) == [("e001", 100, 6000, "as_of"), ("e002", 5000, 6000, "as_of")]
    with built([monday, other, row("k8s-nodes", "clear", 5500, **wednesday)]) as con:
        assert outages(con, columns) == [("e001", 100, 5500, "logged"), ("e002", 5000, 6000, "as_of")]
    # A file that does not say when it was taken was not taken before its last row; other logs say nothing.
    unsaid = row("k8s-nodes", "onset", 7000, node="b", file="friday.log")
    with built([monday, unsaid, row("k8s-events", "onset", 8000, node="b", as_of_s=9000)]) as con:
        assert outages(con, columns)[0] == ("e001", 100, 7000, "as_of")


def test_an_open_interval_is_told_again_by_a_later_file() -> None:
    """The last taken counts, in whatever words; a snapshot that lacks the node says nothing of it."""
    rows = [
        row("sinfo", "interval", 100, as_of_s=2000, code="DOWN", file="1"),
        row("sinfo", "interval", 100, as_of_s=4000, code="DOWN", file="2", reason="other words"),
        row("sinfo", "interval", 100, as_of_s=3000, code="DOWN", file="3", reason="third words"),
        row("sinfo", "interval", 50, as_of_s=2000, node="b", code="DOWN", file="1"),
    ]
    with built(rows) as con:
        assert outages(con, "outage_id, node, start_s, end_s, events") == [
            ("e004", "b", 50, 2000, 1), ("e002", "a", 100, 4000, 1),
        ]  # fmt: skip
        told = con.execute("select event_id, outage_id, part from outage_rows order by event_id").fetchall()
    assert told == [
        ("e001", "e002", "again"), ("e002", "e002", "interval"), ("e003", "e002", "again"),
        ("e004", "e004", "interval"),
    ]  # fmt: skip
