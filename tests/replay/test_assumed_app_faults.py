"""app_faults_per_1000_node_d, from the scenario's key to the ledger and the page."""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, expm1, sqrt
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from small_lake import Built, quiet

from pipeline import config
from pipeline.errors import InputError
from pipeline.ingest import run as ingest
from pipeline.lake import catalog, checks
from pipeline.lake.store import Lake, Record
from pipeline.replay import run as replay
from pipeline.replay.study import Study
from pipeline.report import answer
from pipeline.timelines import run as timelines

# One harmless event: a note of severity info, which takes nothing away.
LOG = "node,start,end,component\nn01,2025-03-02T00:00Z,2025-03-02T01:00Z,cooling\n"
TRACE = """source = "intervals"
path = "log.csv"
window = ["2025-03-01T00:00Z", "2025-{month}T00:00Z"]
severity.cooling = "info"
severity.storage = "app"
"""
PRESET = 'preset = "{preset}"\ndays = 20'
SCENARIO = """
[trace]
{trace}
{more}
[cluster]
nodes = {nodes}
domain_size = 16
placement_seeds = [0, 1]
[job]
tp = 16
[costs]
detect_s = 100
restart_s = 200
checkpoint_interval_s = {interval}
checkpoint_save_s = 30
[[policy]]
name = "rigid"
response = "rigid"
"""


def build(
    folder: Path,
    more: str = "",
    *,
    log: str | None = LOG,
    preset: str = "llama3",
    month: str = "05-01",
    nodes: int = 65,
    interval: str = "1800",
    name: str = "s",
) -> Built:
    """Run the stages before the report."""
    lake, chosen, events, lines = made(
        folder, more, log=log, preset=preset, month=month, nodes=nodes, interval=interval, name=name
    )
    ledgers, _ = replay.stage(lake, chosen, lines, quiet)
    return Built(lake, chosen, events, lines, ledgers)


def made(
    folder: Path, more: str, *, log: str | None, preset: str, month: str, nodes: int, interval: str, name: str
) -> tuple[Lake, config.Scenario, list[Record], Record]:
    """Run the stages before the replay."""
    folder.mkdir(parents=True, exist_ok=True)
    trace = PRESET.format(preset=preset) if log is None else TRACE.format(month=month)
    (folder / "log.csv").write_text(log or "")
    path = folder / f"{name}.toml"
    path.write_text(SCENARIO.format(trace=trace, more=more, nodes=nodes, interval=interval))
    lake, chosen = Lake(folder / "root"), config.load(str(path))
    events, _ = ingest.stage(lake, chosen, quiet)
    lines, _ = timelines.stage(lake, chosen, events, quiet)
    return lake, chosen, events, lines


def table(built: Built, name: str) -> pl.DataFrame:
    record = built.timelines if name in built.timelines.outputs else built.replay
    return pl.read_parquet(built.lake.table(record, name))


def hashes(built: Built, names: Iterable[str] = timelines.STORED) -> dict[str, str]:
    return {name: built.timelines.outputs[name].sha256 for name in names}


def rate(per_1000_node_d: float, *more: str) -> str:
    return "\n".join((f"app_faults_per_1000_node_d = {per_1000_node_d}", *more))


# -- the tables -----------------------------------------------------------------------------------


def test_they_are_outages_without_length_node_or_row(tmp_path: Path) -> None:
    """Severity app, software, assumed, zero length, no event; an onset of each in every placement."""
    built = build(tmp_path, rate(20))
    found = table(built, "outages").filter(pl.col("events") == 0)
    assert found.height == built.timelines.facts["assumed_app_faults"] > 50  # 64 nodes x 61 d x 0.02 = 78
    same = ("node", "gpu", "domain_id", "component", "severity", "reason", "end_origin", "duration_s")
    assert found.select(same).unique().rows() == [
        (None, None, None, "software", "app", "assumed app fault", "assumed", 0.0)
    ]
    assert found.select(pl.col("t_start") == pl.col("t_end")).to_series().all()
    assert found["outage_id"].to_list()[:2] == ["assumed-app-00000001", "assumed-app-00000002"]
    onsets = table(built, "onsets")
    assert onsets["severity"].unique().to_list() == ["app"]
    by_seed = [onsets.filter(pl.col("placement_seed") == seed).select("t", "outage_id") for seed in (0, 1)]
    assert by_seed[0].equals(by_seed[1])
    assert by_seed[0]["t"].to_list() == found["t_start"].to_list()
    assert table(built, "gpu_downtime").is_empty()
    assert checks.all_records(built.lake) == []


