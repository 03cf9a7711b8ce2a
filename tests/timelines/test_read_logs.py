"""Logs as they are read, through the real SQL: what public cases and rules say of outages and their ends."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipeline.ingest import run, sources
from pipeline.ingest.parsing import Options
from pipeline.lake import sql
from pipeline.lake.store import Lake
from pipeline.units import to_us
from tests.slurm_logs import case
from tests.timelines import lab

DAY = ("2025-03-10T00:00", "2025-03-11T00:00")
OUTAGES = "node, t_start, t_end, end_origin"


def instant(text: str) -> datetime:
    """Return an instant as tables hold it, of a text with or without Z."""
    return datetime.fromisoformat(text).replace(tzinfo=None)


@contextmanager
def built(
    source: str,
    logs: Mapping[str, bytes],
    options: Options,
    window: Sequence[str],
    nodes: Sequence[str],
    hours: float = 1.0,
    **more: Any,
) -> Iterator[Any]:
    """Yield a connection with the tables of these logs, ingested; each node is a domain of 8 GPUs."""
    module = sources.load(source)
    with tempfile.TemporaryDirectory() as folder:
        lake, paths = Lake(Path(folder) / "lake"), []
        for file, data in logs.items():
            paths.append(Path(folder) / file)
            paths[-1].write_bytes(data)
        done = [run.ingest(lake, source, [str(path)], options, lambda _: None)[0] for path in paths]
        files = [lake.root / item.record.outputs["events"].path for item in done]
        table = pl.concat([pl.read_parquet(file) for file in files]).to_arrow()
    start, end = map(instant, window)
    values = lab.parameters(1, 8, window_start=start, window_end=end, **more)
    values["window_us"] = to_us(end.replace(tzinfo=UTC)) - to_us(start.replace(tzinfo=UTC))
    onset_only = () if module.ENDS else (source,)
    with sql.connect() as con:
        placed = lab.placements(nodes, lab.cluster(len(nodes), 8, 8))
        repairs = {"assumed_repair_h": dict.fromkeys(("gpu", "nvlink", "software"), hours)}
        lab.build(con, table, placed, values, onset_only=onset_only, repairs=repairs)
        yield con


def outages(con: Any, columns: str = OUTAGES, severity: str = "down") -> list[Any]:
    """Return the outages of a severity, by their starts."""
    found: list[Any] = con.execute(
        f"select {columns} from outages where severity = $1 order by t_start, node, t_end", [severity]
    ).fetchall()
    return found


def gpu_s(con: Any) -> float:
    """Return the GPU-seconds down, each GPU's once."""
    seconds = "sum((gpu_last - gpu_first + 1) * (epoch_us(t_end) - epoch_us(t_start))) / 1e6"
    return float(con.execute(f"select coalesce({seconds}, 0) from gpu_downtime").fetchone()[0])


def unpaired(con: Any) -> list[Any]:
    """Return the clears of no open fault."""
    found: list[Any] = con.execute(
        "select node, t, code from unpaired_clears order by t, node, code"
    ).fetchall()
    return found


# -- snapshots --------------------------------------------------------------------------------------------


def listing(clock: str, state: str, since: str = "2025-03-10T06:30:00") -> bytes:
    return (
        f"2025-03-10T{clock}:00+00:00\nSTATE|USER|TIMESTAMP|NODELIST|REASON\n"
        f"{state}|root|{since}|n1|Not responding\nidle|root|Unknown|n2|none\n"
    ).encode()


HOURS = [listing("07:00", "down"), listing("08:00", "down"), listing("09:00", "idle")]
BEGAN, LAST_SEEN, BACK = (instant(f"2025-03-10T{clock}") for clock in ("06:30", "08:00", "09:00"))


