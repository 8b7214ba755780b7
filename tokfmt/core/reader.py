"""A token axis, and its readers: `Axis` has the tokens, and `TokenReader` the offsets of sequences beside them.

    tokens   1-D virtual array of token IDs
    offsets  1-D non-decreasing array, one entry per sequence plus one; offsets[0] == 0, offsets[-1] == len(tokens)

`start` and `stop` are always positions on the token axis; `first` and `last` are always sequence numbers. The reader of
a format is a *stored* reader: its axis holds what the files hold, separators included, and `Info.separators` says where
they are. `tokfmt.model` tells separators from contents, so commands see only axes without separators. This module also
converts token IDs between dtypes, without wrap-around.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.ragged import Offsets, Ragged, Tokens, offsets_of, pick
from tokfmt.errors import Loss, TokenRangeError
from tokfmt.files.file import Ends, File
from tokfmt.files.place import Place

WINDOW = 1 << 20
"""Tokens that a walk over an axis holds at once. 1 Mi stays in the CPU cache; larger windows are slower."""


Dtype = np.dtype[np.unsignedinteger]

_NEAR = 1 << 12  # Slots between two intervals that take less time to read than another read does.


class Layout(Enum):
    """The layout of the rows of a format."""

    DOCUMENTS = "documents"  # Both arrays are stored.
    SAMPLES = "samples"  # All rows have the same length.
    STREAM = "stream"  # There is one long row.


class Separators(Enum):
    """The positions of separators on a stored axis."""

    NONE = "none"  # An index marks the boundaries, and no separator is stored.
    TRAILING = "trailing"  # An index marks them, and most sequences end with the separator (with `Info.eos_id`, all).
    SCANNED = "scanned"  # An index marks them, and readers that look for separators alone find the same sequences.
    AFTER = "after"  # Only separators mark them, one after each sequence. Two in a row enclose an empty sequence.
    BETWEEN = "between"  # As AFTER, in samples whose padding is not on the axis. The separator has to be known.
    BEFORE = "before"  # Only separators mark them, one before each sequence.

    def __init__(self, name: str) -> None:
        self.alone = name in ("after", "between", "before")
        """True if only separators mark the boundaries, so that no sequence may contain one."""
        self.separated = self.alone or name == "scanned"
        """True if readers may look for separators alone, so that no sequence may contain one."""


class Damage(NamedTuple):
    """A part of a dataset that is missing, or that may differ from what was written."""

    what: str  # in the words of the error
    sequences: int | None = None  # lost; None if unknown
    tokens: int | None = None  # lost; None if unknown
    unused: int = 0  # bytes of the files that exist and are not used
    at_end: bool | None = False  # the lost sequences are the last ones of the file; None if it does not say where

    def without_separators(self) -> Damage:
        """Return the same damage without one separator per lost sequence."""
        if self.tokens is None or self.sequences is None:
            return self
        return self._replace(tokens=max(0, self.tokens - self.sequences))


class Inner(NamedTuple):
    """The sequences of an index that states documents of several sequences, such as sentences."""

    path: Place  # the index
    offset: int  # of the entry of the first document with several sequences
    sequences: int  # of the index
    documents: int  # which are the sequences of the reader


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Facts:
    """Facts that a dataset states, or that show without a read of its content; an index, a table and text have them.

    Attributes:
        sample_length: Tokens per row, for samples.
        separators: Positions of separators on this axis.
        eos_id: Token ID of the separator, if the dataset itself states it.
        eos_from: The origin of `eos_id`, in words ("format convention", "data_params.json", ...).
        inferred: Inferred facts, one sentence each, with the option that overrides the fact.
        notes: Defects that do not change a token, one sentence each.
        pad_id: Token ID of the padding of samples, if the dataset or its format states it.
        split: The split that is read; the read option `split` selects it. None: the dataset has no splits.
        other_splits: The other splits.
        loss_masks: Description of loss masks beside the tokens, which few formats can store; "" without any.
        inner: For each index whose documents hold several sequences, such as sentences: where it states them.
        fields: Names of the columns of a table, those that are not read too, or in the first record of records.
        extras: Facts specific to the format (variant, byte order, width ...), for display.
        damage: The parts that `Hints.allow_partial` left out.
        lost: The parts that are left out because the user accepted their loss (`Hints.allow_loss`).
        beginning_of: If the axis holds only the first `Hints.max_sequences` sequences, the number of stored tokens of
            the dataset, if it states that number.
        tokenizers: The names of the tokenizers that the metadata of its files state, each once.
        made_by: Of a recipe, which has no manifest: the tokenizer that is known to make or to have made all its IDs, as
            manifests describe it; None if unknown.
    """

    sample_length: int | None = None
    separators: Separators = Separators.NONE
    eos_id: int | None = None
    eos_from: str = ""
    inferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pad_id: int | None = None
    split: str | None = None
    other_splits: tuple[str, ...] = ()
    loss_masks: str = ""
    inner: tuple[Inner, ...] = ()
    fields: tuple[str, ...] = ()
    extras: Mapping[str, object] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    lost: tuple[Loss, ...] = ()
    beginning_of: int | None = None
    tokenizers: tuple[str, ...] = ()
    made_by: Mapping[str, Any] | None = None

    def copied(self) -> dict[str, Any]:
        """Return these facts by name, for another object with them."""
        return {name: getattr(self, name) for name in Facts.__dataclass_fields__}

    @property
    def facts(self) -> Mapping[str, object]:
        """The facts apart from counts, for display and JSON; masks only if nothing has to be read to count them."""
        return {
            **({"split": self.split, "other_splits": self.other_splits} if self.split is not None else {}),
            **self._own,
            **({"loss_masks": self.loss_masks.removeprefix("loss masks ")} if self.loss_masks else {}),
            **({"tokenizer": ", ".join(self.tokenizers)} if self.tokenizers else {}),
            **self.extras,
            **({"index_sequences": sum(one.sequences for one in self.inner)} if self.inner else {}),
            **({"pad_id": self.pad_id} if self.pad_id is not None else {}),
        }

    @property
    def _own(self) -> Mapping[str, object]:
        return {}


@dataclass(frozen=True, slots=True)
class Info(Facts):
    """Facts about a dataset that are known without a read of its tokens; `Facts` has more.

    Attributes:
        layout: Layout of the rows.
        dtype: Dtype of `tokens()`: uint8, uint16, uint32 or uint64.
        sequences: Number of sequences (rows for samples, 1 or 0 for a stream).
        tokens: Length of the token axis.
        max_id: Largest token ID, if the file states it or a scan found it; it may be the separator. None: unknown.
        free_of: An ID that no sequence contains by construction: the separator at which the stream was split.
        odd: The number of samples with a loss mask or labels other than those of plain text, such as a masked prompt,
            and the number of the first of them, -1 without one; or what counts them. None: they are stored without.
        segmented: Rows hold several documents, and the dataset states where each begins, without separators.
        columns: What the columns beside token IDs state, in the numbers of `model.rows.RowFacts`.
        unmasked: Rows have marks only because they are segmented: nothing states which of their tokens count.
        beginning: The axis holds only the first `Hints.max_sequences` sequences of the dataset.
        length_given: The read option `seq_len` gives `sample_length`, as the dataset does not state it.
    """

    is_text: ClassVar[bool] = False
    layout: Layout
    dtype: np.dtype[np.unsignedinteger]
    sequences: int
    tokens: int
    max_id: int | None = None
    free_of: int | None = None
    odd: tuple[int, int] | Callable[[], tuple[int, int]] | None = field(default=None, repr=False)
    segmented: bool = False
    columns: Mapping[str, int] = field(default_factory=dict)
    unmasked: bool = False
    beginning: bool = False
    length_given: bool = False

    @property
    def is_samples(self) -> bool:
        """True if the sequences are the rows that the files store."""
        return self.layout is Layout.SAMPLES

    @property
    def nonstandard_masks(self) -> int | None:
        """The number of samples with a loss mask or labels other than those of plain text; None without any beside."""
        return self._odd[0]

    @property
    def first_nonstandard(self) -> int:
        """The number of the first of these samples; -1 without one."""
        return self._odd[1]

    @property
    def masks(self) -> Mapping[str, object]:
        """The facts of masks and labels that are not plain."""
        count, first = self._odd
        return {} if count is None else {"masked_sequences": count, "first_masked": first}

    @property
    def _odd(self) -> tuple[int | None, int]:
        return (None, -1) if self.odd is None else self.odd() if callable(self.odd) else self.odd

    @property
    def _own(self) -> Mapping[str, object]:
        return {} if callable(self.odd) else self.masks


class ByteOffset(NamedTuple):
    """The file that stores a token or a record, and its byte offset there."""

    path: Place
    offset: int  # of the first byte; for compressed data, of the chunk that holds it
    width: int | None  # bytes of the token in the file; None if it is inside a compressed chunk
    detail: str = ""  # in the terms of the format: chunk, row and column


class Piece(NamedTuple):
    """Consecutive uncompressed tokens in a file."""

    file: File
    offset: int  # of the first token
    length: int  # in bytes
    dtype: np.dtype[Any]  # of a token, with its byte order; unsigned


@dataclass(frozen=True, slots=True)
class PaddingCounts:
    """Counts of padding that was removed from an axis, and of separators that were inserted."""

    padding: int | None  # positions of the file that hold padding and are not on the axis; None if it was not counted
    positions: int  # of the file
    separators: int = 0  # on the axis, that the reader inserted
    sample_length: int | None = None  # of the samples that the file stores the axis in; None if it stores no samples


def check_interval(start: int, stop: int, length: int, what: str = "token positions") -> None:
    """Raise IndexError unless 0 <= start <= stop <= length."""
    if not 0 <= start <= stop <= length:
        raise IndexError(f"{what} {start}:{stop} are outside 0:{length}")


def check_position(position: int, length: int) -> None:
    """Raise IndexError unless 0 <= position < length."""
    if not 0 <= position < length:
        raise IndexError(f"token position {position} is outside 0:{length}")


def windows(start: int, stop: int, size: int = WINDOW) -> Iterator[tuple[int, int]]:
    """Cut an interval into consecutive windows of at most `size` tokens."""
    for a in range(start, stop, size):
        yield a, min(a + size, stop)


class Axis(ABC):
    """Token slots 0 .. length - 1. Every method but `tokens` has a default."""

    length: int  # number of slots
    dtype: Dtype  # unsigned, of what `tokens` returns, in native byte order
    values: NDArray[Any] | None = None  # all of them, if they are in memory
    decoded_parts: int = 0  # parts of a file that are decoded to read a slot of them; 0 if a slot takes no others

    @abstractmethod
    def tokens(self, start: int, stop: int) -> Tokens:
        """Return the tokens in the slots `start <= p < stop`. Do not write to them. An interval that leaves the axis is
        an IndexError, and a file that does not hold what its header states a FormatError.
        """

    def sequence_reader(
        self,
        ends: Ends,  # noqa: ARG002
        separator: int | None,  # noqa: ARG002
        general: Callable[[int], Tokens],
        *,
        is_before: bool = False,  # noqa: ARG002
    ) -> Callable[[int], Tokens]:
        """Return a function that reads one sequence, in as few steps as possible; see `files.file.File`."""
        return general

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        """Yield the tokens of each interval, in the given order. A store is asked for several side by side."""
        return (self.tokens(start, stop) for start, stop in wanted)

    def gather(self, starts: Offsets, lengths: Offsets) -> Tokens:
        """Return the tokens of many intervals, which may overlap, in the given order, reading neighbors together."""
        if len(starts) < 2:
            return self.tokens(int(starts[0]), int(starts[0] + lengths[0])) if len(starts) else np.empty(0, self.dtype)
        if bool((starts[1:] >= starts[:-1]).all()):
            return self._gathered(starts, lengths)
        order = np.argsort(starts, kind="stable")
        places = np.empty(len(order), np.int64)
        places[order] = offsets_of(lengths[order])[:-1]
        return pick(self._gathered(starts[order], lengths[order]), places, lengths)

    def _gathered(self, starts: Offsets, lengths: Offsets) -> Tokens:
        """Return what `gather` returns, of intervals whose starts ascend."""
        reach = np.maximum.accumulate(starts + lengths)
        far = np.append(np.flatnonzero(starts[1:] - reach[:-1] > _NEAR) + 1, len(starts))
        cuts, i = [0], 0
        for end in far.tolist():
            while i < end:  # One read holds at most WINDOW slots, or one interval.
                i = min(end, max(i + 1, int(np.searchsorted(reach[i:end], starts[i] + WINDOW, "right")) + i))
                cuts.append(i)
        wanted = [(int(starts[i]), int(reach[i:j].max())) for i, j in itertools.pairwise(cuts)]
        found = [
            pick(window, starts[i:j] - start, lengths[i:j])
            for window, (start, _), (i, j) in zip(self.intervals(wanted), wanted, itertools.pairwise(cuts), strict=True)
        ]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def at(self, positions: Offsets) -> Tokens:
        """Return the tokens of single slots, in the given order. Neighbors are read together."""
        if len(positions) < 2 or not bool((positions[1:] >= positions[:-1]).all()):
            return self.gather(positions, np.ones(len(positions), np.int64))
        cuts = [0, *(np.flatnonzero(np.diff(positions) > _NEAR) + 1).tolist(), len(positions)]
        wanted = [(int(positions[i]), int(positions[j - 1]) + 1) for i, j in itertools.pairwise(cuts)]
        if max(stop - start for start, stop in wanted) > WINDOW:
            return self.gather(positions, np.ones(len(positions), np.int64))
        places = zip(self.intervals(wanted), itertools.pairwise(cuts), strict=True)
        return np.concatenate([window[positions[i:j] - positions[i]] for window, (i, j) in places])

    def __getitem__(self, positions: Offsets) -> Tokens:
        """Return what `at` returns, so that an axis and a window of it are read in the same way."""
        return self.at(positions)

    def for_look(self) -> Axis:
        """Return this axis for a look at a few tokens: its reads compare no hash of a whole file."""
        return self

    def locate(self, position: int) -> ByteOffset | None:
        """Return the file and the byte of a slot; None if no file holds it, as a separator that was added."""
        check_position(position, self.length)
        return None

    def readers(self) -> list[TokenReader]:
        """Return the readers that this axis consists of, one after the other; [] if it is none and joins none."""
        return []

    def find(self, place: Place, byte: int) -> int | None:  # noqa: ARG002 - an axis without files
        """Return the position of the slot that holds a byte of a file; None if no slot does.

        For compressed data, it is the first slot of the chunk.
        """
        return None

    def close(self) -> None:  # noqa: B027 - an axis without files
        """Close the files; the next read opens them again."""


class TokenReader(Axis):
    """An axis, the offsets of the sequences on it, and facts about it.

    A reader of a format defines `info`, `tokens` and `offsets`. Everything else has a default, which is right for a
    format without that; nobody asks whether a reader has a method.
    """

    bounds: Offsets | None = None  # of all sequences, int64[sequences + 1]; None if they are not in memory
    none_empty: bool = False  # no sequence is empty, as the files state beside their index
    # the rows, which are samples, are stored with a loss mask and labels: `masks` and `labels` have them
    has_labels: bool = False
    has_begins: bool = False  # `begins` has where documents begin in the rows, without separators
    inserts_separators: bool = False  # `is_inserted` is True for some positions
    shifted: bool = True  # labels are the next tokens; False if they are the tokens themselves
    is_split: bool = False  # the sequences are those of a stream, whose separators were found when it was opened
    marks_ends: bool = False  # its marks state whether a separator that is added after a sequence counts
    trimmed: int | None = None  # stored tokens that are left out: separators and padding; None if none ever are

    info: Info  # known without a read of tokens

    @property
    def length(self) -> int:  # type: ignore[override]
        return self.info.tokens

    @property
    def dtype(self) -> Dtype:  # type: ignore[override]
        return self.info.dtype

    @abstractmethod
    def offsets(self, first: int, last: int) -> Offsets:
        """Return the positions, int64, of each sequence `first <= i < last`, and the end of the last."""

    @property
    def presumes(self) -> bool:
        """True if separators are presumed where no token was read; a sequence without its own raises UnendedError."""
        return False

    def check_ends(self, numbers: Offsets) -> None:
        """Read one token of each of some sequences; one that does not end as presumed raises UnendedError."""

    @property
    def is_readable(self) -> bool:
        """True if no token has to be decoded, and all are within the files. Others are read completely to know it."""
        return False

    def readers(self) -> list[TokenReader]:
        return [self]

    def sequence_at(self, position: int) -> int:
        """Return the last sequence that begins at or before a position; 0 without one.

        The default calls `offsets` O(log sequences) times.
        """
        low, high = 0, self.info.sequences
        while high - low > 1:
            middle = (low + high) // 2
            if int(self.offsets(middle, middle)[0]) <= position:
                low = middle
            else:
                high = middle
        return low

    def read_scattered(self, begins: Offsets, places: Offsets, lengths: Offsets, out: Tokens) -> None:
        """Read intervals in any order, each of at least one token and within one sequence. `begins`, `places` in `out`
        and `lengths` are int64[n]; `out` is of the reader's dtype, or wider.
        """
        for begin, place, length in zip(begins.tolist(), places.tolist(), lengths.tolist(), strict=True):
            out[place : place + length] = self.tokens(begin, begin + length)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:  # noqa: ARG002
        """Return the pieces of the tokens at positions `start <= p < stop`, in order; None if some are not stored raw.

        Reads no token. A reader that examines the tokens that it reads has no pieces.
        """
        return None

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:  # noqa: ARG002
        """Return marks, uint8[stop - start] with the bits of `core.loss_mask`; None if the dataset has none."""
        return None

    def masks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the loss mask, uint8[stop - start]: 1 where the label counts, also if the file stores the inverse."""
        raise LookupError(f"there are no loss masks for the positions {start}:{stop}")

    def labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the label of each token as stored, int64[stop - start]; -100 where it is ignored."""
        raise LookupError(f"there are no labels for the positions {start}:{stop}")

    def next_labels(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the labels of a sample as a loader of stored samples gives them, -100 where they do not count.

        Labels that are the tokens themselves are moved by one, but not those of a recipe, which says where they are.
        """
        return np.where(self.masks(start, stop), self.labels(start, stop), -100)

    def begins(self, start: int, stop: int) -> NDArray[np.bool_]:
        """Return bool[stop - start]: True where a document begins."""
        raise LookupError(f"where documents begin in the positions {start}:{stop} is not known")

    def to_source(self, position: int) -> tuple[TokenReader, int] | None:
        """Return the reader beneath and its position of the token here; None of a stored one, or without it."""
        check_position(position, self.info.tokens)
        return None

    def as_dataset(self, *, drawn: bool = False) -> object | None:  # noqa: ARG002 - what needs it is above this module
        """Return the `model.Dataset` whose contents this reader has, for `model.readers.dataset_of`. With `drawn`, the
        documents of a recipe are sequences of its sources, with their separators. The result is None for a stored
        reader, which knows nothing of separators.
        """
        return None

    def locate(self, position: int) -> ByteOffset | None:
        """The default asks the reader beneath."""
        found = self.to_source(position)
        return None if found is None else found[0].locate(found[1])

    def targets(self, start: int, stop: int) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return bool[stop - start]: True where a label that counts is this token; None: `masks` or `marks` say so.

        A reader with labels defines it if marks cannot express them.
        """
        return None

    def is_padding(self, start: int, stop: int) -> NDArray[np.bool_] | None:  # noqa: ARG002
        """Return bool[stop - start]: True at padding, which is at the ends of samples; None if there is none.

        No consumer decides from IDs and masks what is padding.
        """
        return None

    def padding_within(self) -> int | None:
        """Return how much of the axis is known to be padding without a read of it; None if it may be much."""
        return 0

    def padding_counts(self) -> PaddingCounts | None:
        """Return what was removed and inserted by a reader that joins samples; None for another one."""
        return None

    def is_inserted(self, positions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which positions hold a separator that the reader of a stream inserted, and the files do not hold."""
        return np.zeros(len(positions), np.bool_)

    def check_ends_before(self, following: object, eos_id: int | None) -> None:
        """Check that the last sequence does not continue in the dataset that is read next. `following` is the stored
        reader of the next dataset, of any class. The separator may be on both sides of the border. If it may continue,
        a token would be repeated, or a document cut: a FormatError.
        """


