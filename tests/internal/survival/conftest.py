"""The fixtures of tests/survival."""

from survival.conftest import *  # noqa: F403
