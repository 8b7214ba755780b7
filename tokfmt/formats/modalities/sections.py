"""The sections of a pack for `show --raw`: the header, the tokens, the index and the end.

Of a damaged pack, they are those that exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from tokfmt.core.annotation import Extent, Part, StoredIds, broken
from tokfmt.errors import FormatError
from tokfmt.files.fields import Field, Pointer, Section
from tokfmt.files.file import File
from tokfmt.formats.modalities.header import LONGEST, Header, headers, token_dtype, twelve
from tokfmt.formats.modalities.layout import SHIFT, Pack, announces
from tokfmt.formats.modalities.options import ReadOptions
from tokfmt.formats.pickled_index import EntryTable, start_fields

_BASES = {12: (0, SHIFT), 8: (8,), 4: (1, 4), 0: (0,)}
"""The possible offsets of the first document, by the size of the header."""

_LAYOUTS = {
    "A": "header of 8 bytes, big-endian; offsets count from 8",
    "B": "header of 12 bytes, big-endian; offsets count from 12",
    "C": "header of 12 bytes, little-endian; offsets count from 12",
    "D": "header of 12 bytes, little-endian; offsets count from 0",
    "P": "a development version: header of 4 bytes, big-endian",
    "P0": "a development version: IDs alone, without header and index",
}


def sections(file: File, options: ReadOptions, examined: Callable[[], Pack]) -> Sequence[Section]:
    """Return the sections: header, tokens, start of the index, its entries, end of the file. `examined` returns the
    parts of the pack, from the whole index, or raises a `FormatError`.
    """
    pack, path = _Parts(file, options, examined), file.path
    parts = [Part("header", path, pack.header_fields), Part("tokens", path, lambda: _tokens(pack))]
    if options.layout != "P0":
        parts += [
            Part("start of the index", path, pack.start_fields),
            Part("index", path, lambda: _Index(pack)),
            Part("end of the file", path, pack.end_fields),
        ]
    return parts


class _Parts:
    """The parts of a pack for its sections. The index is read only when one of its fields is."""

    def __init__(self, file: File, options: ReadOptions, examined: Callable[[], Pack]) -> None:
        self.file, self.options, self.examined = file, options, examined
        self.head = self.file.read(0, min(self.file.size, LONGEST))

    @cached_property
    def announced(self) -> Header | None:
        """The header that points to bytes that begin like an index; None without one."""
        if self.options.layout == "P0":
            return Header(0, big=True, length=self.file.size)
        return next((one for one in headers(self.head, self.options.layout) if announces(self.file, one)), None)

    @property
    def bounds(self) -> tuple[Header, int]:
        """The header and the byte offset of the index. If the header is wrong, they are those that are inferred."""
        if self.announced:
            return self.announced, self.announced.index_start
        pack = self.examined()
        return pack.header, pack.index.start if pack.index else self.file.size

    @cached_property
    def header(self) -> Header | None:
        """The likeliest header, right or wrong; None if none fits."""
        try:
            return self.bounds[0]
        except FormatError:
            fits = twelve(self.head) is not None or self.options.layout != "auto"
            return next(headers(self.head, self.options.layout), None) if fits else None

    @cached_property
    def width(self) -> int:
        """Bytes per token. If the layout does not store them, they are inferred from the whole index."""
        stated = self.options.width or (self.header.width if self.header else None)
        if stated is not None or self.header is None:
            return stated or 4
        try:
            return self.examined().width
        except FormatError:
            return 4

    @cached_property
    def table(self) -> EntryTable:
        return EntryTable(self.file, self.bounds[1], self.file.size)

    @property
    def base(self) -> int:
        """The byte offset from which the offsets in the index count."""
        first = self.table.read(0, 1).offsets
        known = _BASES[self.bounds[0].size]
        return int(first[0]) if len(first) and int(first[0]) in known else known[0]

    def header_fields(self) -> list[Field]:
        header = self.header
        if header is None:
            return self._unknown()
        fields = []
        if header.size:
            at, wrong = header.index_start, self.announced is None
            meaning = f"bytes of tokens, {header.order}-endian; the index begins at byte {at:,}"
            if wrong:
                meaning = f"bytes of tokens, {header.order}-endian, but no index begins at byte {at:,}"
            fields.append(Field("data length", 0, min(8, header.size), f"{header.length:,}", meaning, wrong))
        if header.width is not None:
            odd = header.width == 3
            meaning = "bytes per token; no Modalities version reads 3" if odd else "bytes per token"
            fields.append(Field("token width", 8, 4, str(header.width), meaning, odd))
        return [*fields, *self._layout(header)]

    def _layout(self, header: Header) -> list[Field]:
        try:
            kind = {8: "A", 4: "P", 0: "P0"}.get(header.size, "B" if header.big else "C" if self.base else "D")
        except FormatError:
            kind = "B" if header.big else "D"
        assumed = (
            []
            if header.width
            else [
                Field(
                    "token width",
                    None,
                    0,
                    str(self.width),
                    "bytes per token; inferred, as this layout does not store it",
                )
            ]
        )
        return [*assumed, Field("layout", None, 0, kind, _LAYOUTS[kind])]

    def _unknown(self) -> list[Field]:
        size = len(self.head)
        length = int.from_bytes(self.head[:8], "little")
        fields = [Field("data length", 0, min(8, size), f"{length:,}", "if it is one: no header fits", wrong=True)]
        if size > 8:
            width = int.from_bytes(self.head[8:12], "little")
            fields.append(Field("token width", 8, min(12, size) - 8, f"{width:,}", "should be 1, 2 or 4", wrong=True))
        return fields

    def start_fields(self) -> list[Field]:
        return start_fields(self.file, self.bounds[1], self.file.size)

    def end_fields(self) -> list[Field]:
        header, start = self.bounds
        stop = self.file.read(self.file.size - 1, 1)
        data, total, jump = start - header.size, self.table.total, self.table.jump
        where = "agree with the lengths"
        if jump is not None:
            where = f"wrong from entry {jump:,} on" if total == data else f"contradict the length of entry {jump - 1:,}"
        return [
            Field(
                "end of the pickle",
                self.file.size - 1,
                1,
                "STOP" if stop == b"." else stop.hex(),
                "" if stop == b"." else "should be 2e: the file was cut",
                wrong=stop != b".",
            ),
            Field("entries", None, 0, f"{self.table.count:,}", "documents in the index"),
            Field(
                "offsets",
                None,
                0,
                where,
                "" if jump is None else "an entry does not begin where the one before it ends",
                wrong=jump is not None,
            ),
            Field(
                "sum of lengths",
                None,
                0,
                f"{total:,}",
                "bytes, as in the data section" if total == data else f"bytes, but the data section has {data:,}",
                wrong=total != data,
            ),
        ]


def _tokens(pack: _Parts) -> StoredIds:
    """Return the section of the tokens, one field per token."""
    header = pack.header
    begin, big = (header.size, header.big) if header else (12, False)
    try:
        stop = pack.bounds[1]
    except FormatError:
        stop = min(pack.file.size, header.index_start if header else pack.file.size)
    count = max(0, stop - begin) // pack.width
    return StoredIds(Extent(pack.file, begin, count, token_dtype(pack.width, big=big)), row=1)


class _Index:
    """The entries of the index as fields. If it ends too early, the error is the last field."""

    def __init__(self, pack: _Parts) -> None:
        self.pack, self.table = pack, pack.table

    @property
    def count(self) -> int:
        return self.table.count + (self.table.error is not None)

    def fields(self, first: int, last: int) -> list[Field]:
        some = np.stack(self.table.read(first, last + 1), axis=1).tolist()
        header, start = self.pack.bounds
        width, base = self.pack.width, self.pack.base
        data = start - header.size
        fields, nexts = [], dict(enumerate(offset for offset, *_ in some[1:]))
        is_damaged = self.table.total != data  # by a wrong length, so that offsets tell where documents are
        for k, (offset, length, position, added) in enumerate(some[: last - first]):
            before = offset - base if is_damaged else added
            meaning = f"tokens {before // width:,} to {(before + length) // width - 1:,}"
            wrong = _wrong(offset, length, before + base, (before, data, width))
            if is_damaged and offset + length != nexts.get(k, offset + length):
                wrong = f"ends at {offset + length:,}, but the next one begins at {nexts[k]:,}"
            if wrong:
                meaning = wrong
            fields.append(
                Field(
                    f"entry {first + k:,}",
                    position,
                    self.table.size(position),
                    f"offset {offset:,}, length {length:,}",
                    meaning,
                    bool(wrong),
                    target=Pointer(self.pack.file.path, header.size + before),
                )
            )
        error = self.table.error
        if error is not None and first <= self.table.count < last:
            fields.append(broken(error))
        return fields


def _wrong(offset: int, length: int, expected: int, data: tuple[int, int, int]) -> str:
    """Return the error of an entry in words; "" if it is right.

    Args:
        offset: The stored offset.
        length: The stored length.
        expected: The offset that follows from the lengths before it.
        data: The bytes before the document, the bytes of all tokens, and the bytes per token.
    """
    before, size, width = data
    if offset != expected:
        return f"offset should be {expected:,} by the lengths before it"
    if not length:
        return "a document without tokens, not even a separator"
    if length % width:
        return f"length should be a multiple of {width} bytes per token"
    return f"ends {before + length - size:,} bytes after the tokens" if before + length > size else ""
