"""Entries of journald, and of a container's log in JSON: the message, its time, the server, who told it.

In: an entry as text: JSON on one line or over several (`-o json`, `json-pretty`), or the export format
(`-o export`, fields as `NAME=value` a line). Out: `Entry`; `cut_of` says where entries are parted.
Easy to get wrong: a message with bytes that are not printable is a list of numbers in JSON; in the export
format its name stands alone on a line, then come its length in eight bytes and the message, which may hold
line ends. Only the fields asked for are read: a command that another field quotes is no message.
Source: systemd's Journal Export Formats and Journal JSON Format; journalctl(1).
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from pipeline.ingest.textscan import LINES, Cut

_FIELDS = ("MESSAGE", "__REALTIME_TIMESTAMP", "_HOSTNAME", "_TRANSPORT", "SYSLOG_IDENTIFIER")
# An entry begins with its addresses, whose names begin with two underscores.
EXPORT, _EXPORT_HEAD = Cut(b"\n\n__", 2), b"__"
_PRETTY, _PRETTY_HEAD = Cut(b"\n}\n{", 3), b"{\n"
HEAD_BYTES = 2  # that `cut_of` looks at
_TIME = re.compile(r"[0-9]{1,18}")


class BrokenError(ValueError):
    """An entry that is cut off."""


class Entry(NamedTuple):
    """What an entry says; `time_us` is None where it is no number, the others where they are missing."""

    message: str
    time_us: str | None
    host: str | None
    teller: str | None


def cut_of(head: bytes) -> Cut:
    """Return where the entries of a log that begins so are parted: by lines, unless they spread over some."""
    if head.startswith(_EXPORT_HEAD):
        return EXPORT
    return _PRETTY if head.startswith(_PRETTY_HEAD) else LINES


def of_export(data: bytes) -> Entry:
    """Return an entry in export format; raise BrokenError when a field of it is cut off."""
    fields: dict[str, str] = {}
    place = 0
    while place < len(data):
        end = data.find(b"\n", place)
        end = len(data) if end < 0 else end
        name, equals, value = data[place:end].partition(b"=")
        place = end + 1
        if not equals and name.strip():
            size = int.from_bytes(data[place : place + 8], "little")
            start = place + 8
            place = start + size + 1
            if start > len(data) or start + size > len(data):
                raise BrokenError
            value = data[start : start + size]
        key = name.decode(errors="replace")
        if key in _FIELDS and key not in fields:
            fields[key] = value.decode(errors="replace")
    return _entry(fields)


def of_json(text: str) -> dict[str, Any]:
    """Return an object; raise BrokenError when it is cut off."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise BrokenError from None
    return found if isinstance(found, dict) else {}


def of_fields(entry: dict[str, Any]) -> Entry:
    """Return what the object of an entry says."""
    fields = {name: str(entry[name]) for name in _FIELDS if entry.get(name) is not None}
    fields["MESSAGE"] = _text_of(entry.get("MESSAGE"))
    if not isinstance(entry.get("_HOSTNAME", ""), str | None):
        fields["_HOSTNAME"] = ""  # no name
    return _entry(fields)


def _entry(fields: dict[str, str]) -> Entry:
    stamp = fields.get("__REALTIME_TIMESTAMP", "")
    return Entry(
        message=fields.get("MESSAGE", ""),
        time_us=stamp if _TIME.fullmatch(stamp) else None,
        host=fields.get("_HOSTNAME"),
        teller=fields.get("_TRANSPORT") or fields.get("SYSLOG_IDENTIFIER"),
    )


def _text_of(value: Any) -> str:
    """Return a message that journald writes as text, as a list of bytes, or as a list of either."""
    if isinstance(value, str):
        # Half of a surrogate pair, which JSON can write, is no text.
        return value if value.isascii() else value.encode(errors="replace").decode()
    if not isinstance(value, list):
        return ""
    if all(isinstance(item, int) and 0 <= item < 256 for item in value):
        return bytes(value).decode("utf-8", errors="replace")
    return " ".join(_text_of(item) for item in value if isinstance(item, str))
