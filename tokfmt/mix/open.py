"""Open a recipe: open its sources as every command opens its own, and make the recipe's reader."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from tokfmt.base.options import given_options
from tokfmt.core.findings import loss_in
from tokfmt.core.format import Hints
from tokfmt.core.reader import Info, TokenReader, windows
from tokfmt.core.records import RecordReader
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.errors import (
    ConversionError,
    FormatError,
    Loss,
    LossyConversionError,
    OptionError,
    TokenizerMismatchError,
    TokfmtError,
    reword,
)
from tokfmt.files.named import place_named
from tokfmt.files.place import Place, place_of
from tokfmt.mix.cache import Unkept, key_of
from tokfmt.mix.deferred import joined, on_disk, recalled_source, remember_source
from tokfmt.mix.documents import Documents, TokenSource, Vocabulary, with_quotas
from tokfmt.mix.draft import TextRecipe, TextSource, filters_of
from tokfmt.mix.language import VERSION, RecipeFile, SourceEntry, in_keys, read_recipe
from tokfmt.mix.samples import CHOOSE_SEPARATOR, Samples, has_labels, separator_of
from tokfmt.model.readers import ContentReader, dataset_of
from tokfmt.source.discover import dataset_at, dataset_paths, find_sources, snapshot
from tokfmt.source.open import open_datasets
from tokfmt.source.request import Found, Reading, SourceFiles, SourceRequest, expanded, viewed
from tokfmt.source.stored import Source as Opened
from tokfmt.source.stored import (
    agreed_tokenizer,
    axes_of,
    boundaries_of,
    hold_chats,
    records_of,
    refuse_other_ends,
    unknown_id,
    without_ends,
    without_leads,
)
from tokfmt.wording import counted, printable

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_MAX_DEPTH, _MAX_RECIPES = 32, 1024  # nested recipes in a chain; and in all, because each recipe may name several
_READING = 5
"""Version of the rules that turn files into sequences; an entry of the cache with another version is not used."""
_NAMED = 12  # fields that a message names


def open_recipe(file: RecipeFile, hints: Hints) -> tuple[Samples | Documents | TextRecipe, list[Opened]]:
    """Open the sources of a recipe, and return its reader with them. The hints have the datasets that it names, if they
    were found already. The reader is `Samples`, `Documents` without `seq_len`, or a `TextRecipe` if it has text or
    `dedup`.
    """
    above = None if hints.source_files is None else hints.source_files.within
    nesting = _entered(file.where, above)
    reader, opened, mixed = _laid(file, hints, nesting)
    notes = nesting.unkept if above is None else ()
    lost = list(_lost(opened, hints.allow_loss, cut=file.pack != "stored"))
    lost += [Loss("tokenizers", mixed)] if mixed else []
    if isinstance(reader, TextRecipe):
        reader.lost = tuple(lost)
    elif notes or lost:
        reader.info = replace(reader.info, notes=(*reader.info.notes, *notes), lost=tuple(lost))
    return reader, opened


def _lost(parts: Sequence[Opened], allow_loss: frozenset[str], *, cut: bool) -> Iterator[Loss]:
    """Yield what the parts of a recipe lose because the user accepted it, borders too if they are cut."""
    for part in parts:
        yield from part.reader.info.lost
        yield from (Loss("other-files", note) for note in part.left_out)
        if part.axis is None:
            continue
        info = part.axis.info
        if cut and "inner-boundaries" in allow_loss:
            yield from (Loss("inner-boundaries", boundaries_of(inner)) for inner in info.inner)
            if info.segmented and info.sample_length is None:
                yield loss_in(part.paths[0], "inner-boundaries", "where documents begin inside of rows")
        if "loss-mask" in allow_loss and (masks := _masks_of(info)) and (cut or not has_labels(part.axis)):
            yield loss_in(part.paths[0], "loss-mask", masks)


def _refuse_ended(
    file: RecipeFile, sources: Sequence[TokenSource | TextSource], parts: Sequence[Sequence[Opened]]
) -> None:
    """Refuse a source without a separator whose sequences end with that of the other sources."""
    unknown = [k for k, source in enumerate(sources) if source.eos_id is None and isinstance(source, TokenSource)]
    if file.to_eos is not None or not file.separates or not 0 < len(unknown) < len(sources):
        return
    to_eos = separator_of(file, sources)
    for k in unknown:
        for part in parts[k]:
            if part.axis is not None and without_ends(part, part.axis, to_eos)[1]:
                problem = (
                    f'source "{printable(sources[k].name)}" states no separator, and its sequences end with {to_eos}'
                )
                ways = f'eos = {to_eos} reads it as the separator, eos = "none" as content'
                raise ConversionError(f"{printable(file.where)}: {problem}, that of the other sources. {ways}")


def _masks_of(info: Info) -> str:
    """Return in words the loss masks that are not plain; "" without any."""
    if info.nonstandard_masks:
        return f"loss masks or labels that are not plain in {counted(info.nonstandard_masks, 'sequence')}"
    return info.loss_masks


def _laid(
    file: RecipeFile, hints: Hints, nesting: Nesting
) -> tuple[Samples | Documents | TextRecipe, list[Opened], str]:
    """Return the reader of a recipe, its parts, and accepted differences between their tokenizers in words."""
    handle = _tokenizer(file)
    try:
        return _laid_with(file, handle, hints, nesting)
    except _NoTokenizerError:  # Only a recipe of text takes that of the command.
        if hints.tokenizer is None:
            raise
    return _laid_with(file, hints.tokenizer, hints, nesting)


def _laid_with(
    file: RecipeFile, handle: TokenizerHandle | None, hints: Hints, nesting: Nesting
) -> tuple[Samples | Documents | TextRecipe, list[Opened], str]:
    """Return what `_laid` does, with the tokenizer of the recipe."""
    sources, opened, of_each = list[TokenSource | TextSource](), list[Opened](), list[list[Opened]]()
    for entry in file.sources:
        try:
            source, parts = _opened(file, entry, handle, hints, nesting)
        except _NestingError:
            raise
        except TokfmtError as error:
            if isinstance(error, OptionError):  # its message has no path to begin with
                where = f'{printable(file.where)}: source "{printable(entry.name)}": '
                error.args = (f"{where}{error.args[0]}",)
            else:
                error.add_note(_which(entry, file.where))
            reword(error, in_keys)
            raise
        sources.append(source)
        opened += parts
        of_each.append(parts)
    _refuse_ended(file, sources, of_each)
    vocabulary = _agreed_vocabulary(opened, handle, hints.allow_loss)
    made_by, mixed = agreed_tokenizer(opened, handle, hints.allow_loss)
    of_ids = [source for source in sources if isinstance(source, TokenSource)]
    if len(of_ids) < len(sources) or file.dedup != "none" or any(entry.filter for entry in file.sources):
        return TextRecipe(file, sources, handle, made_by), opened, mixed
    of_ids = with_quotas(file, of_ids)
    if file.seq_len is not None:
        return Samples(file, of_ids, vocabulary, made_by, nesting.unkept), opened, mixed
    eos_id = separator_of(file, of_ids)
    return Documents(file, of_ids, eos_id, vocabulary, made_by, nesting.unkept), opened, mixed


def _agreed_vocabulary(
    opened: Sequence[Opened], handle: TokenizerHandle | None, allow_loss: frozenset[str]
) -> Vocabulary | None:
    """Return the vocabulary of all token IDs; None if it is unknown or may differ.

    It is that of the tokenizer that the recipe names, which is assumed to have made IDs without a manifest.
    """
    inner = list(map(_vocabulary_of, opened))
    assumed = [
        part if vocabulary is None else part._replace(tokenizers=(vocabulary.made,))
        for part, vocabulary in zip(opened, inner, strict=True)
    ]
    made, _ = agreed_tokenizer(assumed, handle, allow_loss)
    if "tokenizers" in allow_loss:
        return None
    if handle is not None:
        return Vocabulary(handle.name, handle.ids, handle.describe())
    if made is None:
        return None
    for vocabulary in inner:
        if vocabulary is not None and vocabulary.made["digest"] == made["digest"]:
            return vocabulary
    ids = TokenizerIds.stated(made)
    return None if ids is None else Vocabulary(str(made.get("name")), ids, made)


def _vocabulary_of(part: Opened) -> Vocabulary | None:
    """Return the vocabulary of a recipe that is a source; None if it is unknown, or if the source is not a recipe."""
    return part.reader.vocabulary if isinstance(part.reader, (Samples, Documents)) else None


def _refuse_other_recipe(part: Opened, handle: TokenizerHandle | None, allow_loss: frozenset[str]) -> None:
    """Refuse a part that is a recipe of another tokenizer; the manifests of other parts are compared on opening."""
    vocabulary = _vocabulary_of(part)
    if vocabulary is None or handle is None or "tokenizers" in allow_loss:
        return
    if vocabulary.made["digest"] != handle.digest:
        problem = "is a recipe of IDs that another tokenizer made"
        raise TokenizerMismatchError(part.paths[0], problem, handle.name, vocabulary.name)


def _refuse_beyond(parts: Sequence[Opened], handle: TokenizerHandle) -> None:
    """Refuse datasets that state a largest ID, themselves or in a manifest, that the tokenizer does not have."""
    for part in parts:
        if part.axis is None:
            continue
        for path, manifest in zip(part.paths, part.manifests, strict=True):
            top = part.axis.info.max_id
            largest = manifest.content.get("max_id") if top is None else top
            if isinstance(largest, int) and handle.ids.lacks_largest(largest, part.separator.eos_id):
                raise unknown_id(path, handle.name, handle.ids, largest)


class _NoTokenizerError(OptionError):
    """A recipe of text names no tokenizer."""


class _NestingError(FormatError):
    """Recipes are nested too deep, or are too many."""


class Nesting(NamedTuple):
    """The recipes that are being opened, each a source of the one before."""

    outermost: Place  # as given
    places: tuple[Place, ...]  # their absolute paths
    opened: list[int]  # one item, the number of recipes that were opened so far, which all levels share
    unkept: Unkept  # what the cache does not keep; all levels share it, and the outermost recipe has them


def _entered(recipe: Place, above: Nesting | None) -> Nesting:
    """Return the recipes that are being opened, with another one, if they do not nest too deep or in a circle."""
    place, above = recipe.normalized(), above or Nesting(recipe, (), [0], {})
    if place in above.places:
        raise FormatError(recipe, "includes itself", remedy="A recipe may name others, but not in a circle")
    above.opened[0] += 1
    for quantity, maximum, count in (
        ("recipes, each a source of the one before", _MAX_DEPTH, len(above.places) + 1),
        ("recipes", _MAX_RECIPES, above.opened[0]),
    ):
        if count > maximum:
            remedy = "Name the sources of some of them instead, or store some first with tokfmt convert"
            raise _NestingError(above.outermost, f"is made of more than {maximum:,} {quantity}", remedy=remedy)
    return above._replace(places=(*above.places, place))


def named_by(recipe: Place, above: Nesting | None = None) -> Found:
    """Find the datasets that a recipe names; recipes among them have the datasets that they name in turn."""
    datasets, nesting = dict[tuple[Place, str | None, str | None], SourceFiles](), _entered(recipe, above)
    file = read_recipe(recipe)
    for entry in file.sources:
        places = expanded([place_named(recipe, path) for path in entry.path])
        request = SourceRequest.of(places, entry.format, options=entry.options, split=entry.split)
        try:
            for path in dataset_paths(request):
                files = dataset_at(path, request)
                named = named_by(path, nesting) if files.format.is_computed else None
                datasets[path, entry.format, request.split] = files._replace(named=named)
        except _NestingError:
            raise
        except TokfmtError as error:
            error.add_note(_which(entry, recipe))
            raise
    for rules in file.filters.values():
        if rules.without is not None:  # The result depends on evals as on sources.
            request = SourceRequest(tuple(place_named(recipe, str(path)) for path in rules.without.evals))
            for path in dataset_paths(request):
                datasets.setdefault((path, None, None), dataset_at(path, request))
    return datasets


def _find(request: SourceRequest, hints: Hints, nesting: Nesting) -> list[SourceFiles]:
    """Find the datasets of a source, unless they were found already; recipes among them are nested."""
    datasets = find_sources(request, None if hints.source_files is None else hints.source_files.named)
    return [files._replace(within=nesting) if files.format.is_computed else files for files in datasets]


def _which(entry: SourceEntry, recipe: Place) -> str:
    """Return the note that names the source and the recipe of an error, because the error names a file."""
    return f'It is source "{printable(entry.name)}" of {printable(recipe)}'


def _tokenizer(file: RecipeFile) -> TokenizerHandle | None:
    if file.tokenizer is None:
        return None
    from tokfmt.text.tokenizer import load_tokenizer

    beside = file.where.parent / file.tokenizer if file.where.is_local else place_named(file.where, file.tokenizer)
    try:
        return load_tokenizer(beside.text if beside.exists() else file.tokenizer)
    except TokfmtError as error:
        error.add_note(f"It is the tokenizer of {printable(file.where)}")
        raise


def _opened(
    file: RecipeFile, entry: SourceEntry, handle: TokenizerHandle | None, hints: Hints, nesting: Nesting
) -> tuple[TokenSource | TextSource, list[Opened]]:
    """Open the datasets of one source, in the order of its paths; return the source and its parts."""
    request, stored = _request_of(file, entry, hints), file.pack == "stored"
    datasets = _find(request, hints, nesting) if stored else []
    if datasets:
        request = viewed(request, datasets[0].format, "samples")
    read = [entry.format, entry.options, entry.split, entry.select, entry.eos, stored]
    read += [file.to_eos, request.bos]  # Rows are compared with the separator that is put after them.
    names = [place_of(path).normalized().text for path in request.paths]
    key = key_of(VERSION, _READING, "source", names, read, sorted(hints.allow_loss), request.every_end)
    is_plain = not stored and handle is None and not entry.filter
    if is_plain and (cached := recalled_source(key, entry.name, request, entry.select)):
        return cached[0], [cached[1]]
    datasets = datasets or _find(request, hints, nesting)
    parts = open_datasets(request, Reading(handle, hints.jobs, collect_invalid=hints.collect_invalid), datasets)
    for part in parts:
        _refuse_other_recipe(part, handle, hints.allow_loss)
    kinds = _kinds(file, entry, parts)
    if "text" in kinds:
        return _text_source(file, entry, parts, datasets, handle), parts
    if handle is not None and entry.select is None and "tokenizers" not in hints.allow_loss:
        _refuse_beyond(parts, handle)
    gathers = bool(records_of(parts))
    parts = [_axis(part, hints.allow_loss) for part in parts]
    if not stored:
        parts = [_trimmed(part, file.to_eos) for part in parts]
    source = _token_source(file, entry, parts, hints.allow_loss, handle)
    nested = any(_inner(part.reader) for part in parts)
    files = snapshot(datasets)
    sizes = [_fingerprint(part.reader) for part in parts] if nested else [size for size, *_ in files.values()]
    inner_states = [[inner.state for inner in _inner(part.reader)] or None for part in parts]
    source = replace(
        source,
        paths=tuple(map(place_of, request.paths)),
        state=[str(file.where.parent.normalized()), on_disk(datasets), read, inner_states],
        facts={"format": [part.format.name for part in parts], "sizes": sizes, **source.facts},
        seen={**files, **source.seen},
    )
    is_lossy = any(_lost(parts, hints.allow_loss, cut=not stored))  # The cache stores no losses.
    if is_plain and kinds == {"ids"} and not (nested or gathers or is_lossy):
        source = remember_source(key, source, parts, files, nesting.unkept)
    return source, parts


def _request_of(file: RecipeFile, entry: SourceEntry, hints: Hints) -> SourceRequest:
    """Return the request that opens the datasets of a source."""
    paths = expanded([place_named(file.where, path) for path in entry.path])
    return SourceRequest(
        tuple(paths),
        entry.format,
        entry.eos,
        given_options(entry.options),
        entry.text,
        entry.split,
        hints.allow_loss,
        # Only inputs of labels = "starts" begin with another lead. Else a document keeps the one that it has.
        bos=entry.bos if file.convention == "starts" else "none",
        # Samples are read without a look at separators, so that these are looked at once, and the cache remembers it. A
        # store would be read as a whole: what it holds is looked at whenever it is read.
        every_end=hints.every_end or all(place_of(path).is_local for path in paths),
    )


def _token_source(
    file: RecipeFile,
    entry: SourceEntry,
    parts: Sequence[Opened],
    allow_loss: frozenset[str],
    handle: TokenizerHandle | None,
) -> TokenSource:
    """Return a source of token IDs; its state, and the facts on the files of its own, are still missing."""
    stored = file.pack == "stored"
    readers = axes_of(parts)
    _refuse_samples(file, readers, parts)
    if not stored:
        _refuse_unclear(parts)
        _refuse_borders(readers, parts, allow_loss)
    masked = _are_masked(readers, parts, allow_loss, stored=stored)
    if masked and not stored:  # the marks of contents state that separators which are added do not count
        readers = [reader if reader.marks_ends else ContentReader(dataset_of(reader)) for reader in readers]
    separators = sorted({part.separator.eos_id for part in parts if part.separator.eos_id is not None})
    if len(separators) > 1 and file.to_eos is None and file.separates:
        listed = ", ".join(map(str, separators))
        raise OptionError(f"its files have different separators ({listed}). {CHOOSE_SEPARATOR}")
    removed = tuple(sorted({eos_id for reader in readers for eos_id in _removed(reader)}))
    leads = tuple(sorted({part.bos_id for part in parts if part.bos_id is not None}))
    reader, inner = joined(readers, entry.select), [source for reader in readers for source in _inner(reader)]
    facts = {
        "counts": [reader.info.sequences, reader.info.tokens],
        "options": entry.options,
        **{key: value for key, value in (("eos", removed), ("bos", leads), ("masked", masked)) if value},
    }
    checksums = [manifest.output.get("xxh3_128") for part in parts for manifest in part.manifests]
    return TokenSource(
        entry.name,
        (),
        parts[0].format.name,
        reader,
        separators[0] if len(separators) == 1 else None,
        None,
        facts,
        _notes(entry, parts, readers, reader, handle),
        checksums=(*checksums, *(checksum for source in inner for checksum in source.checksums)),
        decoded=any(map(_is_decoded, readers)),
        masked=masked,
        removed=removed,
        leads=leads,
        seen={place: identity for source in inner for place, identity in source.seen.items()},
    )


def _kinds(file: RecipeFile, entry: SourceEntry, parts: Sequence[Opened]) -> set[str]:
    """Return the kinds of records that a source holds: "text", "ids" or both."""
    kinds = {"text" if part.reader.info.is_text else "ids" for part in parts}
    if (entry.filter or len(kinds) > 1) and not any(map(_holds_ids, parts)):
        kinds.discard("ids")  # "ids" is only the default of files without a record
    if "ids" in kinds and not all(rules.is_on_tokens for _, rules in filters_of(file, entry)):
        raise OptionError(
            "its filter has rules on text, but it holds token IDs. Use min_tokens, max_tokens and without alone, or "
            "give a source of text"
        )
    if "ids" in kinds and file.tokenizer is None:
        by = {rules.without.by for _, rules in filters_of(file, entry) if rules.without is not None}
        if "words" in by:
            raise OptionError(
                'its filter compares words, but it holds token IDs. Add tokenizer = "NAME" to the recipe, or by = '
                '"tokens" to the filter'
            )
    return kinds


def _holds_ids(part: Opened) -> bool:
    return part.records is None or (not part.records.info.is_text and part.records.count() > 0)


def _notes(
    entry: SourceEntry,
    parts: Sequence[Opened],
    readers: Sequence[TokenReader],
    chosen: TokenReader,
    handle: TokenizerHandle | None,
) -> tuple[str, ...]:
    """Return the notes on a source: those of its parts, an assumed tokenizer, and that it gives no sequence."""
    told = [
        in_keys(note) for part in parts for note in part.notes if note not in part.accepted
    ]  # Losses it has itself.
    notes = dict.fromkeys(told)
    stored = [made for part in parts for made in part.tokenizers if not part.format.is_computed]  # else noted there
    if handle is not None and None in stored:
        assumed = f'tokenizer = "{printable(handle.name)}"'
        notes[f"no manifest names the tokenizer that made its IDs; {assumed} is assumed"] = None
    count = sum(reader.info.sequences for reader in readers)
    if not count:
        notes["it has no sequences"] = None
    elif not chosen.info.sequences:
        notes[f'select = "{printable(entry.select)}" takes none of its {counted(count, "sequence")}'] = None
    return tuple(notes)


def _text_source(
    file: RecipeFile,
    entry: SourceEntry,
    parts: Sequence[Opened],
    datasets: Sequence[SourceFiles],
    handle: TokenizerHandle | None,
) -> TextSource:
    """Return a source that holds text. A command that stores the recipe prepares it."""
    for part in parts:
        if isinstance(part.reader, TextRecipe):
            raise OptionError("is a recipe with text. Store it first: tokfmt convert, or name its sources here")
        if _holds_ids(part):
            raise OptionError(f"{printable(part.paths[0])}: holds token IDs, and others of this source hold text")
    if file.pack == "stored":
        raise OptionError('it holds text, and pack = "stored" takes rows as they are')
    if handle is None:
        problem = 'it holds text, and the recipe names no tokenizer. Add tokenizer = "NAME" to the recipe'
        raise _NoTokenizerError(problem)
    filters = filters_of(file, entry)
    read = [entry.format, entry.options, entry.text, entry.select, repr(filters), file.dedup, file.seed, entry.tokens]
    chats = hold_chats(parts)
    tokenizer = handle.describe(chats=chats)
    facts = [
        [part.format.name for part in parts],
        [size for size, *_ in snapshot(datasets).values()],
        read,
        [tokenizer["digest"], tokenizer["special_tokens"], *([tokenizer.get("chat_template")] if chats else [])],
        unicodedata.unidata_version if filters else None,
    ]
    state = [str(file.where.parent.normalized()), on_disk(datasets), facts]
    eos_id = None if entry.eos == "none" else entry.eos if isinstance(entry.eos, int) else handle.eos_id
    return TextSource(entry, tuple(parts), filters, eos_id, state, facts)


def _axis(part: Opened, allow_loss: frozenset[str]) -> Opened:
    """Return a part with its token axis; gather records of token IDs first."""
    if not isinstance(part.reader, RecordReader):
        return part
    from tokfmt.source.ingest import as_stored, ingested  # A recipe of binary datasets encodes nothing.

    records = as_stored(part.reader)
    axis = ingested(records, None)
    skipped, path = axis.skipped, part.paths[0]
    if skipped.invalid and "invalid-lines" not in allow_loss and records.describes_lines:
        raise records.record_error(skipped.faults[0])
    losses = list[Loss]()
    if skipped.others:
        names = ", ".join(f'"{name}"' for name in sorted(skipped.fields)[:_NAMED])
        losses.append(Loss("fields", f"fields beside the IDs of {counted(skipped.others, 'record')} ({names})"))
        if "fields" not in allow_loss:
            raise LossyConversionError(str(path), losses)
    if skipped.invalid:
        losses.append(loss_in(path, "invalid-lines", counted(skipped.invalid, "invalid line")))
    axis.info = replace(axis.info, notes=(*records.info.notes, *axis.info.notes), lost=(*records.info.lost, *losses))
    return part._replace(reader=axis)


def _trimmed(part: Opened, to_eos: int | Literal["none"] | None) -> Opened:
    """Return a part whose rows do not end with the separator that is put after them, and do not begin with a lead."""
    reader, written = part.reader, to_eos if isinstance(to_eos, int) else None
    if isinstance(reader, RecordReader) or part.format.is_computed:
        return part
    stored_eos = part.separator.eos_id
    reader, notes = without_ends(part, reader, written if stored_eos is None else stored_eos)
    if part.bos_id is not None:
        reader, noted = without_leads(reader, part.bos_id, part.paths[0])
        notes += [note for note in noted if note not in part.notes]
    return part._replace(reader=reader, notes=(*part.notes, *notes))


def _refuse_samples(file: RecipeFile, readers: Sequence[TokenReader], parts: Sequence[Opened]) -> None:
    """Refuse samples of a recipe unless they are packed as stored, because they hold padding and cut sequences."""
    for reader, part in zip(readers, parts, strict=True):
        if isinstance(reader, Samples) and file.pack != "stored":
            raise FormatError(
                part.paths[0],
                "is a recipe of samples",
                remedy='pack = "stored" takes them as they are; or remove its '
                "seq_len, which makes it a recipe of documents",
            )


def _refuse_unclear(parts: Sequence[Opened]) -> None:
    """Refuse parts whose separator has to be named: nearly all of their sequences end with one ID, or with another."""
    for part in parts:
        if part.separator.source == "tokenizer":
            refuse_other_ends(part)
        unclear = None if part.dataset is None or part.separator.doubt else part.dataset.gap.unclear
        if unclear is not None:
            raise ConversionError(replace(unclear, path=printable(part.paths[0])).question)


def _refuse_borders(readers: Sequence[TokenReader], parts: Sequence[Opened], allow_loss: frozenset[str]) -> None:
    """Refuse borders inside rows, because cutting sequences loses them."""
    for reader, part in zip(readers, parts, strict=True):
        info = reader.info
        if info.segmented and info.sample_length is None and "inner-boundaries" not in allow_loss:
            raise FormatError(
                part.paths[0],
                "its rows are documents that were packed, and a recipe has no place for their borders",
                remedy='Without options = { view = "samples" } each is a sequence; '
                "--allow-loss inner-boundaries joins them",
            )
        if info.inner and "inner-boundaries" not in allow_loss:
            problem = f"states {boundaries_of(info.inner[0])}, and a recipe has no place for that"
            raise FormatError(part.paths[0], problem, remedy="--allow-loss inner-boundaries joins them")


def _are_masked(
    readers: Sequence[TokenReader], parts: Sequence[Opened], allow_loss: frozenset[str], *, stored: bool
) -> bool:
    """Return whether a source has loss masks beside its tokens that are not plain. Stored labels are not among them.
    Marks that cannot state masks or labels are an error, and so are those of samples, which can hold padding, in a
    recipe that cuts its sequences.
    """
    masked = False
    for reader, part in zip(readers, parts, strict=True):
        masks, path, info = _masks_of(reader.info), part.paths[0], reader.info
        labeled = has_labels(reader)
        if not masks or "loss-mask" in allow_loss or (stored and labeled):
            continue
        if reader.marks(0, 0) is None or (labeled and info.sample_length is not None):
            remedy = "--allow-loss loss-mask does without them"
            if labeled or info.nonstandard_masks:
                remedy = f'pack = "stored" takes its samples with their masks; {remedy}'
            raise FormatError(path, f"has {masks}", remedy=remedy)
        try:
            for a, b in windows(0, info.tokens if labeled else 0):
                reader.marks(a, b)  # labels can be other IDs than the tokens
        except ConversionError as error:
            raise FormatError(path, f"has {masks}: {error}") from error
        masked = True
    return masked


def _removed(reader: TokenReader) -> Iterator[int]:
    """Yield the separators that a reader of contents leaves out, or those that a recipe puts after its documents."""
    if isinstance(reader, Documents):
        yield from () if reader.eos_id is None else (reader.eos_id,)
        return
    for gap in dataset_of(reader).gap.each():
        if gap.id is not None and gap.stored and (gap.alone or gap.closed or not gap.looked):
            yield gap.id


def _fingerprint(reader: object) -> str | None:
    """Return the fingerprint of a nested recipe; None for any other reader."""
    return reader.fingerprint if isinstance(reader, (Samples, Documents)) else None


def _is_decoded(reader: TokenReader) -> bool:
    """Return True if a reader decodes tokens in blocks: if the file of its first token does not have it as it is."""
    if isinstance(reader, (Samples, Documents)):
        return any(source.decoded for source in reader.sources)
    return any(stored.length and stored.pieces(0, 1) is None for stored in dataset_of(reader).axis.readers())


def _inner(reader: object) -> Sequence[TokenSource]:
    """Return the sources of a nested recipe; nothing for any other reader."""
    return reader.sources if isinstance(reader, (Samples, Documents)) else ()
