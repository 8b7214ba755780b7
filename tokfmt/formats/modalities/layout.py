"""Find the layout of a pack, the byte offsets of its parts, and its problems, without reading its tokens.

Each problem is stated once: the reader raises or notes it, and the checker lists it. The starts of documents follow
from the lengths in the index; the stored offsets are compared with them. If a layout does not store the token width, it
is inferred from the index and the last bytes of documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Problem, fatal
from tokfmt.core.reader import Damage, Separators, windows
from tokfmt.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.files.file import File
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
from tokfmt.wording import counted

_READ = "tokfmt reads it right; convert it so that other readers do as well"
_DAMAGED = "The index is damaged or belongs to another file; write it again"
_PROTO = 0x80
_SURPLUS = 4
"""Bytes by which every length is too large in packs of one development version (b8211997, 3 hours of 2023-12-19)."""

_WIDTHS = "a token width of 1 to 4 in four bytes"
_AGAIN = "Copy the file again, or write it again"
_RAW = "Read a raw stream of 4-byte big-endian IDs with --from-opt layout=P0 and --eos ID"


@dataclass(frozen=True, slots=True, eq=False)
class Pack:
    """The parts of a pack."""

    file: File  # the pack
    header: Header  # the header, as stored
    width: int  # bytes per token
    index: Index | None  # the index, or the part of it that was decoded; None for a stream without one (P0)
    surplus: int = 0  # bytes by which every length in the index is too large
    inferred: tuple[str, ...] = ()  # sentences for `Info.inferred`

    @property
    def layout(self) -> str:
        """A, B, C, D, E-B, E-C, E-D (merged), P (development versions) or A-broken."""
        header, index = self.header, self.index
        if index is None:
            return "P"
        if header.size < 12:
            broken = self.surplus or (index.shifted and index.constant)
            return "P" if header.size == 4 else "A-broken" if broken else "A"
        if not index.documents:
            return "B" if header.big else "D"
        kind = "B" if header.big else "C" if index.base > 0 else "D"
        merged = index.shifted or index.base != (0 if kind == "D" else SHIFT)
        return f"E-{kind}" if merged else kind

    def file_layout(self, problems: Sequence[Problem]) -> FileLayout:
        """Return the layout for the base class of flat formats. Changes the starts in `index` in place."""
        header, index, layout = self.header, self.index, self.layout
        starts = None if index is None else index.starts
        if starts is not None and self.surplus:
            starts -= self.surplus * np.arange(len(starts))  # in place, as there may be 10^8
        if starts is not None:
            starts //= self.width
        tokens = self.file.size // self.width if starts is None else int(starts[-1])
        extras = dict(_facts(header, self.width), layout=layout)
        extras["index_bytes"] = self.file.size - index.start if index else 0
        return FileLayout(
            extents=[Extent(self.file, header.size, tokens, token_dtype(self.width, big=header.big))],
            starts=starts,
            separators=Separators.TRAILING if index else Separators.BETWEEN,
            problems=problems,
            inferred=self.inferred,
            extras=extras,
        )


def _facts(header: Header, width: int) -> dict[str, object]:
    return {"width": width, "byte_order": header.order, "header_bytes": header.size}


def glimpse(file: File, options: ReadOptions) -> FlatReader | None:
    """Return the tokens of a pack as one stream, as far as the file has them.

    Returns:
        None if the header alone does not give their bounds and their width.
    """
    header = _stated(file, options) or _ended_early(file, options)
    if header is None:
        file.close()
        return None
    return FlatReader(_stream_of(file, header, options))


def _stream_of(file: File, header: Header, options: ReadOptions, damage: FormatError | None = None) -> FileLayout:
    """Return the tokens of a pack as one stream, as far as the file has them."""
    width = header.width or options.width or 0
    there = min(header.length, file.size - header.size)
    extent = Extent(file, header.size, there // width, token_dtype(width, big=header.big))
    missing = (header.length - there) // width
    lost = () if damage is None else (Damage(damage.sentence, None, missing, there % width, at_end=True),)
    return FileLayout(extents=[extent], separators=Separators.BETWEEN, extras=_facts(header, width), damage=lost)


def examine(file: File, options: ReadOptions) -> Pack:
    """Return the parts of a pack. If one of its problems is fatal, some of them may be wrong."""
    if not file.size:
        raise TruncatedError(file.path, "is empty", remedy="Its writer was killed, or its copy failed: write it again")
    if options.layout == "P0":
        stream = Header(0, big=True, length=file.size, width=options.width or 4)
        return Pack(file, stream, options.width or 4, None)
    head = file.read(0, min(file.size, LONGEST))
    if head.startswith(MEGATRON):
        raise UnsupportedError(
            file.path,
            "is an index of Megatron-LM (MMIDIDX), not a Modalities pack",
            remedy="Its tokens are in the .bin file of the same name; --from megatron reads both",
        )
    header, index = _assembled(file, head, options.layout)
    surplus = _SURPLUS if index.start - index.total != header.size else 0
    width, inferred = _width(file, header, index, surplus, options)
    return Pack(file, header, width, index, surplus, inferred)


def examine_beginning(file: File, options: ReadOptions, sequences: int) -> FileLayout | None:
    """Return the layout of the first documents of a pack with a long index, whose other entries are not decoded.

    Decoding takes 0.14 seconds for a million entries, and each depends on those before it.

    Args:
        file: The pack.
        options: The read options.
        sequences: The number of documents that the caller reads.

    Returns:
        None if the index is short, if half of it is needed, or if the header does not give the bounds and the width
        of tokens, or contradicts the first entries: then only the whole index shows what the pack is.

    Raises:
        UnsafeError: An opcode of the beginning would execute code or exhaust memory. Nothing was executed.
    """
    wanted = max(sequences, _FEW)
    needed = max(_LONG, 2 * wanted * _SMALLEST_ENTRY)  # bytes of an index, beyond which a part of it is enough
    if file.size <= needed or (header := _stated(file, options, needed)) is None:
        return None
    survey, width = _Survey(file, header.index_start), header.width or options.width or 0
    with suppress(CorruptError, TruncatedError, UnsupportedError):
        for offsets, lengths in read_entries(file, survey.start, file.size, survey.start, signed=True):
            survey.add(offsets, lengths)
            if survey.count >= wanted:
                break
    index = survey.index()
    if index.documents < wanted or index.shifted or not index.total < header.length:
        return None
    note = f"the first {index.documents:,} documents of the index were read; tokfmt check compares all"
    pack = Pack(file, header, width, index, inferred=(note,))
    problems = [*_of_lengths(pack, index), *_of_offsets(pack, index)]
    if any(problem.is_fatal for problem in problems):
        return None
    problems += _of_age(pack, pack.layout)
    return replace(pack.file_layout(problems), beginning_of=header.length // width)


def _stated(file: File, options: ReadOptions, longer: int = 0) -> Header | None:
    """Return the header that points to an index longer than `longer` bytes, if it or the user states the width."""
    if options.layout == "P0":
        return None
    head = file.read(0, min(file.size, LONGEST))
    found = (header for header in headers(head, options.layout) if file.size - header.index_start > longer)
    return next((header for header in found if (header.width or options.width) and announces(file, header)), None)


def _ended_early(file: File, options: ReadOptions) -> Header | None:
    """Return the header, which states the width, of a pack that was cut before its index; None for another file."""
    if options.layout == "P0":
        return None
    header = _only_header(file.read(0, min(file.size, LONGEST)), options.layout)
    is_cut = header is not None and header.size < file.size <= header.index_start
    return header if header is not None and is_cut and (header.width or options.width) else None


def _only_header(head: bytes, layout: str) -> Header | None:
    """Return the header that bytes may be by themselves, without an index that confirms it."""
    return next(headers(head, layout), None) if layout != "auto" else twelve(head)


def examine_partly(file: File, options: ReadOptions, eos_id: int | None) -> FileLayout:
    """Return the certain part of a cut pack: the documents whose entries in the index are complete.

    If it ends before its index, it is the stream of its tokens, in which the separator ends each document.

    Args:
        file: The pack.
        options: The read options.
        eos_id: The separator; None if it is unknown.
    """
    try:
        pack = examine(file, options)
        return pack.file_layout(list(problems_of(pack)))
    except (TruncatedError, CorruptError) as error:
        header = _stated(file, options)
        if header is None:
            early = _ended_early(file, options)
            if early is not None and eos_id is not None:
                return _stream_of(file, early, options, error)
            ways = "only the separator shows the ends of documents: add --eos ID"
            error.advise(f"Without its index, {ways if early else 'the ends of documents are not known'}")
            raise
        damage = error
    survey = _Survey(file, header.index_start)
    try:
        for offsets, lengths in read_entries(
            file, survey.start, file.size, survey.start, signed=True, is_truncated=True
        ):
            survey.add(offsets, lengths)
    except FormatError:
        raise damage from None
    index, width = survey.index(), header.width or options.width or 0
    pack = Pack(file, header, width, index)
    problems = [*_of_lengths(pack, index), *_of_offsets(pack, index)]
    if index.total > header.length or any(problem.is_fatal for problem in problems):
        raise damage
    missing = header.length - index.total
    lost = Damage(damage.sentence, None, missing // width, missing, at_end=True)
    return replace(pack.file_layout(problems), damage=(lost,))


def _assembled(file: File, head: bytes, layout: str) -> tuple[Header, Index]:
    """Return the header and the index that fit each other."""
    found = _announced(file, head, layout)
    if found:
        return found
    other = multimodal(head)
    if other and announces(file, other):
        raise UnsupportedError(
            file.path,
            "is a multimodal pack of a Modalities development version, with several kinds of items per sample",
            remedy="tokfmt reads only packs of tokens",
        )
    index = find_index(file)
    if index is None:
        raise _nothing(file, head, layout)
    header = _damaged(head, index, layout)
    if header is None:
        raise _no_header(file, head, index, layout)
    return header, index


def _announced(file: File, head: bytes, layout: str) -> tuple[Header, Index] | None:
    """Return the first header that points to an index whose lengths agree with it, and the index; else None."""
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
    """Return True if the header points to bytes that begin like an index."""
    at = header.index_start
    return begins_index(file.read(at, min(12, file.size - at))) if at < file.size else False


def _disagreement(file: File, header: Header, index: Index) -> CorruptError:
    """Return the error of an index whose lengths have another sum than the data, with the entry that contradicts."""
    what, wrong = "the lengths in the index do not add up to the data section", index.odd or index.shifted
    at, expected, found = index.start, f"{header.length:,} bytes", index.total
    if wrong is not None and wrong.entry and not index.constant and not index.reordered:
        what = f"{what}: index entry {wrong.entry - 1:,}"
        at = index.position(file, wrong.entry - 1)
        expected, found = f"an end at offset {wrong.found:,}, where the next begins", wrong.expected
    return CorruptError(file.path, what, offset=at, expected=expected, found=found, remedy=_DAMAGED)


def _damaged(head: bytes, index: Index, layout: str) -> Header | None:
    """Return the header if its length field is wrong in a known way, or the layout is given; else None.

    The bytes of the file that are not in the index or its documents must be exactly a header.
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
    """Return the error of a file in which no index was found, from its header."""
    if len(head) < 12:
        return TruncatedError(
            file.path, "the file ends inside its header", offset=file.size, expected="12 bytes", remedy=_AGAIN
        )
    header = _only_header(head, layout)
    if header is None:
        return CorruptError(
            file.path,
            "is not a Modalities pack: it has neither a header nor an index of a known layout",
            offset=8,
            expected=_WIDTHS,
            found=head[8:12].hex(" "),
            remedy=_RAW,
        )
    if not header.length:
        return CorruptError(
            file.path,
            "the header states 0 bytes of data, and no index follows",
            offset=0,
            expected="the length of the data section",
            found=0,
            remedy="Its writer was killed before it finished; write the file again",
        )
    if header.index_start >= file.size:
        return TruncatedError(
            file.path,
            "the file ends before its index",
            offset=file.size,
            remedy=_AGAIN,
            expected=f"{header.length:,} bytes of data and an index from byte {header.index_start:,} on",
        )
    lead = file.read(header.index_start, min(4, file.size - header.index_start))
    if lead[0] == _PROTO:
        read_index(file, header.index_start)  # raises the error of the damaged index
    return CorruptError(
        file.path,
        "the header does not point to an index",
        offset=header.index_start,
        expected="a pickled list (80 04 95 or 80 04 5d)",
        found=lead.hex(" "),
        remedy=_AGAIN,
    )


