"""The base of flat formats: files of consecutive token IDs, with or without a header and an index.

A flat format states three things:

    examine_file the content of one file: extents of tokens, starts of sequences, problems, named bytes
    Writer       the files to write: token width, names, header, index, side of the separator

From these, the base class provides shards, pairs of files, folders and prefixes, reading, copies of raw bytes, byte
offsets of tokens, `show --raw`, `check` and `check --explain`. See `formats/README.md`.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.annotation import (
    NATIVE,
    Column,
    Columns,
    Entries,
    Extent,
    FileLayout,
    StoredIds,
    Struct,
    bytes_of_marks,
    certain,
    loss_mask,
    mask_bytes,
    numpy_extent,
    reading_width,
    stated_tokens,
    whole_tokens,
    with_ends,
    written_tokens,
)
from tokfmt.core.findings import Audit, Finding, Problem, fatal, noted, raise_fatal
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
    lost_empties,
    lost_nothing,
)
from tokfmt.core.inspection import Inspection, Unreadable
from tokfmt.core.output import Output, copy_region, preallocate
from tokfmt.core.padding import Contradictions, findings_of
from tokfmt.core.ragged import Offsets, Tokens, offsets_of
from tokfmt.core.reader import (
    U16,
    ByteOffset,
    Damage,
    Info,
    Layout,
    Piece,
    Separators,
    TokenReader,
    check_ids,
    check_interval,
    check_position,
    windows,
)
from tokfmt.core.widths import contradicted_width
from tokfmt.errors import (
    NO_DAMAGE,
    ConversionError,
    CorruptError,
    FormatError,
    OptionError,
    StandInError,
    UnsafeError,
    UnsupportedError,
)
from tokfmt.files.fields import Section
from tokfmt.files.file import Ends, File, everything_in, names_in, natural_key
from tokfmt.files.place import AnyPlace, Place
from tokfmt.files.shard_names import follows
from tokfmt.files.side_by_side import side_by_side
from tokfmt.formats.blocks import shared_note, unrepeated
from tokfmt.formats.cells import Cells
from tokfmt.formats.files_ahead import FilesAhead, parts_of
from tokfmt.formats.index_ends import indexes_of_others
from tokfmt.formats.row_reader import RowGroup, StoredReader, decoder_of
from tokfmt.wording import counted, printable

__all__ = [
    "Column",
    "Columns",
    "Cut",
    "Extent",
    "FileLayout",
    "FlatFormat",
    "FlatInspection",
    "FlatOptions",
    "FlatReader",
    "FlatWriter",
    "Pieces",
    "Struct",
    "files_named",
    "joined",
    "loss_mask",
    "mask_bytes",
    "numpy_extent",
    "stated_tokens",
    "whole_tokens",
    "written_tokens",
]

_FILES, _IDS = 64, 1 << 12  # Files, and IDs at their beginning, that show a wrong width.

Pieces = Iterator[tuple[Path, int, bytes | NDArray[Any]]]
"""Pieces of files to write: (path, byte offset, content)."""


class Cut(NamedTuple):
    """The share of the stored axis that goes into one file.

    Attributes:
        number: Number of the file, from 0.
        start, stop: Its tokens: positions `start <= p < stop` of the stored axis.
        first, last: Its sequences, if files hold whole sequences or there is one file; else 0, 0.
    """

    number: int
    start: int
    stop: int
    first: int = 0
    last: int = 0

    @property
    def tokens(self) -> int:
        """Number of tokens that the file stores, with separators and padding."""
        return self.stop - self.start


def joined(parts: Sequence[FileLayout]) -> FileLayout:
    """Join the layouts of several files, in order, to the layout of one dataset.

    The result is one stream if the files are streams, else the sequences of each file in turn. Only the extras on which
    all files agree are kept.

    Raises:
        UnsupportedError: Some files are streams, some documents, some rows, or rows differ in length.
    """
    if len(parts) == 1:
        return parts[0]
    kinds = [(_kind_of(part), part.extents[0].file.path) for part in parts if part.extents and not part.problems]
    if other := next((kind for kind in kinds if kind[0] != kinds[0][0]), None):
        what, remedy = f"is not read as {printable(kinds[0][1].name)} is", "Name the files of one kind"
        raise UnsupportedError(other[1], what, expected=kinds[0][0], found=other[0], remedy=remedy)
    begins = offsets_of([sum(extent.tokens for extent in part.extents) for part in parts])
    if any(part.entries is not None for part in parts):
        entries = JoinedEntries([part.entries or _Held(part.starts) for part in parts], begins)
        parts = [replace(part, starts=None) for part in parts]
        parts[0] = replace(parts[0], entries=entries)
    indexed = [(part.starts[:-1], begin) for part, begin in zip(parts, begins, strict=False) if part.starts is not None]
    starts, at = np.concatenate([*(inner for inner, _ in indexed), begins[-1:]]), 0
    for inner, begin in indexed:  # in place: new arrays would take another 8 bytes per sequence
        starts[at : at + len(inner)] += begin
        at += len(inner)
    first, *others = dict.fromkeys(part.loss_masks for part in parts if part.loss_masks) or [""]
    return replace(
        parts[0],
        loss_masks=f"{first}, and those of other files" if others else first,
        extents=[extent for part in parts for extent in part.extents],
        rows=[rows for part in parts for rows in part.rows],
        masks=[mask for part in parts for mask in part.masks],
        starts=starts if indexed else None,
        problems=[problem for part in parts for problem in part.problems],
        sections=[section for part in parts for section in part.sections],
        inferred=tuple(dict.fromkeys(fact for part in parts for fact in part.inferred)),
        notes=tuple(dict.fromkeys(note for part in parts for note in part.notes)),
        extras={key: value for key, value in parts[0].extras.items() if all(p.extras.get(key) == value for p in parts)},
        inner=tuple(one for part in parts for one in part.inner),
        damage=tuple(lost for part in parts for lost in part.damage),
        tokenizers=tuple(dict.fromkeys(name for part in parts for name in part.tokenizers)),
    )


def _kind_of(part: FileLayout) -> str:
    """Return what the sequences of a layout are, in words."""
    if part.rows:
        return "rows with columns beside their IDs"
    if part.sample_length:
        return f"rows of {part.sample_length:,}"
    return "one stream" if part.starts is None and part.entries is None else "documents"


class JoinedEntries:
    """Starts of the sequences of several files, one file after the other; see `annotation.Entries`. Picklable."""

    def __init__(self, parts: Sequence[Entries], begins: Offsets) -> None:
        """Join `parts`; `begins` is int64[parts + 1]: the position of the first token of each, and the end."""
        self._parts, self._begins = parts, begins
        self._firsts = offsets_of([part.sequences for part in parts])
        self.sequences = int(self._firsts[-1])

    def offsets(self, first: int, last: int) -> Offsets:
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
    """Starts of sequences that are in memory, as `annotation.Entries`."""

    def __init__(self, starts: Offsets | None) -> None:
        self._starts = offsets_of([]) if starts is None else starts
        self.sequences = len(self._starts) - 1

    def offsets(self, first: int, last: int) -> Offsets:
        return self._starts[first : last + 1]

    def close(self) -> None:
        """Do nothing: no file is open."""


class FlatReader(TokenReader):
    """A reader of the stored axis of a flat dataset. Picklable; keeps 8 bytes per sequence in memory."""

    def __init__(self, file_layout: FileLayout) -> None:
        """Make a reader of the files of `file_layout`, whatever its problems."""
        self.extents, self._masks = file_layout.extents, file_layout.masks
        # A list: to bisect an array takes as long as all the rest of a short read.
        self._begins = [0, *itertools.accumulate(extent.tokens for extent in file_layout.extents)]
        stored = len(self.extents) > 1 and not self.extents[0].file.path.is_local
        self._ahead = FilesAhead(self.extents, self._begins) if stored else None
        self.decoded_parts = sum(extent.file.is_decoded_whole for extent in self.extents)
        tokens, self._row = self._begins[-1], file_layout.sample_length
        stream = file_layout.starts is None and file_layout.entries is None
        layout = Layout.SAMPLES if self._row else Layout.STREAM if stream else Layout.DOCUMENTS
        if self._row:
            tokens -= tokens % self._row
        self._starts, self._entries = file_layout.starts, file_layout.entries
        rows = tokens // self._row if self._row else int(tokens > 0)
        rows = rows if file_layout.entries is None else file_layout.entries.sequences
        self.info = Info(
            layout=layout,
            dtype=max((NATIVE[extent.dtype.itemsize] for extent in file_layout.extents), default=U16),
            sequences=rows if self._starts is None else len(self._starts) - 1,
            tokens=tokens,
            beginning=file_layout.beginning_of is not None,
            **file_layout.copied(),
        )

    @property
    def is_readable(self) -> bool:
        """See `TokenReader.is_readable`: True if no token needs decoding, and all extents lie within their files."""
        return all(
            extent.file.is_plain and extent.begin + extent.tokens * extent.dtype.itemsize <= extent.file.size
            for extent in (*self.extents, *self._masks)
        )

    def for_look(self) -> FlatReader:
        found = copy(self)
        found.extents = [extent._replace(file=extent.file.for_look()) for extent in self.extents]
        return found

    def tokens(self, start: int, stop: int) -> Tokens:
        check_interval(start, stop, self.info.tokens)
        if self._ahead is not None:
            self._ahead.ask(start, stop)
        k = bisect_right(self._begins, start) - 1
        if start < stop <= self._begins[k + 1]:  # the usual case: one file holds the interval
            one, a = self.extents[k], start - self._begins[k]
            ids = one.file.ids(one.begin + a * one.dtype.itemsize, stop - start, one.dtype)
            return ids if ids.dtype == self.info.dtype else ids.astype(self.info.dtype, copy=False)
        found = [
            extent.file.ids(extent.begin + a * extent.dtype.itemsize, b - a, extent.dtype)
            for extent, a, b in parts_of(self.extents, self._begins, start, stop)
        ]
        tokens: Tokens = found[0] if len(found) == 1 else np.concatenate([np.empty(0, self.info.dtype), *found])
        return tokens.astype(self.info.dtype, copy=False)

    def intervals(self, wanted: Sequence[tuple[int, int]]) -> Iterator[Tokens]:
        """See `TokenReader.intervals`. An interval that spans several files is read on its own."""
        for a, b in wanted:
            check_interval(a, b, self.info.tokens)
        if self._ahead is not None and wanted:
            self._ahead.ask_intervals(wanted)
        for k, run in itertools.groupby(wanted, key=self._holder):
            if k is None:
                yield from (self.tokens(a, b) for a, b in run)
                continue
            (file, begin, _, dtype), base, width = self.extents[k], self._begins[k], self.extents[k].dtype.itemsize
            bounds = [(begin + (a - base) * width, begin + (b - base) * width) for a, b in run]
            for (start, _), raw in zip(bounds, file.read_ranges(bounds), strict=True):
                ids = file.unsigned(np.frombuffer(raw, dtype), start)
                yield ids.astype(self.info.dtype, copy=False)

    def _holder(self, interval: tuple[int, int]) -> int | None:
        """Return the number of the extent that holds a whole interval; None if several do, or it is empty."""
        start, stop = interval
        k = bisect_right(self._begins, start) - 1
        return k if start < stop <= self._begins[k + 1] else None

    def sequence_reader(
        self, ends: Ends, separator: int | None, general: Callable[[int], Tokens], *, is_before: bool = False
    ) -> Callable[[int], Tokens]:
        if any(NATIVE[extent.dtype.itemsize] != self.info.dtype for extent in self.extents):
            return general
        begins, count, readers, cuts = self._begins, len(ends.places), list[Callable[[int], Tokens]](), list[int]()
        stop: Callable[[int], int] = lambda i: ends.bases[i >> ends.bits] + ends.places[i] + ends.shift  # noqa: E731
        for extent, base, end in zip(self.extents, begins, begins[1:], strict=False):
            begin = extent.begin - base * extent.dtype.itemsize
            mine = extent.file.sequence_reader(begin, extent.dtype, ends, separator, general, is_before=is_before)
            if len(self.extents) == 1:
                return mine
            # The first sequence that begins in this file, and the first that ends behind it.
            cuts += [bisect_left(range(count), base, key=stop) + 1 if base else 0]
            cuts += [bisect_right(range(count), end, key=stop)]
            readers += [mine, general]
        return lambda number: readers[bisect_right(cuts, number) - 1](number)

    @property
    def bounds(self) -> Offsets | None:  # type: ignore[override]
        return self._starts

    def pieces(self, start: int, stop: int) -> Sequence[Piece] | None:
        """See `TokenReader.pieces`. Signed and unsigned IDs have the same bytes, so all dtypes are unsigned."""
        check_interval(start, stop, self.info.tokens)
        pieces = []
        for extent, a, b in parts_of(self.extents, self._begins, start, stop):
            if extent.dtype.names or not extent.file.is_plain:
                return None
            width = extent.dtype.itemsize
            dtype = np.dtype(f"{extent.dtype.byteorder}u{width}")
            pieces.append(Piece(extent.file, extent.begin + a * width, (b - a) * width, dtype))
        return pieces

    def marks(self, start: int, stop: int) -> NDArray[np.uint8] | None:
        """See `TokenReader.marks`. The loss mask of a token is its bit TARGET."""
        check_interval(start, stop, self.info.tokens)
        if not self._masks:
            return None
        found = [mask_bytes(mask, a, b) for mask, a, b in parts_of(self._masks, self._begins, start, stop)]
        return np.concatenate([np.empty(0, np.uint8), *found])

    def offsets(self, first: int, last: int) -> Offsets:
        check_interval(first, last, self.info.sequences, "sequences")
        if self._entries is not None:
            return self._entries.offsets(first, last)
        if self._starts is None:
            return np.arange(first, last + 1, dtype=np.int64) * (self._row or self.info.tokens)
        return self._starts[first : last + 1]

    def locate(self, position: int) -> ByteOffset:
        check_position(position, self.info.tokens)
        k = bisect_right(self._begins, position) - 1
        extent = self.extents[k]
        width = extent.dtype.itemsize
        at = extent.begin + (position - self._begins[k]) * width
        if isinstance(extent.file, Cells):
            return extent.file.chunked.byte_offset(at // width)
        offset = at if extent.file.is_plain else extent.file.to_stored_offset(at)
        if offset is None:
            return ByteOffset(extent.file.path, 0, None, f"byte {at:,} of the decompressed content")
        return ByteOffset(extent.file.path, offset, width)

    def find(self, place: Place, byte: int) -> int | None:
        for base, (file, begin, tokens, dtype) in zip(self._begins, self.extents, strict=False):
            at: int | None
            if isinstance(file, Cells):
                item = file.chunked.position(place, byte)
                at = None if item is None else item * dtype.itemsize
            elif file.path != place:
                continue
            else:
                at = file.from_stored_offset(byte)
                if at is None and tokens and file.to_stored_offset(begin) is None:  # the file is compressed
                    return base
            local = -1 if at is None else (at - begin) // dtype.itemsize
            if 0 <= local < tokens:
                position = base + local
                return position if position < self.info.tokens else None
        return None

    def close(self) -> None:
        for extent in self.extents:
            extent.file.close()
        if self._entries is not None:
            self._entries.close()


class FlatOptions:
    """The base of the write options of a flat format. Its attributes are the options that `FlatWriter` implements.

    A subclass is a frozen dataclass. To offer one of these options, it defines a field of that name with `option`. The
    values here hold for a format that does not offer it.

    Attributes:
        width: Bytes per token; None: the first of `FlatWriter.dtypes` that holds the largest ID.
        dtype: Name of the dtype of tokens; None: as for `width`.
        shard_size: Tokens per file of a folder; None: one file holds all tokens.
    """

    width: int | None = None
    dtype: str | None = None
    shard_size: int | None = None


@dataclass(frozen=True, slots=True)
class _NoFlatOptions(FlatOptions):
    """The write options of a flat format without options."""


class FlatWriter(TokenWriter):
    """The base of writers of flat datasets. A subclass describes the files; this class writes regions and copies.

    Attributes that a format states:
        separators: Where the separator is stored. NONE: an index separates sequences. TRAILING: an index does, and
            sequences also end with the separator, unless the user wants none. SCANNED: an index does, and readers of
            the format look for the separator despite it. AFTER, BETWEEN, BEFORE: only the separator does.
        suffix: Suffix of a destination that is one file; a destination with another name is a folder.
        begin: Number of bytes before the tokens of a file; see `begins`.
        whole: True if files hold whole sequences. Each file then ends after the last sequence that fits.
        needs_max_id: True if `dtype` depends on the largest ID.
        dtypes: Token dtypes, ascending. The first that holds the largest ID is used, unless `FlatOptions.width` or
            `FlatOptions.dtype` is given.
        names: Pattern of the names of files in a folder, from `number`, `stem` (of the folder) and `options`, such as
            "part-{number:05d}.npy". "" if a dataset is one file.
        limit: The largest ID that the format can store.
        max_bytes: The largest size of a file, in bytes.
        mask_file: Returns the path of the loss mask of a token file. A mask has one byte per token: 1 if the token
            counts in the loss, else 0. None: the format stores no masks.
        empties: What upstream does with a stored sequence without tokens, for a note; "" if it reads them.
        masked: True if the source has a loss mask that is to be written. Known after `cuts`.
    """

    separators: Separators = Separators.NONE
    suffix: str = ".bin"
    begin: int = 0
    whole: bool = False
    needs_max_id: bool = False
    dtypes: Sequence[str] = ("<u2", "<u4")
    names: str = ""
    limit: int = 2**32 - 1
    max_bytes: int = 2**63 - 1
    mask_file: Callable[[Path], Path] | None = None
    empties: str = ""
    masked: bool = False

    def __init__(self, path: Path, options: Any, target: Target) -> None:
        """Make a writer of `path`; `options` is an object of the format's subclass of `FlatOptions`."""
        self.path, self.options, self.target = path, options, target
        self._cuts: list[Cut] | None = None

    def notes(self, source: TokenReader) -> Iterator[str]:
        if self.empties and getattr(source, "bare", 1) != 0:
            yield from (f"{loss.what}: {self.empties}" for loss in lost_empties(source))

    @classmethod
    def traits(cls, options: Any) -> WriterTraits:  # noqa: ARG003 - the same for all
        return WriterTraits(
            cls.separators,
            keeps_masks=cls.mask_file is not None,
            file_suffixes=(cls.suffix,),
            lost=lost_empties if cls.separators is Separators.BETWEEN else lost_nothing,
        )

    # Methods that a format may override

    def dtype(self, top: int) -> np.dtype[Any]:
        """Return the dtype of stored tokens if the largest ID, with the separator, is `top` (-1: unknown)."""
        if self.options.width:
            return np.dtype(f"<u{self.options.width}")
        fitting = (kind for kind in self.dtypes if top <= np.iinfo(kind).max)
        return np.dtype(self.options.dtype or next(fitting, self.dtypes[-1]))

    def file_tokens(self) -> int | None:
        """Return the number of tokens per file; None if one file holds all of them."""
        size: int | None = self.options.shard_size if self.folder else None
        return size

    def file(self, number: int) -> Path:
        """Return the path of file `number`. If the destination is one file, that is the destination."""
        if not self.names or not self.folder:
            return self.path
        return self.path / self.names.format(number=number, stem=self.path.stem, options=self.options)

    def padded(self, tokens: int) -> int:
        """Return the number of stored tokens for `tokens` tokens: more if separators pad the last row."""
        return tokens

    def begins(self, cut: Cut) -> int:  # noqa: ARG002 - the same in all
        """Return the number of bytes before the tokens of a file."""
        return self.begin

    def header(self, cut: Cut, dtype: np.dtype[Any]) -> bytes:  # noqa: ARG002 - none
        """Return the bytes before the tokens that are known when the file is made; `index` writes the rest."""
        return b""

    def index(self, stored: TokenReader, dtype: np.dtype[Any]) -> Pieces:  # noqa: ARG002 - none
        """Yield pieces (path, byte offset, content) to write after all tokens. Of a new file, yield all bytes."""
        return iter(())

    # Methods that follow from these

    def minimum_bytes(self, source: TokenReader) -> int | None:
        """See `TokenWriter.minimum_bytes`. Counts the tokens, without headers and indexes."""
        return source.info.tokens * self._dtype(source).itemsize

    @property
    def folder(self) -> bool:
        """True if the destination is a folder of files, not one file."""
        return self.path.suffix != self.suffix

    def _dtype(self, source: TokenReader) -> np.dtype[Any]:
        top = -1 if source.info.max_id is None else source.info.max_id
        return self._dtype_of(top)

    def _dtype_of(self, top: int) -> np.dtype[Any]:
        eos_id = None if self.target.separators is Separators.NONE else self.target.eos_id
        return self.dtype(max(top, -1 if eos_id is None else eos_id))

    def wants_max_id(self, source: TokenReader) -> bool:
        """See `TokenWriter.wants_max_id`. False if every ID that the source's dtype can hold gives the same files."""
        maximum = int(np.iinfo(source.info.dtype).max)
        return self.needs_max_id and (maximum > self.limit or self._dtype_of(-1) != self._dtype_of(maximum))

    def cuts(self, stored: TokenReader) -> list[Cut]:
        """Return the cut of each file; at least one."""
        if self._cuts is None:
            self.masked = (
                self.mask_file is not None
                and "loss-mask" not in self.target.allow_loss
                and stored.marks(0, 0) is not None
            )
            tokens_per_file = self.file_tokens()
            total = self.padded(stored.info.tokens)
            if self.whole:
                self._cuts = list(_whole_cuts(stored, tokens_per_file or max(1, total)))
            else:
                spans = list(windows(0, total, tokens_per_file or max(1, total))) or [(0, 0)]
                sequences = stored.info.sequences if len(spans) == 1 else 0
                self._cuts = [Cut(number, a, b, 0, sequences) for number, (a, b) in enumerate(spans)]
            if len(self._cuts) > 1 and not self.folder:
                raise ConversionError(
                    f"{self.path.name}: {total:,} tokens do not fit one file of {tokens_per_file:,}. "
                    "Name a folder for several files"
                )
        return self._cuts

    def cut_at(self, stored: TokenReader, position: int) -> Cut:
        """Return the cut that holds a position of the stored axis."""
        cuts = self.cuts(stored)
        return cuts[bisect_right(cuts, position, key=lambda cut: cut.start) - 1]

    def regions(self, source: TokenReader, size: int) -> Sequence[Region]:
        spans = [span for cut in self.cuts(source) for span in windows(cut.start, cut.stop, max(1, size))]
        return [Region(index, range(0), range(a, b)) for index, (a, b) in enumerate(spans)]

    @property
    def finishes_files(self) -> bool:  # type: ignore[override]
        """True for a folder: `index` writes to other files."""
        return self.folder and bool(self.names)

    def files_of(self, source: TokenReader, region: Region) -> Sequence[Path]:
        """Return the token file of a region, and its loss mask."""
        if not self.finishes_files:
            return ()
        path = self.file(self.cut_at(source, region.tokens.start).number)
        return [path, self.mask_file(path)] if self.masked and self.mask_file is not None else [path]

    def create(self, source: TokenReader) -> None:
        dtype = self._dtype(source)
        for cut in self.cuts(source):
            path = self.file(cut.number)
            if path != self.path:
                self.path.mkdir(exist_ok=True)
            size = self.begins(cut) + (cut.stop - cut.start) * dtype.itemsize
            if size > self.max_bytes:
                raise ConversionError(f"{path.name}: would have {size:,} bytes (expected at most {self.max_bytes:,})")
            preallocate(path, size)
            with Output(path) as out:
                out.write(0, self.header(cut, dtype))
            if self.masked and self.mask_file is not None:
                preallocate(self.mask_file(path), cut.stop - cut.start)

    def write(self, region: Region, source: TokenReader) -> Receipt:
        dtype = self._dtype(source)
        end, top = source.info.tokens, -1
        limit = min(self.limit, (1 << 8 * dtype.itemsize - (dtype.kind == "i")) - 1)
        cut = self.cut_at(source, region.tokens.start)
        begin, base = self.begins(cut), cut.start
        with ExitStack() as stack:
            out = stack.enter_context(Output(self.file(cut.number)))
            mask: Output | None = None
            if self.masked and self.mask_file is not None:
                mask = stack.enter_context(Output(self.mask_file(self.file(cut.number))))
            at = begin + (region.tokens.start - base) * dtype.itemsize
            raw = np.dtype(f"{dtype.byteorder}u{dtype.itemsize}")
            if region.tokens.stop <= end and (copied := copy_region(out, at, source, region, raw, limit)):
                for a, b in windows(region.tokens.start, region.tokens.stop):
                    _write_mask(mask, a - base, source, a, b)
                return copied
            for a, b in windows(region.tokens.start, region.tokens.stop):
                real = source.tokens(min(a, end), min(b, end))
                top = max(top, check_ids(real, limit, a, self.path.name, self.remedy(dtype)))
                window = real.astype(dtype, copy=False)
                if len(real) < b - a:
                    window = np.concatenate([window, np.full(b - a - len(real), self.target.eos_id or 0, dtype)])
                out.write(begin + (a - base) * dtype.itemsize, window)
                _write_mask(mask, a - base, source, a, b)
        return Receipt(region.index, top, out.written)

    def remedy(self, dtype: np.dtype[Any]) -> str:
        """Return the remedy for an ID that does not fit `dtype`; "" without one."""
        widest = np.dtype(self.dtypes[-1])
        maximum = min(self.limit, int(np.iinfo(widest).max))
        if np.iinfo(dtype).max >= maximum or not (self.options.width or self.options.dtype):
            return ""
        wider = f"--to-opt width={widest.itemsize}" if self.options.width else f"--to-opt dtype={widest.name}"
        return f"{wider} has room for IDs up to {maximum:,}"

    def commit(self, source: TokenReader, receipts: Sequence[Receipt]) -> None:  # noqa: ARG002 - nothing in them
        dtype = self._dtype(source)
        for path, pieces in itertools.groupby(self.index(source, dtype), key=lambda piece: piece[0]):
            rest = iter(pieces)
            _, at, content = next(rest)
            if not at and path != self.path:
                path.unlink(missing_ok=True)  # An interrupted commit may have left it.
            if not path.exists():
                preallocate(path, 0)
            with Output(path) as out:
                out.write(at, content)
                for _, at, content in rest:
                    out.write(at, content)


