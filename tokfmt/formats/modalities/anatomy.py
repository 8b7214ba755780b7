"""Find out which layout a pack has, and everything that is wrong with it, without reading its tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tokfmt.core.errors import CorruptError, FormatError, TruncatedError, UnsafeError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.formats.modalities import header as heads
from tokfmt.formats.modalities.header import Header
from tokfmt.formats.modalities.index import SHIFT, Index, find_index, read_index
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.modalities.problems import Problem, corrupt
from tokfmt.formats.modalities.width import infer_width

_DEFAULT_WIDTH = 4
_AGAIN = "Copy the file again, or write it again"
_STREAM = "A raw stream of 4-byte big-endian ids is read with --from-opt layout=P0 and --eos ID"


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
    _refuse_others(file, head)
    header, index, problems = _assembled(file, head, options.layout)
    surplus = _surplus(header, index)
    problems += list(_of_header(file, header, index, surplus))
    width, inferred = _width(file, header, index, surplus, options)
    layout = _layout(header, index)
    problems += [*_of_lengths(file, header, index, width, surplus), *_of_offsets(file, header, index, layout)]
    return Anatomy(
        layout=layout,
        header=header,
        begin=header.size,
        width=width,
        index=index,
        tokens=(index.start - header.size) // width,
        surplus=surplus,
        problems=tuple(problems),
        inferred=inferred,
    )
