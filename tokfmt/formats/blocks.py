"""Rows of one length that were cut from a stream, and may each begin with the end of the row before."""

from __future__ import annotations

import numpy as np

from tokfmt.core.annotation import Extent
from tokfmt.core.ragged import Offsets
from tokfmt.files.file import File

_LOOKED_AT = 1 << 20  # IDs whose rows are compared with their neighbors
_FEW_ROWS = 8  # that many show whether neighbors have one token in common


class Virtual(File):
    """A file whose bytes are computed from those of another one. Picklable."""

    is_plain = False
    base: File

    def __init__(self, base: File, **state: object) -> None:
        self.__setstate__({"path": base.path, "identity": base.identity, "may_be_page": False, "base": base, **state})

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def close(self) -> None:
        super().close()
        self.base.close()


class Unrepeated(Virtual):
    """Rows without the tokens at their beginning that repeat the row before."""

    begin: int
    rows: int
    row: int
    overlap: int
    width: int

    @property
    def size(self) -> int:
        return (self.overlap + self.rows * (self.row - self.overlap)) * self.width if self.rows else 0

    def to_stored_offset(self, offset: int) -> int | None:
        token, byte = divmod(offset, self.width)
        step = self.row - self.overlap
        row, column = divmod(token - self.overlap, step) if token >= self.overlap else (0, token - self.overlap)
        return self.base.to_stored_offset(self.begin + (row * self.row + self.overlap + column) * self.width + byte)

    def from_stored_offset(self, offset: int) -> int | None:
        stored = self.base.from_stored_offset(offset)
        if stored is None or not 0 <= stored - self.begin < self.rows * self.row * self.width:
            return None
        token, byte = divmod(stored - self.begin, self.width)
        row, column = divmod(token, self.row)
        if row and column < self.overlap:  # It repeats the end of the row before.
            row, column = row - 1, column + self.row - self.overlap
        return (row * (self.row - self.overlap) + column) * self.width + byte

    def read_into(self, offset: int, buffer: memoryview) -> None:
        out, step = buffer.cast("B"), (self.row - self.overlap) * self.width
        lead = self.overlap * self.width
        first = max(0, min(lead - offset, len(out)))
        out[:first] = self.base.read(self.begin + offset, first)
        if len(out) == first:
            return
        start = offset + first - lead
        row, last = start // step, -(-(start + len(out) - first) // step)
        size = self.row * self.width
        stored = np.frombuffer(self.base.read(self.begin + row * size, (last - row) * size), np.uint8).reshape(-1, size)
        out[first:] = stored[:, lead:].reshape(-1)[start - row * step :][: len(out) - first].data


def unrepeated(extent: Extent, row: int, overlap: int, *, continued: bool = False) -> Extent:
    """Return rows of `row` tokens without the first `overlap` of each, which repeat the row before; `continued` if that
    is so of the first row as well.
    """
    rows, width = extent.tokens // row, extent.dtype.itemsize
    file = Unrepeated(extent.file, begin=extent.begin, rows=rows, row=row, overlap=overlap, width=width)
    begin = overlap * width * continued
    return Extent(file, begin, (file.size - begin) // width, extent.dtype)


def shared_note(extent: Extent, row: int, option: str) -> str:
    """Return a note if all neighboring rows at the beginning have the token between them in common; else "". `option`
    reads rows as a stream.
    """
    rows = min(extent.tokens, _LOOKED_AT) // row
    if rows <= _FEW_ROWS:
        return ""
    remedy = f"--from-opt {option} --from-opt overlap=1 reads it once"
    return shared_by_rows(extent.file.array(extent.begin, rows * row, extent.dtype), np.arange(rows + 1) * row, remedy)


def shared_by_rows(tokens: np.ndarray, offsets: Offsets, remedy: str) -> str:
    """Return that note for decoded rows, of which row k is `tokens[offsets[k]:offsets[k + 1]]`."""
    heads, ends = tokens[offsets[:-1].clip(max=len(tokens) - 1)], tokens[offsets[1:] - 1]
    rows = len(heads)
    if rows <= _FEW_ROWS or np.diff(offsets).min() < 2 or (heads[1:] != ends[:-1]).any() or (heads == heads[0]).all():
        return ""
    return f"each of {rows - 1:,} rows looked at begins with the last token of the row before; {remedy}"
