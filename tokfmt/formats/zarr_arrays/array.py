"""One array of a store: which chunks there are, and any run of its items. Unsigned, one dimension."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokfmt.core.errors import CorruptError, SourceChangedError, UnsafeError
from tokfmt.core.files import File
from tokfmt.core.memory import Recent
from tokfmt.core.protocols import Place
from tokfmt.formats.zarr_arrays import blosc, codecs
from tokfmt.formats.zarr_arrays.layout import Shard, read_layout
from tokfmt.formats.zarr_arrays.store import Blob, Origin, Store

Items = NDArray[np.unsignedinteger]

_KEPT = 1 << 26
"""Bytes of decoded chunks that are kept, and as many of shard indexes."""

_OPEN = 64
"""Chunk files that stay open, with their headers: opening one costs as much as decoding a sequence."""

_ABSENT = 1 << 20
"""So many items may lie in absent chunks for nothing; beyond, at most 16 for each item in a chunk that is there."""

_STARTS = 8
"""Bytes of an entry of `seq_starts`."""

_NOWHERE = (1 << 64) - 1


class Array:
    """A checked array. Picklable; threads may share it.

    Args:
        fill: A chunk that is not there reads as the fill value; else it is an error: of a copy that lost it nothing
            else can be told. (zarr leaves out chunks of nothing but the fill value when `write_empty_chunks` is off,
            which seqax never was seen to do, and tokfmt does not. The one item of an empty dataset's `seq_starts` is
            left out by all, and can only be 0.)
        signed: See `read_layout`.
        length: So many of its items count, of one whose shape has room for more.

    Attributes:
        layout: How it is stored.
        key: Its place in the store.
        absent: int64[n], chunk files that are not there and read as the fill value.
        extra: Numbers of chunk files beyond the shape, which mean nothing.
        only_zero: It is the `seq_starts` of an empty dataset.
    """

    def __init__(
        self,
        store: Store,
        key: str,
        itemsize: int,
        zarr_format: int,
        *,
        fill: bool,
        signed: bool = False,
        length: int | None = None,
    ) -> None:
        self.layout = read_layout(store, key, itemsize, zarr_format, signed=signed)
        if length is not None:
            self.layout = replace(self.layout, length=min(length, self.layout.length))
        self.key, self._store = key, store
        present = self._present()
        files = self.layout.files
        self.extra = present[present >= files]
        self.absent = self._missing(present[present < files])
        self._chunks = Recent[int, Items](_KEPT)
        self._indexes = Recent[int, NDArray[np.uint64]](_KEPT)
        self._open = Recent[int, tuple[Blob, blosc.Frame]](_OPEN)
        self.only_zero = itemsize == _STARTS and self.layout.length == 1
        self._fill = fill or self.only_zero
        if len(self.absent) and not self._fill:
            raise self.hole(int(self.absent[0]), len(self.absent))

    @property
    def path(self) -> Path:
        """The array's directory, for messages."""
        return self._store.root / self.key

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        """Of `read`: native byte order."""
        return np.dtype(f"u{self.layout.itemsize}")

    def _present(self) -> NDArray[np.int64]:
        """Numbers of the chunk files there are, ascending."""
        prefix = self.layout.prefix
        if prefix.endswith("/"):
            names, prefix = self._store.names(f"{self.key}/{prefix[:-1]}"), ""
        else:
            names = self._store.names(self.key)
        plain = (name[len(prefix) :] for name in names if name.startswith(prefix))
        numbers = (int(n) for n in plain if n.isascii() and n.isdigit() and len(n) < 18 and (n[0] != "0" or n == "0"))
        return np.sort(np.fromiter(numbers, np.int64))

    def _missing(self, present: NDArray[np.int64]) -> NDArray[np.int64]:
        """Chunk files that are not there, after checking that they may be absent and are not too many."""
        layout, there = self.layout, len(present)
        if there == layout.files:
            return np.empty(0, np.int64)
        gaps = np.flatnonzero(present != np.arange(there))
        first = int(gaps[0]) if len(gaps) else there
        if layout.fill is None:
            raise CorruptError(
                self._store.root / self._chunk_key(first),
                f"is missing: {layout.files - there:,} of {layout.files:,} chunks of {self.key} are not there, and its "
                "fill_value says nothing of what they held", remedy="Copy the store again",
            )  # fmt: skip
        absent = min((layout.files - there) * layout.file_items, layout.length)
        self._bounded(layout.where, absent, there * layout.file_items)
        return np.setdiff1d(np.arange(layout.files), present, assume_unique=True)

    def hole(self, first: int, count: int, shard: Path | None = None) -> CorruptError:
        """The error for chunks that are not there.

        Args:
            first: Number of the first chunk file; of the chunk, within a shard.
            count: How many.
            shard: The file that should hold them, when it is there.
        """
        layout, fill = self.layout, self.layout.fill or 0
        of = layout.chunks if layout.shard and shard else layout.files
        what = f"chunk {first:,} is not in its shard" if shard else "is missing"
        return CorruptError(
            shard or self._store.root / self._chunk_key(first),
            f"{what}: {count:,} of {of:,} chunks of {self.key} {'are' if count > 1 else 'is'} not there",
            remedy="Copy the store again; if its writer left out chunks that hold nothing but the fill value, "
            f"--from-opt holes=fill reads them as {fill}",
        )  # fmt: skip

    def _bounded(self, path: Path, absent: int, present: int) -> None:
        """Raise when far more items lie in absent chunks than in those that are there."""
        if absent > _ABSENT + 16 * present:
            raise UnsafeError(
                path, f"declares {absent + present:,} items of {self.key}, but almost all of its chunks are absent",
                expected=f"at least {absent // 17:,} items in chunks that are there", found=present,
                remedy="Copy the store again",
            )  # fmt: skip

    def _chunk_key(self, number: int) -> str:
        return f"{self.key}/{self.layout.prefix}{number}"

    def stored_bytes(self) -> int:
        """Bytes of all chunk files."""
        numbers = np.setdiff1d(np.arange(self.layout.files), self.absent, assume_unique=True)
        return sum(self._file(number).size for number in numbers.tolist())

    def read(self, start: int, stop: int) -> Items:
        """Items `start <= i < stop`, a fresh array; 0 <= start <= stop <= layout.length."""
        out = np.empty(stop - start, self.dtype)
        size = self.layout.chunk
        for number in range(start // size, -(-stop // size)):
            base = number * size
            a, b = max(start, base), min(stop, base + size)
            self._part(number, a - base, b - base, out[a - start : b - start])
        return out

    def _part(self, number: int, a: int, b: int, out: Items) -> None:
        """Items a..b of a chunk, into `out`."""
        layout = self.layout
        kept = self._chunks.get(number)
        if kept is None:
            if layout.codecs == ("blosc",) and not layout.delta and self._directly(number, a, b, out):
                return
            blob = self.blob(number)
            if blob is None:
                out[:] = layout.fill or 0
                return
            kept = self.decoded(blob)
            self._chunks.put(number, kept, kept.nbytes)
        out[:] = kept[a:b]

    def _directly(self, number: int, a: int, b: int, out: Items) -> bool:
        """Decode a whole chunk to where it goes, or only the blocks that hold a smaller part; else False."""
        layout, size = self.layout, self.layout.itemsize
        if b - a == layout.chunk and not layout.big_endian:
            blob = self.blob(number)
            if blob is not None:
                blosc.decode(blob, size, out.view(np.uint8))
            return blob is not None
        if 2 * (b - a) > layout.chunk:  # a reader in order comes for the rest next
            return False
        opened = self._opened(number)
        raw = blosc.decode_part(*opened, a * size, b * size) if opened else None
        if raw is None:
            return False
        out[:] = self._native(raw)
        return True

    def _opened(self, number: int) -> tuple[Blob, blosc.Frame] | None:
        """A chunk and its header; None when it is absent."""
        opened = self._open.get(number)
        if opened is None:
            blob = self.blob(number)
            if blob is None:
                return None
            opened = blob, blosc.frame(blob, self.layout.chunk * self.layout.itemsize, self.layout.itemsize)
            if isinstance(blob.source, File):
                self._open.put(number, opened)
        return opened

    def decoded(self, blob: Blob) -> Items:
        """All items of a chunk."""
        layout = self.layout
        raw = codecs.decode(blob, layout.codecs, layout.chunk * layout.itemsize, layout.itemsize)
        items = self._native(raw)
        return np.cumsum(items, dtype=self.dtype) if layout.delta else items

    def _native(self, raw: NDArray[np.uint8]) -> Items:
        items: Items = raw.view(self.dtype.newbyteorder(">" if self.layout.big_endian else "<"))
        return items.astype(self.dtype, copy=False)

    def blob(self, number: int) -> Blob | None:
        """A chunk as stored, None when it is absent and reads as the fill value."""
        shard = self.layout.shard
        if shard is None:
            return None if self.is_absent(number) else self._file(number)
        home, within = divmod(number, shard.chunks)
        if self.is_absent(home):
            return None
        file = self._file(home)
        offset, size = (int(v) for v in self._shard_index(file, home, shard)[within])
        if offset == size == _NOWHERE:
            if not self._fill:
                raise self.hole(number, 1, file.path)
            return None
        if offset + size > file.size:
            raise CorruptError(
                file.path, f"has a shard index whose chunk {within:,} ends outside of the file",
                expected=f"at most {file.size:,}", found=offset + size, remedy="Copy it again",
            )  # fmt: skip
        return file.part(offset, size)

    def _shard_index(self, file: Blob, number: int, shard: Shard) -> NDArray[np.uint64]:
        """[chunks, 2]: offset and size in bytes of each chunk."""
        index = self._indexes.get(number)
        if index is None:
            size = shard.index_bytes
            if file.size < size:
                what = "is too short for its shard index"
                raise CorruptError(file.path, what, expected=f"{size:,} bytes", found=file.size, remedy=blosc.AGAIN)
            raw = file.read(file.size - size if shard.at_end else 0, size)
            if shard.checksum:
                codecs.check_crc32c(file.path, raw)
            index = np.frombuffer(raw, "<u8", 2 * shard.chunks).reshape(-1, 2)
            used = index[: self.layout.chunks - number * shard.chunks]
            there = int(np.count_nonzero(used[:, 1] != _NOWHERE))
            self._bounded(file.path, (len(used) - there) * self.layout.chunk, there * self.layout.chunk)
            self._indexes.put(number, index, index.nbytes)
        return index

    def place(self, item: int) -> Place:
        """Where an item lies."""
        layout = self.layout
        number, within = divmod(item, layout.chunk)
        blob = self.blob(number)
        said = f"chunk {number:,} of {self.key}"
        if blob is None:
            return Place(layout.where, 0, None, f"{said} is absent and reads as its fill value {layout.fill or 0}")
        origin = self.origin(number)
        said = f"{said}, item {within:,}"
        if not origin.exact:
            return Place(origin.path, origin.start, None, f"{said}, in a compressed member of the zip")
        if not layout.plain:
            return Place(origin.path, origin.start + blob.start, None, said)
        return Place(origin.path, origin.start + blob.start + within * layout.itemsize, layout.itemsize, said)

    def origin(self, chunk: int) -> Origin:
        """Where the file of a chunk that is there lies."""
        return self._store.origin(self._chunk_key(chunk // (self.layout.shard.chunks if self.layout.shard else 1)))

    def position(self, path: Path, offset: int) -> int | None:
        """The item at a byte of a file, or the first of the chunk there; None where there is none."""
        layout, found = self.layout, self._store.key_at(path, offset)
        lead = f"{self.key}/{layout.prefix}"
        name = found[0].removeprefix(lead) if found and found[0].startswith(lead) else ""
        if not found or not name.isdecimal() or not name.isascii() or int(name) >= layout.files:
            return None
        number, at = int(name), found[1]
        if not 0 <= at < self._file(number).size:
            return None
        if layout.shard is not None:
            index = self._shard_index(self._file(number), number, layout.shard).astype(np.int64)
            held = np.flatnonzero((index[:, 0] <= at) & (at < index[:, 0] + index[:, 1]))
            if not len(held):
                return None
            number, at = number * layout.shard.chunks + int(held[0]), at - int(index[held[0], 0])
        exact = layout.plain and self._store.origin(found[0]).exact
        within = at // layout.itemsize if exact else 0
        item = number * layout.chunk + within
        return item if within < layout.chunk and item < layout.length else None

    def is_absent(self, number: int) -> bool:
        """Whether a chunk file is not there."""
        at = int(np.searchsorted(self.absent, number))
        return at < len(self.absent) and int(self.absent[at]) == number

    def _file(self, number: int) -> Blob:
        blob = self._store.blob(self._chunk_key(number))
        if blob is None:
            raise SourceChangedError(self._store.root / self._chunk_key(number), "disappeared while it was being read")
        return blob

    def close(self) -> None:
        """Forget decoded chunks, and close files."""
        self._chunks.clear()
        self._indexes.clear()
        self._open.clear()
