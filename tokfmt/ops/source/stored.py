"""Describe opened datasets: which id separates their sequences, and which tokenizer made their ids.

The separator is known by, in this order: `--eos`; the manifest, or what the dataset itself states (facts); the
tokenizer; the format's convention; what the data shows. The last is a guess, and needs evidence: see `endings.Look`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tokfmt.core.errors import (
    ConversionError,
    CorruptError,
    SeparatorUnknownError,
    TokenizerMismatchError,
    TokfmtError,
)
from tokfmt.core.format import Format
from tokfmt.core.messages import Message, Option, marked
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import Damage, Info, Separators, TokenReader
from tokfmt.core.records import RecordReader
from tokfmt.core.text_format import printable
from tokfmt.ops.source.endings import Look
from tokfmt.ops.source.manifest import (
    Manifest,
    located_tokenizer,
)
from tokfmt.ops.source.partial import Partial
from tokfmt.ops.source.request import EosChoice, SourceFiles
from tokfmt.run.execute import NullProgress, Progress
from tokfmt.views.view import WithoutTrailing

if TYPE_CHECKING:
    from tokfmt.text.tokenizer import TokenizerHandle

_NAMED = 5
_OTHERWISE = "was made with another tokenizer, by its manifest"
_KEPT = Message(
    f"no separator known; sequences are kept as stored. {Option('eos', 'ID')} takes one away from their ends"
)
GIVEN, NO_SEPARATOR = Message(f"{Option('eos')}"), Message(f"{Option('eos', 'none')}")
"""How the separator is known if the user gives it, and if the user states that there is none."""


class Separator(NamedTuple):
    """A separator and how it is known.

    Attributes:
        eos_id: The id, or None when there is none.
        source: In words: "--eos", "tokenizer", "manifest of X", "stage1 convention", "every sequence ends with it" ...
        inferred: Nobody said so; the data shows it.
        doubt: Why an id that seems to be one is not taken for it, as a note; "" if none seems to be.
    """

    eos_id: int | None
    source: str = ""
    inferred: bool = False
    doubt: str = ""

    @property
    def guess(self) -> tuple[str, ...]:
        """A sentence that says what was guessed, if it was, or why nothing was."""
        if self.doubt:
            return (self.doubt,)
        guess = Message(f"separator {self.eos_id} inferred: {marked(self.source)}. {Option('eos', 'ID')} overrides it")
        return (guess,) if self.inferred else ()


class Source(NamedTuple):
    """An opened source: a token axis without separators, or records not yet tokenised.

    Attributes:
        paths: One path, or several that are one dataset.
        format: Its format.
        reader: TokenReader or RecordReader.
        separator: How its separator is known.
        notes: What a person should be told, guesses included.
        endings: Distinct last ids of sequences looked at; see `endings.Look`; None where no separators trail them.
        tokenizers: What the manifest of each path says of the tokenizer that made its ids; None where nothing does.
        left_out: What lies in directories and is not read, in words.
        damage: Of a source that is read in part, what is missing or not certain.
        partial: What is saved of it, and what is not; None of one that is whole.
        made_labels: Its manifest says that its labels and masks are those that a recipe made.
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
    made_labels: bool = False

    @property
    def remarks(self) -> tuple[str, ...]:
        """Of the notes those of the dataset itself: not of its manifest, or of what lies around it."""
        info = self.reader.info
        undivided = _undivided(info, self.separator) if isinstance(info, Info) else []
        return tuple(dict.fromkeys((*info.inferred, *info.notes, *self.separator.guess, *undivided)))


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
        SourceFiles(path, source.format, tuple(source.format.files(path)))
        for source in sources
        for path in source.paths
    ]


def notes_on_tokenizers(
    places: Sequence[Path],
    tokenizers: Sequence[Mapping[str, Any] | None],
    tokenizer: TokenizerHandle,
    allow_loss: frozenset[str],
) -> Iterator[str]:
    """Notes on sources that another tokenizer made, by their manifests.

    Raises:
        TokenizerMismatchError: There are, and nobody accepted that.
    """
    for path, made in zip(places, tokenizers, strict=True):
        if made is not None and made["digest"] != tokenizer.digest:
            if "tokenizers" not in allow_loss:
                what = (
                    f"{_OTHERWISE}: another file was at that path" if tokenizer.name == made.get("name") else _OTHERWISE
                )
                raise TokenizerMismatchError(path, what, _titled(tokenizer.describe()), _titled(made))
            yield f"{path.name} was made with the tokenizer {_titled(made)} and is read with {tokenizer.name}"


def _titled(made: Mapping[str, Any]) -> str:
    return f"{made.get('name') or 'of no name'} ({str(made['digest'])[:8]})"


