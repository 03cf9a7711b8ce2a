"""What stands in front of a kernel message: its time, the server, and who told it.

In: a line of a kernel log in any of its forms: syslog with and without year, ISO 8601 and RFC 5424, journald
as text, dmesg (seconds since boot, -T, -x, --time-format iso), /dev/kmsg, Talos, container logs; or an entry
of journald, JSON or export.
Out: `Told`: where the message begins, and the parts of the time; `when` makes an instant of them.
Easy to get wrong: the form may change from line to line, so each line is judged by itself. A wall clock wins
over seconds since boot on the same line. Containers write their own time in front, which is that of the
reader and not of the fault when an old log is replayed: the time inside wins. The weekday that `dmesg -T`
prints must fit its date. Kernels count microseconds, so further digits (Talos, containers) are cut off.
Source: RFC 3164, RFC 5424; man pages of dmesg(1), journalctl(1); Linux Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

from pipeline.ingest import journal
from pipeline.ingest.clock import NO_MONTH, ZONE_WORD, epoch_us, month_of, since_boot_us
from pipeline.ingest.parsing import NO_SUCH, Options, RefusedError

NO_TIME = "no timestamp"
BAD_WEEKDAY = "the weekday does not fit the date"
BAD_HOST = "no server's name where one is due"
BROKEN_JSON = "a cut-off or broken JSON object"
BROKEN_EXPORT = "a cut-off entry of the journal"
NOT_KERNEL = "told by another program than the kernel"

ISO, YEARLESS, DATED, BOOT, EPOCH, NONE = "iso", "yearless", "dated", "boot", "epoch", ""
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

_CLOCK = r"([0-9]{1,2}):([0-9]{2}):([0-9]{2})(?:[.,]([0-9]+))?"
_ISO_TIME = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]+)?"
    r"(?: ?(?:Z|UTC)\b(?![.-])| ?[+-][0-9]{2}:?[0-9]{2}\b)?"  # a server may be named UTC-1
)
_ISO = re.compile(rf"(?:[A-Z][a-z]{{2}} )?\[?({_ISO_TIME})\]?:?(?: ([A-Z]{{2,5}})(?= \S+ \S+:))?")
_SYSLOG = re.compile(rf"([A-Z][a-z]{{2}}|[0-9]{{1,2}}月) +([0-9]{{1,2}}) (?:([0-9]{{4}}) )?{_CLOCK}(?= |$)")
_CTIME = re.compile(rf"\[(\w{{3}}) (\w{{3}}) +([0-9]{{1,2}}) {_CLOCK} ([0-9]{{4}})\]")
_UNIX = re.compile(r"([0-9]{9,10}\.[0-9]{1,9})(?= )")
_SINCE_BOOT = re.compile(r"\[ *([0-9]+\.[0-9]+)(?: *<[^>]*>)?\]")
_KMSG = re.compile(r"[0-9]+,[0-9]+,([0-9]+),[^;]*;")
_PRIORITY = re.compile(r"<[0-9]{1,3}>(?:1 )?")
_DECODED = re.compile(r"(?:kern|user|daemon|syslog|auth|local[0-7]) *: *[a-z]+ *: *")  # dmesg -x
_TALOS = re.compile(rf"(\S+): +(?:kern|user|daemon|syslog): +[a-z]+: +\[({_ISO_TIME})\]: *")
_CONTAINER = re.compile(rf"({_ISO_TIME}) (?:stdout|stderr) [FP] ")
_TAG_FIRST = re.compile(r"(?:MESSAGE=|kernel: *)+")
_REPEATED = re.compile(r"(message repeated [0-9]+ times): \[ *")
_BRACKETS = re.compile(r"\[ *(?:[0-9]+\.[0-9]+|[TC][0-9]+)\]")
_HOST = re.compile(r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?::[0-9]+)?")
_USUAL = re.compile(r" ([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?) kernel: (?:\[ *[0-9]+\.[0-9]+\] )?")
_KERNEL = ("kern", "klogd", "vmunix")
_TOO_LONG = 4096  # of a prefix: what is longer is no prefix
_ZONED = re.compile(r"(?:Z|UTC|[+-][0-9]{2}:?[0-9]{2})$")
_FINER = re.compile(r"([.,][0-9]{6})[0-9]+")
_NEWLINES = re.compile(r"\\x0a|#012|\n")


class Told(NamedTuple):
    """A kernel message: its text, its time's form and parts, the server; `refused` says why it is no row."""

    message: str
    form: str = NONE
    parts: tuple[str | None, ...] = ()
    host: str | None = None
    refused: str = ""


Claim = Callable[[str], int]  # where in a text a message of interest begins; -1: nowhere


