"""Arrays as sequences: a stream, rows, or the documents that an array of boundaries states."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tokfmt.core.annotation import Part, shown
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.reader import Separators
from tokfmt.errors import CorruptError, OptionError
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import File
from tokfmt.formats.array.options import ReadOptions
from tokfmt.formats.flat import Extent, FileLayout, stated_tokens, whole_tokens
from tokfmt.formats.npy import Header, header_of
from tokfmt.wording import counted

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


def side_of(options: ReadOptions) -> Separators:
    return Separators.BEFORE if options.side == "before" else Separators.AFTER


def array_length(file: File, header: Header) -> int:
    """Return the number of entries of a one-dimensional array."""
    if len(header.shape) != 1:
        raise CorruptError(file.path, "dimensions", expected=1, found=len(header.shape))
    return header.shape[0]


def npy_layout(file: File, options: ReadOptions) -> FileLayout:
    """Return the layout of a `.npy` file."""
    header = header_of(file)
    count = int(np.prod([int(n) for n in header.shape], dtype=object))
    extent, problems = stated_tokens(file, header.dtype, count, "TF792", begin=header.begin, short=True, options=())
    layout = shaped(extent, header.shape[1] if len(header.shape) > 1 else None, options)
    return replace(layout, problems=problems, sections=header_sections(file, header))


def shaped(extent: Extent, row: int | None, options: ReadOptions, stated: int | None = None) -> FileLayout:
    """Return the layout of the integers of an array: one stream, or rows of `row`.

    Args:
        row: Integers per row; None for a stream.
    """
    extras: dict[str, object] = {"dtype": f"{'big-endian ' * (extent.dtype.byteorder == '>')}{extent.dtype.name}"}
    if not row:
        return FileLayout(extents=[extent], separators=side_of(options), extras=extras)
    extras["row"] = row
    overlap = stated if options.overlap is None else options.overlap
    if overlap is not None and overlap >= row:
        raise OptionError(f"overlap={overlap}: a row has only {counted(row, 'token')}")
    if options.view != "documents":
        last = "last token" if overlap == 1 else f"last {overlap} tokens"
        repeated = f"each row begins with the {last} of the row before; --from-opt view=documents reads them once"
        note = repeated if overlap else _shared(extent, row) if overlap is None else ""
        return FileLayout(extents=[extent], sample_length=row, notes=(note,) * bool(note), extras=extras)
    if overlap:
        rows, width = extent.tokens // row, extent.dtype.itemsize
        file = Unrepeated(extent.file, begin=extent.begin, rows=rows, row=row, overlap=overlap, width=width)
        extent = Extent(file, 0, file.size // width, extent.dtype)
    return FileLayout(extents=[extent], separators=side_of(options), extras=extras)


def _shared(extent: Extent, row: int) -> str:
    """Return a note if all neighboring rows at the beginning have the token between them in common."""
    rows = min(extent.tokens, _LOOKED_AT) // row
    if rows <= _FEW_ROWS or row == 1:
        return ""
    looked = extent.file.array(extent.begin, rows * row, extent.dtype).reshape(rows, row)
    if not (looked[1:, 0] == looked[:-1, -1]).all() or (looked[:, 0] == looked[0, 0]).all():
        return ""
    note = f"each of {rows - 1:,} rows looked at begins with the last token of the row before; "
    return note + "--from-opt view=documents --from-opt overlap=1 reads it once"


def bare_layout(file: File, options: ReadOptions) -> FileLayout:
    """Return the layout of bare integers, of which the options state all."""
    dtype = np.dtype(options.bare).newbyteorder("<" if options.order == "little" else ">")
    extent, problems = whole_tokens(file, dtype, "TF792", "the array", begin=min(options.header or 0, file.size))
    if options.row and (rest := extent.tokens % options.row):
        what = f"its last row has {rest:,} of {counted(options.row, 'token')}"
        remedy, lost = "--allow-loss tail leaves them out", f"the last {counted(rest, 'token')}, of an incomplete row"
        problems.append(fatal("TF792", CorruptError(file.path, what, remedy=remedy), "tail", lost=lost))
        extent = extent._replace(tokens=extent.tokens - rest)
    return replace(shaped(extent, options.row, options), problems=problems)


def boundaries_of(name: str, index: Extent, tokens: int, options: ReadOptions) -> tuple[Offsets, list[Problem]]:
    """Return the starts of documents that an array states, and what contradicts the tokens."""
    values = index.file.array(index.begin, index.tokens, index.dtype).astype(np.int64)
    are_lengths = name.rpartition("/")[2] == "lengths"
    starts = offsets_of(values) if are_lengths and (values >= 0).all() else values
    if options.bounds == "ends":
        starts = np.concatenate([[0], values])
    elif options.bounds == "starts":
        starts = np.append(values, tokens)
    wrong, remedy = "", None
    if not are_lengths and options.bounds is None and len(values):
        if values[0] and values[-1] == tokens:
            remedy = "--from-opt bounds=ends reads them as ends, without the 0 in front"
        elif not values[0] and values[-1] < tokens:
            remedy = "--from-opt bounds=starts reads them as starts, without the end of the last document"
    if not len(starts) or starts[0]:
        wrong, expected, found = (
            f"{name} does not begin with 0",
            "0 and the ends of documents",
            shown(values[:3].tolist()),
        )
    elif (falls := np.flatnonzero(np.diff(starts) < 0)).size:
        k = int(falls[0])
        wrong, expected, found = (
            f"{name} decreases at document {k:,}",
            f"{int(starts[k]):,} or more",
            shown(int(starts[k + 1])),
        )
    elif int(starts[-1]) != tokens:
        wrong, expected, found = f"tokens up to the last end in {name}", shown(tokens), shown(int(starts[-1]))
    if not wrong:
        return starts, []
    error = CorruptError(index.file.path, wrong, expected=expected, found=found, remedy=remedy)
    return offsets_of([tokens]), [fatal("TF793", error)]


def header_sections(file: File, header: Header) -> list[Section]:
    """Return the header of a `.npy` file as a section."""

    def fields() -> list[Field]:
        raw = file.read(0, header.begin)
        width = 2 if raw[6] == 1 else 4
        text = 8 + width
        return [
            Field("magic number", 0, 6, raw[:6].hex(" ")),
            Field("version", 6, 2, f"{raw[6]}.{raw[7]}"),
            Field("length of the header", 8, width, shown(header.begin - text)),
            Field("header", text, header.begin - text, shown(raw[text:].decode("latin-1").strip())),
        ]

    return [Part(f"header of {file.path.name}", file.path, fields)]
