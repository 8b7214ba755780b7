"""The Chromium that tests/system.sh installs, and whether a test that needs a program may go without it."""

import os
import shutil

import pytest


def program(*names: str) -> str:
    """Path of the first of these programs that there is; else the test is skipped, or fails if all tests must run."""
    for name in names:
        found = shutil.which(name)
        if found:
            return found
    return missing(names[0])


def missing(name: str) -> str:
    """Skip a test that needs a program that is not there, or fail it if all tests must run."""
    message = f"{name} is not installed; tests/system.sh installs it"
    if os.environ.get("TOKFMT_ALL_TESTS"):
        pytest.fail(message)
    return pytest.skip(message)


def chromium() -> str:
    return program("chromium", "chromium-browser", "google-chrome")


CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
"""It runs as root in containers, and talks to nobody but the page under test."""
