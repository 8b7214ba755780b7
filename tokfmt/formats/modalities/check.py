"""Findings on packs (TF101 to TF123), and their repairs.

A check reports the problems of header, index and sizes, and then compares the ends and the lengths of documents; with
`--deep` also the tokens inside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Audit, Finding, Repair
from tokfmt.core.reader import windows
from tokfmt.errors import FormatError
from tokfmt.formats.flat import FlatReader

_INDEX = "the index was written again from the lengths of the documents"
_HEADER = "the data length in the header was written again from the index"
_AGAIN = "it was written in the current layout (D), little-endian"

REPAIRS: Mapping[str, Repair] = {
    "TF105": Repair(_HEADER),
    "TF106": Repair(_HEADER),
    "TF107": Repair(_INDEX),
    "TF111": Repair("every length in the index is one token less"),
    "TF112": Repair(_INDEX),
    "TF113": Repair("tokens take 4 bytes"),
    "TF114": Repair(_AGAIN),
    "TF115": Repair("offsets count from the data section, as the current Modalities reads them"),
    "TF119": Repair("the token width is stored"),
    "TF120": Repair(_AGAIN),
}


_ALL = 1 << 14  # documents that are compared; in larger packs, they are spread evenly
_RUNS_IN_STORE = _RUN_IN_STORE = 64
_FEW = 8  # documents, below which nothing is inferred
_LONG = 128  # tokens: shorter documents may have the same length by chance
_SHARE = 0.005  # share of documents of the greatest length from which on truncation is reported
_RUN = 4  # equal IDs before the separator that look like padding
_PADDED = 0.2  # share of documents with such a run from which on padding is reported
_COMPARE = "They may be cut: compare them with their source"


class Counts(NamedTuple):
    """Counts of documents by their last tokens, in a window of tokens or in all that were looked at."""

    ended: int = 0  # documents that end in it, without empty ones
    usual: int = 0  # those that end with the separator
    first_other: int = -1  # the first document that does not; -1 if all do
    inside: int = 0  # separators inside documents
    first_inside: int = -1  # the position of the first of these; -1 without one
    padded: int = 0  # documents that end with a run of one ID before the last token
    twice: int = 0  # documents that end with the separator twice, both of them in it

    def followed_by(self, window: Counts) -> Counts:
        """Return the counts of these tokens and of the window after them."""
        return Counts(
            self.ended + window.ended,
            self.usual + window.usual,
            window.first_other if self.first_other < 0 else self.first_other,
            self.inside + window.inside,
            window.first_inside if self.first_inside < 0 else self.first_inside,
            self.padded + window.padded,
            self.twice + window.twice,
        )


def look(reader: FlatReader, how: Audit) -> Iterator[Finding]:
    """Yield the findings on lengths and ends of documents, and, if `how.deep`, on all tokens."""
    yield from _of_lengths(reader)
    yield from (_of_all_tokens(reader, how) if how.deep else _of_last_tokens(reader))


def _warning(reader: FlatReader, code: str, what: str, remedy: str, at: int | None = None, query: str = "") -> Finding:
    return Finding(code, "warning", str(reader.extents[0].file.path), what, remedy, at, query)


def _of_lengths(reader: FlatReader) -> Iterator[Finding]:
    """Yield a finding if many documents have exactly the greatest length, so that a tokenizer may have cut them."""
    top = same = first = 0
    minimum = 1 << 62
    for a, b in windows(0, reader.info.sequences):
        lengths = np.diff(reader.offsets(a, b))
        here = int(lengths.max())
        minimum = min(minimum, int(lengths.min()))
        if here > top:
            top, same, first = here, 0, a + int(np.argmax(lengths))
        same += int(np.count_nonzero(lengths == top))
    if top >= _LONG and minimum < top and same >= max(_FEW, _SHARE * reader.info.sequences):
        at = reader.locate(int(reader.offsets(first, first)[0])).offset
        what = f"{same:,} documents have exactly the greatest length, {top:,} tokens (first: document {first:,})"
        remedy = "A tokenizer with truncation=True cut them: compare them with their source"
        yield _warning(reader, "TF122", what, remedy, at, f"len=={top}")


def _of_ends(reader: FlatReader, eos_id: int, counts: Counts, of: str) -> Iterator[Finding]:
    """Yield a finding if documents do not end with the separator; `of` is the number of these documents, in words."""
    if counts.usual * 2 <= counts.ended:
        if counts.ended >= _FEW:
            what = f"only {counts.usual:,} of {of} end with the same ID ({eos_id:,})"
            remedy = (
                "Documents may have been cut by a program that used shifted offsets: compare some with their source"
            )
            yield _warning(reader, "TF117", what, remedy)
    elif (first := counts.first_other) >= 0:
        at = reader.locate(int(reader.offsets(first + 1, first + 1)[0]) - 1).offset
        others = f"{counts.ended - counts.usual:,} of {of} do not end with {eos_id:,}, as most do"
        yield _warning(reader, "TF116", f"{others} (first: document {first:,})", _COMPARE, at)


def _last_tokens(reader: FlatReader) -> tuple[NDArray[np.int64], NDArray[np.generic]]:
    """Return the numbers of up to 16,384 documents, spread over the pack, and their last tokens.

    Of a larger pack in a store, these are 64 runs of 64 neighbors: each place costs a request.
    """
    count = reader.info.sequences
    if count > _ALL and not reader.extents[0].file.path.is_local:
        firsts = np.linspace(0, count - _RUN_IN_STORE, _RUNS_IN_STORE).astype(np.int64)
        looked = np.unique(firsts[:, None] + np.arange(_RUN_IN_STORE))
    else:
        looked = np.unique(np.linspace(0, max(count - 1, 0), min(count, _ALL)).astype(np.int64))
    starts = np.concatenate([reader.offsets(i, i + 1) for i in looked.tolist()] or [np.empty(0, np.int64)])
    begins, ends = starts[::2], starts[1::2]
    looked, ends = looked[ends > begins], ends[ends > begins]
    last = list(reader.intervals([(end - 1, end) for end in ends.tolist()]))
    return looked, np.concatenate(last) if last else np.empty(0, np.uint32)


def _usual(last: NDArray[np.generic]) -> int | None:
    """Return the ID with which most documents end, given their last tokens; None without any."""
    ids, counts = np.unique(last, return_counts=True)
    return int(ids[np.argmax(counts)]) if len(ids) else None


def _of_last_tokens(reader: FlatReader) -> Iterator[Finding]:
    """Yield a finding if documents do not end as most others do, from up to 16,384 of them."""
    looked, last = _last_tokens(reader)
    if (eos_id := _usual(last)) is None:
        return
    of = f"{len(last):,} documents" if len(looked) == reader.info.sequences else f"{len(last):,} checked documents"
    other = np.flatnonzero(last != eos_id)
    first_other = int(looked[other[0]]) if len(other) else -1
    yield from _of_ends(reader, eos_id, Counts(len(last), len(last) - len(other), first_other), of)


def _of_all_tokens(reader: FlatReader, how: Audit) -> Iterator[Finding]:
    """Yield the findings that need every token: ends of documents, separators inside them, padding."""
    eos_id = how.eos_id if how.eos_id is not None else _usual(_last_tokens(reader)[1])
    if eos_id is None:
        return
    offsets, counts = reader.offsets(0, reader.info.sequences), Counts()

    def counted(window: tuple[int, int]) -> Counts | FormatError:
        try:
            return _counts(reader, offsets, eos_id, window)
        except FormatError as error:
            return error

    for window in how.spread(counted, windows(0, reader.info.tokens)):
        if isinstance(window, FormatError):
            yield Finding.of("TF103", window)
            return
        counts = counts.followed_by(window)
    yield from _of_ends(reader, eos_id, counts, f"{counts.ended:,} documents")
    usual = 2 * counts.usual > counts.ended and 2 * counts.twice <= counts.usual  # else TF945 says it
    if counts.inside and usual:  # else TF946 counts the others
        name, first = "the usual last ID" if how.eos_id is None else "the separator", counts.first_inside
        document = int(np.searchsorted(offsets, first, side="right")) - 1
        what = f"{name} {eos_id:,} occurs inside documents {counts.inside:,}x (first: document {document:,})"
        remedy = "Formats that split at it cannot store these documents: --allow-loss embedded-separators splits there"
        at = reader.locate(first).offset
        yield replace(_warning(reader, "TF121", what, remedy, at, f"token:{eos_id}"), severity="info")
    if counts.padded >= max(_FEW, _PADDED * counts.ended):
        what = f"{counts.padded:,} of {counts.ended:,} documents end with a run of one ID before their last token"
        yield _warning(reader, "TF123", what, "They were padded by the tokenizer: pack them again with padding=False")


def _counts(reader: FlatReader, offsets: NDArray[np.int64], eos_id: int, window: tuple[int, int]) -> Counts:
    """Return the counts of one window of tokens; `offsets` are those of all documents."""
    start, stop = window
    tokens = reader.tokens(start, stop)
    first, last = np.searchsorted(offsets, (start, stop), side="right")  # entries that end in (start, stop]
    numbers = np.arange(first, last)
    numbers = numbers[offsets[numbers] > offsets[numbers - 1]]  # without empty documents
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
    several = ends[well & (offsets[numbers] - offsets[numbers - 1] > 1) & (ends > 1)]
    twice = int(np.count_nonzero(tokens[several - 2] == eos_id))
    return Counts(len(ends), int(np.count_nonzero(well)), first_other, inside, first_inside, int(run.sum()), twice)
