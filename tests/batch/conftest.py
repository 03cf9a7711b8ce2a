"""A site: a batch configuration, tiny scenarios and a drop folder; and ways to run it.

`Site.run` runs the batch in this process with a short chain: the events and a stand-in for the page, which
takes seconds to draw. `full` has the real stages between the two. `Site.command` is the real command.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from pipeline.batch import run as batch
from pipeline.batch.journal import Journal
from pipeline.batch.run import Watch
from pipeline.batch.summary import Summary
from pipeline.config import Scenario, load
from pipeline.ingest import run as ingest
from pipeline.ingest import topology
from pipeline.lake import catalog, stages
from pipeline.lake.store import Lake, Record, write_bytes
from pipeline.replay import run as replay
from pipeline.report.run import PAGE
from pipeline.timelines import run as timelines

HEADER = "node,start,end,component\n"
LOG = (
    HEADER
    + """n01,2025-03-01T02:00Z,2025-03-01T20:00Z,gpu
n02,2025-03-01T05:00Z,2025-03-01T05:30Z,nic
n03,2025-03-02T15:00Z,2025-03-02T18:00Z,host
"""
)
LATER = HEADER + "n04,2025-03-03T00:00Z,2025-03-03T12:00Z,gpu\n"
BAD_ROW = HEADER + "n05,2025-03-03T10:00Z,2025-03-03T08:00Z,gpu\n"
SCENARIO = """title = "Four domains for three days"
[trace]
source = "intervals"
cluster = "{cluster}"
window = ["2025-03-01T00:00Z", "2025-03-04T00:00Z"]
[cluster]
nodes = 8
domain_size = 16
[job]
tp = 16
[[policy]]
name = "ntp"
response = "ntp"
reduced_tp = [8]
"""
CONFIG = """scenarios = {scenarios}
root = "built"
settle_s = {settle_s}
{more}
[[drop]]
source = "intervals"
path = "incoming"
cluster = "a"
{drop}
"""
STAGES = ["timelines", "replay", "catalog", "report"]


def short(name: str, lake: Lake, watch: Watch) -> Record:
    """The events of a scenario, then a page of their hash."""
    scenario = load(name)
    events, ran = ingest.stage(lake, scenario, watch.log)
    watch.note("ingest", ran)
    return _page(scenario, lake, watch, [stages.content(record, "events") for record in events])


def full(name: str, lake: Lake, watch: Watch) -> Record:
    """All stages of a scenario, but for the page."""
    scenario = load(name, lambda trace: topology.kept(lake, trace))
    events, ran = ingest.stage(lake, scenario, watch.log)
    watch.note("ingest", ran)
    lines, ran = timelines.stage(lake, scenario, events, watch.log)
    watch.note("timelines", ran)
    ledgers, ran = replay.stage(lake, scenario, lines, watch.log)
    watch.note("replay", ran)
    _, ran = catalog.stage(lake, watch.log, scenario.name)
    watch.note("catalog", ran)
    return _page(scenario, lake, watch, stages.content(ledgers))


def _page(scenario: Scenario, lake: Lake, watch: Watch, read: Any) -> Record:
    def build(_: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        path = lake.path("reports", scenario.name, PAGE)
        write_bytes(path, json.dumps(read).encode())
        return {PAGE: path}, {"headline": [{"goodput_frac": 0.5}], "lines": ["ntp keeps half", "  detail"]}

    inputs = {"read": read}
    record, ran = stages.run(
        lake, "report", scenario.name, inputs=inputs, code="1", build=build, log=watch.log
    )
    watch.note("report", ran)
    return record


@dataclass
class Site:
    """A folder with a configuration; `events` are the log lines of the last run."""

    folder: Path
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def config(self) -> Path:
        """The configuration."""
        return self.folder / "site.toml"

    @property
    def incoming(self) -> Path:
        """The drop folder."""
        return self.folder / "incoming"

    @property
    def lake(self) -> Lake:
        """The root."""
        return Lake(self.folder / "built")

    @property
    def command(self) -> list[str]:
        """The command of a timer."""
        return [sys.executable, "-m", "pipeline", "--json", "run", "--batch", str(self.config)]

    def write(
        self,
        *,
        scenarios: tuple[str, ...] = ("one.toml",),
        settle_s: float = 0,
        more: str = "",
        drop: str = "",
    ) -> None:
        """Write the configuration."""
        text = CONFIG.format(scenarios=list(scenarios), settle_s=settle_s, more=more, drop=drop)
        self.config.write_text(text)

    def scenario(self, name: str, text: str = SCENARIO, cluster: str = "a") -> None:
        """Write a scenario on the dropped logs of a cluster."""
        (self.folder / name).write_text(text.format(cluster=cluster))

    def drop(self, name: str, text: str = LOG) -> Path:
        """Drop a log."""
        path = self.incoming / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def run(self, build: Callable[[str, Lake, Watch], Record] = short, *, quiet: bool = False) -> Summary:
        """Run the batch here and return how it went."""
        stream = io.StringIO()
        result = batch.run(
            self.config,
            asked_root=None,
            default_root=self.folder / "default",
            build=build,
            journal=Journal(stream, quiet=quiet),
        )
        self.events = [json.loads(line) for line in stream.getvalue().splitlines()]
        return result

    def told(self, event: str) -> list[dict[str, Any]]:
        """Return the log lines of an event."""
        return [line for line in self.events if line["event"] == event]

    def summary(self) -> dict[str, Any]:
        """Return the published summary."""
        return json.loads(self.lake.path("batch", "summary.json").read_text())


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A site with one scenario and one log."""
    made = Site(tmp_path)
    made.write()
    made.scenario("one.toml")
    made.drop("first.csv")
    return made
