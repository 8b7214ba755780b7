"""Write columns: each region becomes a part file of record batches; the commit joins the parts.

The end of a group depends on the tokens alone, so that the output is the same for every choice of regions. If the
source has loss masks, labels are written with the IDs, and of samples also positions and padding; packed rows have
masks and starts. The commit copies parts to an Arrow stream, and encodes each record batch as a row group of Parquet.
"""

from __future__ import annotations

import bisect
import io
import itertools
import json
import shutil
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import xxhash
from numpy.typing import NDArray

from tokfmt.core.format import REGION, Receipt, Region, Target, TokenWriter, WriterTraits, lost_empties
from tokfmt.core.loss_mask import (
    ATTENTION,
    BEGINS,
    LABELS,
    LOSS_MASK,
    POSITIONS,
    STARTS,
    TARGET,
    beside_ids,
    of_next,
    places_stated,
)
from tokfmt.core.output import Output, preallocate, whole
from tokfmt.core.ragged import Offsets
from tokfmt.core.reader import Layout, Separators, TokenReader, check_ids, check_interval
from tokfmt.errors import ConversionError, Loss, OptionError
from tokfmt.files.file import File, Stream, writing
from tokfmt.formats.arrow.container import PACKED, arrow
from tokfmt.formats.arrow.options import WriteOptions
from tokfmt.model.select import Rows, View
from tokfmt.wording import counted

GROUP = 1 << 20
"""Tokens per row group or record batch. A row counts as 8 more tokens, so that empty rows fill a group as well."""

_ROW, _LONGEST = 8, 1 << 28
_MARKER = b"\xff\xff\xff\xff\0\0\0\0"
_WIDER = "--to-opt dtype=uint32 (or int64) has room"


