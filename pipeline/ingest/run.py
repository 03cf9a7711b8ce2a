"""Stage 1: log files -> the tables `events`, `rejects` and `files`, one set for each file's content.

In: a source's name and files (folders, globs, `-`; .gz, .xz and .zst by their first bytes), or a scenario's
[trace]. Out: Parquet with exactly the columns of schema.py.
Easy to get wrong: a file is known by the hash of its uncompressed content, so a renamed or recompressed copy
is not read twice; every row read is accepted or rejected, and that is asserted; `event_id` is a hash of what
a row says and of its ordinal among equal rows of the file, so a row sent again in another file has the same
id while two equal rows of one file stay two. Only `files.ingested_at` knows the clock.
The caller holds the lake's lock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from pipeline.config.rules import LOG_OPTIONS
from pipeline.errors import CheckFailedError, InputError, NoDataError, listed
from pipeline.ingest import detect, event_ids, sources, xids
from pipeline.ingest.fetch import fetch
from pipeline.ingest.files import Found, find, open_stream, read_bytes
from pipeline.ingest.parsing import IN_FUTURE, Options, Parsed
from pipeline.lake import stages
from pipeline.lake.store import Lake, Pieces, Record, now, sha256_of
from pipeline.schema import COMPONENTS, KINDS, SCOPES, SEVERITIES, TABLES, arrow_schema
from pipeline.synth import run as synth

if TYPE_CHECKING:
    from pipeline.config import Scenario

STAGE = "ingest"
ANY_SOURCE = ""  # of a scenario that names a cluster alone: all its logs lie together
# What an event_id says; a column that is added here leaves the ids of rows that lack it as they are.
_IDENTITY = (
    "cluster", "source", "t_start", "t_end", "kind", "node", "gpu", "domain", "code", "reason", "gpu_name",
)  # fmt: skip
_WORDS = {"kind": KINDS, "severity": SEVERITIES, "scope": SCOPES, "component": COMPONENTS}
_ENCODINGS = {
    "event_id": "DELTA_LENGTH_BYTE_ARRAY",
    "t_start": "PLAIN",
    "t_end": "PLAIN",
    "row": "DELTA_BINARY_PACKED",
}
_SMALL_BYTES = 1 << 20
_GROUP_ROWS = 1 << 20
_MANY_WORDS = 1 << 16

Log = Callable[[str], None]


@dataclass(frozen=True)
class Ingested:
    """What became of one file."""

    file: str
    rows_read: int
    rows_accepted: int
    rows_rejected: int
    skipped: bool
    record: Record


def stage(lake: Lake, scenario: Scenario, log: Log) -> tuple[list[Record], bool]:
    """Return the records whose `events` a scenario reads, and whether anything ran.

    Raise NoDataError when no row of the log was accepted.
    """
    trace = scenario.trace
    if trace.preset is not None:
        record, ran = synth.stage(lake, scenario, log)
        return [record], ran
    name = trace.source or trace.bootstrap or ANY_SOURCE
    said = {key: getattr(trace, key) for key in LOG_OPTIONS}
    if trace.xid_table is not None:
        where = f"{scenario.path.name} [trace] xid_table"
        said["xid_table"] = xids.text_of(scenario.path.parent / trace.xid_table, where)
    options = Options.of(**said, cluster=trace.cluster)
    if trace.path is not None:
        # A glob stays a glob: the folder of the scenario goes in front of it.
        done = ingest(lake, name, [str(scenario.path.parent / trace.path)], options, log)
    elif name and trace.cluster is None and sources.load(name).PUBLIC:
        done = ingest(lake, name, _public_files(lake, name, log), options, log)
    else:
        done = _ingested_before(lake, name, scenario)
    if not sum(item.rows_accepted for item in done):
        hint = '`goodput sql "select reason, count(*) from rejects group by 1"`; is it the right format?'
        found = f"no row accepted of {sum(item.rows_read for item in done)} read"
        raise NoDataError(f"{scenario.path.name} [trace]", found, "a log with at least one event", hint)
    for item in done:
        for note in item.record.facts.get("notes", ()):
            log(f"{item.file}: {note}")
    records, ran = [item.record for item in done], not all(item.skipped for item in done)
    if trace.bootstrap is not None:
        record, drew = synth.resample(lake, scenario, records, log)
        return [record], ran or drew
    return records, ran


def ingest(
    lake: Lake, source: str, paths: Iterable[str], options: Options, log: Log, *, strict: bool = False
) -> list[Ingested]:
    """Ingest files, folders, globs or `-`; with `strict`, raise CheckFailedError when a row was rejected."""
    module = sources.load(source)  # an unknown source is told before an absent file
    done = [_ingested(*_ingest_found(lake, source, module, found, options, log)) for found in find(paths)]
    rejected = [item for item in done if item.rows_rejected]
    if strict and rejected:
        count = sum(item.rows_rejected for item in rejected)
        where = ", ".join(item.file for item in rejected[:3]) + (", ..." if len(rejected) > 3 else "")
        raise CheckFailedError(where, f"{count} rows rejected", "none (--strict)", "see the table `rejects`")
    return done


def ingest_file(
    lake: Lake, source: str, path: Path, options: Options, log: Log, *, name: str | None = None
) -> tuple[Record, bool]:
    """Ingest one file; return its record and whether it was read (False: already ingested).

    `name` stands in the tables instead of the file's own name.
    """
    found = Found(name or path.name, path)
    return _ingest_found(lake, source, sources.load(source), found, options, log)


def _ingest_found(
    lake: Lake, source: str, module: ModuleType, found: Found, options: Options, log: Log
) -> tuple[Record, bool]:
    try:
        return _ingest_as(lake, source, module, found, options, log)
    except InputError as error:
        likely = detect.likely(found)
        if not likely or source in likely:
            raise
        hint = f"it looks like {listed(likely)}: `goodput sources {likely[0]}`"
        raise InputError(error.where, error.found, error.expected, hint) from None


def _ingest_as(
    lake: Lake, source: str, module: ModuleType, found: Found, options: Options, log: Log
) -> tuple[Record, bool]:
    sha256, parse, size = _content(lake, source, module, found, options)
    changed = options.plain()
    suffix = f"-{stages.input_hash(changed)[:8]}" if changed else ""

    # A row refused for being in the future may be acceptable by now: such a file is read again.
    before = lake.record(STAGE, f"{source}/{sha256[:16]}{suffix}")
    again = {"read_at": now().isoformat()} if before and before.facts.get("in_future") else {}

    def build(folder: Path) -> tuple[dict[str, Path], dict[str, Any]]:
        parsed = parse()
        _check(source, parsed)
        counts = {
            "rows_read": parsed.rows_read,
            "rows_accepted": parsed.events.height,
            "rows_rejected": parsed.rejects.height,
        }
        row = {
            "file": found.name,
            "sha256": sha256,
            "source": source,
            "source_version": module.VERSION,
            **counts,
            "ingested_at": now().replace(tzinfo=None),
        }
        whence = {"source": source, "file": found.name}
        cluster = {"cluster": options.cluster}
        rejects = parsed.rejects.with_columns(**{name: pl.lit(text) for name, text in whence.items()})
        file = pl.DataFrame([row], schema_overrides={"ingested_at": pl.Datetime("us")})
        tables = {
            "events": _event_pieces(parsed.events, {**whence, **cluster}, options.as_of),
            "rejects": _stored("rejects", rejects),
            "files": _stored("files", file),
        }
        log(f"{found.name}: {counts['rows_read']} rows read, {counts['rows_rejected']} rejected")
        files = stages.write_tables(folder, tables)
        day_0 = getattr(module, "DAY_0", None)
        about = {key: getattr(module, key.upper()) for key in ("title", "license", "homepage", "ends")}
        about["planned"] = getattr(module, "PLANNED", "ignore")
        in_future = parsed.rejects["reason"].str.contains(IN_FUTURE, literal=True).any()
        counts["in_future"] = bool(in_future)
        if size:
            counts["bytes"] = size
        about["notes"] = list(parsed.notes)
        return files, {**whence, **cluster, **counts, **about, "day_0": day_0.isoformat() if day_0 else ""}

    return stages.run(
        lake,
        STAGE,
        f"{source}/{sha256[:16]}{suffix}",
        inputs={"sha256": sha256, "source": source, "version": module.VERSION, "options": changed, **again},
        code=stages.code_version(
            "ingest/parsing.py",
            f"ingest/sources/{sources.module_file(source).name}",
            alone=(
                "ingest/run.py",
                "ingest/event_ids.py",
            ),  # its imports reach every preset, which no log depends on
            packages=("polars", "pyarrow"),
        ),
        build=build,
        log=log,
    )


def _content(
    lake: Lake, source: str, module: ModuleType, found: Found, options: Options
) -> tuple[str, Callable[[], Parsed], int | None]:
    """Return the hash of a file's content, what parses it, and its size on disk where that is worth keeping.

    A source that reads streams is never given the whole file. Hash and rows then come from one pass, unless
    the file is small or one of that size is in the lake: it is likely the same, which a hash tells for less.
    """
    if not hasattr(module, "read_stream"):
        data = read_bytes(found)
        return hashlib.sha256(data).hexdigest(), lambda: module.read(data, found.name, options), None

    size = found.path.stat().st_size if found.path and found.path.is_file() else None

    def read() -> tuple[str, Parsed]:
        with open_stream(found) as stream:
            parsed = module.read_stream(stream, found.name, options)
            return stream.sha256(), parsed

    if size is None or (size > _SMALL_BYTES and size not in _sizes(lake, source)):
        sha256, parsed = read()
        return sha256, lambda: parsed, size
    with open_stream(found) as stream:
        before = stream.sha256()

    def parse() -> Parsed:
        sha256, parsed = read()
        if sha256 != before:
            raise InputError(found.name, "changed while it was read", "a log at rest", "ingest a copy of it")
        return parsed

    return before, parse, size


def _sizes(lake: Lake, source: str) -> set[int | None]:
    """Return the sizes on disk of the files of a source that are in the lake."""
    facts = [record.facts for record in lake.records().values() if record.stage == STAGE]
    return {item.get("bytes") for item in facts if item.get("source") == source}


def _event_pieces(events: pl.DataFrame, added: Mapping[str, str], as_of: datetime | None) -> Pieces:
    """Return a source's events, which are used up, with their ids and what is `added`, as they are stored."""
    height = events.height
    columns = {name: _same(text, height) for name, text in added.items()}
    said = pl.lit(as_of and as_of.astimezone(UTC).replace(tzinfo=None), pl.Datetime("us"))
    for name in events.columns:
        column = events.drop_in_place(name)
        # A log that says itself when it was taken is believed before the option.
        if name == "as_of":
            column = column.to_frame().select(pl.col("as_of").fill_null(said)).to_series()
        columns[name] = _coded(column) if column.dtype == pl.String else column.to_arrow()
    for name, words in _WORDS.items():
        if columns[name].null_count < height:
            found = columns[name].dictionary.to_pylist()
            assert set(found) <= set(words), f"source {added['source']!r}: {name} outside {words}"
    ids = event_ids.halves({name: columns[name] for name in _IDENTITY}, height)
    return Pieces(_tables(columns, ids), _ENCODINGS, ranges=("t_start",))


