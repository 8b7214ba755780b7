"""Refuse a destination that is a source, that holds files which do not belong to a dataset, or that does not fit."""

from __future__ import annotations

import contextlib
import fnmatch
import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokfmt import registry
from tokfmt.core.format import Confidence, Format, probe_of, unrelated_files
from tokfmt.errors import ConversionError, DetectionError, OptionError, OutageError
from tokfmt.files.file import everything_in, open_file
from tokfmt.files.place import LocalPlace, Place, PlaceLike, Url, place_of, writable_store
from tokfmt.files.replacing import Objection, resolve_link
from tokfmt.source.manifest import SCHEMA, digest_of_file, ledger_paths, manifest_path, read_manifest
from tokfmt.source.request import SourceFiles
from tokfmt.wording import counted, printable


def strangers_in(destination: Place) -> Objection:
    """Return a function that names the first file in a directory that does not belong to the dataset there.

    If the manifest beside the destination counts as many files and bytes as there are, all of them belong to the
    dataset. Otherwise, the files that the format lists belong to it; if the format lists none, no file does.
    """
    manifest = read_manifest(resolve_link(destination))  # read now, because a later check finds the dataset moved away
    written = (manifest.output.get("files"), manifest.output.get("bytes"))

    def objection(place: Place) -> str:
        contents = everything_in(place) if place.is_dir() else []
        if not contents or (written is not None and _extent(contents) == written):
            return ""
        format_ = _format_of(place, manifest.content.get("format"))
        return _strangers(contents if format_ is None else unrelated_files(format_, place), place)

    return objection


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """The format of a destination in a store: a `files.store_publisher.StoredKind`."""

    format: Format

    @property
    def name(self) -> str:
        """Name of the format."""
        return self.format.name

    @property
    def entries(self) -> Sequence[str]:
        return self.format.entries

    def is_entry(self, name: str) -> bool:
        """Return whether a file of this name is an entry of a dataset of any format."""
        return any(fnmatch.fnmatchcase(name, pattern) for one in registry.list_formats() for pattern in one.entries)

    def beside(self, url: Url) -> Sequence[Url]:
        """Return the addresses of the manifest and of the ledger of a dataset, which need not exist."""
        return manifest_path(url), *ledger_paths(url)

    def objects(self, url: Url, stated: str) -> Sequence[Url]:
        """Return the objects of the dataset at an address, as its manifest and its format, or `stated`, list them."""
        manifest, files = read_manifest(url), list[Place]()
        if url.is_there():
            with contextlib.suppress(OptionError):  # The plug-in that wrote it is not installed.
                format_ = registry.get(str(manifest.content.get("format") or stated or self.name))
                files = [*format_.files(url), *(one for one in format_.companions(url) if one.is_there())]
        keys = [str(one.get("key")) for one in manifest.objects]
        own = [key for key in keys if key == url.key or key.startswith((f"{url.key}/", f"{url.key}."))]
        urls = [file for file in files if isinstance(file, Url)]
        return list(dict.fromkeys([*urls, *(Url(url.scheme, url.authority, key) for key in own)]))

    def strangers(self, url: Url, stated: str) -> str:
        """Return the reason not to replace what is at an address: the first object that belongs to no dataset there."""
        if not url.is_dir():
            return ""
        manifest = read_manifest(url)
        format_ = _format_of(url, manifest.content.get("format") or stated or None)
        own = {str(one.get("key")) for one in manifest.objects}
        files = everything_in(url) if format_ is None else unrelated_files(format_, url)
        return _strangers([file for file in files if isinstance(file, Url) and file.key not in own], url)

    def measured(self, file: Path | Url) -> tuple[int, str]:
        """Return the size and the checksum of a file."""
        return digest_of_file(file)


def _strangers(files: Sequence[Place], place: Place) -> str:
    if not files:
        return ""
    more = f" and {len(files) - 1:,} more, which belong" if len(files) > 1 else ", which belongs"
    return f"it holds {printable(files[0].relative(place))}{more} to no dataset there"


