"""The configuration: wrong keys and values are named with what is allowed, before anything is done."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from pipeline.batch import config
from pipeline.errors import InputError

if TYPE_CHECKING:
    from batch.conftest import Site

DROP = '[[drop]]\nsource = "intervals"\npath = "in"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scenarois = []", "scenarois: unknown key.*did you mean 'scenarios'"),
        (DROP + 'pth = "x"', r"\[drop 1\]: pth: unknown key.*did you mean 'path'"),
        ('[[drop]]\npath = "in"', r"\[drop 1\]: source: missing"),
        (DROP.replace("intervals", "interval"), r"\[drop 1\].*interval.*did you mean 'intervals'"),
        (DROP + 'tz = "Mars/North"', r"\[drop 1\].*Mars/North"),
        (DROP + 'as_of = "yesterday"', r"\[drop 1\].*as-of.*yesterday"),
        (DROP + 'strict = "yes"', r"\[drop 1\] strict: found 'yes'.*true or false"),
        (DROP.replace('"in"', '""'), r"\[drop 1\] path: found ''"),
        (DROP.replace('"in"', '"s3://logs/x"'), r"\[drop 1\] path.*folder, file or glob"),
        ("settle_s = -1\n" + DROP, "settle_s: found -1.*at least 0"),
        ('keep_old_d = "week"\n' + DROP, "keep_old_d: found 'week'.*a number"),
        ("wait_lock_s = inf\n" + DROP, "wait_lock_s: found inf"),
        ('root = ""\n' + DROP, "root: found ''"),
        ('root = "a\\u0000b"\n' + DROP, r"root: found 'a\\x00b'.*a folder"),
        ('settle_s = "60"\n' + DROP, "settle_s: found '60'.*a number, at least 0 and at most 86400"),
        ('scenarios = "demo"', "scenarios: found 'demo'"),
        ('scenarios = ["a/x.toml", "b/x.toml"]', "scenarios: 'x' 2 times.*each name once"),
        ('scenarios = ["demo", "demo"]', "'demo' 2 times"),
        ("", "nothing to do.*scenarios"),
        ('[drop]\nsource = "intervals"\npath = "in"', r"drop: found.*write \[\[drop\]\]"),
        ("scenarios = [", "not valid TOML"),
    ],
)
def test_what_is_wrong_is_named(site: Site, text: str, message: str) -> None:
    """Key, value and what is allowed; the night ends with 2, and its log says the same."""
    site.config.write_text(text)
    with pytest.raises(InputError) as caught:
        config.parse(*config.read(site.config))
    flat = " ".join(str(caught.value).split())
    assert re.search(message, flat), flat

    assert site.run().exit_code == 2
    assert site.told("config_refused")[0]["where"] == caught.value.where
    assert not site.told("batch_started")


def test_a_wrong_configuration_leaves_a_summary_where_the_root_is_known(site: Site) -> None:
    """A monitor that reads the summary sees the mistake; without a known root nothing is written."""
    site.write(more="settle = 1")
    assert site.run().exit_code == 2
    assert site.summary()["error"]["hint"] == "did you mean 'settle_s'?"

    site.config.write_text("root = ")
    before = sorted(site.folder.rglob("*"))
    assert site.run().exit_code == 2 and sorted(site.folder.rglob("*")) == before


def test_an_absent_configuration_points_to_the_sample(site: Site) -> None:
    """Who has none is told which file to start from."""
    site.config.unlink()
    assert site.run().exit_code == 2
    assert site.told("config_refused")[0]["hint"].endswith("site.toml")


def test_paths_are_relative_to_the_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that the timer starts in does not matter."""
    elsewhere = site.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert site.run().exit_code == 0
    assert not list(elsewhere.iterdir()) and site.lake.catalog_path.is_file()
