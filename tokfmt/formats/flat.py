"""The base of flat formats: token ids one after the other in files, with or without a header and an index.

A flat format states three things, and everything else follows from them:

    examine_file what a file holds: extents of tokens, where sequences begin, problems, named bytes
    Writer       how files are written: token width, names, header, index, on which side the separator stands
    meanings     what the codes of its problems mean

Shards, pairs of files, folders and prefixes, reading, copies of bytes as they stand, places of tokens, `--raw`, `check`
and `--explain` follow; see `formats/README.md`.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core import listing
from tokfmt.core.annotation import (
    NATIVE,
    Column,
    Columns,
    Entries,
    Extent,
    FileLayout,
    Part,
    StoredIds,
    Struct,
    broken,
    certain,
    loss_mask,
    mask_bytes,
    numpy_extent,
    told_tokens,
    whole_tokens,
    written_tokens,
)
from tokfmt.core.errors import NO_DAMAGE, ConversionError, FormatError
from tokfmt.core.fields import Section
from tokfmt.core.files import File, names_in, natural_key, open_file
from tokfmt.core.findings import Audit, Code, Finding, raise_fatal
from tokfmt.core.format import (
    Confidence,
    Format,
    Hints,
    Probe,
    Receipt,
    Region,
    Target,
    TokenWriter,
    WriterTraits,
    everything_in,
    lost_nothing,
)
from tokfmt.core.messages import Option
from tokfmt.core.output import Output, copy_region, preallocate
from tokfmt.core.protocols import ByteOffset, Piece, marks_of
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    U16,
    Damage,
    Info,
    Layout,
    Passed,
    Separators,
    TokenReader,
    between_offsets,
    check_ids,
    check_interval,
    check_position,
    sequence_at,
    windows,
)
from tokfmt.core.text_format import counted, printable
from tokfmt.formats.index_ends import indexes_of_others
from tokfmt.views.select import lost_empties
from tokfmt.views.view import WithSeparators

__all__ = [
    "Column",
    "Columns",
    "Cut",
    "Extent",
    "FileLayout",
    "FlatFormat",
    "FlatReader",
    "FlatWriter",
    "Pieces",
    "Struct",
    "files_named",
    "joined",
    "loss_mask",
    "mask_bytes",
    "numpy_extent",
    "told_tokens",
    "whole_tokens",
    "written_tokens",
]

Pieces = Iterator[tuple[Path, int, bytes | NDArray[Any]]]
"""Of files that are written: path, byte, content."""


class Cut(NamedTuple):
    """What goes into a file that is written.

    Attributes:
        number: 0, 1, 2, ...
        start, stop: Which tokens of the stored axis it holds.
        first, last: Which sequences, where files hold whole ones or there is one file; else 0, 0.
    """

    number: int
    start: int
    stop: int
    first: int = 0
    last: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens are stored in it: separators count, and so does padding."""
        return self.stop - self.start


def joined(parts: Sequence[FileLayout]) -> FileLayout:
    """The contents of several files, one after the other, as one dataset.

    One stream that files cut anywhere, or the sequences of each; of extras those in which all agree.
    """
    if len(parts) == 1:
        return parts[0]
    begins = offsets_of([sum(extent.tokens for extent in part.extents) for part in parts])
    if any(part.entries is not None for part in parts):
        entries = JoinedEntries([part.entries or _Held(part.starts) for part in parts], begins)
        parts = [replace(part, starts=None) for part in parts]
        parts[0] = replace(parts[0], entries=entries)
    told = [(part.starts[:-1], begin) for part, begin in zip(parts, begins, strict=False) if part.starts is not None]
    starts, at = np.concatenate([*(inner for inner, _ in told), begins[-1:]]), 0
    for inner, begin in told:  # in place: the sums of all parts beside it would be another 8 bytes a sequence
        starts[at : at + len(inner)] += begin
        at += len(inner)
    return replace(
        parts[0],
        extents=[extent for part in parts for extent in part.extents],
        masks=[mask for part in parts for mask in part.masks],
        starts=starts if told else None,
        problems=[problem for part in parts for problem in part.problems],
        sections=[section for part in parts for section in part.sections],
        inferred=tuple(dict.fromkeys(fact for part in parts for fact in part.inferred)),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        extras={key: value for key, value in parts[0].extras.items() if all(p.extras.get(key) == value for p in parts)},
        damage=tuple(lost for part in parts for lost in part.damage),
    )


