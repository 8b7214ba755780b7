"""Open datasets of any format, recipes among them: `open_dataset` opens one, `open_datasets` several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Any, TypeVar

import numpy as np

from tokfmt.base.options import watched
from tokfmt.core.format import Hints
from tokfmt.core.reader import Damage, Info, Separators, TokenReader, windows
from tokfmt.core.records import RecordInfo, RecordReader, has_records
from tokfmt.errors import (
    NO_DAMAGE,
    CorruptError,
    FormatError,
    OptionError,
    SeparatorUnknownError,
    TokfmtError,
    UnendedError,
)
from tokfmt.files.file import files_at_hand, refuse_stand_in
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place, place_of
from tokfmt.files.shard_names import missing_numbers, names_by_directory, notes_on_shards, refuse_incomplete
from tokfmt.files.splits import notes_on_splits
from tokfmt.model.dataset import Dataset
from tokfmt.model.gap import Gap
from tokfmt.model.readers import ContentReader, dataset_of, from_reader, is_divided
from tokfmt.model.separator import separator_beside
from tokfmt.source.content import Manifest
from tokfmt.source.discover import find_sources
from tokfmt.source.manifest import (
    IGNORED,
    FolderManifests,
    as_written,
    contradiction,
    describes,
    manifests_beside,
    members_of,
    own_manifest,
    shrunk,
)
from tokfmt.source.partial import before_gap, closed, partial_of, readable
from tokfmt.source.request import CONTENTS, Reading, SourceFiles, SourceRequest, expanded, option_names, read_options
from tokfmt.source.stored import (
    GIVEN,
    Separator,
    Source,
    contents_of,
    decided,
    known_separator,
    notes_on_tokenizers,
    unread_splits,
    without_leads,
)
from tokfmt.wording import printable

T = TypeVar("T")


_LITTLE = 1 << 22  # a stream of at most so many tokens is always scanned to its end
_TRIED = 16  # sequences that are read to find if any is readable


def presuming(run: Callable[..., T], note: Callable[[str], None]) -> T:
    """Return the result of a command that presumes that sequences end alike, or of the same without a presumption.

    Every command that reads whole datasets runs in this function, so that its result never depends on which sequences
    were looked at. `run` is called with the keyword `every_end`. `note` receives the reason why it runs again.
    """
    try:
        return run(every_end=False)
    except UnendedError as error:
        note(f"{error.sentence}; it begins again, and looks at the end of every sequence")
    return run(every_end=True)


def open_datasets(
    request: SourceRequest, reading: Reading = CONTENTS, files: Sequence[SourceFiles] | None = None
) -> list[Source]:
    """Open every dataset that a request names; files of one format that join (blocks, samples) are opened as one."""
    with (files and files[0].path.listing) or Listing() as listing:
        files = find_sources(request, listing=listing) if files is None else files
        of_folder = FolderManifests()
        groups = _datasets(files)
        sources = [open_dataset(request, reading, of_one, of_folder) for of_one in groups]
        gaps = [source.gap for source in sources] if len(sources) > 1 else []
        if (beside := separator_beside(gaps)) is not None:
            few, reading = [gap.only == beside for gap in gaps], reading._replace(beside=beside)
            sources = [
                open_dataset(request, reading, of_one, of_folder) if is_few else source
                for is_few, of_one, source in zip(few, groups, sources, strict=True)
            ]
        for before, after in pairwise(sources):
            _check_apart(before, after)
    noted = list(_repeated(files)) if len(files) > 1 else []
    if len(sources) > 1:
        paths = [path for source in sources for path in source.paths]
        format_ = sources[0].format
        noted += notes_on_shards(paths, numbered=format_.numbers_files)
        noted += notes_on_splits(paths, titled=format_.names_are_titles)
    sources[0] = sources[0]._replace(notes=(*sources[0].notes, *noted))
    return sources


def _repeated(datasets: Sequence[SourceFiles]) -> Iterator[str]:
    """Yield a note on files that several sources name, under whatever names."""
    of_each = [
        {dataset.format.canonical(file.real()) for file in dataset.files or (dataset.path,)} for dataset in datasets
    ]
    again = [(file, count) for file, count in Counter(chain.from_iterable(of_each)).items() if count > 1]
    for file, count in again[:1]:
        more = f", and so are {len(again) - 1:,} more files" if len(again) > 1 else ""
        yield f"{printable(file.name)} is read {count:,} times{more}, because sources overlap"


def open_dataset(
    request: SourceRequest,
    reading: Reading = CONTENTS,
    files: Sequence[SourceFiles] | None = None,
    of_folder: FolderManifests | None = None,
) -> Source:
    """Open the one dataset that a request names. Every command, Python and recipes open their datasets here.

    The steps pass their answers on, so that each question is asked once:

    1. Find the files and detect the format (`find_one`). 2. Read the manifests, compare them with the files, and take
    the options and the lead that they state. 3. Let the format inspect the files and return its reader; that of a
    recipe opens its sources. 4. Look for damage and for other files in the directory. 5. Decide which ID separates
    sequences. 6. Take separators and leads out, unless the reading is as stored. 7. Compare the counts with the
    manifest, or state what is saved of a damaged dataset. `of_folder` are the manifests of directories that were read
    for other datasets.
    """
    with (files and files[0].path.listing) or Listing() as listing, files_at_hand():
        if files is None:
            files = find_one(request, listing)
        elif files[0].path.listing is not listing:
            files = [one.asking(listing) for one in files]
        format_, split, wanted = files[0].format, files[0].split, request.split
        request = replace(request, split=None) if split else request
        manifests, ignored = manifests_beside(files, request, of_folder)
        asked = {name.replace("-", "_") for name in request.options}
        request, written = as_written(format_, request, manifests)
        stated = known_separator(request.eos, [one.path for one in files], manifests)
        hints = hints_of(files[0], request, stated, reading)
        opened = {place: file for one in files for place, file in one.hand_out(keep=reading.keeps_files).items()}
        options, unread = read_options(format_, request), set[str]()
        if files[0].inspections is None:  # Else what was examined with these options is at hand.
            options, unread = watched(options, asked)
        stored = _inspected(files, options, hints._replace(files=opened))
        if split:
            stored.info = replace(stored.info, split=split, other_splits=files[0].other_splits)
        stored, damage = _complete(stored, files, request, manifests, reads_ends=reading.reads_ends)
        info = stored.info
        said = (unread_splits(info),) if info.other_splits and wanted is None else ()
        unused = (f"--from-opt {name} has no effect on this dataset" for name in asked if name in unread)
        source = Source(
            tuple(one.path for one in files),
            format_,
            stored,
            stated or Separator(None),
            (*ignored, *written, *said, *unused, *_notes(files, request, info, manifests)),
            tokenizers=(info.made_by,)
            if format_.is_computed
            else tuple(one.tokenizer for manifest in manifests for one in manifest.each),
            left_out=tuple(one.left_out for one in files if one.left_out),
            damage=damage,
            bos_id=request.bos if isinstance(request.bos, int) else None,
            manifests=tuple(manifests),
        )
        source = _with_separator(source, request, stated, hints, reading)
        return source if reading.as_stored else _contents(source, files, request, reading)


def _check_apart(before: Source, after: Source) -> None:
    """Refuse to join two datasets if that would repeat a token, or cut a document."""
    first, second = _stored_of(before), _stored_of(after)
    if first is not None:
        first.check_ends_before(second, before.separator.eos_id)


def _stored_of(source: Source) -> TokenReader | None:
    """Return the first reader of the stored axis; None for records."""
    reader = source.reader
    return None if isinstance(reader, RecordReader) else next(iter(dataset_of(reader).axis.readers()), None)


def find_groups(request: SourceRequest, listing: Listing | None = None) -> Sequence[Sequence[SourceFiles]]:
    """Find the files of the datasets that a request names; several only if it names several paths."""
    if len(expanded(request.paths, listing)) == 1 and not request.recursive:
        return [find_one(request, listing)]
    return _datasets(find_sources(request, listing=listing))


def find_one(request: SourceRequest, listing: Listing | None = None) -> Sequence[SourceFiles]:
    """Find the files of a request that has to name one dataset."""
    group, *others = _datasets(find_sources(request, listing=listing))
    if others:
        first, second = printable(group[0].path), printable(others[0][0].path)
        raise OptionError(
            f"{printable(request.paths[0])}: names {1 + len(others):,} datasets, {first}, {second} ... (expected one). "
            "Name one, or convert them to one first"
        )
    return group


@contextmanager
def advising(request: SourceRequest) -> Iterator[None]:
    """Advise the command that reads a damaged source in part, in errors of one that does not."""
    try:
        yield
    except FormatError as error:
        advise_partial(error, request, "tokfmt convert SRC DST ")
        raise


def advise_partial(error: FormatError, request: SourceRequest, command: str = "") -> None:
    """Add --allow-partial to the remedy of an error of a damaged source, if that can save a sequence.

    The option is one of `command`, which ends with a space; "" if it is the command of the user. If only the separator
    shows where sequences end, and it is not known, the remedy names --eos too.
    """
    if request.allow_partial or isinstance(error, NO_DAMAGE) or "--allow-partial" in (error.remedy or ""):
        return
    with suppress(TokfmtError, OSError):
        for group in _datasets(find_sources(request)):
            if not any(_is_of(one, place_of(error.place)) for one in group):
                continue
            asked, reading = replace(request, allow_partial=True), Reading(as_stored=True, reads_ends=False)
            try:
                if _saves(open_dataset(asked, reading, group)):
                    error.advise(f"{command}--allow-partial saves the complete sequences")
            except FormatError as unsaved:
                if "add --eos ID" in (unsaved.remedy or ""):
                    error.advise(f"{command}--allow-partial --eos ID saves the complete documents")


def _is_of(dataset: SourceFiles, file: Place) -> bool:
    """Return True if a file, which may be missing, belongs to a dataset."""
    return file in (dataset.path, *(dataset.files or ())) or (dataset.path.is_dir() and dataset.path in file.parents)


def _saves(source: Source) -> bool:
    """Return True if a damaged dataset has a readable sequence or record, or a stream has a closed document."""
    reader, eos_id = source.reader, source.separator.eos_id
    if isinstance(reader, RecordReader):
        return has_records(reader)
    if not reader.info.separators.alone or eos_id is None:
        return _any_whole(reader)
    closing = 2 if reader.info.separators is Separators.BEFORE else 1
    for a, b in windows(0, reader.info.tokens):
        closing -= int(np.count_nonzero(reader.tokens(a, b) == eos_id))
        if closing <= 0:
            return True
    return False


def _any_whole(reader: TokenReader) -> bool:
    """Return True if one of 16 sequences, spread over a dataset, can be read."""
    count = reader.info.sequences
    for number in dict.fromkeys(np.linspace(0, count - 1, _TRIED).astype(np.int64).tolist() if count else []):
        start, stop = reader.offsets(number, number + 1).tolist()
        with suppress(FormatError):
            for a, b in windows(start, stop):
                reader.tokens(a, b)
            return True
    return False


def _datasets(files: Sequence[SourceFiles]) -> list[Sequence[SourceFiles]]:
    """Group sources to datasets: files of a format with `joins_files` are one dataset, and each directory is one."""
    if len(files) < 2 or not files[0].format.joins_files or any(file.format is not files[0].format for file in files):
        return [[file] for file in files]
    return [[file] for file in files] if any(file.path.is_dir() for file in files) else [files]


def hints_of(
    dataset: SourceFiles, request: SourceRequest, stated: Separator | None, reading: Reading = CONTENTS
) -> Hints:
    """Return the hints, a stated separator among them, with which the format inspects a dataset."""
    return Hints(
        eos_id=stated.eos_id if stated else None,
        allow_loss=request.allow_loss,
        no_eos=stated is not None and stated.eos_id is None,
        jobs=reading.jobs,
        collect_invalid=reading.collect_invalid,
        tokenizer_eos=None if reading.tokenizer is None else reading.tokenizer.eos_id,
        every_end=request.every_end,
        source_files=dataset if dataset.format.is_computed else None,
        allow_partial=request.allow_partial,
        few_sequences=reading.few_sequences,
        max_sequences=reading.max_sequences,
        tokenizer=reading.tokenizer if dataset.format.is_computed else None,
    )


def _inspected(files: Sequence[SourceFiles], options: Any, hints: Hints) -> TokenReader | RecordReader:
    """Return the reader of the format, which takes the files that are open already."""
    places, first = tuple(one.path for one in files), files[0]
    try:
        inspect = first.format.inspect if first.inspections is None else partial(first.inspections.of, first.format)
        return inspect(places, options, hints).open(hints.allow_loss)
    except FormatError as error:  # Whatever a format misses in a file: the cause may be that it is not the data.
        path, is_stated = place_of(error.place), isinstance(error.expected, int)  # An index states what is missing.
        refuse_stand_in(path, may_be_empty=is_stated or places != (path,))
        raise
    finally:
        for file in (hints.files or {}).values():  # The format did not take them.
            file.close()


def _complete(
    stored: TokenReader | RecordReader,
    files: Sequence[SourceFiles],
    request: SourceRequest,
    manifests: Sequence[Manifest],
    *,
    reads_ends: bool,
) -> tuple[TokenReader | RecordReader, tuple[Damage, ...]]:
    """Return a reader of the sequences that are certain to be complete, and the damage of the others."""
    left_out, damage = stored.info.other_splits, tuple[Damage, ...]()
    missing = [
        refuse_incomplete(directory, names, partial=request.allow_partial, left_out=left_out)
        for dataset in files
        if dataset.path.is_dir()
        for directory, names in names_by_directory(dataset.visible).items()
    ]
    if request.allow_partial and reads_ends:
        damage = stored.info.damage
        if isinstance(stored, RecordReader):
            damage += tuple(stored.damaged_records())
        else:
            stored, more = readable(stored)
            damage += more
            if damage:
                stored, more = before_gap(stored)
                damage += more
        pairs = zip(files, manifests, strict=True)
        signs = (shrunk(one, own_manifest(one)) for dataset, manifest in pairs for one in members_of(dataset, manifest))
        damage = (
            *damage,
            *(sign for sign in signs if sign is not None),
            *(Damage(holes) for holes in missing if holes),
        )
    for dataset in files:
        if dataset.left_out and "other-files" not in request.allow_loss:
            deeper = "--recursive reads the directories below as well; " if dataset.below else ""
            problem = f"is read as {dataset.format.name}, and holds {dataset.left_out}"
            remedy = f"{deeper}--allow-loss other-files leaves out what is not read"
            raise FormatError(dataset.path, problem, remedy=remedy)
    return stored, damage


def _notes(
    files: Sequence[SourceFiles], request: SourceRequest, info: Info | RecordInfo, manifests: Sequence[Manifest]
) -> Iterator[str]:
    """Yield the notes on what the format found, on files that are not read, and on what a manifest states was lost."""
    yield from (*info.inferred, *info.notes)
    if info.is_text and isinstance(request.bos, int):
        yield "holds text, on which --bos has no effect"
    if not info.is_text and request.text_field is not None:
        yield "holds token IDs, on which --text-field has no effect"
    if len(files) > 1:
        yield from notes_on_shards([one.path for one in files], numbered=files[0].format.numbers_files)
        yield from notes_on_splits([one.path for one in files], titled=files[0].format.names_are_titles)
    yield from (f"left out: {one.left_out}" for one in files if one.left_out)
    yield from (problem for one in files if one.is_numbered for problem in missing_numbers(one.visible))
    if request.split is not None and "split" not in option_names(files[0].format.read_options):
        yield f"--split is not used: {files[0].format.name} has no splits"
    stored = (file for one in files if not one.path.is_local for file in one.files or (one.path,))
    yield from (note for file in stored for note in file.notes())
    yield from (note for manifest in manifests if (note := manifest.partial))
    yield from (loss.note for loss in info.lost)


def _with_separator(
    source: Source, request: SourceRequest, stated: Separator | None, hints: Hints, reading: Reading
) -> Source:
    """Return a source with its separator, and notes on it and on the tokenizers that made its token IDs."""
    stored, default, manifests = source.reader, hints.tokenizer_eos, source.manifests
    is_text, notes = stored.info.is_text, source.notes
    if reading.tokenizer is not None and not is_text:
        notes += tuple(notes_on_tokenizers(source.made, source.tokenizers, reading.tokenizer, request.allow_loss))
    if isinstance(stored, RecordReader):
        stated = known_separator(request.eos, (), ()) if is_text else stated
        if stored.info.eos_id is not None:  # Records state it themselves, as those of a recipe do.
            stated = Separator(stored.info.eos_id, source.format.name)
        separator = stated or Separator(default, "tokenizer" if default is not None else "")
        if is_text:
            made = source.tokenizers if source.format.is_computed else (None,) * len(source.paths)
            return source._replace(separator=separator, tokenizers=made, bos_id=None)
        return source._replace(separator=separator, notes=notes)
    counts = [one.content.get("separators") for manifest in manifests for one in manifest.each]
    separator, dataset = decided(
        stored,
        "none" if request.eos is None and stated is not None and stated.is_none else request.eos,
        stated,
        stated if request.eos is None else known_separator(None, source.paths, manifests),
        default,
        source.paths[0],
        reads_ends=reading.reads_ends,
        few=reading.few_sequences,
        max_sequences=reading.max_sequences,
        beside=reading.beside,
        bare=any(isinstance(count, dict) and bool(count.get("bare")) for count in counts),
    )
    made_labels = all(manifest.made_labels for manifest in manifests)
    notes = (*notes, *separator.guess)
    return source._replace(separator=separator, notes=notes, dataset=dataset, made_labels=made_labels)


def _contents(source: Source, files: Sequence[SourceFiles], request: SourceRequest, reading: Reading) -> Source:
    """Return a source whose reader has contents alone: no separators, no leads, and only what is certain."""
    stored = source.reader
    if isinstance(stored, RecordReader):
        return _with_partial(_contents_of_records(source, stored), files, request)
    eos_id, most, info = source.separator.eos_id, reading.max_sequences, stored.info
    if most is not None and eos_id is not None and info.separators.alone and info.tokens > _LITTLE:
        from tokfmt.model.select import Beginning

        beginning = Beginning(stored, eos_id, most)
        if not beginning.whole:
            first: TokenReader = ContentReader(from_reader(beginning, eos_id, jobs=reading.jobs))
            if source.bos_id is not None:
                first, _ = without_leads(first, source.bos_id, source.paths[0], each=True)
            return source._replace(reader=first)
    if source.dataset is not None and source.dataset.gap.looked < source.dataset.gap.of:
        source = _with_count(source, source.dataset, request)
    reader, notes = stored, list[str]()
    if not source.format.is_computed:  # Each source of a recipe is read without its own separators already.
        few, each = reading.few_sequences, request.every_end
        reader, notes = contents_of(source, stored, reading.jobs, reading.progress, few_sequences=few, every_end=each)
    gap = reader.dataset.gap if isinstance(reader, ContentReader) else Gap()
    if gap.id is not None and not gap.alone:  # Counts of lost tokens exclude separators.
        source = source._replace(damage=tuple(one.without_separators() for one in source.damage))
    source = source._replace(reader=reader, notes=(*source.notes, *notes))
    if request.allow_partial and stored.info.separators.alone:
        source = _closed(source, stored, files)
    return _with_partial(source, files, request) if source.damage else counted(source, request)


def _contents_of_records(source: Source, records: RecordReader) -> Source:
    """Return a source whose records of token IDs are read without the separator and the lead that the user names."""
    separator = source.separator
    eos_id = separator.eos_id if separator.source == GIVEN and separator.is_stored else None
    if source.stored_ids is None or (eos_id is None and source.bos_id is None):
        return source
    from tokfmt.source.ingest import ContentRecords  # Most sources need none of its imports.

    return source._replace(reader=ContentRecords(records, eos_id, source.bos_id))


def _with_count(source: Source, dataset: Dataset, request: SourceRequest) -> Source:
    """Return a source, knowing whether its manifest counts the tokens that there are without a separator of each."""
    (manifest, *others), info = source.manifests, source.reader.info
    if others or request.ignore_manifest or not isinstance(info, Info):
        return source
    if manifest.ids[0] != dataset.gap.id:
        return source
    counted = manifest.counts(info.split).get("tokens") == info.tokens - info.sequences
    return source._replace(dataset=replace(dataset, gap=replace(dataset.gap, counted=counted)))


def _closed(source: Source, stored: TokenReader, files: Sequence[SourceFiles]) -> Source:
    """Return a stream without its last sequence, unless a separator closes it or the manifest shows it is complete."""
    whole = all(
        dataset.files and describes(manifest, dataset.format, dataset.path)
        for dataset, manifest in zip(files, source.manifests, strict=True)
    )
    if not isinstance(source.reader, TokenReader) or (whole and not source.damage):
        return source
    if source.separator.eos_id is None:
        raise SeparatorUnknownError(source.paths[0], "its separator is not known, and it may be cut")
    reader, lost = closed(stored, source.reader, source.separator.eos_id)
    return source if lost is None else source._replace(reader=reader, damage=(*source.damage, lost))


def _with_partial(source: Source, files: Sequence[SourceFiles], request: SourceRequest) -> Source:
    """Return a source with the facts on its damage, and a note on them."""
    counts: Mapping[str, Any] = {}
    if len(files) == 1 and not request.ignore_manifest:
        (manifest,) = source.manifests
        alike = manifest.ids == (source.separator.eos_id, source.bos_id)
        if alike and manifest.content.get("format") == source.format.name:
            counts = manifest.counts(source.reader.info.split)
    partial = partial_of(source.paths[0], len(source.paths) - 1, source.reader, source.damage, counts)
    return source if partial is None else source._replace(partial=partial, notes=(*source.notes, partial.sentence()))


def contradicted(source: Source, sequences: int, tokens: int | None) -> CorruptError | None:
    """Return the error of a manifest that contradicts the counts of its source; None if it does not.

    Sources of several paths and records are not compared, nor are counts under another separator or lead than those of
    the manifest.
    """
    reader = source.reader
    if len(source.manifests) != 1 or isinstance(reader, RecordReader):
        return None
    (path,), (manifest,) = source.paths, source.manifests
    if manifest.ids != (source.separator.eos_id, source.bos_id):
        return None
    stated = manifest.counts(reader.info.split, samples=reader.info.is_samples, divided=is_divided(reader))
    for key, count in (("sequences", sequences), ("tokens", tokens)):
        expected = stated.get(key)
        if isinstance(expected, int) and count is not None and expected != count:
            return contradiction(path, manifest, key, expected, count)
    return None


def counted(source: Source, request: SourceRequest) -> Source:
    """Compare the counts of an opened source with its manifest, and return the source."""
    info = source.reader.info
    if not isinstance(info, Info) or info.beginning:
        return source
    wrong = contradicted(source, info.sequences, info.tokens)
    if wrong is None:
        return source
    if not request.ignore_manifest:
        raise wrong
    if any(IGNORED in note for note in source.notes):  # a note on its files reports it already
        return source
    return source._replace(notes=(*source.notes, f"the dataset {wrong.what}; {IGNORED}"))