def test_they_count_the_nodes_of_the_pool(tmp_path: Path) -> None:
    """Sixty-four of 65 nodes fill domains: the 65th, which is unplaced, adds nothing."""
    assert hashes(build(tmp_path / "a", rate(20)), ["onsets"]) == hashes(
        build(tmp_path / "b", rate(20), nodes=64), ["onsets"]
    )


def test_the_same_scenario_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    """Drawn by the seed alone, in a log's scenario too."""
    first = hashes(build(tmp_path / "a", rate(20, "seed = 5")))
    assert hashes(build(tmp_path / "b", rate(20, "seed = 5"))) == first
    assert hashes(build(tmp_path / "c", rate(20, "seed = 6")))["onsets"] != first["onsets"]


@pytest.mark.parametrize("log", [LOG, None], ids=["log", "preset"])
def test_no_rate_changes_no_byte(tmp_path: Path, log: str | None) -> None:
    """A rate of 0 is the same as no key, for every table of the stage."""
    built = build(tmp_path / "a", rate(0), log=log, name="one")
    assert hashes(built, built.timelines.outputs) == hashes(
        build(tmp_path / "b", log=log, name="one"), built.timelines.outputs
    )


def test_a_seed_needs_something_to_draw(tmp_path: Path) -> None:
    """For a log, `seed` without assumed faults is a key that does nothing, and refused as before."""
    with pytest.raises(InputError, match="seed: given beside source"):
        build(tmp_path, "seed = 5")
    for value in ("-1", "10001", '"many"'):
        with pytest.raises(InputError, match="app_faults_per_1000_node_d"):
            build(tmp_path, f"app_faults_per_1000_node_d = {value}")


# -- the replay -----------------------------------------------------------------------------------


def test_interruptions_rise_by_the_faults_that_hit_a_running_job(tmp_path: Path) -> None:
    """On a clean pool a fault interrupts unless it falls into the start after the one before."""
    built = build(tmp_path, rate(20))
    times = table(built, "onsets").filter(pl.col("placement_seed") == 0)["t"].dt.timestamp("us").to_list()
    hits, ready = 0, 0
    for t in times:
        hits += t >= ready
        ready = t + 300 * 1_000_000
    assert table(built, "outcomes")["interruptions"].to_list() == [hits, hits]
    assert table(build(tmp_path / "without"), "outcomes")["interruptions"].to_list() == [0, 0]


def test_goodput_meets_the_renewal_form(tmp_path: Path) -> None:
    """model.md section 7: the mean over seeds lies in its own two-sided interval around the exact form."""
    per_1000_node_d = 500  # 32 faults a day for 61 days: M = 45 min
    seeds = range(12)
    found = []
    for seed in seeds:
        more = rate(per_1000_node_d, f"seed = {seed}")
        lake, chosen, _, lines = made(
            tmp_path / str(seed), more, log=LOG, preset="", month="05-01", nodes=64, interval="1800", name="s"
        )
        row = Study(chosen).row(chosen.policies[0], replay.load(lake, chosen, lines), 0)
        found.append(row["goodput_frac"])
    m = 86_400 / (per_1000_node_d / 1_000 * 64)
    dt, c, u = 1_800, 30, 300
    wanted = dt / (m * exp(u / m) * expm1((dt + c) / m))
    error = np.std(found, ddof=1) / sqrt(len(seeds))
    limit = 4.44 * error  # two-sided at 99.9 %, t with 11 degrees of freedom; the seeds are fixed
    assert abs(np.mean(found) - wanted) < limit
    # The test has power: a rate that is a tenth higher is noticed.
    wrong = dt / (m / 1.1 * exp(u / m * 1.1) * expm1((dt + c) / m * 1.1))
    assert abs(np.mean(found) - wrong) > limit


