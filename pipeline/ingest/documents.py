"""JSON exports of operators' tools -> objects in file order, and the rows that a source makes of them.

In: bytes that hold one JSON value, several one after the other (a watch stream), or one a line. Out: the
values with their texts, broken ones among them; `Rows` numbers what a source accepts and refuses.
Easy to get wrong: a value that is cut off is one broken piece, and reading goes on at the next line that
begins an object or a list in its first column, so that one bad line costs one row and never the file; a value
with bytes that are not UTF-8 is broken too, since JSON has no others. Clocks
written in Go print nanoseconds: digits beyond the microsecond are cut off, which never makes a time later.
Source: RFC 8259; RFC 3339; MongoDB Extended JSON v2 ($date, $numberLong).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest.clock import epoch_us
from pipeline.ingest.parsing import (
    EVENT_SCHEMA,
    NO_NODE,
    TEXT_LIMIT,
    Options,
    Parsed,
    RefusedError,
    Reject,
    check_encoding,
    decode,
    events_frame,
    parse_instant,
    rejects_frame,
    with_newlines,
)
from pipeline.units import to_us

NO_TIME = "no time"
BROKEN = "not valid JSON"
NOT_TEXT = "a name that is not valid text"
NOT_OBJECT = "not an object"

_NEXT = re.compile(r"^[{\[]", re.MULTILINE)
_BAD_BYTE = re.compile("[\udc80-\udcff]")
_BETWEEN = re.compile(r"[\s,]*")
_SUB_MICRO = re.compile(r"(\.[0-9]{6})[0-9]{1,3}(?=$|[^0-9])")
_WRAPPERS = ("$date", "$numberLong", "$numberInt", "$numberDouble", "$oid")
_NEVER = ("0001-01-01T00:00:00", "1970-01-01T00:00:00")
_MOST_PCI = re.compile(
    r"(?:GPU-?|PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-9a-f]{1,2})?", re.IGNORECASE
)
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{3,120}")
_ERRORS = (ValueError, ArithmeticError, RecursionError)  # endless digits, exponents, nesting


class Piece(NamedTuple):
    """A JSON value of a file and its text; a broken one has no value."""

    value: Any
    text: str
    is_broken: bool = False


class Foreign(NamedTuple):
    """A value that stands where a document should have an object of its format."""

    value: Any


def pieces(data: bytes, file: str, expected: str) -> list[Piece]:
    """Return the JSON values of a file, broken ones among them; raise InputError when none can be read."""
    check_encoding(data, file)
    data = with_newlines(data)
    try:
        found = list(_scanned(data.decode("utf-8-sig")))
    except UnicodeDecodeError:
        # Each bad byte becomes half of a surrogate pair, which no UTF-8 text holds.
        text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
        found = [_checked(piece) for piece in _scanned(text)]
    if all(piece.is_broken for piece in found):
        decode(data, file)
        told = "not valid JSON" if found else "no content"
        raise InputError(file, told, expected, "the file may be cut off or of another format")
    return found


def _checked(piece: Piece) -> Piece:
    """Return a piece, broken if bytes stand in it that are not UTF-8."""
    marked = _BAD_BYTE.sub("\ufffd", piece.text)
    return piece if marked == piece.text else Piece(None, marked, is_broken=True)


def _scanned(text: str) -> Iterator[Piece]:
    read = json.JSONDecoder(parse_float=Decimal).raw_decode
    place, end = _skip(text, 0), len(text)
    while place < end:
        try:
            value, after = read(text, place)
        except _ERRORS:
            # Not behind the error: an object that is cut off takes the next line for its value.
            hit = _NEXT.search(text, place + 1)
            after = hit.start() if hit else end
            yield Piece(None, text[place:after].strip(), is_broken=True)
        else:
            yield Piece(value, text[place:after])
        place = _skip(text, after)


def _skip(text: str, place: int) -> int:
    """Return the place behind blanks, and behind the commas of a list whose beginning is broken."""
    hit = _BETWEEN.match(text, place)
    return hit.end() if hit else place


class Rows:
    """The rows of a file, numbered from 1 in the order in which they are added."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in EVENT_SCHEMA}
        self._rejects: list[Reject] = []
        self._read = 0

    def add(self, told: Any, make: Callable[[], Mapping[str, Any]]) -> bool:
        """Add the row that `make` returns, or its refusal; `told` is the row as it stood."""
        try:
            self.accept(make())
        except RefusedError as error:
            self.reject(str(error), told)
            return False
        return True

    def accept(self, columns: Mapping[str, Any]) -> None:
        """Add an accepted row; columns that are left out are null."""
        clean = {name: _clean(name, value) for name, value in columns.items()}
        self._read += 1
        for name, values in self._columns.items():
            values.append(clean.get(name))
        self._columns["row"][-1] = self._read

    def reject(self, reason: str, told: Any) -> None:
        """Add a refused row."""
        self._read += 1
        text = told if isinstance(told, str) else text_of(told)
        self._rejects.append(Reject(self._read, reason, _utf8(text[: 2 * TEXT_LIMIT])))

    def parsed(self) -> Parsed:
        """Return what was added."""
        return Parsed(events_frame(self._columns), rejects_frame(self._rejects), self._read)


