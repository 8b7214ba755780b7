"""The base of formats of files whose records only reading finds: compressed files, records of varying length.

A format states four things:

    RecordFiles        `records(path)`, the records of one file in order, and which files there are
    RecordFilesWriter  `name(number)`, `write_file(out, sequences)`, and the index, if the format has one
    sniff, files       how the format recognizes a dataset, and which files belong to it
    codes              the codes `unreadable` and `damaged`

From these, the base classes provide blocks, batches and counts, `--allow-partial`, shards of `shard_size` tokens, any
order of tasks, resume, and `check`. `formats/README.md` has an example. Columns beside the IDs of records are read by
the rule of `model.rows`: the format states their names, and yields a `Row` for each record.
"""

from __future__ import annotations

import shutil
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.findings import Audit, Finding
from tokfmt.core.format import REGION, Format, Hints, Receipt, Region, Target, TokenWriter, WriterTraits
from tokfmt.core.inspection import Inspection, Unreadable
from tokfmt.core.loss_mask import TARGET
from tokfmt.core.output import whole
from tokfmt.core.padding import Contradictions, findings_of
from tokfmt.core.ragged import Ragged, offsets_of
from tokfmt.core.reader import Damage, TokenReader, batches, check_ids, check_interval
from tokfmt.core.records import Block, RecordBatch, RecordInfo, RecordReader, SkippedRecords
from tokfmt.errors import NO_DAMAGE, CorruptError, FormatError, Loss, TruncatedError, UnsafeError
from tokfmt.files.file import open_file
from tokfmt.files.place import Place
from tokfmt.model.rows import (
    Column,
    IdRows,
    Misfit,
    Reading,
    announcement,
    may_divide,
    some_rows,
    states_loss,
    unlike_labels,
    with_columns,
    without_masks,
)

_BATCH, _SMALL = 1 << 18, 1 << 12
"""Token IDs, or characters, from which a batch is complete, and those of rows of which only some are read."""


class Row(NamedTuple):
    """A record of token IDs."""

    ids: NDArray[np.integer[Any]]
    columns: Mapping[str, NDArray[np.int64]]  # the values of the columns beside them that it has, by name


Record = str | Sequence[int] | NDArray[np.integer[Any]] | Row
"""A record: its text, or its token IDs."""


