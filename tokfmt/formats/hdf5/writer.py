"""Write HDF5 samples as documented, and plain corpora.

The stream has a separator after each sequence. HDF5 files cannot be written by several processes, so a region writes
the compressed chunks of its samples to a part, `DST.parts/000012`, and `gather` stores them in order, as they are,
while other regions are being compressed:

    part      bytes          content
    chunks    sum of sizes   one zlib stream a sample (raw where that would not be smaller)
    sizes     4 a sample     uint32 bytes of each chunk; bit 31 set: raw

The HDF5 library runs in one process here and decides every byte that is not a chunk; times are not tracked, so the same
chunks give the same file. `libver` is held back so that HDF5 1.10 reads what HDF5 2 writes.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import OptionError, TokenRangeError
from tokfmt.core.files import write_error, writing
from tokfmt.core.format import Receipt, Region, Target, TokenWriter, WriterTraits
from tokfmt.core.loss_mask import TARGET
from tokfmt.core.messages import to_option
from tokfmt.core.output import Output, copy_region, whole
from tokfmt.core.protocols import Sampled, marks_of
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import INT32_MAX, U16, U32, WINDOW, Dtype, Separators, TokenReader, check_ids, windows
from tokfmt.core.rows import ROWS
from tokfmt.formats.hdf5.container import WriterAttributes
from tokfmt.formats.hdf5.options import WriteOptions
from tokfmt.formats.hdf5.table import REACH, Packer
from tokfmt.views.select import lost_empties
from tokfmt.views.view import WithSeparators

RAW = 1 << 31
"""Set in a part's sizes for a chunk that is not compressed."""
_REGION, _SPREAD = 1 << 21, 64
"""Tokens of a region at least, and regions at least where they would be smaller: the last ones are gathered when all
jobs but one are idle, and of three regions two jobs do the third alone."""
_LIBRARY_VERSIONS = ("earliest", "v110")

_Block: TypeAlias = tuple[int, Tokens, NDArray[np.int32], NDArray[np.bool_]]


def write_chunks(out: BinaryIO, packer: Packer, samples: NDArray[np.int32], full: NDArray[np.bool_]) -> list[int]:
    """Write samples to a part, which of them are `full`; the size of each as it is kept there.

    In one call: with one a sample, writing took three times as long, most of it under the interpreter's lock.
    """
    chunks = [packer.pack(sample, full=k) for sample, k in zip(samples, full.tolist(), strict=True)]
    out.write(b"".join(data for data, _ in chunks))
    return [len(data) | RAW * raw for data, raw in chunks]


def read_part(path: Path, count: int) -> Iterator[tuple[memoryview, bool]]:
    """Every one of the `count` chunks of a part, in order, and whether it is raw; about a megabyte is read at once."""
    with writing(path), open(path, "rb") as file:
        file.seek(-4 * count, os.SEEK_END)
        sizes = np.frombuffer(file.read(4 * count), np.uint32)
        lengths = (sizes & (RAW - 1)).astype(np.int64)
        file.seek(0)
        for piece in np.split(np.arange(count), np.flatnonzero(np.diff(np.cumsum(lengths) >> 20)) + 1):
            held, end = memoryview(file.read(int(lengths[piece].sum()))), 0
            for size in sizes[piece].tolist():
                begin, end = end, end + (size & (RAW - 1))
                yield held[begin:end], bool(size & RAW)


def remove_part(path: Path) -> None:
    """A part whose chunks are where they belong."""
    with writing(path):
        os.unlink(path)


