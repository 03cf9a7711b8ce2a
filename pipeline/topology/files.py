"""A topology file -> which scale-up domain each node lies in.

In: CSV or Parquet with the columns node, domain and, if wanted, gpus (of the node, when it has another number
than the others; further columns such as pod are ignored); Slurm's topology.conf or topology.yaml; or nodes of
Kubernetes as JSON. The name's ending tells which. Out: a `Topology`, nodes and domains in the file's order.
Easy to get wrong: nothing is sniffed and no row is skipped; a node that stands twice is an error, because
whichever line counted, the other would be wrong.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from pipeline.errors import InputError, nearest
from pipeline.topology import kubernetes, slurm
from pipeline.topology.layout import Row, Topology

_FORMATS = "a .csv or .parquet of node,domain, Slurm's topology.conf or .yaml, or Kubernetes nodes as .json"


def read(path: Path, where: str, label: str | None = None) -> Topology:
    """Read a topology file; raise InputError with the line, what was found and what may stand there."""
    return parse(path, load(path, where), where, label)


def load(path: Path, where: str, hint: str = "the path is relative to the scenario file") -> bytes:
    """Return the bytes of a topology file."""
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            where,
            f"{path.name!r} cannot be read ({reason})",
            "a topology file",
            hint,
        ) from None


def parse(path: Path, data: bytes, where: str, label: str | None = None) -> Topology:
    """Return what the bytes of a topology file say; the ending of its name tells the format.

    `label` names the label of Kubernetes nodes that says their domain; only they have labels.
    """
    rows: Iterable[Row]
    kind = path.suffix.lower()
    if label is not None and kind != ".json":
        hint = "leave the label out" if kind in {".parquet", *_READERS} else ""
        raise InputError(where, f"a label for {path.name!r}", "a .json of Kubernetes nodes", hint)
    if kind == ".json":
        rows = kubernetes.from_json(_text(data, path.name), path.name, label)
    elif kind == ".parquet" or data.startswith(b"PAR1"):
        rows = _from_parquet(data, path.name)
    elif kind in _READERS:
        rows = _READERS[kind](_text(data, path.name), path.name)
    else:
        raise InputError(where, f"{path.name!r} is no known format", _FORMATS, "rename it by its format")
    return _collected(rows, path.name)


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{file} line {line}", "not UTF-8", "text in UTF-8", "save the file as UTF-8"
        ) from None


def _collected(rows: Iterable[Row], file: str) -> Topology:
    """Group the rows by domain; every node stands in one domain, once."""
    domains: dict[str, list[Row]] = {}
    first: dict[str, Row] = {}
    for row in rows:
        where = f"{file} {row.place}"
        for key in ("node", "domain"):
            if not getattr(row, key):
                raise InputError(
                    where,
                    f"{key} is empty",
                    "a name for the node and for its domain",
                    "fill it in, or take the row out",
                )
        if row.node in first:
            before = first[row.node]
            found = f"node {row.node!r} again, in {row.domain!r}; first in {before.domain!r} ({before.place})"
            raise InputError(where, found, "each node once, in one domain", "take out one of the two")
        first[row.node] = row
        domains.setdefault(row.domain, []).append(row)
    if not domains:
        raise InputError(file, "no node", "at least one domain with its nodes", "is it the right file?")
    return Topology(file, domains)


def to_csv(topology: Topology) -> bytes:
    """Return a topology as the CSV that reads back as it is."""
    text = io.StringIO(newline="")
    table = csv.writer(text, lineterminator="\n")
    table.writerow(("node", "domain", "gpus"))
    for domain, rows in topology.domains.items():
        table.writerows((row.node, domain, row.gpus) for row in rows)
    return text.getvalue().encode()


# -- tables -------------------------------------------------------------------------------------


def _from_csv(text: str, file: str) -> Iterator[Row]:
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] = []
    try:
        for raw in lines:
            cells = [cell.strip() for cell in raw]
            if not any(cells):
                continue
            place = f"line {lines.line_num}"
            if not header:
                header = _header(cells, file)
                continue
            if len(cells) != len(header):
                found = f"{len(cells)} fields, the header has {len(header)}"
                raise InputError(f"{file} {place}", found, ",".join(header), "mend the row")
            yield _row(place, dict(zip(header, cells, strict=True)), file)
    except csv.Error as error:
        raise InputError(
            f"{file} line {lines.line_num}", f"not CSV ({error})", "node,domain", "mend the quotes"
        ) from None


def _from_parquet(data: bytes, file: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError) as error:
        raise InputError(file, f"not Parquet ({error})", _FORMATS, "write the file again") from None
    _header(table.column_names, file)
    names = [name for name in ("node", "domain", "gpus") if name in table.column_names]
    for number, cells in enumerate(table.select(names).to_pylist(), 1):
        plain = {name: "" if value is None else str(value) for name, value in cells.items()}
        yield _row(f"row {number}", plain, file)


def _header(header: Sequence[str], file: str) -> list[str]:
    for name in ("node", "domain", "gpus"):
        if header.count(name) > 1 or (name != "gpus" and name not in header):
            times = "twice" if name in header else "not"
            found = f"column {name!r} stands {times} in the header {','.join(header)[:80]!r}"
            raise InputError(
                file, found, "node,domain[,gpus,...]", nearest(name, header) or "name the columns"
            )
    return list(header)


def _row(place: str, cells: dict[str, str], file: str) -> Row:
    text, gpus = cells.get("gpus", ""), None
    if text:
        if not re.fullmatch(r"[0-9]{1,6}", text):
            raise InputError(
                f"{file} {place} gpus", f"found {text!r}", "a whole number, or nothing: gpus_per_node"
            )
        gpus = int(text)
    return Row(place, cells["node"], cells["domain"], gpus)


_READERS: dict[str, Callable[[str, str], Iterator[Row]]] = {
    ".csv": _from_csv,
    ".conf": slurm.from_conf,
    ".yaml": slurm.from_yaml,
    ".yml": slurm.from_yaml,
}
