"""Claims of destinations in stores: `DST.tokfmt-writing` states who writes a destination, as a lock of a file does.

    {"schema": "tokfmt.claim/1", "run": ..., "host": ..., "pid": ..., "since": ..., "by": ..., "format": ...}

A claim is written only if the destination has no claim, and is deleted at the end. It has no heartbeat and does not
expire: a killed run leaves its claim. A run with the same `run` goes on with it (--resume); --overwrite replaces it. A
run reads its claim again before the dataset becomes readable, and publishes nothing if another run has replaced it.

A store without conditional writes has no claims. Two runs that write one destination there are not noticed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokfmt.errors import ConversionError, FormatError, UnsupportedError
from tokfmt.files.place import Url
from tokfmt.files.store import IF_ABSENT, IF_MATCH, Identity, Store
from tokfmt.wording import printable

SCHEMA = "tokfmt.claim/1"
_SUFFIX = ".tokfmt-writing"
_LARGEST = 1 << 12
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Claimed:
    """A claim that is in a store."""

    content: Mapping[str, Any]
    identity: Identity

    @property
    def run(self) -> str:
        """The run that it belongs to."""
        return str(self.content.get("run", ""))

    @property
    def format(self) -> str:
        """The format that the run writes."""
        return str(self.content.get("format", ""))

    def owner(self) -> str:
        """Return who wrote it and when: `process 4711 on node7, since 2026-11-25 12:03 UTC`."""
        pid, host, since = (printable(self.content.get(key, "?"))[:80] for key in ("pid", "host", "since"))
        return f"process {pid} on {host}, since {since}"


def claim_url(destination: Url) -> Url:
    """Return the address of the claim of a destination."""
    return destination.with_name(f"{destination.name}{_SUFFIX}")


def claim_content(run: str, by: str, format_name: str) -> bytes:
    """Return a claim of this process."""
    since = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())
    stated = {"run": run, "host": os.uname().nodename, "pid": os.getpid(), "since": since, "by": by}
    return json.dumps({"schema": SCHEMA, **stated, "format": format_name}).encode()


def read_claim(store: Store, destination: Url) -> Claimed | None:
    """Return the claim of a destination; None without one."""
    return claim_at(store, claim_url(destination))


def claim_at(store: Store, place: Url) -> Claimed | None:
    """Return the claim at an address; see `read_claim`."""
    for _ in range(_TRIES):
        if (identity := store.identity(place.key)) is None:
            return None
        if identity.size > _LARGEST:
            break
        try:
            (text,) = store.read_ranges(place.key, [(0, identity.size)], identity)
        except (FileNotFoundError, FormatError):  # It was deleted or replaced since.
            continue
        try:
            content = json.loads(bytes(text))
        except ValueError:
            break
        if not isinstance(content, dict) or content.get("schema") != SCHEMA:
            break
        return Claimed(content, identity)
    raise ConversionError(f"{printable(place)}: has the name of a claim, and is not one. Move it away")


class Claim:
    """The claim of this run on a destination."""

    def __init__(self, store: Store, destination: Url, run: str, format_name: str) -> None:
        # taken: while the store holds it
        self.destination, self.run, self.taken = destination, run, False
        # joined: another process of the same run wrote the claim
        # lost: another run has replaced or deleted it
        self.joined, self.lost = False, False
        self.replaced: Claimed | None = None  # claim of another run that this one replaced; None if there was none
        self._seen: Identity | None = None  # The claim as it was when it was last read or written.
        self._by, self._alone = os.urandom(8).hex(), False  # A random word: processes of two machines may look alike.
        self._store, self._format = store, format_name

    def take(self, *, overwrite: bool, note: Callable[[str], None], alone: bool = False) -> None:
        """Write the claim, or go on with that of the same run, unless `alone`. A note says if the store knows no
        conditional writes.
        """
        key = claim_url(self.destination).key
        if not self._store.can or not {IF_ABSENT, IF_MATCH} <= self._store.can:
            self._unknown(note)
            return
        try:
            for _ in range(_TRIES):
                self.taken = True  # Before it is: a signal may come directly after.
                try:
                    self._seen = self._store.put(key, self._content(), if_absent=True)
                except FileExistsError:
                    self.taken = False
                    claim = read_claim(self._store, self.destination)
                    if alone and claim is not None:
                        raise refused(self.destination, claim) from None
                else:
                    return
                if claim is not None and self._replaces(claim, key, overwrite=overwrite):
                    return
        except UnsupportedError:
            self.taken = False
            self._unknown(note)
            return
        raise ConversionError(f"{printable(self.destination)}: other runs write it at the same time. Run again later")

    def _replaces(self, claim: Claimed, key: str, *, overwrite: bool) -> bool:
        """Return True if the claim is ours, or is now. All tasks of a run share the claim that the first one wrote."""
        if claim.run != self.run and not overwrite:
            raise refused(self.destination, claim)
        self.taken = True
        if claim.run == self.run:
            self.joined, self._seen = True, claim.identity
            return True
        self.replaced = claim
        try:
            self._seen = self._store.put(key, self._content(), if_match=claim.identity)
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
            self._seen = self._store.put(claim_url(self.destination).key, self._content(), if_match=self._seen)
        except UnsupportedError:  # The server knows "if absent" only, so the processes of the run share the claim.
            self._alone = False
        except FileExistsError:
            raise self._lost_to(read_claim(self._store, self.destination)) from None

    def check(self) -> None:
        """Compare the claim with what it was."""
        if self.is_ours():
            return
        raise self._lost_to(read_claim(self._store, self.destination))

    def is_ours(self) -> bool:
        """Return whether the claim is still that of this run. True if the store knows no claims."""
        if not self.taken:
            return not self.lost
        if self._seen is not None and self._store.identity(claim_url(self.destination).key) == self._seen:
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
        return ConversionError(
            f"{printable(self.destination)}: the claim of this run {who}, so it publishes nothing. "
            "Run again when no other run writes it"
        )

    def release(self) -> None:
        """Delete the claim, if it is still ours."""
        if self.taken and self.is_ours():
            self._store.delete([claim_url(self.destination).key])
        self.taken = False

    def _content(self) -> bytes:
        return claim_content(self.run, self._by, self._format)

    def _unknown(self, note: Callable[[str], None]) -> None:
        note(
            f"{self.destination}: the store knows no conditional writes, so two runs that write it at the same time "
            "are not noticed"
        )


def refused(destination: Url, claim: Claimed) -> ConversionError:
    """Return the error for a destination that another run has claimed."""
    return ConversionError(
        f"{printable(destination)}: another tokfmt is writing it ({claim.owner()}). If that run was killed, "
        "--resume on that machine continues it, and --overwrite starts over"
    )