def test_snapshots_in_one_file_end_where_the_node_is_shown_back() -> None:
    """One outage, however often the file is read on its way."""
    one = b"".join(HOURS)
    for logs in ({"all.txt": one}, {"all.txt": one, "earlier.txt": HOURS[0] + HOURS[1]}):
        with built("sinfo", logs, Options(tz="UTC"), DAY, ["n1", "n2"]) as con:
            assert outages(con) == [("n1", BEGAN, BACK, "logged")]
            assert gpu_s(con) == 8 * 2.5 * 3600


def test_snapshots_in_files_of_their_own_last_to_the_last_that_shows_the_fault() -> None:
    """It is one outage, and its end is not known: it lies behind what is counted."""
    logs = {f"{place}.txt": data for place, data in enumerate(HOURS)}
    for files in (logs, dict(reversed(logs.items()))):
        with built("sinfo", files, Options(tz="UTC"), DAY, ["n1", "n2"]) as con:
            assert outages(con, f"{OUTAGES}, is_censored") == [("n1", BEGAN, LAST_SEEN, "as_of", True)]
            assert gpu_s(con) == 8 * 1.5 * 3600


def test_one_snapshot_costs_no_more_than_it_knows() -> None:
    """Down from the stamp to the snapshot; without a stamp at its instant only."""
    with built("sinfo", {"a": HOURS[0]}, Options(tz="UTC"), DAY, ["n1", "n2"]) as con:
        assert outages(con) == [("n1", BEGAN, instant("2025-03-10T07:00"), "as_of")]
    with built("sinfo", {"a": listing("07:00", "down", "Unknown")}, Options(tz="UTC"), DAY, ["n1"]) as con:
        assert outages(con, "t_end - t_start = interval 0 second, end_origin") == [(True, "as_of")]
        assert gpu_s(con) == 0


def test_exports_of_kubernetes_nodes_end_at_their_newest_heartbeat() -> None:
    """An hour after the last List nothing is known of the lost node."""

    def export(beat: str) -> bytes:
        ready = {"type": "Ready", "lastTransitionTime": "2025-03-10T06:30:00Z"}
        shown = {"n1": ("Unknown", "2025-03-10T06:29:20Z"), "n2": ("True", beat)}
        items = [
            {
                "kind": "Node",
                "metadata": {"name": name, "creationTimestamp": "2025-03-10T06:30:00Z"},
                "status": {"conditions": [{**ready, "status": status, "lastHeartbeatTime": at}]},
            }
            for name, (status, at) in shown.items()
        ]
        return json.dumps({"items": items}).encode()

    logs = {f"{clock}.json": export(f"2025-03-10T{clock}:00Z") for clock in ("07:00", "08:00")}
    for files in (logs, {"both.json": b"\n".join(logs.values())}):
        with built("k8s-nodes", files, Options(), DAY, ["n1", "n2"]) as con:
            assert outages(con) == [("n1", BEGAN, LAST_SEEN, "as_of")]
    said = Options.of(as_of="2025-03-10T09:00Z")
    with built("k8s-nodes", logs, said, DAY, ["n1", "n2"]) as con:
        assert outages(con) == [("n1", BEGAN, BACK, "as_of")]


@pytest.mark.shared
def test_b12_a_snapshot_of_three_nodes(shared_dir: Path) -> None:
    """The start is at or before the capture, so nothing is counted before it, nor after it."""
    folder, wanted = case(shared_dir, "B12")
    logs = {"l": (folder / "sinfo-lNe.txt").read_bytes()}
    nodes = [f"compute00{place}" for place in (1, 2, 3)]
    at = instant(wanted["capture_local"])
    with built("sinfo", logs, Options(tz="UTC"), ("2016-06-01T00:00", "2016-07-01T00:00"), nodes) as con:
        assert outages(con) == [(node, at, at, "as_of") for node in nodes]


# -- logs of changes --------------------------------------------------------------------------------------


