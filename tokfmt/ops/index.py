"""`tokfmt index`: the raw index of a JSONL file, byte for byte what Modalities writes today."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import FormatError, OptionError, UnsupportedError
from tokfmt.core.publish import Staging, write_error
from tokfmt.formats.jsonl.lines import Lines, bounds, walk
from tokfmt.formats.jsonl.options import MAX_LINE
from tokfmt.formats.jsonl.problems import Fault, line_error
from tokfmt.formats.jsonl.raw_index import index_path
from tokfmt.formats.jsonl.streams import TextFile
from tokfmt.formats.jsonl.validate import Validator
from tokfmt.formats.pickled_index import write_entries

_ENTRIES = 1 << 16  # entries held at once
_BARE = 4  # bytes of a line that may be nothing but a byte order mark and a carriage return
_DROP = "--drop-invalid leaves such lines out of the index"

Pairs = NDArray[np.int64]
Faults = Callable[[Lines], list[tuple[int, Fault]]]


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What was written.

    Attributes:
        source, destination: The text and its index.
        entries: Lines in the index.
        dropped: Lines left out because they are not JSON.
        size: Bytes of the text.
    """

    source: Path
    destination: Path
    entries: int
    dropped: int
    size: int


def write_index(
    source: Path,
    destination: Path | None = None,
    *,
    validate: bool = True,
    drop_invalid: bool = False,
    overwrite: bool = False,
) -> IndexReport:
    """Write the pickled list of (offset, length) in bytes of every line, carriage returns and byte order mark included.

    Args:
        source: A plain JSONL file.
        destination: The index; `X.idx` beside `X.jsonl` when left out.
        validate: Parse every line; else lines are only found, and no more than empty ones are invalid.
        drop_invalid: Give no entry to lines that are not JSON, instead of stopping at the first.
        overwrite: Replace an index that exists.

    Raises:
        FormatError: A line is not JSON (with its number and byte offset), or there is none. Nothing is written.
        DestinationExistsError: The index exists, and `overwrite` is not set.
    """
    text = TextFile(source)
    if text.compression is not None:
        raise UnsupportedError(source, f"is {text.compression} data; an index is of plain text", remedy="Decompress it")
    destination = destination or index_path(source)
    if destination.absolute() == source.absolute():
        raise OptionError(f"{source}: the index would replace the text. Name another with -o")
    validator = Validator() if validate else None
    with Staging(destination, overwrite=overwrite) as staging:
        spilled = staging.scratch / "entries"
        try:
            with open(spilled, "wb") as out:
                entries, dropped = _spill(text, validator, out, drop_invalid=drop_invalid)
            text.file.check_unchanged()
            with open(spilled, "rb") as entries_file, open(staging.path, "wb") as index:
                index.writelines(write_entries(entries, _batches(entries_file)))
        except OSError as error:
            raise write_error(destination, error) from error
        staging.publish()
    return IndexReport(source, destination, entries, dropped, text.size)


def _spill(text: TextFile, validator: Validator | None, out: BinaryIO, *, drop_invalid: bool) -> tuple[int, int]:
    """Write (offset, length) of each valid line, int64[2] each; how many there are, and how many lines are left out."""
    entries = dropped = 0
    found = _found(text, drop_invalid) if validator is None else _looked_at(text, validator.faults, drop_invalid)
    for pairs, lines in found:
        out.write(pairs.data)
        entries, dropped = entries + len(pairs), dropped + lines - len(pairs)
    if not entries and not drop_invalid:
        raise FormatError(text.path, "is empty", remedy="--drop-invalid writes an index without entries")
    return entries, dropped


def _looked_at(
    text: TextFile, faults_of: Faults, drop_invalid: bool, start: int = 0, stop: int | None = None
) -> Iterator[tuple[Pairs, int]]:
    """Offset and length of each valid line, int64[n, 2], and how many lines that was of, some at a time."""
    for lines in walk(text, start, stop, MAX_LINE):
        faults = faults_of(lines)
        if faults and not drop_invalid:
            index, fault = faults[0]
            remedy = fault.remedy.partition(";")[0]
            raise line_error(text, lines.offset + int(lines.starts[index]), replace(fault, remedy=f"{remedy}; {_DROP}"))
        pairs = _pairs(*lines.stretches())
        yield np.delete(pairs, [index for index, _ in faults], axis=0) if faults else pairs, len(pairs)


def _found(text: TextFile, drop_invalid: bool) -> Iterator[tuple[Pairs, int]]:
    """The same of lines that need not be looked at, unless one of them may be empty or too long."""
    for starts, ends in bounds(text):
        lengths = ends - starts
        if len(lengths) and (int(lengths.min()) <= _BARE or int(lengths.max()) > MAX_LINE):
            yield from _looked_at(text, _empty, drop_invalid, int(starts[0]), min(int(ends[-1]) + 1, text.size))
        else:
            yield _pairs(starts, lengths), len(lengths)


def _pairs(offsets: NDArray[np.int64], lengths: NDArray[np.int64]) -> Pairs:
    pairs = np.empty((len(offsets), 2), np.int64)
    pairs[:, 0], pairs[:, 1] = offsets, lengths
    return pairs


def _empty(lines: Lines) -> list[tuple[int, Fault]]:
    """Lines without a byte, which no reader takes."""
    return [(int(index), Fault("is empty", remedy="Remove it")) for index in np.flatnonzero(lines.ends == lines.starts)]


def _batches(file: BinaryIO) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    while True:
        pairs = np.fromfile(file, np.int64, 2 * _ENTRIES).reshape(-1, 2)
        if not len(pairs):
            return
        yield np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1])
