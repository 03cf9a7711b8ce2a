"""The log formats, found by folder: one module a format, `<name>.py` with `_` for the `-` of the name.

A module holds a docstring (its first line is what `goodput sources` prints), `VERSION`, `TITLE`, `LICENSE`,
`HOMEPAGE`, `PUBLIC` (file name -> PublicFile; empty without a public file), `read(data, file, options)` and,
when its times are days since a start, `DAY_0`. What a user needs to know: `EXPORT`, the exact commands that
take the log from the system (empty where `goodput fetch` does), `FLAGS`, the options of `goodput ingest` that
it may ask for, `TRAPS`, one sentence each; and `ENDS`: whether the log tells when a fault ends (one that does
not leaves that to the scenario's assumed repair times). `PLANNED = "down"`, where it stands, says that
planned work is among the failures of the trace; elsewhere it is none. `looks_like(head)` says whether the
first 64 KiB of a file are of this format; it serves `--detect` only, since a format is always declared. There
is no registry; a module that breaks this contract is named, with what it lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import Any

from pipeline import discovery
from pipeline.errors import InputError

_TEXTS = ("VERSION", "TITLE", "LICENSE", "HOMEPAGE", "EXPORT")
OPTIONS = ("tz", "year", "boot_time", "as_of", "node", "fold", "xid_table")


def names() -> list[str]:
    """Return the names of all sources, sorted."""
    return discovery.names(__path__)


def descriptions() -> dict[str, str]:
    """Return name -> first line of the docstring, without importing the modules."""
    return discovery.descriptions("source", __path__)


@dataclass(frozen=True)
class About:
    """What a user needs to know of a source."""

    name: str
    text: str
    options: tuple[str, ...]
    export: str
    public: tuple[str, ...]
    title: str
    license: str
    homepage: str
    ends: bool
    traps: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return it as text, a block a source."""
        ends = "" if self.ends else "no: the scenario assumes repair times ([trace] assumed_repair_h)"
        told = {
            "export": self.export,
            "fetch": f"goodput fetch {self.name}" if self.public else "",
            "options": " ".join(self.options),
            "ends told": ends,
            "from": " ".join(part for part in (self.title, self.homepage) if part),
            "licence": self.license,
        }
        rows = [(key, line) for key, text in told.items() if text for line in text.splitlines()]
        rows += [("trap", trap) for trap in self.traps]
        return [f"{self.name}: {self.text}", *(f"  {key:<9}  {line}" for key, line in rows), ""]

    def plain(self) -> dict[str, Any]:
        """Return it for JSON."""
        return vars(self) | {"about": self.text}


def about(name: str) -> About:
    """Return what the module of a source says of itself."""
    module = load(name)
    return About(
        name=name,
        text=(module.__doc__ or "").strip().split("\n", 1)[0],
        options=tuple("--" + flag.replace("_", "-") for flag in module.FLAGS),
        export=module.EXPORT,
        public=tuple(module.PUBLIC),
        title=module.TITLE,
        license=module.LICENSE,
        homepage=module.HOMEPAGE,
        ends=module.ENDS,
        traps=module.TRAPS,
    )


def module_file(name: str) -> Path:
    """Return the file of a source; raise InputError when there is no such source."""
    return discovery.module_file("source", name, __path__)


def load(name: str) -> ModuleType:
    """Return a source's module; raise InputError when it is unknown or breaks the contract."""
    path = module_file(name)
    module = discovery.module(__name__, "source", name, __path__)
    problem = _problem(module)
    if problem:
        raise InputError(f"source {name!r} ({path.name})", problem, "a module as `sources/__init__.py` says")
    return module


def _problem(module: ModuleType) -> str:
    from pipeline.ingest.parsing import PublicFile

    if not (module.__doc__ or "").strip():
        return "no docstring"
    for constant in _TEXTS:
        if not isinstance(getattr(module, constant, None), str):
            return f"{constant} is missing or not text"
    if not module.VERSION:
        return "VERSION is empty"
    public = getattr(module, "PUBLIC", None)
    if not isinstance(public, dict) or not all(isinstance(item, PublicFile) for item in public.values()):
        return "PUBLIC is missing or not file name -> PublicFile"
    flags, traps = getattr(module, "FLAGS", None), getattr(module, "TRAPS", None)
    if not isinstance(flags, tuple) or not set(flags) <= set(OPTIONS):
        return f"FLAGS is missing or no tuple out of {', '.join(OPTIONS)}"
    if not isinstance(traps, tuple) or not all(isinstance(item, str) for item in traps):
        return "TRAPS is missing or no tuple of sentences"
    planned = getattr(module, "PLANNED", "ignore")
    if not isinstance(getattr(module, "ENDS", None), bool) or planned not in {"ignore", "down"}:
        return "ENDS is missing or not a bool, or PLANNED is another word than down"
    for function in ("read(data, file, options)", "looks_like(head)"):
        if not callable(getattr(module, function.partition("(")[0], None)):
            return f"no function {function}"
    day_0 = getattr(module, "DAY_0", None)
    if day_0 is not None and not (isinstance(day_0, datetime) and day_0.tzinfo is not None):
        return "DAY_0 is not an instant with a zone"
    return ""
