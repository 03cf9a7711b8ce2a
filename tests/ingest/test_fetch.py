"""Public files: fetched whole and verified, or not at all."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pipeline.errors import InputError
from pipeline.ingest import fetch as fetching
from pipeline.ingest.fetch import fetch
from pipeline.ingest.parsing import PublicFile
from pipeline.ingest.sources import infinitehbd
from pipeline.lake.store import Lake

CONTENT = b"[1, 2, 3]\n" * 50_000
PATIENCE_S = 0.3


class Server(BaseHTTPRequestHandler):
    """A server with every bad habit, by path."""

    released = threading.Event()

    def do_GET(self) -> None:
        """Answer as the path says."""
        habit = self.path.strip("/")
        if habit == "absent":
            self.send_error(404)
            return
        if habit == "elsewhere":
            self.send_response(302)
            self.send_header("Location", "ftp://127.0.0.1/file")
            self.end_headers()
            return
        body = {"wrong": b"x" * len(CONTENT), "longer": CONTENT + b"more", "short": CONTENT[:-5]}
        self.send_response(200)
        if habit != "endless":
            self.send_header(
                "Content-Length", str(len(CONTENT) if habit == "cut" else len(body.get(habit, CONTENT)))
            )
        self.end_headers()
        if habit == "cut":
            self.wfile.write(CONTENT[: len(CONTENT) // 2])
        elif habit == "stall":
            self.wfile.write(CONTENT[:1000])
            self.wfile.flush()
            self.released.wait(10)
        else:
            self.wfile.write(body.get(habit, CONTENT))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    Server.released.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    public = PublicFile("http://127.0.0.1:1/none", hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))
    monkeypatch.setattr(infinitehbd, "PUBLIC", {"trace.json": public})
    monkeypatch.delenv("GOODPUT_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return Lake(tmp_path / "root")


def files(lake: Lake) -> list[str]:
    return sorted(path.name for path in lake.root.rglob("*") if path.is_file())


def test_a_good_file_is_fetched_and_its_licence_shown(lake: Lake, address: str) -> None:
    """The file lies under raw/<source>/ with the very bytes; a second fetch asks no server."""
    lines: list[str] = []
    path = fetch(lake, "infinitehbd", log=lines.append, address=f"{address}/good")
    assert path == lake.root / "raw" / "infinitehbd" / "trace.json"
    assert path.read_bytes() == CONTENT
    assert "Apache-2.0" in lines[0]
    assert fetch(lake, "infinitehbd", address=f"{address}/absent") == path


@pytest.mark.parametrize(
    ("habit", "found"),
    [
        ("wrong", "SHA-256"),
        ("short", f"ends after {len(CONTENT) - 5} bytes"),
        ("cut", "bytes"),
        ("longer", f"more than {len(CONTENT)} bytes"),
        ("absent", "HTTP 404"),
        ("stall", f"no byte for {PATIENCE_S:g} s"),
        ("elsewhere", "ftp"),
    ],
)
def test_a_bad_answer_leaves_nothing_behind(lake: Lake, address: str, habit: str, found: str) -> None:
    """Whatever a server does wrong is one message with the way on, and no file, whole or half."""
    with pytest.raises(InputError) as raised:
        fetch(lake, "infinitehbd", address=f"{address}/{habit}", stall_s=PATIENCE_S)
    assert found in str(raised.value)
    assert "--from FILE" in str(raised.value)
    assert files(lake) == []


def test_a_mismatch_states_both_hashes(lake: Lake, address: str) -> None:
    """The found and the expected hash stand side by side."""
    with pytest.raises(InputError) as raised:
        fetch(lake, "infinitehbd", address=f"{address}/wrong")
    for content in (CONTENT, b"x" * len(CONTENT)):
        assert hashlib.sha256(content).hexdigest() in str(raised.value)


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1/refused", "file:///etc/hostname", "ftp://127.0.0.1/x"]
)
def test_no_server_or_another_scheme_is_one_message(lake: Lake, address: str) -> None:
    """A refused connection and a scheme other than http and https are input errors."""
    with pytest.raises(InputError, match="--from FILE"):
        fetch(lake, "infinitehbd", address=address)


def test_the_data_folder_comes_before_the_network(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`$GOODPUT_DATA/<source>/<file>` serves without a server; an absent file there falls through."""
    monkeypatch.setenv("GOODPUT_DATA", str(tmp_path / "data"))
    with pytest.raises(InputError, match="no answer"):
        fetch(lake, "infinitehbd")
    (tmp_path / "data" / "infinitehbd").mkdir(parents=True)
    (tmp_path / "data" / "infinitehbd" / "trace.json").write_bytes(CONTENT)
    assert fetch(lake, "infinitehbd").read_bytes() == CONTENT


def test_a_given_file_is_verified_too(lake: Lake, tmp_path: Path) -> None:
    """--from takes any name, and refuses other bytes without touching what was there."""
    given = tmp_path / "download.json"
    given.write_bytes(CONTENT)
    path = fetch(lake, "infinitehbd", given)
    given.write_bytes(CONTENT[:-1] + b" ")
    with pytest.raises(InputError, match="another version"):
        fetch(lake, "infinitehbd", given)
    assert path.read_bytes() == CONTENT
    with pytest.raises(InputError, match="no such file"):
        fetch(lake, "infinitehbd", tmp_path / "absent")


def test_a_source_of_your_own_has_nothing_to_fetch(lake: Lake) -> None:
    """A source without a public file says so."""
    with pytest.raises(InputError, match="no public file"):
        fetch(lake, "intervals")


def test_a_server_that_drips_is_given_up(lake: Lake, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transfer has a deadline as a whole, not only between two bytes."""
    monkeypatch.setattr(fetching, "DEADLINE_S", -1.0)
    with pytest.raises(InputError, match="not done after"):
        fetch(lake, "infinitehbd", address=f"{address}/good")


@pytest.mark.shared
def test_the_pinned_hash_is_that_of_the_public_trace(shared_data: Path) -> None:
    """PUBLIC of infinitehbd describes the file that was published."""
    data = (shared_data / "infinitehbd" / "fault_trace.json").read_bytes()
    public = infinitehbd.PUBLIC["fault_trace.json"]
    assert (public.bytes, public.sha256) == (len(data), hashlib.sha256(data).hexdigest())
