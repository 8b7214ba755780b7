"""Publish destinations in stores: upload what was built, so that a dataset is readable only once it is complete.

1. The claim is read again. If an old dataset is replaced, its manifest and entries are deleted.
2. All data objects are uploaded.
3. They are compared with what the store states, and the claim is read again. The entries (`Format.entries`) are
   uploaded, each only if there is no such object.
4. The ledger follows, and last the manifest, which lists all objects.
5. Objects that only the old dataset had are deleted: those that its manifest or its format lists, never a prefix.

The claim goes at the end. These are steps of `files.publisher.publish_all`.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from xxhash import xxh3_64_hexdigest

from tokfmt import registry
from tokfmt.commands.convert.manifests import with_objects
from tokfmt.commands.convert.request import Request
from tokfmt.commands.destination import strangers_in_store
from tokfmt.commands.source.manifest import (
    Measured,
    combined,
    digest_of_file,
    ledger_paths,
    manifest_path,
    measured,
    read_manifest,
    written_files,
)
from tokfmt.core.format import Format
from tokfmt.errors import ConversionError, DestinationExistsError, OptionError, OutageError, TokfmtError
from tokfmt.files.claims import Claim, read_claim, refused
from tokfmt.files.file import everything_in, open_file, writing
from tokfmt.files.journal import NullJournal
from tokfmt.files.listing import Listing
from tokfmt.files.locks import make_private
from tokfmt.files.place import LocalPlace, Place, Url, writable_store
from tokfmt.files.publisher import REQUEST, Beside, Publisher
from tokfmt.files.spool import records_of, run_of_tasks, spool_of
from tokfmt.files.store import Identity, Kind
from tokfmt.run.plan import Sink
from tokfmt.run.progress import Progress
from tokfmt.wording import printable

KIND = "object"
"""Kind of the journal entries of uploaded objects."""
_SINCE = "sink"
"""Kind of the one journal entry that states that files are uploaded as they are complete."""
_UNSYNCED = 64 << 20  # Bytes of taken files that wait for their journal entries.
_ASKED = 8  # Objects of which each is asked; more are listed.
_MEANWHILE = "another writer has written it meanwhile"


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


class StorePublisher(Publisher):
    """Build a destination of a store in the spool, and upload it. Without `publish`, it leaves no object behind.

    Attributes:
        url: The destination.
        store: Its store.
        format: Its format.
        spool: The local directory in which it is built.
        claim: The claim of this run.
        continues: The claim in the store is of the run that this one continues.
        journal: Records what was uploaded, so that a later run does not repeat it.
        progress: Receives the bytes that are uploaded.
        files: The files of the dataset by name, the path below the directory that holds the dataset. A file that was
            uploaded when it was complete is not there any more.
        measured: The size and checksum of each, by name.
        uploaded: What was uploaded, by key.
        old: The objects of what is replaced, by key.
        begun: True once objects of the old dataset were deleted.
    """

    def __init__(
        self,
        url: Url,
        format_: Format,
        *,
        spool: Path | None = None,
        overwrite: bool = False,
        kept: str = "",
        shared: bool = False,
        companions: Sequence[Url] = (),
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Choose a hidden directory in the spool. Creates no file, and sends no request yet.

        Args:
            url: The destination.
            format_: The format that is written.
            spool: Directory of spools.
            overwrite: Allow the replacement of an existing dataset.
            kept: As for `Publisher`.
            shared: As for `Publisher`.
            companions: Other objects of the dataset at the same level.
            note: Receives notes.

        Raises:
            OptionError: If the address cannot be written.
        """
        self.url, self.store, self.spool = url, writable_store(url), spool_of(url, spool)
        self.format, self._beside, self._note, self.continues = format_, tuple(companions), note, False
        self.claim = Claim(self.store, url, os.urandom(8).hex(), format_.name)
        self.journal: NullJournal = NullJournal()
        self.progress: Progress = Progress()
        self.files: dict[str, Path] = {}
        self.measured: dict[str, Measured] = {}
        self.uploaded: dict[str, Uploaded] = {}
        self.old: dict[str, Url] = {}
        self.begun = False
        super().__init__(self.spool / url.name, overwrite=overwrite, kept=kept, shared=shared, given=url)

    def _make_home(self) -> None:
        with writing(self.spool):
            make_private(self.spool, taken_over=True)  # Another run removes it if it is empty.
        super()._make_home()

    def __enter__(self) -> Publisher:
        super().__enter__()
        try:
            if self._kept == "resume":
                self._note_run()
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
        """Raise an error for a destination that another run writes, or that must not be replaced.

        Raises:
            ConversionError: If another run writes it, or strangers are in it.
            DestinationExistsError: If it exists, and `overwrite` is False.
        """
        self._recall_run()
        found = read_claim(self.store, self.url)
        self.continues = found is not None and found.run == self.claim.run
        if self.continues:
            return
        if found is not None and not self.overwrite:
            raise refused(self.url, found)
        try:
            self._check_dataset(found.format if found else "")
        except ConversionError:  # What is there may be of another task, which has begun since the claim was read.
            found = read_claim(self.store, self.url) if self.of_tasks else None
            self.continues = found is not None and found.run == self.claim.run
            if not self.continues:
                raise

    @property
    def of_tasks(self) -> bool:
        """Whether tasks write the destination, and --finish publishes it."""
        return self._kept == "tasks"

    def _check_dataset(self, stated: str) -> None:
        with Listing() as listing:
            for place in (named.asking(listing) for named in (self.url, *self._beside)):
                if not place.is_there():
                    continue
                why = strangers_in_store(place, stated) if place == self.url else ""
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

    # The steps of `publish_all`.

    def prepare(self, beside: Beside) -> Beside:
        """Remove what makes the old dataset readable, and upload the data."""
        self.claim.check()
        self.recall()
        self._find_old()
        self._remove_readable()
        self.progress.phase("uploading", sum(one.size for one in self.measured.values()), "bytes")
        self._upload_data()
        self.journal.sync()
        return beside

    def appear(self, beside: Beside) -> None:  # noqa: ARG002
        """Compare the data with what the store states, and upload the entries, from which on it is readable."""
        self.claim.check()
        self.compare()
        for name in self.entries():
            self._put(name, self.files[name], self.measured[name].digest)
            self.progress.advance(self.measured[name].size)

    def accompany(self, drafts: Beside, *, companions: bool) -> None:
        """Upload the files beside the dataset, the manifest last. The dataset is then complete."""
        if companions:
            return
        for name, content in drafts.items():
            self._put(name, content() if callable(content) else content)
        self._published = True

    def withdraw(self) -> None:
        """Record that the dataset is not complete. `_leave` then deletes what was uploaded."""
        self._published = False

    def settle(self) -> None:
        """Delete the objects that only the old dataset had."""
        rest = [key for key in self.old if key not in self.uploaded]
        if rest:
            self.store.delete(rest)

    def listed(self, manifest: bytes) -> Callable[[], bytes]:
        """Return a function that returns the manifest with the objects of the dataset, once they are uploaded."""

        def complete() -> bytes:
            keys = sorted(self.address(name).key for name in self.files)
            found = [(key, self.uploaded[key]) for key in keys]
            rows = [{"key": key, "bytes": one.size, "etag": one.tag, "xxh3_128": one.digest} for key, one in found]
            return with_objects(manifest, rows)

        return complete

    @property
    def published(self) -> bool:
        """True once the dataset in the store is complete."""
        return self._published

    def address(self, name: str) -> Url:
        """Return the address of a file of the dataset, or beside it, by its path below the directory of the dataset."""
        return self.url.parent / name

    def name_of(self, file: Path) -> str:
        """Return the name of a file that was built."""
        return file.relative_to(self.path.parent).as_posix()

    def measure(self, jobs: int) -> None:
        """Compute the checksums of all files that are not uploaded, and take over those of the others."""
        built = self.path
        for key, one in self.uploaded.items():
            name = self._name_of_key(key)
            self.files[name] = self.path.parent / name
            below = name.removeprefix(f"{built.name}/") if built.is_dir() else name
            self.measured[name] = Measured(below, one.size, one.digest)
        inside = built.is_dir()  # All files in it appear, as those of a local destination do.
        found = everything_in(built) if inside else written_files(self.format, built)
        files = [file for file in found if isinstance(file, LocalPlace) and file.is_file()]
        files = [file for file in files if self.name_of(file) not in self.files]
        for file, one_file in zip(_sorted(built, files), measured(built, files, jobs), strict=True):
            name = f"{built.name}/{one_file.name}" if inside else one_file.name
            self.files[name], self.measured[name] = file, one_file

    def summary(self) -> dict[str, Any]:
        """Return the size, number and checksum of the dataset, as a manifest states them."""
        found = sorted(self.measured.values())
        return combined(found, single=len(found) == 1 and not self.path.is_dir())

    def is_entry(self, name: str) -> bool:
        """Return whether the dataset is not readable without a file."""
        return any(fnmatch.fnmatchcase(_last(name), pattern) for pattern in self.format.entries)

    def data(self) -> list[str]:
        """Return the names of all other files, in order."""
        return [name for name in self.files if not self.is_entry(name)]

    def entries(self) -> list[str]:
        """Return the names of the entries, in the order in which they appear."""
        order = {
            name: next(k for k, one in enumerate(self.format.entries) if fnmatch.fnmatchcase(_last(name), one))
            for name in self.files
            if self.is_entry(name)
        }
        return sorted(order, key=lambda name: (order[name], name))

    def recall(self) -> None:
        """Take over the objects that an earlier run has uploaded, if they are still as it left them.

        Raises:
            ConversionError: If one has changed whose file is not in the spool any more.
        """
        stated = {key: Uploaded(*facts) for key, *facts in self.journal.done(KIND).values()}
        if not stated:
            return
        there = self.stated(list(stated))
        digests = {self.address(name).key: one.digest for name, one in self.measured.items()}
        for key, one in stated.items():
            if there.get(key) == one.identity and digests.get(key) in (None, one.digest):
                self.uploaded[key] = one
            elif digests.get(key) is None and self.has_early_uploads and not self._has(key, one):
                again = "Run once with --overwrite and without --resume"
                if self.of_tasks:
                    again = f"Delete {printable(records_of(self.url))}, and run all tasks again"
                raise ConversionError(
                    f"{printable(self.url)}: an object that an earlier run uploaded has changed or is gone "
                    f"({printable(key)}), and its file is not kept. {again}"
                )

    def _has(self, key: str, one: Uploaded) -> bool:
        """Return whether the spool still has the file of an uploaded object."""
        file = self.path.parent / self._name_of_key(key)
        return file.is_file() and digest_of_file(file) == (one.size, one.digest)

    def _name_of_key(self, key: str) -> str:
        above = self.url.parent.key
        return key.removeprefix(f"{above}/") if above else key

    def refuse_verify(self) -> None:
        """Refuse to read back a destination whose files are not in the spool any more.

        Raises:
            ConversionError: If an earlier run, or a task, has uploaded files before all were complete.
        """
        if self.has_early_uploads:
            raise ConversionError(
                f"{printable(self.url)}: its files were uploaded as they were complete, so --verify cannot "
                "read them back. Leave it out, and compare with tokfmt diff"
            )

    @property
    def has_early_uploads(self) -> bool:
        """Whether an earlier run, or a task, has uploaded files before all were complete."""
        return bool(self.journal.done(_SINCE))

    def note(self, key: str) -> None:
        """Record an uploaded object."""
        number = int(xxh3_64_hexdigest(key.encode())[:12], 16)  # The same in the journals of all tasks.
        self.journal.add(KIND, number, [key, *self.uploaded[key]])

    def stated(self, keys: Sequence[str]) -> dict[str, Identity]:
        """Return what the store states of objects of the dataset, by key. One that does not exist is left out."""
        found = dict[str, Identity]()
        below = [key for key in keys if key.startswith(f"{self.url.key}/")]
        if len(below) > _ASKED:
            found |= self._listed()
        for key in keys:
            if (key not in below or len(below) <= _ASKED) and (one := self.store.identity(key)) is not None:
                found[key] = one
        return {key: found[key] for key in keys if key in found}

    def compare(self) -> None:
        """Compare the objects in the store with what was uploaded.

        Raises:
            ConversionError: If another writer has changed one.
        """
        uploaded = self.uploaded
        there = self.stated(list(uploaded))
        for key, one in uploaded.items():
            if there.get(key) != one.identity:
                what = "deleted" if key not in there else "changed"
                place = printable(f"{self.url.scheme}://{self.url.authority}/{key}")
                raise ConversionError(
                    f"{place}: another writer has {what} it since it was uploaded, so the dataset is not published. "
                    "Run again when no other writer is there"
                )

    def _find_old(self) -> None:
        """Find the objects of the dataset that is replaced, and of a killed run whose claim was replaced."""
        url, claimed = self.url, self.claim.replaced
        if self.overwrite:
            manifest = read_manifest(url)
            stated = manifest.content.get("format") or (claimed.format if claimed else None) or self.format.name
            for file in _files_of(url, stated):
                self.old[file.key] = file
            for one in manifest.objects:
                key = str(one.get("key"))
                if key == url.key or key.startswith((f"{url.key}/", f"{url.key}.")):
                    self.old[key] = Url(url.scheme, url.authority, key)
        for place in (manifest_path(url), *ledger_paths(url)):
            if self.store.identity(place.key) is not None:
                self.old[place.key] = place

    def _remove_readable(self) -> None:
        """Delete the manifest, the ledger and the entries of what is replaced, so that no reader sees parts of both."""
        beside = {place.key for place in (manifest_path(self.url), *ledger_paths(self.url))}
        kept = self.uploaded
        gone = [key for key, file in self.old.items() if key in beside or _is_entry_of_any(file.name)]
        gone = [key for key in gone if key not in kept]
        self.begun = any(key not in beside for key in gone)
        for some in ([key for key in gone if key in beside], [key for key in gone if key not in beside]):
            if some:
                self.store.delete(some)
        for key in gone:
            del self.old[key]

    def _upload_data(self) -> None:
        """Upload the data objects that are not in the store yet."""
        names = self.data()
        keys = {self.address(name).key: name for name in names}
        left = {key: name for key, name in keys.items() if key not in self.uploaded}
        self.progress.advance(sum(self.measured[name].size for key, name in keys.items() if key not in left))
        if len(names) == 1 and left and not self.old:  # The data are the dataset: no other run may have written it.
            (name,) = names
            self._put(name, self.files[name], self.measured[name].digest)
            self.progress.advance(self.measured[name].size)
            return

        def done(key: str, identity: Identity) -> None:
            self.uploaded[key] = Uploaded(*identity, self.measured[left[key]].digest)
            self.note(key)
            self.progress.advance(identity.size)

        self.store.upload([(key, self.files[name]) for key, name in left.items()], done)

    def _put(self, name: str, content: bytes | Path | None, digest: str = "") -> None:
        """Upload one object if none is there, or keep that of the run that is continued; nothing if there is none.

        Raises:
            DestinationExistsError: If another writer has written an object of that name meanwhile.
            OutageError: If it cannot be written.
        """
        place = self.address(name)
        if content is None or place.key in self.uploaded:
            return
        if_absent = place.key not in self.old
        conditional = if_absent and self.claim.taken
        if if_absent and not conditional and self.store.identity(place.key) is not None:
            raise DestinationExistsError(place, _MEANWHILE)

        def written(found: Identity) -> None:
            self.uploaded[place.key] = Uploaded(*found, digest)
            self.note(place.key)

        try:
            self.store.put(place.key, content, if_absent=conditional, done=written)
        except FileExistsError as error:
            if not self._was_put(place, content):
                raise DestinationExistsError(place, _MEANWHILE) from error
            there = self.store.identity(place.key)
            if there is not None:
                written(there)

    def _was_put(self, place: Url, content: bytes | Path) -> bool:
        """Return whether a run that this one continues was killed after it had written an object."""
        if not self.continues:
            return False
        ours = content if isinstance(content, bytes) else content.read_bytes()
        file = open_file(place, may_be_page=True)
        try:
            return file.size == len(ours) and file.read(0, file.size) == ours
        finally:
            file.close()

    def _listed(self) -> dict[str, Identity]:
        """Return the identity of all objects of the destination that is a directory, by key."""
        found, left = dict[str, Identity](), [self.url.key]
        while left:
            above = left.pop()
            with contextlib.suppress(FileNotFoundError):
                for entry in list(self.store.entries(above)):
                    if entry.kind is Kind.DIRECTORY:
                        left.append(f"{above}/{entry.name}")
                    elif entry.identity is not None:
                        found[f"{above}/{entry.name}"] = entry.identity
        return found

    def _leave(self) -> None:
        if self._published or not (self.keep and self.uploaded):
            self._clean_up()
        super()._leave()
        with contextlib.suppress(OSError):
            self.spool.rmdir()

    def _clean_up(self) -> None:
        """Delete the claim, and before it the objects of a run that fails, if they are still ours."""
        try:
            if not self._published:
                keys = [key for key, one in self.uploaded.items() if self.store.identity(key) == one.identity]
                # A run that has taken over and still writes notices what is deleted. One that has published does not.
                if keys and (self.claim.is_ours() or read_claim(self.store, self.url) is not None):
                    self.store.delete(keys)
                    keys = []
                if not keys:
                    self.uploaded.clear()
            if self._published or not self.of_tasks:
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
            of = f" of {len(self.files):,}" if self.files else ""
            error.add_note(
                f"{printable(self.url)} is absent; {len(self.uploaded):,}{of} objects are uploaded. A killed upload of "
                "a large object may leave parts, which a lifecycle rule of the bucket removes"
            )


