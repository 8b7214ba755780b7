"""Which layout a pack has, where its tokens lie, and everything that is wrong with it, without reading its tokens.

What is wrong is said in one place: the reader raises or notes it, the checker lists it. The index tells where documents
begin by their lengths, and how the stored offsets compare with that. Of layouts that do not store it, the token width
follows from the index and what documents end with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File, open_file
from tokfmt.core.findings import Problem
from tokfmt.core.format import Hints
from tokfmt.core.messages import Option, allowing, from_option
from tokfmt.core.reader import Damage, Separators, windows
from tokfmt.formats.flat import Extent, FileLayout, FlatReader
from tokfmt.formats.modalities.header import (
    LONGEST,
    MEGATRON,
    Header,
    begins_index,
    headers,
    multimodal,
    token_dtype,
    twelve,
)
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.pickled_index import entry_position, read_entries

_READ = "tokfmt reads it right; convert it to have it right everywhere"
_DAMAGED = "The index is damaged or belongs to another file; write it again"
_PROTO = 0x80
_SURPLUS = 4
"""Bytes by which one development version (b8211997, three hours of 2023-12-19) made every length too large."""

_WIDTHS = "a token width of 1 to 4 in four bytes"
_AGAIN = "Copy the file again, or write it again"
_RAW = f"A raw stream of 4-byte big-endian ids is read with {from_option('layout', 'P0')} and {Option('eos', 'ID')}"


@dataclass(frozen=True, slots=True, eq=False)
class Anatomy:
    """The parts of a pack.

    Attributes:
        file: The pack.
        layout: A, B, C, D, E-B, E-C, E-D (merged), P (development versions), A-broken.
        header: As stored.
        width: Bytes a token.
        index: None for a stream without one (P0).
        tokens: In the data section.
        surplus: Bytes by which every length in the index is too large.
        problems: In the order in which they were met.
        inferred: Sentences for Info.inferred.
    """

    file: File
    layout: str
    header: Header
    width: int
    index: Index | None
    tokens: int
    surplus: int = 0
    problems: tuple[Problem, ...] = ()
    inferred: tuple[str, ...] = ()

    def laid(self) -> FileLayout:
        """The same for the base of flat formats."""
        index, header = self.index, self.header
        starts = None
        if index:
            starts = index.starts
            if self.surplus:
                starts -= self.surplus * np.arange(len(starts))  # in place: there may be 10^8
            starts //= self.width
        extras = dict(_facts(header, self.width), layout=self.layout)
        extras["index_bytes"] = self.file.size - index.start if index else 0
        return FileLayout(
            extents=[Extent(self.file, header.size, self.tokens, token_dtype(self.width, big=header.big))],
            starts=starts,
            separators=Separators.TRAILING if index else Separators.BETWEEN,
            problems=self.problems,
            inferred=self.inferred,
            extras=extras,
        )


def _facts(header: Header, width: int) -> dict[str, object]:
    return {"width": width, "byte_order": header.order, "header_bytes": header.size}


def glimpse(paths: Sequence[Path], options: ReadOptions, hints: Hints) -> FlatReader | None:  # noqa: ARG001
    """The tokens of a pack as one stream before its index, of which 10^7 documents take seconds, has been decoded.

    None when the header alone does not tell where they are and how wide. See `Format.glimpse`.
    """
    file = open_file(paths[0])
    if options.layout != "P0":
        head = file.read(0, min(file.size, LONGEST))
        for header in headers(head, options.layout):
            width = header.width or options.width
            if width and announces(file, header):
                extent = Extent(file, header.size, header.length // width, token_dtype(width, big=header.big))
                return FlatReader(
                    FileLayout(extents=[extent], separators=Separators.BETWEEN, extras=_facts(header, width))
                )
    file.close()
    return None


def examine(file: File, options: ReadOptions) -> Anatomy:
    """Take a pack apart.

    Returns:
        Its anatomy, with problems; when one of them is fatal, the rest of it is a best guess.

    Raises:
        FormatError: It is no pack, or there is no telling what it holds.
    """
    if not file.size:
        raise TruncatedError(file.path, "is empty", remedy="Its writer was killed, or its copy failed: write it again")
    if options.layout == "P0":
        return _stream(file, options)
    head = file.read(0, min(file.size, LONGEST))
    if head.startswith(MEGATRON):
        raise UnsupportedError(
            file.path, "is an index of Megatron-LM (MMIDIDX), not a Modalities pack",
            remedy=f"Its tokens lie in the .bin file beside it; {Option('from', 'megatron')} reads both",
        )  # fmt: skip
    header, index = _assembled(file, head, options.layout)
    surplus = _SURPLUS if index.start - index.total != header.size else 0
    width, inferred = _width(file, header, index, surplus, options)
    layout = layout_of(header, index, surplus)
    return Anatomy(
        file=file,
        layout=layout,
        header=header,
        width=width,
        index=index,
        tokens=(index.start - header.size) // width,
        surplus=surplus,
        problems=tuple(problems_of(file, header, index, Shape(layout, width, surplus))),
        inferred=inferred,
    )


def examine_partly(file: File, options: ReadOptions) -> FileLayout:
    """What is certain of a pack that ends inside its index: the documents whose entries are complete.

    Raises:
        FormatError: The pack is damaged otherwise, or ends before its index: no document can be told from the next.
    """
    try:
        return examine(file, options).laid()
    except (TruncatedError, CorruptError) as error:
        head = file.read(0, min(file.size, LONGEST))
        found = (header for header in headers(head, options.layout) if announces(file, header))
        header = next((header for header in found if header.width or options.width), None)
        if header is None:
            error.advise("Without its index nothing tells where a document ends")
            raise
        damage = error
    survey = _Survey(file, header.index_start)
    try:
        for offsets, lengths in read_entries(file, survey.start, file.size, survey.start, signed=True, cut=True):
            survey.add(offsets, lengths)
    except FormatError:
        raise damage from None
    index, width = survey.index(), header.width or options.width or 0
    shape = Shape(layout_of(header, index, 0), width, 0)
    known = header._replace(length=index.total)  # of the entries that are there
    problems = [*_of_lengths(file, known, index, shape), *_of_offsets(file, known, index, shape)]
    if index.total > header.length or any(problem.fatal for problem in problems):
        raise damage
    lost = header.length - index.total
    laid = Anatomy(file, shape.layout, header, width, index, index.total // width, problems=tuple(problems)).laid()
    return replace(laid, damage=(Damage(damage.sentence, None, lost // width, lost),))


def _stream(file: File, options: ReadOptions) -> Anatomy:
    width = options.width or 4
    header = Header(0, big=True, length=file.size, width=width)
    problems = [never_released(file)]
    if rest := file.size % width:
        error = TruncatedError(
            file.path, f"a stream of {width}-byte tokens ends inside one", offset=file.size - rest,
            remedy=f"{allowing('tail')} reads up to the last whole token",
        )  # fmt: skip
        problems.append(Problem("TF103", "error", error, fatal=True, accepted="tail"))
    return Anatomy(file, "P", header, width, None, file.size // width, problems=tuple(problems))


def _assembled(file: File, head: bytes, layout: str) -> tuple[Header, Index]:
    """The header and the index that belong together."""
    found = _announced(file, head, layout)
    if found:
        return found
    other = multimodal(head)
    if other and announces(file, other):
        raise UnsupportedError(
            file.path, "is a multimodal pack of a Modalities development version, with several kinds of items a sample",
            remedy="tokfmt reads packs of tokens only",
        )  # fmt: skip
    index = find_index(file)
    if index is None:
        raise _nothing(file, head, layout)
    header = _damaged(head, index, layout)
    if header is None:
        raise _no_header(file, head, index, layout)
    return header, index


def _announced(file: File, head: bytes, layout: str) -> tuple[Header, Index] | None:
    """The first header that points at an index whose lengths agree with it."""
    failure: FormatError | None = None
    for header in headers(head, layout):
        if not announces(file, header):
            continue
        try:
            index = read_index(file, header.index_start)
        except UnsafeError:
            raise
        except FormatError as error:
            failure = failure or error
            continue
        if index.total == header.length:
            return header, index
        failure = failure or _disagreement(file, header, index)
    if failure:
        raise failure
    return None


def announces(file: File, header: Header) -> bool:
    """Whether what begins like an index stands where a header says that it does."""
    at = header.index_start
    return begins_index(file.read(at, min(12, file.size - at))) if at < file.size else False


def _disagreement(file: File, header: Header, index: Index) -> CorruptError:
    return CorruptError(
        file.path, "the lengths in the index do not add up to the data section", offset=index.start,
        expected=f"{header.length:,} bytes", found=index.total,
        remedy="The index is damaged or belongs to another file; write it again",
    )  # fmt: skip


def _damaged(head: bytes, index: Index, layout: str) -> Header | None:
    """The header of a pack whose length field is wrong in a way that is known, or whose layout the user named.

    The rest of the file must agree: what the index does not account for is exactly a header.
    """
    size = index.start - index.total
    known = {header.size: header for header in headers(head, layout)}
    eight = known.get(8)
    if eight and index.documents and eight.length == index.total and size + _SURPLUS * index.documents == 8:
        return eight
    header = known.get(size)
    if header is None or size == 12 or layout != "auto":
        return header
    killed = not header.length and twelve(head) is None
    lost = size == 8 and index.constant and header.length == index.last_length
    surplus = size == 4 and header.length == index.total + 3
    return header if killed or lost or surplus else None


def _nothing(file: File, head: bytes, layout: str) -> FormatError:
    """Why there is no index, as far as the header tells."""
    if len(head) < 12:
        return TruncatedError(
            file.path, "the file ends inside its header", offset=file.size, expected="12 bytes", remedy=_AGAIN
        )
    header = next(headers(head, layout), None) if layout != "auto" else twelve(head)
    if header is None:
        return CorruptError(
            file.path, "is no Modalities pack: neither header nor index of any known layout", offset=8,
            expected=_WIDTHS, found=head[8:12].hex(" "), remedy=_RAW,
        )  # fmt: skip
    if not header.length:
        return CorruptError(
            file.path, "the header says that there is no data, and no index follows", offset=0,
            expected="the length of the data section", found=0,
            remedy="Its writer was killed before it finished; write the file again",
        )  # fmt: skip
    if header.index_start >= file.size:
        return TruncatedError(
            file.path, "the file ends before its index", offset=file.size, remedy=_AGAIN,
            expected=f"{header.length:,} bytes of data and an index from byte {header.index_start:,} on",
        )  # fmt: skip
    lead = file.read(header.index_start, min(4, file.size - header.index_start))
    if lead[0] == _PROTO:
        read_index(file, header.index_start)  # says what is wrong with it
    return CorruptError(
        file.path, "no index where the header says that it begins", offset=header.index_start,
        expected="a pickled list (80 04 95 or 80 04 5d)", found=lead.hex(" "), remedy=_AGAIN,
    )  # fmt: skip


def _no_header(file: File, head: bytes, index: Index, layout: str) -> CorruptError:
    """An index was found, but what lies before it is not a header and the data."""
    if index.start - index.total == 12 and twelve(head) is None:
        return CorruptError(
            file.path, "the token width in the header", offset=8, expected=_WIDTHS, found=head[8:12].hex(" "),
            remedy="The header is damaged; write the file again",
        )  # fmt: skip
    forced = f"A layout that is known can be forced with {from_option('layout')}"
    return CorruptError(
        file.path, "the index does not account for the bytes before it", offset=index.start,
        expected=f"a header and documents of {index.total:,} bytes", found=f"{index.start:,} bytes",
        remedy=forced if layout == "auto" else f"It is not of layout {layout}: leave the option out",
    )  # fmt: skip


def _width(file: File, header: Header, index: Index, surplus: int, options: ReadOptions) -> tuple[int, tuple[str, ...]]:
    """Bytes a token, and what to say when that was inferred."""
    if header.width is not None:
        if options.width not in {None, header.width}:
            raise UnsupportedError(
                file.path, "the token width in the header contradicts width=", offset=8, expected=options.width,
                found=header.width, remedy="Leave the option out",
            )  # fmt: skip
        return header.width, ()
    if options.width is not None:
        return options.width, ()
    width = surplus or infer_width(file, header.size, index)
    return width, (f"{width}-byte tokens, which this layout does not store; {from_option('width', 'N')} overrides",)


class Shape(NamedTuple):
    """What has been found out of a pack: layout, bytes a token, bytes by which every length is too large."""

    layout: str
    width: int
    surplus: int


def layout_of(header: Header, index: Index, surplus: int) -> str:
    """The layout in short: by its header and where offsets count from."""
    if header.size < 12:
        broken = surplus or (index.shifted and index.constant)
        return "P" if header.size == 4 else "A-broken" if broken else "A"
    if not index.documents:
        return "B" if header.big else "D"
    kind = "B" if header.big else "C" if index.base > 0 else "D"
    merged = index.shifted or index.base != (0 if kind == "D" else SHIFT)
    return f"E-{kind}" if merged else kind


def problems_of(file: File, header: Header, index: Index, shape: Shape) -> Iterator[Problem]:
    """Everything that is wrong with a pack whose header and index were found."""
    yield from _of_header(file, header, index, shape)
    yield from _of_lengths(file, header, index, shape)
    yield from (misplaced := list(_of_offsets(file, header, index, shape)))
    if any(problem.fatal for problem in misplaced):  # then whence offsets count is not known
        shape = shape._replace(layout=shape.layout.replace("C", "D"))
    yield from _of_age(file, header, shape)


def _of_header(file: File, header: Header, index: Index, shape: Shape) -> Iterator[Problem]:
    real = index.start - header.size
    if header.length == real:
        return
    killed = header.length == 0
    why = "the header says that there is no data" if killed else "the header's data length is not that of the data"
    how = "its writer was killed before its last step" if killed else f"by {header.length - real:+,} bytes"
    yield _corrupt(
        "TF105" if killed else "TF106", file, "the data length in the header", offset=0, expected=real,
        found=header.length, remedy=_READ, note=f"{why} ({how}); documents were read by the index",
    )  # fmt: skip
    if shape.surplus:
        yield _corrupt(
            "TF111", file, "every length in the index is one token too large (a development version of 2023-12-19)",
            offset=index.start, remedy=_READ, note="every length in the index is one token too large; that was undone",
        )  # fmt: skip


def _of_lengths(file: File, header: Header, index: Index, shape: Shape) -> Iterator[Problem]:
    if wrong := index.uneven(shape.width):
        yield _corrupt(
            "TF110", file, f"the length in index entry {wrong.entry:,}", offset=index.position(file, wrong.entry),
            expected=f"a multiple of {shape.width} bytes a token", found=wrong.found,
            remedy=_DAMAGED if header.width else f"Name the right width with {from_option('width', 'N')}",
        )  # fmt: skip
    if index.empty is not None:
        yield _corrupt(
            "TF118", file, f"index entry {index.empty:,} is a document of no tokens, not even a separator",
            offset=index.position(file, index.empty), remedy="Modalities always writes one", severity="warning",
        )  # fmt: skip


def _of_offsets(file: File, header: Header, index: Index, shape: Shape) -> Iterator[Problem]:
    if not index.documents:
        return
    first = {12: 0, 8: 8, 4: 4}[header.size]
    known = {12: (SHIFT, 0), 8: (8,), 4: (1, 4)}[header.size]
    mergeable = header.size == 12 and index.base <= SHIFT and not index.base % SHIFT
    if index.base not in known and not mergeable:
        yield _misplaced(file, index, WrongEntry(0, first, index.base))
    elif shape.layout == "A-broken":
        if index.shifted:
            yield _corrupt(
                "TF112", file, f"all offsets in the index are {index.base}: a development version did not add them up",
                offset=index.start, remedy=_READ, note="all offsets in the index are 8; documents were read by length",
            )  # fmt: skip
    elif index.reordered and index.shifted:
        yield _corrupt(
            "TF109", file, "the index lists the documents in another order than that in which they lie: entry "
            f"{index.shifted.entry:,}", offset=index.position(file, index.shifted.entry),
            expected=f"offset {index.shifted.expected:,}", found=index.shifted.found,
            remedy="No Modalities program writes this; sort the index by offset",
        )  # fmt: skip
    elif index.odd or (index.shifted and header.size != 12):
        yield _misplaced(file, index, index.odd or index.shifted or WrongEntry(0, first, index.base))
    elif shape.layout.startswith("E"):
        yield _merged(file, index, index.shifted or WrongEntry(0, first, index.base))


def _misplaced(file: File, index: Index, wrong: WrongEntry) -> Problem:
    return _corrupt(
        "TF108", file, f"documents overlap or leave a gap: index entry {wrong.entry:,}",
        offset=index.position(file, wrong.entry), expected=f"offset {wrong.expected:,}", found=wrong.found,
        remedy=_DAMAGED,
    )  # fmt: skip


def _merged(file: File, index: Index, wrong: WrongEntry) -> Problem:
    cause = f"merged by a tool that shifts later files by {SHIFT} bytes"
    if index.base < 0:
        wrong = WrongEntry(0, 0, index.base)
    return _corrupt(
        "TF107", file, f"index entry {wrong.entry:,}", offset=index.position(file, wrong.entry),
        expected=f"offset {wrong.expected:,}", found=f"{wrong.found:,} ({cause})",
        remedy="Documents can be read by length, as tokfmt does; Modalities reads shifted ones: convert it",
        note=f"index offsets are shifted from entry {wrong.entry:,} on ({cause}); documents were read by length",
    )  # fmt: skip


def _of_age(file: File, header: Header, shape: Shape) -> Iterator[Problem]:
    """What a right file cannot do today because of its age."""
    if shape.width == 3:
        yield _corrupt(
            "TF113", file, "tokens of 3 bytes", offset=8, remedy=f"No Modalities version reads them; {_READ}",
            severity="warning", note="tokens of 3 bytes, which no Modalities version reads",
        )  # fmt: skip
    if header.size == 4 or shape.layout == "A-broken":
        yield never_released(file)
    elif header.big:
        yield _corrupt("TF114", file, f"layout {shape.layout[-1]} is big-endian", offset=0, severity="warning",
                       remedy=f"Modalities reads it no more since 2024-04; {_READ}")  # fmt: skip
    elif shape.layout.endswith("C"):
        yield _corrupt("TF115", file, "offsets count from the start of the file (layout C): Modalities since 2024-07 "
                       "reads documents 12 bytes late", remedy=_READ, severity="warning")  # fmt: skip
    if header.width is None:
        yield _corrupt("TF119", file, f"does not store its token width ({shape.width} inferred or named)",
                       severity="info", remedy=f"{from_option('width', 'N')} says it")  # fmt: skip


def never_released(file: File) -> Problem:
    """What is said of the layouts P0 .. P3 and of the broken ones of layout A."""
    return _corrupt("TF120", file, "was written by a version of Modalities that was never released", remedy=_READ,
                    severity="warning")  # fmt: skip


def _corrupt(
    code: str,
    file: File,
    what: str,
    *,
    offset: int | None = None,
    expected: object = None,
    found: object = None,
    remedy: str | None = None,
    note: str = "",
    severity: str = "error",
) -> Problem:
    """A problem worded as a CorruptError; an error is fatal unless there is a note, which the reader then leaves."""
    error = CorruptError(file.path, what, offset=offset, expected=expected, found=found, remedy=remedy)
    return Problem(code, severity, error, fatal=severity == "error" and not note, note=note)


SHIFT = 12
"""What a merge subtracts from the offsets of each further file, in bytes."""

_SMALLEST_ENTRY = 5  # bytes in the pickle
_ATTEMPTS = 64  # places tried as the beginning of an index
_BLOCK = 1 << 20

Ints = NDArray[np.int64]


class WrongEntry(NamedTuple):
    """An entry whose stored offset is not what the lengths before it lead to."""

    entry: int
    expected: int
    found: int


class Index(NamedTuple):
    """A decoded index.

    Attributes:
        start, stop: Its bytes in the file.
        starts: int64[documents + 1], byte at which each document begins, by the lengths, counted from the first one.
        base: The first stored offset; 0 when there is none.
        last_length: Bytes of the last document.
        shifted: First entry whose offset does not follow from the entry before it.
        odd: First entry whose offset is off by anything but a multiple of SHIFT.
        constant: All stored offsets are the same.
        reordered: The stored offsets tile the data, in another order than that of the entries.
        bits: All lengths, or-ed: tells which powers of two divide them.
        empty: First entry of length 0.
    """

    start: int
    stop: int
    starts: Ints
    base: int
    last_length: int
    shifted: WrongEntry | None
    odd: WrongEntry | None
    constant: bool
    reordered: bool
    bits: int
    empty: int | None

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @property
    def total(self) -> int:
        """Bytes of all documents."""
        return int(self.starts[-1])

    def uneven(self, width: int) -> WrongEntry | None:
        """The first document whose length is not a multiple of `width`: `found` is its length."""
        if width in {1, 2, 4} and not self.bits & width - 1:
            return None
        for a, b in windows(0, self.documents):
            lengths = np.diff(self.starts[a : b + 1])
            wrong = np.flatnonzero(lengths % width)
            if len(wrong):
                return WrongEntry(a + int(wrong[0]), width, int(lengths[wrong[0]]))
        return None

    def position(self, file: File, entry: int) -> int:
        """The byte at which an entry lies in the file."""
        return entry_position(file, self.start, self.stop, entry)


def read_index(file: File, start: int) -> Index:
    """Decode the index that begins at byte `start` and runs to the end of the file.

    Raises:
        FormatError: It is not a pickled list of pairs of integers, or a document is larger than the file.
    """
    survey = _Survey(file, start)
    for offsets, lengths in read_entries(file, start, file.size, start, signed=True):
        survey.add(offsets, lengths)
    return survey.index()


class _Survey:
    """One pass over the entries; keeps 8 bytes for each."""

    def __init__(self, file: File, start: int) -> None:
        self.file, self.start = file, start
        # reserved, not touched: the pages that the entries do not fill are given back in `index`
        self.starts = np.empty((file.size - start) // _SMALLEST_ENTRY + 2, np.int64)
        self.starts[0] = 0
        self.count, self.total, self.bits, self.last_length = 0, 0, 0, 0
        self.base, self.last_shift, self.constant = 0, 0, True
        self.shifted: WrongEntry | None = None
        self.odd: WrongEntry | None = None
        self.empty: int | None = None
        self.least = 0
        self.balance = 0  # of hashes of where runs of entries begin and end

    def add(self, offsets: Ints, lengths: Ints) -> None:
        self._check_lengths(lengths)
        first, self.count = self.count, self.count + len(offsets)
        window = self.starts[first : self.count + 1]
        np.cumsum(lengths, out=window[1:])
        window[1:] += self.total
        self.total, self.last_length = int(window[-1]), int(lengths[-1])
        self.bits |= int(np.bitwise_or.reduce(lengths))
        if self.empty is None and not lengths.all():
            self.empty = first + int(np.argmin(lengths))
        self._compare(first, offsets, window)

    def _check_lengths(self, lengths: Ints) -> None:
        longest = int(lengths.max())
        if longest > self.start or float(self.total) + float(lengths.sum(dtype=np.float64)) > 2.0**62:
            entry = self.count + int(np.argmax(lengths))
            raise CorruptError(
                self.file.path, f"the length in index entry {entry:,}", expected=f"at most {self.start:,} bytes",
                offset=entry_position(self.file, self.start, self.file.size, entry), found=longest,
                remedy="The index is damaged or belongs to another file",
            )  # fmt: skip

    def _compare(self, first: int, offsets: Ints, window: Ints) -> None:
        shifts = offsets - window[:-1]
        if first == 0:
            self.base = self.last_shift = self.least = int(offsets[0])
        self.constant = self.constant and bool((offsets == self.base).all())
        steps = np.flatnonzero(np.diff(shifts, prepend=self.last_shift))
        if not len(steps):
            return
        self.least = min(self.least, int(offsets[steps].min()))
        self.shifted = self.shifted or self._wrong_entry(first, int(steps[0]), offsets, window)
        odd = np.flatnonzero((shifts - self.base) % SHIFT)
        if len(odd):
            self.odd = self.odd or self._wrong_entry(first, int(odd[0]), offsets, window)
        ends = window[steps] + np.concatenate(([self.last_shift], shifts))[steps]  # where the runs before end
        self.balance += int(_mixed(offsets[steps]).sum()) - int(_mixed(ends).sum())
        self.last_shift = int(shifts[-1])

    def _wrong_entry(self, first: int, at: int, offsets: Ints, window: Ints) -> WrongEntry:
        return WrongEntry(first + at, int(window[at]) + max(self.base, 0), int(offsets[at]))

    def index(self) -> Index:
        self.starts.resize(self.count + 1, refcheck=False)
        return Index(
            start=self.start,
            stop=self.file.size,
            starts=self.starts,
            base=self.base,
            last_length=self.last_length,
            shifted=self.shifted,
            odd=self.odd,
            constant=self.constant,
            reordered=self.shifted is not None and self._tiles(),
            bits=self.bits,
            empty=self.empty,
        )

    def _tiles(self) -> bool:
        """Whether the stored intervals, put in order, follow on each other without gaps.

        They do when the places where they begin are those where they end, but for the outermost two; sums of hashes
        compare the two sets without keeping them.
        """
        begins, ends = [self.base, self.least + self.total], [self.total + self.last_shift, self.least]
        hashes = _mixed(np.array(begins + ends)).tolist()
        return bool((self.balance + hashes[0] + hashes[1] - hashes[2] - hashes[3]) % 2**64 == 0)


def _mixed(places: Ints) -> NDArray[np.uint64]:
    """A hash of each place (the finaliser of splitmix64)."""
    x = places.astype(np.int64).view(np.uint64)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def find_index(file: File) -> Index | None:
    """The index of a pack whose header does not tell where it is: the last one that ends where the file does."""
    if not file.size or file.read(file.size - 1, 1) != b".":
        return None
    for attempt, start in enumerate(_beginnings(file)):
        if attempt == _ATTEMPTS:
            return None
        try:
            return read_index(file, start)
        except (CorruptError, TruncatedError, UnsupportedError):
            continue
    return None


def _beginnings(file: File) -> Iterator[int]:
    """Places at which a pickled list may begin, from the end of the file."""
    for stop in range(file.size, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        held = file.read(start, min(file.size - start, _BLOCK + 16)) + bytes(16)
        raw = np.frombuffer(held, np.uint8)
        hits = np.flatnonzero((raw[:-1] == 0x80) & (raw[1:] >= 2) & (raw[1:] <= 5))
        for hit in hits[hits < stop - start][::-1].tolist():
            if begins_index(held[hit : hit + 12]):
                yield start + hit


_ENDINGS = 4096
_ALMOST_ALL = 0.9
_DEFAULT = 4


def infer_width(file: File, begin: int, index: Index) -> int:
    """The widest of 4, 2 and 1 bytes that divides every length and under which (almost) all documents end alike.

    They end with the separator, so its bytes repeat; a width too large takes in part of the token before, which
    varies. Layout A was written with 4 bytes unless a program asked for another width; that is the default as well.
    """
    endings = _endings(file, begin, index)
    for width in (4, 2, 1):
        last = Counter(ending[-width:] for ending in endings)
        if index.uneven(width) is None and last and max(last.values()) >= _ALMOST_ALL * len(endings):
            return width
    return next(width for width in (_DEFAULT, 2, 1) if index.uneven(width) is None)


def _endings(file: File, begin: int, index: Index) -> list[bytes]:
    """The last four bytes (or fewer) of documents spread over the file."""
    count = index.documents
    looked = np.unique(np.linspace(0, count - 1, min(count, _ENDINGS)).astype(np.int64)).tolist() if count else []
    endings = []
    for entry in looked:
        start, stop = index.starts[entry : entry + 2].tolist()
        if start < stop:
            length = min(4, stop - start)
            endings.append(file.read(begin + stop - length, length))
    return endings
