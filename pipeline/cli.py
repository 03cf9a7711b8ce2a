"""The command `goodput`: arguments in, one call of `commands`, exit code out.

Results go to stdout, progress and log lines to stderr. Exit codes: 0 done; 1 a check or a bar not
met; 2 bad usage or bad input; 3 no usable data; 130 interrupted; of a batch also 70 a mistake of ours,
75 another run holds the root, 143 stopped by SIGTERM. Nothing heavy is imported until a
command needs it, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from pipeline import __version__, commands
from pipeline.commands import DEFAULT_ROOT, FORMATS, LISTS, REPORT_FORMATS
from pipeline.errors import PipelineError, nearest


class _Parser(argparse.ArgumentParser):
    """An argument parser that names the nearest valid word."""

    def error(self, message: str) -> NoReturn:
        hint = ""
        if "invalid choice: '" in message and "choose from" in message:
            said, _, choices = message.partition("choose from")
            word = said.partition("invalid choice: '")[2].partition("'")[0]
            hint = nearest(word, [choice.strip(" ')") for choice in choices.split(",")])
        advice = f"\n  to do: {hint}" if hint else ""
        print(f"{self.prog}: {message}{advice}", file=sys.stderr)
        print(f"  `{self.prog} --help` shows the usage", file=sys.stderr)
        raise SystemExit(2)


class _Subparser(_Parser):
    """A command's own parser, which takes the common options too, so that their place does not matter."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        _add_common(self, default=argparse.SUPPRESS)


