"""What each command of `goodput` does: calls of the stages in order, and lists.

The stages meet only in files and in the records that name them; this module hands the records from
one stage to the next.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import CheckFailedError, InputError, NoDataError, listed, nearest

if TYPE_CHECKING:
    from pipeline.batch.run import Watch
    from pipeline.config import Scenario
    from pipeline.lake.store import Lake, Record

DEFAULT_ROOT = Path("data/built")
FORMATS = ("table", "csv", "json", "parquet", "markdown")
REPORT_FORMATS = ("html", "png", "svg", "csv")
LISTS = {
    "sources": "list the log formats that can be read",
    "policies": "list the responses a policy can name",
    "presets": "list the synthetic failure models",
    "queries": "list the tables and macros of the catalog",
    "figures": "list the figures of the report",
    "scenarios": "list the shipped scenarios",
    "keys": "list every key of a scenario with its default and meaning",
}


class Session:
    """One call: the lake, where to log, what to print."""

    def __init__(self, options: argparse.Namespace) -> None:
        from pipeline.lake.store import Lake

        self.options = options
        self.root: Path = options.root or DEFAULT_ROOT
        self.lake: Lake = Lake(self.root)
        self.ran: list[str] = []

    def log(self, text: str) -> None:
        """Write a log line to stderr."""
        if not self.options.quiet:
            print(f"  {text}", file=sys.stderr)

    def note(self, stage: str, ran: bool) -> None:
        """Remember that a stage ran."""
        if ran:
            self.ran.append(stage)

    def progress(self, items: Iterable[Any], what: str) -> Iterable[Any]:
        """Show a progress bar on a terminal."""
        if self.options.quiet or not sys.stderr.isatty():
            return items
        from tqdm import tqdm

        bar: Iterable[Any] = tqdm(items, desc=f"  {what}", leave=False)
        return bar

    def locked(self) -> Any:
        """Return the root's write lock as a context."""
        return self.lake.lock(lambda: self.log("waiting for another run that writes to this root"))

    @property
    def copy_to(self) -> Path | None:
        """Where the page is copied to: `reports/out` beside the default root."""
        return Path("reports/out") if self.root == DEFAULT_ROOT else None


class _Watched(Session):
    """The session of one scenario in a batch, which takes its log lines and the names of its stages."""

    def __init__(self, options: argparse.Namespace, scenario: str, lake: Lake, watch: Watch) -> None:
        super().__init__(argparse.Namespace(**{**vars(options), "scenario": scenario, "root": lake.root}))
        self.watch = watch

    def log(self, text: str) -> None:
        """Hand a log line to the batch."""
        self.watch.log(text)

    def note(self, stage: str, ran: bool) -> None:
        """Hand the end of a stage to the batch."""
        self.watch.note(stage, ran)

    def progress(self, items: Iterable[Any], what: str) -> Iterable[Any]:  # noqa: ARG002
        """Show no progress: nobody looks."""
        return items


def call(options: argparse.Namespace) -> int:
    """Run the command that was asked for and return its exit code."""
    session = Session(options)
    if options.command in LISTS and options.command != "sources":
        return _list(session)
    command: Callable[[Session], int] = globals()[f"_{options.command}"]
    return command(session)


def _print(session: Session, plain: Iterable[str], data: dict[str, Any]) -> None:
    if session.options.json:
        print(json.dumps(data, default=str, allow_nan=False))
    else:
        for line in plain:
            print(line)


# -- stages ------------------------------------------------------------------------------------


def _events(session: Session, scenario: Scenario) -> list[Record]:
    from pipeline.ingest import run as ingest

    records, ran = ingest.stage(session.lake, scenario, session.log)
    session.note("synth" if scenario.trace.is_synthetic else "ingest", ran)
    return records


def _timelines_record(session: Session, scenario: Scenario) -> tuple[list[Record], Record]:
    from pipeline.timelines import run as timelines

    events = _events(session, scenario)
    record, ran = timelines.stage(session.lake, scenario, events, session.log)
    session.note("timelines", ran)
    return events, record


