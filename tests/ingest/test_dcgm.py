"""The source `dcgm`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import InputError
from pipeline.ingest.parsing import Options, Parsed
from pipeline.ingest.sources import dcgm
from pipeline.units import US_PER_S
from tests.ingest.mutations import survives

AS_OF = Options.of(as_of="2026-06-01T00:00Z")
T = 1772355600  # 2026-03-01 09:00
STEP = 60


def series(values: dict[int, Any], gpu: int = 0, host: str = "n1", **labels: str) -> dict[str, Any]:
    """Return a series; its values by the number of the step."""
    metric = {
        "__name__": "DCGM_FI_DEV_XID_ERRORS",
        "gpu": str(gpu),
        "UUID": f"GPU-{gpu}-{host}",
        "Hostname": host,
    }
    return {
        "metric": metric | labels,
        "values": [[T + STEP * at, str(value)] for at, value in values.items()],
    }


def steady(steps: range | list[int], value: int = 0, **more: Any) -> dict[str, Any]:
    return series(dict.fromkeys(steps, value), **more)


def query(*found: dict[str, Any]) -> Parsed:
    document = {"status": "success", "data": {"resultType": "matrix", "result": list(found)}}
    return dcgm.read(json.dumps(document).encode(), "f", AS_OF)


def rows(parsed: Parsed) -> list[tuple[Any, ...]]:
    """Return kind, GPU, severity, code, and the steps of start and end."""
    steps = [
        tuple(None if at is None else (at - T * US_PER_S) / US_PER_S / STEP for at in times)
        for times in parsed.events.select("t_start", "t_end").cast(int).rows()
    ]
    picked = parsed.events.select("kind", "gpu", "severity", "code").rows()
    return [(*row, *times) for row, times in zip(picked, steps, strict=True)]


def scrape(*lines: str, options: Options = AS_OF) -> Parsed:
    head = "# HELP DCGM_FI_DEV_XID_ERRORS Value of the last XID error encountered.\n"
    return dcgm.read((head + "\n".join(lines)).encode(), "f", options)


def sample(value: str, gpu: int = 0, **labels: str) -> str:
    told = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "Hostname": "n1", **labels}
    inner = ",".join(f"{key}={json.dumps(text)}" for key, text in told.items())
    return f"DCGM_FI_DEV_XID_ERRORS{{{inner}}} {value}"


def test_a_change_of_the_gauge_is_an_event() -> None:
    """A value that stays is one; another value is another; 0 is a restart of the exporter, not an end."""
    parsed = query(series({0: 0, 1: 79, 2: 79, 3: 13, 4: 0, 5: 13}))
    assert rows(parsed) == [
        ("onset", 0, "down", "xid 79", 1, None),
        ("onset", 0, "app", "xid 13", 3, None),
        ("interval", 0, "info", "exporter restart", 3, 4),
        ("onset", 0, "app", "xid 13", 5, None),
    ]
    assert dcgm.ENDS is False


def test_a_value_from_before_the_range_is_refused() -> None:
    """When it came is not known; the next value counts."""
    parsed = query(series({0: 79, 1: 79, 2: 13}))
    assert parsed.rejects["reason"].to_list() == ["set before the range begins: when it came is not known"]
    assert [row[3] for row in rows(parsed)] == ["xid 13"]


def test_labels_that_change_do_not_split_a_gpu() -> None:
    """Series of one UUID are one GPU: with err_code, with a pod, one a MIG slice, even at one instant."""
    parts = [
        steady(range(3)),
        series({2: 31, 3: 31, 4: 31}, err_code="31"),
        series({5: 31, 6: 31}, err_code="31", pod="p"),
        *(series(dict.fromkeys(range(7), 0) | {6: 31}, GPU_I_ID=part) for part in ("3", "5")),
    ]
    assert rows(query(*parts)) == [("onset", 0, "app", "xid 31", 2, None)]


def test_a_gpu_without_samples_is_lost_while_others_of_its_host_are_read() -> None:
    """With an end, without one, and from the start; the value from before the gap is no new event."""
    parsed = query(
        steady(range(8)),
        series({0: 0, 1: 31, 5: 31, 6: 31, 7: 31}, gpu=1),
        steady(range(4), gpu=2),
        steady(range(3, 8), gpu=3),
    )
    assert rows(parsed) == [
        ("onset", 1, "app", "xid 31", 1, None),
        ("interval", 1, "down", "no reading", 2, 5),
        ("interval", 2, "down", "no reading", 4, None),
        ("interval", 3, "down", "no reading", 0, 3),
    ]


def test_an_open_gap_is_known_until_the_last_sample() -> None:
    """A GPU that vanished is not down for ever: what came after the range is not in it."""
    parsed = query(steady(range(8)), steady(range(4), gpu=1), steady(range(2), host="n2"))
    assert [(row[0], row[2], row[4], row[5]) for row in rows(parsed)] == [
        ("interval", "down", 4, None),
        ("interval", "degraded", 2, None),
    ]
    last = parsed.events["as_of"].to_physical() // US_PER_S
    assert [at - T for at in last] == [7 * STEP] * 2
    whole = query(steady([0, 1, 5, 6]), steady([0, 1, 2, 5, 6], gpu=1))
    assert whole.events["as_of"].null_count() == whole.events.height > 0


def test_a_host_without_samples_is_degraded() -> None:
    """It may be the exporter; where nothing at all was read, Prometheus itself was away."""
    steps = [0, 1, 2, 5, 6, 7, 8]
    parsed = query(steady(steps), steady(steps, gpu=1), steady([0, 1, 2, 5, 8], host="n2"))
    picked = parsed.events.select("node", "scope", "severity").rows()
    assert picked == [("n2", "node", "degraded")]
    assert rows(parsed)[0][4:] == (6, 8)
    alone = query(steady(steps))
    assert rows(alone) == [("interval", None, "degraded", "no reading", 3, 5)]


def test_windowed_counts() -> None:
    """The Xid is in the label: ten scrapes that show 1 are one event, a higher count is one more."""
    count = {"__name__": "DCGM_EXP_XID_ERRORS_COUNT", "xid": "42", "window_size_in_ms": "300000"}
    values = [0, 1, 1, 1, 2, 1, 0, 1]
    parsed = query(series(dict(enumerate(values)), **count))
    assert [row[3:5] for row in rows(parsed)] == [("xid 42", step) for step in (1, 4, 7)]
    assert parsed.events["reason"][0] == "Xid 42, 1 within 300 s"


def test_blank_values_are_no_readings() -> None:
    """A run of them is one refused row and no change of the gauge."""
    parsed = query(series({0: 0, 1: 31, 2: 2147483632, 3: "NaN", 4: 31, 5: 9223372036854775794}))
    assert [row[3] for row in rows(parsed)] == ["xid 31"]
    assert parsed.rejects.height == 2


def test_an_instant_query_and_a_failed_one() -> None:
    """A vector shows what was set before: refused. An error is an input error."""
    item = series({})
    item["value"] = [T, "79"]
    del item["values"]
    assert query(item).rejects.height == 1
    with pytest.raises(InputError, match="f: no result of a Prometheus query"):
        dcgm.read(b'{"status": "error", "error": "timeout"}', "f", AS_OF)


@pytest.mark.parametrize("values", [[["x", "1"]], [[T]], [5], [[-1, "0"]], [[10**15, "0"]]])
def test_series_that_cannot_be_read_are_refused(values: Any) -> None:
    """One row; other series are read."""
    parsed = query(series({}) | {"values": values}, series({0: 0, 1: 79}))
    assert (parsed.rejects.height, len(rows(parsed))) == (1, 1)


def test_one_scrape_has_the_time_that_is_said() -> None:
    """Or its own timestamps, in milliseconds; 0 claims nothing."""
    parsed = scrape(
        sample("79"), sample("0", gpu=1), sample(f"13 {T}000", gpu=2), "DCGM_FI_DEV_GPU_TEMP{} 50"
    )
    assert [row[:4] for row in rows(parsed)] == [
        ("onset", 0, "down", "xid 79"),
        ("onset", 2, "app", "xid 13"),
    ]
    assert [f"{at:%m-%d %H:%M}" for at in parsed.events["t_start"]] == ["06-01 00:00", "03-01 09:00"]
    with pytest.raises(InputError, match=r"f: samples without a timestamp(.|\n)*--as-of"):
        scrape(sample("79"), options=Options())
    assert scrape(sample(f"79 {T}000"), options=Options()).events.height == 1


def test_slices_of_one_gpu_repeat_its_reading() -> None:
    """MIG: one row a GPU and code."""
    assert scrape(*(sample("79", GPU_I_ID=part) for part in "357"), sample("79", gpu=1)).rows_read == 2


def test_the_host_is_named_or_given() -> None:
    """Hostname, else the labels of Prometheus; an instance without its port."""
    line = 'DCGM_FI_DEV_XID_ERRORS{gpu="1",instance="n7:9400",err_msg="a \\"b\\" } c"} 79'
    assert scrape(line).events.select("node", "reason").rows() == [("n7", 'Xid 79: a "b" } c')]
    bare = 'DCGM_FI_DEV_XID_ERRORS{gpu="1"} 79'
    assert scrape(bare).rejects["reason"].to_list() == ["no node name"]
    assert scrape(bare, options=Options.of(node="n3", as_of="2026-06-01T00:00Z")).events["node"][0] == "n3"


def test_gpus_have_index_and_name() -> None:
    """The PCI address where there is one, because kernel logs name GPUs by it."""
    parsed = scrape(sample("79", pci_bus_id="00000000:4E:00.0"), sample("79", gpu=1))
    assert parsed.events.select("gpu", "gpu_name").rows() == [(0, "00000000:4e:00"), (1, "GPU-1")]


@pytest.mark.parametrize(
    "line", ["DCGM_FI_DEV_XID_ERRORS{gpu=", sample(""), sample("N/A"), sample("4294967295")]
)
def test_samples_that_cannot_be_read_are_refused(line: str) -> None:
    """They are of an Xid series, so they are rows."""
    parsed = scrape(line, sample("79", gpu=1))
    assert (parsed.rejects.height, parsed.events.height) == (1, 1)


def case(shared_dir: Path, name: str) -> tuple[Path, dict[str, Any]]:
    (folder,) = (shared_dir / "cases").glob(f"{name}-*")
    return folder, json.loads((folder / "expected.json").read_text())["expected"]


@pytest.mark.shared
def test_the_gauge_holds_its_last_value(shared_dir: Path) -> None:
    """Case C07: three events, no recovery, and an interval of which nothing is known."""
    folder, wanted = case(shared_dir, "C07")
    parsed = dcgm.read((folder / "query_range.json").read_bytes(), "f", Options())
    events = parsed.events.with_columns(t_start=parsed.events["t_start"].to_physical() // US_PER_S)
    onsets = events.filter(kind="onset")
    found = [{"xid": int(code.split()[1]), "t": at} for code, at in onsets.select("code", "t_start").rows()]
    assert found == wanted["events"]
    assert len(found) == wanted["xid_events_lower_bound"]
    assert events.filter(kind="clear").height == wanted["recoveries_inferred"]
    unknown = events.filter(code="exporter restart")
    ends = unknown["t_end"].to_physical() // US_PER_S
    assert [list(pair) for pair in zip(unknown["t_start"], ends, strict=True)] == wanted["unknown_intervals"]
    assert onsets["t_end"].to_list() == [wanted["downtime_s"]] * 3
    assert events["gpu_name"].n_unique() == 1


@pytest.mark.shared
def test_blank_sentinels(shared_dir: Path) -> None:
    """Case C09: blanks of all widths and values that cannot be are no readings, never clipped."""
    folder, wanted = case(shared_dir, "C09")
    limits = {"gpu_util": (0, 100), "xid_errors": (0, dcgm.HIGHEST_XID)}
    lines = list(csv.DictReader((folder / "samples.csv").read_text().splitlines()))
    found = [
        (line["metric"], dcgm.reading(line["value"], *limits.get(line["metric"], (0, float("inf")))))
        for line in lines
    ]
    valid = {name: value for name, value in found if value is not None}
    assert valid == wanted["valid"]
    assert sum(value is None for _, value in found) == wanted["null_rows"]
    assert len(found) - wanted["null_rows"] == wanted["valid_rows"]
    used = [value for name, value in found if name == "gpu_util" and value is not None]
    assert sum(used) / len(used) == wanted["mean_gpu_util"]


@pytest.mark.shared
def test_the_name_in_help_may_be_another(shared_dir: Path) -> None:
    """Case C17: the Xid is in the label, the value is a count; ten scrapes of it are one event."""
    folder, wanted = case(shared_dir, "C17")
    data = (folder / "metrics.prom").read_bytes()
    (row,) = dcgm.read(data, "f", AS_OF).events.rows(named=True)
    assert row["code"] == f"xid {wanted['xid']}"
    assert row["reason"] == f"Xid 42, {wanted['count_in_window']} within {wanted['window_s']} s"
    assert wanted["event_time"] == f"within {wanted['window_s']} s before the scrape", "as the reason says"
    labels = {"xid": "42", "window_size_in_ms": "300000", "__name__": "DCGM_FI_DEV_XID_ERRORS_ACTIVE"}
    assert query(series(dict.fromkeys(range(10), 1), **labels)).events.height == wanted["samples"]


@pytest.mark.shared
def test_the_public_excerpts_are_read(shared_data: Path) -> None:
    """A windowed count, a sample without its value, and a gauge that shows 79."""
    path = shared_data / "dcgm" / "exporter_samples.prom"
    parsed = dcgm.read(path.read_bytes(), path.name, AS_OF)
    assert parsed.events.select("node", "code").rows() == [("host-1", "xid 42"), ("node-a", "xid 79")]
    assert parsed.rejects["reason"].to_list() == ["a sample without a value"]


def test_any_damage_is_counted() -> None:
    """Damaged scrapes and queries give rows and refusals, nothing else."""
    lines = [sample(f"79 {T}000"), sample(f"13 {T}000", gpu=1), "# TYPE DCGM_FI_DEV_XID_ERRORS gauge"]
    survives(dcgm, ("# HELP DCGM_X y\n" + "\n".join(lines)).encode(), Options.of(as_of="2026-06-01T00:00Z"))
    results = [series({0: 0, 1: 79, 2: 79}), series({0: 0, 1: 0, 3: 0}, gpu=1), steady(range(4), gpu=2)]
    documents = [{"status": "success", "data": {"result": [item]}} for item in results]
    survives(dcgm, "\n".join(map(json.dumps, documents)).encode(), AS_OF)
