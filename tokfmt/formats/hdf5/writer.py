"""Write HDF5 samples as upstream documents them, and plain corpora.

The stream has a separator after each sequence. Several processes cannot write one HDF5 file. So each region writes the
compressed chunks of its samples to a part file, `DST.parts/000012`. `join_parts` stores the chunks unchanged and in
order, while other regions are still being compressed:

    part      bytes          content
    chunks    sum of sizes   one zlib stream per sample (raw if that would not be smaller)
    sizes     4 per sample   uint32 bytes of each chunk; bit 31 set: raw

The HDF5 library runs in one process and writes every byte that is not a chunk. It does not store times, so the same
chunks always make the same file. `libver` is limited so that HDF5 1.10 reads files that HDF5 2 writes.
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
from isal import isal_zlib
from numpy.typing import NDArray

from tokfmt.core.format import Receipt, Region, Target, TokenWriter, WriterTraits, lost_empties, lost_nothing
from tokfmt.core.loss_mask import TARGET
from tokfmt.core.output import Output, copy_region, whole
from tokfmt.core.ragged import Tokens
from tokfmt.core.reader import INT32_MAX, U16, U32, WINDOW, Dtype, Separators, TokenReader, check_ids, windows
from tokfmt.core.rows import ROWS
from tokfmt.errors import OptionError, TokenRangeError
from tokfmt.files.file import write_error, writing
from tokfmt.formats.hdf5.options import WriteOptions
from tokfmt.formats.hdf5.stored import WriterAttributes

RAW = 1 << 31
"""Bit in the sizes of a part that marks a chunk without compression."""
_REGION, _SPREAD = 1 << 21, 64
"""Minimum tokens of a region, and minimum number of regions of a stream that is long enough for them.