def told(line: str, claim: Claim) -> Told | None:
    """Return the message that `claim` finds in a line and what stands before it; None where there is none."""
    if line.startswith("{"):
        is_log, found = _from_json(line, claim)
        if is_log:
            return found
    start = claim(line)
    if start < 0:
        return None
    prefix, message = line[:start], _one_line(line[start:])
    if "repeated" in prefix and (repeated := _REPEATED.search(prefix)):
        # rsyslog folds equal lines that follow one: this line has the time of the last of them.
        return _with_prefix(prefix, f"{message.removesuffix(']')} ({repeated[1]})")
    return _with_prefix(prefix, message)


def _one_line(message: str) -> str:
    """Return a message with the line ends in it, plain or escaped, as blanks."""
    if "\\x0a" in message or "#012" in message or "\n" in message:
        return _NEWLINES.sub(" ", message)
    return message


def is_stamped(line: str) -> bool:
    """Return whether a line begins with a time in one of the forms."""
    return bool(_with_prefix(line[:_TOO_LONG], "").form)


def when(known: Told, year: int | None, options: Options, file: str) -> int | str:
    """Return the time of a message: UTC, or an ISO text that `parse_instants` makes UTC of.

    `year` is that of the line, where the line has none.
    """
    parts = known.parts
    if known.form == BOOT:
        return since_boot_us(parts[0] or "", options, file)
    if known.form == EPOCH:
        return epoch_us(parts[0] or "", parts[1] or "", options)
    if known.form == ISO:
        return _iso_text(parts[0] or "", options, file)
    if known.form in {YEARLESS, DATED}:
        return _clock_text(parts, year, options, file)
    raise RefusedError(NO_TIME)


def _with_prefix(prefix: str, message: str) -> Told:
    """Take the prefix of a line apart, its wrappers first."""
    if len(prefix) > _TOO_LONG:
        return Told(message)
    outer: str | None = None
    if (" F " in prefix or " P " in prefix) and (hit := _CONTAINER.match(prefix)):
        outer, prefix = hit[1], prefix[hit.end() :]
    if hit := _PRIORITY.match(prefix) if prefix.startswith("<") else None:
        prefix = prefix[hit.end() :]
    if prefix.startswith(("kern", "MESSAGE=", "user", "daemon", "syslog")):
        for wrapper in (_DECODED, _TAG_FIRST):
            if hit := wrapper.match(prefix):
                prefix = prefix[hit.end() :]
    for read in _readers(prefix[:1]):
        if found := read(prefix):
            form, parts, end = found
            host, refused = _server(prefix[end:])
            return Told(message, form, parts, host, refused)
    if hit := _TALOS.match(prefix):
        return Told(message, ISO, (hit[2],), hit[1])
    if hit := _KMSG.match(prefix):
        return Told(message, BOOT, (f"{int(hit[1]) // 1_000_000}.{int(hit[1]) % 1_000_000:06}",))
    return Told(message, ISO, (outer,)) if outer else Told(message)


def _readers(first: str) -> tuple[Callable[[str], _Found | None], ...]:
    """Return the forms that may begin with a letter, the likeliest first."""
    if first == "[":
        return _since_boot, _ctime, _iso
    if first.isdigit():
        return _iso, _unix, _syslog
    return _syslog, _iso


_Found = tuple[str, tuple[str | None, ...], int]


def _syslog(prefix: str) -> _Found | None:
    hit = _SYSLOG.match(prefix)
    if hit is None:
        return None
    month, day, year, *clock = hit.groups()
    return DATED if year else YEARLESS, (None, month, day, year, *clock), hit.end()


def _iso(prefix: str) -> _Found | None:
    hit = _ISO.match(prefix)
    if hit is None:
        return None
    if hit[2] is None or _ZONED.search(hit[1], 19):  # behind a zone stands the server, capitals or not
        return ISO, (hit[1],), hit.start(2) - 1 if hit[2] else hit.end()
    return ISO, (f"{hit[1]} {hit[2]}",), hit.end()


def _ctime(prefix: str) -> _Found | None:
    hit = _CTIME.match(prefix)
    if hit is None:
        return None
    weekday, month, day, *clock, year = hit.groups()
    return DATED, (weekday, month, day, year, *clock), hit.end()


def _since_boot(prefix: str) -> _Found | None:
    hit = _SINCE_BOOT.match(prefix)
    return (BOOT, (hit[1],), hit.end()) if hit else None


def _unix(prefix: str) -> _Found | None:
    hit = _UNIX.match(prefix)
    return (EPOCH, (hit[1][:17], "s"), hit.end()) if hit else None