class JoinedEntries:
    """Where the sequences of several files begin, one file after the other; see `sections.Entries`. Picklable."""

    def __init__(self, parts: Sequence[Entries], begins: Offsets) -> None:
        """`begins`: int64[parts + 1], where the tokens of each begin, and the end of the last."""
        self._parts, self._begins = parts, begins
        self._firsts = offsets_of([part.sequences for part in parts])
        self.sequences = int(self._firsts[-1])

    def offsets(self, first: int, last: int) -> Offsets:
        """See `sections.Entries`."""
        found = list[Offsets]()
        for part, begin, (base, end) in zip(self._parts, self._begins, itertools.pairwise(self._firsts), strict=False):
            a, b = max(first, base) - base, min(last + 1, end) - base
            if a < b:
                found.append(part.offsets(int(a), int(b) - 1) + begin)
        end = self._begins[-1:] if last == self.sequences else np.empty(0, np.int64)
        return np.concatenate([*found, end])

    def close(self) -> None:
        """Close all indexes."""
        for part in self._parts:
            part.close()


class _Held:
    """Where sequences begin, in memory, as entries that are read."""

    def __init__(self, starts: Offsets | None) -> None:
        self._starts = offsets_of([]) if starts is None else starts
        self.sequences = len(self._starts) - 1

    def offsets(self, first: int, last: int) -> Offsets:
        return self._starts[first : last + 1]

    def close(self) -> None:
        """Nothing is open."""


