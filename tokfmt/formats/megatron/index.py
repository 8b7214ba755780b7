"""What an index of Megatron-LM holds, and everything that is wrong with it and its tokens.

TNTIDX (fairseq, GPT-NeoX `cached`)    bytes
magic, version, dtype code             54 4E 54 49 44 58 00 00; u64 1; u64 as in MMIDIDX
item size, N, sizes, documents         u64 each
then                                   i64[N + 1] dimensions, i64[N + 1] where each item begins, in elements,
                                       i64[sizes], i64[documents] first item of each document
"""

from __future__ import annotations

import numpy as np

from tokfmt.core.axis import Separators, windows
from tokfmt.core.errors import CorruptError, TruncatedError, UnsupportedError
from tokfmt.core.files import File
from tokfmt.core.format import Problem, fatal, noted
from tokfmt.core.protocols import Section
from tokfmt.core.ragged import Offsets, offsets_of
from tokfmt.core.text_format import printable
from tokfmt.formats.flat import Columns, Extent, Laid, Struct, told_tokens

MAGIC, LEGACY = b"MMIDIDX\0\0", b"TNTIDX\0\0"
HEADER = Struct(magic="V9", version="<u8", dtype_code="u1", sequences="<u8", document_indices="<u8")
OLD = Struct(magic="V8", version="<u8", dtype_code="<u8", item_size="<u8", items="<u8", sizes="<u8", documents="<u8")
_AT_ONCE = 1 << 16
"""Entries of an index, which stay in the processor's cache; one of 10^8 has 2 GB."""
DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


def columns_of(sequences: int, document_indices: int) -> Columns:
    """Where the arrays of an index lie."""
    return Columns(
        HEADER.size,
        lengths=("<i4", sequences),
        pointers=("<i8", sequences),
        document_indices=("<i8", document_indices),
    )


def laid_out(data: File, index: File, *, by_document: bool) -> Laid:
    """What a pair holds: its documents, or each sequence by itself.

    Raises:
        FormatError: The index is none, or of another kind.
    """
    if index.read(0, min(8, index.size)) == LEGACY:
        return _legacy(data, index, by_document=by_document)
    head, path = HEADER.read(index), index.path
    count, marks, kind = head["sequences"], head["document_indices"], DTYPES.get(head["dtype_code"])
    if head["magic"] != MAGIC or head["version"] != 1 or kind is None:
        found = (
            f"{printable(head['magic'][:7].decode('latin-1'))}, version {head['version']}, dtype {head['dtype_code']}"
        )
        raise UnsupportedError(path, "no index of tokens", expected="MMIDIDX, version 1, integers", found=found)
    columns, dtype, header = columns_of(count, marks), np.dtype(kind), HEADER.part(f"header of {path.name}", index)
    if index.size not in (columns.end, columns.end + count):
        size = f"{columns.end:,}"
        cut = TruncatedError(path, "the size of the index", offset=18, expected=size, found=index.size)
        return _documents(Extent(data, 0, 0, dtype), offsets_of([]), [fatal("TF602", cut)], header)
    begins, negative, problems = _begins(index, columns, dtype.itemsize)
    if index.size != columns.end:
        error = CorruptError(path, "holds modes of multimodal data", offset=columns.end)
        problems.append(fatal("TF606", error, "modes"))
    extent, sizes = told_tokens(data, dtype, int(begins[-1]), "TF604")
    starts, marked = _marked(index, columns, begins, by_document=by_document)
    return _documents(extent, starts, [*(negative or sizes), *problems, *marked], header, *columns.sections(index))


