"""Findings on JSON lines (TF501 to TF519), their repairs, and the sections of their files for `show --raw`.

A check reads every line of a file of up to 12 MiB. Of a larger file it reads 4 MiB of lines at the start, in the middle
and at the end, or the first 12 MiB of compressed text. With `--deep` it reads all lines.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tokfmt.core.annotation import Part, broken, shown
from tokfmt.core.errors import FormatError
from tokfmt.core.fields import Field, Pointer, Section
from tokfmt.core.files import File, open_file
from tokfmt.core.findings import Audit, Code, Finding, Repair
from tokfmt.core.format import ZSTANDARD, Hints
from tokfmt.core.place import Place
from tokfmt.core.text_format import counted
from tokfmt.formats.jsonl.index import IndexAudit, has_index, index_path, misplaced, out_of_order, unreadable
from tokfmt.formats.jsonl.lines import BOM, Lines, TextFile, border, lines_of, walk
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Fault, IdTooLarge, Parsed, Parser, Problem, shown_path
from tokfmt.formats.jsonl.reader import JsonlReader, files_of
from tokfmt.formats.pickled_index import EntryTable, start_fields

_OMIT = "--allow-loss invalid-lines leaves such lines out of a conversion and counts them."

CODES: Mapping[str, Code] = {
    "TF501": Code(
        "a line that is not a record",
        "A line is empty, is not JSON or not an object, or lacks the field that is read; or the field does not hold a "
        "text (or a list of IDs). Upstream's packers stop at it, or silently drop everything that follows. Correct "
        "the line, or name the field with --text-field. " + _OMIT,
    ),
    "TF502": Code(
        "cannot be read to its end",
        "The file does not exist, its compressed data is damaged or cut, or the disk reports an error. Copy it again.",
    ),
    "TF503": Code(
        "a line that is not UTF-8",
        "JSON is strictly UTF-8. The line is Latin-1 or UTF-16 text, or has a character cut in two, or surrogates "
        "encoded one by one. iconv converts a whole file. " + _OMIT,
    ),
    "TF504": Code(
        "a lone surrogate",
        "An escape like \\ud83d without its second half is not a character: a program that counts in UTF-16 cut a text "
        "in the middle of an emoji. Tokenizers refuse it, or replace it. " + _OMIT,
    ),
    "TF505": Code(
        "nested too deep",
        "More than 512 levels of brackets make parsers run out of stack. No text dataset needs them. " + _OMIT,
        unsafe=True,
    ),
    "TF506": Code(
        "a token ID of 2^32 or more",
        "Token datasets hold at most 32 bits per ID. The list does not hold token IDs, or is damaged.",
    ),
    "TF507": Code(
        "a byte order mark",
        "The file begins with EF BB BF, as some editors write it. tokfmt skips it; Modalities' index counts it into "
        "the first line, whose JSON many parsers then refuse. tokfmt check --fix OUT.jsonl writes the lines without "
        "it.",
    ),
    "TF508": Code(
        "line ends of two kinds",
        "Some lines end with CR LF, others with LF: files of two systems were joined. Indexes of some versions of "
        "Modalities count them differently. tokfmt check --fix OUT.jsonl writes LF throughout.",
    ),
    "TF509": Code(
        "empty texts",
        "A record whose text is empty. Since 2024-06-18 Modalities' packer silently drops its batch and everything "
        "that follows, and exits with code 0 (earlier versions drop the document, or its batch of ten). Remove such "
        "lines before you pack with it, and compare packs with --against.",
    ),
    "TF510": Code(
        "a field that occurs twice",
        "A record has the field that is read more than once. JSON does not define which one counts: tokfmt and Python "
        "take the last one, other programs the first.",
    ),
    "TF511": Code(
        "the index cannot be read",
        "X.idx beside X.jsonl is not a pickled list of pairs of integers. tokfmt index writes a new one; --from-opt "
        "index=none reads all lines without one.",
    ),
    "TF512": Code(
        "entries that do not begin a line",
        "Offsets in the index are not starts of lines: the text was changed after the index was made, or the index "
        "belongs to another file. Readers would return pieces of lines. tokfmt index writes a new one.",
    ),
    "TF513": Code(
        "lines without an entry",
        "The index lists fewer lines than the file has, so readers skip the others. Lines that are blank or not JSON "
        "may be left out. Others are hidden: lines were appended after the index was made, it belongs to another "
        "file, or it is damaged. tokfmt index writes a new one; --from-opt index=none reads every line, and "
        "--from-opt index=trust reads the lines that it lists.",
    ),
    "TF514": Code(
        "an index of an older version",
        "Versions of Modalities counted lengths in characters instead of bytes (2024-02-06 to 2024-12-11), counted "
        "the last line feed, or left out a last line without one. The current packer cuts UTF-8 sequences with such "
        "an index: its reader process dies, and packing hangs for ever. tokfmt reads these indexes, as their offsets "
        "are right. tokfmt index (or check --fix OUT.jsonl) writes one of the current version.",
    ),
    "TF515": Code(
        "lengths that fit no version",
        "Lengths in the index are neither the bytes nor the characters of their lines. The text was changed without "
        "moving line borders, or another program wrote the index. An entry that reaches beyond its line hides the "
        "lines after it. tokfmt index writes a new one.",
    ),
    "TF516": Code(
        "unsafe",
        "Reading on would take unbounded memory (a line of hundreds of megabytes, or compressed data that inflates to "
        "one), or the index, a pickle, would execute code. tokfmt stops before that. --from-opt max_line=BYTES "
        "accepts longer lines; never load such an index with pickle.",
        unsafe=True,
    ),
    "TF517": Code(
        "texts that spell a special token",
        "A text holds a literal <|endoftext|>. Packers that let the tokenizer parse special tokens make a separator "
        "of it, in the middle of a document. tokfmt takes it as text, unless --special-tokens parse is given.",
    ),
    "TF518": Code(
        "an index that is out of order",
        "An entry of the index begins at or before the one before it: two indexes were joined, or one was shuffled. "
        "tokfmt cannot know the intended order; tokfmt index writes one in the order of the lines.",
    ),
    "TF519": Code(
        "blank lines",
        "Lines of only white space are not documents: tokfmt skips and counts them. Modalities' create_raw_index "
        "stops at them.",
    ),
}

_INDEX = "the index was written again from the lines"
_NONE = {"index": "none"}

REPAIRS: Mapping[str, Repair] = {
    "TF507": Repair("the byte order mark is gone"),
    "TF508": Repair("all lines end with LF"),
    "TF511": Repair(_INDEX, _NONE),
    "TF512": Repair(_INDEX, _NONE),
    "TF514": Repair(_INDEX),
    "TF515": Repair(_INDEX, _NONE),
    "TF519": Repair("blank lines are gone"),
}


_LOOK = 1 << 22  # bytes per place that a check reads
_SPECIAL = b"<|endoftext|>"
_SPELLED = r"text:<\|endoftext\|>"  # the query for it


def findings(path: Place, options: ReadOptions, how: Audit) -> Iterator[Finding]:
    """Yield every finding on a file or a directory of lines."""
    try:
        reader = _reader(path, options)
    except FormatError as error:
        yield unreadable("TF502", error)
        return
    for part in reader.parts:
        parser = reader.parser(others=True)
        yield from _Look(part.text, parser, how, index=options.index).findings(options.max_line)
    reader.close()


def _reader(path: Place, options: ReadOptions) -> JsonlReader:
    """Return a reader of all lines, without an index, which leaves out invalid ones."""
    return JsonlReader([path], replace(options, index="none"), Hints(allow_loss=frozenset({"invalid-lines"})))


class _Look:
    """One check of one file, or of parts of it."""

    def __init__(self, text: TextFile, parser: Parser, how: Audit, *, index: str) -> None:
        self.text, self.parser, self.how, self.path = text, parser, how, str(text.path)
        self.audit = IndexAudit(text, trusted=index == "trust") if index != "none" else None
        self.lines = self.returns = self.unended = self.empty = self.special = self.blank = 0
        self.first_empty = self.first_special = self.first_blank = ""
        self.from_start = self.whole = True

    def findings(self, longest: int) -> Iterator[Finding]:
        try:
            for lines in self._chosen(longest):
                if not lines.offset and lines.data.startswith(BOM):
                    yield Finding("TF507", "warning", self.path, "begins with a byte order mark", "Remove it", 0)
                if len(lines) and not len(lines.without_blank()):  # Parsing blank lines one by one is slow.
                    self.first_blank = self.first_blank or self._named(lines, 0)
                    self.blank += len(lines)
                    self._count(lines, Parsed([], [], []))
                else:
                    yield from self._records(lines, self.parser(lines))
                if self.audit is not None:
                    self.audit.look(lines)
                self.lines += len(lines)
                self.how.advance(len(lines.data))
        except FormatError as error:
            yield unreadable("TF502", error)
            return
        yield from self._summary()
        if self.audit is not None:
            yield from self.audit.findings()

    def _chosen(self, longest: int) -> Iterator[Lines]:
        """Yield all lines, or those at the start, in the middle and at the end of a large file."""
        text = self.text
        if self.how.deep or (text.compression is None and text.size <= 3 * _LOOK):
            yield from walk(text, 0, None, longest)
            return
        if text.compression is not None:
            for lines in walk(text, 0, None, longest):
                yield lines
                if lines.offset > 3 * _LOOK:
                    self.whole = False
                    return
            return
        self.whole = False
        for at in (0, text.size // 2, text.size - _LOOK):
            self.from_start = not at
            yield from walk(text, border(text, at, longest), border(text, at + _LOOK, longest), longest)

    def _named(self, lines: Lines, index: int) -> str:
        """Return a line in words: its number if all lines before it were counted, else its byte offset."""
        if self.from_start:
            return f"line {self.lines + index + 1:,}"
        return f"the line at byte {lines.begin(index):,}"

    def _records(self, lines: Lines, parsed: Parsed) -> Iterator[Finding]:
        for index, problem in parsed.problems:
            if isinstance(problem, Fault) and problem.code == "TF519":
                self.first_blank = self.first_blank or self._named(lines, index)
                self.blank += 1
                continue
            named, offset = self._named(lines, index), lines.begin(index)
            if isinstance(problem, Fault):
                yield Finding(
                    problem.code, "error", self.path, f"{named} {problem.words}", problem.remedy, offset + problem.at
                )
            elif isinstance(problem, IdTooLarge):
                message = f"{named} has the token ID {problem.token:,} (expected at most 4,294,967,295)"
                yield Finding("TF506", "error", self.path, message, "Correct it", offset)
        self._count(lines, parsed)
        name = json.dumps(self.parser.path[-1], ensure_ascii=False).encode()
        if lines.data.count(name) > len(lines):
            for index, line in enumerate(lines.tolist()):
                if line.count(name) > 1 and _repeats(line, self.parser.path):
                    message = f'{self._named(lines, index)} has the field "{shown_path(self.parser.path)}" twice'
                    offset = lines.begin(index)
                    yield Finding("TF510", "warning", self.path, message, "The last one is read", offset)

    def _count(self, lines: Lines, parsed: Parsed) -> None:
        offsets, lengths = lines.stretches()
        returns = (lines.ends + lines.offset) < (offsets + lengths)
        self.returns += int(np.count_nonzero(returns))
        # A last line without a line end counts for neither kind.
        self.unended = 0 if lines.data.endswith(b"\n") else 1
        self._count_special(lines)
        if all(parsed.values):
            return
        kept = range(len(lines)) if parsed.kept is None else parsed.kept
        for index, value in zip(kept, parsed.values, strict=True):
            if not value:
                self.first_empty = self.first_empty or self._named(lines, index)
                self.empty += 1

    def _count_special(self, lines: Lines) -> None:
        """Count the lines that spell a special token."""
        if self.parser.kind != "text" or _SPECIAL not in lines.data:
            return
        for index, line in enumerate(lines.tolist()):
            if _SPECIAL in line:
                self.first_special = self.first_special or self._named(lines, index)
                self.special += 1

    def _summary(self) -> Iterator[Finding]:
        if 0 < self.returns < self.lines - self.unended:
            message = f"{self.returns:,} of {self.lines:,} lines end with CR LF, the others with LF"
            yield Finding("TF508", "warning", self.path, message, "Convert the line ends with dos2unix")
        if self.empty:
            what = "text" if self.parser.kind == "text" else "sequence"
            where = "" if self.whole else " in the parts that were checked"
            message = f"{_are(self.empty, what)} empty{where} (first: {self.first_empty})"
            remedy = "Modalities' packer drops everything after an empty text; remove these lines for it"
            yield Finding(
                "TF509", "warning", self.path, message, remedy if self.parser.kind == "text" else "", query="len==0"
            )
        if self.blank:
            message = f"{_are(self.blank, 'line')} blank (first: {self.first_blank}), so tokfmt skips them"
            yield Finding("TF519", "info", self.path, message, "Modalities' index stops at them; remove them for it")
        if self.special:
            spell = f"{counted(self.special, 'line')} spell{'s' * (self.special == 1)}"
            message = f"{spell} the special token {_SPECIAL.decode()} (first: {self.first_special})"
            remedy = (
                "tokfmt takes it as text (--special-tokens parse: as the token); other packers make a separator of it"
            )
            yield Finding("TF517", "info", self.path, message, remedy, query=_SPELLED)


def _are(number: int, word: str) -> str:
    return f"{counted(number, word)} {'is' if number == 1 else 'are'}"


def _repeats(line: bytes, path: tuple[str, ...]) -> bool:
    """Return True if an object on the path of the field has its key twice."""
    repeated: list[str] = []

    def pairs(items: list[tuple[str, object]]) -> dict[str, object]:
        keys = [key for key, _ in items]
        repeated.extend(key for key in set(keys) & set(path) if keys.count(key) > 1)
        return dict(items)

    try:
        json.loads(line, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return False
    return bool(repeated)


_READ = 1 << 20  # bytes of a line that are read to compare its length with an index entry
_GZIP_OS = {0: "FAT", 3: "Unix", 10: "NTFS", 255: "unknown"}


def sections(path: Place, options: ReadOptions) -> Sequence[Section]:
    """Return the sections of each file: its start, its lines, and its index."""
    try:
        files = files_of([path])
    except FormatError as error:
        return [Part("files", path, lambda error=error: (broken(error),))]  # type: ignore[misc]
    return [part for file in files for part in _of_file(file, options)]


def _of_file(path: Place, options: ReadOptions) -> Iterator[Part]:
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
    """The lines of a file as fields, read only as far as needed. Keeps one byte offset for every 256 KiB."""

    def __init__(self, path: Place, options: ReadOptions) -> None:
        self.text, self.longest = TextFile(path), options.max_line
        self.parser: Parser | None = None
        self.error: FormatError | None = None
        try:
            self.parser = _reader(path, options).parser(others=True)
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
        """Yield batches of lines that contain the lines `first <= i < last`, with the number of their first line."""
        if self.text.compression is not None:  # A stream is read from its start again.
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
