"""Writing: a reader sees the old file or the new one, whatever happens to the writer."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from lake.conftest import publish, rows

from pipeline.errors import InputError
from pipeline.lake import store
from pipeline.lake.store import Lake


class Killed(BaseException):
    """Stands for a process that ends at this very call."""


def test_a_good_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    """After a write the folder holds the new file, readable by others, and no temporary one."""
    target = tmp_path / "sub" / "file"
    store.write_bytes(target, b"old")
    store.write_bytes(target, b"new")
    assert target.read_bytes() == b"new" and list(target.parent.iterdir()) == [target]
    assert target.stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, Killed])
def test_a_failure_inside_leaves_the_old_file_and_no_temporary_one(
    tmp_path: Path, error: type[BaseException]
) -> None:
    """A writer that raises changes nothing."""
    target = tmp_path / "file"
    target.write_bytes(b"old")

    def write() -> None:
        with store.replacing(target) as temporary:
            temporary.write_bytes(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert target.read_bytes() == b"old" and list(tmp_path.iterdir()) == [target]


def test_file_and_folder_are_synced_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are on disk before the name is, and the name before the call returns."""
    steps: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def note_sync(handle: int) -> None:
        kind = "folder" if os.path.samestat(os.fstat(handle), tmp_path.stat()) else "file"
        steps.append(f"sync {kind}")
        fsync(handle)

    def note_replace(self: Path, other: Path) -> Path:
        steps.append("rename")
        return replace(self, other)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "replace", note_replace)
    store.write_bytes(tmp_path / "file", b"new")
    assert steps == ["sync file", "rename", "sync folder"]


