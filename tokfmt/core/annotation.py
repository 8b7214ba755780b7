"""Parts of files that formats share: fields of a header, columns of an index, runs of tokens, and whole layouts.

They are read, written, and listed for `show --raw` and the browser.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Problem, fatal
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import U8, U16, U32, U64, Damage, Facts
from tokfmt.errors import CorruptError, FormatError, TokfmtError, TruncatedError, UnsafeError
from tokfmt.files.fields import Field, Fields, Section
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place, place_of
from tokfmt.wording import counted, printable, shortened

SHOWN = 96
"""Largest number of characters of a value from a file in a message or a field."""

NUMPY_IDS = re.compile(rb"\{'descr': '([<|](?:u[124]|i[48]))', 'fortran_order': False, 'shape': \((\d{1,18}),\), \}\s*")
"""The header of a .npy file of one dimension whose numbers may be token IDs, without magic number and version."""

_TOGETHER, _MANY = 4, 4096  # A failed read of more than 4, and at most 4,096, fields is repeated in halves.


@dataclass(frozen=True, slots=True)
class Listed:
    """Fields that are already decoded."""

    held: Sequence[Field]

    @property
    def count(self) -> int:
        return len(self.held)

    def fields(self, first: int, last: int) -> Sequence[Field]:
        return self.held[max(0, first) : max(0, last)]


@dataclass(frozen=True, slots=True)
class Numbered:
    """Fields that a function makes from their number on request."""

    count: int
    field: Callable[[int], Field]

    def fields(self, first: int, last: int) -> Sequence[Field]:
        return [self.field(number) for number in range(max(0, first), min(last, self.count))]


@dataclass(slots=True)
class Part:
    """A section that is decoded on first use. Damaged content does not raise: a field reports it."""

    title: str
    path: Place
    open: Callable[[], Fields | Sequence[Field]]  # called once
    _opened: Fields | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def count(self) -> int:
        """The number of fields."""
        return self._fields().count

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """Return fields `first <= i < last`; see `fields.Fields`. A field that cannot be read reports its error."""
        first = max(0, first)
        try:
            return self._fields().fields(first, last)
        except TokfmtError as error:
            failed = broken(error)
        last = min(last, self.count)
        if not _TOGETHER < last - first <= _MANY:
            return (failed,) * max(0, last - first)
        middle = (first + last) // 2
        return (*self.fields(first, middle), *self.fields(middle, last))

    def _fields(self) -> Fields:
        with self._lock:
            if self._opened is None:
                try:
                    found = self.open()
                    self._opened = Listed(found) if isinstance(found, Sequence) else found
                except TokfmtError as error:
                    self._opened = Listed((broken(error),))
            return self._opened


def broken(error: TokfmtError) -> Field:
    """Return an error as a field."""
    if not isinstance(error, FormatError):
        return Field("unreadable", None, 0, shown(error), wrong=True)
    both = ("expected", error.expected), ("found", error.found)
    contrast = [f"{word} {shown(value)}" for word, value in both if value is not None]
    value = f"{printable(error.what)}{': ' if contrast else ''}{', '.join(contrast)}"
    path = None if error.offset is None else place_of(error.place)
    return Field("unreadable", error.offset, 0, value, error.remedy or "", wrong=True, path=path)


def shown(value: object) -> str:
    """Return a value from a file as text: numbers grouped, control characters escaped, shortened."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = printable(value)
    return shortened(text, SHOWN)


# Parts of flat files

_LOOKED_AT = 1 << 15  # Tokens at the end of a file that are searched for zeros.
_EMPTY = 1 << 25  # Sequences without a token that an index may have: 268 MB of offsets.
_ZEROS = 64  # Zeros at the end from which on they count as space that was never written.

NATIVE = {1: U8, 2: U16, 3: U32, 4: U32, 8: U64}
NAMES = {1: "uint8", 2: "uint16", 4: "int32", 8: "int64"}
"""The dtypes by which options call widths."""


