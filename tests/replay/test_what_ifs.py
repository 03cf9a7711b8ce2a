"""What-ifs: each is the same, to the last digit, as a scenario in which that value is written down."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline import config
from pipeline.errors import InputError
from pipeline.ingest import run as ingest
from pipeline.lake.store import Lake, Record
from pipeline.replay import run as replay
from pipeline.timelines import run as timelines

TEXT = """
[trace]
preset = "ntp-paper"
days = 20
seed = 3
{more}
[cluster]
nodes = 512
domain_size = 32
[job]
tp = 32
pp = 4
[[policy]]
name = "drop"
response = "dp-drop"
"""


def outcomes(folder: Path, name: str, more: str = "") -> dict[str, pl.DataFrame]:
    """Return the tables of a replay, by name."""
    path = folder / f"{name}.toml"
    path.write_text(TEXT.format(more=more))
    return built(folder, path)


def built(folder: Path, path: Path) -> dict[str, pl.DataFrame]:
    """Return the tables of the replay of a scenario file, by name."""
    lake, scenario = Lake(folder / "root"), config.load(str(path))
    record, _ = replay.stage(lake, scenario, _timelines(lake, scenario), quiet)
    return {table: pl.read_parquet(lake.table(record, table)) for table in record.outputs}


def timeline_tables(folder: Path, path: Path) -> dict[str, pl.DataFrame]:
    """Return the tables of the timelines of a scenario file, by name."""
    lake, scenario = Lake(folder / "root"), config.load(str(path))
    record = _timelines(lake, scenario)
    return {table: pl.read_parquet(lake.table(record, table)) for table in record.outputs}


def _timelines(lake: Lake, scenario: config.Scenario) -> Record:
    events, _ = ingest.stage(lake, scenario, quiet)
    return timelines.stage(lake, scenario, events, quiet)[0]


def quiet(_: str) -> None:
    """Log nothing."""


def test_a_component_left_out_is_a_component_excluded(tmp_path: Path) -> None:
    """A synthetic what-if saves at the interval of the rates left, as a scenario without the rest does."""
    what_if = outcomes(tmp_path, "all")["what_ifs"].filter(
        pl.col("what_if") == "without_gpu", pl.col("batch") == "elastic"
    )
    spares = what_if["spare_domains"][0]
    without = outcomes(tmp_path, "less", 'exclude = ["gpu"]')["splits"].filter(
        pl.col("batch") == "elastic", pl.col("spare_domains") == spares
    )
    columns = ["checkpoint_interval_s", "goodput_frac", "interruptions", "productive_gpu_h"]

    assert what_if.select(columns).rows() == without.select(columns).rows()


COLUMNS = ["placement_seed", "goodput_frac", "ettr_frac", "interruptions", "productive_gpu_h", "energy_kwh"]
WHOLE = """
[trace]
preset = "ntp-paper"
days = 20
seed = {seed}
redraws = {redraws}
[cluster]
nodes = 512
domain_size = 32
[job]
tp = 32
pp = 4
samples_per_replica = {samples}
[costs]
restart_s = {restart}
checkpoint_interval_s = {interval}
[power]
curve = {curve}
[[policy]]
name = "boosted"
response = "ntp-pw"
reduced_tp = [30, 28]
spare_domains = 3
"""
AS_IT_STANDS = {
    "seed": 3, "redraws": 2, "samples": 6, "restart": 600, "interval": 1800,
    "curve": [[1.0, 1.0], [1.2, 1.1]],
}  # fmt: skip


def whole(folder: Path, name: str, **values: object) -> dict[str, pl.DataFrame]:
    """Return the tables of a replay whose values are written out."""
    path = folder / f"{name}.toml"
    path.write_text(WHOLE.format(**{**AS_IT_STANDS, **values}))
    return built(folder, path)


@pytest.mark.parametrize(
    ("what_if", "changed"),
    [
        ("half_restart", {"restart": 300}),
        ("double_restart", {"restart": 1200}),
        ("half_interval", {"interval": 900}),
        ("double_interval", {"interval": 3600}),
        ("half_samples", {"samples": 3}),
        ("double_samples", {"samples": 12}),
        ("half_boost", {"curve": [[1.0, 1.0], [1.2, 1.05]]}),
        ("full_boost", {"curve": [[1.0, 1.0], [1.2, 1.2]]}),
        ("redraw_1", {"seed": 4}),
        ("redraw_2", {"seed": 5}),
    ],
)
def test_a_what_if_is_a_scenario_with_that_value(
    tmp_path_factory: pytest.TempPathFactory, what_if: str, changed: dict[str, object]
) -> None:
    """Costs, samples, the boost curve, and another draw of a synthetic trace."""
    folder = tmp_path_factory.getbasetemp() / "what_ifs"
    folder.mkdir(exist_ok=True)
    mine = whole(folder, "mine")["what_ifs"].filter(pl.col("what_if") == what_if)
    assert mine.height
    theirs = whole(folder, f"theirs_{what_if}", redraws=0, **changed)["splits"]
    for batch in ("elastic", "pause"):
        one = mine.filter(pl.col("batch") == batch)
        other = theirs.filter(
            pl.col("batch") == batch, pl.col("spare_domains").is_in(one["spare_domains"].to_list())
        )
        assert one.select(COLUMNS).rows() == other.select(COLUMNS).rows()


def test_what_means_nothing_is_no_row(tmp_path: Path) -> None:
    """A start that takes no time, a single sample, a policy without boost: no half of it is asked."""
    text = WHOLE.format(**{**AS_IT_STANDS, "samples": 1, "restart": 0, "redraws": 0})
    path = tmp_path / "bare.toml"
    path.write_text(text.replace("ntp-pw", "ntp"))
    found = set(built(tmp_path, path)["what_ifs"]["what_if"])
    assert {"half_repair", "double_repair", "half_interval", "double_interval", "double_samples"} <= found
    assert not found & {"half_restart", "double_restart", "half_samples", "half_boost", "full_boost"}
    assert not {name for name in found if name.startswith("redraw")}


def test_the_worst_nodes_never_fail(tmp_path: Path) -> None:
    """healthy_lemons is the same log without the worst hundredth of the nodes, at least one."""
    others = [
        f"n{node:03d},2025-03-01T0{node % 7}:00Z,2025-03-01T2{node % 4}:00Z,gpu," for node in range(1, 200, 3)
    ]
    # Two of 200 nodes are down longest. Excluded, they keep their places in the domains.
    lemons = [f"{node},2025-03-01T00:00Z,2025-03-02T00:00Z,host,worst" for node in ("n002", "n005")]
    (tmp_path / "log.csv").write_text("\n".join(["node,start,end,component,reason", *lemons, *others]) + "\n")
    for name, more in (("site", ""), ("less", 'exclude = ["worst"]')):
        (tmp_path / f"{name}.toml").write_text(SITE.replace("[cluster]", f"{more}\n[cluster]"))
    with_lemons, less = (built(tmp_path, tmp_path / f"{name}.toml") for name in ("site", "less"))

    mine = with_lemons["what_ifs"].filter(pl.col("what_if") == "healthy_lemons")
    for batch in ("elastic", "pause"):
        one = mine.filter(pl.col("batch") == batch)
        other = less["splits"].filter(
            pl.col("batch") == batch, pl.col("spare_domains").is_in(one["spare_domains"].to_list())
        )
        assert one.height == 2
        assert one.select(COLUMNS).rows() == other.select(COLUMNS).rows()


def test_the_worst_nodes_are_a_hundredth_by_downtime(tmp_path: Path) -> None:
    """Downtime decides, then outages, then the name; what lies before the window does not count."""
    (tmp_path / "log.csv").write_text(
        "node,start,end,component\n"
        "n009,2025-02-20T00:00Z,2025-03-01T02:00Z,gpu\n"  # 2 h of it lie in the window
        "n003,2025-03-01T00:00Z,2025-03-01T03:00Z,gpu\n"
        "n001,2025-03-01T05:00Z,2025-03-01T08:00Z,gpu\n"  # as long as n003, and one outage more
        "n001,2025-03-01T09:00Z,2025-03-01T09:00Z,gpu\n"
        "n004,2025-03-01T05:00Z,2025-03-01T07:59Z,gpu\n"
    )
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    found = timeline_tables(tmp_path, path)["worst_nodes"]
    assert found.select("node", "down_gpu_h", "outages").rows() == [("n001", 24.0, 2), ("n003", 24.0, 1)]


SITE = """
[trace]
source = "intervals"
path = "log.csv"
window = ["2025-03-01T00:00Z", "2025-03-03T00:00Z"]
[cluster]
nodes = 200
domain_size = 32
placement_seeds = [0, 1]
[job]
tp = 32
pp = 2
[costs]
checkpoint_interval_s = 1800
[[policy]]
name = "drop"
response = "dp-drop"
"""


def test_a_word_that_names_nothing_is_refused(tmp_path: Path) -> None:
    """A severity, an exclusion or a may_compute must name a component, or a reason that the log has."""
    with pytest.raises(InputError, match=r"exclude: 'gpuu' is no component.*\n.*\n.*did you mean 'gpu'"):
        outcomes(tmp_path, "typo", 'exclude = ["gpuu"]')


def test_a_reduced_response_needs_degrees(tmp_path: Path) -> None:
    """Ntp without reduced_tp would silently be dp-drop; the message gives an example."""
    path = tmp_path / "bare.toml"
    path.write_text(TEXT.format(more="").replace("dp-drop", "ntp"))
    with pytest.raises(
        InputError, match=r"reduced_tp: missing with response ntp(.|\n)*e.g. reduced_tp = \[24, 16\]"
    ):
        replay.check_policies(config.load(str(path)))
