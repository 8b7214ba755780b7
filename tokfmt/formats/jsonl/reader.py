"""Read JSON lines: blocks of whole lines, which any process parses into texts, token IDs or valid lines."""

from __future__ import annotations

import itertools
import json
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import NO_DAMAGE, FormatError, SourceChangedError, TokfmtError, TruncatedError
from tokfmt.core.files import names_in, natural_key
from tokfmt.core.format import Hints
from tokfmt.core.loss_mask import IGNORED, LABELS, LOSS_MASK, MASK_OPTION, MASKS
from tokfmt.core.place import Place
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.core.reader import ByteOffset, Damage, check_interval
from tokfmt.core.records import Block, Line, RecordBatch, RecordInfo, RecordReader, SkippedRecords, Spot
from tokfmt.core.text_format import counted
from tokfmt.formats.jsonl.index import RawIndex, load_certain, load_index, misplaced
from tokfmt.formats.jsonl.lines import FILE_NAME, Lines, Positions, TextFile, border, line_number, walk
from tokfmt.formats.jsonl.options import ReadOptions
from tokfmt.formats.jsonl.parse import (
    Document,
    Fault,
    Kind,
    Parsed,
    Parser,
    Problem,
    dotted,
    kind_of,
    line_error,
    load,
    shown_path,
    step,
)


@dataclass(frozen=True, slots=True)
class Census:
    """The numbers of records in the pieces of a file: 16 bytes for each 256 KiB of text.

    Attributes:
        offsets: int64[pieces + 1], the byte offset of each piece of whole lines, and the end of the last.
        firsts: int64[pieces + 1], the number of the first record of each piece, and the number of all records.
        whole: True if the pieces are all of the file, not only its beginning.
    """

    offsets: Positions
    firsts: Positions
    whole: bool = False

    @property
    def records(self) -> int:
        """Number of records in the pieces."""
        return int(self.firsts[-1])


_LISTED = 8  # damaged lines that a message lists by number
_UNCOUNTED = Census(np.zeros(1, np.int64), np.zeros(1, np.int64))


