"""A process whose children are killed, or find the disk full, at one step of one write; then it looks.

Started by test_kills.py: `python victim.py` with a plan as JSON on stdin, what was found as JSON on stdout.
It imports the heavy libraries once and forks a child for each command, so that a kill costs what the command
costs; it never opens a DuckDB connection or starts a thread of its own, which a fork would break.

The steps of a write are those of `replacing` in pipeline/lake/store.py, and two more in the build of the
catalog. The hooks stand around `mkstemp`, the store's sync and what the catalog calls; the store does not
know of them. The clock stands still here, so that a rerun can be compared byte for byte: only run ids (in
the manifest, in the names of `runs/` and on the page) differ from run to run, and the catalog, whose file is
not the same bytes twice, is compared by what it says.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import io
import json
import os
import pickle
import re
import resource
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import altair as alt  # noqa: F401 - imported before the forks
import duckdb
import jinja2  # noqa: F401
import polars as pl  # noqa: F401
import pyarrow.dataset  # noqa: F401
import pyarrow.parquet as pq
import vl_convert

from pipeline import cli
from pipeline.ingest import run as ingest
from pipeline.lake import catalog, checks, stages, store
from pipeline.lake.store import Lake
from pipeline.replay import responses
from pipeline.report import figures
from pipeline.synth import presets

RUN_ID = re.compile(rb"\d{8}T\d{6}-[0-9a-f]{8}")
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}\.tmp(\.wal)?")
FIXED_NAMES = ("catalog", "report")  # stages whose files are replaced under one name
CASE = "case"

Found = tuple[int, str]  # exit code, stderr


# -- steps ---------------------------------------------------------------------------------------------------


class Steps:
    """Counts the steps of all writes of this process and does something at one of them."""

    def __init__(self, act: Callable[[Path, str], None] | None = None, at: int = 0) -> None:
        self.act, self.at = act, at
        self.labels: list[tuple[str, str]] = []  # what is written, which step
        self.path = Path()
        self.temporary = Path()
        self.is_open = False

    def reach(self, step: str) -> None:
        """Note a step of the write under way, and act if it is the one."""
        self.labels.append((kind(self.path), step))
        if self.act and len(self.labels) >= self.at:
            self.act(self.temporary if self.temporary.exists() else self.path, step)

    def install(self) -> None:
        """Put the hooks in."""
        make, sync = tempfile.mkstemp, store._sync
        define, comment = catalog.define, catalog.comment

        def hooked_make(*, prefix: str, suffix: str, dir: Path) -> tuple[int, str]:  # noqa: A002
            self.path = dir / prefix[1:-1]
            self.temporary, self.is_open = self.path, True
            self.reach("1 before")
            handle, name = make(prefix=prefix, suffix=suffix, dir=dir)
            self.temporary = Path(name)
            self.reach("2 created")
            return handle, name

        def hooked_sync(path: Path) -> None:
            if path.name == store.MANIFEST:  # a line more
                self.path = self.temporary = path
                self.reach("3 half")
                self.reach("4 written")
                sync(path)
                self.reach("5 synced")
                return
            if not self.is_open:  # a new folder
                sync(path)
                return
            if path.is_dir():
                self.reach("6 renamed")
                sync(path)
                self.reach("7 settled")
                self.is_open = False
                return
            self.reach("3 half")
            self.reach("4 written")
            sync(path)
            self.reach("5 synced")

        def within_catalog(real: Callable[..., None], before: str, after: str) -> Callable[..., None]:
            def call(*given: Any) -> None:
                is_write = self.is_open and self.path.name == store.CATALOG  # others define views in memory
                if is_write:
                    self.reach(before)
                real(*given)
                if is_write:
                    self.reach(after)

            return call

        store.tempfile.mkstemp = hooked_make
        store._sync = hooked_sync
        catalog.define = within_catalog(define, "2a attached", "2b defined")
        catalog.comment = within_catalog(comment, "2c not commented", "2d commented")


def kind(path: Path) -> str:
    """Return what sort of file a path is: tables and runs have many names."""
    if path.suffix == ".parquet":
        return "run" if path.parent.name == "runs" else "table"
    return path.name


def halve(path: Path) -> None:
    """Leave what a stopped writer had written: of a manifest, half of its last line is missing."""
    size = path.stat().st_size
    last = len(path.read_bytes().splitlines()[-1]) if path.name == store.MANIFEST else size
    os.truncate(path, size - last // 2)


def kill(temporary: Path, step: str) -> None:
    """End this process as `kill -9` does."""
    if step == "3 half":
        halve(temporary)
    os.kill(os.getpid(), signal.SIGKILL)


def fill_the_disk(temporary: Path, step: str) -> None:
    """Raise what a full disk raises; it stays full. A file that was made is no longer refused."""
    if step == "2 created":
        return
    if step == "3 half":
        halve(temporary)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary))


@contextlib.contextmanager
def in_place(path: Path) -> Iterator[Path]:
    """Write under the final name: the writer that the tests must catch."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = store.tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    os.close(handle)
    os.replace(name, path)  # noqa: PTH105
    yield path
    store._sync(path)
    store._sync(path.parent)


