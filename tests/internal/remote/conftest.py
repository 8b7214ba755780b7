"""The fixtures of tests/remote."""

from remote.conftest import *  # noqa: F403
