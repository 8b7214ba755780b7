"""Find the sequences of a damaged dataset that are certain to be complete (`--allow-partial`), and count the others.

On opening, a format leaves out the sequences that its files show to be damaged (`Hints.allow_partial`,
`Info.damage`). The other signs of damage are the same for all formats: a manifest states more bytes than there are,
tokens cannot be read, or no separator closes the last sequence of a stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.reader import Damage, Layout, Separators, TokenReader, windows
from tokfmt.core.records import RecordReader, has_records
from tokfmt.errors import NO_DAMAGE, FormatError, TruncatedError
from tokfmt.files.place import Place
from tokfmt.model.select import Chosen, Leading, Slice
from tokfmt.wording import counted

_FEWEST = 8  # fewer documents may end alike by chance
_REASONS = 8  # reasons that a message lists for one source


class PartialSource(TypedDict):
    """What was saved of a damaged source.

    Attributes:
        sequences: The number of saved sequences; None for records, which are counted as they are read.
        tokens: The number of saved tokens; None for records.
        lost_sequences: The number of lost sequences; None if neither an index nor a manifest states it.
        lost_tokens: The number of lost tokens; None if neither an index nor a manifest states it.
        lost_between: The first and the last sequence of the source that are lost; None if it is not known which are, or
            if others between them are saved.
        unused: The bytes of the source that are not used.
        reasons: The damage, in words.
    """

    path: str
    sequences: int | None
    tokens: int | None
    lost_sequences: int | None
    lost_tokens: int | None
    lost_between: tuple[int, int] | None
    unused: int
    reasons: list[str]


class Partial(NamedTuple):
    """The facts on a damaged source that is read in part; `PartialSource` explains them."""

    path: str
    sequences: int | None
    tokens: int | None
    lost_sequences: int | None
    lost_tokens: int | None
    lost_between: tuple[int, int] | None
    unused: int
    reasons: tuple[str, ...]

    def facts(self) -> PartialSource:
        """Return the facts for JSON and the manifest."""
        return cast("PartialSource", {**self._asdict(), "reasons": list(self.reasons)})

    def sentence(self) -> str:
        """Return the facts as a note, without the path."""
        parts = ["the complete records are saved"]
        if self.sequences is not None and self.tokens is not None:
            saved = f"{self.sequences:,}"
            if self.lost_sequences is not None:
                saved += f" of {self.sequences + self.lost_sequences:,}"
            word = "sequences are" if self.sequences != 1 or self.lost_sequences else "sequence is"
            parts = [f"{saved} {word} saved ({counted(self.tokens, 'token')})"]
        if self.lost_sequences is None:
            parts.append("the number of lost sequences is not known")
        elif self.lost_tokens is not None:
            parts.append(f"{counted(self.lost_tokens, 'token')} lost")
        if self.lost_between is not None:
            first, last = self.lost_between
            parts.append(f"sequences {first:,} to {last:,} lost" if last > first else f"sequence {first:,} lost")
        if self.unused:
            parts.append(f"{counted(self.unused, 'byte')} not used")
        reasons = "; ".join(self.reasons[:_REASONS])
        more = f" and {len(self.reasons) - _REASONS:,} more" if len(self.reasons) > _REASONS else ""
        return f"partial: {', '.join(parts)}: {reasons}{more}"


def readable(stored: TokenReader) -> tuple[TokenReader, tuple[Damage, ...]]:
    """Return the sequences of a stored axis that can be read; for a stream, the tokens before the first unreadable one.

    It reads the whole axis, unless opening already proved that all of it can be read (`TokenReader.is_readable`).
    """
    if stored.is_readable:
        return stored, ()
    count, errors = stored.info.sequences, list[FormatError]()
    if stored.info.separators.alone:
        return _beginning(stored)
    good = np.ones(count, np.bool_)
    for a, b in windows(0, count):
        for first, last in _unreadable(stored, a, b, errors):
            good[first:last] = False
    if not errors:
        return stored, ()
    complete = _chosen(stored, good)
    lost, tokens = count - complete.info.sequences, stored.info.tokens - complete.info.tokens
    reasons = list(dict.fromkeys(error.sentence for error in errors))
    damage = Damage(reasons[0], lost, tokens, at_end=isinstance(complete, Slice))
    return complete, (damage, *(Damage(reason, 0, 0) for reason in reasons[1:]))


def before_gap(stored: TokenReader) -> tuple[TokenReader, tuple[Damage, ...]]:
    """Return the documents of an index whose file is short before the first whose end shows that bytes lack before it.

    It shows it if the ID that ends all documents before ends this one and most of the others no more: bytes that are
    missing inside of a file move all documents behind them. It reads the end of each document.
    """
    info = stored.info
    if info.separators.alone or info.layout is not Layout.DOCUMENTS:
        return stored, ()
    usual, full, first, behind, others = -1, 0, -1, 0, 0  # documents with tokens; from `first` on; with another end
    for a, b in windows(0, info.sequences):
        bounds = stored.offsets(a, b)
        numbers = np.flatnonzero(bounds[1:] > bounds[:-1])
        ends = stored.at(bounds[1:][numbers] - 1)
        usual = int(ends[0]) if not full and len(ends) else usual
        differ = ends != usual
        others += int(np.count_nonzero(differ))
        if first >= 0:
            behind += len(ends)
        elif others:
            at = int(np.argmax(differ))
            if full + at < _FEWEST:
                return stored, ()
            first, behind = a + int(numbers[at]), len(ends) - at
        full += len(ends)
    if first < 0 or 2 * others <= behind:
        return stored, ()
    complete = Slice(stored, 0, first)
    reason = f"documents from {first:,} on do not end with {usual}, as all before: bytes are missing in front of them"
    return complete, (Damage(reason, info.sequences - first, info.tokens - complete.info.tokens, at_end=True),)


def _chosen(stored: TokenReader, good: NDArray[np.bool_]) -> TokenReader:
    first = int(np.argmin(good)) if not good.all() else len(good)
    if not good[first:].any():
        return Slice(stored, 0, first)
    return Chosen(stored, lambda a, b: good[a:b], apart=True)


def _unreadable(stored: TokenReader, first: int, last: int, errors: list[FormatError]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of sequences that cannot be read, found by bisection; append their errors to `errors`."""
    start, stop = (int(stored.offsets(i, i)[0]) for i in (first, last))
    error = _failure(stored, start, stop)
    if error is None:
        return
    if last - first == 1:
        errors.append(error)
        yield first, last
        return
    middle = (first + last) // 2
    yield from _unreadable(stored, first, middle, errors)
    yield from _unreadable(stored, middle, last, errors)