def _no_header(file: File, head: bytes, index: Index, layout: str) -> CorruptError:
    """Return the error of a file with an index, whose bytes before it are not a header and the documents."""
    if index.start - index.total == 12 and twelve(head) is None:
        return CorruptError(
            file.path,
            "the token width in the header",
            offset=8,
            expected=_WIDTHS,
            found=head[8:12].hex(" "),
            remedy="The header is damaged; write the file again",
        )
    forced = "If you know the layout, give it with --from-opt layout=NAME"
    return CorruptError(
        file.path,
        "the index does not account for the bytes before it",
        offset=index.start,
        expected=f"a header and documents of {index.total:,} bytes",
        found=f"{index.start:,} bytes",
        remedy=forced if layout == "auto" else f"It is not of layout {layout}: leave the option out",
    )


def _width(file: File, header: Header, index: Index, surplus: int, options: ReadOptions) -> tuple[int, tuple[str, ...]]:
    """Return the bytes per token, and the inferred facts."""
    if header.width is not None:
        if options.width not in {None, header.width}:
            raise UnsupportedError(
                file.path,
                f"the token width in the header contradicts --from-opt width={options.width}",
                offset=8,
                expected=options.width,
                found=header.width,
                remedy="Leave the option out",
            )
        return header.width, ()
    if options.width is not None:
        return options.width, ()
    width = surplus or infer_width(file, header.size, index)
    return width, (f"{width}-byte tokens, which this layout does not store; --from-opt width=N overrides",)


