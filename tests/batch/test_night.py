"""A night: what is taken in and built, what fails alone, what is said about it."""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path

import pytest
from batch.conftest import BAD_ROW, LATER, LOG, SCENARIO, STAGES, Site, full, short

from pipeline.batch import drops, summary
from pipeline.batch.summary import Summary
from pipeline.errors import InputError
from pipeline.lake import checks
from pipeline.lake.store import now


def test_nights_do_only_what_is_new(site: Site) -> None:
    """First all, then nothing; a copy under a new name: nothing; a new file: what reads it."""
    first = site.run(full)
    assert (first.exit_code, first.scenarios[0].ran) == (0, STAGES)
    assert (first.drops[0].files_ingested, first.drops[0].rows_read, first.drops[0].rows_accepted) == (
        1,
        3,
        3,
    )

    second = site.run(full)
    assert (second.exit_code, second.scenarios[0].ran) == (0, [])
    assert (second.drops[0].files_ingested, second.drops[0].files_skipped) == (0, 1)
    assert not site.told("stage_done") and site.told("file_skipped")

    site.drop("sent-again.csv", LOG)
    again = site.run(full)
    assert (again.drops[0].files_found, again.drops[0].files_skipped, again.scenarios[0].ran) == (2, 2, [])

    site.drop("below/second.csv", LATER)
    new = site.run(full)
    assert (new.drops[0].files_ingested, new.scenarios[0].ran) == (1, STAGES)
    assert [line["file"] for line in site.told("file_ingested")] == ["below/second.csv"]


def test_a_new_file_rebuilds_only_the_scenarios_that_read_it(site: Site) -> None:
    """A scenario on another cluster's logs stays as it is."""
    other = '\n[[drop]]\nsource = "intervals"\npath = "other"\ncluster = "b"\n'
    site.write(scenarios=("one.toml", "two.toml"), drop=other)
    site.scenario("two.toml", cluster="b")
    (site.folder / "other").mkdir()
    (site.folder / "other/log.csv").write_text(LOG)
    site.run(full)
    site.drop("second.csv", LATER)

    result = site.run(full)

    assert [item.ran for item in result.scenarios] == [STAGES, []]


def test_a_file_that_is_being_written_waits_for_the_next_night(site: Site) -> None:
    """What changed a moment ago is left and counted, whatever its own time says; once settled it is taken."""
    site.write(settle_s=3600)
    os.utime(site.incoming / "first.csv", (0, 0))  # as a copy that keeps the original's time

    early = site.run()
    assert early.drops[0].files_left == 1 and early.drops[0].left == ["first.csv"]
    assert early.drops[0].files_ingested == 0 and site.told("file_left")[0]["file"] == "first.csv"
    assert early.scenarios[0].status == "failed", "a scenario without events is no success"

    site.write(settle_s=0)
    assert site.run().drops[0].files_ingested == 1


def test_one_broken_scenario_stops_no_other(site: Site) -> None:
    """The two others are built, the exit code is the broken one's, the summary names the key."""
    site.write(scenarios=("one.toml", "broken.toml", "three.toml"))
    site.scenario("broken.toml", SCENARIO.replace("domain_size", "domian_size"))
    site.scenario("three.toml")

    result = site.run()

    assert result.exit_code == 2
    assert [item.status for item in result.scenarios] == ["done", "failed", "done"]
    told = site.summary()
    assert told["exit_code"] == 2 and told["status"] == "failed" and told["last_success_at"] is None
    assert "domian_size" in told["scenarios"][1]["error"]["where"]
    assert told["scenarios"][1]["error"]["hint"] == "did you mean 'domain_size'?"
    assert told["scenarios"][2]["report"] == "reports/three/index.html"
    assert site.lake.path(told["scenarios"][2]["report"]).is_file()
    assert told["scenarios"][2]["headline"] == [{"goodput_frac": 0.5}]
    assert [line["scenario"] for line in site.told("scenario_failed")] == ["broken"]


def test_without_keep_going_the_first_failure_ends_the_night(site: Site) -> None:
    """What comes after it has not started; checks and cleaning do not run."""
    site.write(scenarios=("broken.toml", "one.toml"), more="keep_going = false")

    result = site.run()

    assert result.exit_code == 2 and site.told("batch_halted")
    assert [item.status for item in result.scenarios] == ["failed", "not_started"]
    assert result.checks.status == "not_started" and result.cleaned is None


