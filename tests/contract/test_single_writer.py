"""Only lake/store.py writes files: a reader then never meets half of one, whoever wrote it and was killed.

The modules are read as syntax trees, not run. What is seen is a call by name: one through `getattr`, a
variable or another process is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

STORE = "lake/store.py"

# What else writes, and why it may: (module, call) -> reason; each is there exactly once.
ALLOWED = {
    ("cli.py", "os.open"): "the null device takes stdout's place when its reader has gone",
    ("ingest/fetch.py", "temporary.open"): "the temporary file that the store's `replacing` gives",
    ("lake/catalog.py", "temporary.unlink"): "as above: DuckDB wants to make the file itself",
    ("lake/catalog.py", "SQL attach"): "as above: DuckDB writes the catalog into it",
    ("lake/render.py", "pyarrow.parquet.write_table"): "into memory, for stdout",
}

# Functions by their full name; `*` ends a prefix.
FUNCTIONS = (
    "os.replace", "os.rename*", "os.link", "os.symlink", "os.remove*", "os.unlink", "os.rmdir", "os.truncate",
    "os.mkdir", "os.makedirs", "os.write", "shutil.copy*", "shutil.move", "shutil.rmtree", "tempfile.*",
    "pyarrow.parquet.write_*", "pyarrow.parquet.ParquetWriter", "pyarrow.feather.write_*",
    "pyarrow.csv.write_*", "pyarrow.dataset.write_*", "pyarrow.OSFile", "numpy.save*",
)  # fmt: skip
# Methods of whatever object.
METHODS = frozenset(
    {
        "write_text", "write_bytes", "touch", "mkdir", "unlink", "rmdir", "symlink_to", "hardlink_to",
        "to_parquet", "write_parquet", "tofile", "save",
    }
)  # fmt: skip
# Methods that return text when they are given no file, and renames, which take one name.
WITH_A_TARGET = frozenset({"write_csv", "write_json", "write_ndjson", "write_ipc", "write_excel", "to_csv"})
RENAMES = frozenset({"replace", "rename"})
WRITING_MODE = re.compile(r"[rbt]*[wax+][rwaxbt+]*(:\w*)?")
WRITING_FLAG = re.compile(r"\bO_(WRONLY|RDWR|CREAT|APPEND|TRUNC)\b")
WRITING_SQL = re.compile(
    r"(?:^|;)\s*(attach|export\s+database|copy\b(?=.*\bto\b))", re.IGNORECASE | re.DOTALL
)


def writes(source: str) -> list[str]:
    """Return the calls and the SQL in a module's text that write a file, in the order of their lines."""
    tree = ast.parse(source)
    full = dict(_imported(tree))
    found: list[tuple[int, str]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            first, dot, rest = name.partition(".")
            name = f"{full.get(first, first)}{dot}{rest}"
            if _writes(node, name):
                found.append((node.lineno, name))
    found += [
        (line, f"SQL {hit[1].lower()}") for line, text in _texts(tree) if (hit := WRITING_SQL.search(text))
    ]
    return [name for _, name in sorted(found)]


def _imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield each imported name with its full one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.asname, alias.name) for alias in node.names if alias.asname)
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def _writes(call: ast.Call, name: str) -> bool:
    _, dot, method = name.rpartition(".")
    if name.startswith("pipeline."):  # what the store offers, or a module that is read itself
        return False
    if any(name.startswith(known[:-1]) if known.endswith("*") else name == known for known in FUNCTIONS):
        return True
    if name == "os.open":
        return bool(WRITING_FLAG.search(ast.unparse(call)))
    if name == "duckdb.connect":
        given = {key.arg: ast.unparse(key.value) for key in call.keywords}
        return bool(call.args or "database" in given) and given.get("read_only") != "True"
    if method in {"open", "fdopen", "ZipFile", "GzipFile", "FileIO"}:
        return _for_writing(call, at=0 if dot else 1)
    if not dot:
        return False
    if method in RENAMES:
        return (
            len(call.args) == 1
            and not call.keywords
            and not isinstance(call.args[0], ast.Dict | ast.DictComp)
        )
    if method in WITH_A_TARGET:
        return bool(call.args or any(key.arg in {"file", "path_or_buf"} for key in call.keywords))
    return method in METHODS or method.startswith("sink_")


