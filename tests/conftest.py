"""Fixtures every test may use: the tree, the shared reference data, the browser.

What a test needs and the machine lacks is a skip with its reason; under CI=true it is a failure, so that a
missing folder or browser cannot pass for a green run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import settings

# The same examples in every run, so that a red run is a change of ours and not of the dice; no deadline,
# because machines are shared. A longer, random search is a run of its own.
settings.register_profile("steady", derandomize=True, deadline=None, database=None)
settings.load_profile("steady")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def absent(what: str) -> NoReturn:
    """Skip the test for want of `what`; fail it in CI."""
    if os.environ.get("CI", "").lower() in {"true", "1"}:
        pytest.fail(f"{what} (CI=true: what a test needs must be there)", pytrace=False)
    pytest.skip(what)


def folder_from(variable: str) -> Path:
    """Return the folder that the environment variable names, absolute; skip or fail when there is none."""
    value = os.environ.get(variable)
    if not value:
        absent(f"{variable} is not set")
    folder = Path(value).resolve()
    if not folder.is_dir():
        absent(f"{variable} names no folder: {folder}")
    return folder


@pytest.fixture(scope="session")
def repo_root() -> Path:
    """Return the root of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the shared folder (GOODPUT_SHARED): reference cases and documents."""
    return folder_from("GOODPUT_SHARED")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of public traces (GOODPUT_DATA)."""
    return folder_from("GOODPUT_DATA")


@pytest.fixture(scope="session")
def chromium_path() -> Path:
    """Return the system's Chromium; the tests never download one."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return Path(found)
    absent(f"no browser on PATH (looked for {', '.join(BROWSERS)}; Debian: apt-get install chromium)")
