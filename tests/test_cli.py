"""The command: exit codes, messages, what runs again and what does not."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli, commands, resources
from pipeline.lake import stages
from pipeline.lake.store import Lake

LOG = """node,start,end,component,reason
n01,2024-01-03T00:00:00Z,2024-01-04T12:00:00Z,gpu,ecc
n02,2024-01-08T06:00:00Z,2024-01-08T18:00:00Z,nic,link
n01,2024-01-20T00:00:00Z,,gpu,ecc
n09,2024-01-22T00:00:00Z,2024-01-22T00:00:00Z,host,reboot
"""
SCENARIO = """
title = "Eight small domains"
[trace]
source = "intervals"
path = "log.csv"
window = ["2024-01-01T00:00Z", "2024-01-31T00:00Z"]
[cluster]
nodes = 16
domain_size = 16
placement_seeds = [0, 1]
[job]
tp = 16
pp = 2
[[policy]]
name = "drop"
response = "dp-drop"
[[policy]]
name = "ntp"
response = "ntp"
reduced_tp = [8]  # half a domain
"""
ALL = ["ingest", "timelines", "replay", "catalog", "report"]


@pytest.fixture
def case(tmp_path: Path) -> Path:
    """A folder with a scenario and its log."""
    (tmp_path / "case.toml").write_text(SCENARIO)
    (tmp_path / "log.csv").write_text(LOG)
    return tmp_path


@pytest.fixture
def goodput(case: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Call the command in process; return exit code, stdout, stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            code = cli.main(["--root", str(case / "root"), *arguments])
        except SystemExit as stopped:
            code = int(stopped.code or 0)
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def test_the_question_for_rejects_names_the_root(
    goodput: Callable[..., tuple[int, str, str]], case: Path
) -> None:
    """The command that is advised reads the tables that were just written."""
    (case / "bad.csv").write_text("node,start,end\nn1,soon,\n")
    code, out, _ = goodput("ingest", "intervals", str(case / "bad.csv"), "--tz", "UTC")
    assert (code, out.splitlines()[-1].split(' sql "')[0]) == (0, f"why: goodput --root {case / 'root'}")


def ran(goodput: Callable[..., tuple[int, str, str]], case: Path) -> list[str]:
    """Run the case and return the stages that ran."""
    code, out, err = goodput("--json", "-q", "run", str(case / "case.toml"))
    assert code == 0, err
    return json.loads(out)["ran"]


def test_a_second_run_does_nothing_and_a_change_runs_what_depends_on_it(
    case: Path, goodput, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stage runs when what it reads has changed in meaning, and no other stage runs."""
    queries = shutil.copytree(resources.folder("queries"), case / "queries")
    package = shutil.copytree(stages.PACKAGE, case / "package")
    shipped = resources.folder
    monkeypatch.setattr(resources, "folder", lambda name: queries if name == "queries" else shipped(name))
    monkeypatch.setattr(stages, "PACKAGE", package)

    def edit(path: Path, old: str, new: str) -> list[str]:
        text = path.read_text()
        assert old in text, f"{old!r} not in {path.name}"
        path.write_text(text.replace(old, new, 1))
        return ran(goodput, case)

    assert ran(goodput, case) == ALL
    assert ran(goodput, case) == []
    # One policy.
    assert edit(case / "case.toml", "reduced_tp = [8]", "reduced_tp = [12, 8]") == [
        "replay",
        "catalog",
        "report",
    ]
    assert edit(case / "case.toml", "tp = 16\npp", "tp  =  16\npp") == []
    # A comment: in a scenario the page shows it as a source, elsewhere it is only a comment.
    assert edit(case / "case.toml", "# half a domain", "# half of a domain") == ["report"]
    assert edit(queries / "2_timelines/outages.sql", "-- caveat:", "-- caveat: (again)") == []
    assert edit(package / "replay/engine.py", "# Capacity now", "# The capacity now") == []
    # One query: timelines that come out the same make nothing later stale, but the files they name.
    outages = queries / "2_timelines/outages.sql"
    assert edit(outages, "from joined\n", "from joined as joined\n") == ["timelines", "catalog"]
    compare = queries / "4_outcomes/compare.sql"
    assert edit(compare, "count(*) as placements", "count(*) + 0 as placements") == ["catalog", "report"]
    # One byte of the input: the fault of another component, then a later end.
    assert edit(case / "log.csv", "gpu,ecc", "hbm,ecc") == ALL
    assert edit(case / "log.csv", "04T12", "04T13") == ALL
    # The code of one stage (of a copy, so that the tables come out the same).
    assert edit(package / "replay/interval.py", "2 * mtbi_us", "3 * mtbi_us") == ["replay", "catalog"]
    assert ran(goodput, case) == []