class RecordFiles(RecordReader):
    """A reader of files of records, each of which is read from its beginning. A file is a block.

    With `Hints.allow_partial`, it reads every file when it is opened. The records before a `TruncatedError` are
    certain, and no record of a file with another error is.

    Attributes:
        report: Receives the error of a record whose columns contradict each other, after which the next one can be
            read. It raises the error, except in a check, which lists all of them.
        columns: The names of the columns that are read beside IDs.
        reading: How they are read.
        against: The rows that were compared with their padding, as `Reading.compares` states.
    """

    report: Callable[[FormatError], object]
    columns: Sequence[str] = ()
    reading: Reading = Reading()
    against: Contradictions = Contradictions()

    def __init__(
        self,
        kind: str,
        files: Sequence[Place],
        hints: Hints,
        *,
        counts: Sequence[int] | None = None,
        columns: Sequence[str] = (),
        reading: Reading | None = None,
        **facts: Any,
    ) -> None:
        """Open the files.

        Args:
            kind: "text" or "ids"; see `RecordInfo`.
            files: The files, in order.
            hints: The hints that the format got.
            counts: Number of records of each file, if an index states it. Files are compared with it.
            columns: Names of columns beside the IDs; see `model.rows.columns_to_read`.
            reading: How they are read; None: as `Reading()` states.
            facts: Further attributes of `RecordInfo`, such as `field`.

        Raises:
            FormatError: A file is missing, or cannot be opened.
        """
        self.places, self.report, self.reading = tuple(files), _raise, reading or Reading()
        self._is_text, self._is_plain = kind == "text", "loss-mask" in hints.allow_loss
        self._has_masks = states_loss(columns, self.reading) and not self._is_plain
        self.columns = tuple(columns)
        self._divides = may_divide(columns)
        self._stated = dict(enumerate(counts)) if counts is not None else {}
        self._counts, self._damaged = {} if self._divides else dict(self._stated), frozenset[int]()
        damage = self._certain() if hints.allow_partial else []
        self._sizes = [_size(path, is_needed=number not in self._damaged) for number, path in enumerate(self.places)]
        records = sum(self._counts.values()) if len(self._counts) == len(self.places) else None
        stated = ", ".join(name for name in columns if states_loss([name], self.reading))
        masks = facts.pop("loss_masks", f"loss masks of its records ({stated})")
        facts = {"field": kind, "loss_masks": masks if self._has_masks else "", **facts}
        if self._is_plain and states_loss(columns, self.reading):
            facts["lost"] = (*facts.get("lost", ()), Loss("loss-mask", masks))
        facts["notes"] = (*facts.get("notes", ()), *announcement(columns))
        self.info = RecordInfo(kind, sum(self._sizes), records, random_access=False, damage=tuple(damage), **facts)

    @abstractmethod
    def records(self, path: Place) -> Iterator[Record]:
        """Yield the records of a file in order.

        Raises:
            TruncatedError: The file ends too early. All records before are right.
            FormatError: The file is damaged in another way.
        """

    def _checked(self, number: int) -> Iterator[Record]:
        """Yield the records of a file, after which their number is compared with that of the index."""
        found, path = 0, self.places[number]
        for record in self.records(path):
            found += 1
            yield record
        stated = self._stated.get(number, found)
        if found < stated:
            raise TruncatedError(
                path, "ends before its last record", expected=f"{stated:,} records", found=f"{found:,}"
            )
        if found > stated:
            raise CorruptError(path, "holds more records than the index", expected=f"{stated:,}", found=f"{found:,}")

    def _certain(self) -> list[Damage]:
        """Read all files, keep the number of certain records of each, and return the damage."""
        damage = list[Damage]()
        for number, path in enumerate(self.places):
            found = 0
            try:
                for some in self._counted_records(number):
                    found += some
            except NO_DAMAGE:
                raise
            except FormatError as error:
                is_cut = isinstance(error, TruncatedError)
                found = found if is_cut else 0
                lost = self._stated[number] - found if number in self._stated and not self._divides else None
                damage.append(Damage(error.sentence, lost, None, 0 if is_cut else _size(path, is_needed=False)))
                self._damaged |= {number}
            self._counts[number] = found
        return damage

    def _count_in(self, number: int, most: int) -> int:
        """Return the number of records of a file, counted up to record `most` only, and remember it if it is exact."""
        if number in self._counts:
            return self._counts[number]
        found = 0
        for some in self._counted_records(number):
            found += some
            if found >= most:
                return found
        self._counts[number] = found
        return found

    def _counted_records(self, number: int) -> Iterator[int]:
        """Yield how many sequences each of the next records of a file holds."""
        if not self._divides:
            yield from (1 for _ in self._checked(number))
            return
        for batch in self._batches(number, self._checked(number), _SMALL):
            yield len(cast("Ragged", batch.ragged))

    def count(self) -> int:
        return self.count_up_to(sys.maxsize)

    def count_up_to(self, last: int) -> int:
        found = 0
        for number in range(len(self.places)):
            if found >= last:
                break
            found += self._count_in(number, last - found)
        return found

    def blocks(self, size: int, first: int = 0, last: int | None = None) -> Sequence[Block]:  # noqa: ARG002
        if last is None and not first and not self._damaged:
            return [Block(number, 0, bytes_) for number, bytes_ in enumerate(self._sizes)]
        there = self.count_up_to(sys.maxsize if last is None else last)
        last = there if last is None else last
        check_interval(first, last, there, "records")
        found, begin = list[Block](), 0
        for number, bytes_ in enumerate(self._sizes):
            held = self._count_in(number, last - begin) if begin < last else 0
            a, b = max(first, begin), min(last, begin + held)
            if a < b:
                found.append(Block(number, 0, bytes_, a, b - a))
            begin += held
        return found

    def texts(self, block: Block) -> Iterator[RecordBatch]:
        return self._sequences(block)

    def ids(self, block: Block) -> Iterator[RecordBatch]:
        return self._sequences(block)

    def _sequences(self, block: Block) -> Iterator[RecordBatch]:
        """Yield the records of a block. If it is a whole file, compare their number with that of the index."""
        skip, take = 0, sys.maxsize
        if block.records >= 0:
            skip = block.first - sum(self._count_in(number, sys.maxsize) for number in range(block.file))
            is_whole = not skip and self._counts.get(block.file) == block.records and block.file not in self._damaged
            take = sys.maxsize if is_whole else block.records
        records = self._checked(block.file)
        if not self._divides:
            some = records if take == sys.maxsize else islice(records, skip, skip + take)
            yield from self._batches(block.file, some, first=skip)
            return
        for batch in self._batches(block.file, records, _BATCH if take == sys.maxsize else _SMALL):
            ragged = cast("Ragged", batch.ragged)
            first, last = min(skip, len(ragged)), min(len(ragged), skip + take)
            rows = some_rows(IdRows(ragged.tokens, ragged.offsets, marks=batch.marks), first, last)
            skip, take = skip - first, take - (last - first)
            yield RecordBatch(ragged=Ragged(rows.tokens, rows.offsets), marks=rows.marks, skipped=batch.skipped)
            if not take:
                return

    def _batches(
        self, number: int, records: Iterable[Any], size: int = _BATCH, first: int = 0
    ) -> Iterator[RecordBatch]:
        """Yield records of a file, of which `first` is the number of the first one, about `size` IDs at a time."""
        for some in _grouped(records, size):
            if self._is_text:
                yield RecordBatch(texts=some)
            elif not self.columns:
                yield RecordBatch(ragged=Ragged.of(some))
            else:
                yield self._of_rows(self.places[number], first, some)
            first += len(some)

    def _of_rows(self, path: Place, first: int, records: Sequence[Row]) -> RecordBatch:
        """Return the sequences in records, with the marks of their IDs."""
        ids = Ragged.of([cast("Any", record.ids) for record in records])
        columns = {name: _column([record.columns.get(name) for record in records]) for name in self.columns}
        if self._is_plain:
            columns = without_masks(columns, ids.offsets)

        def wrong(misfit: Misfit) -> None:
            remedies = ["Correct that column"]
            remedies += ["--allow-loss loss-mask reads the IDs alone"] if self._has_masks else []
            what, remedy = f"record {first + misfit.row:,} {misfit.problem}", misfit.remedy or "; ".join(remedies)
            self.report(CorruptError(path, what, expected=misfit.expected, found=misfit.found, remedy=remedy))

        rows = with_columns(ids.tokens, ids.offsets, columns, self.reading, wrong)
        if self.reading.compares:
            self.against = self.against.joined(rows.against)
        for misfit in unlike_labels(rows, ids.tokens, ids.offsets, columns) if self._has_masks else ():
            wrong(misfit)
        stated = self._has_masks or (rows.facts.uncounted and not self._is_plain)
        marks = rows.marks & np.uint8(TARGET) if stated and rows.marks is not None else None
        noted = SkippedRecords(columns=rows.facts.numbers())
        return RecordBatch(ragged=Ragged(rows.tokens, rows.offsets), marks=marks, skipped=noted)

    def record(self, index: int) -> str | list[int]:
        (block,) = self.blocks(1, index, index + 1)
        for batch in self.ids(block):
            if batch.texts:
                return batch.texts[0]
            if batch.ragged is not None and len(batch.ragged):
                return cast("list[int]", batch.ragged[0].tolist())
        raise IndexError(f"record {index}")

    def close(self) -> None:
        """Do nothing: files are open only while they are read."""


