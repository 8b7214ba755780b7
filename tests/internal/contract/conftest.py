"""The fixtures of tests/contract."""

from contract.conftest import *  # noqa: F403
