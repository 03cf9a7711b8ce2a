"""A signal as a clean end: the first SIGTERM or SIGINT raises `Stopped`, later ones do nothing.

Easy to get wrong: a library that is interrupted may hand on an error of its own instead (DuckDB does), so
the signal is remembered, and `check` raises it where such an error is caught. Once the end has begun
(`is_ending`), a signal changes nothing: writing the summary takes a moment, and a scheduler kills what takes
too long.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Stopped(KeyboardInterrupt):
    """The batch was told to stop."""


class Stop:
    """Whether, and by which signal, the batch was told to stop."""

    def __init__(self) -> None:
        self.signal_number = 0
        self.is_ending = False

    @property
    def exit_code(self) -> int:
        """128 + the signal's number, as a shell says it: 130 for SIGINT, 143 for SIGTERM; 0 without one."""
        return 128 + self.signal_number if self.signal_number else 0

    def check(self) -> None:
        """Raise Stopped when a signal has come."""
        if self.signal_number:
            raise Stopped

    def take(self, number: int, _: FrameType | None = None) -> None:
        """Take a signal; the first one before the end raises Stopped."""
        if not self.signal_number and not self.is_ending:
            self.signal_number = number
            raise Stopped


@contextlib.contextmanager
def listening() -> Iterator[Stop]:
    """Listen to SIGTERM and SIGINT (where it is not ignored) as long as the block lasts."""
    stop = Stop()
    before = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            if signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, stop.take)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