# -- children ------------------------------------------------------------------------------------------------


def started(work: Callable[..., Any], *given: Any) -> tuple[int, int]:
    """Fork a child that does `work`; return its id and where its answer comes from."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(out)
            value = pickle.dumps(work(*given))
            with os.fdopen(into, "wb") as stream:
                stream.write(value)
            code = 0
        except BaseException:  # noqa: BLE001 - the child tells and ends; it must not go on as the parent
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(into)
    return child, out


def ended(child: int, out: int) -> tuple[int, Any]:
    """Wait for a child; return how it ended (a signal is negative), and what its work returned."""
    with os.fdopen(out, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), pickle.loads(data) if data else None


def forked(work: Callable[..., Any], *given: Any) -> tuple[int, Any]:
    """Let a child do `work`; return what `ended` returns."""
    return ended(*started(work, *given))


def called(root: Path, arguments: list[str]) -> Found:
    """Call the command; return its exit code and what it said on stderr."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
        code = cli.main(["--root", str(root), *arguments])
    return code, said.getvalue()


def counted(root: Path, arguments: list[str]) -> tuple[Found, list[tuple[str, str]]]:
    """Call the command undisturbed; return what `called` does, and the steps."""
    steps = Steps()
    steps.install()
    return called(root, arguments), steps.labels


def disturbed(root: Path, arguments: list[str], how: str, at: int, writer: str) -> Found:
    """Call the command and act at a step."""
    Steps(kill if how == "kill" else fill_the_disk, at).install()
    if writer == "in place":
        store.replacing = catalog.replacing = in_place
    return called(root, arguments)


def limited(root: Path, arguments: list[str], limit_bytes: int) -> Found:
    """Call the command while no file may grow beyond a size: each library meets a real refusal."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    return called(root, arguments)


# -- looking -------------------------------------------------------------------------------------------------


def files(root: Path) -> dict[str, str]:
    """Return a digest of every file under a final name, but the lock and the rows of `runs`."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_dir() or TEMPORARY.fullmatch(path.name) or name == ".lock" or name.startswith("runs/"):
            continue
        found[name] = hashlib.sha256(meaning(root, path)).hexdigest()
    return found


def meaning(root: Path, path: Path) -> bytes:
    """Return a file's bytes without what differs from run to run: run ids, and the catalog's own bytes."""
    if path.name == store.MANIFEST:
        return json.dumps(sorted(manifest(Lake(root)).items())).encode()
    if path.name == store.CATALOG:
        with duckdb.connect(str(path), read_only=True, config={"threads": 1}) as con:
            texts = con.execute(
                """select view_name, sql, comment from duckdb_views() where not internal
                union all select function_name, macro_definition, comment from duckdb_functions()
                where not internal order by all"""
            ).fetchall()
        return json.dumps(texts).encode()
    content = path.read_bytes()
    return content if path.suffix == ".parquet" else RUN_ID.sub(b"RUN", content)


def manifest(lake: Lake) -> dict[str, str]:
    """Return each record as text, without its run id and the hash of files whose bytes hold one."""
    rows = {}
    for key, record in lake.records().items():
        row = asdict(record) | {"run_id": ""}
        if record.stage in FIXED_NAMES:
            row["outputs"] = sorted(record.outputs)
        rows[key] = json.dumps(row, sort_keys=True)
    return rows