@functools.lru_cache(maxsize=4096)
def _host_of(word: str) -> str | None:
    hit = _HOST.fullmatch(word)
    return hit[1] if hit else None


def _server(rest: str) -> tuple[str | None, str]:
    """Return the server that stands after a time, and why the line is refused, if it is."""
    if hit := _USUAL.fullmatch(rest):
        return hit[1], ""
    words = _REPEATED.sub(" ", _BRACKETS.sub(" ", rest)).split()
    if not words:
        return None, ""
    host = None
    if not words[0].endswith(":"):
        host = _host_of(words[0])
        if host is None:
            return None, BAD_HOST
        words = words[1:]
    words = [word for word in words if word != "-"]
    if words and not any(word.lower().startswith(_KERNEL) for word in words):
        return host, NOT_KERNEL
    return host, ""


def _iso_text(text: str, options: Options, file: str) -> str:
    clock, _, zone = text.partition(" ") if "T" in text[:11] else _halved(text)
    if zone.isalpha() and zone not in {"UTC", "GMT", "Z"}:
        raise RefusedError(ZONE_WORD)
    if zone == "GMT":
        text = f"{clock} UTC"
    if options.tz is None and not _ZONED.search(text, 19):
        raise options.zone_needed(file, text)
    # Kernels count microseconds: what is finer comes from a clock that was added later.
    return _FINER.sub(r"\1", text) if text[26:27].isdigit() else text


def _halved(text: str) -> tuple[str, str, str]:
    """Part a zone from `2025-01-01 10:00:00 CST`, whose clock holds a blank too."""
    day, _, rest = text.partition(" ")
    clock, blank, zone = rest.partition(" ")
    return f"{day} {clock}", blank, zone


def _clock_text(parts: tuple[str | None, ...], year: int | None, options: Options, file: str) -> str:
    weekday, month_word, day, own_year, hour, minute, second, decimals = (part or "" for part in parts)
    if options.tz is None:
        raise options.zone_needed(file, f"{month_word} {day} {hour}:{minute}:{second}")
    month = month_of(month_word)
    known = int(own_year) if own_year else year
    if known is None:
        raise RefusedError(NO_MONTH)
    if weekday:
        _check_weekday(weekday, known, month, int(day))
    fraction = f".{decimals[:6]}" if decimals else ""
    return f"{known:04}-{month:02}-{int(day):02}T{hour:0>2}:{minute}:{second}{fraction}"


def _check_weekday(word: str, year: int, month: int, day: int) -> None:
    if word.lower() not in _WEEKDAYS:
        return  # another language
    try:
        due = date(year, month, day).weekday()
    except ValueError:
        raise RefusedError(NO_SUCH) from None
    if _WEEKDAYS.index(word.lower()) != due:
        raise RefusedError(BAD_WEEKDAY)


# --- entries -----------------------------------------------------------------------------------------------


def _from_json(line: str, claim: Claim) -> tuple[bool, Told | None]:
    """Return whether a line is an entry of journald or of a container's log, and what it tells."""
    try:
        entry = journal.of_json(line)
    except journal.BrokenError:
        return True, _broken(line, claim, BROKEN_JSON)
    if "MESSAGE" in entry:
        return True, _from_entry(journal.of_fields(entry), claim)
    text, time = entry.get("log"), entry.get("time")
    if isinstance(text, str) and isinstance(time, str):
        inner = told(text.rstrip("\n"), claim) if not text.startswith("{") else None
        if inner is None or inner.form or inner.refused:
            return True, inner
        return True, inner._replace(form=ISO, parts=(time,))
    return False, None


def told_by_export(data: bytes, claim: Claim) -> Told | None:
    """Return what `told` does, of an entry of journald in export format."""
    try:
        return _from_entry(journal.of_export(data), claim)
    except journal.BrokenError:
        return _broken(data.decode(errors="replace"), claim, BROKEN_EXPORT)


def _broken(text: str, claim: Claim, reason: str) -> Told | None:
    start = claim(text)
    return None if start < 0 else Told(text[start:], refused=reason)


def _from_entry(entry: journal.Entry, claim: Claim) -> Told | None:
    start = claim(entry.message)
    if start < 0:
        return None
    message = _one_line(entry.message[start:])
    named = None if entry.host is None else _host_of(entry.host)
    refused = "" if (entry.teller or "kernel").lower().startswith(_KERNEL) else NOT_KERNEL
    if entry.host is not None and named is None:
        refused = refused or BAD_HOST
    if entry.time_us is None:
        return Told(message, host=named, refused=refused or NO_TIME)
    return Told(message, EPOCH, (entry.time_us, "us"), named, refused)
