"""What pipeline/README.md and reports/README.md list: policies, fabrics, commands, exit codes, figures."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterable
from pathlib import Path

from pipeline import cli, errors
from pipeline.lake import catalog, sql
from pipeline.replay import fabrics, responses
from pipeline.report import figures
from pipeline.report import run as report
from tests.docs.markdown import anchor, code, described, link, table
from tests.docs.of_queries import signature


def policy_blocks() -> str:
    """Every response that a policy can name."""
    parts = []
    for name in responses.names():
        module = responses.load(name)
        flags = {word: value for word, value in vars(module).items() if isinstance(value, bool)}
        facts = [f"Batch rules, its default first: {code(module.BATCHES)}."]
        facts += [f"`{word}`: {'yes' if value else 'no'}." for word, value in sorted(flags.items())]
        facts.append(f"Module: {link(Path(module.__file__ or ''))}.")
        parts.append(described(name, module.__doc__ or "", " ".join(facts)))
    return "\n\n".join(parts)


def fabric_blocks() -> str:
    """Every fabric that a cluster can name."""
    parts = []
    for name in fabrics.names():
        module = fabrics.load(name)
        fact = f"Packings of groups that span domains: {code(module.PACKINGS)}. " if module.CROSSES else ""
        parts.append(
            described(name, module.__doc__ or "", f"{fact}Module: {link(Path(module.__file__ or ''))}.")
        )
    return "\n\n".join(parts)


def own_arguments(one: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a command's arguments and options, without those that every command takes."""
    shared = cli.parser()._option_string_actions
    return [action for action in one._actions if not set(action.option_strings) & set(shared)]


def placed(action: argparse.Action) -> str:
    """Return an argument that is known by its place: in brackets when it may be left out."""
    form = {"?": "[{}]", "+": "{} ...", "*": "[{} ...]"}.get(str(action.nargs), "{}")
    return form.format(action.metavar)


def argument_rows(actions: Iterable[argparse.Action]) -> list[tuple[str, str]]:
    """Return arguments and options with their help."""
    rows = []
    for action in actions:
        takes = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
        if not takes and action.option_strings and action.nargs != 0:
            takes = action.dest.upper()
        names = " ".join(part for part in (", ".join(action.option_strings), str(takes)) if part)
        rows.append((f"`{names}`", action.help or ""))
    return rows


def command_blocks() -> str:
    """Every command with its arguments and options."""
    top = cli.parser()
    chosen = next(action for action in top._actions if isinstance(action, argparse._SubParsersAction))
    helps = {item.dest: item.help or "" for item in chosen._choices_actions}
    rows = []
    for name, one in chosen.choices.items():
        places = [placed(action) for action in own_arguments(one) if not action.option_strings]
        rows.append((f"`goodput {' '.join([name, *places])}`", helps[name]))
    parts = [table(("command", "does"), rows)]
    every = [action for action in top._actions if action.option_strings and action.dest != "version"]
    options = table(("option", "meaning"), argument_rows(every))
    parts.append(f"`goodput --version` prints the version. Every command takes:\n\n{options}")
    for name, one in chosen.choices.items():
        if own := own_arguments(one):
            parts.append(f"### goodput {name}\n\n{table(('argument', 'meaning'), argument_rows(own))}")
    return "\n\n".join(parts)


def exit_blocks() -> str:
    """Every exit code of the command."""
    told = re.sub(r"\s+", " ", cli.__doc__ or "").partition("Exit codes: ")[2].partition(". ")[0]
    codes = dict(re.findall(r"\b(\d+) ([^;,.]+)", told))
    for kind in errors.PipelineError.__subclasses__():
        words = inspect.cleandoc(kind.__doc__ or "").split(" (")[0]
        codes.setdefault(str(kind.exit_code), words[0].lower() + words[1:])
    return table(("code", "meaning"), [(f"`{number}`", codes[number]) for number in sorted(codes, key=int)])


def figure_blocks() -> str:
    """Every figure, in page order."""
    headings = {name: signature(query) for name, query in catalog.macros().items()}
    rows = []
    for name in figures.names():
        module = figures.load(name)
        reads = [
            f"[`{read}`](../queries/README.md#{anchor(headings.get(read, read))})"
            for read in sorted(sql.parents(module.QUERY))
        ]
        where = link(Path(module.__file__ or ""), name)
        rows.append((where, figures.question(name), ", ".join(reads)))
    return table(("figure", "answers", "reads"), rows)


def report_files() -> str:
    """The files of a report."""
    rows = [(f"`{report.PAGE}`", "the page: one file with everything in it, readable offline")]
    rows.append((f"`{report.NUMBERS}`", "the headline and the policies side by side, as JSON"))
    rows += [
        (f"`<figure>.{form}`", f"each figure as {form.upper()}: `goodput report SCENARIO --format {form}`")
        for form in report.FORMATS
    ]
    return table(("file", "holds"), rows)
