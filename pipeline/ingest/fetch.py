"""A public trace -> `ROOT/raw/<source>/<file>`, whole and verified, or not at all.

In: a file given by the user, else `$GOODPUT_DATA/<source>/<file>`, else the file's public address (http or
https). Out: the path. Every way goes through one copy loop that counts and hashes: nothing is visible under
the final name before size and SHA-256 agree with what the source module says.
Easy to get wrong: a server may stall, end early, send more than it should or redirect to another scheme; each
is one message that says how to go on without the network.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING

from pipeline.errors import InputError, listed
from pipeline.ingest import sources
from pipeline.lake.store import Lake, replacing, sha256_of

if TYPE_CHECKING:
    from pipeline.ingest.parsing import PublicFile

DATA_FOLDER = "GOODPUT_DATA"
STALL_S = 30.0  # no byte for so long is a stalled server
DEADLINE_S = 1_800.0  # a server that drips is given up, too
_CHUNK_BYTES = 1 << 16
_SCHEMES = ("http://", "https://")

Log = Callable[[str], None]


def fetch(
    lake: Lake,
    source: str,
    from_file: Path | None = None,
    *,
    log: Log = lambda _: None,
    address: str | None = None,
    stall_s: float = STALL_S,
) -> Path:
    """Fetch a source's public file and return its path (of several files: their folder).

    `from_file` takes its place from disk; `address` stands in for the public address.
    """
    module = sources.load(source)
    public: dict[str, PublicFile] = module.PUBLIC
    if not public:
        raise InputError(f"source {source!r}", "has no public file", hint="give the path of your own log")
    if from_file is not None:
        public = _meant(from_file, public)
    log(f"{module.TITLE or source}: licence {module.LICENSE or 'not stated'}, {module.HOMEPAGE}")
    for name, file in public.items():
        target = lake.path("raw", source, name)
        if from_file is not None:
            _copy(from_file, file, target, log)
        elif target.is_file() and sha256_of(target) == file.sha256:
            log(f"{name}: already there, checksum verified")
        elif (local := _local(source, name)) is not None:
            _copy(local, file, target, log)
        else:
            _download(address or file.url, file, target, log, stall_s)
    folder = lake.path("raw", source)
    return folder / next(iter(public)) if len(public) == 1 else folder


def _meant(from_file: Path, public: dict[str, PublicFile]) -> dict[str, PublicFile]:
    """Return which public file a given file stands for: the only one, or the one of its name."""
    if not from_file.is_file():
        raise InputError(str(from_file), "no such file", "the public file, downloaded by hand")
    if len(public) == 1:
        return public
    if from_file.name in public:
        return {from_file.name: public[from_file.name]}
    raise InputError(str(from_file), "which public file is it?", f"a file named {listed(public)}")


def _local(source: str, name: str) -> Path | None:
    folder = os.environ.get(DATA_FOLDER)
    path = Path(folder) / source / name if folder else None
    return path if path is not None and path.is_file() else None


def _copy(origin: Path, file: PublicFile, target: Path, log: Log) -> None:
    try:
        with origin.open("rb") as stream:
            _take(stream, file, target, str(origin))
    except OSError as error:
        raise InputError(str(origin), f"cannot be copied ({error.strerror})", "a readable file") from None
    log(f"{target.name}: taken from {origin}, checksum verified")


def _download(address: str, file: PublicFile, target: Path, log: Log, stall_s: float) -> None:
    hint = f"download it by hand and give it with --from FILE, or set {DATA_FOLDER}"
    if not address.startswith(_SCHEMES):
        raise InputError(address, "not an http or https address", hint=hint)
    log(f"{target.name}: from {address}")
    try:
        with _opener().open(address, timeout=stall_s) as stream:
            _take(stream, file, target, address, hint)
    except urllib.error.HTTPError as error:
        with error:
            raise InputError(address, f"HTTP {error.code} {error.reason}", "the file", hint) from None
    except TimeoutError:
        raise InputError(address, f"no byte for {stall_s:g} s", "an answer", hint) from None
    except urllib.error.URLError as error:
        raise InputError(address, f"no answer ({error.reason})", "the file", hint) from None
    except (http.client.HTTPException, OSError) as error:
        raise InputError(address, f"the transfer broke ({error})", "the whole file", hint) from None
    log(f"{target.name}: {file.bytes} bytes, checksum verified")


def _opener() -> urllib.request.OpenerDirector:
    """Return an opener of http and https only: a redirect to ftp or file finds no handler."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _take(stream: IO[bytes], file: PublicFile, target: Path, where: str, hint: str = "") -> None:
    """Copy a stream to `target` if its size and hash are the file's; else raise InputError."""
    digest, size = hashlib.sha256(), 0
    deadline = time.monotonic() + DEADLINE_S
    with replacing(target) as temporary:
        with temporary.open("wb") as out:
            while size <= file.bytes and (chunk := stream.read(_CHUNK_BYTES)):
                digest.update(chunk)
                size += len(chunk)
                out.write(chunk)
                if time.monotonic() > deadline:
                    raise InputError(where, f"not done after {DEADLINE_S:g} s", "a faster server", hint)
        if size != file.bytes:
            found = f"more than {file.bytes} bytes" if size > file.bytes else f"ends after {size} bytes"
            raise InputError(where, found, f"{file.bytes} bytes, SHA-256 {file.sha256}", hint)
        if digest.hexdigest() != file.sha256:
            found, expected = f"SHA-256 {digest.hexdigest()}", f"SHA-256 {file.sha256}"
            raise InputError(where, found, expected, hint or "it is another version of the file")
