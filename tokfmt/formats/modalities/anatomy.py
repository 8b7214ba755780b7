"""Find out which layout a pack has, and everything that is wrong with it, without reading its tokens."""

from __future__ import annotations

from dataclasses import dataclass

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.formats.modalities import header as heads
from tokfmt.formats.modalities.header import Header
from tokfmt.formats.modalities.index import Index, find_index, read_index
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.modalities.problems import Problem, Shape, layout_of, never_released, problems_of
from tokfmt.formats.modalities.width import infer_width

_PROTO = 0x80
_SURPLUS = 4
"""Bytes by which one development version (b8211997, three hours of 2023-12-19) made every length too large."""

_WIDTHS = "a token width of 1 to 4 in four bytes"
_AGAIN = "Copy the file again, or write it again"
_RAW = "A raw stream of 4-byte big-endian ids is read with --from-opt layout=P0 and --eos ID"


@dataclass(frozen=True, slots=True, eq=False)
class Anatomy:
    """The parts of a pack.

    Attributes:
        layout: A, B, C, D, E-B, E-C, E-D (merged), P (development versions), A-broken.
        header: As stored.
        begin: First byte of the data section.
        width: Bytes a token.
        index: None for a stream without one (P0).
        tokens: In the data section.
        surplus: Bytes by which every length in the index is too large.
        problems: In the order in which they were met.
        inferred: Sentences for Info.inferred.
    """

    layout: str
    header: Header
    begin: int
    width: int
    index: Index | None
    tokens: int
    surplus: int = 0
    problems: tuple[Problem, ...] = ()
    inferred: tuple[str, ...] = ()


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
    head = file.read(0, min(file.size, heads.LONGEST))
    if heads.is_megatron(head):
        raise UnsupportedError(
            file.path, "is an index of Megatron-LM (MMIDIDX), not a Modalities pack",
            remedy="Its tokens lie in the .bin file beside it; tokfmt does not read that format",
        )  # fmt: skip
    header, index = _assembled(file, head, options.layout)
    surplus = _SURPLUS if index.start - index.total != header.size else 0
    width, inferred = _width(file, header, index, surplus, options)
    layout = layout_of(header, index, surplus)
    return Anatomy(
        layout=layout,
        header=header,
        begin=header.size,
        width=width,
        index=index,
        tokens=(index.start - header.size) // width,
        surplus=surplus,
        problems=tuple(problems_of(file, header, index, Shape(layout, width, surplus))),
        inferred=inferred,
    )


def _stream(file: File, options: ReadOptions) -> Anatomy:
    width = options.width or 4
    header = Header(0, big=True, length=file.size, width=width)
    problems = [never_released(file)]
    if rest := file.size % width:
        error = TruncatedError(
            file.path, f"a stream of {width}-byte tokens ends inside one", offset=file.size - rest,
            remedy="--drop tail reads up to the last whole token",
        )  # fmt: skip
        problems.append(Problem("TF103", "error", error, fatal=True, accepted="tail"))
    return Anatomy("P", header, 0, width, None, file.size // width, problems=tuple(problems))


def _assembled(file: File, head: bytes, layout: str) -> tuple[Header, Index]:
    """The header and the index that belong together."""
    found = _announced(file, head, layout)
    if found:
        return found
    other = heads.multimodal(head)
    if other and _announces(file, other):
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
    for header in heads.headers(head, layout):
        if not _announces(file, header):
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


def _announces(file: File, header: Header) -> bool:
    at = header.index_start
    return heads.begins_index(file.read(at, min(12, file.size - at))) if at < file.size else False


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
    known = {header.size: header for header in heads.headers(head, layout)}
    eight = known.get(8)
    if eight and index.documents and eight.length == index.total and size + _SURPLUS * index.documents == 8:
        return eight
    header = known.get(size)
    if header is None or size == 12 or layout != "auto":
        return header
    killed = not header.length and heads.twelve(head) is None
    lost = size == 8 and index.constant and header.length == index.last_length
    surplus = size == 4 and header.length == index.total + 3
    return header if killed or lost or surplus else None


def _nothing(file: File, head: bytes, layout: str) -> FormatError:
    """Why there is no index, as far as the header tells."""
    if len(head) < 12:
        return TruncatedError(
            file.path, "the file ends inside its header", offset=file.size, expected="12 bytes", remedy=_AGAIN
        )
    header = next(heads.headers(head, layout), None) if layout != "auto" else heads.twelve(head)
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
    if index.start - index.total == 12 and heads.twelve(head) is None:
        return CorruptError(
            file.path, "the token width in the header", offset=8, expected=_WIDTHS, found=head[8:12].hex(" "),
            remedy="The header is damaged; write the file again",
        )  # fmt: skip
    forced = "A layout that is known can be forced with --from-opt layout="
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
    return width, (f"{width}-byte tokens, which this layout does not store; --from-opt width=N overrides",)
