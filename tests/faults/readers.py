"""Readers beside a writer: each opens, reads and closes again and again while two versions alternate.

Started by test_readers.py: `python readers.py`, a plan as JSON on stdin, what was found as JSON on stdout.
A reader is a process of its own. The catalog is published once a run, after the last table, so all that one
connection reads is of one version, for as long as it stays open. `goodput sql` reads the manifest, in which
each stage becomes current by itself: there, each table is of one version.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
from victim import called, ended, forked, meaning, prepare, started

from pipeline.lake import sandbox, superseded
from pipeline.lake.store import Lake

QUERIES = (
    "select count(*) || ' ' || sum(total_gpu_h) from outcomes",
    "select count(*) || ' ' || max(t_end) from outcome_timeline",
    "select count(*) || ' ' || max(t_end) from cluster_timeline",
    "select count(*) || ' ' || sum(duration_s) from outages",
    "select count(*) || ' ' || min(split.goodput_frac) from splits as split",
    "select count(*) || ' ' || count(distinct bucket) || ' ' || max(gpu_h) from badput('case')",
)
PAUSE_S = 1.0
FEWEST_TURNS = 2

Seen = tuple[str, ...]  # the answers to QUERIES


def connected(root: Path) -> duckdb.DuckDBPyConnection:
    """Open the catalog as a person does."""
    return duckdb.connect(str(Lake(root).catalog_path), read_only=True, config={"threads": 1})


def asked(con: duckdb.DuckDBPyConnection) -> Seen:
    """Return the answers of one connection."""
    return tuple(con.execute(query).fetchall()[0][0] for query in QUERIES)


def pages(root: Path) -> tuple[str, ...]:
    """Return digests of the page and of its numbers."""
    folder = root / "reports" / "case"
    found = (meaning(root, folder / name) for name in ("index.html", "report.json"))
    return tuple(hashlib.sha256(content).hexdigest() for content in found)


def version(root: Path) -> dict[str, Any]:
    """Return what each kind of reader sees of a version."""
    with connected(root) as con:
        return {"answers": asked(con), "pages": pages(root)}


# -- kinds of readers: each returns a function that reads once and returns what is wrong


def of_catalog(root: Path, versions: list[dict[str, Any]]) -> Callable[[], str]:
    """Open the catalog, ask, close."""

    def read() -> str:
        with connected(root) as con:
            found = asked(con)
        return "" if found in [one["answers"] for one in versions] else f"a mix: {found}"

    return read


def of_one_connection(root: Path, versions: list[dict[str, Any]]) -> Callable[[], str]:
    """Ask one connection again and again: it keeps the version that it opened."""
    con = connected(root)
    first = asked(con)

    def read() -> str:
        found = asked(con)
        return "" if found == first else f"changed: {found}"

    return read


def of_sandbox(root: Path, versions: list[dict[str, Any]]) -> Callable[[], str]:
    """Ask as `goodput sql` does, one query after another."""
    limits, turns = sandbox.Limits(threads=1), cycle(enumerate(QUERIES))

    def read() -> str:
        at, query = next(turns)
        answer = sandbox.run(Lake(root), query, limits=limits).column(0)[0].as_py()
        return "" if answer in {one["answers"][at] for one in versions} else f"a mix: {query}: {answer}"

    return read


def of_page(root: Path, versions: list[dict[str, Any]]) -> Callable[[], str]:
    """Read the page and its numbers; each is whole."""

    def read() -> str:
        valid = zip(*(one["pages"] for one in versions), strict=True)
        whole = all(found in known for found, known in zip(pages(root), valid, strict=True))
        return "" if whole else "half a page"

    return read


def of_command(root: Path, versions: list[dict[str, Any]]) -> Callable[[], str]:
    """Open the catalog with the `duckdb` command, which may be of another version."""
    text = " ".join(f"{query};" for query in QUERIES)
    command = ["duckdb", "-readonly", "-noheader", "-list", str(Lake(root).catalog_path), text]

    def read() -> str:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stderr
        found = tuple(done.stdout.splitlines())
        return "" if found in [one["answers"] for one in versions] else f"a mix: {found}"

    return read


KINDS = {"catalog": of_catalog, "one connection": of_one_connection, "sql": of_sandbox, "page": of_page}


def kinds(readers: int) -> list[str]:
    """Return the kind of each reader: half of them open the catalog, the others take turns."""
    others = ["sql", "one connection", "page", "sql"]
    if shutil.which("duckdb"):
        KINDS["command"] = of_command
        others.append("command")
    return ["catalog" if at % 2 else others[at // 2 % len(others)] for at in range(readers)]


def reads(
    kind: str, root: Path, versions: list[dict[str, Any]], stop: Path, seed: int
) -> tuple[int, list[str]]:
    """Read until told to stop, once at least; return how often, and what was wrong."""
    dice, done = random.Random(seed), 0
    os.nice(10)  # twenty readers would leave a writer on two cores no time
    try:
        read = KINDS[kind](root, versions)
        while not (done and stop.exists()):
            if wrong := read():
                return done, [f"{kind}: {wrong}"]
            done += 1
            time.sleep(PAUSE_S * dice.random())
    except Exception as error:  # noqa: BLE001 - whatever it is, a reader met it
        return done, [f"{kind}: {type(error).__name__}: {error}"]
    return done, []


def alternates(root: Path, commands: list[list[str]], time_s: float, keep_d: float) -> int:
    """Run one version after the other; clean after each, as a batch does; return the turns."""
    turns, lake, until = 0, Lake(root), time.monotonic() + time_s
    while time.monotonic() < until or turns < FEWEST_TURNS:
        code, said = called(root, ["-q", *commands[turns % len(commands)]])
        assert code == 0, said
        with lake.lock():
            superseded.clean(lake, keep_d, datetime(2025, 1, 1, tzinfo=UTC))
        turns += 1
    return turns


def main() -> None:
    """Read the plan, do it, and write what was found."""
    plan = json.load(sys.stdin)
    root, stop = Path(plan["folder"], "root"), Path(plan["folder"], "stop")
    prepare()
    versions = []
    for command in plan["commands"] * 2:  # the second time both logs are ingested
        _, (code, said) = forked(called, root, command)
        assert code == 0, said
        versions.append(forked(version, root)[1])
    versions = versions[len(plan["commands"]) :]
    chosen = kinds(plan["readers"])
    children = [started(reads, kind, root, versions, stop, seed) for seed, kind in enumerate(chosen)]
    writer, turns = forked(alternates, root, plan["commands"], plan["time_s"], plan["keep_d"])
    stop.touch()
    counts: Counter[str] = Counter()
    wrong: list[str] = [] if writer == 0 else ["the writer failed"]
    for kind, child in zip(chosen, children, strict=True):
        code, found = ended(*child)
        if code:
            wrong.append(f"{kind}: ended with {code}")
            continue
        counts[kind] += found[0]
        wrong += found[1]
    differ = all(a != b for a, b in zip(versions[0]["answers"], versions[1]["answers"], strict=True))
    json.dump({"turns": turns, "reads": counts, "differ": differ, "wrong": wrong}, sys.stdout)


if __name__ == "__main__":
    main()