class Part:
    """One file of a dataset: its lines, or those that its index lists, and the byte offsets of its records.

    Args:
        path, options: As for `JsonlReader`.
        valid: Returns the parser that tells records from lines that are left out; None if every line is a record.
        partial: See `Hints.allow_partial`.

    Attributes:
        damage: The parts of the file that are not certain, and left out.
    """

    def __init__(
        self, path: Place, options: ReadOptions, valid: Callable[[], Parser | None], *, partial: bool = False
    ) -> None:
        self.text, self._valid, trusted = TextFile(path), valid, options.index == "trust"
        self._longest, lost = options.max_line, None
        cut = self.text.keep_certain(_complete, self._longest) if partial else None
        if options.index == "none":
            self.index = None
        elif partial:
            self.index, lost = load_certain(self.text, trusted=trusted)
        else:
            self.index = load_index(self.text, trusted=trusted)
        self.damage = tuple(one for one in (cut, lost) if one is not None)
        self._census = _UNCOUNTED

    def lines(self, start: int, stop: int | None) -> Iterator[Lines]:
        """Yield the lines between two byte offsets, about 256 KiB at a time.

        Both offsets are starts of lines. With an index, only the lines that it lists are yielded; else all that are not
        blank.
        """
        for lines in walk(self.text, start, stop, self._longest):
            yield lines.without_blank() if self.index is None else self.index.documents(lines)

    def census(self, limit: int | None = None) -> Census:
        """Count the records of the file; with `limit`, stop when so many have been found."""
        known, valid = self._census, self._valid()
        if known.whole or (limit is not None and known.records >= limit):
            return known
        if self.text.compression is not None:  # Counting starts over: the text can only be read from its start.
            known = _UNCOUNTED
        offsets, counts = [int(known.offsets[-1])], [known.records]
        whole, found = True, known.records
        for lines in self.lines(offsets[0], None):
            offsets.append(lines.offset + len(lines.data))
            counts.append(len(lines) if valid is None else len(valid(lines).values))
            found += counts[-1]
            if limit is not None and found >= limit:
                whole = self.text.compression is None and offsets[-1] >= self.text.size
                break
        self._census = Census(
            np.concatenate((known.offsets, np.asarray(offsets[1:], np.int64))),
            np.concatenate((known.firsts, np.cumsum(counts, dtype=np.int64)[1:])),
            whole,
        )
        return self._census

    def records(self, limit: int | None = None) -> int:
        """Return the number of records: without reading the text if an index lists them and no line may be left out.

        With `limit`, counting may stop at `limit` records or more.
        """
        index = self._record_index()
        return self.census(limit).records if index is None else len(index.offsets)

    def _record_index(self) -> RawIndex | None:
        """Return the index if each of its entries is a record, else None."""
        return self.index if self._valid() is None else None

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Return the byte offsets of record `first`, and of the line after record `last - 1`, in a plain file."""
        index = self._record_index()
        if index is not None:
            entries = index.offsets
            begins = [int(entries[entry]) for entry in (first, last) if entry < len(entries)]
            for entry, offset in zip((first, last), begins, strict=False):
                if error := misplaced(index.path, self.text, entry, offset):
                    raise error
            return begins[0], begins[1] if last < len(entries) else self.text.size
        return self._line(first)[0], self._line(last - 1)[1]

    def _line(self, record: int) -> tuple[int, int]:
        """Return the byte offsets of the line of a record, and of the next line."""
        start, stop, at, valid = 0, None, record, self._valid()
        if self.text.compression is None:
            census = self.census(record + 1)
            piece = int(np.searchsorted(census.firsts, record, side="right")) - 1
            start, stop = census.offsets[piece : piece + 2].tolist()
            at -= int(census.firsts[piece])
        for lines in self.lines(start, stop):
            kept = None if valid is None else valid(lines).kept
            count = len(lines) if kept is None else len(kept)
            if at < count:
                index = at if kept is None else kept[at]
                start = lines.data.rfind(b"\n", 0, int(lines.starts[index])) + 1  # before a byte order mark
                stop = lines.data.find(b"\n", int(lines.ends[index])) + 1 or len(lines.data)
                return lines.offset + start, lines.offset + stop
            at -= count
        raise IndexError(f"record {record}")

    def byte_offset(self, record: int) -> ByteOffset:
        """Return the byte offset of the line of a record, and its length without line end."""
        text = self.text
        if text.compression is not None:
            return ByteOffset(text.path, 0, None, f"record {record:,} of the decompressed text")
        start, _ = self.span(record, record + 1)
        stop = border(text, start + 1, self._longest)
        tail = text.file.read(max(start, stop - 2), stop - max(start, stop - 2))
        return ByteOffset(text.path, start, stop - start - (len(tail) - len(tail.rstrip(b"\r\n"))))

    def line(self, record: int) -> Line:
        """Return the number of the line of a record. Reads the text before it."""
        text, decompressed = self.text, self.text.compression is not None
        start, _ = self._line(record) if decompressed else self.span(record, record + 1)
        return Line(text.path, line_number(text, start), start, decompressed)

    def record_at(self, offset: int) -> int | None:
        """Return the record whose line holds the byte at `offset`; None without one, or if the file is compressed."""
        if self.text.compression is not None or not 0 <= offset < self.text.size:
            return None
        index = self._record_index()
        if index is None:
            return self._by_census(offset)
        record = int(np.searchsorted(index.offsets, offset, side="right")) - 1
        beyond = record < 0 or offset >= border(self.text, int(index.offsets[record]) + 1, self._longest)
        return None if beyond else record

    def _by_census(self, offset: int) -> int | None:
        census, valid = self.census(), self._valid()
        piece = int(np.searchsorted(census.offsets, offset, side="right")) - 1
        record = int(census.firsts[piece])
        for lines in self.lines(int(census.offsets[piece]), int(census.offsets[piece + 1])):
            stop = lines.offset + len(lines.data)
            if offset < stop:
                starts = lines.starts + lines.offset
                if not lines.offset:
                    starts[:1] = 0  # before a byte order mark
                line = int(np.searchsorted(starts, offset, side="right")) - 1
                end = lines.data.find(b"\n", int(lines.ends[line])) + 1 or len(lines.data)
                if line < 0 or offset >= lines.offset + end:
                    return None
                kept = None if valid is None else valid(lines).kept
                if kept is None:
                    return record + line
                return record + kept.index(line) if line in kept else None
            record += len(lines) if valid is None else len(valid(lines).values)
        return None


_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BOTH = 'records have both "{1}" and "{0}": read as IDs; --from-opt kind=text reads "{0}"'


def _complete(line: bytes) -> bool:
    """Return True if a line is a complete JSON object. Such an object is never the beginning of another."""
    return line.lstrip().startswith(b"{") and not isinstance(load(line), Fault)


class JsonlReader(RecordReader):
    """A reader of records of text or of token IDs in one or more files of lines.

    An invalid line is an error. With `--allow-loss invalid-lines`, it is left out and counted. With
    `Hints.allow_partial`, it is damage: the lines around it are certain, because a line feed ends each line.
    """

    describes_lines = True

    def __init__(self, paths: Sequence[Place], options: ReadOptions, hints: Hints) -> None:
        self.options, self.allow_loss, self.collect, self._partial = (
            options,
            hints.allow_loss,
            hints.collect_invalid,
            hints.allow_partial,
        )
        self._keys = {"text": dotted(options.text_field, "text_field"), "ids": dotted(options.ids_field, "ids_field")}
        self.parts, damage = list[Part](), list[Damage]()
        for path in files_of(paths):
            try:
                part = Part(path, options, self._valid, partial=hints.allow_partial)
            except FormatError as error:
                if not hints.allow_partial or isinstance(error, NO_DAMAGE):
                    raise
                damage.append(Damage(error.sentence))
                continue
            damage += part.damage
            if part.text.limit != 0:
                self.parts.append(part)
        if damage and not self.parts:
            what = f"no record of it is certain to be complete: {damage[0].what}"
            raise TruncatedError(paths[0], what, remedy="Copy it again")
        kind, inferred = self._kind() if options.kind == "auto" else (options.kind, ())
        self.kind: Kind = kind
        self._unread = False  # there is a loss mask, and no option states which IDs it speaks of
        self._beside = self._mask_fields() if kind == "ids" and len(self._keys["ids"]) == 1 else ()
        plain = not any(part.text.compression for part in self.parts)
        indexes = [part.index for part in self.parts if part.index is not None]
        notes = [note for index in indexes for note in index.notes]
        if not plain:
            notes.append(
                "compressed lines are read from their start, so a record near the end takes as long as the whole file"
            )
        if self._unread:
            notes.append(f'the field "{LOSS_MASK}" of its records is not read: {MASK_OPTION}')
        known = len(indexes) == len(self.parts) and not self._lenient
        self.info = RecordInfo(
            kind=self.kind,
            size=sum(part.text.size for part in self.parts),
            records=sum(len(index.offsets) for index in indexes) if known else None,
            random_access=plain,
            json_lines=True,
            inferred=inferred,
            notes=tuple(notes),
            field=shown_path(self._keys[self.kind]),
            loss_masks=f"loss masks of its records ({', '.join(self._beside)})" if self._masked else "",
            extras={"files": len(self.parts), "indexes": [index.path.name for index in indexes]},
            damage=tuple(damage),
        )
        self._counts: list[int] | None = None

    def _kind(self) -> tuple[Kind, tuple[str, ...]]:
        """Return the kind of the first record, and the inferred facts; "ids" if there is no line."""
        nothing: Kind = "ids"
        parser = Parser("text", self._keys["text"], others=True)
        for lines in itertools.chain.from_iterable(part.lines(0, None) for part in self.parts):
            faults: list[TokfmtError] = []
            for index, line in enumerate(lines.tolist()):
                ids, text = _at(load(line), self._keys["ids"]), parser.one(line)
                if isinstance(ids, list) and all(type(token) is int for token in ids):
                    both = _BOTH.format(*map(shown_path, self._keys.values()))
                    return "ids", (both,) if isinstance(text, str) else ()
                if isinstance(text, str):
                    return "text", ()
                if ids is not None:
                    return "ids", ()
                if not self._lenient and isinstance(text, Fault) and not faults:
                    faults.append(line_error(lines, index, text))
                    if not self.collect:
                        break
                nothing = "text"
            if faults:  # None of the lines of 256 KiB is a record.
                raise faults[0]
        return nothing, ()

    def parser(self, *, others: bool) -> Parser:
        """Return a parser of these records; with `others`, it ignores other fields."""
        return Parser(self.kind, self._keys[self.kind], others, self._beside)

    def _mask_fields(self) -> tuple[str, ...]:
        """Return the fields of labels and of masks that the first record has, as far as they are to be read."""
        for lines in itertools.chain.from_iterable(part.lines(0, None) for part in self.parts):
            for line in lines.tolist():
                document = load(line)
                if isinstance(document, Document) and isinstance(document.value, dict):
                    record = document.value
                    names = (LABELS, *MASKS, *((LOSS_MASK,) if self.options.loss_mask else ()))
                    self._unread = self.options.loss_mask is None and isinstance(record.get(LOSS_MASK), list)
                    return tuple(name for name in names if isinstance(record.get(name), list))
        return ()

    @property
    def _masked(self) -> bool:
        """True if records have marks."""
        return bool(self._beside) and "loss-mask" not in self.allow_loss

    # Counts and blocks

    def count(self) -> int:
        return sum(self._counted())

    def count_up_to(self, last: int) -> int:
        """See `RecordReader.count_up_to`."""
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

    def _valid(self) -> Parser | None:
        return self.parser(others=True) if self._lenient else None

    def damaged_records(self) -> Sequence[Damage]:
        """See `RecordReader.damaged_records`."""
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
                        numbers.append(passed + lines.data.count(b"\n", 0, int(lines.starts[index])))
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
        """Yield the blocks of a file, or of its records `some`.

        Args:
            number: The number of the file.
            size: Bytes per block, about.
            some: The first record and the end, as numbers in the file; None for all.
            base: The number of the first record of the file in the dataset.
        """
        text, start, stop = self.parts[number].text, 0, self.parts[number].text.size
        if text.compression is not None:
            yield Block(number, 0, stop, *((base + some[0], some[1] - some[0]) if some else ()))
            return
        if some is not None:
            start, stop = self.parts[number].span(*some)
        while start < stop:
            end = min(stop, border(text, start + max(1, size), self.options.max_line))
            yield Block(number, start, end)
            start = end

    # records

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, skipped in self._parsed(block):
            begins = lines.begins()
            begins = begins if parsed.kept is None else begins[np.asarray(parsed.kept, np.int64)]
            yield RecordBatch(texts=parsed.values, skipped=skipped, begins=begins)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, skipped in self._parsed(block):
            tokens = array("I")  # Four times as fast as numpy.fromiter.
            for ids in parsed.values:
                tokens.fromlist(ids)
            ragged = Ragged(np.asarray(tokens, np.uint32), offsets_of([len(ids) for ids in parsed.values]))
            marks = self._marks(lines, parsed) if self._masked else None
            yield RecordBatch(ragged=ragged, skipped=skipped, marks=marks)

    def _marks(self, lines: Lines, parsed: Parsed) -> NDArray[np.uint8]:
        """Return the marks of records: 1 where each mask is not 0, and where labels have the ID of the token.

        Raises:
            FormatError: A record has no such field, or one of another length, or with other values.
        """
        found = [np.empty(0, np.uint8)]
        for index, ids in zip(range(len(lines)) if parsed.kept is None else parsed.kept, parsed.values, strict=True):
            try:
                fields: dict[str, Any] = _FIELDS.decode(lines[index])
                fields = {name: json.loads(bytes(fields[name])) for name in self._beside if name in fields}
            except (msgspec.DecodeError, UnicodeDecodeError):  # NaN or lone surrogates in another field
                fields = json.loads(lines[index])
            marks = np.ones(len(ids), np.uint8)
            for name in self._beside:
                counts = self._counted_in(lines, index, name, fields.get(name), ids)
                if name == LOSS_MASK and self.options.loss_mask == "next":
                    counts = np.append(False, counts)[: len(counts)]
                marks &= counts
            found.append(marks)
        return np.concatenate(found)

    @staticmethod
    def _counted_in(lines: Lines, index: int, name: str, values: object, ids: list[int]) -> NDArray[np.bool_]:
        """Return which tokens of a record count by one of its fields."""
        remedy = "Correct it; --allow-loss loss-mask reads the IDs without it"
        if not isinstance(values, list) or len(values) != len(ids):
            found = counted(len(values), "value") if isinstance(values, list) else kind_of(values)
            what = f'has no field "{name}" of {counted(len(ids), "value")}, one for each ID'
            raise line_error(lines, index, Fault(what, found=found, remedy=remedy))
        left_out, expected = (IGNORED, "the ID of its token, or -100") if name == LABELS else (0, "0 or 1")
        wanted = ids if name == LABELS else [1] * len(ids)
        for value, token in zip(values, wanted, strict=True):
            if type(value) not in (int, bool) or value not in (left_out, token):
                what = f'has a value in field "{name}" that is not {expected}'
                raise line_error(lines, index, Fault(what, found=str(value), remedy=remedy))
        return np.array([value != left_out for value in values], np.bool_)

    def lines(self, block: Block) -> Iterator[RecordBatch]:
        for lines, parsed, skipped in self._parsed(block, whole=True):
            kept = lines if parsed.kept is None else lines.take(np.asarray(parsed.kept, np.int64))
            tokens = sum(map(len, parsed.values)) if self.kind == "ids" else None
            yield RecordBatch(lines=kept.tolist(), tokens=tokens, skipped=skipped)

    def _parsed(self, block: Block, *, whole: bool = False) -> Iterator[tuple[Lines, Parsed, SkippedRecords]]:
        """Yield the lines, the records and the skipped records of a block, about 256 KiB at a time.

        With `whole`, records are kept as lines, so other fields are not a loss.
        """
        part, (skip, take) = self.parts[block.file], self._window(block)
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
        return block.first - sum(part.records() for part in self.parts[: block.file]), block.records

    def _raise(self, lines: Lines, parsed: Parsed) -> None:
        for index, problem in parsed.problems:
            left_out = "invalid-lines" in self.allow_loss or (self._partial and _is_damage(problem))
            if not isinstance(problem, Fault) or not (self.collect or left_out):
                raise line_error(lines, index, problem)

    def record(self, index: int) -> str | list[int]:
        block = self.blocks(1, index, index + 1)[0]
        for _, parsed, _ in self._parsed(block, whole=True):
            if parsed.values:
                value: str | list[int] = parsed.values[0]
                return value
        raise IndexError(f"record {index}")

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


def _at(document: Document | Fault, keys: tuple[str, ...]) -> object:
    """Return the value at a path of keys in a line; None without one."""
    value = document.value if isinstance(document, Document) else None
    try:
        for key in keys:
            value = step(value, key)
    except ValueError:
        return None
    return value


def _fields(file: int, lines: Lines, parsed: Parsed, parser: Parser) -> SkippedRecords:
    """Count the records with fields besides the one that is read, and these fields."""
    counts, others, first = Counter[str](), 0, None
    for index in range(len(lines)) if parsed.kept is None else parsed.kept:
        names = parser.names(lines[index])
        if names:
            counts.update(names)
            others += 1
            first = first or (file, lines.begin(index))
    return SkippedRecords(others=others, first=first, fields=dict(counts))


def files_of(paths: Sequence[Place]) -> list[Place]:
    """Return the given files, and the *.jsonl(.gz, .zst) of the given directories in natural order.

    Raises:
        FormatError: A directory holds no such file, or the same file plain and compressed.
    """
    return [file for path in paths for file in (_in_directory(path) if path.is_dir() else [path])]


def _in_directory(path: Place) -> list[Place]:
    names = sorted(filter(FILE_NAME.fullmatch, names_in(path)), key=natural_key)
    if not names:
        raise FormatError(path, "holds no *.jsonl, *.jsonl.gz or *.jsonl.zst")
    stems: dict[str, str] = {}
    for name in names:
        stem = name.removesuffix(".gz").removesuffix(".zst")
        if stem in stems:
            raise FormatError(
                path,
                f"holds {stems[stem]} and {name}: the same records twice",
                remedy="Remove one of them, or name the files to be read",
            )
        stems[stem] = name
    return [path / name for name in names]