@pytest.mark.shared
def test_b01_two_outages_are_open_and_two_ends_are_older_than_the_log(shared_dir: Path) -> None:
    """Flaps take nothing down; an end without an onset is told and costs nothing."""
    folder, wanted = case(shared_dir, "B01")
    logs = {"slurmctld.log": (folder / "slurmctld.log").read_bytes()}
    window = ("2015-11-10T12:00", "2015-11-10T13:00")
    with built("slurmctld", logs, Options(tz="UTC"), window, ["c001", "c002"]) as con:
        found = outages(con)
        assert found == [
            (row["node"], instant(row["start"]), instant(window[1]), "window")
            for row in wanted["down_intervals"]
        ]
        assert len([row for row in found if row[3] == "window"]) == wanted["outages_open"]
        assert len([row for row in found if row[3] == "logged"]) == wanted["outages_closed"]
        ends = [(row["node"], instant(row["end"]), "DOWN") for row in wanted["left_censored_ends"]]
        assert [row for row in unpaired(con) if row[2] == "DOWN"] == sorted(ends, key=lambda row: row[1])
        silent = outages(con, "node, t_start, duration_s, is_censored", "degraded")
    flaps = [{"node": node, "s": round(seconds, 3)} for node, _, seconds, is_open in silent if not is_open]
    assert flaps == wanted["flaps"]
    first = wanted["down_intervals"][0]
    suspect = [at for node, at, _, is_open in silent if is_open and node == first["node"]]
    assert suspect == [instant(first["suspect_since"])]
    assert round((instant(first["start"]) - suspect[0]).total_seconds(), 3) == first["suspect_s"]


@pytest.mark.shared
def test_b09_overlaps_of_one_node_count_once(shared_dir: Path) -> None:
    """Three hours and not the sum; open rows end when the table was taken, never at the clock of the run."""
    folder, wanted = case(shared_dir, "B09")
    logs = {"events.psv": (folder / "events.psv").read_bytes()}
    said = Options.of(tz="UTC", as_of="2026-01-01T00:00Z")
    window = ("2025-07-01T00:00", "2026-06-01T00:00")
    for aside, seconds in (([], "nid0125_union_s"), (["slurm-events"], "nid0125_unplanned_s")):
        with built("slurm-events", logs, said, window, ["nid0125"], planned_aside=aside) as con:
            assert gpu_s(con) == 8 * wanted[seconds]
    nodes = [*wanted["open_rows"], "nid0125"]
    with built("slurm-events", logs, said, window, nodes) as con:
        is_open = [row for row in outages(con) if row[3] == "as_of"]
    assert [row[0] for row in is_open] == wanted["open_rows"]
    assert {row[2] for row in is_open} == {instant("2026-01-01T00:00")}


@pytest.mark.shared
def test_c01_a_lost_node_is_one_outage(shared_dir: Path) -> None:
    """Four conditions that turn Unknown take it once; no kubelet lives to tell when the export was taken."""
    folder, wanted = case(shared_dir, "C01")
    logs = {"n1.json": (folder / "conditions.json").read_bytes()}
    window = ("2020-08-15T00:00", "2020-08-16T00:00")
    with built("k8s-nodes", logs, Options(node="@file"), window, ["n1"]) as con:
        found = outages(con)
        assert found == [("n1", instant(wanted["default_start"]), instant(window[1]), "window")]
        assert len(found) == wanted["outages"]
        assert (gpu_s(con) == 0) is wanted["available"]


@pytest.mark.shared
def test_c05_a_sticky_condition_takes_no_capacity(shared_dir: Path) -> None:
    """Its end is not known, so it has no length."""
    folder, wanted = case(shared_dir, "C05")
    logs = {"n1.json": (folder / "snapshots.jsonl").read_bytes()}
    window = ("2018-10-01T00:00", "2018-12-01T00:00")
    with built("npd", logs, Options(node="n1"), window, ["n1"]) as con:
        assert gpu_s(con) == 8 * wanted["node_downtime_s"]
        assert outages(con) == []
        assert [row[0] for row in outages(con, "t_start", "degraded")] == [instant(wanted["problem_start"])]


