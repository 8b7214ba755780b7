"""Findings on JSON lines and their indexes (TF501 to TF520), and their repairs.

A check reads every line of a file of up to 12 MiB. Of a larger file it reads 4 MiB of lines at the start, in the middle
and at the end, or the first 12 MiB of compressed text. With `--deep` it reads all lines.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from tokfmt.core.field_path import shown_path
from tokfmt.core.findings import Audit, Finding, Repair
from tokfmt.core.padding import Contradictions, findings_of
from tokfmt.errors import FormatError
from tokfmt.formats.jsonl.fields import rows_of
from tokfmt.formats.jsonl.index import RawIndex, begun, code_of, hidden_lines, hiding, read_index
from tokfmt.formats.jsonl.lines import BOM, Lines, Positions, TextFile, border, walk
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Fault, IdTooLarge, Parsed
from tokfmt.formats.jsonl.part import First, Part, first_record
from tokfmt.wording import counted

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
_SPELLED = "text:<|endoftext|>"  # the query for it


def findings(texts: Sequence[TextFile], options: ReadOptions, how: Audit) -> Iterator[Finding]:
    """Yield every finding on the lines and the indexes of files."""
    try:
        parts = [Part(text, None, options.max_line, None) for text in texts]
        first = first_record(parts, options, is_lenient=True)
    except FormatError as error:
        yield unreadable("TF502", error)
        return
    for text in texts:
        yield from _Look(text, first, how, options).findings(options.max_line)


class _Tally:
    """The number of lines with a property, and the first of them in words."""

    def __init__(self) -> None:
        self.count, self.first = 0, ""


class _Look:
    """One check of one file, or of parts of it."""

    def __init__(self, text: TextFile, first: First, how: Audit, options: ReadOptions) -> None:
        self.text, self.first, self.how, self.path, index = text, first, how, str(text.path), options.index
        self.parser, self.choice = first.parser(others=True), options.loss_mask
        entries = None if index == "none" else read_index(text, trusted=index == "trust", lengths=True)
        self.audit = None if entries is None else IndexAudit(text, entries)
        self.lines = self.returns = self.unended = 0
        self.blank, self.empty, self.special = _Tally(), _Tally(), _Tally()
        self.from_start, self.whole, self.against = True, True, Contradictions()

    def findings(self, longest: int) -> Iterator[Finding]:
        try:
            for lines in self._chosen(longest):
                if not lines.offset and lines.data.startswith(BOM):
                    yield Finding("TF507", "warning", self.path, "begins with a byte order mark", "Remove it", 0)
                solid = lines.without_blank()
                if solid.blank:
                    self._add(self.blank, lines, int(np.argmin(np.isin(lines.starts, solid.starts))), solid.blank)
                yield from self._records(solid, self.parser(solid))
                self._count_returns(lines)
                if self.audit is not None:
                    self.audit.compare(lines)
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
            return f"line {self.lines + lines.number(index) + 1:,}"
        return f"the line at byte {lines.begin(index):,}"

    def _add(self, tally: _Tally, lines: Lines, index: int, count: int = 1) -> None:
        tally.first = tally.first or self._named(lines, index)
        tally.count += count

    def _records(self, lines: Lines, parsed: Parsed) -> Iterator[Finding]:
        problems = list(parsed.problems)
        if self.first.columns:
            found = dict[int, Fault]()
            told = (self.first, self.first.masks, self.choice, None, found.setdefault)
            self.against = self.against.joined(rows_of(lines, parsed, *told, compares=True).against)
            problems += sorted(found.items())
        for index, problem in problems:
            named, offset = self._named(lines, index), lines.begin(index)
            if isinstance(problem, Fault):
                yield Finding(
                    problem.code, "error", self.path, f"{named} {problem.words}", problem.remedy, offset + problem.at
                )
            elif isinstance(problem, IdTooLarge):
                message = f"{named} {problem.words} (expected at most 4,294,967,295)"
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
        """Count empty records, and lines that spell a special token."""
        if not all(parsed.values):
            for index, value in zip(parsed.indexes(len(lines)), parsed.values, strict=True):
                if not value:
                    self._add(self.empty, lines, index)
        if self.parser.kind == "text" and _SPECIAL in lines.data:
            for index, line in enumerate(lines.tolist()):
                if _SPECIAL in line:
                    self._add(self.special, lines, index)

    def _count_returns(self, lines: Lines) -> None:
        """Count lines that end with CR LF. A last line without a line end counts for neither kind."""
        offsets, lengths = lines.stretches()
        self.returns += int(np.count_nonzero(lines.ends + lines.offset < offsets + lengths))
        self.unended = 0 if lines.data.endswith(b"\n") else 1

    def _summary(self) -> Iterator[Finding]:
        yield from findings_of("TF520", self.path, self.against, whole=self.whole)
        if 0 < self.returns < self.lines - self.unended:
            message = f"{self.returns:,} of {self.lines:,} lines end with CR LF, the others with LF"
            yield Finding("TF508", "warning", self.path, message, "Convert the line ends with dos2unix")
        if self.empty.count:
            what = "text" if self.parser.kind == "text" else "sequence"
            where = "" if self.whole else " in the parts that were checked"
            message = f"{_are(self.empty.count, what)} empty{where} (first: {self.empty.first})"
            remedy = "Modalities' packer drops everything after an empty text; remove these lines for it"
            yield Finding(
                "TF509", "warning", self.path, message, remedy if self.parser.kind == "text" else "", query="len==0"
            )
        if self.blank.count:
            message = f"{_are(self.blank.count, 'line')} blank (first: {self.blank.first}), so tokfmt skips them"
            yield Finding("TF519", "info", self.path, message, "Modalities' index stops at them; remove them for it")
        if self.special.count:
            spell = f"{counted(self.special.count, 'line')} spell{'s' * (self.special.count == 1)}"
            message = f"{spell} the special token {_SPECIAL.decode()} (first: {self.special.first})"
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


_NEW = "tokfmt index writes a new one"


def unreadable(code: str, error: FormatError) -> Finding:
    """Return an error as a finding of `code`; an unsafe one has the code TF516."""
    return Finding.of(code_of(code, error), error)


class IndexAudit:
    """An audit of the index of a file, which compares all lines in order, and infers the version of Modalities.

    Args:
        text: The text file.
        index: Its index, with lengths.
    """

    def __init__(self, text: TextFile, index: RawIndex) -> None:
        self.text, self.path, self.trusted, self.extra = text, index.path, index.trusted, index.extra
        self.problems, self.offsets, self.lengths = index.problems, index.offsets, index.lengths
        self.lines = self.misses = self.hits = self.other_bytes = self.other_characters = 0
        self.first_miss = self.first_hidden = -1
        self.hidden = self.last_difference = 0
        self.unended = self.last_line_missing = False
        if "TF518" in self.problems:
            order = np.argsort(self.offsets, kind="stable")
            self.offsets, self.lengths = self.offsets[order], self.lengths[order]

    def compare(self, lines: Lines) -> None:
        """Compare the entries that point into these lines with the lines."""
        if "TF511" in self.problems:
            return
        first, at, hit = begun(self.offsets, lines)
        counted, at = self.lengths[first : first + len(at)][hit], at[hit]
        if len(at) < len(hit) and self.first_miss < 0:
            self.first_miss = first + int(np.argmin(hit))
        self.misses += len(hit) - len(at)
        if len(at) < len(lines):
            hidden = hidden_lines(lines, at)
            self.first_hidden = hidden[0] if hidden and not self.hidden else self.first_hidden
            self.hidden += len(hidden)
        self.hits += len(at)
        self.lines += len(lines)
        self.unended = not lines.data.endswith(b"\n")
        self.last_line_missing = self.unended and len(lines) - 1 not in at
        self.other_bytes += int(np.count_nonzero(counted != lines.stretches()[1][at]))
        wrong = counted - _characters(lines)[at]
        self.other_characters += int(np.count_nonzero(wrong))
        if len(wrong):
            self.last_difference = int(wrong[-1])

    def findings(self) -> Iterator[Finding]:
        """Yield the findings on the index. Call it after `compare` has compared all lines."""
        name = str(self.path)
        if "TF511" in self.problems:
            yield replace(unreadable("TF511", self.problems["TF511"]), remedy=_NEW)
            return
        beyond = len(self.offsets) - int(np.searchsorted(self.offsets, self.text.size))
        misses = self.misses + beyond
        if misses:
            first = self.first_miss if self.first_miss >= 0 else len(self.offsets) - beyond
            message = (
                f"{misses:,} of {len(self.offsets):,} entries do not begin a line of {self.text.path.name} "
                f"(first: offset {int(self.offsets[first]):,}): it is the index of another file or an older one"
            )
            yield Finding("TF512", "error", name, message, _NEW)
            return
        if "TF518" in self.problems:
            yield replace(Finding.of("TF518", self.problems["TF518"]), remedy=_NEW)
            return
        if "TF515" in self.problems:
            yield Finding.of("TF515", self.problems["TF515"])
        if self.hidden:
            error = hiding(self.path, self.text, self.hidden, self.first_hidden)
            yield Finding.of("TF513", error, "warning" if self.trusted else "error")
        left_out = self.lines - self.hits - self.hidden
        if left_out > 0:
            message = f"{left_out:,} lines that are blank or not JSON have no entry"
            yield Finding("TF513", "info", name, message, "Modalities leaves them out if an option asks for it")
        yield from self._version(name)

    def _misses_only_the_last(self) -> bool:
        return self.last_line_missing and self.lines - self.hits == 1 and not self.other_bytes

    def _version(self, name: str) -> Iterator[Finding]:
        version = ""
        if not self.other_bytes:
            if self.extra:
                version = "I0 (2023-11-03), with an entry of length 0 at its end"
            elif self._misses_only_the_last():
                version = "I1 (2023-11-07), which leaves out a last line without a line feed"
        elif not self.other_characters:
            version = "I4 or I5 (2024-02-06 to 2024-12-11)" if self.unended else "I5 (2024-11-20 to 2024-12-11)"
            version += ", whose lengths count characters, not bytes"
        elif self.other_characters == 1 and self.last_difference == 1:
            version = "I4 (2024-02-06 to 2024-11-19), whose lengths count characters, not bytes, and the last line feed"
        else:
            message = f"the lengths of {self.other_bytes:,} entries are neither bytes nor characters of their lines"
            yield Finding("TF515", "warning", name, message, _NEW)
        if version:
            yield Finding("TF514", "warning", name, f"is an index of version {version}", f"For today's readers, {_NEW}")


def _characters(lines: Lines) -> Positions:
    """Return int64[lines], the characters of each line, without its carriage return and with its byte order mark."""
    raw = np.frombuffer(lines.data, np.uint8)
    before = np.concatenate(([0], np.cumsum((raw & 0xC0) != 0x80)))  # Continuation bytes do not begin a character.
    starts = lines.starts.copy()
    starts[:1] = 0
    counts: Positions = before[lines.ends] - before[starts]
    return counts
