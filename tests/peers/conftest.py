"""The peers, when they are installed: dev dependencies that a lean machine may lack and CI may not."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.conftest import absent


def installed(package: str) -> None:
    """Skip the test when a peer is not installed; fail it in CI."""
    if find_spec(package) is None:
        absent(f"{package} is not installed (tests/requirements.lock has it)")


@pytest.fixture(scope="session")
def simpy() -> None:
    """Ask for SimPy."""
    installed("simpy")


@pytest.fixture(scope="session")
def google() -> None:
    """Ask for Google's goodput library."""
    installed("ml_goodput_measurement")


@pytest.fixture(scope="session")
def mlsysim() -> None:
    """Ask for mlsysim."""
    installed("mlsysim")
