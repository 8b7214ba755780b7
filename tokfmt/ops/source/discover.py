"""Find the datasets that a request names: the format and the files of each, and what else their directories hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from tokfmt import registry
from tokfmt.core import listing
from tokfmt.core.errors import DetectionError, FormatError, SourceChangedError, UnknownFormatError
from tokfmt.core.files import names_in, natural_key, reading_error
from tokfmt.core.format import Format, unrelated_files
from tokfmt.core.place import Identity, path_of, real
from tokfmt.core.text_format import printable
from tokfmt.ops.source.manifest import describes, read_manifest
from tokfmt.ops.source.request import Found, Path_, SourceFiles, SourceRequest, expanded

_HARMLESS = r"""(?xi)
    \..*                                            # hidden: .git, .gitattributes, .DS_Store
    | .*\.tokfmt\.json | .*\.ledger(\.json)?       # manifests and ledgers
    | .*\.idx                                      # indexes
    | data_params\.json | _SUCCESS | .*\.crc        # what upstream's writers leave beside their data
    | cache-[0-9a-f]+\.arrow | packed_metadata.*\.json
    | .*\.(tmp|incomplete)                         # downloads that were not finished
    | meta\.pkl | prepare\.py                       # nanoGPT's vocabulary, which is never loaded, and its script
    | tokenizer | dataset_statistics\.(json|txt)    # open-instruct's
    | .*\.md | (readme|licen[cs]e|notice|copying|changelog|citation)(\..*)?
    | (md5|sha\d*|xxh\w*|b2|check)sums?(\.\w+)? | .*\.(md5|sha1|sha256|sha512|xxh\w*)
    """
"""Names in a directory of data that by convention hold none: nobody misses them in what is read."""


def format_of(path: Path_, name: str | None = None) -> Format:
    """The format of that name; else what the content of a path shows; else what the manifest beside it says.

    A manifest is believed of files of the number and size that it states: raw ids with a separator of one's own look
    like nothing, in a file of any name.

    Raises:
        DetectionError, FormatError, OptionError.
    """
    if name:
        return registry.get(name)
    place = registry.of_prefix(path_of(path))
    try:
        return registry.detect(place)
    except DetectionError:
        manifest = read_manifest(place)
        told = manifest.content.get("format")
        if told not in registry.names() or not describes(manifest, registry.get(told), place):
            raise
        return registry.get(told)


@listing.kept()
def find_sources(request: SourceRequest, known: Found | None = None) -> list[SourceFiles]:
    """The datasets that a request names: patterns and, with `recursive`, directories below directories resolved.

    Raises:
        FormatError: A path cannot be read.
        DetectionError, OptionError.
    """
    known, name, paths = known or {}, request.format, dataset_paths(request)
    try:
        return [known.get((path, name)) or found_at(path, format_of(path, name), request) for path in paths]
    except UnknownFormatError as error:
        if request.eos is None:
            raise
        raise UnknownFormatError(error.path, error.why, error.remedy.without("eos").marked) from error


def dataset_paths(request: SourceRequest) -> list[Path]:
    """Where the datasets are that a request names.

    Raises:
        FormatError: A pattern matches nothing, or a directory that is to be searched holds no dataset.
        OptionError: A path that is none.
    """
    found: list[Path] = []
    for path in map(path_of, expanded(request.paths)):
        places = _datasets_below(path, request.format) if request.recursive and listing.is_dir(path) else [path]
        if not places:
            raise FormatError(path, "holds no dataset, nor does a directory below it")
        found += places
    return found


def _datasets_below(directory: Path, name: str | None) -> list[Path]:
    """A directory that is a dataset, then those below it; of one that is none, its files that are."""
    try:
        format_: Format | None = format_of(directory, name)
    except DetectionError:
        format_ = None
    files = () if format_ is None else format_.files(directory)
    own = {parent for file in files for parent in (file, *file.parents)}
    found = [directory] if directory in own else []
    for entry in sorted(map(directory.joinpath, names_in(directory)), key=lambda entry: natural_key(entry.name)):
        if entry in own or re.fullmatch(_HARMLESS, entry.name):
            continue
        if listing.is_dir(entry) and not listing.is_link(entry):
            found += _datasets_below(entry, name)
        elif directory not in own:
            found.append(entry)  # what it is, or that it is nothing, is said when it is opened
    return found


def found_at(path: Path, format_: Format, request: SourceRequest) -> SourceFiles:
    """The files of one dataset.

    Raises:
        FormatError: Its directory cannot be listed.
    """
    path = format_.canonical(registry.of_prefix(path))
    files = tuple(format_.files(path))
    if not listing.is_dir(path) or not files:
        return SourceFiles(path, format_, files)
    behind = {real(file) for file in files if listing.is_link(file)}
    others = [entry for entry in unrelated_files(format_, path) if _counts(entry, path)]
    if behind:
        others = [entry for entry in others if real(entry) not in behind]
    if request.recursive:  # what lies below is read as well
        here = (entry for entry in others if entry.parent == path)
        others = [entry for entry in here if listing.is_link(entry) or not listing.is_dir(entry)]
    if not others:
        return SourceFiles(path, format_, files)
    first = printable(others[0].relative_to(path))
    many = f"{len(others):,} other files, such as {first}" if len(others) > 1 else f"another file, {first}"
    own = {_below(file, path) for file in files if file.is_relative_to(path) and file != path}
    return SourceFiles(path, format_, files, many, any(_below(entry, path) not in {"", *own} for entry in others))


def _below(entry: Path, directory: Path) -> str:
    """The directory within another in which something lies; "" for that itself."""
    return entry.relative_to(directory).parts[0] if entry.parent != directory else ""


def _counts(entry: Path, directory: Path) -> bool:
    """Whether something in a directory of data could be missed: not by its name, nor a directory that holds nothing."""
    named = entry.relative_to(directory).parts
    if any(re.fullmatch(_HARMLESS, part) for part in named):
        return False
    if listing.is_link(entry):  # of what lies within the dataset itself
        return not real(entry).is_relative_to(real(directory))
    return not listing.is_dir(entry)


def snapshot(found: Iterable[SourceFiles]) -> dict[Path, Identity]:
    """The identity of every file of the sources.

    Raises:
        FormatError: A file cannot be looked at.
    """
    seen = {}
    for one in found:
        for file in one.files:
            try:
                seen[file] = listing.status_now(file).identity
            except OSError as error:
                raise reading_error(file, error) from error
    return seen


def check_unchanged(before: Mapping[Path, Identity], found: Iterable[SourceFiles]) -> None:
    """Raise SourceChangedError if a file of the sources changed, went or came since the snapshot."""
    try:
        now = snapshot(one._replace(files=tuple(one.format.files(one.path))) for one in found)
    except FormatError as error:
        raise SourceChangedError(error.path, "disappeared while it was being read") from error
    for file in sorted(before.keys() | now.keys()):
        if before.get(file) != now.get(file):
            raise SourceChangedError(file, "changed while it was being read", remedy="Run again when it is still")
