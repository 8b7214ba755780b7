"""Object stores and web servers as places of datasets: s3, gs, az, http and https, by the library obstore.

Read downwards: `open_store` finds the credentials of an address (`credentials`) and returns an `ObjectStore`
(`objects`). It keeps blocks in memory (`blocks`), sends requests in threads that Ctrl-C does not wait for (`requests`),
and reports failures in words that hold no secret (`failures`).

`core.place` finds this package by the entry point group `tokfmt.stores` when it first sees an address, so reading local
files imports nothing of it.
"""

from __future__ import annotations

from tokfmt.remote.stores import open_store

__all__ = ["open_store"]