def test_the_interval_of_young_knows_them(tmp_path: Path) -> None:
    """Log: window / faults; synthetic: the preset's rate and the assumed one; M is what both come to."""
    save_s = 30
    built = build(tmp_path / "log", rate(20), interval='"young"')
    faults = built.timelines.facts["assumed_app_faults"]
    expected = sqrt(2 * 61 * 86_400 / faults * save_s)
    assert table(built, "outcomes")["checkpoint_interval_s"][0] == pytest.approx(expected, abs=1e-3)

    built = build(tmp_path / "preset", rate(20), log=None, interval='"young"')
    preset_d = sum(item["per_gpu_d"] for item in built.events[0].facts["rates"]) * 512
    m = 86_400 / (preset_d + 20 / 1_000 * 64)
    found = table(built, "outcomes")["checkpoint_interval_s"]
    assert found[0] == pytest.approx(sqrt(2 * m * save_s), rel=1e-6)
    without = table(built, "what_ifs").filter(pl.col("what_if") == "without_software")
    job_gpus = without["dp"][0] * 16  # at its best split
    left_d = job_gpus * sum(
        item["per_gpu_d"] for item in built.events[0].facts["rates"] if item["component"] != "software"
    )
    assert without["checkpoint_interval_s"][0] == pytest.approx(sqrt(2 * 86_400 / left_d * save_s), rel=1e-6)


@pytest.mark.parametrize(
    "choice",
    ['exclude = ["software"]', 'exclude = ["assumed app fault"]', 'severity.software = "info"'],
)
@pytest.mark.parametrize("log", [LOG, None], ids=["log", "preset"])
def test_what_is_left_out_is_not_assumed(tmp_path: Path, choice: str, log: str | None) -> None:
    """Excluded by component or reason, nothing is drawn and the save interval does not know of it."""
    changed = build(tmp_path / "a", rate(20, choice), log=log, interval='"young"')
    assert changed.timelines.facts["assumed_app_faults"] == 0
    if "assumed" not in choice:
        plain = build(tmp_path / "b", choice, log=log, interval='"young"')
        assert hashes(changed) == hashes(plain)
        assert table(changed, "outcomes").equals(table(plain, "outcomes"))


def test_software_that_counts_as_down_leaves_them_app_faults(tmp_path: Path) -> None:
    """An assumed fault takes no GPU, whatever the scenario makes of software outages that a log holds."""
    chosen = 'severity.software = "down"'
    assert hashes(build(tmp_path / "a", rate(20, chosen))) == hashes(build(tmp_path / "b", rate(20)))


def test_without_software_they_are_gone(tmp_path: Path) -> None:
    """The what-if of their component, or of kinds that may compute, has no app-level fault left."""
    built = build(tmp_path, rate(20, 'may_compute = ["assumed app fault"]'))
    onsets = table(built, "what_if_onsets")
    assert set(onsets["what_if"]) >= {"half_repair"}
    assert not {"without_software", "may_compute"} & set(onsets["what_if"])
    ifs = table(built, "what_ifs").filter(pl.col("what_if").is_in(["without_software", "may_compute"]))
    assert ifs.height and set(ifs["interruptions"]) == {0}


# -- the page -------------------------------------------------------------------------------------


def test_the_page_says_how_many_are_assumed_at_which_rate(tmp_path: Path) -> None:
    """The note, the command's line and the counts tell assumed from logged; no lower bound is claimed."""
    log = LOG + "n02,2025-03-03T00:00Z,2025-03-03T00:00Z,storage\n"
    built = build(tmp_path, rate(20), log=log)
    record, _ = built.report()
    count = built.timelines.facts["assumed_app_faults"]
    text = (
        f"{count} app-level faults at a rate of 20 per 1,000 node-days are assumed "
        "(app_faults_per_1000_node_d in the scenario), beside 1 in the trace."
    )
    assert any(line.startswith(f"assumed: {text}") for line in record.facts["lines"])
    page = built.page.read_text()
    assert text in page and answer.LOWER_BOUND not in page.replace("&#39;", "'")
    with catalog.connect(built.lake) as con:
        faults = con.sql("from app_faults('s')").pl().to_dicts()[0]
        quality = dict(con.execute("select item, count from data_quality('s')").fetchall())
        mtbf = con.execute("select component, faults from mtbf_by_component('s')").fetchall()
        nodes = con.execute("select count(*) from lemons('s')").fetchall()
    assert faults == {
        "outages": 2, "app_faults": count + 1, "logged_app_faults": 1, "assumed_app_faults": count, "down": 0,
    }  # fmt: skip
    assert (quality["outages"], quality["assumed app-level faults"]) == (2, count)
    assert (quality["outages with an assumed end"], quality["outages of no length"]) == (0, 1)
    assert mtbf == [("storage", 1)]
    assert nodes == [(0,)]
