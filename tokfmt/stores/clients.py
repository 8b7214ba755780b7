"""How long clients wait for a server, and how long a request is repeated."""

from __future__ import annotations

import os
import random
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from tokfmt.errors import OptionError
from tokfmt.stores import account

if TYPE_CHECKING:
    from obstore.store import BackoffConfig, ClientConfig, RetryConfig

Use = Literal["read", "write", "parts"]
"""The requests that a client sends: reads, writes of whole objects, and uploads in parts."""
SILENCE = 15.0
"""Seconds without a byte after which a request is repeated."""
RETRY_TIMEOUT = "TOKFMT_RETRY_TIMEOUT"
_SHORTEST_WAIT, _LONGEST_WAIT = 1 / 600, 1 / 12
"""Shares of the time within which requests are repeated: 0.2 and 10 seconds of the default."""
_CONTINUED, _ANY_NUMBER = 2, 10_000
_GROWTH = 6


def client_options(use: Use = "read") -> ClientConfig:
    """Return the options of a client. obstore counts the time that a body takes to be sent as a wait for an answer."""
    return {
        "connect_timeout": timedelta(seconds=5),
        "read_timeout": timedelta(seconds=SILENCE if use == "read" else 300),
        "timeout": timedelta(seconds=300),
        "allow_http": True,  # `credentials.check_encrypted` has looked at the address.
        "user_agent": "tokfmt",
    }


def retry_config(use: Use = "read") -> RetryConfig:
    """Return how obstore itself repeats requests.

    It continues a broken body where it broke, and repeats a part of an upload, which nobody else can. Otherwise it
    repeats a request only a few times: it repeats what does not pass, such as an unknown host, too, and `Patience`
    repeats the rest. obstore draws each wait between the shortest one and the last one times `base`. With a base of up
    to e, the waits do not grow.
    """
    limit = retry_seconds()
    wait: BackoffConfig = {
        "init_backoff": timedelta(seconds=limit * _SHORTEST_WAIT),
        "max_backoff": timedelta(seconds=limit * _LONGEST_WAIT),
        "base": _GROWTH,
    }
    most = _ANY_NUMBER if use == "parts" else _CONTINUED
    return {"max_retries": most, "retry_timeout": timedelta(seconds=limit), "backoff": wait}


class Patience:
    """Wait before a request is repeated: longer each time, until `retry_seconds` have passed since the first try."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        """Begin with the first try. `stop` ends a wait, because the caller gives up."""
        self._stop, self._limit = stop or threading.Event(), retry_seconds()
        self._began, self._wait = time.monotonic(), self._limit * _SHORTEST_WAIT

    def allows_another(self, after: float = 0.0) -> bool:
        """Wait, for `after` seconds if the server says so, and return True if the request is repeated."""
        wait = max(after, self._wait * random.uniform(0.5, 1))  # noqa: S311 -- spreads requests
        if self._stop.is_set() or time.monotonic() + wait > self._began + self._limit:
            return False
        with account.under_way(self._began):
            self._stop.wait(wait)
        account.count(retries=1)
        self._wait = min(2 * self._wait, self._limit * _LONGEST_WAIT)
        return not self._stop.is_set()


def retry_seconds() -> float:
    """Return the seconds within which requests are repeated.

    The default is 2 minutes: servers that are overloaded recover in seconds, and a job should outlive that.
    """
    variable = os.environ.get(RETRY_TIMEOUT, "120")
    try:
        seconds = float(variable)
    except ValueError:
        seconds = -1
    if not 0 <= seconds < 1 << 31:
        raise OptionError(f"{RETRY_TIMEOUT}={variable}: is not a number of seconds (expected 0 or more, such as 120)")
    return seconds
