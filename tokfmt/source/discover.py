"""Find the datasets that a request names: their formats, their files, and other files in their directories."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from tokfmt import registry
from tokfmt.core.format import Format, unrelated_files
from tokfmt.errors import DetectionError, FormatError, SourceChangedError, TokfmtError, UnknownFormatError
from tokfmt.files.file import File, names_in, natural_key, reading_error
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place, PlaceLike, identities_now, place_of
from tokfmt.files.side_by_side import side_by_side
from tokfmt.files.splits import chosen_split, hidden_for, refuse_several, splits_of, stated_split
from tokfmt.files.store import Identity, Kind
from tokfmt.source.content import Manifest
from tokfmt.source.manifest import announce_manifest, read_manifest, with_members
from tokfmt.source.request import Found, SourceFiles, SourceRequest, expanded
from tokfmt.wording import printable

_HARMLESS = r"""(?xi)
    \..*                                            # hidden: .git, .gitattributes, .DS_Store
    | .*\.tokfmt\.json | .*\.ledger(\.json)?       # manifests and ledgers
    | .*\.tokfmt-(writing|tasks)                   # claims, and the work of tasks, of destinations in stores
    | .*\.idx                                      # indexes
    | data_params\.json | args\.json | _SUCCESS | .*\.crc        # files that upstream's writers leave beside their data
    | _metadata | _common_metadata | _delta_log    # what tables of Parquet files have beside them
    | cache-[0-9a-f]+\.arrow | packed_metadata.*\.json
    | .*\.(tmp|incomplete)                         # downloads that were not finished
    | index-cache | \w+Dataset_indices               # what Megatron-LM keeps of a training run beside its data
    | .*_(doc|sample|shuffle)_idx\.npy | [0-9a-f]{32}(_(sample_)?index\.npy|\.dsc)
    | [0-9a-f]{32}-\w+Dataset-.*(-description\.txt|_index\.npy)
    | meta\.pkl | prepare\.py                       # nanoGPT's vocabulary, which is never loaded, and its script
    | tokenizer | dataset_statistics\.(json|txt)    # open-instruct's
    | .*\.md | (readme|licen[cs]e|notice|copying|changelog|citation)(\..*)?
    | (md5|sha\d*|xxh\w*|b2|check)sums?(\.\w+)? | .*\.(md5|sha1|sha256|sha512|xxh\w*)
    """
"""Names of files that by convention hold no data, so that tokfmt skips them in a directory."""


def format_of(path: PlaceLike, name: str | None = None) -> Format:
    """Return the format with a name, or that of a dataset; see `identified`."""
    if name:
        return registry.get(name)
    format_, files, _ = identified(registry.of_prefix(place_of(path)))
    for file in files.values():
        file.close()
    return format_


def identified(place: Place) -> tuple[Format, dict[Place, File], Manifest | None]:
    """Return the format that the content shows, else that of the manifest.

    The files that were looked at for it are still open, and are returned. So is the manifest, if it was read for it.

    The manifest helps with files of raw token IDs, whose content shows no format. If they were cut since, opening them
    reports that.
    """
    if not place.is_local:
        announce_manifest(place)
    try:
        return *registry.detected(place), None
    except DetectionError:
        manifest = read_manifest(place)
        stated = manifest.content.get("format")
        if stated not in registry.names() or not manifest.output or not place.is_there():
            raise
        return registry.get(stated), {}, manifest


def find_sources(
    request: SourceRequest, earlier: Found | None = None, listing: Listing | None = None
) -> list[SourceFiles]:
    """Find the datasets that a request names by paths, by patterns, and with `recursive` below directories."""
    earlier, name, opened, datasets = earlier or {}, request.format, 0, list[SourceFiles]()
    try:
        with listing or Listing() as asked:
            for dataset in side_by_side(
                lambda path: earlier.get((path, name, request.split)) or dataset_at(path, request),
                dataset_paths(request, asked),
            ):
                opened += len(dataset.opened)
                if opened > _OPENED:
                    dataset.close()
                datasets.append(dataset)
            datasets = without_named(datasets) if request.recursive else datasets
    except UnknownFormatError as error:
        if request.eos is None:
            raise
        raise UnknownFormatError(error.path, error.why, error.remedy.replace(" --eos ID", "")) from error
    return datasets


def without_named(datasets: Sequence[SourceFiles]) -> list[SourceFiles]:
    """Return the datasets below a directory without those that a list or a recipe among them names."""
    by = [
        frozenset() if dataset.path.is_dir() else frozenset(dataset.format.named(dataset.path)) for dataset in datasets
    ]
    every = frozenset[Place]().union(*by)
    return [one for one, own in zip(datasets, by, strict=True) if every.isdisjoint({one.path, *one.files} - own)]


_OPENED = 64  # files that stay open between detection and opening; others are opened again, if they did not change


def dataset_paths(request: SourceRequest, listing: Listing | None = None, *, every_split: bool = False) -> list[Place]:
    """Return the paths of the datasets that a request names, with `every_split` also several below one."""
    datasets: list[Place] = []
    for path in expanded(request.paths, listing):
        below = request.recursive and path.is_dir()
        places = [place for place, _ in _candidates(path, request.format)] if below else [path]
        if not places:
            raise FormatError(path, "holds no dataset, nor does a directory below it")
        splits = splits_of(path, [place for place in places if place != path]) if below and not every_split else {}
        if len(splits) > 1:
            if request.split is None:
                refuse_several(path, splits)
            places = list(splits[chosen_split(path, splits, request.split)])
        datasets += places
    return datasets


def holds_others(directory: Place, format_: Format) -> bool:
    """Return whether a directory that is a dataset has others: a few subdirectories and files that it leaves out are
    looked at.
    """
    try:
        kinds = directory.entries()
    except OSError as error:
        raise reading_error(directory, error) from error
    below = [name for name, kind in kinds.items() if kind is Kind.DIRECTORY and not re.fullmatch(_HARMLESS, name)]
    beside = [
        file for file in unrelated_files(format_, directory) if file.parent == directory and _counts(file, directory)
    ]
    named = [*(directory / name for name in sorted(below, key=natural_key)[:_LOOKED_INTO]), *beside[:_LOOKED_INTO]]
    for entry in named:
        with contextlib.suppress(DetectionError, FormatError):
            if format_of(entry).name != format_.name:
                return True
    return False


_TOKENIZER = "tokenizer.json"
_OF_TOKENIZER = {
    *(_TOKENIZER, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt"),
}
"""Files of the directory of a tokenizer, which are not datasets beside its tokenizer.json."""

_LOOKED_INTO = 3  # subdirectories, because each takes some requests to a store


class Skipped(NamedTuple):
    """A file that is not a dataset."""

    path: Place
    error: UnknownFormatError | None = None  # with the option that reads it, if it looks like data


def datasets_below(directory: Place, name: str | None) -> Iterator[tuple[Place, Format | TokfmtError] | Skipped]:
    """Yield the datasets of a directory and of those below it, with their formats, as they are found.

    A directory that is a dataset of some of its files may have others, which are datasets of their own. The files of a
    tokenizer are not. A dataset may have an error in place of its format; other files are `Skipped`.
    """
    seen, last = set[Place](), directory
    for path, format_ in _candidates(directory, name, mixed=True):
        if format_ is not None:
            members = {format_.canonical(file) for file in format_.files(path) if format_.companions(file)}
            several = len(members) > 1 and path.is_dir()  # Pairs of files are datasets of their own.
            yield from (
                (member, format_) for member in sorted(members, key=lambda one: natural_key(str(one))) if several
            )
            if not several:
                yield path, format_
            continue
        if path.parent != last:
            seen, last = set(), path.parent
        if path.name in _OF_TOKENIZER and _TOKENIZER in names_in(path.parent):
            yield Skipped(path)
            continue
        try:
            detected = format_of(path, name)
            main = detected.canonical(registry.of_prefix(path))  # files beside it, such as an index, stand for it too
            if main not in seen:
                seen.add(main)
                yield main, detected
        except UnknownFormatError as error:
            yield Skipped(path, error if re.search("--from (?!NAME|text)", error.remedy) else None)
        except (DetectionError, FormatError) as error:
            yield path, error


def _candidates(directory: Place, name: str | None, *, mixed: bool = False) -> Iterator[tuple[Place, Format | None]]:
    """Yield a directory and its format if it is a dataset, else (or `mixed`) its files, then those below."""
    try:
        format_: Format | None = format_of(directory, name)
    except DetectionError:
        format_ = None
    files = () if format_ is None else format_.files(directory)
    own = {parent for file in files for parent in (file, *file.parents)}
    if format_ is not None and not files:
        yield directory, format_  # opening it reports why it has none
        return
    if directory in own:
        yield directory, format_
    for entry in sorted((directory / name for name in names_in(directory)), key=lambda entry: natural_key(entry.name)):
        if entry in own or re.fullmatch(_HARMLESS, entry.name):
            continue
        if entry.is_dir() and not entry.is_symlink():
            yield from _candidates(entry, name, mixed=mixed)
        elif mixed or directory not in own:
            yield entry, None  # opening the file reports an error if it is not a dataset


def dataset_at(
    path: Place, request: SourceRequest, format_: Format | None = None, *, every_split: bool = False
) -> SourceFiles:
    """Return the files of the dataset at a path, its manifest, and a description of other files in its directory. The
    format is the one that the request names, or that is detected, unless it is known already. With `every_split` and
    without a split in the request, all splits that names of files state are read as one.
    """
    opened, manifest = dict[Place, File](), None
    if format_ is None and request.format:
        format_ = registry.get(request.format)
    path = registry.of_prefix(path)
    if format_ is None:
        format_, opened, manifest = identified(path)
    path = format_.canonical(path)
    manifest = read_manifest(path) if manifest is None else manifest
    files = tuple(format_.files(path))
    found = SourceFiles(path, format_, files, opened=opened, manifest=manifest)
    if path.is_dir() and not format_.has_splits:
        found = _of_one_split(found, request.split, every_split=every_split)
    if request.recursive and not found.split and request.split == stated_split(path.parts):
        found = found._replace(split=request.split or "")  # It was chosen from those below a directory.
    path = found.path
    found = found._replace(manifest=with_members(found))
    if request.allow_partial:  # An index may name files that are lost. The reader says so.
        files = tuple(file for file in files if file.is_there())
        found = found._replace(files=files)
    if not path.is_dir() or not files:
        return found
    behind = {file.real() for file in files if file.is_symlink()}
    others = [entry for entry in unrelated_files(format_, path) if _counts(entry, path)]
    if behind:
        others = [entry for entry in others if entry.real() not in behind]
    if request.recursive:  # the directories below are read as datasets of their own
        here = (entry for entry in others if entry.parent == path)
        others = [entry for entry in here if entry.is_symlink() or not entry.is_dir()]
    if not others:
        return found
    first = printable("/".join(_names(others[0], path)))
    many = f"{len(others):,} other files, such as {first}" if len(others) > 1 else f"another file, {first}"
    own = {_below(file, path) for file in files if file != path and file.relative(path) is not None}
    has_below = any(_below(entry, path) not in {"", *own} for entry in others)
    return found._replace(left_out=many, below=has_below)


def _of_one_split(found: SourceFiles, wanted: str | None, *, every_split: bool) -> SourceFiles:
    """Return a dataset limited to one split, or with `every_split`, if names of its files state several."""
    path, format_ = found.path, found.format
    splits = splits_of(path, found.files, titled=format_.names_are_titles)
    if not splits or (len(splits) == 1 and wanted is None):
        return found
    hidden = set[Place]() if len(splits) == 1 else hidden_for(path, splits, chosen_split(path, splits, None))
    if hidden and not hidden.isdisjoint(format_.files(path.hiding(hidden))):
        return found  # An index names the files, so that they are one dataset.
    if every_split and wanted is None:
        return found._replace(other_splits=tuple(splits))
    chosen = chosen_split(path, splits, wanted)
    view = path.hiding(hidden_for(path, splits, chosen))
    return found._replace(path=view, split=chosen, other_splits=tuple(name for name in splits if name != chosen))


def _below(entry: Place, directory: Place) -> str:
    """Return the name of the subdirectory of `directory` that holds an entry; "" if `directory` itself holds it."""
    return _names(entry, directory)[0] if entry.parent != directory else ""


def _names(entry: Place, directory: Place) -> Sequence[str]:
    """Return the names in the path of an entry relative to a directory."""
    return entry.parts[len(directory.parts) :]


def _counts(entry: Place, directory: Place) -> bool:
    """Return True if an entry in a directory of data may hold data: not a harmless name, not a directory."""
    if any(re.fullmatch(_HARMLESS, part) for part in _names(entry, directory)):
        return False
    if entry.is_symlink():  # a link to something inside the directory adds no data
        return entry.real().relative(directory.real()) is None
    return not entry.is_dir()


_NOT_SEEN = Identity(-1, "")


def snapshot(datasets: Iterable[SourceFiles]) -> dict[Place, Identity]:
    """Return the identity of every file of the sources, by path. Of a file that is open, it is that of its opening."""
    seen = dict[Place, Identity]()
    files = list[Place]()
    for dataset in datasets:
        for file in dataset.files:
            seen[file] = dataset.opened[file].identity if file in dataset.opened else _NOT_SEEN
            files += [] if file in dataset.opened else [file]
    identities = identities_now(files)
    for file in files:
        try:
            seen[file] = next(identities)
        except OSError as error:
            raise reading_error(file, error) from error
    return seen


def check_unchanged(before: Mapping[Place, Identity], datasets: Iterable[SourceFiles]) -> None:
    """Raise SourceChangedError if a file of the sources was changed, removed or added since the snapshot."""
    try:
        with Listing() as listing:  # A store lists the files of a dataset once.
            now = snapshot(
                # A file that is lost is one of the dataset's only if it was there before.
                dataset._replace(
                    files=tuple(
                        file
                        for file in dataset.format.files(dataset.path.hiding(()).asking(listing))
                        if file in before or file.is_there()
                    ),
                    opened={},
                )
                for dataset in datasets
            )
    except FormatError as error:
        raise SourceChangedError(error.path, "disappeared while it was being read") from error
    for file in sorted(before.keys() | now.keys(), key=lambda place: place.parts):
        if before.get(file) != now.get(file):
            raise SourceChangedError.while_read(file)