def _failure(stored: TokenReader, start: int, stop: int) -> FormatError | None:
    """Return the error of reading tokens `start <= i < stop`, or None; raise one that is no sign of damage."""
    try:
        for a, b in windows(start, stop):
            stored.tokens(a, b)
            stored.marks(a, b)
    except NO_DAMAGE:
        raise
    except FormatError as error:
        return error
    return None


def _beginning(stored: TokenReader) -> tuple[TokenReader, tuple[Damage, ...]]:
    """Return the tokens of a stream before the first that cannot be read, and the damage."""
    for a, b in windows(0, stored.info.tokens):
        if (error := _failure(stored, a, b)) is None:
            continue
        good, bad = a, b
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if _failure(stored, a, middle) is not None else (middle, bad)
        if _failure(stored, a, bad) is None:
            good = bad
        return Leading(stored, good), (Damage(error.sentence, None, stored.info.tokens - good, at_end=True),)
    return stored, ()


def closed(stored: TokenReader, split: TokenReader, eos_id: int) -> tuple[TokenReader, Damage | None]:
    """Return the sequences of a stream that a separator closes, and the damage if it does not close the last one."""
    info, total = split.info, stored.info.tokens
    where, first, last = stored.info.separators, 0, info.sequences
    if not last or not total:
        return split, None
    if where is Separators.BEFORE:  # the separator of the next sequence closes this one
        first, last = int(int(stored.tokens(0, 1)[0]) != eos_id), last - 1
    elif int(stored.tokens(total - 1, total)[0]) != eos_id:
        last -= 1
    if (first, last) == (0, info.sequences):
        return split, None
    complete = Slice(split, first, max(first, last))
    lost = info.tokens - complete.info.tokens
    reason = f"no separator {eos_id} closes the last sequence, which may be cut"
    return complete, Damage(reason, None, lost, at_end=not first)


def partial_of(
    path: Place, others: int, reader: TokenReader | RecordReader, damage: Sequence[Damage], counts: Mapping[str, Any]
) -> Partial | None:
    """Return the facts on a damaged source; None if there is no damage. `path` is the first of the source, and `others`
    the number of its other paths. `counts` has `sequences` and `tokens` of the complete dataset by its manifest.
    """
    if not damage:
        return None
    named = f"{path}" + (f" and {others} more" if others else "")
    unused, reasons = sum(one.unused for one in damage), tuple(one.what for one in damage)
    word = "record" if isinstance(reader, RecordReader) else "sequence"
    if not (has_records(reader) if isinstance(reader, RecordReader) else reader.info.sequences):
        nothing = f"no {word} of it is certain to be complete"
        raise TruncatedError(path, f"{nothing}: {'; '.join(reasons[:_REASONS])}", remedy="Copy it again")
    if isinstance(reader, RecordReader):
        return Partial(named, None, None, None, None, None, unused, reasons)
    saved = (reader.info.sequences, reader.info.tokens)
    sequences = _lost(saved[0], [one.sequences for one in damage], counts.get("sequences"))
    tokens = _lost(saved[1], [one.tokens for one in damage], counts.get("tokens"))
    where = {part.at_end for part in damage if part.sequences != 0} - {None}
    is_tail = where == {True} and not others and not path.is_dir()
    between = (saved[0], saved[0] + sequences - 1) if is_tail and sequences else None
    return Partial(named, *saved, sequences, tokens, between, unused, reasons)


def _lost(saved: int, counts: Sequence[int | None], whole: object) -> int | None:
    """Return the number of lost items, by the manifest's count of all items or else by the index; None if unknown."""
    if isinstance(whole, int) and whole >= saved:
        return whole - saved
    known_counts = [count for count in counts if count is not None]
    return sum(known_counts) if len(known_counts) == len(counts) else None
