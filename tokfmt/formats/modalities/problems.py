"""What is wrong with a pack, in one place: the reader raises or notes it, the checker lists it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tokfmt.core.errors import CorruptError, FormatError, printable
from tokfmt.core.files import File
from tokfmt.core.format import Finding
from tokfmt.formats.modalities.header import Header
from tokfmt.formats.modalities.index import SHIFT, Index, Place

_READ = "tokfmt reads it right; convert it to have it right everywhere"
_DAMAGED = "The index is damaged or belongs to another file; write it again"


class Problem(NamedTuple):
    """One violation of the layout.

    Attributes:
        code, severity: Of the Finding.
        error: The error, as it is raised when the pack cannot be read because of it.
        fatal: The pack cannot be read because of it.
        note: What a reader says of it when it goes on; "" for nothing.
        accepted: The word of `--drop` with which the pack can be read all the same.
    """

    code: str
    severity: str
    error: FormatError
    fatal: bool = False
    note: str = ""
    accepted: str = ""

    def finding(self) -> Finding:
        return finding(self.code, self.severity, self.error)


def finding(code: str, severity: str, error: FormatError) -> Finding:
    """An error as a line of a check: the same words."""
    remedy = error.remedy or ""
    message = str(error).removeprefix(f"{printable(error.path)}: ")
    message = message.removesuffix(f". {remedy}") if remedy else message
    return Finding(code, severity, error.path, message, remedy, error.offset)


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
    yield from _of_offsets(file, header, index, shape)
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
    if place := index.uneven(shape.width):
        yield _corrupt(
            "TF110", file, f"the length in index entry {place.entry:,}", offset=index.position(file, place.entry),
            expected=f"a multiple of {shape.width} bytes a token", found=place.found,
            remedy=_DAMAGED if header.width else "Name the right width with --from-opt width=N",
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
        yield _misplaced(file, index, Place(0, first, index.base))
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
        yield _misplaced(file, index, index.odd or index.shifted or Place(0, first, index.base))
    elif shape.layout.startswith("E"):
        yield _merged(file, index, index.shifted or Place(0, first, index.base))


def _misplaced(file: File, index: Index, place: Place) -> Problem:
    return _corrupt(
        "TF108", file, f"documents overlap or leave a gap: index entry {place.entry:,}",
        offset=index.position(file, place.entry), expected=f"offset {place.expected:,}", found=place.found,
        remedy=_DAMAGED,
    )  # fmt: skip


def _merged(file: File, index: Index, place: Place) -> Problem:
    cause = f"merged by a tool that shifts later files by {SHIFT} bytes"
    if index.base < 0:
        place = Place(0, 0, index.base)
    return _corrupt(
        "TF107", file, f"index entry {place.entry:,}", offset=index.position(file, place.entry),
        expected=f"offset {place.expected:,}", found=f"{place.found:,} ({cause})",
        remedy="Documents can be read by length, as tokfmt does; Modalities reads shifted ones: convert it",
        note=f"index offsets are shifted from entry {place.entry:,} on ({cause}); documents were read by length",
    )  # fmt: skip


def _of_age(file: File, header: Header, shape: Shape) -> Iterator[Problem]:
    """What a right file cannot do today because of its age."""
    if shape.width == 3:
        yield _corrupt(
            "TF113", file, "tokens of 3 bytes: no Modalities version reads them", offset=8, remedy=_READ,
            severity="warning", note="tokens of 3 bytes, which no Modalities version reads",
        )  # fmt: skip
    if header.size == 4 or shape.layout == "A-broken":
        yield never_released(file)
    elif header.big:
        yield _corrupt("TF114", file, f"layout {shape.layout[-1]} is big-endian: Modalities reads it no more since "
                       "2024-04", offset=0, remedy=_READ, severity="warning")  # fmt: skip
    elif shape.layout.endswith("C"):
        yield _corrupt("TF115", file, "offsets count from the start of the file (layout C): Modalities since 2024-07 "
                       "reads documents 12 bytes late", remedy=_READ, severity="warning")  # fmt: skip
    if header.width is None:
        yield _corrupt("TF119", file, f"does not store its token width ({shape.width} inferred or named)",
                       severity="info", remedy="--from-opt width=N says it")  # fmt: skip


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
