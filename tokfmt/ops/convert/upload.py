"""Publish destinations in stores: upload what was built, so that a dataset is readable only once it is complete.

1. The claims are read again. If old datasets are replaced, their manifests and entries are deleted.
2. All data objects are uploaded, and compared with what the store then states.
3. The claims are read again. The entries (`Format.entries`) are uploaded, each only if there is no such object.
4. The ledger follows, and last the manifest, which lists all objects.
5. Objects that only the old dataset had are deleted: those that its manifest or its format lists, never a prefix.

The claims go at the end. Several destinations of one run take each step together.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from xxhash import xxh3_64_hexdigest

from tokfmt import registry
from tokfmt.core import listing
from tokfmt.core.errors import ConversionError, OptionError
from tokfmt.core.format import Format, everything_in
from tokfmt.core.place import Identity, Kind, Place, Url
from tokfmt.core.publisher import Beside
from tokfmt.core.spool import StoreStaging, Uploaded
from tokfmt.core.text_format import printable
from tokfmt.ops.convert.tasks_in_stores import records_of
from tokfmt.ops.source.manifest import (
    Measured,
    combined,
    digest_of_file,
    ledger_paths,
    manifest_path,
    measured,
    read_manifest,
    written_files,
)
from tokfmt.run.execute import Progress
from tokfmt.run.plan import NullJournal

KIND = "object"
"""Kind of the journal entries of uploaded objects."""
_SINCE = "sink"
"""Kind of the one journal entry that states that files are uploaded as they are complete."""
_UNSYNCED = 64 << 20  # Bytes of taken files that wait for their journal entries.
_ASKED = 8  # Objects of which each is asked; more are listed.


@dataclass(slots=True)
class Output:
    """A destination in a store that was built in the spool.

    Attributes:
        staging: Where it was built, and what was uploaded.
        format: Its format.
        journal: Records what was uploaded, so that a later run does not repeat it.
        files: The files of the dataset by name, the path below the directory that holds the dataset. A file that was
            uploaded when it was complete is not there any more.
        measured: The size and checksum of each, by name.
        old: The objects of what is replaced, by key.
    """

    staging: StoreStaging
    format: Format
    journal: NullJournal
    files: dict[str, Path] = field(default_factory=dict)
    measured: dict[str, Measured] = field(default_factory=dict)
    old: dict[str, Url] = field(default_factory=dict)

    @property
    def url(self) -> Url:
        """The destination."""
        return self.staging.url

    def name_of(self, file: Path) -> str:
        """Return the name of a file that was built."""
        return file.relative_to(self.staging.path.parent).as_posix()

    def measure(self, jobs: int) -> None:
        """Compute the checksums of all files that are not uploaded, and take over those of the others."""
        built, uploaded = self.staging.path, self.staging.uploaded
        for key, one in uploaded.items():
            name = self._name_of_key(key)
            self.files[name] = self.staging.path.parent / name
            below = name.removeprefix(f"{built.name}/") if built.is_dir() else name
            self.measured[name] = Measured(below, one.size, one.digest)
        inside = built.is_dir()  # All files in it appear, as those of a local destination do.
        found = everything_in(built) if inside else written_files(self.format, built)
        files = [file for file in found if isinstance(file, Path) and file.is_file()]
        files = [file for file in files if self.name_of(file) not in self.files]
        for file, one_file in zip(_sorted(built, files), measured(built, files, jobs), strict=True):
            name = f"{built.name}/{one_file.name}" if inside else one_file.name
            self.files[name], self.measured[name] = file, one_file

    def summary(self) -> dict[str, Any]:
        """Return the size, number and checksum of the dataset, as a manifest states them."""
        found = sorted(self.measured.values())
        return combined(found, single=len(found) == 1 and not self.staging.path.is_dir())

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

    def begin(self) -> None:
        """Read the claim again, and remove what makes the old dataset readable."""
        self.staging.claim.check()
        self.staging.total = len(self.files)
        self.recall()
        self._find_old()
        self._remove_readable()

    def recall(self) -> None:
        """Take over the objects that an earlier run has uploaded, if they are still as it left them.

        Raises:
            ConversionError: If one has changed whose file is not in the spool any more.
        """
        stated = {key: Uploaded(*facts) for key, *facts in self.journal.done(KIND).values()}
        if not stated:
            return
        there = self.stated(list(stated))
        digests = {self.staging.address(name).key: one.digest for name, one in self.measured.items()}
        for key, one in stated.items():
            if there.get(key) == one.identity and digests.get(key) in (None, one.digest):
                self.staging.uploaded[key] = one
            elif digests.get(key) is None and self.has_early_uploads and not self._has(key, one):
                again = "Run once with --overwrite and without --resume"
                if self.staging.of_tasks:
                    again = f"Delete {printable(records_of(self.url))}, and run all tasks again"
                raise ConversionError(
                    f"{printable(self.url)}: an object that an earlier run uploaded has changed or is gone "
                    f"({printable(key)}), and its file is not kept. {again}"
                )

    def _has(self, key: str, one: Uploaded) -> bool:
        """Return whether the spool still has the file of an uploaded object."""
        file = self.staging.path.parent / self._name_of_key(key)
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
        self.journal.add(KIND, number, [key, *self.staging.uploaded[key]])

    def stated(self, keys: Sequence[str]) -> dict[str, Identity]:
        """Return what the store states of objects of the dataset, by key. One that does not exist is left out."""
        store, found = self.staging.store, dict[str, Identity]()
        below = [key for key in keys if key.startswith(f"{self.url.key}/")]
        if len(below) > _ASKED:
            found |= _listed(self.staging, self.url.key)
        for key in keys:
            if (key not in below or len(below) <= _ASKED) and (one := store.identity(key)) is not None:
                found[key] = one
        return {key: found[key] for key in keys if key in found}

    def compare(self) -> None:
        """Compare the objects in the store with what was uploaded.

        Raises:
            ConversionError: If another writer has changed one.
        """
        uploaded = self.staging.uploaded
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
        url, claimed = self.url, self.staging.claim.replaced
        if self.staging.overwrite:
            manifest = read_manifest(url)
            stated = manifest.content.get("format") or (claimed.format if claimed else None) or self.format.name
            for file in _files_of(url, stated):
                self.old[file.key] = file
            for one in manifest.objects:
                key = str(one.get("key"))
                if key == url.key or key.startswith((f"{url.key}/", f"{url.key}.")):
                    self.old[key] = Url(url.scheme, url.authority, key)
        for place in (manifest_path(url), *ledger_paths(url)):
            if self.staging.store.identity(place.key) is not None:
                self.old[place.key] = place

    def _remove_readable(self) -> None:
        """Delete the manifest, the ledger and the entries of what is replaced, so that no reader sees parts of both."""
        beside = {place.key for place in (manifest_path(self.url), *ledger_paths(self.url))}
        kept = self.staging.uploaded
        gone = [key for key, file in self.old.items() if key in beside or _is_entry_of_any(file.name)]
        gone = [key for key in gone if key not in kept]
        self.staging.begun = any(key not in beside for key in gone)
        for some in ([key for key in gone if key in beside], [key for key in gone if key not in beside]):
            if some:
                self.staging.store.delete(some)
        for key in gone:
            del self.old[key]

    def remove_rest(self) -> None:
        """Delete the objects that only the old dataset had."""
        rest = [key for key in self.old if key not in self.staging.uploaded]
        if rest:
            self.staging.store.delete(rest)


class Uploads:
    """Upload files as soon as they are complete, and remove them from the spool: the `Sink` of a store."""

    def __init__(self, output: Output) -> None:
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
        one, staging = self._output, self._output.staging
        staging.claim.check()
        one.journal.add(_SINCE, 0, True)
        digests = {staging.address(one.name_of(file)).key: digest_of_file(file) for file in files}

        def done(key: str, identity: Identity) -> None:
            staging.uploaded[key] = Uploaded(*identity, digests[key][1])
            one.note(key)

        keys = ((staging.address(one.name_of(file)).key, file) for file in files)
        left = [
            (key, file)
            for key, file in keys
            if key not in staging.uploaded or digests[key] != (staging.uploaded[key].size, staging.uploaded[key].digest)
        ]
        staging.store.upload(left, done)

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


def publish_in_stores(
    outputs: Sequence[Output],
    beside: Callable[[Output], Beside],
    manifest: Callable[[Output], bytes | None],
    progress: Progress,
) -> None:
    """Upload destinations, so that all of them are complete, or none is.

    Args:
        outputs: The destinations, with the checksums of their files.
        beside: Returns the small files beside a destination, by name; None for one that must not exist.
        manifest: Returns the manifest of a destination, whose objects are uploaded; None without a manifest.
        progress: Receives the bytes that are uploaded.

    Raises:
        ConversionError: If another run has taken over the claim, or another writer has written an object.
        OutageError: If the store cannot be written. What was uploaded is deleted, or kept for the next run.
    """
    for one in outputs:
        one.begin()
    sizes = sum(found.size for one in outputs for found in one.measured.values())
    progress.phase("uploading", sizes, "bytes")
    for one in outputs:
        _upload_data(one, progress)
    for one in outputs:
        one.journal.sync()
        one.staging.claim.check()
        one.compare()
    for output, name in [(one, name) for one in outputs for name in one.entries()]:
        _put(output, name, output.files[name], output.measured[name].digest)
        progress.advance(output.measured[name].size)
    for one in outputs:
        for name, content in beside(one).items():
            _put(one, name, content)
    for one in outputs:
        _put(one, manifest_path(one.url).name, manifest(one))
    for one in outputs:
        one.staging.complete()
    for one in outputs:
        one.remove_rest()


def objects_of(one: Output) -> list[dict[str, Any]]:
    """Return the objects of a dataset for its manifest, sorted by key."""
    uploaded = one.staging.uploaded
    return [
        {"key": key, "bytes": uploaded[key].size, "etag": uploaded[key].tag, "xxh3_128": uploaded[key].digest}
        for key in sorted(one.staging.address(name).key for name in one.files)
    ]


def _upload_data(one: Output, progress: Progress) -> None:
    """Upload the data objects that are not in the store yet."""
    staging, names = one.staging, one.data()
    left = {staging.address(name).key: name for name in names if staging.address(name).key not in staging.uploaded}
    progress.advance(sum(one.measured[name].size for name in names if staging.address(name).key not in left))
    if len(names) == 1 and left and not one.old:  # The data are the dataset: no other run may have written it.
        (name,) = names
        _put(one, name, one.files[name], one.measured[name].digest)
        progress.advance(one.measured[name].size)
        return

    def done(key: str, identity: Identity) -> None:
        staging.uploaded[key] = Uploaded(*identity, one.measured[left[key]].digest)
        one.note(key)
        progress.advance(identity.size)

    staging.store.upload([(key, one.files[name]) for key, name in left.items()], done)


def _put(one: Output, name: str, content: bytes | Path | None, digest: str = "") -> None:
    """Upload one object if none is there, or keep that of the run that is continued; nothing if `content` is None."""
    key = one.staging.address(name).key
    if content is None or key in one.staging.uploaded:
        return
    one.staging.put(name, content, digest=digest, if_absent=key not in one.old, done=partial(one.note, key))


def _files_of(url: Url, stated: object) -> list[Url]:
    """Return the objects of a dataset, as its format lists them; none if it does not exist."""
    if not listing.is_there(url) or not isinstance(stated, str):
        return []
    try:
        format_ = registry.get(stated)
    except OptionError:  # The plug-in that wrote it is not installed.
        return []
    found: list[Place] = [*format_.files(url), *(one for one in format_.companions(url) if listing.is_there(one))]
    return [file for file in dict.fromkeys(found) if isinstance(file, Url)]


def _is_entry_of_any(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for one in registry.list_formats() for pattern in one.entries)


def _listed(staging: StoreStaging, key: str) -> dict[str, Identity]:
    """Return the identity of all objects below a key."""
    found, left = dict[str, Identity](), [key]
    while left:
        above = left.pop()
        try:
            entries = list(staging.store.entries(above))
        except FileNotFoundError:
            continue
        for entry in entries:
            if entry.kind is Kind.DIRECTORY:
                left.append(f"{above}/{entry.name}")
            elif entry.identity is not None:
                found[f"{above}/{entry.name}"] = entry.identity
    return found


def _sorted(built: Path, files: Sequence[Path]) -> list[Path]:
    """Return files in the order of `measured`."""
    base = built if built.is_dir() and files != [built] else built.parent
    return sorted(files, key=lambda file: (file.relative_to(base).as_posix(), file.parts))


def _last(name: str) -> str:
    return name.rpartition("/")[2]