class FlatReader:
    """The stored axis of a flat dataset; keeps 8 bytes a sequence. Picklable."""

    def __init__(self, laid: FileLayout, accepted: frozenset[str] = frozenset()) -> None:
        """Check that it can be read.

        Args:
            laid: What its files hold.
            accepted: Words of `--allow-loss` that the user gave.

        Raises:
            FormatError: A problem is fatal, and nothing accepts it.
        """
        raise_fatal(laid.problems, accepted)
        self.extents, self._masks = laid.extents, laid.masks
        # a list: bisecting an array costs a short read as much as all the rest
        self._begins = [0, *itertools.accumulate(extent.tokens for extent in laid.extents)]
        tokens, self._row = self._begins[-1], laid.sample_length
        stream = laid.starts is None and laid.entries is None
        layout = Layout.SAMPLES if self._row else Layout.STREAM if stream else Layout.DOCUMENTS
        if self._row:
            tokens -= tokens % self._row
        self._starts, self._entries = laid.starts, laid.entries
        rows = tokens // self._row if self._row else int(tokens > 0)
        rows = rows if laid.entries is None else laid.entries.sequences
        self.info = Info(
            layout=layout,
            dtype=max((NATIVE[extent.dtype.itemsize] for extent in laid.extents), default=U16),
            sequences=rows if self._starts is None else len(self._starts) - 1,
            tokens=tokens,
            sample_length=self._row,
            separators=laid.separators,
            eos_id=laid.eos_id,
            eos_from=laid.eos_from,
            inferred=laid.inferred,
            notes=(*(problem.note for problem in laid.problems if problem.note), *laid.notes),
            pad_id=laid.pad_id,
            split=laid.split,
            other_splits=laid.other_splits,
            loss_masks=laid.loss_masks,
            extras=laid.extras,
            damage=laid.damage,
        )

    @property
    def vouched(self) -> bool:
        """See `protocols.Vouched`: nothing has to be decoded, and all of it lies within the files."""
        return all(
            extent.file.plain and extent.begin + extent.tokens * extent.dtype.itemsize <= extent.file.size
            for extent in (*self.extents, *self._masks)
        )

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        return self._read(start, stop)

    def _read(self, start: int, stop: int) -> Tokens:
        k = bisect_right(self._begins, start) - 1
        if start < stop <= self._begins[k + 1]:  # of one file, as most often
            one, a = self.extents[k], start - self._begins[k]
            ids = one.file.ids(one.begin + a * one.dtype.itemsize, stop - start, one.dtype)
            return ids if ids.dtype == self.info.dtype else ids.astype(self.info.dtype, copy=False)
        found = [
            extent.file.ids(extent.begin + a * extent.dtype.itemsize, b - a, extent.dtype)
            for extent, a, b in self._parts(self.extents, start, stop)
        ]
        tokens: Tokens = found[0] if len(found) == 1 else np.concatenate([np.empty(0, self.info.dtype), *found])
        return tokens.astype(self.info.dtype, copy=False)

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        """See `protocols.Ranged`. What lies in several files is read by itself."""
        for a, b in wanted:
            check_interval(a, b, self.info.tokens)
        for k, run in itertools.groupby(wanted, key=self._holder):
            if k is None:
                yield from (self._read(a, b) for a, b in run)
                continue
            (file, begin, _, dtype), base, width = self.extents[k], self._begins[k], self.extents[k].dtype.itemsize
            bounds = [(begin + (a - base) * width, begin + (b - base) * width) for a, b in run]
            for (start, _), raw in zip(bounds, file.read_ranges(bounds), strict=True):
                ids = file.unsigned(np.frombuffer(raw, dtype), start)
                yield ids.astype(self.info.dtype, copy=False)

    def _holder(self, interval: tuple[int, int]) -> int | None:
        """The extent that holds all tokens of an interval; None where several do, or there are none."""
        start, stop = interval
        k = bisect_right(self._begins, start) - 1
        return k if start < stop <= self._begins[k + 1] else None

    def closed_reader(
        self,
        closing: int | None,
        otherwise: Callable[[int], Tokens],
        starts: Offsets | None = None,
        passed: Passed | None = None,
    ) -> Callable[[int], Tokens]:
        """See `axis.closed_reader`; with a `closing` of None all tokens are given."""
        starts = self._starts if starts is None else starts
        if starts is None or any(NATIVE[extent.dtype.itemsize] != self.info.dtype for extent in self.extents):
            return otherwise
        cells, numbers = starts.data, range(len(starts) - 1)
        cuts, readers = list[int](), list[Callable[[int], Tokens]]()
        before = passed if callable(passed) else lambda number: 0 if passed is None else passed + number
        for extent, base, end in zip(self.extents, self._begins, self._begins[1:], strict=False):
            begin = extent.begin - base * extent.dtype.itemsize
            readers.append(extent.file.sequence_reader(begin, extent.dtype, cells, closing, otherwise, passed))
            if len(self.extents) == 1:
                return readers[0]
            readers.append(otherwise)  # what lies in two files
            cuts.append(bisect_left(numbers, base, key=lambda i: cells[i] + before(i)))
            cuts.append(bisect_left(numbers, end + (passed is None), key=lambda i: cells[i + 1] + before(i)))
        return lambda number: readers[bisect_right(cuts, number) - 1](number)

    def sequence_reader(self) -> Callable[[int], Tokens]:
        """See `axis.sequence_reader`."""
        return self.closed_reader(None, partial(between_offsets, self))

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """Where tokens lie; see `protocols.RawCopyable`. Signed and unsigned ids are the same bytes."""
        check_interval(start, stop, self.info.tokens)
        pieces = []
        for extent, a, b in self._parts(self.extents, start, stop):
            if extent.dtype.names or not extent.file.plain:
                return None
            width = extent.dtype.itemsize
            dtype = np.dtype(f"{extent.dtype.byteorder}u{width}")
            pieces.append(Piece(extent.file, extent.begin + a * width, (b - a) * width, dtype))
        return pieces

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """See `protocols.Marked`; a loss mask of the token itself is its TARGET."""
        check_interval(start, stop, self.info.tokens)
        if not self._masks:
            return None
        found = [mask_bytes(mask, a, b) for mask, a, b in self._parts(self._masks, start, stop)]
        return np.concatenate([np.empty(0, np.uint8), *found])

    def _parts(self, extents: Sequence[Extent], start: int, stop: int) -> Iterator[tuple[Extent, int, int]]:
        """Which extents, and which tokens of each, an interval of the axis is made of."""
        for k in range(bisect_right(self._begins, start) - 1, bisect_left(self._begins, stop)):
            base, end = self._begins[k : k + 2]
            if start < end:
                yield extents[k], max(start - base, 0), min(stop, end) - base

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        if self._entries is not None:
            return self._entries.offsets(first, last)
        if self._starts is None:
            return np.arange(first, last + 1, dtype=np.int64) * (self._row or self.info.tokens)
        return self._starts[first : last + 1]

    def byte_offset(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        k = bisect_right(self._begins, position) - 1
        extent = self.extents[k]
        width = extent.dtype.itemsize
        at = extent.begin + (position - self._begins[k]) * width
        place = at if extent.file.plain else extent.file.lies_at(at)
        if place is None:
            return ByteOffset(extent.file.path, 0, None, f"byte {at:,} of what is compressed there")
        return ByteOffset(extent.file.path, place, width)

    def position(self, path: Path, offset: int) -> int | None:
        for k, extent in enumerate(self.extents):
            if extent.file.path != path:
                continue
            if (at := extent.file.read_from(offset)) is None:
                if extent.tokens and extent.file.lies_at(extent.begin) is None:  # somewhere in what is compressed
                    return self._begins[k]
                continue
            local = (at - extent.begin) // extent.dtype.itemsize
            if 0 <= local < extent.tokens:
                position = self._begins[k] + local
                return position if position < self.info.tokens else None
        return None

    def close(self) -> None:
        for extent in self.extents:
            extent.file.close()
        if self._entries is not None:
            self._entries.close()


class FlatWriter(TokenWriter):
    """Writes a flat dataset. A format says what its files are; regions, tokens and copies are the same for all.

    Attributes a format states:
        separators: Where it stores them. NONE: an index tells sequences apart. TRAILING: an index, and each ends with
            it, unless an option `eos` or `eod` says none. AFTER, BETWEEN, BEFORE: by the separator alone.
        scanned: Readers look for the separator all the same, so that a sequence must not contain it.
        suffix: Of a destination that is one file; others are folders.
        begin: Bytes in front of the tokens of a file; see `begins`.
        whole: Files hold whole sequences: each is cut after the last sequence that fits.
        needs_max_id: `dtype` depends on the largest id.
        dtypes: Of a token, ascending: the first that holds the largest id, where no option `width` or `dtype` says it.
        names: Of the files of a folder, by `number`, `stem` (of the folder) and `options`: "part-{number:05d}.npy"; ""
            where a dataset is one file.
        per_file: The option that says how many tokens a file of a folder has.
        limit: Largest id that the format has room for.
        most_bytes: Of a file.
        mask_file: Names the file beside one of tokens that its loss mask goes to, a byte a token: 1 counts, 0 does
            not. None: masks are not kept.
        masked: There is one, and it is not to be dropped; known when `cuts` is.
    """

    separators: Separators = Separators.NONE
    scanned: bool = False
    suffix: str = ".bin"
    begin: int = 0
    whole: bool = False
    needs_max_id: bool = False
    dtypes: Sequence[str] = ("<u2", "<u4")
    names: str = ""
    per_file: str = ""
    limit: int = 2**32 - 1
    most_bytes: int = 2**63 - 1
    mask_file: Callable[[Path], Path] | None = None
    masked: bool = False

    def __init__(self, path: Path, options: Any, target: Target) -> None:
        self.path, self.options, self.target = path, options, target
        self._cuts: list[Cut] | None = None
        self.separators = self.traits(options).separators

    @classmethod
    def traits(cls, options: Any) -> WriterTraits:
        """See `Format.writer_traits`."""
        without = "none" in (getattr(options, "eos", ""), getattr(options, "eod", ""))
        separators = Separators.NONE if without else cls.separators
        return WriterTraits(
            separators,
            separated=separators.alone or cls.scanned,
            keeps_masks=cls.mask_file is not None,
            whole_files=cls.whole,
            file_suffixes=(cls.suffix,),
            lost=lost_empties if separators is Separators.BETWEEN else lost_nothing,
        )

    # what a format says

    def dtype(self, top: int) -> np.dtype[Any]:
        """Of a token in the file, when the largest id (separator included) is `top`; -1 when nobody looked."""
        if width := getattr(self.options, "width", None):
            return np.dtype(f"<u{width}")
        fitting = (kind for kind in self.dtypes if top <= np.iinfo(kind).max)
        return np.dtype(getattr(self.options, "dtype", None) or next(fitting, self.dtypes[-1]))

    def file_tokens(self) -> int | None:
        """Tokens in a file, after which the next begins; None: all are in one file."""
        return int(getattr(self.options, self.per_file)) if self.per_file and self.folder else None

    def file(self, number: int) -> Path:
        """The path of file `number`: of the destination itself where it is one file."""
        if not self.names or not self.folder:
            return self.path
        return self.path / self.names.format(number=number, stem=self.path.stem, options=self.options)

    def padded(self, tokens: int) -> int:
        """How many tokens are stored when so many are to be stored: more where the last row is filled up."""
        return tokens

    def begins(self, cut: Cut) -> int:  # noqa: ARG002 - the same in all
        """Bytes in front of the tokens of a file."""
        return self.begin

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:  # noqa: ARG002 - none
        """What is known of those bytes when a file is made; `index` writes the rest."""
        return b""

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:  # noqa: ARG002 - none
        """What is written when all tokens are: path, byte, content. Of a file that is not there yet: all of it."""
        return iter(())

    # what follows

    def least_bytes(self, source: TokenReader) -> int | None:
        """See `TokenWriter.least_bytes`: the tokens, without separators, headers and indexes."""
        return source.info.tokens * self._dtype(source).itemsize

    @property
    def folder(self) -> bool:
        """The destination is a folder of files, not one file."""
        return self.path.suffix != self.suffix

    @property
    def needs_eos(self) -> bool:
        return self.separators is not Separators.NONE

    def stored(self, source: TokenReader) -> TokenReader:
        """The axis that the files hold, separators included."""
        if not self.needs_eos:
            return source
        return WithSeparators(source, self.target.eos_id or 0, before=self.separators is Separators.BEFORE)

    def _dtype(self, source: TokenReader) -> np.dtype[Any]:
        top = -1 if source.info.max_id is None else source.info.max_id
        return self._dtype_of(top)

    def _dtype_of(self, top: int) -> np.dtype[Any]:
        return self.dtype(max(top, (self.target.eos_id or 0) if self.needs_eos else -1))

    def wants_max_id(self, source: TokenReader) -> bool:
        """See `TokenWriter.wants_max_id`. No scan where any id that the source can hold leads to the same files."""
        most = int(np.iinfo(source.info.dtype).max)
        return self.needs_max_id and (most > self.limit or self._dtype_of(-1) != self._dtype_of(most))

    def cuts(self, stored: TokenReader) -> list[Cut]:
        """The files, at least one."""
        if self._cuts is None:
            self.masked = (
                self.mask_file is not None
                and "loss-mask" not in self.target.allow_loss
                and marks_of(stored) is not None
            )
            most = self.file_tokens()
            total = self.padded(stored.info.tokens)
            if self.whole:
                self._cuts = list(_whole_cuts(stored, most or max(1, total)))
            else:
                spans = list(windows(0, total, most or max(1, total))) or [(0, 0)]
                sequences = stored.info.sequences if len(spans) == 1 else 0
                self._cuts = [Cut(number, a, b, 0, sequences) for number, (a, b) in enumerate(spans)]
            if len(self._cuts) > 1 and not self.folder:
                raise ConversionError(
                    f"{self.path.name}: {total:,} tokens do not fit one file of {most:,}. "
                    "Name a folder for several files"
                )
        return self._cuts

    def cut_at(self, stored: TokenReader, position: int) -> Cut:
        """The file that a token goes to."""
        cuts = self.cuts(stored)
        return cuts[bisect_right(cuts, position, key=lambda cut: cut.start) - 1]

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        spans = [span for cut in self.cuts(self.stored(source)) for span in windows(cut.start, cut.stop, max(1, size))]
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(spans)]

    def create(self, source: TokenReader) -> None:
        dtype, stored = self._dtype(source), self.stored(source)
        for cut in self.cuts(stored):
            path = self.file(cut.number)
            if path != self.path:
                self.path.mkdir(exist_ok=True)
            size = self.begins(cut) + (cut.stop - cut.start) * dtype.itemsize
            if size > self.most_bytes:
                raise ConversionError(f"{path.name}: would have {size:,} bytes, and {self.most_bytes:,} are the most")
            preallocate(path, size)
            with Output(path) as out:
                out.write(0, self.header(cut, dtype))
            if self.masked and self.mask_file is not None:
                preallocate(self.mask_file(path), cut.stop - cut.start)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        stored, dtype = self.stored(source), self._dtype(source)
        end, top, eos_id = stored.info.tokens, -1, self.target.eos_id or 0
        limit = min(self.limit, (1 << 8 * dtype.itemsize - (dtype.kind == "i")) - 1)
        cut = self.cut_at(stored, region.tokens.start)
        begin, base = self.begins(cut), cut.start
        if self.masked and self.mask_file is not None:
            _write_mask(self.mask_file(self.file(cut.number)), cut, region, stored)
        with Output(self.file(cut.number)) as out:
            at = begin + (region.tokens.start - base) * dtype.itemsize
            raw = np.dtype(f"{dtype.byteorder}u{dtype.itemsize}")
            if region.tokens.stop <= end and (copied := copy_region(out, at, stored, region, raw, limit)):
                return copied
            for a, b in windows(region.tokens.start, region.tokens.stop):
                real = stored.tokens(min(a, end), min(b, end))
                top = max(top, check_ids(real, limit, a, self.path.name, self.remedy(dtype)))
                window = real.astype(dtype, copy=False)
                if len(real) < b - a:
                    window = np.concatenate([window, np.full(b - a - len(real), eos_id, dtype)])
                out.write(begin + (a - base) * dtype.itemsize, window)
        return Receipt(region.index, top, out.written)

    def remedy(self, dtype: np.dtype[Any]) -> str:
        """What to do about an id that does not fit; "" for nothing."""
        widest = np.dtype(self.dtypes[-1])
        most, words = min(self.limit, int(np.iinfo(widest).max)), {"width": widest.itemsize, "dtype": widest.name}
        asked = next((f"{name}={word}" for name, word in words.items() if getattr(self.options, name, None)), "")
        return (
            f"{Option('to-opt', asked)} has room for ids up to {most:,}" if asked and np.iinfo(dtype).max < most else ""
        )

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:  # noqa: ARG002 - nothing in them
        stored, dtype = self.stored(source), self._dtype(source)
        for path, pieces in itertools.groupby(self.index(stored, dtype), key=lambda piece: piece[0]):
            rest = iter(pieces)
            _, at, content = next(rest)
            if not at and path != self.path:
                path.unlink(missing_ok=True)  # of a commit that was cut off
            if not listing.exists(path):
                preallocate(path, 0)
            with Output(path) as out:
                out.write(at, content)
                for _, at, content in rest:
                    out.write(at, content)