def agreed_tokenizer(
    sources: Sequence[Source], tokenizer: TokenizerHandle | None, allow_loss: frozenset[str]
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
        if "tokenizers" not in allow_loss:
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
        return Separator(choice, GIVEN)
    if len(known) > 1:
        told = [f"{eos_id} in {printable(source.paths[0].name)}" for eos_id, source in known.items()]
        listed = ", ".join(told[:_NAMED]) + (f" and {len(told) - _NAMED:,} more" if len(told) > _NAMED else "")
        raise ConversionError(
            f"the sources have different separators ({listed}). Choose the target's with {Option('eos', 'ID')}"
        )
    return next(iter(known.values()), sources[0]).separator


def told(choice: EosChoice, paths: Sequence[Path], manifests: Sequence[Manifest]) -> Separator | None:
    """What is known for certain before a source is opened: --eos, or the manifest beside the source; else None."""
    if choice == "none":
        return Separator(None, NO_SEPARATOR)
    if choice is not None:
        return Separator(choice, GIVEN)
    for path, manifest in zip(paths, manifests, strict=True):
        if manifest.eos_id is not None:
            return Separator(manifest.eos_id, f"manifest of {path.name}")
    return None


def resolve(known: Separator | None, tokenizer_eos: int | None, stored: TokenReader, look: Look | None) -> Separator:
    """The separator of an opened source: what was told, what the format knows, the tokenizer's, what the data shows.

    Args:
        known: From `told`.
        tokenizer_eos: What a format that has a convention of its own was told in `Hints`.
        look: At the ends of its sequences; None where no separators trail them.
    """
    info = stored.info
    if known is not None:
        return known
    if info.eos_id is not None:
        return Separator(info.eos_id, info.eos_from or "format")
    if tokenizer_eos is not None:
        return Separator(tokenizer_eos, "tokenizer")
    if look is None or (eos_id := look.shown()) is None:
        return Separator(None)
    if look.is_swapped:
        return Separator(None, doubt=_swapped(eos_id, stored.info.dtype))
    return Separator(eos_id, f"{look.seen} with it, and none has it inside", inferred=True)


def _undivided(info: Info, separator: Separator) -> list[str]:
    """What is said of a stream that is read as one sequence because nothing says what separates its documents."""
    known = separator.eos_id is not None or separator.source == NO_SEPARATOR
    if known or not info.tokens or info.separators not in (Separators.AFTER, Separators.BEFORE):
        return []
    why = f"nothing says which id separates documents; {Option('eos', 'ID')} does"
    return [Message(f"read as one sequence of {info.tokens:,} tokens: {why}")]


def _swapped(eos_id: int, dtype: np.dtype[np.unsignedinteger]) -> Message:
    """What is said of sequences that all end with an id whose bytes stand in the wrong order."""
    other = dtype.type(eos_id).byteswap()
    return Message(
        "token IDs seem to be big-endian, where little-endian ones are expected: all sequences end with "
        f"{eos_id}, which is {other} with its bytes swapped. Nothing is changed; write the tokens "
        f"again, with bytes swapped. {Option('eos', eos_id)} takes them as they are"
    )


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

            watched = progress or NullProgress()
            watched.phase("finding separators", info.tokens, "tokens")
            return SplitAt(stored, eos_id, jobs=jobs, scanned=watched.advance), []
        if separator.source == NO_SEPARATOR:
            return stored, [Message(f"read as one sequence of {info.tokens:,} tokens ({NO_SEPARATOR.marked})")]
        if note := _undivided(info, separator):
            return stored, note
        raise SeparatorUnknownError(path, "a stream of tokens, and nothing says which id ends a document")
    if eos_id is None:
        if endings is not None and len(endings) == 1 and not separator.doubt and separator.source != NO_SEPARATOR:
            alike = int(endings[0])
            why = f"all end with {alike}, which may be a separator and may be content"
            either = f"{Option('eos', alike)} takes it away, {Option('eos', 'none')} keeps it"
            return stored, [Message(f"sequences are kept as stored: {why}. {either}")]
        return stored, [] if separator.doubt or separator.source == NO_SEPARATOR else [_KEPT]
    if endings is None or len(endings) != 1 or int(endings[0]) != eos_id:
        if eos_id != info.eos_id:
            return stored, [f"not every sequence ends with {eos_id}; sequences are kept as stored"]
        raise CorruptError(
            path,
            f"sequences do not end with the separator {eos_id} that the dataset states",
            remedy=f"{Option('eos', 'none')} reads the sequences as they are stored, with whatever ends them",
        )
    return WithoutTrailing(stored, eos_id, str(path)), []
