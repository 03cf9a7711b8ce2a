"""The batch as a timer runs it: processes, signals, the lock, and the shipped units."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pipeline import cli, resources
from pipeline.batch import config, stop

if TYPE_CHECKING:
    from batch.conftest import Site

HOLDER = """
import sys
from pathlib import Path
from pipeline.lake.store import Lake
with Lake(Path(sys.argv[1])).lock():
    print("held", flush=True)
    sys.stdin.read()
"""
INSTALLED = "/opt/goodput/venv/bin/goodput"
PLACE = "/opt/goodput/site"
SECTIONS = {
    "goodput-batch.service": {
        "Unit": {"Description", "RequiresMountsFor"},
        "Service": {
            "Type", "User", "WorkingDirectory", "ExecStart", "SuccessExitStatus", "TimeoutStartSec",
            "TimeoutStopSec", "Nice", "IOSchedulingClass", "UMask", "NoNewPrivileges",
        },
    },
    "goodput-batch.timer": {
        "Unit": {"Description"},
        "Timer": {"OnCalendar", "RandomizedDelaySec", "Persistent"},
        "Install": {"WantedBy"},
    },
}  # fmt: skip


# -- the lock ------------------------------------------------------------------------------------


@pytest.fixture
def holder(site: Site) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the root until its standard input is closed."""
    root = str(site.lake.root)
    command = [sys.executable, "-c", HOLDER, root]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process


def test_a_held_root_is_left_alone(site: Site, holder: subprocess.Popen[str]) -> None:
    """One clear line, exit code 75, and nothing is written: the summary is the other run's."""
    result = site.run()
    assert (result.exit_code, result.status) == (75, "busy")
    assert [line["event"] for line in site.events] == ["root_busy"]
    assert "another run holds this root" in site.events[0]["found"]
    assert [path.name for path in site.lake.root.iterdir()] == [".lock"]
    assert "another run holds this root" in "\n".join(result.text())