def _for_writing(call: ast.Call, at: int) -> bool:
    """Tell whether an `open` writes; a mode that is worked out elsewhere may."""
    modes = [key.value for key in call.keywords if key.arg == "mode"]
    given = modes or call.args[at:2]
    constants = [mode.value for mode in given if isinstance(mode, ast.Constant)]
    unknown = len(constants) < len(modes or call.args[1:2])
    return unknown or any(isinstance(mode, str) and WRITING_MODE.fullmatch(mode) for mode in constants)


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module, f-strings as one with their holes, docstrings left out."""
    inner = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            inner.add(node.value)
        elif isinstance(node, ast.JoinedStr):
            inner.update(node.values)
            if node not in inner:
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in inner:
            yield node.lineno, node.value


def test_the_store_is_the_only_writer(repo_root: Path) -> None:
    """No module but the store writes a file, apart from the few that are listed with a reason."""
    package = repo_root / "pipeline"
    found = [
        (module, call)
        for path in package.rglob("*.py")
        if (module := path.relative_to(package).as_posix()) != STORE and "_share" not in path.parts
        for call in writes(path.read_text(encoding="utf-8"))
    ]
    assert sorted(found) == sorted(ALLOWED), (
        "use pipeline.lake.store; list it with a reason; or list it no more"
    )


def test_the_stores_own_writing_is_seen(repo_root: Path) -> None:
    """The walk sees what the store does: a temporary file, bytes, a table, a copy, a rename, a lock."""
    seen = writes((repo_root / "pipeline" / STORE).read_text(encoding="utf-8"))
    assert {
        "tempfile.mkstemp", "temporary.write_bytes", "pyarrow.parquet.write_table", "shutil.copyfile",
        "temporary.replace",
    } <= set(seen)  # fmt: skip
    assert any(call.endswith(".open") for call in seen)


PLANTED = {
    "open(path, 'w')": "open",
    "open(path, mode='ab')": "open",
    "open(path, mode)": "open",
    "path.open('x')": "path.open",
    "path.open(mode=chosen)": "path.open",
    "import gzip\ngzip.open(path, 'wt')": "gzip.open",
    "import os\nos.open(path, os.O_RDWR | os.O_CREAT)": "os.open",
    "(folder / 'a').write_text('x')": "(folder / 'a').write_text",
    "path.write_bytes(b'x')": "path.write_bytes",
    "frame.write_parquet(path)": "frame.write_parquet",
    "frame.write_csv(path)": "frame.write_csv",
    "frame.lazy().sink_csv(path)": "frame.lazy().sink_csv",
    "import pyarrow.parquet as pq\npq.write_table(table, path)": "pyarrow.parquet.write_table",
    "from pyarrow.parquet import write_table as put\nput(table, path)": "pyarrow.parquet.write_table",
    "import os\nos.replace(a, b)": "os.replace",
    "from os import rename\nrename(a, b)": "os.rename",
    "path.replace(target)": "path.replace",
    "path.rename(target)": "path.rename",
    "import shutil\nshutil.copytree(a, b)": "shutil.copytree",
    "import duckdb\nduckdb.connect(path)": "duckdb.connect",
    "con.execute(\"copy (from t) to 'x.parquet'\")": "SQL copy",
    "con.execute(f\"COPY t TO '{path}'\")": "SQL copy",
    "con.execute(f\"select 1; attach '{path}' as other\")": "SQL attach",
}


@pytest.mark.parametrize("source", PLANTED)
def test_a_planted_writer_is_caught(source: str) -> None:
    """Each way to write a file is seen, also under another name."""
    assert writes(source) == [PLANTED[source]]


@pytest.mark.parametrize(
    "source",
    [
        "open(path)",
        "path.open('rb')",
        "path.open(encoding='utf-8')",
        "text.replace('a', 'b')",
        "moment.replace(tzinfo=None)",
        "import dataclasses\ndataclasses.replace(row, name='x')",
        "frame.rename({'a': 'b'})",
        "frame.write_csv(separator=';')",
        "import duckdb\nduckdb.connect(config={'threads': 1})",
        "import duckdb\nduckdb.connect(path, read_only=True)",
        "from pipeline.lake.store import write_bytes\nwrite_bytes(path, b'x')",
        "'''copy a file to another'''",
        "hint = 'check the copy, then go on to the next'",
    ],
)
def test_reading_and_plain_values_are_no_writers(source: str) -> None:
    """What only looks like writing is left alone."""
    assert writes(source) == []
