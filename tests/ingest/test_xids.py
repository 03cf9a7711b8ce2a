"""The table of Xid codes, the shipped one and a user's own."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import polars as pl
import pytest

from pipeline import cli
from pipeline.errors import InputError
from pipeline.ingest import xids
from pipeline.ingest.parsing import Options
from pipeline.lake.store import Lake

HEADER = "code,severity,scope,component\n"
SCENARIO = """
[trace]
source = "xid"
path = "kern.log"
xid_table = "ours.csv"
window = ["2025-03-01T00:00Z", "2025-03-05T00:00Z"]
[cluster]
nodes = 2
domain_size = 8
[job]
tp = 8
[[policy]]
name = "p"
response = "dp-drop"
"""


def test_the_hash_in_the_code_is_that_of_the_shipped_table() -> None:
    """Another table is another version of the stages that read it: write its hash into TABLE_SHA256."""
    assert hashlib.sha256(xids.TABLE.read_bytes()).hexdigest() == xids.TABLE_SHA256


@pytest.mark.shared
def test_the_shipped_table_agrees_with_the_catalogue(shared_data: Path) -> None:
    """Codes that end the application or need a reset say so; a code that is unused is not listed."""
    table = xids.table(Options())
    effects = {"app_only": "app", "gpu_reset": "down", "node_down": "down", "follow_other_xid": "info"}
    with (shared_data / "xid" / "xid_catalog.csv").open() as file:
        for row in csv.DictReader(file):
            code, effect = int(row["xid"]), row["proposed_effect"]
            assert (code in table.codes) == (effect != "unknown" or code == 108)
            if effect in effects:
                assert table.codes[code].severity == effects[effect], code


@pytest.mark.shared
def test_every_rule_of_nvlink5_is_followed(shared_data: Path) -> None:
    """A line made from a rule means what the rule says, whatever word the driver prints."""
    table = xids.table(Options())
    with (shared_data / "xid" / "xid_144_150_subcodes.csv").open() as file:
        for row in csv.DictReader(file):
            first = int(row["intrinfo_v2"].replace("-", "0"), 2)
            for unit in row["unit"].split("/"):
                text = f"{unit}  Nonfatal XC0 i0 Link 03 (0x{first:08x} {row['error_status']} 0x0)"
                found = table.meaning(int(row["xid"]), text)
                assert (found.severity == "down") == (row["resolution"] == "RESET_GPU"), row


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000008 0x1 0x0)", "info"),
        ("RLW_REMAP Nonfatal XC0 i0 Link 13 (0x00000082 0x00000041 0x1 0x0)", "down"),
        ("RLW_NEW Fatal XC0 i0 Link 13 (0x00000082 0x00000041 0x1 0x0)", "down"),
        ("RLW_NEW Nonfatal XC0 i0 Link 13 (0x00000082 0x00000041 0x1 0x0)", "info"),
        ("", "degraded"),
    ],
)
def test_where_no_rule_fits_exactly_bits_then_words_decide(text: str, severity: str) -> None:
    assert xids.meaning(145, text, Options()).severity == severity


def test_a_table_of_the_user_s_takes_the_place_of_the_shipped_one() -> None:
    mine = Options(xid_table=f"# ours\n{HEADER}79,degraded,gpu,gpu\n")
    assert xids.meaning(79, "", mine).severity == "degraded"
    assert xids.meaning(119, "", mine) == xids.UNKNOWN
    assert xids.meaning(79, "", Options()).scope == "node"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no codes"),
        (HEADER, "no codes"),
        ("code,severity,scope\n", "line 1: no column 'component'"),
        ("code,severity,scope,component,sevrity\n", "line 1: column 'sevrity'"),
        (f"# x\n{HEADER}79,downn,gpu,gpu\n", "line 3 column severity: found 'downn'"),
        (f"{HEADER}79,down,gpus,gpu\n", "line 2 column scope"),
        (f"{HEADER}79,down,gpu,fan\n", "line 2 column component"),
        (f"{HEADER}x,down,gpu,gpu\n", "line 2 column code"),
        (f"{HEADER}79,down,gpu,gpu\n79,down,gpu,gpu\n", "line 3 column code: 79 twice"),
        (f"{HEADER}79,down,gpu\n", "line 2: 3 fields"),
        (f'{HEADER}79,"down,gpu,gpu\n', "not valid CSV"),
        ("code,unit,subcode,status,severity,scope,component\n144,U,64,0x0,down,gpu,gpu\n", "column subcode"),
        ("code,unit,subcode,status,severity,scope,component\n144,U,1,1,down,gpu,gpu\n", "column status"),
        ("code,unit,subcode,status,severity,scope,component\n144,,1,,down,gpu,gpu\n", "column unit"),
    ],
)
def test_a_mistake_in_a_table_names_its_line_and_column(text: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        xids.parse(text, "--xid-table")


def test_a_scenario_names_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path is relative to the scenario file; a missing one is told with its key."""
    scenario = tmp_path / "s.toml"
    scenario.write_text(SCENARIO)
    (tmp_path / "kern.log").write_text("2025-03-01T10:00:00Z n1 kernel: NVRM: Xid (PCI:0000:3b:00): 13, x\n")
    call = ["--root", str(tmp_path / "root"), "timelines", str(scenario)]

    assert cli.main(call) == 2
    assert "s.toml [trace] xid_table: cannot be read" in capsys.readouterr().err
    (tmp_path / "ours.csv").write_text(f"{HEADER}13,down,gpu,gpu\n")
    assert cli.main(call) == 0, capsys.readouterr().err
    lake = Lake(tmp_path / "root")
    record = lake.record("timelines", "s")
    assert record is not None
    assert pl.read_parquet(lake.table(record, "outages"))["severity"].to_list() == ["down"]
