"""Every source keeps the contract, and ships a sample that it reads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from pipeline import resources
from pipeline.errors import InputError
from pipeline.ingest import run, sources
from pipeline.ingest.parsing import EVENT_SCHEMA, REJECT_SCHEMA, Options
from pipeline.lake.store import Lake
from pipeline.schema import COMPONENTS


def sample(name: str) -> Path:
    found = resources.folder("samples").glob(f"{name}.*")
    (path,) = (path for path in found if not path.name.endswith(".options.toml"))
    return path


def sample_options(name: str) -> Options:
    """Return the options a sample needs, as `<source>.options.toml` beside it says them."""
    path = resources.folder("samples") / f"{name}.options.toml"
    return Options.of(**tomllib.loads(path.read_text(encoding="utf-8"))) if path.is_file() else Options()


def test_sources_are_found_by_folder() -> None:
    """A module in the folder is a source, with `-` for `_`; there is no registry."""
    stems = {path.stem for path in Path(sources.__file__).parent.glob("[a-z]*.py")}
    assert {name.replace("-", "_") for name in sources.names()} == stems
    assert {"infinitehbd", "intervals"} <= set(sources.names())


@pytest.mark.parametrize("name", sources.names())
def test_source_describes_itself(name: str) -> None:
    """The first line of the docstring is a description that fits a line of a terminal."""
    description = sources.descriptions()[name]
    assert 20 < len(description) <= 100
    assert description == (sources.load(name).__doc__ or "").split("\n")[0]


@pytest.mark.parametrize("name", sources.names())
def test_public_files_say_where_and_what(name: str) -> None:
    """A public file has an https address, a full hash, a size and a licence."""
    module = sources.load(name)
    for file, public in module.PUBLIC.items():
        assert public.url.startswith("https://")
        assert public.url.endswith(file)
        assert len(bytes.fromhex(public.sha256)) == 32
        assert public.bytes > 0
        assert module.TITLE
        assert module.LICENSE
        assert module.HOMEPAGE.startswith("https://")


@pytest.mark.parametrize("name", sources.names())
def test_source_reads_its_sample(name: str, tmp_path: Path) -> None:
    """The shipped sample is read whole: the declared columns, known components, no reject."""
    path = sample(name)
    options = sample_options(name)
    parsed = sources.load(name).read(path.read_bytes(), path.name, options)
    assert dict(parsed.events.schema) == EVENT_SCHEMA
    assert parsed.rejects.schema == REJECT_SCHEMA
    assert parsed.rejects.height == 0
    assert set(parsed.events["component"]) <= set(COMPONENTS)
    (item,) = run.ingest(Lake(tmp_path), name, [str(path)], options, lambda _: None, strict=True)
    assert item.rows_read == item.rows_accepted > 0


@pytest.mark.parametrize("name", sources.names())
@pytest.mark.parametrize("data", [b"\0" * 64, b"\xff\xfe", b"PAR1", b"{", b"\n\n", b'"'])
def test_a_foreign_file_is_a_user_s_mistake(name: str, data: bytes) -> None:
    """Bytes of another format are an input error that names the file, never a traceback."""
    with pytest.raises(InputError, match="strange"):
        sources.load(name).read(data, "strange", Options())


TEXTS = 'VERSION = TITLE = LICENSE = HOMEPAGE = EXPORT = "1"\n'


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("", "no docstring"),
        ('"""A source."""\n', "VERSION"),
        (f'"""A source."""\n{TEXTS}', "PUBLIC"),
        (f'"""A source."""\n{TEXTS}PUBLIC = {{}}\n', "FLAGS"),
        (f'"""A source."""\n{TEXTS}PUBLIC = {{}}\nFLAGS = ("tz", "zone")\n', "FLAGS"),
        (f'"""A source."""\n{TEXTS}PUBLIC = {{}}\nFLAGS = ()\n', "TRAPS"),
        (f'"""A source."""\n{TEXTS}PUBLIC = {{}}\nFLAGS = TRAPS = ()\n', "ENDS"),
        (f'"""A source."""\n{TEXTS}PUBLIC = {{}}\nFLAGS = TRAPS = ()\nENDS = True\n', "no function read"),
    ],
)
def test_a_module_that_breaks_the_contract_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    """A source that lacks something says what, by its name."""
    stem = f"broken_{abs(hash(source))}"
    (tmp_path / f"{stem}.py").write_text(source)
    monkeypatch.setattr(sources, "__path__", [*sources.__path__, str(tmp_path)])
    with pytest.raises(InputError, match=f"broken-.*{told}"):
        sources.load(stem.replace("_", "-"))
