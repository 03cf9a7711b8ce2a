"""What sources share: options, instants, rejected rows, and the frame of events a source hands back.

In: texts and bytes of a log. Out: UTC instants in whole microseconds, or a reason why not.
Easy to get wrong: a time is never repaired. One without a zone needs `tz`; one that a clock change makes
ambiguous or impossible is refused; one finer than a microsecond is refused unless the rest is zeros; one
before 2000 or after the log was taken is refused, which catches seconds read as milliseconds and the
sentinels (9999-12-31, 1970-01-01) that databases write for "unknown".
`parse_instant` reads one text, `parse_instants` a column; a property test keeps them equal.
Longer than other modules, because every source imports it: one place for what all of them must keep.
Source: ISO 8601; the rules of model.md section 2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import MAXYEAR, UTC, datetime, timedelta
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import polars as pl
import pyarrow as pa

from pipeline.errors import InputError, nearest
from pipeline.schema import INT, TABLES, TEXT, TIME
from pipeline.units import US_PER_D, US_PER_S, from_us, to_us

EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
_BEFORE = "before {:%Y-%m-%d}"
TOO_EARLY = _BEFORE.format(EARLIEST)
TEXT_LIMIT = 500

# Reasons, one sentence each: they are counted by users, so they name no value.
NOT_ISO = "not an ISO 8601 time with date and clock"
NO_SUCH = "no such date or clock time"
TOO_FINE = "finer than a microsecond"
NO_ZONE = "time without a zone"
AMBIGUOUS = "ambiguous local time: clocks were set back"
SKIPPED = "local time that does not exist: clocks were set forward"
IN_FUTURE = "in the future"
NO_NODE = "no node name"
NOT_UTF8 = "bytes that are not UTF-8"
AFTER_AS_OF = "after --as-of, when the log was taken"

EARLIER, LATER = "earlier", "later"
FOLDS = (EARLIER, LATER)
FILE_NAME = "@file"

# A date alone is refused on purpose: as the end of an interval it could mean its first or its last instant.
# [0-9], because \d would also take the digits of other scripts.
_ISO = (
    r"^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
    r" ?(Z|z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?$"
)
_UTC = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-5][0-9]:[0-5][0-9]Z$"
_UTC_FORMAT, _MOMENT = "%Y-%m-%dT%H:%M:%SZ", pl.Datetime("us")
_UTC_BYTES = 20
_LETTERS = re.compile(r"[A-Za-z]{2,5}")  # CST, which is near UCT as text and six hours off
# Abbreviations that zone databases know, some with summer time and some without; a place that may be meant.
_ABBREVIATIONS = {
    "EST": "America/New_York",
    "EST5EDT": "America/New_York",
    "CST6CDT": "America/Chicago",
    "MST": "America/Denver",
    "MST7MDT": "America/Denver",
    "PST8PDT": "America/Los_Angeles",
    "HST": "Pacific/Honolulu",
    "WET": "Europe/Lisbon",
    "CET": "Europe/Berlin",
    "MET": "Europe/Berlin",
    "EET": "Europe/Athens",
}
# What the folder of zones holds besides: this machine's own zone, and copies that count leap seconds.
_OF_MACHINE = ("localtime", "posixrules", "posix/", "right/", "Factory")
_ISO_PATTERN = re.compile(_ISO.removesuffix("$") + r"\Z")
_NAIVE_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - local clock times are counted from a local epoch

_ADDED_BY_RUN = {"event_id", "cluster", "source", "file"}
_POLARS = {TEXT: pl.String(), INT: pl.Int64(), TIME: pl.Datetime("us")}
EVENT_SCHEMA: dict[str, pl.DataType] = {
    column.name: _POLARS[column.type] for column in TABLES["events"] if column.name not in _ADDED_BY_RUN
}
REJECT_SCHEMA = pl.Schema({"row": pl.Int64(), "reason": pl.String(), "text": pl.String()})


class RefusedError(ValueError):
    """A row, or a value in it, that cannot be accepted; the text is the reason kept in `rejects`."""


_ZONE_HINT = "--tz UTC, or the zone of the machine's clock, e.g. --tz Europe/Berlin"


@dataclass(frozen=True)
class Options:
    """What the user says about a log that the log does not say itself.

    `node` names the server of a log that does not (FILE_NAME: the file's name up to the first dot); `fold` is
    EARLIER or LATER, for local times that a clock change makes ambiguous; `xid_table` is the text of a table
    of Xid codes that takes the place of the shipped one.
    """

    tz: str | None = None
    year: int | None = None
    boot_time: datetime | None = None
    as_of: datetime | None = None
    cluster: str = "default"
    node: str | None = None
    fold: str | None = None
    xid_table: str | None = None

    def __post_init__(self) -> None:
        if self.tz is not None:
            check_zone(self.tz)
        if self.year is not None and not EARLIEST.year <= self.year <= MAXYEAR:
            raise InputError("year", f"found {self.year}", f"{EARLIEST.year} to {MAXYEAR}, e.g. 2025")
        if self.fold is not None and self.fold not in FOLDS:
            raise InputError("fold", f"found {self.fold!r}", f"{EARLIER} or {LATER}")
        for key in ("as_of", "boot_time"):
            moment = getattr(self, key)
            if moment is not None and moment.tzinfo is None:
                raise InputError(key, f"{moment.isoformat()} has no zone", "an instant with a zone")

    @classmethod
    def of(
        cls,
        *,
        tz: str | None = None,
        year: int | None = None,
        boot_time: str | None = None,
        as_of: str | None = None,
        cluster: str | None = None,
        node: str | None = None,
        fold: str | None = None,
        xid_table: str | None = None,
    ) -> Options:
        """Return options from a command line's texts; raise InputError naming the option."""
        if tz is not None:
            check_zone(tz)
        for key, text in {"node": node, "cluster": cluster}.items():
            if text is not None and not text.strip():
                raise InputError(f"--{key}", f"found {text!r}", "a name", f"leave --{key} out, or name it")
        moments = {"boot-time": boot_time, "as-of": as_of}
        given = {key: text for key, text in moments.items() if text is not None}
        read = {key: _option_instant(f"--{key}", text, tz) for key, text in given.items()}
        name = cls.cluster if cluster is None else cluster
        return cls(
            tz=tz,
            year=year,
            boot_time=read.get("boot-time"),
            as_of=read.get("as-of"),
            cluster=name,
            node=node,
            fold=fold,
            xid_table=xid_table,
        )

    def latest(self) -> datetime:
        """Return the last instant that is believed: `as_of`, else a day from now (zones, clock drift)."""
        return self.as_of or datetime.now(UTC) + timedelta(days=1)

    @property
    def too_late(self) -> str:
        """The reason for an instant after `latest`."""
        return AFTER_AS_OF if self.as_of else IN_FUTURE

    def node_of(self, file: str) -> str | None:
        """Return the server that was said for a file, or None."""
        return file.rpartition("/")[2].partition(".")[0] if self.node == FILE_NAME else self.node

    def zone_needed(self, file: str, example: object, hint: str = _ZONE_HINT) -> InputError:
        """Return the one error for a log whose times have no zone and that was given none."""
        return InputError(file, f"times without a zone, such as {example!r}", "the zone they are in", hint)

    def plain(self) -> dict[str, str]:
        """Return the options that differ from the default, as texts."""
        default = Options()
        changed = {key: value for key, value in vars(self).items() if value != getattr(default, key)}
        return {
            key: value.astimezone(UTC).isoformat() if isinstance(value, datetime) else str(value)
            for key, value in changed.items()
        }


@dataclass(frozen=True)
class PublicFile:
    """A public file of a source: where it is, and what its bytes must be."""

    url: str
    sha256: str
    bytes: int


class Reject(NamedTuple):
    """A refused row: its place from 1, the reason, its text."""

    row: int
    reason: str
    text: str


@dataclass(frozen=True)
class Parsed:
    """What a source made of a file; every row read is in `events` or in `rejects`, none in both.

    `notes` tell what is odd about the file and was kept as it is.
    """

    events: pl.DataFrame
    rejects: pl.DataFrame
    rows_read: int
    notes: tuple[str, ...] = ()


def events_frame(columns: Mapping[str, Sequence[Any] | pl.Series]) -> pl.DataFrame:
    """Return the events of a source; columns that are left out are null, instants are microseconds.

    `as_of` is for a log that says itself when it was taken; where it is null, `Options.as_of` counts.
    """
    length = len(columns["row"])
    series = [
        pl.Series(name, columns[name], dtype=_stored(kind)).cast(kind)
        if name in columns
        else pl.Series(name, [None], dtype=kind).new_from_index(0, length)
        for name, kind in EVENT_SCHEMA.items()
    ]
    return pl.DataFrame(series)


def rejects_frame(rejects: Sequence[Reject]) -> pl.DataFrame:
    """Return refused rows as a frame, their texts cut at `TEXT_LIMIT` characters."""
    cut = [(reject.row, reject.reason, reject.text[:TEXT_LIMIT]) for reject in rejects]
    return pl.DataFrame(cut, schema=REJECT_SCHEMA, orient="row")


def decode(data: bytes, file: str) -> str:
    """Return UTF-8 text, a byte-order mark left out; raise InputError with the line of the first bad byte."""
    data = with_newlines(data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"byte 0x{data[error.start]:02x} is not UTF-8"
        hint = "save the file as UTF-8" if b"\0" not in data[:4] else "it may be UTF-16, or not text at all"
        raise InputError(f"{file} line {line}", found, "text in UTF-8", hint) from None


def with_newlines(data: bytes) -> bytes:
    """Return a text with newlines at the ends of its lines, where they end with a carriage return alone."""
    return data if b"\n" in data or b"\r" not in data else data.replace(b"\r", b"\n")


def check_encoding(data: bytes, file: str) -> None:
    """Raise InputError for UTF-16, whose lines are not even bytes that a line could be refused for."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) or b"\0" in data[:4]:
        decode(data, file)


def text_lines(data: bytes, file: str) -> pl.DataFrame:
    """Return the lines of a log as `line`, and `is_text`: False where bytes that are not UTF-8 were replaced.

    For logs of free text, where one bad line is one refused row and not the end of the file.
    """
    check_encoding(data, file)
    data = with_newlines(data)
    try:
        lines = data.decode("utf-8-sig").split("\n")
        whole = [True] * len(lines)
    except UnicodeDecodeError:
        raw = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        lines = [line.decode(errors="replace") for line in raw]
        # A mark that stood in the log itself is text; only then is the line decoded twice.
        whole = ["\ufffd" not in text or line == text.encode() for line, text in zip(raw, lines, strict=True)]
    frame = pl.DataFrame({"line": lines, "is_text": whole}, schema={"line": pl.String, "is_text": pl.Boolean})
    return frame.with_columns(pl.col("line").str.strip_suffix("\r"))


def check_zone(name: str) -> ZoneInfo:
    """Return a zone by name; raise InputError with the nearest name."""
    if place := _ABBREVIATIONS.get(name.upper()):
        hint = f"give a place, e.g. {place}, or an offset, e.g. Etc/GMT+5 for five hours behind UTC all year"
        raise InputError(f"tz {name!r}", "such letters name several zones", "one zone", hint)
    if not name.startswith(_OF_MACHINE):
        with suppress(ZoneInfoNotFoundError, ValueError, OSError):
            return ZoneInfo(name)
    known = {zone.lower(): zone for zone in available_timezones()}
    close = known.get(name.lower())
    hint = f"did you mean {close!r}?" if close else nearest(name, known.values())
    if not close and _LETTERS.fullmatch(name):
        hint = "CST and its like name several zones: give a place, e.g. America/Chicago or Asia/Shanghai"
    raise InputError(f"tz {name!r}", "unknown zone", "a name such as UTC or Europe/Berlin", hint)


def before(earliest: datetime) -> str:
    """Return the reason for an instant before `earliest`."""
    return _BEFORE.format(earliest)


def check_plausible(instant_us: int, options: Options) -> None:
    """Refuse an instant before 2000 or after the log was taken."""
    if instant_us < to_us(EARLIEST):
        raise RefusedError(TOO_EARLY)
    if instant_us > to_us(options.latest()):
        raise RefusedError(options.too_late)


def parse_instant(text: str, options: Options) -> datetime:
    """Return an ISO 8601 text as a UTC instant; raise RefusedError with the reason."""
    found = _ISO_PATTERN.match(text)
    if not found:
        raise RefusedError(NOT_ISO)
    date, hour, minute, second, decimals, zone = found.groups()
    try:
        local = datetime.fromisoformat(f"{date}T{hour}:{minute}:{second or '00'}")
        offset = _offset(zone)
    except ValueError:
        raise RefusedError(NO_SUCH) from None
    digits = (decimals or "").ljust(6, "0")
    if digits[6:].strip("0"):
        raise RefusedError(TOO_FINE)
    local += timedelta(microseconds=int(digits[:6]))
    # Far-off years first: rules of zones are unknown there, and a shift could leave the calendar.
    if local.year < EARLIEST.year - 1:
        raise RefusedError(TOO_EARLY)
    if local.year > options.latest().year + 1:
        raise RefusedError(options.too_late)
    if offset is None:
        offset = zone_offset(local, options)
    instant_us = (local - offset - _NAIVE_EPOCH) // timedelta(microseconds=1)
    check_plausible(instant_us, options)
    return from_us(instant_us)


def parse_instants(texts: pl.Series, options: Options, earliest: datetime = EARLIEST) -> pl.DataFrame:
    """Return `us` (microseconds since 1970 UTC) and `reason` for a column of ISO texts; null stays null.

    `earliest` is for a trace that is known to be older than 2000.
    """
    # The commonest shape is read at once; whatever else there is, refused or not, takes the long way.
    us = _all_utc(texts)
    if us is None:
        shaped = pl.when(texts.str.contains(_UTC)).then(
            texts.str.strptime(_MOMENT, _UTC_FORMAT, strict=False)
        )
        us = texts.to_frame().select(shaped.to_physical().alias("us")).to_series()
    us = us.set(~us.is_between(to_us(earliest), to_us(options.latest())), None)
    rest = (us.is_null() & texts.is_not_null()).arg_true()
    reasons = pl.Series("reason", [None], dtype=pl.String).new_from_index(0, len(texts))
    if rest.is_empty():
        return pl.DataFrame([us, reasons])
    slow = _parse_any(texts.gather(rest), options, earliest)
    if len(rest) == len(texts):
        return slow
    return pl.DataFrame([us.scatter(rest, slow["us"]), reasons.scatter(rest, slow["reason"])])


def _all_utc(texts: pl.Series) -> pl.Series | None:
    """Return the microseconds of texts that all have the commonest shape; None when one has not."""
    if not (texts.str.len_bytes() == _UTC_BYTES).all():
        return None
    try:  # of this length Arrow takes no other shape, but a space for the T
        moments = texts.to_arrow().cast(pa.timestamp("us", "UTC"))
    except pa.ArrowInvalid:
        return None
    return pl.Series("us", moments.cast(pa.int64()))


def _parse_any(texts: pl.Series, options: Options, earliest: datetime) -> pl.DataFrame:
    """Return what `parse_instants` does, for texts of any shape."""
    frame = texts.alias("text").to_frame()
    parts = pl.col("text").str.extract_groups(_ISO)
    names = ("date", "hour", "minute", "second", "decimals", "zone")
    frame = frame.with_columns(parts.struct.rename_fields(names).alias("part")).unnest("part")
    whole = (pl.col(name).cast(pl.Int64).fill_null(0) for name in ("hour", "minute", "second"))
    hour, minute, second = whole
    digits = pl.col("decimals").fill_null("").str.pad_end(6, "0")
    date = pl.col("date").str.to_date("%Y-%m-%d", strict=False)
    signed = pl.col("zone").str.contains(r"^[+-]")
    zone_h = pl.when(signed).then(pl.col("zone").str.slice(1, 2)).otherwise(pl.lit("0")).cast(pl.Int64)
    zone_min = pl.col("zone").str.extract(r"^[+-][0-9]{2}:?([0-9]{2})$").cast(pl.Int64).fill_null(0)
    sign = pl.when(pl.col("zone").str.starts_with("-")).then(-1).otherwise(1)
    clock_s = (hour * 60 + minute) * 60 + second
    frame = frame.with_columns(
        fits=date.is_not_null()
        & (date.dt.year() > 0)
        & (hour < 24)
        & (minute < 60)
        & (second < 60)
        & (zone_h.fill_null(0) < 24)
        & (zone_min < 60),
        fine=digits.str.slice(6).str.strip_chars("0") != "",
        year=date.dt.year(),
        local=date.cast(pl.Int64) * US_PER_D
        + clock_s * US_PER_S
        + digits.str.slice(0, 6).cast(pl.Int64, strict=False),
        offset=sign * (zone_h * 60 + zone_min) * (60 * US_PER_S),
    )
    return _zoned(frame, options, earliest)


_AMBIGUOUS: dict[str | None, Literal["null", "earliest", "latest"]] = {
    None: "null",
    EARLIER: "earliest",
    LATER: "latest",
}


def _zoned(frame: pl.DataFrame, options: Options, earliest: datetime) -> pl.DataFrame:
    """Finish `parse_instants`: local clock times -> UTC, and the first reason that applies."""
    naive = pl.col("zone").is_null()
    latest = options.latest()
    too_early = before(earliest)
    far = (pl.col("year") < earliest.year - 1) | (pl.col("year") > latest.year + 1)
    # Zone rules are asked only for times that pass every earlier test.
    known = pl.when(naive & pl.col("fits") & ~far).then(pl.col("local")).cast(pl.Datetime("us"))
    if options.tz is None:
        frame = frame.with_columns(first=pl.lit(None, pl.Int64), only=pl.lit(None, pl.Int64))
    else:
        zone = check_zone(options.tz).key
        frame = frame.with_columns(
            first=known.dt.replace_time_zone(zone, ambiguous="earliest", non_existent="null").to_physical(),
            only=known.dt.replace_time_zone(
                zone, ambiguous=_AMBIGUOUS[options.fold], non_existent="null"
            ).to_physical(),
        )
    instant = pl.when(naive).then(pl.col("only")).otherwise(pl.col("local") - pl.col("offset"))
    frame = frame.with_columns(us=instant)
    reason = (
        pl.when(pl.col("text").is_null())
        .then(None)
        .when(pl.col("date").is_null())
        .then(pl.lit(NOT_ISO))
        .when(~pl.col("fits"))
        .then(pl.lit(NO_SUCH))
        .when(pl.col("fine"))
        .then(pl.lit(TOO_FINE))
        .when(pl.col("year") < earliest.year - 1)
        .then(pl.lit(too_early))
        .when(pl.col("year") > latest.year + 1)
        .then(pl.lit(options.too_late))
        .when(naive & pl.lit(options.tz is None))
        .then(pl.lit(NO_ZONE))
        .when(naive & pl.col("first").is_null())
        .then(pl.lit(SKIPPED))
        .when(naive & pl.col("only").is_null())
        .then(pl.lit(AMBIGUOUS))
    )
    frame = frame.with_columns(reason=reason)
    return bounded(frame.select("us", "reason"), options, earliest)


def bounded(instants: pl.DataFrame, options: Options, earliest: datetime = EARLIEST) -> pl.DataFrame:
    """Add the reasons of implausible instants to `us` and `reason`; refused ones lose their `us`."""
    reason = (
        pl.when(pl.col("reason").is_not_null())
        .then(pl.col("reason"))
        .when(pl.col("us") < to_us(earliest))
        .then(pl.lit(before(earliest)))
        .when(pl.col("us") > to_us(options.latest()))
        .then(pl.lit(options.too_late))
    )
    return instants.with_columns(reason=reason).with_columns(
        us=pl.when(pl.col("reason").is_null()).then(pl.col("us"))
    )


def _offset(zone: str | None) -> timedelta | None:
    if zone is None:
        return None
    if zone in {"Z", "z", "UTC"}:
        return timedelta(0)
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise ValueError(zone)
    return (-1 if zone[0] == "-" else 1) * timedelta(hours=hours, minutes=minutes)


def zone_offset(local: datetime, options: Options) -> timedelta:
    """Return the offset from UTC of a local clock time; refuse what a clock change leaves open."""
    if options.tz is None:
        raise RefusedError(NO_ZONE)
    zone = ZoneInfo(options.tz)
    first = local.replace(tzinfo=zone, fold=0).utcoffset() or timedelta(0)
    second = local.replace(tzinfo=zone, fold=1).utcoffset() or timedelta(0)
    if first < second:
        raise RefusedError(SKIPPED)
    if first > second and options.fold is None:
        raise RefusedError(AMBIGUOUS)
    return second if options.fold == LATER else first


def _option_instant(where: str, text: str, tz: str | None) -> datetime:
    try:
        return parse_instant(text, Options(tz=tz, as_of=datetime(9000, 1, 1, tzinfo=UTC)))
    except RefusedError as error:
        raise InputError(where, f"found {text!r} ({error})", "an instant, e.g. 2024-03-30T00:00Z") from None


def _stored(kind: pl.DataType) -> pl.DataType:
    """Return the type values come in: instants come as whole microseconds."""
    return pl.Int64() if kind == pl.Datetime("us") else kind
