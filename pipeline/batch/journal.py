"""The log of a batch: JSON lines on one stream, one object a line, and nothing else.

`{"t": instant in UTC, "level": "info" | "warning" | "error", "event": name, ...}`; numbers carry their unit
in their name. A reader of the log who has gone away does not stop the batch.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from typing import Any, TextIO

from pipeline.lake.store import now


class Journal:
    """Writes one JSON object a line; `quiet` leaves out what is neither a warning nor an error."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._quiet = quiet

    def info(self, event: str, **fields: Any) -> None:
        """Write what went as it should."""
        if not self._quiet:
            self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Write what may need a look."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Write what failed."""
        self._write("error", event, fields)

    @contextlib.contextmanager
    def takes_warnings(self) -> Iterator[None]:
        """Write Python's own warnings as lines, too, as long as the block lasts."""

        def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
            self.warning("python_warning", category=category.__name__, text=str(message))

        with warnings.catch_warnings():
            warnings.showwarning = show
            yield

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        t = now().isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = json.dumps({"t": t, "level": level, "event": event, **fields}, default=str)
        with contextlib.suppress(OSError):
            self._stream.write(line + "\n")
            self._stream.flush()