def _write_mask(out: Output | None, at: int, stored: TokenReader, start: int, stop: int) -> None:
    marks = None if out is None else stored.marks(start, stop)
    if out is not None and marks is not None:
        out.write(at, bytes_of_marks(marks))


def _whole_cuts(stored: TokenReader, maximum: int) -> Iterator[Cut]:
    """Yield cuts of whole sequences with at most `maximum` tokens each; a longer sequence gets a file of its own."""
    first, count, number = 0, stored.info.sequences, 0
    while first < count or not number:
        start = int(stored.offsets(first, first)[0])
        last = max(min(first + 1, count), stored.sequence_at(start + maximum))
        if last == count - 1 and stored.info.tokens - start <= maximum:
            last = count
        yield Cut(number, start, int(stored.offsets(last, last)[0]), first, last)
        first, number = last, number + 1


def _as_stream(layout: FileLayout, overlap: int | None) -> FileLayout:
    """Return rows that are blocks of a stream as that stream. The tokens that each row repeats are left out."""
    starts, entries, extents = layout.starts, layout.entries, list(layout.extents)
    if starts is None and entries is not None:
        starts = entries.offsets(0, entries.sequences)
    lengths = np.unique(np.diff(starts)) if starts is not None else np.empty(0, np.int64)
    row = (
        int(lengths[0])
        if len(lengths) == 1 and not any(extent.tokens % int(lengths[0] or 1) for extent in extents)
        else 0
    )
    notes = layout.notes
    if overlap:
        if row <= overlap:
            found = "rows of several lengths" if not row else f"rows of {counted(row, 'token')}"
            raise OptionError(f"overlap={overlap}: it needs rows of one length, above {overlap} (found {found})")
        extents = [unrepeated(one, row, overlap, continued=k > 0) for k, one in enumerate(extents)]
    elif row and overlap is None and (note := shared_note(extents[0], row, "rows=blocks")):
        notes = (*notes, note)
    return replace(layout, extents=extents, starts=None, entries=None, separators=Separators.AFTER, notes=notes)


