"""The lake of ten_hours.py, built once, and how to ask it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import ten_hours

from pipeline.lake import catalog, sandbox, sql

if TYPE_CHECKING:
    import duckdb


@pytest.fixture(scope="session")
def con(tmp_path_factory: pytest.TempPathFactory) -> Iterator[duckdb.DuckDBPyConnection]:
    """Return the catalog over the stages' own files."""
    built = ten_hours.build(tmp_path_factory.mktemp("ten_hours"))
    with catalog.connect(built.lake) as opened:
        yield opened


@pytest.fixture(scope="session")
def ask(con: duckdb.DuckDBPyConnection) -> ten_hours.Ask:
    """Return a function that runs a query, or a worked query by its name, on the small lake."""

    def run(query: str, **more: str) -> list[dict[str, Any]]:
        worked = sql.load("adhoc")
        if query not in worked:
            return con.sql(query).pl().to_dicts()
        given = {"scenario": ten_hours.SCENARIO_NAME, **more}
        return sandbox.execute(con, worked[query].text, given).to_pylist()

    return run
