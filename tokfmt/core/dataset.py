"""A reader as Python users hold it: `len`, `[i]`, slices, iteration."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import overload

from tokfmt.core.axis import WINDOW, Info, TokenReader, batches, check_position
from tokfmt.core.ragged import Offsets, Ragged, Tokens


class Dataset:
    """Sequences of token ids, separators removed. A context manager; also a TokenReader.

    Attributes:
        reader: The reader underneath.
        format: Name of the format, e.g. `modalities`.
    """

    def __init__(self, reader: TokenReader, format_name: str) -> None:
        self.reader, self.format = reader, format_name

    @property
    def info(self) -> Info:
        """Layout, dtype, counts and what was inferred."""
        return self.reader.info

    def __len__(self) -> int:
        return self.reader.info.sequences

    @overload
    def __getitem__(self, index: int) -> Tokens: ...
    @overload
    def __getitem__(self, index: slice) -> Ragged: ...

    def __getitem__(self, index: int | slice) -> Tokens | Ragged:
        """Sequence `i` as an array uint[n]; a slice with step 1 as a Ragged.

        Raises:
            IndexError: There is no such sequence.
            ValueError: A slice with a step.
        """
        if isinstance(index, slice):
            first, last, step = index.indices(len(self))
            if step != 1:
                raise ValueError("slices of a dataset have step 1")
            return self._ragged(first, max(first, last))
        if not -len(self) <= index < len(self):
            raise IndexError(f"sequence {index} of {len(self)}")
        index %= len(self)
        bounds = self.reader.offsets(index, index + 1)
        return self.reader.tokens(int(bounds[0]), int(bounds[1]))

    def _ragged(self, first: int, last: int) -> Ragged:
        bounds = self.reader.offsets(first, last)
        return Ragged(self.reader.tokens(int(bounds[0]), int(bounds[-1])), bounds - bounds[0])

    def __iter__(self) -> Iterator[Tokens]:
        for batch in self.batches():
            yield from batch

    def batches(self, size: int = WINDOW) -> Iterator[Ragged]:
        """Whole sequences in order, about `size` tokens at a time."""
        return batches(self.reader, 0, len(self), size)

    def tokens(self, start: int, stop: int) -> Tokens:
        """Tokens at axis positions `start <= p < stop`; see `axis.TokenReader`."""
        return self.reader.tokens(start, stop)

    def offsets(self, first: int, last: int) -> Offsets:
        """Offsets of sequences `first <= i < last` and the end; see `axis.TokenReader`."""
        return self.reader.offsets(first, last)

    def beneath(self, position: int) -> tuple[TokenReader, int]:
        """See `inside.Underlying`."""
        check_position(position, self.info.tokens)
        return self.reader, position

    def above(self, reader: TokenReader, position: int) -> int | None:
        """See `inside.Underlying`."""
        return position if reader is self.reader else None

    def readers(self) -> tuple[TokenReader]:
        """See `inside.Underlying`."""
        return (self.reader,)

    def close(self) -> None:
        """Release open files."""
        self.reader.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        info = self.info
        return f"<tokfmt {self.format}: {info.sequences:,} sequences, {info.tokens:,} tokens, {info.dtype}>"
