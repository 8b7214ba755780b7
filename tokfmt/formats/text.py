"""Text files: one document per file, or several documents with a separator line between them.

    bytes                              content
    UTF-8, strict                      a document: all of x.txt, .text, .md, .markdown or .rst, or of x.txt.gz and
                                       x.txt.zst when it is decompressed
    EF BB BF at the start, or nothing  UTF-8 byte order mark; not part of the document
    <|endoftext|> 0A                   with the option `separator`: a line of just that text, after which the next
                                       document begins; 0D 0A or the end of the file also end the line

- A directory of such files, in natural order, is one dataset. Several files given together are one dataset too.
- A document is every byte between two separator lines, line ends included. Documents joined with separator lines give
  the file again. No document follows a separator that ends the file; two separators in a row enclose an empty one.
- The content of a text file does not state its format. tokfmt reads it by its name, prints a note, and reports a line
  that looks like a separator. tokfmt does not write text files; it writes documents as JSON Lines.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tokfmt.base.options import option
from tokfmt.core.annotation import SHOWN, Part, broken, shown
from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import Confidence, Format, Hints, Probe
from tokfmt.core.inspection import Inspection
from tokfmt.core.ragged import offsets_of
from tokfmt.core.reader import ByteOffset, Damage, check_interval
from tokfmt.core.records import Block, Line, RecordBatch, RecordInfo, TextRecords
from tokfmt.errors import NO_DAMAGE, CorruptError, FormatError, OptionError, SourceChangedError, UnsafeError
from tokfmt.files.fields import Field, Section
from tokfmt.files.file import names_in, natural_key, reading_error
from tokfmt.files.place import AnyPlace, Place
from tokfmt.formats.jsonl.lines import BOM, TextFile, line_number
from tokfmt.wording import printable

_NAME = re.compile(r"[^.].*\.(txt|text|md|markdown|rst)(\.gz|\.zst)?", re.DOTALL)
_ABOUT = re.compile(r"(readme|licen[cs]e|notice|copying|changelog|citation|requirements)(\..*)?", re.IGNORECASE)
_USUAL = re.compile(rb"^(<\|endoftext\|>|</s>|<eos>|<\|end_of_text\|>|\x0c)\r?$", re.MULTILINE)
_BATCH = 1 << 20  # characters of text per batch


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options for reading text files."""

    separator: str = option("", "line between two documents, such as <|endoftext|> (else a file is a document)")
    max_document: int = option(1 << 28, "longest document accepted, in bytes", minimum=1)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """No options: tokfmt does not write text files."""