def _write_mask(path: Path, cut: Cut, region: Region, stored: TokenReader) -> None:
    with Output(path) as out:
        for a, b in windows(region.tokens.start, region.tokens.stop):
            marks = marks_of(stored, a, b)
            if marks is not None:
                out.write(a - cut.start, marks & 1)


def _whole_cuts(stored: TokenReader, most: int) -> Iterator[Cut]:
    """Files of whole sequences, with at most so many tokens, or one sequence that is longer."""
    first, count, number = 0, stored.info.sequences, 0
    while first < count or not number:
        start = int(stored.offsets(first, first)[0])
        last = max(min(first + 1, count), sequence_at(stored, start + most))
        if last == count - 1 and stored.info.tokens - start <= most:
            last = count
        yield Cut(number, start, int(stored.offsets(last, last)[0]), first, last)
        first, number = last, number + 1


def _follows(before: Path, path: Path) -> bool:
    """Whether one file of a folder is the next after another, as far as their names differ in their last number."""
    split = [re.fullmatch(r"(.*?)(\d+)(\D*)", each.name) for each in (before, path)]
    if split[0] is None or split[1] is None or split[0].group(1, 3) != split[1].group(1, 3):
        return True
    return int(split[1][2]) == int(split[0][2]) + 1


def files_named(directory: Path, pattern: re.Pattern[str]) -> list[Path]:
    """Return the files of a directory whose names match, in natural order of the first group, or of the whole name.

    Raises:
        FormatError: The directory cannot be listed.
    """
    found = [match for name in names_in(directory) if (match := pattern.fullmatch(name))]
    found.sort(key=lambda match: (natural_key(match[pattern.groups and 1]), match[0]))
    return [directory / match[0] for match in found]


