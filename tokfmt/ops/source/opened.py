"""Open datasets of any format: their options and manifest, and which id separates sequences.

The separator is known by, in this order: `--eos`; the manifest, or what the dataset itself states (facts); the
tokenizer; the format's convention; what the data shows. The last is a guess, and needs evidence: see `_shown`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokfmt.core.axis import Damage, Info, Layout, Separators, TokenReader, distinct, windows
from tokfmt.core.errors import (
    NO_DAMAGE,
    ConversionError,
    CorruptError,
    FormatError,
    OptionError,
    SeparatorUnknownError,
    TokenizerMismatchError,
    TokfmtError,
)
from tokfmt.core.format import Format, Hints, files_of
from tokfmt.core.options import given_options
from tokfmt.core.protocols import Continuing, Underlying
from tokfmt.core.ragged import Tokens
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import printable
from tokfmt.ops.source.discover import find_sources
from tokfmt.ops.source.manifest import (
    IGNORED,
    Manifest,
    as_written,
    count_contradiction,
    describes,
    located_tokenizer,
    manifest_of,
    manifests_beside,
    shrunk,
)
from tokfmt.ops.source.partial import Partial, closed, partial_of, readable
from tokfmt.ops.source.request import EosChoice, Found, Options, Path_, SourceFiles, SourceRequest, read_options
from tokfmt.run.execute import Progress, Silent
from tokfmt.views.view import WithoutTrailing

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_NAMED = 5
_LITTLE = 1 << 22  # tokens of a stream that is scanned whole, whatever is asked
_RUNS, _RUN = 64, 64  # sequences whose last ids are looked at: neighbours, so that one read serves many
_READ = 1 << 14  # tokens; reading on over so many costs less than another read
_INSIDE = 1 << 16  # tokens of a run that are looked through for a separator inside sequences
_ENOUGH = 8  # sequences that must end alike before that means anything
_OTHERWISE = "was made with another tokenizer, by its manifest"
_KEPT = "no separator known; sequences are kept as stored. --eos ID takes one away from their ends"


class Separator(NamedTuple):
    """A separator and how it is known.

    Attributes:
        eos_id: The id, or None when there is none.
        source: In words: "--eos", "tokenizer", "manifest of X", "stage1 convention", "every sequence ends with it" ...
        inferred: Nobody said so; the data shows it.
    """

    eos_id: int | None
    source: str = ""
    inferred: bool = False

    @property
    def guess(self) -> tuple[str, ...]:
        """A sentence that says what was guessed, if it was."""
        return (f"separator {self.eos_id} inferred: {self.source}. --eos ID overrides it",) if self.inferred else ()


class Source(NamedTuple):
    """An opened source: a token axis without separators, or records not yet tokenised.

    Attributes:
        paths: One path, or several that are one dataset.
        format: Its format.
        reader: TokenReader or RecordReader.
        separator: How its separator is known.
        notes: What a person should be told, guesses included.
        endings: Distinct last ids of sequences looked at; see `ends_of`; None where no separators trail them.
        tokenizers: What the manifest of each path says of the tokenizer that made its ids; None where nothing does.
        left_out: What lies in directories and is not read, in words.
        damage: Of a source that is read in part, what is missing or not certain.
        partial: What is saved of it, and what is not; None of one that is whole.
    """

    paths: tuple[Path, ...]
    format: Format
    reader: TokenReader | RecordReader
    separator: Separator
    notes: tuple[str, ...]
    endings: Tokens | None = None
    tokenizers: tuple[Mapping[str, Any] | None, ...] = ()
    left_out: tuple[str, ...] = ()
    damage: tuple[Damage, ...] = ()
    partial: Partial | None = None

    @property
    def remarks(self) -> tuple[str, ...]:
        """Of the notes those of the dataset itself: not of its manifest, or of what lies around it."""
        return tuple(dict.fromkeys((*self.reader.info.inferred, *self.reader.info.notes, *self.separator.guess)))


def paths_of(sources: Iterable[Source]) -> list[Path]:
    """The paths of all sources, in order."""
    return [path for source in sources for path in source.paths]


def tokenizer_of(name: str | None, **how: Any) -> TokenizerHandle | None:
    """The tokenizer of that name, directory or file, if there is one; `how` as for `load_tokenizer`.

    What tokenizers need is imported for who names one.

    Raises:
        TokfmtError: It cannot be loaded.
    """
    if name is None:
        return None
    from tokfmt.text.tokenizer import load_tokenizer

    return load_tokenizer(name, **how)


def files_of_sources(sources: Iterable[Source]) -> list[SourceFiles]:
    """The files of datasets that are open."""
    return [
        SourceFiles(path, source.format, tuple(files_of(source.format, path)))
        for source in sources
        for path in source.paths
    ]


def _refuse_others(one: SourceFiles, drop: frozenset[str]) -> None:
    """Refuse a directory that holds more than its dataset.

    Raises:
        FormatError: Nobody said what of that.
    """
    if one.left_out and "other-files" not in drop:
        deeper = "--recursive reads the directories below as well; " if one.below else ""
        what = f"is read as {one.format.name}, and holds {one.left_out}"
        raise FormatError(one.path, what, remedy=f"{deeper}--drop other-files leaves out what is not read")


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


def open_one(
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    most: int | None = None,
) -> Source:
    """Open what a request names where it has to be one dataset; the arguments are those of `open_sources`.

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
    return open_found(group, request, tokenizer, jobs, progress, most=most)