def batches(reader: TokenReader, first: int, last: int, size: int = WINDOW) -> Iterator[Ragged]:
    """Yield whole sequences in order, in batches of about `size` tokens.

    A batch holds at least one sequence, so a sequence longer than `size` is a batch. A batch holds at most 64 Ki
    sequences.
    """
    info = reader.info
    # Twice the number of sequences of average length that fill a batch.
    limit = min(1 << 16, 1 + 2 * size * info.sequences // max(info.tokens, 1))
    while first < last:
        offsets = reader.offsets(first, min(last, first + limit))
        count = max(1, int(np.searchsorted(offsets, offsets[0] + size, side="right")) - 1)
        bounds = offsets[: count + 1]
        yield Ragged(reader.tokens(int(bounds[0]), int(bounds[-1])), bounds - bounds[0])
        first += count


# Dtypes of token IDs

A = TypeVar("A", bound=np.integer[Any])

U8: Dtype = np.dtype(np.uint8)
U16: Dtype = np.dtype(np.uint16)
U32: Dtype = np.dtype(np.uint32)
U64: Dtype = np.dtype(np.uint64)
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


def smallest(max_id: int) -> Dtype:
    """Return the narrowest unsigned dtype that holds `max_id`."""
    for dtype in (U8, U16, U32):
        if max_id < 1 << 8 * dtype.itemsize:
            return dtype
    return U64


def largest_id(tokens: NDArray[np.integer]) -> int:
    """Return the largest token ID of a window; -1 if it is empty."""
    return int(tokens.max()) if len(tokens) else -1


def check_ids(tokens: Tokens, limit: int, position: int, where: str, remedy: str = "") -> int:
    """Return the largest token ID of a window (-1 if empty), after a check that it is at most `limit`."""
    top = largest_id(tokens)
    if top > limit:
        at = int(np.argmax(tokens > limit))
        raise TokenRangeError(where, int(tokens[at]), limit, position + at, remedy)
    return top


def distinct(values: NDArray[A]) -> NDArray[A]:
    """Return the distinct values in ascending order.

    `np.unique` would import numpy.ma, which takes a fifth of the time of a short command.
    """
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