class SampleFile:
    """A sample file that is being filled.

    Args:
        path: It does not exist yet.
        shape: Samples, and tokens in each.
        facts: For the attributes.
        shuffle: Whether the chunks went through the shuffle filter.
    """

    def __init__(self, path: Path, shape: tuple[int, int], facts: WriterAttributes, *, shuffle: bool) -> None:
        count, width = shape
        self.path, self._filled = path, 0
        self._deflate = 1 << int(shuffle)  # its bit in the filter mask
        with _worded(path):
            self._file = _new(path)
            self._file.attrs.create("n_examples", np.int64(count))
            data = self._file.create_dataset(
                "data",
                shape=(count, 3, width),
                maxshape=None if count else (None, 3, width),
                dtype="<i4",
                chunks=(1, 3, width),
                compression="gzip",
                shuffle=shuffle,
                track_times=False,
            )
            _annotate(data, facts)
            self._store = data.id.write_direct_chunk

    def add(self, chunks: Iterator[tuple[memoryview, bool]]) -> None:
        """The next samples, and whether each is raw."""
        with _worded(self.path):
            for sample, (chunk, raw) in enumerate(chunks, self._filled):
                self._store((sample, 0, 0), chunk, self._deflate if raw else 0)
                self._filled = sample + 1

    def close(self) -> None:
        """Write what the library still holds."""
        with _worded(self.path):
            self._file.close()


def empty_corpus(path: Path, tokens: int, dtype: Dtype, facts: WriterAttributes) -> None:
    """Write a corpus file of zeros, its space allocated in one piece."""
    with _worded(path), _new(path) as file:
        from h5py import Dataset, h5d, h5p, h5s, h5t

        properties = h5p.create(h5p.DATASET_CREATE)
        properties.set_layout(h5d.CONTIGUOUS)
        properties.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        properties.set_fill_time(h5d.FILL_TIME_NEVER)
        properties.set_obj_track_times(False)
        kind = h5t.py_create(dtype.newbyteorder("<"))
        made = h5d.create(file.id, b"data", kind, h5s.create_simple((tokens,)), properties)
        _annotate(Dataset(made), facts)


def corpus_place(path: Path) -> int:
    """Byte offset of a corpus file's first token."""
    import h5py

    with h5py.File(os.fspath(path), "r", locking=False) as file:
        return int(file["data"].id.get_offset())


def _annotate(data: Any, facts: WriterAttributes) -> None:
    data.attrs.create("stride", np.bytes_(facts.stride))
    numbers = {name: getattr(facts, name) for name in WriterAttributes._fields[1:]}
    for name, value in numbers.items():
        if value is not None:
            data.attrs.create(name, np.int64(value))


def _new(path: Path) -> Any:
    os.environ["HDF5_PLUGIN_PRELOAD"] = "::"
    import h5py

    return h5py.File(os.fspath(path), "x", libver=_LIBRARY_VERSIONS, locking=False)