def test_a_wait_ends_with_75_or_with_the_lock(site: Site, holder: subprocess.Popen[str]) -> None:
    """`wait_lock_s` is waited, no longer; a root that is released meanwhile is taken."""
    site.write(scenarios=(), more="wait_lock_s = 0.5")
    started_s = time.monotonic()
    assert site.run().exit_code == 75 and time.monotonic() - started_s >= 0.5
    assert [line["event"] for line in site.events] == ["waiting", "root_busy"]

    site.write(scenarios=(), more="wait_lock_s = 600")
    with subprocess.Popen(site.command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as second:
        assert json.loads(second.stderr.readline())["event"] == "waiting"
        holder.stdin.close()
        second.communicate(timeout=120)
    assert second.returncode == 0 and site.summary()["drops"][0]["files_ingested"] == 1


# -- signals -------------------------------------------------------------------------------------


def run_until(site: Site, number: int, when: Callable[[dict[str, Any]], bool]) -> tuple[int, dict[str, Any]]:
    """Run the command, send it a signal at the first log line that `when` likes; return code and JSON."""
    with subprocess.Popen(site.command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stderr:
            if when(json.loads(line)):
                process.send_signal(number)
                break
        else:
            pytest.fail("the line never came")
        out, rest = process.communicate(timeout=300)
    lines = [json.loads(line) for line in rest.splitlines()]
    assert lines[-1]["event"] == "batch_interrupted" and lines[-1]["exit_code"] == process.returncode
    return process.returncode, json.loads(out)


# Lines of a page that name runs, their times and the table of files, which holds when each was ingested.
CLOCK = re.compile(rb"^.*(?:\d{8}T\d{6}-[0-9a-f]{8}|>ingest/files<).*$", re.MULTILINE)


def built(site: Site) -> dict[str, bytes]:
    """Return every table and page, but for what knows the clock: `files`, runs, records and the summary."""
    root = site.lake.root
    folders = ("ingest", "timelines", "replay", "reports")
    paths = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    kept = {p.relative_to(root).as_posix(): p.read_bytes() for p in paths if p.name != "files.parquet"}
    assert len(CLOCK.findall(kept["reports/one/index.html"])) < 20, "the rest of the page is compared"
    return {name: CLOCK.sub(b"", data) if name.endswith(".html") else data for name, data in kept.items()}


@pytest.mark.slow
def test_a_stopped_night_goes_on_where_it_stopped(site: Site, tmp_path: Path) -> None:
    """Stopped while taking in, building and drawing, then run again: the bytes of an untouched night."""
    site.drop("second.csv", "node,start,end,component\nn04,2025-03-03T00:00Z,2025-03-03T12:00Z,gpu\n")
    other = type(site)(tmp_path / "other")
    ignore = shutil.ignore_patterns("other", "built")
    shutil.copytree(site.folder, other.folder, ignore=ignore)

    code, told = run_until(site, signal.SIGTERM, lambda line: line["event"] == "file_ingested")
    assert (code, told["status"], told["last_success_at"]) == (143, "interrupted", None)
    assert told["scenarios"][0]["status"] in {"not_started", "interrupted"}
    assert site.summary() == told

    code, told = run_until(site, signal.SIGTERM, lambda line: line.get("stage") == "timelines")
    assert code == 143 and told["scenarios"][0]["status"] == "interrupted" and told["cleaned"] is None

    code, told = run_until(site, signal.SIGINT, lambda line: line.get("text") == "report one")
    assert (code, told["exit_code"], told["checks"]["status"]) == (130, 130, "not_started")
    assert not list(site.lake.root.rglob(".*.tmp")), "nothing half is left"

    for one in (site, other):
        done = subprocess.run(one.command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert built(site) == built(other)


@pytest.mark.slow
def test_the_command_says_all_there_is_on_the_right_streams(site: Site) -> None:
    """The output is one JSON object, the published summary; stderr is JSON lines and nothing else."""
    done = subprocess.run(site.command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
    assert events[0] == "batch_started" and events[-1] == "batch_done"
    assert json.loads(done.stdout) == site.summary()
    scenario = site.summary()["scenarios"][0]
    assert scenario["ran"] == ["timelines", "replay", "catalog", "report"]
    assert site.lake.path(scenario["report"]).is_file()
    assert {row["policy"] for row in scenario["headline"]} == {"ntp"}


def test_a_signal_that_a_library_turns_into_an_error_still_stops(site: Site) -> None:
    """DuckDB raises its own error when a query is interrupted: the scenario did not fail, the night ends."""
    before = signal.getsignal(signal.SIGTERM)

    def interrupted(scenario: Any, lake: Any, watch: Any) -> Any:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(10)
        except stop.Stopped:
            os.kill(os.getpid(), signal.SIGTERM)  # sent again: a clean end is under way
            raise RuntimeError("Query interrupted") from None

    site.write(scenarios=("one.toml", "two.toml"))
    result = site.run(interrupted)
    assert (result.exit_code, site.summary()["exit_code"]) == (143, 143)
    assert [item.status for item in result.scenarios] == ["interrupted", "not_started"]
    assert not site.told("scenario_failed") and signal.getsignal(signal.SIGTERM) is before


def test_a_signal_at_the_end_changes_nothing() -> None:
    """The summary is being written: it takes a moment and is worth more than to be cut off."""
    stopping = stop.Stop()
    stopping.is_ending = True
    stopping.take(signal.SIGTERM)
    assert stopping.exit_code == 0


# -- usage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "found"),
    [([], "neither a scenario nor --batch"), (["demo", "--batch", "x.toml"], "a scenario and --batch")],
)
def test_one_of_scenario_and_batch(
    capsys: pytest.CaptureFixture[str], arguments: list[str], found: str
) -> None:
    """Neither and both are bad usage, with examples."""
    assert cli.main(["run", *arguments]) == 2
    assert found in (err := capsys.readouterr().err) and "goodput run --batch site.toml" in err


def test_the_root_of_the_command_wins(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    """`--root` wins over the file's `root`."""
    site.write(scenarios=())
    asked = site.folder / "asked"
    assert cli.main(["--root", str(asked), "--json", "run", "--batch", str(site.config)]) == 0
    assert (asked / "batch/summary.json").is_file() and not site.lake.root.exists()
    assert json.loads(capsys.readouterr().out)["status"] == "done"


@pytest.mark.parametrize(
    ("given", "expected"), [([], ""), (["ROOT=elsewhere"], '--root "elsewhere" ')], ids=["no ROOT", "ROOT"]
)
def test_make_batch_is_the_command(repo_root: Path, given: list[str], expected: str) -> None:
    """The file's root counts unless ROOT is given."""
    of_make = {"ROOT", "MAKEFLAGS", "MAKELEVEL"}  # a make that runs the tests
    bare = {key: value for key, value in os.environ.items() if key not in of_make}
    command = ["make", "-n", "batch", "BATCH=site.toml", *given]
    said = subprocess.run(command, cwd=repo_root, env=bare, capture_output=True, text=True, check=True).stdout
    assert " ".join(said.splitlines()[-1].split()) == f'.venv/bin/goodput {expected}run --batch "site.toml"'


# -- what is shipped -----------------------------------------------------------------------------


def shipped(name: str) -> str:
    """Return the text of a shipped file."""
    return (resources.folder("batch") / name).read_text(encoding="utf-8")


def unit(name: str) -> configparser.ConfigParser:
    """Return a systemd unit, read as the file it is."""
    parsed = configparser.ConfigParser(interpolation=None, delimiters=("=",), comment_prefixes=("#", ";"))
    parsed.optionxform = str
    parsed.read_string(shipped(name))
    return parsed


def at_site(text: str, site: Site) -> str:
    """Put this environment and this site in the place of the stated paths."""
    command = Path(sys.executable).parent / "goodput"
    assert command.is_file()
    return text.replace(INSTALLED, str(command)).replace(PLACE, str(site.folder))


@pytest.fixture
def sample(site: Site) -> Callable[..., None]:
    """Give the site the shipped configuration, with some texts replaced."""

    def write(*replaced: tuple[str, str]) -> None:
        text = shipped("site.toml")
        for old, new in replaced:
            assert text.count(old) == 1
            text = text.replace(old, new)
        site.config.write_text(text)

    return write


def test_the_sample_configuration_is_right_also_where_it_is_commented_out(tmp_path: Path) -> None:
    """All keys there are stand in the sample, and each is taken when its `#` is removed."""
    text = re.sub(r"^# (?=\w+ = )", "", shipped("site.toml"), flags=re.MULTILINE)
    path = tmp_path / "site.toml"
    path.write_text(text)
    (tmp_path / "xid.csv").write_text("code\n")
    real, document = config.read(path)
    batch = config.parse(real, document)
    assert batch.scenarios == ("demo",) and batch.drops[0].year == 2025
    optional = {item.name for item in config.dataclasses.fields(config.Drop)}
    assert document["drop"][0].keys() == optional
    keys = {item.name for item in config.dataclasses.fields(config.Batch)} - {"path", "drops"} | {"drop"}
    assert document.keys() == keys


@pytest.mark.parametrize("name", SECTIONS)
def test_units_hold_known_sections_and_keys(name: str) -> None:
    """A unit has no key beyond those that are meant; systemd would ignore a misspelt one."""
    parsed = unit(name)
    assert {section: set(parsed[section]) for section in parsed.sections()} == SECTIONS[name]


def test_systemd_takes_the_units(site: Site, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, and the timer's time is one."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("no systemd-analyze; the sections and keys are checked anyway")
    paths = []
    for name in SECTIONS:
        paths.append(tmp_path / name)
        paths[-1].write_text(at_site(shipped(name), site))
    done = subprocess.run([analyze, "verify", *paths], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    when = unit("goodput-batch.timer")["Timer"]["OnCalendar"]
    assert subprocess.run([analyze, "calendar", when], capture_output=True, check=False).returncode == 0


@pytest.mark.slow
def test_the_services_command_runs(site: Site, sample: Callable[..., None]) -> None:
    """ExecStart, as printed but for its paths, does a whole night from a bare environment."""
    sample(('["demo"]', '["one.toml"]'), ("settle_s = 60 ", "settle_s = 0 "))
    site.scenario("one.toml", cluster="default")
    service = unit("goodput-batch.service")["Service"]
    assert service["Type"] == "oneshot" and service["WorkingDirectory"] == PLACE
    assert service["SuccessExitStatus"] == "143"
    done = subprocess.run(
        shlex.split(at_site(service["ExecStart"], site)),
        cwd=at_site(service["WorkingDirectory"], site),
        env={"PATH": "/usr/bin:/bin", "HOME": str(site.folder)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "one: timelines, replay, catalog, report; reports/one/index.html" in done.stdout
    assert site.summary()["status"] == "done"


def test_the_cron_line_runs_and_speaks_only_of_failures(site: Site, sample: Callable[..., None]) -> None:
    """Five fields and a command that sh takes; silent after a good night, the summary after a bad one."""
    (line,) = [line for line in shipped("goodput.cron").splitlines() if line and not line.startswith("#")]
    *fields, command = line.split(None, 5)
    limits = (59, 23, 31, 12, 7)
    assert all(f == "*" or 0 <= int(f) <= most for f, most in zip(fields, limits, strict=True))
    assert "%" not in command, "cron takes it for a line break"
    sample(('["demo"]', "[]"))

    def night() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["/bin/sh", "-c", at_site(command, site)],
            cwd=site.folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(site.folder)},
            capture_output=True,
            text=True,
            check=False,
        )

    good = night()
    assert (good.stdout, good.stderr) == ("", "")
    assert site.summary()["drops"][0]["files_left"] == 1, "the log was dropped a moment ago"

    site.incoming.rename(site.folder / "moved")
    bad = night()
    assert bad.stdout.startswith("goodput batch: exit 2: ") and "incoming" in bad.stdout and not bad.stderr
    log = (site.folder / "batch.log").read_text().splitlines()
    assert [json.loads(line)["event"] for line in log].count("batch_done") == 2
