"""Join the sources of a recipe to one axis, draw quotas, and read recipes without `seq_len`.

A position of the joined axis (`Axis`) is a token or a separator. Each sequence is followed by its separator, and empty
sequences are left out. `starts` holds the position at which each sequence begins. If a source stores its tokens as the
axis has them (a pack with separators), they are read directly from the file, otherwise by the reader of the source.
Loss masks are a second axis over the same positions (`Axis.read_marks`): the mark of a position is 1 if its token
counts as a target. In a source without masks, every token counts, and so does a separator that is inserted.
"""

from __future__ import annotations

import bisect
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.seeds import DRAWN, draws
from tokfmt.core.loss_mask import TARGET, Marks, separated
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    INT32_MAX,
    U8,
    U16,
    U32,
    Info,
    Layout,
    Separators,
    TokenReader,
    check_position,
    largest_id,
    smallest,
    windows,
)
from tokfmt.core.tokenizer_ids import TokenizerIds
from tokfmt.errors import ShortfallError, TokenRangeError
from tokfmt.files.file import File, known_file
from tokfmt.files.place import Place, place_of
from tokfmt.files.store import Identity
from tokfmt.mix.cache import Column, Numbers, Parts, Unkept, columns, copied_tokens, key_of, recalled, remember
from tokfmt.mix.language import VERSION, RecipeFile
from tokfmt.mix.order import ORDER_DOCUMENTS, permutation
from tokfmt.model.dataset import Dataset, concat
from tokfmt.model.readers import dataset_of, stored_reader
from tokfmt.model.select import Chosen, Concat, View
from tokfmt.model.spans import Taken
from tokfmt.wording import printable

_AT_ONCE = 1 << 18  # sequences
_TARGET = np.uint8(TARGET)
_LARGE = 1 << 22  # tokens; a smaller part of the axis is not copied, as readers hold it decoded


class Vocabulary(NamedTuple):
    """The tokenizer that made the IDs of all sources."""

    name: str
    ids: TokenizerIds  # the IDs that it has
    made: Mapping[str, Any]  # the description of the tokenizer in manifests; its digest is a string


class TextPart(NamedTuple):
    """The records `first <= i < first + records` of a file of text."""

    path: Place
    format: str
    first: int
    records: int


@dataclass(frozen=True, slots=True, eq=False)
class TokenSource:
    """An opened source of a recipe."""

    name: str  # in the recipe
    paths: tuple[Place, ...]
    format: str
    reader: TokenReader  # sequences without separators; the stored samples if `pack` is "stored"
    eos_id: int | None  # that the source stores or states
    state: Any  # sizes, times and inodes of its files, and how they are read; arrays in the cache depend on it
    facts: Mapping[str, Any]  # format, options, sizes and counts, by name; the order of samples depends on them
    notes: tuple[str, ...] = ()
    kept: bool = False  # the source takes long to open, so that arrays of it are kept in the cache
    drawn: Column | None = None  # numbers in the source of the sequences of `reader`, if a quota chose them
    whole: TokenReader | None = None  # of all sequences of IDs, if a quota chose some of them
    files: tuple[TextPart, ...] = ()  # of a source of text, in order
    checksums: tuple[str | None, ...] = ()  # that each of its manifests states
    seen: Mapping[Place, Identity] = field(default_factory=dict)  # of each of its files when it was opened
    # tokens are decoded in blocks, so that reads in another order than that of the files take long
    decoded: bool = False
    masked: bool = False  # its tokens have loss masks that are not plain, which its reader returns as marks
    removed: tuple[int, ...] = ()  # separators that its data has, and that its reader leaves out
    leads: tuple[int, ...] = ()  # that its reader leaves out

    @property
    def info(self) -> Info:
        """The facts of `reader`."""
        return self.reader.info

    @property
    def all_of_it(self) -> TokenReader:
        """The reader of all sequences, which `numbered` numbers; for text, the reader of the drawn ones."""
        return self.whole or self.reader

    @property
    def once(self) -> int:
        """The number of different sequences of `reader`, which may repeat some of them for a quota."""
        if self.drawn is None:
            return self.info.sequences
        numbers = self.drawn.array
        falls = numbers[1:] <= numbers[:-1]  # each pass is in the order of the source
        return int(np.argmax(falls)) + 1 if falls.any() else len(numbers)

    @property
    def distinct(self) -> TokenReader:
        """The reader of a source of IDs, without the passes after the first that a quota adds."""
        return self.all_of_it if self.once < self.info.sequences else self.reader

    def index_of(self, number: int) -> int:
        """Return the first sequence of `reader` that has a number in the source; see `numbered`."""
        if self.drawn is None or (number < len(self.drawn) and int(self.drawn.array[number]) == number):
            return number  # the reader begins with a complete pass
        return int(np.searchsorted(self.drawn.array, number))