@contextmanager
def _worded(path: Path) -> Iterator[None]:
    """The library's errors as ConversionError."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        found = re.search(r"errno = (\d+)", str(error))
        code = int(found[1]) if found else getattr(error, "errno", None) or errno.EIO
        raise write_error(path, OSError(code, os.strerror(code))) from error


def traits(options: WriteOptions) -> WriterTraits:
    """See `Format.writer_traits`."""
    corpus = options.layout == "corpus"
    return WriterTraits(
        Separators.BETWEEN,
        separated=True,
        keeps_masks=not corpus and options.stride == "overlap",
        sample_length=None if corpus else options.seq_len,
        gathers=not corpus,
        lost=lost_empties,
    )


def row_traits(options: WriteOptions) -> WriterTraits:
    """See `Format.row_writer`."""
    return WriterTraits(keeps_masks=True, keeps_labels=True, sample_length=options.seq_len, gathers=True)


def make_writer(path: Path, options: WriteOptions, target: Target) -> TokenWriter:
    """The writer of the layout asked for."""
    if options.layout == "corpus":
        return CorpusWriter(path, options, target)
    return SampleWriter(path, options, target)


class _Files:
    """The files of a destination: one `.h5`, or `data-00000.h5` ... of a directory, near-equal in size.

    Attributes:
        bounds: Rows before each file, and the end.
    """

    def __init__(self, path: Path, rows: int, most: int) -> None:
        self.path = path
        self.single = path.suffix == ".h5"
        count = 1 if self.single else max(1, -(-rows // most))
        self.bounds = [rows * k // count for k in range(count + 1)]

    def name(self, number: int) -> Path:
        return self.path if self.single else self.path / f"data-{number:05d}.h5"

    def of(self, row: int) -> int:
        """The file that holds a row."""
        return int(np.searchsorted(self.bounds, row, side="right")) - 1

    def cut(self, size: int) -> Iterator[tuple[int, int]]:
        """Intervals of at most `size` rows, none across two files."""
        for first, last in pairwise(self.bounds):
            yield from windows(first, last, size)


class SampleWriter(TokenWriter):
    """Samples [n, 3, seq_len] of the stream; the last one is padded, so nothing is dropped."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.eos_id = path, options, target.eos_id or 0
        self.keep_parts, self.allow_loss = target.keep_parts, target.allow_loss
        if self.eos_id > INT32_MAX:
            raise TokenRangeError("hdf5", self.eos_id, INT32_MAX, 0, "The separator does not fit an int32")
        self.pad_id = self.eos_id if options.pad is None else options.pad
        self.step = options.seq_len + (options.stride == "disjoint")
        self.shuffle = options.seq_len > REACH if options.shuffle is None else options.shuffle
        self._gathering: _Gathering | None = None

    def _masked(self, source: TokenReader) -> bool:
        """In windows side by side the first token of each is no label, and has no place in the mask."""
        return traits(self.options).keeps_masks and "loss-mask" not in self.allow_loss and marks_of(source) is not None

    def _length(self, source: TokenReader) -> int:
        """Tokens of the stream that are written.

        A sample needs two. Where windows lie side by side and only the last separator is left for the last one, it is
        not written: the end of the stream ends the document as well.
        """
        total = WithSeparators(source, self.eos_id).info.tokens
        return total - 1 if self.step > self.options.seq_len and total % self.step == 1 else total

    def _files(self, source: TokenReader) -> _Files:
        shared = int(self.step == self.options.seq_len)  # overlapping windows share a token with the next
        samples = max(0, -(-(self._length(source) - shared) // self.step))
        return _Files(self.path, samples, self.options.file_samples)

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        size = min(size, max(_REGION, self._length(source) // _SPREAD))
        cuts = list(self._files(source).cut(max(1, size // self.step)))
        length = self._length(source)
        bounds = [range(a * self.step, b * self.step) for a, b in cuts]
        if bounds:
            bounds[-1] = range(bounds[-1].start, length)
        pairs = enumerate(zip(cuts, bounds, strict=True))
        return [Region(index, range(first, last), tokens) for index, ((first, last), tokens) in pairs]

    def _own(self, source: TokenReader) -> WriterAttributes:  # noqa: ARG002 - rows have their own padding
        """The attributes of the files, but for what each holds of the stream."""
        return WriterAttributes(self.options.stride, self.eos_id, self.pad_id, 0, 0)

    @property
    def parts(self) -> Path:
        """Where the parts are."""
        return self.path.with_name(f"{self.path.name}.parts")

    def create(self, source: TokenReader) -> None:  # noqa: ARG002 - parts need nothing of it
        with writing(self.path):
            self.parts.mkdir()
            if self.path.suffix != ".h5":
                self.path.mkdir()

    def write(self, region: Region, source: TokenReader) -> Receipt:
        packer, cut = Packer(self.options.seq_len, shuffle=self.shuffle), max(1, WINDOW // (3 * self.options.seq_len))
        cuts = windows(region.sequences.start, region.sequences.stop, cut)
        top, done, sizes = -1, 0, np.empty(len(region.sequences), np.uint32)
        with whole(self.parts / f"{region.index:06d}") as out:
            for start, tokens, samples, plain in self._blocks(source, cuts):
                top = max(top, check_ids(tokens, INT32_MAX, start, "hdf5"))
                sizes[done : done + len(samples)] = write_chunks(out, packer, samples, plain)
                done += len(samples)
            out.write(sizes.data)
            written = out.tell()
        return Receipt(region.index, top, written, len(region.sequences))

    def _blocks(self, source: TokenReader, cuts: Iterable[tuple[int, int]]) -> Iterator[_Block]:
        """Samples: position of the tokens they are made of, these, <i4[n, 3, seq_len], which of them are plain."""
        stream, length, masked = WithSeparators(source, self.eos_id), self._length(source), self._masked(source)
        for first, last in cuts:
            start, stop = first * self.step, min(length, (last - 1) * self.step + self.options.seq_len + 1)
            tokens = stream.tokens(start, stop)
            samples, full = self._samples(tokens, last - first)
            plain = np.arange(last - first) < full
            if masked and (marks := marks_of(stream, start, stop)) is not None:
                samples[:, 1] = self._windows(marks & TARGET, last - first, 0)[:, 1:]
                plain &= samples[:, 1].all(1)
            yield start, tokens, samples, plain

    def _samples(self, tokens: Tokens, count: int) -> tuple[NDArray[np.int32], int]:
        """Windows of the stream as <i4[count, 3, seq_len], padded behind its end; and how many are full."""
        width, each = self.options.seq_len, self._windows(tokens, count, self.pad_id)
        samples = np.empty((count, 3, width), np.dtype("<i4"))
        samples[:, 0], samples[:, 1], samples[:, 2] = each[:, :-1], 1, each[:, 1:]
        valid = len(tokens) - 1 - (count - 1) * self.step  # of the last sample; all others are full
        if valid < width:
            samples[-1, 1, valid:] = 0
            samples[-1, 0, valid:] = self.pad_id
        return samples, count - (valid < width)

    def _windows(self, values: NDArray[Any], count: int, pad: int) -> NDArray[np.int32]:
        """<i4[count, seq_len + 1]: what each sample is made of, of the values of some tokens, padded behind them."""
        padded = np.full((count - 1) * self.step + self.options.seq_len + 1, pad, np.dtype("<i4"))
        padded[: len(values)] = values
        return np.lib.stride_tricks.sliding_window_view(padded, self.options.seq_len + 1)[:: self.step]

    def gather(self, source: TokenReader, receipt: Receipt) -> None:
        if self._gathering is None:
            self._gathering = self._gather_into(source)
        self._gathering.add(receipt)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        gathering, self._gathering = self._gathering or self._gather_into(source), None
        for receipt in receipts[gathering.regions :]:
            gathering.add(receipt)
        gathering.close()
        if not self.keep_parts:
            shutil.rmtree(self.parts)

    def _gather_into(self, source: TokenReader) -> _Gathering:
        files, length, masked = self._files(source), self._length(source), self._masked(source)
        stream = WithSeparators(source, self.eos_id)

        def begin(number: int) -> SampleFile:
            first, last = files.bounds[number : number + 2]
            at = first * self.step
            facts = self._own(source)._replace(first_token=at, stream_tokens=length)
            if masked and (marks := marks_of(stream, at, at + (first < last))) is not None:
                facts = facts._replace(first_mask=int((marks & TARGET).any()))
            files.name(number).unlink(missing_ok=True)  # of a commit that was cut off
            return SampleFile(files.name(number), (last - first, self.options.seq_len), facts, shuffle=self.shuffle)

        return _Gathering(files, begin, self.parts, keep=self.keep_parts)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_gathering": None}


def make_row_writer(path: Path, options: WriteOptions, target: Target, shifted: bool) -> RowWriter:
    """The writer of samples as they are; see `Format.row_writer`.

    Raises:
        OptionError: Labels that are not moved by one, or a corpus, which has no samples.
    """
    if not shifted:
        raise OptionError(
            'labels = "same": hdf5 stores labels that are moved by one. Say labels = "next" in the recipe'
        )
    if options.layout == "corpus":
        raise OptionError(
            f"{to_option('layout', 'corpus')}: samples of a recipe are no corpus. Leave seq_len out of the recipe"
        )
    return RowWriter(path, options, target)


class RowWriter(SampleWriter):
    """Samples [n, 3, seq_len] as they are: input_ids, mask and labels of a source that has them."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        super().__init__(path, options, target)
        self.step, self._separator = options.seq_len, target.eos_id

    def _masked(self, source: TokenReader) -> bool:  # noqa: ARG002 - the mask is that of the rows
        return False

    def _own(self, source: TokenReader) -> WriterAttributes:
        """Attributes that say that the rows are the sequences: no stream was cut."""
        return WriterAttributes(ROWS, self._separator, source.info.pad_id, 0, 0)

    def _length(self, source: TokenReader) -> int:
        return source.info.tokens

    def _files(self, source: TokenReader) -> _Files:
        return _Files(self.path, source.info.sequences, self.options.file_samples)

    def _blocks(self, source: TokenReader, cuts: Iterable[tuple[int, int]]) -> Iterator[_Block]:
        if not isinstance(source, Sampled):
            raise TypeError("rows are written of what has masks and labels")
        width = self.options.seq_len
        for first, last in cuts:
            start, stop = first * width, last * width
            tokens, samples = source.tokens(start, stop), np.empty((last - first, 3, width), np.dtype("<i4"))
            for field, values in enumerate((tokens, source.masks(start, stop), source.labels(start, stop))):
                samples[:, field] = values.reshape(-1, width)
            plain = samples[:, 1].all(1) & (samples[:, 2, :-1] == samples[:, 0, 1:]).all(1)
            yield start, tokens, samples, plain


class _Gathering:
    """The files of a destination, being filled from parts in order of region.

    Attributes:
        regions: How many of them are in the files.
    """

    def __init__(self, files: _Files, begin: Callable[[int], SampleFile], parts: Path, *, keep: bool) -> None:
        self.regions, self._rows, self._number = 0, 0, 0
        self._files, self._begin, self._parts, self._keep = files, begin, parts, keep
        self._file = begin(0)

    def add(self, receipt: Receipt) -> None:
        """Store the samples of the next region, which lie in one file."""
        if self._rows == self._files.bounds[self._number + 1]:
            self._file.close()
            self._number += 1
            self._file = self._begin(self._number)
        part, samples = self._parts / f"{receipt.region:06d}", int(receipt.details)
        self._file.add(read_part(part, samples))
        self.regions, self._rows = self.regions + 1, self._rows + samples
        if not self._keep:
            remove_part(part)

    def close(self) -> None:
        """Finish the last file."""
        self._file.close()


class CorpusWriter(TokenWriter):
    """The stream as one array, uint16 or uint32 by its largest id; contiguous, so that regions write by position."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.eos_id = path, options, target.eos_id or 0

    def _files(self, source: TokenReader) -> _Files:
        length = WithSeparators(source, self.eos_id).info.tokens
        return _Files(self.path, length, self.options.file_samples * self.options.seq_len)

    def wants_max_id(self, source: TokenReader) -> bool:  # noqa: ARG002 - of every source
        """See `TokenWriter.wants_max_id`."""
        return True

    def least_bytes(self, source: TokenReader) -> int:
        """See `TokenWriter.least_bytes`."""
        return source.info.tokens * 2

    def _dtype(self, source: TokenReader) -> Dtype:
        top = source.info.max_id
        return U16 if top is not None and max(top, self.eos_id) < 1 << 16 else U32

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        cuts = self._files(source).cut(size)
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(cuts)]

    def create(self, source: TokenReader) -> None:
        files = self._files(source)
        with writing(self.path):
            if not files.single:
                self.path.mkdir()
        for number, (first, last) in enumerate(pairwise(files.bounds)):
            facts = WriterAttributes("corpus", self.eos_id, None, first, files.bounds[-1])
            empty_corpus(files.name(number), last - first, self._dtype(source), facts)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        stored, files, dtype = WithSeparators(source, self.eos_id), self._files(source), self._dtype(source)
        number, top = files.of(region.tokens.start), -1
        place, limit = corpus_place(files.name(number)), (1 << 8 * dtype.itemsize) - 1
        little = dtype.newbyteorder("<")
        with Output(files.name(number)) as out:
            at = place + (region.tokens.start - files.bounds[number]) * dtype.itemsize
            if copied := copy_region(out, at, stored, region, little, limit):
                return copied
            for a, b in windows(region.tokens.start, region.tokens.stop):
                tokens = stored.tokens(a, b)
                top = max(top, check_ids(tokens, limit, a, "hdf5"))
                at = place + (a - files.bounds[number]) * dtype.itemsize
                out.write(at, tokens.astype(little, copy=False))
        return Receipt(region.index, top, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """Every file is complete when its regions are."""