class Struct:
    """Consecutive fields of fixed width, not aligned: `Struct(magic="V9", version="<u8")`.

    Attributes:
        dtype: The dtype of the fields.
        size: Their size in bytes.
    """

    def __init__(self, **fields: str) -> None:
        self.dtype = np.dtype(list(fields.items()))
        self.size, self._names = self.dtype.itemsize, tuple(fields)

    def read(self, file: File) -> dict[str, Any]:
        """Return the values of the fields at the beginning of a file, as Python objects.

        Raises:
            TruncatedError: If the file is shorter.
        """
        return self.parse(file.read(0, self.size))

    def parse(self, begin: bytes) -> dict[str, Any]:
        """Return the values of the fields at the beginning of `begin`, as Python objects."""
        raw = np.frombuffer(begin, self.dtype)[0]
        return {name: raw[name].tobytes() if raw[name].dtype.kind == "V" else raw[name].item() for name in self._names}

    def write(self, **values: object) -> bytes:
        """Return the fields as bytes. A value that is not given is 0."""
        out = np.zeros(1, self.dtype)
        for name, value in values.items():
            out[name] = np.frombuffer(value, f"V{len(value)}") if isinstance(value, bytes) else value
        return out.tobytes()

    def part(self, title: str, file: File) -> Part:
        """Return a section with the fields at the beginning of a file."""
        return Part(title, file.path, lambda: self._fields(file))

    def _fields(self, file: File) -> list[Field]:
        values, found, at = self.read(file), [], 0
        for name in self._names:
            width = self.dtype[name].itemsize
            value = values[name]
            text = value.hex(" ") if isinstance(value, bytes) else shown(value)
            found.append(Field(name.replace("_", " "), at, width, text))
            at += width
        return found


class Columns:
    """Consecutive arrays of numbers after a header: `Columns(34, lengths=("<i4", n), starts=("<i8", n))`.

    Attributes:
        end: Byte offset after the last array.
    """

    def __init__(self, begin: int, **columns: tuple[str, int]) -> None:
        self._columns: dict[str, tuple[int, np.dtype[Any], int]] = {}
        for name, (dtype, count) in columns.items():
            self._columns[name] = (begin, np.dtype(dtype), count)
            begin += np.dtype(dtype).itemsize * count
        self.end = begin

    def at(self, name: str, entry: int = 0) -> int:
        """Return the byte offset of an entry."""
        begin, dtype, _ = self._columns[name]
        return begin + entry * dtype.itemsize

    def count(self, name: str) -> int:
        """Return the number of entries of a column."""
        return self._columns[name][2]

    def read(self, file: File, name: str, first: int = 0, last: int | None = None) -> NDArray[Any]:
        """Return a copy of the entries `first <= k < last` of a column (default: all entries).

        Raises:
            TruncatedError: If the file is shorter.
        """
        _, dtype, count = self._columns[name]
        return file.array(self.at(name, first), (count if last is None else last) - first, dtype)

    def sections(self, file: File) -> list[Section]:
        """Return the columns as sections."""
        return [
            Column(f"{name.replace('_', ' ')} of {file.path.name}", file, begin, dtype, count)
            for name, (begin, dtype, count) in self._columns.items()
        ]


class Column:
    """An array of numbers of one dtype as a section. It may have 10^8 entries."""

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
    """Consecutive tokens in a file.

    Attributes:
        file: The file.
        begin: Byte offset of the first token.
        tokens: Number of tokens.
        dtype: Dtype in the file: integers of 1, 2, 4 or 8 bytes in either byte order. IDs of 3 bytes are a structure
            with the fields `low` (2 bytes) and `high` (1 byte), in the order of the file.
    """

    file: File
    begin: int
    tokens: int
    dtype: np.dtype[Any]


