"""Which source a file looks like: each sample of ours is known by its own source and by no other."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from pipeline import cli, resources
from pipeline.errors import InputError
from pipeline.ingest import sources
from pipeline.ingest.detect import detect
from pipeline.ingest.files import find

SAMPLES = resources.folder("samples")


@pytest.fixture
def goodput(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """Call the command in process; return exit code and stdout."""

    def call(*arguments: str) -> tuple[int, str]:
        code = cli.main(["--root", str(tmp_path / "root"), *arguments])
        return code, capsys.readouterr().out

    return call


def samples(name: str) -> list[Path]:
    """Return the samples of a source, not the options beside them."""
    return [path for path in SAMPLES.glob(f"{name}.*") if not path.name.endswith(".options.toml")]


@pytest.mark.parametrize("name", sources.names())
def test_each_sample_is_known_by_its_source_alone(name: str) -> None:
    """No other source takes it for one of its own."""
    (path,) = samples(name)
    (found,) = detect([str(path)])
    assert (found.sources, found.is_told) == ((name,), True)
    assert found.line == f"{path.name}: {name}"


def test_what_cannot_be_told_is_said(tmp_path: Path, goodput: Callable[..., tuple[int, str]]) -> None:
    """A file that none knows, one of other bytes, and an empty one; then the command ends with 1."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "notes.txt").write_text("remember the milk\n")
    (folder / "noise.bin").write_bytes(bytes(range(256)) * 99)
    (folder / "nothing.log").touch()
    (folder / "log.json.gz").write_bytes(gzip.compress((SAMPLES / "infinitehbd.json").read_bytes()))
    code, out = goodput("ingest", "--detect", str(folder))
    assert code == 1
    assert out.splitlines() == [
        "log.json.gz: infinitehbd",
        "noise.bin: cannot tell, no source knows it",
        "notes.txt: cannot tell, no source knows it",
        "nothing.log: an empty file",
    ]
    code, out = goodput("ingest", "--detect", str(folder / "log.json.gz"))
    assert (code, out) == (0, "log.json.gz: infinitehbd\n")


def test_of_a_large_file_only_the_head_is_read(tmp_path: Path) -> None:
    """A tebibyte that nobody has memory for."""
    path = tmp_path / "large.log"
    path.write_bytes((SAMPLES / "xid.log").read_bytes())
    with path.open("r+b") as file:
        file.truncate(1 << 40)
    assert detect([str(path)])[0].sources == ("xid",)


def test_a_path_that_is_none_is_a_mistake() -> None:
    """It is told as ingest tells it."""
    with pytest.raises(InputError, match="no such file or folder"):
        detect(["nowhere/at/all"])


@pytest.mark.parametrize("name", sources.names())
def test_looking_at_any_bytes_never_fails(name: str) -> None:
    """A cut in the middle of a character or of a line is still looked at."""
    looks_like = sources.load(name).looks_like
    for item in find([str(SAMPLES)]):
        assert item.path is not None
        data = item.path.read_bytes()
        for cut in (0, 1, 7, len(data) // 2, len(data) - 1):
            assert looks_like(data[:cut]) in {True, False}
            assert looks_like(b"\xff" + data[cut:]) in {True, False}


@pytest.mark.parametrize("name", sources.names())
def test_a_source_says_what_a_user_needs(name: str, goodput: Callable[..., tuple[int, str]]) -> None:
    """What it reads, how to export it or where it is from, which options it may ask for, its traps."""
    code, out = goodput("sources", name)
    lines = out.splitlines()
    module = sources.load(name)
    assert code == 0
    assert lines[0].startswith(f"{name}: ")
    assert module.EXPORT or module.PUBLIC or name == "intervals"
    known = "sacctmgr scontrol journalctl dmesg cp kubectl mongoexport curl aws gsutil git"
    commands = (*known.split(), "(date", "    -", "#")
    assert all(line.startswith(commands) for line in module.EXPORT.splitlines())
    assert all(any(line.endswith(trap) for line in lines) for trap in module.TRAPS)
    assert len(module.TRAPS) >= 2
    for flag in module.FLAGS:
        assert f"--{flag.replace('_', '-')}" in out


def test_a_file_without_any_row_asks_for_the_source(
    tmp_path: Path, goodput: Callable[..., tuple[int, str]]
) -> None:
    """A kernel log's lines begin as those of a controller's log may, and say nothing of nodes."""
    log = tmp_path / "kern.log"
    log.write_text("[12.500000] usb 1-1: new device\n", encoding="utf-8")
    code, said = goodput("ingest", "slurmctld", str(log), "--tz", "UTC")
    assert (code, "is the source right? goodput ingest --detect" in said) == (0, True)