class TextReader(TextRecords):
    """A reader of the documents of text files. Reading documents by number takes 8 bytes of memory per document."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        self.files: Sequence[Place] = [one for path in paths for one in _files(path)]
        self._mark, self._most, self._partial = options.separator.encode(), options.max_document, hints.allow_partial
        self._limits = dict[Place, int]()
        if b"\n" in self._mark or b"\r" in self._mark:
            raise OptionError("text option separator: is more than one line. Leave out line ends", name="separator")
        self._sizes = _sizes_of(self.files)
        damage = self._leave_out() if hints.allow_partial else []
        whole = not self._mark
        plain = not any(path.suffix in (".gz", ".zst") for path in self.files)
        self.info = RecordInfo(
            "text",
            sum(self._sizes),
            len(self.files) if whole else None,
            random_access=whole or plain,
            inferred=tuple(self._inferred()),
            extras={"files": len(self.files)},
            damage=tuple(damage),
        )

    def _leave_out(self) -> list[Damage]:
        """Leave out text after the damage of compressed data, and documents that are not UTF-8; return the damage.

        Reads all files. If a file is one document, any damage leaves out the whole file.
        """
        kept, damage = list[Place](), list[Damage]()
        for number, path in enumerate(self.files):
            try:
                text = self._text(number)
                cut = text.keep_certain(lambda _: True, 1)
                if cut is not None and text.limit is not None:
                    self._limits[path] = text.limit
                lost = [begin for begin, data in self._between(number, 0, None) if not _is_text(data)]
            except FormatError as error:
                if isinstance(error, NO_DAMAGE):
                    raise
                damage.append(Damage(error.sentence))
                continue
            if lost:
                which = f"the document at byte {lost[0]:,} is" if self._mark else "it is"
                more = f"; {len(lost):,} documents in all are not" if len(lost) > 1 else ""
                damage.append(Damage(f"{printable(path)}: {which} not UTF-8{more}"))
            damage += [cut] if cut is not None else []
            if self._mark or (cut is None and not lost):
                kept.append(path)
        self.files, self._sizes = kept, _sizes_of(kept)
        return damage

    def _inferred(self) -> Iterator[str]:
        """Yield the facts that are inferred, with the option that overrides each."""
        if self._mark or not self.files:
            return
        yield "each text file is read as one document; --from-opt separator=LINE splits at a line"
        if found := _USUAL.search(next(TextFile(self.files[0], may_be_page=True).pieces(), b"")):
            line = printable(found[1].decode())
            splits = f"--from-opt separator={line!r} splits there"
            yield f"{self.files[0].name} has lines {line}, which stay in its text; {splits}"

    # Positions of documents

    @cached_property
    def _starts(self) -> list[NDArray[np.int64]]:
        """For each file, int64[documents + 1]: the byte offset of each document, and the end of the last."""
        if not self._mark:
            return [np.array([0, size]) for size in self._sizes]
        found = []
        for number, size in enumerate(self._sizes):
            begins = [begin for begin, _ in self._documents(number, 0, None)]
            found.append(np.array([*begins, size], np.int64))
        return found

    @cached_property
    def firsts(self) -> NDArray[np.int64]:
        """int64[files + 1]: the number of the first document of each file, and the number of documents."""
        if not self._mark:
            return np.arange(len(self.files) + 1)
        return offsets_of([len(starts) - 1 for starts in self._starts])

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        if self._mark and first == 0 and last is None:
            return [block for number in range(len(self.files)) for block in self._cut(number, size)]
        last = self.count() if last is None else last
        check_interval(first, last, self.count(), "records")
        return list(self._several(size, first, last) if not self._mark else self._some(size, first, last))

    def _several(self, size: int, first: int, last: int) -> Iterator[Block]:
        """Yield blocks of whole files, of about `size` bytes each."""
        begin, held = first, 0
        for number in range(first, last):
            held += self._sizes[number]
            if held >= size or number + 1 == last:
                yield Block(begin, 0, held, begin, number + 1 - begin)
                begin, held = number + 1, 0

    def _some(self, size: int, first: int, last: int) -> Iterator[Block]:
        """Yield blocks of the documents `first <= k < last`; a block stays within one file."""
        for number, (base, end) in enumerate(itertools.pairwise(self.firsts.tolist())):
            a, b, starts = max(first, base) - base, min(last, end) - base, self._starts[number]
            while a < b:
                if self._text(number).compression is not None:
                    yield Block(number, 0, self._sizes[number], a, b - a)
                    break
                stop = min(b, max(a + 1, int(np.searchsorted(starts, starts[a] + size))))
                yield Block(number, int(starts[a]), int(starts[stop]), 0, stop - a)
                a = stop

    def _text(self, number: int) -> TextFile:
        """Return a file."""
        text = TextFile(self.files[number], may_be_page=True)
        text.limit = self._limits.get(text.path)
        if text.size != self._sizes[number]:
            raise SourceChangedError.while_read(text.path)
        return text

    def _cut(self, number: int, size: int) -> Iterator[Block]:
        """Yield blocks of a whole file: one if it is compressed, else several that each begin with a document."""
        start, end = 0, self._sizes[number]
        text = self._text(number)
        while start < end:
            stop = end if text.compression is not None else min(end, self._border(text, start + max(1, size)))
            yield Block(number, start, stop, 0, -1)
            start = stop

    def _border(self, text: TextFile, at: int) -> int:
        """Return the first byte offset >= `at` of a plain file at which a document begins, or the file's size."""
        base = max(0, at - len(self._mark) - 3)
        held, looked = bytearray(), 0
        for piece in text.pieces(base):
            held += piece
            if not base and held.startswith(BOM):
                held[:3], base = b"", 3
            while found := self._separator(held, looked, begins=base in (0, 3)):
                looked = found[1]
                if base + looked >= at:
                    return base + looked
            looked = max(looked, len(held) - len(self._mark) - 2)
            if looked > 1:
                del held[: looked - 1]
                base, looked = base + looked - 1, 1
        return text.size

    def _separator(
        self, held: bytearray, at: int, *, begins: bool = True, ends: bool = False
    ) -> tuple[int, int] | None:
        """Return the bounds of the next separator line in `held` from `at` on, with its line end; None without one. A
        line `begins` at the start of `held`, and the file `ends` at its end.
        """
        mark = self._mark
        while (at := held.find(mark, at)) >= 0:
            end = at + len(mark)
            if held[at - 1] == 10 if at else begins:
                if held.startswith((b"\n", b"\r\n"), end):
                    return at, end + (1 if held[end] == 10 else 2)
                if ends and bytes(held[end : end + 2]) in (b"", b"\r"):
                    return at, len(held)
            at += 1
        return None

    # records

    def _documents(self, number: int, start: int, stop: int | None) -> Iterator[tuple[int, bytes]]:
        """Yield the byte offset and the bytes of each document of an interval of a file; see `_leave_out`."""
        for begin, data in self._between(number, start, stop):
            if not self._partial or _is_text(data):
                yield begin, data

    def _between(self, number: int, start: int, stop: int | None) -> Iterator[tuple[int, bytes]]:
        """Do the same for all documents, without a last one that is cut."""
        text = self._text(number)
        held, base, at, looked = bytearray(), start, 0, 0
        for piece in text.pieces(start, stop):
            held += piece
            if not base and held.startswith(BOM):
                held[:3], base = b"", 3
            while self._mark and (found := self._separator(held, looked)):
                yield base + at, bytes(held[at : found[0]])
                at = looked = found[1]
            del held[:at]
            base, at, looked = base + at, 0, max(0, len(held) - len(self._mark) - 2)
            if len(held) > self._most:
                what = f"a document is longer than {self._most:,} bytes"
                remedy = "--from-opt max_document=BYTES accepts longer ones; they are held in memory whole"
                raise UnsafeError(text.path, what, offset=base, remedy=remedy)
        if text.limit is not None:
            return
        if self._mark and (found := self._separator(held, looked, ends=True)):
            yield base, bytes(held[: found[0]])
        elif held or not self._mark:
            yield base, bytes(held)

    def _texts(self, block: Block) -> Iterator[tuple[int, str]]:
        """Yield the byte offset and the text of each document of a block."""
        for number, (begin, data) in self._pieces(block):
            try:
                yield begin if self._mark else 0, data.decode()
            except UnicodeDecodeError as error:
                raise CorruptError(
                    self.files[number],
                    "is not UTF-8",
                    offset=begin + error.start,
                    found=f"{data[error.start]:#x}",
                    expected="UTF-8",
                    remedy="If it is Latin-1, convert it with iconv -f LATIN1 -t UTF-8",
                ) from error

    def _pieces(self, block: Block) -> Iterator[tuple[int, tuple[int, bytes]]]:
        """Yield the number of the file of each document of a block, with its byte offset and its bytes."""
        if not self._mark:
            for number in range(block.file, block.file + block.records):
                for one in self._documents(number, 0, None):
                    yield number, one
            return
        every = self._documents(block.file, block.start, block.stop)
        last = None if block.records < 0 else block.first + block.records
        for one in itertools.islice(every, block.first, last):
            yield block.file, one

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        batch, begins, held = list[str](), list[int](), 0
        for begin, text in self._texts(block):
            batch.append(text)
            begins.append(begin)
            held += len(text)
            if held >= _BATCH:
                yield RecordBatch(batch, begins=np.array(begins, np.int64))
                batch, begins, held = [], [], 0
        yield RecordBatch(batch, begins=np.array(begins, np.int64))

    def _begin(self, index: int) -> tuple[TextFile, int]:
        """Return the file of a document, and its byte offset in the text."""
        check_interval(index, index + 1, self.count(), "records")
        number = int(np.searchsorted(self.firsts, index, side="right")) - 1
        text = self._text(number)
        return text, int(self._starts[number][index - int(self.firsts[number])]) if self._mark else 0

    def record_line(self, index: int) -> Line:
        text, begin = self._begin(index)
        return Line(text.path, line_number(text, begin), begin, text.compression is not None)

    def record_byte_offset(self, index: int) -> ByteOffset:
        text, begin = self._begin(index)
        if text.compression is not None:
            return ByteOffset(text.path, 0, None, f"byte {begin:,} of the decompressed text")
        return ByteOffset(text.path, begin, len(self.record(index).encode()))

    def record_at(self, path: Place, offset: int) -> int | None:
        if path not in self.files:
            return None
        number = list(self.files).index(path)
        starts = self._starts[number]
        if (
            TextFile(path, may_be_page=True).compression is not None
            or len(starts) < 2
            or not starts[0] <= offset < starts[-1]
        ):
            return None
        return int(self.firsts[number] + np.searchsorted(starts, offset, side="right")) - 1

    def close(self) -> None:
        """Do nothing: no file stays open."""


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _sizes_of(files: Sequence[Place]) -> list[int]:
    try:
        return [path.status_now().size for path in files]
    except OSError as error:
        raise reading_error(error.filename, error) from error


