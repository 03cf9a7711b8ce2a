"""Kernel logs with Xid and SXid of NVIDIA, RAS of AMD: syslog, journald, dmesg, /dev/kmsg.

In: any mix of the forms in `kernellog.py`. Out: one `onset` for each line that claims a fault, with the
severity of the Xid table; a `clear` where the driver says that the GPU recovered: Xid 154 back to 0x0, an AMD
reset that succeeded. `row` is the line's number, of an entry over several lines the first one's; other lines
are no rows.
Easy to get wrong: what a line means may hang on others of its GPU: `xidchains.py` tells faults from their
wake. A GPU that fell off the bus may be told in three lines and without a number: code 79. SXid is told in
two lines, severity and data: one row. An Xid quoted by another program is refused. Usual lines are read by
columns (`xidcolumns.py`), all others one by one, with the same result.
Source: NVIDIA's open kernel modules and Xid catalogue; gpud, NVSentinel; amdgpu's messages in Linux.
"""

from __future__ import annotations

import io
import re
from typing import NamedTuple

import polars as pl

from pipeline.errors import InputError
from pipeline.ingest import journal, xids
from pipeline.ingest.clock import month_of, years_of
from pipeline.ingest.documents import node_needed
from pipeline.ingest.kernellog import YEARLESS, Told, is_stamped, told, told_by_export, when
from pipeline.ingest.parsing import (
    Options,
    Parsed,
    PublicFile,
    RefusedError,
    Reject,
    bounded,
    events_frame,
    parse_instants,
    rejects_frame,
)
from pipeline.ingest.textscan import PIECE, Lines, Mark, Readable, Scan
from pipeline.ingest.textscan import YEARLESS as YEARLESS_BYTES
from pipeline.ingest.xidchains import ROWS, linked
from pipeline.ingest.xidcolumns import usual
from pipeline.ingest.xidlines import LOST, NO_DEVICE, SXID, Message, claim, meaning_of, name_of, parse

VERSION = "1"
TITLE = ""
LICENSE = ""
HOMEPAGE = ""
PUBLIC: dict[str, PublicFile] = {}

EXPORT = """journalctl --dmesg --since 2025-03-01 --output json > gpu-01.json   # nothing is missing in it
cp /var/log/kern.log gpu-01.log                                    # --tz, and --year or --as-of
dmesg --time-format iso > gpu-01.log                               # --node
dmesg > gpu-01.log                                                 # --boot-time and --node"""
FLAGS = ("tz", "year", "boot_time", "as_of", "node", "fold", "xid_table")
TRAPS = (
    "A kernel log tells no end but Xid 154 back to 0x0 and an AMD reset that succeeded.",
    "Xid 13, 31, 43 and their like end a job and leave the GPU in service: severity app.",
    "Xid 45 and 154 are the wake of another fault and start none; 154 without one takes the GPU down.",
    "A code that the Xid table does not hold is unknown, not fatal: info.",
    "Times of dmesg -T drift after a suspend: the future, and a weekday that does not fit, are refused.",
    "Servers are named by their lines; a log that names none needs --node.",
    "Lines that another program than the kernel wrote, tests and quotes, are refused.",
    "Of journalctl's --output json-pretty and export, row is the first line of an entry.",
)
ENDS = False

CUT_OFF = "cut off: not what happened to the GPU"
LOST_LINES = 3  # that tell a GPU lost without an Xid

