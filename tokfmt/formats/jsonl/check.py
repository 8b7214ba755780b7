"""What can be wrong with JSON lines: findings TF501 ... TF515. Every line is read.

TF501  error    a line is no record: not JSON, empty, no such field, a value of another type
TF502  error    the file cannot be read to its end: damaged compression, a line that is too long
TF503  error    a line is not UTF-8
TF504  error    a text holds a lone surrogate
TF505  error    a line is nested too deep
TF506  error    a token id of 2^32 or more
TF507  warning  a byte order mark at the start
TF508  warning  some lines end with CR LF, others with LF
TF509  warning  empty texts
TF510  warning  the field that is read occurs twice in a record
TF511  error    the index cannot be read
TF512  error    entries of the index begin no line
TF513  warning  lines without an entry in the index
TF514  warning  the index is of an older version (I0, I1, I4, I5), which today's Modalities misreads
TF515  warning  lengths in the index that fit no version
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from tokfmt.core.errors import FormatError
from tokfmt.core.format import Finding, Hints
from tokfmt.formats.jsonl.check_index import IndexAudit
from tokfmt.formats.jsonl.lines import BOM, Lines
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Parsed, Parser
from tokfmt.formats.jsonl.part import Part
from tokfmt.formats.jsonl.problems import Fault, IdTooLarge
from tokfmt.formats.jsonl.reader import JsonlReader

_DROP = Hints(drop=frozenset({"invalid-lines"}))


def findings(path: Path, options: ReadOptions) -> Iterator[Finding]:
    """Every violation found in a file or a directory of lines."""
    try:
        reader = JsonlReader([path], replace(options, index="none"), _DROP)
    except FormatError as error:
        yield Finding("TF502", "error", error.path, error.what, error.remedy or "", error.offset)
        return
    for part in reader.parts:
        yield from _Look(part, reader.parser(others=True), with_index=options.index == "auto").findings()
    reader.close()


class _Look:
    """One pass over one file."""

    def __init__(self, part: Part, parser: Parser, *, with_index: bool) -> None:
        self.part, self.parser, self.path = part, parser, str(part.text.path)
        self.audit = IndexAudit(part.text) if with_index else None
        self.lines = self.returns = self.unended = self.empty = 0
        self.first_empty = -1

    def findings(self) -> Iterator[Finding]:
        try:
            for lines in self.part.lines(0, None):
                if not self.lines and lines.data.startswith(BOM):
                    yield Finding("TF507", "warning", self.path, "begins with a byte order mark", "Remove it", 0)
                yield from self._records(lines, self.parser(lines))
                if self.audit is not None:
                    self.audit.look(lines)
                self.lines += len(lines)
        except FormatError as error:
            yield Finding("TF502", "error", error.path, error.what, error.remedy or "", error.offset)
            return
        yield from self._summary()
        if self.audit is not None:
            yield from self.audit.findings()

    def _records(self, lines: Lines, parsed: Parsed) -> Iterator[Finding]:
        for index, problem in parsed.problems:
            number, offset = self.lines + index + 1, lines.offset + int(lines.starts[index])
            if isinstance(problem, Fault):
                found = f": found {problem.found}" if problem.found else ""
                message = f"line {number:,} {problem.what}{found}"
                yield Finding(problem.code, "error", self.path, message, problem.remedy, offset + problem.at)
            elif isinstance(problem, IdTooLarge):
                message = f"line {number:,} has the token id {problem.token:,}; the largest possible is 4,294,967,295"
                yield Finding("TF506", "error", self.path, message, "Correct it", offset)
        self._count(lines, parsed)
        name = f'"{self.parser.path[-1]}"'.encode()
        if lines.data.count(name) > len(lines):
            for index, line in enumerate(lines.tolist()):
                if line.count(name) > 1 and _repeats(line, self.parser.path):
                    message = f'line {self.lines + index + 1:,} has the field "{".".join(self.parser.path)}" twice'
                    offset = lines.offset + int(lines.starts[index])
                    yield Finding("TF510", "warning", self.path, message, "The last one is read", offset)

    def _count(self, lines: Lines, parsed: Parsed) -> None:
        offsets, lengths = lines.stretches()
        returns = (lines.ends + lines.offset) < (offsets + lengths)
        self.returns += int(np.count_nonzero(returns))
        # a last line without any line end is of either kind
        self.unended = 0 if lines.data.endswith(b"\n") else 1
        if all(parsed.values):
            return
        kept = range(len(lines)) if parsed.kept is None else parsed.kept
        for index, value in zip(kept, parsed.values, strict=True):
            if not value:
                self.first_empty = self.lines + index + 1 if not self.empty else self.first_empty
                self.empty += 1

    def _summary(self) -> Iterator[Finding]:
        if 0 < self.returns < self.lines - self.unended:
            message = f"{self.returns:,} of {self.lines:,} lines end with CR LF, the others with LF"
            yield Finding("TF508", "warning", self.path, message, "Convert the line ends with dos2unix")
        if self.empty:
            what = "text" if self.parser.kind == "text" else "sequence"
            count = f"{self.empty:,} {what}s are empty" if self.empty > 1 else f"1 {what} is empty"
            message = f"{count} (first: line {self.first_empty:,})"
            remedy = "Modalities' packer drops everything after an empty text; remove these lines for it"
            yield Finding("TF509", "warning", self.path, message, remedy if self.parser.kind == "text" else "")


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
