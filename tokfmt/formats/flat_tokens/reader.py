"""Read flat tokens as a token axis: decode the IDs of a group, and compare them with its metadata."""

from __future__ import annotations

import numpy as np

from tokfmt.core.findings import raise_fatal
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.reader import (
    U32,
    WINDOW,
    ByteOffset,
    Damage,
    Info,
    Layout,
    Separators,
    TokenReader,
    check_interval,
    check_position,
    windows,
)
from tokfmt.errors import ContradictionError, FormatError, SourceChangedError
from tokfmt.files.place import Place
from tokfmt.formats.chunks import Items
from tokfmt.formats.flat_tokens.layout import STARTS, TOKENS, StoreLayout
from tokfmt.formats.zarr_arrays.array import Array

_PIECE = 1 << 16
"""Tokens that are decoded at once, so that they stay in the cache of the processor for four passes."""


class FlatTokensReader(TokenReader):
    """Read one split of a store, or a bare array.

    Opening reads and checks `seq_starts` and keeps it, 8 bytes per sequence. The reader checks every window of tokens:
    its start bits must match `seq_starts`, and no ID may be above `max_token_id`. Chunks have no checksum, so no other
    check can detect a damaged one.

    Args:
        store: The store.
        is_partial: Chunks may be absent until they are read, and a damaged `seq_starts` is read up to the damage.
        glimpse: Do not read `seq_starts`: return all IDs as one stream, without checks.
    """

    def __init__(self, store: StoreLayout, *, is_partial: bool = False, glimpse: bool = False) -> None:
        group = store.chosen()
        found, damage, notes = store.of(group), tuple[Damage, ...](), list[str]()
        self._glimpse, self._bound = glimpse, None if glimpse or store.options.bound == "ignore" else found.bound
        if glimpse:
            self._array = found.array(TOKENS) if is_partial else found.array(TOKENS).complete()
            self._offsets = np.array([0, self._array.layout.length][: 1 + bool(self._array.layout.length)], np.int64)
        else:
            problems = [problem for problem in found.problems if not (is_partial and problem.is_truncated)]
            raise_fatal(problems, frozenset())
            notes = [problem.note for problem in problems if problem.note]
            self._array = found.array(TOKENS)
            self._offsets, damage = found.certain_offsets() if is_partial else (found.offsets(), ())
        layout = self._array.layout
        self.info = Info(
            layout=Layout.STREAM if glimpse else Layout.DOCUMENTS,
            dtype=U32,
            sequences=len(self._offsets) - 1,
            tokens=int(self._offsets[-1]) if damage else layout.length,
            separators=Separators.NONE,
            notes=tuple(notes),
            split=group.split or "",
            other_splits=tuple(other.split or "" for other in store.groups if other is not group),
            extras={
                "zarr_format": group.zarr_format,
                "chunk": layout.items,
                "codec": " ".join(layout.codecs) or "none",
                "max_token_id": self._bound,
            },
            damage=damage,
        )

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        if stop - start <= WINDOW:
            return self._window(start, stop)
        out = np.empty(stop - start, np.uint32)
        for a, b in windows(start, stop):
            out[a - start : b - start] = self._window(a, b)
        return out

    def _window(self, start: int, stop: int) -> Items:
        """Return the IDs of a window: stored items without their lowest bit, which marks the start of a sequence."""
        items = self._array.read(start, stop)
        if self._glimpse:
            items >>= 1
            return items
        flip_starts(items, self._offsets, start)
        bits, top = 0, -1
        for a in range(0, len(items), _PIECE):
            piece = items[a : a + _PIECE]
            bits |= int(np.bitwise_or.reduce(piece))
            piece >>= 1
            top = max(top, int(piece.max()))
        if bits & 1:
            raise wrong_bits(self._array, self._offsets, start, stop)
        if self._bound is not None and top > self._bound:
            raise above_bound(self._array, items, start, self._bound)
        return items

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        return self._array.byte_offset(position)

    def find(self, place: Place, byte: int) -> int | None:
        return self._array.position(place, byte)

    def close(self) -> None:
        self._array.close()


def flip_starts(items: Items, offsets: Offsets, start: int) -> None:
    """Flip the start bits of stored items, in place, where sequences begin; `start` is the position of the first item.
    Every bit that is set afterwards was wrong.
    """
    first, last = np.searchsorted(offsets, (start, start + len(items)))
    items[offsets[first:last] - start] ^= 1


def wrong_bits(tokens: Array, offsets: Offsets, start: int, stop: int) -> FormatError:
    """Return the error for the first position of a window whose start bit contradicts `seq_starts`."""
    items = tokens.read(start, stop)
    flip_starts(items, offsets, start)
    wrong = (items & 1).astype(np.bool_)
    if not wrong.any():
        return SourceChangedError.while_read(tokens.path)
    at = start + int(np.argmax(wrong))
    begins = bool(np.searchsorted(offsets, at) < np.searchsorted(offsets, at, side="right"))
    says = "begins" if begins else "does not begin"
    remedy = "The IDs may not be encoded as 2 * ID + start bit, or the chunk is damaged: copy the store again"
    return ContradictionError(
        tokens.path,
        f"contradicts {STARTS}: token {at:,} {says} a sequence, by {STARTS}",
        expected=f"start bit {int(begins)}",
        found=int(not begins),
        remedy=remedy,
    )


def above_bound(tokens: Array, ids: Items, start: int, bound: int) -> FormatError:
    """Return the error for the first ID of a window above `max_token_id`."""
    at = int(np.argmax(ids > bound))
    return ContradictionError(
        tokens.path,
        f"holds an ID above max_token_id at token {start + at:,}",
        expected=f"at most {bound:,}",
        found=int(ids[at]),
        remedy="The chunk is damaged, or max_token_id is too low: --from-opt bound=ignore reads it as it is",
    )