def _extent(files: Iterable[Place]) -> tuple[int, int] | None:
    """Return the number of files and their bytes; None if one of them is not a regular file."""
    count = size = 0
    for file in files:
        status = os.lstat(file.text)
        if not stat.S_ISREG(status.st_mode):
            return None
        count, size = count + 1, size + status.st_size
    return count, size


def _format_of(directory: Place, stated: object) -> Format | None:
    """Return the format that the manifest or the content of a directory shows, not its names; else None."""
    try:
        if isinstance(stated, str):
            return registry.get(stated)
        format_ = registry.detect(directory)
    except (DetectionError, OptionError):
        return None
    return format_ if registry.candidates(probe_of(directory))[format_.name] > Confidence.PLAUSIBLE else None


def guard(destination: Place, paths: Iterable[PlaceLike], datasets: Iterable[SourceFiles] = ()) -> None:
    """Refuse a destination that is a source, is inside or around one, or whose manifest would replace one."""
    if isinstance(destination, Url):
        _guard_address(destination, (*(file for dataset in datasets for file in dataset.files), *paths))
        return
    real = os.path.realpath(resolve_link(destination).text)
    manifest, above, beneath = str(manifest_path(Path(real))), set(map(str, Path(real).parents)), os.path.join(real, "")
    sources = map(place_of, (*(file for dataset in datasets for file in dataset.files), *paths))
    files = [source for source in sources if isinstance(source, LocalPlace)]  # an address is not a destination
    ours = {status for path in (real, manifest) if (status := _identity(path)) is not None}
    parents = dict[str, str]()
    for absolute, source in {os.path.abspath(source): source for source in files}.items():
        path = _real(absolute, parents)
        if path in (real, manifest) or path in above or path.startswith(beneath):
            raise ConversionError(_is_source(destination, source))
        if ours and _identity(path) in ours:
            raise ConversionError(_is_source(destination, source))


def _guard_address(destination: Url, sources: Iterable[PlaceLike]) -> None:
    """Refuse an address that is a source, is below or above one, or whose manifest would replace one."""
    for source in map(place_of, sources):
        if not isinstance(source, Url):
            continue
        if source == destination:
            raise ConversionError(f"{printable(destination)}: is also a source. Choose another destination")
        if (
            destination.relative(source) is not None
            or source.relative(destination) is not None
            or source == manifest_path(destination)
        ):
            where = "is below" if destination.relative(source) is not None else "would replace a part of"
            raise ConversionError(
                f"{printable(destination)}: {where} {printable(source)}, which is a source. Choose another destination"
            )


def _real(path: str, parents: dict[str, str]) -> str:
    """Return `os.path.realpath(path)`, and resolve each directory only once, for sources of many files."""
    parent, name = os.path.split(path)
    if parent not in parents:
        parents[parent] = os.path.realpath(parent)
    real = os.path.join(parents[parent], name)
    return os.path.realpath(real) if os.path.islink(real) else real


def _is_source(destination: Place, source: Place) -> str:
    same = destination.real() == source.real()
    within = destination.real().relative(source.real()) is not None
    where = f"is inside {printable(source)}, " if within else f"would replace {printable(source)}, or a part of it, "
    which = "is also a source" if same else f"{where}which is a source"
    return f"{printable(destination)}: {which}. Choose another destination"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def refuse_foreign(destination: Place) -> None:
    """Refuse a destination if a file that tokfmt did not write has the name of its manifest or ledger."""
    place = resolve_link(destination)
    if isinstance(place, Url):
        writable_store(place)  # An address that cannot be written is refused by its own name.
    rows, about = ledger_paths(place)
    for path, part, words in (
        (manifest_path(place), "manifest", SCHEMA),
        (about, "ledger", "tokfmt.ledger/"),
        (rows, "ledger", "'record'"),
    ):
        beginning = _beginning_of_object(path) if isinstance(path, Url) else _beginning(path.text)
        if words not in (beginning or words):
            shown = path if destination.is_symlink() else destination.with_name(path.name)
            raise ConversionError(
                f"{printable(shown)}: has the name of the {part}, and is not one. Move it away, or choose another "
                "destination"
            )


