"""Datasets, opened as far as a screen needs them, and what is known of their files without reading them.

A dataset grows while it is read, so that its first screen takes constant time. `opened` opens

- for formats with samples, the stored samples;
- for packs and stores, the tokens in rows of fixed length, without the index;
- for records, the first of them;
- for a small dataset, all documents.

`Opening.grown` opens all documents (from the index, or by a scan for separators) or all records.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tokfmt import registry
from tokfmt.browser.data.rows import RecordSource, View, Viewport
from tokfmt.core.format import Format, Hints
from tokfmt.core.loss_mask import counted_of, padding_of
from tokfmt.core.losses import READS
from tokfmt.core.reader import Layout, Separators, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.errors import CorruptError, FormatError, SourceChangedError, TokfmtError, TruncatedError, UnsupportedError
from tokfmt.files.file import File
from tokfmt.files.place import Place, place_of
from tokfmt.files.store import Identity
from tokfmt.files.store import Kind as KindOfPlace
from tokfmt.model.select import Rows
from tokfmt.registry import of_prefix
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest
from tokfmt.source.discover import identified
from tokfmt.source.manifest import found_as_written, manifest_of, own_manifest
from tokfmt.source.open import find_one, open_dataset
from tokfmt.source.request import Reading, SourceFiles, SourceRequest, read_options, viewed
from tokfmt.source.stored import Separator, Source

if TYPE_CHECKING:
    from tokfmt.mix import Documents, Samples
    from tokfmt.runs.reader import RunReader
    from tokfmt.text.tokenizer import TokenizerHandle

SMALL = 4 << 20
"""Limit of bytes, and of tokens, of a dataset that is opened completely before the first screen."""

UNKNOWN = "rows"
"""Name of the rows of fixed length, while the documents are unknown."""

FIXED = 2048
"""Tokens in each of these rows."""

AT_ONCE = 1 << 30
"""Limit of tokens for a scan for documents that starts without the key `v`."""

_ENTRIES = 256
_FIRST = 256  # records that are shown before all are counted


class Opening(NamedTuple):
    """A dataset as far as it is opened."""

    request: SourceRequest  # the paths, and how to read them
    format: Format | None  # the format; None if it is unknown, for a dataset that cannot be opened
    views: tuple[View, ...]  # the ways to divide it into rows, best first
    separator: Separator = Separator(None)  # the separator and its source
    notes: tuple[str, ...] = ()  # notes for the user
    pending: str = ""  # what `grown` adds: "documents", "index", "records"; "" if it adds nothing
    starts: bool = True  # it grows without a key
    damage: str = ""  # the error that prevents growing, so that only tokens are shown; "" without one
    manifest: Manifest = Manifest({})  # its manifest, or what is known of those of its files or its folder

    def grown(
        self,
        tokenizer: TokenizerHandle | None = None,
        progress: Progress | None = None,
        dataset: SourceFiles | None = None,
    ) -> Opening:
        """Open all documents or records, however long it takes, and keep the samples."""
        name = self.format.name if self.format else self.request.format
        whole = _whole(replace(_readable(self.request), format=name), dataset, tokenizer, progress)
        fresh = {view.name for view in whole.views}
        kept = tuple(view for view in self.views if view.name == "samples" and view.name not in fresh)
        notes = tuple(dict.fromkeys((*whole.notes, *self.notes)))
        rows = whole.views[0].port.count
        first = tuple(view for view in kept if view.has_prompts or _is_packed(view, rows, whole.separator.eos_id))
        last = tuple(view for view in kept if view not in first)
        views = first + whole.views + last
        manifest = whole.manifest if whole.manifest.content else self.manifest  # now with those of files in a folder
        return whole._replace(request=self.request, views=views, notes=notes, manifest=manifest)

    def to_count(self, tokenizer: TokenizerHandle | None, *, as_stored: bool) -> Source:
        """Open the dataset once more, for a pass over all of it, whose end must not close the readers of the screen."""
        request, format_, separator = self.request, self.format, self.separator
        if self.damage and format_ is not None:
            shown = _glimpse(request, SourceFiles(place_of(request.paths[0]), format_, ()))
            if shown is not None:
                return Source((place_of(request.paths[0]),), format_, shown.views[0].reader, separator, self.notes)
        wanted = replace(request.accepting(READS["browse"] | {"invalid-lines"}), ignore_manifest=True)
        if as_stored and format_ is not None:
            wanted = viewed(replace(wanted, allow_loss=wanted.allow_loss | {"tail"}), format_, "samples")
        elif request.eos is None:
            wanted = replace(wanted, eos=separator.eos_id)
        files = None if format_ is None else [SourceFiles(place_of(request.paths[0]), format_, ())]
        source = open_dataset(wanted, Reading(tokenizer, as_stored=True), files)
        if as_stored or separator.eos_id is None:
            return source
        return source._replace(separator=separator)  # that of the tokenizer may be another one


def opened(request: SourceRequest) -> Opening:
    """Open what a dataset can show at once; `Opening.grown` returns all of it."""
    small, wanted = is_small(place_of(request.paths[0])), _readable(request)
    dataset = find_one(wanted)[0] if small else _unlisted(wanted)
    try:
        first = _first(wanted, dataset, small=small)._replace(request=request, manifest=manifest_of(dataset))
        if small and not first.damage and first.pending and _tokens(first) <= SMALL:
            try:
                first = first.grown(dataset=dataset)
            except TokfmtError as error:
                first = first._replace(notes=(*first.notes, str(error)), pending="")
        return first
    finally:
        dataset.close()


def _readable(request: SourceRequest) -> SourceRequest:
    """Return a request that reads what can be shown, although a manifest contradicts it."""
    return replace(request.accepting(READS["browse"]), ignore_manifest=True)


def _unlisted(request: SourceRequest) -> SourceFiles:
    """Return the dataset of a request without a list of its files, which may take long."""
    path, opened, manifest = of_prefix(place_of(request.paths[0])), dict[Place, File](), None
    if request.format:
        format_ = registry.get(request.format)
    else:
        format_, opened, manifest = identified(path)
    path = format_.canonical(path)
    dataset = SourceFiles(path, format_, (), opened=opened, manifest=manifest)
    return dataset._replace(manifest=own_manifest(dataset))


def _first(request: SourceRequest, dataset: SourceFiles, *, small: bool) -> Opening:
    """Open the stored samples, the tokens without the index, or the documents or records."""
    rows = viewed(request, dataset.format, "samples")
    first = _samples(rows, dataset) if rows is not request else None if small else _glimpse(request, dataset)
    if first is not None:
        return first
    try:
        return _whole(request, dataset) if small else _at_once(request, dataset)
    except (TruncatedError, CorruptError) as error:
        if (shown := _glimpse(request, dataset)) is None:
            raise
        return shown._replace(notes=(str(error),), pending="", damage=str(error))


def _tokens(opening: Opening) -> int:
    reader = opening.views[0].reader
    return reader.info.size if isinstance(reader, RecordReader) else reader.info.tokens


def _stored(request: SourceRequest, dataset: SourceFiles) -> Source:
    """Open the dataset as it is stored."""
    wanted = replace(request, allow_loss=request.allow_loss | {"tail"})
    return open_dataset(wanted, Reading(as_stored=True, keeps_files=True), [dataset])


def _samples(request: SourceRequest, dataset: SourceFiles) -> Opening | None:
    """Open the stored samples; None if the format has no samples."""
    try:
        source = _stored(request, dataset)
    except UnsupportedError:
        return None
    reader = source.reader
    if isinstance(reader, RecordReader):
        return None
    view = View("samples", Viewport(reader), as_stored=True, has_prompts=_has_prompts(reader))
    starts = reader.info.tokens <= AT_ONCE
    return Opening(request, dataset.format, (view,), source.separator, source.notes, "documents", starts)


_LOOKED = 16  # samples whose labels are looked at
_LOOKED_TOKENS = 1 << 16


def _has_prompts(reader: TokenReader) -> bool:
    """Return whether in most of the first samples two labels or more do not count, before padding."""
    count = min(_LOOKED, reader.info.sequences)
    try:
        bounds = reader.offsets(0, count).tolist()
        start, stop = bounds[0], bounds[-1]
        if not count or stop - start > _LOOKED_TOKENS or not reader.has_labels:
            return False
        counts, padding = counted_of(reader, start, stop), padding_of(reader, start, stop)
    except TokfmtError:
        return False  # the row that cannot be read shows the error
    if counts is None:
        return False
    unused = ~counts if padding is None else ~(counts | padding)
    return sum(int(unused[a - start : b - start].sum() > 1) for a, b in pairwise(bounds)) * 2 > count


def _is_packed(view: View, rows: int, separator: int | None) -> bool:
    """Return whether the rows of a file are all its documents, have one length, and hold a separator inside. Reads."""
    reader, count = view.reader, min(_LOOKED, view.port.count)
    if separator is None or isinstance(reader, RecordReader) or not count or rows != view.port.count:
        return False
    try:
        bounds = reader.offsets(0, count)
        length = int(bounds[1] - bounds[0])
        count = min(count, _LOOKED_TOKENS // max(1, length))
        if length < _LEAST_PACKED or not count or (np.diff(bounds) != length).any():
            return False
        ids = reader.tokens(int(bounds[0]), int(bounds[count])).reshape(count, length)
    except TokfmtError:
        return False  # the row that cannot be read shows the error
    inside = (ids[:, 1:-1] == separator) & (ids[:, 2:] != separator)
    return 2 * int(inside.any(axis=1).sum()) > count


_LEAST_PACKED = 3  # tokens of a row that has one inside


def _glimpse(request: SourceRequest, dataset: SourceFiles) -> Opening | None:
    """Open the tokens in rows of fixed length, without the index; None if the format does not support it."""
    asked, _ = found_as_written(dataset, request)
    hints = Hints(allow_loss=request.allow_loss | {"tail"})
    reader = dataset.format.glimpse([dataset.path], read_options(dataset.format, asked), hints)
    return None if reader is None else Opening(request, dataset.format, (_fixed(reader),), pending="index")


def _fixed(reader: TokenReader) -> View:
    return View(UNKNOWN, Viewport(Rows(reader, FIXED)))


def _at_once(request: SourceRequest, dataset: SourceFiles) -> Opening:
    """Open the first records of a large dataset, all if they are counted, or its tokens in rows of fixed length."""
    source = _stored(request, dataset)
    format_, reader, notes = dataset.format, source.reader, source.notes
    if isinstance(reader, RecordReader):
        count = reader.info.records
        if count is not None:
            return Opening(request, format_, (View("records", RecordSource(reader, count)),), notes=notes)
        first = _first_records(reader)
        view = View("records", RecordSource(reader, len(first), first=first))
        return Opening(request, format_, (view,), notes=notes, pending="records")
    info = reader.info
    if info.separators is not Separators.BETWEEN:
        return _whole(request, dataset)
    return Opening(request, format_, (_fixed(reader),), source.separator, notes, "documents", info.tokens <= AT_ONCE)


def _first_records(reader: RecordReader) -> list[str | list[int]]:
    """Return the first records without counting all; [] if one of them is damaged."""
    try:
        for block in reader.blocks(1 << 62)[:1]:
            for batch in reader.texts(block) if reader.info.kind == "text" else reader.ids(block):
                found: list[str | list[int]] = [*batch.texts] if batch.ragged is None else [*batch.ragged.tolist()]
                return found[:_FIRST]
    except TokfmtError:
        pass
    return []


def _whole(
    request: SourceRequest,
    dataset: SourceFiles | None,
    tokenizer: TokenizerHandle | None = None,
    progress: Progress | None = None,
) -> Opening:
    """Open all documents or records. If the dataset is not given, it is found, with all of its files."""
    reading = Reading(tokenizer, progress=progress, keeps_files=True)
    source = open_dataset(request, reading, None if dataset is None else [dataset])
    reader, format_ = source.reader, source.format
    if isinstance(reader, RecordReader):
        view = View("records", RecordSource(reader, reader.count()))
    else:
        again = partial(_opened_again, request, tokenizer) if reader.presumes else None
        view = View("documents" if reader.info.layout is not Layout.SAMPLES else "samples", Viewport(reader, again))
    return Opening(request, format_, (view,), source.separator, source.notes, manifest=source.manifests[0])


def _opened_again(request: SourceRequest, tokenizer: TokenizerHandle | None) -> TokenReader:
    reader = open_dataset(replace(request, every_end=True), Reading(tokenizer)).reader
    if isinstance(reader, RecordReader):  # another dataset by now
        raise SourceChangedError.while_read(place_of(request.paths[0]))
    return reader


# files


class Stamp(NamedTuple):
    """A state of a dataset on this machine, which differs after most changes."""

    size: int  # bytes of the file, or of the first 256 files with a prefix or in the directory
    modified: int  # time of the last change, in nanoseconds since 1970
    is_whole: bool  # the dataset has no further files, so that `size` is its size


def stamp_of(path: Place, format_: Format | None = None) -> Stamp | None:
    """Return the state of a dataset, or of all files with its prefix; None in a store, or if it is not there."""
    if not path.is_local:
        return None
    try:
        files: Sequence[Place] = [path]
        if format_ is not None and format_.prefix and not os.path.isdir(path.text):
            files = format_.files(of_prefix(path)) or files
        found = [os.stat(file.text) for file in islice(files, _ENTRIES)]
        if stat.S_ISDIR(found[0].st_mode):
            with os.scandir(path.text) as entries:
                found += [entry.stat() for entry in islice(entries, _ENTRIES)]
            is_whole = len(found) <= _ENTRIES and not any(stat.S_ISDIR(entry.st_mode) for entry in found[1:])
        else:
            is_whole = len(found) < _ENTRIES
    except (OSError, FormatError):
        return None
    size = sum(entry.st_size for entry in found if stat.S_ISREG(entry.st_mode))
    return Stamp(size, max(entry.st_mtime_ns for entry in found), is_whole)


def identity_of(path: Place) -> tuple[Identity | None, bool]:
    """Return the identity of a path, and whether it is a file.

    The identity of a directory ignores its times, which files that are not data change.
    """
    try:
        status = path.status_now()
        if status.kind is not KindOfPlace.DIRECTORY:
            return status.identity, True
        return Identity(0, str(os.stat(path.text).st_ino) if path.is_local else ""), False
    except (OSError, FormatError):
        return None, True


def is_small(path: Place) -> bool:
    """Return whether all files of a path have at most `SMALL` bytes; listing stops at 256 entries."""
    total, seen, places = 0, 0, [path]
    try:
        found = path.status()
        if found.kind is not KindOfPlace.DIRECTORY:
            return found.size <= SMALL
        while places:
            for place, size in _sizes_in(places.pop()):
                seen += 1
                if size is None:
                    places.append(place)
                total += size or 0
                if total > SMALL or seen > _ENTRIES:
                    return False
    except (OSError, FormatError):
        return False
    return True


def _sizes_in(directory: Place) -> Iterator[tuple[Place, int | None]]:
    """Yield each entry of a directory with its size in bytes; None for a directory."""
    for entry in directory.entries_now():
        place = directory / entry.name
        identity = entry.identity
        if identity is None and entry.kind is not KindOfPlace.DIRECTORY:
            identity = place.status().identity
        yield place, None if identity is None else identity.size


def recipe_of(reader: object) -> Samples | Documents | None:
    """Return the recipe that a reader computes; None for another dataset, which needs no module of recipes."""
    if not type(reader).__module__.startswith("tokfmt.mix."):
        return None
    from tokfmt.mix import Documents, Samples

    return reader if isinstance(reader, (Samples, Documents)) else None


def run_of(reader: object) -> RunReader | None:
    """Return the reader of a training run of another framework; None for another dataset."""
    if not type(reader).__module__.startswith("tokfmt.runs."):
        return None
    from tokfmt.runs.reader import RunReader

    return reader if isinstance(reader, RunReader) else None


def samples_of(reader: object) -> Samples | None:
    """Return the recipe of samples that a reader computes; None for another dataset."""
    if recipe_of(reader) is None:
        return None
    from tokfmt.mix import Samples

    return reader if isinstance(reader, Samples) else None