def _tables(columns: Mapping[str, Any], ids: event_ids.Halves) -> Iterator[Any]:
    import pyarrow as pa

    names = [column.name for column in TABLES["events"]]
    height = ids.shape[1]
    for start in range(0, max(height, 1), _GROUP_ROWS):
        part = {name: _part(column, start) for name, column in columns.items()}
        part["event_id"] = event_ids.texts(ids[:, start : start + _GROUP_ROWS])
        yield pa.table({name: part[name] for name in names})


def _part(column: Any, start: int) -> Any:
    part = column.slice(start, _GROUP_ROWS)
    # Each group of rows has all words of its codes: where they are many, texts are shorter.
    is_long = hasattr(part, "dictionary") and len(part.dictionary) > _MANY_WORDS
    return part.dictionary_decode() if is_long else part


def _same(text: str, length: int) -> Any:
    import pyarrow as pa

    codes, words = pa.array(np.zeros(length, np.int32)), pa.array([text], pa.string())
    return pa.DictionaryArray.from_arrays(codes, words)


def _coded(column: pl.Series) -> Any:
    """Return texts as codes into their distinct words, in the order in which they come; nulls if all are."""
    import pyarrow as pa

    if column.null_count() == len(column):
        return pa.nulls(len(column), pa.string())
    if not column.null_count() and (column == column[0]).all():
        return _same(column[0], len(column))
    coded = column.to_arrow(compat_level=pl.CompatLevel.newest()).dictionary_encode()
    kind = pa.large_string() if len(coded.dictionary) > _MANY_WORDS else pa.string()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(kind))


