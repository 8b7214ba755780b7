"""Open datasets of any format, recipes among them. Every command opens its sources here.

`open_sources` opens what a request names, `open_one` expects one dataset. Both return readers without separators.
`open_stored` returns the reader of the format itself, whose axis still has the separators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tokfmt.core import listing
from tokfmt.core.errors import NO_DAMAGE, CorruptError, FormatError, OptionError, SeparatorUnknownError, TokfmtError
from tokfmt.core.format import Format, Hints
from tokfmt.core.messages import Option, allowing
from tokfmt.core.options import given_options
from tokfmt.core.protocols import Continuing, Screened, Underlying
from tokfmt.core.reader import Damage, Info, Layout, Separators, TokenReader, windows
from tokfmt.core.records import RecordReader, has_records
from tokfmt.core.text_format import printable
from tokfmt.ops.source.discover import find_sources
from tokfmt.ops.source.endings import Look
from tokfmt.ops.source.manifest import (
    IGNORED,
    Manifest,
    as_written,
    count_contradiction,
    describes,
    manifest_of,
    manifests_beside,
    shrunk,
)
from tokfmt.ops.source.partial import closed, partial_of, readable
from tokfmt.ops.source.request import EosChoice, Found, Options, Path_, SourceFiles, SourceRequest, read_options
from tokfmt.ops.source.stored import Separator, Source, notes_on_tokenizers, resolve, told, without_separators
from tokfmt.run.execute import Progress
from tokfmt.views.view import WithoutTrailing

if TYPE_CHECKING:
    from tokfmt.ops.source.draft import TextRecipe
    from tokfmt.recipes.documents import Documents
    from tokfmt.recipes.language import RecipeFile
    from tokfmt.recipes.samples import Samples
    from tokfmt.text.tokenizer import TokenizerHandle


_LITTLE = 1 << 22  # tokens of a stream that is scanned whole, whatever is asked
_TRIED = 16  # sequences that are read to find whether any can be


def _refuse_others(one: SourceFiles, allow_loss: frozenset[str]) -> None:
    """Refuse a directory that holds more than its dataset.

    Raises:
        FormatError: Nobody said what of that.
    """
    if one.left_out and "other-files" not in allow_loss:
        deeper = f"{Option('recursive')} reads the directories below as well; " if one.below else ""
        what = f"is read as {one.format.name}, and holds {one.left_out}"
        raise FormatError(one.path, what, remedy=f"{deeper}{allowing('other-files')} leaves out what is not read")


@listing.kept()
def open_sources(
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    found: Sequence[SourceFiles] | None = None,
    collect: bool = False,
    most: int | None = None,
) -> list[Source]:
    """Open every source; files of one format that join (blocks, samples, JSONL) are opened together.

    Args:
        request: What the user says of them.
        tokenizer: Which one is in use: its end of text, and whether it is the one that made them.
        jobs: Threads that scan streams.
        progress: Told how far that is.
        found: From `find_sources`, if that was called already.
        collect: Records with trouble are set aside, not raised; see `Hints`.
        most: So many sequences are enough: a stream is scanned no farther.

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError, TokenizerMismatchError.
    """
    found = find_sources(request) if found is None else found
    sources = [
        open_found(group, request, tokenizer, jobs, progress, collect=collect, most=most) for group in _datasets(found)
    ]
    for before, after in pairwise(sources):
        _check_apart(before, after)
    return sources


def _check_apart(before: Source, after: Source) -> None:
    """Refuse datasets of which one may go on in the next.

    Raises:
        FormatError: A token would be repeated, or a document cut.
    """
    first, second = _stored_of(before), _stored_of(after)
    if isinstance(first, Continuing):
        first.check_ends_before(second, before.separator.eos_id)


def _stored_of(source: Source) -> Any:
    """The first reader beneath all views."""
    reader: Any = source.reader
    while isinstance(reader, Underlying):
        reader = reader.readers()[0]
    return reader


@listing.kept()
def open_one(
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    most: int | None = None,
    few: bool = False,
) -> Source:
    """Open what a request names where it has to be one dataset.

    The arguments are those of `open_sources`; for `few`, see `Hints`.

    Raises:
        OptionError: A pattern, or a directory with `recursive`, names several.
        DetectionError, FormatError, SeparatorUnknownError, TokenizerMismatchError.
    """
    group, *others = _datasets(find_sources(request))
    if others:
        first, second = printable(group[0].path), printable(others[0][0].path)
        raise OptionError(
            f"{printable(request.paths[0])}: names {1 + len(others):,} datasets, {first}, {second} ...: expected one. "
            "Name one, or convert them to one first"
        )
    return open_found(group, request, tokenizer, jobs, progress, most=most, few=few)


def with_remedy(error: FormatError, request: SourceRequest) -> FormatError:
    """An error of a damaged source; its remedy names --allow-partial where that may save something."""
    if (
        request.allow_partial
        or isinstance(error, NO_DAMAGE)
        or (error.remedy and error.remedy.has_option("allow-partial"))
    ):
        return error
    with suppress(TokfmtError, OSError):
        for group in _datasets(find_sources(request)):
            if not any(_is_of(one, Path(error.path)) for one in group):
                continue
            if _saves(open_stored(group, replace(request, allow_partial=True), checked=False)):
                error.advise(f"{Option('allow-partial')} saves the sequences that are whole")
    return error


def _is_of(one: SourceFiles, file: Path) -> bool:
    """Whether a file belongs to a dataset, a lost one as well."""
    return file in (one.path, *(one.files or ())) or (listing.is_dir(one.path) and one.path in file.parents)


def _saves(source: Source) -> bool:
    """Whether something of a damaged dataset seems to be whole; of a stream, whether a separator closes a document."""
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
    """Whether some sequence can be read, of a few that are spread over a dataset."""
    count = reader.info.sequences
    for number in dict.fromkeys(np.linspace(0, count - 1, _TRIED).astype(np.int64).tolist() if count else []):
        start, stop = reader.offsets(number, number + 1).tolist()
        with suppress(FormatError):
            for a, b in windows(start, stop):
                reader.tokens(a, b)
            return True
    return False


def _datasets(found: Sequence[SourceFiles]) -> list[Sequence[SourceFiles]]:
    """Sources as datasets: files of one join; directories are datasets of their own, one after the other."""
    same = all(one.format is found[0].format for one in found) and not any(listing.is_dir(one.path) for one in found)
    together = len(found) > 1 and found[0].format.joins and same
    return [found] if together else [[one] for one in found]


def open_source(
    paths: Sequence[Path_],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    eos: EosChoice = None,
    options: Options = (),
    allow_loss: Iterable[str] = (),
    jobs: int | None = None,
    collect: bool = False,
) -> Source:
    """Open one dataset (several paths only for formats whose files join), without more said of it.

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError.
    """
    request = SourceRequest(tuple(paths), format, eos, given_options(options), allow_loss=frozenset(allow_loss))
    return open_found(find_sources(request), request, jobs=jobs, collect=collect)


@listing.kept()
def open_found(
    found: Sequence[SourceFiles],
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    collect: bool = False,
    most: int | None = None,
    few: bool = False,
) -> Source:
    """Open one dataset; several only of a format whose files join.

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError, TokenizerMismatchError.
    """
    source = open_stored(found, request, tokenizer, jobs, collect=collect, most=most, few=few)
    if isinstance(source.reader, RecordReader):
        return _told_partial(source, found, request)
    eos_id = source.separator.eos_id
    info = source.reader.info
    if most is not None and eos_id is not None and info.separators is Separators.BETWEEN and info.tokens > _LITTLE:
        from tokfmt.views.view import Beginning, SplitAt

        beginning = Beginning(source.reader, eos_id, most)
        if not beginning.whole:
            return source._replace(reader=SplitAt(beginning, eos_id, jobs=jobs))
    stored = source.reader
    reader, decided = without_separators(stored, source.separator, source.endings, source.paths[0], jobs, progress)
    source = source._replace(reader=reader, notes=(*source.notes, *decided))
    if isinstance(reader, WithoutTrailing):  # what is lost is counted without separators as well
        source = source._replace(damage=tuple(one.without_separators() for one in source.damage))
    if request.allow_partial and stored.info.separators.alone:
        source = _closed(source, stored, found)
    return _told_partial(source, found, request) if source.damage else counted(source, request)


def _closed(source: Source, stored: TokenReader, found: Sequence[SourceFiles]) -> Source:
    """A stream whose last sequence is there only if a separator closes it, or a manifest says that all is there.

    Raises:
        SeparatorUnknownError: Nothing says which id that is.
    """
    whole = all(one.files and describes(manifest_of(one), one.format, one.path) for one in found)
    if not isinstance(source.reader, TokenReader) or (whole and not source.damage):
        return source
    if source.separator.eos_id is None:
        raise SeparatorUnknownError(source.paths[0], "nothing says where its sequences end, and it may be cut")
    reader, lost = closed(stored, source.reader, source.separator.eos_id)
    return source if lost is None else source._replace(reader=reader, damage=(*source.damage, lost))


def _told_partial(source: Source, found: Sequence[SourceFiles], request: SourceRequest) -> Source:
    """A source with what is known of its damage.

    Raises:
        TruncatedError: Nothing of it is certain.
    """
    counts: Mapping[str, Any] = {}
    if len(found) == 1 and not request.ignore_manifest:
        manifest = manifest_of(found[0])
        if manifest.eos_id == source.separator.eos_id and manifest.content.get("format") == source.format.name:
            counts = manifest.counts(getattr(source.reader.info, "split", None))
    partial = partial_of(source.paths[0], len(source.paths) - 1, source.reader, source.damage, counts)
    return source if partial is None else source._replace(partial=partial, notes=(*source.notes, partial.sentence()))


@listing.kept()
def open_stored(
    found: Sequence[SourceFiles],
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    *,
    collect: bool = False,
    checked: bool = True,
    most: int | None = None,
    few: bool = False,
) -> Source:
    """Open one dataset as it is stored: its reader's axis still has the separators.

    With `SourceRequest.allow_partial`, what can only be read in part is read to find out, if `checked`; else nothing is
    read beyond what opening takes.

    Raises:
        DetectionError, FormatError, OptionError, TokenizerMismatchError.
    """
    format_, places = found[0].format, tuple(one.path for one in found)
    said, ignored = manifests_beside(found, request)
    request, written = as_written(format_, request, said)
    options = read_options(format_, request)
    known, allow_loss = told(request.eos, places, said), request.allow_loss
    no_eos = known is not None and known.eos_id is None
    default = tokenizer.eos_id if tokenizer is not None else None
    recipes = partial(_recipe_reader, found[0].named)
    hints = Hints(
        known.eos_id if known else None,
        allow_loss,
        no_eos,
        jobs,
        collect,
        default,
        recipes,
        request.allow_partial,
        few,
        most,
    )
    stored, damage = format_.open(places, options, hints), tuple[Damage, ...]()
    if request.allow_partial and checked:
        stored, damage = _readable(stored, found, said)
    for one in found:
        _refuse_others(one, allow_loss)
    info, left_out = stored.info, tuple(one.left_out for one in found if one.left_out)
    notes = (*ignored, *written, *info.inferred, *info.notes, *(f"left out: {what}" for what in left_out))
    tokenizers = tuple(manifest.tokenizer for manifest in said)
    notes += tuple(note for manifest in said if (note := manifest.partial))
    if isinstance(stored, RecordReader) and stored.info.kind == "text":  # encoded by whoever reads it
        separator = told(request.eos, (), ()) or Separator(default, "tokenizer" if default is not None else "")
        separator = _stated(stored, format_) or separator
        return Source(places, format_, stored, separator, notes, left_out=left_out, damage=damage)
    if tokenizer is not None:
        notes += tuple(notes_on_tokenizers(places, tokenizers, tokenizer, allow_loss))
    if isinstance(stored, RecordReader):
        separator = _stated(stored, format_) or known or Separator(default, "tokenizer" if default is not None else "")
        return Source(places, format_, stored, separator, notes, None, tokenizers, left_out, damage)
    trailing = checked and stored.info.separators is Separators.TRAILING
    look = Look(stored, few=few, most=most) if trailing else None
    separator, endings = resolve(known, default, stored, look), None if look is None else look.ids
    notes = (*notes, *separator.guess)
    made = all(manifest.made_labels for manifest in said)
    return Source(places, format_, stored, separator, notes, endings, tokenizers, left_out, damage, made_labels=made)


def _readable(
    stored: TokenReader | RecordReader, found: Sequence[SourceFiles], said: Sequence[Manifest]
) -> tuple[TokenReader | RecordReader, tuple[Damage, ...]]:
    """What of a dataset that may be damaged is certain, and what is wrong with the rest."""
    damage = stored.info.damage
    if not isinstance(stored, RecordReader):
        stored, more = readable(stored)
        damage += more
    elif isinstance(stored, Screened):
        damage += tuple(stored.damaged_records())
    signs = (shrunk(one, manifest) for one, manifest in zip(found, said, strict=True))
    return stored, (*damage, *(sign for sign in signs if sign is not None))


def _stated(records: RecordReader, format_: Format) -> Separator | None:
    """The separator that records state themselves: those of a recipe do."""
    eos_id = records.info.eos_id
    return None if eos_id is None else Separator(eos_id, format_.name)


def open_recipe(
    file: RecipeFile, hints: Hints, named: Found | None = None
) -> tuple[Samples | Documents | TextRecipe, list[Source]]:
    """Open a recipe; returns its reader, and its sources. The arguments are those of `ops.source.recipe.assemble`.

    Raises:
        TokfmtError: A source cannot be opened, or they do not go together.
    """
    from tokfmt.ops.source.recipe import assemble

    return assemble(file, hints, open_sources, named)


def _recipe_reader(named: Found | None, file: Any, hints: Hints) -> TokenReader | RecordReader:
    return open_recipe(file, hints, named)[0]


def text_recipe_of(source: Source) -> TextRecipe | None:
    """Return the recipe of text that a source is, whose samples do not exist yet; None for any other source."""
    if not source.format.computed:
        return None
    from tokfmt.ops.source.draft import TextRecipe

    return source.reader if isinstance(source.reader, TextRecipe) else None


def contradicted(source: Source, sequences: int, tokens: int | None) -> CorruptError | None:
    """How the manifest of a source contradicts what was counted in it, where both count the same things."""
    reader = source.reader
    if len(source.paths) > 1 or isinstance(reader, RecordReader):
        return None
    split, samples = reader.info.split, reader.info.layout is Layout.SAMPLES
    return count_contradiction(source.paths[0], split, (sequences, tokens), source.separator.eos_id, samples=samples)


def counted(source: Source, request: SourceRequest) -> Source:
    """An opened source whose counts were compared with its manifest's.

    Raises:
        CorruptError: They differ.
    """
    info = source.reader.info
    if not isinstance(info, Info) or info.beginning:
        return source
    wrong = contradicted(source, info.sequences, info.tokens)
    if wrong is None:
        return source
    if not request.ignore_manifest:
        raise wrong
    if any(IGNORED in note for note in source.notes):  # its files contradict it already
        return source
    return source._replace(notes=(*source.notes, f"the dataset {wrong.what}; {IGNORED}"))


def with_named(one: SourceFiles) -> SourceFiles:
    """A recipe, with the datasets that it names."""
    from tokfmt.ops.source.recipe import named_by

    return one._replace(named=named_by(one.path))
