"""Reading JSON lines: blocks of whole lines that any process turns into texts, ids, or checked lines."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tokfmt.core.axis import check_interval, frozen
from tokfmt.core.errors import FormatError, TokfmtError
from tokfmt.core.files import names_in, natural_key
from tokfmt.core.format import Hints
from tokfmt.core.inside import Place
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.core.records import Block, RecordBatch, RecordInfo
from tokfmt.formats.jsonl.lines import Lines, border
from tokfmt.formats.jsonl.options import ReadOptions, dotted
from tokfmt.formats.jsonl.parse import Document, Kind, Parsed, Parser, load
from tokfmt.formats.jsonl.part import Part
from tokfmt.formats.jsonl.places import record_at, record_place
from tokfmt.formats.jsonl.problems import Fault, Problem, line_error
from tokfmt.formats.jsonl.streams import FILE_NAME

_BOTH = 'records have both "{1}" and "{0}": read as ids; --from-opt kind=text reads "{0}"'


class JsonlReader:
    """Records of text or of token ids in one or more files of lines.

    Lines with trouble are errors, or are left out and counted when `invalid-lines` may be dropped.
    """

    def __init__(self, paths: Sequence[Path], options: ReadOptions, hints: Hints) -> None:
        self.options, self.drop = options, hints.drop
        self._keys = {"text": dotted(options.text_field, "text_field"), "ids": dotted(options.ids_field, "ids_field")}
        self.parts = [Part(path, options) for path in files_of(paths)]
        kind, inferred = self._kind() if options.kind == "auto" else (options.kind, ())
        self.kind: Kind = kind
        plain = not any(part.text.compression for part in self.parts)
        indexes = [part.index for part in self.parts if part.index is not None]
        notes = [note for index in indexes for note in index.notes]
        if not plain:
            notes.append("compressed lines are read from their start: one task a file, no random access")
        known = len(indexes) == len(self.parts) and "invalid-lines" not in self.drop
        self._info = RecordInfo(
            kind=self.kind,
            size=sum(part.text.size for part in self.parts),
            records=sum(len(index.offsets) for index in indexes) if known else None,
            random_access=plain,
            inferred=inferred,
            notes=tuple(notes),
            extras=frozen(
                files=len(self.parts), field=".".join(self._keys[self.kind]), indexes=[i.path.name for i in indexes]
            ),
        )
        self._counts: list[int] | None = None

    @property
    def info(self) -> RecordInfo:
        return self._info

    def _kind(self) -> tuple[Kind, tuple[str, ...]]:
        """What the first record holds, and what was inferred from it; "ids" when there is no line at all."""
        nothing: Kind = "ids"
        parser = Parser("text", self._keys["text"], others=True)
        for lines in itertools.chain.from_iterable(part.lines(0, None) for part in self.parts):
            for index, line in enumerate(lines.tolist()):
                ids, text = _at(load(line), self._keys["ids"]), parser.one(line)
                if isinstance(ids, list) and all(type(token) is int for token in ids):
                    return "ids", (_BOTH.format(*map(".".join, self._keys.values())),) if isinstance(text, str) else ()
                if isinstance(text, str):
                    return "text", ()
                if ids is not None:
                    return "ids", ()
                if "invalid-lines" not in self.drop and isinstance(text, Fault):
                    raise _error(lines, index, text)
                nothing = "text"
        return nothing, ()

    def parser(self, *, others: bool) -> Parser:
        """What decodes these records; `others`: without a look at their other fields."""
        return Parser(self.kind, self._keys[self.kind], others)

    # counting and cutting

    def count(self) -> int:
        return sum(self._counted())

    def _counted(self) -> list[int]:
        """Records of each file."""
        if self._counts is None:
            self._counts = [part.records(self._valid()) for part in self.parts]
        return self._counts

    def _valid(self) -> Parser | None:
        """What tells a record from a line that is left out; None when every line is a record."""
        return self.parser(others=True) if "invalid-lines" in self.drop else None

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        if first == 0 and last is None:
            return [block for number in range(len(self.parts)) for block in self._cut(number, size)]
        firsts = offsets_of(self._counted()).tolist()
        last = firsts[-1] if last is None else last
        check_interval(first, last, firsts[-1], "records")
        found: list[Block] = []
        for number, (a, b) in enumerate(itertools.pairwise(firsts)):
            low, high = max(first, a), min(last, b)
            if low < high:
                found += self._cut_some(number, size, a, (low, high))
        return found

    def _cut(self, number: int, size: int) -> Iterator[Block]:
        part = self.parts[number]
        if part.text.compression is not None:
            yield Block(number, 0, part.text.size)
            return
        yield from self._between(number, size, 0, part.text.size)

    def _cut_some(self, number: int, size: int, base: int, wanted: tuple[int, int]) -> Iterator[Block]:
        part, (first, last) = self.parts[number], wanted
        if part.text.compression is not None:
            yield Block(number, 0, part.text.size, first, last - first)
            return
        yield from self._between(number, size, *part.span(first - base, last - base, self._valid()))

    def _between(self, number: int, size: int, start: int, stop: int) -> Iterator[Block]:
        while start < stop:
            end = min(stop, border(self.parts[number].text, start + max(1, size), self.options.max_line))
            yield Block(number, start, end)
            start = end

    # records

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, invalid in self._parsed(block, others="fields" in self.drop):
            del lines
            yield RecordBatch(texts=parsed.values, invalid=invalid)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, invalid in self._parsed(block, others="fields" in self.drop):
            del lines
            tokens = array("I")  # four times as fast as numpy.fromiter
            for ids in parsed.values:
                tokens.fromlist(ids)
            ragged = Ragged(np.asarray(tokens, np.uint32), offsets_of([len(ids) for ids in parsed.values]))
            yield RecordBatch(ragged=ragged, invalid=invalid)

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, invalid in self._parsed(block, others=True):
            kept = lines if parsed.kept is None else lines.take(np.asarray(parsed.kept, np.int64))
            yield RecordBatch(lines=kept.tolist(), invalid=invalid)

    def _parsed(self, block: Block, *, others: bool) -> Iterator[tuple[Lines, Parsed, int]]:
        part, parser = self.parts[block.file], self.parser(others=others)
        skip, take = self._window(block)
        for lines in part.lines(block.start, None if part.text.compression else block.stop):
            parsed = parser(lines)
            self._raise(lines, parsed)
            count = len(parsed.values)
            first, last = min(skip, count), count if take < 0 else min(count, skip + take)
            yield lines, parsed if last - first == count else parsed.some(first, last, len(lines)), len(parsed.problems)
            skip -= first
            take = take if take < 0 else take - (last - first)
            if take == 0:
                return

    def _window(self, block: Block) -> tuple[int, int]:
        """Records to leave out at the start of a block, and how many to take then (-1: all)."""
        if block.records < 0:
            return 0, -1
        return block.first - sum(self._counted()[: block.file]), block.records

    def _raise(self, lines: Lines, parsed: Parsed) -> None:
        for index, problem in parsed.problems:
            if "invalid-lines" not in self.drop or not isinstance(problem, Fault):
                raise _error(lines, index, problem)

    def record(self, index: int) -> str | list[int]:
        block = self.blocks(1, index, index + 1)[0]
        for _, parsed, _ in self._parsed(block, others=True):
            if parsed.values:
                value: str | list[int] = parsed.values[0]
                return value
        raise IndexError(f"record {index}")

    def record_place(self, index: int) -> Place:
        firsts = offsets_of(self._counted())
        check_interval(index, index + 1, int(firsts[-1]), "records")
        number = int(np.searchsorted(firsts, index, side="right")) - 1
        return record_place(self.parts[number], index - int(firsts[number]), self._valid(), self.options.max_line)

    def record_at(self, path: Path, offset: int) -> int | None:
        for number, part in enumerate(self.parts):
            if part.text.path == path:
                found = record_at(part, offset, self._valid(), self.options.max_line)
                return None if found is None else found + sum(self._counted()[:number])
        return None

    def close(self) -> None:
        for part in self.parts:
            part.text.file.close()


def _at(document: Document | Fault, keys: tuple[str, ...]) -> object:
    """What stands at a dotted path of a line; None when nothing does."""
    value = document.value if isinstance(document, Document) else None
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _error(lines: Lines, index: int, problem: Problem) -> TokfmtError:
    return line_error(lines.text, lines.offset + int(lines.starts[index]), problem)


def files_of(paths: Sequence[Path]) -> list[Path]:
    """The files given, and the *.jsonl(.gz, .zst) of the directories given, each in natural order.

    Raises:
        FormatError: A directory holds none, or one file twice, plain and compressed.
    """
    return [file for path in paths for file in (_in_directory(path) if path.is_dir() else [path])]


def _in_directory(path: Path) -> list[Path]:
    names = sorted(filter(FILE_NAME.fullmatch, names_in(path)), key=natural_key)
    if not names:
        raise FormatError(path, "holds no *.jsonl, *.jsonl.gz or *.jsonl.zst")
    stems: dict[str, str] = {}
    for name in names:
        stem = name.removesuffix(".gz").removesuffix(".zst")
        if stem in stems:
            raise FormatError(
                path, f"holds {stems[stem]} and {name}: the same records twice",
                remedy="Remove one of them, or name the files to be read",
            )  # fmt: skip
        stems[stem] = name
    return [path / name for name in names]
