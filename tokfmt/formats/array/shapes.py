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
from tokfmt.formats.blocks import shared_note, unrepeated
from tokfmt.formats.flat import Extent, FileLayout, stated_tokens, whole_tokens
from tokfmt.formats.npy import Header, header_of
from tokfmt.wording import counted


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
    """Return the layout of the integers of an array: one stream, or rows of `row`."""
    extras: dict[str, object] = {"dtype": f"{'big-endian ' * (extent.dtype.byteorder == '>')}{extent.dtype.name}"}
    if not row:
        return FileLayout(extents=[extent], separators=side_of(options), extras=extras)
    extras["row"] = row
    overlap = stated if options.overlap is None else options.overlap
    if overlap is not None and overlap >= row:
        raise OptionError(f"overlap={overlap}: a row has only {counted(row, 'token')}")
    shared = shared_note(extent, row, "view=documents") if overlap is None else ""
    if options.view != "documents":
        last = "last token" if overlap == 1 else f"last {overlap} tokens"
        repeated = f"each row begins with the {last} of the row before; --from-opt view=documents reads them once"
        note = repeated if overlap else shared
        return FileLayout(extents=[extent], sample_length=row, notes=(note,) * bool(note), extras=extras)
    if overlap:
        extent = unrepeated(extent, row, overlap)
    return FileLayout(extents=[extent], separators=side_of(options), notes=(shared,) * bool(shared), extras=extras)


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
