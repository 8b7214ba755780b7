"""Parts of files: how all formats name them for people, and what lies in flat files, to read, write and name it.

Fields of a header, columns of an index, extents of tokens, and what all files of a dataset hold together.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TokfmtError, TruncatedError, UnsafeError
from tokfmt.core.fields import Field, Fields, Section
from tokfmt.core.files import File
from tokfmt.core.findings import Problem, fatal
from tokfmt.core.messages import allowing
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import U8, U16, U32, U64, Damage, Separators
from tokfmt.core.text_format import counted, printable, shortened

SHOWN = 96
"""Characters of a value from a file that are shown."""


_NUMPY = re.compile(rb"\{'descr': '([<|](?:u[124]|i[48]))', 'fortran_order': False, 'shape': \((\d{1,18}),\), \}\s*")
_TOGETHER, _MANY = 4, 4096  # fields that fail together, and more than which are not tried in halves


@dataclass(frozen=True, slots=True)
class Listed:
    """Fields at hand."""

    held: Sequence[Field]

    @property
    def count(self) -> int:
        return len(self.held)

    def fields(self, first: int, last: int) -> Sequence[Field]:
        return self.held[max(0, first) : max(0, last)]


@dataclass(frozen=True, slots=True)
class Numbered:
    """So many fields, each made of its number when it is asked for."""

    count: int
    field: Callable[[int], Field]

    def fields(self, first: int, last: int) -> Sequence[Field]:
        return [self.field(number) for number in range(max(0, first), min(last, self.count))]


@dataclass(slots=True)
class Part:
    """A section that is opened when it is first looked at. Never raises for damaged content: it says so in a field.

    Attributes:
        title, path: See `protocols.Section`.
        open: Called once.
    """

    title: str
    path: Path
    open: Callable[[], Fields | Sequence[Field]]
    _opened: Fields | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    @property
    def count(self) -> int:
        """How many fields there are."""
        return self._fields().count

    def fields(self, first: int, last: int) -> Sequence[Field]:
        """See `protocols.Section`. Where some fields cannot be read, others are; what failed stands for each."""
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
    """What cannot be read, as a field."""
    if not isinstance(error, FormatError):
        return Field("unreadable", None, 0, shown(error), wrong=True)
    both = ("expected", error.expected), ("found", error.found)
    contrast = [f"{word} {shown(value)}" for word, value in both if value is not None]
    value = f"{printable(error.what)}{': ' if contrast else ''}{', '.join(contrast)}"
    path = None if error.offset is None else Path(error.path)
    return Field("unreadable", error.offset, 0, value, error.remedy or "", wrong=True, path=path)


def shown(value: object) -> str:
    """A value from a file, for people: numbers grouped, control characters escaped, shortened."""
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    text = printable(value)
    return shortened(text, SHOWN)


# what lies in flat files

_LOOKED_AT = 1 << 15  # tokens at the end, which may be zeros ...
_EMPTY = 1 << 25  # sequences without a token that an index may have: 268 MB of offsets
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

    def read(self, file: File) -> dict[str, Any]:
        """The values of the fields that a file begins with, as Python objects.

        Raises:
            TruncatedError: The file ends before.
        """
        return self.parse(file.read(0, self.size))

    def parse(self, begin: bytes) -> dict[str, Any]:
        """The same of the bytes that a file begins with."""
        raw = np.frombuffer(begin, self.dtype)[0]
        return {name: raw[name].tobytes() if raw[name].dtype.kind == "V" else raw[name].item() for name in self._names}

    def write(self, **values: object) -> bytes:
        """The bytes of these values; what is left out is 0."""
        out = np.zeros(1, self.dtype)
        for name, value in values.items():
            out[name] = np.frombuffer(value, f"V{len(value)}") if isinstance(value, bytes) else value
        return out.tobytes()

    def part(self, title: str, file: File) -> Part:
        """A section of that title: the fields that a file begins with, named for people."""
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


class Entries(Protocol):
    """Where sequences begin, read when it is asked for: of an index that is too long to be read for a few of them.

    Attributes:
        sequences: How many there are.
    """

    sequences: int

    def offsets(self, first: int, last: int) -> Offsets:
        """See `axis.TokenReader`; the interval lies within the dataset."""

    def close(self) -> None:
        """Close the index; reading again opens it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FileLayout:
    """What the files of a dataset hold, found out without reading its tokens.

    Attributes:
        extents: The stored token axis, in order.
        masks: For each extent its loss mask, a byte a token: 1 counts as a target, 0 does not; () where there is none.
        starts: int64[sequences + 1], token positions, non-decreasing, from 0 to the end; None for one stream.
        entries: In place of `starts`, of one file, if these are read as they are needed.
        sample_length: Tokens of a row, where the dataset is read as rows of one length; `starts` is None then.
        separators: Where they stand on that axis; `alone` ones for a stream.
        eos_id, eos_from: The separator, where the dataset or a convention tells it, and in words how.
        problems: In the order in which they were met.
        sections: Named bytes beside the tokens, for `--raw`; the tokens get a section of their own.
        inferred, notes, pad_id, split, other_splits, loss_masks, extras, damage: As in `Info`.
    """

    extents: Sequence[Extent]
    masks: Sequence[Extent] = ()
    starts: Offsets | None = None
    entries: Entries | None = None
    sample_length: int | None = None
    separators: Separators = Separators.NONE
    eos_id: int | None = None
    eos_from: str = ""
    problems: Sequence[Problem] = ()
    sections: Sequence[Section] = ()
    inferred: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    pad_id: int | None = None
    split: str | None = None
    other_splits: tuple[str, ...] = ()
    loss_masks: str = ""
    extras: Mapping[str, object] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()


