"""The stage as a whole: what it refuses, what it leaves alone, what it tells."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from pipeline.config import Scenario, parse
from pipeline.errors import CheckFailedError, InputError, NoDataError
from pipeline.lake import sql, stages
from pipeline.lake.store import Lake, Record
from pipeline.schema import arrow_schema
from pipeline.timelines import given, run
from tests.timelines import lab
from tests.timelines.lab import Fault

LOG = [Fault("a", 1, 10, 50), Fault("b", None, 30, 90), Fault("c", 0, 40, 40), Fault("d", 7, 60, None)]


def quiet(_: str) -> None:
    """Drop a log line."""


def scenario(
    *, nodes: int = 6, gpus_per_node: int = 8, seconds: tuple[int, int] = (0, 100), **trace: object
) -> Scenario:
    """Return a scenario of the lab's log; its window is in seconds from the lab's start."""
    first, last = ((lab.START + timedelta(seconds=second)).isoformat() for second in seconds)
    document = {
        "trace": {"source": "intervals", "window": [first, last], **trace},
        "cluster": {"nodes": nodes, "gpus_per_node": gpus_per_node, "domain_size": 16, "placement": "listed"},
        "job": {"tp": 8},
        "policy": [{"name": "p", "response": "dp-drop"}],
    }
    return parse(document, name="lab", path=Path("lab.toml"))


def ingested(lake: Lake, log: list[Fault], scope: str = "log") -> Record:
    """Return the record of a log's events, as ingest would publish it."""
    record, _ = stages.run(
        lake,
        "ingest",
        scope,
        inputs={"log": [tuple(fault) for fault in log]},
        code="1",
        build=lambda folder: (stages.write_tables(folder, {"events": lab.events(log)}), {}),
        log=quiet,
    )
    return record


def built(lake: Lake, mine: Scenario, log: list[Fault]) -> tuple[Record, bool]:
    return run.stage(lake, mine, [ingested(lake, log)], quiet)


def test_the_stage_stores_its_tables(tmp_path: Path) -> None:
    """All tables are there, with the columns of the schema, and the facts that data quality reports."""
    lake = Lake(tmp_path)
    record, ran = built(lake, scenario(), LOG)
    assert ran
    what_ifs = {"what_if_gpu_downtime", "what_if_onsets"}
    assert set(record.outputs) == {*run.STORED, "unpaired_clears", *what_ifs}
    assert record.facts["events"] == record.facts["outages"] == 4
    assert record.facts["event_nodes"] == 4
    assert record.facts["censored"] == 1
    assert record.facts["unplaced_nodes"] == 0
    names = ["half_repair", "double_repair", "without_gpu", "healthy_lemons"]
    assert [name for name, *_ in record.facts["what_ifs"]] == names
    assert ["without_gpu", [], ["gpu"]] in record.facts["what_ifs"]
    outages = pl.read_parquet(lake.table(record, "outages"))
    assert outages.select("node", "duration_s").rows() == [("a", 40), ("b", 60), ("c", 0), ("d", 40)]


def test_the_what_ifs_are_their_own_replays_input(tmp_path: Path) -> None:
    """Other repair times, a component or a node that never fails; the log's own tables stay as they are."""
    lake = Lake(tmp_path)
    record, _ = built(lake, scenario(), [*LOG, Fault("e", 1, 20, 40, component="host")])
    frame = pl.read_parquet(lake.table(record, "what_if_gpu_downtime"))
    gpus, length = pl.col("gpu_last") - pl.col("gpu_first") + 1, pl.col("t_end") - pl.col("t_start")
    down = dict(frame.group_by("what_if").agg((gpus * length.dt.total_seconds()).sum()).iter_rows())
    # a 40, b 8 x 60, d 40 and open at the window's end, e 20
    assert down == {
        "half_repair": 20 + 240 + 40 + 10,
        "double_repair": 80 + 8 * 70 + 40 + 40,  # cut at the window's end; what is open stays as it is
        "without_gpu": 20,
        "without_host": 40 + 480 + 40,
        "healthy_lemons": 40 + 40 + 20,  # b is the worst one
    }
    logged = pl.read_parquet(lake.table(record, "gpu_downtime"))
    assert logged.filter(pl.col("domain_id") == 2).height == 1


def test_a_second_run_does_nothing(tmp_path: Path) -> None:
    """Without a change nothing runs; another window runs again."""
    lake = Lake(tmp_path)
    assert built(lake, scenario(), LOG)[1] is True
    assert built(lake, scenario(), LOG)[1] is False
    assert built(lake, scenario(seconds=(0, 90)), LOG)[1] is True


@pytest.mark.parametrize("seconds", [(200, 300), (-300, -200)])
def test_a_window_outside_the_trace_is_an_error(tmp_path: Path, seconds: tuple[int, int]) -> None:
    """A window that no event meets says where the trace lies, and does not report a perfect cluster."""
    log = [fault for fault in LOG if fault.end_s is not None]
    with pytest.raises(InputError, match=r"lies outside the trace[\s\S]*2024-02-29 00:0\d") as caught:
        built(Lake(tmp_path), scenario(seconds=seconds), log)
    assert "a window that meets 2024-02-28 23:59 to 2024-02-29 00:01" in str(caught.value)


def test_more_named_nodes_than_nodes_is_an_error(tmp_path: Path) -> None:
    """The population is an input; one that the log contradicts is refused."""
    with pytest.raises(InputError, match="nodes: 4, but the log names 5 nodes"):
        built(Lake(tmp_path), scenario(nodes=4), [*LOG, Fault("e", 1, 2, 3)])