def _beginning_of_object(path: Url) -> str:
    """Return the first 4 KiB of an object as text; "" without one."""
    if writable_store(path).identity(path.key) is None:
        return ""
    file = open_file(path, may_be_page=True)
    return file.read(0, min(file.size, 1 << 12)).decode("utf-8", "replace") or " "


def _beginning(path: str) -> str:
    """Return the first 4 KiB of a file as text. The result is " " for an empty file, and for anything that is not a
    readable regular file. It is "" if there is no file, or if its directory cannot be searched: writing there then
    fails with the reason.
    """
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return ""
    if not stat.S_ISREG(mode):
        return " "
    try:
        with open(path, "rb") as file:
            return file.read(1 << 12).decode("utf-8", "replace") or " "
    except FileNotFoundError:
        return ""
    except OSError:
        return " "


def remove_manifest_of_link(destination: Place) -> None:
    """If the destination is a link, remove an older manifest beside the link: the new one is beside its target."""
    place = manifest_path(destination.normalized())
    if destination.is_symlink() and SCHEMA in _beginning(place.text):
        with contextlib.suppress(OSError):
            os.unlink(place.text)


def replaced(destination: Place) -> str:
    """Describe the file, object or directory that a destination would replace; "" without one."""
    place = resolve_link(destination)
    if not place.is_there():
        return ""
    if not place.is_dir():
        description = f"{'a file' if place.is_local else 'an object'} of {_bytes_of(place):,} bytes"
    else:
        contents = everything_in(place)
        taken = f"{sum(map(_bytes_of, contents)):,} bytes"
        if place.is_local:
            description = f"a directory of {counted(len(contents), 'file')}, {taken}"
        else:
            description = f"{counted(len(contents), 'object')}, {taken}. Until the new ones are complete, there is none"
    description += f", at {printable(place)}" if place != destination.normalized() else ""
    return description + (", and its manifest" if manifest_path(place).is_there() else "")


def _bytes_of(place: Place) -> int:
    return os.lstat(place.text).st_size if place.is_local else place.status().size


def disk_of(place: Path) -> os.statvfs_result | None:
    """Return the state of the file system of a path, which need not exist; None if it is not reported."""
    for parent in (place, *place.absolute().parents):
        with contextlib.suppress(OSError):
            space = os.statvfs(parent)
            return space if space.f_blocks else None
    return None


def free_bytes(place: Path) -> int | None:
    """Return the free bytes on the file system of a path, which need not exist; None if they are not reported."""
    return None if (space := disk_of(place)) is None else space.f_bavail * space.f_frsize


def taken_bytes(place: Path) -> int:
    """Return the bytes that a file, or all files below a directory, take on disk; holes take none."""
    places = [place, *(Path(base, name) for base, _, names in os.walk(place) for name in names)]
    return sum(os.lstat(one).st_blocks * 512 for one in places if os.path.lexists(one))


def need_room(destination: Place, built: Path, minimum_bytes: int | None) -> None:
    """Refuse a destination that does not fit on its file system, where leftovers of its run count as free."""
    free = None if minimum_bytes is None else free_bytes(built)
    if minimum_bytes is None or free is None or minimum_bytes <= free:
        return
    if minimum_bytes > free + taken_bytes(built) and not destination.is_local:
        raise OutageError(
            f"{printable(destination)}: needs at least {sized(minimum_bytes)} in the spool {printable(built.parent)}, "
            f"which has {sized(free)} free. Name another directory with --spool DIR"
        )
    if minimum_bytes > free + taken_bytes(built):
        raise ConversionError(
            f"{printable(destination)}: does not fit on its file system (expected at least {sized(minimum_bytes)}, "
            f"found {sized(free)} free). Free some space, or name another DST"
        )


def sized(count: int) -> str:
    """Format a number of bytes with a decimal unit: `950 bytes`, `1.2 MB`, `10.0 TB`."""
    units = {10**15: "PB", 10**12: "TB", 10**9: "GB", 10**6: "MB", 10**3: "kB"}
    size = next((size for size in units if count >= size), 1)
    return f"{count / size:,.1f} {units[size]}" if size > 1 else f"{count:,} bytes"