_MARKS = (
    Mark(b"Xid", letter=0),
    Mark(b"NVRM", pairs=((0,), (1,))),
    Mark(b"amdgpu", pairs=((2,), (1, 3))),  # "gp" alone stands in most servers' names
)
_ARRAYS = tuple(Mark(b'"MESSAGE"' + colon) for colon in (b":[", b": [", b" : ["))  # bytes, which hide marks
_WANTED = re.compile(
    rb'Xid|fallen off the bus|The NVIDIA GPU|PCI ID:|installed in this system|loading NVIDIA|"MESSAGE" ?: ?\['
    rb"|hardware errors? ?(?:\(|detected)|hardware errors detected|GPU reset|STATUS="
)
_BOM = b"\xef\xbb\xbf"
_HALF_YEAR = 6  # months
_TELLS_MORE = ("NVRM: (PCI ID", "NVRM: installed", "NVRM: fallen off")
_OTHER_MESSAGE = re.compile(r"installed in this system(?! has\s*$)")


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the faults of a kernel log, and the lines refused with the reason."""
    return read_stream(io.BytesIO(data), file, options)


def read_stream(stream: Readable, file: str, options: Options) -> Parsed:
    """As `read`, of a stream that is read once and never held as a whole."""
    table = xids.table(options)  # a table of the user's with a mistake is told before the log is read
    begun = _Begun(stream)
    is_json = begun.head.startswith(b"{")
    scan = Scan(begun, (*_MARKS, *(_ARRAYS if is_json else ())), journal.cut_of(begun.head))
    reader = _Reader(file, options, table, scan, is_export=journal.cut_of(begun.head) == journal.EXPORT)
    for lines in scan:
        reader.take(lines)
    if reader.is_empty and not _is_log(scan.head):
        hint = "choose a log of the kernel; `goodput ingest --detect` tells formats"
        raise InputError(file, "no line of a kernel log", "syslog, journald, dmesg or /dev/kmsg", hint)
    events = linked(reader.done(), reader.boots)
    names = [name for name in events.columns if name not in {"family", "number"}]
    rejects = sorted(reader.rejects)
    return Parsed(
        events_frame({name: events[name] for name in names}),
        rejects_frame(rejects),
        events.height + len(rejects),
    )


def looks_like(head: bytes) -> bool:
    """Return whether a file begins as a kernel log does."""
    if head.lstrip()[:1] == b"{" or journal.cut_of(head) == journal.EXPORT:
        return b"__REALTIME_TIMESTAMP" in head
    return bool(_KERNEL_LOG.search(head))


_KERNEL_LOG = re.compile(
    rb"NVRM: |nvidia-nvswitch[0-9]+: SXid|amdgpu [0-9a-f]{4}:| kernel: |kernel: \[|^\[ *[0-9]+\.[0-9]{6}\] "
    rb"|^\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [0-9]{4}\] |^kern *: *[a-z]+ *: "
    rb"|^[0-9]+,[0-9]+,[0-9]+,[^;]{1,20};|: kern: +[a-z]+: \[",
    re.MULTILINE,
)


def _is_log(head: bytes) -> bool:
    """Return whether any line has the form of a log's: a healthy server's log holds no fault."""
    if looks_like(head):
        return True
    lines = head.decode("utf-8", errors="replace").splitlines()
    return any(is_stamped(line) for line in lines[:1000])


def _year_beside(year: int, month: int, known: Told) -> int:
    """Return the year of a line that stands in a run of a month, out of order if its month is another."""
    try:
        ahead = month_of(known.parts[1] or "") - month
    except RefusedError:
        return year  # it is refused where it is read
    return year + (ahead < -_HALF_YEAR) - (ahead > _HALF_YEAR)


class _Begun:
    """A stream of which the first piece was read ahead; a byte order mark is no part of its first line."""

    def __init__(self, stream: Readable) -> None:
        self._stream = stream
        self.head = b""
        while len(self.head) < journal.HEAD_BYTES + len(_BOM) and (piece := stream.read(PIECE)):
            self.head += piece
        self.head = self.head.removeprefix(_BOM)
        self._held: bytes | None = self.head

    def read(self, size: int = -1, /) -> bytes:
        held, self._held = self._held, None
        return self._stream.read(size) if held is None else held


class _Line(NamedTuple):
    """A line that is read by itself."""

    number: int
    text: str
    run: int  # of months; -1: the line begins with no time without year


class _Row(NamedTuple):
    """A row on its way to the tables: as in ROWS, and its line."""

    row: int
    t_start: int
    node: str
    gpu_name: str | None
    family: str
    number: int | None
    severity: str
    scope: str
    component: str
    code: str
    reason: str
    text: str


class _Reader:
    """Lines in file order -> rows and rejects.

    Lines without a year wait until all are read, because the last one tells the year; the others are dated
    in batches, which frees their texts.
    """

    def __init__(
        self, file: str, options: Options, table: xids.Table, scan: Scan, *, is_export: bool
    ) -> None:
        self.rejects: list[Reject] = []
        self.boots: list[tuple[int, str]] = []
        self.is_empty = True
        self._dated: list[pl.DataFrame] = []
        self._waiting: list[pl.DataFrame] = []  # for the year, by columns
        self._late: list[tuple[_Row, Told, int]] = []  # for the year, one by one
        self._rows: list[_Row] = []
        self._undated: list[tuple[_Row, str]] = []
        self._file = file
        self._options = options
        self._table = table
        self._scan = scan
        self._is_export = is_export
        self._node = options.node_of(file)
        self._lost: tuple[_Line, Told] | None = None  # a GPU's name without what became of it

    def take(self, lines: Lines) -> None:
        """Take lines: usual ones by columns, the others one by one."""
        texts = [data.decode("utf-8", errors="replace") for data in lines.texts]
        left = self._take_usual(lines, texts)
        past = -1
        for place in left:
            if place > past + 1:
                self._flush()
            past = place
            data = lines.texts[place]
            if b"Xid" in data or _WANTED.search(data):
                run = lines.runs[place] if YEARLESS_BYTES.match(data) else -1
                self._take(_Line(lines.numbers[place], texts[place], run), data)
        if past + 1 < len(texts):
            self._flush()
        self._date_rows()
        if (self._late or self._waiting) and self._options.year is None and self._options.as_of is None:
            years_of(self._scan.days, self._options, self._file)  # tells what is missing, before all is read

    def done(self) -> pl.DataFrame:
        """Return the rows, dated, in file order."""
        self._flush()
        if self._late or self._waiting:
            days = self._scan.days
            years = years_of(days, self._options, self._file)[::2]  # of the first day of each run
            months = [month for month, _ in days[::2]]
            for row, known, run in self._late:
                self._place(row, known, _year_beside(years[run], months[run], known) if run >= 0 else None)
            runs = pl.DataFrame(
                {"year": years, "month": months}, schema={"year": pl.Int64, "month": pl.Int64}
            )
            for rows in self._waiting:
                dated = rows.join(runs.with_row_index("run").cast({"run": pl.Int64}), on="run")
                ahead = pl.col("stamp").str.slice(1, 2).cast(pl.Int64) - pl.col("month")
                year = pl.col("year") + (ahead < -_HALF_YEAR).cast(pl.Int64) - (ahead > _HALF_YEAR)
                told_year = year.cast(pl.String).str.zfill(4)
                self._date(dated.with_columns(stamp=pl.concat_str(told_year, "stamp")))
        self._date_rows()
        return pl.concat([pl.DataFrame(schema=ROWS), *self._dated]).sort("row")

    # --- by columns ----------------------------------------------------------------------------------------

    def _take_usual(self, lines: Lines, texts: list[str]) -> list[int]:
        """Take the usual lines; return the places of the others."""
        if self._is_export:
            return list(range(len(texts)))
        rows, left = usual(lines.numbers, texts, lines.runs, self._options, self._table)
        if rows.height:
            self.is_empty = False
            self._date(rows.filter(pl.col("run") < 0))
            waiting = rows.filter(pl.col("run") >= 0)
            self._waiting += [waiting] if waiting.height else []
        return left

    def _date(self, rows: pl.DataFrame) -> None:
        """Date rows by the texts of their times; refuse those that cannot be."""
        parsed = parse_instants(rows["stamp"], self._options)
        told_us = pl.DataFrame(
            [rows["us"], pl.Series("reason", [None], pl.String).new_from_index(0, rows.height)]
        )
        counted = bounded(told_us, self._options)
        dated = rows.with_columns(
            t_start=parsed["us"].fill_null(counted["us"]), why=parsed["reason"].fill_null(counted["reason"])
        )
        refused = dated.filter(pl.col("why").is_not_null())
        self.rejects += [Reject(*values) for values in refused.select("row", "why", "text").iter_rows()]
        self._dated.append(dated.filter(pl.col("why").is_null()).select(list(ROWS)))

    def _date_rows(self) -> None:
        """Date the rows that were read one by one."""
        schema = {**ROWS, "text": pl.String()}
        if self._rows:
            self._dated.append(pl.DataFrame(self._rows, schema=schema, orient="row").select(list(ROWS)))
        if self._undated:
            rows = pl.DataFrame([row for row, _ in self._undated], schema=schema, orient="row")
            stamps = pl.Series("stamp", [stamp for _, stamp in self._undated], dtype=pl.String)
            self._date(rows.with_columns(stamps, us=pl.lit(None, pl.Int64)))
        self._rows, self._undated = [], []

    # --- one by one ----------------------------------------------------------------------------------------

    def _take(self, line: _Line, data: bytes) -> None:
        """Take a line: a row, a reject, or neither."""
        self.is_empty = False
        known = told_by_export(data, claim) if self._is_export else told(line.text, claim)
        if known is None or (self._lost and self._goes_on(line, known)):
            return
        if known.message.startswith("NVRM: loading"):
            host = known.host or self._node
            if host:
                self.boots.append((line.number, host))
            return
        try:
            message = parse(known.message)
            if message and not self._awaits(line, known, message):
                self._add(line, known, message)
        except RefusedError as error:
            self.rejects.append(Reject(line.number, str(error), line.text))

    def _flush(self) -> None:
        """Refuse a GPU's name that nothing followed."""
        if self._lost:
            line, _ = self._lost
            self.rejects.append(Reject(line.number, CUT_OFF, line.text))
            self._lost = None

    def _awaits(self, line: _Line, known: Told, message: Message) -> bool:
        """Hold back a GPU's name whose lot stands in the next lines."""
        if message.family != LOST:
            return False
        if "installed in this system" not in message.reason:
            self._lost = (line, known)
        return True

    def _goes_on(self, line: _Line, known: Told) -> bool:
        """Take the second and third line that tell of a lost GPU."""
        assert self._lost
        first, head = self._lost
        if not known.message.startswith(_TELLS_MORE) or line.number - first.number > LOST_LINES:
            self._flush()
            return False
        if known.host not in {None, head.host}:
            return False
        if "fallen off" in known.message:
            self._lost = None
            try:
                message = parse(f"{head.message.rstrip()} has {known.message.removeprefix('NVRM: ')}")
                if message:
                    self._add(first, head, message)
            except RefusedError as error:
                self.rejects.append(Reject(first.number, str(error), first.text))
        elif _OTHER_MESSAGE.search(known.message):
            self._lost = None  # such as of a GPU that the driver does not know
        return True

    def _add(self, line: _Line, known: Told, message: Message) -> None:
        if known.refused:
            raise RefusedError(known.refused)
        name = name_of(message.address)
        if name is None:
            raise RefusedError(NO_DEVICE)
        is_switch = message.family == SXID
        meaning, code = meaning_of(message, self._table)
        row = _Row(
            row=line.number,
            t_start=0,
            node=known.host or self._node or "",
            gpu_name=None if is_switch else name,
            family=f"{SXID} {message.switch}{name}" if is_switch else message.family,
            number=message.code,
            severity=meaning.severity,
            scope=meaning.scope,
            component=meaning.component,
            code=code,
            reason=message.reason,
            text=line.text,
        )
        if known.form != YEARLESS:
            self._place(row, known, None)
        elif self._options.tz is None:
            raise self._options.zone_needed(self._file, line.text[:15])
        else:
            self._late.append((row, known, line.run))

    def _place(self, row: _Row, known: Told, year: int | None) -> None:
        """Date a row, or put it among those that are dated together."""
        try:
            moment = when(known, year, self._options, self._file)
        except RefusedError as error:
            self.rejects.append(Reject(row.row, str(error), row.text))
            return
        if not row.node:
            raise node_needed(self._file)
        if isinstance(moment, int):
            self._rows.append(row._replace(t_start=moment))
        else:
            self._undated.append((row, moment))