def _clean(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if name == "reason":
        return _utf8(value[:TEXT_LIMIT])
    if _utf8(value) != value:
        raise RefusedError(NOT_TEXT)
    return value


def _utf8(text: str) -> str:
    """Return a text without halves of surrogate pairs, which JSON can spell and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def text_of(value: Any) -> str:
    """Return a JSON value as text for a reject."""
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except _ERRORS:
        return f"(a {type(value).__name__} that is nested too deeply)"


def table(value: Any) -> dict[str, Any]:
    """Return an object, or an empty one where none stands."""
    return value if isinstance(value, dict) else {}


def array(value: Any) -> list[Any]:
    """Return a list, or an empty one where none stands."""
    return value if isinstance(value, list) else []


def word(value: Any) -> str:
    """Return a text without blanks around it, or an empty one where none stands."""
    return value.strip() if isinstance(value, str) else ""


def whole(value: Any) -> int | None:
    """Return a whole number, from a number, a text or Extended JSON; None where none stands."""
    value = unwrapped(value)
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal):
        # copy_abs, because abs rounds, and that overflows at 1e999999999.
        small = value.is_finite() and value.copy_abs() < 10**30 and value == value.to_integral_value()
        return int(value) if small else None
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,25}", value) else None


def unwrapped(value: Any) -> Any:
    """Return what MongoDB's Extended JSON wraps: {"$numberLong": "5"} is 5; other values as they are."""
    for _ in range(2):  # {"$date": {"$numberLong": "..."}}
        if isinstance(value, dict) and len(value) == 1 and (key := next(iter(value))) in _WRAPPERS:
            value = value[key]
    return value


def is_never(value: Any) -> bool:
    """Return whether a time is absent, or the zero time that Go programs write for "never"."""
    return value is None or (isinstance(value, str) and (not value.strip() or value.startswith(_NEVER)))


def instant_us(value: Any, options: Options) -> int:
    """Return an RFC 3339 text as microseconds since 1970 UTC, what is finer cut off."""
    if is_never(value):
        raise RefusedError(NO_TIME)
    if not isinstance(value, str):
        raise RefusedError("a time that is not text")
    return to_us(parse_instant(_SUB_MICRO.sub(r"\1", value.strip()), options))


def protobuf_us(value: Any, options: Options) -> int:
    """Return a protobuf Timestamp as microseconds: RFC 3339, {seconds, nanos}, or Extended JSON's $date."""
    wraps_date = isinstance(value, dict) and "$date" in value
    value = unwrapped(value)
    if wraps_date and (milliseconds := whole(value)) is not None:
        return epoch_us(str(milliseconds), "ms", options)
    if not isinstance(value, dict):
        return instant_us(value, options)
    seconds, nanos = whole(value.get("seconds")), whole(value.get("nanos", 0))
    if seconds is None:
        raise RefusedError(NO_TIME)
    if nanos is None or not 0 <= nanos < 10**9:
        raise RefusedError("nanos that are no part of a second")
    return epoch_us(f"{seconds}.{nanos // 1000:06}", "s", options)


def node_of(name: Any, file: str, options: Options) -> str:
    """Return the server that a row names, else the one that was said for the file."""
    found = word(name) or options.node_of(file) or ""
    if not found:
        raise RefusedError(NO_NODE)
    return found


def node_needed(file: str) -> InputError:
    """Return the one error for a log that names no server and was given none."""
    hint = "--node NAME, or --node @file when the file is named after it (node-01.json)"
    return InputError(file, "the log names no node", "the server it was taken from", hint)


def gpu_name(text: str) -> str | None:
    """Return a GPU's UUID as it stands, its PCI address as 00000000:3b:00; None for anything else."""
    text = text.strip()
    if _UUID.fullmatch(text):
        return text
    hit = _MOST_PCI.fullmatch(text)
    return f"{hit[1] or '0':0>8}:{hit[2]}:{hit[3]}".lower() if hit else None
