"""Slurm's nodes as JSON: `scontrol show nodes --json` and `sinfo --json`, snapshots.

In: objects {nodes: [...]} or {sinfo: [...]}, one or several after each other, each perhaps below a line with
its time by `date`. Out: what their nodes say, as `slurm_snapshots` counts it.
Easy to get wrong: a state is one text with flags apart (to Slurm 22.05) or a list; a number comes bare or in
a box {set, infinite, number}, and 0 is none. `last_update` is when the controller answered: the time of the
snapshot, where there is no line above. sinfo writes none, nor did scontrol of old. A snapshot that is cut off
is one refused row.
Source: JSON as printed by Slurm 20.11 to 25.05; src/slurmctld/node_mgr.c, pack_all_node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from pipeline.errors import InputError
from pipeline.ingest import slurm_states
from pipeline.ingest.parsing import NO_NODE, NOT_UTF8, Options, Parsed, RefusedError, decode
from pipeline.ingest.slurm_snapshots import NO_STAMP, Snapshots, is_time, told

CUT_OFF = "a snapshot that is not valid JSON"
FOREIGN = "neither a list of nodes nor of sinfo lines"

_BLANK = b"\xef\xbb\xbf \t\r\n"
_EXPECTED = "JSON of Slurm: {nodes: [...]} or {sinfo: [...]}"
_HINT = "the file may be cut off or of another format: take or copy it again"
# Where reading goes on behind what is cut off: an object, or a time, in the first column.
_NEXT = re.compile(r"^(?:\{|[A-Z0-9][^\n{]{9,60}$)", re.MULTILINE)


class _Piece(NamedTuple):
    """A document and its text, or the line above one; the error of a document that is cut off."""

    value: Any
    text: str
    error: Exception | None = None
    is_time: bool = False


def begins(data: bytes) -> bool:
    """Return whether a file is JSON, perhaps below a line with its time."""
    head = data[:200].lstrip(_BLANK)
    if head[:1] == b"{":
        return True
    line, _, rest = head.partition(b"\n")
    return is_time(line.decode(errors="replace")) and rest.lstrip(_BLANK)[:1] == b"{"


def read(data: bytes, file: str, options: Options) -> Parsed:
    """Return the unavailable nodes of `scontrol show nodes --json` or `sinfo --json`."""
    found, time_line, has_nodes = Snapshots(file, options), None, False
    pieces = list(_pieces(decode(data, file)))
    for piece in pieces:
        if piece.is_time:
            time_line = piece.text
        elif piece.error:
            found.refuse(CUT_OFF, piece.text)
        else:
            has_nodes = _document(found, piece, time_line) or has_nodes
            time_line = None
    if not has_nodes:
        raise _unreadable(pieces, file)
    return found.parsed()


def _unreadable(pieces: list[_Piece], file: str) -> InputError:
    """Return the error for a file without any snapshot."""
    error = next((piece.error for piece in pieces if piece.error), None)
    if isinstance(error, json.JSONDecodeError):
        where = f"{file} line {error.lineno} column {error.colno}"
        return InputError(where, f"not valid JSON ({error.msg})", _EXPECTED, _HINT)
    if error:  # endless digits or nesting
        return InputError(file, f"JSON that cannot be read ({type(error).__name__})", _EXPECTED, _HINT)
    return InputError(file, FOREIGN, _EXPECTED, _HINT)


def _pieces(text: str) -> Iterator[_Piece]:
    decoder = json.JSONDecoder()
    place, end = 0, len(text)
    while place < end:
        if text[place].isspace():
            place += 1
            continue
        line = text[place:].partition("\n")[0] if text[place] != "{" else ""
        if is_time(line):
            yield _Piece(None, line, is_time=True)
            place += len(line)
            continue
        try:
            value, after = decoder.raw_decode(text, place)
            yield _Piece(value, text[place:after])
        except (ValueError, RecursionError) as error:
            hit = _NEXT.search(text, place + 1)
            after = hit.start() if hit else end
            yield _Piece(None, text[place:after].strip(), error)
        place = after


def _document(found: Snapshots, piece: _Piece, time_line: str | None) -> bool:
    """Count the nodes of a document; return whether it is one of nodes."""
    document = piece.value if isinstance(piece.value, dict) else {}
    for key, take in (("nodes", _add_node), ("sinfo", _add_group)):
        if isinstance(document.get(key), list):
            answered = None
            with suppress(RefusedError):  # not set: it tells none
                answered = _number(document.get("last_update"))
            found.begin(answered if time_line is None else time_line)
            for item in document[key]:
                text = json.dumps(item)
                try:
                    take(found, item, text)
                except RefusedError as error:
                    found.refuse(str(error), text)
            return True
    found.refuse(FOREIGN, piece.text)
    return False


def _add_node(found: Snapshots, item: Any, text: str) -> None:
    if not isinstance(item, dict):
        raise RefusedError("not an object")
    verdict = slurm_states.judge_all(_states(item.get("state")) + _flags(item.get("state_flags")))
    named = item.get("name") or item.get("hostname")
    if verdict is None:
        found.works([named] if isinstance(named, str) else [])
    else:
        name = _word(named)
        found.add([name], verdict, _reason(item.get("reason")), _number(item.get("reason_changed_at")), text)


def _add_group(found: Snapshots, item: Any, text: str) -> None:
    """Count a line of `sinfo --json`, which stands for all nodes with one state."""
    if not isinstance(item, dict) or not isinstance(item.get("node"), dict):
        raise RefusedError("not an object with a node")
    verdict = slurm_states.judge_all(_states(item["node"].get("state")))
    nodes = item.get("nodes")
    names = nodes.get("nodes") if isinstance(nodes, dict) else None
    if verdict is None:
        found.works([name for name in names if isinstance(name, str)] if isinstance(names, list) else [])
        return
    if not isinstance(names, list) or not names:
        raise RefusedError(NO_NODE)
    why = item.get("reason")
    why = why if isinstance(why, dict) else {"description": why}
    words = [_word(name) for name in names]
    found.add(words, verdict, _reason(why.get("description")), _number(why.get("time")), text)


def _states(value: Any) -> list[str]:
    """Return the words of `state`: one text in Slurm up to 22.05, then a list."""
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
        raise RefusedError(slurm_states.NO_STATE)
    return words


def _flags(value: Any) -> list[str]:
    return _states(value) if value else []


def _reason(value: Any) -> str:
    return told(_text(value)) if isinstance(value, str) else ""


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise RefusedError(NO_NODE)
    return _text(value)


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell and UTF-8 cannot
        raise RefusedError(NOT_UTF8) from None
    return value


def _number(value: Any) -> int | None:
    """Return a number, written as such or as {set, infinite, number}; None when it is not set, or 0."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") is True and not value.get("infinite") else None
    if value is None or value == 0:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise RefusedError(NO_STAMP)
    return value
