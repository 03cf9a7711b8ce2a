"""What-ifs: leaving a component out is the same as a scenario that excludes it."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipeline import config
from pipeline.errors import InputError
from pipeline.ingest import run as ingest
from pipeline.lake.store import Lake
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
    lake, scenario = Lake(folder / "root"), config.load(str(path))

    def quiet(_: str) -> None:
        pass

    events, _ = ingest.stage(lake, scenario, quiet)
    made, _ = timelines.stage(lake, scenario, events, quiet)
    record, _ = replay.stage(lake, scenario, made, quiet)
    return {table: pl.read_parquet(lake.table(record, table)) for table in record.outputs}


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
