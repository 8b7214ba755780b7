"""The destination of a command: what stands there, whose it is, and that it is no source."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from tokfmt import registry
from tokfmt.core.errors import ConversionError, DetectionError, OptionError
from tokfmt.core.format import Confidence, Format, everything_in, look, unrelated_files
from tokfmt.core.output import Objection, resolve_link
from tokfmt.core.text_format import printable
from tokfmt.ops.source.manifest import SCHEMA, ledger_paths, manifest_path, read_manifest
from tokfmt.ops.source.request import SourceFiles


def strangers_in(destination: Path) -> Objection:
    """The objection to a directory that holds what is not of the dataset there; names the first.

    All is the dataset's if the manifest beside the destination counts as many files and bytes as there are; else what
    its format names (a plug-in may name nothing: then nothing is known to be).
    """
    told = read_manifest(resolve_link(destination))  # now: when the question is asked again, it was moved
    written = (told.output.get("files"), told.output.get("bytes"))

    def objection(path: Path) -> str:
        held = everything_in(path) if path.is_dir() else []
        if not held or (written is not None and _extent(held) == written):
            return ""
        format_ = _format_of(path, told.content.get("format"))
        found = held if format_ is None or not hasattr(format_, "files") else unrelated_files(format_, path)
        if not found:
            return ""
        more = f" and {len(found) - 1:,} more, which belong" if len(found) > 1 else ", which belongs"
        return f"it holds {printable(found[0].relative_to(path))}{more} to no dataset there"

    return objection


def _extent(files: Iterable[Path]) -> tuple[int, int] | None:
    """How many files these are, and their bytes; None if one is no regular file."""
    count = size = 0
    for file in files:
        status = os.lstat(file)
        if not stat.S_ISREG(status.st_mode):
            return None
        count, size = count + 1, size + status.st_size
    return count, size


def _format_of(directory: Path, told: object) -> Format | None:
    """The format of a directory by its manifest or by what is in it; that its names fit is not enough to remove it."""
    try:
        if isinstance(told, str):
            return registry.get(told)
        format_ = registry.detect(directory)
    except (DetectionError, OptionError):
        return None
    return format_ if registry.candidates(look(directory))[format_.name] > Confidence.PLAUSIBLE else None


def guard(destination: Path, paths: Iterable[str | os.PathLike[str]], found: Iterable[SourceFiles] = ()) -> None:
    """Refuse a destination that is a source, lies in one or around one, or whose manifest would replace one.

    Args:
        paths: Of the sources, as given.
        found: The same with every file of theirs, which are all guarded.

    Raises:
        ConversionError: Names what to do.
    """
    real = os.path.realpath(resolve_link(destination))
    manifest, above, beneath = str(manifest_path(Path(real))), set(map(str, Path(real).parents)), os.path.join(real, "")
    files = [file for one in found for file in one.files]
    ours = {status for path in (real, manifest) if (status := _identity(path)) is not None}
    parents = dict[str, str]()
    for place, given in {os.path.abspath(given): given for given in (*files, *paths)}.items():
        source = _real(place, parents)
        if source in (real, manifest) or source in above or source.startswith(beneath):
            raise ConversionError(_is_source(destination, given))
        if ours and _identity(source) in ours:
            raise ConversionError(_is_source(destination, given))


def _real(path: str, parents: dict[str, str]) -> str:
    """`os.path.realpath`, which resolves each directory once however many files lie in it."""
    parent, name = os.path.split(path)
    if parent not in parents:
        parents[parent] = os.path.realpath(parent)
    real = os.path.join(parents[parent], name)
    return os.path.realpath(real) if os.path.islink(real) else real


def _is_source(destination: Path, given: str | os.PathLike[str]) -> str:
    same = os.path.realpath(destination) == os.path.realpath(given)
    within = Path(os.path.realpath(destination)).is_relative_to(os.path.realpath(given))
    where = f"lies in {printable(given)}, " if within else f"would replace {printable(given)}, or a part of it, "
    which = "is also a source" if same else f"{where}which is a source"
    return f"{printable(destination)}: {which}. Choose another destination"


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def refuse_foreign(destination: Path) -> None:
    """Refuse a place for a manifest or a ledger where something else stands.

    Raises:
        ConversionError: It is none of tokfmt's.
    """
    place = resolve_link(destination)
    rows, about = ledger_paths(place)
    for path, what, words in (
        (manifest_path(place), "manifest", SCHEMA), (about, "ledger", "tokfmt.ledger/"), (rows, "ledger", "'record'"),
    ):  # fmt: skip
        if words not in (_beginning(path) or words):
            shown = path if os.path.islink(destination) else Path(destination).with_name(path.name)
            raise ConversionError(
                f"{printable(shown)}: stands where the {what} goes, and is none. Move it away, or choose another "
                "destination"
            )


def _beginning(path: Path) -> str:
    """What a small file begins with; " " of what is none, "" where nothing is: not any more, if others replace it.

    "" as well where nobody can look, and so nobody can write: whoever tries says why.
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


def remove_manifest_of_link(destination: Path) -> None:
    """Of a link, the manifest stands beside what it points at: an older one beside the link goes."""
    place = manifest_path(Path(os.path.abspath(destination)))
    if os.path.islink(destination) and SCHEMA in _beginning(place):
        with contextlib.suppress(OSError):
            place.unlink()


def replaced(destination: Path) -> str:
    """What stands at a destination and would be replaced, in words; "" when nothing does."""
    place = resolve_link(destination)
    if not os.path.lexists(place):
        return ""
    if not place.is_dir():
        what = f"a file of {os.lstat(place).st_size:,} bytes"
    else:
        held = everything_in(place)
        what = f"a directory of {len(held):,} file{'s' * (len(held) != 1)}, "
        what += f"{sum(os.lstat(path).st_size for path in held):,} bytes"
    what += f", at {printable(place)}" if place != Path(os.path.abspath(destination)) else ""
    return what + (", and its manifest" if manifest_path(place).exists() else "")
