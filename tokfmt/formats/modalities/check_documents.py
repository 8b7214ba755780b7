"""What the documents of a pack can have wrong: how they end, what stands inside, how long they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.audit import Audit
from tokfmt.core.axis import windows
from tokfmt.core.errors import FormatError
from tokfmt.core.format import Finding
from tokfmt.formats.modalities.problems import finding
from tokfmt.formats.modalities.reader import ModalitiesReader

_ALL = 1 << 14  # documents: in larger packs as many are looked at, spread evenly
_FEW = 8
_LONG = 128  # tokens: shorter documents may well be of one length by chance
_SHARE = 0.005
_RUN = 4  # equal ids before the separator that look like padding
_PADDED = 0.2
_COMPARE = "They may be cut: compare them with their source"


@dataclass(frozen=True, slots=True)
class Endings:
    """How documents end.

    Attributes:
        of: How many were looked at, in words.
        count: How many were looked at that hold a token.
        usual: How many end with the separator.
        first: The first that does not, -1 when all do.
    """

    of: str
    count: int
    usual: int
    first: int


def ending_findings(reader: ModalitiesReader, eos_id: int, ends: Endings) -> Iterator[Finding]:
    """Documents whose last token is not the one that most end with."""
    name = str(reader.file.path)
    if ends.usual * 2 <= ends.count:
        if ends.count >= _FEW:
            yield Finding("TF117", "warning", name, f"only {ends.usual:,} of {ends.of} end with the same id "
                          f"({eos_id:,})", "Documents may have been cut by a program that used shifted offsets: "
                          "compare some with their source")  # fmt: skip
    elif ends.first >= 0:
        at = reader.begin + (int(reader.offsets(ends.first + 1, ends.first + 1)[0]) - 1) * reader.width
        what = (
            f"{ends.count - ends.usual:,} of {ends.of} do not end with {eos_id:,}, as most do "
            f"(first: document {ends.first:,})"
        )
        yield Finding("TF116", "warning", name, what, _COMPARE, at)


def last_tokens(reader: ModalitiesReader) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Numbers of the documents looked at, spread over the pack, and their last tokens."""
    count = reader.info.sequences
    looked = np.unique(np.linspace(0, count - 1, min(count, _ALL)).astype(np.int64)) if count else np.empty(0, np.int64)
    starts = np.concatenate([reader.offsets(i, i + 1) for i in looked.tolist()] or [np.empty(0, np.int64)])
    begins, ends = starts[::2], starts[1::2]
    looked, ends = looked[ends > begins], ends[ends > begins]
    last = [reader.tokens(end - 1, end) for end in ends.tolist()]
    return looked, np.concatenate(last) if last else np.empty(0, np.uint32)


def length_findings(reader: ModalitiesReader) -> Iterator[Finding]:
    """Many documents of exactly the greatest length: a tokenizer cut them."""
    top = same = first = 0
    least = 1 << 62
    for a, b in windows(0, reader.info.sequences):
        lengths = np.diff(reader.offsets(a, b))
        here = int(lengths.max())
        least = min(least, int(lengths.min()))
        if here > top:
            top, same, first = here, 0, a + int(np.argmax(lengths))
        same += int(np.count_nonzero(lengths == top))
    if top >= _LONG and least < top and same >= max(_FEW, _SHARE * reader.info.sequences):
        at = reader.begin + int(reader.offsets(first, first)[0]) * reader.width
        what = f"{same:,} documents have exactly the greatest length, {top:,} tokens (first: document {first:,})"
        yield Finding("TF122", "warning", str(reader.file.path), what,
                      "A tokenizer with truncation=True cut them: compare them with their source", at)  # fmt: skip


class _Look(NamedTuple):
    """What one window holds.

    Attributes:
        ended, usual, first_other: Documents that end in it, how many with the separator, the first that does not.
        inside, first_inside: Separators inside documents, and the position of the first.
        padded: Documents that end in a run of one id.
    """

    ended: int
    usual: int
    first_other: int
    inside: int
    first_inside: int
    padded: int


def deep_findings(reader: ModalitiesReader, how: Audit) -> Iterator[Finding]:
    """Look at every token once."""
    eos_id = how.eos_id if how.eos_id is not None else _usual(reader)
    if eos_id is None:
        return
    offsets = reader.offsets(0, reader.info.sequences)

    def look(window: tuple[int, int]) -> _Look | FormatError:
        try:
            return _look(reader, offsets, eos_id, window)
        except FormatError as error:
            return error

    ended = usual = inside = padded = 0
    first_other = first_inside = -1
    cuts = windows(0, reader.info.tokens)
    for found in how.spread(look, cuts):
        if isinstance(found, FormatError):
            yield finding("TF103", "error", found)
            return
        ended, usual, inside = ended + found.ended, usual + found.usual, inside + found.inside
        padded += found.padded
        first_other = found.first_other if first_other < 0 else first_other
        first_inside = found.first_inside if first_inside < 0 else first_inside
    yield from ending_findings(reader, eos_id, Endings(f"{ended:,} documents", ended, usual, first_other))
    if 2 * usual > ended:
        yield from _insides(reader, eos_id, inside, first_inside)
    if padded >= max(_FEW, _PADDED * ended):
        what = f"{padded:,} of {ended:,} documents end with a run of one id before their last token"
        yield Finding("TF123", "warning", str(reader.file.path), what,
                      "They were padded by the tokenizer: pack them again with padding=False")  # fmt: skip


def _usual(reader: ModalitiesReader) -> int | None:
    last = last_tokens(reader)[1]
    if not len(last):
        return None
    ids, counts = np.unique(last, return_counts=True)
    return int(ids[np.argmax(counts)])


def _look(reader: ModalitiesReader, offsets: NDArray[np.int64], eos_id: int, window: tuple[int, int]) -> _Look:
    start, stop = window
    tokens = reader.tokens(start, stop)
    first, last = np.searchsorted(offsets, (start, stop), side="right")  # entries that end in (start, stop]
    numbers = np.arange(first, last)
    numbers = numbers[offsets[numbers] > offsets[numbers - 1]]  # not those of empty documents
    ends = offsets[numbers] - start
    well = tokens[ends - 1] == eos_id
    marks = tokens == eos_id
    inside = int(np.count_nonzero(marks)) - int(np.count_nonzero(well))
    first_inside = -1
    if inside:
        marks[ends - 1] = False
        first_inside = start + int(np.argmax(marks))
    long = ends[(offsets[numbers] - offsets[numbers - 1] > _RUN + 1) & (ends > _RUN + 1)]
    before = tokens[long - 2]
    run = np.ones(len(long), np.bool_)
    for step in range(3, _RUN + 2):
        run &= tokens[long - step] == before
    first_other = -1 if well.all() else int(numbers[np.argmin(well)]) - 1
    return _Look(len(ends), int(np.count_nonzero(well)), first_other, inside, first_inside, int(run.sum()))


def _insides(reader: ModalitiesReader, eos_id: int, inside: int, first: int) -> Iterator[Finding]:
    if not inside:
        return
    document = int(np.searchsorted(reader.offsets(0, reader.info.sequences), first, side="right")) - 1
    what = f"the separator {eos_id:,} stands inside documents {inside:,}x (first: document {document:,})"
    yield Finding(
        "TF121",
        "info",
        str(reader.file.path),
        what,
        "Formats that split at it cannot hold these documents: --drop embedded-separators splits there",
        reader.begin + first * reader.width,
    )