class Entries(Protocol):
    """Offsets of sequences, read on request from an index that is too long to read for a few sequences."""

    sequences: int

    def offsets(self, first: int, last: int) -> Offsets:
        """Return offsets as `TokenReader.offsets` does. The interval is valid."""

    def close(self) -> None:
        """Close the index. A later read opens it again."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileLayout(Facts):
    """The layout of a dataset's files, found without a read of its tokens; `Facts` has more, which become the `Info`.

    Attributes:
        extents: The stored token axis, in order.
        rows: For each file its rows, `formats.row_reader.StoredRows`, if columns are beside their IDs. The rule of
            `model.rows` then makes sequences of them, and `extents` are their IDs.
        masks: For each extent its loss mask, one byte per token: 1 counts as a target, 0 does not. () if there is none.
        starts: Offsets int64[sequences + 1] on the token axis, non-decreasing, from 0 to the end; None for one stream,
            and for rows of `sample_length` tokens.
        entries: Used instead of `starts` for one file whose offsets are read on request.
        problems: In the order in which they were found.
        sections: The bytes other than tokens, for `--raw`. The tokens get their own section.
    """

    extents: Sequence[Extent]
    rows: Sequence[Any] = ()
    masks: Sequence[Extent] = ()
    starts: Offsets | None = None
    entries: Entries | None = None
    problems: Sequence[Problem] = ()
    sections: Sequence[Section] = ()


def certain(file_layout: FileLayout) -> FileLayout:
    """Return the certain part of a layout with truncated files, with what is cut as damage."""
    cut = [problem for problem in file_layout.problems if problem.is_truncated]
    if not cut:
        return file_layout
    there = _there(file_layout)
    kept, lost = there, Damage(cut[0].error.sentence, at_end=len(file_layout.extents) == 1)
    if file_layout.starts is not None:
        last = int(np.searchsorted(file_layout.starts, there, side="right")) - 1
        kept, sequences = int(file_layout.starts[last]), len(file_layout.starts) - 1 - last
        lost = lost._replace(sequences=sequences, tokens=int(file_layout.starts[-1]) - kept)
        file_layout = replace(file_layout, starts=file_layout.starts[: last + 1])
    elif file_layout.sample_length is not None:
        kept -= kept % file_layout.sample_length
    width = max((extent.dtype.itemsize for extent in file_layout.extents), default=0)
    lost = lost._replace(unused=(sum(extent.tokens for extent in file_layout.extents) - kept) * width)
    damage = (lost, *(Damage(problem.error.sentence, 0, 0) for problem in cut[1:]))
    return replace(
        file_layout,
        extents=first_tokens(file_layout.extents, kept),
        masks=first_tokens(file_layout.masks, kept),
        problems=[problem for problem in file_layout.problems if not problem.is_truncated],
        damage=(*file_layout.damage, *damage),
    )


def with_ends(file_layout: FileLayout) -> Sequence[Problem]:
    """Return the problems; those of the file that was cut state what of it is complete."""
    starts, extents = file_layout.starts, file_layout.extents
    if starts is None or len(extents) != 1 or not any(problem.is_truncated for problem in file_layout.problems):
        return file_layout.problems
    last = int(np.searchsorted(starts, _there(file_layout), side="right")) - 1
    path, end = str(extents[0].file.path), extents[0].begin + int(starts[last]) * extents[0].dtype.itemsize
    lost = f"sequences {last:,} to {len(starts) - 2:,} are" if last < len(starts) - 2 else f"sequence {last:,} is"
    more = f"; if its end is missing, {lost} not complete" if last < len(starts) - 1 else ""
    return [
        problem._replace(end=end, more=more) if problem.is_truncated and problem.error.path == path else problem
        for problem in file_layout.problems
    ]


def _there(file_layout: FileLayout) -> int:
    """Return the number of tokens before the first token that is missing, or whose mask is missing."""
    found = sum(extent.tokens for extent in file_layout.extents)
    for extents in (file_layout.extents, file_layout.masks):
        at = 0
        for extent in extents:
            held = (extent.file.size - extent.begin) // extent.dtype.itemsize
            if held < extent.tokens:
                found = min(found, at + max(0, held))
            at += extent.tokens
    return found if file_layout.starts is None else min(found, int(file_layout.starts[-1]))


def first_tokens(extents: Sequence[Extent], tokens: int) -> list[Extent]:
    """Return the extents of the first `tokens` tokens."""
    kept = list[Extent]()
    for extent in extents:
        kept.append(extent._replace(tokens=min(extent.tokens, tokens)))
        tokens -= kept[-1].tokens
    return kept


def whole_tokens(
    file: File, dtype: np.dtype[Any], code: str, what: str = "a stream", *, begin: int = 0
) -> tuple[Extent, list[Problem]]:
    """Return the tokens of a file without a header, which states their number nowhere.

    Bytes after the last complete token are a problem that `--allow-loss tail` accepts.

    Args:
        file: The file.
        dtype: Dtype in the file.
        code: Code of the problem.
        what: Description of the file, for the message.
        begin: Byte offset of the first token.
    """
    count, rest = divmod(file.size - begin, dtype.itemsize)
    problems = []
    if rest:
        what = f"{what} is whole {dtype} tokens, but the file ends inside one"
        size = f"a size that is {f'{begin:,} bytes and ' if begin else ''}a multiple of {dtype.itemsize}"
        remedy = "--allow-loss tail reads up to the last whole token"
        error = TruncatedError(file.path, what, offset=file.size - rest, expected=size, found=file.size, remedy=remedy)
        lost = f"the last {counted(rest, 'byte')}, from byte {file.size - rest:,} on"
        problems.append(fatal(code, error, "tail", is_truncated=True, lost=lost))
    return Extent(file, begin, count, dtype), problems


def stated_tokens(
    file: File,
    dtype: np.dtype[Any],
    stated: int,
    code: str,
    *,
    begin: int = 0,
    short: bool = False,
    options: Any = None,
) -> tuple[Extent, list[Problem]]:
    """Return the tokens of a file that ends with them, given their number from a header or an index.

    A file of another size is a problem. `--allow-loss tail` accepts a longer file.

    Args:
        file: The file.
        dtype: Dtype in the file.
        stated: Number of tokens that the header or index states.
        code: Code of the problem.
        begin: Byte offset of the first token.
        short: `--allow-loss tail` accepts a shorter file as well.
        options: Read options, of which `width` or `dtype` states another width. If such a width fits the size, and none
            is given, the remedy is that option, and no loss is.
    """
    size, stored, problems = stated * dtype.itemsize, file.size - begin, list[Problem]()
    if size != stored:
        accepted = "tail" if short or stored > size else ""
        remedy = "--allow-loss tail reads the tokens that are there" if accepted else "Copy or write it again"
        if stored > size:
            remedy = f"--allow-loss tail leaves out the last {counted(stored - size, 'byte')}"
        given = getattr(options, "width", None) or getattr(options, "dtype", None)
        other = None if options is None or given else fitting_width(stored, stated, dtype.itemsize)
        if other is not None:
            accepted, remedy = "", reading_width(options, dtype.itemsize, other)
        error = CorruptError(file.path, "bytes of tokens", expected=size, found=stored, remedy=remedy)
        lost = f"the last {counted(stored - size, 'byte')}, from byte {begin + size:,} on"
        if stored < size:
            lost = f"{counted(size - stored, 'byte')} that are missing, from byte {file.size:,} on"
        problems.append(fatal(code, error, accepted, is_truncated=stored < size, lost=lost))
    return Extent(file, begin, max(0, min(stated, stored // dtype.itemsize)), dtype), problems


def fitting_width(stored: int, tokens: int, width: int) -> int | None:
    """Return the bytes per token, other than `width`, with which so many tokens take the stored bytes; else None.

    1 byte does not count for tokens of 2: hardly a writer uses it, and half of such a file was cut.
    """
    widths = (one for one in (1, 2, 4, 8) if one != width and (one > 1 or width > 2))
    return next((one for one in widths if tokens and tokens * one == stored), None)


def reading_width(options: Any, width: int, other: int) -> str:
    """Return the remedy for tokens that fit another width than is stated. The options of the format state another width
    as `width` or `dtype`. `width` is the bytes per token as stated; 0 if the size does not show them. `other` is the
    bytes per token that fit.
    """
    names = {"width": (width, other), "dtype": (NAMES.get(width), NAMES[other])}
    name = next((name for name in names if hasattr(options, name)), None)
    if name is None:
        return f"Write them again; {counted(other, 'byte')} per token are likely"
    own, fits = names[name]
    remedy = f"--from-opt {name}={fits} reads {other}-byte tokens, which fit"
    if other < width:
        remedy += f"; --from-opt {name}={own} with --allow-partial saves the complete documents of a cut file"
    return remedy


def written_tokens(extent: Extent, code: str) -> tuple[Extent, list[Problem]]:
    """Return an extent without trailing zeros, which a writer that preallocates the file leaves if it is killed.

    64 or more zeros at the end of the last 32,768 tokens are a problem. `--allow-loss tail` accepts it if these tokens
    hold all of the zeros.
    """
    width, looked = extent.dtype.itemsize, min(extent.tokens, _LOOKED_AT)
    tail = extent.file.array(extent.begin + (extent.tokens - looked) * width, looked, extent.dtype)
    zeros = looked - int((np.flatnonzero(tail)[-1:] + 1).sum())
    if zeros < _ZEROS:
        return extent, []
    what = f"ends with {zeros:,} zeros{' or more' * (zeros == looked)}, as a writer that was killed leaves them"
    kept = extent._replace(tokens=extent.tokens - zeros)
    at = extent.begin + kept.tokens * width
    seen = zeros < looked or looked == extent.tokens
    remedy = (
        "--allow-loss tail leaves them out" if seen else "Write it again, or remove the zeros: truncate -s BYTES PATH"
    )
    error, lost = (
        TruncatedError(extent.file.path, what, offset=at, remedy=remedy),
        f"{zeros:,} zeros from byte {at:,} on",
    )
    return kept, [fatal(code, error, "tail" if seen else "", lost=lost)]


def numpy_extent(file: File) -> Extent:
    """Return the tokens of a one-dimensional `.npy` file. Never unpickles."""
    head = file.read(0, min(file.size, 1 << 12))
    text = 12 if head[6:7] > b"\1" else 10  # The length of the header has 2 bytes in version 1, and 4 in later ones.
    begin = text + int.from_bytes(head[8:text], "little")
    named = head.startswith(b"\x93NUMPY")
    said = NUMPY_IDS.fullmatch(head[text:begin]) if named else None
    dtype, count = (np.dtype(said[1].decode()), int(said[2])) if said else (np.dtype("u2"), -1)
    if file.size != begin + count * dtype.itemsize:
        header = printable(head[text:][:80].decode("latin-1").rstrip()) if named else "no header of NumPy"
        held = f"{dtype}[{count}] in {file.size:,} bytes" if said else header
        raise CorruptError(
            file.path,
            "is not a one-dimensional array of token IDs",
            expected="a complete array, such as uint16[n]",
            found=held,
        )
    return Extent(file, begin, count, dtype)


def all_or_none(beside: Sequence[Place]) -> bool:
    """Return whether the optional companions of token files exist."""
    there = [path.is_file() for path in beside]
    if any(there) and not all(there):
        raise CorruptError(beside[there.index(False)], "is missing", remedy="Copy it again")
    return any(there)


def bounded_entries(index: Place, entries: int, data: File) -> None:
    """Raise an error if an index lists more sequences than the data can hold, before its entries take memory. A
    sequence that is not empty takes at least one byte of the data; more entries than that plus 2^25 are an error.
    """
    limit = data.size + _EMPTY
    if entries > limit:
        expected = f"at most {limit:,} for {data.size:,} bytes of tokens"
        raise UnsafeError(index, "lists more sequences than its tokens allow", expected=expected, found=f"{entries:,}")


def loss_mask(path: Place, tokens: int, code: str) -> tuple[Extent, list[Problem]]:
    """Return the loss mask of a token file, one byte per token, and the problems of its size and content."""
    mask = Extent(open_file(path), 0, tokens, np.dtype(np.uint8))
    try:
        mask_bytes(mask, 0, min(tokens, mask.file.size, 1 << 16))
    except FormatError as error:
        return mask, [fatal(code, error)]
    if mask.file.size == tokens:
        return mask, []
    unfit = CorruptError(path, "bytes of the mask of each token", expected=tokens, found=mask.file.size)
    return mask, [fatal(code, unfit, is_truncated=mask.file.size < tokens)]


def mask_bytes(mask: Extent, start: int, stop: int) -> NDArray[np.uint8]:
    """Return bytes `start <= i < stop` of a loss mask, each 0 or 1. Of signed labels, a negative one does not count."""
    if mask.dtype.kind == "i":
        labels = mask.file.array(mask.begin + start * mask.dtype.itemsize, stop - start, mask.dtype)
        return (labels >= 0).astype(np.uint8)
    found = mask.file.array(mask.begin + start, stop - start, np.dtype(np.uint8))
    if len(found) and int(found.max()) > 1:
        at = int(np.argmax(found > 1))
        where = mask.begin + start + at
        raise CorruptError(mask.file.path, "is not a mask value", offset=where, expected="0 or 1", found=int(found[at]))
    return found


def bytes_of_marks(marks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the bytes of a loss mask in a file, each 0 or 1, of marks (`core.loss_mask`). `mask_bytes` reads them."""
    return marks & np.uint8(1)