Many regions keep all jobs busy: the last region is gathered while all jobs but one are idle, and if two jobs share
three regions, one of them compresses the third alone.
"""
_LIBRARY_VERSIONS = ("earliest", "v110")
_REACH = 4096
"""Maximum tokens of a sample whose labels deflate, which reaches back 32,768 bytes, can copy from its inputs."""
_LEVEL = 3
"""Only the levels 0 and 3 of ISA-L return the same bytes for every previous content of memory; 1 and 2 do not."""

_Block: TypeAlias = tuple[int, Tokens, NDArray[np.int32]]


def compressed(sample: NDArray[np.int32], *, shuffle: bool) -> tuple[bytes, bool]:
    """Return the chunk of a sample, <i4[3, width], and True if it is raw because compression would not make it smaller.
    With `shuffle`, all first bytes of the values come first, then all second ones, and so on.
    """
    plain = sample.reshape(-1).view(np.uint8)
    if shuffle:
        plain = np.ascontiguousarray(plain.reshape(-1, 4).T).reshape(-1)
    packed = isal_zlib.compress(plain, level=_LEVEL)
    return (packed, False) if len(packed) < plain.nbytes else (plain.tobytes(), True)


def write_chunks(out: BinaryIO, samples: NDArray[np.int32], *, shuffle: bool) -> list[int]:
    """Compress samples, <i4[count, 3, width], and write them to a part; return their sizes with the bit RAW.

    All samples are written in one call: one call per sample took three times as long, most of it under the lock of the
    interpreter.
    """
    chunks = [compressed(sample, shuffle=shuffle) for sample in samples]
    out.write(b"".join(data for data, _ in chunks))
    return [len(data) | RAW * raw for data, raw in chunks]


def read_part(path: Path, count: int) -> Iterator[tuple[memoryview, bool]]:
    """Yield the `count` chunks of a part in order, with True for raw ones; each read fetches about 1 MiB."""
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
    """Remove a part whose chunks were stored."""
    with writing(path):
        os.unlink(path)


class SampleFile:
    """A new sample file that is filled chunk by chunk.

    Args:
        path: Path of a file that does not exist yet.
        shape: Number of samples, and tokens per sample.
        facts: Attributes of `data`.
        shuffle: True if the chunks went through the shuffle filter.
    """

    def __init__(self, path: Path, shape: tuple[int, int], facts: WriterAttributes, *, shuffle: bool) -> None:
        count, width = shape
        self.path, self._filled = path, 0
        self._deflate = 1 << int(shuffle)  # bit of the deflate filter in a filter mask
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
        """Store the chunks of the next samples, each with True if it is raw."""
        with _worded(self.path):
            for sample, (chunk, raw) in enumerate(chunks, self._filled):
                self._store((sample, 0, 0), chunk, self._deflate if raw else 0)
                self._filled = sample + 1

    def close(self) -> None:
        """Write all data that the library still buffers, and close the file."""
        with _worded(self.path):
            self._file.close()


def empty_corpus(path: Path, tokens: int, dtype: Dtype, facts: WriterAttributes) -> None:
    """Create a corpus file with its attributes, and allocate the space of its tokens, with separators, in one piece."""
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
    """Return the byte offset of the first token in a corpus file."""
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
    """Turn the exceptions of the HDF5 library into a write error with the code of the operating system."""
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        found = re.search(r"errno = (\d+)", str(error))
        code = int(found[1]) if found else getattr(error, "errno", None) or errno.EIO
        raise write_error(path, OSError(code, os.strerror(code))) from error


def traits(options: WriteOptions) -> WriterTraits:
    """Return the traits of the writer of samples or of a corpus; see `Format.writer_traits`."""
    corpus = options.layout == "corpus"
    return WriterTraits(
        Separators.AFTER if corpus else Separators.BETWEEN,
        keeps_masks=not corpus and options.stride == "overlap",
        sample_length=None if corpus else options.seq_len,
        joins_under_lock=not corpus,
        lost=lost_nothing if corpus else lost_empties,
    )


def row_traits(options: WriteOptions, seq_len: int) -> WriterTraits:  # noqa: ARG001 - the same for all options
    """Return the traits of the writer of rows; see `Format.writer`."""
    return WriterTraits(keeps_masks=True, keeps_labels=True, sample_length=seq_len, joins_under_lock=True)


def make_writer(path: Path, options: WriteOptions, target: Target) -> TokenWriter:
    """Return the writer of rows, or of the given layout; see `Format.writer`."""
    if target.rows is not None and not target.rows.shifted:
        raise OptionError(
            'labels = "same": hdf5 stores labels that are shifted by one. Set labels = "next" in the recipe'
        )
    if target.rows is not None and options.layout == "corpus":
        raise OptionError(
            "--to-opt layout=corpus: samples of a recipe are not a corpus. Remove seq_len from the recipe"
        )
    if target.rows is not None:
        return RowWriter(path, options, target)
    if options.layout == "corpus":
        return CorpusWriter(path, options, target)
    return SampleWriter(path, options, target)


class _Files:
    """The files of a destination: one `.h5`, or `data-00000.h5` ... of a directory with nearly equal numbers of rows.

    Attributes:
        single: True if the destination is one file.
        bounds: Number of rows before each file, and of all rows.
    """

    def __init__(self, path: Path, rows: int, rows_per_file: int) -> None:
        self.path = path
        self.single = path.suffix == ".h5"
        count = 1 if self.single else max(1, -(-rows // rows_per_file))
        self.bounds = [rows * k // count for k in range(count + 1)]

    def name(self, number: int) -> Path:
        return self.path if self.single else self.path / f"data-{number:05d}.h5"

    def of(self, row: int) -> int:
        """Return the number of the file that holds a row."""
        return int(np.searchsorted(self.bounds, row, side="right")) - 1

    def cut(self, size: int) -> Iterator[tuple[int, int]]:
        """Yield intervals of at most `size` rows that never span two files."""
        for first, last in pairwise(self.bounds):
            yield from windows(first, last, size)


class SampleWriter(TokenWriter):
    """Write the stream as samples [n, 3, seq_len]. The last one is padded, so no token is dropped."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.eos_id = path, options, target.eos_id
        self.keep_parts, self.allow_loss = target.keep_parts, target.allow_loss
        if self.eos_id is not None and self.eos_id > INT32_MAX:
            raise TokenRangeError("hdf5", self.eos_id, INT32_MAX, 0, "The separator does not fit an int32")
        self.pad_id = (self.eos_id or 0) if options.pad is None else options.pad
        self.step = options.seq_len + (options.stride == "disjoint")
        self.shuffle = options.seq_len > _REACH if options.shuffle is None else options.shuffle
        self._gathering: _Gathering | None = None

    def _masked(self, source: TokenReader) -> bool:
        """Return True if the masks of the source are stored.

        Disjoint windows cannot store them: the first token of each is not a label, so no mask entry describes it.
        """
        return (
            traits(self.options).keeps_masks and "loss-mask" not in self.allow_loss and source.marks(0, 0) is not None
        )

    def _length(self, source: TokenReader) -> int:
        """Return the number of tokens of the stream that are written.

        A sample needs two tokens. If only the last separator is left for the last of disjoint windows, it is not
        written, because the end of the stream ends the document as well.
        """
        total = source.info.tokens
        return total - 1 if self.step > self.options.seq_len and total % self.step == 1 else total

    def _files(self, source: TokenReader) -> _Files:
        shared = int(self.step == self.options.seq_len)  # overlapping windows share a token with the next
        samples = max(0, -(-(self._length(source) - shared) // self.step))
        return _Files(self.path, samples, self.options.file_samples)

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        size = min(size, max(_REGION, self._length(source) // _SPREAD))
        cuts = list(self._files(source).cut(max(1, size // self.step)))
        bounds = [range(a * self.step, b * self.step) for a, b in cuts]
        if bounds:
            bounds[-1] = range(bounds[-1].start, source.info.tokens)
        pairs = enumerate(zip(cuts, bounds, strict=True))
        return [Region(index, range(first, last), tokens) for index, ((first, last), tokens) in pairs]

    def _own(self, source: TokenReader) -> WriterAttributes:  # noqa: ARG002 - rows have their own padding
        """Return the attributes that all files share; `_gather_into` adds those of each file."""
        return WriterAttributes(self.options.stride, self.eos_id, self.pad_id, 0, 0)

    @property
    def parts(self) -> Path:
        """The directory of the parts."""
        return self.path.with_name(f"{self.path.name}.parts")

    def create(self, source: TokenReader) -> None:  # noqa: ARG002 - parts need no space in advance
        with writing(self.path):
            self.parts.mkdir()
            if self.path.suffix != ".h5":
                self.path.mkdir()

    def write(self, region: Region, source: TokenReader) -> Receipt:
        cuts = windows(region.sequences.start, region.sequences.stop, max(1, WINDOW // (3 * self.options.seq_len)))
        top, done, sizes = -1, 0, np.empty(len(region.sequences), np.uint32)
        with whole(self.parts / f"{region.index:06d}") as out:
            for start, tokens, samples in self._blocks(source, cuts):
                top = max(top, check_ids(tokens, INT32_MAX, start, "hdf5"))
                sizes[done : done + len(samples)] = write_chunks(out, samples, shuffle=self.shuffle)
                done += len(samples)
            out.write(sizes.data)
            written = out.tell()
        return Receipt(region.index, top, written, len(region.sequences))

    def _blocks(self, source: TokenReader, cuts: Iterable[tuple[int, int]]) -> Iterator[_Block]:
        """Yield for each interval its first position, its tokens and <i4[n, 3, seq_len]."""
        length, masked = self._length(source), self._masked(source)
        for first, last in cuts:
            start, stop = first * self.step, min(length, (last - 1) * self.step + self.options.seq_len + 1)
            tokens = source.tokens(start, stop)
            samples = self._samples(tokens, last - first)
            if masked and (marks := source.marks(start, stop)) is not None:
                samples[:, 1] = self._windows(marks & TARGET, last - first, 0)[:, 1:]
            yield start, tokens, samples

    def _samples(self, tokens: Tokens, count: int) -> NDArray[np.int32]:
        """Return windows of the stream as <i4[count, 3, seq_len], the last one padded."""
        width, each = self.options.seq_len, self._windows(tokens, count, self.pad_id)
        samples = np.empty((count, 3, width), np.dtype("<i4"))
        samples[:, 0], samples[:, 1], samples[:, 2] = each[:, :-1], 1, each[:, 1:]
        valid = len(tokens) - 1 - (count - 1) * self.step  # of the last sample; all others are full
        if valid < width:
            samples[-1, 1, valid:] = 0
            samples[-1, 0, valid:] = self.pad_id
        return samples

    def _windows(self, values: NDArray[Any], count: int, pad: int) -> NDArray[np.int32]:
        """Cut values of tokens into windows, <i4[count, seq_len + 1], and fill the last one with `pad`."""
        padded = np.full((count - 1) * self.step + self.options.seq_len + 1, pad, np.dtype("<i4"))
        padded[: len(values)] = values
        return np.lib.stride_tricks.sliding_window_view(padded, self.options.seq_len + 1)[:: self.step]

    def join_parts(self, source: TokenReader, receipt: Receipt) -> None:
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
        """Return the object that fills the files of the destination, with the first file open."""
        files, length, masked = self._files(source), self._length(source), self._masked(source)

        def begin(number: int) -> SampleFile:
            first, last = files.bounds[number : number + 2]
            at = first * self.step
            facts = self._own(source)._replace(first_token=at, stream_tokens=length)
            if masked and (marks := source.marks(at, at + (first < last))) is not None:
                facts = facts._replace(first_mask=int((marks & TARGET).any()))
            files.name(number).unlink(missing_ok=True)  # an interrupted commit may have left it
            return SampleFile(files.name(number), (last - first, self.options.seq_len), facts, shuffle=self.shuffle)

        return _Gathering(files, begin, self.parts, keep=self.keep_parts)

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_gathering": None}


class RowWriter(SampleWriter):
    """Write samples [n, 3, seq_len] unchanged: input_ids, mask and labels of a source that has them."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        super().__init__(path, options, target)
        self.step, self._separator = options.seq_len, target.eos_id

    def _masked(self, source: TokenReader) -> bool:  # noqa: ARG002 - `_blocks` stores the masks of rows
        return False

    def _own(self, source: TokenReader) -> WriterAttributes:
        """Return attributes which state that each row is a sequence, not a window of a stream."""
        return WriterAttributes(ROWS, self._separator, source.info.pad_id, 0, 0)

    def _length(self, source: TokenReader) -> int:
        return source.info.tokens

    def _files(self, source: TokenReader) -> _Files:
        return _Files(self.path, source.info.sequences, self.options.file_samples)

    def _blocks(self, source: TokenReader, cuts: Iterable[tuple[int, int]]) -> Iterator[_Block]:
        if not source.has_labels:
            raise TypeError("the source of rows has no masks and labels")
        width = self.options.seq_len
        for first, last in cuts:
            start, stop = first * width, last * width
            tokens, samples = source.tokens(start, stop), np.empty((last - first, 3, width), np.dtype("<i4"))
            for field, values in enumerate((tokens, source.masks(start, stop), source.labels(start, stop))):
                samples[:, field] = values.reshape(-1, width)
            yield start, tokens, samples


class _Gathering:
    """Fill the files of a destination from parts, in the order of regions.

    Attributes:
        regions: Number of regions that are stored.
    """

    def __init__(self, files: _Files, begin: Callable[[int], SampleFile], parts: Path, *, keep: bool) -> None:
        self.regions, self._rows, self._number = 0, 0, 0
        self._files, self._begin, self._parts, self._keep = files, begin, parts, keep
        self._file = begin(0)

    def add(self, receipt: Receipt) -> None:
        """Store the samples of the next region, all of them in one file."""
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
    """Write the stream as one contiguous array, uint16 or uint32 by its largest ID; regions write by position."""

    def __init__(self, path: Path, options: WriteOptions, target: Target) -> None:
        self.path, self.options, self.eos_id = path, options, target.eos_id

    def _files(self, source: TokenReader) -> _Files:
        return _Files(self.path, source.info.tokens, self.options.file_samples * self.options.seq_len)

    def wants_max_id(self, source: TokenReader) -> bool:  # noqa: ARG002 - of every source
        return True

    def minimum_bytes(self, source: TokenReader) -> int:
        return source.info.tokens * 2

    def _dtype(self, source: TokenReader) -> Dtype:
        top = source.info.max_id
        return U16 if top is not None and max(top, self.eos_id or 0) < 1 << 16 else U32

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
        files, dtype = self._files(source), self._dtype(source)
        number, top = files.of(region.tokens.start), -1
        place, limit = corpus_place(files.name(number)), (1 << 8 * dtype.itemsize) - 1
        little = dtype.newbyteorder("<")
        with Output(files.name(number)) as out:
            at = place + (region.tokens.start - files.bounds[number]) * dtype.itemsize
            if copied := copy_region(out, at, source, region, little, limit):
                return copied
            for a, b in windows(region.tokens.start, region.tokens.stop):
                tokens = source.tokens(a, b)
                top = max(top, check_ids(tokens, limit, a, "hdf5"))
                at = place + (a - files.bounds[number]) * dtype.itemsize
                out.write(at, tokens.astype(little, copy=False))
        return Receipt(region.index, top, out.written)

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:
        """Do nothing: every file is complete once its regions are written."""