def problems_of(pack: Pack) -> Iterator[Problem]:
    """Yield all problems of a pack whose parts are known."""
    index, layout = pack.index, pack.layout
    if index is None:
        yield from _of_stream(pack)
        return
    yield from _of_header(pack, index)
    yield from _of_lengths(pack, index)
    yield from (misplaced := list(_of_offsets(pack, index)))
    if any(problem.is_fatal for problem in misplaced):  # Then the origin of the offsets is not known.
        layout = layout.replace("C", "D")
    yield from _of_age(pack, layout)


def _of_stream(pack: Pack) -> Iterator[Problem]:
    file, width = pack.file, pack.width
    yield never_released(file)
    if rest := file.size % width:
        error = TruncatedError(
            file.path,
            f"a stream of {width}-byte tokens ends inside one",
            offset=file.size - rest,
            remedy="--allow-loss tail reads up to the last whole token",
        )
        lost = f"the last {counted(rest, 'byte')}, from byte {file.size - rest:,} on"
        yield fatal("TF103", error, "tail", lost=lost)


def _of_header(pack: Pack, index: Index) -> Iterator[Problem]:
    file, header = pack.file, pack.header
    real = index.start - header.size
    if header.length == real:
        return
    killed = header.length == 0
    why = "the header states 0 bytes of data" if killed else "the data length in the header is not that of the data"
    how = "its writer was killed before its last step" if killed else f"by {header.length - real:+,} bytes"
    yield _corrupt(
        "TF105" if killed else "TF106",
        file,
        "the data length in the header",
        offset=0,
        expected=real,
        found=header.length,
        remedy=_READ,
        note=f"{why} ({how}); documents were read by the index",
    )
    if pack.surplus:
        yield _corrupt(
            "TF111",
            file,
            "every length in the index is one token too large (a development version of 2023-12-19)",
            offset=index.start,
            remedy=_READ,
            note="every length in the index is one token too large; that was undone",
        )


