"""Open datasets of any format, recipes among them. Every command opens its sources here.

`open_sources` opens what a request names, `open_one` expects one dataset. Both return readers without separators.
`open_stored` returns the reader of the format itself, whose axis still has the separators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tokfmt.base.options import given_options
from tokfmt.core.format import Format, Hints
from tokfmt.core.reader import Damage, Info, Layout, Separators, TokenReader, windows
from tokfmt.core.records import RecordReader, has_records
from tokfmt.errors import (
    NO_DAMAGE,
    CorruptError,
    FormatError,
    OptionError,
    SeparatorUnknownError,
    TokfmtError,
    UnendedError,
)
from tokfmt.files.file import File, refuse_stand_in
from tokfmt.files.listing import Listing
from tokfmt.files.place import Place, PlaceLike, place_of
from tokfmt.files.shard_names import names_by_directory, notes_on_shards, refuse_incomplete
from tokfmt.model.dataset import Dataset
from tokfmt.model.readers import ContentReader, dataset_of, from_reader
from tokfmt.run.progress import Progress
from tokfmt.source.content import Manifest
from tokfmt.source.discover import find_sources
from tokfmt.source.manifest import (
    IGNORED,
    as_written,
    count_contradiction,
    describes,
    manifests_beside,
    shrunk,
)
from tokfmt.source.partial import closed, partial_of, readable
from tokfmt.source.request import (
    EosChoice,
    Options,
    SourceFiles,
    SourceRequest,
    asking_once,
    option_names,
    read_options,
)
from tokfmt.source.stored import (
    GIVEN,
    Separator,
    Source,
    decided,
    known_separator,
    notes_on_tokenizers,
    without_leads,
    without_separators,
)
from tokfmt.wording import printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle


T = TypeVar("T")


_LITTLE = 1 << 22  # a stream of at most so many tokens is always scanned to its end
_TRIED = 16  # sequences that are read to find if any is readable


def _has_others(one: SourceFiles) -> FormatError:
    """Return the error of a directory that holds files outside its dataset."""
    deeper = "--recursive reads the directories below as well; " if one.below else ""
    what = f"is read as {one.format.name}, and holds {one.left_out}"
    return FormatError(one.path, what, remedy=f"{deeper}--allow-loss other-files leaves out what is not read")


def presuming(run: Callable[..., T], note: Callable[[str], None]) -> T:
    """Return the result of a command that presumes that sequences end alike, or of the same without a presumption.

    Every command that reads whole datasets runs in this function, so that its result never depends on which sequences
    were looked at.

    Args:
        run: Opens its sources and reads them; called with the keyword `every_end`; see `SourceRequest`.
        note: Receives the reason why it runs again.
    """
    try:
        return run(every_end=False)
    except UnendedError as error:
        note(f"{error.sentence}; it begins again, and looks at the end of every sequence")
    return run(every_end=True)


def open_sources(
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    found: Sequence[SourceFiles] | None = None,
    collect_invalid: bool = False,
    max_sequences: int | None = None,
) -> list[Source]:
    """Open every source; files of one format that join (blocks, samples, JSON Lines) are opened as one.

    Args:
        request: The paths, and the options that state how to read them.
        tokenizer: The tokenizer in use. It gives the separator, and is compared with the one that made the token IDs.
        jobs: Number of threads that scan streams.
        progress: Receives the progress of that scan.
        found: The datasets from `find_sources`, if they were found already.
        collect_invalid: Leave out and count invalid records instead of raising; see `Hints`.
        max_sequences: The number of sequences that the command reads, from the first; a stream is not scanned beyond
            them. None: all.

    Returns:
        The sources in order, each with a reader without separators.

    Raises:
        DetectionError: The format of a path cannot be detected.
        FormatError: A source cannot be read.
        OptionError: An option is invalid.
        SeparatorUnknownError: A stream needs a separator, and none is known.
        TokenizerMismatchError: Another tokenizer made a source.
    """
    with (found and found[0].path.listing) or Listing() as listing:
        found = find_sources(request, listing=listing) if found is None else found
        sources = [
            open_found(
                group, request, tokenizer, jobs, progress, collect_invalid=collect_invalid, max_sequences=max_sequences
            )
            for group in _datasets(found)
        ]
        for before, after in pairwise(sources):
            _check_apart(before, after)
    if len(sources) > 1:
        noted = notes_on_shards([path for source in sources for path in source.paths])
        sources[0] = sources[0]._replace(notes=(*sources[0].notes, *noted))
    return sources


def _check_apart(before: Source, after: Source) -> None:
    """Refuse two datasets if the second may continue the first.

    Raises:
        FormatError: Joining them would repeat a token, or cut a document.
    """
    first, second = _stored_of(before), _stored_of(after)
    if first is not None:
        first.check_ends_before(second, before.separator.eos_id)


def _stored_of(source: Source) -> TokenReader | None:
    """Return the first reader of the stored axis; None for records."""
    if isinstance(source.reader, RecordReader):
        return None
    return next(iter(dataset_of(source.reader).axis.readers()), None)


def open_one(
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    max_sequences: int | None = None,
    few_sequences: bool = False,
) -> Source:
    """Open a request that has to name one dataset.

    Args:
        request: As in `open_sources`.
        tokenizer: As in `open_sources`.
        jobs: As in `open_sources`.
        progress: As in `open_sources`.
        max_sequences: As in `open_sources`.
        few_sequences: The command reads few sequences; see `Hints`.

    Raises:
        OptionError: The request names several datasets, by a pattern or with `recursive`.
        TokfmtError: As in `open_sources`.
    """
    with Listing() as listing:
        found = find_one(request, listing)
        return open_found(
            found, request, tokenizer, jobs, progress, max_sequences=max_sequences, few_sequences=few_sequences
        )


def find_one(request: SourceRequest, listing: Listing | None = None) -> Sequence[SourceFiles]:
    """Find the files of a request that has to name one dataset.

    Args:
        request: The path, and the options that state how to read it.
        listing: As in `find_sources`.

    Raises:
        OptionError: The request names several datasets, by a pattern or with `recursive`.
        TokfmtError: As in `find_sources`.
    """
    group, *others = _datasets(find_sources(request, listing=listing))
    if others:
        first, second = printable(group[0].path), printable(others[0][0].path)
        raise OptionError(
            f"{printable(request.paths[0])}: names {1 + len(others):,} datasets, {first}, {second} ... (expected one). "
            "Name one, or convert them to one first"
        )
    return group


def advise_partial(error: FormatError, request: SourceRequest) -> None:
    """Add --allow-partial to the remedy of an error of a damaged source, if that can save a sequence."""
    if request.allow_partial or isinstance(error, NO_DAMAGE) or "--allow-partial" in (error.remedy or ""):
        return
    with suppress(TokfmtError, OSError):
        for group in _datasets(find_sources(request)):
            if not any(_is_of(one, place_of(error.place)) for one in group):
                continue
            if _saves(open_stored(group, replace(request, allow_partial=True), checked=False)):
                error.advise("--allow-partial saves the complete sequences")


def _is_of(one: SourceFiles, file: Place) -> bool:
    """Return True if a file, which may be missing, belongs to a dataset."""
    return file in (one.path, *(one.files or ())) or (one.path.is_dir() and one.path in file.parents)


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


def _datasets(found: Sequence[SourceFiles]) -> list[Sequence[SourceFiles]]:
    """Group sources to datasets: files of a format with `joins_files` are one dataset, and each directory is one."""
    same = all(one.format is found[0].format for one in found) and not any(one.path.is_dir() for one in found)
    together = len(found) > 1 and found[0].format.joins_files and same
    return [found] if together else [[one] for one in found]


def open_source(
    paths: Sequence[PlaceLike],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    eos: EosChoice = None,
    bos: EosChoice = None,
    options: Options = (),
    allow_loss: Iterable[str] = (),
    jobs: int | None = None,
    collect_invalid: bool = False,
    every_end: bool = False,
) -> Source:
    """Open one dataset by its paths; several paths need a format whose files join.

    Args:
        paths: The files or directories of the dataset.
        format: Name of its format; None to detect it.
        eos: ID of the separator, "none", or None to infer it.
        bos: ID of the lead, "none", or None for what the manifest states.
        options: Options of the format, as a mapping or `key=value` words.
        allow_loss: Names of the losses that are accepted.
        jobs: Number of threads that scan streams.
        collect_invalid: Leave out and count invalid records instead of raising; see `Hints`.
        every_end: See `SourceRequest`.

    Raises:
        TokfmtError: As in `open_sources`.
    """
    given, losses = given_options(options), frozenset(allow_loss)
    request = SourceRequest(tuple(paths), format, eos, given, allow_loss=losses, bos=bos, every_end=every_end)
    return open_found(find_sources(request), request, jobs=jobs, collect_invalid=collect_invalid)


def open_found(
    found: Sequence[SourceFiles],
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    collect_invalid: bool = False,
    max_sequences: int | None = None,
    few_sequences: bool = False,
) -> Source:
    """Open one dataset of one or more files, and return a reader without separators.

    Args:
        found: The paths of the dataset; several if the files of its format join.
        request: As in `open_sources`.
        tokenizer: As in `open_sources`.
        jobs: As in `open_sources`.
        progress: As in `open_sources`.
        collect_invalid: As in `open_sources`.
        max_sequences: As in `open_sources`.
        few_sequences: The command reads few sequences; see `Hints`.

    Raises:
        TokfmtError: As in `open_sources`.
    """
    with next((file.at_hand() for one in found[:1] for file in one.opened.values()), nullcontext()):
        source = open_stored(
            found,
            request,
            tokenizer,
            jobs,
            collect_invalid=collect_invalid,
            max_sequences=max_sequences,
            few_sequences=few_sequences,
        )
    if isinstance(source.reader, RecordReader):
        return _with_partial(_contents_of_records(source, source.reader), found, request)
    eos_id = source.separator.eos_id
    info = source.reader.info
    stream = eos_id is not None and info.separators is Separators.BETWEEN
    if max_sequences is not None and eos_id is not None and stream and info.tokens > _LITTLE:
        from tokfmt.model.select import Beginning

        beginning = Beginning(source.reader, eos_id, max_sequences)
        if not beginning.whole:
            reader: TokenReader = ContentReader(from_reader(beginning, eos_id, jobs=jobs))
            if source.bos_id is not None:
                reader, _ = without_leads(reader, source.bos_id, source.paths[0], each=True)
            return source._replace(reader=reader)
    stored = source.reader
    if source.dataset is not None and source.dataset.gap.looked < source.dataset.gap.of:
        source = _with_count(source, source.dataset, request)
    reader, decided = stored, list[str]()
    if not source.format.is_computed:  # Each source of a recipe is read without its own separators already.
        reader, decided = without_separators(
            stored,
            source.separator,
            source.dataset,
            source.paths[0],
            jobs,
            progress,
            few_sequences=few_sequences,
            every_end=request.every_end,
        )
    if (
        isinstance(reader, ContentReader) and not reader.dataset.gap.alone
    ):  # the counts of lost tokens exclude separators too
        source = source._replace(damage=tuple(one.without_separators() for one in source.damage))
    if source.bos_id is not None:
        reader, noted = without_leads(reader, source.bos_id, source.paths[0], each=request.every_end)
        decided += noted
    source = source._replace(reader=reader, notes=(*source.notes, *decided))
    if request.allow_partial and stored.info.separators.alone:
        source = _closed(source, stored, found)
    return _with_partial(source, found, request) if source.damage else counted(source, request)


def _contents_of_records(source: Source, records: RecordReader) -> Source:
    """Return a source whose records of token IDs are read without the separator and the lead that the user names."""
    separator = source.separator
    eos_id = separator.eos_id if separator.source == GIVEN and separator.is_stored else None
    if records.info.kind != "ids" or source.format.is_computed or (eos_id is None and source.bos_id is None):
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


def _closed(source: Source, stored: TokenReader, found: Sequence[SourceFiles]) -> Source:
    """Return a stream without its last sequence, unless a separator closes it or the manifest shows it is complete.

    Raises:
        SeparatorUnknownError: The separator is not known.
    """
    whole = all(
        one.files and describes(manifest, one.format, one.path)
        for one, manifest in zip(found, source.manifests, strict=True)
    )
    if not isinstance(source.reader, TokenReader) or (whole and not source.damage):
        return source
    if source.separator.eos_id is None:
        raise SeparatorUnknownError(source.paths[0], "its separator is not known, and it may be cut")
    reader, lost = closed(stored, source.reader, source.separator.eos_id)
    return source if lost is None else source._replace(reader=reader, damage=(*source.damage, lost))


def _with_partial(source: Source, found: Sequence[SourceFiles], request: SourceRequest) -> Source:
    """Return a source with the facts on its damage, and a note on them.

    Raises:
        TruncatedError: No sequence of it is certain to be complete.
    """
    counts: Mapping[str, Any] = {}
    if len(found) == 1 and not request.ignore_manifest:
        (manifest,) = source.manifests
        alike = manifest.ids == (source.separator.eos_id, source.bos_id)
        if alike and manifest.content.get("format") == source.format.name:
            counts = manifest.counts(source.reader.info.split)
    partial = partial_of(source.paths[0], len(source.paths) - 1, source.reader, source.damage, counts)
    return source if partial is None else source._replace(partial=partial, notes=(*source.notes, partial.sentence()))


def open_stored(
    found: Sequence[SourceFiles],
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    *,
    collect_invalid: bool = False,
    checked: bool = True,
    max_sequences: int | None = None,
    few_sequences: bool = False,
) -> Source:
    """Open one dataset as it is stored: the axis of its reader still has the separators.

    Args:
        found: The paths of the dataset; several if the files of its format join.
        request: As in `open_sources`.
        tokenizer: As in `open_sources`.
        jobs: As in `open_sources`.
        collect_invalid: As in `open_sources`.
        checked: Read the ends of sequences to infer a separator; with `SourceRequest.allow_partial`, read the whole
            dataset to find damage. False reads only what opening takes.
        max_sequences: As in `open_sources`.
        few_sequences: The command reads few sequences; see `Hints`.

    Raises:
        TokfmtError: As in `open_sources`.
    """
    with asking_once(found) as datasets:
        format_, places = datasets[0].format, tuple(one.path for one in datasets)
        manifests, ignored = manifests_beside(datasets, request)
        request, written = as_written(format_, request, manifests)
        options = read_options(format_, request)
        known, allow_loss = known_separator(request.eos, places, manifests), request.allow_loss
        default = tokenizer.eos_id if tokenizer is not None else None
        hints = hints_of(datasets[0], request, known, tokenizer, jobs)._replace(
            collect_invalid=collect_invalid, few_sequences=few_sequences, max_sequences=max_sequences
        )
        stored, damage = _reader_of(datasets, options, hints), tuple[Damage, ...]()
        named = [
            refuse_incomplete(directory, names, partial=request.allow_partial, left_out=stored.info.other_splits)
            for one in datasets
            if one.path.is_dir()
            for directory, names in names_by_directory(one.files).items()
        ]
        if request.allow_partial and checked:
            stored, damage = _readable(stored, datasets, manifests)
            damage += tuple(Damage(holes) for holes in named if holes)
        for one in datasets:
            if one.left_out and "other-files" not in allow_loss:
                raise _has_others(one)
        info, left_out = stored.info, tuple(one.left_out for one in datasets if one.left_out)
        notes = (*ignored, *written, *info.inferred, *info.notes)
        if len(places) > 1:
            notes += tuple(notes_on_shards(places))
        notes += tuple(f"left out: {what}" for what in left_out)
        if request.split is not None and "split" not in option_names(format_.read_options):
            notes += (f"--split is not used: {format_.name} has no splits",)
        notes += tuple(note for one in datasets for file in one.files or (one.path,) for note in file.notes())
    tokenizers = (info.made_by,) if format_.is_computed else tuple(one.tokenizer for one in manifests)
    notes += tuple(note for manifest in manifests if (note := manifest.partial))
    notes += tuple(loss.note for loss in info.lost)
    more: dict[str, Any] = {"left_out": left_out, "damage": damage, "manifests": tuple(manifests)}
    if isinstance(stored, RecordReader) and stored.info.kind == "text":  # the separator follows from its tokenizer
        separator = known_separator(request.eos, (), ()) or Separator(
            default, "tokenizer" if default is not None else ""
        )
        separator = _stated(stored, format_) or separator
        known_by = tokenizers if format_.is_computed else (None,) * len(places)
        return Source(places, format_, stored, separator, notes, None, known_by, **more)
    lead = request.bos if isinstance(request.bos, int) else None
    if tokenizer is not None:
        notes += tuple(notes_on_tokenizers(places, tokenizers, tokenizer, allow_loss))
    if isinstance(stored, RecordReader):
        separator = _stated(stored, format_) or known or Separator(default, "tokenizer" if default is not None else "")
        return Source(places, format_, stored, separator, notes, None, tokenizers, bos_id=lead, **more)
    by_manifest = known if request.eos is None else known_separator(None, places, manifests)
    counts_of_separators = [manifest.content.get("separators") for manifest in manifests]
    separator, dataset = decided(
        stored,
        request.eos,
        known,
        by_manifest,
        default,
        places[0],
        looks=checked,
        few=few_sequences,
        max_sequences=max_sequences,
        bare=any(isinstance(found, dict) and bool(found.get("bare")) for found in counts_of_separators),
    )
    notes = (*notes, *separator.guess)
    made = all(manifest.made_labels for manifest in manifests)
    known_of = (places, format_, stored, separator, notes, dataset, tokenizers)
    return Source(*known_of, made_labels=made, bos_id=lead, **more)


def _reader_of(found: Sequence[SourceFiles], options: Any, hints: Hints) -> TokenReader | RecordReader:
    """Return the reader of the format, which takes the files that are open already.

    Raises:
        FormatError: The dataset is not valid.
    """
    places, files = tuple(one.path for one in found), dict[Place, File]()
    for one in found:
        files |= one.opened
        one.opened.clear()
    try:
        hints, inspections, format_ = hints._replace(files=files), found[0].inspections, found[0].format
        if inspections is None:
            inspection = format_.inspect(places, options, hints)
        else:
            inspection = inspections.of(format_, places, options, hints)
        return inspection.open(hints.allow_loss)
    except FormatError as error:  # Whatever a format misses in a file: the cause may be that it is not the data.
        path, is_stated = place_of(error.place), isinstance(error.expected, int)  # An index states what is missing.
        refuse_stand_in(path, may_be_empty=is_stated or places != (path,))
        raise
    finally:
        for file in files.values():  # The format did not take them.
            file.close()


def hints_of(
    found: SourceFiles,
    request: SourceRequest,
    known: Separator | None,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
) -> Hints:
    """Return the hints with which a dataset is opened, as far as they follow from a request.

    Args:
        found: The dataset.
        request: As in `open_sources`.
        known: The separator that the request or a manifest states; None without one.
        tokenizer: As in `open_sources`.
        jobs: As in `open_sources`.
    """
    return Hints(
        eos_id=known.eos_id if known else None,
        allow_loss=request.allow_loss,
        no_eos=known is not None and known.eos_id is None,
        jobs=jobs,
        tokenizer_eos=tokenizer.eos_id if tokenizer is not None else None,
        every_end=request.every_end,
        source_files=found if found.format.is_computed else None,
        allow_partial=request.allow_partial,
    )


def _readable(
    stored: TokenReader | RecordReader, found: Sequence[SourceFiles], manifests: Sequence[Manifest]
) -> tuple[TokenReader | RecordReader, tuple[Damage, ...]]:
    """Return a reader of the sequences that are certain to be complete, and the damage of the others."""
    damage = stored.info.damage
    if not isinstance(stored, RecordReader):
        stored, more = readable(stored)
        damage += more
    else:
        damage += tuple(stored.damaged_records())
    signs = (shrunk(one, manifest) for one, manifest in zip(found, manifests, strict=True))
    return stored, (*damage, *(sign for sign in signs if sign is not None))


def _stated(records: RecordReader, format_: Format) -> Separator | None:
    """Return the separator that records state themselves, as those of a recipe do; None if they do not."""
    eos_id = records.info.eos_id
    return None if eos_id is None else Separator(eos_id, format_.name)


def contradicted(source: Source, sequences: int, tokens: int | None) -> CorruptError | None:
    """Return the error of a manifest that contradicts the counts of its source; None if it does not.

    Sources of several paths and records are not compared.

    Args:
        source: The opened dataset.
        sequences: The number of sequences that were read.
        tokens: The number of tokens that were read; None if unknown.
    """
    reader = source.reader
    if len(source.manifests) != 1 or isinstance(reader, RecordReader):
        return None
    split, samples = reader.info.split, reader.info.layout is Layout.SAMPLES
    (path,), (manifest,), ids = source.paths, source.manifests, (source.separator.eos_id, source.bos_id)
    return count_contradiction(path, manifest, split, (sequences, tokens), ids, samples=samples)


def counted(source: Source, request: SourceRequest) -> Source:
    """Compare the counts of an opened source with its manifest, and return the source.

    Raises:
        CorruptError: They differ, and the request does not ignore manifests.
    """
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
