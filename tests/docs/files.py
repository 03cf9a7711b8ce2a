"""READMEs and their blocks: which there are, which is stale, and the transcripts that are run again.

A block stands between `<!-- begin: NAME -->` and `<!-- end: NAME -->`; NAME is a key of `BLOCKS`. The block
`console` is a transcript: its `$ ` lines are run one after the other in a folder that holds the samples and
the README's own example files (each a fenced block below `<!-- file: NAME -->`), and what they print to
stdout is written below them. All else in a README is written by hand.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from pipeline import resources
from tests.docs import of_data, of_pipeline, of_queries
from tests.docs.markdown import ROOT

FILES = ("data/README.md", "queries/README.md", "pipeline/README.md", "reports/README.md")
CONSOLE = "console"
LIMIT_S = 300

_BLOCK = re.compile(r"(<!-- begin: (\S+) -->\n)(.*?)(<!-- end: (\S+) -->)", re.DOTALL)
_FILE = re.compile(r"<!-- file: (\S+) -->\n+```\w*\n(.*?)```", re.DOTALL)

BLOCKS: dict[str, Callable[[], str]] = {
    "sources": of_data.source_blocks,
    "samples": of_data.sample_blocks,
    "presets": of_data.preset_blocks,
    "scenarios": of_data.scenario_blocks,
    "keys": of_data.key_blocks,
    "table-list": of_queries.table_list,
    "tables": of_queries.table_blocks,
    "macro-list": of_queries.macro_list,
    "macros": of_queries.macro_blocks,
    "questions": of_queries.question_blocks,
    "stage-queries": of_queries.stage_blocks,
    "buckets": of_queries.bucket_blocks,
    "policies": of_pipeline.policy_blocks,
    "fabrics": of_pipeline.fabric_blocks,
    "commands": of_pipeline.command_blocks,
    "exit-codes": of_pipeline.exit_blocks,
    "figures": of_pipeline.figure_blocks,
    "report-files": of_pipeline.report_files,
}


class Shell:
    """An empty folder with a README's example files, in which its transcripts are run."""

    def __init__(self, folder: Path, readme: str) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        for name, content in _FILE.findall(readme):
            (self.folder / name).write_text(content, encoding="utf-8")
        shutil.copytree(resources.folder("samples"), self.folder / "data" / "samples")
        command = folder / "bin" / "goodput"
        command.parent.mkdir()
        command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pipeline "$@"\n', encoding="utf-8")
        command.chmod(0o755)
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GOODPUT_")}
        search = os.pathsep.join((str(command.parent), kept.get("PATH", os.defpath)))
        self.env = {**kept, "PATH": search, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}

    def transcript(self, block: str) -> str:
        """Return a console block with what its commands print now; raise when one fails."""
        lines = []
        for line in block.splitlines():
            if line.startswith("$ "):
                done = subprocess.run(
                    ["sh", "-c", line[2:]], cwd=self.folder, env=self.env, capture_output=True, text=True,
                    timeout=LIMIT_S, check=False,
                )  # fmt: skip
                if done.returncode:
                    message = f"{line}\nexited {done.returncode}\n{done.stdout}{done.stderr}"
                    raise RuntimeError(message)
                lines += [line, *(printed.rstrip() for printed in done.stdout.rstrip().splitlines())]
        return "\n".join(["```console", *lines, "```"])


def blocks(text: str, where: str) -> list[str]:
    """Return the names of a README's blocks; raise ValueError when a marker is wrong."""
    found = _BLOCK.findall(text)
    marks = len(re.findall(r"<!-- (?:begin|end): ", text))
    for _, name, _, _, end in found:
        if name != end:
            message = f"{where}: block {name!r} ends as {end!r}"
            raise ValueError(message)
        if name not in BLOCKS and name != CONSOLE:
            message = f"{where}: no block is named {name!r}; there are {', '.join(BLOCKS)}, {CONSOLE}"
            raise ValueError(message)
    if marks != 2 * len(found):
        message = f"{where}: a block has no begin or no end"
        raise ValueError(message)
    return [name for _, name, *_ in found]


def renewed(text: str, where: str, *, consoles: bool) -> str:
    """Return a README with its blocks as the code has them now; transcripts only when asked for."""
    blocks(text, where)
    with tempfile.TemporaryDirectory() as folder:
        shell = Shell(Path(folder), text) if consoles else None

        def renew(hit: re.Match[str]) -> str:
            begin, name, old, end, _ = hit.groups()
            if name == CONSOLE:
                return begin + shell.transcript(old) + "\n" + end if shell else hit[0]
            return f"{begin}\n{BLOCKS[name]()}\n\n{end}"

        return _BLOCK.sub(renew, text)
