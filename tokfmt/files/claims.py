"""Claims of destinations in stores: `DST.tokfmt-writing` states who writes a destination, as a lock of a file does.

    {"schema": "tokfmt.claim/1", "run": ..., "host": ..., "pid": ..., "since": ..., "by": ..., "format": ...}

A claim is written only if the destination has no claim, and is deleted at the end. It has no heartbeat and does not
expire: a killed run leaves its claim. A run with the same `run` goes on with it (--resume); --overwrite replaces it. A
run reads its claim again before the dataset becomes readable, and publishes nothing if another run has replaced it.

A store without conditional writes has no claims. Two runs that write one destination there are not noticed.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tokfmt.errors import ConversionError, FormatError, UnsupportedError
from tokfmt.files.place import Url
from tokfmt.files.store import IF_ABSENT, IF_MATCH, Identity, Store
from tokfmt.wording import printable

SCHEMA = "tokfmt.claim/1"
_LARGEST, _TRIES = 1 << 12, 5


class Claimed(NamedTuple):
    """A claim that is in a store, and the identity of its object."""

    content: Mapping[str, Any]
    identity: Identity

    @property
    def run(self) -> str:
        return str(self.content.get("run", ""))

    @property
    def format(self) -> str:
        return str(self.content.get("format", ""))

    def owner(self) -> str:
        """Return who wrote it and when: `process 4711 on node7, since 2026-11-25 12:03 UTC`."""
        pid, host, since = (printable(self.content.get(key, "?"))[:80] for key in ("pid", "host", "since"))
        return f"process {pid} on {host}, since {since}"


def claim_url(destination: Url) -> Url:
    return destination.with_name(f"{destination.name}.tokfmt-writing")


def claim_content(run: str, by: str, format_name: str) -> bytes:
    """Return a claim of this process."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    stated = {"run": run, "host": os.uname().nodename, "pid": os.getpid(), "since": since, "by": by}
    return json.dumps({"schema": SCHEMA, **stated, "format": format_name}).encode()


def read_claim(store: Store, destination: Url) -> Claimed | None:
    """Return the claim of a destination; None without one."""
    return claim_at(store, claim_url(destination))


def claim_at(store: Store, place: Url) -> Claimed | None:
    for _ in range(_TRIES):
        if (identity := store.identity(place.key)) is None:
            return None
        if identity.size > _LARGEST:
            break
        try:
            (text,) = store.read_ranges(place.key, [(0, identity.size)], identity)
            content = json.loads(bytes(text))
        except (FileNotFoundError, FormatError):  # It was deleted or replaced since.
            continue
        except ValueError:
            break
        if isinstance(content, dict) and content.get("schema") == SCHEMA:
            return Claimed(content, identity)
        break
    raise ConversionError(f"{printable(place)}: has the name of a claim, and is not one. Move it away")


class Claim:
    """The claim of this run on a destination."""

    def __init__(self, store: Store, destination: Url, run: str, format_name: str) -> None:
        self.destination, self.run = destination, run
        self.taken = False  # the store holds it
        self.joined = False  # another process of the same run wrote it
        self.lost = False  # another run has replaced or deleted it
        self.replaced: Claimed | None = None  # the claim of another run that this one replaced
        self._store, self._key, self._format = store, claim_url(destination).key, format_name
        self._seen: Identity | None = None  # The claim as it was when it was last read or written.
        self._by, self._alone = os.urandom(8).hex(), False  # A random word: processes of two machines may look alike.

    def take(self, *, overwrite: bool, note: Callable[[str], None], alone: bool = False) -> None:
        """Write the claim, or go on with that of the same run unless `alone`; `overwrite` replaces that of another."""
        if self._store.can and {IF_ABSENT, IF_MATCH} <= self._store.can:
            with contextlib.suppress(UnsupportedError):
                self._take(overwrite=overwrite, alone=alone)
                return
        self.taken = False
        note(
            f"{self.destination}: the store knows no conditional writes, so two runs that write it at the same time "
            "are not noticed"
        )

    def _take(self, *, overwrite: bool, alone: bool) -> None:
        """Write the claim. All tasks of a run share the claim that the first one wrote."""
        for _ in range(_TRIES):
            if self._put(if_absent=True):
                return
            if (claim := read_claim(self._store, self.destination)) is None:
                continue  # It was released since.
            if alone or (claim.run != self.run and not overwrite):
                raise refused(self.destination, claim)
            if claim.run == self.run:
                self.taken, self.joined, self._seen = True, True, claim.identity
                return
            self.replaced = claim
            if self._put(if_match=claim.identity):
                return
        raise ConversionError(f"{printable(self.destination)}: other runs write it at the same time. Run again later")

    def _put(self, **condition: Any) -> bool:
        """Write the claim, and return whether the condition holds."""
        self.taken = True  # Before it is: a signal may come directly after.
        try:
            self._seen = self._store.put(self._key, claim_content(self.run, self._by, self._format), **condition)
        except FileExistsError:
            self.taken = False
        return self.taken

    def hold_alone(self) -> None:
        """Replace the claim of the run by one of this process. Another process that does so later takes over."""
        if not self.taken:
            return
        self.check()
        self._by, self._alone = os.urandom(8).hex(), True
        try:
            if not self._put(if_match=self._seen):
                raise self._lost_to(read_claim(self._store, self.destination))
        except UnsupportedError:  # The server knows "if absent" only, so the processes of the run share the claim.
            self._alone = False

    def check(self) -> None:
        """Raise ConversionError if another run has replaced or deleted the claim, or another process holds it alone."""
        if not self.is_ours():
            raise self._lost_to(read_claim(self._store, self.destination))

    def is_ours(self) -> bool:
        """Return whether the claim is still that of this run. True if the store knows no claims."""
        if not self.taken:
            return not self.lost
        if self._seen is not None and self._store.identity(self._key) == self._seen:
            return True
        claim = None if self._alone else read_claim(self._store, self.destination)
        if claim is not None and claim.run == self.run:
            self._seen = claim.identity
            return True
        self.taken, self.lost = False, True
        return False

    def _lost_to(self, claim: Claimed | None) -> ConversionError:
        self.taken, self.lost = False, True
        who = "was deleted" if claim is None else f"is now of {claim.owner()}"
        what = f"the claim of this run {who}, so it publishes nothing. Run again when no other run writes it"
        return ConversionError(f"{printable(self.destination)}: {what}")

    def release(self) -> None:
        """Delete the claim, if it is still ours."""
        if self.taken and self.is_ours():
            self._store.delete([self._key])
        self.taken = False


def refused(destination: Url, claim: Claimed) -> ConversionError:
    """Return the error for a destination that another run has claimed."""
    return ConversionError(
        f"{printable(destination)}: another tokfmt is writing it ({claim.owner()}). If that run was killed, "
        "--resume on that machine continues it, and --overwrite starts over"
    )