@pytest.mark.parametrize(("step", "expected"), [(0, b"old"), (1, b"old"), (2, b"new")])
def test_a_kill_at_any_step_leaves_the_old_bytes_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int, expected: bytes
) -> None:
    """Killed at the sync, the rename or the folder's sync: the file is whole."""
    target = tmp_path / "file"
    target.write_bytes(b"old")
    calls = 0

    def killing(real):
        def call(*arguments):
            nonlocal calls
            calls += 1
            if calls == step + 1:
                raise Killed
            return real(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", killing(os.fsync))
    monkeypatch.setattr(Path, "replace", killing(Path.replace))
    monkeypatch.setattr(Path, "unlink", lambda *_, **__: None)  # the dead do not clean up
    with pytest.raises(Killed):
        store.write_bytes(target, b"new")
    assert calls == step + 1 and target.read_bytes() == expected


def test_write_table_keeps_schema_metadata_and_content(tmp_path: Path) -> None:
    """A table reads back as it was written, with the metadata given."""
    table = rows("outages")
    store.write_table(tmp_path / "t.parquet", table, {"made_by": "test"})
    back = pq.read_table(tmp_path / "t.parquet")
    assert back.equals(table) and back.schema.metadata == {b"made_by": b"test"}


def test_copy_file_is_byte_for_byte(tmp_path: Path) -> None:
    """A copy has the source's bytes and hash."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 << 20))
    store.copy_file(source, tmp_path / "copy")
    assert store.sha256_of(tmp_path / "copy") == store.sha256_of(source)


FORMAT = store._HEADER.decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "{}",
        '{"format": 1}\n',
        '{"format": 99}\n{}\n',
        '{"format": 2, "records": {}}',
        FORMAT,
        FORMAT.strip(),
        FORMAT + "{}",
        FORMAT + "{}\n",
        FORMAT + "{\n",
        FORMAT + '{"stage": "a", "new_field": 1, "outputs": {}}\n',
        "\x00\x01",
    ],
)
def test_an_unreadable_manifest_is_a_clear_error(tmp_path: Path, text: str) -> None:
    """A broken manifest names the file and what to do; it is never taken for an empty lake."""
    (tmp_path / store.MANIFEST).write_text(text)
    with pytest.raises(InputError, match=r"manifest\.jsonl") as caught:
        Lake(tmp_path).records()
    assert caught.value.hint


def test_a_root_of_an_older_version_is_a_clear_error(tmp_path: Path) -> None:
    """It is neither read nor taken for an empty lake, because its events have other ids."""
    (tmp_path / "manifest.json").write_text('{"format": 2, "records": {}}')
    with pytest.raises(InputError, match="an older version") as caught:
        Lake(tmp_path).records()
    assert "remove the folder" in str(caught.value.hint)


@pytest.mark.parametrize("tail", ["", "{", '{"stage": "replay", "sco', '\0\0\0"}\n'])
def test_a_line_that_was_not_written_whole_is_none(lake: Lake, tail: str) -> None:
    """What a killed writer left at the end is passed over by readers and cut off by the next writer."""
    before = lake.records()
    path = lake.root / store.MANIFEST
    with path.open("a") as stream:
        stream.write(tail)
    assert Lake(lake.root).records() == before
    record, _ = publish(lake, "replay", "other", {"outcomes": rows("outcomes", 1)})
    assert Lake(lake.root).records() == lake.records() == {**before, "replay/other": record}
    assert path.read_bytes().endswith(store._line(record))


def test_a_broken_line_before_the_last_is_an_error(lake: Lake) -> None:
    """Only the end of the file can be unfinished."""
    path = lake.root / store.MANIFEST
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) > 3
    path.write_bytes(b"".join([*lines[:2], b"{\n", *lines[2:]]))
    with pytest.raises(InputError, match="not a readable manifest"):
        Lake(lake.root).records()


def test_a_line_that_cannot_be_written_changes_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk at the last moment leaves the manifest as it was, for this process and for others."""
    before, path = lake.records(), lake.root / store.MANIFEST
    content, sync = path.read_bytes(), store._sync

    def full(at: Path) -> None:
        if at == path:
            raise OSError(28, "No space left on device")
        sync(at)

    monkeypatch.setattr(store, "_sync", full)
    with pytest.raises(OSError, match="No space"):
        publish(lake, "replay", "other", {"outcomes": rows("outcomes", 1)})
    assert path.read_bytes() == content
    assert lake.records() == before


def test_a_manifest_of_old_lines_is_written_anew(lake: Lake) -> None:
    """A record that is published again and again does not make the file grow without end."""
    (record, *_) = lake.records().values()
    before = lake.records()
    lines = 0
    for _ in range(4 * store._SPARE_LINES):
        lake.publish(record)
        lines = max(lines, (lake.root / store.MANIFEST).read_bytes().count(b"\n"))
    assert store._SPARE_LINES < lines <= 2 * len(before) + store._SPARE_LINES
    assert Lake(lake.root).records() == lake.records() == before


def test_a_manifest_that_is_not_text_is_a_clear_error(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are as unreadable as broken JSON."""
    (tmp_path / store.MANIFEST).write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=r"manifest\.jsonl"):
        Lake(tmp_path).records()


def test_records_survive_the_manifest(lake: Lake) -> None:
    """What is published reads back equal; publishing one record keeps the others."""
    before = lake.records()
    record, _ = publish(lake, "replay", "other", {"outcomes": rows("outcomes", 1)})
    assert lake.records() == {**before, "replay/other": record}


def test_a_record_whose_file_is_gone_is_not_current(lake: Lake) -> None:
    """A missing table makes its stage stale instead of failing later."""
    record = lake.record("replay", "small")
    assert record is not None
    lake.table(record, "outcomes").unlink()
    assert lake.record("replay", "small") is None and lake.record("timelines", "small")


def test_the_lock_lets_one_in_and_tells_the_other(tmp_path: Path) -> None:
    """A second run waits for the first, and says so once."""
    lake, told, inside, order = Lake(tmp_path), threading.Event(), threading.Event(), []

    def second() -> None:
        with Lake(tmp_path).lock(told.set):
            order.append("second")

    with lake.lock():
        thread = threading.Thread(target=second)
        thread.start()
        assert told.wait(10)
        order.append("first")
        inside.set()
    thread.join(10)
    assert order == ["first", "second"]


def test_a_root_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    """A root below a file is refused with the way out."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--root"), Lake(tmp_path / "file" / "lake").lock():
        pass


def test_published_hashes_are_those_of_the_files(lake: Lake) -> None:
    """The manifest's hash, row count and path are the file's own."""
    for record in lake.records().values():
        for name, output in record.outputs.items():
            path = lake.table(record, name)
            assert store.sha256_of(path) == output.sha256
            assert pq.read_metadata(path).num_rows == output.rows
    header, *lines = (lake.root / store.MANIFEST).read_text().splitlines()
    assert json.loads(header) == {"format": 3}
    assert {f"{row['stage']}/{row['scope']}" for row in map(json.loads, lines)} == lake.records().keys()
