"""Flat tokens as a token axis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tokfmt.core.axis import WINDOW, Info, Layout, Separators, check_interval, check_position, frozen, windows
from tokfmt.core.dtypes import U32
from tokfmt.core.errors import CorruptError, FormatError, SourceChangedError, UnsafeError
from tokfmt.core.inside import Place
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.formats.flat_tokens.array import Array, Items
from tokfmt.formats.flat_tokens.group import STARTS, TOKENS, choose, group_notes, groups_of, max_token_id
from tokfmt.formats.flat_tokens.options import ReadOptions
from tokfmt.formats.flat_tokens.store import open_store

_PIECE = 1 << 16
"""Tokens decoded at once: a piece stays in cache through its four passes."""

_STARTS_BYTES = 1 << 30
_RATIO = 1100


class FlatTokensReader:
    """One split of a store, or a bare array.

    `seq_starts` is read and checked on opening (8 bytes a sequence are kept). Each window of tokens is checked: its
    start bits are those that `seq_starts` says, and no id is above `max_token_id`. Chunks have no checksum, so this is
    all that tells a damaged one.
    """

    def __init__(self, path: Path, options: ReadOptions) -> None:
        store = open_store(path)
        groups = groups_of(store)
        group = choose(store, groups, options.split)
        self._array = Array(store, group.key(TOKENS), 4, group.zarr_format)
        self._offsets = _offsets(Array(store, group.key(STARTS), 8, group.zarr_format), self._array)
        notes = group_notes(store, group)
        self._bound = max_token_id(store, group) if options.bound == "check" else None
        layout = self._array.layout
        if layout.big_endian:
            notes.append(f"{path.name}: {TOKENS} is big-endian, which seqax refuses")
        self._info = Info(
            layout=Layout.DOCUMENTS,
            dtype=U32,
            sequences=len(self._offsets) - 1,
            tokens=layout.length,
            separators=Separators.NONE,
            notes=tuple(notes),
            extras=frozen(
                split=group.split or "",
                other_splits=tuple(other.split for other in groups if other is not group),
                zarr_format=group.zarr_format,
                chunk=layout.chunk,
                codec=" ".join(layout.codecs) or "none",
                max_token_id=self._bound,
            ),
        )

    @property
    def info(self) -> Info:
        return self._info

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        if stop - start <= WINDOW:
            return self._window(start, stop)
        out = np.empty(stop - start, np.uint32)
        for a, b in windows(start, stop):
            out[a - start : b - start] = self._window(a, b)
        return out

    def _window(self, start: int, stop: int) -> Items:
        """Ids of a window: half of what is stored, whose lowest bits mark where sequences begin."""
        items = self._array.read(start, stop)
        first, last = np.searchsorted(self._offsets, (start, stop))
        begins = self._offsets[first:last]
        items[begins - start] ^= 1  # now any start bit that is set is wrong: missing there, or set elsewhere
        bits, top = 0, -1
        for a in range(0, len(items), _PIECE):
            piece = items[a : a + _PIECE]
            bits |= int(np.bitwise_or.reduce(piece))
            piece >>= 1
            top = max(top, int(piece.max()))
        if bits & 1:
            error = wrong_bits(self._array, self._offsets, start, stop)
            raise error or SourceChangedError(self._array.path, "changed while it was being read")
        if self._bound is not None and top > self._bound:
            raise above_bound(self._array, items, start, self._bound)
        return items

    def place(self, position: int) -> Place:
        check_position(position, self._info.tokens)
        return self._array.place(position)

    def position(self, path: Path, offset: int) -> int | None:
        return self._array.position(path, offset)

    def close(self) -> None:
        self._array.close()


def _offsets(starts: Array, tokens: Array) -> Offsets:
    """`seq_starts`, int64[sequences + 1], checked.

    Raises:
        FormatError: It does not begin at 0, decreases, does not end at the number of tokens, or is far too large for
            the bytes it comes from.
    """
    check_memory(starts)
    out = np.empty(starts.layout.length, np.int64)
    for error in starts_errors(starts, tokens.layout.length, out):
        raise error
    return out


def check_memory(starts: Array) -> None:
    """Raise UnsafeError when `seq_starts` is far too large for the bytes it comes from."""
    count = starts.layout.length
    if count * 8 > _STARTS_BYTES and count * 8 > _RATIO * starts.stored_bytes():
        raise UnsafeError(
            starts.path, f"would take {count * 8:,} bytes of memory", found=f"{starts.stored_bytes():,} bytes stored",
            remedy="Write seq_starts again without a compressor, if it is to be trusted",
        )  # fmt: skip


def starts_errors(starts: Array, total: int, out: Offsets) -> Iterator[FormatError]:
    """Everything that is wrong with `seq_starts`, read once in windows.

    Args:
        starts: The array.
        total: Number of tokens.
        out: int64, as long as the array; filled on the way.

    Yields:
        CorruptError for: no entry, a first that is not 0, the first decrease and how many there are, a wrong end.
    """
    count, path = starts.layout.length, starts.path
    if not count:
        yield CorruptError(path, "is empty", expected="at least the entry 0", remedy=_COPY)
        return
    last, decreases, first = 0, 0, (0, 0, 0)
    for a, b in windows(0, count):
        window = starts.read(a, b)
        out[a:b] = window.view(np.int64)
        if a == 0 and window[0]:
            yield CorruptError(path, "does not begin with 0", found=int(window[0]), remedy=_COPY)
        before = np.concatenate(([np.uint64(last if a else window[0])], window[:-1]))
        falls = np.flatnonzero(window < before)
        if len(falls) and not decreases:
            at = int(falls[0])
            first = (a + at, int(before[at]), int(window[at]))
        decreases += len(falls)
        last = int(window[-1])
    if decreases:
        yield CorruptError(
            path, f"decreases at entry {first[0]:,}" + (f" and {decreases - 1:,} times after" if decreases > 1 else ""),
            expected=f"at least {first[1]:,}",
            found=first[2], remedy=_COPY,
        )  # fmt: skip
    if last != total:
        yield CorruptError(
            path, f"does not end at the number of tokens in {TOKENS}", expected=total, found=last,
            remedy="An append was interrupted, or a copy: append or copy again",
        )  # fmt: skip


_COPY = "Copy the store again"


def wrong_bits(tokens: Array, offsets: Offsets, start: int, stop: int) -> FormatError | None:
    """The first position of a window whose start bit is not what `seq_starts` says; None when all are."""
    bits = (tokens.read(start, stop) & 1).astype(np.bool_)
    expected = np.zeros(stop - start, np.bool_)
    first, last = np.searchsorted(offsets, (start, stop))
    expected[offsets[first:last] - start] = True
    if np.array_equal(bits, expected):
        return None
    at = int(np.argmax(bits != expected))
    says = "begins" if expected[at] else "does not begin"
    remedy = "The ids may not be encoded as 2 * id + start bit, or the chunk is damaged: copy the store again"
    return CorruptError(
        tokens.path, f"contradicts {STARTS}: token {start + at:,} {says} a sequence, by {STARTS}",
        expected=f"start bit {int(expected[at])}", found=int(bits[at]), remedy=remedy,
    )  # fmt: skip


def above_bound(tokens: Array, ids: Items, start: int, bound: int) -> FormatError:
    """The first id of a window above `max_token_id`."""
    at = int(np.argmax(ids > bound))
    return CorruptError(
        tokens.path, f"holds an id above max_token_id at token {start + at:,}", expected=f"at most {bound:,}",
        found=int(ids[at]),
        remedy="The chunk is damaged, or max_token_id is too low: --from-opt bound=ignore reads it as it is",
    )  # fmt: skip