def _add_common(one: argparse.ArgumentParser, default: Any = None) -> None:
    root = f"home of built data (default {DEFAULT_ROOT})"
    one.add_argument("--root", type=Path, default=default, metavar="DIR", help=root)
    flag = False if default is None else default
    one.add_argument("--json", action="store_true", default=flag, help="print one JSON object on stdout")
    loud = one.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", default=flag, help="no log lines")
    loud.add_argument("-v", "--verbose", action="store_true", default=flag, help="a traceback with an error")


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command."""
    top = _Parser(
        prog="goodput",
        description="From a failure log to the training goodput that each resilience policy keeps.",
        epilog="Begin with `goodput run demo`. Exit codes: 0 done, 1 check not met, 2 bad input, 3 no data.",
    )
    top.add_argument("--version", action="version", version=f"goodput-replay {__version__}")
    _add_common(top)
    chosen = top.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Subparser)

    run = chosen.add_parser("run", help="all stages of a scenario, only what is stale")
    run.add_argument(
        "scenario", nargs="?", metavar="SCENARIO", help="a name from `goodput scenarios`, or a .toml file"
    )
    run.add_argument(
        "--batch", type=Path, metavar="CONFIG", help="for a timer: dropped logs and scenarios of a .toml file"
    )
    for name, text in (
        ("synth", "draw a scenario's synthetic failures as events"),
        ("timelines", "events into timelines"),
        ("replay", "timelines and policies into ledgers"),
    ):
        one = chosen.add_parser(name, help=text)
        one.add_argument("scenario", metavar="SCENARIO", help="a shipped scenario, or a .toml file")
    report = chosen.add_parser("report", help="ledgers into a page, or its figures as files")
    report.add_argument("scenario", metavar="SCENARIO", help="a shipped scenario, or a .toml file")
    report.add_argument(
        "--format",
        default="html",
        metavar="LIST",
        help=f"comma-separated: {', '.join(REPORT_FORMATS)} (default html)",
    )

    ingest = chosen.add_parser("ingest", help="a log into events and rejects")
    ingest.add_argument(
        "source", metavar="SOURCE", help="a name from `goodput sources`; with --detect a PATH, too"
    )
    ingest.add_argument("paths", nargs="*", metavar="PATH", help="file, folder, glob, or - for stdin")
    ingest.add_argument(
        "--detect", action="store_true", help="ingest nothing: say which source each PATH looks like"
    )
    ingest.add_argument("--tz", metavar="ZONE", help="zone of times that have none, e.g. UTC, Europe/Berlin")
    ingest.add_argument("--year", type=int, help="year of times that have none")
    ingest.add_argument("--boot-time", metavar="T", help="instant of boot, for seconds since boot")
    ingest.add_argument("--as-of", metavar="T", help="instant the log was taken; no event may be later")
    ingest.add_argument(
        "--node", metavar="NAME", help="server of a log that names none; @file: the file's name"
    )
    ingest.add_argument(
        "--fold", choices=("earlier", "later"), help="which one of two, for times that a clock change repeats"
    )
    ingest.add_argument(
        "--xid-table", type=Path, metavar="CSV", help="meanings of Xid codes in place of the shipped ones"
    )
    ingest.add_argument("--cluster", metavar="NAME", help="the cluster the log belongs to")
    ingest.add_argument(
        "--topology", type=Path, metavar="FILE", help="which domain each node of the cluster lies in"
    )
    ingest.add_argument(
        "--topology-label", metavar="LABEL", help="label of Kubernetes nodes (.json) that names their domain"
    )
    ingest.add_argument("--strict", action="store_true", help="exit 1 when a row is rejected")
    fetch = chosen.add_parser("fetch", help="a public trace into the root's raw folder")
    fetch.add_argument("source", metavar="SOURCE", help="a name from `goodput sources`")
    fetch.add_argument("--from", dest="from_file", type=Path, metavar="FILE", help="take it from this file")

    paper = chosen.add_parser("paper", help="published numbers recomputed, with verdicts, as a page")
    paper.add_argument(
        "--seeds", type=int, default=None, metavar="N", help="draws behind each interval (default 200)"
    )

    sql = chosen.add_parser("sql", help="read-only SQL on the catalog")
    sql.add_argument("query", nargs="?", metavar="QUERY", help="one SELECT; - reads it from stdin")
    sql.add_argument("-f", "--file", metavar="FILE", help="a .sql file, or the name of a worked query")
    sql.add_argument(
        "--param", action="append", default=[], metavar="K=V", help="value of $k in the query; repeatable"
    )
    sql.add_argument("--format", choices=FORMATS, default=None, help="default: table")
    sql.add_argument("--timeout", type=float, default=None, metavar="S", help="time limit, seconds")
    sql.add_argument("--describe", action="store_true", help="list tables, macros and columns")

    perf = chosen.add_parser("perf", help="step time and memory at every TP degree of a scenario")
    perf.add_argument("scenario", nargs="?", metavar="SCENARIO", help="left out: the presets it can name")

    for name, text in LISTS.items():
        one = chosen.add_parser(name, help=text)
        if name == "sources":
            one.add_argument("source", nargs="?", metavar="SOURCE", help="only this one")
    chosen.add_parser("check", help="all invariants on the built data; no output is good")
    chosen.add_parser("doctor", help="versions, catalog, disk, stale files; what to do")
    return top


def _open_streams() -> None:
    """Give closed streams somewhere to go, and narrow terminals every character in some form."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.BytesIO(), encoding="utf-8"))
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _interrupted() -> int:
    print("goodput: interrupted; a rerun goes on where this one stopped", file=sys.stderr)
    return 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    _open_streams()
    options = parser().parse_args(arguments)
    try:
        code = commands.call(options)
        sys.stdout.flush()
    except PipelineError as error:
        if options.verbose:
            raise
        print(f"goodput: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return _interrupted()
    except RuntimeError as error:
        if "Query interrupted" not in str(error):  # what DuckDB makes of Ctrl-C during a query
            raise
        return _interrupted()
    except BrokenPipeError:
        # The reader (head, less) has gone; point stdout elsewhere so that closing it stays silent.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        if options.verbose:
            raise
        where = f"{error.filename}: " if error.filename else ""
        print(f"goodput: {where}{error.strerror or error}", file=sys.stderr)
        return 2
    return code
