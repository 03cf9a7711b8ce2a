"""What goes wrong, in one voice: where, what was found, what was expected, what to do next.

A user's mistake is always a `PipelineError`; the command prints its text and leaves with its
`exit_code`, never with a traceback. Anything else that escapes is a bug of ours.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class PipelineError(Exception):
    """One clear message for the person who can mend it.

    `where` names the file, key or row; `found` and `expected` say what stood there and what may
    stand there; `hint` is the next step. Empty parts are left out of the text.
    """

    exit_code = 2

    def __init__(self, where: str, found: str, expected: str = "", hint: str = "") -> None:
        self.where = where
        self.found = found
        self.expected = expected
        self.hint = hint
        lines = [f"{where}: {found}"]
        if expected:
            lines.append(f"  expected: {expected}")
        if hint:
            lines.append(f"  to do: {hint}")
        super().__init__("\n".join(lines))


class InputError(PipelineError):
    """Bad usage or bad input (exit 2)."""


class NoDataError(PipelineError):
    """There is nothing usable to work on (exit 3)."""

    exit_code = 3


class CheckFailedError(PipelineError):
    """A check or a bar was not met (exit 1)."""

    exit_code = 1


class BusyError(PipelineError):
    """Another run holds what is needed; the same call may succeed later (exit 75, EX_TEMPFAIL)."""

    exit_code = 75


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return a hint that names the valid word closest to `word`, or an empty string."""
    close = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""


def listed(words: Iterable[str]) -> str:
    """Return the words as one readable list for a message."""
    return ", ".join(sorted(words)) or "none"