def with_remedy(error: FormatError, request: SourceRequest) -> FormatError:
    """An error of a damaged source; its remedy names --allow-partial where that may save something."""
    if request.allow_partial or isinstance(error, NO_DAMAGE):
        return error
    with suppress(TokfmtError, OSError):
        for group in _datasets(find_sources(request)):
            if not any(_is_of(one, Path(error.path)) for one in group):
                continue
            if _saves(open_stored(group, replace(request, allow_partial=True), checked=False)):
                error.advise("--allow-partial saves the sequences that are whole")
    return error


def _is_of(one: SourceFiles, file: Path) -> bool:
    """Whether a file belongs to a dataset, a lost one as well."""
    return file in (one.path, *(one.files or ())) or (one.path.is_dir() and one.path in file.parents)


def _saves(source: Source) -> bool:
    """Whether something of a damaged dataset seems to be whole; of a stream, whether a separator closes a document."""
    reader, eos_id = source.reader, source.separator.eos_id
    if isinstance(reader, RecordReader):
        return bool(reader.info.size)
    if not reader.info.separators.alone or eos_id is None:
        return bool(reader.info.sequences)
    closing = 2 if reader.info.separators is Separators.BEFORE else 1
    for a, b in windows(0, reader.info.tokens):
        closing -= int(np.count_nonzero(reader.tokens(a, b) == eos_id))
        if closing <= 0:
            return True
    return False


def _datasets(found: Sequence[SourceFiles]) -> list[Sequence[SourceFiles]]:
    """Sources as datasets: files of one join; directories are datasets of their own, one after the other."""
    same = all(one.format is found[0].format for one in found) and not any(one.path.is_dir() for one in found)
    together = len(found) > 1 and found[0].format.joins and same
    return [found] if together else [[one] for one in found]


def open_source(
    paths: Sequence[Path_],
    *,
    format: str | None = None,  # noqa: A002 - the word users know
    eos: EosChoice = None,
    options: Options = (),
    drop: Iterable[str] = (),
    jobs: int | None = None,
    collect: bool = False,
) -> Source:
    """Open one dataset (several paths only for formats whose files join), without more said of it.

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError.
    """
    request = SourceRequest(tuple(paths), format, eos, given_options(options), drop=frozenset(drop))
    return open_found(find_sources(request), request, jobs=jobs, collect=collect)


def open_found(
    found: Sequence[SourceFiles],
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    progress: Progress | None = None,
    *,
    collect: bool = False,
    most: int | None = None,
) -> Source:
    """Open one dataset; several only of a format whose files join.

    Raises:
        DetectionError, FormatError, OptionError, SeparatorUnknownError, TokenizerMismatchError.
    """
    source = open_stored(found, request, tokenizer, jobs, collect=collect)
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


