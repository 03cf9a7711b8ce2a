"""Which format each file of a mixed folder is, told by its first 64 KiB.

In: paths as for `goodput ingest`. Out: for each file the names of the sources whose `looks_like` knows it.
It serves a person who sorts a folder: nothing is ingested by a guess, and a file that several sources know,
or none, is told as such.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.ingest import sources
from pipeline.ingest.files import Found, find, open_stream

HEAD_BYTES = 64 << 10


@dataclass(frozen=True)
class Detected:
    """A file, the sources that know its form, and why it could not be read, if so."""

    file: str
    sources: tuple[str, ...]
    problem: str = ""

    @property
    def is_told(self) -> bool:
        """Whether exactly one source knows it."""
        return len(self.sources) == 1

    @property
    def line(self) -> str:
        """What a person is told."""
        if self.problem:
            return f"{self.file}: {self.problem}"
        if self.is_told:
            return f"{self.file}: {self.sources[0]}"
        if self.sources:
            return f"{self.file}: cannot tell, it may be {' or '.join(self.sources)}"
        return f"{self.file}: cannot tell, no source knows it"


def detect(paths: Iterable[str]) -> list[Detected]:
    """Return what each file that the paths stand for looks like; raise InputError for a path that is none."""
    found = []
    for item in find(paths):
        try:
            found.append(Detected(item.name, _known(item)))
        except InputError as error:
            found.append(Detected(item.name, (), error.found))
    return found


def likely(found: Found) -> tuple[str, ...]:
    """Return the sources that know a file's form; none when it cannot be read twice, or at all."""
    try:
        return () if found.path is None else _known(found)
    except InputError:
        return ()


def _known(found: Found) -> tuple[str, ...]:
    with open_stream(found) as stream:
        head = stream.read(HEAD_BYTES)
    return tuple(name for name in sources.names() if sources.load(name).looks_like(head))