def certain(laid: FileLayout) -> FileLayout:
    """What is certain of files that end too early: the sequences of the index, or the tokens, before the cut.

    A problem that says so (`Problem.cut`) becomes damage. Of a stream the last sequence may still be cut.
    """
    cut = [problem for problem in laid.problems if problem.cut]
    if not cut:
        return laid
    there = _there(laid)
    kept, lost = there, Damage(cut[0].error.sentence)
    if laid.starts is not None:
        last = int(np.searchsorted(laid.starts, there, side="right")) - 1
        kept, sequences = int(laid.starts[last]), len(laid.starts) - 1 - last
        lost = lost._replace(sequences=sequences, tokens=int(laid.starts[-1]) - kept)
        laid = replace(laid, starts=laid.starts[: last + 1])
    elif laid.sample_length is not None:
        kept -= kept % laid.sample_length
    width = max((extent.dtype.itemsize for extent in laid.extents), default=0)
    lost = lost._replace(unused=(sum(extent.tokens for extent in laid.extents) - kept) * width)
    damage = (lost, *(Damage(problem.error.sentence, 0, 0) for problem in cut[1:]))
    return replace(
        laid,
        extents=first_tokens(laid.extents, kept),
        masks=first_tokens(laid.masks, kept),
        problems=[problem for problem in laid.problems if not problem.cut],
        damage=(*laid.damage, *damage),
    )


def _there(laid: FileLayout) -> int:
    """How many tokens lie before the first that is not there, or whose mask is not."""
    found = sum(extent.tokens for extent in laid.extents)
    for extents in (laid.extents, laid.masks):
        at = 0
        for extent in extents:
            held = (extent.file.size - extent.begin) // extent.dtype.itemsize
            if held < extent.tokens:
                found = min(found, at + max(0, held))
            at += extent.tokens
    return found if laid.starts is None else min(found, int(laid.starts[-1]))


def first_tokens(extents: Sequence[Extent], tokens: int) -> list[Extent]:
    """The first tokens of some extents."""
    kept = list[Extent]()
    for extent in extents:
        kept.append(extent._replace(tokens=min(extent.tokens, tokens)))
        tokens -= kept[-1].tokens
    return kept


def whole_tokens(file: File, dtype: np.dtype[Any], code: str, what: str = "a stream") -> tuple[Extent, list[Problem]]:
    """The tokens of a file (of what that is called) that holds nothing else, and says nowhere how many they are.

    What is left over behind the last whole one is a problem of that code, which `--allow-loss tail` accepts.
    """
    count, rest = divmod(file.size, dtype.itemsize)
    problems = []
    if rest:
        what = f"{what} is whole {dtype} tokens, but the file ends inside one"
        size, remedy = (
            f"a size that is a multiple of {dtype.itemsize}",
            f"{allowing('tail')} reads up to the last whole token",
        )
        error = TruncatedError(file.path, what, offset=file.size - rest, expected=size, found=file.size, remedy=remedy)
        problems.append(fatal(code, error, "tail", cut=True))
    return Extent(file, 0, count, dtype), problems