class Packs(View):
    """View of sequences packed in order into rows of up to `size` predictions. Keeps 8 bytes per sequence.

    A sequence of n tokens makes n - 1 predictions: every token but the first is predicted.
    """

    def __init__(self, source: TokenReader, size: int, name: str) -> None:
        """Read all offsets of the source and assign its sequences to rows.

        Args:
            source: Reader without empty sequences.
            size: Maximum number of predictions per row.
            name: Name of the destination, for errors.
        """
        self._inner = source.offsets(0, source.info.sequences)
        lengths, predicted = np.diff(self._inner), self._inner - np.arange(len(self._inner))
        if (long := np.flatnonzero(lengths > size + 1)).size:
            what = (
                f"{counted(len(long), 'sequence')} of more than {size + 1:,} tokens (first: sequence {int(long[0]):,})"
            )
            remedy = (
                f'--to-opt pack_size={int(lengths.max()) - 1} holds the longest. A recipe with pack = "bestfit" and '
            )
            remedy += f'labels = "same" packs all, and cuts these, in rows of seq_len = {size}'
            raise ConversionError(f"{name}: {what}, which no row of pack_size={size} holds. {remedy}")
        firsts = [0]
        while firsts[-1] < len(lengths):
            firsts.append(int(np.searchsorted(predicted, predicted[firsts[-1]] + size, side="right")) - 1)
        self._offsets, rows = self._inner[firsts], len(firsts) - 1
        super().__init__(source, replace(source.info, layout=Layout.SAMPLES, sequences=rows, segmented=True))

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        return self._offsets[first : last + 1]

    def marks(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return the marks of the source, or TARGET for every token, with BEGINS where its sequences begin."""
        found = self.source.marks(start, stop)
        marks = np.full(stop - start, TARGET, np.uint8) if found is None else found.copy()
        begins = self._inner[np.searchsorted(self._inner, start) : np.searchsorted(self._inner, stop)]
        marks[begins - start] |= BEGINS
        return marks


def traits(options: WriteOptions, suffixes: tuple[str, ...]) -> WriterTraits:
    """Return the traits of a writer with these options; see `Format.writer_traits`."""
    if options.seq_len is not None and options.pack_size is not None:
        raise OptionError("seq_len and pack_size: rows are blocks of a stream, or packs of documents", name="pack_size")
    blocks = options.seq_len is not None
    return WriterTraits(
        Separators.AFTER if blocks else Separators.NONE,
        keeps_masks=True,
        keeps_separators=not blocks and options.pack_size is None,
        keeps_boundaries=not blocks,
        sample_length=options.seq_len,
        pack_size=options.pack_size,
        file_suffixes=suffixes,
        lost=partial(_lost, options),
    )


def _lost(options: WriteOptions, source: TokenReader, allow_loss: frozenset[str]) -> Sequence[Loss]:
    """Return what packed rows lose; raise OptionError if the source or the options do not fit them."""
    info = source.info
    if options.pack_size is not None and info.layout is Layout.SAMPLES and "pack_size" not in info.extras:
        what = f"--to-opt pack_size={options.pack_size}: packs documents, and the source holds samples with padding"
        remedy = "Leave out --from-opt view=samples, or give one recipe as the source"
        raise OptionError(f"{what}. {remedy}", name="pack_size")
    if not _packs(options, source, allow_loss):
        return []
    if options.column != PACKED[0]:
        what = f"--to-opt column={options.column}: packed rows have the columns {', '.join(PACKED)}. Leave it out"
        raise OptionError(what, name="column")
    return lost_empties(source)


def _packs(options: WriteOptions, source: TokenReader, allow_loss: frozenset[str]) -> bool:
    """Return True if rows are packed as Megatron-Bridge reads them, as they are to be, or are in the source."""
    within = source.info.segmented and "inner-boundaries" not in allow_loss and STARTS in source.info.fields
    return options.pack_size is not None or (within and options.seq_len is None)


class ColumnWriter(TokenWriter):
    """The common part of both writers: rows, their groups, regions and part files."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        arrow()
        self.path, self.options, self.target = path, options, target
        self._made: TokenReader | None = None
        self._numbers: list[int] | None = None
        self._finished: set[str] = set()
        self._beside: tuple[str, ...] | None = None
        self.ending: int | None = None
        self.masked = False
        plain = self.single or options.split is None or options.split.replace("-", "_").isidentifier()
        if not plain:
            raise OptionError(
                f"--split {options.split!r}: is not a name of a split (expected letters, digits, _ and -)",
                name="split",
            )

    suffixes: tuple[str, ...]

    @property
    def single(self) -> bool:
        """True if the destination is one file, not a folder."""
        return self.path.suffix in self.suffixes

    @property
    def schema(self) -> Any:
        """Columns and metadata of the destination: pyarrow.Schema with the features of Hugging Face."""
        pa = arrow()
        about = {"info": {"features": self.features}}
        own: dict[str, object] = {"rows": "documents" if self.options.seq_len is None else "blocks"}
        if self.ending is not None:
            own["eos_id"] = self.ending
        more = {"huggingface": json.dumps(about), "tokfmt": json.dumps(own)}
        lists = ((name, pa.list_(pa.field("element", getattr(pa, dtype)()))) for name, dtype in self._types)
        return pa.schema([pa.field(name, kind) for name, kind in lists], metadata=more)

    @property
    def _types(self) -> list[tuple[str, str]]:
        """Name of each column, and the dtype of the items in its lists."""
        wide = self.options.dtype in ("uint32", "int64")
        known = {LABELS: "int64" if wide else "int32", LOSS_MASK: "int8", ATTENTION: "int8"}
        return [(self.options.column, self.options.dtype), *((name, known.get(name, "int32")) for name in self._names)]

    @property
    def features(self) -> dict[str, object]:
        """The columns as `datasets` describes them."""
        return {name: {"feature": {"dtype": dtype, "_type": "Value"}, "_type": "List"} for name, dtype in self._types}

    def _rows(self, source: TokenReader) -> TokenReader:
        if self._made is None:
            if self._beside is None:
                self._beside = self._columns_beside(source)
            self.ending = source.info.eos_id if source.info.separators is Separators.TRAILING else None
            self._made = self._arranged(source)
        return self._made

    def _columns_beside(self, source: TokenReader) -> tuple[str, ...]:
        """Return the names of the columns beside the IDs."""
        options, allow_loss, info = self.options, self.target.allow_loss, source.info
        self.masked = source.marks(0, 0) is not None and "loss-mask" not in allow_loss
        if _packs(options, source, allow_loss):
            return LOSS_MASK, STARTS
        labels = (LABELS,) if self.masked and not info.unmasked else ()
        if not self.masked or info.layout is not Layout.SAMPLES or options.seq_len is not None:
            return labels
        left = (POSITIONS,) if "inner-boundaries" in allow_loss else ()
        return *labels, *(name for name in places_stated(source) if name not in left)

    @property
    def packed(self) -> bool:  # type: ignore[override]
        """See `TokenWriter.packed`; not if this writer packs documents itself, which are counted."""
        return self.options.pack_size is None and not {POSITIONS, ATTENTION, STARTS}.isdisjoint(self._names)

    @property
    def _names(self) -> tuple[str, ...]:
        return self._beside or ()

    def _arranged(self, source: TokenReader) -> TokenReader:
        if self.options.pack_size is not None and source.info.layout is not Layout.SAMPLES:
            return Packs(source, self.options.pack_size, self.path.name)
        return source if self.options.seq_len is None else Rows(source, self.options.seq_len)

    def _weight(self, rows: TokenReader, row: int) -> int:
        return int(rows.offsets(row, row)[0]) + row * _ROW

    def _row_from(self, rows: TokenReader, weight: int, first: int) -> int:
        """Return the first row, from one on, of at least this weight: where a group begins, if it is one of a group.

        Few rows are looked at: where they are not known, that decodes their neighbors.
        """
        count, total, start = rows.info.sequences, rows.info.tokens, int(rows.offsets(first, first)[0])
        more = max(0, weight - start - first * _ROW)
        near = count if start + more >= total else rows.sequence_at(start + more) + 2
        stop = min(count, near, first + more // _ROW + 1)
        return bisect.bisect_left(range(stop), weight, first, key=partial(self._weight, rows))

    def _cuts(self, rows: TokenReader, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the first row and the end of each group of some rows, in order."""
        total = rows.info.tokens
        while first < last:
            start = int(rows.offsets(first, first)[0])
            near = last if start + GROUP >= total else rows.sequence_at(start + GROUP) + 2
            stop = min(last, near, first + GROUP // _ROW + 1)
            weights = rows.offsets(first, stop)[:-1] + np.arange(first, stop) * _ROW
            stop = first + int(np.searchsorted(weights, (weights[0] // GROUP + 1) * GROUP))
            yield first, stop
            first = stop

    def _file_of(self, rows: TokenReader, row: int) -> int:
        """Return the number of the file of a group with this first row; not all numbers have a file."""
        return 0 if self.single else int(rows.offsets(row, row)[0]) // self.options.shard_size

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        rows, found, first = self._rows(source), list[Region](), 0
        count, total = rows.info.sequences, rows.info.tokens
        while first < count:
            start = int(rows.offsets(first, first)[0])
            end = total if self.single else (self._file_of(rows, first) + 1) * self.options.shard_size
            last = count
            if total - start > size:  # up to the group that holds the position, or after the first group
                key = self._weight(rows, rows.sequence_at(start + size)) // GROUP
                key = max(key, self._weight(rows, first) // GROUP + 1)
                last = self._row_from(rows, key * GROUP, first)
            if total > end:  # up to the first group that begins in another file
                row = rows.sequence_at(end - 1) + 1
                key = self._weight(rows, row - 1) // GROUP + 1
                last = min(last, self._row_from(rows, key * GROUP, row - 1))
            found.append(self._region(len(found), rows, first, last))
            first = last
        return found

    @property
    def finishes_files(self) -> bool:  # type: ignore[override]
        """True for a folder."""
        return not self.single

    def _path_of(self, source: TokenReader, first: int) -> Path:
        """Return the file of a folder that stores a row."""
        rows = self._rows(source)
        if self._numbers is None:
            firsts = [region.sequences.start for region in self.regions(source, REGION)]
            self._numbers = sorted({self._file_of(rows, row) for row in firsts})
        number = bisect.bisect_left(self._numbers, self._file_of(rows, first))
        return self.home / self.name(number, len(self._numbers))

    def files_of(self, source: TokenReader, region: Region) -> Sequence[Path]:
        """Return the file that stores the rows of a region; none if the destination is one file."""
        return () if self.single else [self._path_of(source, region.sequences.start)]

    def finish_files(self, source: TokenReader, regions: Sequence[Region], receipts: Sequence[Receipt]) -> object:
        """Join the parts of a file, and return its name."""
        path = self._path_of(source, regions[0].sequences.start)
        self._join_file(path, receipts)
        self.recall_files(path.name)
        return path.name

    def recall_files(self, facts: object) -> None:
        self._finished.add(str(facts))

    def parts_of(self, regions: Sequence[Region]) -> Sequence[Path]:
        """Return the parts of regions."""
        return [self._part(region.index) for region in regions]

    def _join_file(self, path: Path, receipts: Sequence[Receipt]) -> None:
        path.unlink(missing_ok=True)  # an interrupted run may have left it
        preallocate(path, 0)
        with Output(path) as out:
            self.join(out, [File(self._part(receipt.region)) for receipt in receipts])

    def _region(self, index: int, rows: TokenReader, first: int, last: int) -> Region:
        return Region(index, range(first, last), range(*(int(rows.offsets(at, at)[0]) for at in (first, last))))

    @property
    def _parts(self) -> Path:
        return self.path.with_name(f"{self.path.name}.parts")

    @property
    def home(self) -> Path:
        """The folder of the files."""
        return self.path

    def create(self, source: TokenReader) -> None:  # noqa: ARG002 - sizes are known at the commit
        with writing(self.path):
            self._parts.mkdir(exist_ok=True)
            if not self.single:
                self.home.mkdir(parents=True, exist_ok=True)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        rows, (first, last) = self._rows(source), (region.sequences.start, region.sequences.stop)
        top, digests = [-1], list[str]()
        with whole(self._part(region.index)) as out:
            self.encode(out, (self._batch(rows, a, b, top, digests) for a, b in self._cuts(rows, first, last)))
            written = out.tell()
        return Receipt(region.index, top[0], written, [self._file_of(rows, first), len(region.sequences), *digests])

    def _batch(self, rows: TokenReader, first: int, last: int, top: list[int], digests: list[str]) -> Any:
        """Return the record batch of some rows; update the largest ID in `top` and append digests of its columns."""
        pa = arrow()
        offsets = rows.offsets(first, last)
        start, stop = int(offsets[0]), int(offsets[-1])
        if stop - start > _LONGEST:
            what = f"{self.path.name}: sequence {first:,} has {stop - start:,} tokens, and rows are not split"
            raise ConversionError(f"{what}. --to-opt seq_len=N cuts the stream into rows of N tokens")
        dtype = np.dtype(self.options.dtype)
        ids = rows.tokens(start, stop)
        top[0] = max(top[0], check_ids(ids, int(np.iinfo(dtype).max), start, self.path.name, _WIDER))
        values = np.ascontiguousarray(ids, dtype)
        bounds = (offsets - start).astype(np.int32)
        columns = [(bounds, values), *self._others(rows, ids, start, bounds)]
        digests.extend(xxhash.xxh3_64_hexdigest(content.data) for _, content in columns)
        schema = self.schema
        arrays = [
            pa.ListArray.from_arrays(ends, np.ascontiguousarray(content, dtype), type=schema.field(k).type)
            for k, ((ends, content), (_, dtype)) in enumerate(zip(columns, self._types, strict=True))
        ]
        return pa.record_batch(arrays, schema=schema)

    def _others(self, rows: TokenReader, ids: Any, start: int, bounds: Any) -> Iterator[tuple[Any, Any]]:
        """Yield offsets and values of each column of labels or masks for some rows, in the order of `_types`."""
        if not self._names:
            return
        found = rows.marks(start, start + len(ids))
        marks = np.full(len(ids), TARGET, np.uint8) if found is None else found
        if STARTS not in self._names:
            yield from ((bounds, values) for values in beside_ids(self._names, ids, marks, bounds))
            return
        begins = marks & BEGINS != 0
        begins[bounds[:-1][bounds[:-1] < len(ids)]] = True
        yield bounds, of_next(marks if self.masked else np.full_like(marks, TARGET), begins)
        places = np.flatnonzero(begins)
        inside = np.searchsorted(bounds, places, side="right") - 1
        yield np.searchsorted(places, bounds).astype(np.int32), (places - bounds[inside]).astype(np.int32)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_made": None}

    def _part(self, region: int) -> Path:
        return self._parts / f"{region:06d}"

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        self._rows(source)  # sets the columns of this writer; receipts hold the rest
        files = [list(ours) for _, ours in itertools.groupby(receipts, key=lambda receipt: receipt.details[0])] or [[]]
        paths = [self.path if self.single else self.home / self.name(k, len(files)) for k in range(len(files))]
        for path, ours in zip(paths, files, strict=True):
            if path.name not in self._finished:
                self._join_file(path, ours)
        if not self.single:
            digests = (digest for receipt in receipts for digest in receipt.details[2:])
            self.describe(paths, xxhash.xxh3_64_hexdigest(" ".join(digests).encode()))
        if not self.target.keep_parts:
            shutil.rmtree(self._parts)

    @abstractmethod
    def encode(self, out: BinaryIO, batches: Iterator[Any]) -> None:
        """Write the record batches of a region as a part file."""

    @abstractmethod
    def join(self, out: Output, parts: Sequence[File]) -> None:
        """Write a file of the destination from its part files; without parts, a file without rows."""

    @abstractmethod
    def name(self, number: int, count: int) -> str:
        """Return the name of file `number` of `count` in a folder."""

    def describe(self, files: Sequence[Path], fingerprint: str) -> None:
        """Write the metadata files of a folder."""


class ParquetWriter(ColumnWriter):
    """Write X.parquet, or SPLIT-00000-of-00002.parquet ... in a folder."""

    suffixes = (".parquet", ".pq")

    def name(self, number: int, count: int) -> str:
        return f"{self.options.split or 'train'}-{number:05d}-of-{count:05d}.parquet"

    def encode(self, out: BinaryIO, batches: Iterator[Any]) -> None:
        pa = arrow()
        with pa.ipc.new_stream(out, self.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            for batch in batches:
                writer.write_batch(batch)

    def join(self, out: Output, parts: Sequence[File]) -> None:
        pa, file = arrow(), _Appended(out)
        with pa.parquet.ParquetWriter(file, self.schema, compression="zstd", use_dictionary=False) as writer:
            for part in parts:
                for batch in pa.ipc.open_stream(Stream(part)):
                    writer.write_batch(batch, row_group_size=max(1, batch.num_rows))


class _Appended(io.RawIOBase):
    """An output as a file that pyarrow appends to."""

    def __init__(self, out: Output) -> None:
        self._out, self._end = out, 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._end

    def write(self, data: Any) -> int:
        self._out.write(self._end, bytes(data))
        self._end += len(data)
        return len(data)


class ArrowWriter(ColumnWriter):
    """Write one stream X.arrow, or a folder as `save_to_disk` makes it; with `split`, a folder of a DatasetDict."""

    suffixes = (".arrow",)

    @property
    def home(self) -> Path:
        return self.path / self.options.split if self.options.split else self.path

    def name(self, number: int, count: int) -> str:
        return f"data-{number:05d}-of-{count:05d}.arrow"

    def encode(self, out: BinaryIO, batches: Iterator[Any]) -> None:
        out.writelines(batch.serialize() for batch in batches)

    def join(self, out: Output, parts: Sequence[File]) -> None:
        head = self.schema.serialize().to_pybytes()
        out.write(0, head)
        at = len(head)
        for part in parts:
            out.copy(at, part, 0, part.size)
            at += part.size
        out.write(at, _MARKER)

    def describe(self, files: Sequence[Path], fingerprint: str) -> None:
        state: dict[str, object] = {
            "_data_files": [{"filename": file.name} for file in files],
            "_fingerprint": fingerprint,
            "_format_columns": None,
            "_format_kwargs": {},
            "_format_type": None,
            "_output_all_columns": False,
            "_split": self.options.split,
        }
        info = {"citation": "", "description": "", "features": self.features, "homepage": "", "license": ""}
        written: list[tuple[Path, object]] = [
            (self.home / "state.json", state),
            (self.home / "dataset_info.json", info),
        ]
        if self.options.split:
            named = self.path / "dataset_dict.json"
            splits = json.loads(named.read_bytes())["splits"] if named.is_file() else []
            written.append((named, {"splits": list(dict.fromkeys([*splits, self.options.split]))}))
        for path, content in written:
            with whole(path, self._parts, stays=True) as out:
                out.write(json.dumps(content, indent=2, sort_keys=True).encode())