def _of_lengths(pack: Pack, index: Index) -> Iterator[Problem]:
    file = pack.file
    if wrong := index.uneven(pack.width):
        yield _corrupt(
            "TF110",
            file,
            f"the length in index entry {wrong.entry:,}",
            offset=index.position(file, wrong.entry),
            expected=f"a multiple of {pack.width} bytes per token",
            found=wrong.found,
            remedy=_DAMAGED if pack.header.width else "Name the right width with --from-opt width=N",
        )
    if index.empty is not None:
        yield _corrupt(
            "TF118",
            file,
            f"index entry {index.empty:,} is a document of no tokens, not even a separator",
            offset=index.position(file, index.empty),
            remedy="Modalities always writes one",
            severity="warning",
        )


def _of_offsets(pack: Pack, index: Index) -> Iterator[Problem]:
    if not index.documents:
        return
    file, header, layout = pack.file, pack.header, pack.layout
    first = {12: 0, 8: 8, 4: 4}[header.size]
    known = {12: (SHIFT, 0), 8: (8,), 4: (1, 4)}[header.size]
    mergeable = header.size == 12 and index.base <= SHIFT and not index.base % SHIFT
    if index.base not in known and not mergeable:
        yield _misplaced(file, index, WrongEntry(0, first, index.base))
    elif layout == "A-broken":
        if index.shifted:
            yield _corrupt(
                "TF112",
                file,
                f"all offsets in the index are {index.base}: a development version did not add them up",
                offset=index.start,
                remedy=_READ,
                note="all offsets in the index are 8; documents were read by length",
            )
    elif index.reordered and index.shifted and np.diff(index.starts[index.shifted.entry :][:2])[0]:
        yield _corrupt(
            "TF109",
            file,
            f"the index lists the documents in another order than the data: entry {index.shifted.entry:,}",
            offset=index.position(file, index.shifted.entry),
            expected=f"offset {index.shifted.expected:,}",
            found=index.shifted.found,
            remedy="No Modalities program writes this; sort the index by offset",
        )
    elif index.odd or (index.shifted and header.size != 12):
        yield _misplaced(file, index, index.odd or index.shifted or WrongEntry(0, first, index.base))
    elif layout.startswith("E"):
        yield _merged(file, index, index.shifted or WrongEntry(0, first, index.base))


