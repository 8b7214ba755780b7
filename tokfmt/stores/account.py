"""Count what this process asks of stores: requests by kind, bytes, repeats, and the slowest request.

A worker process counts for itself. `run.execute` returns its counts with the result of each task.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from tokfmt.errors import StoreWarning
from tokfmt.files.place import Url
from tokfmt.wording import printable

SLOW = 5.0
"""Seconds of a wait after which a user should know what is waited for."""
_AGAIN = 10.0  # Seconds between two warnings.
_WARNED = [-_AGAIN]

Kind = Literal["get", "head", "list", "put", "delete"]


@dataclass
class Transfer:
    """The requests that were sent to stores, and the bytes that were read and written.

    Attributes:
        requests: Requests of each kind. A list of more than 1,000 keys takes several.
        read: Bytes that stores sent.
        written: Bytes that stores received.
        retries: Requests that tokfmt repeated. Those that the library repeats within a request are not counted.
        slowest: Seconds of the slowest request.
    """

    requests: dict[Kind, int]
    read: int = 0
    written: int = 0
    retries: int = 0
    slowest: float = 0.0

    @classmethod
    def none(cls) -> Transfer:
        """Return the counts before the first request."""
        return cls({"get": 0, "head": 0, "list": 0, "put": 0, "delete": 0})

    def __bool__(self) -> bool:
        return any(self.requests.values())

    def add(self, other: Transfer) -> None:
        """Add what another process counted."""
        for kind, count in other.requests.items():
            self.requests[kind] += count
        self.read += other.read
        self.written += other.written
        self.retries += other.retries
        self.slowest = max(self.slowest, other.slowest)


_LOCK = threading.Lock()
_COUNTED = [Transfer.none()]
_UNDER_WAY: dict[object, float] = {}


@contextmanager
def under_way(since: float) -> Iterator[None]:
    """Let `waiting` know that a caller waits since a time of the monotonic clock."""
    mark = object()
    _UNDER_WAY[mark] = since
    try:
        yield
    finally:
        del _UNDER_WAY[mark]


@contextmanager
def counted(kind: Kind, requests: int = 1) -> Iterator[None]:
    """Count a request, and measure its time."""
    began = time.monotonic()
    try:
        with under_way(began):
            yield
    finally:
        took = time.monotonic() - began
        with _LOCK:
            _COUNTED[0].requests[kind] += requests
            _COUNTED[0].slowest = max(_COUNTED[0].slowest, took)


def count(*, read: int = 0, written: int = 0, retries: int = 0, lists: int = 0) -> None:
    """Add to the counts."""
    with _LOCK:
        now = _COUNTED[0]
        now.read += read
        now.written += written
        now.retries += retries
        now.requests["list"] += lists


def waiting() -> float:
    """Return the seconds since the oldest request that is under way began; 0 if no request is under way."""
    began = min(list(_UNDER_WAY.values()), default=None)
    return 0.0 if began is None else time.monotonic() - began


def slow_words(url: Url | None) -> str:
    """Return the sentence about a store that is waited for; None is a store without a name."""
    name = "a store" if url is None else printable(url.parts[0].strip("/").rpartition("/")[2])
    return f"{name} answers slowly: waiting {waiting():.0f} s"


def warn_slow(url: Url) -> None:
    """Warn that a store is waited for, unless a warning was given in the last seconds."""
    with _LOCK:
        now = time.monotonic()
        if now - _WARNED[0] < _AGAIN or not waiting():
            return
        _WARNED[0] = now
    warnings.warn(slow_words(url), StoreWarning, stacklevel=2)


def so_far() -> Transfer:
    """Return the counts of this process, and of its workers whose tasks have ended."""
    with _LOCK:
        return replace(_COUNTED[0], requests=dict(_COUNTED[0].requests))


def taken() -> Transfer:
    """Return the counts since the last call, and count from zero again."""
    with _LOCK:
        transfer, _COUNTED[0] = _COUNTED[0], Transfer.none()
    return transfer


def add(other: Transfer) -> None:
    """Add the counts of another process."""
    with _LOCK:
        _COUNTED[0].add(other)