def _begins(index: File, columns: Columns, width: int) -> tuple[Offsets, list[Problem], list[Problem]]:
    """Where sequences begin by their lengths, one of these that is negative, and the first pointer that differs."""
    count, negative, problems = columns.count("lengths"), list[Problem](), list[Problem]()
    begins = np.zeros(count + 1, np.int64)
    for a, b in windows(0, count, _AT_ONCE):
        lengths = columns.read(index, "lengths", a, b).astype(np.int64)
        if int(lengths.min()) < 0:
            k = int(np.argmax(lengths < 0))
            what, at, found = f"length {a + k:,}", columns.at("lengths", a + k), int(lengths[k])
            negative.append(
                fatal("TF604", CorruptError(index.path, what, offset=at, expected="0 or more", found=found))
            )
            lengths = np.maximum(lengths, 0)
        lengths[0] += begins[a]
        np.cumsum(lengths, out=begins[a + 1 : b + 1])
        pointers, places = columns.read(index, "pointers", a, b), begins[a:b] * width
        if not problems and not np.array_equal(pointers, places):
            k = int(np.argmax(pointers != places))
            error = CorruptError(
                index.path, f"pointer {a + k:,}", offset=columns.at("pointers", a + k), expected=int(places[k]),
                found=int(pointers[k]), remedy="Documents can be read by length",
            )  # fmt: skip
            note = f"{index.path.name}: pointers contradict the lengths; documents were read by length"
            problems.append(noted("TF603", error, note))
    return begins, negative[:1], problems


def _marked(index: File, columns: Columns, begins: Offsets, *, by_document: bool) -> tuple[Offsets, list[Problem]]:
    """Where documents begin, of where sequences do; or the latter, and what is wrong with the column of documents."""
    count, cuts = len(begins) - 1, list(windows(0, columns.count("document_indices"), _AT_ONCE))
    if columns.count("document_indices") == len(begins) and all(
        np.array_equal(columns.read(index, "document_indices", a, b), np.arange(a, b)) for a, b in cuts
    ):
        return begins, []  # each sequence is a document, as most often: half the memory
    marks = columns.read(index, "document_indices")
    if len(marks) and marks[0] == 0 and marks[-1] == count and bool((marks[:-1] <= marks[1:]).all()):
        if not by_document:
            return begins, []
        for a, b in cuts:
            marks[a:b] = begins[marks[a:b]]
        return marks, []
    error = CorruptError(
        index.path, "document indices", offset=columns.at("document_indices"), expected=f"0 up to {count:,}",
        found=f"{marks[:1]} to {marks[-1:]}", remedy="--from-opt unit=sequences reads each sequence by itself",
    )  # fmt: skip
    note = f"{index.path.name}: names no document; each of its {count:,} sequences was read as one"
    return begins, [fatal("TF605", error) if len(marks) > 1 and by_document else noted("TF605", error, note)]


def _documents(extent: Extent, starts: Offsets, problems: list[Problem], *sections: Section) -> Laid:
    return Laid(
        extents=[extent],
        starts=starts,
        separators=Separators.TRAILING,
        problems=problems,
        sections=sections,
        extras={"dtype": extent.dtype.name},
    )


def _legacy(data: File, index: File, *, by_document: bool) -> Laid:
    head = OLD.read(index)
    kind, count = DTYPES.get(head["dtype_code"]), head["items"]
    columns = Columns(
        OLD.size, dimensions=("<i8", count + 1), begins=("<i8", count + 1), sizes=("<i8", head["sizes"]),
        document_indices=("<i8", head["documents"]),
    )  # fmt: skip
    if kind is None or index.size != columns.end:
        raise TruncatedError(index.path, "the size of the index", expected="as its counts say", found=index.size)
    begins = columns.read(index, "begins")
    extent, sizes = told_tokens(data, np.dtype(kind), int(begins[-1]), "TF604")
    if len(wrong := np.flatnonzero(np.diff(begins, prepend=0) < 0)) or begins[0]:
        k = int(wrong[0]) if len(wrong) else 0
        what, at, found = f"where item {k:,} begins", columns.at("begins", k), int(begins[k])
        sizes = [fatal("TF604", CorruptError(index.path, what, offset=at, expected="from 0 up", found=found))]
    starts, marked = _marked(index, columns, begins, by_document=by_document)
    return _documents(extent, starts, [*sizes, *marked], OLD.part(f"header of {index.path.name}", index))