def _misplaced(file: File, index: Index, wrong: WrongEntry) -> Problem:
    return _corrupt(
        "TF108",
        file,
        f"documents overlap or leave a gap: index entry {wrong.entry:,}",
        offset=index.position(file, wrong.entry),
        expected=f"offset {wrong.expected:,}",
        found=wrong.found,
        remedy=_DAMAGED,
    )


def _merged(file: File, index: Index, wrong: WrongEntry) -> Problem:
    cause = f"merged by a tool that shifts later files by {SHIFT} bytes"
    if index.base < 0:
        wrong = WrongEntry(0, 0, index.base)
    return _corrupt(
        "TF107",
        file,
        f"index entry {wrong.entry:,}",
        offset=index.position(file, wrong.entry),
        expected=f"offset {wrong.expected:,}",
        found=f"{wrong.found:,} ({cause})",
        remedy="Documents can be read by length, as tokfmt does; Modalities reads shifted ones: convert it",
        note=f"index offsets are shifted from entry {wrong.entry:,} on ({cause}); documents were read by length",
    )


def _of_age(pack: Pack, layout: str) -> Iterator[Problem]:
    """Yield the problems of a valid file of an older version with the current Modalities."""
    file, header = pack.file, pack.header
    if pack.width == 3:
        yield _corrupt(
            "TF113",
            file,
            "tokens of 3 bytes",
            offset=8,
            remedy=f"No Modalities version reads them; {_READ}",
            severity="warning",
            note="tokens of 3 bytes, which no Modalities version reads",
        )
    if header.size == 4 or layout == "A-broken":
        yield never_released(file)
    elif header.big:
        yield _corrupt(
            "TF114",
            file,
            f"layout {layout[-1]} is big-endian",
            offset=0,
            severity="warning",
            remedy=f"Modalities does not read it since 2024-04; {_READ}",
        )
    elif layout.endswith("C"):
        yield _corrupt(
            "TF115",
            file,
            "offsets count from the start of the file (layout C): Modalities since 2024-07 reads documents 12 bytes "
            "late",
            remedy=_READ,
            severity="warning",
        )
    if header.width is None:
        yield _corrupt(
            "TF119",
            file,
            f"does not store its token width ({pack.width} inferred or given)",
            severity="info",
            remedy="Give it with --from-opt width=N",
        )


