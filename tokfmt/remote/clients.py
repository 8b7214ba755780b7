"""How long clients wait for a server, and how often they repeat a request."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from tokfmt.core.errors import OptionError

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig, RetryConfig

RETRIES, SHORTEST_WAIT, LONGEST_WAIT = 8, 0.2, 10.0
SILENCE = 15.0
"""Seconds without a byte after which a request is repeated."""
RETRY_TIMEOUT = "TOKFMT_RETRY_TIMEOUT"


def client_options(*, writes: bool = False) -> ClientConfig:
    """Return the options of a client. obstore counts the time that a body takes to be sent as a wait for an answer."""
    return {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=300 if writes else SILENCE),
        "timeout": timedelta(seconds=300),
        "allow_http": True,  # `credentials.check_encrypted` has looked at the address.
        "user_agent": "tokfmt",
    }


def retry_config() -> RetryConfig:
    """Return how requests are repeated."""
    wait: BackoffConfig = {
        "init_backoff": timedelta(seconds=SHORTEST_WAIT),
        "max_backoff": timedelta(seconds=LONGEST_WAIT),
        "base": 2,
    }
    return {"max_retries": RETRIES, "retry_timeout": timedelta(seconds=retry_seconds()), "backoff": wait}


def retry_seconds() -> float:
    """Return the seconds within which requests are repeated.

    The default is 2 minutes: servers that are overloaded recover in seconds, and a job should outlive that.

    Raises:
        OptionError: If the variable is not a number of seconds.
    """
    given = os.environ.get(RETRY_TIMEOUT, "120")
    try:
        seconds = float(given)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1 << 31:
        raise OptionError(f"{RETRY_TIMEOUT}={given}: is not a number of seconds (expected 0 or more, such as 120)")
    return seconds
