"""Put a separator after every sequence, or take it away where an index already tells the sequences apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from tokfmt.core.axis import Info, Separators, TokenReader, check_interval, check_position, sequence_at, windows
from tokfmt.core.dtypes import smallest
from tokfmt.core.errors import CorruptError
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.verbatim import Piece, pieces_of


@runtime_checkable
class Restorable(Protocol):
    """A view that took separators away, and knows the axis that has them still."""

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:
        """A reader of this axis with `eos_id` after each sequence, or None if none is at hand.

        Args:
            eos_id: The separator.
            read: The whole axis has been read before: what is looked at as it is read need not be again, so that
                tokens may be copied unread (`core.verbatim`).
        """


def restored(view: object, eos_id: int, *, read: bool = False) -> TokenReader | None:
    """The axis of a view with its separators, if it knows it."""
    return view.restored(eos_id, read=read) if isinstance(view, Restorable) else None


class WithSeparators:
    """The axis of `source` with `eos_id` after each sequence: what a format with separators stores.

    Sequence i, at axis positions a..b of the source, lies at a+i .. b+i here, and its separator at b+i.
    """

    def __init__(self, source: TokenReader, eos_id: int) -> None:
        self.source, self.eos_id = source, eos_id
        # taking separators away and putting them in again cancels: measured 4x less CPU from pack to pack
        self._stored = restored(source, eos_id)

    @property
    def info(self) -> Info:
        info = self.source.info
        return replace(
            info,
            tokens=info.tokens + info.sequences,
            dtype=np.promote_types(info.dtype, smallest(self.eos_id)),
            max_id=None if info.max_id is None else max(info.max_id, self.eos_id),
            separators=Separators.TRAILING,
            eos_id=self.eos_id,
            free_of=None,
        )

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last) + np.arange(first, last + 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        if self._stored is not None:
            return self._stored.tokens(start, stop).astype(info.dtype, copy=False)
        out = np.full(stop - start, self.eos_id, info.dtype)
        if start == stop:
            return out
        first = sequence_at(self.source, start, shift=1)
        last = min(info.sequences, first + (stop - start) + 1)  # each sequence takes at least one position
        ends = self.offsets(first, last)[1:] - 1
        ends = ends[(ends >= start) & (ends < stop)]
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        out[plain] = self.source.tokens(start - first, stop - first - len(ends))
        return out

    def beneath(self, position: int) -> tuple[TokenReader, int] | None:
        check_position(position, self.info.tokens)
        if self._stored is not None:
            return self._stored, position
        sequence = sequence_at(self.source, position, shift=1)
        end = int(self.source.offsets(sequence, sequence + 1)[1]) + sequence
        return None if position == end else (self.source, position - sequence)

    def above(self, reader: TokenReader, position: int) -> int | None:
        if reader is not self.readers()[0]:
            return None
        if self._stored is not None:
            return position if position < self.info.tokens else None
        return position + sequence_at(self.source, position)

    def readers(self) -> tuple[TokenReader]:
        return (self.source if self._stored is None else self._stored,)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """As those of the stored axis; see `core.verbatim`."""
        return pieces_of(self._stored, start, stop)

    def close(self) -> None:
        self.source.close()


class WithoutTrailing:
    """A stored axis whose every sequence ends with `eos_id`, without these separators.

    Every separator that is taken away is looked at first: a sequence that ends otherwise raises CorruptError.
    """

    def __init__(self, stored: TokenReader, eos_id: int, path: str) -> None:
        self.stored, self.eos_id, self.path = stored, eos_id, path

    @property
    def info(self) -> Info:
        info = self.stored.info
        return replace(info, tokens=info.tokens - info.sequences, separators=Separators.NONE, eos_id=self.eos_id)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.stored.offsets(first, last) - np.arange(first, last + 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        info = self.info
        check_interval(start, stop, info.tokens)
        if start == stop:
            return np.empty(0, info.dtype)
        first, last = sequence_at(self, start), sequence_at(self, stop - 1)
        pieces = [self._without(a, b) for a, b in windows(start + first, stop + last)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def _without(self, start: int, stop: int) -> Tokens:
        tokens, ends = self.looked_at(start, stop)
        plain = np.ones(stop - start, np.bool_)
        plain[ends - start] = False
        return tokens[plain]

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:
        if eos_id != self.eos_id:
            return None
        return self.stored if read else _LookedAt(self)

    def looked_at(self, start: int, stop: int) -> tuple[Tokens, Offsets]:
        """Stored tokens, and the stored positions of the separators among them, each looked at."""
        tokens = self.stored.tokens(start, stop)
        first, last = sequence_at(self.stored, start), sequence_at(self.stored, stop - 1) + 1
        ends = self.stored.offsets(first, last)[1:] - 1
        ends = ends[(ends >= start) & (ends < stop)]
        wrong = tokens[ends - start] != self.eos_id
        if wrong.any():
            at = int(ends[np.argmax(wrong)])
            raise CorruptError(
                self.path,
                f"sequence {sequence_at(self.stored, at):,} does not end with the separator {self.eos_id}",
                found=int(tokens[at - start]),
                remedy="--eos none reads the sequences as they are stored, with whatever ends them",
            )
        return tokens, ends

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.stored, position + sequence_at(self, position)

    def above(self, reader: TokenReader, position: int) -> int | None:
        if reader is not self.stored:
            return None
        here = position - sequence_at(self.stored, position)
        return here if here < self.info.tokens else None

    def readers(self) -> tuple[TokenReader]:
        return (self.stored,)

    def close(self) -> None:
        self.stored.close()


class _LookedAt:
    """The stored axis under a WithoutTrailing, every separator looked at as it is read."""

    def __init__(self, view: WithoutTrailing) -> None:
        self.view = view

    @property
    def info(self) -> Info:
        return self.view.stored.info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self.view.looked_at(start, stop)[0] if start < stop else self.view.stored.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.view.stored.offsets(first, last)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.info.tokens)
        return self.view.stored, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        return position if reader is self.view.stored else None

    def readers(self) -> tuple[TokenReader]:
        return (self.view.stored,)

    def close(self) -> None:
        self.view.close()