def trouble(root: Path, valid: list[dict[str, str]], records: list[dict[str, str]]) -> list[str]:
    """Return what a reader would meet that is neither of the valid states; and broken rules."""
    lake, lines = Lake(root), []
    try:
        found = manifest(lake)
    except Exception as error:  # noqa: BLE001 - whatever it is, a reader met it
        return [f"manifest: {error}"]
    for key, text in found.items():
        if text not in {state.get(key) for state in records}:
            lines.append(f"{key}: a record of neither state")
        stage, _, scope = key.partition("/")
        if stage not in FIXED_NAMES and lake.record(stage, scope) is None:
            lines.append(f"{key}: not intact")
    try:
        for name, digest in files(root).items():
            if name != store.MANIFEST and digest not in {state.get(name) for state in valid}:
                lines.append(f"{name}: content of neither state")
    except Exception as error:  # noqa: BLE001
        lines.append(f"a file: {error}")
    for path in root.glob("runs/*.parquet"):
        try:
            pq.read_table(path)
        except Exception as error:  # noqa: BLE001
            lines.append(f"runs: {error}")
    lines += unreadable(lake)
    broken = checks.all_records(lake)
    return lines + [f"check: {line}" for line in broken]


def unreadable(lake: Lake) -> list[str]:
    """Return what does not open: views and macros of the published catalog."""
    if not lake.catalog_path.exists():
        return []
    lines = []
    try:
        with duckdb.connect(str(lake.catalog_path), read_only=True, config={"threads": 1}) as con:
            views = con.execute("select view_name from duckdb_views() where not internal").fetchall()
            for (view,) in views:
                con.execute(f'select * from "{view}"').fetchall()
            con.execute(f"from badput('{CASE}')").fetchall()
        if not views:
            lines.append("catalog: no view")
    except duckdb.Error as error:
        lines.append(f"catalog: {error}")
    return lines


def looked(root: Path, valid: list[dict[str, str]], records: list[dict[str, str]]) -> dict[str, Any]:
    """Return what is wrong, the temporary files, and a digest of what is there under final names."""
    lines = trouble(root, valid, records)
    left = [path.name for path in root.rglob("*") if path.name.endswith((".tmp", ".wal"))]
    lines += [f"a temporary of another form: {name}" for name in left if not TEMPORARY.fullmatch(name)]
    state = "" if lines else hashlib.sha256(json.dumps(files(root)).encode()).hexdigest()
    return {"trouble": lines, "left": left, "state": state}


def rerun(root: Path, arguments: list[str], wanted: dict[str, str]) -> list[str]:
    """Run the command again; return in what the result is not that of an undisturbed run."""
    lines = []
    code, said = called(root, arguments)
    if code:
        return [f"rerun: exit {code}: {said}"]
    lake, found = Lake(root), files(root)
    lines += [f"rerun: {name} differs" for name in wanted if found.get(name) != wanted[name]]
    for record in lake.records().values():
        if lake.record(record.stage, record.scope) is None:
            lines.append(f"rerun: {record.stage}/{record.scope} is not intact")
    lines += [f"rerun: leftover {path.name}" for path in root.rglob(".*") if path.name != ".lock"]
    lines += unreadable(lake)
    return lines + [f"rerun: check: {line}" for line in checks.all_records(lake)]


# -- the plan ------------------------------------------------------------------------------------------------


