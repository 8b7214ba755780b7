"""Some of the sequences of a reader: a run of them, or those that are not empty; and facts a scan has found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tokfmt.core.axis import Info, TokenReader, check_interval, check_position, windows
from tokfmt.core.errors import Loss
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.verbatim import Piece, pieces_of
from tokfmt.views.separated import restored


class Slice:
    """Sequences `first <= i < last` of a source."""

    def __init__(self, source: TokenReader, first: int, last: int) -> None:
        check_interval(first, last, source.info.sequences, "sequences")
        self.source, self.first, self.last = source, first, last
        self._start = int(source.offsets(first, first)[0])
        self._stop = int(source.offsets(last, last)[0])

    @property
    def info(self) -> Info:
        return replace(self.source.info, sequences=self.last - self.first, tokens=self._stop - self._start, max_id=None)

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._stop - self._start)
        return self.source.tokens(start + self._start, stop + self._start)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.last - self.first, "sequences")
        return self.source.offsets(first + self.first, last + self.first) - self._start

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self._stop - self._start)
        return self.source, position + self._start

    def above(self, reader: TokenReader, position: int) -> int | None:
        return position - self._start if reader is self.source and self._start <= position < self._stop else None

    def readers(self) -> tuple[TokenReader]:
        return (self.source,)

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:
        """The same sequences of what the source has; see `views.separated.Restorable`."""
        whole = restored(self.source, eos_id, read=read)
        return None if whole is None else Slice(whole, self.first, self.last)

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """As those of the source; see `core.verbatim`."""
        check_interval(start, stop, self._stop - self._start)
        return pieces_of(self.source, start + self._start, stop + self._start)

    def close(self) -> None:
        self.source.close()


class NonEmpty:
    """A source without its empty sequences; the token axis stays as it is. Keeps 8 bytes a sequence."""

    def __init__(self, source: TokenReader) -> None:
        self.source = source
        parts = [np.empty(0, np.int64)]
        for a, b in windows(0, source.info.sequences):
            offsets = source.offsets(a, b)
            parts.append(offsets[:-1][np.diff(offsets) > 0])
        self._offsets = np.concatenate([*parts, [source.info.tokens]])

    @property
    def info(self) -> Info:
        return replace(self.source.info, sequences=len(self._offsets) - 1)

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, len(self._offsets) - 1, "sequences")
        return self._offsets[first : last + 1]

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.source.info.tokens)
        return self.source, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        return position if reader is self.source else None

    def readers(self) -> tuple[TokenReader]:
        return (self.source,)

    def close(self) -> None:
        self.source.close()


def empty_sequences(source: TokenReader) -> tuple[int, int]:
    """How many sequences are empty, and the number of the first (-1 when none is). Reads offsets only."""
    count, first = 0, -1
    for a, b in windows(0, source.info.sequences):
        empty = np.flatnonzero(np.diff(source.offsets(a, b)) == 0)
        if len(empty):
            first = first if count else a + int(empty[0])
            count += len(empty)
    return count, first


def lost_empties(source: TokenReader) -> list[Loss]:
    """The loss of a format whose separators alone mark boundaries: empty sequences, if there are any."""
    count, first = empty_sequences(source)
    if not count:
        return []
    return [Loss("empty-sequences", f"{count:,} empty sequence{'' if count == 1 else 's'} (first: sequence {first:,})")]


class Known:
    """A source that a scan has read from end to end, and found the largest id of."""

    def __init__(self, source: TokenReader, max_id: int) -> None:
        self.source, self.max_id = source, max_id

    @property
    def info(self) -> Info:
        return replace(self.source.info, max_id=self.max_id)

    def restored(self, eos_id: int, *, read: bool = False) -> TokenReader | None:  # noqa: ARG002 - it has been read
        """As the source's, if it has one; see `views.separated.Restorable`."""
        stored = restored(self.source, eos_id, read=True)
        return None if stored is None else Known(stored, max(self.max_id, eos_id))

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """As those of the source; see `core.verbatim`."""
        return pieces_of(self.source, start, stop)

    def tokens(self, start: int, stop: int) -> Tokens:
        return self.source.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        return self.source.offsets(first, last)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        check_position(position, self.source.info.tokens)
        return self.source, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        return position if reader is self.source else None

    def readers(self) -> tuple[TokenReader]:
        return (self.source,)

    def close(self) -> None:
        self.source.close()
