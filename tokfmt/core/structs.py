"""What lies in flat files, to read, write and show: fields of a header, columns of an index, extents of tokens."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.dtypes import U8, U16, U32, U64
from tokfmt.core.errors import CorruptError, FormatError, TokfmtError, TruncatedError, printable
from tokfmt.core.files import File
from tokfmt.core.problem import Problem, fatal
from tokfmt.core.protocols import Field, Section
from tokfmt.core.ragged import Tokens
from tokfmt.core.sections import Part, broken, shown

_ROW = 8  # tokens in a field of --raw
_LOOKED_AT = 1 << 15  # tokens at the end, which may be zeros ...
_ZEROS = 64  # ... of which so many are taken for space that was never written

NATIVE = {1: U8, 2: U16, 3: U32, 4: U32, 8: U64}


class Struct:
    """Fields of fixed width one after the other: `Struct(magic="V9", version="<u8")`. Unaligned."""

    def __init__(self, **fields: str) -> None:
        self.dtype = np.dtype(list(fields.items()))

    @property
    def size(self) -> int:
        """Bytes."""
        return self.dtype.itemsize

    def read(self, file: File, offset: int = 0) -> dict[str, Any]:
        """The fields' values, as Python objects.

        Raises:
            TruncatedError: The file ends before.
        """
        raw = np.frombuffer(file.read(offset, self.size), self.dtype)[0]
        return {name: raw[name].tobytes() if raw[name].dtype.kind == "V" else raw[name].item() for name in self._names}

    def write(self, **values: object) -> bytes:
        """The bytes of these values; what is left out is 0."""
        out = np.zeros(1, self.dtype)
        for name, value in values.items():
            out[name] = np.frombuffer(value, f"V{len(value)}") if isinstance(value, bytes) else value
        return out.tobytes()

    def part(self, title: str, file: File, offset: int = 0, meanings: Mapping[str, str] = {}) -> Part:
        """The fields, named for people.

        Args:
            title: Of the section.
            file, offset: Where they lie.
            meanings: Of some fields, what their values mean.
        """
        return Part(title, file.path, lambda: self._fields(file, offset, meanings))

    def _fields(self, file: File, offset: int, meanings: Mapping[str, str]) -> list[Field]:
        values, found, at = self.read(file, offset), [], offset
        for name in self._names:
            width = self.dtype[name].itemsize
            value = values[name]
            text = value.hex(" ") if isinstance(value, bytes) else shown(value)
            found.append(Field(name.replace("_", " "), at, width, text, meanings.get(name, "")))
            at += width
        return found

    @property
    def _names(self) -> tuple[str, ...]:
        return self.dtype.names or ()


class Columns:
    """Arrays of numbers one after the other, behind a header: `Columns(34, lengths=("<i4", n), starts=("<i8", n))`.

    Attributes:
        end: The byte behind the last.
    """

    def __init__(self, begin: int, **columns: tuple[str, int]) -> None:
        self._columns: dict[str, tuple[int, np.dtype[Any], int]] = {}
        for name, (dtype, count) in columns.items():
            self._columns[name] = (begin, np.dtype(dtype), count)
            begin += np.dtype(dtype).itemsize * count
        self.end = begin

    def at(self, name: str, entry: int = 0) -> int:
        """The byte at which an entry begins."""
        begin, dtype, _ = self._columns[name]
        return begin + entry * dtype.itemsize

    def count(self, name: str) -> int:
        """Entries of a column."""
        return self._columns[name][2]

    def read(self, file: File, name: str, first: int = 0, last: int | None = None) -> NDArray[Any]:
        """The entries `first <= k < last` of a column, by default all; a fresh array.

        Raises:
            TruncatedError: The file ends before.
        """
        _, dtype, count = self._columns[name]
        return file.array(self.at(name, first), (count if last is None else last) - first, dtype)

    def sections(self, file: File) -> list[Section]:
        """The columns, named for people."""
        return [
            Column(f"{name.replace('_', ' ')} of {file.path.name}", file, begin, dtype, count)
            for name, (begin, dtype, count) in self._columns.items()
        ]


class Column:
    """Numbers of one width one after the other, as a section: an index that may have 10^8 entries."""

    def __init__(self, title: str, file: File, offset: int, dtype: str | np.dtype[Any], count: int) -> None:
        self.title, self.path, self.count = title, file.path, count
        self._file, self._offset, self._dtype = file, offset, np.dtype(dtype)

    def fields(self, first: int, last: int) -> list[Field]:
        first, last = max(0, first), min(last, self.count)
        width = self._dtype.itemsize
        try:
            values = self._file.array(self._offset + first * width, max(0, last - first), self._dtype).tolist()
        except FormatError as error:
            return [broken(error)] * max(0, last - first)
        return [
            Field(f"entry {number:,}", self._offset + number * width, width, f"{value:,}")
            for number, value in enumerate(values, first)
        ]


class Extent(NamedTuple):
    """Consecutive tokens of a file.

    Attributes:
        file: Where they lie.
        begin: Byte of the first.
        tokens: How many.
        dtype: As stored: integers of 1, 2, 4 or 8 bytes in either byte order; of 3 bytes a structure of the fields
            `low` (2 bytes) and `high` (1 byte), in the order in which they lie.
    """

    file: File
    begin: int
    tokens: int
    dtype: np.dtype[Any]


def native(raw: NDArray[Any], extent: Extent, first: int) -> Tokens:
    """Tokens as numbers that are not negative, in either byte order; signed ones viewed as unsigned of the same width.

    Raises:
        CorruptError: One is negative.
    """
    if raw.dtype.names:
        wide: Tokens = raw["low"].astype(U32) | raw["high"].astype(U32) << np.uint32(16)
        return wide
    if raw.dtype.kind == "u":
        return raw
    ids = raw.astype(raw.dtype.newbyteorder("="), copy=False)
    if len(ids) and int(ids.min()) < 0:
        at = int(np.argmax(ids < 0))
        offset = extent.file.lies_at(extent.begin + (first + at) * ids.itemsize)
        raise CorruptError(
            extent.file.path, "has a negative id", offset=offset, expected="0 or more", found=int(ids[at])
        )
    return ids.view(f"u{ids.itemsize}")


def whole_tokens(file: File, dtype: np.dtype[Any], code: str, what: str = "a stream") -> tuple[Extent, list[Problem]]:
    """The tokens of a file (of what that is called) that holds nothing else, and says nowhere how many they are.

    What is left over behind the last whole one is a problem of that code, which `--drop tail` accepts.
    """
    count, rest = divmod(file.size, dtype.itemsize)
    problems = []
    if rest:
        what = f"{what} is whole {dtype} tokens, but the file ends inside one"
        size, remedy = f"a size that is a multiple of {dtype.itemsize}", "--drop tail reads up to the last whole token"
        error = TruncatedError(file.path, what, offset=file.size - rest, expected=size, found=file.size, remedy=remedy)
        problems.append(fatal(code, error, "tail"))
    return Extent(file, 0, count, dtype), problems


def written_tokens(extent: Extent, code: str) -> tuple[Extent, list[Problem]]:
    """An extent without the zeros at its end that a writer leaves which makes a file at full size, and is killed.

    From 64 of the last 32,768 tokens on they are a problem of that code, which `--drop tail` accepts.
    """
    width, looked = extent.dtype.itemsize, min(extent.tokens, _LOOKED_AT)
    tail = extent.file.array(extent.begin + (extent.tokens - looked) * width, looked, extent.dtype)
    zeros = looked - int((np.flatnonzero(tail)[-1:] + 1).sum())
    if zeros < _ZEROS:
        return extent, []
    what = f"ends with {zeros:,} zeros{' or more' * (zeros == looked)}, as a writer that was killed leaves them"
    kept = extent._replace(tokens=extent.tokens - zeros)
    at = extent.begin + kept.tokens * width
    error = TruncatedError(extent.file.path, what, offset=at, remedy="--drop tail leaves them out")
    return kept, [fatal(code, error, "tail")]


def numpy_extent(file: File) -> Extent:
    """The tokens of a one-dimensional `.npy` file. Nothing of it is unpickled.

    Raises:
        CorruptError: It is none, of another shape or dtype, or cut.
    """
    head = io.BytesIO(file.read(0, min(file.size, 1 << 12)))
    try:
        version = np.lib.format.read_magic(head)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(head)
    except ValueError as error:
        raise CorruptError(file.path, "is no array of numpy", found=str(error)) from error
    if len(shape) != 1 or dtype.kind not in "ui" or file.size != head.tell() + shape[0] * dtype.itemsize:
        held = f"{dtype}{list(shape)} in {file.size:,} bytes"
        raise CorruptError(file.path, "is no one-dimensional array of ids", expected="uint16[n], whole", found=held)
    return Extent(file, head.tell(), shape[0], dtype)


def loss_mask(path: Path, tokens: int, code: str) -> tuple[Extent, list[Problem]]:
    """The mask of a file of so many tokens, a byte each; what is wrong with its size and beginning has that code."""
    mask = Extent(File(path), 0, tokens, np.dtype(np.uint8))
    try:
        if mask.file.size != tokens:
            what = "bytes of the mask of each token"
            raise CorruptError(path, what, expected=tokens, found=mask.file.size)
        mask_bytes(mask, 0, min(tokens, 1 << 16))
    except FormatError as error:
        return mask, [fatal(code, error)]
    return mask, []


def mask_bytes(mask: Extent, start: int, stop: int) -> NDArray[np.uint8]:
    """Some bytes of a loss mask, each 0 or 1.

    Raises:
        CorruptError: One is neither.
    """
    found = mask.file.array(mask.begin + start, stop - start, np.dtype(np.uint8))
    if len(found) and int(found.max()) > 1:
        at = int(np.argmax(found > 1))
        where = mask.begin + start + at
        raise CorruptError(mask.file.path, "is no mask", offset=where, expected="0 or 1", found=int(found[at]))
    return found


class StoredIds:
    """The tokens of an extent, eight a field."""

    def __init__(self, extent: Extent) -> None:
        self.extent, self.path = extent, extent.file.path
        self.title = f"tokens of {printable(extent.file.path.name)}"
        self.count = -(-extent.tokens // _ROW)

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._row(number) for number in range(max(0, first), min(last, self.count))]

    def _row(self, number: int) -> Field:
        extent, start = self.extent, number * _ROW
        count = min(_ROW, extent.tokens - start)
        width = extent.dtype.itemsize
        at = extent.begin + start * width
        try:
            raw = extent.file.array(at, count, extent.dtype)
        except FormatError as error:
            return broken(error)
        try:
            value, wrong = " ".join(map(str, native(raw, extent, start).tolist())), False
        except TokfmtError:
            value, wrong = " ".join(map(str, raw.tolist())), True
        begin, length = (at, count * width) if extent.file.plain else (None, 0)
        return Field(f"token {start:,}", begin, length, value, "a negative id" if wrong else "", wrong)