def test_a_gpu_beyond_the_node_is_an_error(tmp_path: Path) -> None:
    """GPU 8 of an 8-GPU node means that the scenario counts GPUs otherwise than the log."""
    with pytest.raises(InputError, match=r"gpus_per_node: 8, but the log names GPU 8\n.*at least 9"):
        built(Lake(tmp_path), scenario(), [*LOG, Fault("a", 8, 2, 3)])


def test_no_event_is_an_error(tmp_path: Path) -> None:
    """An empty log is not a perfect cluster."""
    with pytest.raises(NoDataError, match="no accepted event"):
        built(Lake(tmp_path), scenario(), [])


def test_events_that_take_nothing_away_are_no_error(tmp_path: Path) -> None:
    """A log of warnings only is a cluster without downtime: empty tables, full covers."""
    lake = Lake(tmp_path)
    record, _ = built(lake, scenario(), [Fault("a", 1, 2, 3, "info")])
    assert record.outputs["gpu_downtime"].rows == record.outputs["onsets"].rows == 0
    assert record.outputs["domain_timeline"].rows == 3
    assert record.outputs["cluster_timeline"].rows == 1


def test_days_without_a_day_0_are_an_error(tmp_path: Path) -> None:
    """A window in days needs a source that says when day 0 is."""
    document = {
        "trace": {"source": "intervals", "window_d": [0, 1]},
        "cluster": {"nodes": 6, "domain_size": 16},
        "job": {"tp": 8},
        "policy": [{"name": "p", "response": "dp-drop"}],
    }
    with pytest.raises(InputError, match="has no day 0"):
        built(Lake(tmp_path), parse(document, name="lab", path=Path("lab.toml")), LOG)


def test_a_broken_rule_keeps_the_last_good_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a check finds a row the stage fails, and what was current stays current."""
    lake = Lake(tmp_path)
    good, _ = built(lake, scenario(), LOG)
    monkeypatch.setattr(run.checks, "broken", lambda *_: ["planted: 1 rows break the rule"])
    with pytest.raises(CheckFailedError, match="planted"):
        built(lake, scenario(seconds=(0, 90)), LOG)
    assert lake.record("timelines", "lab") == good


def test_the_same_log_twice_counts_once(tmp_path: Path) -> None:
    """A file that is sent again under another name adds nothing."""
    lake = Lake(tmp_path)
    once, _ = run.stage(lake, scenario(), [ingested(lake, LOG)], quiet)
    both = [ingested(lake, LOG), ingested(lake, LOG, "copy")]
    twice, _ = run.stage(lake, scenario(), both, quiet)
    assert once.facts["outages"] == twice.facts["outages"] == 4
    assert once.outputs["gpu_downtime"].sha256 == twice.outputs["gpu_downtime"].sha256


def test_spot_capacity_is_never_mixed_with_failures_unsaid(tmp_path: Path) -> None:
    """Both kinds in one trace need a word on it; either kind alone does not."""
    both = [*LOG, Fault("e", None, 20, 40, component="capacity")]
    with pytest.raises(InputError, match=r"1 rows of capacity .* beside 4 of failures[\s\S]*exclude = "):
        built(Lake(tmp_path), scenario(), both)
    for name, chosen in (("out", {"exclude": ["capacity"]}), ("in", {"severity": {"capacity": "down"}})):
        record, _ = built(Lake(tmp_path / name), scenario(**chosen), both)
        outages = pl.read_parquet(Lake(tmp_path / name).table(record, "outages"))
        assert outages.filter(pl.col("severity") == "down").height == (4 if name == "out" else 5)
    built(Lake(tmp_path / "alone"), scenario(), [Fault("e", None, 20, 40, component="capacity")])


def test_words_of_the_trace_are_of_the_log() -> None:
    """A component, a code or a reason; what may compute knows no codes. A mistyped word names the nearest."""
    frame = pl.from_arrow(lab.events([Fault("a", 0, 10, 50, reason="Xid 79, fell off the bus")]))
    table = frame.with_columns(code=pl.lit("xid 79")).to_arrow()
    with sql.connect() as con:
        con.register("events", table)
        for word in ("nic", "xid 79", "Xid 79, fell off the bus"):
            given.check_words(con, scenario(severity={word: "app"}, exclude=[word]))
        for key, word, told in (
            ("severity", "xid 97", r"no code or reason in the log[\s\S]*did you mean 'xid 79'"),
            ("exclude", "xid 97", "no code or reason in the log"),
            ("may_compute", "xid 79", "no reason in the log"),
        ):
            chosen = {word: "app"} if key == "severity" else [word]
            with pytest.raises(InputError, match=f"{key}: '{word}' is no component and {told}"):
                given.check_words(con, scenario(**{key: chosen}))


def test_more_gpu_names_than_gpus_are_refused(tmp_path: Path) -> None:
    """A ninth PCI address on a node of eight is no GPU of it: the message names the node and how to look."""
    lake = Lake(tmp_path)
    rows = lab.events([Fault(f"n{place}", None, 10 + place, 50) for place in range(9)]).to_pylist()
    for place, row in enumerate(rows):
        row.update(node="n0", scope="gpu", gpu_name=f"00000000:{place:02x}:00", code="xid 79")
    record, _ = stages.run(
        lake,
        "ingest",
        "log",
        inputs={},
        code="1",
        build=lambda folder: (
            stages.write_tables(
                folder, {"events": pa.Table.from_pylist(rows, schema=arrow_schema("events"))}
            ),
            {},
        ),
        log=quiet,
    )
    with pytest.raises(InputError, match=r"8, but the logs name 9 GPUs of node n0[\s\S]*gpu_name"):
        run.stage(lake, scenario(), [record], quiet)