class Uploads:
    """Upload files as soon as they are complete, and remove them from the spool: the `Sink` of a store."""

    def __init__(self, output: StorePublisher) -> None:
        """Go on where an earlier run stopped.

        Args:
            output: The destination.

        Raises:
            ConversionError: If what it uploaded has changed.
        """
        self._output = output
        self._waiting, self._bytes = list[Path](), 0
        output.recall()

    def take(self, files: Sequence[Path]) -> None:
        """Upload complete files, whose checksums are computed before.

        Raises:
            ConversionError: If another run has taken over the destination.
            OutageError: If one cannot be uploaded.
        """
        one = self._output
        one.claim.check()
        one.journal.add(_SINCE, 0, True)
        digests = {one.address(one.name_of(file)).key: digest_of_file(file) for file in files}

        def done(key: str, identity: Identity) -> None:
            one.uploaded[key] = Uploaded(*identity, digests[key][1])
            one.note(key)

        keys = ((one.address(one.name_of(file)).key, file) for file in files)
        left = [
            (key, file)
            for key, file in keys
            if key not in one.uploaded or digests[key] != (one.uploaded[key].size, one.uploaded[key].digest)
        ]
        one.store.upload(left, done)

    def drop(self, files: Sequence[Path]) -> None:
        """Remove files, once the journal has recorded that they are uploaded."""
        self._waiting += files
        self._bytes += sum(file.stat().st_size for file in files if file.exists())
        if self._output.journal.keeps and self._bytes < _UNSYNCED:
            return
        self._output.journal.sync()
        for file in self._waiting:
            file.unlink(missing_ok=True)
        self._waiting, self._bytes = [], 0