def never_released(file: File) -> Problem:
    """Return the problem of the layouts P0 .. P3, and of broken packs of layout A."""
    return _corrupt(
        "TF120",
        file,
        "was written by a version of Modalities that was never released",
        remedy=_READ,
        severity="warning",
    )


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
    """Return a problem with a `CorruptError`. An error is fatal unless it has a note, which the reader then prints."""
    error = CorruptError(file.path, what, offset=offset, expected=expected, found=found, remedy=remedy)
    return Problem(code, severity, error, is_fatal=severity == "error" and not note, note=note)


SHIFT = 12
"""Bytes that a merge subtracts from the offsets of each further file."""

_SMALLEST_ENTRY = 5  # bytes of an entry in the pickle
_FEW = 4096  # documents at the beginning that show what ends them
_LONG = 1 << 24  # bytes of an index that are decoded although few documents are read
_ATTEMPTS = 64  # byte offsets that are tried as the start of an index
_BLOCK = 1 << 20  # bytes per read of the search for an index

Ints = NDArray[np.int64]


class WrongEntry(NamedTuple):
    """An entry whose stored offset differs from the sum of the lengths before it."""

    entry: int
    expected: int
    found: int


class Index(NamedTuple):
    """A decoded index."""

    # start, stop: the byte offsets of its start and its end in the file
    start: int
    stop: int
    starts: Ints  # int64[documents + 1], the byte offset of each document from the lengths, relative to the first one
    base: int  # the first stored offset; 0 without one
    last_length: int  # bytes of the last document
    shifted: WrongEntry | None  # the first entry whose offset does not follow from the entry before it
    odd: WrongEntry | None  # the first entry whose offset is wrong by a number that is not a multiple of SHIFT
    constant: bool  # True if all stored offsets are the same
    reordered: bool  # True if the stored offsets cover the data in another order than that of the entries
    bits: int  # the bitwise or of all lengths, which shows the powers of two that divide all of them
    empty: int | None  # the first entry of length 0

    @property
    def documents(self) -> int:
        return len(self.starts) - 1

    @property
    def total(self) -> int:
        """Number of bytes of all documents."""
        return int(self.starts[-1])

    def uneven(self, width: int) -> WrongEntry | None:
        """Return the first document whose length is not a multiple of `width`; `found` is its length."""
        if width in {1, 2, 4} and not self.bits & width - 1:
            return None
        for a, b in windows(0, self.documents):
            lengths = np.diff(self.starts[a : b + 1])
            wrong = np.flatnonzero(lengths % width)
            if len(wrong):
                return WrongEntry(a + int(wrong[0]), width, int(lengths[wrong[0]]))
        return None

    def position(self, file: File, entry: int) -> int:
        """Return the byte offset of an entry in the file."""
        return entry_position(file, self.start, self.stop, entry)


def read_index(file: File, start: int) -> Index:
    """Decode the index from byte `start` to the end of the file."""
    survey = _Survey(file, start)
    for offsets, lengths in read_entries(file, start, file.size, start, signed=True):
        survey.add(offsets, lengths)
    return survey.index()