def _check(source: str, parsed: Parsed) -> None:
    """Assert what every source owes: each row once, with an instant, and none that ends before it starts."""
    events, rejects = parsed.events, parsed.rejects
    told = f"source {source!r}"
    read = events.height + rejects.height
    assert parsed.rows_read == read, f"{told}: {parsed.rows_read} rows read, {read} accounted for"
    rows = np.concatenate([events["row"].to_numpy(), rejects["row"].to_numpy()])
    if len(rejects):
        rows = np.sort(rows, kind="stable")
    is_once = bool((rows[1:] > rows[:-1]).all()) or np.unique(rows).size == read
    assert is_once, f"{told}: a row is both accepted and rejected, or twice"
    assert events["t_start"].null_count() == 0, f"{told}: an event without an instant"
    assert (events["t_end"] >= events["t_start"]).all(), f"{told}: an event that ends before it starts"


def _stored(name: str, table: pl.DataFrame) -> Any:
    """Return a frame as the Arrow table of the schema, in one piece so that equal rows give equal bytes."""
    columns = [column.name for column in TABLES[name]]
    return table.select(columns).rechunk().to_arrow().cast(arrow_schema(name)).combine_chunks()


def _ingested(record: Record, ran: bool) -> Ingested:
    facts = record.facts
    counts = (facts["rows_read"], facts["rows_accepted"], facts["rows_rejected"])
    return Ingested(facts["file"], *counts, skipped=not ran, record=record)


