"""Build a destination in a store: first in a private local directory, the spool, and then by uploads.

    SPOOL/tokfmt-spool-16hexdigits/      of one address and one user, 0700
        .DST.tokfmt-8hexdigits/          as for a local destination: see `core.publisher`
            build/DST
            run                          the run that the claim names, if it may be continued

The spool is named by --spool, TOKFMT_SPOOL or $TMPDIR. No local destination ever appears in it.

An object is complete, or does not exist. A dataset of several objects becomes readable when its entries are uploaded,
and is complete with its manifest, which is the last. A run that fails deletes the objects that it has uploaded, unless
it can be continued.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from tokfmt.core import listing
from tokfmt.core.claims import Claim, Claimed, read_claim, refused
from tokfmt.core.errors import ConversionError, DestinationExistsError, OutageError, TokfmtError, UnsupportedError
from tokfmt.core.files import writing
from tokfmt.core.locks import make_private
from tokfmt.core.place import (
    IF_ABSENT,
    PUT_AT_ONCE,
    Identity,
    Place,
    PlaceLike,
    Url,
    destination_of,
    writable_store,
)
from tokfmt.core.publisher import Beside, Publisher
from tokfmt.core.replacing import ANYBODY, Objection, no_directory
from tokfmt.core.text_format import printable

VARIABLE = "TOKFMT_SPOOL"
_MEANWHILE = "another writer has written it meanwhile"
_OF_CLAIM = 7  # It is looked for, written, read before two steps, and deleted.
StoreObjection = Callable[[Place, str], str]
"""Returns the reason not to replace a dataset, given the format that a claim states ("": none); "" if it may be."""


class Uploaded(NamedTuple):
    """An object that this run, or the run that it continues, has written.

    Attributes:
        size, tag: The identity that the store states.
        digest: XXH3-128 of its content, in hexadecimal; "" if it was not computed.
    """

    size: int
    tag: str
    digest: str

    @property
    def identity(self) -> Identity:
        """The identity that the store states."""
        return Identity(self.size, self.tag)


def spool_parent(given: Path | None) -> Path:
    """Return the directory of spools: the given one, TOKFMT_SPOOL or $TMPDIR."""
    return Path(os.path.abspath(given or os.environ.get(VARIABLE) or tempfile.gettempdir()))


def is_named(given: Path | None) -> bool:
    """Return whether the user names the directory of spools, which several machines may then share."""
    return bool(given or os.environ.get(VARIABLE))


def spool_of(destination: Url, given: Path | None) -> Path:
    """Return the spool of a destination. The same user finds it again."""
    import hashlib  # Loads OpenSSL, which local conversions do not need.

    named = f"{os.geteuid()} {destination.as_posix()}".encode()
    return spool_parent(given) / f"tokfmt-spool-{hashlib.blake2b(named, digest_size=8).hexdigest()}"


def run_of_tasks(destination: Url) -> str:
    """Return the run that the claim of all tasks of a destination names."""
    return f"tasks of {destination.as_posix()}"


def no_objection(place: Place, stated: str) -> str:  # noqa: ARG001
    """Accept the replacement of an object, and object to that of a directory."""
    return "it is a directory" if listing.is_dir(place) else ""


class StoreStaging(Publisher):
    """Build a destination in a store. Without `complete`, it leaves no object behind.

    Attributes:
        url: The destination.
        store: Its store.
        spool: The local directory in which it is built.
        claim: The claim of this run.
        uploaded: What was uploaded, by key.
        continues: The claim in the store is of the run that this one continues.
        total: Number of objects to upload, for messages; 0 if it is not known yet.
        begun: True once objects of the old dataset were deleted.
    """

    def __init__(
        self,
        url: Url,
        *,
        spool: Path | None = None,
        overwrite: bool = False,
        objection: StoreObjection = no_objection,
        kept: str = "",
        shared: bool = False,
        companions: Sequence[Url] = (),
        format_name: str = "",
        note: Callable[[str], None] = lambda _: None,
        claims: bool = True,
    ) -> None:
        """Choose a hidden directory in the spool. Creates no file, and sends no request yet.

        Args:
            url: The destination.
            spool: Directory of spools.
            overwrite: Allow the replacement of an existing dataset.
            objection: Returns the reason not to replace an existing one.
            kept: As for `Publisher`.
            shared: As for `Publisher`.
            companions: Other objects of the dataset at the same level.
            format_name: The format that is written, for the claim.
            note: Receives notes.
            claims: Claim the destination. A single small object needs no claim: it is written only if none is there.

        Raises:
            OptionError: If the address cannot be written.
        """
        self.url, self.store, self.spool = url, writable_store(url), spool_of(url, spool)
        self._objects_to, self._beside, self._note = objection, tuple(companions), note
        self._claims, self.continues, self._done = claims, False, False
        self.claim = Claim(self.store, url, os.urandom(8).hex(), format_name)
        self.uploaded: dict[str, Uploaded] = {}
        self.total, self.begun = 0, False
        super().__init__(self.spool / url.name, overwrite=overwrite, kept=kept, shared=shared, given=url)

    def _make_home(self) -> None:
        make_private(self.spool, taken_over=True)  # Another run removes it if it is empty.
        super()._make_home()

    def __enter__(self) -> Publisher:
        with writing(self.spool):
            make_private(self.spool, taken_over=True)
        super().__enter__()
        if not self._claims:
            return self
        try:
            if self._kept == "resume":
                self._note_run()
            self.claim.take(overwrite=self.overwrite, note=self._note)
            self.continues = self.continues or self.claim.joined
            if self.claim.replaced is None and not self.continues:
                self._check_dataset(None)  # Another run may have written it since, and released its claim.
            if self.of_tasks and not self._shared:
                self.claim.hold_alone()  # Of two runs with --finish, the later one goes on.
        except BaseException:
            self.keep = self.keep and (self.home / "conversion.json").exists()
            self._leave()
            raise
        return self

    def check_replaceable(self) -> None:
        """Raise an error for a destination that another run writes, or that must not be replaced.

        Raises:
            ConversionError: If another run writes it, or strangers are in it.
            DestinationExistsError: If it exists, and `overwrite` is False.
        """
        if not self._claims:
            self._check_dataset(None)
            return
        self._recall_run()
        found = read_claim(self.store, self.url)
        self.continues = found is not None and found.run == self.claim.run
        if self.continues:
            return
        if found is not None and not self.overwrite:
            raise refused(self.url, found)
        try:
            self._check_dataset(found)
        except ConversionError:  # What is there may be of another task, which has begun since the claim was read.
            found = read_claim(self.store, self.url) if self.of_tasks else None
            self.continues = found is not None and found.run == self.claim.run
            if not self.continues:
                raise

    @property
    def of_tasks(self) -> bool:
        """Whether tasks write the destination, and --finish publishes it."""
        return self._kept == "tasks"

    @listing.kept()
    def _check_dataset(self, found: Claimed | None) -> None:
        for place in (self.url, *self._beside):
            if not listing.is_there(place):
                continue
            why = self._objects_to(place, found.format if found else "") if place == self.url else ""
            if not self.overwrite:
                raise DestinationExistsError(place, why)
            if why:
                raise self._not_replaced(why)

    def _recall_run(self) -> None:
        """Take over the run of an earlier process, whose claim then is ours. All tasks of a destination are one run."""
        if self.of_tasks:
            self.claim.run = run_of_tasks(self.url)
        if self._kept != "resume":
            return
        with contextlib.suppress(OSError):
            self.claim.run = (self.home / "run").read_text("ascii") or self.claim.run

    def _note_run(self) -> None:
        """Record the run, so that another process can go on with the claim. Of several at once, the first decides."""
        place = self.home / "run"
        draft = self.home / f"run.{os.urandom(4).hex()}"
        with writing(self.spool):
            draft.write_text(self.claim.run, "ascii")
            try:
                os.link(draft, place)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        self.claim.run = place.read_text("ascii")

    @property
    def published(self) -> bool:
        """True once the dataset in the store is complete."""
        return self._done

    def publish(self, beside: Beside = MappingProxyType({})) -> None:
        """Upload the file that was built, which is a small output such as a page, and delete old files beside it.

        Args:
            beside: Name of each file beside it, with None: only files that must not exist are possible.

        Raises:
            DestinationExistsError: If it exists by now, and `overwrite` is False.
            OutageError: If it cannot be written.
        """
        keys = [self.address(name).key for name, content in beside.items() if content is None]
        there = [key for key in keys if self.store.identity(key) is not None]
        if there:
            self.store.delete(there)
        put_small(self.url, self.path, overwrite=self.overwrite)
        self.complete()

    def complete(self) -> None:
        """Record that the dataset is complete. Objects stay from now on, whatever happens."""
        self._done = True

    def address(self, name: str) -> Url:
        """Return the address of a file of the dataset, or beside it, by its path below the directory of the dataset."""
        return self.url.parent / name

    def put(
        self,
        name: str,
        content: bytes | Path,
        *,
        digest: str = "",
        if_absent: bool = True,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """Upload one object.

        Args:
            name: Its name, as for `address`.
            content: Its content.
            digest: XXH3-128 of the content.
            if_absent: Do not replace an object, as far as the store can.
            done: Called once it is in `uploaded`, also if the caller is interrupted meanwhile.

        Raises:
            DestinationExistsError: If another writer has written an object of that name meanwhile.
            OutageError: If it cannot be written.
        """
        place, conditional = self.address(name), if_absent and self.claim.taken
        if if_absent and not conditional and self.store.identity(place.key) is not None:
            raise DestinationExistsError(place, _MEANWHILE)

        def written(found: Identity) -> None:
            self.uploaded[place.key] = Uploaded(*found, digest)
            done()

        try:
            self.store.put(place.key, content, if_absent=conditional, done=written)
        except FileExistsError as error:
            raise DestinationExistsError(place, _MEANWHILE) from error

    def _leave(self) -> None:
        if self._done or not (self.keep and self.uploaded):
            self._clean_up()
        super()._leave()
        with contextlib.suppress(OSError):
            self.spool.rmdir()

    def _clean_up(self) -> None:
        """Delete the claim, and before it the objects of a run that fails, if they are still ours."""
        try:
            if not self._done:
                keys = [key for key, one in self.uploaded.items() if self.store.identity(key) == one.identity]
                # A run that has taken over and still writes notices what is deleted. One that has published does not.
                if keys and (self.claim.is_ours() or read_claim(self.store, self.url) is not None):
                    self.store.delete(keys)
                    keys = []
                if not keys:
                    self.uploaded.clear()
            if self._done or not self.of_tasks:
                self.claim.release()
        except (TokfmtError, OSError) as error:
            self._note(f"{printable(self.url)}: not cleaned up: {error}")

    def _old(self) -> Path | None:
        return None  # Nothing is replaced locally.

    def _note_state(self, error: BaseException) -> None:
        super()._note_state(error)
        if isinstance(error, OutageError) and isinstance(error.__cause__, OSError):
            error.add_note(f"It is built in {printable(self.spool.parent)}; --spool DIR names another place")
        if self.published:
            return
        if self.begun:
            error.add_note(f"{printable(self.url)}: the dataset that was to be replaced is deleted")
        if self.uploaded and self.claim.lost:
            error.add_note(
                f"{printable(self.url)}: another run has taken it over, and some of {len(self.uploaded):,} objects of "
                "this run may be in its dataset: compare that with its source by tokfmt diff"
            )
        elif self.uploaded:
            of = f" of {self.total:,}" if self.total else ""
            error.add_note(
                f"{printable(self.url)} is absent; {len(self.uploaded):,}{of} objects are uploaded. A killed upload of "
                "a large object may leave parts, which a lifecycle rule of the bucket removes"
            )


def staging_for(
    destination: PlaceLike,
    *,
    overwrite: bool = False,
    objection: Objection = no_directory,
    readable: int = ANYBODY,
) -> Publisher:
    """Return the context in which a small output of one file is built: a page, an index, a picture.

    Args:
        destination: A path or an address.
        overwrite: Allow the replacement of an existing one.
        objection: Returns the reason not to replace an existing one.
        readable: As for `Publisher`.

    Raises:
        OptionError: If it is an address that cannot be written.
    """
    place = destination_of(destination)
    if not isinstance(place, Url):
        return Publisher(
            destination if isinstance(destination, str) else place,
            overwrite=overwrite,
            objection=objection,
            readable=readable,
        )
    return StoreStaging(place, overwrite=overwrite, objection=lambda found, _: objection(found), claims=False)


def put_small(url: Url, content: bytes | Path, *, overwrite: bool = False) -> None:
    """Write one object, such as a page or a list.

    Args:
        url: Its address.
        content: Its content.
        overwrite: Replace an existing object.

    Raises:
        DestinationExistsError: If it exists, and `overwrite` is False.
        OutageError: If it cannot be written.
    """
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
    """Write a text file as a destination: complete, or not written, and with the same checks of what it replaces.

    Args:
        destination: A path or an address.
        text: Its content, written as UTF-8.
        overwrite: Allow the replacement of an existing file.
        objection: Returns the reason not to replace an existing one.

    Raises:
        DestinationExistsError: If it exists, and `overwrite` is False.
        ConversionError: If it cannot be written, or an existing path is of a kind that is never replaced.
    """
    with staging_for(destination, overwrite=overwrite, objection=objection) as staging:
        with writing(destination):
            staging.path.write_text(text, "utf-8")
        staging.publish()
