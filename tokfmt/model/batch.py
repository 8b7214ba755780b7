"""A batch: consecutive sequences in one window of the axis, and the one place that writes separators.

Tokens beside a content are bits of `beside`, one number per sequence:

    AFTER   1  its separator is in the slot at `stop`
    LEAD    2  its lead, such as a BOS, is in the slot before `start`
    BEFORE  4  its separator is before its content, and before its lead

The extent of a sequence is its content with these slots. No slot belongs to two extents of an index that tiles its
axis; a slot in no extent is padding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import loss_mask
from tokfmt.core.ragged import Offsets, Tokens, pick
from tokfmt.core.reader import smallest
from tokfmt.errors import Loss, LossyConversionError
from tokfmt.model.axis import Numbers
from tokfmt.wording import counted

AFTER, LEAD, BEFORE = 1, 2, 4
SEP = AFTER | BEFORE
"""The bits of a closed sequence."""
TARGET, MASKED_END, UNENDED = (np.uint8(bit) for bit in (loss_mask.TARGET, loss_mask.MASKED_END, loss_mask.UNENDED))
"""Bits of a mark: the token counts in the loss; the separator behind it, which is not stored, does not."""

Sides = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Kind = Literal["index", "after", "before", "between"]
Leads = Literal["as-read", "all"]
"""The sequences that get a lead: those that have one, or all."""


class Counts(NamedTuple):
    """What became of one kind of token beside contents. The sum is the number of sequences."""

    kept: int = 0  # written as it was read
    replaced: int = 0  # written with another ID
    added: int = 0  # written, and not in the source
    dropped: int = 0  # in the source, and not written
    bare: int = 0  # neither in the source nor written

    def plus(self, other: Counts) -> Counts:
        """Return the sums."""
        return Counts(*map(int.__add__, self, other))


class Ledger(NamedTuple):
    """What became of the separator and of the lead of every sequence."""

    separators: Counts = Counts()
    leads: Counts = Counts()

    def plus(self, other: Ledger) -> Ledger:
        """Return the sums."""
        return Ledger(self.separators.plus(other.separators), self.leads.plus(other.leads))


class Boundaries(NamedTuple):
    """What a destination writes beside contents."""

    id: int | None = None  # the separator; None: none is written
    # an index, a separator after or before each sequence, or one between sequences, where a run of separators is
    # padding
    kind: Kind = "index"
    lead: int | None = None  # None: none is written
    leads: Leads = "as-read"  # sequences that get the lead: those that have one, or all
    only_closed: bool = False  # a sequence without a separator gets none
    accepted: frozenset[str] = frozenset()  # names of the accepted losses
    name: str = "the destination"  # of the format, for messages

    @property
    def side(self) -> int:
        """The bit of the side on which separators are written."""
        return BEFORE if self.kind == "before" else AFTER

    def beside(self, lengths: Numbers, beside: Sides) -> tuple[Flags, Flags]:
        """Return which sequences get a separator, and which get a lead. This rule is the only one."""
        if self.id is None:
            separator = np.zeros(len(lengths), np.bool_)
        elif self.only_closed:
            separator = beside & SEP != 0
        elif self.kind == "index":
            separator = beside & SEP != 0
            if not separator.all():
                separator |= lengths > 0
        elif self.kind == "between":
            separator = lengths > 0
        else:
            separator = np.ones(len(lengths), np.bool_)
        if self.lead is None:
            return separator, np.zeros(len(lengths), np.bool_)
        return separator, np.ones(len(lengths), np.bool_) if self.leads == "all" else beside & LEAD != 0

    def widest(self, dtype: np.dtype[np.unsignedinteger]) -> np.dtype[np.unsignedinteger]:
        """Return the dtype of laid out tokens, given that of the source."""
        beside = max(self.id or 0, self.lead or 0)
        return np.promote_types(dtype, smallest(beside)) if beside else dtype


class LaidOut(NamedTuple):
    """Tokens as a destination stores them."""

    tokens: Tokens  # do not write to them, as they may be the window itself
    ends: Offsets  # of each sequence in `tokens`, with its separator
    ledger: Ledger  # what became of separators and leads


@dataclass(frozen=True, eq=False)
class Batch:
    """Consecutive sequences, and the tokens of their extents."""

    first: int  # number of the first sequence
    window: Tokens  # if `base` is not None, consecutive slots of the axis; else the extents, one after the other
    base: int | None  # on the axis, of the first token of the window; None if the window was gathered
    starts: Offsets  # first place of each content in the window
    stops: Offsets  # place after the last token of each content
    beside: Sides  # each content
    separator: int | None = None  # the ID of every separator beside a content; None: there are several, or none
    lead: int | None = None  # the same for leads
    # of the slots of the window; None if the dataset has none
    read_marks: Callable[[], NDArray[np.uint8]] | None = None
    # a separator that is added to a sequence without one does not count in the loss: no data trains it
    lacking: bool = False

    def __len__(self) -> int:
        return len(self.starts)

    def content(self) -> tuple[Tokens, Numbers]:
        """Return the contents, concatenated, and the number of tokens of each."""
        lengths = self.stops - self.starts
        return pick(self.window, self.starts, lengths), lengths

    def laid_out(self, target: Boundaries) -> LaidOut:
        """Return the sequences as a destination stores them, or raise. No other function writes separators."""
        lengths = self.stops - self.starts
        separator, lead = target.beside(lengths, self.beside)
        if target.kind != "index":
            self._refuse_losses(target, lengths)
        ledger = Ledger(
            self._counts(separator, SEP, target.id, self.separator), self._counts(lead, LEAD, target.lead, self.lead)
        )
        stored = self._stored(target, ledger)
        if stored is not None:
            return LaidOut(*stored, ledger)
        tokens = pick(self.window, self.starts, lengths)
        placed = _place(lengths, separator, lead, target)
        if placed.plain is None:
            return LaidOut(tokens, placed.ends, ledger)
        out = np.empty(len(placed.plain), target.widest(self.window.dtype))
        out[placed.separators], out[placed.leads] = target.id or 0, target.lead or 0
        out[placed.plain] = tokens
        return LaidOut(out, placed.ends, ledger)

    def marks(self, target: Boundaries) -> NDArray[np.uint8] | None:
        """Return the marks of the tokens that `laid_out` returns; None if the dataset has none.

        Added leads count in the loss. Added separators do not if the sequences are `lacking`, or a mark says so.
        """
        return None if self.read_marks is None else self.laid_out_marks(target, self.read_marks())

    def laid_out_marks(self, target: Boundaries, window: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return what `marks` returns, given the marks of the slots of the window."""
        lengths = self.stops - self.starts
        separator, lead = target.beside(lengths, self.beside)
        placed = _place(lengths, separator, lead, target)
        marks = pick(window, self.starts, lengths)
        if placed.plain is None:
            return marks
        out = np.full(len(placed.plain), TARGET)
        full = separator & (lengths > 0)
        counts = marks[np.cumsum(lengths)[full] - 1] & (MASKED_END | UNENDED) == 0
        out[placed.separators[lengths[separator] > 0]] = counts & (not self.lacking)
        for flags, bits, places in ((separator, SEP, placed.separators), (lead, LEAD, placed.leads)):
            had = self.beside[flags] & bits != 0
            out[places[had]] = window[self.places(bits)[flags][had]]
        out[placed.plain] = marks
        return out

    def places(self, bits: int) -> Offsets:
        """Return the place in the window of the separator (SEP) or the lead (LEAD) of each sequence that has one."""
        if bits == LEAD:
            return self.starts - 1
        if not (self.beside & BEFORE).any():
            return self.stops
        return np.where(self.beside & BEFORE, self.starts - 1 - (self.beside & LEAD != 0), self.stops)

    def _counts(self, wanted: Flags, bits: int, id_: int | None, known: int | None) -> Counts:
        had = self.beside & bits != 0
        both, count = int(np.count_nonzero(wanted & had)), len(had)
        added, dropped = int(np.count_nonzero(wanted)) - both, int(np.count_nonzero(had)) - both
        kept = both
        if both and known is None:  # Several IDs: the tokens show which.
            kept = int(np.count_nonzero(self.window[self.places(bits)[wanted & had]] == id_))
        elif known != id_:
            kept = 0
        return Counts(kept, both - kept, added, dropped, count - both - added - dropped)

    def _stored(self, target: Boundaries, ledger: Ledger) -> tuple[Tokens, Offsets] | None:
        """Return the window, and the ends, if the sequences are stored as they are wanted but for IDs; else None.

        If an ID is replaced, it is a copy of the window.
        """
        moved = any(counts.added or counts.dropped for counts in ledger)
        other = BEFORE if target.side == AFTER else AFTER
        if moved or not len(self) or (self.beside & other).any():
            return None
        begins = _moved(self.starts, self.beside & LEAD, -1)
        if target.side == BEFORE:
            begins = _moved(begins, self.beside & BEFORE, -1)
        ends = _moved(self.stops, self.beside & AFTER, 1)
        if (begins[1:] != ends[:-1]).any():
            return None
        start = int(begins[0])
        tokens = self.window[start : int(ends[-1])]
        if any(counts.replaced for counts in ledger):
            tokens = tokens.astype(target.widest(tokens.dtype))
            for counts, bits, id_ in zip(ledger, (SEP, LEAD), (target.id, target.lead), strict=True):
                if counts.replaced:
                    tokens[_chosen(self.places(bits), self.beside & bits) - start] = id_ or 0
        return tokens, ends - start

    def extents(self) -> tuple[Offsets, Offsets]:
        """Return the start and the stop of each extent in the window."""
        starts = _moved(_moved(self.starts, self.beside & LEAD, -1), self.beside & BEFORE, -1)
        return starts, _moved(self.stops, self.beside & AFTER, 1)

    def _refuse_losses(self, target: Boundaries, lengths: Numbers) -> None:
        """Raise LossyConversionError for what separators cannot mark: empty sequences, and separators inside."""
        if target.kind == "between" and "empty-sequences" not in target.accepted and not lengths.all():
            count, first = int(np.count_nonzero(lengths == 0)), self.first + int(np.argmin(lengths))
            what = f"{counted(count, 'empty sequence')} (first: sequence {first:,})"
            raise LossyConversionError(target.name, [Loss("empty-sequences", what)])
        tokens, _ = self.content()
        refuse_embedded(target, tokens, self.first, 0, lengths)