def numbered(sources: Sequence[TokenSource], source: Numbers, sequences: Numbers) -> Numbers:
    """Return the numbers in their sources of sequences of `sources[source[i]].reader`, int64[n]."""
    numbers = sequences.copy()
    for k in np.unique(source).tolist():
        if (drawn := sources[k].drawn) is not None:
            numbers[source == k] = drawn.array[sequences[source == k]]
    return numbers


class Span(NamedTuple):
    """The positions `start <= p < stop` of a sequence; position len(sequence) is its separator."""

    source: int  # the number of the source in the recipe
    sequence: int  # the number of the sequence in the source, empty sequences included
    # start, stop: positions within the sequence
    start: int
    stop: int


class SpanTable(NamedTuple):
    """Spans as columns, int64[n] each."""

    row: Numbers  # index of the requested sample or interval that each span belongs to, ascending
    source: Numbers
    sequence: Numbers
    start: Numbers
    stop: Numbers

    @staticmethod
    def joined(tables: Sequence[SpanTable]) -> SpanTable:
        """Join tables and sort them by row; the spans of one row keep their order."""
        columns = [np.concatenate([np.empty(0, np.int64), *column]) for column in zip(*tables, strict=True)]
        order = np.argsort(columns[0], kind="stable") if columns else np.empty(0, np.int64)
        return SpanTable(*(column[order] for column in columns or [order] * 5))


class _Stored(NamedTuple):
    """A part of the axis that is stored in a file as the axis has it."""

    file: File
    at: int  # byte offset of the first token
    dtype: np.dtype[Any]  # stored dtype

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read positions `start <= p < stop` of the part into an array of that length."""
        width = self.dtype.itemsize
        if out.dtype == self.dtype:
            self.file.read_into(self.at + start * width, out.view(np.uint8).data)
        else:
            out[:] = self.file.array(self.at + start * width, stop - start, self.dtype)


class _Copied(NamedTuple):
    """A part of the axis whose tokens are copied to the cache as the axis has them."""

    tokens: Column

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read positions `start <= p < stop` of the part into an array of that length."""
        out[:] = self.tokens.array[start:stop]


class Slow(NamedTuple):
    """A part of the axis that takes long to read in another order, because its tokens are decoded in blocks."""

    source: TokenSource
    part: int  # on the axis
    key: str  # cache key of a copy of its tokens
    dtype: np.dtype[Any]  # of a copy
    tokens: int  # of the part
    marks: str = ""  # cache key of a copy of its marks; "" if the source has none

    @property
    def size_bytes(self) -> int:
        """The size of a copy in bytes."""
        return self.tokens * (self.dtype.itemsize + bool(self.marks))


StoredParts = list[tuple["_Stored", int]]
"""Parts that are stored in files, each with its length in tokens."""


def _to_json(parts: StoredParts | None) -> Any:
    """Return stored parts as JSON for the cache."""
    return (
        None
        if parts is None
        else [[p.file.path.text, p.file.identity, p.at, p.dtype.str, length] for p, length in parts]
    )


def _from_json(value: Any) -> StoredParts | None:
    """Return stored parts from the JSON of the cache. Their files are opened on first use, and must be unchanged."""
    if value is None:
        return None
    parts: StoredParts = []
    for path, identity, offset, dtype, length in value:
        parts.append((_Stored(known_file(place_of(path), Identity(*identity)), offset, np.dtype(dtype)), length))
    return parts