def _column(values: Sequence[NDArray[np.int64] | None]) -> Column:
    """Return a column of rows, of which some may have no value."""
    there = [np.empty(0, np.int64) if value is None else value for value in values]
    joined = np.concatenate(there) if there else np.empty(0, np.int64)
    return Column(
        joined, offsets_of([len(one) for one in there]), np.array([value is not None for value in values], bool)
    )


def _raise(error: FormatError) -> None:
    raise error


def _size(path: Place, *, is_needed: bool) -> int:
    """Return the size of a file in bytes; 0 if it cannot be opened and is not needed."""
    try:
        with closing(open_file(path)) as file:
            return file.size
    except FormatError:
        if is_needed:
            raise
        return 0


def _grouped(records: Iterable[Any], most: int) -> Iterator[list[Any]]:
    """Yield records in lists of about `most` IDs or characters; at least one list, and those before a cut."""
    some, size = list[Any](), 0
    try:
        for record in records:
            some.append(record)
            parts = (record.ids, *record.columns.values()) if isinstance(record, Row) else (record,)
            size += max(map(len, parts)) + 1
            if size >= most:
                yield some
                some, size = [], 0
    except TruncatedError:
        yield some
        raise
    yield some


class RecordFilesWriter(TokenWriter):
    """The base of writers of such files in a folder: the options alone decide what each file holds.

    Attributes:
        limit: The largest ID that the format can store.
        suffixes: Suffixes of a destination that is one file; any other destination is a folder.
        files: Number of files, known when one is written.
    """

    limit: ClassVar[int] = 2**32 - 1
    suffixes: ClassVar[tuple[str, ...]] = ()
    files: int = 0

    def __init__(self, path: Path, options: Any, target: Target) -> None:
        """Make a writer of `path`; `options.shard_size` is the number of tokens per file of a folder."""
        self.path, self.options, self.target = path, options, target
        self.drafts = path.with_name(f"{path.name}.drafts")

    @property
    def is_folder(self) -> bool:
        return not self.path.name.endswith(self.suffixes or ("/",))

    def file(self, number: int) -> Path:
        """Return the path of file `number`."""
        return self.path / self.name(number) if self.is_folder else self.path

    @abstractmethod
    def name(self, number: int) -> str:
        """Return the name of file `number`, from 0."""

    @abstractmethod
    def write_file(self, out: IO[bytes], sequences: Iterator[NDArray[np.integer[Any]]]) -> None:
        """Write a file with these sequences, from its first byte to its last."""

    def indexes(self, counts: Sequence[tuple[int, int]]) -> Mapping[str, bytes]:  # noqa: ARG002 - none
        """Return the content of each file that is written last, by name. `counts`: (sequences, tokens) of each file."""
        return {}

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:  # noqa: ARG002 - a file is a region
        found, first, info = list[Region](), 0, source.info
        most = self.options.shard_size if self.is_folder else info.tokens
        while first < info.sequences:
            start = int(source.offsets(first, first)[0])
            last = max(first + 1, source.sequence_at(start + most))
            last = info.sequences if info.tokens - start <= most else last
            stop = int(source.offsets(last, last)[0])
            found.append(Region(len(found), range(first, last), range(start, stop)))
            first = last
        self.files = max(1, len(found))
        return found

    def create(self, source: TokenReader) -> None:  # noqa: ARG002 - the same for all
        if self.is_folder:
            self.path.mkdir(exist_ok=True)
        self.drafts.mkdir(exist_ok=True)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        top, at = -1, region.tokens.start
        if not self.files:  # Another process cut the regions of this task.
            self.regions(source, REGION)

        def sequences() -> Iterator[NDArray[np.integer[Any]]]:
            nonlocal top, at
            for batch in batches(source, region.sequences.start, region.sequences.stop):
                top = max(top, check_ids(batch.tokens, self.limit, at, self.path.name))
                at += len(batch.tokens)
                yield from batch

        with whole(self.file(region.index), self.drafts, stays=True) as out:
            self.write_file(out, sequences())
            written = out.tell()
        return Receipt(region.index, top, written, [len(region.sequences), len(region.tokens)])

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:  # noqa: ARG002 - the receipts have all
        self.files = max(1, len(receipts))
        indexes = self.indexes([tuple(receipt.details) for receipt in receipts])
        if not receipts and not indexes:
            with whole(self.file(0), self.drafts, stays=True) as out:
                self.write_file(out, iter(()))
        for name, content in indexes.items():
            with whole(self.path / name, self.drafts, stays=True) as out:
                out.write(content)
        if not self.target.keep_parts:
            shutil.rmtree(self.drafts)