def _ingested_before(lake: Lake, source: str, scenario: Scenario) -> list[Ingested]:
    """Return all files of a source (or of any), and of the scenario's cluster, that are in the lake.

    A file that was read again with other options counts once, as it was read last.
    """
    trace, place = scenario.trace, f"{scenario.path.name} [trace]"
    for key in LOG_OPTIONS:
        value = getattr(trace, key)
        if value is not None:
            found = f"{value!r} for files that are already ingested"
            hint = f"give it there: goodput ingest {source} FILE --{key.replace('_', '-')} {value}"
            raise InputError(f"{place} {key}", found, f"{key} with path, or no {key}", hint)
    latest: dict[tuple[str, str], Record] = {}
    for record in sorted(lake.records().values(), key=lambda record: (record.ended_at, record.scope)):
        is_whole = all((lake.root / output.path).is_file() for output in record.outputs.values())
        if record.stage == STAGE and source in {ANY_SOURCE, record.facts["source"]} and is_whole:
            content = record.facts["source"] + record.scope.rpartition("/")[2].partition("-")[0]
            latest[cluster_of(record), content] = record
    clusters = {name for name, _ in latest}
    if trace.cluster is None and len(clusters) > 1:
        found = f"{source!r} has ingested files of {len(clusters)} clusters: {listed(clusters)}"
        raise InputError(f"{place} cluster", found, "one of them", "cluster = ... names it")
    hint = f"goodput ingest {source or 'SOURCE'} FILE" + (
        f" --cluster {trace.cluster}" if trace.cluster else ""
    )
    if trace.cluster is None and not clusters:
        found = f"missing, and {source!r} has no public file and no ingested one"
        raise InputError(f"{place} path", found, "the log, relative to the scenario file", f"or {hint}")
    chosen = [record for (name, _), record in latest.items() if trace.cluster in {None, name}]
    if not chosen:
        files = f"no ingested file of {source!r}" if source else "no ingested file"
        found = f"{files} of cluster {trace.cluster!r}; there are {listed(clusters)}"
        raise NoDataError(
            f"{place} cluster", found, "a cluster with ingested files", f"{hint}, or path = ..."
        )
    return [_ingested(record, ran=False) for record in sorted(chosen, key=lambda record: record.scope)]


def cluster_of(record: Record) -> str:
    """Return the cluster that an ingested file belongs to."""
    name: str = record.facts.get("cluster", Options.cluster)
    return name


def _public_files(lake: Lake, source: str, log: Log) -> list[str]:
    public = sources.load(source).PUBLIC
    paths = {name: lake.path("raw", source, name) for name in public}
    if any(not path.is_file() or sha256_of(path) != public[name].sha256 for name, path in paths.items()):
        fetch(lake, source, log=log)
    return [str(path) for path in paths.values()]