def _size_of(path: Path) -> int:
    return listing.status(path).size if listing.is_file(path) else 0


class FlatFormat(Format):
    """A format of flat files; subclass it, and make `FORMAT` of the subclass.

    Attributes a format states beside those of `Format`:
        Writer: A subclass of FlatWriter.
        pattern: Names of the files of a folder (one of each PREFIX), as a regular expression; they are read in natural
            order of its first group, of the whole name if it has none.
        member: Such a name in a message, as "block_NNNN.bin".
        below: Names of the files of a dataset that is a folder with folders, as a regular expression; "": it has none.
        counted: What the files of a folder are called where it is told how many there are; "": it is not.
        runs_on: A sequence may go on in the next file of a folder, so that nothing behind a damaged one is certain.
        meanings: Code of each problem: title and text.
        unreadable: The code of whatever `examine` raises.
        masked: The code of loss masks that are none.
        other_index: The code of an index that seems to belong to other tokens; "" if there are no indexes.
    """

    Writer: ClassVar[type[FlatWriter]]
    pattern: ClassVar[str] = ""
    below: ClassVar[str] = ""
    member: ClassVar[str] = "file of the format"
    counted: ClassVar[str] = "files"
    runs_on: ClassVar[bool] = True
    meanings: ClassVar[Mapping[str, Code]]
    unreadable: ClassVar[str]
    masked: ClassVar[str] = ""
    other_index: ClassVar[str] = ""

    def recognise(self, probe: Probe) -> Confidence | None:  # noqa: ARG002 - a format may have its own `sniff`
        """How surely a file is of this format; content first, and nothing is raised."""
        return None

    def sniff(self, probe: Probe) -> Confidence | None:
        """See `Format.sniff`. A folder is what one of the first four files that have such a name is."""
        if not probe.is_directory:
            return self.recognise(probe)
        names = itertools.islice((name for name in probe.entries if re.fullmatch(self.pattern, name)), 4)
        looks = (self.recognise(inside) for name in names if (inside := probe.entry(name)))
        return next(filter(None, looks), None)

    def examine_file(self, file: File, options: Any, hints: Hints) -> FileLayout:  # noqa: ARG002
        """What a file holds. Reads headers, indexes and sizes, never all tokens.

        Raises:
            FormatError: There is no telling what it holds.
            TypeError: The format defines neither this nor `examine`.
        """
        raise TypeError(f"the format {self.name} defines neither examine_file nor examine, to say what its files hold")

    def examine(self, paths: Sequence[Path], options: Any, hints: Hints) -> FileLayout:
        """What the files of a dataset hold, one after the other; see `examine_file`."""
        files = self.all_files(paths)
        if hints.partial:
            parts = self.certain_parts(
                files, lambda path: self.examine_file(open_file(path), options, hints), hints.allow_loss
            )
        else:
            parts = [self.examine_file(open_file(path), options, hints) for path in files]
        laid = joined(parts)
        return replace(laid, extras={**laid.extras, self.counted: len(parts)}) if self.counted else laid

    def certain_parts(
        self, files: Sequence[Path], look: Callable[[Path], FileLayout], accepted: frozenset[str]
    ) -> list[FileLayout]:
        """What is certain of each file: of one that ends too early its beginning, of one that cannot be read nothing.

        Where sequences may run on from file to file, nothing behind a damaged or missing file is taken: nothing tells
        whether what begins there is the rest of a sequence.

        Raises:
            FormatError: Of the first file, if no file can be read.
        """
        parts, damage, failed = list[FileLayout](), list[Damage](), list[FormatError]()
        for k, path in enumerate(files):
            stop, behind = k + 1 < len(files) and not _follows(path, files[k + 1]), files[k + 1 :]
            try:
                part = certain(look(path))
                raise_fatal(part.problems, accepted)
            except NO_DAMAGE:
                raise
            except FormatError as error:
                failed.append(error)
                damage.append(Damage(error.sentence, unused=_size_of(path)))
                stop = self.runs_on
            else:
                parts.append(part)
                stop = (stop and self.runs_on) or (bool(part.damage) and (self.runs_on or part.starts is None))
            if stop and behind:
                what = f"{counted(len(behind), 'file')} from {printable(behind[0].name)} on may begin inside a sequence"
                damage.append(Damage(what, unused=sum(map(_size_of, behind))))
            if stop:  # nothing tells whether the next file begins with the rest of a sequence
                break
        if not parts:
            raise failed[0]
        return [*parts[:-1], replace(parts[-1], damage=(*parts[-1].damage, *damage))]

    def examine_wholly(self, path: Path, options: Any, hints: Hints) -> FileLayout:
        """The same for `check`, of a format that leaves a part of it until something is read."""
        return self.examine([path], options, hints)

    def names(self, path: Path) -> list[Path]:
        """The files of PREFIX, by any of them or by itself if that means one; that of the tokens first.

        A prefix may have dots. Where `prefix` is "", what has another name is a folder, or a file by itself.
        """
        ending = next((suffix for suffix in self.suffixes if path.name.endswith(suffix)), "")
        if not ending and not self.prefix:
            return [path]
        prefix = path.name.removesuffix(ending)
        return [path.with_name(prefix + suffix) for suffix in self.suffixes]

    def canonical(self, path: Path) -> Path:
        """See `Format.canonical`."""
        return path if listing.is_dir(path) else self.names(path)[0]

    def companions(self, path: Path) -> Sequence[Path]:
        """See `Format.companions`. A folder has none."""
        return self.names(path)[1:] if path.name.endswith(self.suffixes) else []

    def members(self, path: Path) -> list[Path]:
        """The file at a path, or those of a folder in the order of reading; of several of a prefix, that of tokens."""
        if not listing.is_dir(path):
            return [self.canonical(path)]
        return list(dict.fromkeys(map(self.canonical, files_named(path, re.compile(self.pattern)))))

    def files(self, path: Path) -> list[Path]:
        """See `Format.files`."""
        if self.below:
            there = everything_in(path) if listing.is_dir(path) else [path]
            return sorted(file for file in there if re.fullmatch(self.below, file.name))
        if not self.suffixes:
            return self.members(path)
        return [file for member in self.members(path) for file in self.names(member) if listing.is_file(file)]

    def all_files(self, paths: Sequence[Path]) -> list[Path]:
        """The members of all paths that were given.

        Raises:
            FormatError: A folder holds none.
        """
        for path in paths:
            if not self.members(path):
                raise FormatError(path, f"holds no {self.member}")
        return [file for path in paths for file in self.members(path)]

    def open(self, paths: Sequence[Path], options: Any, hints: Hints) -> FlatReader:
        """See `Format.open`."""
        return FlatReader(self.laid(paths, options, hints), hints.allow_loss)

    def laid(self, paths: Sequence[Path], options: Any, hints: Hints) -> FileLayout:
        """What is read of the files of a dataset: of damaged ones, with `Hints.partial`, what is certain."""
        laid = self.examine(paths, options, hints)
        return certain(laid) if hints.partial else laid

    def writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        """See `Format.writer`."""
        return super().writer(path, options, target) if self.read_only else self.Writer(path, options, target)

    def writer_traits(self, options: Any) -> WriterTraits:
        """See `Format.writer_traits`."""
        return super().writer_traits(options) if self.read_only else self.Writer.traits(options)

    def audit(self, path: Path, options: Any, how: Audit) -> Iterator[Finding]:
        """See `Format.audit`."""
        try:
            laid = self.examine_wholly(path, options, Hints(how.eos_id))
        except FormatError as error:
            yield Finding.of(self.unreadable, error)
            return
        for problem in laid.problems:
            yield problem.finding()
        if not how.deep or any(problem.fatal for problem in laid.problems):
            return
        reader, readable = FlatReader(laid), True
        looks = how.spread(lambda cut: list(self._unreadable(reader, *cut)), windows(0, reader.info.tokens))
        for (a, b), findings in zip(windows(0, reader.info.tokens), looks, strict=True):
            how.advance(b - a)
            yield from findings
            readable = readable and not findings
        if self.other_index and readable:
            found = indexes_of_others(reader, how.spread)
            yield from (Finding.of(self.other_index, error, "warning") for error in found)
        reader.close()

    def _unreadable(self, reader: FlatReader, start: int, stop: int) -> Iterator[Finding]:
        for code, read in ((self.unreadable, reader.tokens), (self.masked, reader.marks)):
            try:
                read(start, stop)
            except FormatError as error:
                yield Finding.of(code, error)

    def codes(self) -> Mapping[str, Code]:
        """See `Format.codes`."""
        return self.meanings

    def sections(self, path: Path, options: Any) -> Sequence[Section]:
        """See `Format.sections`."""
        try:
            laid = self.examine([path], options, Hints())
        except FormatError as error:
            failed = broken(error)
            return [Part("file", path, lambda: (failed,))]
        return [*laid.sections, *map(StoredIds, laid.extents)]