def sinks_of(publishers: Mapping[Place, Publisher], request: Request) -> dict[Place, Sink]:
    """Return the sinks of the destinations whose files may be uploaded before all are complete.

    That is not done if the files are read back (--verify), or if an old dataset is readable until they are complete.
    """
    found = dict[Place, Sink]()
    for path, one in publishers.items():
        if not isinstance(one, StorePublisher):
            continue
        if request.verify and request.task is None:
            one.refuse_verify()
        elif _is_early(request, one):
            found[path] = Uploads(one)
    return found


def _is_early(request: Request, one: StorePublisher) -> bool:
    """Return whether files may be uploaded before all are complete."""
    if request.task is not None or not request.overwrite:
        return not request.overwrite
    if request.finish:
        return one.has_early_uploads
    return one.continues or not one.url.is_there()


def _files_of(url: Url, stated: object) -> list[Url]:
    """Return the objects of a dataset, as its format lists them; none if it does not exist."""
    if not url.is_there() or not isinstance(stated, str):
        return []
    try:
        format_ = registry.get(stated)
    except OptionError:  # The plug-in that wrote it is not installed.
        return []
    found: list[Place] = [*format_.files(url), *(one for one in format_.companions(url) if one.is_there())]
    return [file for file in dict.fromkeys(found) if isinstance(file, Url)]


def _is_entry_of_any(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for one in registry.list_formats() for pattern in one.entries)


def _sorted(built: Path, files: Sequence[Path]) -> list[Path]:
    """Return files in the order of `measured`."""
    base = built if built.is_dir() and files != [built] else built.parent
    return sorted(files, key=lambda file: (file.relative_to(base).as_posix(), file.parts))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
