"""Publish destinations in stores: upload what was built, so that a dataset is readable only once it is complete.

An object appears as a whole, and a dataset has several. So `StorePublisher` does this, in the steps of `publish_all`:

1. `prepare`: the claim is read again. If an old dataset is replaced, its manifest and ledger are deleted, and then its
   entries (`Format.entries`). All data objects are uploaded.
2. `appear`: the data are compared with what the store states, and the claim is read again. The entries are uploaded,
   each only if there is no such object.
3. `accompany`: the ledger follows, and last the manifest, which lists all objects.
4. `settle`: objects that only the old dataset had are deleted: those that its manifest or its format lists, never a
   prefix.

The claim goes at the end. A process that is killed leaves the claim, and

- before step 1 the old dataset as it was;
- in step 1 data that no reader opens, as there are no entries, and no manifest;
- in step 2 some entries, or all: a dataset that is readable once it is complete, without its manifest;
- in step 3 the complete dataset, without its manifest;
- later the complete dataset, and perhaps objects of the old one that no manifest lists.

A run that fails deletes what it has uploaded, unless it can be continued. Then the journal lists the objects, and the
next run uploads only what is not there as it was left.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from tokfmt.errors import ConversionError, DestinationExistsError, OutageError, TokfmtError
from tokfmt.files.claims import Claim, claim_url, read_claim, refused
from tokfmt.files.durable import replace_file
from tokfmt.files.file import open_file, writing
from tokfmt.files.journal import WHOLE, read_journal
from tokfmt.files.listing import Listing
from tokfmt.files.place import LocalPlace, Url, writable_store
from tokfmt.files.publisher import REQUEST, FilesBeside, Publisher
from tokfmt.files.spool import run_of_tasks, spool_of, task_records
from tokfmt.files.store import Identity, Kind, Store
from tokfmt.wording import printable

OBJECT = "object"
"""Kind of the journal entries of uploaded objects."""
_EARLY = "sink"
"""Kind of the one journal entry that states that files are uploaded as they are complete."""
_RUN = "run"  # The file that names the run of the claim.
_UNSYNCED = 64 << 20  # Bytes of taken files that wait for their journal entries.
_ASKED = 8  # Objects of which each is asked; more are listed.
_MEANWHILE = "another writer has written it meanwhile"


class Uploaded(NamedTuple):
    """An object that this run, or the run that it continues, has written."""

    size: int  # that the store states
    tag: str
    digest: str  # XXH3-128 in hexadecimal; "" if it was not computed

    @property
    def identity(self) -> Identity:
        """The identity that the store states."""
        return Identity(self.size, self.tag)

    @property
    def measured(self) -> tuple[int, str]:
        """Its size and its checksum."""
        return self.size, self.digest


class StoredKind(Protocol):
    """The format of a destination, and what a publisher asks of the dataset that it replaces."""

    @property
    def name(self) -> str:
        """Name of the format."""

    @property
    def entries(self) -> Sequence[str]:
        """Patterns of the names of files without which no reader opens a dataset, in the order in which they appear."""

    def is_entry(self, name: str) -> bool:
        """Return whether a file of this name is an entry of a dataset of any format."""

    def beside(self, url: Url) -> Sequence[Url]:
        """Return the addresses of the manifest and of the ledger of a dataset, which need not exist."""

    def objects(self, url: Url, stated: str) -> Sequence[Url]:
        """Return the objects of the dataset at an address; `stated` is its format if there is no manifest."""

    def strangers(self, url: Url, stated: str) -> str:
        """Return the reason not to replace what is at an address; "" if all of it belongs to one dataset."""

    def measured(self, file: Path | Url) -> tuple[int, str]:
        """Return the size and the checksum of a file."""


class StorePublisher(Publisher):
    """Build a destination of a store in the spool, and upload it. Without `publish`, it leaves no object behind."""

    def __init__(
        self,
        url: Url,
        kind: StoredKind,
        *,
        spool: Path | None = None,
        overwrite: bool = False,
        kept: str = "",
        shared: bool = False,
        companions: Sequence[str] = (),
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Choose a hidden directory in the spool. Creates no file, and sends no request yet."""
        self.url, self.store, home = url, writable_store(url), spool_of(url, spool)
        # continues: the claim in the store is of the run that this one continues
        self.of_tasks, self.continues, self._kind, self._note = kept == "tasks", False, kind, note
        run = run_of_tasks(url) if self.of_tasks else os.urandom(8).hex()
        self.claim = Claim(self.store, url, run, kind.name)
        # size and checksum of each file, by its path below the dataset; an uploaded file is not in the spool any more
        self.files: Mapping[str, tuple[int, str]] = {}
        self.uploaded: dict[str, Uploaded] = {}  # by key
        self.unanswered: dict[str, bytes | Path] = {}  # what was sent and not answered, by key: it may be there
        self._is_clean = True
        self.advance: Callable[[int], None] = lambda _: None  # receives the bytes that are uploaded of `files`
        self._old, self._old_is_gone = list[str](), False
        self._taken, self._taken_bytes = list[Path](), 0
        super().__init__(
            LocalPlace(home / url.name),
            url,
            overwrite=overwrite,
            kept=kept,
            shared=shared,
            companions=companions,
            spool=home,
        )

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            if self._kept == "resume":  # Before the claim names the run, another process can find its name.
                with writing(self.spool or self.home):
                    replace_file(self.home / _RUN, self.claim.run.encode())
            self.claim.take(overwrite=self.overwrite, note=self._note)
            self.continues = self.continues or self.claim.joined
            if self.claim.replaced is None and not self.continues:
                self._check_dataset("")  # Another run may have written it since, and released its claim.
            if self.of_tasks and not self._shared:
                self.claim.hold_alone()  # Of two runs with --finish, the later one goes on.
        except BaseException:
            self.keep = self.keep and (self.home / REQUEST).exists()
            self._leave()
            raise
        return self

    def check_replaceable(self) -> None:
        """Refuse as well if another run writes the destination."""
        if self._kept == "resume":
            with contextlib.suppress(OSError):  # The claim of an earlier process of the run is ours.
                self.claim.run = (self.home / _RUN).read_text("ascii") or self.claim.run
        claimed = read_claim(self.store, self.url)
        self.continues = claimed is not None and claimed.run == self.claim.run
        if self.continues:
            return
        if claimed is not None and not self.overwrite:
            raise refused(self.url, claimed)
        try:
            self._check_dataset(claimed.format if claimed else "")
        except ConversionError:  # What is there may be of another task, which has begun since the claim was read.
            claimed = read_claim(self.store, self.url) if self.of_tasks else None
            self.continues = claimed is not None and claimed.run == self.claim.run
            if not self.continues:
                raise

    def _check_dataset(self, stated: str) -> None:
        with Listing() as listing:
            for name in (self.url.name, *self.companions):
                place = self.url.with_name(name).asking(listing)
                if not place.is_there():
                    continue
                why = self._kind.strangers(place, stated) if name == self.url.name else ""
                if not self.overwrite:
                    raise DestinationExistsError(place, why)
                if why:
                    raise self._not_replaced(why)

    def disown(self) -> None:
        """Delete what an earlier request of the same run has uploaded, unless its dataset is complete."""
        if self.overwrite:  # `prepare` removes it.
            return
        manifest, *_ = self._kind.beside(self.url)
        if manifest.is_there():
            raise DestinationExistsError(self.url)
        entries, _ = read_journal(self.home / WHOLE.journal)
        uploaded = {facts[0]: Uploaded(*facts[1:]) for kind, _, facts in entries if kind == OBJECT}
        there = self._stated(uploaded)
        if ours := [key for key, one in uploaded.items() if there.get(key) == one.identity]:
            self.store.delete(ours)

    def prepare(self, beside: FilesBeside) -> FilesBeside:
        """Remove what makes the old dataset readable, and upload the data: step 1."""
        self.claim.check()
        self.recall()
        self._remove_readable()
        entries = self._entries()
        data = {name: sized for name, sized in self.files.items() if name not in entries}
        left = {name: sized for name, sized in data.items() if self._key(name) not in self.uploaded}
        self.advance(sum(size for name, (size, _) in data.items() if name not in left))
        if len(data) == 1 and not self._old:  # The data are the dataset: no other run may have written it.
            for name in left:
                self._put_file(name)
        else:
            self._upload(left)
        self.journal.sync()
        return beside

    def appear(self, beside: FilesBeside) -> None:  # noqa: ARG002
        """Compare the data with what the store states, and upload the entries: step 2."""
        self.claim.check()
        there = self._stated(self.uploaded)
        for key, stored in self.uploaded.items():
            if there.get(key) != stored.identity:
                change = "is gone" if key not in there else "has another tag than the store answered"
                place = printable(f"{self.url.scheme}://{self.url.authority}/{key}")
                raise ConversionError(
                    f"{place}: the object {change} when it was uploaded, so the dataset is not published. "
                    "Run again when no other writer is there"
                )
        for name in self._entries():
            self._put_file(name)

    def accompany(self, drafts: FilesBeside, *, companions: bool) -> None:
        """Upload the files beside the dataset, the manifest last: step 3. The dataset is then complete."""
        if companions:  # They are among the data and the entries.
            return
        for name, content in drafts.items():
            self._put(name, content() if callable(content) else content)
        self._published = True

    def settle(self) -> None:
        """Delete the objects that only the old dataset had: step 4."""
        if rest := [key for key in self._old if key not in self.uploaded]:
            self.store.delete(rest)

    def objects(self) -> list[dict[str, object]]:
        """Return the key, the size, the tag and the checksum of each object of the dataset, for its manifest."""
        rows = [(key, self.uploaded[key]) for key in sorted(map(self._key, self.files))]
        return [{"key": key, "bytes": one.size, "etag": one.tag, "xxh3_128": one.digest} for key, one in rows]

    def name_of(self, key: str) -> str:
        """Return the path of an object below the directory of the dataset."""
        above = self.url.parent.key
        return key.removeprefix(f"{above}/") if above else key

    def _key(self, name: str) -> str:
        return (self.url.parent / name).key

    def _entries(self) -> list[str]:
        """Return the files of the dataset that are entries, in the order in which they appear."""
        names = [(name.rpartition("/")[2], name) for name in self.files]
        ordered = [
            (next((k for k, one in enumerate(self._kind.entries) if fnmatch.fnmatchcase(last, one)), -1), name)
            for last, name in names
        ]
        return [name for order, name in sorted(ordered) if order >= 0]

    # Files that are uploaded before all are complete: a sink of `run.plan`.

    @property
    def has_early_uploads(self) -> bool:
        """Whether an earlier run, or a task, has uploaded files before all were complete."""
        return bool(self.journal.done(_EARLY))

    def take(self, files: Sequence[Path]) -> None:
        """Upload complete files, whose checksums are computed before."""
        self.claim.check()
        self.journal.add(_EARLY, 0, True)
        self._upload({file.relative_to(self.path.parent).as_posix(): self._kind.measured(file) for file in files})

    def drop(self, files: Sequence[Path]) -> None:
        """Remove files, once the journal has recorded that they are uploaded."""
        self._taken += files
        self._taken_bytes += sum(file.stat().st_size for file in files if file.exists())
        if self.journal.keeps and self._taken_bytes < _UNSYNCED:
            return
        self.journal.sync()
        for file in self._taken:
            file.unlink(missing_ok=True)
        self._taken, self._taken_bytes = [], 0

    def recall(self) -> None:
        """Take over the objects that an earlier run has uploaded, if they are still as it left them."""
        stated = {key: Uploaded(*facts) for key, *facts in self.journal.done(OBJECT).values()}
        there = self._stated(stated)
        for key, stored_object in stated.items():
            name = self.name_of(key)
            _, digest = self.files.get(name, (0, None))
            if there.get(key) == stored_object.identity and digest in (None, stored_object.digest):
                self.uploaded[key] = stored_object
                continue
            file = self.path.parent / name  # The spool may still have it.
            is_kept = digest is not None or (file.is_file() and self._kind.measured(file) == stored_object.measured)
            if self.has_early_uploads and not is_kept:
                again = "Run once with --overwrite and without --resume"
                if self.of_tasks:
                    again = f"Delete {printable(task_records(self.url))}, and run all tasks again"
                raise ConversionError(
                    f"{printable(self.url)}: an object that an earlier run uploaded has changed or is gone "
                    f"({printable(key)}), and its file is not kept. {again}"
                )

    def _stated(self, keys: Mapping[str, object]) -> dict[str, Identity]:
        """Return what the store states of objects of the dataset, by key. One that does not exist is left out."""
        below = [key for key in keys if key.startswith(f"{self.url.key}/")]
        there = identities_below(self.store, self.url.key) if len(below) > _ASKED else {}
        for key in keys.keys() - below if len(below) > _ASKED else keys:
            if (identity := self.store.identity(key)) is not None:
                there[key] = identity
        return there

    def _remove_readable(self) -> None:
        """Delete the manifest, the ledger and the entries of what is replaced, so that no reader sees parts of both.

        It is an old dataset, or one of a killed run whose claim was replaced.
        """
        replaced, beside = self.claim.replaced, {place.key: place for place in self._kind.beside(self.url)}
        old = {}
        if self.overwrite:
            old = {place.key: place for place in self._kind.objects(self.url, replaced.format if replaced else "")}
        old |= {key: place for key, place in beside.items() if self.store.identity(key) is not None}
        for is_beside in (True, False):
            gone = [
                key
                for key, place in old.items()
                if key not in self.uploaded and (key in beside if is_beside else self._kind.is_entry(place.name))
            ]
            if gone:
                self._old_is_gone = self._old_is_gone or not is_beside
                self.store.delete(gone)
            old = {key: place for key, place in old.items() if key not in gone}
        self._old = list(old)

    def _upload(self, files: Mapping[str, tuple[int, str]]) -> None:
        """Upload files that were not uploaded as they are."""
        names = {self._key(name): name for name in files}
        there = {key: one.measured for key, one in self.uploaded.items()}
        left = [key for key, name in names.items() if there.get(key) != files[name]]

        def done(key: str, identity: Identity) -> None:
            self._record(key, identity, files[names[key]][1])
            self.advance(identity.size)

        self.unanswered |= {key: self.path.parent / names[key] for key in left}
        self.store.upload([(key, self.path.parent / names[key]) for key in left], done)

    def _put_file(self, name: str) -> None:
        size, digest = self.files[name]
        self._put(name, self.path.parent / name, digest)
        self.advance(size)

    def _put(self, name: str, content: bytes | Path | None, digest: str = "") -> None:
        """Upload one object if none is there, or keep that of the run that is continued; nothing if there is none."""
        url = self.url.parent / name
        if content is None or url.key in self.uploaded:
            return
        is_new = url.key not in self._old
        conditional = is_new and self.claim.taken
        if is_new and not conditional and self.store.identity(url.key) is not None:
            raise DestinationExistsError(url, _MEANWHILE)

        def done(identity: Identity) -> None:
            self._record(url.key, identity, digest)

        self.unanswered[url.key] = content
        try:
            self.store.put(url.key, content, if_absent=conditional, done=done)
        except FileExistsError as error:  # Perhaps the run that this one continues was killed after it had written it.
            there = self.store.identity(url.key) if self.continues and _is_at(url, content) else None
            if there is None:
                del self.unanswered[url.key]
                raise DestinationExistsError(url, _MEANWHILE) from error
            done(there)

    def _record(self, key: str, identity: Identity, digest: str) -> None:
        self.uploaded[key] = Uploaded(*identity, digest)
        self.unanswered.pop(key, None)
        number = int.from_bytes(blake2b(key.encode(), digest_size=6).digest())  # The same in the journals of all tasks.
        self.journal.add(OBJECT, number, [key, *self.uploaded[key]])

    def _leave(self) -> None:
        """Delete the claim, and before it the objects of a run that fails, if they are still ours."""
        is_kept = not self._published and self.keep and bool(self.uploaded)
        try:
            if not self._published and not is_kept:
                keys = [key for key, one in self.uploaded.items() if self._is_as_uploaded(key, one)]
                keys += [key for key, content in self.unanswered.items() if self._is_ours(key, content)]
                # A run that has taken over and still writes notices what is deleted. One that has published does not.
                if keys and (self.claim.is_ours() or read_claim(self.store, self.url) is not None):
                    self.store.delete(keys)
                    keys = []
                if not keys:
                    self.uploaded.clear()
            if self._published or not (self.of_tasks or is_kept):
                self.claim.release()
        except (TokfmtError, OSError) as error:
            self._is_clean = False
            self._note(f"{printable(self.url)}: not cleaned up: {error}")
        super()._leave()

    def _is_as_uploaded(self, key: str, one: Uploaded) -> bool:
        """Return whether an object is what this run has uploaded; the store may have answered with a wrong tag."""
        there = self.store.identity(key)
        if there is None or there == one.identity or there.size != one.size:
            return there == one.identity
        return self._kind.measured(self.url.parent / self.name_of(key)) == one.measured

    def _is_ours(self, key: str, content: bytes | Path) -> bool:
        """Return whether an object whose write was not answered is there, and what this run has sent."""
        url = self.url.parent / self.name_of(key)
        return key not in self._old and self.store.identity(key) is not None and _is_at(url, content)

    def _note_state(self, error: BaseException) -> None:
        if self._is_clean or self.published:
            super()._note_state(error)
        else:
            left = [*self.uploaded, *self.unanswered, claim_url(self.url).key]
            named = f"objects of this run may be left, such as {printable(left[0])}"
            error.add_note(f"{printable(self.url)}: {named}. The next run removes them with --overwrite")
        if isinstance(error, OutageError) and isinstance(error.__cause__, OSError):
            error.add_note(f"It is built in {printable(self.home.parent.parent)}; --spool DIR names another place")
        if self.published:
            return
        if self._old_is_gone:
            error.add_note(f"{printable(self.url)}: the dataset that was to be replaced is deleted")
        if self.uploaded and self.claim.lost:
            error.add_note(
                f"{printable(self.url)}: another run has taken it over, and some of {len(self.uploaded):,} objects of "
                "this run may be in its dataset: compare that with its source by tokfmt diff"
            )
        elif self.uploaded and self._is_clean:
            of = f" of {len(self.files):,}" if len(self.uploaded) <= len(self.files) else ""
            error.add_note(
                f"{printable(self.url)} is absent; {len(self.uploaded):,}{of} objects are uploaded. A killed upload of "
                "a large object may leave parts, which a lifecycle rule of the bucket removes"
            )


def identities_below(store: Store, key: str) -> dict[str, Identity]:
    """Return the identities of all objects below a key, by key."""
    identities, left = dict[str, Identity](), [key]
    while left:
        above = left.pop()
        with contextlib.suppress(FileNotFoundError):
            for entry in list(store.entries(above)):
                below = f"{above}/{entry.name}"
                if entry.kind is Kind.DIRECTORY:
                    left.append(below)
                elif (identity := entry.identity or store.identity(below)) is not None:
                    identities[below] = identity
    return identities


def _is_at(url: Url, content: bytes | Path) -> bool:
    """Return whether an object has this content."""
    ours = content if isinstance(content, bytes) else content.read_bytes()
    file = open_file(url, may_be_page=True)
    try:
        return file.size == len(ours) and file.read(0, file.size) == ours
    finally:
        file.close()