@pytest.mark.shared
def test_c11_a_recovery_without_a_fault_is_told_and_costs_nothing(shared_dir: Path) -> None:
    """The fault began before the log: no outage, one clear that closes none."""
    folder, wanted = case(shared_dir, "C11")
    logs = {"log.jsonl": (folder / "log.jsonl").read_bytes()}
    window = ("2026-07-01T00:00", "2026-08-01T00:00")
    with built("nvsentinel", logs, Options(), window, ["node-a"]) as con:
        assert len(outages(con)) == wanted["failures"]
        assert unpaired(con) == [("node-a", instant(wanted["ts"]), wanted["check"])]


@pytest.mark.shared
def test_c12_faults_of_one_node_overlap(shared_dir: Path) -> None:
    """Of GPUs: the sum, since each has its own; of the node: until the last is closed."""
    folder, wanted = case(shared_dir, "C12")
    window = ("2026-06-24T00:00", "2026-06-25T00:00")

    def log(*, is_of_gpu: bool) -> bytes:
        lines = []
        for line in map(json.loads, (folder / "events.jsonl").read_text().splitlines()):
            told = {key: line[key] for key in ("isFatal", "isHealthy")}
            impacted = [{"entityType": "PCI", "entityValue": line["gpu"]}] if is_of_gpu else []
            told |= {"checkName": line["check"], "nodeName": line["node"], "entitiesImpacted": impacted}
            lines.append(json.dumps(told | {"generatedTimestamp": line["t"]}))
        return "\n".join(lines).encode()

    with built("nvsentinel", {"f": log(is_of_gpu=True)}, Options(), window, ["node-a"]) as con:
        spans = outages(con, "t_start, t_end, duration_s")
        assert sum(row[2] for row in spans) == wanted["sum_of_faults_s"]
        assert min(row[2] for row in spans) == wanted["gpu_0000:02:00_down_s"]
        assert gpu_s(con) == wanted["gpu_seconds_lost_if_gpu_scoped"]
    with built("nvsentinel", {"f": log(is_of_gpu=False)}, Options(), window, ["node-a"]) as con:
        down = con.execute("select distinct t_start, t_end from gpu_downtime").fetchall()
        assert [[f"{at.isoformat()}Z" for at in span] for span in down] == wanted["node_down"]
        assert gpu_s(con) == wanted["gpu_seconds_lost_if_node_scoped_8_gpus"] == 8 * wanted["node_down_s"]


@pytest.mark.shared
def test_c13_an_xid_of_an_unknown_gpu_takes_the_node(shared_dir: Path) -> None:
    """Its end is not told, so the repair time is assumed."""
    folder, wanted = case(shared_dir, "C13")
    logs = {"f": (folder / "event.json").read_bytes()}
    window = ("2024-11-15T00:00", "2024-11-21T00:00")
    with built("gpud", logs, Options(node="n1"), window, ["n1"], hours=2) as con:
        assert outages(con, "node, gpu, t_start, end_origin") == [
            ("n1", wanted["gpu"], instant(wanted["ts"]), "assumed")
        ]
        assert gpu_s(con) == 8 * 2 * 3600


@pytest.mark.shared
def test_c14_a_packed_message_is_one_outage(shared_dir: Path) -> None:
    """Two errors of one GPU in one condition."""
    folder, wanted = case(shared_dir, "C14")
    logs = {"f": (folder / "condition.txt").read_bytes()}
    window = ("2026-05-11T00:00", "2026-05-12T00:00")
    with built("k8s-nodes", logs, Options(node="node-a"), window, ["node-a"]) as con:
        found = outages(con)
    assert len(found) == wanted["outages"]
    assert found[0][:2] == ("node-a", instant(wanted["ts_utc"]))
