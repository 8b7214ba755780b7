"""The parts of files of lines, named for people: how they begin, their lines, the entries of the index beside them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tokfmt.core.errors import FormatError
from tokfmt.core.files import File
from tokfmt.core.format import Hints
from tokfmt.core.protocols import Field, Pointer, Section
from tokfmt.core.sections import Part, broken, shown
from tokfmt.formats.jsonl import ReadOptions
from tokfmt.formats.jsonl.index import has_index, index_path, misplaced, out_of_order
from tokfmt.formats.jsonl.lines import BOM, Lines, TextFile, lines_of, walk
from tokfmt.formats.jsonl.parse import Fault, Parser, Problem
from tokfmt.formats.jsonl.reader import JsonlReader, files_of
from tokfmt.formats.pickled_index import EntryTable, start_fields

_READ = 1 << 20  # bytes of a line that are looked at to compare its length with an index entry
_DROP = Hints(drop=frozenset({"invalid-lines"}))
_GZIP_OS = {0: "FAT", 3: "Unix", 10: "NTFS", 255: "unknown"}


def sections(path: Path, options: ReadOptions) -> Sequence[Section]:
    """Of each file: its start, its lines, and the index beside it."""
    try:
        files = files_of([path])
    except FormatError as error:
        return [Part("files", path, lambda error=error: (broken(error),))]  # type: ignore[misc]
    return [part for file in files for part in _of_file(file, options)]


def _of_file(path: Path, options: ReadOptions) -> Iterator[Part]:
    name = path.name
    yield Part(f"start of {name}", path, lambda: file_start(path))
    yield Part(f"lines of {name}", path, lambda: _Lines(path, options))
    try:
        indexed = options.index != "none" and has_index(TextFile(path))
    except FormatError:
        return
    if indexed:
        index = index_path(path)
        yield Part(f"start of {index.name}", index, lambda: _index_start(index))
        yield Part(f"entries of {index.name}", index, lambda: _Entries(File(index), TextFile(path)))


def file_start(path: Path) -> list[Field]:
    """How a file of text begins: a byte order mark, the header of its compression, or a character."""
    file = File(path)
    head = file.read(0, min(file.size, 16))
    if not head:
        return [Field("content", 0, 0, "nothing", "no records")]
    if head.startswith(BOM):
        return [Field("byte order mark", 0, 3, "UTF-8", "no part of the first record")]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return [Field("byte order mark", 0, 2, "UTF-16", "lines should be UTF-8", wrong=True)]
    if head.startswith(b"\x1f\x8b") and len(head) > 9:
        when = int.from_bytes(head[4:8], "little")
        deflate = head[2] == 8
        return [
            Field("signature", 0, 2, "gzip"),
            Field("method", 2, 1, str(head[2]), "deflate" if deflate else "should be 8", not deflate),
            Field("flags", 3, 1, str(head[3])),
            Field("time", 4, 4, f"{when:,}", "seconds since 1970" if when else "not stored"),
            Field("system", 9, 1, _GZIP_OS.get(head[9], str(head[9]))),
        ]  # fmt: skip
    if head.startswith(b"\x28\xb5\x2f\xfd"):
        return [Field("signature", 0, 4, "zstandard")]
    return [Field("first byte", 0, 1, shown(chr(head[0])) if head[0] < 128 else f"{head[0]:#04x}",
                  "an object begins" if head[:1] == b"{" else "")]  # fmt: skip


class _Lines:
    """The lines of a file, found as far as they are asked for; a mark is kept every 256 KiB."""

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.text, self.longest = TextFile(path), options.max_line
        self.parser: Parser | None = None
        self.error: FormatError | None = None
        try:
            reader = JsonlReader([path], replace(options, index="none"), _DROP)
            self.parser = reader.parser(others=True)
        except FormatError as error:
            self.error = error
        self._offsets, self._firsts = [0], [0]
        self._walk = self._all()
        self._ended = False
        self._lock = threading.Lock()

    def _all(self) -> Iterator[Lines]:
        return walk(self.text, 0, None, self.longest)

    @property
    def count(self) -> int:
        return self._known(1 << 62) + (self.error is not None)

    def _known(self, wanted: int) -> int:
        with self._lock:
            while self._firsts[-1] < wanted and not self._ended:
                try:
                    lines = next(self._walk, None)
                except FormatError as error:
                    self.error, lines = error, None
                self._ended = lines is None
                if lines is not None:
                    self._offsets.append(lines.offset + len(lines.data))
                    self._firsts.append(self._firsts[-1] + len(lines))
            return self._firsts[-1]

    def fields(self, first: int, last: int) -> list[Field]:
        known = self._known(last)
        found: list[Field] = []
        for number, lines in self._pieces(first, min(last, known)):
            a, b = max(0, first - number), min(len(lines), last - number)
            found += self._of(lines.take(slice(a, b)), number + a)
        if self._ended and self.error is not None and first <= known < last:
            found.append(broken(self.error))
        return found

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, Lines]]:
        """Lines that hold those asked for, and the number of the first of each."""
        if self.text.compression is not None:  # a stream: from its start again
            number = 0
            for lines in self._all() if first < last else ():
                if number + len(lines) > first:
                    yield number, lines
                number += len(lines)
                if number >= last:
                    return
            return
        piece = int(np.searchsorted(self._firsts, first, side="right")) - 1
        while first < last and self._firsts[piece] < last:
            start, stop = self._offsets[piece : piece + 2]
            yield self._firsts[piece], lines_of(self.text, self.text.file.read(start, stop - start), start)
            piece += 1

    def _of(self, lines: Lines, number: int) -> Iterator[Field]:
        plain = self.text.compression is None
        for k, line in enumerate(lines.tolist()):
            said, wrong = self._said(line)
            at = lines.offset + int(lines.starts[k]) if plain else None
            text = shown(line[:256].decode("utf-8", "backslashreplace"))
            yield Field(f"line {number + k + 1:,}", at, len(line) if plain else 0, text, said, wrong)

    def _said(self, line: bytes) -> tuple[str, bool]:
        if self.parser is None:
            return "", False
        if not line.strip():
            return "blank: no document", False
        value = self.parser.one(line)
        if isinstance(value, str):
            return f"text of {len(value):,} characters", False
        return (f"{len(value):,} ids", False) if isinstance(value, list) else (_fault(value), True)


def _fault(problem: Problem) -> str:
    if isinstance(problem, Fault):
        return shown(problem.words)
    return f"has the token id {shown(getattr(problem, 'token', ''))}, which is too large"


def _index_start(path: Path) -> list[Field]:
    file = File(path)
    return start_fields(file, 0, file.size)


class _Entries:
    """The entries of a raw index, each compared with the line it points to."""

    def __init__(self, file: File, text: TextFile) -> None:
        self.text, self.table = text, EntryTable(file, 0, file.size)

    @property
    def count(self) -> int:
        return self.table.count + (self.table.error is not None)

    def fields(self, first: int, last: int) -> list[Field]:
        some, fields = self.table.read(first, last), []
        index, before = self.table.file.path, self.table.read(first - 1, first).offsets.tolist() if first else [-1]
        for k, (offset, length, position) in enumerate(
            zip(some.offsets.tolist(), some.lengths.tolist(), some.positions.tolist(), strict=True)
        ):
            said, wrong = self._said(first + k, offset, length)
            if length and offset <= before[-1]:
                said, wrong = out_of_order(index, first + k, offset, before[-1]).statement, True
            before.append(offset)
            value = f"offset {offset:,}, length {length:,}"
            target = Pointer(self.text.path, offset)
            fields.append(
                Field(f"entry {first + k:,}", position, self.table.size(position), value, said, wrong, target=target)
            )
        if self.table.error is not None and first <= self.table.count < last:
            fields.append(broken(self.table.error))
        return fields

    def _said(self, entry: int, offset: int, length: int) -> tuple[str, bool]:
        file = self.text.file
        if not length:
            return "no document", False
        if error := misplaced(self.table.file.path, self.text, entry, offset):
            return error.statement, True
        head = file.read(offset, min(_READ, file.size - offset))
        line = head[: head.find(b"\n")] if b"\n" in head else head
        if len(line) == _READ or length == len(line):
            return "", False
        if length == len(line.removesuffix(b"\r").decode("utf-8", "replace")):
            return f"characters; the line has {len(line):,} bytes (an index of 2024)", False
        return f"the line has {len(line):,} bytes", length > len(line) + 1
