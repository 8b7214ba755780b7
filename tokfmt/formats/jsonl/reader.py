"""Read JSON lines: blocks of whole lines, which any process parses into texts, token IDs or valid lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import cast

import msgspec
import numpy as np

from tokfmt.core.chats import CHATS, PAIRS
from tokfmt.core.field_path import shown_path
from tokfmt.core.format import Hints
from tokfmt.core.loss_mask import LOSS_MASK, MASK_OPTION, TARGET
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.core.reader import ByteOffset, Damage, check_interval
from tokfmt.core.records import Block, Line, RecordBatch, RecordInfo, RecordReader, SkippedRecords, Spot
from tokfmt.errors import NO_DAMAGE, FormatError, Loss, SourceChangedError, TokfmtError
from tokfmt.files.place import Place
from tokfmt.formats.jsonl.fields import rows_of
from tokfmt.formats.jsonl.index import RawIndex
from tokfmt.formats.jsonl.lines import Lines, TextFile, border, line_number
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import Fault, Kind, Parsed, Parser, Problem, line_error
from tokfmt.formats.jsonl.part import Part, first_record
from tokfmt.model.rows import ALL_POSITIONS, IdRows, announcement, some_rows

_LISTED = 8  # damaged lines that a message lists by number
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


class JsonlReader(RecordReader):
    """A reader of records of text or of token IDs in one or more files of lines.

    An invalid line is an error. With `--allow-loss invalid-lines`, it is left out and counted. With
    `Hints.allow_partial`, it is damage: the lines around it are certain, because a line feed ends each line.

    Args:
        texts: The files, each with its index, which was compared with it, or None.
        options: The parsed read options.
        hints: Facts and wishes of the command.
        notes: Notes on the indexes.
        damage: What is not certain of the files, and left out.
    """

    describes_lines = True

    def __init__(
        self,
        texts: Sequence[tuple[TextFile, RawIndex | None]],
        options: ReadOptions,
        hints: Hints,
        notes: Sequence[str] = (),
        damage: Sequence[Damage] = (),
    ) -> None:
        self.options, self.allow_loss = options, hints.allow_loss
        self.collect, self._partial, self._eos_id = hints.collect_invalid, hints.allow_partial, hints.eos_id
        plain = [Part(text, index, options.max_line, None) for text, index in texts]
        self._first = first = first_record(plain, options, is_lenient=self._lenient, collects=self.collect)
        is_plain = "loss-mask" in self.allow_loss
        self._masks = None if is_plain else first.masks
        masks = f"loss masks of its records ({', '.join(first.masks)})" if first.masks else ""
        numbering = self._numbering if self._lenient or first.is_packed else None
        self.parts = [Part(text, index, options.max_line, numbering) for text, index in texts]
        self.kind: Kind = first.kind
        random_access, notes = not any(part.text.compression for part in self.parts), list(notes)
        if not random_access and not self.collect:  # a conversion reads all records in order
            notes.append(
                "compressed lines are read from their start, so a record near the end takes as long as the whole file"
            )
        if first.has_unread_mask:
            notes.append(f'the field "{LOSS_MASK}" of its records is not read: {MASK_OPTION}')
        notes += [
            f'"{name}" of its records is not read: it holds lists' for name in first.passed if name in ALL_POSITIONS
        ]
        notes += announcement(first.announced)
        indexes = [part.index for part in self.parts if part.index is not None]
        known = len(indexes) == len(self.parts) and numbering is None
        self.info = RecordInfo(
            kind=self.kind,
            size=sum(part.text.size for part in self.parts),
            records=sum(len(index.offsets) for index in indexes) if known else None,
            random_access=random_access,
            json_lines=not first.is_packed,
            inferred=first.inferred,
            notes=tuple(notes),
            field=shown_path(first.keys),
            loss_masks=(PAIRS if first.pairs else CHATS) if first.chats else "" if is_plain else masks,
            chats="" if not first.chats else "plain" if is_plain else "masked",
            pairs=first.pairs,
            fields=first.fields,
            extras={"files": len(self.parts), "indexes": [index.path.name for index in indexes]},
            damage=tuple(damage),
            lost=(Loss("loss-mask", masks),) if is_plain and masks else (),
        )
        self._counts: list[int] | None = None

    def parser(self, *, others: bool) -> Parser:
        """Return a parser of these records; with `others`, it ignores other fields."""
        return self._first.parser(others=others)

    # Counts and blocks

    def count(self) -> int:
        return sum(self._counted())

    def count_up_to(self, last: int) -> int:
        found = 0
        for part in self.parts:
            found += part.records(last - found)
            if found >= last:
                break
        return min(found, last)

    def _counted(self) -> list[int]:
        """Return the number of records of each file."""
        if self._counts is None:
            self._counts = [part.records() for part in self.parts]
        return self._counts

    @property
    def _lenient(self) -> bool:
        """True if invalid lines are left out."""
        return "invalid-lines" in self.allow_loss or self._partial

    def _numbering(self) -> Callable[[Lines], Sequence[int]]:
        """Return the function that tells the records in lines; see `part.Numbering`."""
        parser = self.parser(others=True)

        def number(lines: Lines) -> Sequence[int]:
            parsed = parser(lines)
            indexes = parsed.indexes(len(lines))
            if not self._first.is_packed:
                return indexes
            self._raise(lines, parsed)
            rows = self._rows(lines, parsed, self._masks)
            numbers: list[int] = np.repeat(indexes, 1 if rows.counts is None else rows.counts).tolist()
            return numbers

        return number

    def damaged_records(self) -> Sequence[Damage]:
        if "invalid-lines" in self.allow_loss:  # They are reported as a loss instead.
            return ()
        found, parser, records, error = list[Damage](), self.parser(others=True), 0, None
        for part in self.parts:
            numbers, fault, passed = list[int](), None, 1
            for lines in part.lines(0, None):
                parsed = parser(lines)
                records += len(parsed.values)
                for index, problem in parsed.problems:
                    if _is_damage(problem):
                        fault = fault or line_error(lines, index, problem)
                        numbers.append(passed + lines.number(index))
                passed += lines.data.count(b"\n")
            if fault is not None:
                found.append(Damage(_of_lines(fault, numbers)))
                error = error or fault
        if error is not None and not records:
            raise error
        return found

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:
        if first == 0 and last is None:
            return [block for number in range(len(self.parts)) for block in self._cut(number, size)]
        last = self.count() if last is None else last
        found: list[Block] = []
        base = 0
        for number, part in enumerate(self.parts):
            records = part.records(last - base)
            low, high = max(first, base), min(last, base + records)
            if low < high:
                found += self._cut(number, size, (low - base, high - base), base)
            base += records
            if base >= last:
                break
        check_interval(first, last, base, "records")
        return found

    def _cut(self, number: int, size: int, some: tuple[int, int] | None = None, base: int = 0) -> Iterator[Block]:
        """Yield the blocks of about `size` bytes of a file, or of its records `some`: the first, and the end, as
        numbers in the file. `base` is the number of the first record of the file in the dataset.
        """
        text, start, stop = self.parts[number].text, 0, self.parts[number].text.size
        if text.compression is not None:
            yield Block(number, 0, stop, *((base + some[0], some[1] - some[0]) if some else ()))
            return
        if some is not None:
            start, stop = self.parts[number].span(*some)
            if self._first.is_packed:  # The first record may be one of several in its line.
                yield Block(number, start, stop, base + some[0], some[1] - some[0])
                return
        while start < stop:
            at = start + max(1, size)
            end = stop if at >= stop else min(stop, border(text, at, self.options.max_line))
            yield Block(number, start, end)
            start = end

    # records

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, skipped in self._parsed(block):
            begins = lines.begins()
            begins = begins if parsed.kept is None else begins[np.asarray(parsed.kept, np.int64)]
            yield RecordBatch(texts=parsed.values, skipped=skipped, begins=begins)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        is_packed = self._first.is_packed
        skip, take = self._window(block) if is_packed else (0, -1)
        for lines, parsed, skipped in self._parsed(block):
            rows = self._rows(lines, parsed, self._masks)
            numbers = {} if rows.counts is None else rows.facts.numbers()
            stated = self._masks or (rows.facts.uncounted and self._masks is not None)
            if is_packed:
                count = len(rows.offsets) - 1
                first, last = min(skip, count), count if take < 0 else min(count, skip + take)
                rows = some_rows(rows, first, last)
                skip, take = skip - first, take if take < 0 else take - (last - first)
            marks = rows.marks & np.uint8(TARGET) if stated and rows.marks is not None else None
            noted = skipped + SkippedRecords(columns=numbers) if numbers else skipped
            yield RecordBatch(ragged=Ragged(rows.tokens, rows.offsets), skipped=noted, marks=marks)
            if take == 0:
                return

    def _rows(self, lines: Lines, parsed: Parsed, masks: Sequence[str] | None) -> IdRows:
        """Return the IDs of lines with what the fields beside them state; see `fields.rows_of`."""

        def unfit(index: int, fault: Fault) -> None:
            raise line_error(lines, index, fault)

        return rows_of(lines, parsed, self._first, masks, self.options.loss_mask, self._eos_id, unfit)

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        if self._first.is_packed:
            yield from super().lines(block)
            return
        for lines, parsed, skipped in self._parsed(block, whole=True):
            kept = lines if parsed.kept is None else lines.take(np.asarray(parsed.kept, np.int64))
            tokens = sum(map(len, parsed.values)) if self.kind == "ids" else None
            yield RecordBatch(lines=kept.tolist(), tokens=tokens, skipped=skipped)

    def _parsed(self, block: Block, *, whole: bool = False) -> Iterator[tuple[Lines, Parsed, SkippedRecords]]:
        """Yield the lines, the records and the skipped records of a block, about 256 KiB at a time.

        With `whole`, records are kept as lines, so other fields are not a loss.
        """
        part, (skip, take) = self.parts[block.file], (0, -1) if self._first.is_packed else self._window(block)
        counted = self.collect and not whole
        parser = self.parser(others=counted or whole or "fields" in self.allow_loss)
        strict = self.parser(others=False)
        for lines in part.lines(block.start, None if part.text.compression else block.stop):
            plain = strict.at_once(lines) if counted else None
            parsed = parser(lines) if plain is None else plain
            self._raise(lines, parsed)
            count = len(parsed.values)
            first, last = min(skip, count), count if take < 0 else min(count, skip + take)
            wanted = parsed if last - first == count else parsed.some(first, last, len(lines))
            skipped = self._invalid(block.file, lines, parsed)
            yield (
                lines,
                wanted,
                skipped + _fields(block.file, lines, wanted, strict) if counted and not plain else skipped,
            )
            skip -= first
            take = take if take < 0 else take - (last - first)
            if take == 0:
                return

    def _invalid(self, file: int, lines: Lines, parsed: Parsed) -> SkippedRecords:
        # `damaged_records` reports these lines.
        reported = self._partial and "invalid-lines" not in self.allow_loss
        problems = [index for index, problem in parsed.problems if not (reported and _is_damage(problem))]
        if not problems:
            return SkippedRecords(blank=lines.blank) if lines.blank else SkippedRecords()
        spots = tuple((file, lines.begin(index)) for index in problems[:5])
        return SkippedRecords(len(problems), spots, blank=lines.blank)

    def _window(self, block: Block) -> tuple[int, int]:
        """Return how many records to skip at the start of a block, and how many to take then (-1: all)."""
        if block.records < 0:
            return 0, -1
        first = block.first - sum(part.records() for part in self.parts[: block.file])
        return first - (self.parts[block.file].record_at(block.start, first + 1) or 0), block.records

    def _raise(self, lines: Lines, parsed: Parsed) -> None:
        for index, problem in parsed.problems:
            left_out = "invalid-lines" in self.allow_loss or (self._partial and _is_damage(problem))
            if not isinstance(problem, Fault) or not (self.collect or left_out):
                raise line_error(lines, index, problem)

    def record(self, index: int) -> str | list[int]:
        block = self.blocks(1, index, index + 1)[0]
        if self.kind == "ids":
            for batch in self.ids(block):
                if batch.ragged is not None and len(batch.ragged):
                    return cast("list[int]", batch.ragged[0].tolist())
        else:
            for _, parsed, _ in self._parsed(block, whole=True):
                if parsed.values:
                    return cast("str", parsed.values[0])
        raise IndexError(f"record {index}")

    def stored_bytes(self, block: Block, batch: RecordBatch, count: int) -> int | None:
        """See `RecordReader.stored_bytes`. What was read of a compressed file is decompressed again."""
        if batch.begins is None or not len(batch.begins):
            return super().stored_bytes(block, batch, count)
        text, end = self.parts[block.file].text, int(batch.begins[-1])
        return end - block.start if text.compression is None else text.compressed_size(end)

    def record_error(self, spot: Spot) -> TokfmtError:
        part, parser = self.parts[spot[0]], self.parser(others=True)
        for lines in part.lines(0 if part.text.compression else spot[1], None):
            index = int(np.searchsorted(lines.starts, spot[1] - lines.offset))
            if index < len(lines):
                problem = parser.one(lines[index])
                if isinstance(problem, (str, list)):
                    break
                return line_error(lines, index, problem)
        return SourceChangedError.while_read(part.text.path)

    def line(self, spot: Spot) -> tuple[Place, int]:
        text = self.parts[spot[0]].text
        return text.path, line_number(text, spot[1])

    @property
    def files(self) -> Sequence[Place]:  # type: ignore[override]
        return [part.text.path for part in self.parts]

    def file_counts(self) -> Sequence[int]:
        return self._counted()

    def _part(self, index: int) -> tuple[Part, int]:
        """Return the file of a record, and its number there."""
        firsts = offsets_of(self._counted())
        check_interval(index, index + 1, int(firsts[-1]), "records")
        number = int(np.searchsorted(firsts, index, side="right")) - 1
        return self.parts[number], index - int(firsts[number])

    def record_byte_offset(self, index: int) -> ByteOffset:
        part, record = self._part(index)
        return part.byte_offset(record)

    def record_line(self, index: int) -> Line:
        part, record = self._part(index)
        return part.line(record)

    def record_at(self, path: Place, offset: int) -> int | None:
        for number, part in enumerate(self.parts):
            if part.text.path == path:
                found = part.record_at(offset)
                return None if found is None else found + sum(self._counted()[:number])
        return None

    def close(self) -> None:
        for part in self.parts:
            part.text.file.close()


def _is_damage(problem: Problem) -> bool:
    """Return True if the problem of a line may be damage: not a line that is refused for its size."""
    return isinstance(problem, Fault) and not issubclass(problem.kind, NO_DAMAGE)


def _of_lines(first: TokfmtError, numbers: Sequence[int]) -> str:
    """Return the message of the damaged lines of a file: the error of the first, and the numbers of all."""
    what = first.sentence if isinstance(first, FormatError) else str(first)
    if len(numbers) == 1:
        return what
    listed = ", ".join(f"{number:,}" for number in numbers[:_LISTED]) + (", ..." if len(numbers) > _LISTED else "")
    return f"{what}; {len(numbers):,} lines in all are not records: {listed}"


def _fields(file: int, lines: Lines, parsed: Parsed, parser: Parser) -> SkippedRecords:
    """Count the records with fields besides the one that is read, and these fields."""
    counts, others, first = Counter[str](), 0, None
    for index in parsed.indexes(len(lines)):
        names = parser.names(lines[index])
        if names:
            counts.update(names)
            others += 1
            first = first or (file, lines.begin(index))
    return SkippedRecords(others=others, first=first, fields=dict(counts))