def test_a_broken_file_stops_no_other(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty, cut off, gone since it was listed: each is told by its name, and the good one is taken."""
    site.drop("empty.csv", "")
    (site.incoming / "cut.csv.gz").write_bytes(b"\x1f\x8b\x08half")
    site.drop("gone.csv", LATER)
    listed = drops.listed

    def vanishing(place: str):
        found = listed(place)
        (site.incoming / "gone.csv").unlink()
        return found

    monkeypatch.setattr(drops, "listed", vanishing)

    result = site.run()

    taken = result.drops[0]
    assert (taken.files_found, taken.files_ingested, taken.files_failed) == (4, 1, 3)
    assert [item["file"] for item in taken.failed] == ["cut.csv.gz", "empty.csv", "gone.csv"]
    assert "uncompressed" in taken.failed[0]["found"] and "No such file" in taken.failed[2]["found"]
    assert result.exit_code == 2 and result.scenarios[0].status == "done"


def test_strict_ends_with_1_every_night_until_the_file_is_mended(site: Site) -> None:
    """A rejected row of a strict drop is a bar not met, also of a file that is known; the rest is done."""
    site.drop("bad.csv", LATER + BAD_ROW.removeprefix("node,start,end,component\n"))
    lenient = site.run()
    assert (lenient.exit_code, lenient.drops[0].rows_rejected) == (0, 1)
    assert lenient.drops[0].rejected == [{"file": "bad.csv", "rows_rejected": 1}]

    site.write(drop="strict = true")
    for _ in range(2):
        strict = site.run()
        assert strict.exit_code == 1 and strict.drops[0].status == "failed"
        assert (
            "bad.csv" in strict.drops[0].error["where"]
            and "1 rows rejected" in strict.drops[0].error["found"]
        )
        assert strict.scenarios[0].status == "done"
        assert strict.last_success_at == lenient.last_success_at, "the last good night is remembered"

    (site.incoming / "bad.csv").write_text(LATER)
    assert site.run().exit_code == 0


def test_an_empty_drop_is_fine_and_an_absent_one_is_named(site: Site) -> None:
    """No file yet is no error; a folder that is not there may be a typo, and the other drop is taken."""
    absent = '\n[[drop]]\nsource = "intervals"\npath = "incomming"\n'
    site.write(drop=absent)
    (site.incoming / "first.csv").rename(site.folder / "first.csv")
    result = site.run()
    assert result.exit_code == 2
    assert (result.drops[0].status, result.drops[0].files_found) == ("done", 0)
    assert result.drops[1].error["where"].endswith("incomming")

    site.write(scenarios=(), drop='\n[[drop]]\nsource = "intervals"\npath = "incoming/*.json"\n')
    assert site.run().exit_code == 0, "a pattern that nothing matches is as good as an empty folder"


def test_a_folder_that_may_not_be_read_is_not_taken_for_empty(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to read, nothing would be found night after night."""
    monkeypatch.setattr(drops.os, "access", lambda *_: False)
    with pytest.raises(InputError, match="may not be read"):
        drops.listed(str(site.incoming))


def test_a_broken_invariant_ends_with_1(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rules of `goodput check` run after the scenarios; a broken one is told in log and summary."""
    monkeypatch.setattr(checks, "all_records", lambda _: ["one: a rule is broken"])
    result = site.run()
    assert result.exit_code == 1 and site.told("check_broken")[0]["text"] == "one: a rule is broken"
    assert site.summary()["checks"] == {
        "status": "failed",
        "exit_code": 1,
        "broken": ["one: a rule is broken"],
    }


def test_a_mistake_of_ours_ends_with_70_and_its_traceback_in_the_log(site: Site) -> None:
    """A bug in one scenario is no traceback on stderr and stops no other scenario."""
    site.write(scenarios=("one.toml", "two.toml"))
    site.scenario("two.toml")

    def buggy(name, lake, watch):
        if Path(name).stem == "one":
            raise ZeroDivisionError
        return short(name, lake, watch)

    result = site.run(buggy)

    assert result.exit_code == 70 and [item.status for item in result.scenarios] == ["failed", "done"]
    assert "ZeroDivisionError" in site.told("scenario_failed")[0]["traceback"]


@pytest.mark.parametrize(
    ("codes", "worst"),
    [([], 0), ([0, 75], 75), ([3, 0, 1], 1), ([1, 2, 3], 2), ([70, 2], 70), ([143, 70], 143)],
)
def test_the_exit_code_is_the_worst(codes: list[int], worst: int) -> None:
    """Stopped, a bug, bad input, a check, no data, busy, done: in this order."""
    assert summary.worst(codes) == worst


def test_the_summary_says_when_and_keeps_the_last_good_night(site: Site) -> None:
    """`last_success_at` is this night's end after a good night, and stays after a bad one."""
    site.run()
    good = site.summary()
    assert good["last_success_at"] == good["ended_at"] >= good["started_at"] and good["duration_s"] > 0
    site.drop("empty.csv", "")
    site.run()
    bad = site.summary()
    assert bad["status"] == "failed" and bad["last_success_at"] == good["last_success_at"]


def test_the_summary_is_replaced_as_a_whole(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """When its writing fails the old one stays, no half file is left, and the exit code tells."""
    site.run()
    before = site.lake.path("batch/summary.json").read_bytes()
    real = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == "summary.json":
            raise OSError(28, "No space left on device", str(target))
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    result = site.run()
    assert result.exit_code == 2 and site.told("batch_failed")[0]["found"] == "No space left on device"
    assert site.lake.path("batch/summary.json").read_bytes() == before
    assert [path.name for path in site.lake.path("batch").iterdir()] == ["summary.json"]


def test_every_log_line_has_instant_level_and_event(site: Site) -> None:
    """Lines are objects in order of time, also for a warning of a library; `quiet` keeps what is wrong."""

    def warns(name, lake, watch):
        warnings.warn("old habit", DeprecationWarning, stacklevel=1)
        return short(name, lake, watch)

    site.drop("empty.csv", "")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        site.run(warns)
    assert all({"t", "level", "event"} <= line.keys() for line in site.events)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["t"]) for line in site.events)
    assert [line["t"] for line in site.events] == sorted(line["t"] for line in site.events)
    names = [line["event"] for line in site.events]
    assert names[0] == "batch_started" and names[-1] == "batch_done"
    assert {"file_ingested", "file_failed", "drop_done", "stage_done", "scenario_done"} <= set(names)
    assert site.told("python_warning")[0]["text"] == "old habit"

    site.run(quiet=True)
    assert {line["level"] for line in site.events} == {"error"}


def test_people_get_a_short_summary(site: Site) -> None:
    """The text names each drop, scenario and failure, then the exit code."""
    site.drop("empty.csv", "")
    text = "\n".join(site.run().text())
    assert "incoming (intervals): 2 files: 1 ingested, 0 known, 0 still being written, 1 failed" in text
    assert "  empty.csv: an empty file" in text
    assert "one: report; reports/one/index.html\n  ntp keeps half" in text
    assert "detail" not in text and text.endswith("failed, exit 2")


def test_a_number_that_is_none_is_null_in_the_summary(site: Site) -> None:
    """A headline with NaN does not cost the summary."""
    result = Summary("x", started_at=now())
    result.ended_at = result.started_at
    result.scenarios = [summary.ScenarioResult("s", headline=[{"a_frac": float("nan")}])]
    assert json.loads(json.dumps(result.plain(), allow_nan=False))["scenarios"][0]["headline"] == [
        {"a_frac": None}
    ]


NODES = "node,domain\n" + "".join(f"n{number:02},rack{number // 2}\n" for number in range(8))
RACKED = SCENARIO.replace("nodes = 8\n", 'placement = "topology"\n')


def test_a_drop_brings_its_topology(site: Site) -> None:
    """It is kept for the drop's cluster, read anew each night, and no log though it lies among them."""
    site.scenario("one.toml", RACKED)
    assert "placement is 'topology'" in str(site.run(full).scenarios[0].error), "none yet"
    site.write(drop='topology = "incoming/racks.csv"')
    site.drop("racks.csv", NODES)

    first = site.run(full)
    assert (first.exit_code, first.drops[0].files_found, first.scenarios[0].ran) == (0, 1, STAGES)
    (kept,) = site.told("topology_kept")
    assert (kept["domains"], kept["nodes"], kept["outside_topology"], kept["never_seen"]) == (4, 8, 0, 5)
    assert site.run(full).scenarios[0].ran == []

    site.drop("racks.csv", NODES.replace("n07,rack3", "n07,rack0").replace("n00,rack0", "n00,rack3"))
    assert site.run(full).scenarios[0].ran[:2] == STAGES[:2], "another topology makes the timelines stale"


def test_a_topology_that_is_absent_or_being_written_fails_no_log(site: Site) -> None:
    """The logs are taken; an absent one ends the night with 2, a young one waits for the next."""
    site.write(drop='topology = "racks.csv"')
    absent = site.run()
    assert (absent.exit_code, absent.drops[0].files_ingested) == (2, 1)
    assert "racks.csv" in str(absent.drops[0].error)

    (site.folder / "racks.csv").write_text(NODES)
    site.write(settle_s=3600, drop='topology = "racks.csv"')
    young = site.run()
    assert (young.exit_code, young.drops[0].left) == (0, ["first.csv", "racks.csv"])
    assert not site.told("topology_kept")