class Case:
    """One command on one older state of a root, to be disturbed again and again."""

    def __init__(self, folder: Path, plan: dict[str, Any]) -> None:
        self.plan = plan
        self.root, self.saved = folder / "root", folder / "saved"
        self.command: list[str] = plan["command"]
        self.root.mkdir()
        for arguments in plan["before"]:
            _, (code, said) = forked(called, self.root, arguments)
            assert code == 0, said
        shutil.copytree(self.root, self.saved)
        _, (old, old_records) = forked(self._state)
        _, ((code, said), self.labels) = forked(counted, self.root, self.command)
        assert code == 0, said
        _, (self.new, new_records) = forked(self._state)
        self.valid, self.records = [old, self.new], [old_records, new_records]
        self.rerun_well: set[str] = set()

    def _state(self) -> tuple[dict[str, str], dict[str, str]]:
        return files(self.root), manifest(Lake(self.root))

    def restore(self) -> None:
        """Put the older state back."""
        shutil.rmtree(self.root)
        shutil.copytree(self.saved, self.root)

    def check(
        self, judge: Callable[[int, Found | None], list[str]], *work: Any
    ) -> tuple[list[str], list[str]]:
        """Disturb the command once; return what is wrong, and the temporary files it left.

        An equal state runs again in an equal way: once is enough.
        """
        self.restore()
        code, found = forked(work[0], self.root, self.command, *work[1:])
        lines = judge(code, found)
        code, seen = forked(looked, self.root, self.valid, self.records)
        if code:
            return [*lines, "looking failed"], []
        lines += seen["trouble"]
        if not lines and seen["state"] not in self.rerun_well:
            code, again = forked(rerun, self.root, self.command, self.new)
            lines += again if code == 0 else ["rerun failed"]
            if not lines:
                self.rerun_well.add(seen["state"])
        return lines, seen["left"]

    def chosen(self) -> list[int]:
        """Return the steps to disturb, from 1: all, or each kind of write at each step.

        The n-th step of a kind is taken from another of its writes, so that many writes have their turn.
        """
        everything = range(1, len(self.labels) + 1)
        if self.plan["all"]:
            return list(everything)
        places: dict[tuple[str, str], list[int]] = {}
        for at, label in zip(everything, self.labels, strict=True):
            places.setdefault(label, []).append(at)
        wanted = self.plan["only"]
        some = {key: at for key, at in places.items() if not wanted or list(key) in wanted}
        return sorted(at[int(step[0]) % len(at)] for (_, step), at in some.items())


def was_killed(code: int, _: Found | None) -> list[str]:
    """The child ended by SIGKILL."""
    return [] if code == -signal.SIGKILL else [f"ended with {code}, not by the kill"]


def was_told(code: int, found: Found | None) -> list[str]:
    """The command ended with 2 and one message; nothing temporary is left by a process that could clean."""
    if code or found is None:
        return ["a traceback"]
    exit_code, said = found
    lines = [line for line in said.splitlines() if line.startswith("goodput: ")]
    reasons = (os.strerror(errno.ENOSPC), os.strerror(errno.EFBIG))
    is_clear = len(lines) == 1 and any(reason in said for reason in reasons)
    return [] if exit_code == 2 and is_clear else [f"exit {exit_code}, said {said!r}"]


def was_told_or_done(code: int, found: Found | None) -> list[str]:
    """The command fitted into what it was given, or said that it did not."""
    return [] if code == 0 and found and found[0] == 0 else was_told(code, found)


def main() -> None:
    """Read the plan, do it, and write what was found."""
    plan = json.load(sys.stdin)
    prepare()
    case = Case(Path(plan["folder"]), plan)
    found: dict[str, Any] = {"steps": len(case.labels), "kinds": Counter(name for name, _ in case.labels)}
    wrong, left, done = {}, 0, 0
    for at in case.chosen():
        judge = was_killed if plan["how"] == "kill" else was_told
        lines, temporaries = case.check(judge, disturbed, plan["how"], at, plan["writer"])
        if plan["how"] != "kill" and temporaries:
            lines.append(f"not cleaned: {temporaries}")
        left, done = left + bool(temporaries), done + 1
        if lines:
            wrong[f"{at} {' '.join(case.labels[at - 1])}"] = lines
    for limit in plan["limits"]:
        lines, temporaries = case.check(was_told_or_done, limited, limit)
        done += 1
        if lines := lines + [f"not cleaned: {name}" for name in temporaries]:
            wrong[f"files up to {limit} bytes"] = lines
    reruns = len(case.rerun_well)
    json.dump({**found, "disturbed": done, "left": left, "states": reruns, "wrong": wrong}, sys.stdout)


def prepare() -> None:
    """Stop the clock, leave out what is slow and writes nothing, and read what the forks would read again."""
    instant = datetime(2025, 1, 1, tzinfo=UTC)
    for module in (stages, ingest):
        module.now = lambda: instant
    vl_convert.javascript_bundle = lambda *_: "/* the charts' JavaScript */"
    few = figures.names()[:1]
    figures.names = lambda: few
    for folder in ("ingest", "synth", "timelines", "replay", "report", "lake"):
        stages.code_version(folder)
    for name in ("timelines.run", "replay.run", "report.page", "report.answer", "report.assumptions"):
        importlib.import_module(f"pipeline.{name}")
    for names, load in ((responses.names, responses.load), (presets.names, presets.load)):
        for name in names():
            load(name)


if __name__ == "__main__":
    main()