class Documents:
    """Documents as the fields of a section: the byte offset, the beginning and the length of each."""

    def __init__(self, reader: TextReader) -> None:
        self.reader = reader

    @property
    def count(self) -> int:
        return self.reader.count()

    def fields(self, first: int, last: int) -> list[Field]:
        return [self._field(number) for number in range(max(0, first), min(last, self.count))]

    def _field(self, number: int) -> Field:
        name = f"document {number:,}"
        try:
            text, place = self.reader.record(number), self.reader.record_byte_offset(number)
        except FormatError as error:
            return broken(error)._replace(name=name)
        length = f"{len(text):,} characters of {printable(place.path.name)}"
        at = None if place.width is None else place.offset
        return Field(name, at, place.width or 0, shown(text[:SHOWN]), length, path=place.path)


def _files(path: Place) -> list[Place]:
    """Return a file, or the text files of a directory in natural order."""
    if not path.is_dir():
        return [path]
    found = _named(names_in(path))
    if not found:
        raise FormatError(path, "holds no text files", expected="*.txt, *.md, *.rst, or one of these with .gz or .zst")
    return [path / name for name in found]


def _named(names: Sequence[str]) -> list[str]:
    return sorted((name for name in names if _NAME.fullmatch(name) and not _ABOUT.fullmatch(name)), key=natural_key)