def test_a_failed_run_leaves_the_last_good_catalog_and_page(case: Path, goodput) -> None:
    """Bad input exits 2 with one message, and what was published before is still readable."""
    assert ran(goodput, case) == ALL
    lake = Lake(case / "root")
    before = {
        path: path.read_bytes() for path in lake.root.rglob("*") if path.is_file() and path.name != ".lock"
    }
    (case / "log.csv").write_text(LOG.replace("2024-01-03T00:00:00Z", "2024-01-03T00:00:00"))

    code, out, err = goodput("run", str(case / "case.toml"))

    assert code == 2
    assert out == ""
    assert "times have no zone" in err
    assert "Traceback" not in err
    kept = {path: path.read_bytes() for path in before}
    assert kept == before
    assert not list(lake.root.rglob("*.tmp"))
    assert goodput("sql", "select count(*) as n from outcomes", "--format", "csv")[1].split() == ["n", "4"]


BAD = [
    (
        SCENARIO.replace("2024-01-01T00:00Z", "2023-01-01T00:00Z").replace("2024-01-31", "2023-01-31"),
        2,
        "outside",
    ),
    (SCENARIO.replace("nodes = 16", "nodes = 2"), 2, "smaller than one replica"),
    (SCENARIO.replace("tp = 16", "tp = 32"), 2, "at most domain_size"),
    (SCENARIO.replace("nodes =", "nodez ="), 2, "did you mean 'nodes'"),
    (SCENARIO.replace('response = "ntp"', 'response = "ntpw"'), 2, "did you mean 'ntp"),
    (SCENARIO.replace('"intervals"', '"interval"'), 2, "did you mean 'intervals'"),
    (SCENARIO.replace("log.csv", "gone.csv"), 2, "no such file"),
    (SCENARIO.replace('response = "dp-drop"', 'response = "rigid"\nbatch = "elastic"'), 2, "one of pause"),
    ("x = [", 2, "not valid TOML"),
]


