"""Put a separator after or before every sequence, or take it away where an index tells the sequences apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import (
    Separators,
    TokenReader,
    between_offsets,
    check_interval,
    check_position,
    sequence_at,
    sequence_reader,
    windows,
)
from tokfmt.core.dtypes import smallest
from tokfmt.core.errors import CorruptError
from tokfmt.core.protocols import Piece, marks_of, pieces_of, restored
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.views.view import View


class WithSeparators(View):
    """The axis of `source` with `eos_id` after each sequence, or before it: what a format with separators stores.

    Sequence i, at axis positions a..b of the source, takes positions a+i .. b+i+1 here, and its separator the last of
    them, or with `before` the first.
    """

    def __init__(self, source: TokenReader, eos_id: int, *, before: bool = False) -> None:
        info = source.info
        super().__init__(
            source,
            replace(
                info,
                tokens=info.tokens + info.sequences,
                dtype=np.promote_types(info.dtype, smallest(eos_id)),
                max_id=None if info.max_id is None else max(info.max_id, eos_id),
                separators=Separators.BEFORE if before else Separators.TRAILING,
                eos_id=eos_id,
                free_of=None,
            ),
        )
        self.eos_id, self.before = eos_id, before
        # taking separators away and putting them in again cancels: measured 4x less CPU from pack to pack
        self._stored = None if before else restored(source, eos_id)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last) + np.arange(first, last + 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self._info
        check_interval(start, stop, info.tokens)
        if self._stored is not None:
            return self._stored.tokens(start, stop).astype(info.dtype, copy=False)
        out = np.full(stop - start, self.eos_id, info.dtype)
        if start == stop:
            return out
        plain, begin, end = self._between(start, stop)
        out[plain] = self.source.tokens(begin, end)
        return out

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """As those of the stored axis, or of the source, with what its marks say of separators."""
        from tokfmt.core.marks import separated

        check_interval(start, stop, self._info.tokens)
        if marks_of(self.source) is None or (self._stored is not None and marks_of(self._stored) is not None):
            return marks_of(self._stored, start, stop)
        if start == stop:
            return np.empty(0, np.uint8)
        lead = max(start - 1, 0)  # a separator at the start is told of by what is in front of it
        plain, begin, end = self._between(lead, stop)
        found = marks_of(self.source, begin, end)
        return None if found is None else separated(found, plain)[start - lead :]

    def _between(self, start: int, stop: int) -> tuple[NDArray[np.bool_], int, int]:
        """Which positions, one or more, are no separators, and where the tokens there lie in the source."""
        first = sequence_at(self.source, start, shift=1)
        last = min(self._info.sequences, first + (stop - start) + 1)  # each sequence takes at least one position
        bounds = self.offsets(first, last)
        ends = bounds[:-1] if self.before else bounds[1:] - 1
        passed = first + int(np.count_nonzero(ends < start))
        ends = ends[(ends >= start) & (ends < stop)]
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        return plain, start - passed, stop - passed - len(ends)

    def beneath(self, position: int) -> tuple[TokenReader, int] | None:  # type: ignore[override]  # so does `above`
        check_position(position, self.info.tokens)
        if self._stored is not None:
            return self._stored, position
        sequence = sequence_at(self.source, position, shift=1)
        begin, end = (self.source.offsets(sequence, sequence + 1) + sequence).tolist()
        mark = begin if self.before else end
        return None if position == mark else (self.source, position - sequence - self.before)

    def above(self, reader: TokenReader, position: int) -> int | None:
        if reader is not self.readers()[0]:
            return None
        if self._stored is not None:
            return position if position < self.info.tokens else None
        return position + sequence_at(self.source, position) + self.before

    def readers(self) -> tuple[TokenReader]:
        return (self.source if self._stored is None else self._stored,)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """As those of the stored axis; see `protocols.Verbatim`."""
        return pieces_of(self._stored, start, stop)


class WithoutTrailing(View):
    """A stored axis whose every sequence ends with `eos_id`, without these separators.

    Every separator that is taken away is looked at first: a sequence that ends otherwise raises CorruptError.
    """

    passes_on = True

    def __init__(self, stored: TokenReader, eos_id: int, path: str) -> None:
        info, tokens = stored.info, stored.info.tokens - stored.info.sequences
        super().__init__(stored, replace(info, tokens=tokens, separators=Separators.NONE, eos_id=eos_id))
        self.eos_id, self.path = eos_id, path
        self._stored_sequence = sequence_reader(stored)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last) - np.arange(first, last + 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        if start == stop:
            return np.empty(0, info.dtype)
        first, last = sequence_at(self, start), sequence_at(self, stop - 1)
        pieces = [self._without(a, b) for a, b in windows(start + first, stop + last)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """Those of the stored axis; those of a separator go to the token in front of it."""
        from tokfmt.core.marks import unseparated

        check_interval(start, stop, self._info.tokens)
        if start == stop or marks_of(self.source) is None:
            return marks_of(self.source)
        first, last = sequence_at(self, start), sequence_at(self, stop - 1)
        a, b = start + first, stop + last + 1  # each token has its separator, or another token, behind it
        found, ends = marks_of(self.source, a, b), self.source.offsets(first, last + 1)[1:] - 1
        plain = np.ones(b - a, np.bool_)
        plain[ends[(ends >= a) & (ends < b)] - a] = False
        return None if found is None else unseparated(found, plain)[: stop - start]

    def sequence(self, number: int) -> Tokens:
        """See `axis.sequence_reader`."""
        stored = self._stored_sequence(number)
        if len(stored) and stored.item(-1) == self.eos_id:
            return stored[:-1]
        return between_offsets(self, number)  # which says what is wrong

    def _without(self, start: int, stop: int) -> Tokens:
        tokens, ends = self.looked_at(start, stop)
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        return tokens[plain]

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:
        if eos_id != self.eos_id:
            return None
        return self.source if read else _LookedAt(self)

    def looked_at(self, start: int, stop: int) -> tuple[Tokens, Offsets]:
        """Stored tokens, and the stored positions of the separators among them, each looked at."""
        tokens = self.source.tokens(start, stop)
        first, last = sequence_at(self.source, start), sequence_at(self.source, stop - 1) + 1
        ends = self.source.offsets(first, last)[1:] - 1
        ends = ends[(ends >= start) & (ends < stop)]
        wrong = tokens[ends - start] != self.eos_id
        if wrong.any():
            at = int(ends[np.argmax(wrong)])
            raise CorruptError(
                self.path,
                f"sequence {sequence_at(self.source, at):,} does not end with the separator {self.eos_id}",
                found=int(tokens[at - start]),
                remedy="--eos none reads the sequences as they are stored, with whatever ends them",
            )
        return tokens, ends

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.source, position + sequence_at(self, position)


class _LookedAt(View):
    """The stored axis under a WithoutTrailing, every separator looked at as it is read."""

    def __init__(self, view: WithoutTrailing) -> None:
        super().__init__(view.source)
        self.view = view

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        return self.view.looked_at(start, stop)[0] if start < stop else self.source.tokens(start, stop)

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        return marks_of(self.source, start, stop)
