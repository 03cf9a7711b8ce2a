"""The configuration of a batch: TOML -> dataclasses, with exactly the known keys and every value in range.

Paths are relative to the file. What is wrong inside one scenario, or a folder that is absent tonight, is
found when its turn comes, so that the others are done all the same.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline import resources
from pipeline.config import reader
from pipeline.errors import InputError

if TYPE_CHECKING:
    from pipeline.ingest.parsing import Options

_DAY_S = 86_400.0


def _key(
    doc: str, default: Any = dataclasses.MISSING, *, low: float | None = None, high: float | None = None
) -> Any:
    return field(default=default, metadata={"doc": doc, "low": low, "high": high})


@dataclass(frozen=True, kw_only=True)
class Drop:
    """A place where logs of one format are dropped; the options are those of `goodput ingest`."""

    source: str = _key("log format, a name from `goodput sources`")
    path: str = _key("folder, file or glob, relative to this file")
    tz: str | None = _key("zone of times that have none, e.g. UTC or Europe/Berlin", None)
    year: int | None = _key("year of times that have none", None, low=2000, high=9999)
    boot_time: str | None = _key("instant of boot, for seconds since boot", None)
    as_of: str | None = _key("instant the logs were taken; no event may be later", None)
    node: str | None = _key("server of logs that name none; @file: the name of each file", None)
    fold: str | None = _key("earlier or later, for times that a clock change repeats", None)
    xid_table: str | None = _key("file of meanings of Xid codes, relative to this file", None)
    cluster: str | None = _key("the cluster the logs belong to", None)
    topology: str | None = _key(
        "file that says which domain each node of the cluster lies in, relative to this file; read anew each "
        "time, and no log where it lies among them",
        None,
    )
    topology_label: str | None = _key("label of Kubernetes nodes (.json) that names their domain", None)
    strict: bool = _key("a rejected row makes the batch end with 1", default=False)

    def options(self, folder: Path) -> Options:
        """Return the options of ingest; raise InputError for a zone, an instant or a table that is none.

        Paths are relative to `folder`.
        """
        from pipeline.ingest import xids
        from pipeline.ingest.parsing import Options

        given = {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}
        for key in _NOT_OPTIONS:
            del given[key]
        if self.xid_table is not None:
            given["xid_table"] = xids.text_of(folder / self.xid_table, "xid_table")
        return Options.of(**given)


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One batch: what is taken in, what is built, and how patient it is."""

    path: Path
    drops: tuple[Drop, ...] = ()
    scenarios: tuple[str, ...] = _key("scenario files relative to this file, or shipped names", ())
    root: str | None = _key("home of built data, relative to this file; --root wins", None)
    keep_going: bool = _key("a file or scenario that fails does not stop the others", default=True)
    wait_lock_s: float = _key(
        "how long to wait for another run that holds the root; 0: not at all", 0.0, low=0, high=_DAY_S
    )
    settle_s: float = _key(
        "a file changed less than this ago is left for the next time", 60.0, low=0, high=_DAY_S
    )
    keep_old_d: float = _key(
        "how long the tables of past runs are kept for readers who still hold them", 7.0, low=0, high=36_525
    )

    def place(self, path: str) -> str:
        """Return a path of this file as one that can be opened."""
        return str(self.path.parent / path)

    def scenario(self, name: str) -> str:
        """Return a listed scenario as `config.load` takes it: a shipped name, or the path of a file."""
        return self.place(name) if name.endswith(".toml") else name


_NOT_KEYS = ("path", "drops")
_NOT_OPTIONS = ("source", "path", "strict", "topology", "topology_label")


def read(path: Path) -> tuple[Path, dict[str, Any]]:
    """Return a configuration's real path and its TOML; raise InputError when it is absent or no TOML."""
    try:
        text = path.read_bytes().decode()
        return path.resolve(), tomllib.loads(text)
    except OSError as error:
        sample = resources.folder("batch") / "site.toml"
        found, expected = f"cannot be read ({error.strerror})", "a batch configuration"
        raise InputError(str(path), found, expected, f"start from a copy of {sample}") from None
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, endless digits or nesting
        raise InputError(path.name, f"not valid TOML ({error})", "a batch configuration") from None


def name_of(scenario: str) -> str:
    """Return the name of a listed scenario, under which its results go."""
    return Path(scenario).name.removesuffix(".toml")


def root_of(path: Path, document: Mapping[str, Any]) -> Path | None:
    """Return the root that a document names, if it does; the rest of it may be wrong."""
    root = document.get("root")
    return path.parent / root if isinstance(root, str) and _is_path(root) else None


def _is_path(text: str) -> bool:
    return bool(text) and "\0" not in text


def parse(path: Path, document: Mapping[str, Any]) -> Batch:
    """Return the checked configuration; raise InputError with the key, the value and what is allowed."""
    where = path.name
    valid = [item.name for item in dataclasses.fields(Batch) if item.name not in _NOT_KEYS]
    reader.exact_keys(where, document, [*valid, "drop"])
    plain = {key: value for key, value in document.items() if key != "drop"}
    values = reader.table(where, Batch, plain, skip=_NOT_KEYS)
    drops = _drops(path, document.get("drop", []))
    batch = Batch(path=path, drops=drops, **values)
    if not batch.scenarios and not batch.drops:
        raise InputError(where, "nothing to do", "scenarios = [...], or a [[drop]] table, or both")
    if batch.root is not None and not _is_path(batch.root):
        raise InputError(f"{where} root", f"found {batch.root!r}", "a folder, relative to this file")
    # Results go by the scenario's name: two files of one name would write over each other every night.
    for name, times in Counter(map(name_of, batch.scenarios)).items():
        if times > 1:
            raise InputError(f"{where} scenarios", f"{name!r} {times} times", "each name once")
    return batch


def _drops(path: Path, raw: Any) -> tuple[Drop, ...]:
    if not isinstance(raw, list):
        raise InputError(
            f"{path.name} drop", f"found {raw!r}", "a list of tables", "write [[drop]], not [drop]"
        )
    return tuple(
        _drop(f"{path.name} [drop {number}]", item, path.parent) for number, item in enumerate(raw, 1)
    )


def _drop(where: str, raw: Any, folder: Path) -> Drop:
    from pipeline.ingest import sources

    drop = Drop(**reader.table(where, Drop, raw))
    if not drop.path or "://" in drop.path:
        hint = "let another job copy the files into a folder" if drop.path else ""
        raise InputError(f"{where} path", f"found {drop.path!r}", "a folder, file or glob", hint)
    if drop.topology_label is not None and drop.topology is None:
        raise InputError(f"{where} topology_label", "given without topology", "only with topology")
    try:
        sources.load(drop.source)
        drop.options(folder)
    except InputError as error:
        raise InputError(f"{where} {error.where}", error.found, error.expected, error.hint) from None
    return drop