@pytest.mark.parametrize(("text", "code", "said"), BAD)
def test_a_users_mistake_is_one_message(case: Path, goodput, text: str, code: int, said: str) -> None:
    """A wrong scenario exits with its code and one message, writes no data and shows no traceback."""
    (case / "case.toml").write_text(text)

    found, out, err = goodput("run", str(case / "case.toml"))

    assert (found, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
    assert not list((case / "root").rglob("*.duckdb"))
    made = [*(case / "root").glob("*/**/*.parquet"), *(case / "root").rglob("*.html")]
    assert {path.relative_to(case / "root").parts[0] for path in made} <= {"ingest", "runs"}


LOGS = [
    ("", "an empty file"),
    ("node,start,end\n", "no row"),
    ("a,b\n1,2\n", "header"),
    ("\x00\xff", "log.csv line 1: byte 0xff is not UTF-8"),
]


@pytest.mark.parametrize(("text", "said"), LOGS)
def test_a_useless_log_is_one_message(case: Path, goodput, text: str, said: str) -> None:
    """A log without a usable row exits 2 or 3 with one message and no traceback."""
    (case / "log.csv").write_bytes(text.encode("latin-1"))

    code, out, err = goodput("run", str(case / "case.toml"))

    assert code in {2, 3}
    assert out == ""
    assert "Traceback" not in err
    assert err.count("goodput:") == 1
    assert said in err


def test_usage_errors_name_the_nearest_command(goodput) -> None:
    """An unknown command exits 2 and names the closest one."""
    code, _, err = goodput("replays", "demo")

    assert code == 2
    assert "did you mean 'replay'" in err


@pytest.mark.parametrize("what", list(commands.LISTS))
def test_lists_come_from_the_code(goodput, what: str) -> None:
    """Each list prints a name and a line about it, as text and as one JSON object."""
    code, out, _ = goodput(what)
    assert code == 0
    assert all(len(line.split(None, 1)) == 2 for line in out.splitlines() if line)

    code, out, _ = goodput("--json", what)
    rows = json.loads(out)[what]
    assert code == 0
    assert rows
    assert all(row["name"] and row["about"] for row in rows)


def test_check_is_silent_on_good_data_and_doctor_finds_it_well(case: Path, goodput) -> None:
    """`check` prints nothing when every invariant holds; `doctor` exits 0."""
    assert ran(goodput, case) == ALL
    assert goodput("check") == (0, "", "")
    code, out, _ = goodput("doctor")
    assert code == 0
    assert "MEND" not in out


def test_doctor_sees_missing_files_and_mends_a_moved_root(case: Path, goodput) -> None:
    """A missing table is told with what to do; a moved root gets its catalog written anew."""
    assert ran(goodput, case) == ALL
    moved = case / "root"
    (case / "elsewhere").mkdir()
    shutil.move(moved, case / "elsewhere/root")
    shutil.move(case / "elsewhere/root", case / "moved")
    assert cli.main(["--root", str(case / "moved"), "doctor"]) == 0
    assert cli.main(["--root", str(case / "moved"), "sql", "select count(*) from outcomes"]) == 0

    next((case / "moved/replay").rglob("outcomes.parquet")).unlink()
    assert cli.main(["--root", str(case / "moved"), "doctor"]) == 1


def test_help_starts_within_ten_bare_interpreters() -> None:
    """`goodput --help` imports nothing heavy."""
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "pipeline", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    heavy = [
        name for name in ("polars", "pyarrow", "duckdb", "numpy", "altair", "tqdm") if f" {name}\n" in loaded
    ]
    assert heavy == []


@pytest.mark.parametrize("told", [KeyboardInterrupt(), RuntimeError("Query interrupted")])
def test_interrupted_exits_130(
    case: Path, goodput, monkeypatch: pytest.MonkeyPatch, told: BaseException
) -> None:
    """Ctrl-C, as Python and as DuckDB tell it, exits 130 with one line, and a rerun finishes the work."""
    from pipeline.timelines import run as timelines

    def stop(*_: object, **__: object) -> None:
        raise told

    with monkeypatch.context() as patched:
        patched.setattr(timelines, "stage", stop)
        code, _, err = goodput("run", str(case / "case.toml"))
    assert code == 130
    assert "Traceback" not in err
    assert ran(goodput, case) == ALL[1:]


def test_two_runs_into_one_root_wait_for_each_other(case: Path) -> None:
    """The second run into a root waits for the lock and says so."""
    lake = Lake(case / "root")
    command = [
        sys.executable,
        "-m",
        "pipeline",
        "--root",
        str(case / "root"),
        "timelines",
        str(case / "case.toml"),
    ]
    with lake.lock():
        second = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        time.sleep(2)
        assert second.poll() is None
    _, err = second.communicate(timeout=60)

    assert second.returncode == 0
    assert "waiting for another run" in err


def test_a_page_of_another_run_is_written_again(case: Path, goodput) -> None:
    """A file with a fixed name that is not as its record says (a kill, a hand) is made anew."""
    assert ran(goodput, case) == ALL
    page, catalog = case / "root/reports/case/index.html", case / "root/goodput.duckdb"
    good = page.read_bytes()
    page.write_text("junk")
    catalog.write_bytes(b"junk")

    assert ran(goodput, case) == ["catalog", "report"]
    assert page.read_bytes() == good
    assert goodput("doctor")[0] == 0


def test_a_damaged_table_is_built_again(case: Path, goodput) -> None:
    """A table whose bytes have changed is not read; its stage runs again."""
    assert ran(goodput, case) == ALL
    table = next((case / "root/timelines").rglob("gpu_downtime.parquet"))
    table.write_bytes(b"junk")
    assert goodput("doctor")[0] == 1

    assert ran(goodput, case)[0] == "timelines"
    assert goodput("doctor")[0] == 0


def test_an_outage_open_since_before_the_window_counts(case: Path, goodput) -> None:
    """A node that went down before the window and never came back is down throughout."""
    (case / "log.csv").write_text("node,start,end\nn01,2023-12-01T00:00:00Z,\n")
    assert ran(goodput, case) == ALL
    out = goodput("sql", "select distinct failed_gpus from cluster_timeline", "--format", "csv")[1]
    assert out.split() == ["failed_gpus", "8"]


BOUNDS = [
    (
        "[job]",
        "[costs]\ncheckpoint_interval_s = 0.5\ncheckpoint_save_s = 0.01\n[job]",
        "saves in the window",
    ),
    ('"drop"', '"dr\\u001bop"', "printable"),
    ("[0, 1]", "[99999999999999999999]", "at most"),
    ('"2024-01-01T00:00Z"', '"0001-01-01T00:00+10:00"', "instant of this era"),
]


@pytest.mark.parametrize(("old", "new", "said"), BOUNDS)
def test_values_beyond_all_bounds_are_one_message(case: Path, goodput, old: str, new: str, said: str) -> None:
    """Values that no table could hold exit 2 with one message."""
    text = SCENARIO.replace(old, new, 1)
    assert text != SCENARIO
    (case / "case.toml").write_text(text)
    code, _, err = goodput("run", str(case / "case.toml"))
    assert code == 2
    assert said in err
    assert "Traceback" not in err


def test_common_options_stand_anywhere(case: Path, goodput) -> None:
    """`--json` and `--root` work before and behind the command."""
    code, out, _ = goodput("scenarios", "--json")
    assert code == 0
    assert json.loads(out)["scenarios"]


def test_the_default_root_copies_the_page(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the default root, named or not, the page is also copied to reports/out."""
    monkeypatch.chdir(case)
    assert cli.main(["-q", "--root", "data/built", "run", "case.toml"]) == 0
    copied = case / "reports/out/case/index.html"
    assert copied.read_bytes() == (case / "data/built/reports/case/index.html").read_bytes()
