"""Object stores and web servers as places of datasets: s3, gs, az, http and https, by the library obstore.

Read downwards: `open_store` finds the credentials of an address (`credentials`) and returns an `ObjectStore`
(`objects`). It keeps blocks in memory (`blocks`), sends requests in threads that Ctrl-C does not wait for (`requests`),
and reports failures in words that hold no secret (`failures`). In a forked process, another process reads (`forked`).

`files.place` imports this package when it first sees an address, so reading local files imports nothing of it.
"""

from __future__ import annotations

from tokfmt.files.place import Url
from tokfmt.files.store import Store
from tokfmt.stores import stores
from tokfmt.stores.forked import ForkedStore
from tokfmt.stores.requests import are_of_parent


def open_store(url: Url) -> Store:
    """Open the store of an address."""
    return ForkedStore(url) if are_of_parent() else stores.open_store(url)