def open_stored(
    found: Sequence[SourceFiles],
    request: SourceRequest,
    tokenizer: TokenizerHandle | None = None,
    jobs: int | None = None,
    *,
    collect: bool = False,
    checked: bool = True,
) -> Source:
    """Open one dataset as it is stored: its reader's axis still has the separators.

    With `SourceRequest.allow_partial`, what can only be read in part is read to find out, if `checked`.

    Raises:
        DetectionError, FormatError, OptionError, TokenizerMismatchError.
    """
    format_, places = found[0].format, tuple(one.path for one in found)
    said, ignored = manifests_beside(found, request)
    request, written = as_written(format_, request, said)
    options = read_options(format_, request)
    known, drop = told(request.eos, places, said), request.drop
    no_eos = known is not None and known.eos_id is None
    default = tokenizer.eos_id if tokenizer is not None else None
    recipes = partial(_open_recipe, found[0].named)
    hints = Hints(known.eos_id if known else None, drop, no_eos, jobs, collect, default, recipes, request.allow_partial)
    stored, damage = format_.open(places, options, hints), tuple[Damage, ...]()
    if request.allow_partial and checked:
        stored, damage = _readable(stored, found, said)
    for one in found:
        _refuse_others(one, drop)
    info, left_out = stored.info, tuple(one.left_out for one in found if one.left_out)
    notes = (*ignored, *written, *info.inferred, *info.notes, *(f"left out: {what}" for what in left_out))
    tokenizers = tuple(manifest.tokenizer for manifest in said)
    notes += tuple(note for manifest in said if (note := manifest.partial))
    if isinstance(stored, RecordReader) and stored.info.kind == "text":  # encoded by whoever reads it
        separator = told(request.eos, (), ()) or Separator(default, "tokenizer" if default is not None else "")
        separator = _stated(stored, format_) or separator
        return Source(places, format_, stored, separator, notes, left_out=left_out, damage=damage)
    if tokenizer is not None:
        notes += tuple(_made_otherwise(places, tokenizers, tokenizer, drop))
    if isinstance(stored, RecordReader):
        separator = _stated(stored, format_) or known or Separator(default, "tokenizer" if default is not None else "")
        return Source(places, format_, stored, separator, notes, None, tokenizers, left_out, damage)
    endings = ends_of(stored) if stored.info.separators is Separators.TRAILING else None
    separator = resolve(known, default, stored, endings)
    notes = (*notes, *separator.guess)
    return Source(places, format_, stored, separator, notes, endings, tokenizers, left_out, damage)


def _readable(
    stored: TokenReader | RecordReader, found: Sequence[SourceFiles], said: Sequence[Manifest]
) -> tuple[TokenReader | RecordReader, tuple[Damage, ...]]:
    """What of a dataset that may be damaged is certain, and what is wrong with the rest."""
    damage = stored.info.damage
    if not isinstance(stored, RecordReader):
        stored, more = readable(stored)
        damage += more
    signs = (shrunk(one, manifest) for one, manifest in zip(found, said, strict=True))
    return stored, (*damage, *(sign for sign in signs if sign is not None))


def _stated(records: RecordReader, format_: Format) -> Separator | None:
    """The separator that records state themselves: those of a recipe do."""
    eos_id = records.info.eos_id
    return None if eos_id is None else Separator(eos_id, format_.name)


def _open_recipe(named: Found | None, file: Any, hints: Hints) -> TokenReader | RecordReader:
    from tokfmt.ops.source.recipe import open_recipe

    return open_recipe(file, hints, named)


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
    wrong = contradicted(source, info.sequences, info.tokens) if isinstance(info, Info) else None
    if wrong is None:
        return source
    if not request.ignore_manifest:
        raise wrong
    if any(IGNORED in note for note in source.notes):  # its files contradict it already
        return source
    return source._replace(notes=(*source.notes, f"the dataset {wrong.what}; {IGNORED}"))


def _made_otherwise(
    places: Sequence[Path],
    tokenizers: Sequence[Mapping[str, Any] | None],
    tokenizer: TokenizerHandle,
    drop: frozenset[str],
) -> Iterator[str]:
    """Notes on sources that another tokenizer made, by their manifests.

    Raises:
        TokenizerMismatchError: There are, and nobody accepted that.
    """
    for path, made in zip(places, tokenizers, strict=True):
        if made is not None and made["digest"] != tokenizer.digest:
            if "tokenizers" not in drop:
                what = (
                    f"{_OTHERWISE}: another file was at that path" if tokenizer.name == made.get("name") else _OTHERWISE
                )
                raise TokenizerMismatchError(path, what, _titled(tokenizer.describe()), _titled(made))
            yield f"{path.name} was made with the tokenizer {_titled(made)} and is read with {tokenizer.name}"