class StoredIds:
    """The tokens of an extent as a section, `row` tokens per field."""

    def __init__(self, extent: Extent, row: int = 8) -> None:
        self.extent, self.path, self.row = extent, extent.file.path, row
        self.title = f"tokens of {printable(extent.file.path.name)}"
        self.count = -(-extent.tokens // row)

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._row(number) for number in range(max(0, first), min(last, self.count))]

    def _row(self, number: int) -> Field:
        extent, start = self.extent, number * self.row
        count = min(self.row, extent.tokens - start)
        width = extent.dtype.itemsize
        at = extent.begin + start * width
        try:
            begin, length = _stored(extent.file, at, count * width, width)
            ids, wrong = extent.file.ids(at, count, extent.dtype), False
        except FormatError as error:
            try:
                ids, wrong = extent.file.array(at, count, extent.dtype), True
            except FormatError:
                return broken(error)
        value = " ".join(map(str, ids.tolist()))
        return Field(f"token {start:,}", begin, length, value, "a negative ID" if wrong else "", wrong)


def _stored(file: File, offset: int, length: int, width: int) -> tuple[int | None, int]:
    """Return the byte offset in the file of the bytes that `read` returns for an offset, and their length there. The
    result is (None, 0) if the file is compressed. The length is 0 if the bytes are not at one place.
    """
    begin, last = file.to_stored_offset(offset), file.to_stored_offset(offset + length - width)
    if begin is None or last is None:
        return None, 0
    return begin, length if last - begin == length - width else 0
