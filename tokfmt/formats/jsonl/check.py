"""What can be wrong with JSON lines: findings TF501 ... TF518; `codes` says what they mean.

Every line of a file of up to 12 MiB is read, else 4 MiB of lines at the start, in the middle and at the end (the first
12 MiB of compressed text); deep, all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tokfmt.core.audit import Audit
from tokfmt.core.errors import FormatError, UnsafeError
from tokfmt.core.format import Finding, Hints
from tokfmt.formats.jsonl.check_index import IndexAudit
from tokfmt.formats.jsonl.lines import Lines, border
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Parsed, Parser
from tokfmt.formats.jsonl.part import Part
from tokfmt.formats.jsonl.problems import Fault, IdTooLarge
from tokfmt.formats.jsonl.reader import JsonlReader
from tokfmt.formats.jsonl.streams import BOM

_DROP = Hints(drop=frozenset({"invalid-lines"}))


_LOOK = 1 << 22  # bytes
_SPECIAL = b"<|endoftext|>"


def findings(path: Path, options: ReadOptions, how: Audit) -> Iterator[Finding]:
    """Every violation found in a file or a directory of lines."""
    try:
        reader = JsonlReader([path], replace(options, index="none"), _DROP)
    except FormatError as error:
        yield unreadable("TF502", error)
        return
    for part in reader.parts:
        parser = reader.parser(others=True)
        yield from _Look(part, parser, how, with_index=options.index == "auto").findings(options.max_line)
    reader.close()


def unreadable(code: str, error: FormatError) -> Finding:
    """An error as a line of a check; what is unsafe has a code of its own."""
    code = "TF516" if isinstance(error, UnsafeError) else code
    return Finding(code, "error", error.path, error.what, error.remedy or "", error.offset)


class _Look:
    """One pass over one file, or over parts of it."""

    def __init__(self, part: Part, parser: Parser, how: Audit, *, with_index: bool) -> None:
        self.part, self.parser, self.how, self.path = part, parser, how, str(part.text.path)
        self.audit = IndexAudit(part.text) if with_index else None
        self.lines = self.returns = self.unended = self.empty = self.special = 0
        self.first_empty = self.first_special = ""
        self.from_start = self.whole = True

    def findings(self, longest: int) -> Iterator[Finding]:
        try:
            for lines in self._chosen(longest):
                if not lines.offset and lines.data.startswith(BOM):
                    yield Finding("TF507", "warning", self.path, "begins with a byte order mark", "Remove it", 0)
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
        """All lines, or those at the start, in the middle and at the end of a large file."""
        text = self.part.text
        if self.how.deep or (text.compression is None and text.size <= 3 * _LOOK):
            yield from self.part.lines(0, None)
            return
        if text.compression is not None:
            for lines in self.part.lines(0, None):
                yield lines
                if lines.offset > 3 * _LOOK:
                    self.whole = False
                    return
            return
        self.whole = False
        for at in (0, text.size // 2, text.size - _LOOK):
            self.from_start = not at
            yield from self.part.lines(border(text, at, longest), border(text, at + _LOOK, longest))

    def _named(self, lines: Lines, index: int) -> str:
        """A line in words: by number where all lines before it were counted."""
        if self.from_start:
            return f"line {self.lines + index + 1:,}"
        return f"the line at byte {lines.offset + int(lines.starts[index]):,}"

    def _records(self, lines: Lines, parsed: Parsed) -> Iterator[Finding]:
        for index, problem in parsed.problems:
            named, offset = self._named(lines, index), lines.offset + int(lines.starts[index])
            if isinstance(problem, Fault):
                found = f": found {problem.found}" if problem.found else ""
                message = f"{named} {problem.what}{found}"
                yield Finding(problem.code, "error", self.path, message, problem.remedy, offset + problem.at)
            elif isinstance(problem, IdTooLarge):
                message = f"{named} has the token id {problem.token:,}; the largest possible is 4,294,967,295"
                yield Finding("TF506", "error", self.path, message, "Correct it", offset)
        self._count(lines, parsed)
        name = f'"{self.parser.path[-1]}"'.encode()
        if lines.data.count(name) > len(lines):
            for index, line in enumerate(lines.tolist()):
                if line.count(name) > 1 and _repeats(line, self.parser.path):
                    message = f'{self._named(lines, index)} has the field "{".".join(self.parser.path)}" twice'
                    offset = lines.offset + int(lines.starts[index])
                    yield Finding("TF510", "warning", self.path, message, "The last one is read", offset)

    def _count(self, lines: Lines, parsed: Parsed) -> None:
        offsets, lengths = lines.stretches()
        returns = (lines.ends + lines.offset) < (offsets + lengths)
        self.returns += int(np.count_nonzero(returns))
        # a last line without any line end is of either kind
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
        """Lines that spell a special token."""
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
            count = f"{self.empty:,} {what}s are empty" if self.empty > 1 else f"1 {what} is empty"
            count += "" if self.whole else " where they were looked at"
            message = f"{count} (first: {self.first_empty})"
            remedy = "Modalities' packer drops everything after an empty text; remove these lines for it"
            yield Finding("TF509", "warning", self.path, message, remedy if self.parser.kind == "text" else "")
        if self.special:
            count = f"{self.special:,} lines spell" if self.special > 1 else "1 line spells"
            message = f"{count} the special token {_SPECIAL.decode()} (first: {self.first_special})"
            yield Finding(
                "TF517",
                "info",
                self.path,
                message,
                "tokfmt takes it as text (--special-tokens parse: as the token); other packers make a separator of it",
            )


def _repeats(line: bytes, path: tuple[str, ...]) -> bool:
    """Whether an object on the path of the field has its key twice."""
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