class _Survey:
    """One pass over the entries of an index. Keeps 8 bytes per entry."""

    def __init__(self, file: File, start: int) -> None:
        self.file, self.start = file, start
        # Reserved but not touched: `index` gives back the pages that the entries do not fill.
        self.starts = np.empty((file.size - start) // _SMALLEST_ENTRY + 2, np.int64)
        self.starts[0] = 0
        self.count, self.total, self.bits, self.last_length = 0, 0, 0, 0
        self.base, self.last_shift, self.constant = 0, 0, True
        self.shifted: WrongEntry | None = None
        self.odd: WrongEntry | None = None
        self.empty: int | None = None
        self.minimum = 0
        self.balance = 0  # hashes of the starts of runs of entries, minus hashes of their ends

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
                self.file.path,
                f"the length in index entry {entry:,}",
                expected=f"at most {self.start:,} bytes",
                offset=entry_position(self.file, self.start, self.file.size, entry),
                found=longest,
                remedy="The index is damaged or belongs to another file",
            )

    def _compare(self, first: int, offsets: Ints, window: Ints) -> None:
        shifts = offsets - window[:-1]
        if first == 0:
            self.base = self.last_shift = self.minimum = int(offsets[0])
        self.constant = self.constant and bool((offsets == self.base).all())
        if (shifts == self.last_shift).all():
            return
        steps = np.flatnonzero(np.diff(shifts, prepend=self.last_shift))
        if not len(steps):
            return
        self.minimum = min(self.minimum, int(offsets[steps].min()))
        self.shifted = self.shifted or self._wrong_entry(first, int(steps[0]), offsets, window)
        odd = np.flatnonzero((shifts - self.base) % SHIFT)
        if len(odd):
            self.odd = self.odd or self._wrong_entry(first, int(odd[0]), offsets, window)
        ends = window[steps] + np.concatenate(([self.last_shift], shifts))[steps]  # the ends of the runs before
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
        """Return True if the sorted stored intervals cover the data without gaps and overlaps.

        That is so if the set of their starts equals the set of their ends, except the first start and the last end.
        Sums of hashes compare the two sets without keeping them.
        """
        begins, ends = [self.base, self.minimum + self.total], [self.total + self.last_shift, self.minimum]
        hashes = _mixed(np.array(begins + ends)).tolist()
        return bool((self.balance + hashes[0] + hashes[1] - hashes[2] - hashes[3]) % 2**64 == 0)


def _mixed(places: Ints) -> NDArray[np.uint64]:
    """Return a hash of each number (the finalizer of splitmix64)."""
    x = places.astype(np.int64).view(np.uint64)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return x ^ x >> np.uint64(31)


def find_index(file: File) -> Index | None:
    """Return the last index that ends with the file, without using the header; None without one."""
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
    """Yield the byte offsets at which a pickled list may begin, from the end of the file."""
    for stop in range(file.size, 0, -_BLOCK):
        start = max(0, stop - _BLOCK)
        held = file.read(start, min(file.size - start, _BLOCK + 16)) + bytes(16)
        raw = np.frombuffer(held, np.uint8)
        hits = np.flatnonzero((raw[:-1] == 0x80) & (raw[1:] >= 2) & (raw[1:] <= 5))
        for hit in hits[hits < stop - start][::-1].tolist():
            if begins_index(held[hit : hit + 12]):
                yield start + hit


_ENDINGS = 4096  # documents whose last bytes are compared
_ALMOST_ALL = 0.9
_DEFAULT = 4  # bytes per token


def infer_width(file: File, begin: int, index: Index) -> int:
    """Infer the bytes per token: the largest width that divides all lengths and gives equal last tokens.

    The widths are 4, 2 and 1. At least 90% of the documents must end with the same token, the separator. With a width
    that is too large, the last token contains bytes of the token before it, which vary. The default is 4 bytes, as in
    most packs of layout A.

    Args:
        file: The pack.
        begin: Byte offset of the first token.
        index: The index of the pack.
    """
    endings = _endings(file, begin, index)
    for width in (4, 2, 1):
        last = Counter(ending[-width:] for ending in endings)
        if index.uneven(width) is None and last and max(last.values()) >= _ALMOST_ALL * len(endings):
            return width
    return next(width for width in (_DEFAULT, 2, 1) if index.uneven(width) is None)


def _endings(file: File, begin: int, index: Index) -> list[bytes]:
    """Return the last four bytes (or fewer) of documents spread over the file."""
    count = index.documents
    looked = np.unique(np.linspace(0, count - 1, min(count, _ENDINGS)).astype(np.int64)).tolist() if count else []
    endings = []
    for entry in looked:
        start, stop = index.starts[entry : entry + 2].tolist()
        if start < stop:
            length = min(4, stop - start)
            endings.append(file.read(begin + stop - length, length))
    return endings