def files_named(directory: Place, pattern: re.Pattern[str]) -> list[Place]:
    """Return the files of a directory whose names match, in natural order of the first group or the name.

    Raises:
        FormatError: The directory cannot be listed.
    """
    found = [match for name in names_in(directory) if (match := pattern.fullmatch(name))]
    found.sort(key=lambda match: (natural_key(match[pattern.groups and 1]), match[0]))
    return [directory / match[0] for match in found]


def _size_of(path: Place) -> int:
    return path.status().size if path.is_file() else 0


def widths_contradicted(extents: Sequence[Extent], options: Any, starts: Offsets | None) -> Iterator[Problem]:
    """Yield the problem of the first file whose first IDs show that its tokens have another width.

    It is fatal if every second token is 0, and an option that was not given reads another width.
    """
    given = [getattr(options, name) for name in ("width", "dtype") if hasattr(options, name)]
    for extent in extents:
        with suppress(FormatError):  # The deep check, or the reader, reports what cannot be read.
            ids = extent.file.ids(extent.begin, min(extent.tokens, _IDS), extent.dtype)
            if (contradicted := contradicted_width(ids)) is None:
                continue
            what, width = contradicted
            wider = width > extent.dtype.itemsize
            if wider and starts is not None and ((starts % 2).any() or np.diff(starts).max(initial=0) <= 2):
                continue  # A document of one token and the separator 0 is no wide token.
            remedy, is_fatal = reading_width(options, 0, width), wider and any(one is None for one in given)
            if is_fatal:
                remedy += f". The same option reads {extent.dtype.itemsize}-byte tokens, if they are meant"
            error = CorruptError(extent.file.path, what, remedy=remedy)
            note = f"{extent.file.path.name}: {error.statement}"
            yield fatal("TF903", error) if is_fatal else noted("TF903", error, note)
            return


