"""The model of a dataset: two arrays on a token axis, and the protocol `TokenReader` that reads them.

    tokens   1-D virtual array of token IDs, separators removed
    offsets  1-D non-decreasing array, one entry per sequence plus one; offsets[0] == 0, offsets[-1] == len(tokens)

`start` and `stop` are always positions on the token axis; `first` and `last` are always sequence numbers. The reader of
a format is a *stored* reader: its axis holds what the files hold, separators included, and `Info.separators` says where
they are. The views of `tokfmt.views` remove or insert separators, so commands see only axes without them. This module
also converts token IDs between dtypes, without wrap-around.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import Loss, TokenRangeError
from tokfmt.core.place import Place
from tokfmt.core.ragged import Offsets, Ragged, Tokens


class CachedProtocolMeta(type(Protocol)):  # type: ignore[misc]  # The name of its metaclass is private.
    """A metaclass of protocols whose isinstance() is fast in Python 3.11, where a plain protocol takes 20 µs."""

    def __instancecheck__(cls, instance: object) -> bool:
        if not cls.__dict__.get("_is_protocol"):  # A class that inherits from a protocol.
            return bool(super().__instancecheck__(instance))
        kind = type(instance)
        return all(hasattr(kind, name) or hasattr(instance, name) for name in _members(cls))


@functools.cache
def _members(protocol: type) -> tuple[str, ...]:
    names = [name for kind in protocol.__mro__ for name in (*vars(kind), *vars(kind).get("__annotations__", ()))]
    return tuple(name for name in names if not name.startswith("_"))


WINDOW = 1 << 20
"""Tokens that a walk over an axis holds at once. 1 Mi stays in the CPU cache; larger windows are slower."""


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
    """A part of a dataset that is missing, or that may differ from what was written.

    Attributes:
        what: The problem, in the words of the error.
        sequences: Number of lost sequences; None if it is unknown.
        tokens: Number of lost tokens; None if it is unknown.
        unused: Bytes of the files that exist and are not used.
    """

    what: str
    sequences: int | None = None
    tokens: int | None = None
    unused: int = 0

    def without_separators(self) -> Damage:
        """Return the same damage without one separator per lost sequence."""
        if self.tokens is None or self.sequences is None:
            return self
        return self._replace(tokens=max(0, self.tokens - self.sequences))


class Inner(NamedTuple):
    """The sequences of an index that states documents of several sequences, such as sentences.

    Attributes:
        path: The index.
        offset: Byte offset of the entry of the first document with several sequences.
        sequences: Number of sequences of the index.
        documents: Number of documents, which are the sequences of the reader.
    """

    path: Place
    offset: int
    sequences: int
    documents: int


@dataclass(frozen=True, slots=True)
class Info:
    """Facts about a dataset that are known without a read of its tokens.

    Attributes:
        layout: Layout of the rows.
        dtype: Dtype of `tokens()`: uint8, uint16, uint32 or uint64.
        sequences: Number of sequences (rows for samples, 1 or 0 for a stream).
        tokens: Length of the token axis.
        max_id: Largest token ID, if the file states it or a scan found it; it may be the separator. None: unknown.
        sample_length: Tokens per row, for samples.
        separators: Positions of separators on this axis.
        eos_id: Token ID of the separator, if the dataset itself states it.
        eos_from: The origin of `eos_id`, in words ("format convention", "data_params.json", ...).
        free_of: An ID that no sequence contains by construction: the separator at which the stream was split.
        inferred: Inferred facts, one sentence each, with the option that overrides the fact.
        notes: Defects that do not change a token, one sentence each.
        pad_id: Token ID of the padding of samples, if the dataset or its format states it.
        split: The split that is read; the read option `split` selects it. None: the dataset has no splits.
        other_splits: The other splits.
        nonstandard_masks: Number of samples with a loss mask or labels other than those of plain text, such as a masked
            prompt. None: samples are stored without them, or were not counted.
        first_nonstandard: Number of the first of these samples; -1 without one.
        loss_masks: Description of loss masks beside the tokens, which few formats can store; "" without any.
        segmented: Rows hold several documents, and the dataset states where each begins, without separators.
        inner: For each index whose documents hold several sequences, such as sentences: where it states them.
        extras: Facts specific to the format (variant, byte order, width ...), for display.
        damage: The parts that `Hints.allow_partial` left out.
        lost: The parts that are left out because the user accepted their loss (`Hints.allow_loss`).
        beginning: The axis holds only the first `Hints.max_sequences` sequences of the dataset.
        beginning_of: Of such an axis, the number of stored tokens of the dataset, if it states that number.
        length_given: The read option `seq_len` gives `sample_length`, as the dataset does not state it.
        tokenizers: The names of the tokenizers that the metadata of its files state, each once.
        made_by: Of a recipe, which has no manifest: the tokenizer that is known to make or to have made all its IDs, as
            manifests describe it; None if unknown.
    """

    layout: Layout
    dtype: np.dtype[np.unsignedinteger]
    sequences: int
    tokens: int
    max_id: int | None = None
    sample_length: int | None = None
    separators: Separators = Separators.NONE
    eos_id: int | None = None
    eos_from: str = ""
    free_of: int | None = None
    inferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pad_id: int | None = None
    split: str | None = None
    other_splits: tuple[str, ...] = ()
    nonstandard_masks: int | None = None
    first_nonstandard: int = -1
    loss_masks: str = ""
    segmented: bool = False
    inner: tuple[Inner, ...] = ()
    extras: Mapping[str, object] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    lost: tuple[Loss, ...] = ()
    beginning: bool = False
    beginning_of: int | None = None
    length_given: bool = False
    tokenizers: tuple[str, ...] = ()
    made_by: Mapping[str, Any] | None = None

    @property
    def facts(self) -> Mapping[str, object]:
        """The facts apart from counts, for display and JSON."""
        masks = {"nonstandard_masks": self.nonstandard_masks, "first_nonstandard": self.first_nonstandard}
        return {
            **({"split": self.split, "other_splits": self.other_splits} if self.split is not None else {}),
            **(masks if self.nonstandard_masks is not None else {}),
            **({"loss_masks": self.loss_masks.removeprefix("loss masks ")} if self.loss_masks else {}),
            **({"tokenizer": ", ".join(self.tokenizers)} if self.tokenizers else {}),
            **self.extras,
            **({"index_sequences": sum(one.sequences for one in self.inner)} if self.inner else {}),
            **({"pad_id": self.pad_id} if self.pad_id is not None else {}),
        }


@runtime_checkable
class TokenReader(Protocol):
    """Random access to the tokens and offsets of a dataset.

    A reader is picklable (it holds paths, options and arrays, and no open handles) and thread-safe.
    """

    @property
    def info(self) -> Info: ...

    def tokens(self, start: int, stop: int) -> Tokens:
        """Return the tokens at positions `start <= p < stop`.

        Args:
            start: First token position; 0 <= start <= stop. It is not a byte offset.
            stop: End of the interval; stop <= info.tokens.

        Returns:
            info.dtype[stop - start], native byte order, read-only.

        Raises:
            IndexError: If the interval leaves the axis. It is never clamped, and never counts from the end.
            FormatError: If the file does not hold what its header states.
        """

    def offsets(self, first: int, last: int) -> Offsets:
        """Return the start of each sequence `first <= i < last`, and the end of the last.

        Args:
            first: First sequence number; 0 <= first <= last.
            last: End of the range; last <= info.sequences.

        Returns:
            int64[last - first + 1], positions on the token axis, non-decreasing.

        Raises:
            IndexError: If the range leaves the dataset.
        """

    def close(self) -> None:
        """Close open files. A later read opens them again."""


def check_interval(start: int, stop: int, length: int, what: str = "token positions") -> None:
    """Raise IndexError unless 0 <= start <= stop <= length.

    Args:
        start: First position.
        stop: Position after the last.
        length: Length of the axis.
        what: The positions, for the message.
    """
    if not 0 <= start <= stop <= length:
        raise IndexError(f"{what} {start}:{stop} are outside 0:{length}")


def check_position(position: int, length: int) -> None:
    """Raise IndexError unless 0 <= position < length."""
    if not 0 <= position < length:
        raise IndexError(f"token position {position} is outside 0:{length}")


def sequence_at(reader: TokenReader, position: int) -> int:
    """Return the last sequence that begins at or before a position of an axis; 0 without one.

    A reader whose offsets cost a read of the file has a method `sequence_at`.
    """
    find: Callable[[int], int] | None = getattr(reader, "sequence_at", None)
    return bisected(reader, position) if find is None else find(position)


def bisected(reader: TokenReader, position: int) -> int:
    """Return what `sequence_at` returns, by O(log sequences) calls of `offsets`."""
    low, high = 0, reader.info.sequences
    while high - low > 1:
        middle = (low + high) // 2
        if int(reader.offsets(middle, middle)[0]) <= position:
            low = middle
        else:
            high = middle
    return low


class Ends(NamedTuple):
    """Where each of many sequences ends, each of which begins where the one before ends.

    Sequence i ends before the position bases[i >> bits] + places[i] + shift.

    Attributes:
        bases: int64[blocks].
        places: Integers, one per sequence.
        bits: Base 2 logarithm of the number of sequences per base.
        shift: Added to all.
    """

    bases: memoryview[int]
    places: memoryview[int]
    bits: int
    shift: int = 0


def windows(start: int, stop: int, size: int = WINDOW) -> Iterator[tuple[int, int]]:
    """Cut an interval into consecutive windows of at most `size` tokens.

    Args:
        start: First position.
        stop: Position after the last.
        size: Largest number of tokens per window.
    """
    for a in range(start, stop, size):
        yield a, min(a + size, stop)


def batches(reader: TokenReader, first: int, last: int, size: int = WINDOW) -> Iterator[Ragged]:
    """Yield whole sequences in order, in batches of about `size` tokens.

    A batch holds at least one sequence, so a sequence longer than `size` is a batch. A batch holds at most 64 Ki
    sequences.

    Args:
        reader: Reader of the axis.
        first: First sequence number.
        last: Sequence number after the last.
        size: Tokens per batch, about.
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

Dtype = np.dtype[np.unsignedinteger]

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
    """Return the largest token ID of a window (-1 if empty), after a check that it is at most `limit`.

    Args:
        tokens: Unsigned integers [n].
        limit: Largest ID that fits.
        position: Position of tokens[0], for the message.
        where: Path or format, for the message.
        remedy: Remedy, for the message.

    Raises:
        TokenRangeError: If an ID exceeds `limit`. The message has the first such ID and its position.
    """
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
