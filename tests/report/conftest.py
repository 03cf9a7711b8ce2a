"""The small lake, built once for the tests of the report."""

from __future__ import annotations

import pytest
from small_lake import Built, build


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Return a lake with everything the report reads."""
    return build(tmp_path_factory.mktemp("small"))
