"""Tokens that are copied as they stand: from a reader that has them in files to a writer that stores the same bytes.

A reader that offers `Verbatim` says where its tokens lie; a writer asks `copy_region`, which copies them, or does
nothing where they lie in another width or byte order, or nowhere. Neither knows the other's format. What is written is
the same either way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tokfmt.core.axis import TokenReader
from tokfmt.core.files import File
from tokfmt.core.format import Receipt, Region

if TYPE_CHECKING:
    from tokfmt.core.output import Output


class Piece(NamedTuple):
    """Consecutive tokens as they lie in a file.

    Attributes:
        file: Where.
        offset: Byte at which they begin.
        length: Bytes that they take.
        dtype: Width and byte order of each; unsigned.
    """

    file: File
    offset: int
    length: int
    dtype: np.dtype[Any]


@runtime_checkable
class Verbatim(Protocol):
    """A reader whose tokens lie in files, one after the other, uncompressed."""

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Where the tokens at positions `start <= p < stop` lie, in order; None when some lie nowhere as they are.

        Reads no token. A view that looks at tokens as they pass (`views.separated.WithoutTrailing`) does not offer
        this; the one that stands for it once everything was read (`Restorable`) does.

        Raises:
            IndexError: The interval leaves the axis.
        """


def pieces_of(reader: object, start: int, stop: int) -> Sequence[Piece] | None:
    """Where a reader's tokens lie, if it knows."""
    return reader.pieces(start, stop) if isinstance(reader, Verbatim) else None


def copy_region(
    out: Output, at: int, reader: TokenReader, region: Region, dtype: np.dtype[Any], limit: int
) -> Receipt | None:
    """Copy a region's tokens to byte `at`, or do nothing and return None.

    Nothing is done unless all of them lie in files as `dtype` and the largest id of the reader is known and at most
    `limit`. That id, found when the tokens were looked at, is the receipt's: the copy itself looks at none.
    """
    top = reader.info.max_id
    if top is None or top > limit:
        return None
    pieces = pieces_of(reader, region.tokens.start, region.tokens.stop)
    if pieces is None or any(piece.dtype != dtype for piece in pieces):
        return None
    for piece in pieces:
        out.copy(at, piece.file, piece.offset, piece.length)
        at += piece.length
    return Receipt(region.index, top, out.written)
