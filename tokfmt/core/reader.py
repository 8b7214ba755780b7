"""The one idea: a dataset is two arrays on a token axis.

    tokens   1-D virtual array of token ids, separators removed
    offsets  1-D non-decreasing array, one entry per sequence plus one; offsets[0] == 0, offsets[-1] == len(tokens)

`start`/`stop` are always positions on the token axis, `first`/`last` always sequence numbers. A *stored* reader is what
a format gives: its axis holds what the file holds, separators included, and `Info.separators` says how they lie. The
views of `tokfmt.views` take them away or put them in; commands see only axes without separators. Ids are cast between
widths here, and never wrap.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import TokenRangeError
from tokfmt.core.messages import Message
from tokfmt.core.ragged import Offsets, Ragged, Tokens


class CachedProtocolMeta(type(Protocol)):  # type: ignore[misc]  # its name is private
    """A protocol that lists its members once, as Python 3.12 does; 3.11 takes 20 µs for each isinstance()."""

    def __instancecheck__(cls, instance: object) -> bool:
        if not cls.__dict__.get("_is_protocol"):  # a class that inherits from one
            return bool(super().__instancecheck__(instance))
        kind = type(instance)
        return all(hasattr(kind, name) or hasattr(instance, name) for name in _members(cls))


@functools.cache
def _members(protocol: type) -> tuple[str, ...]:
    names = [name for kind in protocol.__mro__ for name in (*vars(kind), *vars(kind).get("__annotations__", ()))]
    return tuple(name for name in names if not name.startswith("_"))


WINDOW = 1 << 20
"""Tokens held at once by anything that walks an axis. 1 Mi stays in cache; larger windows measured slower."""


class Layout(Enum):
    """How a format lays out its rows."""

    DOCUMENTS = "documents"  # both arrays are stored
    SAMPLES = "samples"  # rows of one length
    STREAM = "stream"  # one long row


class Separators(Enum):
    """Where the separator lies on a stored axis."""

    NONE = "none"  # sequences are told apart by an index; no separator is stored
    TRAILING = (
        "trailing"  # by an index, and each sequence usually ends with the separator as well: with `Info.eos_id`, all do
    )
    BETWEEN = "between"  # by the separator alone: the stored axis is one stream, and runs of separators are padding
    AFTER = "after"  # by the separator alone, one after each sequence: two in a row enclose an empty one
    BEFORE = "before"  # by the separator alone, one in front of each sequence

    @property
    def alone(self) -> bool:
        """Nothing but the separator tells sequences apart, so that none may contain it."""
        return self in (Separators.BETWEEN, Separators.AFTER, Separators.BEFORE)


class Damage(NamedTuple):
    """What of a dataset is missing, or not certain to be as it was written.

    Attributes:
        what: What is wrong, in the words of the error.
        sequences, tokens: How many are lost; None where nothing tells.
        unused: Bytes of its files that are there and are not used.
    """

    what: str
    sequences: int | None = None
    tokens: int | None = None
    unused: int = 0

    def without_separators(self) -> Damage:
        """The same of sequences that each had a separator at the end, which is not counted."""
        if self.tokens is None or self.sequences is None:
            return self
        return self._replace(tokens=max(0, self.tokens - self.sequences))


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of a dataset without reading its tokens.

    Attributes:
        layout: How rows are laid out.
        dtype: Of `tokens()`: uint8, uint16, uint32 or uint64.
        sequences: Number of sequences (rows for samples, 1 or 0 for a stream).
        tokens: Length of the token axis.
        max_id: Largest id, when the file states it or a scan has found it; a separator may count in.
        sample_length: Tokens in a row, for samples.
        separators: Where separators lie on this axis.
        eos_id: The separator's id, when the dataset itself tells it.
        eos_from: How that id is known, in words ("format convention", "data_params.json", ...).
        free_of: An id that no sequence contains, by construction (the separator that it was split at).
        inferred: Facts that were inferred, each with the option that overrides it.
        notes: Defects met on opening that do not change a token, each a sentence.
        pad_id: What fills up samples, where the dataset or its format tells it.
        split: Of a dataset with splits the one that is read; the read option is `split`. None: it has none.
        other_splits: The others.
        nonstandard_masks: Samples whose loss mask or labels are not the plain ones, where samples are stored with them.
        first_nonstandard: The first of them; -1 when there is none.
        loss_masks: In words the masks that are stored beside the tokens, which few formats carry; "" for none.
        segmented: Rows hold several documents and say where each begins, other than by a separator.
        extras: Facts of the format's own (variant, byte order, width ...), for people.
        damage: What was left out with `Hints.partial`, because it is not certain.
        beginning: Only the beginning is on this axis, with as many sequences as were asked for (`Hints.most`).
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
    extras: Mapping[str, object] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    beginning: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "inferred", tuple(map(Message, self.inferred)))
        object.__setattr__(self, "notes", tuple(map(Message, self.notes)))
        object.__setattr__(self, "eos_from", Message(self.eos_from))

    @property
    def facts(self) -> Mapping[str, object]:
        """What the format tells of its data beside counts: for people, and for JSON."""
        masks = {"nonstandard_masks": self.nonstandard_masks, "first_nonstandard": self.first_nonstandard}
        return {
            **({"split": self.split, "other_splits": self.other_splits} if self.split is not None else {}),
            **(masks if self.nonstandard_masks is not None else {}),
            **({"loss_masks": self.loss_masks.removeprefix("loss masks ")} if self.loss_masks else {}),
            **self.extras,
            **({"pad_id": self.pad_id} if self.pad_id is not None else {}),
        }


@runtime_checkable
class TokenReader(Protocol):
    """Random access to a token axis.

    Picklable (paths, options and arrays, no open handles) and safe to share by threads.
    """

    @property
    def info(self) -> Info: ...

    def tokens(self, start: int, stop: int) -> Tokens:
        """Return the tokens at positions `start <= p < stop`.

        Args:
            start, stop: Token positions (not bytes); 0 <= start <= stop <= info.tokens.

        Returns:
            info.dtype[stop - start], native byte order; not to be written to.

        Raises:
            IndexError: The interval leaves the axis. Never clamped, never negative.
            FormatError: The file does not hold what its header promised.
        """

    def offsets(self, first: int, last: int) -> Offsets:
        """Return the absolute offsets of sequences `first <= i < last`, and the end of the last.

        Args:
            first, last: Sequence numbers; 0 <= first <= last <= info.sequences.

        Returns:
            int64[last - first + 1], token positions, non-decreasing.

        Raises:
            IndexError: The interval leaves the dataset.
        """

    def close(self) -> None:
        """Release open files. Reading again re-opens them."""


def check_interval(start: int, stop: int, length: int, what: str = "token positions") -> None:
    """Raise IndexError unless 0 <= start <= stop <= length."""
    if not 0 <= start <= stop <= length:
        raise IndexError(f"{what} {start}:{stop} leave 0:{length}")


def check_position(position: int, length: int) -> None:
    """Raise IndexError unless 0 <= position < length."""
    if not 0 <= position < length:
        raise IndexError(f"token position {position} leaves 0:{length}")


def sequence_at(reader: TokenReader, position: int, shift: int = 0) -> int:
    """The last sequence i with `offsets[i] + shift * i <= position`, by bisection; 0 when there is none.

    With shift 0 that is the sequence which holds a token position; with shift 1 the one that holds a position of the
    same axis with one separator after each sequence. O(log sequences) calls of `offsets`.
    """
    low, high = 0, reader.info.sequences
    while high - low > 1:
        middle = (low + high) // 2
        if int(reader.offsets(middle, middle)[0]) + shift * middle <= position:
            low = middle
        else:
            high = middle
    return low


def sequence_reader(reader: TokenReader) -> Callable[[int], Tokens]:
    """What reads one sequence of a reader, 0 <= number < info.sequences, as `tokens` does between its offsets.

    A reader may have a method of this name, whose result takes less time: a short read from the cache takes little more
    than asking for it. So what can be decided once for all sequences is decided when the method is called. The result
    has caches and descriptors of this process in it, and is not to be pickled.
    """
    own: Callable[[], Callable[[int], Tokens]] | None = getattr(reader, "sequence_reader", None)
    return own() if own else functools.partial(between_offsets, reader)


Passed = Callable[[int], int] | int
"""Separators in front of a sequence that offsets do not count: so many in front of i, or so many and i more."""


def closed_reader(
    reader: TokenReader,
    closing: int,
    otherwise: Callable[[int], Tokens],
    starts: Offsets | None = None,
    passed: Passed | None = None,
) -> Callable[[int], Tokens]:
    """The same without the id `closing` that ends each, where the reader has a method of this name.

    Args:
        reader: A stored axis.
        closing: The id.
        otherwise: Reads a sequence that ends with something else, or for which more has to be done.
        starts: Where sequences begin and the last ends, if the reader itself does not tell: separators not counted.
        passed: Given with these.
    """
    own: Callable[..., Callable[[int], Tokens]] | None = getattr(reader, "closed_reader", None)
    return own(closing, otherwise, starts, passed) if own else otherwise


def between_offsets(reader: TokenReader, number: int) -> Tokens:
    """One sequence, by its offsets."""
    start, stop = reader.offsets(number, number + 1).tolist()
    return reader.tokens(start, stop)


def windows(start: int, stop: int, size: int = WINDOW) -> Iterator[tuple[int, int]]:
    """Cut an interval into consecutive pieces of at most `size`."""
    for a in range(start, stop, size):
        yield a, min(a + size, stop)


def batches(reader: TokenReader, first: int, last: int, size: int = WINDOW) -> Iterator[Ragged]:
    """Walk whole sequences in order, about `size` tokens at a time.

    A batch holds at least one sequence, so one longer than `size` comes alone, whole. At most 64 Ki sequences a batch.
    """
    info = reader.info
    most = min(1 << 16, 1 + 2 * size * info.sequences // max(info.tokens, 1))  # twice what is needed of even lengths
    while first < last:
        offsets = reader.offsets(first, min(last, first + most))
        count = max(1, int(np.searchsorted(offsets, offsets[0] + size, side="right")) - 1)
        bounds = offsets[: count + 1]
        yield Ragged(reader.tokens(int(bounds[0]), int(bounds[-1])), bounds - bounds[0])
        first += count


# widths of token ids

A = TypeVar("A", bound=np.integer[Any])

Dtype = np.dtype[np.unsignedinteger]

U8: Dtype = np.dtype(np.uint8)
U16: Dtype = np.dtype(np.uint16)
U32: Dtype = np.dtype(np.uint32)
U64: Dtype = np.dtype(np.uint64)
INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


def smallest(max_id: int) -> Dtype:
    """The narrowest unsigned dtype that holds `max_id`."""
    for dtype in (U8, U16, U32):
        if max_id < 1 << 8 * dtype.itemsize:
            return dtype
    return U64


def largest_id(tokens: NDArray[np.integer]) -> int:
    """Largest id of a window; -1 when it is empty."""
    return int(tokens.max()) if len(tokens) else -1


def check_ids(tokens: Tokens, limit: int, position: int, where: str, remedy: str = "") -> int:
    """Return the largest id of a window (-1 if empty), after checking that it is at most `limit`.

    Args:
        tokens: unsigned [n].
        limit: Largest id that fits.
        position: Token position of tokens[0], for the message.
        where: Path or format, for the message.
        remedy: What to do about it.

    Raises:
        TokenRangeError: With the first offending id and its position.
    """
    top = largest_id(tokens)
    if top > limit:
        at = int(np.argmax(tokens > limit))
        raise TokenRangeError(where, int(tokens[at]), limit, position + at, remedy)
    return top


def distinct(values: NDArray[A]) -> NDArray[A]:
    """The different values, ascending. `np.unique` would import numpy.ma: a fifth of the time of a short command."""
    ordered = np.sort(values)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered
