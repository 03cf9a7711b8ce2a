"""The walk-through of the README: a mixed drop folder of a made-up site goes to a page by one batch."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import duckdb
import pytest

from pipeline import cli, resources
from tests.samples import nvl72_site

SITE = resources.folder("samples") / "nvl72-site"


def test_the_site_is_the_one_that_is_generated() -> None:
    """The logs and the topology are written by tests/samples/nvl72_site.py, byte for byte."""
    for name, text in nvl72_site.files().items():
        assert (SITE / name).read_text(encoding="utf-8") == text, "run `python -m tests.samples.nvl72_site`"


@pytest.mark.slow
def test_a_mixed_drop_folder_goes_to_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Slurm gives the intervals, the kernel logs the causes: one outage a fault, and a page on 40 racks."""
    shutil.copytree(SITE, tmp_path / "site")
    root = tmp_path / "root"
    code = cli.main(["--json", "--root", str(root), "run", "--batch", str(tmp_path / "site" / "batch.toml")])
    told = json.loads(capsys.readouterr().out)
    assert code == 0
    events = len(nvl72_site.files()["incoming/slurm/2025-03.psv"].splitlines()) - 1
    assert [(drop["rows_read"], drop["rows_rejected"]) for drop in told["drops"]] == [(events, 0), (173, 0)]
    assert (root / "reports" / "site" / "index.html").is_file()
    with duckdb.connect(str(root / "goodput.duckdb"), read_only=True) as con:
        counts = con.execute(
            "select severity, count(*), count(*) filter (component = 'gpu') from outages group by severity"
        ).fetchall()
        parts = dict(con.execute("select part, count(*) from outage_rows group by part").fetchall())
        (domains,) = con.execute("select max(domain_id) + 1 from placements").fetchone() or (None,)
    # Every fault that the scheduler saw is one outage, its Xids are causes; jobs' Xids take nothing down; the
    # serviced rack is planned work, which this site counts.
    assert sorted(counts) == [("app", nvl72_site.APP_FAULTS, 0), ("down", events, 26)]
    assert parts == {"interval": events, "cause": 173 - nvl72_site.APP_FAULTS, "onset": nvl72_site.APP_FAULTS}
    assert domains == nvl72_site.RACKS
    walk = (resources.folder("samples").parents[1] / "README.md").read_text(encoding="utf-8")
    answers = [line for one in told["scenarios"] for line in one["lines"] if " batch: " in line]
    assert answers
    assert all(f"  {line}\n" in walk for line in answers), "README.md tells another answer"