class TextInspection(Inspection):
    """The inspection of text files, of which nothing is read before the reader is made."""

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        self.paths, self.options, self.hints = paths, options, hints

    def reader(self) -> TextReader:
        return TextReader(self.paths, self.options, self.hints)

    def look(self, how: Audit) -> Iterator[Finding]:  # noqa: ARG002 - all is read
        """Yield a finding for each file that cannot be read as text."""
        for file in (file for path in self.paths for file in _files(path)):
            try:
                reader = TextReader([file], self.options, Hints())
                for block in reader.blocks(_BATCH):
                    for _ in reader.texts(block):
                        pass
            except FormatError as error:
                yield Finding.of("TF571", error)

    def sections(self) -> Sequence[Section]:
        """Return a section of the beginning of a file, and one of all documents."""
        from tokfmt.formats.jsonl.sections import file_start

        path = self.paths[0]
        documents = Part("documents", path, lambda: Documents(self.reader()))
        if path.is_dir():
            return [documents]
        return [Part(f"start of {path.name}", path, lambda: file_start(path)), documents]


class TextFormat(Format):
    """The format of text files."""

    name = "text"
    title = "text files: one document per file, or split at a line"
    joins_files = read_only = names_are_titles = True
    stores = "documents of text, to the last byte"
    read_options, write_options = ReadOptions, WriteOptions

    def sniff(self, probe: Probe) -> Confidence | None:
        """See `Format.sniff`. Recognizes files by name, unless their beginning has a zero byte."""
        if probe.is_directory:
            others = [name for name in probe.entries if "." in name[1:] and not _ABOUT.fullmatch(name)]
            own = _named(others)
            return Confidence.PLAUSIBLE if own and len(own) == len(others) else None
        if not _NAME.fullmatch(probe.path.name) or not probe.size:
            return None
        if probe.path.suffix in (".gz", ".zst"):
            return Confidence.NAME
        return None if b"\0" in probe.head else Confidence.PLAUSIBLE

    def files(self, path: Place) -> Sequence[Place]:
        return [path / name for name in _named(names_in(path))] if path.is_dir() else [path]

    def inspect(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> TextInspection:
        return TextInspection(paths, options, hints)

    def destination(self, path: AnyPlace, options: Any) -> AnyPlace:
        del options
        raise OptionError(f"{path}: tokfmt does not write text files. Write x.jsonl, which holds one text per line")


FORMAT = TextFormat()