def _titled(made: Mapping[str, Any]) -> str:
    return f"{made.get('name') or 'of no name'} ({str(made['digest'])[:8]})"


def agreed_tokenizer(
    sources: Sequence[Source], tokenizer: TokenizerHandle | None, drop: frozenset[str]
) -> tuple[Mapping[str, Any] | None, str]:
    """What made the ids of all sources, None if that is not known or not the same; and what differs, in words.

    Raises:
        TokenizerMismatchError: The sources were made with several, and nobody accepted that.
    """
    named = tokenizer.describe() if tokenizer is not None else None
    made: dict[str, tuple[Path, Mapping[str, Any]]] = {}
    unknown = False
    for source in sources:
        for path, stated in zip(source.paths, source.tokenizers or (None,) * len(source.paths), strict=True):
            one = stated or named
            unknown |= one is None
            if one is not None:
                made.setdefault(str(one["digest"]), (path, one))
    if len(made) > 1:
        (_, first), (path, other) = list(made.values())[:2]
        if "tokenizers" not in drop:
            raise TokenizerMismatchError(path, _OTHERWISE, _titled(first), _titled(other))
        return None, f"sources of {len(made)} tokenizers: {', '.join(_titled(one) for _, one in made.values())}"
    if unknown or not made:
        return None, ""
    return named or next(iter(made.values()))[1], ""


def manifest_tokenizer(sources: Sequence[Source]) -> TokenizerHandle | None:
    """What made the ids of all sources, by their manifests, where this machine has it still as it was."""
    made, _ = agreed_tokenizer(sources, None, frozenset({"tokenizers"})) if sources else (None, "")
    if made is None:
        return None
    with suppress(TokfmtError):
        found = tokenizer_of(located_tokenizer(sources[0].paths[0]).place)
        return found if found is not None and found.digest == made["digest"] else None
    return None


def agreed_separator(sources: Sequence[Source], choice: EosChoice) -> Separator:
    """The separator that the target will use: what the user said, else what all sources agree on.

    Raises:
        ConversionError: Sources have different separators and nobody chose.
    """
    known: dict[int, Source] = {}
    for source in sources:
        if source.separator.eos_id is not None:
            known.setdefault(source.separator.eos_id, source)
    if choice is not None and choice != "none":
        return Separator(choice, "--eos")
    if len(known) > 1:
        told = [f"{eos_id} in {printable(source.paths[0].name)}" for eos_id, source in known.items()]
        listed = ", ".join(told[:_NAMED]) + (f" and {len(told) - _NAMED:,} more" if len(told) > _NAMED else "")
        raise ConversionError(f"the sources have different separators ({listed}). Choose the target's with --eos ID")
    return next(iter(known.values()), sources[0]).separator


def told(choice: EosChoice, paths: Sequence[Path], manifests: Sequence[Manifest]) -> Separator | None:
    """What is known for certain before a source is opened: --eos, or the manifest beside the source; else None."""
    if choice == "none":
        return Separator(None, "--eos none")
    if choice is not None:
        return Separator(choice, "--eos")
    for path, manifest in zip(paths, manifests, strict=True):
        if manifest.eos_id is not None:
            return Separator(manifest.eos_id, f"manifest of {path.name}")
    return None


def resolve(
    known: Separator | None, tokenizer_eos: int | None, stored: TokenReader, endings: Tokens | None
) -> Separator:
    """The separator of an opened source: what was told, what the format knows, the tokenizer's, what the data shows.

    Args:
        known: From `told`.
        tokenizer_eos: What a format that has a convention of its own was told in `Hints`.
        endings: From `ends_of`.
    """
    info = stored.info
    if known is not None:
        return known
    if info.eos_id is not None:
        return Separator(info.eos_id, info.eos_from or "format")
    if tokenizer_eos is not None:
        return Separator(tokenizer_eos, "tokenizer")
    return _shown(stored, endings)