class RecordFilesInspection(Inspection):
    """The inspection of such files. Only reading a file shows its problems."""

    def __init__(self, damaged: str, reader: RecordFiles, unsafe: str = "") -> None:
        """Hold the reader of the dataset.

        Args:
            unsafe: Code for a file that is not read because it could run code or exhaust memory; "": as `damaged`.
        """
        self._damaged, self._reader, self._unsafe = damaged, reader, unsafe or damaged

    def reader(self) -> RecordFiles:
        return self._reader

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. A deep check reads all records."""
        unfit = list[FormatError]()
        for block in self._reader.blocks(1) if how.deep else ():
            self._reader.report, self._reader.against = unfit.append, Contradictions()
            self._reader.reading = self._reader.reading._replace(compares=True)
            try:
                for batch in self._reader.ids(block):
                    ragged = batch.ragged
                    sizes = np.array([len(text) for text in batch.texts]) if ragged is None else np.diff(ragged.offsets)
                    how.advance(int(sizes.sum()))
                    self.see(sizes)
                    yield from (Finding.of(self._damaged, error) for error in unfit)
                    unfit.clear()
            except FormatError as error:
                yield from (Finding.of(self._damaged, one) for one in unfit)
                yield Finding.of(self._unsafe if isinstance(error, UnsafeError) else self._damaged, error)
            finally:
                self._reader.report = _raise
                unfit.clear()
            path = self._reader.places[block.file]
            yield from findings_of(self._damaged, path, self._reader.against, whole=True)

    def see(self, lengths: NDArray[np.int64]) -> None:
        """Look at the lengths of some sequences that a deep check read; a subclass yields what it saw in `look`."""


class RecordFilesFormat(Format):
    """The base of formats of such files. Define `sniff`, `files` and `codes` besides these attributes.

    Attributes:
        Reader: A subclass of `RecordFiles` that takes (paths, options, hints).
        Writer: A subclass of `RecordFilesWriter`; not needed if the format is `read_only`.
        inspection: A subclass of `RecordFilesInspection`, if a check looks at more.
        unreadable: Code for a dataset that cannot be opened.
        damaged: Code for a file whose records cannot be read.
        unsafe: Code for either of them if the error is an `UnsafeError`; "": the same codes.
    """

    Reader: ClassVar[type[Any]]
    Writer: ClassVar[type[Any]]
    unreadable: ClassVar[str]
    damaged: ClassVar[str]
    unsafe: ClassVar[str] = ""
    inspection: ClassVar[type[RecordFilesInspection]] = RecordFilesInspection

    def inspect(self, paths: Sequence[Place], options: Any, hints: Hints) -> Inspection:
        try:
            return self.inspection(self.damaged, self.Reader(paths, options, hints), self.unsafe)
        except FormatError as error:
            is_unsafe = self.unsafe and isinstance(error, UnsafeError)
            return Unreadable(self.unsafe if is_unsafe else self.unreadable, paths[0], error)

    def writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        return super().writer(path, options, target) if self.read_only else self.Writer(path, options, target)

    def writer_traits(self, options: Any) -> WriterTraits:
        """See `Format.writer_traits`. Sequences stay whole, and nothing stores a separator."""
        return super().writer_traits(options) if self.read_only else WriterTraits(file_suffixes=self.Writer.suffixes)
