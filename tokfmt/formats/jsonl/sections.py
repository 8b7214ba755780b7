"""The sections of JSON lines for `show --raw`: the start of each file, its lines, and its index."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from tokfmt.core.annotation import Part, broken, shown
from tokfmt.core.format import ZSTANDARD
from tokfmt.errors import FormatError
from tokfmt.files.fields import Field, Pointer
from tokfmt.files.file import File, open_file
from tokfmt.files.place import Place
from tokfmt.formats.jsonl.index import has_index, index_path, misplaced, out_of_order
from tokfmt.formats.jsonl.lines import BOM, Lines, TextFile, walk
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Fault, Parser, Problem
from tokfmt.formats.jsonl.part import Numbered, first_record
from tokfmt.formats.jsonl.part import Part as LinesOfFile
from tokfmt.formats.pickled_index import EntryTable, start_fields

_READ = 1 << 20  # bytes of a line that are read to compare its length with an index entry
_GZIP_OS = {0: "FAT", 3: "Unix", 10: "NTFS", 255: "unknown"}


def of_error(path: Place, error: FormatError) -> list[Part]:
    """Return the section of a dataset whose files cannot be listed."""
    return [Part("files", path, lambda: (broken(error),))]


def of_file(path: Place, options: ReadOptions) -> Iterator[Part]:
    """Yield the sections of a file: its start, its lines, and its index."""
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
        yield Part(f"entries of {index.name}", index, lambda: _Entries(open_file(index), TextFile(path)))


def file_start(path: Place) -> list[Field]:
    """Return the fields of the start of a text file: a byte order mark, a gzip or zstandard header, or a character."""
    file = open_file(path)
    head = file.read(0, min(file.size, 16))
    if not head:
        return [Field("content", 0, 0, "nothing", "no records")]
    if head.startswith(BOM):
        return [Field("byte order mark", 0, 3, "UTF-8", "not part of the first record")]
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
        ]
    if ZSTANDARD.match(head):
        return [Field("signature", 0, 4, "zstandard", "" if head.startswith(b"\x28") else "a frame that readers skip")]
    return [
        Field(
            "first byte",
            0,
            1,
            shown(chr(head[0])) if head[0] < 128 else f"{head[0]:#04x}",
            "an object begins" if head[:1] == b"{" else "",
        )
    ]


class _Lines:
    """The lines of a file as fields, read only as far as needed."""

    def __init__(self, path: Place, options: ReadOptions) -> None:
        self.text = TextFile(path)
        self.parser: Parser | None = None
        self.error: FormatError | None = None
        try:
            part = LinesOfFile(self.text, None, options.max_line, None)
            self.parser = first_record([part], options, is_lenient=True).parser(others=True)
        except FormatError as error:
            self.error = error
        self._numbered = Numbered(self.text, lambda start, stop: walk(self.text, start, stop, options.max_line))
        self._is_ended, self._lock = False, threading.Lock()

    @property
    def count(self) -> int:
        return self._known(None) + (self.error is not None)

    def _known(self, wanted: int | None) -> int:
        with self._lock:
            try:
                self._is_ended |= self._numbered.table(wanted).is_whole
            except FormatError as error:
                self.error, self._is_ended = error, True
            return self._numbered.known

    def fields(self, first: int, last: int) -> list[Field]:
        known, fields = self._known(last), list[Field]()
        for number, lines, _ in self._numbered.pieces(first, min(last, known)):
            a, b = max(0, first - number), min(len(lines), last - number)
            fields += self._of(lines.take(slice(a, b)), number + a)
        if self._is_ended and self.error is not None and first <= known < last:
            fields.append(broken(self.error))
        return fields

    def _of(self, lines: Lines, number: int) -> Iterator[Field]:
        plain = self.text.compression is None
        for k, line in enumerate(lines.tolist()):
            meaning, wrong = self._meaning(line)
            at = lines.begin(k) if plain else None
            text = shown(line[:256].decode("utf-8", "backslashreplace"))
            yield Field(f"line {number + k + 1:,}", at, len(line) if plain else 0, text, meaning, wrong)

    def _meaning(self, line: bytes) -> tuple[str, bool]:
        """Return what a line holds, in words, and True if it is invalid."""
        if self.parser is None:
            return "", False
        if not line.strip():
            return "blank: not a document", False
        value = self.parser.one(line)
        if isinstance(value, str):
            return f"text of {len(value):,} characters", False
        return (f"{len(value):,} IDs", False) if isinstance(value, list) else (_fault(value), True)


def _fault(problem: Problem) -> str:
    if isinstance(problem, Fault):
        return shown(problem.words)
    return f"has the token ID {shown(getattr(problem, 'token', ''))}, which is too large"


def _index_start(path: Place) -> list[Field]:
    file = open_file(path)
    return start_fields(file, 0, file.size)


class _Entries:
    """The entries of a raw index as fields, each compared with the line that it points to."""

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
            meaning, wrong = self._meaning(first + k, offset, length)
            if length and offset <= before[-1]:
                meaning, wrong = out_of_order(index, first + k, offset, before[-1]).statement, True
            before.append(offset)
            value = f"offset {offset:,}, length {length:,}"
            target = Pointer(self.text.path, offset)
            fields.append(
                Field(f"entry {first + k:,}", position, self.table.size(position), value, meaning, wrong, target=target)
            )
        if self.table.error is not None and first <= self.table.count < last:
            fields.append(broken(self.table.error))
        return fields

    def _meaning(self, entry: int, offset: int, length: int) -> tuple[str, bool]:
        """Return what is notable about an entry, in words, and True if it is invalid."""
        file = self.text.file
        if not length:
            return "not a document", False
        if error := misplaced(self.table.file.path, self.text, entry, offset):
            return error.statement, True
        head = file.read(offset, min(_READ, file.size - offset))
        line = head[: head.find(b"\n")] if b"\n" in head else head
        if len(line) == _READ or length == len(line):
            return "", False
        if length == len(line.removesuffix(b"\r").decode("utf-8", "replace")):
            return f"characters; the line has {len(line):,} bytes (an index of 2024)", False
        return f"the line has {len(line):,} bytes", length > len(line) + 1