def _shown(stored: TokenReader, endings: Tokens | None) -> Separator:
    """The id that the data shows to be the separator: at least 8 sequences end with it, none looked at has it inside.

    Texts that all end with a full stop, or one text alone, show nothing: what would be taken away there is content.
    """
    count = stored.info.sequences
    if endings is None or len(endings) != 1 or count < _ENOUGH:
        return Separator(None)
    eos_id = int(endings[0])
    for first in _starts(count):
        bounds = stored.offsets(first, min(first + _RUN, count))
        start, stop = max(int(bounds[0]), int(bounds[-1]) - _INSIDE), int(bounds[-1])
        ends = int(np.count_nonzero(bounds[1:] > start))
        if np.count_nonzero(stored.tokens(start, stop) == eos_id) > ends:
            return Separator(None)
    return Separator(eos_id, "every sequence ends with it, and none has it inside", inferred=True)


def without_separators(
    stored: TokenReader,
    separator: Separator,
    endings: Tokens | None,
    path: Path,
    jobs: int | None = None,
    progress: Progress | None = None,
) -> tuple[TokenReader, list[str]]:
    """The axis that commands see, and notes on what was decided. Streams are scanned, by `jobs` threads.

    Raises:
        SeparatorUnknownError: A stream, and nothing says where its documents end.
        CorruptError: The dataset states a separator, and not every sequence ends with it.
    """
    info, eos_id = stored.info, separator.eos_id
    if info.separators is Separators.NONE or not info.tokens:
        return stored, []
    if info.separators.alone:
        if eos_id is not None:
            from tokfmt.views.view import SplitAt  # and its pool of threads

            watched = progress or Silent()
            watched.phase("finding separators", info.tokens, "tokens")
            return SplitAt(stored, eos_id, jobs=jobs, scanned=watched.advance), []
        if separator.source == "--eos none":
            return stored, [f"read as one sequence of {info.tokens:,} tokens (--eos none)"]
        if info.separators is not Separators.BETWEEN:
            why = "nothing says which id separates documents; --eos ID does"
            return stored, [f"read as one sequence of {info.tokens:,} tokens: {why}"]
        raise SeparatorUnknownError(path, "a stream of tokens, and nothing says which id ends a document")
    if eos_id is None:
        if endings is not None and len(endings) == 1 and separator.source != "--eos none":
            alike = int(endings[0])
            why = f"all end with {alike}, which may be a separator and may be content"
            return stored, [f"sequences are kept as stored: {why}. --eos {alike} takes it away, --eos none keeps it"]
        return stored, [] if separator.source == "--eos none" else [_KEPT]
    if endings is None or len(endings) != 1 or int(endings[0]) != eos_id:
        if eos_id != info.eos_id:
            return stored, [f"not every sequence ends with {eos_id}; sequences are kept as stored"]
        raise CorruptError(
            path, f"sequences do not end with the separator {eos_id} that the dataset states",
            remedy="--eos none reads the sequences as they are stored, with whatever ends them",
        )  # fmt: skip
    return WithoutTrailing(stored, eos_id, str(path)), []


def ends_of(axis: TokenReader) -> Tokens | None:
    """Distinct last ids of up to 4,096 sequences, in runs spread over the dataset.

    What is not looked at here is looked at when it is read: WithoutTrailing raises on the first exception.

    Returns:
        info.dtype[distinct], or None: there is no sequence, or one of those looked at is empty.
    """
    count, found = axis.info.sequences, []
    for first in _starts(count):
        last = _last_within(axis, first, min(first + _RUN, count))
        if last is None:
            return None
        found.append(last)
    return distinct(np.concatenate(found)) if found else None


def _starts(count: int) -> list[int]:
    """Where the runs begin that are looked at, of so many sequences."""
    if not count:
        return []
    starts: list[int] = np.linspace(0, max(count - _RUN, 0), min(-(-count // _RUN), _RUNS)).astype(np.int64).tolist()
    return starts


def _last_within(stored: TokenReader, first: int, last: int) -> Tokens | None:
    bounds = stored.offsets(first, last)
    if not np.diff(bounds).all():
        return None
    ends, begin = bounds[1:] - 1, int(bounds[1]) - 1
    if ends[-1] - begin > len(ends) * _READ:
        return np.concatenate([stored.tokens(at, at + 1) for at in ends.tolist()])
    return stored.tokens(begin, int(bounds[-1]))[ends - begin]