def told_tokens(
    file: File, dtype: np.dtype[Any], told: int, code: str, *, begin: int = 0, short: bool = False
) -> tuple[Extent, list[Problem]]:
    """As many tokens as a header or an index tells, of a file that ends with them.

    Another size is a problem of that code. `--allow-loss tail` accepts a file that is longer, and with `short` a
    shorter one.
    """
    size, stored, problems = told * dtype.itemsize, file.size - begin, list[Problem]()
    if size != stored:
        accepted = "tail" if short or stored > size else ""
        remedy = f"{allowing('tail')} reads the tokens that are there" if accepted else "Copy or write it again"
        if stored > size:
            remedy = f"{allowing('tail')} leaves out the last {counted(stored - size, 'byte')}"
        error = CorruptError(file.path, "bytes of tokens", expected=size, found=stored, remedy=remedy)
        problems.append(fatal(code, error, accepted, cut=stored < size))
    return Extent(file, begin, max(0, min(told, stored // dtype.itemsize)), dtype), problems


def written_tokens(extent: Extent, code: str) -> tuple[Extent, list[Problem]]:
    """An extent without the zeros at its end that a writer leaves which makes a file at full size, and is killed.

    From 64 of the last 32,768 tokens on they are a problem of that code, which `--allow-loss tail` accepts if all are
    seen.
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
        f"{allowing('tail')} leaves them out" if seen else "Write it again, or cut them all off: truncate -s BYTES PATH"
    )
    return kept, [fatal(code, TruncatedError(extent.file.path, what, offset=at, remedy=remedy), "tail" if seen else "")]


def numpy_extent(file: File) -> Extent:
    """The tokens of a one-dimensional `.npy` file. Nothing of it is unpickled.

    Raises:
        CorruptError: It is none, of another shape or dtype, or cut.
    """
    head = file.read(0, min(file.size, 1 << 12))
    text = 12 if head[6:7] > b"\1" else 10  # by the version, the header's length has 4 bytes, or 2
    begin = text + int.from_bytes(head[8:text], "little")
    said = _NUMPY.fullmatch(head[text:begin]) if head.startswith(b"\x93NUMPY") else None
    dtype, count = (np.dtype(said[1].decode()), int(said[2])) if said else (np.dtype("u2"), -1)
    if file.size != begin + count * dtype.itemsize:
        held = f"{dtype}[{count}] in {file.size:,} bytes" if said else printable(head[text:][:80].decode("latin-1"))
        raise CorruptError(file.path, "is no one-dimensional array of ids", expected="uint16[n], whole", found=held)
    return Extent(file, begin, count, dtype)


def all_or_none(beside: Sequence[Path]) -> bool:
    """Whether the files that may stand beside those of tokens are there.

    Raises:
        CorruptError: Some are, and one is not.
    """
    there = [path.is_file() for path in beside]
    if any(there) and not all(there):
        raise CorruptError(beside[there.index(False)], "is missing", remedy="Copy it again")
    return any(there)


def bounded_entries(index: Path, entries: int, data: File) -> None:
    """Refuse an index that lists far more sequences than its data can hold, before its entries take memory.

    Args:
        index: Where the entries lie.
        entries: How many there are.
        data: The file of the tokens. A sequence with tokens takes a byte of it at least, and some have none.

    Raises:
        UnsafeError: There are more than the bytes of the data and 2^25.
    """
    most = data.size + _EMPTY
    if entries > most:
        expected = f"at most {most:,} for {data.size:,} bytes of tokens"
        raise UnsafeError(index, "lists more sequences than its tokens can be", expected=expected, found=f"{entries:,}")


def loss_mask(path: Path, tokens: int, code: str) -> tuple[Extent, list[Problem]]:
    """The mask of a file of so many tokens, a byte each; what is wrong with its size and beginning has that code."""
    mask = Extent(File(path), 0, tokens, np.dtype(np.uint8))
    try:
        mask_bytes(mask, 0, min(tokens, mask.file.size, 1 << 16))
    except FormatError as error:
        return mask, [fatal(code, error)]
    if mask.file.size == tokens:
        return mask, []
    unfit = CorruptError(path, "bytes of the mask of each token", expected=tokens, found=mask.file.size)
    return mask, [fatal(code, unfit, cut=mask.file.size < tokens)]


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
    """The tokens of an extent, `row` a field."""

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
            ids, wrong = extent.file.ids(at, count, extent.dtype), False
        except FormatError as error:
            try:
                ids, wrong = extent.file.array(at, count, extent.dtype), True
            except FormatError:
                return broken(error)
        value = " ".join(map(str, ids.tolist()))
        begin, length = (at, count * width) if extent.file.plain else (None, 0)
        return Field(f"token {start:,}", begin, length, value, "a negative id" if wrong else "", wrong)