class FlatInspection(Inspection):
    """The inspection of a flat dataset.

    Attributes:
        format: The format, which states the codes of findings.
        paths, options, hints: As for `Format.inspect`.
        layout: What was found.
    """

    def __init__(
        self, format_: FlatFormat, paths: Sequence[Place], options: Any, hints: Hints, layout: FileLayout
    ) -> None:
        """Hold the layout of a dataset; the attributes describe the arguments."""
        self.format, self.paths, self.options, self.hints, self.layout = format_, paths, options, hints, layout
        self.problems = layout.problems

    def reader(self) -> FlatReader | StoredReader:
        flat = FlatReader(self.layout)
        return StoredReader(self.layout, flat.info, self.options, self.hints) if self.layout.rows else flat

    def look(self, how: Audit) -> Iterator[Finding]:
        """See `Inspection.look`. A deep check reads all tokens and loss masks."""
        if self.is_fatal:
            return
        first = 0 if self.format.describes_tokens else 1  # Opening looked at the first file.
        others = widths_contradicted(self.layout.extents[first:_FILES], self.options, self.layout.starts)
        yield from (Finding.of(other.code, other.error) for other in others)
        if self.layout.rows:
            yield from self._of_rows(how)
            return
        if not how.deep:
            return
        reader, readable = FlatReader(self.layout), True
        looks = how.spread(lambda cut: list(self._unreadable(reader, *cut)), windows(0, reader.info.tokens))
        for (a, b), findings in zip(windows(0, reader.info.tokens), looks, strict=True):
            how.advance(b - a)
            yield from findings
            readable = readable and not findings
        if self.format.other_index and readable:
            found = indexes_of_others(reader, reader.extents, how.spread)
            yield from (Finding.of(self.format.other_index, error, "warning") for error in found)

    def _of_rows(self, how: Audit) -> Iterator[Finding]:
        """Yield a finding for each row that does not fit: of the first rows of each file, or of all if `how.deep`."""
        decoder, step = decoder_of(self.layout, self.options, self.hints), None if how.deep else 1
        decoder = replace(decoder, reading=decoder.reading._replace(compares=True))
        groups = [group for rows in self.layout.rows for group in itertools.islice(decoder.groups(rows), step)]
        against = dict[Place, Contradictions]()
        for group, (tokens, findings, seen) in zip(groups, how.spread(self._of_group, groups), strict=True):
            how.advance(tokens)
            yield from findings
            path = group.file.path
            against[path] = against.get(path, Contradictions()).joined(seen)
        for path, seen in against.items():
            yield from findings_of(self.format.masked, path, seen, whole=how.deep)

    def _of_group(self, group: RowGroup) -> tuple[int, list[Finding], Contradictions]:
        """Return the number of IDs of a group of rows, a finding for each row that does not fit, and its padding."""
        tokens, wrong, found, against = 0, list[FormatError](), list[Finding](), Contradictions()
        try:
            for rows in group.decode(wrong.append):
                tokens += len(rows.tokens) + rows.facts.left_out
                against = against.joined(rows.against)
        except FormatError as error:
            found.append(Finding.of(self.format.unreadable, error))
        return tokens, [*found, *(Finding.of(self.format.masked, error) for error in wrong)], against

    def _unreadable(self, reader: FlatReader, start: int, stop: int) -> Iterator[Finding]:
        for code, read in ((self.format.unreadable, reader.tokens), (self.format.masked, reader.marks)):
            try:
                read(start, stop)
            except FormatError as error:
                yield Finding.of(code, error)

    def sections(self) -> Sequence[Section]:
        return [*self.layout.sections, *map(StoredIds, self.layout.extents)]

    def close(self) -> None:
        for extent in (*self.layout.extents, *self.layout.masks):
            extent.file.close()
        for rows in self.layout.rows:
            rows.close()
        if self.layout.entries is not None:
            self.layout.entries.close()