def _replay_record(session: Session, scenario: Scenario) -> tuple[list[Record], Record, Record]:
    from pipeline.replay import run as replay

    replay.check_policies(scenario)
    events, timelines = _timelines_record(session, scenario)
    record, ran = replay.stage(session.lake, scenario, timelines, session.log, session.progress)
    session.note("replay", ran)
    return events, timelines, record


def _catalog(session: Session, scenario: str = "") -> None:
    from pipeline.lake import catalog

    _, ran = catalog.stage(session.lake, session.log, scenario)
    session.note("catalog", ran)


def _scenario(session: Session) -> Scenario:
    from pipeline import config

    def ingested(trace: config.Trace) -> Path | None:
        from pipeline.ingest import topology

        return topology.kept(session.lake, trace)

    return config.load(session.options.scenario, ingested)


def _finish(session: Session, scenario: Scenario) -> int:
    _catalog(session, scenario.name)
    done = ", ".join(session.ran)
    text = f"done: {done}" if session.ran else "nothing to do: everything is current"
    _print(session, [text], {"scenario": scenario.name, "ran": session.ran})
    return 0


def _synth(session: Session) -> int:
    scenario = _scenario(session)
    if not scenario.trace.is_synthetic:
        raise InputError(f"{scenario.path.name} [trace]", "no preset", "a scenario with a synthetic trace")
    with session.locked():
        _events(session, scenario)
        return _finish(session, scenario)


def _timelines(session: Session) -> int:
    scenario = _scenario(session)
    with session.locked():
        _timelines_record(session, scenario)
        return _finish(session, scenario)


def _replay(session: Session) -> int:
    scenario = _scenario(session)
    with session.locked():
        _replay_record(session, scenario)
        return _finish(session, scenario)


def _report(session: Session) -> int:
    from pipeline.report import run as report

    formats = [part.strip() for part in session.options.format.split(",") if part.strip()]
    for part in formats:
        if part not in REPORT_FORMATS:
            hint = nearest(part, REPORT_FORMATS)
            raise InputError("--format", f"found {part!r}", f"a list out of {listed(REPORT_FORMATS)}", hint)
    code = _run_scenario(session)
    others = [part for part in formats if part != "html"]
    if others:
        scenario = _scenario(session)
        with session.locked():
            for path in report.render(session.lake, scenario, others):
                print(path, file=sys.stderr if session.options.json else sys.stdout)
    return code


def _run(session: Session) -> int:
    scenario, batch = session.options.scenario, session.options.batch
    if (scenario is None) == (batch is None):
        found = "neither a scenario nor --batch" if batch is None else "a scenario and --batch"
        hint = "for example: goodput run demo, or goodput run --batch site.toml"
        raise InputError("run", found, "one of them", hint)
    return _run_scenario(session) if batch is None else _run_batch(session)


def _run_batch(session: Session) -> int:
    from pipeline.batch import run as batch
    from pipeline.batch.journal import Journal

    options = session.options

    def build(scenario: str, lake: Lake, watch: Watch) -> Record:
        one = _Watched(options, scenario, lake, watch)
        return _report_record(one, _scenario(one))

    result = batch.run(
        options.batch,
        asked_root=options.root,
        default_root=DEFAULT_ROOT,
        build=build,
        journal=Journal(sys.stderr, quiet=options.quiet),
    )
    _print(session, result.text(), result.plain())
    return result.exit_code


def _report_record(session: Session, scenario: Scenario) -> Record:
    from pipeline.report import run as report

    events, timelines, replay = _replay_record(session, scenario)
    _catalog(session, scenario.name)
    record, ran = report.stage(
        session.lake, scenario, events, timelines, replay, session.log, session.copy_to
    )
    session.note("report", ran)
    return record


def _run_scenario(session: Session) -> int:
    from pipeline.report import run as report

    scenario = _scenario(session)
    with session.locked():
        record = _report_record(session, scenario)
    if not session.ran:
        session.log("nothing to do: everything is current")
    page = session.lake.table(record, "index.html")
    lines = [*report.headline(record), f"report: {page}"]
    data = {"scenario": scenario.name, "ran": session.ran, "report": str(page), "headline": record.facts}
    _print(session, lines, data)
    return 0