class _Made(NamedTuple):
    """A part of the axis that is read by a reader, and whose separators are inserted."""

    reader: TokenReader
    eos_id: int | None
    starts: Column  # on the axis, of sequences
    first: int  # on the axis, of the sequences of the part
    begin: int  # where the part begins on the axis

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read positions `start <= p < stop` of the part into an array of that length."""
        if self.eos_id is None:
            out[:] = self.reader.tokens(start, stop)
            return
        plain, first, last = self._between(start, stop)
        out[plain] = self.reader.tokens(first, last)
        out[~plain] = self.eos_id

    def read_marks(self, start: int, stop: int) -> Marks:
        """Return the marks of positions `start <= p < stop` of the part."""
        if self.eos_id is None:
            marks_read = self.reader.marks(start, stop)
            return np.ones(stop - start, np.uint8) if marks_read is None else marks_read & _TARGET
        lead = max(start - 1, 0)  # the token before `start` has the mark of a separator at `start`
        plain, first, last = self._between(lead, stop)
        marks_read = self.reader.marks(first, last)
        marks = np.ones(last - first, np.uint8) if marks_read is None else marks_read
        return separated(marks, plain)[start - lead :] & _TARGET

    def _between(self, start: int, stop: int) -> tuple[NDArray[np.bool_], int, int]:
        """Return a mask that is False at separators, and the interval of the reader that has the other positions."""
        bounds, base = self.starts.array, self.begin
        low = int(np.searchsorted(bounds, start + base, side="right")) - 1
        high = int(np.searchsorted(bounds, stop + base, side="right")) - 1
        marks = bounds[low + 1 : high + 1] - (1 + base + start)  # separators; the first may be before the interval
        plain = np.ones(stop - start, np.bool_)
        plain[marks[marks >= 0]] = False
        return plain, start - (low - self.first), stop - (high - self.first)


class _Marked(NamedTuple):
    """The marks of a part of the axis, as its reader returns them."""

    part: _Made

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read the marks of positions `start <= p < stop` of the part into an array of that length."""
        out[:] = self.part.read_marks(start, stop)


class Axis:
    """The joined axis of a list of sources. It is picklable, and threads may share it."""

    def __init__(
        self,
        sources: Sequence[TokenSource],
        numbers: Sequence[int],
        eos_id: int | None,
        key: str,
        width: int = 0,
        *,
        shuffled: bool = False,
        unkept: Unkept | None = None,
    ) -> None:
        """Compute the starts of sequences from the indexes of the sources. `key` is the cache key of arrays that depend
        on them. If it is shuffled, samples are read in another order than that of the axis.
        """
        self.unkept = unkept  # notes on what the cache does not keep
        # numbers: of each source in the recipe
        # eos_id: after each sequence
        # width: of stored samples, which need no table of starts; 0 for sequences
        self.sources, self.numbers, self.eos_id, self.width = list(sources), list(numbers), eos_id, width
        counts = [source.info.sequences for source in self.sources]
        self.firsts = offsets_of(counts)  # of all sequences
        self.starts, self._numbers, ends = self._starts_and_ends(key)
        self.sequences_before, self.begins = [0, *ends.array[::2].tolist()], [0, *ends.array[1::2].tolist()]
        # tokens: of the axis, separators included
        self.tokens, self.sequences = self.begins[-1], self.sequences_before[-1]
        self.empty = int(self.firsts[-1]) - self.sequences  # sequences that are empty, which are not on the axis
        self.dtype = np.result_type(
            U16 if eos_id is None else smallest(eos_id), *(source.info.dtype for source in self.sources)
        )  # holds every ID
        for source in self.sources:
            top = source.info.max_id
            if top is not None and top > INT32_MAX:
                raise TokenRangeError(str(source.paths[0]), top, INT32_MAX, 0)
        self._find_parts(key)
        # parts that take long to read in another order, if samples are shuffled
        self.slow = self._slow_parts(key) if shuffled else []

    def _starts_and_ends(self, key: str) -> tuple[Column, Column, Column]:
        """Return the starts of sequences, their numbers in the list if some are empty, and the ends of sources."""
        if self.width:
            ends = np.repeat(self.firsts[1:], 2) * np.tile([1, self.width], len(self.sources))
            return Column(np.empty(0, np.int64)), Column(np.empty(0, np.int64)), Column(ends)
        size_bytes = 16 * (int(self.firsts[-1]) + 2 * len(self.sources) + 2)
        names = ("starts", "numbers", "sources")
        starts, numbers, ends = columns(
            key, size_bytes, names, self._walk, self.unkept, keep=any(source.kept for source in self.sources)
        )
        return starts, numbers, ends

    def _walk(self) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        extra, position, count, none = int(self.eos_id is not None), 0, 0, np.empty(0, np.int64)
        regular = True
        for k, source in enumerate(self.sources):
            for a, b in windows(0, source.info.sequences, _AT_ONCE):
                lengths = np.diff(source.reader.offsets(a, b))
                there = np.flatnonzero(lengths)
                if regular and len(there) < b - a:
                    regular = False  # numbers are kept from here on; before, index and number are the same
                    yield none, np.arange(count, dtype=np.int64), none
                begins = offsets_of(lengths[there] + extra) + position
                yield begins[:-1], none if regular else there + (int(self.firsts[k]) + a), none
                position, count = int(begins[-1]), count + len(there)
            yield none, none, np.array([count, position], np.int64)
        yield np.array([position], np.int64), none, none

    def _find_parts(self, key: str) -> None:
        """Find the parts of the axis. Those of large lists are in the cache, so that no source has to be opened."""
        laid = self._cached_parts(key) if self.large else None
        cached = laid is not None and len(laid) == len(self._occupied())
        laid = laid if laid is not None and cached else [self._stored(k) for k in self._occupied()]
        if self.large and not cached:
            remember(f"{key}-laid", [_to_json(parts) for parts in laid], self.unkept)
        self._parts: list[_Stored | _Made | _Copied] = []
        self._at: list[int] = []
        self._marks: list[_Marked | _Copied | None] = [None] * len(self.sources)
        self.masked = any(source.masked for source in self.sources)
        for k, parts in zip(self._occupied(), laid, strict=True):
            begin = self.begins[k]
            made = _Made(self.sources[k].reader, self.eos_id, self.starts, self.sequences_before[k], begin)
            self._marks[k] = _Marked(made) if self.sources[k].masked else None
            pieces: Sequence[tuple[_Stored | _Made | _Copied, int]] = [(made, 0)] if parts is None else parts
            for part, length in pieces:
                self._at.append(begin)
                self._parts.append(part)
                begin += length
        self._at.append(self.tokens)
        kinds = {part.dtype for part in self._parts if isinstance(part, _Stored)}
        self.stored = kinds.pop() if len(kinds) == 1 else None
        """The dtype in which stored parts are read without a copy; None if they have several."""

    def _slow_parts(self, key: str) -> list[Slow]:
        """Return the parts whose tokens are decoded in blocks. Parts that are in the cache are read from there."""
        parts = []
        for index, part in enumerate(self._parts):
            tokens = self._at[index + 1] - self._at[index]
            if not isinstance(part, _Made) or tokens < _LARGE:
                continue
            k = bisect.bisect_right(self.begins, self._at[index]) - 1
            source = self.sources[k]
            if not source.decoded:
                continue
            top = source.info.max_id
            dtype = U32 if top is None else np.result_type(smallest(max(top, self.eos_id or 0)), U16)
            marks = key_of(key, "marks", index) if source.masked else ""
            slow = Slow(source, index, key_of(key, "tokens", index), dtype, tokens, marks)
            if not self._copied(slow, None, None):
                parts.append(slow)
        return parts

    def copy(self, slow: Slow) -> bool:
        """Copy the tokens of a slow part to the cache, and read it from there. Return False if that is not possible."""
        part = self._parts[slow.part]

        def parts() -> Iterator[Sequence[Tokens]]:
            for a, b in windows(0, slow.tokens):
                out = np.empty(b - a, self.dtype)
                part.read(a, b, out)
                if (top := largest_id(out)) > np.iinfo(slow.dtype).max:
                    raise TokenRangeError(str(slow.source.paths[0]), top, int(np.iinfo(slow.dtype).max), a)
                yield (out,)

        def marks() -> Iterator[Sequence[Marks]]:
            for a, b in windows(self._at[slow.part], self._at[slow.part + 1]):
                out = np.empty(b - a, np.uint8)
                self.read_marks(a, b, out)
                yield (out,)

        return self._copied(slow, parts, marks)

    def _copied(self, slow: Slow, tokens: Parts | None, marks: Parts | None) -> bool:
        """Read a part and its marks from copies in the cache. Return False if there are none and none can be made."""
        copies = [copied_tokens(slow.key, slow.dtype, tokens, self.unkept)]
        copies += [copied_tokens(slow.marks, U8, marks, self.unkept)] if slow.marks else []
        if any(copy is None or len(copy) != slow.tokens for copy in copies):
            return False
        laid = [_Copied(copy) for copy in copies if copy is not None]
        self._parts[slow.part] = laid[0]
        if slow.marks:
            self._marks[bisect.bisect_right(self.begins, self._at[slow.part]) - 1] = laid[1]
        return True

    def _cached_parts(self, key: str) -> list[StoredParts | None] | None:
        try:
            return [_from_json(parts) for parts in recalled(f"{key}-laid") or ()]
        except (TypeError, ValueError):
            return None  # the cache is damaged, so the parts are found again

    def _occupied(self) -> list[int]:
        """Return the indexes of the sources that have tokens on the axis."""
        return [k for k in range(len(self.sources)) if self.begins[k] < self.begins[k + 1]]

    @property
    def large(self) -> bool:
        """True if the arrays of the axis are in the cache, because the list is large."""
        return not self.width and self.starts.path is not None

    def _stored(self, k: int) -> StoredParts | None:
        """Return the files that store a source's part of the axis as it is; None without any."""
        source, tokens = self.sources[k], self.begins[k + 1] - self.begins[k]
        stored = source.reader if self.eos_id is None else stored_reader(source.reader, self.eos_id, raw=True)
        if stored is None or stored.info.tokens < tokens:
            return None
        if self.sequences_before[k + 1] - self.sequences_before[k] < source.info.sequences and self.eos_id is not None:
            return None  # the separators of empty sequences are in between
        pieces = stored.pieces(0, tokens)
        if pieces is None:
            return None
        laid = [(_Stored(p.file, p.offset, p.dtype), p.length // p.dtype.itemsize) for p in pieces if p.length]
        return laid if sum(length for _, length in laid) == tokens else None

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read positions `start <= p < stop` of the axis into a contiguous array of that length."""
        begins = self._at
        k = bisect.bisect_right(begins, start) - 1
        begin = begins[k]
        if stop <= begins[k + 1]:
            self._parts[k].read(start - begin, stop - begin, out)
            return
        done = start
        while done < stop:
            begin, end = begins[k], min(begins[k + 1], stop)
            if done < end:
                self._parts[k].read(done - begin, end - begin, out[done - start : end - start])
                done = end
            k += 1

    def read_marks(self, start: int, stop: int, out: Marks) -> None:
        """Read the marks of positions `start <= p < stop` of the axis: 1 if the token counts as a target, else 0."""
        k, done = bisect.bisect_right(self.begins, start) - 1, start
        while done < stop:
            begin, end, marks = self.begins[k], min(self.begins[k + 1], stop), self._marks[k]
            if done < end:
                part = out[done - start : end - start]
                if marks is None:
                    part[:] = TARGET
                else:
                    marks.read(done - begin, end - begin, part)
                done = end
            k += 1

    def intervals_of(self, source: int, number: int) -> list[tuple[int, int]]:
        """Return where a sequence of a source is on the axis: nowhere if it is empty or not drawn, or several times."""
        drawn = self.sources[source].drawn
        indexes = np.array([number]) if drawn is None else np.flatnonzero(drawn.array == number)
        places = indexes + self.firsts[source]
        if len(self._numbers):
            found = np.searchsorted(self._numbers.array, places)
            there = np.minimum(found, len(self._numbers) - 1)
            places = found[self._numbers.array[there] == places]
        return [(int(self.starts.array[k]), int(self.starts.array[k + 1])) for k in places.tolist()]

    def spans(self, start: int, stop: int) -> list[Span]:
        """Return the spans of positions `start <= p < stop` of the axis."""
        _, *columns = self.table(np.array([start]), np.array([stop]))
        return [Span(*span) for span in zip(*(column.tolist() for column in columns), strict=True)]

    def table(self, starts: Numbers, stops: Numbers) -> SpanTable:
        """Return the spans of intervals of the axis, int64[n] each; `row` is the index of the interval."""
        first, last = self._sequence(starts), self._sequence(stops - 1) + 1
        count = np.where(starts < stops, last - first, 0)
        row = np.repeat(np.arange(len(starts)), count)
        on_axis = first[row] + np.arange(len(row)) - offsets_of(count)[row]
        begin, end = self._begin(on_axis), self._begin(on_axis + 1)
        source, sequence = self.located(on_axis)
        start, stop = np.maximum(starts[row], begin) - begin, np.minimum(stops[row], end) - begin
        return SpanTable(row, np.array(self.numbers, np.int64)[source], sequence, start, stop)

    def located(self, sequences: Numbers) -> tuple[Numbers, Numbers]:
        """Return for sequences of the axis the index of the source in `sources`, and the number in that source."""
        numbers = self._numbers.array[sequences] if len(self._numbers) else sequences
        source = np.searchsorted(self.firsts, numbers, side="right") - 1
        return source, numbered(self.sources, source, numbers - self.firsts[source])

    def _sequence(self, positions: Numbers) -> Numbers:
        """Return for each position the sequence of the axis that holds it."""
        if self.width:
            return positions // self.width
        return np.searchsorted(self.starts.array, positions, side="right") - 1

    def _begin(self, sequences: Numbers) -> Numbers:
        """Return the positions at which sequences of the axis begin."""
        return sequences * self.width if self.width else self.starts.array[sequences]

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        """Return the reader of the source and the position in it; None for an inserted separator."""
        k = bisect.bisect_right(self.begins, position) - 1
        reader, local = self.sources[k].reader, position - self.begins[k]
        if self.eos_id is None:
            return reader, local
        sequence = self._sequence(np.array(position))
        last = int(self._begin(sequence + 1)) - 1
        return None if position == last else (reader, local - (int(sequence) - self.sequences_before[k]))

    def close(self) -> None:
        for source in self.sources:
            source.reader.close()
        for part in self._parts:
            if isinstance(part, _Stored):
                part.file.close()


def with_quota(file: RecipeFile, number: int, source: TokenSource, quota: int) -> TokenSource:
    """Return a source with the documents that fill a quota of tokens, in the order of the source.

    Documents are drawn in an order that depends only on the seed and their numbers, up to the first that exceeds the
    quota. The quota is in tokens, without separators.
    """
    reader, info = source.reader, source.info
    whole, rest = passes_in_quota(file, number, source.name, info.tokens, quota)
    order = np.argsort(draws(file.seed, DRAWN, 0, info.sequences), kind="stable")
    lengths = np.diff(reader.offsets(0, info.sequences))
    sums = np.cumsum(lengths[order])
    # with no rest, a search would draw empty documents again
    fits = int(np.searchsorted(sums, rest, side="right")) if rest else 0
    taken = whole * info.tokens + int(sums[fits - 1] if fits else 0)
    notes = notes_on_quota(file, source.name, quota, taken, int(lengths[order[fits]]) if fits < len(order) else None)
    chosen = np.zeros(info.sequences, np.bool_)
    chosen[order[:fits]] = True
    every = [np.arange(info.sequences)] * whole
    parts: list[TokenReader] = [reader] * whole
    if chosen.any() or not parts:
        parts.append(Chosen(reader, lambda a, b: chosen[a:b]))
    return replace(
        source,
        reader=parts[0] if len(parts) == 1 else Concat(parts),
        drawn=Column(np.concatenate([*every, np.flatnonzero(chosen)])),
        whole=reader,
        state=[source.state, "quota", quota, file.seed],
        facts={**source.facts, "quota": quota},
        notes=(*source.notes, *notes),
    )


class Documents(TokenReader):
    """The reader of a recipe without `seq_len`: the documents of its sources, or those drawn by quotas, in order.

    It is picklable, and threads may share it.
    """

    marks_ends = True

    def __init__(
        self,
        file: RecipeFile,
        sources: Sequence[TokenSource],
        eos_id: int | None,
        vocabulary: Vocabulary | None = None,
        made_by: Mapping[str, Any] | None = None,
        unkept: Unkept | None = None,
    ) -> None:
        # sources: in order, with their quotas drawn
        # eos_id: of all sources
        # vocabulary: of all sources; None if unknown
        self.file, self.sources, self.eos_id, self.vocabulary = file, tuple(sources), eos_id, vocabulary
        self._members = [
            k
            for turn in range(max(map(file.passes, range(len(sources)))))
            for k in range(len(sources))
            if turn < file.passes(k)
        ]
        self._base = Concat([self.sources[k].reader for k in self._members])
        self._marks = Concat([_MarksOf(self.sources[k]) for k in self._members])
        self._firsts = offsets_of([self.sources[k].info.sequences for k in self._members])
        self._order = self._starts = self._begins = None
        count, info = int(self._firsts[-1]), self._base.info
        if file.shuffle == "documents":
            key = key_of(VERSION, file.seed, self._members, [source.state for source in self.sources])
            names = ("order", "ordered", "begins")
            self._order, self._starts, self._begins = columns(key, 24 * (count + 1), names, self._walk, unkept)
        tokens, notes = info.tokens, tuple[str, ...]()
        if file.tokens is not None and not file.weighted:
            count, tokens, notes = self._within(count, file.tokens)
        self.info = replace(
            info,
            layout=Layout.DOCUMENTS,
            sequences=count,
            tokens=tokens,
            separators=Separators.NONE,
            eos_id=eos_id,
            eos_from="recipe" if eos_id is not None else "",
            sample_length=None,
            extras={},
            inferred=(),
            made_by=made_by,
            odd=None,
            loss_masks=masks_of_sources(self.sources),
            notes=(*notes, *(f"{source.name}: {note}" for source in self.sources for note in source.notes)),
        )

    def _walk(self) -> Iterator[tuple[Numbers, Numbers, Numbers]]:
        """Yield the shuffled documents: their numbers, their starts here, and their starts in the joined sources."""
        count, position = int(self._firsts[-1]), 0
        order = permutation(max(1, count), self.file.seed, ORDER_DOCUMENTS, 0)
        begins = self._base.offsets(0, count)
        lengths = np.diff(begins)
        for a, b in windows(0, count, _AT_ONCE):
            numbers = order.many(np.arange(a, b))
            starts = offsets_of(lengths[numbers]) + position
            yield numbers, starts[:-1], begins[numbers]
            position = int(starts[-1])
        none = np.empty(0, np.int64)
        yield none, np.array([position], np.int64), none

    def _within(self, count: int, budget: int) -> tuple[int, int, tuple[str, ...]]:
        """Return the number of sequences and of tokens within a budget, and notes."""
        total = int(self._offset(count))
        if budget > total:
            raise ShortfallError(
                f"{printable(self.file.where)}: the sources have {total:,} tokens, and the budget is {budget:,}: short "
                f"by {budget - total:,}. Raise the epochs of a source, or lower tokens"
            )
        low, high = 0, count + 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._offset(middle) <= budget else (low, middle)
        taken = self._offset(low)
        beyond = self._offset(low + 1) - taken if low < count else None
        return low, taken, notes_on_quota(self.file, None, budget, taken, beyond)

    def in_ranges(self, first: int, last: int) -> bool:
        """Return True if documents `first <= k < last` are ranges of the sources: not shuffled, or all of them."""
        return self._order is None or (first, last) == (0, int(self._firsts[-1]))

    def ranges(self, first: int, last: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the range of each pass over a source, as (source, first, last, tokens); see `in_ranges`."""
        for turn, k in enumerate(self._members):
            begin, end = self._firsts[turn : turn + 2].tolist()
            a, b = max(first, begin), min(last, end)
            if a < b:
                low, high = self._base.offsets(a, a), self._base.offsets(b, b)
                yield k, a - begin, b - begin, int(high[0]) - int(low[0])

    def _offset(self, sequence: int) -> int:
        offsets = self._base.offsets(sequence, sequence) if self._starts is None else self._starts.array[sequence:]
        return int(offsets[0])

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all facts that the order of documents depends on, 32 hexadecimal digits."""
        facts: list[Any] = [VERSION, self.file.shuffle, self.file.seed, self._members, self.eos_id]
        facts += [source.facts for source in self.sources]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    def offsets(self, first: int, last: int) -> Offsets:
        return self._base.offsets(first, last) if self._starts is None else self._starts.array[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        return self._read(self._base, start, stop)

    def marks(self, start: int, stop: int) -> Marks | None:
        """Return None if no source has loss masks."""
        return self._read(self._marks, start, stop) if self.info.loss_masks else None

    def _read(self, base: TokenReader, start: int, stop: int) -> Tokens:
        """Return the tokens or the marks of an interval of positions, from those of the joined sources."""
        if self._starts is None or self._begins is None:
            return base.tokens(start, stop)
        if start == stop:
            return np.empty(0, base.info.dtype)
        bounds, out = self._starts.array, np.empty(stop - start, base.info.dtype)
        first = int(np.searchsorted(bounds, start, side="right")) - 1
        last = int(np.searchsorted(bounds, stop, side="left"))
        edges = np.clip(bounds[first : last + 1], start, stop)
        begins, lengths = self._begins.array[first:last] + (edges[:-1] - bounds[first:last]), np.diff(edges)
        filled = lengths > 0
        base.read_scattered(begins[filled], edges[:-1][filled] - start, lengths[filled], out)
        return out

    def spans(self, sequence: int) -> list[Span]:
        """Return the span of a document: its source and its number there."""
        start, stop = self.offsets(sequence, sequence + 1).tolist()
        (source,), (number,) = self.origins(np.array([sequence]))
        return [Span(int(source), int(number), 0, stop - start)]

    def origins(self, sequences: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the sources of documents, and their numbers in the sources; int64[n] each."""
        source, inside = self.in_readers(sequences)
        return source, numbered(self.sources, source, inside)

    def in_readers(self, sequences: Numbers) -> tuple[Numbers, Numbers]:
        """Return the sources of documents, and their numbers in the readers of the sources; int64[n] each."""
        numbers = sequences if self._order is None else self._order.array[sequences]
        turn = np.searchsorted(self._firsts, numbers, side="right") - 1
        return np.array(self._members, np.int64)[turn], numbers - self._firsts[turn]

    def as_dataset(self, *, drawn: bool = False) -> Dataset | None:
        if not drawn:
            return None
        joined = concat([dataset_of(source.all_of_it) for source in self.sources])
        numbers: Any = _InSources(self)
        return replace(joined, spans=Taken(joined.spans, numbers))

    def to_source(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        if self._starts is None or self._begins is None:
            return self._base, position
        sequence = int(np.searchsorted(self._starts.array, position, side="right")) - 1
        return self._base, position + int(self._begins.array[sequence]) - int(self._starts.array[sequence])

    def find(self, place: Place, byte: int) -> int | None:
        """None for shuffled documents: a token may be here once per pass, or not at all."""
        position = self._base.find(place, byte) if self._starts is None else None
        return position if position is not None and position < self.info.tokens else None

    def close(self) -> None:
        self._base.close()


class _InSources:
    """The number of each document of a recipe among the sequences of all sources. They are computed, not held."""

    def __init__(self, recipe: Documents) -> None:
        self.recipe, sources = recipe, recipe.sources
        self.firsts = offsets_of([source.all_of_it.info.sequences for source in sources])
        self.sources = [one if one.whole is not None else replace(one, drawn=None) for one in sources]

    def __len__(self) -> int:
        return self.recipe.info.sequences

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, slice):
            return self[np.arange(*chosen.indices(len(self)))]
        sources, inside = self.recipe.in_readers(np.atleast_1d(chosen))
        numbers = self.firsts[sources] + numbered(self.sources, sources, inside)
        return numbers if np.ndim(chosen) else numbers[0]

    def __array__(self, *_: Any, **__: Any) -> Numbers:
        return np.asarray(self[:])


class _MarksOf(View):
    """The marks of a source instead of its tokens; every token of a source without loss masks counts."""

    def __init__(self, source: TokenSource) -> None:
        super().__init__(source.reader, replace(source.info, dtype=U8))
        self.masked = source.masked

    def tokens(self, start: int, stop: int) -> Tokens:
        marks = self.source.marks(start, stop) if self.masked else None
        return np.full(stop - start, TARGET, np.uint8) if marks is None else marks


def masks_of_sources(sources: Sequence[TokenSource]) -> str:
    """Return the loss masks of sources in words; "" if none has any."""
    return "loss masks of its sources" if any(source.masked for source in sources) else ""


def quota_of(file: RecipeFile, number: int) -> int | None:
    """Return the quota of a source in tokens: its own, or its share of the budget by weight; None without one."""
    entry = file.sources[number]
    if file.seq_len is None and file.tokens is not None and entry.weight is not None:
        total: Any = sum(source.weight or 0 for source in file.sources)
        return int(entry.weight / total * file.tokens)
    return entry.tokens


def passes_in_quota(file: RecipeFile, number: int, name: str, tokens: int, quota: int) -> tuple[int, int]:
    """Return the number of complete passes over a source in a quota, and the number of tokens that remain to draw."""
    most = file.cap(number)
    if quota > tokens * most:
        times = "once" if most == 1 else f"{most:,} times"
        raise ShortfallError(
            f'{printable(file.where)}: source "{printable(name)}" has {tokens:,} tokens, which may be read {times}, '
            f"and the quota is {quota:,}: short by {quota - tokens * most:,}. "
            f"Allow epochs = {-(-quota // max(1, tokens))}, or lower the quota"
        )
    return divmod(quota, max(1, tokens))


def notes_on_quota(file: RecipeFile, name: str | None, quota: int, taken: int, beyond: int | None) -> tuple[str, ...]:
    """Return a note if complete documents miss a quota by more than 1 %. Without `name`, the quota is the budget of all
    sources. `taken` tokens were drawn, and `beyond` is the length of the document that would exceed the quota.
    """
    if beyond is None or taken > quota - -(-quota // 100):
        return ()
    why = f"document drawn has {beyond:,}, and documents are not cut"
    if taken:
        return (f"{taken:,} of the {quota:,} tokens of its {'quota' if name else 'budget'}: the next {why}",)
    note = (
        f'source "{printable(name)}" gives nothing to its quota' if name else "the sources give nothing to the budget"
    )
    raise ShortfallError(
        f"{printable(file.where)}: {note} of {quota:,} tokens: the first {why}. Set tokens to {beyond:,} or more"
    )


def with_quotas(file: RecipeFile, sources: Sequence[TokenSource]) -> list[TokenSource]:
    """Return the sources, with documents drawn from those that have a quota."""
    filled: list[TokenSource] = []
    for number, source in enumerate(sources):
        quota = quota_of(file, number)
        filled.append(source if quota is None else with_quota(file, number, source, quota))
    return filled