def refuse_embedded(
    target: Boundaries, tokens: Tokens, first: int, position: int, lengths: Numbers | None = None
) -> None:
    """Refuse separators inside sequences, if only separators mark boundaries. `tokens` are contents, concatenated.
    `position` is that of the first token in the sequence `first`. Without `lengths`, all tokens are of the first
    sequence.
    """
    if target.kind == "index" or target.id is None or "embedded-separators" in target.accepted:
        return
    inside = np.flatnonzero(tokens == target.id)
    if not len(inside):
        return
    ends = np.cumsum(np.array([len(tokens)]) if lengths is None else lengths)
    k = int(np.searchsorted(ends, inside[0], "right"))
    position += int(inside[0]) - (int(ends[k - 1]) if k else 0)
    what = f"{counted(len(inside), 'separator')} {target.id} inside sequences "
    what += f"(first: sequence {first + k:,}, position {position:,})"
    if not position:
        what += f"; --bos {target.id} reads it as a lead, which is not content"
    raise LossyConversionError(target.name, [Loss("embedded-separators", what)])


class _Placed(NamedTuple):
    """Places in laid out tokens: the end of each sequence, separators, leads, and a mask of contents.

    `plain` is None if there are only contents.
    """

    ends: Offsets
    separators: Offsets
    leads: Offsets
    plain: Flags | None


def _place(lengths: Numbers, separator: Flags, lead: Flags, target: Boundaries) -> _Placed:
    sizes = _moved(_moved(lengths, separator, 1), lead, 1)
    ends = np.cumsum(sizes)
    separators = leads = ends[:0]
    if separator.any() or lead.any():
        begins = ends - sizes
        if target.side == AFTER:
            separators, leads = _chosen(ends, separator) - 1, _chosen(begins, lead)
        else:
            separators, leads = _chosen(begins, separator), _chosen(_moved(begins, separator, 1), lead)
    if not len(separators) and not len(leads):
        return _Placed(ends, separators, leads, None)
    plain = np.ones(int(ends[-1]), np.bool_)
    plain[separators] = plain[leads] = False
    return _Placed(ends, separators, leads, plain)


def _moved(values: Offsets, flags: NDArray[Any], step: int) -> Offsets:
    """Return values plus a step where a flag is set. All flags are often the same, which takes one pass or none."""
    if not flags.any():
        return values
    return values + step if flags.all() else values + (flags != 0) * np.int64(step)


def _chosen(values: Offsets, flags: NDArray[Any]) -> Offsets:
    """Return the values where a flag is set."""
    return values if flags.all() else values[flags != 0]