def _ingest(session: Session) -> int:
    from pipeline.ingest import run as ingest
    from pipeline.ingest import topology, xids
    from pipeline.ingest.parsing import Options

    asked = session.options
    if asked.detect:
        return _detect(session, [asked.source, *asked.paths])
    if not asked.paths:
        raise InputError(
            "ingest", "no path", "a file, a folder, a glob or -", "goodput ingest SOURCE PATH..."
        )
    if asked.topology_label and not asked.topology:
        raise InputError("--topology-label", "given without --topology", "--topology FILE")
    given = topology.read(asked.topology, asked.topology_label) if asked.topology else None
    met: topology.Meeting | None = None
    options = Options.of(
        tz=asked.tz,
        year=asked.year,
        boot_time=asked.boot_time,
        as_of=asked.as_of,
        cluster=asked.cluster,
        node=asked.node,
        fold=asked.fold,
        xid_table=asked.xid_table and xids.text_of(asked.xid_table, str(asked.xid_table)),
    )
    with session.locked():
        try:
            done = ingest.ingest(
                session.lake, asked.source, asked.paths, options, session.log, strict=asked.strict
            )
            if given is not None:
                met = topology.meet(session.lake, given, [item.record for item in done], options.cluster)
                topology.keep(session.lake, given, options.cluster, session.log)
        finally:
            _catalog(session)
    rows = [
        {
            "file": item.file,
            "rows_read": item.rows_read,
            "rows_accepted": item.rows_accepted,
            "rows_rejected": item.rows_rejected,
            "skipped": item.skipped,
            "notes": item.record.facts.get("notes", []),
        }
        for item in done
    ]
    plain = [
        f"{item.file}: {item.rows_read:,} rows read, {item.rows_accepted:,} accepted, "
        f"{item.rows_rejected:,} rejected" + (" (ingested before)" if item.skipped else "")
        for item in done
    ]
    plain += [f"{row['file']}: {note}" for row in rows for note in row["notes"]]
    if not all(item.rows_read for item in done):
        plain.append("no row in it: is the source right? goodput ingest --detect PATH")
    if any(item.rows_rejected for item in done):
        at = "" if session.root == DEFAULT_ROOT else f" --root {shlex.quote(str(session.root))}"
        plain.append(f'why: goodput{at} sql "select file, row, reason, text from rejects"')
    data: dict[str, Any] = {"files": rows}
    if met is not None:
        plain += met.lines()
        data["topology"] = met.plain()
    _print(session, plain, data)
    return 0


def _detect(session: Session, paths: list[str]) -> int:
    from pipeline.ingest.detect import detect

    found = detect(paths)
    files = [{"file": item.file, "sources": item.sources, "problem": item.problem} for item in found]
    _print(session, [item.line for item in found], {"files": files})
    return 0 if all(item.is_told for item in found) else 1


def _fetch(session: Session) -> int:
    from pipeline.ingest.fetch import fetch

    with session.locked():
        path = fetch(session.lake, session.options.source, session.options.from_file, log=session.log)
    _print(session, [str(path)], {"file": str(path)})
    return 0


def _paper(session: Session) -> int:
    from pipeline.paper import run as paper
    from pipeline.paper.rows import FEWEST_SEEDS

    seeds = paper.SEEDS if session.options.seeds is None else session.options.seeds
    if seeds < FEWEST_SEEDS:
        raise InputError("--seeds", f"found {seeds}", f"at least {FEWEST_SEEDS}, for a 95 % interval")
    with session.locked():
        record, ran = paper.stage(session.lake, seeds, session.log, session.copy_to)
        session.note("paper", ran)
    page = (
        (session.copy_to / paper.STAGE / paper.PAGE)
        if session.copy_to
        else session.lake.table(record, paper.PAGE)
    )
    facts = record.facts
    outside: list[str] = facts["outside"]
    data = {"page": str(page), "counts": facts["counts"], "outside": outside}
    _print(session, [*facts["lines"], str(page)], data)
    if outside:
        hint = "a number of ours has moved, or an explanation is missing"
        raise CheckFailedError("paper", f"{len(outside)} rows outside: {', '.join(outside)}", "none", hint)
    return 0


# -- looking at what is there --------------------------------------------------------------------


def _sql(session: Session) -> int:
    from pipeline.lake import listing, sandbox

    options = session.options
    shape = options.format or ("json" if options.json else "table")
    if options.describe:
        print(listing.describe(session.lake))
        return 0
    if (options.query is None) == (options.file is None):
        raise InputError(
            "sql",
            "neither a query nor -f" if options.query is None else "a query and -f",
            "one query",
            """for example: goodput sql "from compare('demo')\"; `goodput queries` lists what there is""",
        )
    if options.file is not None:
        query = sandbox.load_adhoc(options.file)
    else:
        query = sys.stdin.read() if options.query == "-" else options.query
    parameters = {}
    for item in options.param:
        key, sep, value = item.partition("=")
        if not sep or not key:
            raise InputError("--param", f"found {item!r}", "K=V, e.g. scenario=demo")
        parameters[key] = value
    if not session.lake.catalog_path.is_file():
        raise NoDataError(str(session.root), "no catalog", "built data", "run `goodput run demo` first")
    table = sandbox.run(session.lake, query, parameters, timeout_s=options.timeout)
    for line in listing.unbuilt(session.lake, query, parameters):
        session.log(line)
    rendered = sandbox.render(table, shape)
    sys.stdout.flush()
    sys.stdout.buffer.write(rendered)
    return 0


def _perf(session: Session) -> int:
    from pipeline.perf import listing

    told = (
        listing.about_presets() if session.options.scenario is None else listing.degrees(_scenario(session))
    )
    _print(session, told.lines, told.plain)
    return 0


def _sources(session: Session) -> int:
    from pipeline.ingest import sources

    asked = session.options.source
    found = [sources.about(name) for name in ([asked] if asked else sources.names())]
    _print(
        session, [line for item in found for line in item.lines()], {"sources": [i.plain() for i in found]}
    )
    return 0


def _list(session: Session) -> int:
    rows = _listing(session.options.command)
    width = max((len(name) for name, _ in rows), default=0)
    plain = [f"{name:<{width}}  {text}" for name, text in rows]
    _print(session, plain, {session.options.command: [{"name": n, "about": text} for n, text in rows]})
    return 0


def _listing(what: str) -> list[tuple[str, str]]:
    """Return names with one line about each, from the code's own docstrings and headers."""
    if what == "scenarios":
        from pipeline import config

        return [(name, config.load(name).title) for name in config.available()]
    if what == "keys":
        from pipeline import config

        return config.keys()
    if what == "policies":
        from pipeline.replay import responses

        return [(name, _first_line(responses.load(name).__doc__)) for name in responses.names()]
    if what == "presets":
        from pipeline.synth import presets

        return list(presets.descriptions().items())
    if what == "figures":
        from pipeline.report import figures

        return [(name, _first_line(figures.load(name).__doc__)) for name in figures.names()]
    from pipeline.lake import catalog, sql
    from pipeline.schema import TABLE_MEANING

    rows = list(TABLE_MEANING.items())
    rows += [
        (f"{query.name}({', '.join(query.parameters)})", query.header["title"])
        for query in catalog.macros().values()
    ]
    rows += [
        (f"-f {name}" + "".join(f" --param {key}=..." for key in query.parameters), query.header["title"])
        for name, query in sql.load("adhoc").items()
    ]
    return rows


def _first_line(text: str | None) -> str:
    return (text or "").strip().splitlines()[0]


def _check(session: Session) -> int:
    from pipeline.lake import checks

    if not any(record.stage == "timelines" for record in session.lake.records().values()):
        raise NoDataError(str(session.root), "nothing built to check", hint="run `goodput run demo` first")
    broken = checks.all_records(session.lake)
    if broken:
        raise CheckFailedError(f"{len(broken)} checks", "\n  ".join(broken), "no row that breaks a rule")
    _print(session, [], {"broken": []})
    return 0


def _doctor(session: Session) -> int:
    from pipeline.lake import doctor

    findings = doctor.examine(session.lake)
    width = max(len(item.what) for item in findings)
    plain = [
        f"{'ok  ' if item.is_good else 'MEND'}  {item.what:<{width}}  {item.found}"
        + (f"\n      to do: {item.hint}" if item.hint else "")
        for item in findings
    ]
    data = {"findings": [vars(item) for item in findings]}
    _print(session, plain, data)
    return 0 if all(item.is_good for item in findings) else 1
