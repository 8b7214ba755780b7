"""Build a destination in a store: first in a private local directory, the spool, and then by uploads.

    SPOOL/tokfmt-spool-16hexdigits/      of one address and one user, 0700
        .DST.tokfmt-work/                as for a local destination: see `files.publisher`
            build/DST

The spool is named by --spool, TOKFMT_SPOOL or $TMPDIR. No local destination ever appears in it.

An object is complete, or does not exist. A dataset of several objects becomes readable when its entries are uploaded,
and is complete with its manifest, which is the last. A run that fails deletes the objects that it has uploaded, unless
it can be continued.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tokfmt.errors import DestinationExistsError, UnsupportedError
from tokfmt.files.file import writing
from tokfmt.files.place import LocalPlace, PlaceLike, Url, destination_of, local_path, writable_store
from tokfmt.files.publisher import FilesBeside, LocalPublisher, Publisher
from tokfmt.files.replacing import ANYBODY, Objection, no_directory
from tokfmt.files.store import IF_ABSENT, PUT_AT_ONCE

VARIABLE = "TOKFMT_SPOOL"
_TASKS = ".tokfmt-tasks"
_OF_CLAIM = 7  # It is looked for, written, read before two steps, and deleted.


def spool_parent(directory: Path | None) -> Path:
    """Return the directory of spools: the given one, TOKFMT_SPOOL or $TMPDIR."""
    return Path(os.path.abspath(directory or os.environ.get(VARIABLE) or tempfile.gettempdir()))


def is_named(directory: Path | None) -> bool:
    """Return whether the user names the directory of spools, which several machines may then share."""
    return bool(directory or os.environ.get(VARIABLE))


def spool_of(destination: Url, directory: Path | None) -> Path:
    """Return the spool of a destination. The same user finds it again."""
    import hashlib  # Loads OpenSSL, which local conversions do not need.

    named = f"{os.geteuid()} {destination.as_posix()}".encode()
    return spool_parent(directory) / f"tokfmt-spool-{hashlib.blake2b(named, digest_size=8).hexdigest()}"


def run_of_tasks(destination: Url) -> str:
    """Return the run that the claim of all tasks of a destination names."""
    return f"tasks of {destination.as_posix()}"


def task_records(destination: Url) -> Url:
    """Return the directory of the records of the tasks of a destination."""
    return destination.with_name(f"{destination.name}{_TASKS}")


class SmallObject(Publisher):
    """Build one small object, as a page or an index, in the spool, and upload it in one step."""

    def __init__(self, url: Url, *, overwrite: bool, objection: Objection) -> None:
        """Choose a hidden directory in the spool. Creates no file, and sends no request yet."""
        writable_store(url)
        self.url, self._objection, spool = url, objection, spool_of(url, None)
        super().__init__(LocalPlace(spool / url.name), url, overwrite=overwrite, spool=spool)

    def check_replaceable(self) -> None:
        if not self.url.is_there():
            return
        why = self._objection(self.url)
        if not self.overwrite:
            raise DestinationExistsError(self.url, why)
        if why:
            raise self._not_replaced(why)

    def prepare(self, beside: FilesBeside) -> FilesBeside:
        return beside

    def appear(self, beside: FilesBeside) -> None:  # noqa: ARG002
        put_small(self.url, self.path, overwrite=self.overwrite)
        self._published = True

    def accompany(self, drafts: FilesBeside, *, companions: bool) -> None:
        """Put nothing beside the object."""


def staging_for(
    destination: PlaceLike,
    *,
    overwrite: bool = False,
    objection: Objection = no_directory,
    readable: int = ANYBODY,
) -> Publisher:
    """Return the context in which a small output of one file is built: a page, an index, a picture."""
    place = destination_of(destination)
    if not isinstance(place, Url):
        return LocalPublisher(
            destination if isinstance(destination, str) else local_path(place, "a file to write"),
            overwrite=overwrite,
            objection=objection,
            readable=readable,
        )
    return SmallObject(place, overwrite=overwrite, objection=objection)


def put_small(url: Url, content: bytes | Path, *, overwrite: bool = False) -> None:
    """Write one object, such as a page or a list."""
    store = writable_store(url)
    if not overwrite and store.identity(url.key) is not None:
        raise DestinationExistsError(url)
    try:
        store.put(url.key, content, if_absent=not overwrite and IF_ABSENT in (store.can or ()))
    except UnsupportedError:  # The server does not know the condition. No other object was there a moment ago.
        store.put(url.key, content)
    except FileExistsError as error:
        raise DestinationExistsError(url) from error


def minimum_requests(size: int) -> int:
    """Return the least number of requests that write a dataset of so many bytes: parts, a manifest and the claim."""
    return max(1, -(-size // PUT_AT_ONCE)) + 1 + _OF_CLAIM


def publish_text(
    destination: PlaceLike, text: str, *, overwrite: bool = False, objection: Objection = no_directory
) -> None:
    """Write a text file as a destination: complete, or not written, and with the same checks of what it replaces."""
    with staging_for(destination, overwrite=overwrite, objection=objection) as staging:
        with writing(destination):
            staging.path.write_text(text, "utf-8")
        staging.publish()