class FlatFormat(Format):
    """The base of formats of flat files. Subclass it, and make `FORMAT` an instance of the subclass.

    Attributes that a format states besides those of `Format`:
        Writer: A subclass of `FlatWriter`.
        write_options: A subclass of `FlatOptions`.
        pattern: Regular expression of the names of files in a folder (one name per PREFIX). Files are read in the
            natural order of its first group, or of the whole name if it has no group.
        member: Such a name for messages, such as "block_NNNN.bin".
        below: Regular expression of the names of files in a folder with subfolders; "" if datasets have none.
        counted: Word for the files of a folder under which `Info.extras` states their number; "" to leave it out.
        runs_on: True if a sequence may continue in the next file of a folder. Nothing after a damaged file is then
            certain.
        unreadable: Code for errors that `examine` raises.
        unsafe: Code for those of them that are `UnsafeError`; "": as `unreadable`.
        masked: Code for invalid loss masks.
        other_index: Code for an index that seems to belong to other tokens; "" if the format has no indexes.
        describes_tokens: True if an index states what its tokens are, so that opening reads none of them.
        inspection: A subclass of `FlatInspection`, if a check looks at more.
    """

    Writer: ClassVar[type[FlatWriter]]
    pattern: ClassVar[str] = ""
    below: ClassVar[str] = ""
    member: ClassVar[str] = "file of the format"
    counted: ClassVar[str] = "files"
    runs_on: ClassVar[bool] = True
    unreadable: ClassVar[str]
    unsafe: ClassVar[str] = ""
    masked: ClassVar[str] = ""
    other_index: ClassVar[str] = ""
    describes_tokens: ClassVar[bool] = False
    inspection: ClassVar[type[FlatInspection]] = FlatInspection
    write_options: ClassVar[type] = _NoFlatOptions

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if not issubclass(cls.write_options, FlatOptions):
            raise TypeError(f"{cls.write_options.__qualname__}, write_options of a flat format, is not a FlatOptions")

    def recognize(self, probe: Probe) -> Confidence | None:  # noqa: ARG002 - a format may have its own `sniff`
        """Return how surely a file has this format, from its content first. Never raises."""
        return None

    def sniff(self, probe: Probe) -> Confidence | None:
        """See `Format.sniff`. Recognizes a folder by the first four files whose names match `pattern`."""
        if not probe.is_directory:
            return self.recognize(probe)
        names = itertools.islice((name for name in probe.entries if re.fullmatch(self.pattern, name)), 4)
        looks = (self.recognize(inside) for name in names if (inside := probe.entry(name)))
        return next(filter(None, looks), None)

    def examine_file(self, file: File, options: Any, hints: Hints) -> FileLayout:  # noqa: ARG002
        """Return the layout of a file, from headers, indexes and sizes, without reading all tokens.

        Args:
            file: The file of the tokens.
            options: The parsed read options.
            hints: Facts and wishes of the command.

        Raises:
            FormatError: The layout cannot be determined.
            TypeError: The format defines neither this method nor `examine`.
        """
        raise TypeError(f"the format {self.name} defines neither examine_file nor examine. Define one of them")

    def examine(self, paths: Sequence[Place], options: Any, hints: Hints) -> FileLayout:
        """Return the joined layout of all files of a dataset, in order; see `examine_file`.

        Args:
            paths: The paths of one dataset, in order.
            options: The parsed read options.
            hints: Facts and wishes of the command.
        """
        files = self.all_files(paths)
        if hints.allow_partial:
            parts = self.certain_parts(
                files, lambda path: self.examine_file(self.open_tokens(path, hints), options, hints), hints.allow_loss
            )
        else:
            parts = list(
                side_by_side(lambda path: self.examine_file(self.open_tokens(path, hints), options, hints), files)
            )
        file_layout = joined(parts)
        return (
            replace(file_layout, extras={**file_layout.extras, self.counted: len(parts)})
            if self.counted
            else file_layout
        )

    def open_tokens(self, path: Place, hints: Hints) -> File:
        """Open a token file. A format may report more than that it does not exist.

        Args:
            path: A token file of the dataset.
            hints: It may be open already; see `Hints.opened`.

        Raises:
            FormatError: It cannot be opened.
        """
        return hints.opened(path)

    def certain_parts(
        self, files: Sequence[Place], look: Callable[[Place], FileLayout], accepted: frozenset[str]
    ) -> list[FileLayout]:
        """Return the certain part of the layout of each file.

        A file that ends too early contributes its beginning, and a file that cannot be read contributes nothing. If
        sequences may continue in the next file (`runs_on`), no file after a damaged or missing one is used: its first
        tokens may be the rest of a sequence.

        Args:
            files: The token files, in order.
            look: Returns the layout of a file.
            accepted: Words of `--allow-loss` that the user gave.

        Raises:
            FormatError: No file can be read. The error is that of the first file.
        """
        parts, damage, failed = list[FileLayout](), list[Damage](), list[FormatError]()
        for k, path in enumerate(files):
            stop, behind = k + 1 < len(files) and not follows(path.name, files[k + 1].name), files[k + 1 :]
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
            if stop:  # The next file may begin with the rest of a sequence.
                break
        if not parts:
            raise failed[0]
        return [*parts[:-1], replace(parts[-1], damage=(*parts[-1].damage, *damage))]

    def names(self, path: AnyPlace) -> list[AnyPlace]:
        """Return the files of a PREFIX, the token file first, for any of their paths.

        The PREFIX alone is accepted if `prefix` is not "". A PREFIX may contain dots. Any other path is returned alone.
        """
        ending = next((suffix for suffix in self.suffixes if path.name.endswith(suffix)), "")
        if not path.name or (not ending and not self.prefix):  # the current directory has no name
            return [path]
        prefix = path.name.removesuffix(ending)
        return [path.with_name(prefix + suffix) for suffix in self.suffixes]

    def canonical(self, path: AnyPlace) -> AnyPlace:
        first = self.names(path)[0]
        return path if first.name == path.name or path.is_dir() else first

    def companions(self, path: Place) -> Sequence[Place]:
        """See `Format.companions`. A folder has no companions."""
        return self.names(path)[1:] if path.name.endswith(self.suffixes) else []

    def members(self, path: Place) -> list[Place]:
        """Return the token file at `path`, or the token files of a folder in the order of reading."""
        if not path.is_dir():
            return [self.canonical(path)]
        return list(dict.fromkeys(map(self.canonical, files_named(path, re.compile(self.pattern)))))

    def files(self, path: Place) -> list[Place]:
        if self.below:
            there = everything_in(path) if path.is_dir() else [path]
            return sorted(file for file in there if re.fullmatch(self.below, file.name))
        if not self.suffixes:
            return self.members(path)
        return [file for member in self.members(path) for file in self.names(member) if file.is_file()]

    def all_files(self, paths: Sequence[Place]) -> list[Place]:
        """Return the token files of all paths, in order.

        Raises:
            FormatError: A folder holds no file whose name matches `pattern`.
        """
        found = list[Place]()
        for path in paths:
            members = self.members(path)
            if not members:
                raise FormatError(path, f"holds no {self.member}")
            found += members
        return found

    def inspect(self, paths: Sequence[Place], options: Any, hints: Hints) -> Inspection:
        """See `Format.inspect`. With `Hints.allow_partial`, the layout is the certain part of damaged files.

        If read options have `rows`, and it is "blocks", the rows of the index are joined to one stream.
        """
        try:
            layout = self.examine(paths, options, hints)
        except FormatError as error:
            is_unsafe = self.unsafe and isinstance(error, UnsafeError)
            return Unreadable(self.unsafe if is_unsafe else self.unreadable, paths[0], error)
        layout = certain(layout) if hints.allow_partial else layout
        if getattr(options, "rows", None) == "blocks":
            layout = _as_stream(layout, getattr(options, "overlap", None))
        if not self.describes_tokens and not any(
            problem.is_fatal and not problem.accepted_by for problem in layout.problems
        ):
            problems = widths_contradicted(layout.extents[:1], options, layout.starts)
            layout = replace(layout, problems=[*layout.problems, *problems])
        layout = replace(layout, problems=self._of_files(layout))
        layout = replace(layout, problems=with_ends(layout))
        return self.inspection(self, paths, options, hints, layout)

    def _of_files(self, layout: FileLayout) -> Sequence[Problem]:
        """Return the problems of a layout; of a file that stands in for another, such as a page, only that it does."""
        files, refused = {str(extent.file.path): extent.file for extent in layout.extents}, dict[str, Problem]()
        for path in {str(problem.error.path) for problem in layout.problems} & files.keys():
            try:
                files[path].read(0, min(1, files[path].size))
            except StandInError as error:
                refused[path] = fatal(self.unreadable, error)
        if not refused:
            return layout.problems
        return [*(one for one in layout.problems if str(one.error.path) not in refused), *refused.values()]

    def writer(self, path: Path, options: Any, target: Target) -> TokenWriter:
        return super().writer(path, options, target) if self.read_only else self.Writer(path, options, target)

    def writer_traits(self, options: Any) -> WriterTraits:
        return super().writer_traits(options) if self.read_only else self.Writer.traits(options)
