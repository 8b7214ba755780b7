"""The stored axis of a pack."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.axis import Info, Layout, Separators, check_interval, check_position, frozen
from tokfmt.core.dtypes import U8, U16, U32
from tokfmt.core.files import File
from tokfmt.core.format import Hints
from tokfmt.core.inside import Place
from tokfmt.core.ragged import Offsets, Tokens
from tokfmt.core.verbatim import Piece
from tokfmt.formats.modalities.anatomy import Anatomy, examine
from tokfmt.formats.modalities.options import ReadOptions


class ModalitiesReader:
    """Documents as stored, separators included; keeps 8 bytes a document."""

    def __init__(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> None:
        self.file = File(paths[0])
        anatomy = examine(self.file, options)
        for problem in anatomy.problems:
            if problem.fatal and problem.accepted not in hints.drop:
                raise problem.error
        self.begin, self.width, self.big = anatomy.begin, anatomy.width, anatomy.header.big
        self._starts = _token_starts(anatomy)
        index_bytes = self.file.size - anatomy.index.start if anatomy.index else 0
        self._info = Info(
            layout=Layout.DOCUMENTS if anatomy.index else Layout.STREAM,
            dtype={1: U8, 2: U16}.get(self.width, U32),
            sequences=len(self._starts) - 1,
            tokens=anatomy.tokens,
            separators=Separators.TRAILING if anatomy.index else Separators.BETWEEN,
            inferred=anatomy.inferred,
            notes=tuple(problem.note for problem in anatomy.problems if problem.note),
            extras=frozen(
                layout=anatomy.layout,
                width=self.width,
                byte_order=anatomy.header.order,
                header_bytes=anatomy.header.size,
                index_bytes=index_bytes,
            ),
        )

    @property
    def _dtype(self) -> np.dtype[Any]:
        return np.dtype(f"{'>' if self.big else '<'}u{self.width}")

    @property
    def info(self) -> Info:
        return self._info

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self._info.tokens)
        at, count = self.begin + start * self.width, stop - start
        if self.width == 3:
            return self._widened(self.file.array(at, 3 * count, "u1"))
        stored = self.file.array(at, count, self._dtype)
        native: Tokens = stored.astype(self._info.dtype, copy=False)
        return native

    def _widened(self, raw: NDArray[np.generic]) -> Tokens:
        four = np.zeros((len(raw) // 3, 4), np.uint8)
        (four[:, 1:] if self.big else four[:, :3])[:] = raw.reshape(-1, 3)
        stored = four.view(">u4" if self.big else "<u4").ravel()
        native: Tokens = stored.astype(U32, copy=False)
        return native

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Where tokens lie; see `core.verbatim`. Of 3 bytes a token numpy has no dtype."""
        check_interval(start, stop, self._info.tokens)
        if self.width == 3:
            return None
        return [Piece(self.file, self.begin + start * self.width, (stop - start) * self.width, self._dtype)]

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self._info.sequences, "sequences")
        return self._starts[first : last + 1]

    def place(self, position: int) -> Place:
        check_position(position, self._info.tokens)
        return Place(self.file.path, self.begin + position * self.width, self.width)

    def position(self, path: Path, offset: int) -> int | None:
        position = (offset - self.begin) // self.width
        return position if path == self.file.path and 0 <= position < self._info.tokens else None

    def close(self) -> None:
        self.file.close()


def _token_starts(anatomy: Anatomy) -> Offsets:
    """Token position at which each document begins; the array of the index itself, changed in place."""
    if anatomy.index is None:
        return np.array([0, anatomy.tokens] if anatomy.tokens else [0], np.int64)
    starts = anatomy.index.starts
    if anatomy.surplus:
        starts -= anatomy.surplus * np.arange(len(starts))
    starts //= anatomy.width
    return starts
